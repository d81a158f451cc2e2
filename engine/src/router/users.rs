//! The users of a shard that are online, or whose stored state is at hand.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::extension::pubsub::Event;
use crate::extension::pubsub::node::Node;
use crate::extension::roster::Roster;
use crate::extension::{Notes, Photo};
use crate::id::{ConnId, DomainId, Domains, SessionId};
use crate::letters::{Kind, Origin, PresenceNews};
use crate::session::conn::NONE;
use crate::session::pace::Pace;
use crate::session::table::{Nodes, Session, Sessions};
use crate::slots::Slots;
use crate::store::account::{Incarnation, Standing};
use crate::store::log::Log;

/// A stanza that waits until its user's state is loaded.
#[derive(Debug)]
pub struct Parked {
    /// Kind and type.
    pub kind: Kind,
    /// Who waits for its confirmation.
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

/// What waits for an account to be looked up.
#[derive(Debug)]
pub enum Waiting {
    /// A stanza.
    Stanza(Parked),
    /// An authenticated connection that wants a session: whether its account is still there.
    Claim(ConnId),
    /// A roster step that must not make a roster for an account that is not there.
    Step(RosterStep),
    /// Nothing but that sessions of an earlier process are to be there.
    Stored,
    /// Something has happened at a node of a contact.
    Event {
        /// The node.
        node: Box<str>,
        /// The contact's bare JID.
        from: Box<str>,
        /// The receiver.
        to: Box<str>,
        /// It is subscribed.
        explicit: bool,
        /// The message, unaddressed.
        xml: Box<[u8]>,
    },
    /// Presence of a contact.
    Presence {
        /// What it says.
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
        /// What it asks.
        request: crate::extension::RosterRequest,
    },
    /// A session's available presence goes to those who may see it (RFC 6121 4.2.2, 4.4.2).
    Announce {
        /// The session.
        session: SessionId,
        /// Its full JID.
        full: Box<str>,
        /// The presence, unaddressed.
        xml: Box<[u8]>,
        /// It was not available before: contacts are probed and waiting requests delivered.
        initial: bool,
    },
    /// A session has become unavailable or ended (RFC 6121 4.5.2).
    Withdraw {
        /// The session, if it is still connected: it hears of it, too.
        session: Option<SessionId>,
        /// Its full JID.
        full: Box<str>,
        /// The presence, unaddressed.
        xml: Box<[u8]>,
        /// Who else got directed presence.
        directed: Vec<Box<str>>,
    },
    /// One of the user's sessions sends a subscription stanza (RFC 6121 3).
    SendSubscription {
        /// The session.
        session: SessionId,
        /// The stanza's number in its inbound count.
        seq: u32,
        /// Which.
        kind: crate::extension::subscription::Kind,
        /// The contact's bare JID.
        contact: Box<str>,
        /// The stanza, unaddressed.
        xml: Box<[u8]>,
    },
    /// A contact's subscription stanza has come.
    ReceiveSubscription {
        /// Which.
        kind: crate::extension::subscription::Kind,
        /// Its number.
        number: u64,
        /// The number that the contact wants confirmed; 0 for none.
        confirm: u64,
        /// The contact's bare JID.
        contact: Box<str>,
        /// The stanza, unaddressed.
        xml: Box<[u8]>,
    },
    /// A contact's presence has come while other steps wait: it does not overtake them (RFC 6120 10.1).
    Presence {
        /// Whether the contact is available, and asks in return.
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
    /// The token that a contact's request came with was looked at (XEP-0379 3.5).
    Vouched {
        /// The contact's bare JID.
        contact: Box<str>,
        /// Whether it is good.
        good: bool,
    },
    /// A contact's home has noted the end of a subscription.
    Noted {
        /// The contact's bare JID.
        contact: Box<str>,
        /// The number that the end bore.
        confirm: u64,
    },
    /// The user's photo is another one: those who see the user's presence see it again (XEP-0398 4).
    Shown {
        /// The session that has changed it, which pays for it.
        session: SessionId,
    },
    /// A contact asks who is there (RFC 6121 4.3).
    Probe {
        /// Who asks: a bare JID, or a full one for itself alone.
        from: Box<str>,
        /// Whom it asks: the user, or one of the user's sessions.
        to: Box<str>,
        /// The number of its latest request.
        number: u64,
    },
    /// One of the user's sessions asks who is there (RFC 6121 4.3).
    AskAfter {
        /// Its full JID.
        full: Box<str>,
        /// Whom it asks.
        to: Box<str>,
    },
    /// A session to which presence could not be sent has room again: some contacts are asked who is there.
    Catch {
        /// The session.
        session: SessionId,
    },
    /// A session was resumed after a restart: it is shown who else is there of the user, and requests that wait for an answer.
    Renew {
        /// The session.
        session: SessionId,
    },
    /// Contacts that a JID matches see the user's presence, or see it go (RFC 6121 4; XEP-0191 3.3, 3.4).
    Reveal {
        /// The JID.
        jid: Box<str>,
        /// Whether they see it.
        visible: bool,
    },
    /// A request for the account whose answer depends on whether the sender may see the user's presence.
    Authorize(Parked),
    /// Something has happened at a node of the user: those who may see it are told.
    Event {
        /// The session that has set it off, which pays for it.
        session: Option<SessionId>,
        /// What.
        event: Box<Event>,
    },
    /// The next contacts of one of the user's sessions are asked for last items of their nodes.
    Walk {
        /// The session.
        session: SessionId,
    },
    /// Somebody wants to see last items of these nodes of the user.
    Last(Box<(Look, Vec<Node>)>),
    /// The account is removed: contacts are told (XEP-0077 3.2).
    Leave,
}

impl RosterStep {
    /// The session that has set it off, if it is one of the user's.
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

/// A user whose nodes are looked at for a session that has become available.
#[derive(Clone, Debug)]
pub struct Look {
    /// What was asked with it.
    pub group: u64,
    /// The user's bare JID.
    pub of: Box<str>,
    /// Full JID of the session.
    pub to: Box<str>,
    /// Nodes in which it is interested.
    pub wanted: Nodes,
}

/// How the owner of nodes has somebody who wants to see them.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// It is the owner.
    pub owner: bool,
    /// It may see the owner's presence.
    pub presence: bool,
    /// Groups of the owner's roster in which it is.
    pub groups: Vec<Box<str>>,
}

/// Whether the account is known to be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// Not looked up.
    #[default]
    Unknown,
    /// There is this one.
    Exists(Incarnation),
    /// There is none.
    Missing,
}

/// What is at hand of a user while there is something to do; dropped when idle.
#[derive(Debug, Default)]
pub struct UserState {
    /// Whether there is an account. What is written changes it at once, so that it is newer than any answer of the store that
    /// differs: it is kept as long as one is waited for.
    pub known: Known,
    /// Whether it may be used, as was written or read last; none while nobody knows. What was written is kept with `known`.
    pub standing: Option<Standing>,
    /// Whether account and cursor are being read for what is parked.
    pub asked: bool,
    /// Other reads of the account's record under way.
    pub looks: u32,
    /// The log, if it is known how far it is delivered.
    pub log: Option<Log>,
    /// What extensions have on record of the user; at hand whenever `known` is, and as long as the user has a session.
    pub notes: Notes,
    /// The roster, if it is at hand.
    pub roster: Option<Roster>,
    /// A read of the roster is under way.
    pub roster_asked: bool,
    /// A read of the log's cursor is under way.
    pub log_asked: bool,
    /// The account was removed since it was asked for.
    pub log_outdated: bool,
    /// The last number when sessions last began to take messages: what came up to it has waited (XEP-0203).
    pub since: u64,
    /// What waits for `known` and `log`; bounded by `PARKED_STANZAS_MAX`.
    pub parked: VecDeque<Waiting>,
    /// Steps that wait for the roster; bounded by `PARKED_STANZAS_MAX`, farewells by the user's sessions, removals by the operator's questions.
    pub roster_waits: VecDeque<RosterStep>,
    /// What the user has used up lately.
    pub quota: Quota,
    /// Second (monotonic) of the last use.
    pub used_s: u32,
    /// Second (monotonic) of the roster's last use: a user may write for hours and need it once.
    pub roster_used_s: u32,
}

/// When what a user has used up has passed, by the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    /// By the count of messages that were put into logs, microseconds.
    pub messages_until_us: u64,
    /// By their bytes, microseconds.
    pub bytes_until_us: u64,
    /// When the work is paid off that sessions have set off which have ended, milliseconds.
    pub work_until_ms: u64,
}

impl Quota {
    /// Whether something of it counts still.
    pub fn owes(&self, now_us: u64) -> bool {
        self.messages_until_us.max(self.bytes_until_us).max(self.work_until_ms * 1_000) > now_us
    }
}

impl UserState {
    /// Memory that it takes with the roster, bytes; without what waits for it.
    pub fn memory_bytes(&self) -> usize {
        size_of::<UserState>() + self.roster.as_ref().map_or(0, Roster::heap_bytes) + self.notes.memory_bytes()
    }

    /// Drops the roster if no step is to use it; it is read again when one is.
    pub fn drop_roster(&mut self) {
        if !self.roster_asked && self.roster_waits.is_empty() {
            self.roster = None;
        }
    }

    /// Whether nothing is known of the user, and nothing asked.
    pub fn is_blank(&self) -> bool {
        self.known == Known::Unknown && self.roster.is_none() && self.log.is_none() && self.is_settled(false)
    }

    /// Whether nothing is lost when it is dropped.
    pub fn is_settled(&self, live: bool) -> bool {
        !self.asked
            && self.looks == 0
            && !self.roster_asked
            && !self.log_asked
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
    /// A session is at the head of the log.
    pub live: bool,
    /// Extensions have marks on sessions of the user, or had.
    pub marked: bool,
    /// Loaded state.
    pub state: Option<Box<UserState>>,
}

impl User {
    fn name(&self) -> (&str, DomainId) {
        (&self.local, self.domain)
    }

    /// Whether somebody is here.
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

/// What a photo takes in a tree whose nodes are little more than half full, bytes.
const PHOTO_BYTES: usize = 2 * (size_of::<u32>() + size_of::<Photo>());

/// The users.
#[derive(Debug)]
pub struct Users {
    domains: Arc<Domains>,
    slots: Slots<User>,
    /// How fast each of them sends, in the same places.
    paces: Slots<Pace>,
    free: Vec<u32>,
    index: HashTable<u32>,
    /// What has taken in the key, and nothing else.
    keyed: DefaultHasher,
    /// Photos that users' presence shows; bounded by the users.
    photos: BTreeMap<u32, Photo>,
}

/// The place of a name in the index. Without the key nobody can choose names that share one: each look-up would go through
/// all of them, and any stranger can have names looked up.
fn hash(keyed: &DefaultHasher, (local, domain): (&str, DomainId)) -> u64 {
    let mut hasher = keyed.clone();
    hasher.write(local.as_bytes());
    domain.mix(hasher.finish())
}

impl Users {
    /// No users of these domains. `key` is secret, and keys the index.
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

    /// Localpart and domain of a JID, bare or full, of a domain served.
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

    /// The user of this JID, made if need be.
    ///
    /// # Panics
    /// With a JID that is no user's: those of other domains have no home here.
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

    /// A user that is there.
    pub fn get(&self, slot: u32) -> &User {
        &self.slots[slot as usize]
    }

    /// A user that is there.
    pub fn get_mut(&mut self, slot: u32) -> &mut User {
        &mut self.slots[slot as usize]
    }

    /// How fast a user sends who is there.
    #[inline]
    pub fn pace_mut(&mut self, slot: u32) -> &mut Pace {
        &mut self.paces[slot as usize]
    }

    /// Loaded state of a user, made empty if need be.
    pub fn state(&mut self, slot: u32, now_s: u32) -> &mut UserState {
        let state = self.slots[slot as usize].state.get_or_insert_with(Box::default);
        state.used_s = now_s;
        state
    }

    /// Forgets a user that has no session and nothing unsettled. Returns whether it did.
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

    /// The photo that a user's presence shows.
    #[inline]
    pub fn photo(&self, slot: u32) -> Option<Photo> {
        self.photos.get(&slot).copied()
    }

    /// A user's presence shows this photo, as long as the user is here.
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

    /// Memory of the table and its index, by their room, bytes.
    pub fn memory_bytes(&self) -> usize {
        let photos = self.photos.len() * PHOTO_BYTES;
        let slots = self.slots.memory_bytes() + self.paces.memory_bytes();
        slots + self.free.capacity() * size_of::<u32>() + self.index.allocation_size() + photos
    }

    /// Users held.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a session in front of its user's list.
    pub fn link(&mut self, sessions: &mut Sessions, id: SessionId) {
        let user = &mut self.slots[sessions.slot(id.slot).user as usize];
        sessions.slot_mut(id.slot).next = user.first;
        user.first = id.slot;
    }

    /// Takes a session out of its user's list.
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

    /// Names that met in one place while the index had no key: 1,000 are made in two seconds, by going back over its steps.
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

    /// Names of 16 bytes that the index without a key had in one place: for each first word, the second that leads there.
    /// Of 3,000 such pairs one has only bytes of plain text.
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
