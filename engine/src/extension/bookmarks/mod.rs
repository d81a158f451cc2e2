//! Bookmarks between old and new clients: items (XEP-0402), one element with all of them in private
//! XML (XEP-0049), and the same element as the item of a node (XEP-0048). A write in one place
//! updates all of them (XEP-0402 4.3, XEP-0411 3).
//!
//! All three are stored, so that each is read as before. The addressed extension carries out a
//! request; this one adds its own writes, in the same commit and in turn. These writes trigger
//! nothing more. A row records that an account's bookmarks are the same in all places. Until it
//! exists, absence in one place does not count as removal, and the first read or write merges the
//! places.

mod alerts;
mod list;
mod places;

use minidom::Element;

use super::hook::{Extension, Xep};
use super::iq::{Around, Context, IqRequest, ServerFacts, Step};
use super::{are_on, pubsub, xml};
use crate::store::Found;
use list::{Bare, Bookmark, Storage};
use places::{Change, Places};

/// Namespace of the items, and name of their node.
const NEW: &str = "urn:xmpp:bookmarks:1";
/// Namespace of the element with all bookmarks, and name of its node.
const OLD: &str = "storage:bookmarks";
const PRIVATE: &str = "jabber:iq:private";

const VARS: &[&str] =
    &["urn:xmpp:bookmarks-conversion:0", "urn:xmpp:bookmarks:1#compat", "urn:xmpp:bookmarks:1#compat-pep"];

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "bookmarks",
    xeps: &[
        Xep { number: 48, version: "1.2", title: "Bookmarks" },
        Xep { number: 402, version: "1.2.0", title: "PEP Native Bookmarks" },
        Xep { number: 411, version: "1.1.0", title: "Bookmarks Conversion" },
        Xep { number: 492, version: "0.2.0", title: "Chat Notification Settings" },
    ],
    account_vars: |server| if converts(server) { VARS } else { &[] },
    joins: Some(joins),
    ..Extension::NONE
};

/// Whether all three extensions are switched on.
fn converts(server: &ServerFacts) -> bool {
    are_on(server, &["pep", "private"])
}

fn joins(context: &Context<'_>, request: &IqRequest<'_>, step: Step) -> Step {
    // A name could be written with references, but no client that wants to be understood does so.
    let names = |text: &str| memchr::memmem::find(request.payload, text.as_bytes()).is_some();
    if !(names(NEW) || names(OLD) || names("&#")) || !converts(context.server) {
        return step;
    }
    let (account, now_us) = (Box::from(request.account), context.now.wall_us);
    match (asked(request, context.bare), step) {
        (Some(Asked::Changed(change)), step) => step.join(Places::queries(&account), Join { account, now_us, change }),
        (Some(Asked::Read), step @ (Step::Read(..) | Step::InTurn(..))) => {
            let queries = vec![places::together(&account)];
            Step::InTurn(queries, Pending { account, now_us, step, apart: false }.into())
        }
        (_, step) => step,
    }
}

/// Continues after bookmarks have changed in one place.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Join {
    account: Box<str>,
    /// Time of the request, microseconds since the Unix epoch.
    now_us: u64,
    change: Change,
}

impl Join {
    pub(super) fn go_on(self, around: &Around<'_>, found: &[Found], step: Step) -> Step {
        match Places::read(found, &step) {
            Some(places) => {
                let before = places.rooms();
                let step = places.change(&self.account, self.now_us, around.bare, &self.change, step);
                step.with(alerts::changes(around.server, around.bare, &self.account, &self.change, &before))
            }
            None => step,
        }
    }
}

/// Continues before bookmarks are read, which must be the same in all places.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Pending {
    account: Box<str>,
    /// Time of the request, microseconds since the Unix epoch.
    now_us: u64,
    /// The read.
    step: Step,
    /// Whether the places are known to differ and are being read.
    apart: bool,
}

impl Pending {
    pub(super) fn go_on(self, around: &Around<'_>, found: &[Found]) -> Step {
        if !self.apart && matches!(found, [Found::Value(Some(_))]) {
            return self.step;
        }
        if !self.apart {
            return Step::Read(Places::queries(&self.account), Pending { apart: true, ..self }.into());
        }
        let batch = Places::read(found, &self.step)
            .and_then(|places| places.bring_together(&self.account, self.now_us, around.bare));
        match (batch, self.step) {
            (Some(batch), Step::Read(queries, pending) | Step::InTurn(queries, pending)) => {
                Step::Prepare(batch, queries, pending)
            }
            (_, step) => step,
        }
    }
}

/// The effect of a request on bookmarks.
enum Asked {
    /// It reads them.
    Read,
    /// It changes them.
    Changed(Change),
}

fn asked(request: &IqRequest<'_>, bare: Bare) -> Option<Asked> {
    let payload = xml::parse(request.payload)?;
    if request.namespace == PRIVATE {
        let storage = payload.get_child("storage", OLD)?;
        return Some(match request.set {
            true => Asked::Changed(Change::Private(Storage::of(storage, bare))),
            false => Asked::Read,
        });
    }
    let first = payload.children().find(|child| child.ns() == request.namespace)?;
    if request.namespace != pubsub::NS && request.namespace != pubsub::NS_OWNER {
        return None;
    }
    let item = || first.get_child("item", pubsub::NS);
    let change = match (request.set, first.name(), first.attr("node")?) {
        (false, "items", NEW | OLD) => return Some(Asked::Read),
        (true, "publish", NEW) => Change::Published(bookmark(item()?)?),
        (true, "retract", NEW) => Change::Retracted(item()?.attr("id")?.into()),
        (true, "purge" | "delete", NEW) => Change::Cleared,
        (true, "publish", OLD) => Change::Node(Storage::of(item()?.get_child("storage", OLD)?, bare)),
        _ => return None,
    };
    Some(Asked::Changed(change))
}

/// The bookmark in an item.
fn bookmark(item: &Element) -> Option<Bookmark> {
    let payload = item.get_child("conference", NEW)?;
    Some(Bookmark { id: item.attr("id")?.into(), payload: payload.clone() })
}
