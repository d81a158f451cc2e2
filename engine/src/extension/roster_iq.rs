//! The XML of `jabber:iq:roster` (RFC 6121 2): parses requests and writes results and pushes. It
//! must never know how a roster is stored or changed.

use super::hook::Extension;
use super::iq::{Context, Feature, IqRequest, RosterRequest, ServerFacts, SetItem, Step, Target, Verbs, always};
use super::subscription::State;
use super::{Condition, xml};
use crate::store::roster::{ItemView, Version};

/// The namespace of roster management (RFC 6121 2.1).
pub const NS: &str = "jabber:iq:roster";

/// RFC 6121 2.1: the user's own roster; another's is `<forbidden/>` (2.3.3).
pub const FEATURE: Feature = Feature {
    namespace: NS,
    name: "query",
    targets: &[Target::Own],
    verbs: Verbs::GetSet,
    offered: always,
    asks_roster: false,
    server_vars: &[NS],
    account_vars: &[],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "roster",
    needed: true,
    requests: &[FEATURE],
    stream_feature: Some(stream_feature),
    ..Extension::NONE
};

/// Roster versioning (RFC 6121 2.6.1) and pre-approval (3.4.1).
fn stream_feature(_: &ServerFacts, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<ver xmlns='urn:xmpp:features:rosterver'/>");
    out.extend_from_slice(b"<sub xmlns='urn:xmpp:features:pre-approval'/>");
}

fn handle(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    match parse(request.payload, request.set, context.bare) {
        Ok(request) => Step::Roster(request),
        Err(condition) => Step::Error(condition.into()),
    }
}

/// Limit of pushes in place of a whole roster (RFC 6121 2.6.3); with more changes the whole roster
/// is sent.
const PUSHES_MAX: usize = 32;

/// The answer to a roster get (RFC 6121 2.1.4, 2.6.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GetAnswer {
    /// The result's payload; empty if the client is up to date or gets `pushes`.
    pub payload: Vec<u8>,
    /// Payloads of roster pushes to the requesting resource, sent after the result in this order.
    pub pushes: Vec<Vec<u8>>,
}

/// Reads the payload of a roster get or set. `bare` normalises an address and returns `None` if it
/// is invalid or has a resource.
///
/// # Errors
/// RFC 6121 2.3.3: [`Condition::BadRequest`] unless a set has exactly one item with a bare JID and
/// no duplicate group, [`Condition::NotAcceptable`] for a group without a name.
pub fn parse(payload: &[u8], set: bool, bare: impl Fn(&str) -> Option<Box<str>>) -> Result<RosterRequest, Condition> {
    let query = xml::parse(payload).filter(|element| element.is("query", NS)).ok_or(Condition::BadRequest)?;
    let mut items = query.children().filter(|child| child.is("item", NS));
    if !set {
        return match items.next() {
            None => Ok(RosterRequest::Get { ver: query.attr("ver").map(Box::from) }),
            Some(_) => Err(Condition::BadRequest),
        };
    }
    let (Some(item), None) = (items.next(), items.next()) else {
        return Err(Condition::BadRequest);
    };
    let jid = item.attr("jid").and_then(bare).ok_or(Condition::BadRequest)?;
    if item.attr("subscription") == Some("remove") {
        return Ok(RosterRequest::Remove(jid));
    }
    let mut groups = Vec::<Box<str>>::new();
    for group in item.children().filter(|child| child.is("group", NS)) {
        let name = group.text().into_boxed_str();
        if name.is_empty() {
            return Err(Condition::NotAcceptable);
        }
        if groups.contains(&name) {
            return Err(Condition::BadRequest);
        }
        // The roster itself limits the number of groups; this only bounds the search above.
        if groups.len() > crate::limits::ROSTER_GROUPS_MAX {
            return Err(Condition::NotAcceptable);
        }
        groups.push(name);
    }
    Ok(RosterRequest::Set(SetItem { jid, name: item.attr("name").unwrap_or_default().into(), groups }))
}

/// Answers a roster get: nothing for a client that is up to date, pushes for one that is slightly
/// behind, else the whole roster (RFC 6121 2.6.3). `items` are the listed ones.
pub(super) fn answer<'a>(
    version: Version,
    items: impl Iterator<Item = (&'a str, ItemView<'a>)> + Clone,
    ver: Option<&str>,
) -> GetAnswer {
    let known = ver.and_then(|ver| version.known(ver));
    if let Some(known) = known.filter(|known| (version.removal..=version.current).contains(known)) {
        let mut changed: Vec<_> = items.clone().filter(|(_, item)| item.ver > known).take(PUSHES_MAX + 1).collect();
        if changed.len() <= PUSHES_MAX {
            changed.sort_by_key(|(_, item)| item.ver);
            let pushes = changed.iter().map(|(contact, item)| push(&version, item.ver, contact, item)).collect();
            return GetAnswer { payload: Vec::new(), pushes };
        }
    }
    let mut payload = open(&version, version.current);
    for (contact, item) in items {
        write_item(&mut payload, contact, &item);
    }
    payload.extend_from_slice(b"</query>");
    GetAnswer { payload, pushes: Vec::new() }
}

/// The payload of a push of an item's current state (RFC 6121 2.1.6), with this number of the
/// roster's history.
pub(super) fn push(version: &Version, number: u64, contact: &str, item: &ItemView<'_>) -> Vec<u8> {
    let mut out = open(version, number);
    write_item(&mut out, contact, item);
    out.extend_from_slice(b"</query>");
    out
}

/// The payload of a push of a removal (RFC 6121 2.5.2).
pub(super) fn push_removed(version: &Version, contact: &str) -> Vec<u8> {
    let mut out = open(version, version.current);
    out.extend_from_slice(b"<item");
    xml::attribute(&mut out, "jid", contact);
    out.extend_from_slice(b" subscription='remove'/></query>");
    out
}

fn open(version: &Version, number: u64) -> Vec<u8> {
    format!("<query xmlns='{NS}' ver='{}'>", version.text(number)).into_bytes()
}

fn write_item(out: &mut Vec<u8>, contact: &str, item: &ItemView<'_>) {
    let state = state_of(item);
    out.extend_from_slice(b"<item");
    xml::attribute(out, "jid", contact);
    if !item.name.is_empty() {
        xml::attribute(out, "name", item.name);
    }
    xml::attribute(out, "subscription", state.subscription());
    if state.pending_out() {
        out.extend_from_slice(b" ask='subscribe'");
    }
    if item.approved {
        out.extend_from_slice(b" approved='true'");
    }
    let mut groups = item.groups.iter().peekable();
    if groups.peek().is_none() {
        out.extend_from_slice(b"/>");
        return;
    }
    out.push(b'>');
    for group in groups {
        xml::text_element(out, "group", group);
    }
    out.extend_from_slice(b"</item>");
}

/// The state of an item, whose number was checked when it was loaded.
pub(super) fn state_of(item: &ItemView<'_>) -> State {
    State::from_number(item.state).expect("checked when it was loaded")
}
