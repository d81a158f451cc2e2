//! Tokens instead of passwords: the mechanisms HT-SHA-256 (draft-schmaus-kitten-sasl-ht) as used by
//! FAST (XEP-0484).
//!
//! The client sends an HMAC under its token, and the server answers with another one. A login is
//! thus one message each way.
//!
//! Both sides need the token itself for that, not a hash of it. The server therefore stores no
//! token. It recomputes the token from its purpose (the account with its incarnation and the key of
//! its password, the client, the binding), from the random part in the account's record
//! ([`Tokens`]), and from a secret of the store. A token ends with the account and with the
//! password, whatever is in the record. The record alone is of no use.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::mechanism::{BindingType, tokens_offered};
use super::{Authenticated, Failure, Mechanism, Terms};
use crate::limits::{TOKEN_LIFE_S, TOKEN_ROTATES_S};
use crate::store::account::{Credentials, Incarnation, Standing};
use crate::store::hash::{HashKind, SecretKey, Tag};
use crate::store::token::{Agent, Place, TOKEN_NONCE_BYTES, Token, TokenAnswer, TokenKind, TokenShown, Tokens};
use crate::wire::error::SaslCondition;

const HASH: HashKind = HashKind::Sha256;

/// Attributes that accompany a token (XEP-0484 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Fast {
    /// The client's counter of attempts with this token.
    pub count: Option<u32>,
    /// Whether the token is to be revoked.
    pub invalidate: bool,
}

/// Expects the answer of the account's home. The client's message has been read.
#[derive(Debug)]
pub struct TokenAttempt {
    account: Box<str>,
    mechanism: Mechanism,
    shown: TokenShown,
}

impl TokenAttempt {
    /// Reads `authcid NUL initiator-hashed-token`.
    pub(super) fn parse(
        mechanism: Mechanism,
        kind: TokenKind,
        message: &[u8],
        terms: &Terms<'_>,
        fast: Fast,
        agent: Agent,
    ) -> Result<TokenAttempt, Failure> {
        if !tokens_offered(terms.secured).any(|offered| offered == mechanism) {
            return Err(Failure::of(SaslCondition::InvalidMechanism));
        }
        let malformed = Failure::of(SaslCondition::MalformedRequest);
        let nul = memchr::memchr(0, message).ok_or(malformed)?;
        let name = std::str::from_utf8(&message[..nul]).map_err(|_| malformed)?;
        let proof = Tag::from_bytes(HASH, &message[nul + 1..]).ok_or(malformed)?;
        // An invalid name counts as wrong.
        let account = terms.account(name).ok_or(Failure::NO_TOKEN)?;
        let of = |binding| terms.secured.and_then(|secured| secured.data(binding)).unwrap_or_default().into();
        let binding = match kind {
            TokenKind::Exporter => of(BindingType::TlsExporter),
            TokenKind::EndPoint => of(BindingType::TlsServerEndPoint),
            TokenKind::Unbound => Box::default(),
        };
        let shown = TokenShown { kind, agent, proof, binding, count: fast.count, invalidate: fast.invalidate };
        Ok(TokenAttempt { account, mechanism, shown })
    }

    /// The bare JID of the requested account, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// The mechanism.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The question to the account's home.
    pub fn shown(&self) -> &TokenShown {
        &self.shown
    }

    /// Takes the home's answer. Returns the proof, the server's message, and whether the client
    /// gets a new token.
    ///
    /// # Errors
    /// [`Failure::NO_TOKEN`] if the token is not accepted, and another one if the account is out of
    /// use.
    pub fn answered(self, answer: TokenAnswer) -> Result<(Authenticated, Tag, bool), Failure> {
        match answer {
            TokenAnswer::Fits { identity, answer, due } => {
                Ok((Authenticated::new(self.account, identity, self.mechanism), answer, due))
            }
            TokenAnswer::OutOfUse(standing) => Err(Failure::unless_in_use(standing).err().unwrap_or(Failure::NO_TOKEN)),
            TokenAnswer::Wrong => Err(Failure::NO_TOKEN),
        }
    }
}

/// A new token for a client.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Made {
    /// Its text, in the alphabet of base64url.
    pub text: Box<str>,
    /// Second since the Unix epoch at which it expires.
    pub expires_s: u64,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Made(until {})", self.expires_s)
    }
}

/// Creates tokens, and recomputes them for comparison.
#[derive(Clone, Debug)]
pub struct TokenMaker(SecretKey);

/// The incarnation of an account, and its password.
#[derive(Clone, Copy)]
struct Owner<'a> {
    account: &'a str,
    incarnation: Incarnation,
    stored: Tag,
}

impl TokenMaker {
    /// `secret` must outlive the process; otherwise a restart revokes all tokens.
    pub fn new(secret: &[u8; 32]) -> TokenMaker {
        TokenMaker(SecretKey::new(secret))
    }

    fn text(&self, owner: Owner<'_>, agent: &Agent, token: &Token) -> String {
        let tag = self.0.tag(&[
            b"fast token",
            owner.account.as_bytes(),
            &owner.incarnation.to_bytes(),
            owner.stored.as_bytes(),
            agent,
            &[token.kind as u8],
            &token.nonce,
        ]);
        URL_SAFE_NO_PAD.encode(tag.as_bytes())
    }

    /// Compares a client's token with those of an account, and records its use. `found` is `None`
    /// if the account does not exist; in that case, and for a client without tokens, the same
    /// amount of computation is done. Also returns whether the tokens have changed.
    pub fn check(
        &self,
        account: &str,
        found: Option<&Credentials>,
        tokens: &mut Tokens,
        shown: &TokenShown,
        now_s: u64,
    ) -> (TokenAnswer, bool) {
        let owner = Owner {
            account,
            incarnation: found.map_or(Incarnation::UNNUMBERED, Credentials::incarnation),
            stored: found.map_or_else(|| HASH.digest(&[]), |found| found.anchor().keys().stored),
        };
        let mut fits = None;
        for place in [Place::New, Place::Current] {
            let none = Token { kind: shown.kind, nonce: [0; TOKEN_NONCE_BYTES], expires_s: 0, count: 0 };
            let there = tokens.find(&shown.agent, place).copied();
            let token = there.unwrap_or(none);
            let text = self.text(owner, &shown.agent, &token);
            let wanted = HASH.hmac(text.as_bytes(), &[b"Initiator", &shown.binding]);
            let answer = HASH.hmac(text.as_bytes(), &[b"Responder", &shown.binding]);
            if (wanted == shown.proof) & (token.kind == shown.kind) & there.is_some() & found.is_some() {
                fits = Some((place, token, answer));
            }
        }
        let Some((place, token, answer)) = fits else { return (TokenAnswer::Wrong, false) };
        if shown.count.is_some_and(|count| count <= token.count) || token.expires_s <= now_s {
            return (TokenAnswer::Wrong, false);
        }
        if let Some(standing) = found.map(Credentials::standing).filter(|standing| *standing != Standing::InUse) {
            return (TokenAnswer::OutOfUse(standing), false);
        }
        let due = !shown.invalidate && token.expires_s - now_s <= TOKEN_ROTATES_S;
        let changed = match shown.invalidate {
            true => tokens.forget(&shown.agent),
            false => tokens.used(&shown.agent, place, shown.count, now_s),
        };
        let identity = found.map_or((Incarnation::UNNUMBERED, 0), Credentials::identity);
        (TokenAnswer::Fits { identity, answer, due }, changed)
    }

    /// Creates a new token for a client of an account, and adds it to the account's tokens.
    pub fn make(
        &self,
        account: &str,
        found: &Credentials,
        tokens: &mut Tokens,
        (agent, kind): (&Agent, TokenKind),
        nonce: [u8; TOKEN_NONCE_BYTES],
        now_s: u64,
    ) -> Made {
        let token = Token { kind, nonce, expires_s: now_s + TOKEN_LIFE_S, count: 0 };
        tokens.add(agent, token, now_s);
        let owner = Owner { account, incarnation: found.incarnation(), stored: found.anchor().keys().stored };
        Made { text: self.text(owner, agent, &token).into(), expires_s: token.expires_s }
    }

    /// The stable part of a resource for a client of an account. It does not reveal the client's id
    /// (XEP-0386 2.2.1).
    pub fn resource(&self, account: &str, agent: &Agent) -> String {
        let tag = self.0.tag(&[b"resource", account.as_bytes(), agent]);
        URL_SAFE_NO_PAD.encode(&tag.as_bytes()[..12])
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Allowed, ChannelBindings};
    use super::*;

    const NOW: u64 = 1_700_000_000;
    const AGENT: Agent = [3; 16];

    fn maker() -> TokenMaker {
        TokenMaker::new(&[7; 32])
    }

    fn account(password: &str) -> Credentials {
        Credentials::derive(password, 4096, &[1; 16], 0).unwrap().of(Incarnation::drawn(5))
    }

    fn shown(text: &str, binding: &[u8]) -> TokenShown {
        TokenShown {
            kind: TokenKind::EndPoint,
            agent: AGENT,
            proof: HASH.hmac(text.as_bytes(), &[b"Initiator", binding]),
            binding: binding.into(),
            count: None,
            invalidate: false,
        }
    }

    fn check(found: Option<&Credentials>, tokens: &mut Tokens, shown: &TokenShown, now_s: u64) -> TokenAnswer {
        maker().check("romeo@example.net", found, tokens, shown, now_s).0
    }

    fn made(tokens: &mut Tokens) -> Made {
        let kind = TokenKind::EndPoint;
        maker().make("romeo@example.net", &account("pencil"), tokens, (&AGENT, kind), [8; TOKEN_NONCE_BYTES], NOW)
    }

    fn fits(answer: &TokenAnswer) -> bool {
        matches!(answer, TokenAnswer::Fits { .. })
    }

    /// draft-schmaus-kitten-sasl-ht 3: both sides prove possession of the token.
    #[test]
    fn sasl_ht_3_a_token_fits_and_the_server_answers() {
        let (mut tokens, credentials) = (Tokens::default(), account("pencil"));
        let Made { text, expires_s } = made(&mut tokens);
        assert_eq!((text.len(), expires_s), (43, NOW + TOKEN_LIFE_S));
        let answer = check(Some(&credentials), &mut tokens, &shown(&text, &[5; 32]), NOW);
        let wanted = HASH.hmac(text.as_bytes(), &[b"Responder", &[5; 32]]);
        assert_eq!(answer, TokenAnswer::Fits { identity: credentials.identity(), answer: wanted, due: false });
    }

    /// XEP-0484 3.4, 5.1, 6: a token is valid for one account, one client, one mechanism and one
    /// channel, and for a limited time.
    #[test]
    fn xep0484_3_4_what_does_not_fit() {
        let (mut tokens, credentials) = (Tokens::default(), account("pencil"));
        let text = made(&mut tokens).text;
        let good = shown(&text, b"x");
        let found = Some(&credentials);
        let wrong = |shown: &TokenShown, found: Option<&Credentials>| {
            assert_eq!(check(found, &mut tokens.clone(), shown, NOW), TokenAnswer::Wrong, "{shown:?}");
            assert!(fits(&check(Some(&credentials), &mut tokens.clone(), &good, NOW)));
        };
        wrong(&TokenShown { agent: [4; 16], ..good.clone() }, found);
        wrong(&TokenShown { kind: TokenKind::Unbound, ..good.clone() }, found);
        wrong(&TokenShown { binding: b"y".as_slice().into(), ..good.clone() }, found);
        wrong(&shown("another", b"x"), found);
        wrong(&good, None);
        // A new password, and another account of the same name.
        wrong(&good, Some(&account("pen")));
        wrong(&good, Some(&account("pencil").of(Incarnation::drawn(6))));
        let stranger = TokenMaker::new(&[9; 32]).check("romeo@example.net", found, &mut tokens, &good, NOW).0;
        assert_eq!(stranger, TokenAnswer::Wrong, "another store's secret");
        assert_eq!(
            maker().check("juliet@example.net", found, &mut tokens, &good, NOW).0,
            TokenAnswer::Wrong,
            "a row that was copied"
        );
        assert!(fits(&check(found, &mut tokens, &good, NOW + TOKEN_LIFE_S - 1)));
        assert_eq!(check(found, &mut tokens, &good, NOW + TOKEN_LIFE_S), TokenAnswer::Wrong);
        for standing in [Standing::Applies, Standing::Suspended] {
            let mut closed = credentials.clone();
            closed.set_standing(standing);
            assert_eq!(check(Some(&closed), &mut tokens, &good, NOW), TokenAnswer::OutOfUse(standing));
        }
    }

    /// XEP-0484 3.4: a count that was already processed is refused, and so is a lower one.
    #[test]
    fn xep0484_3_4_counts_do_not_come_again() {
        let (mut tokens, credentials) = (Tokens::default(), account("pencil"));
        let text = made(&mut tokens).text;
        let mut with = |count| {
            let shown = TokenShown { count, ..shown(&text, b"") };
            fits(&check(Some(&credentials), &mut tokens, &shown, NOW))
        };
        assert!(with(Some(4)));
        assert!(!with(Some(4)) && !with(Some(3)));
        assert!(with(None), "outside of early data a count need not come");
        assert!(with(Some(5)) && !with(Some(5)));
    }

    /// XEP-0484 3.5, 3.6: a new token is due in time, and a revoked one is void at once.
    #[test]
    fn xep0484_3_5_and_3_6_rotation_and_invalidation() {
        let (mut tokens, credentials) = (Tokens::default(), account("pencil"));
        let text = made(&mut tokens).text;
        let due_from = NOW + TOKEN_LIFE_S - TOKEN_ROTATES_S;
        let due = |tokens: &mut Tokens, now_s, invalidate| {
            let shown = TokenShown { invalidate, ..shown(&text, b"") };
            match check(Some(&credentials), tokens, &shown, now_s) {
                TokenAnswer::Fits { due, .. } => Some(due),
                _ => None,
            }
        };
        assert_eq!(due(&mut tokens, due_from - 1, false), Some(false));
        assert_eq!(due(&mut tokens, due_from, false), Some(true));
        assert_eq!(due(&mut tokens, due_from, true), Some(false), "nothing new for a token that is given up");
        assert_eq!(due(&mut tokens, due_from, false), None);
        assert_eq!(tokens, Tokens::default());
    }

    #[test]
    fn messages_that_are_none() {
        let terms = Terms { domain: "example.net", secured: None, allowed: Allowed::default(), certificate: None };
        let fast = Fast { count: None, invalidate: false };
        let parse = |mechanism: Mechanism, message: &[u8], terms: &Terms<'_>| {
            let kind = mechanism.token().unwrap();
            TokenAttempt::parse(mechanism, kind, message, terms, fast, AGENT).map_err(|failure| failure.condition)
        };
        let good = [b"romeo\0".as_slice(), &[1; 32]].concat();
        assert_eq!(parse(Mechanism::TokenUnbound, &good, &terms).unwrap().bare(), "romeo@example.net");
        for bad in [&b""[..], b"romeo", b"romeo\0", &good[..37], &[&good[..], &[1]].concat(), b"\xff\0x"] {
            assert_eq!(parse(Mechanism::TokenUnbound, bad, &terms).unwrap_err(), SaslCondition::MalformedRequest);
        }
        let nobody = [b"\0".as_slice(), &[1; 32]].concat();
        assert_eq!(parse(Mechanism::TokenUnbound, &nobody, &terms).unwrap_err(), SaslCondition::CredentialsExpired);
        // A mechanism that needs a channel binding, without one or with one of another kind.
        let bindings = ChannelBindings { exporter: None, server_end_point: Some([2; 32].into()) };
        let over_tls = Terms { secured: Some(&bindings), ..terms };
        assert_eq!(parse(Mechanism::TokenEndPoint, &good, &terms).unwrap_err(), SaslCondition::InvalidMechanism);
        assert_eq!(parse(Mechanism::TokenExporter, &good, &over_tls).unwrap_err(), SaslCondition::InvalidMechanism);
        assert_eq!(&*parse(Mechanism::TokenEndPoint, &good, &over_tls).unwrap().shown().binding, [2; 32]);
    }

    /// XEP-0386 2.2.1: stable for a client of an account, and different from its id.
    #[test]
    fn xep0386_2_2_1_the_stable_part_of_a_resource() {
        let (a, b) = (maker().resource("romeo@example.net", &AGENT), maker().resource("juliet@example.net", &AGENT));
        assert_eq!((a.len(), a == b), (16, false));
        assert_eq!(a, maker().resource("romeo@example.net", &AGENT));
        assert_ne!(a, maker().resource("romeo@example.net", &[4; 16]));
    }
}
