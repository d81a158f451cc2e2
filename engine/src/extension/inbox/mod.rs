//! What a user has missed of the rooms that the user is a member of: one request after login, with
//! the elements of XEP-0430.
//!
//! An entry is a room in which the user has an affiliation, in the order of addresses. Contacts are
//! no entries, and the last message is left out. Therefore the feature of XEP-0430 is not
//! advertised, but `urn:throng:rooms:0` is. Each entry comes with the place up to which the user
//! has the messages of the room: an archive query continues after it (XEP-0313).

pub mod missed;

use super::hook::{Extension, Xep};
use super::iq::{Around, Condition, Context, Feature, IqRequest, ServerFacts, Step, Target, Verbs};
use super::xml;
use crate::limits::ROOM_COUNTS_PAGE;
use crate::store::Found;
use crate::store::room::{known_query, known_room};
use missed::{Asked, ENTRY_BYTES, NS, NS_INBOX, NS_RSM};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "inbox",
    xeps: &[Xep { number: 430, version: "0.2.0", title: "Inbox" }],
    requests: &[FEATURE],
    ..Extension::NONE
};

const FEATURE: Feature = Feature {
    namespace: NS_INBOX,
    name: "inbox",
    targets: &[Target::Own],
    verbs: Verbs::Get,
    offered: has_rooms,
    asks_roster: false,
    server_vars: &[],
    account_vars: &[NS],
    handle,
};

fn has_rooms(server: &ServerFacts) -> bool {
    !server.rooms.is_empty()
}

fn handle(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some(inbox) = xml::parse(request.payload) else { return Step::Error(Condition::BadRequest.into()) };
    let set = inbox.get_child("set", NS_RSM);
    let text = |name| set.and_then(|set| set.get_child(name, NS_RSM)).map(minidom::Element::text);
    let most = match text("max").map(|max| max.trim().parse::<usize>()) {
        None => ROOM_COUNTS_PAGE,
        Some(Ok(max)) => max.clamp(1, ROOM_COUNTS_PAGE),
        Some(Err(_)) => return Step::Error(Condition::BadRequest.into()),
    };
    // XEP-0059 2.3, 2.6: pages follow each other only.
    if text("before").is_some() || text("index").is_some() {
        return Step::Error(Condition::FeatureNotImplemented.into());
    }
    let after = match text("after").filter(|after| !after.is_empty()).map(|after| (context.bare)(&after)) {
        Some(None) => return Step::Error(Condition::ItemNotFound.into()),
        after => after.flatten(),
    };
    let unread_only = matches!(inbox.attr("unread-only"), Some("true" | "1"));
    let query = known_query(request.account, after.as_deref(), most + 1);
    let pending = Pending { most, room: context.room, unread_only };
    Step::Paced(Box::new(Step::Read(vec![query], pending.into())))
}

/// Waits for the rooms in which the user has a standing.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Pending {
    /// Rooms of a page.
    most: usize,
    /// Bytes of a page of an archive.
    room: usize,
    unread_only: bool,
}

impl Pending {
    pub(super) fn go_on(self, _: &Around<'_>, found: &[Found]) -> Step {
        let [Found::Rows { rows, more }] = found else { return Step::Error(Condition::InternalServerError.into()) };
        let Pending { most, room, unread_only } = self;
        // One page is enough for most users: it may be longer than that of an archive, and leaves a
        // quarter of what a session may leave unread.
        let (mut bytes, bytes_max) = (0, room + room / 2);
        let fits = |name: &&str| {
            let first = bytes == 0;
            bytes += ENTRY_BYTES + name.len();
            first || bytes <= bytes_max
        };
        let rooms: Vec<Box<str>> =
            rows.iter().filter_map(known_room).take(most).take_while(fits).map(Into::into).collect();
        let complete = !more && rooms.len() == rows.len();
        Step::Missed(Asked { rooms, complete, unread_only })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Row;

    fn pending(most: usize, room: usize) -> Pending {
        Pending { most, room, unread_only: true }
    }

    fn known(rooms: usize) -> Vec<Found> {
        let rows = (0..rooms).map(|at| Row {
            sort: format!("\u{6}{at:05}@conference.x").into_bytes().into(),
            value: [1].as_slice().into(),
        });
        vec![Found::Rows { rows: rows.collect(), more: false }]
    }

    fn page(pending: Pending, rooms: usize) -> Asked {
        let server = ServerFacts::default();
        let domains = crate::id::Domains::of_users("x").into();
        let around = Around { server: &server, domains: &domains, bare: |_| None };
        match pending.go_on(&around, &known(rooms)) {
            Step::Missed(asked) => asked,
            step => panic!("{step:?}"),
        }
    }

    /// An account in any number of rooms asks for a bounded number at once, of bounded size.
    #[test]
    fn a_page_has_a_bounded_number_of_rooms_and_bytes() {
        let all = page(pending(200, 1 << 20), 201);
        assert_eq!((all.rooms.len(), all.complete), (200, false));
        let last = page(pending(200, 1 << 20), 200);
        assert_eq!((last.rooms.len(), last.complete), (200, true));
        let small = page(pending(200, 2_000), 201);
        assert!((5..20).contains(&small.rooms.len()) && !small.complete, "{}", small.rooms.len());
        assert_eq!(page(pending(200, 1), 201).rooms.len(), 1, "there is progress");
        assert!(page(pending(200, 1 << 20), 0).complete);
    }
}
