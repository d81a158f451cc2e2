//! Users who are kept elsewhere: whoever keeps them is asked whether a password is right, and whether a user is still there.
//!
//! The question leaves the shard and comes back as a [`Verdict`]. No key is kept of such a password, so no mechanism but PLAIN can show
//! it. A token (XEP-0484) is compared here, and good for no longer than its user is there.

use std::fmt;

use super::{Authenticated, Failure, Mechanism, PlainAttempt};
use crate::store::account::{Credentials, Incarnation, Standing};
use crate::wire::error::SaslCondition;

/// A question for whoever keeps the users of a domain.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    account: Box<str>,
    /// Prepared (RFC 8265 4.2).
    password: Option<Box<str>>,
}

impl Question {
    /// Localpart and domain of the user, normalised.
    pub fn user(&self) -> (&str, &str) {
        self.account.split_once('@').unwrap_or((&self.account, ""))
    }

    /// The password that has to be right; `None` asks whether there is such a user.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// One of a host's own, for tests and trials.
    #[doc(hidden)]
    pub fn of(account: &str, password: Option<&str>) -> Question {
        Question { account: account.into(), password: password.map(Into::into) }
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Question({}{})", self.account, if self.password.is_some() { ", a password" } else { "" })
    }
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The password is right, or the user is there.
    Yes,
    /// It is not.
    No,
    /// Nobody knows.
    Unknown(Unknown),
}

/// Why nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// Nothing was asked: as many questions wait as may.
    Busy,
    /// Nothing was asked: who would have to answer has failed lately.
    Down,
    /// It was asked, and there was no answer in time.
    Late,
    /// It was asked, and what came was no answer.
    Wrong,
}

impl Unknown {
    /// Whether the question has cost whoever is asked something. Then the attempt is charged as one that failed: a name or password that
    /// makes a back end fail would otherwise be asked about without end.
    pub const fn was_asked(self) -> bool {
        matches!(self, Unknown::Late | Unknown::Wrong)
    }
}

/// Expects a [`Verdict`].
#[derive(Debug)]
pub struct ExpectVerdict {
    of: Of,
    message: Box<[u8]>,
}

#[derive(Debug)]
enum Of {
    /// A password, and the account that there is.
    Password { account: Box<str>, found: Option<((Incarnation, u64), Standing)> },
    /// The user of a token that was right.
    Token(Authenticated),
}

/// What comes of a verdict.
#[derive(Debug)]
pub enum Decided {
    /// The user has proven who it is; with the mechanism's last message.
    There(Authenticated, Box<[u8]>),
    /// So it is, and has no account here yet.
    New(ExpectAdmission),
    /// The user is gone, whose token was right.
    Gone(Box<str>),
    /// The login fails.
    Refused(Failure),
    /// Nobody knows.
    Unknown(Unknown),
}

impl PlainAttempt {
    /// Takes the account's record, or none if there is no such account yet: what to ask, and what waits for the answer.
    pub fn asks_outside(self, found: Option<&Credentials>) -> (Question, ExpectVerdict) {
        let (account, password) = self.into_parts();
        let found = found.map(|found| (found.identity(), found.standing()));
        let question = Question { account: account.clone(), password: Some(password) };
        (question, ExpectVerdict { of: Of::Password { account, found }, message: Box::default() })
    }
}

impl ExpectVerdict {
    /// A token was right, whose user may be gone: what to ask, and what waits for the answer. `message` is the mechanism's last one.
    pub fn of_token(proof: Authenticated, message: &[u8]) -> (Question, ExpectVerdict) {
        let question = Question { account: proof.bare().into(), password: None };
        (question, ExpectVerdict { of: Of::Token(proof), message: message.into() })
    }

    /// Takes the verdict.
    pub fn verdict(self, verdict: Verdict) -> Decided {
        let wrong = Failure::of(SaslCondition::NotAuthorized);
        match (self.of, verdict) {
            (_, Verdict::Unknown(why)) => Decided::Unknown(why),
            (Of::Password { .. }, Verdict::No) => Decided::Refused(wrong),
            (Of::Password { account, found: Some((identity, standing)) }, Verdict::Yes) => {
                match Failure::unless_in_use(standing) {
                    Ok(()) => Decided::There(Authenticated::new(account, identity, Mechanism::Plain), self.message),
                    Err(failure) => Decided::Refused(failure),
                }
            }
            (Of::Password { account, found: None }, Verdict::Yes) => {
                Decided::New(ExpectAdmission { account, again: false })
            }
            (Of::Token(proof), Verdict::Yes) => Decided::There(proof, self.message),
            (Of::Token(proof), Verdict::No) => Decided::Gone(proof.0.account),
        }
    }
}

/// Expects the account that is made for a user who has shown the right password for the first time.
#[derive(Debug)]
pub struct ExpectAdmission {
    account: Box<str>,
    /// It was asked for before.
    again: bool,
}

impl ExpectAdmission {
    /// The bare JID, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// The account was made by another login meanwhile, whose record is read now: that is worth one more question.
    pub fn again(self) -> Option<ExpectAdmission> {
        (!self.again).then_some(ExpectAdmission { again: true, ..self })
    }

    /// Takes the record of the account that there is now.
    ///
    /// # Errors
    /// If it cannot be read, or is out of use.
    pub fn admitted(self, found: Option<&Credentials>) -> Result<Authenticated, Failure> {
        let found = found.ok_or(Failure::UNREADABLE)?;
        Failure::unless_in_use(found.standing())?;
        Ok(Authenticated::new(self.account, found.identity(), Mechanism::Plain))
    }
}
