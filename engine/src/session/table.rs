//! A shard's sessions: bound resources (RFC 6120 7), connected or waiting to be resumed (XEP-0198 5).

use super::conn::NONE;
use super::sm::Managed;
use crate::id::{ConnId, SessionId};

/// One session. What only some have is boxed.
#[derive(Debug)]
pub struct Session {
    generation: u32,
    /// The user, an index of the shard's users; [`NONE`] in a free slot.
    pub user: u32,
    /// The user's next session, or [`NONE`].
    pub next: u32,
    /// The connection, or none while it waits to be resumed.
    pub conn: Option<ConnId>,
    /// Resourcepart, normalised.
    pub resource: Box<str>,
    /// Interned payload of the last available presence; `None` when not available.
    pub presence: Option<crate::feature::presence::PresenceId>,
    /// Priority of that presence (RFC 6121 4.7.2.3).
    pub priority: i8,
    /// It has asked for the roster, so it gets roster pushes (RFC 6121 2.2).
    pub interested: bool,
    /// The stream is encrypted.
    pub secured: bool,
    /// Stanzas under way to other homes.
    pub in_flight: u16,
    /// Second (monotonic) since which it has no connection.
    pub detached_s: u32,
    /// Stream management.
    pub managed: Option<Box<Managed>>,
    /// Bare and full JIDs that got directed presence (RFC 6121 4.6).
    pub directed: Option<Box<Vec<Box<str>>>>,
}

impl Session {
    /// A session that has just been bound.
    pub fn new(user: u32, resource: Box<str>, conn: ConnId, secured: bool) -> Session {
        Session {
            generation: 0,
            user,
            next: NONE,
            conn: Some(conn),
            resource,
            presence: None,
            priority: 0,
            interested: false,
            secured,
            in_flight: 0,
            detached_s: 0,
            managed: None,
            directed: None,
        }
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
    slots: Vec<Session>,
    free: Vec<u32>,
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
        let slot = self.slots.len() as u32;
        self.slots.push(session);
        SessionId { slot, generation: 0 }
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
        self.get(id)?;
        let mut free = Session::new(NONE, "".into(), ConnId { slot: NONE, generation: 0 }, false);
        free.generation = id.generation;
        free.conn = None;
        self.free.push(id.slot);
        Some(std::mem::replace(&mut self.slots[id.slot as usize], free))
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
}
