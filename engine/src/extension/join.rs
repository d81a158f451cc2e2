//! What a request of one extension leads to in another one, when it has come to its end.

use super::{Around, Step, avatars, bookmarks};
use crate::store::{Found, Query};

/// What an extension makes of the end of another one's request, in a row for each that joins requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Join {
    /// Of a vCard, or of what is published as an avatar.
    Avatars(avatars::Join),
    /// Of bookmarks.
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
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    request: Request,
    join: Join,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq)]
enum Request {
    /// It has asked so many questions; those of who has joined come behind them.
    Begins { pending: super::Pending, questions: usize },
    /// It has asked more. What who has joined has asked for was found before.
    GoesOn { pending: super::Pending, joined: Vec<Found> },
    /// It asks nothing.
    Ends(Step),
}

impl Step {
    /// This, and when it has come to an end without an error, what `join` makes of that end with what these bring. They are read in turn,
    /// with what the step itself reads, so before it writes.
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

/// Goes on when a request has come to its end.
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
