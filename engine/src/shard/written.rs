//! What a shard keeps for its users as another process would be given it.

use crate::codec::{Error, encode};
use crate::extension::{name_at, places};
use crate::id::{Now, SessionId};
use crate::session::half::{Halves, UserHalf};
use crate::shard::Shard;

impl Shard {
    /// Requests that wait, and both halves of all sessions, each as [`crate::codec`] writes it.
    /// Changes nothing.
    ///
    /// # Errors
    /// One of them has no written form.
    pub fn written(&self, now: Now) -> Result<Vec<Vec<u8>>, Error> {
        let pending = self.cx.kernel.pending.values().map(|pending| encode(pending.clone(), now));
        let sessions = (0..self.actors.sessions.slots()).filter_map(|slot| self.actors.sessions.id(slot));
        let halves = sessions.filter_map(|id| self.halves(id, now)).map(|halves| encode(halves, now));
        pending.chain(halves).collect()
    }

    fn halves(&self, id: SessionId, now: Now) -> Option<Halves> {
        let session = self.actors.sessions.get(id)?;
        let (user, extra) = (session.user, session.extra.as_deref());
        let marks = places(session.marks).map(|place| (place as u8, name_at(place).into()));
        let behind = extra.into_iter().flat_map(|extra| extra.behind.iter());
        let walk = extra.and_then(|extra| extra.walk.as_ref());
        let held = extra.into_iter().flat_map(|extra| extra.notes.iter()).flat_map(|(_, note)| note.held());
        let user = UserHalf {
            account: self.actors.bare_of_user(user).into(),
            resource: session.resource.clone(),
            presence: session.presence.map(|presence| self.contacts.presence_table.get(presence).into()),
            priority: session.priority,
            interested: session.interested,
            follows: session.follows,
            seen: self.logs.position(&self.cx, &self.actors, user, id),
            privacy: session.privacy,
            marks: marks.collect(),
            ids: session.ids,
            directed: session.directed().to_vec(),
            missed: extra.and_then(|extra| extra.missed.clone()),
            behind: behind.map(|behind| (behind.room.clone(), behind.follower.at)).collect(),
            walk: walk.map(|walk| (walk.nodes.clone(), walk.next.clone())),
            asked: extra.map(|extra| extra.asked.clone()).unwrap_or_default(),
            lang: extra.and_then(|extra| extra.lang.clone()),
            held: held.map(<[u8]>::to_vec).collect(),
        };
        Some(Halves { user, stream: self.cx.stream_half(id, now)? })
    }
}
