//! What one extension adds to the end of another extension's request.

use super::{Around, Step, avatars, bookmarks};
use crate::store::{Found, Query};

/// How an extension continues after another one's request; one variant per extension that joins
/// requests.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Join {
    /// After a vCard or an avatar has been stored.
    Avatars(avatars::Join),
    /// After bookmarks have been stored.
    Bookmarks(bookmarks::Join),
}

impl Join {
    fn go_on(self, around: &Around<'_>, found: &[Found], step: Step) -> Step {
        match self {
            Join::Avatars(join) => join.go_on(found, step),
            Join::Bookmarks(join) => join.go_on(around, found, step),
        }
    }
}

impl From<avatars::Join> for Join {
    fn from(join: avatars::Join) -> Join {
        Join::Avatars(join)
    }
}

impl From<bookmarks::Join> for Join {
    fn from(join: bookmarks::Join) -> Join {
        Join::Bookmarks(join)
    }
}

/// A request that another extension has joined.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Pending {
    request: Request,
    join: Join,
}

/// How far the joined request has got.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Request {
    /// It has asked this many queries; the joining extension's queries follow them.
    Begins { pending: super::Pending, questions: usize },
    /// It has asked more queries. The results for the joining extension arrived before.
    GoesOn { pending: super::Pending, joined: Vec<Found> },
    /// It reads nothing.
    Ends(Step),
}

impl Step {
    /// Runs this step; when it has ended without an error, `join` continues with that end and the
    /// results of these queries. They are read in turn, together with the step's own reads, so
    /// before it writes.
    pub(super) fn join(self, queries: Vec<Query>, join: impl Into<Join>) -> Step {
        let join = join.into();
        match self {
            Step::Error(_) => self,
            Step::Read(mut all, pending) | Step::InTurn(mut all, pending) => {
                let request = Request::Begins { pending, questions: all.len() };
                all.extend(queries);
                Step::InTurn(all, Pending { request, join }.into())
            }
            step => Step::InTurn(queries, Pending { request: Request::Ends(step), join }.into()),
        }
    }
}

impl Pending {
    pub(super) fn go_on(self, around: &Around<'_>, found: &[Found]) -> Step {
        let join = self.join;
        match self.request {
            Request::Begins { pending, questions } => {
                let (own, joined) = found.split_at(questions.min(found.len()));
                end_of(around, pending.go_on(around, own), joined, join)
            }
            Request::GoesOn { pending, joined } => end_of(around, pending.go_on(around, found), &joined, join),
            Request::Ends(step) => join.go_on(around, found, step),
        }
    }
}

/// Continues when the request has ended.
fn end_of(around: &Around<'_>, step: Step, joined: &[Found], join: Join) -> Step {
    match step {
        Step::Error(_) | Step::Refuse(..) => step,
        Step::Read(queries, pending) | Step::InTurn(queries, pending) => {
            let request = Request::GoesOn { pending, joined: joined.to_vec() };
            Step::Read(queries, Pending { request, join }.into())
        }
        step => join.go_on(around, joined, step),
    }
}
