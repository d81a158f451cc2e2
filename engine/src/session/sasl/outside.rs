//! Users of an external back end, which is asked whether a password is right, and whether a user
//! still exists.
//!
//! The question leaves the shard, and the answer returns as a [`Verdict`]. No key of such a
//! password is stored, so only PLAIN can be used. A token (XEP-0484) is checked here, and is valid
//! only while its user exists.

use std::fmt;

use super::{Authenticated, Failure, Mechanism, PlainAttempt};
use crate::store::account::{Credentials, Incarnation, Standing};
use crate::wire::error::SaslCondition;

/// A question to the external back end of a domain.
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

    /// The password to check; `None` asks whether the user exists.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// A question of a host's own, for tests and trials.
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

/// The answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The password is right, or the user exists.
    Yes,
    /// The password is wrong, or the user does not exist.
    No,
    /// There is no answer.
    Unknown(Unknown),
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// Nothing was asked: too many questions are waiting.
    Busy,
    /// Nothing was asked: the back end has failed recently.
    Down,
    /// The question was asked, and no answer arrived in time.
    Late,
    /// The question was asked, and the answer was invalid.
    Wrong,
}

impl Unknown {
    /// Whether the back end has done work for the question. The attempt is then charged like a
    /// failed one. Otherwise, a name or password that makes the back end fail could be retried
    /// without limit.
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
    /// A password, and the existing account, if any.
    Password { account: Box<str>, found: Option<((Incarnation, u64), Standing)> },
    /// The user of a valid token.
    Token(Authenticated),
}

/// The consequence of a verdict.
#[derive(Debug)]
pub enum Decided {
    /// The user is authenticated; with the mechanism's final message.
    There(Authenticated, Box<[u8]>),
    /// The user is authenticated, and has no account here yet.
    New(ExpectAdmission),
    /// The token was valid, but its user is gone.
    Gone(Box<str>),
    /// The login fails.
    Refused(Failure),
    /// There is no answer.
    Unknown(Unknown),
}

impl PlainAttempt {
    /// Takes the account's record, or `None` if there is no account yet. Returns the question, and
    /// the state that waits for the answer.
    pub fn asks_outside(self, found: Option<&Credentials>) -> (Question, ExpectVerdict) {
        let (account, password) = self.into_parts();
        let found = found.map(|found| (found.identity(), found.standing()));
        let question = Question { account: account.clone(), password: Some(password) };
        (question, ExpectVerdict { of: Of::Password { account, found }, message: Box::default() })
    }
}

impl ExpectVerdict {
    /// A token was valid, but its user may be gone. Returns the question, and the state that waits
    /// for the answer. `message` is the mechanism's final one.
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

/// Expects the account that is created for a user whose password was accepted for the first time.
#[derive(Debug)]
pub struct ExpectAdmission {
    account: Box<str>,
    /// Whether it was requested before.
    again: bool,
}

impl ExpectAdmission {
    /// The bare JID, normalised.
    pub fn bare(&self) -> &str {
        &self.account
    }

    /// Another login has created the account in the meantime, and its record is read now. Permits
    /// one more attempt.
    pub fn again(self) -> Option<ExpectAdmission> {
        (!self.again).then_some(ExpectAdmission { again: true, ..self })
    }

    /// Takes the record of the account that now exists.
    ///
    /// # Errors
    /// If it cannot be read, or is out of use.
    pub fn admitted(self, found: Option<&Credentials>) -> Result<Authenticated, Failure> {
        let found = found.ok_or(Failure::UNREADABLE)?;
        Failure::unless_in_use(found.standing())?;
        Ok(Authenticated::new(self.account, found.identity(), Mechanism::Plain))
    }
}
