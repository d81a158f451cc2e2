//! Private XML Storage (XEP-0049): elements that a user's clients store at the server, one per
//! namespace and name.

use super::hook::{Extension, Xep};
use super::iq::{Around, Condition, Context, Feature, IqRequest, Limit, Step, Target, Verbs, always};
use super::xml;
use crate::limits::{PRIVATE_BYTES_MAX, PRIVATE_ELEMENTS_MAX, PRIVATE_KEY_BYTES_MAX};
use crate::store::private::{self as rows, all, get};
use crate::store::{Batch, Found};
use minidom::Element;

const NS: &str = "jabber:iq:private";

/// XEP-0049 2.2: only for the user's own account; another's is `<forbidden/>`.
pub const FEATURE: Feature = Feature {
    namespace: NS,
    name: "query",
    targets: &[Target::Own],
    verbs: Verbs::GetSet,
    offered: always,
    asks_roster: false,
    // XEP-0049 defines no feature to advertise; clients look for the namespace at the server.
    server_vars: &[NS],
    account_vars: &[],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "private",
    xeps: &[Xep { number: 49, version: "1.2", title: "Private XML Storage" }],
    requests: &[FEATURE],
    ..Extension::NONE
};

fn handle(_: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some(query) = xml::parse(request.payload).filter(|element| element.is("query", NS)) else {
        return Step::Error(Condition::BadRequest.into());
    };
    if query.children().next().is_none() {
        return Step::Error(Condition::BadRequest.into());
    }
    // XEP-0049 2.3: each element has a namespace of its own.
    let foreign = |child: &Element| child.has_ns(NS) || child.has_ns("jabber:client");
    let too_long = |child: &Element| child.ns().len() + child.name().len() > PRIVATE_KEY_BYTES_MAX;
    if query.children().any(too_long) {
        return Step::Error(Limit::PrivateElement.into());
    }
    if query.children().any(foreign) {
        return Step::Error(Condition::NotAcceptable.into());
    }
    if request.set { set(request.account, &query) } else { ask(request.account, &query) }
}

fn ask(account: &str, query: &Element) -> Step {
    let mut children = query.children();
    let (Some(child), None) = (children.next(), children.next()) else {
        return Step::Error(Condition::BadRequest.into());
    };
    let empty = Element::bare(child.name(), child.ns());
    let queries = vec![get(account, &rows::key(&child.ns(), child.name()))];
    Step::Read(queries, Pending::Get { empty: xml::written(&empty) }.into())
}

/// The state of a request that waits for a read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Pending {
    /// Get: `empty` is the requested element, which is the answer if nothing is stored.
    Get { empty: Vec<u8> },
    /// Set: all stored elements, before these are written under their keys.
    Set { account: Box<str>, elements: Vec<(Box<[u8]>, Vec<u8>)> },
}

impl Pending {
    pub(super) fn go_on(self, _: &Around<'_>, found: &[Found]) -> Step {
        match self {
            Pending::Get { empty } => one_found(&empty, found),
            Pending::Set { account, elements } => all_found(&account, &elements, found),
        }
    }
}

/// Answers a get: the stored element, or the requested one, empty (XEP-0049 2.3).
fn one_found(empty: &[u8], found: &[Found]) -> Step {
    let element = match found {
        [Found::Value(Some(element))] => element,
        [Found::Value(None)] => empty,
        _ => return Step::Error(Condition::InternalServerError.into()),
    };
    let mut out = format!("<query xmlns='{NS}'>").into_bytes();
    out.extend_from_slice(element);
    out.extend_from_slice(b"</query>");
    Step::Result(out)
}

fn set(account: &str, query: &Element) -> Step {
    let mut elements = Vec::new();
    for child in query.children() {
        let nothing = child.nodes().next().is_none() && child.attrs().iter().next().is_none();
        let element = if nothing { Vec::new() } else { xml::written(child) };
        let key = rows::key(&child.ns(), child.name());
        if elements.iter().any(|(other, _)| *other == key) {
            return Step::Error(Condition::NotAcceptable.into());
        }
        if elements.len() == PRIVATE_ELEMENTS_MAX {
            return Step::Error(Limit::PrivateElement.into());
        }
        elements.push((key, element));
    }
    Step::InTurn(vec![all(account)], Pending::Set { account: account.into(), elements }.into())
}

/// Stores the elements if the total stays within the limits. An empty element frees its place:
/// reading it gives the same result.
fn all_found(account: &str, elements: &[(Box<[u8]>, Vec<u8>)], found: &[Found]) -> Step {
    let [Found::Rows { rows, more }] = found else {
        return Step::Error(Condition::InternalServerError.into());
    };
    let kept = rows.iter().filter(|row| !elements.iter().any(|(key, _)| *key == row.sort));
    let kept = kept.fold((0, 0), |(count, bytes), row| (count + 1, bytes + row.value.len()));
    let added = elements.iter().filter(|(_, element)| !element.is_empty());
    let (count, bytes) = added.fold(kept, |(count, bytes), (_, element)| (count + 1, bytes + element.len()));
    let grows = elements.iter().any(|(_, element)| !element.is_empty());
    if grows && (*more || count > PRIVATE_ELEMENTS_MAX || bytes > PRIVATE_BYTES_MAX) {
        return Step::Error(Limit::Private.into());
    }
    let mut batch = Batch::new();
    for (key, element) in elements {
        if element.is_empty() {
            rows::delete(&mut batch, account, key);
        } else {
            rows::put(&mut batch, account, key, element);
        }
    }
    Step::Write(batch, Vec::new())
}
