//! Counters of the store: each has one writer, the thread that is named with it, and is read
//! without a lock.

use std::sync::Arc;
use std::time::Duration;

use throng_engine::counter_table;
use throng_engine::counters::{Counter, Latencies};

counter_table! {
    /// Counters of the committer, and of the threads that write and merge tables.
    StoreCounters:
    commits Count "Groups of batches made durable.";
    batches Count "Batches in these groups: one per turn of a shard with writes.";
    rows Count "Rows written or removed by these batches.";
    commit_us Count "Time of these commits, until the waiting shards were notified.";
    stalled_us Count "Of this, time spent waiting for memory tables to be written.";
    syncs Count "Syncs of the journal.";
    sync_us Count "Time of these syncs, including the write before each.";
    journal_bytes Count "Bytes written to the journal.";
    flushes Count "Memory tables written to disk.";
    flush_us Count "Time of these writes.";
    flushing Gauge "1 while a memory table is being written to disk.";
    merges Count "Merges of tables.";
    merge_us Count "Time of these merges.";
    merging Gauge "1 while tables are being merged.";
    damaged Gauge "Files of tables found damaged, or with lost rows, since the start.";
}

counter_table! {
    /// Counters of one reading thread.
    ReadCounters:
    requests Count "Reads answered; each is of one user at one time.";
    queries Count "Queries in these reads.";
    unreadable Count "Queries answered with an error because their rows are damaged.";
    read_us Count "Time of these reads, without the wait for a thread.";
}

/// One thread's work as other threads see it: its counters, and a histogram of single operations,
/// in microseconds.
#[derive(Debug)]
pub struct Seen<T> {
    /// The counters.
    pub counters: Arc<T>,
    /// Durations of its commits or reads.
    pub latencies: Arc<Latencies>,
}

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Seen<T> {
        Seen { counters: self.counters.clone(), latencies: self.latencies.clone() }
    }
}

impl<T: Default> Default for Seen<T> {
    fn default() -> Seen<T> {
        Seen { counters: Arc::default(), latencies: Arc::default() }
    }
}

/// Adds a time to a sum of microseconds.
pub(super) fn add_us(counter: &Counter, time: Duration) {
    counter.add(us(time));
}

pub(super) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
