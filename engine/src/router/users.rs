//! The users of a shard that are online, or whose stored state is in memory.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::extension::pubsub::Event;
use crate::extension::pubsub::node::Node;
use crate::extension::roster::Roster;
use crate::extension::{Notes, Photo};
use crate::id::{ConnId, DomainId, Domains, SessionId, ShardId};
use crate::letters::{Kind, Origin, PresenceNews};
use crate::router::queue::Queue;
use crate::session::conn::NONE;
use crate::session::pace::Pace;
use crate::session::table::{Nodes, Session, Sessions};
use crate::slots::Slots;
use crate::store::account::{Incarnation, Standing};
use crate::store::log::Log;

/// A stanza that waits until its user's state is loaded.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Parked {
    /// Kind and type.
    pub kind: Kind,
    /// The session that waits for its confirmation.
    pub origin: Option<Origin>,
    /// The sender's full JID.
    pub from: Box<str>,
    /// The receiver.
    pub to: Box<str>,
    /// The stanza.
    pub xml: Box<[u8]>,
}

/// A stanza at its receiver's home.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Kind and type.
    pub kind: Kind,
    /// The session that waits for its confirmation.
    pub origin: Option<Origin>,
    /// The sender's full JID.
    pub from: &'a str,
    /// The receiver.
    pub to: &'a str,
    /// The stanza.
    pub xml: &'a [u8],
}

impl From<Incoming<'_>> for Parked {
    fn from(stanza: Incoming<'_>) -> Parked {
        let Incoming { kind, origin, from, to, xml } = stanza;
        Parked { kind, origin, from: from.into(), to: to.into(), xml: xml.into() }
    }
}

impl<'a> From<&'a Parked> for Incoming<'a> {
    fn from(parked: &'a Parked) -> Incoming<'a> {
        let Parked { kind, origin, from, to, xml } = parked;
        Incoming { kind: *kind, origin: *origin, from, to, xml }
    }
}

/// Work that waits until an account is looked up.
#[derive(Debug)]
pub enum Waiting {
    /// A stanza.
    Stanza(Parked),
    /// An authenticated connection that requests a session, if the account still exists.
    Claim(ConnId),
    /// A roster step that must not create a roster for an account that does not exist.
    Step(RosterStep),
    /// No more than the restoration of sessions of an earlier process.
    Stored,
    /// An event at a node of a contact.
    Event {
        /// The node.
        node: Box<str>,
        /// The contact's bare JID.
        from: Box<str>,
        /// The receiver.
        to: Box<str>,
        /// Whether the receiver is subscribed.
        explicit: bool,
        /// The item's number, if a subscriber that is away gets it later; otherwise 0.
        number: u64,
        /// The message, unaddressed.
        xml: Box<[u8]>,
    },
    /// Presence of a contact.
    Presence {
        /// Kind of the presence.
        news: PresenceNews,
        /// Full JID of the contact's resource; bare for subscriptions.
        from: Box<str>,
        /// The user's JID.
        to: Box<str>,
        /// The stanza, unaddressed.
        xml: Box<[u8]>,
    },
}

/// A step that needs the user's roster.
#[derive(Debug)]
pub enum RosterStep {
    /// A roster request of one of the user's sessions.
    Request {
        /// The session.
        session: SessionId,
        /// The stanza's number in its inbound count.
        seq: u32,
        /// The stanza's `id`.
        id: Option<Box<str>>,
        /// The request.
        request: crate::extension::RosterRequest,
    },
    /// A session's available presence goes to the entities that may see it (RFC 6121 4.2.2, 4.4.2).
    Announce {
        /// The session.
        session: SessionId,
        /// Its full JID.
        full: Box<str>,
        /// The presence, unaddressed.
        xml: Box<[u8]>,
        /// Whether it was unavailable before: contacts are probed and pending requests delivered.
        initial: bool,
    },
    /// A session has become unavailable or ended (RFC 6121 4.5.2).
    Withdraw {
        /// The session, if it is still connected: it is also sent the presence.
        session: Option<SessionId>,
        /// Its full JID.
        full: Box<str>,
        /// The presence, unaddressed.
        xml: Box<[u8]>,
        /// Other receivers of directed presence.
        directed: Vec<Box<str>>,
    },
    /// One of the user's sessions sends a subscription stanza (RFC 6121 3).
    SendSubscription {
        /// The session.
        session: SessionId,
        /// The stanza's number in its inbound count.
        seq: u32,
        /// Type of the subscription stanza.
        kind: crate::extension::subscription::Kind,
        /// The contact's bare JID.
        contact: Box<str>,
        /// The stanza, unaddressed.
        xml: Box<[u8]>,
    },
    /// A contact's subscription stanza has arrived.
    ReceiveSubscription {
        /// Type of the subscription stanza.
        kind: crate::extension::subscription::Kind,
        /// Number of the subscription stanza.
        number: u64,
        /// The number that the contact wants confirmed; 0 for none.
        confirm: u64,
        /// The contact's bare JID.
        contact: Box<str>,
        /// The stanza, unaddressed.
        xml: Box<[u8]>,
    },
    /// A contact's presence has arrived while other steps wait; it must not overtake them (RFC 6120
    /// 10.1).
    Presence {
        /// Whether the contact is available, and requests presence in return.
        news: crate::letters::PresenceNews,
        /// Full JID of the contact's session.
        from: Box<str>,
        /// The user's bare JID, as it was addressed.
        to: Box<str>,
        /// The stanza, unaddressed.
        xml: Box<[u8]>,
    },
    /// An account was registered by the user's invitation (XEP-0401 6.5).
    Joined {
        /// Its bare JID.
        contact: Box<str>,
        /// The number of its request.
        number: u64,
    },
    /// The token of a contact's request has been checked (XEP-0379 3.5).
    Vouched {
        /// The contact's bare JID.
        contact: Box<str>,
        /// Whether it is valid.
        good: bool,
    },
    /// A contact's home has confirmed the end of a subscription.
    Noted {
        /// The contact's bare JID.
        contact: Box<str>,
        /// The number of the confirmed stanza.
        confirm: u64,
    },
    /// The user's photo has changed: the user's presence is sent again to those who see it
    /// (XEP-0398 4).
    Shown {
        /// The session that has changed it, which pays for the work.
        session: SessionId,
    },
    /// A contact probes the user's presence (RFC 6121 4.3).
    Probe {
        /// The sender: a bare JID, or a full one for that session alone.
        from: Box<str>,
        /// The receiver: the user, or one of the user's sessions.
        to: Box<str>,
        /// The number of its latest request.
        number: u64,
    },
    /// The user's unanswered requests, and unconfirmed ends of subscriptions, are sent again (RFC
    /// 6121 3.1.2).
    AskAgain,
    /// The link to this shard was renewed: presence and subscriptions of contacts there are sent and
    /// asked for again.
    Renewed {
        /// The shard.
        peer: ShardId,
    },
    /// One of the user's sessions sends a presence probe (RFC 6121 4.3).
    AskAfter {
        /// Its full JID.
        full: Box<str>,
        /// The probed address.
        to: Box<str>,
    },
    /// A session that could not be sent presence has room again: some contacts are probed.
    Catch {
        /// The session.
        session: SessionId,
    },
    /// A session was resumed after a restart: it is shown the user's other sessions, and requests
    /// that wait for an answer.
    Renew {
        /// The session.
        session: SessionId,
    },
    /// Contacts that match a JID are shown the user's presence, or no longer (RFC 6121 4; XEP-0191
    /// 3.3, 3.4).
    Reveal {
        /// The JID.
        jid: Box<str>,
        /// Whether they may see it.
        visible: bool,
    },
    /// A request for the account whose answer depends on whether the sender may see the user's
    /// presence.
    Authorize(Parked),
    /// An event at a node of the user: the entities that may see it are notified.
    Event {
        /// The session that has caused it, which pays for the work.
        session: Option<SessionId>,
        /// The event.
        event: Box<Event>,
    },
    /// The next contacts of one of the user's sessions are asked for last items of their nodes.
    Walk {
        /// The session.
        session: SessionId,
    },
    /// A requester asks for the last items of these nodes of the user.
    Last(Box<(Look, Vec<Node>)>),
    /// The account is removed: contacts are notified (XEP-0077 3.2).
    Leave,
}

impl RosterStep {
    /// The session that has caused it, if it is one of the user's.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            RosterStep::Request { session, .. }
            | RosterStep::Announce { session, .. }
            | RosterStep::SendSubscription { session, .. }
            | RosterStep::Renew { session }
            | RosterStep::Shown { session }
            | RosterStep::Catch { session } => Some(*session),
            RosterStep::Withdraw { session, .. } => *session,
            _ => None,
        }
    }
}

/// A user whose nodes are read for a session that has become available.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Look {
    /// The group of users that were asked about together.
    pub group: u64,
    /// The user's bare JID.
    pub of: Box<str>,
    /// Full JID of the session.
    pub to: Box<str>,
    /// Nodes that interest it.
    pub wanted: Nodes,
}

/// The relation of a requester to the owner of nodes.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Seen {
    /// Whether the requester is the owner.
    pub owner: bool,
    /// Whether it may see the owner's presence.
    pub presence: bool,
    /// Groups of the owner's roster that contain it.
    pub groups: Vec<Box<str>>,
}

/// Whether the account is known to exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// Not looked up.
    #[default]
    Unknown,
    /// The account exists in this incarnation.
    Exists(Incarnation),
    /// The account does not exist.
    Missing,
}

/// State of a user that is in memory while it is needed, and dropped when idle.
#[derive(Debug, Default)]
pub struct UserState {
    /// Whether the account exists. Writes change it at once, so it is newer than any answer of the
    /// store that differs. It is retained while such an answer is outstanding.
    pub known: Known,
    /// Whether the account may be used, as last written or read; `None` while that is unknown. What
    /// was written is retained with `known`.
    pub standing: Option<Standing>,
    /// Whether account and cursor are being read for what is parked.
    pub asked: bool,
    /// Whether the user has had no session since a login began to read all that a session needs.
    pub sessionless: bool,
    /// Number of other outstanding reads of the account's record.
    pub looks: u32,
    /// The log, if its delivery position is known.
    pub log: Option<Box<Log>>,
    /// Extensions' records of the user. In memory whenever `known` is, and for as long as the user
    /// has a session.
    pub notes: Notes,
    /// The roster, if it is in memory.
    pub roster: Option<Box<Roster>>,
    /// Whether a read of the roster is outstanding.
    pub roster_asked: bool,
    /// Whether the user may have missed items of nodes while away. Known whenever `known` is.
    pub missed: bool,
    /// Whether requests to contacts could not be sent again because the disk was full. Retained while
    /// the user has a session.
    pub unasked: bool,
    /// Whether a read of the log's cursor is outstanding.
    pub log_asked: bool,
    /// Whether the account was removed since that read was requested.
    pub log_outdated: bool,
    /// The last message number when sessions last began to take messages. Messages up to it have
    /// been delayed (XEP-0203).
    pub since: u64,
    /// Work that waits for `known` and `log`; bounded by `PARKED_STANZAS_MAX`.
    pub parked: Queue<Waiting>,
    /// Steps that wait for the roster; bounded by `PARKED_STANZAS_MAX`, unavailable presence by the
    /// user's sessions, removals by the operator's questions.
    pub roster_waits: Queue<RosterStep>,
    /// Quotas that the user has used recently.
    pub quota: Quota,
    /// Second (monotonic) of the last use.
    pub used_s: u32,
    /// Second (monotonic) of the roster's last use: a user may send messages for hours and need it
    /// once.
    pub roster_used_s: u32,
}

/// When a user's used quotas expire, by the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    /// By the number of messages put into logs, microseconds.
    pub messages_until_us: u64,
    /// By their bytes, microseconds.
    pub bytes_until_us: u64,
    /// When the work of ended sessions is paid off, milliseconds.
    pub work_until_ms: u64,
}

impl Quota {
    /// Whether any of it still counts.
    pub fn owes(&self, now_us: u64) -> bool {
        self.messages_until_us.max(self.bytes_until_us).max(self.work_until_ms * 1_000) > now_us
    }
}

const _: () = assert!(size_of::<UserState>() <= 128, "each user has one during and after a login");

impl UserState {
    /// Memory with log and roster, bytes; without what waits for them.
    pub fn memory_bytes(&self) -> usize {
        let roster = self.roster.as_ref().map_or(0, |roster| size_of::<Roster>() + roster.heap_bytes());
        let log = self.log.as_ref().map_or(0, |_| size_of::<Log>());
        size_of::<UserState>() + log + roster + self.notes.memory_bytes()
    }

    /// Drops the roster if no step waits for it. The next step reads it again.
    pub fn drop_roster(&mut self) {
        if !self.roster_asked && self.roster_waits.is_empty() {
            self.roster = None;
        }
    }

    /// Whether nothing is known of the user, and no read is outstanding.
    pub fn is_blank(&self) -> bool {
        self.known == Known::Unknown && self.roster.is_none() && self.log.is_none() && self.is_settled(false)
    }

    /// Whether it can be dropped without loss.
    pub fn is_settled(&self, live: bool) -> bool {
        !self.asked
            && self.looks == 0
            && !self.roster_asked
            && !self.log_asked
            && !self.unasked
            && self.parked.is_empty()
            && self.roster_waits.is_empty()
            && self.log.as_ref().is_none_or(|log| log.is_settled(live))
    }
}

/// One user.
#[derive(Debug)]
pub struct User {
    /// Localpart, normalised; empty in a free slot.
    local: Box<str>,
    domain: DomainId,
    /// First of the user's sessions, or [`NONE`].
    pub first: u32,
    /// Whether a session is at the head of the log.
    pub live: bool,
    /// Whether extensions have marks on sessions of the user, or had.
    pub marked: bool,
    /// Loaded state.
    pub state: Option<Box<UserState>>,
}

impl User {
    fn name(&self) -> (&str, DomainId) {
        (&self.local, self.domain)
    }

    /// Whether the slot is in use.
    pub fn is_there(&self) -> bool {
        !self.local.is_empty()
    }
}

impl Default for User {
    /// A free slot.
    fn default() -> User {
        User { local: "".into(), domain: DomainId::default(), first: NONE, live: false, marked: false, state: None }
    }
}

const _: () = assert!(size_of::<User>() <= 32, "a user with an idle session costs this much");

/// Memory per photo in a tree whose nodes are little more than half full, bytes.
const PHOTO_BYTES: usize = 2 * (size_of::<u32>() + size_of::<Photo>());

/// The users.
#[derive(Debug)]
pub struct Users {
    domains: Arc<Domains>,
    slots: Slots<User>,
    /// The send rate of each user, in the same slots.
    paces: Slots<Pace>,
    free: Vec<u32>,
    index: HashTable<u32>,
    /// A hasher that has taken in the key, and nothing else.
    keyed: DefaultHasher,
    /// Photos in users' presence; bounded by the users.
    photos: BTreeMap<u32, Photo>,
}

/// The hash of a name in the index. Without the key, a client could choose names that collide: each
/// look-up would go through all of them, and any client can cause look-ups.
fn hash(keyed: &DefaultHasher, (local, domain): (&str, DomainId)) -> u64 {
    let mut hasher = keyed.clone();
    hasher.write(local.as_bytes());
    domain.mix(hasher.finish())
}

impl Users {
    /// Creates an empty table for these domains. `key` is secret and keys the index.
    pub fn new(domains: Arc<Domains>, key: [u8; 16]) -> Users {
        let mut keyed = DefaultHasher::new();
        keyed.write(&key);
        Users {
            domains,
            slots: Slots::default(),
            paces: Slots::default(),
            free: Vec::new(),
            index: HashTable::new(),
            keyed,
            photos: BTreeMap::new(),
        }
    }

    /// Localpart and domain of a JID, bare or full, if its domain is served.
    fn name<'a>(&self, jid: &'a str) -> Option<(&'a str, DomainId)> {
        let at = jid.bytes().position(|byte| byte == b'@')?;
        Some((&jid[..at], self.domains.find_in(&jid[at + 1..])?))
    }

    fn find_name(&self, name: (&str, DomainId)) -> Option<u32> {
        let is = |&slot: &u32| self.slots[slot as usize].name() == name;
        self.index.find(hash(&self.keyed, name), is).copied()
    }

    /// The user of this JID, bare or full and normalised.
    pub fn find(&self, jid: &str) -> Option<u32> {
        self.find_name(self.name(jid)?)
    }

    /// The user of this JID, created if absent.
    ///
    /// # Panics
    /// If the JID is not that of a user: other domains have no home here.
    pub fn find_or_insert(&mut self, jid: &str) -> u32 {
        let name @ (local, domain) = self.name(jid).expect("the JID of a user has a domain that is served");
        if let Some(slot) = self.find_name(name) {
            return slot;
        }
        let user = User { local: local.into(), domain, ..User::default() };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = user;
                self.paces[slot as usize] = Pace::default();
                slot
            }
            None => {
                self.paces.push(Pace::default());
                self.slots.push(user) as u32
            }
        };
        let (slots, keyed) = (&self.slots, &self.keyed);
        self.index.insert_unique(hash(keyed, name), slot, |&other| hash(keyed, slots[other as usize].name()));
        slot
    }

    /// The domain of a user.
    pub fn domain(&self, slot: u32) -> &str {
        self.domains.name(self.slots[slot as usize].domain)
    }

    /// The localpart of a user.
    pub fn local(&self, slot: u32) -> &str {
        &self.slots[slot as usize].local
    }

    /// The bare JID of a user.
    pub fn bare(&self, slot: u32) -> String {
        [self.local(slot), "@", self.domain(slot)].concat()
    }

    /// Whether a JID, bare or full and normalised, is the user's.
    pub fn is(&self, slot: u32, jid: &str) -> bool {
        self.name(jid) == Some(self.slots[slot as usize].name())
    }

    /// Returns the user in a slot that is in use.
    pub fn get(&self, slot: u32) -> &User {
        &self.slots[slot as usize]
    }

    /// Returns the user in a slot that is in use.
    pub fn get_mut(&mut self, slot: u32) -> &mut User {
        &mut self.slots[slot as usize]
    }

    /// The send rate of the user in a slot.
    #[inline]
    pub fn pace_mut(&mut self, slot: u32) -> &mut Pace {
        &mut self.paces[slot as usize]
    }

    /// State of a user, created empty if absent.
    pub fn state(&mut self, slot: u32, now_s: u32) -> &mut UserState {
        let state = self.slots[slot as usize].state.get_or_insert_with(Box::default);
        state.used_s = now_s;
        state
    }

    /// Forgets a user without sessions and without unsettled state. Returns whether it did.
    pub fn forget_if_idle(&mut self, slot: u32) -> bool {
        let user = &self.slots[slot as usize];
        if !user.is_there() || user.first != NONE || user.state.as_ref().is_some_and(|s| !s.is_settled(user.live)) {
            return false;
        }
        if let Ok(entry) = self.index.find_entry(hash(&self.keyed, user.name()), |&other| other == slot) {
            entry.remove();
        }
        self.slots[slot as usize] = User::default();
        self.free.push(slot);
        self.photos.remove(&slot);
        true
    }

    /// The photo in a user's presence.
    #[inline]
    pub fn photo(&self, slot: u32) -> Option<Photo> {
        self.photos.get(&slot).copied()
    }

    /// Sets the photo in a user's presence, for as long as the user is in memory.
    pub fn set_photo(&mut self, slot: u32, photo: Option<Photo>) {
        match photo {
            Some(photo) => self.photos.insert(slot, photo),
            None => self.photos.remove(&slot),
        };
    }

    /// Slots, free ones included.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Memory of the table and its index by their capacity, bytes.
    pub fn memory_bytes(&self) -> usize {
        let photos = self.photos.len() * PHOTO_BYTES;
        let slots = self.slots.memory_bytes() + self.paces.memory_bytes();
        slots + self.free.capacity() * size_of::<u32>() + self.index.allocation_size() + photos
    }

    /// Number of users.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no user.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts a session at the front of its user's list.
    pub fn link(&mut self, sessions: &mut Sessions, id: SessionId) {
        let user = &mut self.slots[sessions.slot(id.slot).user as usize];
        sessions.slot_mut(id.slot).next = user.first;
        user.first = id.slot;
        if let Some(state) = &mut user.state {
            state.sessionless = false;
        }
    }

    /// Removes a session from its user's list.
    pub fn unlink(&mut self, sessions: &mut Sessions, id: SessionId) {
        let next = sessions.slot(id.slot).next;
        let user = &mut self.slots[sessions.slot(id.slot).user as usize];
        if user.first == id.slot {
            user.first = next;
            user.marked &= next != NONE;
            return;
        }
        let mut at = user.first;
        while at != NONE {
            let following = sessions.slot(at).next;
            if following == id.slot {
                sessions.slot_mut(at).next = next;
                return;
            }
            at = following;
        }
    }

    /// A user's sessions, newest first.
    pub fn sessions<'a>(&self, sessions: &'a Sessions, user: u32) -> SessionsOf<'a> {
        SessionsOf { sessions, at: self.slots[user as usize].first }
    }
}

/// Iterator over a user's sessions.
#[derive(Debug)]
pub struct SessionsOf<'a> {
    sessions: &'a Sessions,
    at: u32,
}

impl<'a> Iterator for SessionsOf<'a> {
    type Item = (SessionId, &'a Session);

    fn next(&mut self) -> Option<Self::Item> {
        let id = self.sessions.id(self.at)?;
        let session = self.sessions.slot(self.at);
        self.at = session.next;
        Some((id, session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ActorKind;
    use crate::session::table::Privacy;

    fn domains() -> Arc<Domains> {
        let mut domains = Domains::of_users("localhost");
        domains.serve("other", ActorKind::Users);
        domains.into()
    }

    #[test]
    fn users_of_two_domains_have_nothing_in_common() {
        let mut users = Users::new(domains(), [7; 16]);
        let (here, there) = (users.find_or_insert("romeo@localhost"), users.find_or_insert("romeo@other/orchard"));
        assert_ne!(here, there);
        assert_eq!([users.find("romeo@localhost/balcony"), users.find("romeo@other")], [Some(here), Some(there)]);
        assert_eq!([users.bare(here), users.bare(there)], ["romeo@localhost", "romeo@other"]);
        assert!(users.is(there, "romeo@other/x") && !users.is(there, "romeo@localhost"));
        assert_eq!([users.find("romeo@nowhere"), users.find("localhost"), users.find("romeo")], [None; 3]);
        assert!(users.forget_if_idle(here));
        assert_eq!([users.find("romeo@localhost"), users.find("romeo@other")], [None, Some(there)]);
    }

    #[test]
    fn sessions_are_linked_and_unlinked() {
        let (mut users, mut sessions) = (Users::new(domains(), [7; 16]), Sessions::default());
        let user = users.find_or_insert("romeo@localhost");
        let ids: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|r| {
                let id = sessions.insert(Session::new(user, (*r).into(), Privacy::Open));
                users.link(&mut sessions, id);
                id
            })
            .collect();
        let names = |users: &Users, sessions: &Sessions| -> Vec<String> {
            users.sessions(sessions, user).map(|(_, s)| s.resource.to_string()).collect()
        };
        assert_eq!(names(&users, &sessions), ["c", "b", "a"]);
        users.unlink(&mut sessions, ids[1]);
        sessions.remove(ids[1]);
        assert_eq!(names(&users, &sessions), ["c", "a"]);
        assert!(sessions.get(ids[1]).is_none());
        assert!(!users.forget_if_idle(user), "it has sessions");
        for id in [ids[0], ids[2]] {
            users.unlink(&mut sessions, id);
            sessions.remove(id);
        }
        assert!(users.forget_if_idle(user));
        assert_eq!(users.find("romeo@localhost"), None);
    }

    /// Names that collide in an index without a key: 1,000 are made in two seconds by inverting the
    /// steps of the hash.
    #[test]
    fn names_chosen_to_collide_do_not() {
        let names = colliding(100);
        let unkeyed = |name: &str| name.as_bytes().chunks(8).fold(START, |h, word| step(h, word.try_into().unwrap()));
        assert!(names.iter().all(|name| unkeyed(name) == unkeyed(&names[0])), "they did");
        let mut looked = Vec::new();
        for key in [[1; 16], [2; 16]] {
            let users = Users::new(domains(), key);
            let mut places: Vec<u64> =
                names.iter().map(|name| hash(&users.keyed, (name, DomainId::default()))).collect();
            looked.push(places[0]);
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), names.len());
        }
        assert_ne!(looked[0], looked[1], "another process has other places");
    }

    const START: u64 = 0x9e37_79b9_7f4a_7c15;

    fn step(h: u64, word: [u8; 8]) -> u64 {
        let h = (h ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h ^ (h >> 32)
    }

    /// Names of 16 bytes that collide in an index without a key: for each first word, the second
    /// that leads to the same place. Of 3,000 such pairs, one has only bytes of plain text.
    fn colliding(count: usize) -> Vec<String> {
        let inverse =
            (0..6).fold(1u64, |x: u64, _| x.wrapping_mul(2u64.wrapping_sub(x.wrapping_mul(0xff51_afd7_ed55_8ccd))));
        let target = step(step(START, *b"collides"), *b"collides");
        let before = (target ^ (target >> 32)).wrapping_mul(inverse);
        let mut names = Vec::new();
        for n in 0u64.. {
            let first = *format!("{n:08}").as_bytes().first_chunk::<8>().unwrap();
            let second = (before ^ step(START, first)).to_le_bytes();
            if second.is_ascii() && second.iter().all(|b| b.is_ascii_graphic()) {
                names.push(String::from_utf8([first, second].concat()).unwrap());
            }
            if names.len() == count {
                return names;
            }
        }
        unreachable!("there are enough")
    }
}
