//! PLAIN (RFC 4616): the password itself, checked against SCRAM keys.
//!
//! The check derives the keys, which takes milliseconds, so it is a job that leaves the shard and
//! returns. A password that was checked before is recognised by [`PlainCache`] and needs no job.

use std::fmt;

use super::{Authenticated, Decoy, Failure, Mechanism, PlainCache, Terms, check_authzid};
use crate::store::account::{Credentials, Incarnation, KeySet, ScramKeys, Standing};
use crate::store::hash::{HashKind, Hashes, Tag};
use crate::store::password;
use crate::wire::error::SaslCondition;

/// Expects the account's record. The client's message has been read.
pub struct PlainAttempt {
    account: Box<str>,
    /// Prepared.
    password: Box<str>,
}

/// The result of a PLAIN login once the account is known.
#[derive(Debug)]
pub enum PlainStep {
    /// The password was checked before, against the same keys. The tag is that of the account's
    /// home.
    Done(Authenticated, Tag),
    /// The password was checked before, but the account is out of use.
    Refused(Failure),
    /// Run the job off the shard, then pass its result to the state.
    Derive(DeriveKeys, Box<ExpectDerived>),
}

impl PlainAttempt {
    /// Reads `[authzid] NUL authcid NUL passwd` (RFC 4616 2).
    pub(super) fn parse(message: &str, terms: &Terms<'_>) -> Result<PlainAttempt, Failure> {
        let malformed = Failure::of(SaslCondition::MalformedRequest);
        let mut parts = message.split('\0');
        let (Some(authzid), Some(authcid), Some(passwd), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed);
        };
        if authcid.is_empty() || passwd.is_empty() {
            return Err(malformed);
        }
        // An invalid name or password counts as wrong.
        let wrong = Failure::of(SaslCondition::NotAuthorized);
        let account = terms.account(authcid).ok_or(wrong)?;
        let password = password::prepare(passwd).map_err(|_| wrong)?;
        check_authzid(authzid, &account)?;
        Ok(PlainAttempt { account, password: password.into() })
    }

    /// The bare JID of the requested account, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// The account's bare JID and the prepared password.
    pub(super) fn into_parts(self) -> (Box<str>, Box<str>) {
        (self.account, self.password)
    }

    /// Takes the account's record, or `None` if the account does not exist; the login then takes
    /// all steps regardless. `seen` is the home's tag of an earlier password, and `cache` may be
    /// any shard's.
    pub fn account(
        self,
        found: Option<&Credentials>,
        seen: Option<&Tag>,
        decoy: &Decoy,
        cache: &PlainCache,
    ) -> PlainStep {
        let made_up;
        let credentials = match found {
            Some(credentials) => {
                let stored = &credentials.anchor().keys().stored;
                let shown = seen.map(|_| cache.tag(&self.account, &self.password, stored));
                if let Some(shown) = shown.filter(|shown| seen == Some(shown)) {
                    return match finish(self.account, credentials.identity(), credentials.standing()) {
                        Ok(authenticated) => PlainStep::Done(authenticated, shown),
                        Err(failure) => PlainStep::Refused(failure),
                    };
                }
                credentials
            }
            None => {
                made_up = decoy.credentials(&self.account);
                &made_up
            }
        };
        let anchor = credentials.anchor();
        let stored = anchor.keys().stored;
        let state = ExpectDerived {
            seen: cache.tag(&self.account, &self.password, &stored),
            account: self.account,
            stored,
            exists: found.is_some(),
            identity: credentials.identity(),
            standing: credentials.standing(),
        };
        let job = DeriveKeys {
            password: self.password,
            kind: anchor.kind(),
            salt: anchor.salt().into(),
            iterations: anchor.iterations(),
            gains: None,
        };
        PlainStep::Derive(job, Box::new(state))
    }
}

impl fmt::Debug for PlainAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlainAttempt({})", self.account)
    }
}

/// A job: PBKDF2 over a password. It owns all its data and may run on any thread.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeriveKeys {
    password: Box<str>,
    kind: HashKind,
    salt: Box<[u8]>,
    iterations: u32,
    gains: Option<Gains>,
}

/// Further keys to derive from the right password.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Gains {
    /// The key that proves the password right.
    stored: Tag,
    kinds: Hashes,
    iterations: u32,
}

/// The result of a [`DeriveKeys`].
#[derive(Clone, Debug)]
pub struct Derived {
    stored: Tag,
    gained: Vec<KeySet>,
}

impl Derived {
    /// The keys that the account lacks; empty if the password is wrong.
    pub fn take_gained(&mut self) -> Vec<KeySet> {
        std::mem::take(&mut self.gained)
    }
}

impl DeriveKeys {
    /// Derives the key. Pure, and expensive by design: milliseconds.
    pub fn run(self) -> Derived {
        let salted = self.kind.salted_password(&self.password, &self.salt, self.iterations);
        let stored = ScramKeys::of(self.kind, &salted).stored;
        // A wrong guess costs no more than a login without further keys.
        let gains = self.gains.filter(|gains| gains.stored == stored);
        let gained = gains.map_or_else(Vec::new, |gains| {
            let derive = |kind| KeySet::of_prepared(kind, &self.password, gains.iterations, &self.salt);
            gains.kinds.iter().map(derive).collect()
        });
        Derived { stored, gained }
    }

    /// Adds the keys of these hash functions, which the account lacks (XEP-0480). PLAIN has the
    /// password, so the client need not be asked for them. `iterations` is the count of new keys.
    #[must_use]
    pub fn gaining(self, credentials: &Credentials, kinds: Hashes, iterations: u32) -> DeriveKeys {
        let kinds = credentials.hashes().others().and(kinds);
        let stored = credentials.anchor().keys().stored;
        DeriveKeys { gains: (!kinds.is_empty()).then_some(Gains { stored, kinds, iterations }), ..self }
    }

    /// Password, salt and iterations: everything that the result depends on, for a host that caches
    /// results. The simulated world does; a server must not retain passwords.
    #[doc(hidden)]
    pub fn inputs(&self) -> (&str, &[u8], u32) {
        (&self.password, &self.salt, self.iterations)
    }

    /// PBKDF2 iterations of the job, for accounting.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }
}

impl fmt::Debug for DeriveKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeriveKeys({} iterations)", self.iterations)
    }
}

/// Expects the result of its [`DeriveKeys`].
#[derive(Debug)]
pub struct ExpectDerived {
    account: Box<str>,
    stored: Tag,
    exists: bool,
    identity: (Incarnation, u64),
    standing: Standing,
    /// The tag that the account's home will store for the password.
    seen: Tag,
}

impl ExpectDerived {
    /// The bare JID of the requested account, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// Verifies the password. The returned tag is for the account's home to store.
    ///
    /// # Errors
    /// If the password is wrong, or the account does not exist or is out of use.
    pub fn verify(self, derived: Derived) -> Result<(Authenticated, Tag), Failure> {
        if !((derived.stored == self.stored) & self.exists) {
            return Err(Failure::of(SaslCondition::NotAuthorized));
        }
        finish(self.account, self.identity, self.standing).map(|authenticated| (authenticated, self.seen))
    }
}

fn finish(account: Box<str>, identity: (Incarnation, u64), standing: Standing) -> Result<Authenticated, Failure> {
    Failure::unless_in_use(standing)?;
    Ok(Authenticated::new(account, identity, Mechanism::Plain))
}
