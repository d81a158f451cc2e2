//! The thread of a backup: it claims the place, finds out where the backup continues, and writes
//! the journal and the full pieces.
//!
//! Several times a second it notes which groups are durable ([`Mark`](super::pieces::Mark)); these notes are the times
//! to which a store can be restored. Whatever fails is tried again for ever. Groups that cannot be
//! written stay on disk up to [`Plan::journal_bytes_max`]; beyond that they are given up, and a new
//! generation begins with a full piece.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::full::Job;
use super::owner::{BEAT, Owner, Refused};
use super::pieces::{Full, Group, Journal, Piece, before_group, fulls, journal};
use super::shared::{Plan, Shared};
use super::standing::Standing;
use super::state::State;
use super::{PART_BYTES, files, now_ms, random};
use crate::disk::Engine;
use crate::disk::format::FORMAT_VERSION;
use crate::disk::shipping::{Shipping, Tail};
use crate::runtime::{Aside, Blocking};
use crate::waits;

/// How often durable groups are noted: the accuracy of a point in time.
const MARK_EVERY: Duration = Duration::from_millis(100);

/// How often noted groups are written.
const SHIP_EVERY: Duration = Duration::from_millis(400);

/// How often the disk is looked at: once in so many marks.
const LOOK_EVERY: u32 = 10;

/// Pauses after a failure: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// Time after which a full piece that has failed is tried again, milliseconds.
const FULL_AGAIN_MS: u64 = 60_000;

/// How often the data folder records how far the backup is.
const STATE_EVERY: Duration = Duration::from_secs(30);

/// Time that a stop of the server waits for the last groups.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A running backup. Dropping it writes the last groups, if that is possible within five seconds.
#[derive(Debug)]
pub struct Backup {
    shared: Arc<Shared>,
    ended: Arc<AtomicBool>,
    _notes: waits::Repeated,
    aside: Option<Aside>,
}

impl Backup {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        plan: Plan,
        engine: Arc<dyn Engine>,
        shipping: Arc<Shipping>,
        standing: Arc<Standing>,
    ) -> io::Result<Backup> {
        let shared = Arc::new(Shared::new(plan, shipping, standing));
        let (own, over) = (shared.clone(), Arc::new(AtomicBool::new(false)));
        let ended = over.clone();
        let work = move || async move {
            run(&own, engine).await;
            ended.store(true, Ordering::Release);
        };
        let notes = note(shared.clone())?;
        let aside = Aside::start("backup", Blocking { most: 4, whole: false }, work)?;
        Ok(Backup { shared, ended: over, _notes: notes, aside: Some(aside) })
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.shared.stop();
        let end = Instant::now() + LAST_WORDS;
        while !self.ended.load(Ordering::Acquire) {
            if Instant::now() > end {
                tracing::warn!("the last commits are not in the backup yet: the next start goes on");
                break;
            }
            std::thread::sleep(MARK_EVERY / 10);
        }
        drop(self.aside.take());
    }
}

/// Notes durable groups and looks at the disk. On a thread of its own: helpers that hang in a dead
/// place must not keep it from this.
fn note(shared: Arc<Shared>) -> io::Result<waits::Repeated> {
    let mut marks = 0_u32;
    waits::repeat("backup-notes", MARK_EVERY, move || {
        shared.mark(now_ms());
        if marks.is_multiple_of(LOOK_EVERY)
            && let Err(error) = shared.look_at_disk()
        {
            shared.standing.fail(&format!("the journal: {error}"));
        }
        marks = marks.wrapping_add(1);
    })
}

/// Longer after each failure.
struct Patience(Duration);

impl Patience {
    fn new() -> Patience {
        Patience(PAUSES[0])
    }

    async fn wait(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSES[1]);
    }
}

/// Why [`follow`] has returned.
enum Ended {
    Stopping,
    /// The claim, or the history, has to be looked at again; in words, if something is wrong.
    Again(Option<String>),
}

async fn run(shared: &Arc<Shared>, engine: Arc<dyn Engine>) {
    let (mut owner, mut patience) = (None, Patience::new());
    loop {
        let begun = begin(shared, &mut owner).await;
        let again = match begun {
            Ok(position) => {
                patience = Patience::new();
                let owner = owner.as_mut().expect("it has claimed the place");
                // It ends with the claim.
                let mut files = JoinSet::new();
                files.spawn(files::follow(shared.clone()));
                match follow(shared, &engine, owner, position).await {
                    Ended::Stopping => {
                        owner.leave(&shared.plan.bucket).await;
                        return;
                    }
                    Ended::Again(what) => what,
                }
            }
            Err(what) => Some(what),
        };
        if let Some(what) = again {
            shared.standing.fail(&what);
            patience.wait().await;
        }
        if shared.is_stopping() {
            return;
        }
    }
}

/// Where the backup continues.
struct Position {
    generation: String,
    tail: Tail,
    /// When its newest full piece was completed.
    full_ms: Option<u64>,
    state: State,
}

async fn begin(shared: &Arc<Shared>, owner: &mut Option<Owner>) -> Result<Position, String> {
    let Plan { bucket, folder, .. } = &shared.plan;
    let mut state = State::read(folder)?;
    if owner.is_none() {
        *owner = Some(Owner::new(&state.store, folder)?);
    }
    match owner.as_mut().expect("just set").claim(bucket).await {
        Ok(()) => {}
        Err(Refused::Other(what) | Refused::Trouble(what)) => return Err(what),
    }
    let known = match &state.generation {
        Some(generation) if state.url == bucket.url() && state.format == FORMAT_VERSION => {
            continued(shared, &state, generation).await?.map(|tail| (generation.clone(), tail))
        }
        _ => None,
    };
    let (generation, tail) = match known {
        Some(known) => known,
        None => {
            let next = shared.shipping.synced();
            let tail = open_tail(shared, next).await?.ok_or("the newest segment of the journal is missing")?;
            let generation = format!("{:013}-{}", now_ms(), &random()?[8..]);
            tracing::info!(to = bucket.url(), generation, "the backup begins with a full piece");
            state = State {
                generation: Some(generation.clone()),
                url: bucket.url().to_owned(),
                format: FORMAT_VERSION,
                first: next,
                end: next,
                ..state
            };
            (generation, tail)
        }
    };
    let complete = bucket.list(&fulls(&generation), None).await?;
    let full_ms = complete.last().and_then(|name| Full::of_name(name)).map(|(time_ms, _)| time_ms);
    shared.standing.set_full(full_ms.unwrap_or(0));
    write_state(shared, &state).await?;
    shared.set_shipped(tail.next());
    Ok(Position { generation, tail, full_ms, state })
}

/// The place in the journal after the last group that the generation has; `None` if the journal
/// does not continue it.
async fn continued(shared: &Arc<Shared>, state: &State, generation: &str) -> Result<Option<Tail>, String> {
    let bucket = &shared.plan.bucket;
    let listed = bucket.list(&journal(generation), Some(&before_group(generation, state.first))).await?;
    let pieces = listed.iter().filter_map(|name| Some((name, Piece::of_name(name)?)));
    let last = pieces.max_by_key(|(_, piece)| piece.end);
    let end = last.map_or(state.first, |(_, piece)| piece.end);
    if end < state.end || end > shared.shipping.synced() {
        tracing::warn!("the data folder does not continue its backup: it, or the backup, is an older copy");
        return Ok(None);
    }
    let Some(tail) = open_tail(shared, end).await? else {
        tracing::warn!("the journal does not reach back to the end of the backup");
        return Ok(None);
    };
    if let Some((name, _)) = last {
        let piece = bucket.get(name).await?.and_then(|piece| Journal::decode(&piece));
        let last = piece.ok_or_else(|| format!("{name} cannot be read"))?.last;
        if tail.last().is_some_and(|own| own != last) {
            tracing::warn!("the data folder has another history than its backup");
            return Ok(None);
        }
    }
    Ok(Some(tail))
}

async fn open_tail(shared: &Shared, next: Group) -> Result<Option<Tail>, String> {
    let dir = shared.journal();
    let opened = spawn_blocking(move || Tail::open(&dir, next)).await;
    opened.map_err(|error| error.to_string())?.map_err(|error| format!("the journal: {error}"))
}

async fn write_state(shared: &Shared, state: &State) -> Result<(), String> {
    let (folder, state) = (shared.plan.folder.clone(), state.clone());
    let written = spawn_blocking(move || state.write(&folder)).await;
    written.map_err(|error| error.to_string())?.map_err(|error| format!("backup.json: {error}"))
}

/// A piece that is written until it is there.
struct Written {
    piece: Piece,
    content: Vec<u8>,
}

/// Writes the journal and full pieces of one generation.
async fn follow(shared: &Arc<Shared>, engine: &Arc<dyn Engine>, owner: &mut Owner, position: Position) -> Ended {
    let Position { generation, tail, full_ms, mut state } = position;
    let bucket = &shared.plan.bucket;
    let given_up = shared.given_up();
    let (mut tail, mut unwritten) = (Some(tail), None::<Written>);
    let mut full: Option<JoinHandle<Result<Full, String>>> = None;
    let every_ms = u64::try_from(shared.plan.full_every.as_millis()).unwrap_or(u64::MAX);
    let mut full_due_ms = full_ms.map_or(0, |full_ms| full_ms.saturating_add(every_ms));
    let (mut patience, mut beaten, mut noted) = (Patience::new(), Instant::now(), Instant::now());
    let job = || Job { shared: shared.clone(), engine: engine.clone(), generation: generation.clone(), given_up };
    loop {
        if shared.given_up() != given_up {
            return Ended::Again(None);
        }
        if full.as_ref().is_some_and(JoinHandle::is_finished) {
            match full.take().expect("just seen").await {
                Ok(Ok(done)) => {
                    full_due_ms = done.time_ms.saturating_add(every_ms);
                    shared.standing.set_full(done.time_ms);
                    shared.standing.fail_full(None);
                }
                Ok(Err(what)) => {
                    shared.standing.fail_full(Some(what));
                    full_due_ms = now_ms().saturating_add(FULL_AGAIN_MS);
                }
                Err(error) => return Ended::Again(Some(error.to_string())),
            }
        }
        if full.is_none() && now_ms() >= full_due_ms && !shared.is_stopping() {
            full = Some(tokio::spawn(job().run()));
        }
        // Before the last look at the journal.
        let stopping = shared.is_stopping();
        if stopping {
            shared.mark(now_ms());
        }
        if beaten.elapsed() >= BEAT {
            match owner.beat(bucket).await {
                Ok(()) => {
                    beaten = Instant::now();
                    // If a piece cannot be written, that is still wrong.
                    if unwritten.is_none() {
                        shared.standing.recover();
                    }
                }
                Err(Refused::Other(what)) => return Ended::Again(Some(what)),
                Err(Refused::Trouble(what)) => {
                    shared.standing.fail(&what);
                    patience.wait().await;
                    continue;
                }
            }
        }
        let step = match unwritten.take() {
            Some(again) => Ok(Some(again)),
            None => next_piece(shared, &mut tail).await,
        };
        match step {
            Ok(None) if stopping => {
                let _ = write_state(shared, &state).await;
                return Ended::Stopping;
            }
            Ok(None) => sleep(SHIP_EVERY).await,
            Ok(Some(written)) => match bucket.put(&written.piece.name(&generation), written.content.clone()).await {
                Ok(bytes) => {
                    patience = Patience::new();
                    shared.standing.recover();
                    shared.standing.counters.journal_pieces.one();
                    shared.standing.counters.journal_bytes.add(bytes);
                    shared.set_shipped(written.piece.end);
                    (state.first, state.end) = (written.piece.first, written.piece.end);
                    // A piece that is full is followed by the next at once.
                    if written.content.len() < PART_BYTES / 2 && !stopping {
                        sleep(SHIP_EVERY).await;
                    }
                }
                Err(what) => {
                    shared.standing.fail(&what);
                    unwritten = Some(written);
                    patience.wait().await;
                }
            },
            Err(what) => return Ended::Again(Some(what)),
        }
        if noted.elapsed() >= STATE_EVERY {
            noted = Instant::now();
            if let Err(what) = write_state(shared, &state).await {
                shared.standing.fail(&what);
            }
        }
    }
}

/// The next piece of the journal; `None` if all noted groups are in the backup.
async fn next_piece(shared: &Arc<Shared>, tail: &mut Option<Tail>) -> Result<Option<Written>, String> {
    let last = shared.last_mark();
    let mut own = tail.take().ok_or("the journal was not read to its end")?;
    let first = own.next();
    let Some(last) = last.filter(|last| last.next > first) else {
        *tail = Some(own);
        return Ok(None);
    };
    let read = spawn_blocking(move || {
        let groups = own.read(last.next, PART_BYTES);
        (own, groups)
    });
    let (own, groups) = read.await.map_err(|error| error.to_string())?;
    let groups = groups.map_err(|error| format!("the journal: {error}"))?;
    let groups = groups.ok_or("a segment of the journal is missing")?;
    let (end, checksum) = (groups.end, own.last().unwrap_or_default());
    *tail = Some(own);
    let marks = shared.marks_before(end);
    let time_ms = marks.last().map_or_else(now_ms, |mark| mark.time_ms);
    let content = Journal { last: checksum, marks, groups: groups.bytes }.encode();
    Ok(Some(Written { piece: Piece { first, end, time_ms }, content }))
}
