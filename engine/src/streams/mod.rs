//! Connections, their output and their end, and the stream halves of sessions. This module knows
//! sessions only by their ids, and knows no users. It owns the kernel: every module of a shard is
//! passed `cx: &mut Streams`.
//!
//! No stream ends while an input is being handled. An end is *recorded* ([`ending`]). A stream that
//! may continue with buffered input is reported to the shard by a letter ([`half::Up`]). The shard
//! takes both out when the input is handled.

pub(crate) mod asked;
pub(crate) mod bosh;
pub(crate) mod credit;
pub(crate) mod departing;
pub(crate) mod ended;
pub(crate) mod ending;
pub(crate) mod half;
pub(crate) mod held_back;
pub(crate) mod jobs;
pub(crate) mod management;
pub(crate) mod opening;
pub(crate) mod output;
pub(crate) mod standing;
pub(crate) mod stored;
pub(crate) mod work;

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::id::SessionId;
use crate::io::Job;
use crate::kernel::pending::Pending;
use crate::kernel::{Fixed, Kernel};
use crate::outbound::Outbound;
use crate::session::conn::{Conns, Phase};
use crate::streams::ending::Endings;
use crate::streams::half::{Halves, Up};

/// The connections of a shard.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) kernel: Kernel,
    pub(crate) conns: Conns,
    /// Connections with new output in this turn.
    pub(crate) dirty: Vec<u32>,
    /// Boxed, because a connection keeps a buffer only while it has output; buffers move in and out
    /// of the pool whole.
    #[expect(clippy::vec_box, reason = "boxes are handed out and taken back whole")]
    pub(crate) outbound_pool: Vec<Box<Outbound>>,
    /// Bytes in outbound buffers, including those in flight.
    pub(crate) outbound_bytes: usize,
    /// What is to end when the input is handled.
    pub(crate) endings: Endings,
    /// The stream halves of sessions.
    pub(in crate::streams) halves: Halves,
    /// Letters upwards, taken out when the input is handled; bounded by the effects of one input.
    pub(crate) up: VecDeque<Up>,
    /// Sessions that are not read from until their work is paid off; each once.
    pub(crate) paying: Vec<SessionId>,
    /// Sessions that are not read from because their account exceeds its rate.
    pub(in crate::streams) held_back: held_back::HeldBack,
    /// Sessions that wait for room in their unread and unacknowledged output; each once.
    pub(in crate::streams) awaiting_room: HashSet<SessionId, Fixed>,
    /// Sessions whose stored state has changed in this round, and in the one before; each once.
    pub(crate) restless: [Vec<SessionId>; 2],
    /// Sessions whose rows are to be written with this turn; each once.
    pub(crate) owed: Vec<SessionId>,
    /// Bytes that sessions have not acknowledged (XEP-0198).
    pub(crate) unacked_bytes: usize,
    /// Jobs beyond [`JOBS_UNDER_WAY_MAX`](crate::limits::JOBS_UNDER_WAY_MAX). Jobs of closed
    /// connections are dropped before the queue is twice as long as the number of connections plus
    /// [`JOBS_WAITING_SPARE`](crate::limits::JOBS_WAITING_SPARE).
    pub(crate) jobs_waiting: Vec<(Pending, Job)>,
    /// Number of jobs among [`Pending`]; the rest are reads.
    pub(crate) jobs_under_way: usize,
    /// BOSH sessions.
    pub(crate) bosh: bosh::Table,
    /// Outstanding questions to the external back end about users; bounded by `OUTSIDE_ASKS_MAX`.
    pub(crate) asks_under_way: usize,
    /// Outstanding questions about requests for channels; bounded by `NOTIFY_INQUIRIES_MAX`.
    pub(crate) inquiries_under_way: usize,
    /// Earliest second whose output has not left for the network yet; the maximum if all has left.
    pub(crate) held_s: u32,
    /// Whether many sends of this shard wait for a commit.
    pub(crate) many_held: bool,
    /// Scratch memory for one WebSocket message at a time.
    pub(crate) message: Vec<u8>,
    /// Each long body in flight holds one further reference to this.
    pub(crate) long_bodies: Arc<()>,
}

impl Streams {
    pub(crate) fn new(kernel: Kernel) -> Streams {
        Streams {
            kernel,
            conns: Conns::default(),
            dirty: Vec::new(),
            outbound_pool: Vec::new(),
            outbound_bytes: 0,
            endings: Endings::default(),
            halves: Halves::default(),
            up: VecDeque::new(),
            paying: Vec::new(),
            held_back: Default::default(),
            awaiting_room: HashSet::default(),
            restless: Default::default(),
            owed: Vec::new(),
            unacked_bytes: 0,
            jobs_waiting: Vec::new(),
            jobs_under_way: 0,
            bosh: bosh::Table::default(),
            asks_under_way: 0,
            inquiries_under_way: 0,
            held_s: u32::MAX,
            many_held: false,
            message: Vec::new(),
            long_bodies: Arc::default(),
        }
    }

    /// Sets the gauges of connections and of work in progress.
    pub(crate) fn publish_streams(&mut self) {
        let changed = self.conns.take_changed();
        let c = &self.kernel.counters;
        if changed {
            c.connections.set(self.conns.held() as u64);
            let phases = [
                (&c.conns_opening, Phase::Opening),
                (&c.conns_securing, Phase::Securing),
                (&c.conns_authenticating, Phase::Authenticating),
                (&c.conns_authenticated, Phase::Authenticated),
                (&c.conns_bound, Phase::Bound),
                (&c.conns_closing, Phase::Closing),
                (&c.conns_departing, Phase::Departing),
            ];
            phases.into_iter().for_each(|(gauge, phase)| gauge.set(self.conns.in_phase(phase) as u64));
            c.websockets.set(self.conns.websockets() as u64);
        }
        c.bosh_sessions.set(self.bosh.len() as u64);
        c.sessions_detached.set(self.halves.detached() as u64);
        c.sessions_dormant.set(self.halves.dormant() as u64);
        c.paused.set(self.conns.paused() as u64);
        c.outbound_bytes.set(self.outbound_bytes as u64);
        c.jobs_pending.set((self.jobs_under_way + self.jobs_waiting.len()) as u64);
        let elsewhere = self.jobs_under_way + self.asks_under_way + self.inquiries_under_way;
        c.reads_pending.set((self.kernel.pending.len() - elsewhere) as u64);
        c.outside_pending.set(self.asks_under_way as u64);
        c.notify_asking.set(self.inquiries_under_way as u64);
    }
}
