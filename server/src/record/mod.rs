//! The activity recorder inside the server: the server's own sources beside those of the host, on a
//! dedicated thread.
//!
//! The recorder is the crate `throng-recorder`; this module adds the sources specific to the
//! server, one per file. It reads counters, which have one writer each and no lock, and does not
//! disturb any shard. If it cannot write to disk, it continues in memory.

mod age;
pub mod memory;
pub mod owners;
mod queues;
pub mod shard;
pub mod work;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use throng_engine::counters::Counters;
use throng_recorder::clock::{self, Stop};
use throng_recorder::recorder::{Event, Handle, Recorder, Sampler};
use throng_recorder::ring::Ring;
use throng_recorder::sources::{self, Roots};

use crate::clock::Clock;
use crate::end;
use crate::waits;

/// Interval between samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Size of the last minutes in memory: at least a quarter of an hour with 64 shards
/// (tools/bench/results/recorder.json).
const WINDOW_BYTES_MAX: usize = 2 << 20;

pub use queues::Lane;

/// Why recording has stopped, once it has.
static ENDED: OnceLock<String> = OnceLock::new();

/// Why recording has stopped: the recorder failed, and the server continues without it. `None`
/// while it records, and where recording is disabled.
pub fn failure() -> Option<&'static str> {
    ENDED.get().map(String::as_str)
}

/// The server's data for the recorder.
pub struct Inside {
    /// The shards' counters, in their order.
    pub counters: Vec<Arc<Counters>>,
    /// Queues not fully described by the counters.
    pub lanes: Vec<Lane>,
    /// The work of other threads.
    pub works: Vec<work::Work>,
    /// Memory that the shards do not report.
    pub memory: memory::Parts,
}

/// A running recorder; dropping it writes the last records and ends it.
pub struct Recording {
    stop: Arc<Stop>,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Recording {
    /// Records into a folder, which never exceeds `bytes_max` bytes. If the folder is not
    /// available, records in memory only and logs that.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(folder: &Path, bytes_max: u64, inside: Inside, clock: Clock) -> io::Result<Recording> {
        let ring = match Ring::open(folder, bytes_max) {
            Ok(ring) => Some(ring),
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "recording in memory only");
                None
            }
        };
        let roots = Roots::of(std::process::id());
        let program = concat!("throng ", env!("CARGO_PKG_VERSION"));
        let mut all = sources::all(&roots);
        let marks = Arc::new(OnceLock::new());
        let Inside { counters, lanes, works, memory } = inside;
        all.push(Box::new(shard::Shards::new(counters.clone())));
        all.push(Box::new(queues::Queues::new(counters.clone(), lanes, marks.clone())));
        all.push(Box::new(memory::Memory::new(counters, memory, marks.clone())));
        for work in works {
            all.push(Box::new(work::Works::new(work)));
        }
        let sampler = Sampler::new(sources::origin(&roots, INTERVAL.as_millis() as u64, program), all);
        let mut recorder = Recorder::new(sampler, WINDOW_BYTES_MAX, ring);
        recorder.ages_by(move || clock.now().expiry_us / 1_000);
        let (handle, stop) = (recorder.handle(), Arc::new(Stop::default()));
        let _ = marks.set(handle.clone());
        let wished = stop.clone();
        let record = move || {
            // Clients do not depend on it: the server continues without it and reports that.
            let recorded = end::survive(|| {
                #[cfg(debug_assertions)]
                crate::plant::pass("recorder");
                clock::run(&mut recorder, INTERVAL, &wished, &mut said);
            });
            if let Err(said) = recorded {
                tracing::error!("recording has stopped until the server is restarted: {said}");
                let _ = ENDED.set(said);
            }
        };
        let thread = waits::spawn("recorder", record)?;
        Ok(Recording { stop, handle, thread: Some(thread) })
    }

    /// For access to the last minutes, and for marks.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A recorder that panicked has reported it; the server stops normally.
            let _ = thread.join();
        }
    }
}

fn said(event: Event) {
    match event {
        Event::GapBegan(error) => tracing::warn!(%error, "recording goes on in memory only"),
        Event::GapEnded(samples) => tracing::info!(samples, "recording is written again; these samples are missing"),
        Event::Short { hours, thins } => {
            let hours = hours.round();
            match thins {
                true => tracing::info!(
                    hours,
                    "recorder_bytes_max is enough for this many hours in full; older data, up to a \
                     day, has single shards and threads only every ten seconds"
                ),
                false => tracing::info!(hours, "recorder_bytes_max is enough for less than a day"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throng_recorder::read::{Item, items};

    #[test]
    fn the_shards_counters_are_recorded_with_the_host() {
        let folder = tempfile::tempdir().expect("a folder");
        let counters = [(); 3].map(|()| Arc::new(Counters::default()));
        counters[1].logins.add(41);
        let inside = Inside {
            counters: counters.to_vec(),
            lanes: vec![Lane {
                name: "letters",
                unit: "letters",
                backlog: 9,
                counts: Box::new(|shard| (7 + shard as u64, 3)),
            }],
            works: Vec::new(),
            memory: Arc::new(|tell: &mut dyn FnMut(&'static str, u64)| tell(memory::RESERVED, 5 << 20)),
        };
        let recording =
            Recording::start(&folder.path().join("recorder"), 8 << 20, inside, Clock::start()).expect("a thread");
        recording.handle().mark(clock::wall_ms(), "knob", "turn_length 5");
        let samples = |file: &[u8]| {
            items(file)
                .into_iter()
                .filter_map(|item| if let Item::Sample(s) = item { Some(s) } else { None })
                .collect::<Vec<_>>()
        };
        let began = std::time::Instant::now();
        while samples(&recording.handle().recent()).len() < 2 {
            assert!(began.elapsed() < Duration::from_secs(30), "no samples");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(recording);
        let part = &throng_recorder::ring::parts(&folder.path().join("recorder")).expect("a folder")[0];
        let file = std::fs::read(&part.path).expect("a file");
        let last = samples(&file).pop().expect("some");
        let schema = last.shape.schema();
        let shard = schema.module("shard").expect("the server's own");
        assert_eq!(last.shape.rows()[shard], ["0", "1", "2"]);
        let logins = schema.modules[shard].field("logins").expect("counted");
        assert_eq!(last.values[last.shape.row_at(shard, 1) + logins], 41);
        assert!(schema.module("tcp").is_some());
        let number = |module: &str, row: &str, field: &str| {
            let at = schema.module(module).expect("the server's own");
            let row = last.shape.rows()[at].iter().position(|name| name == row).expect("a row");
            last.values[last.shape.row_at(at, row) + schema.modules[at].field(field).expect("a field")]
        };
        assert_eq!((number("queue", "letters", "length"), number("queue", "letters", "longest")), (4 + 5 + 6, 6));
        assert_eq!(number("heap", "reserved", "held"), 5 << 20);
        assert!(number("heap", "recorder", "held") > 0);
        let kinds: Vec<_> = items(&file)
            .into_iter()
            .filter_map(|item| if let Item::Mark(mark) = item { Some(mark.kind) } else { None })
            .collect();
        assert!(
            kinds.iter().any(|kind| kind == "knob") && kinds.last().is_some_and(|kind| kind == "stop"),
            "{kinds:?}"
        );
    }
}
