//! A shard's sessions: the user halves of bound resources (RFC 6120 7). This module knows nothing
//! about their streams.

use super::conn::NONE;
use crate::extension::Notes;
use crate::extension::presence::PresenceId;
use crate::follow::Follower;
use crate::id::SessionId;
use crate::slots::Slots;
use crate::store::ids::Ids;
use std::sync::Arc;

/// The user half of a session. Rare state is boxed.
#[derive(Debug)]
pub struct Session {
    generation: u32,
    /// The user, an index of the shard's users; [`NONE`] in a free slot.
    pub user: u32,
    /// The user's next session, or [`NONE`].
    pub next: u32,
    /// Resourcepart, normalised.
    pub resource: Box<str>,
    /// Interned payload of the last available presence; `None` while unavailable. Changed by
    /// [`Sessions::set_presence`], which maintains the count.
    pub presence: Option<PresenceId>,
    /// Priority of that presence (RFC 6121 4.7.2.3).
    pub priority: i8,
    /// Whether it has requested the roster, and therefore gets roster pushes (RFC 6121 2.2).
    pub interested: bool,
    /// Whether it follows its user's log: it takes messages for the bare JID, and its position is
    /// known.
    pub follows: bool,
    /// Which third parties can read its stream.
    pub privacy: Privacy,
    /// Extensions that have marked it, one bit per place in their table.
    pub marks: u32,
    /// The form of the ids of its user's messages (XEP-0359).
    pub ids: Ids,
    /// State that few sessions have.
    pub extra: Option<Box<Extra>>,
}

/// Names of nodes, sorted.
pub type Nodes = Arc<[Box<str>]>;

/// A session's progress through its contacts, whose last items it is to be sent (XEP-0163 4.3.4).
#[derive(Debug)]
pub struct Walk {
    /// The nodes that interest it.
    pub nodes: Nodes,
    /// The next contact; `None` at the beginning, where the user's own account comes first.
    pub next: Option<Box<str>>,
}

impl Walk {
    /// Memory used, bytes; the names are shared.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Walk>() + self.next.as_ref().map_or(0, |next| next.len())
    }
}

/// A room from which a session has not received everything: it is behind, and reads the archive of
/// the room at its own pace.
#[derive(Debug)]
pub struct BehindRoom {
    /// The room's bare JID.
    pub room: Box<str>,
    /// Its position. The number of a request is the monotonic second at which it was sent.
    pub follower: Follower,
}

/// State that few sessions have.
#[derive(Debug, Default)]
pub struct Extra {
    /// Bare and full JIDs that were sent directed presence (RFC 6121 4.6), sorted.
    pub directed: Vec<Box<str>>,
    /// Set when presence was dropped because too much output was pending: this contact, and those
    /// after it in the roster's order, are still to be probed.
    pub missed: Option<Box<str>>,
    /// Rooms in which it is behind; at most [`ROOMS_BEHIND_MAX`](crate::limits::ROOMS_BEHIND_MAX).
    pub behind: Vec<BehindRoom>,
    /// Its progress through its contacts, whose last items it is to be sent.
    pub walk: Option<Box<Walk>>,
    /// Notes of extensions.
    pub notes: Notes,
    /// Requests of the server that the client has not answered, by the place of the requesting
    /// extension and their `id`; at most [`ASKED_MAX`](crate::limits::ASKED_MAX).
    pub asked: Vec<(u8, Box<str>)>,
    /// Language of the stream's stanzas, if it differs from the server's (RFC 6120 4.7.4).
    pub lang: Option<Box<str>>,
}

impl Extra {
    fn is_empty(&self) -> bool {
        self.directed.is_empty()
            && self.missed.is_none()
            && self.behind.is_empty()
            && self.walk.is_none()
            && self.notes.is_empty()
            && self.lang.is_none()
            && self.asked.is_empty()
    }

    /// Memory used, bytes.
    pub fn memory_bytes(&self) -> usize {
        let directed: usize = self.directed.iter().map(|jid| size_of::<Box<str>>() + jid.len()).sum();
        let asked: usize = self.asked.iter().map(|(_, id)| size_of::<(u8, Box<str>)>() + id.len()).sum();
        let behind: usize = self.behind.iter().map(|behind| size_of::<BehindRoom>() + behind.room.len()).sum();
        size_of::<Extra>()
            + directed
            + behind
            + asked
            + self.notes.memory_bytes()
            + self.walk.as_ref().map_or(0, |walk| walk.memory_bytes())
            + [&self.lang, &self.missed].into_iter().flatten().map(|text| text.len()).sum::<usize>()
    }
}

/// Which third parties can read a session's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Privacy {
    /// Anyone on the network path.
    Open,
    /// No one, according to the operator: the listener may carry a password.
    Trusted,
    /// No one: the stream is encrypted.
    Encrypted,
}

const _: () = assert!(size_of::<Session>() <= 56, "an idle session costs this much, beside its stream half");

impl Session {
    /// Creates a session that has just been bound.
    pub fn new(user: u32, resource: Box<str>, privacy: Privacy) -> Session {
        Session {
            generation: 0,
            user,
            next: NONE,
            resource,
            presence: None,
            priority: 0,
            interested: false,
            privacy,
            follows: false,
            marks: 0,
            ids: Ids::PLAIN,
            extra: None,
        }
    }

    /// Takes over the properties of its new stream.
    pub fn takes(&mut self, privacy: Privacy, lang: Option<Box<str>>) {
        self.privacy = privacy;
        if lang.is_some() || self.extra.is_some() {
            self.extra.get_or_insert_default().lang = lang;
            self.trim();
        }
    }

    /// Bare and full JIDs that were sent directed presence, sorted.
    pub fn directed(&self) -> &[Box<str>] {
        self.extra.as_ref().map_or(&[], |extra| &extra.directed)
    }

    /// Takes these JIDs out.
    pub fn take_directed(&mut self) -> Vec<Box<str>> {
        let directed = self.extra.as_mut().map(|extra| std::mem::take(&mut extra.directed)).unwrap_or_default();
        self.trim();
        directed
    }

    /// Its position in a room in which it is behind.
    pub fn behind_in(&mut self, room: &str) -> Option<&mut Follower> {
        let mut rooms = self.extra.as_mut()?.behind.iter_mut();
        rooms.find(|behind| *behind.room == *room).map(|behind| &mut behind.follower)
    }

    /// Frees the rare state if it is empty.
    pub fn trim(&mut self) {
        self.extra.take_if(|extra| {
            extra.behind.retain(|behind| !behind.follower.is_at_head());
            extra.is_empty()
        });
    }

    /// Whether it is available (RFC 6121 4.2).
    pub fn is_available(&self) -> bool {
        self.presence.is_some()
    }

    /// Whether it takes messages for the bare JID (RFC 6121 8.5.2.1.1).
    pub fn takes_messages(&self) -> bool {
        self.presence.is_some() && self.priority >= 0
    }
}

/// A shard's table of sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    slots: Slots<Session>,
    free: Vec<u32>,
    available: usize,
}

impl Sessions {
    /// Inserts a session.
    pub fn insert(&mut self, mut session: Session) -> SessionId {
        if let Some(slot) = self.free.pop() {
            let old = &mut self.slots[slot as usize];
            session.generation = old.generation.wrapping_add(1);
            let generation = session.generation;
            *old = session;
            return SessionId { slot, generation };
        }
        let slot = self.slots.push(session) as u32;
        SessionId { slot, generation: 0 }
    }

    /// Returns the session whose input is being handled. It always exists, because endings are
    /// carried out later.
    pub fn heard(&mut self, id: SessionId) -> &mut Session {
        self.get_mut(id).expect("a session that is heard is there")
    }

    /// Returns a session if its generation is current.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        let session = self.slots.get(id.slot as usize)?;
        (session.generation == id.generation && session.user != NONE).then_some(session)
    }

    /// Returns a session if its generation is current.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        let session = self.slots.get_mut(id.slot as usize)?;
        (session.generation == id.generation && session.user != NONE).then_some(session)
    }

    /// The session of a slot that is known to be in use.
    pub fn slot(&self, slot: u32) -> &Session {
        &self.slots[slot as usize]
    }

    /// The session of a slot that is known to be in use.
    pub fn slot_mut(&mut self, slot: u32) -> &mut Session {
        &mut self.slots[slot as usize]
    }

    /// The id of the session in a slot, if there is one.
    pub fn id(&self, slot: u32) -> Option<SessionId> {
        let session = self.slots.get(slot as usize)?;
        (session.user != NONE).then_some(SessionId { slot, generation: session.generation })
    }

    /// Removes a session and frees its slot.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        self.set_presence(id, None);
        self.get(id)?;
        let mut free = Session::new(NONE, "".into(), Privacy::Open);
        free.generation = id.generation;
        self.free.push(id.slot);
        Some(std::mem::replace(&mut self.slots[id.slot as usize], free))
    }

    /// Changes the presence of a session. Returns the previous one, a reference that the caller
    /// must release.
    pub fn set_presence(&mut self, id: SessionId, presence: Option<PresenceId>) -> Option<PresenceId> {
        let now = usize::from(presence.is_some());
        let before = std::mem::replace(&mut self.get_mut(id)?.presence, presence);
        self.available = self.available + now - usize::from(before.is_some());
        before
    }

    /// Number of available sessions.
    pub fn available(&self) -> usize {
        self.available
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of slots, including free ones.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Memory of the table, by its capacity, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes() + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::presence::PresenceTable;

    #[test]
    fn sessions_are_counted_by_what_they_do() {
        let (mut sessions, mut table) = (Sessions::default(), PresenceTable::new([0; 2]));
        let ids: Vec<_> = (0..3).map(|n| sessions.insert(Session::new(n, "r".into(), Privacy::Open))).collect();
        let presence = table.intern(b"<presence/>").unwrap();
        assert_eq!(sessions.set_presence(ids[0], Some(presence)), None);
        assert_eq!(sessions.set_presence(ids[1], Some(table.retain(presence))), None);
        assert_eq!(sessions.set_presence(ids[1], Some(table.retain(presence))), Some(presence), "counted once");
        assert_eq!(sessions.available(), 2);
        sessions.set_presence(ids[0], None);
        assert_eq!(sessions.available(), 1);
        for id in ids {
            sessions.remove(id);
        }
        assert_eq!((sessions.available(), sessions.len()), (0, 0));
    }
}
