//! Latencies of messages, logins and publications, measured where they leave: behind the gate.
//!
//! A message carries no timestamp. Letters of one turn travel together with the moment at which
//! that turn began, and a shard's counter of messages handed to sessions gives the number in each
//! batch. A batch thus costs two reads of a counter, and a turn with messages one mark at the gate.
//! The engine marks logins and publications itself ([`throng_engine::io::Effect::Timed`]), as they
//! span several turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use throng_engine::counters::{Counters, Latencies};
use throng_engine::id::Gate;
use throng_engine::io::Timed;
use throng_recorder::clock::wall_us;

/// Maximum number of marks: further messages are counted with the last one. A commit of several
/// seconds has no more.
const MARKS_MAX: usize = 4_096;

/// Histograms of one shard's thread, in microseconds; any thread may read them.
#[derive(Default, Debug)]
pub struct Timings {
    /// From the turn that read a message to the turn in which it leaves for the receiver's
    /// connection.
    pub messages: Arc<Latencies>,
    /// From the first element of an authentication to its success.
    pub logins: Arc<Latencies>,
    /// From the request to publish on a channel to its answer.
    pub publications: Arc<Latencies>,
}

/// Messages that arrived at one moment and wait for one gate.
struct Mark {
    gate: Gate,
    since: Instant,
    count: u64,
}

/// The measurements of one thread.
#[derive(Default)]
pub(super) struct Watch {
    timings: Arc<Timings>,
    /// Messages that had been handed to sessions at the last look.
    handed: u64,
    /// Batches of this turn. Bounded by the batches of letters that a turn takes, plus one.
    fresh: Vec<(Instant, u64)>,
    /// Marks of ended turns, ordered by gate; at most `MARKS_MAX`.
    waiting: VecDeque<Mark>,
}

impl Watch {
    /// A watch that records to these histograms.
    pub(super) fn new(timings: Arc<Timings>) -> Watch {
        Watch { timings, ..Watch::default() }
    }

    /// Records that the messages handed to sessions since the last look arrived at this moment.
    pub(super) fn came(&mut self, counters: &Counters, since: Instant) {
        let handed = counters.messages_live.get();
        if handed != self.handed {
            self.fresh.push((since, handed - self.handed));
            self.handed = handed;
        }
    }

    /// Ends the turn: its messages wait for this gate.
    pub(super) fn turn_ended(&mut self, gate: Gate) {
        for (since, count) in self.fresh.drain(..) {
            let full = self.waiting.len() >= MARKS_MAX;
            match self.waiting.back_mut().filter(|_| full) {
                Some(last) => (last.gate, last.count) = (gate, last.count + count),
                None => self.waiting.push_back(Mark { gate, since, count }),
            }
        }
    }

    /// Records that everything up to this gate left at this moment.
    pub(super) fn left(&mut self, durable: Gate, now: Instant) {
        while self.waiting.front().is_some_and(|mark| mark.gate <= durable)
            && let Some(mark) = self.waiting.pop_front()
        {
            let took = now.saturating_duration_since(mark.since);
            self.timings.messages.note_many(took.as_micros() as u64, mark.count);
        }
    }

    /// Records an answered login or publication that began at this wall-clock time.
    pub(super) fn took(&self, what: Timed, since_us: u64) {
        let now = wall_us();
        let of = match what {
            Timed::Login => &self.timings.logins,
            Timed::Publication => &self.timings.publications,
        };
        of.note(now.saturating_sub(since_us));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn counted(latencies: &Latencies) -> (u64, u64) {
        let mut counts = [0; Latencies::BUCKETS];
        latencies.read(&mut counts);
        (counts.iter().sum(), latencies.sum())
    }

    #[test]
    fn a_message_is_measured_from_where_it_came_until_its_gate_is_durable() {
        let (timings, counters, start) = (Arc::new(Timings::default()), Counters::default(), Instant::now());
        let mut watch = Watch::new(timings.clone());
        let at = |us| start + Duration::from_micros(us);
        watch.came(&counters, at(0));
        watch.turn_ended(Gate(1));
        watch.left(Gate(1), at(50));
        assert_eq!(counted(&timings.messages), (0, 0), "a turn without messages");
        // Two arrived in letters of a turn that began earlier, one was read by this shard.
        counters.messages_live.add(2);
        watch.came(&counters, at(100));
        counters.messages_live.one();
        watch.came(&counters, at(400));
        watch.turn_ended(Gate(5));
        watch.left(Gate(4), at(600));
        assert_eq!(counted(&timings.messages), (0, 0), "their commit is not durable");
        watch.left(Gate(5), at(1_000));
        assert_eq!(counted(&timings.messages), (3, 2 * 900 + 600));
    }

    #[test]
    fn marks_are_bounded_while_the_disk_stands_still_and_every_message_is_counted() {
        let (timings, counters, start) = (Arc::new(Timings::default()), Counters::default(), Instant::now());
        let mut watch = Watch::new(timings.clone());
        for turn in 0..MARKS_MAX as u64 + 100 {
            counters.messages_live.one();
            watch.came(&counters, start);
            watch.turn_ended(Gate(turn));
        }
        assert_eq!(watch.waiting.len(), MARKS_MAX);
        watch.left(Gate(u64::MAX), start + Duration::from_secs(1));
        assert_eq!(counted(&timings.messages).0, MARKS_MAX as u64 + 100);
    }
}
