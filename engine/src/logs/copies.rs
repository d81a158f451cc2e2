//! Copies of a user's messages for sessions that request them and do not get the message itself:
//! messages that the user's other sessions have sent, and messages that were addressed to one of
//! them alone. Extensions decide which messages are copied, and the form of a copy.
//!
//! A session at the head of the log gets a copy in the turn that appends the entry. A session that
//! is behind reads it from the log, like every other entry. No cursor waits for a copy; a copy lost
//! with its session is still in the archive.

use smallvec::SmallVec;

use crate::actors::Actors;
use crate::extension;
use crate::extension::offline::delay;
use crate::extension::{COPIES, Original, TABLE, Way};
use crate::id::SessionId;
use crate::logs::hand::Stamp;
use crate::logs::{Logs, Takers};
use crate::store::archive::Entry;
use crate::store::sessions::Trail;
use crate::streams::Streams;
use crate::wire::Element;
use crate::wire::written::{insert_at_end, read_back};

/// Extensions whose copies a session gets; seldom more than one.
type Places = SmallVec<[usize; 2]>;

impl Logs {
    /// Sessions of a user that request copies.
    pub(crate) fn copied(&self, actors: &Actors, user: u32) -> Takers {
        if !actors.users.get(user).marked {
            return Takers::new();
        }
        actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.marks & COPIES != 0).map(|(id, _)| id).collect()
    }

    /// Sends copies of a user's message to the sessions that request them and have not `got` the
    /// message itself. `number` is its place in the user's log, or 0 if it is in none.
    #[inline]
    pub(crate) fn copy(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        way: Way,
        number: u64,
        xml: &[u8],
        trail: &mut Trail,
        got: impl Fn(&Actors, SessionId) -> bool,
    ) {
        if actors.users.get(user).marked {
            self.copy_to_marked(cx, actors, user, way, number, xml, trail, got);
        }
    }

    fn copy_to_marked(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        way: Way,
        number: u64,
        xml: &[u8],
        trail: &mut Trail,
        got: impl Fn(&Actors, SessionId) -> bool,
    ) {
        let wanting: Takers = self.copied(actors, user).into_iter().filter(|&id| !got(actors, id)).collect();
        if wanting.is_empty() {
            return;
        }
        read_back(xml, |element| {
            let mut fell = false;
            for id in wanting {
                let places = self.wanted(actors, id, element);
                let follows = actors.sessions.get(id).is_some_and(|session| session.follows);
                let behind = follows && self.log_if_known(actors, user).is_some_and(|log| log.is_behind(id));
                if places.is_empty() || (behind && number != 0) {
                    continue;
                }
                if !cx.is_busy(id) {
                    self.hand_copies(cx, actors, id, &places, way, Stamp { id: number, came_ms: None }, element);
                    let mark = cx.copy_mark(id, number);
                    if mark != 0
                        && let Some(step) = cx.handed(id, mark)
                    {
                        trail.add(step);
                    }
                } else if number != 0 && follows && self.know_log(cx, actors, user) {
                    self.log(cx, actors, user).fall_behind(id, number - 1, number - 1);
                    fell = true;
                } else {
                    cx.kernel.counters.stanzas_dropped.one();
                }
            }
            if fell {
                self.heads_changed(actors, user);
            }
        });
    }

    /// A session that reads the log reaches an entry that is not addressed to it.
    pub(crate) fn copy_of_entry(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        id: SessionId,
        stamp: Stamp,
        entry: &Entry<'_>,
    ) {
        if actors.sessions.get(id).is_none_or(|session| session.marks & COPIES == 0) {
            return;
        }
        let way = if entry.incoming { Way::In } else { Way::Out };
        read_back(entry.xml, |element| {
            let places = self.wanted(actors, id, element);
            self.hand_copies(cx, actors, id, &places, way, stamp, element);
        });
    }

    /// Extensions for which a session gets a copy of a message that it has neither sent nor
    /// received.
    fn wanted(&self, actors: &Actors, id: SessionId, element: &Element<'_>) -> Places {
        let Some(session) = actors.sessions.get(id) else { return Places::new() };
        let full = actors.full_jid(id);
        if element.from().as_deref() == Some(&full) || element.to().as_deref() == Some(&full) {
            return Places::new();
        }
        let takes = |place: &usize| TABLE[*place].copies.as_ref().is_some_and(|copies| (copies.takes)(element));
        extension::places(session.marks & COPIES).filter(takes).collect()
    }

    /// The id of the stamp is 0 for a message that is in no log.
    fn hand_copies(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        id: SessionId,
        places: &[usize],
        way: Way,
        stamp: Stamp,
        element: &Element<'_>,
    ) {
        if places.is_empty() {
            return;
        }
        let (mut stamped, mut xml) = (Vec::new(), element.bytes());
        if stamp.id != 0 {
            stamped.reserve(xml.len() + 128);
            insert_at_end(&mut stamped, xml, |out| self.stamp(actors, out, id, Stamp { came_ms: None, ..stamp }));
            xml = &stamped;
        }
        let mut late = Vec::new();
        if let Some(came_ms) = stamp.came_ms {
            delay(&mut late, actors.users.domain(actors.sessions.slot(id.slot).user), came_ms.saturating_mul(1_000));
        }
        let user = actors.bare_of_user(actors.sessions.slot(id.slot).user);
        let (full, kind) = (actors.full_jid(id), element.kind().unwrap_or_default());
        for place in places {
            let Some(copies) = &TABLE[*place].copies else { continue };
            let mut out = Vec::with_capacity(xml.len() + 256);
            (copies.write)(&mut out, &Original { xml, kind: &kind, way, user: &user, to: &full, delay: &late });
            let mark = cx.copy_mark(id, stamp.id);
            actors.hand_bytes(cx, id, mark, &out);
        }
    }
}
