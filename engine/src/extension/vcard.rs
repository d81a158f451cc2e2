//! vCards (XEP-0054): a user's description of themselves, stored by the server and readable by all
//! its users.

use super::hook::{Extension, Xep};
use super::iq::{Around, Condition, Context, Feature, IqRequest, Limit, Step, Target, Verbs, always};
use super::xml;
use crate::limits::VCARD_BYTES_MAX;
use crate::store::private as rows;
use crate::store::{Batch, Found, Query};

/// Namespace of vCards.
pub(super) const NS: &str = "vcard-temp";
const FORMAT: u8 = 1;

/// XEP-0054 3: of the user's own account, and of others.
const FEATURE: Feature = Feature {
    namespace: NS,
    name: "vCard",
    targets: &[Target::Own, Target::Other],
    verbs: Verbs::GetSet,
    offered: always,
    asks_roster: false,
    server_vars: &[NS],
    account_vars: &[NS],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "vcard",
    xeps: &[Xep { number: 54, version: "1.3.0", title: "vcard-temp" }],
    requests: &[FEATURE],
    ..Extension::NONE
};

fn handle(_: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let key = key();
    if !request.set {
        let pending = Pending { own: request.target == Target::Own };
        return Step::Read(vec![rows::get(request.account, &key)], pending.into());
    }
    // XEP-0054 3.2.
    if request.target != Target::Own {
        return Step::Error(Condition::Forbidden.into());
    }
    // Serialised again, it declares the namespaces that it inherited from the stream.
    let card = xml::parse(request.payload).filter(|card| card.is("vCard", NS));
    let Some(card) = card.as_ref().map(xml::written) else { return Step::Error(Condition::BadRequest.into()) };
    if card.len() > VCARD_BYTES_MAX {
        return Step::Error(Limit::VCard.into());
    }
    let mut batch = Batch::new();
    put(&mut batch, request.account, &card);
    Step::Write(batch, Vec::new())
}

fn key() -> Box<[u8]> {
    rows::own_key("vcard")
}

/// The query for the row with a user's vCard.
pub fn query(account: &str) -> Query {
    rows::get(account, &key())
}

/// The vCard in that row; `None` if its format is unknown.
pub fn in_row(row: &[u8]) -> Option<&[u8]> {
    row.strip_prefix(&[FORMAT])
}

/// Writes a user's whole vCard.
pub fn put(batch: &mut Batch, account: &str, card: &[u8]) {
    rows::put(batch, account, &key(), &[&[FORMAT][..], card].concat());
}

/// Waits for the stored vCard.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Pending {
    /// Whether it is the requester's own.
    own: bool,
}

impl Pending {
    pub(super) fn go_on(self, _: &Around<'_>, found: &[Found]) -> Step {
        match found {
            [Found::Value(Some(row))] if in_row(row).is_some() => Step::Result(row[1..].to_vec()),
            // XEP-0054 3.1.
            [Found::Value(None)] if self.own => Step::Error(Condition::ItemNotFound.into()),
            // XEP-0054 3.3: the same as if there were no such user.
            [Found::Value(None)] => Step::Error(Condition::ServiceUnavailable.into()),
            _ => Step::Error(Condition::InternalServerError.into()),
        }
    }
}
