//! Authentication, the server's side, as pure state machines (RFC 6120 6).
//!
//! A state is a struct named for what it expects, and is consumed by its transition. [`begin`] reads `<auth/>`; what
//! it returns says what is needed next: the client's first message, or the account's record out of the store. At the
//! end stands [`Authenticated`], which nothing but a verifier of this module can make.
//!
//! ```text
//! begin ─┬─ ExpectInitial ── response ─┐            (empty <challenge/>)
//!        ├─────────────────────────────┼─ ExpectAccount ── account ── ExpectClientFinal ── response ── Authenticated
//!        ├─────────────────────────────┴─ PlainAttempt ─── account ─┬──────────────────────────────── Authenticated
//!        │                                                          └─ DeriveKeys, ExpectDerived ──── Authenticated
//!        ├─ ExternalAttempt ─ account ───────────────────────────────────────────────────────────────── Authenticated
//!        │                (users who are kept elsewhere: outside::ExpectVerdict ── verdict ───────────── Authenticated)
//!        └─ TokenAttempt ── answered ──────────────────────────────────────────────────────────────── Authenticated
//! ```
//!
//! The same states serve both forms on the wire, RFC 6120 6 and XEP-0388 ([`Form`]).
//!
//! This module reads the texts of `<auth/>` and `<response/>` and knows credentials; it must never know the connection,
//! the store that an account comes from, or what an authenticated peer may do.

mod buckets;
mod cache;
mod external;
mod form;
mod known;
mod mechanism;
pub mod outside;
mod plain;
mod scram;
mod throttle;
mod token;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

pub use buckets::Holding;
pub use cache::PlainCache;
pub use external::{ExternalAttempt, offers_external};
pub use form::{CLOSE_SUCCESS2, Form, open_success2, write_additional_data};
pub use mechanism::{
    Allowed, BindingType, ChannelBindings, Mechanism, Mechanisms, NS_SASL_CB, offered, tokens_offered, upgrade_name,
    upgrade_of, write_bindings, write_features,
};
pub use plain::{DeriveKeys, Derived, ExpectDerived, PlainAttempt, PlainStep};
pub use scram::{ExpectAccount, ExpectClientFinal, NONCE_BYTES, ScramError};
pub use throttle::{AccountThrottle, AddressThrottle, Freed, Refused, ThrottleParams};
pub use token::{Fast, Made, TokenAttempt, TokenMaker};

use crate::limits::SASL_MESSAGE_BYTES_MAX;
use crate::session::facts::ClientCertificate;
use crate::store::account::{Credentials, Incarnation, Standing};
use crate::store::hash::SecretKey;
use crate::store::token::Agent;
use crate::wire::error::SaslCondition;
use crate::wire::jid;

/// What a login is held to: facts of the connection and words of the operator. The same for all steps of a login.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The domain that the stream is with, normalised.
    pub domain: &'a str,
    /// There if the connection is over TLS.
    pub secured: Option<&'a ChannelBindings>,
    /// What is allowed on this connection.
    pub allowed: Allowed,
    /// What the client has shown in its TLS handshake.
    pub certificate: Option<&'a ClientCertificate>,
}

impl Terms<'_> {
    /// The bare JID of who says this name, a localpart at the stream's domain (RFC 6120 6.3.8); `None` if it cannot be one.
    fn account(&self, name: &str) -> Option<Box<str>> {
        let local = jid::normalise_local(name).ok()?;
        Some([&*local, "@", self.domain].concat().into())
    }
}

/// Proof that a peer has shown the credentials of an account. Only a verifier of this module makes one. It goes with the
/// connection until a resource is bound, and is of no use once that account is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authenticated(Box<Proof>);

/// What it is a proof of, apart: a connection that has not come so far has room for a pointer only.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Proof {
    account: Box<str>,
    incarnation: Incarnation,
    /// By which keys of its password.
    key: u64,
    mechanism: Mechanism,
}

impl Authenticated {
    fn new(account: Box<str>, (incarnation, key): (Incarnation, u64), mechanism: Mechanism) -> Authenticated {
        Authenticated(Box::new(Proof { account, incarnation, key, mechanism }))
    }

    /// The account's bare JID, normalised (RFC 6120 6.3.8).
    pub fn bare(&self) -> &str {
        &self.0.account
    }

    /// The domain of the account.
    pub fn domain(&self) -> &str {
        self.0.account.split_once('@').map_or("", |(_, domain)| domain)
    }

    /// Of somebody whom a host vouches for: for worlds that hold connections without logging each of them in.
    #[doc(hidden)]
    pub fn vouched_for(account: &str, incarnation: Incarnation) -> Authenticated {
        Authenticated::new(account.into(), (incarnation, 0), Mechanism::Plain)
    }

    /// Of a component that has shown the secret of its domain (XEP-0114 3). It is no account: its JID has no localpart.
    pub(crate) fn component(domain: &str) -> Authenticated {
        Authenticated::new(domain.into(), (Incarnation::UNNUMBERED, 0), Mechanism::Plain)
    }

    /// Whether it is a component's.
    pub(crate) fn is_component(&self) -> bool {
        !self.0.account.contains('@')
    }

    /// Which account of that name it was when its record was read: there may be another by now, or none.
    pub fn incarnation(&self) -> Incarnation {
        self.0.incarnation
    }

    /// The account, and a number for the keys of the password that was shown.
    pub fn identity(&self) -> (Incarnation, u64) {
        (self.0.incarnation, self.0.key)
    }

    /// Whether these are the credentials that were shown: the same account, under the same password.
    pub fn is_of(&self, credentials: &Credentials) -> bool {
        (self.0.incarnation, self.0.key) == credentials.identity()
    }

    /// How it was shown.
    pub fn mechanism(&self) -> Mechanism {
        self.0.mechanism
    }
}

/// What clients of a suspended account are told.
pub const SUSPENDED_TEXT: &str = "this account is suspended: ask whoever runs this server";

/// Why a login failed. The peer is told the condition and the text; `scram` is for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The condition of RFC 6120 6.5.
    pub condition: SaslCondition,
    /// A sentence, where it helps the peer and tells nothing on accounts.
    pub text: Option<&'static str>,
    /// The error value of RFC 5802 7, if SCRAM has one.
    pub scram: Option<ScramError>,
}

impl Failure {
    /// The account's row is damaged: the password may be the right one (RFC 6120 6.5.11).
    pub const UNREADABLE: Failure = Failure::with_text(
        SaslCondition::TemporaryAuthFailure,
        "the server cannot read this account, its operator has to mend the store",
    );

    /// The account is not in use yet: only who knows its password is told (RFC 6120 6.5.1).
    const APPLIES: Failure =
        Failure::with_text(SaslCondition::AccountDisabled, "the account waits for an administrator's approval");

    /// The server does not trust a token (XEP-0484 4.2), so that the client asks for the password. Whether there was such a token, or such
    /// an account, is the same to it.
    pub const NO_TOKEN: Failure = Failure::of(SaslCondition::CredentialsExpired);

    /// The account is out of use: only who knows its password is told (RFC 6120 6.5.1).
    const SUSPENDED: Failure = Failure::with_text(SaslCondition::AccountDisabled, SUSPENDED_TEXT);

    /// Whether an account with this standing may be used by who has shown its credentials.
    ///
    /// # Errors
    /// If it may not.
    pub const fn unless_in_use(standing: Standing) -> Result<(), Failure> {
        match standing {
            Standing::InUse => Ok(()),
            Standing::Applies => Err(Failure::APPLIES),
            Standing::Suspended => Err(Failure::SUSPENDED),
        }
    }

    /// The peer sent `<abort/>` (RFC 6120 6.4.4).
    pub const ABORTED: Failure = Failure::of(SaslCondition::Aborted);

    /// A failure that says no more than its condition.
    pub const fn of(condition: SaslCondition) -> Failure {
        Failure { condition, text: None, scram: None }
    }

    pub(super) const fn with_text(condition: SaslCondition, text: &'static str) -> Failure {
        Failure { condition, text: Some(text), scram: None }
    }

    /// Appends `<failure/>` in this form.
    pub fn write(&self, form: Form, out: &mut Vec<u8>) {
        form.write_failure(out, self.condition, self.text);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)?;
        match self.scram {
            Some(error) => write!(f, " (e={error})"),
            None => Ok(()),
        }
    }
}

/// Makes up the credentials of names that have no account, so that a login for one looks as any other until it fails.
#[derive(Clone, Debug)]
pub struct Decoy {
    secret: SecretKey,
    iterations: u32,
}

impl Decoy {
    /// `secret` must outlive the process, or a restart gives the made-up salts away; `iterations` is the count of new
    /// accounts. Accounts with another count, such as imported ones, can be told from made-up ones.
    pub fn new(secret: &[u8; 32], iterations: u32) -> Decoy {
        Decoy { secret: SecretKey::new(secret), iterations }
    }

    fn credentials(&self, account: &str) -> Credentials {
        Credentials::decoy(&self.secret, account, self.iterations)
    }
}

/// What a login needs next.
#[derive(Debug)]
pub enum Begun {
    /// The client's first message: send an empty `<challenge/>` (RFC 6120 6.4.3, RFC 4422 3.3).
    Initial(ExpectInitial),
    /// The account's record, for SCRAM.
    Scram(ExpectAccount),
    /// The account's record, for PLAIN.
    Plain(PlainAttempt),
    /// What the account's home says of a token.
    Token(TokenAttempt),
    /// The account's record, for EXTERNAL.
    External(ExternalAttempt),
}

/// Reads `<auth mechanism='..'>payload</auth>` (RFC 6120 6.4.2).
///
/// # Errors
/// If the mechanism is not offered under these terms, or the payload is not its first message.
pub fn begin(mechanism: &str, payload: &str, terms: &Terms<'_>) -> Result<Begun, Failure> {
    begin_with(mechanism, Some(payload).filter(|payload| !payload.is_empty()), terms, None, None)
}

/// Reads `<authenticate mechanism='..'>` (XEP-0388 2.4) with the text of its `<initial-response/>`, if it has one. For a token
/// it takes `<fast/>` and the client's id (XEP-0484 3.4, 4.1).
///
/// # Errors
/// If the mechanism is not offered under these terms, or the payload is not its first message.
pub fn begin_with(
    mechanism: &str,
    payload: Option<&str>,
    terms: &Terms<'_>,
    fast: Option<Fast>,
    agent: Option<Agent>,
) -> Result<Begun, Failure> {
    let Some(mechanism) = Mechanism::from_name(mechanism) else {
        return Err(Failure::of(SaslCondition::InvalidMechanism));
    };
    if let Some(kind) = mechanism.token() {
        let fast = fast.filter(|_| terms.allowed.tokens).ok_or(Failure::of(SaslCondition::InvalidMechanism))?;
        let text = "a token is shown at once, with the id of the user agent";
        let lacks = Failure::with_text(SaslCondition::MalformedRequest, text);
        let (payload, agent) = payload.zip(agent).ok_or(lacks)?;
        return TokenAttempt::parse(mechanism, kind, &decode(payload)?, terms, fast, agent).map(Begun::Token);
    }
    if !offered(terms.secured, terms.allowed).contains(mechanism) {
        return Err(Failure::of(match mechanism {
            Mechanism::Plain if terms.secured.is_none() => SaslCondition::EncryptionRequired,
            Mechanism::Plain => SaslCondition::MechanismTooWeak,
            _ => SaslCondition::InvalidMechanism,
        }));
    }
    match payload {
        None => Ok(Begun::Initial(ExpectInitial { mechanism })),
        Some(payload) => first_message(mechanism, decode_text(payload)?, terms),
    }
}

/// Expects the first message of a client that left it out of `<auth/>`.
#[derive(Debug)]
pub struct ExpectInitial {
    mechanism: Mechanism,
}

impl ExpectInitial {
    /// Reads `<response>payload</response>` (RFC 6120 6.4.4).
    ///
    /// # Errors
    /// If the payload is not the mechanism's first message.
    pub fn response(self, payload: &str, terms: &Terms<'_>) -> Result<Begun, Failure> {
        first_message(self.mechanism, decode_text(payload)?, terms)
    }
}

fn first_message(mechanism: Mechanism, message: String, terms: &Terms<'_>) -> Result<Begun, Failure> {
    match (mechanism, mechanism.hash()) {
        (Mechanism::External, _) => ExternalAttempt::parse(&message, terms).map(Begun::External),
        (_, Some(hash)) => ExpectAccount::client_first(mechanism, hash, &message, terms).map(Begun::Scram),
        (_, None) => PlainAttempt::parse(&message, terms).map(Begun::Plain),
    }
}

/// Decodes the text of `<auth/>`, `<initial-response/>` or `<response/>`: nothing and a lone `=` are an empty message (RFC
/// 6120 6.4.2, XEP-0388 2.3). All else is base64 of RFC 4648 4, padded, without white space (RFC 6120 13.9.1).
fn decode(payload: &str) -> Result<Vec<u8>, Failure> {
    if matches!(payload, "" | "=") {
        return Ok(Vec::new());
    }
    if payload.len() > SASL_MESSAGE_BYTES_MAX.div_ceil(3) * 4 {
        return Err(Failure::with_text(SaslCondition::MalformedRequest, "the message is too long"));
    }
    BASE64.decode(payload).map_err(|_| Failure::of(SaslCondition::IncorrectEncoding))
}

/// The same of a message in UTF-8, as those of all mechanisms for passwords are.
fn decode_text(payload: &str) -> Result<String, Failure> {
    String::from_utf8(decode(payload)?).map_err(|_| Failure::of(SaslCondition::MalformedRequest))
}

/// Checks an authorization identity: none, or the account's own bare JID, whatever its letter case (RFC 6120 6.3.8).
fn check_authzid(authzid: &str, account: &str) -> Result<(), Failure> {
    if authzid.is_empty() {
        return Ok(());
    }
    let mut scratch = String::new();
    match jid::parse_into(authzid, &mut scratch) {
        Ok(own) if own.as_str() == account => Ok(()),
        _ => Err(Failure::of(SaslCondition::InvalidAuthzid)),
    }
}

/// Appends `<success/>` of RFC 6120 6.4.6 with this message as additional data; empty for mechanisms that have none.
pub fn write_success(out: &mut Vec<u8>, message: &[u8]) {
    Form::Sasl1.write_element(out, "success", message);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
