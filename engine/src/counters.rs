//! Every counter and gauge of a shard, declared once: name, kind and a sentence. Written by the shard only, readable by
//! anyone without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owning shard may.
    pub fn add(&self, n: u64) {
        // One writer: a plain load and store, no locked instruction on the way of a message.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds one.
    pub fn one(&self) {
        self.add(1);
    }

    /// Sets a gauge.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value as last written.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a number only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// Only grows.
    Count,
    /// A level that goes up and down.
    Gauge,
}

macro_rules! counters {
    ($($name:ident $kind:ident $help:literal;)*) => {
        /// The numbers of one shard.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $name: Counter,)*
        }

        impl Counters {
            /// Name, kind, sentence and value of each.
            pub fn list(&self) -> Vec<(&'static str, CounterKind, &'static str, u64)> {
                vec![$((stringify!($name), CounterKind::$kind, $help, self.$name.get()),)*]
            }

            /// The values in the order of the list, as many as there is room for.
            pub fn read(&self, into: &mut [u64]) {
                let values = [$(self.$name.get(),)*];
                into.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
            }
        }
    };
}

counters! {
    turns Count "Turns of the shard's loop.";
    inputs Count "Inputs handled.";
    connections Gauge "Connections held.";
    sessions Gauge "Sessions, resumable ones included.";
    sessions_detached Gauge "Sessions that wait to be resumed.";
    sessions_available Gauge "Sessions that have sent available presence.";
    users_loaded Gauge "Users with loaded state.";
    accepted Count "Connections accepted.";
    arrived Count "Connections that came over from other shards.";
    departed Count "Connections handed over to other shards.";
    streams_closed_by_error Count "Streams ended with a stream error by this side.";
    logins Count "Successful authentications.";
    logins_failed Count "Failed authentications.";
    resumed Count "Sessions resumed.";
    expired Count "Sessions whose time to be resumed ran out.";
    stanzas_in Count "Stanzas received from clients.";
    stanzas_out Count "Stanzas sent to clients.";
    bytes_in Count "Bytes received from clients, decrypted.";
    bytes_out Count "Bytes sent to clients, before encryption.";
    messages_live Count "Messages handed to a connected session.";
    messages_stored Count "Messages put into a mailbox for later.";
    messages_replayed Count "Messages handed to a session from its mailbox.";
    messages_returned Count "Unacknowledged messages put back into a mailbox.";
    messages_refused Count "Messages answered with an error.";
    letters_out Count "Letters to other shards and to itself.";
    letters_in Count "Letters handled.";
    mail_text_bytes_out Count "Bytes of text in letters.";
    reads Count "Reads asked of the store.";
    reads_pending Gauge "Reads not yet answered.";
    writes Count "Rows written.";
    jobs Count "Jobs handed out.";
    jobs_pending Gauge "Jobs not yet done.";
    parked Gauge "Stanzas and roster steps that wait for a user's state to be loaded.";
    parked_refused Count "Stanzas refused because too many waited.";
    outbound_bytes Gauge "Bytes that wait in connections' outbound buffers or are being sent.";
    outbound_overflows Count "Streams ended because their peer did not read.";
    gate_waiting Gauge "Effects that wait for their commit to be durable.";
    gate_bytes Gauge "Bytes of these that are to be sent.";
    mail_kept Gauge "Batches that did not fit into other shards' rings.";
    reads_kept Gauge "Reads that wait for room in the readers' ring.";
    jobs_kept Gauge "Jobs that wait for room in the job queue.";
    storage_full Gauge "1 while the store has no room.";
    paused Gauge "Connections that are not read from, because their stanzas or their login are under way.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_listed_with_their_values() {
        let counters = Counters::default();
        counters.logins.add(2);
        counters.logins.one();
        let row = counters.list().into_iter().find(|row| row.0 == "logins").unwrap();
        assert_eq!((row.1, row.3), (CounterKind::Count, 3));
        let mut values = vec![0; counters.list().len()];
        counters.read(&mut values);
        assert!(values.iter().copied().eq(counters.list().into_iter().map(|row| row.3)));
    }
}
