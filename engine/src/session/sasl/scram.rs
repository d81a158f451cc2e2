//! SCRAM (RFC 5802, RFC 7677), from the client's first message to the server's last.
//!
//! A name without an account takes all steps with made-up credentials and fails at the end like a
//! wrong password, so that clients cannot learn which names exist.

use std::borrow::Cow;
use std::fmt;

use super::mechanism::{BindingType, ChannelBindings, Mechanism, offer_hash};
use super::{Authenticated, BASE64, Decoy, Failure, Terms, check_authzid, decode_text, offered};
use crate::limits::SCRAM_CLIENT_NONCE_BYTES_MAX;
use crate::store::account::{Credentials, Incarnation, ScramKeys, Standing};
use crate::store::hash::{HashKind, Tag};
use crate::wire::error::SaslCondition;
use base64::Engine as _;

/// Bytes of entropy in the server's part of the nonce.
pub const NONCE_BYTES: usize = 24;

/// The error values of RFC 5802 7 that this server uses. `unknown-user` is omitted on purpose,
/// because it would reveal which names exist. `no-resources` is omitted because a server without
/// resources does not get that far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ScramError {
    /// A field is not encoded correctly.
    InvalidEncoding,
    /// An unknown mandatory extension.
    ExtensionsNotSupported,
    /// The proof does not match the password, or there is no account.
    InvalidProof,
    /// The client has another TLS channel than the server: there is a man in the middle.
    ChannelBindingsDontMatch,
    /// The client believes that binding was not offered, but it was: the offer was modified.
    ServerDoesSupportChannelBinding,
    /// The client requires binding with a mechanism, or on a connection, that has none.
    ChannelBindingNotSupported,
    /// A kind of binding that is not offered.
    UnsupportedChannelBindingType,
    /// The name is not encoded correctly, or is not a valid localpart.
    InvalidUsernameEncoding,
    /// Any other malformed SCRAM message.
    OtherError,
}

impl ScramError {
    /// The `server-error-value`.
    pub const fn value(self) -> &'static str {
        match self {
            ScramError::InvalidEncoding => "invalid-encoding",
            ScramError::ExtensionsNotSupported => "extensions-not-supported",
            ScramError::InvalidProof => "invalid-proof",
            ScramError::ChannelBindingsDontMatch => "channel-bindings-dont-match",
            ScramError::ServerDoesSupportChannelBinding => "server-does-support-channel-binding",
            ScramError::ChannelBindingNotSupported => "channel-binding-not-supported",
            ScramError::UnsupportedChannelBindingType => "unsupported-channel-binding-type",
            ScramError::InvalidUsernameEncoding => "invalid-username-encoding",
            ScramError::OtherError => "other-error",
        }
    }
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.value())
    }
}

impl From<ScramError> for Failure {
    /// XMPP reports the outcome in its own `<failure/>`. The texts are only for channel binding,
    /// where the user should learn that there may be a man in the middle.
    fn from(error: ScramError) -> Failure {
        use SaslCondition::{MalformedRequest, NotAuthorized};
        let (condition, text) = match error {
            ScramError::InvalidEncoding | ScramError::OtherError => (MalformedRequest, None),
            ScramError::InvalidUsernameEncoding => (MalformedRequest, Some("the user name is not allowed")),
            ScramError::ExtensionsNotSupported => (MalformedRequest, Some("a mandatory extension is unknown")),
            ScramError::InvalidProof => (NotAuthorized, None),
            ScramError::ChannelBindingsDontMatch => (NotAuthorized, Some("the channel bindings do not match")),
            ScramError::ServerDoesSupportChannelBinding => (NotAuthorized, Some("channel binding was offered")),
            ScramError::ChannelBindingNotSupported => (MalformedRequest, Some("channel binding is not supported")),
            ScramError::UnsupportedChannelBindingType => {
                (MalformedRequest, Some("this type of channel binding is not offered"))
            }
        };
        Failure { condition, text, scram: Some(error) }
    }
}

/// Expects the account's record. The client's first message has been read.
#[derive(Debug)]
pub struct ExpectAccount {
    mechanism: Mechanism,
    hash: HashKind,
    account: Box<str>,
    /// The message without its GS2 header; the beginning of what both sides sign (RFC 5802 3,
    /// AuthMessage).
    client_first_bare: Box<str>,
    client_nonce: Box<str>,
    /// The `c=` that the client's final message must have.
    binding: Box<str>,
    /// The hash of the offer, which the client is sent (XEP-0474 5.1).
    offer: Box<str>,
}

impl ExpectAccount {
    /// Reads `client-first-message` (RFC 5802 7).
    pub(super) fn client_first(
        mechanism: Mechanism,
        hash: HashKind,
        message: &str,
        terms: &Terms<'_>,
    ) -> Result<ExpectAccount, Failure> {
        let gs2 = Gs2::parse(message)?;
        let binding = expected_binding(&gs2, mechanism, terms)?;
        let mut fields = gs2.rest.split(',');
        let name = match fields.next() {
            Some(field) if field.starts_with("m=") => return Err(ScramError::ExtensionsNotSupported.into()),
            Some(field) => field.strip_prefix("n=").ok_or(ScramError::OtherError)?,
            None => return Err(ScramError::OtherError.into()),
        };
        let client_nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or(ScramError::OtherError)?;
        if !is_nonce(client_nonce) {
            return Err(ScramError::OtherError.into());
        }
        // Optional extensions must be attributes, too.
        if !fields.all(|field| is_attribute(field) && !field.starts_with("m=")) {
            return Err(ScramError::ExtensionsNotSupported.into());
        }
        let name = saslname(name)?;
        let account = terms.account(&name).ok_or(ScramError::InvalidUsernameEncoding)?;
        check_authzid(&gs2.authzid, &account)?;
        Ok(ExpectAccount {
            mechanism,
            hash,
            account,
            client_first_bare: gs2.rest.into(),
            client_nonce: client_nonce.into(),
            binding,
            offer: offer_hash(hash, terms.secured, terms.allowed).into(),
        })
    }

    /// The bare JID of the requested account, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// The mechanism that the client uses.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Takes the account's record, or `None` if the account does not exist, and fresh entropy.
    /// Returns the next state and `server-first-message`, to be sent by
    /// [`Form::write_challenge`](super::Form::write_challenge).
    pub fn account(
        self,
        found: Option<&Credentials>,
        decoy: &Decoy,
        entropy: &[u8; NONCE_BYTES],
    ) -> (ExpectClientFinal, String) {
        self.answer(found, decoy, &BASE64.encode(entropy))
    }

    /// Does the same with the server's part of the nonce as text: base64 has no comma.
    fn answer(self, found: Option<&Credentials>, decoy: &Decoy, server_nonce: &str) -> (ExpectClientFinal, String) {
        let made_up;
        // An account without keys of this hash function is treated as if it did not exist.
        let own = found.and_then(|found| found.keys(self.hash));
        let set = match own {
            Some(set) => set,
            None => {
                made_up = decoy.credentials(&self.account);
                made_up.keys(self.hash).expect("it has keys of all hash functions")
            }
        };
        let nonce = format!("{}{server_nonce}", self.client_nonce);
        let salt = BASE64.encode(set.salt());
        let mut server_first = format!("r={nonce},s={salt},i={}", set.iterations());
        if !self.offer.is_empty() {
            server_first.push_str(",h=");
            server_first.push_str(&self.offer);
        }
        let state = ExpectClientFinal {
            mechanism: self.mechanism,
            hash: self.hash,
            keys: *set.keys(),
            exists: own.is_some(),
            identity: found.map_or((Incarnation::UNNUMBERED, 0), Credentials::identity),
            standing: found.map_or(Standing::InUse, Credentials::standing),
            signed: format!("{},{server_first},", self.client_first_bare),
            nonce: nonce.into(),
            binding: self.binding,
            account: self.account,
        };
        (state, server_first)
    }
}

/// Expects the client's proof.
#[derive(Debug)]
pub struct ExpectClientFinal {
    mechanism: Mechanism,
    hash: HashKind,
    keys: ScramKeys,
    exists: bool,
    identity: (Incarnation, u64),
    standing: Standing,
    /// AuthMessage up to and including the comma before the client's final message.
    signed: String,
    nonce: Box<str>,
    binding: Box<str>,
    account: Box<str>,
}

impl ExpectClientFinal {
    /// The bare JID of the requested account, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// Reads `<response>payload</response>` with `client-final-message` and verifies it (RFC 5802
    /// 3, 7). Returns the proof and `server-final-message`, to be sent by
    /// [`write_success`](super::write_success).
    ///
    /// # Errors
    /// If the message is malformed, the channel differs, or the proof does not match.
    pub fn response(self, payload: &str) -> Result<(Authenticated, String), Failure> {
        let message = decode_text(payload)?;
        let (signed, proof) = message.rsplit_once(",p=").ok_or(ScramError::OtherError)?;
        let mut fields = signed.split(',');
        let binding = fields.next().and_then(|field| field.strip_prefix("c=")).ok_or(ScramError::OtherError)?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or(ScramError::OtherError)?;
        if !fields.all(|field| is_attribute(field) && !field.starts_with("m=")) {
            return Err(ScramError::ExtensionsNotSupported.into());
        }
        // Base64 has only one form for the same bytes, so the texts can be compared instead of the
        // data.
        if binding != &*self.binding {
            return Err(ScramError::ChannelBindingsDontMatch.into());
        }
        if nonce != &*self.nonce {
            return Err(ScramError::OtherError.into());
        }
        let proof = BASE64.decode(proof).map_err(|_| ScramError::InvalidEncoding)?;
        let proof = Tag::from_bytes(self.hash, &proof).ok_or(ScramError::InvalidEncoding)?;
        self.verify(signed, &proof)
    }

    fn verify(self, client_final: &str, proof: &Tag) -> Result<(Authenticated, String), Failure> {
        let auth_message = [self.signed.as_bytes(), client_final.as_bytes()];
        let signature = self.hash.hmac(self.keys.stored.as_bytes(), &auth_message);
        let client_key = proof.xor(&signature);
        let fits = self.hash.digest(&[client_key.as_bytes()]) == self.keys.stored;
        if !(fits & self.exists) {
            return Err(ScramError::InvalidProof.into());
        }
        Failure::unless_in_use(self.standing)?;
        let server = self.hash.hmac(self.keys.server.as_bytes(), &auth_message);
        let server_final = format!("v={}", BASE64.encode(server.as_bytes()));
        Ok((Authenticated::new(self.account, self.identity, self.mechanism), server_final))
    }
}

/// The client's channel-binding flag in the first byte of its message (RFC 5802 6).
#[derive(Clone, Copy, PartialEq, Eq)]
enum BindFlag<'a> {
    /// `n`: the client cannot bind.
    No,
    /// `y`: the client can bind, but believes that the server cannot.
    NotOffered,
    /// `p=type`: the client binds.
    Bind(&'a str),
}

/// The GS2 header of a first message (RFC 5801 4, RFC 5802 7).
struct Gs2<'a> {
    flag: BindFlag<'a>,
    authzid: Cow<'a, str>,
    /// The header with both its commas.
    header: &'a str,
    /// The message without it: `client-first-message-bare`.
    rest: &'a str,
}

impl<'a> Gs2<'a> {
    fn parse(message: &'a str) -> Result<Gs2<'a>, ScramError> {
        let (flag, rest) = message.split_once(',').ok_or(ScramError::OtherError)?;
        let (authzid, rest) = rest.split_once(',').ok_or(ScramError::OtherError)?;
        let flag = match flag {
            "n" => BindFlag::No,
            "y" => BindFlag::NotOffered,
            _ => BindFlag::Bind(flag.strip_prefix("p=").ok_or(ScramError::OtherError)?),
        };
        let authzid = match authzid {
            "" => Cow::Borrowed(""),
            _ => saslname(authzid.strip_prefix("a=").ok_or(ScramError::OtherError)?)?,
        };
        Ok(Gs2 { flag, authzid, header: &message[..message.len() - rest.len()], rest })
    }
}

/// The expected `c=`, in base64: the header, and the channel's data if the client binds (RFC 5802
/// 7, `cbind-input`). This detects a modified offer: a client that sends `y` to a server that
/// offers binding was deceived.
fn expected_binding(gs2: &Gs2<'_>, mechanism: Mechanism, terms: &Terms<'_>) -> Result<Box<str>, ScramError> {
    let data = match gs2.flag {
        BindFlag::No | BindFlag::NotOffered if mechanism.is_bound() => return Err(ScramError::OtherError),
        BindFlag::NotOffered if offered(terms.secured, terms.allowed).any_bound() => {
            return Err(ScramError::ServerDoesSupportChannelBinding);
        }
        BindFlag::No | BindFlag::NotOffered => &[],
        BindFlag::Bind(_) if !mechanism.is_bound() => return Err(ScramError::ChannelBindingNotSupported),
        BindFlag::Bind(name) => binding_data(name, terms.secured).ok_or(ScramError::UnsupportedChannelBindingType)?,
    };
    Ok(BASE64.encode([gs2.header.as_bytes(), data].concat()).into())
}

fn binding_data<'a>(name: &str, secured: Option<&'a ChannelBindings>) -> Option<&'a [u8]> {
    let kind = BindingType::ALL.into_iter().find(|kind| kind.name() == name)?;
    secured?.data(kind)
}

/// Decodes `saslname`: `=2C` is a comma and `=3D` an equals sign; any other `=` is an error (RFC
/// 5802 5.1).
fn saslname(encoded: &str) -> Result<Cow<'_, str>, ScramError> {
    if encoded.is_empty() {
        return Err(ScramError::InvalidUsernameEncoding);
    }
    let mut pieces = encoded.split('=');
    let first = pieces.next().unwrap_or_default();
    if first.len() == encoded.len() {
        return Ok(Cow::Borrowed(encoded));
    }
    let mut name = first.to_owned();
    for piece in pieces {
        let (decoded, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(ScramError::InvalidUsernameEncoding),
        };
        name.push(decoded);
        name.push_str(rest);
    }
    Ok(Cow::Owned(name))
}

/// Printable ASCII without comma, not empty (RFC 5802 7, `printable`), and of bounded length.
fn is_nonce(text: &str) -> bool {
    (1..=SCRAM_CLIENT_NONCE_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| (0x21..=0x7e).contains(&byte) && byte != b',')
}

/// `ALPHA "=" value` (RFC 5802 7, `attr-val`).
fn is_attribute(field: &str) -> bool {
    matches!(field.as_bytes(), [letter, b'=', _, ..] if letter.is_ascii_alphabetic()) && !field.contains('\0')
}

#[cfg(test)]
#[path = "scram_tests.rs"]
mod tests;
