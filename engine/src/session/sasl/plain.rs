//! PLAIN (RFC 4616): the password itself, checked against SCRAM's keys.
//!
//! Checking takes as long as deriving the keys, milliseconds, so it is a job that leaves the shard and comes back. A
//! password that was checked before is known again by [`PlainCache`] and needs none.

use std::fmt;

use super::{Authenticated, Decoy, Failure, Mechanism, PlainCache, Terms, check_authzid};
use crate::store::account::{Credentials, Incarnation, KeySet, ScramKeys, Standing};
use crate::store::hash::{HashKind, Hashes, Tag};
use crate::store::password;
use crate::wire::error::SaslCondition;

/// Expects the account's record. The client's message is read.
pub struct PlainAttempt {
    account: Box<str>,
    /// Prepared.
    password: Box<str>,
}

/// What comes of a PLAIN login once the account is known.
#[derive(Debug)]
pub enum PlainStep {
    /// The password was checked before, against the same keys; and what the account's home knows it by.
    Done(Authenticated, Tag),
    /// The password was checked before, but the account is out of use.
    Refused(Failure),
    /// Run the job off the shard, then bring its result to the state.
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
        // A name or password that cannot be is as wrong as one that is not.
        let wrong = Failure::of(SaslCondition::NotAuthorized);
        let account = terms.account(authcid).ok_or(wrong)?;
        let password = password::prepare(passwd).map_err(|_| wrong)?;
        check_authzid(authzid, &account)?;
        Ok(PlainAttempt { account, password: password.into() })
    }

    /// The bare JID of the account asked for, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// The account's bare JID and the prepared password.
    pub(super) fn into_parts(self) -> (Box<str>, Box<str>) {
        (self.account, self.password)
    }

    /// Takes the account's record, or none if there is no such account; that one goes the whole way, too. `seen` is what the
    /// account's home knows a password by, `cache` any shard's.
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

/// A job: PBKDF2 over a password. Owns all it needs and may run on any thread.
pub struct DeriveKeys {
    password: Box<str>,
    kind: HashKind,
    salt: Box<[u8]>,
    iterations: u32,
    gains: Option<Gains>,
}

/// What else is derived from the right password.
struct Gains {
    /// The key by which it is known to be the right one.
    stored: Tag,
    kinds: Hashes,
    iterations: u32,
}

/// What a [`DeriveKeys`] came to.
#[derive(Clone, Debug)]
pub struct Derived {
    stored: Tag,
    gained: Vec<KeySet>,
}

impl Derived {
    /// The keys that the account lacks; none if the password is wrong.
    pub fn take_gained(&mut self) -> Vec<KeySet> {
        std::mem::take(&mut self.gained)
    }
}

impl DeriveKeys {
    /// Derives the key. Pure and expensive: milliseconds by intent.
    pub fn run(self) -> Derived {
        let salted = self.kind.salted_password(&self.password, &self.salt, self.iterations);
        let stored = ScramKeys::of(self.kind, &salted).stored;
        // A guess costs no more than it does where nothing is to be gained.
        let gains = self.gains.filter(|gains| gains.stored == stored);
        let gained = gains.map_or_else(Vec::new, |gains| {
            let derive = |kind| KeySet::of_prepared(kind, &self.password, gains.iterations, &self.salt);
            gains.kinds.iter().map(derive).collect()
        });
        Derived { stored, gained }
    }

    /// With the keys of these hash functions, which the account lacks (XEP-0480): the client shows the password itself, so there is no
    /// need to ask it for them. `iterations` is the count of new keys.
    #[must_use]
    pub fn gaining(self, credentials: &Credentials, kinds: Hashes, iterations: u32) -> DeriveKeys {
        let kinds = credentials.hashes().others().and(kinds);
        let stored = credentials.anchor().keys().stored;
        DeriveKeys { gains: (!kinds.is_empty()).then_some(Gains { stored, kinds, iterations }), ..self }
    }

    /// Password, salt and iterations: all that the result depends on, for a host that knows the result already. The
    /// simulated world does; a server must keep no password.
    #[doc(hidden)]
    pub fn inputs(&self) -> (&str, &[u8], u32) {
        (&self.password, &self.salt, self.iterations)
    }

    /// PBKDF2 iterations that the job takes, for accounting.
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
    /// What the account's home will know the password by.
    seen: Tag,
}

impl ExpectDerived {
    /// The bare JID of the account asked for, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// Verifies the password. What comes with it is for the account's home to remember.
    ///
    /// # Errors
    /// If it is wrong, or the account does not exist or is out of use.
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
