//! The interests of clients (XEP-0060 9.2), by the hash of their capabilities (XEP-0115). Clients
//! are asked about each hash once, and an answer is accepted only if it has that hash.
//!
//! Clients with the same hash share one query. If it is not answered within a few seconds, further
//! clients are asked: one, then twice as many, and so on, beginning with users that were not asked
//! yet. Clients that never answer therefore delay the others only by seconds.

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
    /// Interesting nodes, once they are known.
    nodes: Option<Nodes>,
    /// Number of presences with this hash.
    references: u32,
    /// Sessions whose clients were asked in the last [`CAPABILITIES_ASK_MS`], and when,
    /// milliseconds.
    asked: BTreeMap<SessionId, u64>,
    /// Time at which more clients are asked, milliseconds, while a query is open.
    due_ms: Option<u64>,
    /// Number of clients in the next round.
    next: usize,
    /// Sessions that became available while the hash was unknown, and still have it.
    waiting: BTreeSet<SessionId>,
    /// Whether the entry is in the list of those that may be removed.
    spare: bool,
}

/// Capability hashes in the presences of a shard, and some that were there before.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    entries: Vec<Entry>,
    free: Vec<u32>,
    index: BTreeMap<Box<str>, u32>,
    /// Bytes of the hashes and of the nodes.
    bytes: usize,
    /// Known entries that may have no reference; bounded by [`CAPABILITIES_SPARE_MAX`].
    spare: VecDeque<u32>,
    /// Times at which more clients are asked, and the entries, earliest first. An entry that was
    /// answered or removed meanwhile is skipped. Bounded by the queries of
    /// [`CAPABILITIES_ANSWER_MS`].
    rounds: VecDeque<(u64, u32)>,
}

impl Interests {
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

    /// Releases a reference. A known entry without references is retained for a while.
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

    /// Sets the nodes of a hash. Returns the sessions that waited for it, or `None` if the hash is
    /// not known here.
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

    /// Records that a client is being asked.
    fn asks(&mut self, at: u32, session: SessionId, now_ms: u64) {
        let entry = &mut self.entries[at as usize];
        entry.asked.insert(session, now_ms);
        if entry.due_ms.is_none() {
            let due_ms = now_ms + CAPABILITIES_ANSWER_MS;
            entry.due_ms = Some(due_ms);
            self.rounds.push_back((due_ms, at));
        }
    }

    /// Returns the next entry about which more clients are to be asked now, and how many.
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

    /// Memory used, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.bytes
    }
}

impl Entry {
    /// Ends the query. Returns the sessions that waited.
    fn settle(&mut self) -> BTreeSet<SessionId> {
        (self.asked, self.due_ms, self.next) = (BTreeMap::new(), None, 1);
        std::mem::take(&mut self.waiting)
    }
}

/// Bytes of an entry's strings.
fn bytes_of(entry: &Entry) -> usize {
    let names = entry.nodes.iter().flat_map(|nodes| nodes.iter());
    2 * entry.ver.len() + names.map(|name| size_of::<Box<str>>() + name.len()).sum::<usize>()
}

/// The node and hash in a presence, if the hash function is supported (XEP-0115 4).
fn named(presence: &Element<'_>) -> Option<(String, String)> {
    let c = presence.child("c", caps::NS)?;
    let (hash, node, ver) = (c.attribute("hash")?, c.attribute("node")?, c.attribute("ver")?);
    (hash == "sha-1" && ver.len() == VER_BYTES).then(|| (node.into_owned(), ver.into_owned()))
}

impl Contacts {
    /// Records the hash in a presence, if the presence is new.
    pub(super) fn note_capabilities(&mut self, id: PresenceId, presence: &Element<'_>) {
        if self.presence_table.tag(id).is_none()
            && let Some((_, ver)) = named(presence)
        {
            let at = self.interests.take(&ver);
            self.presence_table.set_tag(id, at);
        }
    }

    /// Releases the reference to a presence.
    fn release_presence(&mut self, id: PresenceId) {
        if let Some(tag) = self.presence_table.release(id) {
            self.interests.release(tag);
        }
    }

    fn tag_of(&self, actors: &Actors, session: SessionId) -> Option<u32> {
        self.presence_table.tag(actors.sessions.get(session)?.presence?)
    }

    /// The interests of a session; `None` if they are unknown or not announced.
    pub(super) fn interests_of(&self, actors: &Actors, session: SessionId) -> Option<Nodes> {
        self.interests.entries[self.tag_of(actors, session)? as usize].nodes.clone()
    }

    /// Whether a session is interested in a node.
    pub(super) fn wants(&self, actors: &Actors, session: SessionId, node: &str) -> bool {
        let nodes = self.tag_of(actors, session).and_then(|at| self.interests.entries[at as usize].nodes.as_ref());
        nodes.is_some_and(|nodes| nodes.binary_search_by(|other| (**other).cmp(node)).is_ok())
    }

    /// The interests by a presence's hash; `None` if they are unknown.
    pub(super) fn interests_by(&self, presence: PresenceId) -> Option<Nodes> {
        self.interests.entries[self.presence_table.tag(presence)? as usize].nodes.clone()
    }

    /// A session has sent presence, or an event may interest it. Asks its client, unless the hash
    /// is known, a query about it is open, or this client was asked recently. With `waits` the
    /// session is sent last items when the answer is known.
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

    /// Asks at most `most` of the waiting clients that were not asked recently, beginning with one
    /// for each user without one.
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

    /// Asks further clients about queries that were not answered in time. One turn's share of the
    /// sweep.
    pub(crate) fn sweep_interests(&mut self, cx: &mut Streams, actors: &mut Actors) {
        let now_ms = cx.kernel.now.mono_ms;
        while let Some((at, most)) = self.interests.next_round(now_ms) {
            self.ask_others(cx, actors, at, most);
            // No client is left to ask.
            let entry = &mut self.interests.entries[at as usize];
            if entry.due_ms.is_none() {
                entry.next = 1;
            }
        }
    }

    /// A session, which may have ended, no longer has the hash of this presence, unless another of
    /// its presences has it. If it was being asked, another client is asked instead. Releases the
    /// reference to the presence.
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

    /// A client has proved the content of a hash. Returns the sessions that waited for it and still
    /// have the hash, with their interests. If the hash is not being asked about, or the answer is
    /// invalid, another client is asked.
    pub(super) fn learn_interests(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        capable: Option<Capable>,
    ) -> Vec<(SessionId, Nodes)> {
        if let Some((at, mut waiting)) = capable.and_then(|capable| self.interests.learn(capable)) {
            // A late answer about the client's previous hash also has no match; the session must
            // then keep waiting.
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
