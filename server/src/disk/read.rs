//! Reads off the shards' threads: nothing that may touch the disk runs in a shard's turn.
//!
//! Each shard has one ring to a reading thread and one back, so its answers arrive in the order of
//! its requests. A request waits until its gate is durable, so that it sees everything its shard
//! wrote before. Both rings are as long as the number of reads that a shard may have outstanding;
//! neither can overflow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use throng_engine::id::Gate;
use throng_engine::store::{Found, Query};

use super::commit::{AbortOnPanic, Fatal};
use super::counters::us;
use super::shared::Shared;
use super::{Committer, DiskError, Engine, Options, ReadCounters, Seen, Wake};
use crate::waits::{self, Place};
use crate::waking::Parking;

/// Pause before a read is retried while the engine lacks space.
const RETRY: Duration = Duration::from_millis(50);

/// Queries of one shard, answered together.
#[derive(Debug)]
pub struct ReadRequest {
    /// Returned with the answer.
    pub token: u64,
    /// The gate that must be durable first: that of the shard's last batch.
    pub after: Gate,
    /// The queries.
    pub queries: Vec<Query>,
}

/// The answer to a [`ReadRequest`].
#[derive(Debug)]
pub struct ReadAnswer {
    /// The request's token.
    pub token: u64,
    /// One result per query, in their order.
    pub found: Vec<Found>,
}

/// A shard's end. Belongs to one thread.
#[derive(Debug)]
pub struct ReadPort {
    requests: rtrb::Producer<ReadRequest>,
    answers: rtrb::Consumer<ReadAnswer>,
    outstanding: usize,
    outstanding_max: usize,
    sleeper: Arc<Sleeper>,
}

impl ReadPort {
    /// Sends a request. The shard is woken when the answer is available.
    ///
    /// # Errors
    /// The request itself, if the maximum number of reads is outstanding.
    pub fn submit(&mut self, request: ReadRequest) -> Result<(), ReadRequest> {
        if self.is_full() {
            return Err(request);
        }
        self.requests.push(request).map_err(|rtrb::PushError::Full(request)| request)?;
        self.outstanding += 1;
        self.sleeper.wake();
        Ok(())
    }

    /// The next answer, in the order of the requests.
    pub fn poll(&mut self) -> Option<ReadAnswer> {
        let answer = self.answers.pop().ok()?;
        self.outstanding -= 1;
        Some(answer)
    }

    /// Number of reads requested and not polled yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether no further read may be requested now.
    pub fn is_full(&self) -> bool {
        self.outstanding >= self.outstanding_max
    }
}

/// Wakes a reading thread; created before the thread, so that the committer can wake it, too.
#[derive(Debug, Default)]
pub struct Sleeper {
    parking: Parking,
    stopping: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

impl Wake for Sleeper {
    fn wake(&self) {
        if self.parking.must_unpark()
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// How long answers may accumulate before their shard is woken, while this thread has more to read;
/// a read in progress is finished first. A shard that is woken takes the core at once, and would
/// run a turn for each single answer.
const TOGETHER: Duration = Duration::from_micros(100);

/// Number of answers after which an idle thread gives memory back.
const ANSWERS_A_TIDY: u32 = 16;

/// After this idle time a thread gives back the memory of its answers that other threads have
/// freed: shards free them, mostly after this thread has gone to sleep.
const TIDY_AFTER: Duration = Duration::from_secs(1);

/// The reading threads. They stop when this is dropped.
#[derive(Debug)]
pub struct Readers {
    threads: Vec<(Arc<Sleeper>, JoinHandle<()>)>,
    seen: Vec<Seen<ReadCounters>>,
}

impl Readers {
    /// The wakers of the reading threads, to be passed to [`Committer::start`] after those of the
    /// shards.
    pub fn sleepers(options: &Options) -> Vec<Arc<Sleeper>> {
        (0..options.read_threads.max(1)).map(|_| Arc::default()).collect()
    }

    /// Starts the threads; `sleepers` are those passed to the committer, and `shards` is the number
    /// of shards.
    ///
    /// # Errors
    /// The system's, if a thread cannot be created.
    pub fn start(
        engine: &Arc<dyn Engine>,
        committer: &Committer,
        sleepers: Vec<Arc<Sleeper>>,
        shards: usize,
        options: &Options,
        fatal: &Fatal,
    ) -> Result<(Readers, Vec<ReadPort>), DiskError> {
        let shared = committer.shared();
        assert_eq!(shared.slots(), shards + sleepers.len(), "the committer can wake shards and readers");
        let mut lanes: Vec<Vec<Lane>> = sleepers.iter().map(|_| Vec::new()).collect();
        let mut ports = Vec::new();
        for shard in 0..shards {
            let outstanding_max = options.shard_reads_max.max(1);
            let (requests, requests_out) = rtrb::RingBuffer::new(outstanding_max);
            let (answers_in, answers) = rtrb::RingBuffer::new(outstanding_max);
            let thread = shard % sleepers.len();
            lanes[thread].push(Lane { shard, requests: requests_out, answers: answers_in, untold: false });
            let sleeper = sleepers[thread].clone();
            ports.push(ReadPort { requests, answers, outstanding: 0, outstanding_max, sleeper });
        }
        let seen: Vec<Seen<ReadCounters>> = sleepers.iter().map(|_| Seen::default()).collect();
        let mut threads = Vec::new();
        for (at, (sleeper, lanes)) in sleepers.into_iter().zip(lanes).enumerate() {
            let worker = Worker {
                engine: engine.clone(),
                shared: shared.clone(),
                slot: shards + at,
                lanes,
                untold_since: None,
                sleeper: sleeper.clone(),
                fatal: fatal.clone(),
                seen: seen[at].clone(),
                tidiness: Tidiness { answers: 0, untidy: false, give_back: options.give_back },
            };
            let thread = waits::spawn(&format!("throng-read-{at}"), move || {
                waits::stand_back();
                worker.run()
            })
            .map_err(|e| DiskError::from_io("a reading thread", e))?;
            sleeper.thread.set(thread.thread().clone()).expect("set once");
            // It may have gone to sleep before its handle was set.
            thread.thread().unpark();
            threads.push((sleeper, thread));
        }
        Ok((Readers { threads, seen }, ports))
    }

    /// The counters of each thread.
    pub fn counters(&self) -> &[Seen<ReadCounters>] {
        &self.seen
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        for (sleeper, thread) in self.threads.drain(..) {
            sleeper.stopping.store(true, Ordering::SeqCst);
            thread.thread().unpark();
            // A panic of a reader has been reported as fatal when its thread ended.
            let _ = thread.join();
        }
    }
}

struct Lane {
    shard: usize,
    requests: rtrb::Consumer<ReadRequest>,
    answers: rtrb::Producer<ReadAnswer>,
    /// Whether the shard has answers that it was not woken for.
    untold: bool,
}

struct Worker {
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    slot: usize,
    lanes: Vec<Lane>,
    /// When the first answer was written whose shard has not been woken.
    untold_since: Option<Instant>,
    sleeper: Arc<Sleeper>,
    fatal: Fatal,
    seen: Seen<ReadCounters>,
    tidiness: Tidiness,
}

/// Decides when the thread gives memory back.
struct Tidiness {
    /// Answers since memory was last given back.
    answers: u32,
    /// Whether there were answers since an idle thread last gave memory back.
    untidy: bool,
    give_back: fn(),
}

impl Worker {
    fn run(mut self) {
        let _guard = AbortOnPanic;
        while !self.sleeper.stopping.load(Ordering::SeqCst) {
            #[cfg(debug_assertions)]
            crate::plant::pass("throng-read");
            let passed = self.pass();
            if !matches!(passed, Ok(true)) || self.untold_since.is_some_and(|since| since.elapsed() >= TOGETHER) {
                self.tell();
            }
            match passed {
                Ok(true) => {}
                Ok(false) => self.sleep(),
                Err(DiskError::OutOfSpace(_)) => {
                    let _at = waits::at(Place::DiskSpace);
                    thread::sleep(RETRY);
                }
                Err(error) => return (self.fatal)(&error),
            }
        }
        self.tell();
    }

    /// Answers at most one request per shard; `false` if there was none.
    fn pass(&mut self) -> Result<bool, DiskError> {
        let mut answered = false;
        let durable = self.shared.durable();
        for lane in &mut self.lanes {
            let Ok(request) = lane.requests.peek() else { continue };
            if request.after > durable {
                continue;
            }
            let (began, queries) = (Instant::now(), request.queries.len() as u64);
            let at = waits::at(Place::TableRead);
            let mut unreadable = 0;
            let read = |query: &Query| match self.engine.read(query) {
                // The requester gets an error. The store stays open: all other rows can be read.
                Err(DiskError::Unreadable(_)) => {
                    unreadable += 1;
                    Ok(Found::Damaged)
                }
                read => read,
            };
            let found = request.queries.iter().map(read).collect::<Result<_, _>>()?;
            drop(at);
            let token = lane.requests.pop().expect("just seen").token;
            let pushed = lane.answers.push(ReadAnswer { token, found });
            assert!(pushed.is_ok(), "answers are as many as requests outstanding");
            lane.untold = true;
            self.untold_since.get_or_insert(began);
            let Seen { counters, latencies } = &self.seen;
            let took_us = us(began.elapsed());
            counters.requests.one();
            counters.queries.add(queries);
            counters.unreadable.add(unreadable);
            counters.read_us.add(took_us);
            latencies.note(took_us);
            answered = true;
            self.tidiness.answers += 1;
            self.tidiness.untidy = true;
        }
        Ok(answered)
    }

    /// Wakes the shards that have answers.
    fn tell(&mut self) {
        self.untold_since = None;
        for lane in self.lanes.iter_mut().filter(|lane| lane.untold) {
            lane.untold = false;
            self.shared.wake(lane.shard);
        }
    }

    fn sleep(&mut self) {
        let Worker { sleeper, lanes, shared, slot, tidiness, .. } = self;
        if tidiness.answers >= ANSWERS_A_TIDY {
            tidiness.answers = 0;
            (tidiness.give_back)();
        }
        let empty = || {
            // The earliest gate waited for: when it is durable, this thread checks again, and asks
            // for the next.
            let earliest = lanes.iter().filter_map(|lane| Some(lane.requests.peek().ok()?.after)).min();
            let ready = earliest.is_some_and(|gate| shared.wake_at(*slot, gate));
            !ready && !sleeper.stopping.load(Ordering::SeqCst)
        };
        sleeper.parking.sleep(empty, || tidiness.rest());
    }
}

impl Tidiness {
    /// Sleeps until woken.
    fn rest(&mut self) {
        let at = waits::at(Place::Requests);
        if !self.untidy {
            return thread::park();
        }
        let asleep = Instant::now();
        thread::park_timeout(TIDY_AFTER);
        drop(at);
        if asleep.elapsed() >= TIDY_AFTER {
            (self.answers, self.untidy) = (0, false);
            (self.give_back)();
        }
    }
}
