//! What the server does beyond carrying stanzas: one file an extension, and one row of [`TABLE`]; and one of [`pending`], if it reads.
//!
//! An extension never reads, writes or sends, and never calls another one: its hooks ([`hook`]) are handed what they need and say what
//! should follow; the shard carries it out. Service discovery and stream features are made from the same table, so that
//! what is advertised is what is there.

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

use crate::id::Service;
use crate::store::{Found, Query, private as rows};

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
];

const _: () = assert!(ROWS.len() <= 32, "marks on sessions are 32 bits");

/// Extensions with a gate before sessions, a bit for each place in the table.
pub const GATES: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < ROWS.len() {
        bits |= (ROWS[at].gate.is_some() as u32) << at;
        at += 1;
    }
    bits
};

/// Extensions that copy messages, in the same way.
pub const COPIES: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < ROWS.len() {
        bits |= (ROWS[at].copies.is_some() as u32) << at;
        at += 1;
    }
    bits
};

/// Extensions whose mark says that nobody looks at a session's client, in the same way.
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

/// Names of the extensions that an operator may switch off, in the order of the table.
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

/// Extensions of these names, a bit for each place in the table: see [`ServerFacts::without`]. Those that are needed have none.
pub fn bits(names: &[&str]) -> u32 {
    let named = |extension: &Extension| !extension.needed && names.contains(&extension.name);
    TABLE.iter().enumerate().fold(0, |bits, (place, extension)| bits | u32::from(named(extension)) << place)
}

/// The places in the table whose bits are set.
pub fn places(bits: u32) -> impl Iterator<Item = usize> {
    (0..ROWS.len()).filter(move |place| bits & 1 << place != 0)
}

/// Extensions that are switched on, with their places.
fn switched_on(server: &ServerFacts) -> impl Iterator<Item = (usize, &'static Extension)> {
    TABLE.iter().enumerate().filter(|(place, _)| server.has(*place))
}

/// Requests that are answered.
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

/// The same, and of several that answer the payload the one that is addressed.
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

/// Answers a request that no session is to get: by its extension, whose place is returned, or with the error for a payload that
/// nobody knows (RFC 6120 8.3.3.19, 8.4). `notes` are those of the sender, if the request is for the sender's own account.
pub fn handle(context: &Context<'_>, notes: Option<&Notes>, request: &IqRequest<'_>) -> (usize, Step) {
    let Some((place, feature)) = find_for(context.server, request) else {
        return (TABLE.len(), Step::Error(Condition::ServiceUnavailable.into()));
    };
    if !feature.targets.contains(&request.target) {
        // Somebody else's data, as opposed to something that the target does not do.
        let private = request.target == Target::Other && *feature.targets == [Target::Own];
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

/// What else a request for the own account leads to.
fn join(context: &Context<'_>, request: &IqRequest<'_>, step: Step) -> Step {
    if request.target != Target::Own {
        return step;
    }
    switched_on(context.server).filter_map(|(_, extension)| extension.joins).fold(step, |step, join| match step {
        Step::Error(_) => step,
        step => join(context, request, step),
    })
}

/// Whether the extensions of these names are switched on.
fn are_on(server: &ServerFacts, names: &[&str]) -> bool {
    names.iter().all(|name| switched_on(server).any(|(_, extension)| extension.name == *name))
}

/// What accounts have because of extensions that answer no request for it.
fn account_vars(server: &ServerFacts) -> impl Iterator<Item = &'static str> {
    switched_on(server).flat_map(|(_, extension)| (extension.account_vars)(server)).copied()
}

/// Appends the stream features of an authenticated client that stand for extensions.
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

/// The extension whose elements in a request for a session have this namespace (XEP-0386 2.2), and its place.
pub fn inline(server: &ServerFacts, namespace: &str) -> Option<(usize, &'static hook::Nonza)> {
    let mut all = inlines(server);
    all.find(|(_, inline)| inline.namespace == namespace)
}

/// All of them that are switched on.
pub fn inlines(server: &ServerFacts) -> impl Iterator<Item = (usize, &'static hook::Nonza)> {
    switched_on(server).filter_map(|(place, extension)| Some((place, extension.inline.as_ref()?)))
}

/// What a client is told of its account with its session, by the first extension from a place on that has something to tell; and the
/// place behind that.
pub fn bound(server: &ServerFacts, account: &str, ids: crate::store::ids::Ids, from: usize) -> Option<(usize, Step)> {
    let told = |(place, extension): (usize, &Extension)| Some((place + 1, (extension.bound?)(server, account, ids)?));
    switched_on(server).filter(|(place, _)| *place >= from).find_map(told)
}

/// Whether requests with this namespace to a user's sessions are for those alone who may see the user's presence.
pub fn guards_sessions(namespace: &str) -> bool {
    TABLE.iter().any(|extension| extension.guards_sessions == Some(namespace))
}

/// What a client is asked of which nothing was heard for long, by the extension in a place: also by one that is switched off for
/// clients, because who does not answer is let go.
pub fn asks_idle() -> impl Iterator<Item = (usize, Ask)> {
    TABLE.iter().enumerate().filter_map(|(place, extension)| Some((place, extension.asks.as_ref()?.idle?())))
}

/// What a client is asked whose capabilities are not known, by the extension in a place that wants to know them.
pub fn asks_capable(server: &ServerFacts, node: &str, ver: &str) -> Option<(usize, Ask)> {
    let mut all = switched_on(server);
    all.find_map(|(place, extension)| Some((place, extension.asks.as_ref()?.capable?(node, ver))))
}

/// The answer to a request for an account that is not there, where it is not the usual error.
pub fn unseen(server: &ServerFacts, request: &IqRequest<'_>) -> Option<Vec<u8>> {
    let (place, _) = find(server, request.namespace, request.name)?;
    TABLE[place].unseen?(request)
}

/// What follows from a form in a message, and the place of the extension that it is for; none if it is for none.
pub fn submitted(context: &Context<'_>, request: &IqRequest<'_>) -> Option<(usize, Step)> {
    if xml::is_dense(request.payload) {
        return None;
    }
    switched_on(context.server).find_map(|(place, extension)| Some((place, extension.submits?(context, request)?)))
}

/// An account is gone that an actor of a service knows: what follows there, and the place of the extension.
pub fn forget(actor: &str, user: &str) -> (usize, Step) {
    (place_of_service(), pubsub::service::forget(actor, user))
}

/// Somebody publishes by HTTP at a node of a service, of which this is known: what follows, and the place of the extension.
pub fn channel_publish(
    publication: pubsub::service::channel::Publication,
    known: Option<pubsub::service::known::Known>,
) -> (usize, Step) {
    (place_of_service(), pubsub::service::channel::publish(publication, known))
}

/// Items of a node of a service are wanted by HTTP: what follows, and the place of the extension.
pub fn channel_read(wanted: pubsub::service::channel::Wanted) -> (usize, Step) {
    (place_of_service(), pubsub::service::channel::read(wanted))
}

/// Pages register for pushes of a node of a service.
pub fn channel_register(asked: pubsub::service::registration::Registering) -> (usize, Step) {
    (place_of_service(), pubsub::service::registration::register(asked))
}

/// Such registrations go.
pub fn channel_unregister(actor: &str, removals: Vec<pubsub::service::registration::Removal>) -> (usize, Step) {
    (place_of_service(), pubsub::service::registration::remove(actor, removals))
}

/// Items of several nodes of a service are wanted by HTTP: what follows, and the place of the extension.
pub fn channel_gather(gathered: pubsub::service::channel::Gathered) -> (usize, Step) {
    (place_of_service(), pubsub::service::channel::gather(gathered))
}

/// A publisher by HTTP asks what there is to tell of a node of a service, and perhaps that it be emptied: what follows, and the place of the
/// extension.
pub fn channel_info(question: pubsub::service::info::Question) -> (usize, Step) {
    (place_of_service(), pubsub::service::info::ask(question))
}

fn place_of_service() -> usize {
    let is_it = |extension: &Extension| extension.name == pubsub::service::EXTENSION.name;
    TABLE.iter().position(is_it).unwrap_or(TABLE.len())
}

/// What accounts are beside registered ones.
fn identities(server: &ServerFacts) -> impl Iterator<Item = caps::Identity> {
    switched_on(server).flat_map(|(_, extension)| extension.identities).copied()
}

/// What service discovery tells of a node of the server's domain, or of what belongs to it, if anything does.
fn serves(context: &Context<'_>, request: &IqRequest<'_>, what: Discovery<'_>) -> Option<Step> {
    switched_on(context.server).find_map(|(_, extension)| extension.serves?(context, request, what))
}

/// What a service is, if the extension that provides it is switched on.
fn entity(server: &ServerFacts, service: Service) -> Option<&'static hook::Entity> {
    switched_on(server).filter_map(|(_, extension)| extension.entity.as_ref()).find(|entity| entity.service == service)
}

/// What service discovery tells of an account beyond features, if anything does.
fn discovers(context: &Context<'_>, request: &IqRequest<'_>, what: Discovery<'_>) -> Option<Step> {
    let hook = match request.target {
        Target::Node => entity(context.server, Service::PubSub)?.nodes?,
        _ => switched_on(context.server).find_map(|(_, extension)| extension.discovers)?,
    };
    Some(hook(context, request, what))
}

// Records.

/// Places of extensions that keep a record of a user.
fn kept() -> impl Iterator<Item = (usize, &'static hook::Record)> {
    TABLE.iter().enumerate().filter_map(|(place, extension)| Some((place, extension.record.as_ref()?)))
}

/// How many there are, and the row with the user's photo.
pub const RECORDS: usize = {
    let (mut count, mut at) = (1, 0);
    while at < ROWS.len() {
        count += ROWS[at].record.is_some() as usize;
        at += 1;
    }
    count
};

/// The questions for all records of a user, to be asked whenever the account is.
pub fn records(account: &str) -> impl Iterator<Item = Query> {
    let kept = kept().map(move |(place, _)| rows::get(account, &rows::own_key(TABLE[place].name)));
    kept.chain([photo::query(account)])
}

/// The user's photo, by the answers to [`records`].
pub fn photo(server: &ServerFacts, found: &[Found]) -> Option<Photo> {
    match found.last() {
        Some(Found::Value(Some(row))) if are_on(server, &["avatars"]) => Photo::decode(row),
        _ => None,
    }
}

/// The notes that the answers to [`records`] make. A row that cannot be read makes none.
pub fn load(found: &[Found]) -> Notes {
    let mut notes = Notes::default();
    for ((place, record), found) in kept().zip(found) {
        if let Found::Value(Some(row)) = found {
            notes.put(place, (record.load)(row));
        }
    }
    notes
}

/// Whether one of these notes has to stay as long as its user has a session.
pub fn stay(notes: &Notes) -> bool {
    notes.iter().any(|(place, _)| TABLE[place].record.as_ref().is_some_and(|record| record.stays))
}

/// Writes the record of an extension, empty to remove it; returns the note that it makes.
pub fn write_record(place: usize, batch: &mut crate::store::Batch, account: &str, row: &[u8]) -> Option<Box<dyn Note>> {
    let key = rows::own_key(TABLE[place].name);
    if row.is_empty() {
        rows::delete(batch, account, &key);
        return None;
    }
    rows::put(batch, account, &key, row);
    (TABLE[place].record.as_ref()?.load)(row)
}

/// Why a stanza between a user with these notes and another address is refused, if it is.
pub fn refuses(server: &ServerFacts, notes: &Notes, way: Way, other: &str) -> Option<Refusal> {
    let mut all = notes.iter().filter(|(place, _)| server.has(*place));
    all.find_map(|(place, note)| (TABLE[place].record.as_ref()?.refuses)(note, way, other))
}

/// Whether a message between a user with these notes and another address may stay in the user's archive.
pub fn archives(server: &ServerFacts, notes: &Notes, user: &str, other: &str) -> bool {
    let mut all = notes.iter().filter(|(place, _)| server.has(*place));
    all.all(|(place, note)| TABLE[place].record.as_ref().is_none_or(|record| (record.archives)(note, user, other)))
}

/// Extensions that note something of entries of archives, a bit for each place in the table.
const ARCHIVED: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < ROWS.len() {
        bits |= (ROWS[at].archived.is_some() as u32) << at;
        at += 1;
    }
    bits
};

/// An entry with this number is archived for a user (bare JID): writes it, and what extensions note of it.
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

/// The entry with this number goes from a user's archive, because it is too old.
pub fn expired(batch: &mut crate::store::Batch, user: &str, number: u64, entry: &crate::store::archive::Entry<'_>) {
    for hook in places(ARCHIVED).filter_map(|place| TABLE[place].archived.as_ref()) {
        (hook.expired)(batch, user, number, entry);
    }
}

/// The records that are others now that a roster lists these contacts, with their places.
pub fn roster_changed<'a>(notes: &Notes, contacts: impl Iterator<Item = &'a str> + Clone) -> Vec<(usize, Vec<u8>)> {
    let changed = |(place, note): (usize, &dyn Note)| {
        let row = (TABLE[place].record.as_ref()?.roster)(note, &mut contacts.clone())?;
        Some((place, row))
    };
    notes.iter().filter_map(changed).collect()
}

/// The last available session of a user is not available any more.
pub fn logged_out(server: &ServerFacts, batch: &mut crate::store::Batch, account: &str, now_us: u64, status: &str) {
    for (_, extension) in switched_on(server) {
        if let Some(write) = extension.logged_out {
            write(batch, account, now_us, status);
        }
    }
}

#[cfg(test)]
mod tests;
