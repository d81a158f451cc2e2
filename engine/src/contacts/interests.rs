//! What clients are interested in (XEP-0060 9.2), by the hash of their capabilities (XEP-0115): each hash is asked about once, and what
//! it stands for is believed if it is the hash of that.
//!
//! Clients that name the same hash share one question. If it is not answered in a few seconds, others are asked too: one, then twice as
//! many, and so on, clients of users that were not asked yet first. So clients that never answer delay the others by seconds only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::presence::PresenceId;
use crate::extension::{self, Capable, caps};
use crate::id::SessionId;
use crate::limits::{CAPABILITIES_ANSWER_MS, CAPABILITIES_ASK_MS, CAPABILITIES_SPARE_MAX};
use crate::session::table::Nodes;
use crate::streams::Streams;
use crate::wire::Element;
use crate::wire::written::read_back;

/// A base64 SHA-1 has 28 characters.
const VER_BYTES: usize = 28;

#[derive(Debug)]
struct Entry {
    ver: Box<str>,
    /// Nodes, once they are known.
    nodes: Option<Nodes>,
    /// Presences that name the hash.
    references: u32,
    /// Sessions whose clients were asked in the last [`CAPABILITIES_ASK_MS`], and when, milliseconds.
    asked: BTreeMap<SessionId, u64>,
    /// A question is open: more clients are asked at this time, milliseconds.
    due_ms: Option<u64>,
    /// How many these will be.
    next: usize,
    /// Sessions that have become available while it was not known, and name it still.
    waiting: BTreeSet<SessionId>,
    /// It is in the list of those that may go.
    spare: bool,
}

/// Hashes of capabilities that presences of a shard name, and some that they have named.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    entries: Vec<Entry>,
    free: Vec<u32>,
    index: BTreeMap<Box<str>, u32>,
    /// Of their names and of what they stand for.
    bytes: usize,
    /// Known ones that nobody may name any more; bounded by [`CAPABILITIES_SPARE_MAX`].
    spare: VecDeque<u32>,
    /// When more clients are to be asked, and about which entry: the earliest first. One that was answered or removed meanwhile is passed
    /// over. Bounded by the questions of [`CAPABILITIES_ANSWER_MS`].
    rounds: VecDeque<(u64, u32)>,
}

impl Interests {
    /// Takes a reference to a hash.
    fn take(&mut self, ver: &str) -> u32 {
        if let Some(&at) = self.index.get(ver) {
            self.entries[at as usize].references += 1;
            return at;
        }
        let entry = Entry {
            ver: ver.into(),
            nodes: None,
            references: 1,
            asked: BTreeMap::new(),
            due_ms: None,
            next: 1,
            waiting: BTreeSet::new(),
            spare: false,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.index.insert(ver.into(), at);
        self.bytes += bytes_of(&self.entries[at as usize]);
        at
    }

    /// Gives a reference back. What nobody names is kept for a while if it is known.
    fn release(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        entry.references -= 1;
        if entry.references > 0 {
            return;
        }
        if entry.nodes.is_none() {
            return self.remove(at);
        }
        if !std::mem::replace(&mut entry.spare, true) {
            self.spare.push_back(at);
        }
        while self.spare.len() > CAPABILITIES_SPARE_MAX {
            let Some(first) = self.spare.pop_front() else { break };
            let entry = &mut self.entries[first as usize];
            entry.spare = false;
            if entry.references == 0 {
                self.remove(first);
            }
        }
    }

    fn remove(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        self.bytes -= bytes_of(entry);
        self.index.remove(&entry.ver);
        entry.nodes = None;
        entry.settle();
        self.free.push(at);
    }

    /// What a hash stands for is known now. Returns who has waited for it; none if nobody wants to know.
    fn learn(&mut self, capable: Capable) -> Option<(u32, BTreeSet<SessionId>)> {
        let &at = self.index.get(&*capable.ver)?;
        let entry = &mut self.entries[at as usize];
        if entry.nodes.is_some() {
            return None;
        }
        self.bytes -= bytes_of(entry);
        entry.nodes = Some(capable.interests.into_vec().into());
        self.bytes += bytes_of(entry);
        Some((at, entry.settle()))
    }

    /// A client is being asked.
    fn asks(&mut self, at: u32, session: SessionId, now_ms: u64) {
        let entry = &mut self.entries[at as usize];
        entry.asked.insert(session, now_ms);
        if entry.due_ms.is_none() {
            let due_ms = now_ms + CAPABILITIES_ANSWER_MS;
            entry.due_ms = Some(due_ms);
            self.rounds.push_back((due_ms, at));
        }
    }

    /// The next entry about which more clients are to be asked now, and how many.
    fn next_round(&mut self, now_ms: u64) -> Option<(u32, usize)> {
        while let Some(&(due_ms, at)) = self.rounds.front().filter(|(due_ms, _)| *due_ms <= now_ms) {
            self.rounds.pop_front();
            let entry = &mut self.entries[at as usize];
            if entry.due_ms == Some(due_ms) {
                let most = entry.next;
                (entry.due_ms, entry.next) = (None, most.saturating_mul(2));
                return Some((at, most));
            }
        }
        None
    }

    /// Memory that they take, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.bytes
    }
}

impl Entry {
    /// Nobody is asked any more. Returns the sessions that have waited.
    fn settle(&mut self) -> BTreeSet<SessionId> {
        (self.asked, self.due_ms, self.next) = (BTreeMap::new(), None, 1);
        std::mem::take(&mut self.waiting)
    }
}

/// Bytes of an entry's texts.
fn bytes_of(entry: &Entry) -> usize {
    let names = entry.nodes.iter().flat_map(|nodes| nodes.iter());
    2 * entry.ver.len() + names.map(|name| size_of::<Box<str>>() + name.len()).sum::<usize>()
}

/// The node and the hash that a presence names, if it is one of those that are understood (XEP-0115 4).
fn named(presence: &Element<'_>) -> Option<(String, String)> {
    let c = presence.child("c", caps::NS)?;
    let (hash, node, ver) = (c.attribute("hash")?, c.attribute("node")?, c.attribute("ver")?);
    (hash == "sha-1" && ver.len() == VER_BYTES).then(|| (node.into_owned(), ver.into_owned()))
}

impl Contacts {
    /// Notes which hash a presence names, if it was not seen before.
    pub(super) fn note_capabilities(&mut self, id: PresenceId, presence: &Element<'_>) {
        if self.presence_table.tag(id).is_none()
            && let Some((_, ver)) = named(presence)
        {
            let at = self.interests.take(&ver);
            self.presence_table.set_tag(id, at);
        }
    }

    /// Gives the reference to a presence back.
    fn release_presence(&mut self, id: PresenceId) {
        if let Some(tag) = self.presence_table.release(id) {
            self.interests.release(tag);
        }
    }

    fn tag_of(&self, actors: &Actors, session: SessionId) -> Option<u32> {
        self.presence_table.tag(actors.sessions.get(session)?.presence?)
    }

    /// What a session is interested in; none if that is not known, or it has not said.
    pub(super) fn interests_of(&self, actors: &Actors, session: SessionId) -> Option<Nodes> {
        self.interests.entries[self.tag_of(actors, session)? as usize].nodes.clone()
    }

    /// Whether a session is interested in a node.
    pub(super) fn wants(&self, actors: &Actors, session: SessionId, node: &str) -> bool {
        let nodes = self.tag_of(actors, session).and_then(|at| self.interests.entries[at as usize].nodes.as_ref());
        nodes.is_some_and(|nodes| nodes.binary_search_by(|other| (**other).cmp(node)).is_ok())
    }

    /// What a presence's hash stands for; none if that is not known.
    pub(super) fn interests_by(&self, presence: PresenceId) -> Option<Nodes> {
        self.interests.entries[self.presence_table.tag(presence)? as usize].nodes.clone()
    }

    /// A session has sent presence, or something has happened that it may be interested in: its client is asked, unless it is known what
    /// its hash stands for, a question about that is open, or this client was asked lately. With `waits` it is shown last items when
    /// that is known.
    pub(super) fn ask_capabilities(&mut self, cx: &mut Streams, actors: &mut Actors, session: SessionId, waits: bool) {
        let now_ms = cx.kernel.now.mono_ms;
        let Some(at) = self.tag_of(actors, session) else { return };
        let entry = &mut self.interests.entries[at as usize];
        if entry.nodes.is_some() {
            return;
        }
        if waits {
            entry.waiting.insert(session);
        }
        let lately = entry.asked.get(&session).is_some_and(|asked_ms| now_ms < asked_ms + CAPABILITIES_ASK_MS);
        if !lately && entry.due_ms.is_none() {
            self.ask_about(cx, actors, at, session);
        }
    }

    fn ask_about(&mut self, cx: &mut Streams, actors: &mut Actors, at: u32, session: SessionId) {
        let now_ms = cx.kernel.now.mono_ms;
        self.interests.asks(at, session, now_ms);
        let Some(presence) = actors.sessions.get(session).and_then(|session| session.presence) else { return };
        let Some(Some((node, ver))) = read_back(self.presence_table.get(presence), named) else { return };
        if let Some((place, ask)) = extension::asks_capable(&cx.kernel.facts, &node, &ver) {
            actors.ask_client(cx, session, place, &ask);
        }
    }

    /// Asks so many at the most of the clients that wait and were not asked lately: first one of each user of whom none was.
    fn ask_others(&mut self, cx: &mut Streams, actors: &mut Actors, at: u32, most: usize) {
        let now_ms = cx.kernel.now.mono_ms;
        let entry = &mut self.interests.entries[at as usize];
        entry.asked.retain(|_, asked_ms| now_ms < *asked_ms + CAPABILITIES_ASK_MS);
        let entry = &self.interests.entries[at as usize];
        let user_of = |session: SessionId| actors.sessions.get(session).map(|session| session.user);
        let mut users: BTreeSet<u32> = entry.asked.keys().filter_map(|&session| user_of(session)).collect();
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        for &session in entry.waiting.iter().filter(|session| !entry.asked.contains_key(session)) {
            if chosen.len() >= most {
                break;
            }
            match user_of(session) {
                Some(user) if users.insert(user) => chosen.push(session),
                Some(_) if others.len() < most => others.push(session),
                _ => {}
            }
        }
        chosen.extend(others);
        chosen.truncate(most);
        for session in chosen {
            self.ask_about(cx, actors, at, session);
        }
    }

    /// A turn's part of the sweep: of what was not answered in time others are asked.
    pub(crate) fn sweep_interests(&mut self, cx: &mut Streams, actors: &mut Actors) {
        let now_ms = cx.kernel.now.mono_ms;
        while let Some((at, most)) = self.interests.next_round(now_ms) {
            self.ask_others(cx, actors, at, most);
            // Nobody is left.
            let entry = &mut self.interests.entries[at as usize];
            if entry.due_ms.is_none() {
                entry.next = 1;
            }
        }
    }

    /// A session, which may be over, does not name the hash of this presence any more, unless another one of its presences does: if it
    /// was asked, another one is. The reference to the presence is given back.
    pub(super) fn leave_presence(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        before: PresenceId,
    ) {
        if let Some(at) = self.presence_table.tag(before).filter(|at| self.tag_of(actors, session) != Some(*at)) {
            let over = actors.sessions.get(session).is_none();
            let entry = &mut self.interests.entries[at as usize];
            entry.waiting.remove(&session);
            let was_asked = match over {
                true => entry.asked.remove(&session).is_some(),
                false => entry.asked.contains_key(&session),
            };
            if was_asked && entry.due_ms.is_some() {
                self.ask_others(cx, actors, at, 1);
            }
        }
        self.release_presence(before);
    }

    /// A client has proved what a hash stands for. Returns the sessions that have waited for it and still name it, with what they are
    /// interested in. If the hash is none that is asked about, or the client has not answered, another one is asked.
    pub(super) fn learn_interests(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        capable: Option<Capable>,
    ) -> Vec<(SessionId, Nodes)> {
        if let Some((at, mut waiting)) = capable.and_then(|capable| self.interests.learn(capable)) {
            // A late answer to a question about what it was before looks like none, and then it does not wait any more.
            waiting.insert(session);
            let Some(nodes) = self.interests.entries[at as usize].nodes.clone() else { return Vec::new() };
            let names = |session: &SessionId| self.tag_of(actors, *session) == Some(at);
            return waiting.into_iter().filter(names).map(|session| (session, nodes.clone())).collect();
        }
        if let Some(at) = self.tag_of(actors, session) {
            let entry = &mut self.interests.entries[at as usize];
            entry.waiting.remove(&session);
            if entry.nodes.is_none() {
                self.ask_others(cx, actors, at, 1);
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capable(ver: &str) -> Capable {
        Capable { ver: ver.into(), interests: Box::new(["a".into()]) }
    }

    #[test]
    fn what_is_not_known_goes_with_its_last_reference() {
        let mut all = Interests::default();
        let (a, b) = (all.take("a"), all.take("a"));
        assert_eq!((a, all.index.len()), (b, 1));
        all.release(a);
        assert_eq!(all.index.len(), 1);
        all.release(a);
        assert_eq!((all.index.len(), all.bytes), (0, 0));
        assert!(all.learn(capable("a")).is_none(), "nobody wants to know");
    }

    #[test]
    fn known_hashes_are_kept_and_bounded() {
        let mut all = Interests::default();
        let held = all.take("held");
        assert!(all.learn(capable("held")).is_some() && all.learn(capable("held")).is_none());
        for n in 0..3 * CAPABILITIES_SPARE_MAX {
            let ver = n.to_string();
            let at = all.take(&ver);
            all.learn(capable(&ver));
            all.release(at);
            all.take("held");
            all.release(held);
        }
        assert!(all.index.len() <= CAPABILITIES_SPARE_MAX + 1, "{}", all.index.len());
        assert!(all.entries.len() <= CAPABILITIES_SPARE_MAX + 2);
        let last = all.take(&(3 * CAPABILITIES_SPARE_MAX - 1).to_string());
        assert!(all.entries[last as usize].nodes.is_some() && all.entries[held as usize].nodes.is_some());
    }
}
