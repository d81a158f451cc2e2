//! What clients are interested in (XEP-0060 9.2), by the hash of their capabilities (XEP-0115): each hash is asked about once, and what
//! it stands for is believed if it is the hash of that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::contacts::Contacts;
use crate::extension::presence::PresenceId;
use crate::extension::{self, Capable, caps};
use crate::id::SessionId;
use crate::limits::{CAPABILITIES_ASK_MS, CAPABILITIES_SPARE_MAX};
use crate::session::table::Nodes;
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
    /// When a client was asked last, milliseconds; `None` if none was.
    asked_ms: Option<u64>,
    /// Sessions that have become available while it was not known; bounded by the sessions that there were meanwhile.
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
            asked_ms: None,
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
        (entry.nodes, entry.waiting, entry.asked_ms) = (None, BTreeSet::new(), None);
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
        Some((at, std::mem::take(&mut entry.waiting)))
    }

    /// Memory that they take, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.bytes
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
    pub(super) fn release_presence(&mut self, id: PresenceId) {
        if let Some(tag) = self.presence_table.release(id) {
            self.interests.release(tag);
        }
    }

    fn tag_of(&self, session: SessionId) -> Option<u32> {
        self.presence_table.tag(self.sessions.get(session)?.presence?)
    }

    /// What a session is interested in; none if that is not known, or it has not said.
    pub(super) fn interests_of(&self, session: SessionId) -> Option<Nodes> {
        self.interests.entries[self.tag_of(session)? as usize].nodes.clone()
    }

    /// Whether a session is interested in a node.
    pub(super) fn wants(&self, session: SessionId, node: &str) -> bool {
        let nodes = self.tag_of(session).and_then(|at| self.interests.entries[at as usize].nodes.as_ref());
        nodes.is_some_and(|nodes| nodes.binary_search_by(|other| (**other).cmp(node)).is_ok())
    }

    /// What a presence's hash stands for; none if that is not known.
    pub(super) fn interests_by(&self, presence: PresenceId) -> Option<Nodes> {
        self.interests.entries[self.presence_table.tag(presence)? as usize].nodes.clone()
    }

    /// A session has sent presence, or something has happened that it may be interested in: its client is asked, unless it is known what
    /// its hash stands for, or another one was asked lately. With `waits` it is shown last items when that is known.
    pub(super) fn ask_capabilities(&mut self, session: SessionId, waits: bool) {
        let now_ms = self.now.mono_ms;
        let Some(at) = self.tag_of(session) else { return };
        let entry = &mut self.interests.entries[at as usize];
        if entry.nodes.is_some() {
            return;
        }
        if waits {
            entry.waiting.insert(session);
        }
        if entry.asked_ms.is_some_and(|asked_ms| now_ms < asked_ms + CAPABILITIES_ASK_MS) {
            return;
        }
        entry.asked_ms = Some(now_ms);
        let Some(presence) = self.sessions.get(session).and_then(|session| session.presence) else { return };
        let Some(Some((node, ver))) = read_back(self.presence_table.get(presence), named) else { return };
        if let Some((place, ask)) = extension::asks_capable(&self.facts, &node, &ver) {
            self.ask_client(session, place, &ask);
        }
    }

    /// A client has proved what a hash stands for. Returns the sessions that have waited for it and still name it, with what they are
    /// interested in. If the hash is none that is asked about, or the client has not answered, another one is asked.
    pub(super) fn learn_interests(&mut self, session: SessionId, capable: Option<Capable>) -> Vec<(SessionId, Nodes)> {
        if let Some((at, mut waiting)) = capable.and_then(|capable| self.interests.learn(capable)) {
            // A late answer to a question about what it was before looks like none, and then it does not wait any more.
            waiting.insert(session);
            let Some(nodes) = self.interests.entries[at as usize].nodes.clone() else { return Vec::new() };
            let names = |session: &SessionId| self.tag_of(*session) == Some(at);
            return waiting.into_iter().filter(names).map(|session| (session, nodes.clone())).collect();
        }
        if let Some(at) = self.tag_of(session) {
            let entry = &mut self.interests.entries[at as usize];
            entry.waiting.remove(&session);
            if entry.nodes.is_none()
                && let Some(&other) = entry.waiting.first()
            {
                entry.asked_ms = None;
                entry.waiting.remove(&other);
                self.ask_capabilities(other, true);
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
