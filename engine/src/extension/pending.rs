//! What a request waits for, as data: how its extension goes on when the store has answered.
//!
//! An extension that goes on after a read has a type `Pending` of its own, with all that it knows by then, and a method `go_on`.
//! Nothing in such a value is of this process: no index, no monotonic time, no pointer to anything that others change. So what
//! waits can be listed and compared, and could be written down and carried on elsewhere.

use super::{Around, Step};
use crate::store::Found;

/// How an extension goes on when its reads are done, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending(Of);

macro_rules! pending {
    ($($row:ident($module:ident),)+) => {
        #[derive(Clone, Debug, PartialEq)]
        enum Of {
            $($row(Box<super::$module::Pending>),)+
        }

        impl Pending {
            /// Goes on with what was found.
            pub fn go_on(self, around: &Around<'_>, found: &[Found]) -> Step {
                match self.0 {
                    $(Of::$row(pending) => pending.go_on(around, found),)+
                }
            }
        }

        $(impl From<super::$module::Pending> for Pending {
            fn from(pending: super::$module::Pending) -> Pending {
                Pending(Of::$row(Box::new(pending)))
            }
        })+
    };
}

// A row for each extension that goes on after a read.
pending! {
    Avatars(avatars),
    Bookmarks(bookmarks),
    Join(join),
    Last(last),
    Mam(mam),
    Private(private),
    Pubsub(pubsub),
    Push(push),
    Upload(upload),
    Vcard(vcard),
}
