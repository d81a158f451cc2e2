//! When absent members of rooms are woken: settings in bookmarks (XEP-0492).

use minidom::Element;

use super::NEW;
use super::list::{Bare, Bookmark};
use super::places::Change;
use crate::extension::change;
use crate::extension::iq::ServerFacts;
use crate::store::room::{Alert, When};
use crate::wire::jid::local_of;

const NS: &str = "urn:xmpp:notification-settings:1";

/// The setting of a bookmark, for a phone: push services wake phones (XEP-0492 3.2, 4).
fn setting(payload: &Element) -> Option<When> {
    let notify = payload.get_child("extensions", NEW)?.get_child("notify", NS)?;
    let rank = |element: &Element| match (element.attr("identity-category"), element.attr("identity-type")) {
        (Some("client"), Some("phone")) => Some(2),
        (Some("client"), None) => Some(1),
        (None, None) => Some(0),
        _ => None,
    };
    let (_, chosen) =
        notify.children().filter_map(|element| Some((rank(element)?, element))).max_by_key(|(rank, _)| *rank)?;
    match chosen.name() {
        "always" => Some(When::Always),
        "on-mention" => Some(When::Mentioned),
        _ => None,
    }
}

/// What the rooms of these bookmarks are told of a user. A bookmark that is gone has no setting.
pub(super) fn changes(
    server: &ServerFacts,
    bare: Bare,
    account: &str,
    change: &Change,
    before: &[Box<str>],
) -> Vec<change::Change> {
    let of = |id: &str, bookmark: Option<&Bookmark>| {
        let room = bare(id)?;
        let (_, domain) = room.split_once('@')?;
        if !server.rooms.iter().any(|own| **own == *domain) {
            return None;
        }
        let alert = bookmark.and_then(|bookmark| {
            let nick = bookmark.payload.get_child("nick", NEW).map(Element::text).filter(|nick| !nick.is_empty());
            let nick = nick.unwrap_or_else(|| local_of(account).into()).to_lowercase();
            setting(&bookmark.payload).map(|when| Alert { when, nick: nick.into() })
        });
        Some(change::Change::Alert { room, alert })
    };
    match change {
        Change::Published(bookmark) => of(&bookmark.id, Some(bookmark)).into_iter().collect(),
        Change::Retracted(id) => of(id, None).into_iter().collect(),
        Change::Cleared => before.iter().filter_map(|id| of(id, None)).collect(),
        // A bookmark of the old form has no settings; those of its item stay.
        Change::Private(_) | Change::Node(_) => Vec::new(),
    }
}
