//! Rosters and subscription requests (XEP-0227 4.4, 4.9).

use std::collections::BTreeMap;

use minidom::Element;

use super::{Counts, NS_CLIENT, NS_ROSTER, Word, xml};
use crate::extension::subscription::State;
use crate::limits::{
    ROSTER_BYTES_MAX, ROSTER_GROUP_BYTES_MAX, ROSTER_GROUPS_MAX, ROSTER_ITEMS_MAX, ROSTER_NAME_BYTES_MAX,
    ROSTER_PENDING_MAX, ROSTER_REQUEST_BYTES_MAX, beginning,
};
use crate::store::Batch;
use crate::store::roster::{self as rows, Groups, ItemView, Version};
use crate::wire::jid::Jid;
use crate::wire::text::{escape_into, write_attribute};

/// A contact being imported.
#[derive(Clone, Debug, Default)]
struct Contact {
    listed: bool,
    approved: bool,
    to: bool,
    from: bool,
    asked: bool,
    name: String,
    /// In their stored form.
    groups: Vec<u8>,
    /// The contact's unanswered request, if any.
    request: Option<Vec<u8>>,
}

impl Contact {
    fn state(&self) -> State {
        match (self.to, self.from, self.asked, self.request.is_some()) {
            (true, true, ..) => State::Both,
            (true, false, _, true) => State::ToPendingIn,
            (true, false, ..) => State::To,
            (false, true, true, _) => State::FromPendingOut,
            (false, true, ..) => State::From,
            (false, false, true, true) => State::NonePendingOutIn,
            (false, false, true, false) => State::NonePendingOut,
            (false, false, false, true) => State::NonePendingIn,
            (false, false, false, false) => State::None,
        }
    }
}

/// A roster being imported: contacts and requests in any order.
#[derive(Clone, Debug, Default)]
pub(super) struct Arriving {
    contacts: BTreeMap<Box<str>, Contact>,
    listed: usize,
    hidden: usize,
    bytes: usize,
}

impl Arriving {
    /// Reads a child of the roster's query.
    pub(super) fn item(&mut self, owner: &str, element: &Element, words: &mut Vec<Word>) {
        const WHAT: &str = "contact";
        let mut word = |why: &str| words.push(Word::new(WHAT, why));
        if !element.is("item", NS_ROSTER) {
            return word("an element of the roster is not an item");
        }
        let Some(jid) = element.attr("jid").and_then(bare) else { return word("it has no valid JID") };
        if &*jid == owner {
            return word("a user's own JID cannot be in the roster");
        }
        let (to, from) = match element.attr("subscription").unwrap_or("none") {
            "none" => (false, false),
            "to" => (true, false),
            "from" => (false, true),
            "both" => (true, true),
            "remove" => return word("subscription is `remove`"),
            _ => {
                word("subscription must be none, to, from or both; taken as none");
                (false, false)
            }
        };
        let given = element.attr("name").unwrap_or_default();
        let name = beginning(given, ROSTER_NAME_BYTES_MAX);
        if name.len() < given.len() {
            word("the name is too long and was truncated");
        }
        let mut names: Vec<String> = Vec::new();
        for group in element.children().filter(|child| child.is("group", NS_ROSTER)) {
            let name = group.text();
            match () {
                () if name.is_empty() || names.contains(&name) => {}
                () if name.len() > ROSTER_GROUP_BYTES_MAX => {
                    word("the name of a group is too long: the contact is not in that group")
                }
                () if names.len() == ROSTER_GROUPS_MAX => word("too many groups: the contact is not in all of them"),
                () => names.push(name),
            }
        }
        let mut groups = Vec::new();
        Groups::encode(&names, &mut groups);
        let there = self.contacts.get(&jid);
        let cost = jid.len() + name.len() + groups.len() + 40;
        if there.is_some_and(|there| there.listed) {
            return word("it is in the roster twice; the first one is used");
        }
        if self.listed == ROSTER_ITEMS_MAX || self.bytes + cost > ROSTER_BYTES_MAX {
            return word("the roster is full");
        }
        self.hidden -= usize::from(there.is_some());
        self.listed += 1;
        self.bytes += cost;
        let contact = self.contacts.entry(jid).or_default();
        *contact = Contact {
            listed: true,
            approved: matches!(element.attr("approved"), Some("true" | "1")),
            to,
            from,
            asked: element.attr("ask") == Some("subscribe"),
            name: name.to_owned(),
            groups,
            request: contact.request.take(),
        };
    }

    /// Reads a subscription request.
    pub(super) fn request(&mut self, owner: &str, element: &Element, words: &mut Vec<Word>) {
        const WHAT: &str = "request";
        let mut word = |why: &str| words.push(Word::new(WHAT, why));
        if element.attr("type") != Some("subscribe") {
            return word("a presence is not a subscription request");
        }
        let Some(jid) = element.attr("from").and_then(bare).filter(|jid| **jid != *owner) else {
            return word("it has no valid `from`");
        };
        // It is stored without addresses, which follow from its key.
        let mut stanza = element.clone();
        for name in ["from", "to"] {
            stanza.attrs_mut().remove("", name);
        }
        let mut request = Vec::new();
        xml::write(&mut request, &stanza, &stanza.ns());
        if request.len() > ROSTER_REQUEST_BYTES_MAX || !xml::is_stanza(&request) {
            // Of a longer request only type and sender are stored (RFC 6121 3.1.3).
            word("it is long: only the sender is kept");
            request.clear();
        }
        let cost = jid.len() + request.len() + 40;
        let new = !self.contacts.contains_key(&jid);
        if (new && self.hidden == ROSTER_PENDING_MAX) || self.bytes + cost > ROSTER_BYTES_MAX {
            return word("too many requests are already pending");
        }
        self.hidden += usize::from(new);
        self.bytes += cost;
        self.contacts.entry(jid).or_default().request = Some(request);
    }

    /// Writes the rows. The time names the roster's history: no other account of this name is
    /// imported at that time.
    pub(super) fn finish(self, owner: &str, now_us: u64, batch: &mut Batch, counts: &mut Counts) {
        if self.contacts.is_empty() {
            return;
        }
        rows::put_version(batch, owner, Version { history: now_us.max(1), ..Version::default() });
        for (jid, contact) in &self.contacts {
            let state = contact.state();
            // A contact that already receives the presence has nothing to request.
            let pending = contact.request.as_deref().filter(|_| state.pending_in());
            if !contact.listed && pending.is_none() {
                continue;
            }
            counts.contacts += u64::from(contact.listed);
            counts.requests += u64::from(pending.is_some());
            let item = ItemView {
                listed: contact.listed,
                approved: contact.approved,
                state: state as u8,
                ver: Version::default().current,
                name: &contact.name,
                groups: Groups::from_encoded(&contact.groups).unwrap_or_default(),
                pending: pending.unwrap_or_default(),
                ..ItemView::default()
            };
            let mut record = Vec::new();
            item.encode(&mut record);
            rows::put(batch, owner, jid, &record);
        }
    }
}

/// The normalised bare JID of an address.
pub(super) fn bare(jid: &str) -> Option<Box<str>> {
    Some(Jid::parse(jid).ok()?.bare_str().into())
}

/// Appends a contact's item; nothing if the roster does not list it.
pub(super) fn write_item(out: &mut Vec<u8>, contact: &str, item: &ItemView<'_>) {
    let Some(state) = State::from_number(item.state).filter(|_| item.listed) else { return };
    out.extend_from_slice(b"<item");
    write_attribute(out, "jid", contact);
    if !item.name.is_empty() {
        write_attribute(out, "name", item.name);
    }
    write_attribute(out, "subscription", state.subscription());
    if state.pending_out() {
        write_attribute(out, "ask", "subscribe");
    }
    if item.approved {
        write_attribute(out, "approved", "true");
    }
    out.push(b'>');
    for group in item.groups.iter() {
        out.extend_from_slice(b"<group>");
        escape_into(out, group);
        out.extend_from_slice(b"</group>");
    }
    out.extend_from_slice(b"</item>");
}

/// Appends the unanswered request of a contact. Returns whether there is one.
pub(super) fn write_request(out: &mut Vec<u8>, owner: &str, contact: &str, item: &ItemView<'_>) -> bool {
    if !State::from_number(item.state).is_some_and(State::pending_in) {
        return false;
    }
    out.extend_from_slice(b"<presence");
    write_attribute(out, "xmlns", NS_CLIENT);
    write_attribute(out, "from", contact);
    write_attribute(out, "to", owner);
    // A request that was not stored in full has only its type.
    out.extend_from_slice(item.pending.strip_prefix(b"<presence").unwrap_or(b" type='subscribe'/>"));
    true
}
