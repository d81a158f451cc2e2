//! The figures that workers count, and their sums. Workers send them to the control, between
//! processes as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Things that happened, since the last sample or in all.
        #[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub(crate) struct Counters {
            $($(#[doc = $doc])+ pub(crate) $name: u64,)*
            /// What went wrong, by kind; the kinds are of a bounded number, as conditions are.
            pub(crate) errors: BTreeMap<String, u64>,
        }

        impl Counters {
            /// Adds another's.
            pub(crate) fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
                for (kind, count) in &other.errors {
                    self.error(kind, *count);
                }
            }
        }
    };
}

counters! {
    /// Connections made.
    connects,
    /// Sessions established.
    logins,
    /// Messages given to a connection.
    sent,
    /// Messages that came for the first time.
    received,
    /// Of those, kept by the server for a user who was away (XEP-0203).
    delayed,
    /// Messages that came again.
    duplicates,
    /// Messages that came behind one sent later.
    reordered,
    /// Messages with a number that was never sent.
    unknown,
    /// Messages that came with another body than they were sent with.
    corrupted,
    /// Messages that took longer than the scenario allows.
    late,
    /// Sessions that stood and were ended, by the server or on the way to it.
    broken,
    /// Messages that are not of this run.
    foreign,
    /// Messages that never came though both connections stood.
    lost,
    /// Messages that never came and were under way when a connection of their pair broke.
    unsure,
    /// Messages due by the open loop while their sender was not there.
    not_sent,
    /// Windows of the closed loop opened again after five seconds without an arrival.
    given_up,
    /// Rooms entered.
    entered,
    /// Rooms left, to be entered again.
    left,
    /// Presence sent, initial presence not counted.
    presence_sent,
    /// Presence received.
    presence_received,
    /// Items of which the publication was answered (channels only, as are those below).
    confirmed,
    /// Publications that were answered as known, since an answer before had been lost.
    repeated,
    /// Times that a subscriber was told that items are no longer kept.
    gaps,
    /// Items that never came to a subscriber and are covered by such a word.
    gapped,
    /// Requests of BOSH, those sent again included.
    requests,
    /// Requests of BOSH that were sent again, since their connection had gone without an answer.
    requests_again,
    /// Bytes received.
    bytes_in,
    /// Bytes given to the kernel, in records where there is TLS.
    bytes_out,
}

/// Kinds of errors kept apart; further ones are counted together.
const KINDS_MAX: usize = 64;

impl Counters {
    /// Counts something that went wrong.
    pub(crate) fn error(&mut self, kind: &str, count: u64) {
        if let Some(known) = self.errors.get_mut(kind) {
            *known += count;
        } else {
            let kind = if self.errors.len() < KINDS_MAX { kind } else { "other" };
            *self.errors.entry(kind.to_owned()).or_default() += count;
        }
    }
}

/// How things stand.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Gauges {
    /// Established sessions.
    pub(crate) up: u64,
    /// Clients whose session was established at least once.
    pub(crate) arrived: u64,
    /// Clients that have given up.
    pub(crate) hopeless: u64,
    /// Connections that are not closed.
    pub(crate) open: u64,
    /// Messages that have not come.
    pub(crate) outstanding: u64,
    /// Messages of rooms: those sent to each occupant, less those that came to this worker's. Only
    /// the sum over all workers means something.
    pub(crate) to_occupants: i64,
    /// 1 once the worker begins no message any more, so that all it will ever have under way is in
    /// the figure above.
    pub(crate) drains: u64,
    /// Memory that the process has more than before its first client, in bytes, once the hold has
    /// begun; told by one worker of each process.
    pub(crate) grown_bytes: u64,
}

impl Gauges {
    /// Adds another worker's.
    pub(crate) fn add(&mut self, other: &Gauges) {
        self.up += other.up;
        self.arrived += other.arrived;
        self.hopeless += other.hopeless;
        self.open += other.open;
        self.outstanding += other.outstanding;
        self.to_occupants += other.to_occupants;
        self.drains += other.drains;
        self.grown_bytes += other.grown_bytes;
    }
}

/// What a worker tells several times a second.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Which worker.
    pub(crate) worker: u32,
    /// Since its last sample.
    pub(crate) counters: Counters,
    /// Now.
    pub(crate) gauges: Gauges,
    /// Times from when a message was to be sent until it came, in microseconds, with how often.
    pub(crate) latency: Vec<(u64, u64)>,
    /// Of those, what came after a storm to pairs that it has spared.
    pub(crate) stayed: Vec<(u64, u64)>,
    /// Times from a connection's beginning until its session stood.
    pub(crate) logins: Vec<(u64, u64)>,
    /// Times from when items were to be published until their publication was answered.
    pub(crate) answers: Vec<(u64, u64)>,
    /// How long after its time each message of the open loop was sent: the generator's own
    /// lateness.
    pub(crate) sent_late: Vec<(u64, u64)>,
    /// CPU time of the worker since its last sample, in microseconds.
    pub(crate) cpu_us: u64,
    /// It has ended.
    pub(crate) over: bool,
    /// Why it had to, if it did not mean to.
    pub(crate) broken: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_add_up_by_kind_and_their_kinds_are_bounded() {
        let mut all = Counters::default();
        for number in 0..200 {
            let mut one = Counters { sent: 1, ..Counters::default() };
            one.error(&format!("kind {number}"), 1);
            all.add(&one);
        }
        all.error("kind 3", 1);
        assert_eq!((all.sent, all.errors["kind 3"]), (200, 2));
        assert_eq!(all.errors["other"], 200 - KINDS_MAX as u64);
    }
}
