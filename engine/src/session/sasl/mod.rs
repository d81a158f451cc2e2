//! Authentication, server side, as pure state machines (RFC 6120 6).
//!
//! A state is a struct named for what it expects, and is consumed by its transition. [`begin`]
//! reads `<auth/>`. Its result tells what is needed next: the client's first message, or the
//! account's record from the store. The end is [`Authenticated`], which only a verifier of this
//! module can create.
//!
//! ```text
//! begin ─┬─ ExpectInitial ─ response ─┐        (empty <challenge/>)
//!        ├────────────────────────────┼─ ExpectAccount ─ account ─ ExpectClientFinal ─ response ┐
//!        ├────────────────────────────┴─ PlainAttempt ── account ┬──────────────────────────────┤
//!        │                                                       └─ DeriveKeys, ExpectDerived ──┤
//!        ├─ ExternalAttempt ─ account ──────────────────────────────────────────────────────────┤
//!        ├─ outside::ExpectVerdict ─ verdict (users of an external back end) ───────────────────┤
//!        └─ TokenAttempt ─ answered ────────────────────────────────────────────────────────────┤
//!                                                                                 Authenticated ┘
//! ```
//!
//! The same states serve both wire forms, RFC 6120 6 and XEP-0388 ([`Form`]).
//!
//! This module parses `<auth/>` and `<response/>` and knows credentials. It must never know the
//! connection, the store of an account, or the rights of an authenticated peer.

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

/// The terms of a login: facts of the connection and the operator's settings. The same for all
/// steps of a login.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The domain of the stream, normalised.
    pub domain: &'a str,
    /// Set if the connection uses TLS.
    pub secured: Option<&'a ChannelBindings>,
    /// What is permitted on this connection.
    pub allowed: Allowed,
    /// The client's certificate from the TLS handshake.
    pub certificate: Option<&'a ClientCertificate>,
}

impl Terms<'_> {
    /// The bare JID of this name, a localpart at the stream's domain (RFC 6120 6.3.8); `None` if it
    /// is invalid.
    fn account(&self, name: &str) -> Option<Box<str>> {
        let local = jid::normalise_local(name).ok()?;
        Some([&*local, "@", self.domain].concat().into())
    }
}

/// Proof that a peer has presented the credentials of an account. Only a verifier of this module
/// creates one. It accompanies the connection until a resource is bound, and is void once the
/// account is gone.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Authenticated(Box<Proof>);

/// The content of the proof, boxed: a connection in an earlier stage has room only for a pointer.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
struct Proof {
    account: Box<str>,
    incarnation: Incarnation,
    /// The keys of its password.
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

    /// A proof that the host vouches for: for simulations that have connections without logging
    /// each of them in.
    #[doc(hidden)]
    pub fn vouched_for(account: &str, incarnation: Incarnation) -> Authenticated {
        Authenticated::new(account.into(), (incarnation, 0), Mechanism::Plain)
    }

    /// A proof for a component that has presented the secret of its domain (XEP-0114 3). It is not
    /// an account: its JID has no localpart.
    pub(crate) fn component(domain: &str) -> Authenticated {
        Authenticated::new(domain.into(), (Incarnation::UNNUMBERED, 0), Mechanism::Plain)
    }

    /// Whether it belongs to a component.
    pub(crate) fn is_component(&self) -> bool {
        !self.0.account.contains('@')
    }

    /// The incarnation of the account when its record was read. There may be another account by
    /// now, or none.
    pub fn incarnation(&self) -> Incarnation {
        self.0.incarnation
    }

    /// The account, and a number for the keys of the password that was presented.
    pub fn identity(&self) -> (Incarnation, u64) {
        (self.0.incarnation, self.0.key)
    }

    /// Whether these are the credentials that were presented: the same account with the same
    /// password.
    pub fn is_of(&self, credentials: &Credentials) -> bool {
        (self.0.incarnation, self.0.key) == credentials.identity()
    }

    /// The mechanism that was used.
    pub fn mechanism(&self) -> Mechanism {
        self.0.mechanism
    }
}

/// The text that clients of a suspended account are sent.
pub const SUSPENDED_TEXT: &str = "this account is suspended; contact the server's operator";

/// Why a login failed. The peer is sent the condition and the text; `scram` is for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The condition of RFC 6120 6.5.
    pub condition: SaslCondition,
    /// A sentence that helps the peer and reveals nothing about accounts.
    pub text: Option<&'static str>,
    /// The error value of RFC 5802 7, for SCRAM.
    pub scram: Option<ScramError>,
}

impl Failure {
    /// The account's row is damaged: the password may be the right one (RFC 6120 6.5.11).
    pub const UNREADABLE: Failure = Failure::with_text(
        SaslCondition::TemporaryAuthFailure,
        "the server cannot read this account; its operator has to repair the store",
    );

    /// The account is not in use yet. Revealed only to a client with the right password (RFC 6120
    /// 6.5.1).
    const APPLIES: Failure =
        Failure::with_text(SaslCondition::AccountDisabled, "the account waits for an administrator's approval");

    /// The server does not accept a token (XEP-0484 4.2); the client then asks for the password.
    /// The answer does not depend on whether the token or the account exists.
    pub const NO_TOKEN: Failure = Failure::of(SaslCondition::CredentialsExpired);

    /// The account is out of use. Revealed only to a client with the right password (RFC 6120
    /// 6.5.1).
    const SUSPENDED: Failure = Failure::with_text(SaslCondition::AccountDisabled, SUSPENDED_TEXT);

    /// Whether a client that has presented its credentials may use an account with this standing.
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

    /// A failure without any text besides its condition.
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

/// Makes up credentials for names without an account, so that a login for one is indistinguishable
/// from others until it fails.
#[derive(Clone, Debug)]
pub struct Decoy {
    secret: SecretKey,
    iterations: u32,
}

impl Decoy {
    /// `secret` must outlive the process; otherwise a restart reveals which salts are made up.
    /// `iterations` is the count of new accounts. Accounts with another count, such as imported
    /// ones, are distinguishable from made-up ones.
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
    /// The account home's answer about a token.
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

/// Reads `<authenticate mechanism='..'>` (XEP-0388 2.4) with the text of its `<initial-response/>`,
/// if any. A token requires `<fast/>` and the client's id (XEP-0484 3.4, 4.1).
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
        let text = "a token requires an initial response and the id of a user agent";
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

/// Expects the first message of a client that omitted it from `<auth/>`.
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

/// Decodes the text of `<auth/>`, `<initial-response/>` or `<response/>`. An empty text and a lone
/// `=` are an empty message (RFC 6120 6.4.2, XEP-0388 2.3). Anything else is padded base64 of RFC
/// 4648 4 without white space (RFC 6120 13.9.1).
fn decode(payload: &str) -> Result<Vec<u8>, Failure> {
    if matches!(payload, "" | "=") {
        return Ok(Vec::new());
    }
    if payload.len() > SASL_MESSAGE_BYTES_MAX.div_ceil(3) * 4 {
        return Err(Failure::with_text(SaslCondition::MalformedRequest, "the message is too long"));
    }
    BASE64.decode(payload).map_err(|_| Failure::of(SaslCondition::IncorrectEncoding))
}

/// Decodes a UTF-8 message, as used by all password mechanisms.
fn decode_text(payload: &str) -> Result<String, Failure> {
    String::from_utf8(decode(payload)?).map_err(|_| Failure::of(SaslCondition::MalformedRequest))
}

/// Checks an authorization identity: empty, or the account's own bare JID, in any letter case (RFC
/// 6120 6.3.8).
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

/// Appends the `<success/>` of RFC 6120 6.4.6 with this message as additional data; empty for
/// mechanisms without one.
pub fn write_success(out: &mut Vec<u8>, message: &[u8]) {
    Form::Sasl1.write_element(out, "success", message);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
