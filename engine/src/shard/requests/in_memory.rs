//! Rows of channels that keep their items in memory: what is asked of these is answered here, and what is written is written here.

use crate::extension::pubsub::service::in_memory::Ask;
use crate::extension::pubsub::service::known::Known;
use crate::kernel::pending::{FeatureRead, Pending, RequestRead};
use crate::shard::Shard;
use crate::store::{Batch, Found, Query};

impl Shard {
    /// Writes what an extension wants written.
    pub(super) fn write_rows(&mut self, batch: &Batch) {
        if self.cx.kernel.settings.web.channels.in_memory.is_empty() {
            return self.cx.kernel.writes.append(batch);
        }
        let settings = self.cx.kernel.settings.clone();
        let policy = &settings.web.channels;
        let left = self.requests.in_memory.write(batch, |actor| policy.keeps_in_memory(actor), policy.in_memory_bytes);
        self.cx.kernel.writes.append(&left.batch);
        self.cx.kernel.counters.notify_memory_gone.add(left.items as u64);
        // Numbers go on behind those of the store.
        left.gone.iter().for_each(|actor| drop(self.requests.known_nodes.take(actor)));
    }

    /// This is known of a node, unless its items had to go.
    pub(super) fn node_known(&mut self, node: &str, known: Known) {
        if !self.cx.kernel.settings.web.channels.keeps_in_memory(node) || self.requests.in_memory.is_as_written(node) {
            self.requests.known_nodes.put(node, known);
        }
    }

    /// Reads what an extension wants to know.
    pub(super) fn read_rows(&mut self, mut read: FeatureRead, mut queries: Vec<Query>) {
        self.requests.floors.ask(&mut read, &mut queries);
        if self.cx.kernel.settings.web.channels.in_memory.is_empty() {
            return self.cx.kernel.read(Pending::Request(RequestRead::Feature(Box::new(read))), queries);
        }
        let settings = self.cx.kernel.settings.clone();
        let policy = &settings.web.channels;
        let is_here = |query: &Query| {
            let (Query::Get { actor, .. } | Query::Range { actor, .. }) = query;
            std::str::from_utf8(actor).is_ok_and(|actor| policy.keeps_in_memory(actor))
        };
        if !queries.iter().any(is_here) {
            return self.cx.kernel.read(Pending::Request(RequestRead::Feature(Box::new(read))), queries);
        }
        let mut for_store = Vec::new();
        for query in queries {
            let asked = if is_here(&query) { self.requests.in_memory.ask(query.clone()) } else { Ask::Store };
            for_store.extend(asked.asks_store().then_some(query));
            read.asked.push(asked);
        }
        match for_store.is_empty() {
            true => self.requests.known_reads.push_back(read),
            false => self.cx.kernel.read(Pending::Request(RequestRead::Feature(Box::new(read))), for_store),
        }
    }

    /// All answers to what was asked, of which these are the store's.
    pub(super) fn answers(&self, asked: Vec<Ask>, from_store: Vec<Found>) -> Vec<Found> {
        if asked.is_empty() { from_store } else { self.requests.in_memory.answers(asked, from_store) }
    }

    /// Whether something was asked of which all is known.
    pub(crate) fn has_known_reads(&self) -> bool {
        !self.requests.known_reads.is_empty()
    }
}
