//! `throng user import`: reads CSV, hashes passwords on all cores, writes accounts.
//!
//! ```text
//! reader thread --chunks--> hashing threads --chunks--> this thread: back in order, put, count
//!       ^------------------------- permits ------------------|
//! ```
//!
//! Each chunk holds a permit, so that at most `CHUNKS_PER_THREAD` chunks per thread exist at once,
//! however large the file. Chunks are written in the order of the file, so that the last of several
//! lines for one user wins.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::ArgMatches;
use serde_json::json;
use throng_engine::limits::SCRAM_ITERATIONS_MIN;

use super::accounts::{Opened, bare, open};
use super::{Exit, Failure, Io, Program};
use crate::admin::{Existing, NewAccount, Put, ScramKeys};
use crate::config::{Loaded, Source};
use crate::entropy::Entropy;
use crate::log::Secret;

mod lines;
mod progress;

use lines::{Header, Line, Lines};
use progress::Progress;

/// Lines that are hashed and written together.
const CHUNK_LINES: usize = 250;

/// Most chunks in progress per hashing thread.
const CHUNKS_PER_THREAD: usize = 4;

/// Default number of PBKDF2 iterations: the minimum of RFC 7677 4. With it, a million users take 11
/// minutes on two cores (1.35 ms per password and core); with the 10,000 iterations of single
/// passwords, half an hour.
const IMPORT_ITERATIONS: u32 = SCRAM_ITERATIONS_MIN;

/// Most lines with errors that are reported individually; further ones are only counted.
const ERRORS_TOLD_MAX: usize = 1_000;

/// A line that was not imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineError {
    /// Line of the file, from 1.
    pub line: u64,
    /// The reason.
    pub reason: String,
}

/// The result of an import.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// New accounts.
    pub added: u64,
    /// Existing accounts with new keys.
    pub updated: u64,
    /// Existing accounts left unchanged.
    pub skipped: u64,
    /// Lines that were not imported.
    pub failed: u64,
    /// The first of the failed lines.
    pub errors: Vec<LineError>,
}

/// Lines with the number of their chunk.
struct Chunk {
    number: u64,
    lines: Vec<Line>,
    /// Position in the file, in bytes, after this chunk.
    bytes_read: u64,
}

/// Accounts ready to be written, and lines with errors.
struct Hashed {
    number: u64,
    accounts: Vec<(u64, NewAccount)>,
    errors: Vec<LineError>,
    bytes_read: u64,
}

/// The settings of an import.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What to do with existing accounts.
    pub existing: Existing,
    /// Whether to continue after a line with an error.
    pub keep_going: bool,
    /// PBKDF2 iterations.
    pub iterations: u32,
    /// Number of hashing threads.
    pub threads: usize,
}

/// Runs `throng user import`.
///
/// # Errors
/// Errors of the file and of the accounts; `Failed` at the first line that cannot be imported,
/// `Partly` with `--keep-going`.
pub fn run(matches: &ArgMatches, loaded: &Loaded, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        existing: match matches.get_one::<String>("existing").map(String::as_str) {
            Some("error") => Existing::Refuse,
            Some("update") => Existing::Update,
            _ => Existing::Skip,
        },
        keep_going: matches.get_flag("keep-going"),
        iterations: match loaded.source("scram_iterations") {
            Source::Default => IMPORT_ITERATIONS,
            _ => u32::try_from(loaded.config.scram_iterations).expect("within its range"),
        },
        threads: matches.get_one::<u16>("threads").map_or(cores, |threads| usize::from(*threads)),
    };
    let file = matches.get_one::<String>("file").expect("clap requires it");
    let mut lines = match file.as_str() {
        "-" => Lines::new(io.input.take().ok_or_else(|| Failure::failed("standard input is taken"))?, None),
        path => {
            let opened = std::fs::File::open(path).map_err(|error| Failure::failed(format!("{path}: {error}")))?;
            let length = opened.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
            Lines::new(Box::new(opened), length)
        }
    };
    let header = match (matches.get_flag("header"), matches.get_flag("no-header")) {
        (true, _) => Header::Yes,
        (_, true) => Header::No,
        _ => Header::Guess,
    };
    let header = lines.pass_header(header);
    if let Some(header) = &header {
        io.tell(format!("treating the first line as a header: {header}; pass --no-header to import it"));
    }
    let opened = open(loaded, "import", None, program, io)?;
    let started = Instant::now();
    let mut progress = Progress::start(io.terminal && !io.json, lines.length());
    let (summary, end) = import(lines, &opened, plan, &mut |summary, bytes| {
        progress.step(summary.added + summary.updated + summary.skipped, bytes, &mut *io.err);
    });
    progress.end();
    tell(&summary, header.is_some(), plan.iterations, started.elapsed().as_secs_f64(), io);
    end?;
    match summary.failed {
        0 => Ok(()),
        _ if plan.keep_going => Err(Failure::new(Exit::Partly, String::new())),
        _ => Err(Failure::failed(
            "stopped at a line that cannot be imported; pass --keep-going to continue after such \
             lines",
        )),
    }
}

/// Imports `lines`; `step` receives the summary so far and the bytes read. A failure of the
/// accounts as a whole ends the import; the summary holds what was done until then.
fn import(
    lines: Lines,
    opened: &Opened,
    plan: Plan,
    step: &mut dyn FnMut(&Summary, u64),
) -> (Summary, Result<(), Failure>) {
    let (chunk_send, chunks) = sync_channel(plan.threads);
    let (hashed_send, hashed) = sync_channel(plan.threads);
    let (permit_send, permits) = sync_channel(plan.threads * CHUNKS_PER_THREAD);
    for _ in 0..plan.threads * CHUNKS_PER_THREAD {
        permit_send.send(()).expect("as many as there is room for");
    }
    let mut summary = Summary::default();
    // Owned by the hashing threads only: once these have ended, the reader does not block on them.
    let chunks = Arc::new(Mutex::new(chunks));
    let end = std::thread::scope(|scope| {
        let domain = opened.domain.as_str();
        scope.spawn(move || read(lines, &chunk_send, &permits));
        for _ in 0..plan.threads {
            let (chunks, hashed_send) = (Arc::clone(&chunks), hashed_send.clone());
            scope.spawn(move || hash(&chunks, &hashed_send, domain, plan.iterations));
        }
        drop((chunks, hashed_send));
        // Returning drops this side of the channels, which ends the threads.
        write(hashed, permit_send, opened, plan, &mut summary, step)
    });
    (summary, end)
}

/// Reads until the end of the file, or until the receivers have gone.
fn read(mut lines: Lines, send: &SyncSender<Chunk>, permits: &Receiver<()>) {
    for number in 0.. {
        let chunk: Vec<Line> = lines.by_ref().take(CHUNK_LINES).collect();
        let last = chunk.len() < CHUNK_LINES;
        let chunk = Chunk { number, lines: chunk, bytes_read: lines.bytes_read() };
        if permits.recv().is_err() || send.send(chunk).is_err() || last {
            return;
        }
    }
}

fn hash(chunks: &Mutex<Receiver<Chunk>>, send: &SyncSender<Hashed>, domain: &str, iterations: u32) {
    let mut entropy = Entropy::open();
    loop {
        let Ok(chunk) = chunks.lock().expect("no thread fails while it holds it").recv() else { return };
        let mut hashed =
            Hashed { number: chunk.number, accounts: vec![], errors: vec![], bytes_read: chunk.bytes_read };
        for Line { line, fields } in chunk.lines {
            match fields.and_then(|fields| account(fields, domain, iterations, &mut entropy)) {
                Ok(account) => hashed.accounts.push((line, account)),
                Err(reason) => hashed.errors.push(LineError { line, reason }),
            }
        }
        if send.send(hashed).is_err() {
            return;
        }
    }
}

fn account(
    (user, secret): (String, Secret),
    domain: &str,
    iterations: u32,
    entropy: &mut std::io::Result<Entropy>,
) -> Result<NewAccount, String> {
    let user = bare(&user, domain)?;
    let keys = if ScramKeys::looks_like(secret.reveal()) {
        ScramKeys::parse(secret.reveal())?
    } else {
        let entropy = entropy.as_mut().map_err(|error| error.to_string())?;
        let salt: [u8; 16] = entropy.fresh().map_err(|error| error.to_string())?;
        ScramKeys::derive(&secret, iterations, &salt)?
    };
    Ok(NewAccount { user, keys })
}

/// Restores the order of chunks and writes them.
fn write(
    hashed: Receiver<Hashed>,
    permits: SyncSender<()>,
    opened: &Opened,
    plan: Plan,
    summary: &mut Summary,
    step: &mut dyn FnMut(&Summary, u64),
) -> Result<(), Failure> {
    let mut early: BTreeMap<u64, Hashed> = BTreeMap::new();
    let mut next = 0;
    for chunk in hashed {
        early.insert(chunk.number, chunk);
        while let Some(chunk) = early.remove(&next) {
            next += 1;
            let bytes = chunk.bytes_read;
            put(chunk, opened, plan, summary)?;
            step(summary, bytes);
            if summary.failed > 0 && !plan.keep_going {
                return Ok(());
            }
            // The reader may have ended.
            let _ = permits.try_send(());
        }
    }
    Ok(())
}

/// Writes one chunk. Without `keep_going`, only the lines before the first bad line are written.
fn put(mut chunk: Hashed, opened: &Opened, plan: Plan, summary: &mut Summary) -> Result<(), Failure> {
    if !plan.keep_going
        && let Some(first) = chunk.errors.first().map(|error| error.line)
    {
        chunk.errors.truncate(1);
        chunk.accounts.retain(|(line, _)| *line < first);
    }
    let (lines, accounts): (Vec<u64>, Vec<NewAccount>) = chunk.accounts.into_iter().unzip();
    let outcomes = match accounts.is_empty() {
        true => vec![],
        false => opened.accounts.put(accounts, plan.existing)?,
    };
    for (line, outcome) in lines.into_iter().zip(outcomes) {
        let reason = match outcome {
            Put::Added => {
                summary.added += 1;
                continue;
            }
            Put::Updated => {
                summary.updated += 1;
                continue;
            }
            Put::Skipped => {
                summary.skipped += 1;
                continue;
            }
            Put::Exists => "the account already exists".to_owned(),
            Put::Missing => "no such account".to_owned(),
            Put::Invalid(reason) => reason,
        };
        chunk.errors.push(LineError { line, reason });
    }
    chunk.errors.sort_by_key(|error| error.line);
    summary.failed += chunk.errors.len() as u64;
    let room = ERRORS_TOLD_MAX.saturating_sub(summary.errors.len());
    summary.errors.extend(chunk.errors.into_iter().take(room));
    Ok(())
}

fn tell(summary: &Summary, header: bool, iterations: u32, seconds: f64, io: &mut Io) {
    let Summary { added, updated, skipped, failed, errors } = summary;
    let rate = ((added + updated + skipped) as f64 / seconds.max(0.001)).round();
    if io.json {
        let errors: Vec<_> = errors.iter().map(|error| json!({ "line": error.line, "reason": error.reason })).collect();
        io.say_json(&json!({
            "done": "imported", "header": header, "added": added, "updated": updated, "skipped": skipped, "failed": failed, "errors": errors,
            "iterations": iterations, "seconds": (seconds * 1_000.0).round() / 1_000.0, "users_per_second": rate,
        }));
        return;
    }
    for error in errors {
        io.tell(format!("line {}: {}", error.line, error.reason));
    }
    if *failed > errors.len() as u64 {
        io.tell(format!("and {} more lines", failed - errors.len() as u64));
    }
    io.say(format!(
        "{added} added, {updated} updated, {skipped} skipped, {failed} failed in {seconds:.1} s ({rate} users/s, {iterations} iterations)"
    ));
}

#[cfg(test)]
mod tests;
