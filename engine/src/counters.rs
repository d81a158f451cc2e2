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
    wakes Count "Times that another thread woke it, or told it before it slept.";
    inputs Count "Inputs handled.";
    connections Gauge "Connections held.";
    connections_max Gauge "Connections that there is room for.";
    accepting_paused Gauge "1 while no connections are accepted because there is no room for more, 2 because no descriptors or no memory is left.";
    accept_pauses Count "Times that accepting connections was paused.";
    conns_opening Gauge "Of these, such whose stream is being opened, and that prove nothing yet.";
    conns_securing Gauge "Of these, such in a TLS handshake.";
    conns_authenticating Gauge "Of these, such that log in or register.";
    conns_authenticated Gauge "Of these, such that have logged in and have no session yet.";
    conns_bound Gauge "Of these, such with a session.";
    conns_closing Gauge "Of these, such whose stream has ended.";
    conns_departing Gauge "Of these, such on their way to another shard.";
    websockets Gauge "Connections that are WebSockets: of XMPP (RFC 7395), and those that wait at /n/.";
    bosh_sessions Gauge "Sessions of BOSH (XEP-0124), those that have not logged in included; each counts as a connection.";
    bosh_waiting Gauge "Requests that sessions of BOSH keep waiting, as the last sweep saw it.";
    bosh_bytes Gauge "Bytes that sessions of BOSH keep: answers that may be asked for again, and requests not looked at yet.";
    bosh_requests Count "Requests for sessions of BOSH, counted where the session is.";
    bosh_relayed Count "Of these, such that came from another shard, or went on to one.";
    bosh_failed Count "Sessions of BOSH ended, or requests refused, with a condition of XEP-0124 17.3.";
    sessions Gauge "Sessions, resumable ones included.";
    sessions_detached Gauge "Sessions that wait to be resumed.";
    sessions_dormant Gauge "Of these, such that have waited since before the server's start.";
    sessions_available Gauge "Sessions that have sent available presence.";
    users_loaded Gauge "Users with loaded state.";
    accepted Count "Connections accepted.";
    arrived Count "Connections that came over from other shards.";
    departed Count "Connections handed over to other shards.";
    http_requests Count "Requests of HTTP answered, those that became WebSockets included.";
    http_refused Count "Of these, such that could not be read, or were not allowed.";
    notify_waiting Gauge "Requests at /n/ that wait for an answer, streams of events included.";
    notify_polls Gauge "Of these, long polls.";
    notify_events Gauge "Of these, streams of events, those of Mercure included.";
    notify_sockets Gauge "Of these, WebSockets, those of Centrifugo's protocol included.";
    notify_channels Gauge "Channels for whose items some wait.";
    notify_published Count "Items published at /n/.";
    notify_told Count "Items handed to who waits at /n/, each to each.";
    notify_tokens_verified Count "Tokens shown at /n/ whose signature was verified, and was good.";
    notify_tokens_refused Count "Tokens shown at /n/ that do not count: expired, for somebody else, or with a wrong signature.";
    notify_asked Count "Questions about requests at /n/ to the service of notify_ask.";
    notify_ask_known Count "Requests at /n/ for which an earlier answer of that service counted, so that it was not asked.";
    notify_ask_denied Count "Requests at /n/ that the service of notify_ask has denied.";
    notify_ask_failed Count "Requests at /n/ that were not done because the service of notify_ask has not answered, or too much was asked.";
    notify_asking Gauge "Questions to the service of notify_ask that are under way.";
    notify_held_bytes Gauge "Bytes of requests at /n/ that are held until that service answers.";
    notify_occupancy_told Count "Times that one who waits at /n/ was told who subscribes, each to each.";
    notify_push_registered Count "Registrations for pushes at /n/ that were made or renewed.";
    notify_push_sent Count "Pushes that the push service of a page has taken.";
    notify_push_failed Count "Pushes that no push service has taken, though it was asked again, or that could not be sent.";
    notify_push_unsent Count "Pushes that were not tried: the push service was busy for too long, too many channels had some, or the store could not be read.";
    notify_push_removed Count "Registrations that have ended: the push service knows them no more, or their time or token is over.";
    notify_push_under_way Gauge "Pushes that are under way.";
    notify_gaps Count "Times that one who waits at /n/ was told that it has missed items which are not kept.";
    notify_memory_gone Count "Items kept in memory only that had to make room before their channel would have let them go.";
    notify_behind Count "Times that one who waits at /n/ took items too slowly, so that it reads the rest of them from the channel.";
    notify_publish_refused Count "Requests to publish at /n/ that were answered with an error.";
    notify_subscribe_refused Count "Requests to read or subscribe at /n/ that were answered with an error.";
    notify_ended Count "Streams of events and WebSockets at /n/ that the server has ended: their token was over, or a channel could not be read.";
    streams_opened Count "Streams opened; each restart after TLS or authentication is one (RFC 6120 4.3.3).";
    streams_closed Count "Connections whose stream has ended, however it did: the sum of the closed_ ones.";
    closed_by_client Count "Ended by the client: it closed its stream, or its connection.";
    closed_lost Count "Ended by the network: the client vanished, or reset the connection.";
    closed_tls Count "Ended because what came was not TLS as it should be.";
    closed_protocol Count "Ended by an error: what came was not the protocol.";
    closed_refused Count "Ended by an error: not authorized, or against a rule of this server.";
    closed_unread Count "Ended because the client did not read, or acknowledged nothing.";
    closed_timeout Count "Ended because the client was silent, or had no session in time.";
    closed_replaced Count "Ended because another connection took over the session or its resource.";
    closed_operator Count "Ended by the operator, or with the account.";
    closed_shutdown Count "Ended because the server stops.";
    closed_server Count "Ended for a reason of the server's own, such as no room for a connection that moves.";
    streams_closed_by_error Count "Streams ended with a stream error by this side.";
    logins Count "Successful authentications.";
    logins_failed Count "Failed authentications.";
    resumed Count "Sessions resumed.";
    sessions_restored Count "Sessions of an earlier process that wait to be resumed again.";
    resumed_restored Count "Of these, such that were resumed.";
    session_rows Count "Rows written of sessions that may be resumed after a restart.";
    expired Count "Sessions whose time to be resumed ran out.";
    asks_sent Count "Requests of the server's own to clients, such as pings.";
    asks_answered Count "Of these, such that were answered.";
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
    messages_live Count "Messages handed to a connected session.";
    messages_stored Count "Messages that wait in their receiver's log.";
    messages_replayed Count "Waiting messages handed to a session.";
    messages_returned Count "Unacknowledged messages that wait again.";
    messages_refused Count "Messages answered with an error.";
    pushes_sent Count "Push notifications published (XEP-0357).";
    pushes_taken Count "Of these, such that their service has taken.";
    pushes_failed Count "Of these, such that were answered with an error, or not in time.";
    pushes_held Count "Push notifications put off because their service leaves too many unanswered.";
    pushes_dropped Count "Users of whom no service was told, because there are too many at once.";
    pushes_pending Gauge "Push notifications that are not answered yet.";
    reports_kept Count "Reports of users that were kept for the operator (XEP-0377).";
    reports_left_out Count "Reports that were not kept: their account had as many as one may, or the store had no room.";
    reports_pushed_out Count "Reports that gave way to later ones.";
    components Gauge "External components that are connected (XEP-0114).";
    component_stanzas_in Count "Stanzas received from components.";
    component_stanzas_out Count "Stanzas that components have taken.";
    component_refused Count "Stanzas for components that were answered with an error, because it was away or took no more.";
    component_queue_bytes Gauge "Bytes that wait for components, with what each stanza costs beside.";
    letters_out Count "Letters to other shards.";
    letters_in Count "Letters from other shards handled.";
    letters_own Count "Letters to itself handled.";
    letter_text_bytes_out Count "Bytes of text in letters.";
    reads Count "Reads asked of the store.";
    reads_pending Gauge "Reads not yet answered.";
    writes Count "Rows written.";
    commits Count "Batches of rows handed to the store: one a turn with writes.";
    commits_waiting Gauge "Batches of these that are not durable yet.";
    jobs Count "Jobs handed out.";
    outside_asks Count "Questions about users who are kept elsewhere.";
    outside_unknown Count "Such questions that nobody has answered.";
    outside_pending Gauge "Such questions that are under way.";
    jobs_pending Gauge "Jobs not yet done.";
    parked_came Count "Stanzas and roster steps that had to wait for a user's state to be loaded.";
    parked Gauge "Stanzas and roster steps that wait for a user's state to be loaded.";
    work_paused Count "Sessions that were not read from for a while because they had set off more work than their share.";
    pace_paused Count "Sessions that were not read from for a while because their account sent faster than it may.";
    parked_refused Count "Stanzas refused because too many waited.";
    outbound_bytes Gauge "Bytes that wait in connections' outbound buffers or are being sent.";
    outbound_oldest_s Gauge "Age of the oldest send that a client has not taken, seconds; as the last sweep of connections saw it.";
    outbound_overflows Count "Streams ended because their peer asked on and acknowledged nothing.";
    stanzas_dropped Count "Headlines, chat states, presence and the like for sessions that had too much to take already.";
    gated Count "Effects put behind the gate.";
    gate_waiting Gauge "Effects that wait for their commit to be durable.";
    gate_bytes Gauge "Bytes of these that are to be sent.";
    letters_kept Gauge "Batches that did not fit into other shards' rings.";
    reads_kept Gauge "Reads that wait for room in the readers' ring.";
    jobs_kept Gauge "Jobs that wait for room in the job queue.";
    storage_full Gauge "1 while the store has no room.";
    paused Gauge "Connections that are not read from, because their stanzas or their login are under way.";
    mem_connections_bytes Gauge "Memory of the tables of connections, by their room.";
    mem_sessions_bytes Gauge "Memory of the table of sessions, by its room, and of what stream management keeps of each.";
    mem_users_bytes Gauge "Memory of the table of users, by its room, and of what is loaded of each.";
    mem_outbound_bytes Gauge "Memory of what waits for clients, here or for the disk, and of the pool of its buffers.";
    mem_letters_bytes Gauge "Memory of the rings in which letters come, and of letters kept for others.";
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
