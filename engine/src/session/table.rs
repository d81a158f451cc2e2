//! A shard's sessions: bound resources (RFC 6120 7), connected or waiting to be resumed (XEP-0198 5).

use super::conn::NONE;
use super::sm::Managed;
use crate::extension::Notes;
use crate::extension::presence::PresenceId;
use crate::id::{ConnId, SessionId};
use crate::slots::Slots;

/// One session. What only some have is boxed.
#[derive(Debug)]
pub struct Session {
    generation: u32,
    /// The user, an index of the shard's users; [`NONE`] in a free slot.
    pub user: u32,
    /// The user's next session, or [`NONE`].
    pub next: u32,
    /// The connection, or none while it waits to be resumed. Changed by [`Sessions::set_conn`], which counts.
    pub conn: Option<ConnId>,
    /// Resourcepart, normalised.
    pub resource: Box<str>,
    /// Interned payload of the last available presence; `None` when not available. Changed by
    /// [`Sessions::set_presence`], which counts.
    pub presence: Option<PresenceId>,
    /// Priority of that presence (RFC 6121 4.7.2.3).
    pub priority: i8,
    /// It has asked for the roster, so it gets roster pushes (RFC 6121 2.2).
    pub interested: bool,
    /// It follows its user's log: it takes messages for the bare JID, and its place is known.
    pub follows: bool,
    /// Who else can read what it says.
    pub privacy: Privacy,
    /// Stanzas under way to other homes.
    pub in_flight: u16,
    /// Bytes of stanzas sent to other homes since all of them were last known to be durable, in pieces of
    /// [`UNSETTLED_PIECE`], rounded up.
    unsettled: u16,
    /// Second (monotonic) since which it has its connection, or since which it has none.
    pub since_s: u32,
    /// Stream management.
    pub managed: Option<Box<Managed>>,
    /// When the work that it has set off is paid off, milliseconds of the monotonic clock, of which the lower bits stand here.
    pub pays_until_ms: u32,
    /// Extensions with a mark on it, a bit for each place in their table.
    pub marks: u32,
    /// What few sessions have.
    pub extra: Option<Box<Extra>>,
}

/// What few sessions have.
#[derive(Debug, Default)]
pub struct Extra {
    /// Bare and full JIDs that got directed presence (RFC 6121 4.6), sorted.
    pub directed: Vec<Box<str>>,
    /// Presence was dropped because too much waited: this contact, and those behind it in the roster's order, are still to be asked for
    /// theirs.
    pub missed: Option<Box<str>>,
    /// Notes of extensions.
    pub notes: Notes,
    /// Language of the stream's stanzas, where it is not the server's own (RFC 6120 4.7.4).
    pub lang: Option<Box<str>>,
}

impl Extra {
    fn is_empty(&self) -> bool {
        self.directed.is_empty() && self.missed.is_none() && self.notes.is_empty() && self.lang.is_none()
    }

    /// Memory that it takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        let directed: usize = self.directed.iter().map(|jid| size_of::<Box<str>>() + jid.len()).sum();
        size_of::<Extra>()
            + directed
            + self.notes.memory_bytes()
            + [&self.lang, &self.missed].into_iter().flatten().map(|text| text.len()).sum::<usize>()
    }
}

/// Who else can read what a session says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// Anybody on the way.
    Open,
    /// Nobody, the operator says of its listener: it may carry a password.
    Trusted,
    /// Nobody: the stream is encrypted.
    Encrypted,
}

/// Unit in which a session's bytes that are not yet durable are counted: it has two bytes for them.
const UNSETTLED_PIECE: usize = 64;

/// Bytes that a session may have under way at the most: what the count can tell.
pub const UNSETTLED_BYTES_MAX: usize = u16::MAX as usize * UNSETTLED_PIECE;

const _: () = assert!(size_of::<Session>() <= 80, "an idle session costs this much");

impl Session {
    /// A stanza of so many bytes goes to another home.
    pub fn unsettle(&mut self, bytes: usize) {
        let pieces = u16::try_from(bytes.div_ceil(UNSETTLED_PIECE)).unwrap_or(u16::MAX);
        self.unsettled = self.unsettled.saturating_add(pieces);
    }

    /// Whether it has sent `bytes_max`, at most [`UNSETTLED_BYTES_MAX`], or more since all was durable.
    pub fn is_unsettled(&self, bytes_max: usize) -> bool {
        usize::from(self.unsettled) * UNSETTLED_PIECE >= bytes_max.min(UNSETTLED_BYTES_MAX)
    }

    /// All that it has sent is durable, or will be before it is read from again.
    pub fn settle(&mut self) {
        self.unsettled = 0;
    }

    /// A session that has just been bound.
    pub fn new(user: u32, resource: Box<str>, conn: ConnId, privacy: Privacy) -> Session {
        Session {
            generation: 0,
            user,
            next: NONE,
            conn: Some(conn),
            resource,
            presence: None,
            priority: 0,
            interested: false,
            privacy,
            follows: false,
            in_flight: 0,
            unsettled: 0,
            since_s: 0,
            managed: None,
            pays_until_ms: 0,
            marks: 0,
            extra: None,
        }
    }

    /// Bare and full JIDs that got directed presence, sorted.
    pub fn directed(&self) -> &[Box<str>] {
        self.extra.as_ref().map_or(&[], |extra| &extra.directed)
    }

    /// Takes these out.
    pub fn take_directed(&mut self) -> Vec<Box<str>> {
        let directed = self.extra.as_mut().map(|extra| std::mem::take(&mut extra.directed)).unwrap_or_default();
        self.trim();
        directed
    }

    /// Gives back the memory of what few sessions have, if it has none of it.
    pub fn trim(&mut self) {
        self.extra.take_if(|extra| extra.is_empty());
    }

    /// Available (RFC 6121 4.2).
    pub fn is_available(&self) -> bool {
        self.presence.is_some()
    }

    /// Takes messages for the bare JID (RFC 6121 8.5.2.1.1).
    pub fn takes_messages(&self) -> bool {
        self.presence.is_some() && self.priority >= 0
    }
}

/// The sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    slots: Slots<Session>,
    free: Vec<u32>,
    detached: usize,
    available: usize,
}

impl Sessions {
    /// Takes a session in.
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

    /// The session that a stanza or an answer comes from right now: as long as it is heard it does not go, because endings are carried
    /// out later.
    pub fn heard(&mut self, id: SessionId) -> &mut Session {
        self.get_mut(id).expect("a session that is heard is there")
    }

    /// A session that is there in this generation.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        let session = self.slots.get(id.slot as usize)?;
        (session.generation == id.generation && session.user != NONE).then_some(session)
    }

    /// A session that is there in this generation.
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

    /// Takes a session out; its slot is free.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        self.set_presence(id, None);
        self.set_conn(id, None);
        self.get(id)?;
        self.detached -= 1;
        let mut free = Session::new(NONE, "".into(), ConnId { slot: NONE, generation: 0 }, Privacy::Open);
        free.generation = id.generation;
        free.conn = None;
        self.free.push(id.slot);
        Some(std::mem::replace(&mut self.slots[id.slot as usize], free))
    }

    /// Changes the connection of a session and returns the one before.
    pub fn set_conn(&mut self, id: SessionId, conn: Option<ConnId>) -> Option<ConnId> {
        let now = usize::from(conn.is_none());
        let before = std::mem::replace(&mut self.get_mut(id)?.conn, conn);
        self.detached = self.detached + now - usize::from(before.is_none());
        before
    }

    /// Changes the presence of a session and returns the one before, a reference that the caller gives back.
    pub fn set_presence(&mut self, id: SessionId, presence: Option<PresenceId>) -> Option<PresenceId> {
        let now = usize::from(presence.is_some());
        let before = std::mem::replace(&mut self.get_mut(id)?.presence, presence);
        self.available = self.available + now - usize::from(before.is_some());
        before
    }

    /// Sessions without a connection.
    pub fn detached(&self) -> usize {
        self.detached
    }

    /// Available sessions.
    pub fn available(&self) -> usize {
        self.available
    }

    /// Sessions held.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots, free ones included.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Memory of the table, by its room, bytes.
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
        let conn = ConnId { slot: 0, generation: 0 };
        let ids: Vec<_> = (0..3).map(|n| sessions.insert(Session::new(n, "r".into(), conn, Privacy::Open))).collect();
        let presence = table.intern(b"<presence/>").unwrap();
        assert_eq!(sessions.set_presence(ids[0], Some(presence)), None);
        assert_eq!(sessions.set_presence(ids[1], Some(table.retain(presence))), None);
        assert_eq!(sessions.set_presence(ids[1], Some(table.retain(presence))), Some(presence), "counted once");
        assert_eq!(sessions.set_conn(ids[1], None), Some(conn));
        assert_eq!(sessions.set_conn(ids[1], None), None);
        assert_eq!((sessions.available(), sessions.detached()), (2, 1));
        sessions.set_conn(ids[1], Some(conn));
        sessions.set_presence(ids[0], None);
        assert_eq!((sessions.available(), sessions.detached()), (1, 0));
        for id in ids {
            sessions.remove(id);
        }
        assert_eq!((sessions.available(), sessions.detached(), sessions.len()), (0, 0, 0));
    }
}
