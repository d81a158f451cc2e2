//! This shard's connections of pages that have registered for push messages, as data. While one of
//! them waits for a channel, the channel's home knows that its page is open.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::id::{ConnId, PushId};
use crate::kernel::Fixed;

/// A notification for a home: a page has begun to listen to its channel, or has stopped.
pub(super) type Change = (Arc<str>, PushId, bool);

/// The open pages of a shard.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    /// Only connections that have named a registration.
    by: HashMap<ConnId, PushId, Fixed>,
    /// The number of connections of each page that wait for a channel.
    counts: BTreeMap<Arc<str>, BTreeMap<PushId, u32>>,
    /// Notifications to send to homes at the end of the turn: bounded by the requests that begin
    /// and end in it, and by the renewals per second.
    changes: VecDeque<Change>,
}

impl Awake {
    /// Records that a connection that waits for these channels belongs to the page with this
    /// registration.
    pub(crate) fn begin<'a>(&mut self, conn: ConnId, id: PushId, nodes: impl Iterator<Item = &'a Arc<str>>) {
        self.by.insert(conn, id);
        for node in nodes {
            let count = self.counts.entry(node.clone()).or_default().entry(id).or_default();
            *count += 1;
            if *count == 1 {
                self.changes.push_back((node.clone(), id, true));
            }
        }
    }

    /// Records that a connection no longer waits.
    pub(crate) fn end<'a>(&mut self, conn: ConnId, nodes: impl Iterator<Item = &'a Arc<str>>) {
        // Most connections belong to no registered page.
        let Some(id) = self.by.remove(&conn) else { return };
        for node in nodes {
            let Some(pages) = self.counts.get_mut(node) else { continue };
            let Some(count) = pages.get_mut(&id) else { continue };
            *count -= 1;
            if *count == 0 {
                pages.remove(&id);
                self.changes.push_back((node.clone(), id, false));
            }
            if pages.is_empty() {
                self.counts.remove(node);
            }
        }
    }

    /// The next notification for a home.
    pub(crate) fn next(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Queues repeated notifications of the pages that listen to a channel.
    pub(crate) fn renew(&mut self, node: &Arc<str>) {
        let pages = self.counts.get(node).into_iter().flat_map(BTreeMap::keys);
        self.changes.extend(pages.map(|id| (node.clone(), *id, true)));
    }

    /// Memory used, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.by.capacity() * size_of::<(ConnId, PushId)>() + self.by.len() * 2 * size_of::<(PushId, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_listens_as_long_as_one_of_its_connections_does() {
        let (mut awake, nodes) = (Awake::default(), ["a", "b"].map(Arc::<str>::from));
        let [first, second] = [1, 2].map(|slot| ConnId { slot, generation: 1 });
        let (id, other) = (PushId([1; 16]), PushId([2; 16]));
        let told = |awake: &mut Awake| std::iter::from_fn(|| awake.next()).collect::<Vec<_>>();
        awake.begin(first, id, nodes.iter());
        awake.begin(second, id, nodes[..1].iter());
        assert_eq!(told(&mut awake), [(nodes[0].clone(), id, true), (nodes[1].clone(), id, true)]);
        awake.end(first, nodes.iter());
        assert_eq!(told(&mut awake), [(nodes[1].clone(), id, false)]);
        awake.begin(first, other, nodes[..1].iter());
        awake.next();
        awake.renew(&nodes[0]);
        awake.renew(&nodes[1]);
        assert_eq!(told(&mut awake), [(nodes[0].clone(), id, true), (nodes[0].clone(), other, true)]);
        awake.end(first, nodes[..1].iter());
        awake.end(second, nodes[..1].iter());
        awake.end(second, nodes[..1].iter());
        assert_eq!(told(&mut awake).len(), 2);
        assert!(awake.by.is_empty() && awake.counts.is_empty());
    }
}
