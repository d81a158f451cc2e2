//! A service's answer, and its effect on the registration (XEP-0357 7.1).

use super::super::change::{Change, Dropped};
use super::super::iq::{Condition, Step};
use super::{Pending, found, query, written};
use crate::extension;
use crate::store::{Found, Query};
use crate::wire::Element;
use crate::wire::error::NS_STANZAS;

/// The outcome of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Outcome {
    /// The service has accepted it.
    Took,
    /// The service may accept the next one: its error, or `None` if it did not answer.
    Later(Option<Condition>),
    /// The service accepts no more.
    Never(Condition),
}

impl Outcome {
    /// The outcome in an answer. Errors of type `wait`, and those about the route rather than the
    /// node, may be temporary.
    pub fn of(answer: &Element<'_>) -> Outcome {
        if answer.kind().as_deref() != Some("error") {
            return Outcome::Took;
        }
        let Some(error) = answer.children().find(|child| child.name() == "error") else { return Outcome::Later(None) };
        let waits = error.attribute("type").as_deref() == Some("wait");
        let mut conditions = error.cursor().filter_map(|event| match event {
            crate::wire::Event::Start(start) if start.namespace() == NS_STANZAS => Condition::from_name(start.name()),
            _ => None,
        });
        let condition = conditions.next();
        match condition {
            Some(condition) if !waits && !passes(condition) => Outcome::Never(condition),
            condition => Outcome::Later(condition),
        }
    }

    /// Its name in the log.
    pub fn reason(self) -> &'static str {
        match self {
            Outcome::Took => "",
            Outcome::Later(None) => "no-answer",
            Outcome::Later(Some(condition)) | Outcome::Never(condition) => condition.name(),
        }
    }
}

/// Whether a condition means that the service is absent or in trouble, whatever its node.
fn passes(condition: Condition) -> bool {
    matches!(
        condition,
        Condition::InternalServerError
            | Condition::RecipientUnavailable
            | Condition::RemoteServerNotFound
            | Condition::RemoteServerTimeout
            | Condition::ResourceConstraint
            | Condition::ServiceUnavailable
            | Condition::UndefinedCondition
    )
}

/// Records an outcome in the row of a user's registrations, at this second since the Unix epoch.
pub fn note(account: &str, jid: &str, node: &str, outcome: Outcome, now_s: u64) -> (Vec<Query>, extension::Pending) {
    let noted = Noted { jid: jid.into(), node: node.into(), outcome, now_s };
    (vec![query(account)], Pending::Note(noted).into())
}

/// The outcome of a publication, to be recorded.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Noted {
    /// The service and its node.
    jid: Box<str>,
    node: Box<str>,
    outcome: Outcome,
    /// Time of the outcome, seconds since the Unix epoch.
    now_s: u64,
}

impl Noted {
    /// Continues with the registrations.
    pub(super) fn go_on(self, rows: &[Found]) -> Step {
        let Noted { jid, node, outcome, now_s } = self;
        let before = found(rows).unwrap_or_default();
        let mut all = before.clone();
        let ended = match outcome {
            Outcome::Took => {
                all.worked(&jid, &node);
                false
            }
            Outcome::Later(_) => all.failed(&jid, &node, now_s),
            Outcome::Never(_) => {
                all.remove(&jid, Some(&node));
                all != before
            }
        };
        if all == before {
            return Step::Result(Vec::new());
        }
        let mut changes = written(&all);
        if ended {
            changes.push(Change::Dropped(Box::new(Dropped { service: jid, reason: outcome.reason().into() })));
        }
        Step::Change(changes, Vec::new())
    }
}
