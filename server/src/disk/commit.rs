//! The committer: one thread that makes the batches of all shards durable, many of them per sync.
//!
//! **One order without a lock.** A shard that has writes in a turn takes a ticket from one counter
//! (once per turn, not per message), and puts batch and ticket into its own ring, which has one
//! producer and one consumer. The committer empties the rings into a window and applies the tickets
//! in sequence without a gap. If a ticket is missing, its shard has taken it and is about to hand
//! in its batch: the committer waits for that ring. A ticket is
//! the [`Gate`]: all commits up to it are durable once [`Submitter::durable`] has reached it.
//!
//! Suppose that shard A hands in a batch and then writes to shard B, and B hands one in on receipt.
//! Then A's ticket is the lower one: A's increment of the counter happens before B's, and one
//! counter's changes have one order. So a write that B made because of A can never survive a crash
//! that A's write did not survive.
//!
//! **Nothing fails.** When the device is full the group waits: the reserve is released, and the
//! group is retried until it succeeds. Meanwhile all parties see [`StorageState::Full`]. Any other
//! error ends the process, because after a failed sync the content of the disk is unknown.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use throng_engine::id::Gate;
use throng_engine::store::Batch;

use super::counters::us;
use super::gather::{ENOUGH, Gathering};
use super::shared::Shared;
use super::space::{FreeBytes, Reserve, accepting_bytes};
use super::{DiskError, Engine, Options, Seen, StorageState, StoreCounters, Wake};
use crate::waits::{self, Place};
use crate::waking::Parking;

/// Time between two log lines that report a full disk.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Batches larger than this are freed instead of reused, bytes.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// After this time without work the committer lets the engine rest.
const REST_AFTER: Duration = Duration::from_secs(10);

/// How often a busy committer gives memory back.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// Pause of a shard that has no room to hand a batch in: letters of other shards cause writes even
/// while it does not read from clients.
const FULL_PAUSE: Duration = Duration::from_micros(200);

/// The fraction of a second's bytes that may wait while commits are slowed down.
const QUEUE_PARTS: u64 = 10;

/// Bytes that each shard may have waiting however slow commits are: more than a client may send at
/// once.
const QUEUE_BYTES_MIN: u64 = 256 << 10;

/// Maximum number of batches per sync.
const GROUP_BATCHES_MAX: usize = 4096;

/// Called when the store cannot continue.
pub type Fatal = Arc<dyn Fn(&DiskError) + Send + Sync>;

/// The default [`Fatal`]: reports the reason and ends the process at once, without running anything
/// that could acknowledge.
pub fn stop_process() -> Fatal {
    Arc::new(|error| {
        let code = crate::end::STORE;
        crate::end::at_once(code, &format!("the store has failed: {error}. The process exits with code {code}"));
    })
}

/// A shard's end: hands in batches and reports how far they are durable. Belongs to one thread.
#[derive(Debug)]
pub struct Submitter {
    shard: usize,
    ring: rtrb::Producer<Ticketed>,
    spare: rtrb::Consumer<Batch>,
    /// Bytes and batches handed in so far; written only by this end.
    bytes_in: u64,
    batches_in: u64,
    out: Arc<Out>,
    bytes_max: u64,
    tickets: Arc<Tickets>,
    shared: Arc<Shared>,
    thread: Thread,
}

/// What has been committed of a shard so far; written only by the committer.
#[derive(Debug, Default)]
struct Out {
    bytes: AtomicU64,
    batches: AtomicU64,
}

#[derive(Debug)]
struct Ticketed {
    ticket: u64,
    batch: Batch,
}

#[derive(Debug, Default)]
struct Tickets {
    taken: AtomicU64,
    parking: Parking,
    stopping: AtomicBool,
}

impl Submitter {
    /// Hands in the writes of a turn. Batches become durable in the order of their gates. An empty
    /// batch gets the gate that is already durable.
    ///
    /// Call it only when [`Submitter::is_full`] is false; otherwise it waits for room.
    pub fn submit(&mut self, batch: Batch) -> Gate {
        if batch.is_empty() {
            return self.durable();
        }
        if self.ring.is_full() {
            self.wait_for_room();
        }
        self.bytes_in += batch.bytes() as u64;
        self.batches_in += 1;
        // SeqCst for clarity; the required order is only that of one counter's changes.
        let ticket = self.tickets.taken.fetch_add(1, Ordering::SeqCst) + 1;
        let pushed = self.ring.push(Ticketed { ticket, batch });
        assert!(pushed.is_ok(), "a ring with room takes a batch");
        if self.tickets.parking.must_unpark() {
            self.thread.unpark();
        }
        Gate(ticket)
    }

    fn wait_for_room(&self) {
        let _at = waits::at(Place::CommitRoom);
        while self.ring.is_full() {
            self.thread.unpark();
            thread::sleep(FULL_PAUSE);
        }
    }

    /// An empty batch, with reused memory if available; otherwise with capacity for a batch like
    /// `before`.
    pub fn spare(&mut self, before: &Batch) -> Batch {
        self.spare.pop().unwrap_or_else(|_| Batch::like(before))
    }

    /// Sets the number of bytes that may wait.
    pub fn tune(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Whether so much is waiting that the shard must stop reading from its connections. There is
    /// still room for some turns of letters from others.
    pub fn is_full(&self) -> bool {
        let bytes_max = self.bytes_max.min(self.shared.queue_bytes_max.load(Ordering::Relaxed));
        self.queued_bytes() >= bytes_max || self.ring.slots() <= self.ring.buffer().capacity() / 4
    }

    /// Bytes handed in by this shard that are not durable yet.
    pub fn queued_bytes(&self) -> u64 {
        self.bytes_in.saturating_sub(self.out.bytes.load(Ordering::Acquire))
    }

    /// Batches handed in by this shard that are not durable yet.
    pub fn queued_batches(&self) -> u64 {
        self.batches_in.saturating_sub(self.out.batches.load(Ordering::Relaxed))
    }

    /// All commits up to this gate are durable.
    pub fn durable(&self) -> Gate {
        self.shared.durable()
    }

    /// Whether `gate` is durable; if not, this shard is woken once it is. Only the last gate asked
    /// for counts: ask for the lowest one.
    pub fn wake_at(&self, gate: Gate) -> bool {
        self.shared.wake_at(self.shard, gate)
    }

    /// Whether new messages may be accepted. The shard is woken when this changes.
    pub fn state(&self) -> StorageState {
        self.shared.state()
    }
}

/// The commit thread. When dropped, it stops after everything handed in is durable.
#[derive(Debug)]
pub struct Committer {
    tickets: Arc<Tickets>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread. `wakes` has one entry per shard, in the order of their numbers, followed
    /// by one per thread that waits for gates without writing (those of [`super::Readers`]).
    ///
    /// # Errors
    /// The file system's when the reserve is created; the system's if a thread cannot be created.
    pub fn start(
        engine: Arc<dyn Engine>,
        folder: Option<PathBuf>,
        shards: usize,
        wakes: Vec<Arc<dyn Wake>>,
        options: &Options,
        fatal: Fatal,
    ) -> Result<(Committer, Vec<Submitter>), DiskError> {
        assert!(shards <= wakes.len(), "each shard can be woken");
        let shared = Shared::new(wakes);
        let tuner = Tuner(shared.clone());
        tuner.tune(options.group_bytes_max, options.min_free_bytes);
        let tickets = Arc::new(Tickets::default());
        let reserve = match &folder {
            Some(folder) => Some(Reserve::open(folder, options.reserve_bytes)?),
            None => None,
        };
        let (mut lanes, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..shards {
            let (ring_in, ring_out) = rtrb::RingBuffer::new(options.shard_queue_batches_max.max(2));
            let (spare_in, spare_out) = rtrb::RingBuffer::new(8);
            let out = Arc::new(Out::default());
            lanes.push(Lane { ring: ring_out, spare: spare_in, out: out.clone(), bytes: 0, batches: 0 });
            ends.push((ring_in, spare_out, out));
        }
        let worker = Worker {
            seen: engine.counters().clone(),
            engine,
            folder,
            reserve,
            lanes,
            window: VecDeque::new(),
            next: 1,
            group: Vec::new(),
            owners: Vec::new(),
            gathering: Gathering::start(),
            committed: None,
            interval: options.space_interval,
            free_bytes: options.free_bytes,
            looked: None,
            told: None,
            rested: false,
            tidied: Instant::now(),
            give_back: options.give_back,
            tickets: tickets.clone(),
            shared: shared.clone(),
            fatal,
        };
        let thread = waits::spawn("throng-commit", move || {
            waits::in_short_slices();
            worker.run();
        })
        .map_err(|e| DiskError::from_io("the committer's thread", e))?;
        let handle = thread.thread().clone();
        let submitters = ends
            .into_iter()
            .enumerate()
            .map(|(shard, (ring, spare, out))| Submitter {
                shard,
                ring,
                spare,
                bytes_in: 0,
                batches_in: 0,
                out,
                bytes_max: options.shard_queue_bytes_max,
                tickets: tickets.clone(),
                shared: shared.clone(),
                thread: handle.clone(),
            })
            .collect();
        Ok((Committer { tickets, shared, thread: Some(thread) }, submitters))
    }

    /// All commits up to this gate are durable.
    pub fn durable(&self) -> Gate {
        self.shared.durable()
    }

    /// Whether new messages may be accepted.
    pub fn state(&self) -> StorageState {
        self.shared.state()
    }

    /// A handle that changes its settings.
    pub fn tuner(&self) -> Tuner {
        Tuner(self.shared.clone())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Makes everything handed in durable and ends the thread. By then the shards hand in nothing
    /// more.
    pub fn stop(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.tickets.stopping.store(true, Ordering::SeqCst);
            thread.thread().unpark();
            // A panic of the committer has already aborted the process.
            let _ = thread.join();
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.join();
    }
}

/// Changes a running committer's settings, which it reads once per group.
#[derive(Clone, Debug)]
pub struct Tuner(Arc<Shared>);

impl Tuner {
    /// Sets the maximum bytes of batches per sync, and the free space below which new messages are
    /// refused, bytes.
    pub fn tune(&self, group_bytes_max: usize, min_free_bytes: u64) {
        self.0.group_bytes_max.store(group_bytes_max as u64, Ordering::Relaxed);
        self.0.min_free_bytes.store(min_free_bytes, Ordering::Relaxed);
    }

    /// Bytes that must be freed on the device before messages are accepted again, as of the last
    /// check: 0 while they are accepted, or if nothing more has to be freed.
    pub fn lacking_bytes(&self) -> u64 {
        self.0.lacking_bytes.load(Ordering::Relaxed)
    }
}

struct Lane {
    ring: rtrb::Consumer<Ticketed>,
    spare: rtrb::Producer<Batch>,
    out: Arc<Out>,
    bytes: u64,
    batches: u64,
}

struct Worker {
    engine: Arc<dyn Engine>,
    seen: Seen<StoreCounters>,
    folder: Option<PathBuf>,
    reserve: Option<Reserve>,
    lanes: Vec<Lane>,
    /// Batches that wait for their turn: index 0 is ticket `next`. Bounded by the rings' sizes.
    window: VecDeque<Option<(usize, Batch)>>,
    next: u64,
    group: Vec<Batch>,
    owners: Vec<usize>,
    /// Decides how long groups gather.
    gathering: Gathering,
    /// When the last group became durable.
    committed: Option<Instant>,
    interval: Duration,
    free_bytes: FreeBytes,
    looked: Option<Instant>,
    /// When the full disk was last logged.
    told: Option<Instant>,
    /// Whether the engine has rested since the last commit.
    rested: bool,
    /// When memory was last given back.
    tidied: Instant,
    give_back: fn(),
    tickets: Arc<Tickets>,
    shared: Arc<Shared>,
    fatal: Fatal,
}

/// If a committer or a reader panics, the process must end: shards would wait for gates or answers
/// forever.
pub(super) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

impl Worker {
    fn run(mut self) {
        let _guard = AbortOnPanic;
        let end = self.work();
        if let Err(error) = end {
            (self.fatal)(&error);
        }
    }

    fn work(&mut self) -> Result<(), DiskError> {
        loop {
            self.drain();
            self.wait_for_more();
            self.gather();
            let now = Instant::now();
            #[cfg(debug_assertions)]
            crate::plant::pass("throng-commit");
            if !self.group.is_empty() {
                self.look_at_space(now)?;
                let ended = self.commit(now)?;
                if ended >= self.tidied + TIDY_EVERY {
                    self.tidied = ended;
                    (self.give_back)();
                }
                continue;
            }
            if self.tickets.stopping.load(Ordering::SeqCst) && self.is_drained() {
                return Ok(());
            }
            self.look_at_space(now)?;
            self.sleep();
        }
    }

    /// Empties the rings into the window.
    fn drain(&mut self) {
        for (shard, lane) in self.lanes.iter_mut().enumerate() {
            while let Ok(Ticketed { ticket, batch }) = lane.ring.pop() {
                let at = usize::try_from(ticket - self.next).expect("the window is bounded by the rings");
                if self.window.len() <= at {
                    self.window.resize_with(at + 1, || None);
                }
                self.window[at] = Some((shard, batch));
            }
        }
    }

    /// Waits for further batches that can share a sync with the present ones. This thread need not
    /// be woken for them.
    fn wait_for_more(&mut self) {
        let (mut began, mut before) = (None, 0);
        while !self.tickets.stopping.load(Ordering::SeqCst) {
            let gathered = began.map_or(Duration::ZERO, |began: Instant| began.elapsed());
            let rows = self.window.iter().flatten().map(|(_, batch)| batch.len()).take(ENOUGH).sum();
            let Some(pause) = self.gathering.pause(rows, gathered, rows > before) else { return };
            began.get_or_insert_with(Instant::now);
            before = rows;
            let _at = waits::at(Place::Gathering);
            thread::sleep(pause);
            self.drain();
        }
    }

    /// Moves the tickets without a gap from the window into the group.
    fn gather(&mut self) {
        let mut bytes = 0;
        let most = usize::try_from(self.shared.group_bytes_max.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        while let Some(Some((_, batch))) = self.window.front() {
            bytes += batch.bytes();
            if !self.group.is_empty() && (bytes > most || self.group.len() >= GROUP_BATCHES_MAX) {
                break;
            }
            let (owner, batch) = self.window.pop_front().flatten().expect("just seen");
            self.group.push(batch);
            self.owners.push(owner);
        }
    }

    /// Commits the group, however long it takes, and publishes it; returns when that was done.
    fn commit(&mut self, began: Instant) -> Result<Instant, DiskError> {
        loop {
            #[cfg(debug_assertions)]
            if crate::plant::is_disk_full() {
                self.make_room("planted")?;
                continue;
            }
            match self.engine.commit(&self.group) {
                Ok(()) => break,
                Err(DiskError::OutOfSpace(what)) => self.make_room(&what)?,
                Err(error) => return Err(error),
            }
        }
        self.rested = false;
        let batches = self.group.len() as u64;
        let rows = self.group.iter().map(|batch| batch.len() as u64).sum();
        self.next += batches;
        for (mut batch, owner) in self.group.drain(..).zip(self.owners.drain(..)) {
            let lane = &mut self.lanes[owner];
            lane.bytes += batch.bytes() as u64;
            lane.batches += 1;
            lane.out.batches.store(lane.batches, Ordering::Relaxed);
            lane.out.bytes.store(lane.bytes, Ordering::Release);
            if batch.bytes() <= SPARE_BYTES_MAX {
                batch.clear();
                // No room for spares: this batch is freed.
                let _ = lane.spare.push(batch);
            }
        }
        self.bound_queues();
        self.shared.publish(self.next - 1);
        let ended = Instant::now();
        let took = ended.duration_since(began);
        let after = self.committed.replace(ended).map_or(Duration::MAX, |before| ended.duration_since(before));
        self.gathering.committed(usize::try_from(batches).unwrap_or(usize::MAX), after, took);
        self.count(took, batches, rows);
        Ok(ended)
    }

    /// While the engine slows commits down, limits the queues to what it commits in a moment.
    /// Anything beyond waits at its sender, where it does not delay others' writes.
    fn bound_queues(&self) {
        let shards = self.lanes.len().max(1) as u64;
        let most =
            self.engine.bytes_s().map_or(u64::MAX, |bytes_s| (bytes_s / QUEUE_PARTS / shards).max(QUEUE_BYTES_MIN));
        self.shared.queue_bytes_max.store(most, Ordering::Relaxed);
    }

    /// Counts a durable group, after its waiters were woken.
    fn count(&self, took: Duration, batches: u64, rows: u64) {
        let Seen { counters, latencies } = &self.seen;
        let took_us = us(took);
        counters.commits.one();
        counters.batches.add(batches);
        counters.rows.add(rows);
        counters.commit_us.add(took_us);
        latencies.note(took_us);
    }

    /// The device is full in the middle of a commit: releases the reserve, or waits.
    fn make_room(&mut self, what: &str) -> Result<(), DiskError> {
        self.become_full(what);
        match &mut self.reserve {
            Some(reserve) if reserve.is_held() => reserve.release()?,
            _ => {
                let _at = waits::at(Place::DiskSpace);
                thread::sleep(self.interval);
            }
        }
        Ok(())
    }

    fn become_full(&mut self, what: &str) {
        if self.shared.state() == StorageState::Ok {
            let free = self.folder.as_ref().and_then(|folder| (self.free_bytes)(folder).ok()).unwrap_or(0);
            let lacking_bytes = self.note_lacking(free);
            tracing::error!(
                what,
                lacking_bytes,
                "the disk is full: new messages are refused until this many more bytes are free"
            );
            self.told = Some(Instant::now());
            self.shared.set_state(StorageState::Full);
        }
    }

    /// Free space from which on messages are accepted again, bytes. It includes a released reserve,
    /// and what the engine needs for pending work.
    fn accepting_bytes(&self) -> u64 {
        let least = self.shared.min_free_bytes.load(Ordering::Relaxed);
        let missing = self.reserve.as_ref().filter(|r| !r.is_held()).map_or(0, Reserve::bytes);
        (accepting_bytes(least) + missing).max(self.engine.wanted_free_bytes())
    }

    /// Records how much must be freed, for operators.
    fn note_lacking(&self, free: u64) -> u64 {
        let lacking = self.accepting_bytes().saturating_sub(free);
        self.shared.lacking_bytes.store(lacking, Ordering::Relaxed);
        lacking
    }

    /// Checks the free space, at most once per interval, and updates the state. The limit for
    /// accepting again is higher than that for refusing, to avoid flapping.
    fn look_at_space(&mut self, now: Instant) -> Result<(), DiskError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        if self.looked.is_some_and(|looked| now < looked + self.interval) {
            return Ok(());
        }
        self.looked = Some(now);
        let (free, starved) = ((self.free_bytes)(folder)?, self.engine.is_starved());
        let least = self.shared.min_free_bytes.load(Ordering::Relaxed);
        match self.shared.state() {
            StorageState::Ok if free < least => {
                self.become_full(&format!("{free} bytes are free, the limit is {least}"));
            }
            StorageState::Ok if starved => {
                self.become_full(&format!("{free} bytes are free, too few to write or compact tables"));
            }
            StorageState::Full => {
                let lacking_bytes = self.note_lacking(free);
                if lacking_bytes == 0 && !starved && self.refill() {
                    tracing::info!(free, "disk space is available again: new messages are accepted");
                    self.shared.set_state(StorageState::Ok);
                } else if self.told.is_none_or(|told| now >= told + TOLD_EVERY) {
                    self.told = Some(now);
                    tracing::warn!(free, lacking_bytes, "the disk is still full: this many more bytes must be freed");
                }
            }
            StorageState::Ok => {}
        }
        Ok(())
    }

    /// Recreates the reserve; `false` if that fails for now.
    fn refill(&mut self) -> bool {
        self.reserve.as_mut().is_none_or(|reserve| reserve.make().is_ok())
    }

    /// Whether every ticket ever taken has been committed.
    fn is_drained(&self) -> bool {
        self.window.is_empty() && self.tickets.taken.load(Ordering::SeqCst) == self.next - 1
    }

    /// Waits for a batch. If it is idle, with free space and a rested engine, it sleeps without a
    /// timeout and costs nothing.
    fn sleep(&mut self) {
        let Worker { tickets, shared, lanes, engine, rested, interval, give_back, .. } = self;
        let empty = || lanes.iter().all(|lane| lane.ring.is_empty()) && !tickets.stopping.load(Ordering::SeqCst);
        tickets.parking.sleep(empty, || {
            let at = waits::at(Place::Batches);
            if shared.state() == StorageState::Full {
                thread::park_timeout(*interval);
            } else if *rested {
                thread::park();
            } else {
                let since = Instant::now();
                thread::park_timeout(REST_AFTER);
                drop(at);
                if since.elapsed() >= REST_AFTER {
                    engine.rest();
                    give_back();
                    *rested = true;
                }
            }
        });
    }
}
