//! Continuations as data: how an extension continues a request when the store has answered.
//!
//! An extension that continues after a read has its own type `Pending`, with all its state, and a
//! method `go_on`. Such a value contains nothing specific to this process: no index, no monotonic
//! time, no pointer to shared mutable state. Therefore pending requests can be listed and compared,
//! and could be stored and continued elsewhere.

use super::written::nested;
use super::{Around, Step};
use crate::store::Found;

/// How an extension continues, once, when its reads are done.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Pending(#[serde(deserialize_with = "nested")] Of);

macro_rules! pending {
    ($($row:ident($module:ident),)+) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        enum Of {
            $($row(Box<super::$module::Pending>),)+
        }

        impl Pending {
            /// Continues with the results.
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

// One row per extension that continues after a read.
pending! {
    Avatars(avatars),
    Bookmarks(bookmarks),
    Inbox(inbox),
    Join(join),
    Last(last),
    Mam(mam),
    Private(private),
    Pubsub(pubsub),
    Push(push),
    Upload(upload),
    Vcard(vcard),
}
