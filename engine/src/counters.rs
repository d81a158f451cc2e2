//! Every counter and gauge of a shard, declared once: name, kind and description. Only the shard's
//! thread writes them; any thread can read them without a lock. Other modules declare their own
//! tables in the same way.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds to the counter; only the owning shard may call this.
    pub fn add(&self, n: u64) {
        // Single writer: a plain load and store, no locked instruction on the path of a message.
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

/// Whether a number is monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// Only increases.
    Count,
    /// A level that increases and decreases.
    Gauge,
}

/// A counter's metadata and value: name, kind, description, value.
pub type Row = (&'static str, CounterKind, &'static str, u64);

/// A table of counters from a reader's point of view: without a lock, and without disturbing the
/// writer.
pub trait Counted: Send + Sync {
    /// Name, kind, description and value of each counter.
    fn list(&self) -> Vec<Row>;

    /// Reads the values in the order of the list, as many as fit.
    fn read(&self, into: &mut [u64]);
}

/// Declares a struct of [`Counter`]s, each with its name, kind and description, that implements
/// [`Counted`].
#[macro_export]
macro_rules! counter_table {
    ($(#[$doc:meta])* $table:ident: $($name:ident $kind:ident $help:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $table {
            $(#[doc = $help] pub $name: $crate::counters::Counter,)*
        }

        impl $crate::counters::Counted for $table {
            fn list(&self) -> Vec<$crate::counters::Row> {
                vec![$((stringify!($name), $crate::counters::CounterKind::$kind, $help, self.$name.get()),)*]
            }

            fn read(&self, into: &mut [u64]) {
                let values = [$(self.$name.get(),)*];
                into.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
            }
        }
    };
}

/// Values of [`Latencies`] below this have a bucket each.
const EXACT: u64 = 16;

/// Buckets between two consecutive powers of two.
const PARTS: usize = 8;

/// The power of two from which on all values share the last bucket: for microseconds, 67 seconds.
const LAST_POWER: usize = 26;

/// A histogram of durations: counters in buckets, each at most an eighth wider than the previous
/// one. Single writer.
#[derive(Debug)]
pub struct Latencies {
    buckets: [Counter; Latencies::BUCKETS],
    sum: Counter,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { buckets: [const { Counter::new() }; Latencies::BUCKETS], sum: Counter::new() }
    }
}

impl Latencies {
    /// Number of buckets.
    pub const BUCKETS: usize = EXACT as usize + (LAST_POWER - 4) * PARTS + 1;

    /// Records a value; only the owner may call this.
    pub fn note(&self, value: u64) {
        self.note_many(value, 1);
    }

    /// Records `count` equal values; only the owner may call this.
    pub fn note_many(&self, value: u64, count: u64) {
        self.buckets[Latencies::bucket(value)].add(count);
        self.sum.add(value.saturating_mul(count));
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    fn bucket(value: u64) -> usize {
        if value < EXACT {
            return value as usize;
        }
        let power = value.ilog2() as usize;
        let part = (value >> (power - 3)) as usize - PARTS;
        (EXACT as usize + (power - 4) * PARTS + part).min(Latencies::BUCKETS - 1)
    }

    /// The largest value of a bucket; for the last bucket, which is unbounded, the smallest.
    pub fn most(bucket: usize) -> u64 {
        let Some(above) = bucket.checked_sub(EXACT as usize) else { return bucket as u64 };
        let (power, part) = (above / PARTS + 4, above % PARTS);
        let next = ((PARTS + part + 1) as u64) << (power - 3);
        if bucket + 1 < Latencies::BUCKETS { next - 1 } else { 1 << LAST_POWER }
    }

    /// Reads the count of each bucket.
    pub fn read(&self, into: &mut [u64; Latencies::BUCKETS]) {
        into.iter_mut().zip(&self.buckets).for_each(|(slot, counter)| *slot = counter.get());
    }
}

counter_table! {
    /// The counters of one shard.
    Counters:
    turns Count "Turns of the shard's loop.";
    events Count "Events of the network handled.";
    sleeps Count "Waits in which its thread slept.";
    sleep_us Count "Time that its thread slept, waiting for something to do.";
    wakes Count "Times that another thread woke it, or notified it before it slept.";
    inputs Count "Inputs handled.";
    connections Gauge "Connections held.";
    connections_max Gauge "Limit of connections.";
    accepting_paused Gauge "1 while no connections are accepted because the limit is reached, 2 because descriptors or memory are exhausted.";
    accept_pauses Count "Times that accepting connections was paused.";
    conns_opening Gauge "Of these, those whose stream is being opened, before authentication.";
    conns_securing Gauge "Of these, those in a TLS handshake.";
    conns_authenticating Gauge "Of these, those that are logging in or registering.";
    conns_authenticated Gauge "Of these, those that have logged in and have no session yet.";
    conns_bound Gauge "Of these, those with a session.";
    conns_closing Gauge "Of these, those whose stream has ended.";
    conns_departing Gauge "Of these, those moving to another shard.";
    websockets Gauge "Connections that are WebSockets: of XMPP (RFC 7395), and those that wait at /n/.";
    bosh_sessions Gauge "BOSH sessions (XEP-0124), including those before login; each counts as a connection.";
    bosh_waiting Gauge "Requests held open by BOSH sessions, as of the last sweep.";
    bosh_bytes Gauge "Bytes held by BOSH sessions: answers that may be requested again, and unprocessed requests.";
    bosh_requests Count "Requests of BOSH sessions, counted at the session's shard.";
    bosh_relayed Count "Of these, those relayed from or to another shard.";
    bosh_failed Count "BOSH sessions ended, or requests refused, with a condition of XEP-0124 17.3.";
    sessions Gauge "Sessions, including resumable ones.";
    sessions_detached Gauge "Sessions that wait to be resumed.";
    sessions_dormant Gauge "Of these, those that have waited since before the server's start.";
    sessions_available Gauge "Sessions that have sent available presence.";
    users_loaded Gauge "Users with loaded state.";
    accepted Count "Connections accepted.";
    arrived Count "Connections moved here from other shards.";
    departed Count "Connections moved to other shards.";
    http_requests Count "HTTP requests answered, including those that became WebSockets.";
    http_refused Count "Of these, those that were malformed or not allowed.";
    notify_waiting Gauge "Requests at /n/ that wait for an answer, including event streams.";
    notify_polls Gauge "Of these, long polls.";
    notify_events Gauge "Of these, event streams, including those of Mercure.";
    notify_sockets Gauge "Of these, WebSockets, including those of Centrifugo's protocol.";
    notify_channels Gauge "Channels with waiting subscribers.";
    notify_published Count "Items published at /n/.";
    notify_told Count "Items delivered at /n/: one per item and subscriber.";
    notify_tokens_verified Count "Tokens presented at /n/ whose signature was verified and valid.";
    notify_tokens_refused Count "Invalid tokens presented at /n/: expired, for another audience, or with a wrong signature.";
    notify_asked Count "Queries to the notify_ask service about requests at /n/.";
    notify_ask_known Count "Requests at /n/ decided by a cached answer of that service.";
    notify_ask_denied Count "Requests at /n/ denied by the notify_ask service.";
    notify_ask_failed Count "Requests at /n/ that failed because the notify_ask service did not answer, or too many queries were pending.";
    notify_asking Gauge "Pending queries to the notify_ask service.";
    notify_held_bytes Gauge "Bytes of requests at /n/ held until that service answers.";
    notify_occupancy_told Count "Occupancy reports sent at /n/: one per report and subscriber.";
    notify_push_registered Count "Push registrations at /n/ created or renewed.";
    notify_push_sent Count "Pushes accepted by push services.";
    notify_push_failed Count "Pushes refused by push services after retries, or that could not be sent.";
    notify_push_unsent Count "Pushes not attempted: the push service was busy for too long, too many channels had pushes, or the store could not be read.";
    notify_push_removed Count "Push registrations that ended: unknown to the push service, expired, or with an expired token.";
    notify_push_under_way Gauge "Pushes in progress.";
    notify_gaps Count "Gaps reported to subscribers at /n/: missed items that are no longer stored.";
    notify_memory_gone Count "Items in memory dropped for lack of room before their channel's limits.";
    notify_behind Count "Times that a slow subscriber at /n/ fell behind and reads from the channel.";
    notify_publish_refused Count "Requests to publish at /n/ that were answered with an error.";
    notify_subscribe_refused Count "Requests to read or subscribe at /n/ that were answered with an error.";
    notify_ended Count "Event streams and WebSockets at /n/ ended by the server: their token expired, or a channel could not be read.";
    streams_opened Count "Streams opened; each restart after TLS or authentication is one (RFC 6120 4.3.3).";
    streams_closed Count "Connections whose stream has ended: the sum of the closed_ counters.";
    closed_by_client Count "Ended by the client: it closed its stream, or its connection.";
    closed_lost Count "Ended by the network: the client vanished, or reset the connection.";
    closed_tls Count "Ended by a TLS error.";
    closed_protocol Count "Ended by a protocol error of the client.";
    closed_refused Count "Ended by an error: not authorized, or a policy violation.";
    closed_unread Count "Ended because the client did not read, or acknowledged nothing.";
    closed_timeout Count "Ended because the client was silent, or had no session in time.";
    closed_replaced Count "Ended because another connection took over the session or its resource.";
    closed_operator Count "Ended by the operator, or because the account was removed.";
    closed_shutdown Count "Ended because the server stops.";
    closed_server Count "Ended for an internal reason, such as no room for a moving connection.";
    streams_closed_by_error Count "Streams ended with a stream error by this side.";
    logins Count "Successful authentications.";
    logins_failed Count "Failed authentications.";
    resumed Count "Sessions resumed.";
    sessions_restored Count "Sessions restored from an earlier process that wait to be resumed.";
    resumed_restored Count "Of these, those that were resumed.";
    session_rows Count "Rows written for sessions that can be resumed after a restart.";
    expired Count "Sessions whose time to be resumed ran out.";
    asks_sent Count "Requests from the server to clients, such as pings.";
    asks_answered Count "Of these, those that were answered.";
    stanzas_in Count "Stanzas received from clients.";
    messages_in Count "Of these, messages.";
    presences_in Count "Of these, presence stanzas.";
    iqs_in Count "Of these, IQ stanzas.";
    stanzas_out Count "Stanzas sent to clients.";
    messages_out Count "Of these, messages.";
    presences_out Count "Of these, presence stanzas.";
    iqs_out Count "Of these, IQ stanzas.";
    bytes_in Count "Bytes received from clients, decrypted.";
    bytes_out Count "Bytes sent to clients, before encryption.";
    messages_live Count "Messages delivered to a connected session.";
    messages_stored Count "Messages that wait in their receiver's log.";
    messages_replayed Count "Waiting messages delivered to a session.";
    messages_returned Count "Unacknowledged messages that wait again.";
    messages_refused Count "Messages answered with an error.";
    pushes_sent Count "Push notifications published (XEP-0357).";
    pushes_taken Count "Of these, those accepted by their service.";
    pushes_failed Count "Of these, those answered with an error, or not in time.";
    pushes_held Count "Push notifications deferred because their service leaves too many unanswered.";
    pushes_dropped Count "Users whose push notifications were dropped because there were too many at once.";
    pushes_pending Gauge "Unanswered push notifications.";
    reports_kept Count "Reports from users stored for the operator (XEP-0377).";
    reports_left_out Count "Reports not stored: the account's limit was reached, or the store had no room.";
    reports_pushed_out Count "Reports displaced by later ones.";
    rooms Gauge "Rooms in memory (XEP-0045): those with occupants, and those that were left or asked for a short time ago.";
    room_occupants Gauge "Sessions that are in rooms.";
    rooms_created Count "Rooms created.";
    rooms_ended Count "Rooms destroyed, or left by their last occupant while temporary.";
    room_messages Count "Messages that rooms have accepted for all their occupants.";
    room_casts Count "Stanzas that rooms have sent to their occupants: messages, presence and changes.";
    room_copies Count "Copies of these stanzas, one for each session that receives one.";
    room_waiting Gauge "Stanzas in the longest queue of a room that waits for the store, in the last second.";
    room_deliveries Count "Copies of these messages, one for each session in the room.";
    room_behind Count "Times that a session had no room for a message of a room, and reads it later from the archive of the room.";
    components Gauge "Connected external components (XEP-0114).";
    component_stanzas_in Count "Stanzas received from components.";
    component_stanzas_out Count "Stanzas taken by components.";
    component_refused Count "Stanzas for components answered with an error: the component was absent or its queue full.";
    component_queue_bytes Gauge "Bytes queued for components, with overhead per stanza.";
    letters_out Count "Letters to other shards.";
    letters_in Count "Letters from other shards handled.";
    letters_own Count "Letters to the shard itself handled.";
    letter_text_bytes_out Count "Bytes of text in letters.";
    reads Count "Reads requested from the store.";
    reads_pending Gauge "Reads not yet answered.";
    writes Count "Rows written.";
    commits Count "Batches of rows passed to the store: one per turn with writes.";
    commits_waiting Gauge "Of these, batches that are not durable yet.";
    jobs Count "Jobs started.";
    outside_asks Count "Queries to external authentication.";
    outside_unknown Count "Of these, queries without an answer.";
    outside_pending Gauge "Pending queries to external authentication.";
    jobs_pending Gauge "Jobs not yet done.";
    parked_came Count "Stanzas and roster steps that had to wait for a user's state to be loaded.";
    parked Gauge "Stanzas and roster steps that wait for a user's state to be loaded.";
    work_paused Count "Times that a session was paused because it caused more work than its share.";
    pace_paused Count "Times that a session was paused because its account sent faster than permitted.";
    parked_refused Count "Stanzas refused because too many were waiting.";
    outbound_bytes Gauge "Bytes that wait in connections' outbound buffers or are being sent.";
    outbound_oldest_s Gauge "Age in seconds of the oldest send that a client has not taken, as of the last sweep of connections.";
    outbound_overflows Count "Streams ended because their peer kept sending requests and acknowledged nothing.";
    stanzas_dropped Count "Headlines, chat states, presence and similar stanzas dropped because the session's output was full.";
    gated Count "Effects queued at the gate.";
    gate_waiting Gauge "Effects that wait for their commit to be durable.";
    gate_bytes Gauge "Bytes of output in these.";
    letters_kept Gauge "Batches of letters that did not fit into other shards' rings.";
    reads_kept Gauge "Reads that wait for room in the readers' ring.";
    jobs_kept Gauge "Jobs that wait for room in the job queue.";
    storage_full Gauge "1 while the store has no room.";
    paused Gauge "Connections not read from while their stanzas or their login are in progress.";
    mem_connections_bytes Gauge "Memory of the tables of connections, by capacity.";
    mem_sessions_bytes Gauge "Memory of the table of sessions, by capacity, and of stream management.";
    mem_users_bytes Gauge "Memory of the table of users, by capacity, and of their loaded state.";
    mem_outbound_bytes Gauge "Memory of output that waits for clients or for the disk, and of its buffer pool.";
    mem_letters_bytes Gauge "Memory of the rings of incoming letters, and of letters kept for others.";
    mem_network_bytes Gauge "Memory of the driver's tables and buffers.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_stand_side_by_side_and_are_narrow() {
        let mut before = None;
        for bucket in 0..Latencies::BUCKETS - 1 {
            let (first, most) = (before.map_or(0, |most: u64| most + 1), Latencies::most(bucket));
            assert_eq!([first, most].map(Latencies::bucket), [bucket; 2], "{first} to {most}");
            assert!(most - first <= first / 8, "{first} to {most}");
            before = Some(most);
        }
        assert_eq!(before, Some((1 << LAST_POWER) - 1));
        assert_eq!([1 << LAST_POWER, u64::MAX].map(Latencies::bucket), [Latencies::BUCKETS - 1; 2]);
        let latencies = Latencies::default();
        [3, 1_000_000].into_iter().for_each(|value| latencies.note(value));
        latencies.note_many(3, 4);
        let mut counts = [0; Latencies::BUCKETS];
        latencies.read(&mut counts);
        assert_eq!((counts[3], counts.iter().sum::<u64>(), latencies.sum()), (5, 6, 1_000_015));
    }

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
