//! Push Notifications (XEP-0357): clients register services that wake their devices, and the server
//! notifies these services of waiting messages.
//!
//! A user's registrations are one row. It is read when a message arrives for which a device may
//! have to be woken; in memory a mark on the user's sessions, or a note on the account, records
//! that there is a row. The shard decides when and how often a service is notified, and which
//! devices are skipped (`requests::push`).

pub mod answer;
pub mod message;
pub mod publish;
pub mod row;

use minidom::Element;

use super::change::Change;
use super::hook::{Extension, Record, Xep};
use super::iq::{Around, Condition, Context, Feature, IqRequest, Step, Target, Verbs, always};
use super::note::Note;
use super::xml;
use crate::id::{self, ActorKind, Service};
use crate::limits::{PUSH_NODE_BYTES_MAX, PUSH_OPTIONS_BYTES_MAX};
use crate::store::{Found, Query, record};
use crate::wire::jid::{JidRef, resource_of};
use row::{Registration, Registrations};

/// XEP-0357.
pub const NS: &str = "urn:xmpp:push:0";
const NS_FORM: &str = "jabber:x:data";
const PUBLISH_OPTIONS: &str = "http://jabber.org/protocol/pubsub#publish-options";

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: record::PUSH,
    xeps: &[Xep { number: 357, version: "0.4.1", title: "Push Notifications" }],
    requests: &[ENABLE, DISABLE],
    record: Some(Record { stays: false, ..Record::of(load) }),
    wakes: true,
    ..Extension::NONE
};

/// XEP-0357 5.
const ENABLE: Feature = Feature {
    namespace: NS,
    name: "enable",
    targets: &[Target::Own],
    verbs: Verbs::Set,
    offered: always,
    asks_roster: false,
    server_vars: &[],
    // XEP-0357 4.1: advertised by the account.
    account_vars: &[NS],
    handle: enable,
};

/// XEP-0357 6.
const DISABLE: Feature = Feature { name: "disable", handle: disable, ..ENABLE };

/// A user has registrations.
#[derive(Debug)]
struct Registered;

impl Note for Registered {
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The note of a user with registrations.
pub fn registered() -> Box<dyn Note> {
    Box::new(Registered)
}

fn load(row: &[u8]) -> Option<Box<dyn Note>> {
    Registrations::read(row).filter(|all| !all.is_empty()).map(|_| registered())
}

/// The identity of a registering device: a hash of its resource.
pub fn device(resource: &str) -> u64 {
    id::hash(resource.as_bytes())
}

/// The query for a user's registrations.
pub fn query(account: &str) -> Query {
    record::query(account, record::PUSH)
}

/// Decodes the result of [`query`]; `None` if the row is unreadable.
fn found(found: &[Found]) -> Option<Registrations> {
    match found.first() {
        Some(Found::Value(None)) => Some(Registrations::default()),
        Some(Found::Value(Some(row))) => Registrations::read(row),
        _ => None,
    }
}

/// The changes that replace a user's registrations.
fn written(all: &Registrations) -> Vec<Change> {
    vec![Change::Record(all.row()), Change::MarkAll(!all.is_empty())]
}

/// Waits for the user's registrations.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Pending {
    /// Adds this one.
    Put(Registration),
    /// Removes those of a service, or the one of this node.
    Remove { jid: Box<str>, node: Option<Box<str>> },
    /// Returns them to the shard.
    Look,
    /// Records a service's answer.
    Note(answer::Noted),
}

impl Pending {
    pub(super) fn go_on(self, _: &Around<'_>, rows: &[Found]) -> Step {
        match self {
            Pending::Put(new) => changed(rows, |all| all.put(new)),
            Pending::Remove { jid, node } => changed(rows, |all| all.remove(&jid, node.as_deref())),
            Pending::Look => {
                let all = found(rows).unwrap_or_default();
                Step::Change(vec![Change::Registered(all.into_inner())], Vec::new())
            }
            Pending::Note(noted) => noted.go_on(rows),
        }
    }
}

/// Changes the registrations of the requester.
fn change(request: &IqRequest<'_>, change: Pending) -> Step {
    Step::InTurn(vec![query(request.account)], change.into())
}

fn changed(rows: &[Found], change: impl FnOnce(&mut Registrations)) -> Step {
    let Some(mut all) = found(rows) else { return Step::Error(Condition::InternalServerError.into()) };
    let before = all.clone();
    change(&mut all);
    Step::Change(if all == before { Vec::new() } else { written(&all) }, Vec::new())
}

/// Reads a user's registrations for the shard, which continues with [`Change::Registered`].
pub fn look(account: &str) -> (Vec<Query>, super::Pending) {
    (vec![query(account)], Pending::Look.into())
}

/// The service's JID and the node of a request.
fn named(context: &Context<'_>, element: &Element) -> Result<(Box<str>, Option<Box<str>>), Condition> {
    let jid = element.attr("jid").ok_or(Condition::BadRequest)?;
    let jid = (context.jid)(jid).ok_or(Condition::JidMalformed)?;
    let node = element.attr("node").filter(|node| !node.is_empty());
    if node.is_some_and(|node| node.len() > PUSH_NODE_BYTES_MAX) {
        return Err(Condition::NotAcceptable);
    }
    Ok((jid, node.map(Into::into)))
}

/// Why a service is unreachable, if that is known before sending.
fn unreachable(context: &Context<'_>, jid: &str) -> Option<Condition> {
    let jid = JidRef::from_normalised(jid);
    match context.domains.of(jid.as_str()) {
        None => Some(Condition::RemoteServerNotFound),
        // This server is not a push service.
        Some((_, ActorKind::Users)) => jid.local().is_none().then_some(Condition::ServiceUnavailable),
        Some((_, ActorKind::Component)) => None,
        Some((_, ActorKind::Rooms)) => Some(Condition::ServiceUnavailable),
        Some((_, ActorKind::Service(Service::Upload | Service::Bytestreams | Service::PubSub))) => {
            Some(Condition::ServiceUnavailable)
        }
    }
}

fn enable(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    match registration(context, request) {
        Ok(new) => change(request, Pending::Put(new)),
        Err(condition) => Step::Error(condition.into()),
    }
}

fn registration(context: &Context<'_>, request: &IqRequest<'_>) -> Result<Registration, Condition> {
    let element = xml::parse(request.payload).ok_or(Condition::BadRequest)?;
    let (jid, node) = named(context, &element)?;
    if let Some(condition) = unreachable(context, &jid) {
        return Err(condition);
    }
    let mut forms = element.children().filter(|child| child.is("x", NS_FORM));
    let options = forms.next().map(options).transpose()?.unwrap_or_default();
    if forms.next().is_some() {
        return Err(Condition::BadRequest);
    }
    if options.len() > PUSH_OPTIONS_BYTES_MAX {
        return Err(Condition::NotAcceptable);
    }
    let device = device(resource_of(request.from).unwrap_or_default());
    Ok(Registration { jid, node: node.unwrap_or_default(), device, options, failures: 0, until_s: 0 })
}

/// The form that accompanies each publication, as it is sent: only fields and their values.
fn options(form: &Element) -> Result<Box<[u8]>, Condition> {
    let mut out = format!("<x xmlns='{NS_FORM}' type='submit'>").into_bytes();
    let mut typed = false;
    for field in form.children() {
        let var = field.attr("var").filter(|_| field.is("field", NS_FORM)).ok_or(Condition::BadRequest)?;
        out.extend_from_slice(b"<field");
        xml::attribute(&mut out, "var", var);
        out.push(b'>');
        for value in field.children().filter(|child| child.is("value", NS_FORM)) {
            typed |= var == "FORM_TYPE" && value.text() == PUBLISH_OPTIONS;
            xml::text_element(&mut out, "value", &value.text());
        }
        out.extend_from_slice(b"</field>");
    }
    out.extend_from_slice(b"</x>");
    let submitted = form.attr("type").is_none_or(|kind| kind == "submit");
    if typed && submitted { Ok(out.into()) } else { Err(Condition::BadRequest) }
}

fn disable(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some(element) = xml::parse(request.payload) else { return Step::Error(Condition::BadRequest.into()) };
    match named(context, &element) {
        Ok((jid, node)) => change(request, Pending::Remove { jid, node }),
        Err(condition) => Step::Error(condition.into()),
    }
}

#[cfg(test)]
mod tests;
