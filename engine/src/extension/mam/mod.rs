//! Message Archive Management (XEP-0313) and its preferences (XEP-0441): the clients' view of the
//! stored part of a user's log.
//!
//! A query is answered in turn, page by page ([`Step::Paced`]): `form` reads it, `find` finds its
//! results and `page` writes them. `prefs` decides what is archived; `retract` and `tombstones`
//! show retracted messages (XEP-0424).

mod find;
mod form;
mod index;
mod metadata;
mod page;
mod prefs;
mod retract;
mod rows;
#[cfg(test)]
mod tests;
mod time;
mod tombstones;

use std::sync::Arc;

use super::hook::{Archived, Extension, Record, Xep};
use super::iq::{Around, Condition, Context, Feature, IqRequest, Limit, Step, Target, Verbs};
use super::xml;
use crate::limits::{ARCHIVE_QUERY_BYTES_MAX, ARCHIVE_QUERY_ELEMENTS_MAX};
use crate::store::Found;
use crate::store::ids::Ids;
use form::Wanted;
use page::Asked;

pub(crate) use retract::Tombstone;

const NS: &str = "urn:xmpp:mam:2";

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "mam",
    xeps: &[
        Xep { number: 59, version: "1.0", title: "Result Set Management" },
        Xep { number: 313, version: "1.1.3", title: "Message Archive Management" },
        Xep { number: 424, version: "0.4.2", title: "Message Retraction" },
        Xep { number: 441, version: "0.2.0", title: "Message Archive Management Preferences" },
    ],
    requests: &[QUERY, METADATA, PREFS],
    bound: Some(|server, account, ids| (QUERY.offered)(server).then(|| metadata::ask(all_of(account, ids)))),
    archived: Some(Archived { archived: retract::archived, expired: retract::expired }),
    record: Some(Record { archives: prefs::archives, roster: prefs::roster, ..Record::of(prefs::load) }),
    ..Extension::NONE
};

/// The state of a request that waits for a read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Pending {
    Find(find::Pending),
    Metadata(metadata::Pending),
    Tombstones(tombstones::Pending),
    /// The roster, on which these preferences may depend.
    Prefs(prefs::Prefs),
}

impl Pending {
    pub(super) fn go_on(self, around: &Around<'_>, found: &[Found]) -> Step {
        match self {
            Pending::Find(pending) => pending.go_on(around.domains, found),
            Pending::Metadata(pending) => pending.go_on(found),
            Pending::Tombstones(pending) => pending.go_on(found),
            Pending::Prefs(prefs) => prefs.go_on(found),
        }
    }
}

/// XEP-0313 4. A request for another user's archive gets `<forbidden/>` (XEP-0313 8.1).
const QUERY: Feature = Feature {
    namespace: NS,
    name: "query",
    targets: &[Target::Own, Target::Room],
    verbs: Verbs::GetSet,
    offered: |server| server.archive,
    asks_roster: false,
    // XEP-0424 2.
    server_vars: &[retract::NS],
    // XEP-0313 7: advertised by an archive; XEP-0059 4 is part of it.
    account_vars: &[
        NS,
        "urn:xmpp:mam:2#extended",
        "urn:xmpp:mam:2#groupchat-field",
        retract::NS,
        retract::NS_TOMBSTONE,
    ],
    handle: query,
};

/// XEP-0313 5.
const METADATA: Feature =
    Feature { name: "metadata", verbs: Verbs::Get, server_vars: &[], account_vars: &[], handle: metadata_of, ..QUERY };

/// XEP-0441 2.1.
const PREFS: Feature = Feature {
    name: "prefs",
    targets: &[Target::Own],
    server_vars: &[],
    account_vars: &[],
    handle: prefs::handle,
    ..QUERY
};

fn query(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    if !request.set {
        return Step::Result(form::FORM.into());
    }
    // A longer query is refused anyway; checking before parsing it costs next to nothing.
    let payload = request.payload;
    if payload.len() > ARCHIVE_QUERY_BYTES_MAX || xml::elements(payload) > ARCHIVE_QUERY_ELEMENTS_MAX {
        return Step::Error(Limit::ArchiveIds.into());
    }
    let Some(query) = xml::parse(payload) else {
        return Step::Error(Condition::BadRequest.into());
    };
    match Wanted::read(context, &query) {
        Ok(wanted) => Step::Paced(Box::new(find::begin(asked(context, request, wanted)))),
        Err(refusal) => Step::Error(refusal),
    }
}

fn metadata_of(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    Step::Paced(Box::new(metadata::ask(asked(context, request, Wanted::all()))))
}

/// The whole archive of an account, for its own client.
fn all_of(account: &str, ids: Ids) -> Arc<Asked> {
    Arc::new(Asked { account: account.into(), full: account.into(), ids, wanted: Wanted::all(), room: 0 })
}

fn asked(context: &Context<'_>, request: &IqRequest<'_>, wanted: Wanted) -> Arc<Asked> {
    let (account, full) = (request.account.into(), request.from.into());
    Arc::new(Asked { account, full, ids: context.ids, wanted, room: context.room })
}
