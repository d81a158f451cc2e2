//! What the server does beyond routing stanzas: one file per extension, one row in [`TABLE`], and
//! one in [`pending`] if it reads.
//!
//! An extension never reads, writes or sends, and never calls another one: its hooks ([`hook`]) get
//! what they need as arguments and return what follows; the shard carries it out. Service discovery
//! and stream features are generated from the same table, so that exactly what exists is
//! advertised.

pub mod adhoc;
pub mod annotations;
pub mod avatars;
pub mod blocking;
pub mod bookmarks;
pub mod bytestreams;
pub mod caps;
pub mod carbons;
pub mod change;
pub mod contact;
pub mod csi;
pub use crate::wire::datetime;
pub mod disco;
pub mod hook;
pub mod inbox;
pub mod invite;
pub mod iq;
mod join;
pub mod last;
pub mod mam;
pub mod note;
pub mod offline;
pub mod pending;
pub mod photo;
pub mod ping;
pub mod presence;
pub mod private;
pub mod pubsub;
pub mod push;
pub mod register;
pub mod roster;
pub mod roster_iq;
pub mod service;
pub mod services;
pub mod session;
pub mod subscription;
pub mod time;
pub mod upload;
pub mod vcard;
pub mod version;
pub(crate) mod written;
pub mod xml;

pub use change::{Ask, Capable, Change, Going, SessionChange, Way};
pub use hook::{Discovery, Extension, Original, Xep};
pub use iq::{
    AccountAction, Around, Condition, Context, Feature, IqRequest, Limit, Refusal, RosterRequest, Rule, ServerFacts,
    Step, Target, Verbs,
};
pub use note::{Note, Notes};
pub use pending::Pending;
pub use photo::Photo;

use crate::id::{Service, Wall};
use crate::store::record::{self, AccountRows};

/// Every extension, in the order in which streams offer them.
pub static TABLE: &[Extension] = ROWS;

const ROWS: &[Extension] = &[
    roster_iq::EXTENSION,
    session::EXTENSION,
    disco::EXTENSION,
    last::EXTENSION,
    ping::EXTENSION,
    private::EXTENSION,
    register::EXTENSION,
    time::EXTENSION,
    version::EXTENSION,
    carbons::EXTENSION,
    csi::EXTENSION,
    blocking::EXTENSION,
    services::EXTENSION,
    vcard::EXTENSION,
    mam::EXTENSION,
    pubsub::EXTENSION,
    adhoc::EXTENSION,
    push::EXTENSION,
    upload::EXTENSION,
    bytestreams::EXTENSION,
    pubsub::service::EXTENSION,
    invite::EXTENSION,
    avatars::EXTENSION,
    bookmarks::EXTENSION,
    inbox::EXTENSION,
];

const _: () = assert!(ROWS.len() <= 32, "marks on sessions are 32 bits");

/// Extensions with a gate before sessions, one bit per place in the table.
pub const GATES: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < ROWS.len() {
        bits |= (ROWS[at].gate.is_some() as u32) << at;
        at += 1;
    }
    bits
};

/// Extensions that copy messages, likewise.
pub const COPIES: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < ROWS.len() {
        bits |= (ROWS[at].copies.is_some() as u32) << at;
        at += 1;
    }
    bits
};

/// Extensions whose mark means that the user is not looking at the client, likewise.
pub const RESTS: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < ROWS.len() {
        bits |= (ROWS[at].rests as u32) << at;
        at += 1;
    }
    bits
};

/// The place of the extension that wakes devices.
pub const WAKER: usize = {
    let mut at = 0;
    while !ROWS[at].wakes {
        at += 1;
    }
    at
};

/// Names of the extensions that an operator may switch off, in table order.
pub const OPTIONAL: &[&str] = {
    const COUNT: usize = {
        let (mut count, mut at) = (0, 0);
        while at < ROWS.len() {
            count += !ROWS[at].needed as usize;
            at += 1;
        }
        count
    };
    const NAMES: [&str; COUNT] = {
        let (mut names, mut count, mut at) = ([""; COUNT], 0, 0);
        while at < ROWS.len() {
            if !ROWS[at].needed {
                names[count] = ROWS[at].name;
                count += 1;
            }
            at += 1;
        }
        names
    };
    &NAMES
};

/// The extensions with these names, one bit per place in the table: see [`ServerFacts::without`].
/// Required ones have none.
pub fn bits(names: &[&str]) -> u32 {
    let named = |extension: &Extension| !extension.needed && names.contains(&extension.name);
    TABLE.iter().enumerate().fold(0, |bits, (place, extension)| bits | u32::from(named(extension)) << place)
}

/// The name of the extension in a place of the table; empty for the place behind the last one. In
/// another process the same extension may be in another place.
pub fn name_at(place: usize) -> &'static str {
    TABLE.get(place).map_or("", |extension| extension.name)
}

/// The place of the extension with this name, and the place behind the last one for the empty name;
/// `None` if this build does not have it.
pub fn place_of(name: &str) -> Option<usize> {
    if name.is_empty() {
        return Some(TABLE.len());
    }
    TABLE.iter().position(|extension| extension.name == name)
}

/// The places in the table whose bits are set.
pub fn places(bits: u32) -> impl Iterator<Item = usize> {
    (0..ROWS.len()).filter(move |place| bits & 1 << place != 0)
}

/// The enabled extensions with their places.
fn switched_on(server: &ServerFacts) -> impl Iterator<Item = (usize, &'static Extension)> {
    TABLE.iter().enumerate().filter(|(place, _)| server.has(*place))
}

/// The requests that are answered.
fn offered(server: &ServerFacts) -> impl Iterator<Item = &'static Feature> {
    let all = switched_on(server).flat_map(|(_, extension)| extension.requests);
    all.filter(|feature| (feature.offered)(server))
}

/// The feature that answers a payload, if it is offered, and the place of its extension.
pub fn find(server: &ServerFacts, namespace: &str, name: &str) -> Option<(usize, &'static Feature)> {
    let is_it = |feature: &&Feature| feature.namespace == namespace && feature.name == name;
    let mut all = switched_on(server);
    all.find_map(|(place, extension)| Some((place, extension.requests.iter().find(is_it)?)))
        .filter(|(_, feature)| (feature.offered)(server))
}

/// The same; if several features answer the payload, the one that is addressed.
fn find_for(server: &ServerFacts, request: &IqRequest<'_>) -> Option<(usize, &'static Feature)> {
    let is_it = |feature: &&Feature| {
        (feature.namespace, feature.name) == (request.namespace, request.name)
            && feature.targets.contains(&request.target)
            && (feature.offered)(server)
    };
    let mut all = switched_on(server);
    let found = all.find_map(|(place, extension)| Some((place, extension.requests.iter().find(is_it)?)));
    found.or_else(|| find(server, request.namespace, request.name))
}

/// Answers a request that is not delivered to a session: by its extension, whose place is returned,
/// or with the error for an unknown payload (RFC 6120 8.3.3.19, 8.4). `notes` are the sender's, if
/// the request is to the sender's own account.
pub fn handle(context: &Context<'_>, notes: Option<&Notes>, request: &IqRequest<'_>) -> (usize, Step) {
    let Some((place, feature)) = find_for(context.server, request) else {
        return (TABLE.len(), Step::Error(Condition::ServiceUnavailable.into()));
    };
    if !feature.targets.contains(&request.target) {
        // Private data of another user, as opposed to something that the target does not support.
        let is_own = |target: &Target| matches!(target, Target::Own | Target::Room);
        let private = request.target == Target::Other && feature.targets.iter().all(is_own);
        let condition = if private { Condition::Forbidden } else { Condition::ServiceUnavailable };
        return (place, Step::Error(condition.into()));
    }
    let note = notes.and_then(|notes| notes.get(place));
    let step = match (feature.verbs, request.set) {
        (Verbs::Get, true) | (Verbs::Set, false) => Step::Error(Condition::BadRequest.into()),
        _ if xml::is_dense(request.payload) => Step::Error(Limit::Elements.into()),
        _ => (feature.handle)(&Context { note, ..*context }, request),
    };
    (place, join(context, request, step))
}

/// Adds what other extensions do after a request to the user's own account.
fn join(context: &Context<'_>, request: &IqRequest<'_>, step: Step) -> Step {
    if request.target != Target::Own {
        return step;
    }
    switched_on(context.server).filter_map(|(_, extension)| extension.joins).fold(step, |step, join| match step {
        Step::Error(_) => step,
        step => join(context, request, step),
    })
}

/// Whether the extensions with these names are switched on.
fn are_on(server: &ServerFacts, names: &[&str]) -> bool {
    names.iter().all(|name| switched_on(server).any(|(_, extension)| extension.name == *name))
}

/// Features that extensions add to accounts, besides their requests.
fn account_vars(server: &ServerFacts) -> impl Iterator<Item = &'static str> {
    switched_on(server).flat_map(|(_, extension)| (extension.account_vars)(server)).copied()
}

/// Appends the extensions' stream features for an authenticated client.
pub fn stream_features(server: &ServerFacts, out: &mut Vec<u8>) {
    for (_, extension) in switched_on(server) {
        if let Some(write) = extension.stream_feature {
            write(server, out);
        }
    }
}

/// The extension whose first-level elements have this namespace, and its place.
pub fn nonza(server: &ServerFacts, namespace: &str) -> Option<(usize, &'static hook::Nonza)> {
    let mut all = switched_on(server);
    all.find_map(|(place, extension)| Some((place, extension.nonza.as_ref()?)))
        .filter(|(_, nonza)| nonza.namespace == namespace)
}

/// The extension whose elements in a request for a session have this namespace (XEP-0386 2.2), and
/// its place.
pub fn inline(server: &ServerFacts, namespace: &str) -> Option<(usize, &'static hook::Nonza)> {
    let mut all = inlines(server);
    all.find(|(_, inline)| inline.namespace == namespace)
}

/// All that are switched on.
pub fn inlines(server: &ServerFacts) -> impl Iterator<Item = (usize, &'static hook::Nonza)> {
    switched_on(server).filter_map(|(place, extension)| Some((place, extension.inline.as_ref()?)))
}

/// Information about the account for a client with a new session, from the first extension at or
/// after a place that has some; and the place after it.
pub fn bound(server: &ServerFacts, account: &str, ids: crate::store::ids::Ids, from: usize) -> Option<(usize, Step)> {
    let told = |(place, extension): (usize, &Extension)| Some((place + 1, (extension.bound?)(server, account, ids)?));
    switched_on(server).filter(|(place, _)| *place >= from).find_map(told)
}

/// Whether requests with this namespace reach a user's sessions only from senders who may see the
/// user's presence.
pub fn guards_sessions(namespace: &str) -> bool {
    TABLE.iter().any(|extension| extension.guards_sessions == Some(namespace))
}

/// The requests to a client that has been silent for too long, with the places of their extensions.
/// These include extensions that are switched off for clients, because a client that does not
/// answer is disconnected.
pub fn asks_idle() -> impl Iterator<Item = (usize, Ask)> {
    TABLE.iter().enumerate().filter_map(|(place, extension)| Some((place, extension.asks.as_ref()?.idle?())))
}

/// The request to a client whose capabilities are unknown, with the place of the extension that
/// needs them.
pub fn asks_capable(server: &ServerFacts, node: &str, ver: &str) -> Option<(usize, Ask)> {
    let mut all = switched_on(server);
    all.find_map(|(place, extension)| Some((place, extension.asks.as_ref()?.capable?(node, ver))))
}

/// The answer to a request for an account that does not exist, where it differs from the usual
/// error.
pub fn unseen(server: &ServerFacts, request: &IqRequest<'_>) -> Option<Vec<u8>> {
    let (place, _) = find(server, request.namespace, request.name)?;
    TABLE[place].unseen?(request)
}

/// What follows from a form in a message, and the place of the extension that it is for; `None` if
/// there is none.
pub fn submitted(context: &Context<'_>, request: &IqRequest<'_>) -> Option<(usize, Step)> {
    if xml::is_dense(request.payload) {
        return None;
    }
    switched_on(context.server).find_map(|(place, extension)| Some((place, extension.submits?(context, request)?)))
}

/// A removed account is known to an actor of a service: what follows there, and the place of the
/// extension.
pub fn forget(actor: &str, user: &str) -> (usize, Step) {
    (place_of_service(), pubsub::service::forget(actor, user))
}

/// These users, separated by NUL, were away when an item of a node of a service was sent to them:
/// what follows, and the place of the extension.
pub fn missed(actor: &str, number: u64, users: &str) -> (usize, Step) {
    (place_of_service(), pubsub::service::catch_up::missed(actor, number, users))
}

/// A user is back that has missed items of a node of a service: what follows, and the place of the
/// extension.
pub fn catch_up(actor: &str, user: &str, now: Wall) -> (usize, Step) {
    (place_of_service(), pubsub::service::catch_up::catch_up(actor, user, now))
}

/// An HTTP client publishes at a node of a service about which this is known: what follows, and the
/// place of the extension.
pub fn channel_publish(
    publication: pubsub::service::channel::Publication,
    known: Option<pubsub::service::known::Known>,
) -> (usize, Step) {
    (place_of_service(), pubsub::service::channel::publish(publication, known))
}

/// An HTTP client requests items of a node of a service: what follows, and the place of the
/// extension.
pub fn channel_read(wanted: pubsub::service::channel::Wanted) -> (usize, Step) {
    (place_of_service(), pubsub::service::channel::read(wanted))
}

/// Browsers register for Web Push at a node of a service.
pub fn channel_register(asked: pubsub::service::registration::Registering) -> (usize, Step) {
    (place_of_service(), pubsub::service::registration::register(asked))
}

/// Removes such registrations.
pub fn channel_unregister(actor: &str, removals: Vec<pubsub::service::registration::Removal>) -> (usize, Step) {
    (place_of_service(), pubsub::service::registration::remove(actor, removals))
}

/// An HTTP client requests items of several nodes of a service: what follows, and the place of the
/// extension.
pub fn channel_gather(gathered: pubsub::service::channel::Gathered) -> (usize, Step) {
    (place_of_service(), pubsub::service::channel::gather(gathered))
}

/// An HTTP publisher requests information about a node of a service, and perhaps that it be
/// emptied: what follows, and the place of the extension.
pub fn channel_info(question: pubsub::service::info::Question) -> (usize, Step) {
    (place_of_service(), pubsub::service::info::ask(question))
}

fn place_of_service() -> usize {
    let is_it = |extension: &Extension| extension.name == pubsub::service::EXTENSION.name;
    TABLE.iter().position(is_it).unwrap_or(TABLE.len())
}

/// The identities of accounts besides "registered".
fn identities(server: &ServerFacts) -> impl Iterator<Item = caps::Identity> {
    switched_on(server).flat_map(|(_, extension)| extension.identities).copied()
}

/// The answer of service discovery about a node of the server's domain, or about its items, if
/// there is one.
fn serves(context: &Context<'_>, request: &IqRequest<'_>, what: Discovery<'_>) -> Option<Step> {
    switched_on(context.server).find_map(|(_, extension)| extension.serves?(context, request, what))
}

/// The description of a service, if the extension that provides it is switched on.
fn entity(server: &ServerFacts, service: Service) -> Option<&'static hook::Entity> {
    switched_on(server).filter_map(|(_, extension)| extension.entity.as_ref()).find(|entity| entity.service == service)
}

/// The answer of service discovery about an account beyond features, if there is one.
fn discovers(context: &Context<'_>, request: &IqRequest<'_>, what: Discovery<'_>) -> Option<Step> {
    let hook = match request.target {
        Target::Node => entity(context.server, Service::PubSub)?.nodes?,
        _ => switched_on(context.server).find_map(|(_, extension)| extension.discovers)?,
    };
    Some(hook(context, request, what))
}

// Records.

/// The extensions that store a record per user, with their places.
fn kept() -> impl Iterator<Item = (usize, &'static hook::Record)> {
    TABLE.iter().enumerate().filter_map(|(place, extension)| Some((place, extension.record.as_ref()?)))
}

/// The photo of a user with these records.
pub fn photo(server: &ServerFacts, rows: &AccountRows) -> Option<Photo> {
    rows.record(record::PHOTO).filter(|_| are_on(server, &["avatars"])).and_then(Photo::decode)
}

/// The notes decoded from a user's records. An unreadable record yields no note.
pub fn load(rows: &AccountRows) -> Notes {
    let mut notes = Notes::default();
    for (place, record) in kept() {
        if let Some(row) = rows.record(TABLE[place].name) {
            notes.put(place, (record.load)(row));
        }
    }
    notes
}

/// Whether one of these notes must stay in memory as long as its user has a session.
pub fn stay(notes: &Notes) -> bool {
    notes.iter().any(|(place, _)| TABLE[place].record.as_ref().is_some_and(|record| record.stays))
}

/// Writes the record of an extension (an empty one removes it); returns the resulting note.
pub fn write_record(place: usize, batch: &mut crate::store::Batch, account: &str, row: &[u8]) -> Option<Box<dyn Note>> {
    let name = TABLE[place].name;
    if row.is_empty() {
        record::delete(batch, account, name);
        return None;
    }
    record::put(batch, account, name, row);
    (TABLE[place].record.as_ref()?.load)(row)
}

/// Why a stanza between a user with these notes and another address is refused, if it is.
pub fn refuses(server: &ServerFacts, notes: &Notes, way: Way, other: &str) -> Option<Refusal> {
    let mut all = notes.iter().filter(|(place, _)| server.has(*place));
    all.find_map(|(place, note)| (TABLE[place].record.as_ref()?.refuses)(note, way, other))
}

/// Whether a message between a user with these notes and another address may be archived for the
/// user.
pub fn archives(server: &ServerFacts, notes: &Notes, user: &str, other: &str) -> bool {
    let mut all = notes.iter().filter(|(place, _)| server.has(*place));
    all.all(|(place, note)| TABLE[place].record.as_ref().is_none_or(|record| (record.archives)(note, user, other)))
}

/// Extensions that record something about archived entries, one bit per place in the table.
const ARCHIVED: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < ROWS.len() {
        bits |= (ROWS[at].archived.is_some() as u32) << at;
        at += 1;
    }
    bits
};

/// An entry with this number is archived for a user (bare JID): writes it, and what extensions
/// record about it.
pub fn archive(
    batch: &mut crate::store::Batch,
    domains: &crate::id::Domains,
    user: &str,
    number: u64,
    entry: &crate::store::archive::Entry<'_>,
) {
    entry.put(batch, user, number);
    for hook in places(ARCHIVED).filter_map(|place| TABLE[place].archived.as_ref()) {
        (hook.archived)(batch, domains, user, number, entry);
    }
}

/// Removes the entry with this number from a user's archive, because it has expired.
pub fn expired(batch: &mut crate::store::Batch, user: &str, number: u64, entry: &crate::store::archive::Entry<'_>) {
    for hook in places(ARCHIVED).filter_map(|place| TABLE[place].archived.as_ref()) {
        (hook.expired)(batch, user, number, entry);
    }
}

/// The records that change now that a roster has these contacts, with their places.
pub fn roster_changed<'a>(notes: &Notes, contacts: impl Iterator<Item = &'a str> + Clone) -> Vec<(usize, Vec<u8>)> {
    let changed = |(place, note): (usize, &dyn Note)| {
        let row = (TABLE[place].record.as_ref()?.roster)(note, &mut contacts.clone())?;
        Some((place, row))
    };
    notes.iter().filter_map(changed).collect()
}

/// The last available session of a user has become unavailable.
pub fn logged_out(server: &ServerFacts, batch: &mut crate::store::Batch, account: &str, now_us: u64, status: &str) {
    for (_, extension) in switched_on(server) {
        if let Some(write) = extension.logged_out {
            write(batch, account, now_us, status);
        }
    }
}

#[cfg(test)]
mod tests;
