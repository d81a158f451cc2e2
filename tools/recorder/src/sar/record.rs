//! `throng sar record`: records this host into a ring of files, without a server.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

use super::Failure;
use crate::clock::{self, Pace, Stop};
use crate::recorder::{Event, Recorder, Sampler};
use crate::ring::Ring;
use crate::sources::{self, Roots};

/// Memory for the last minutes: only used while the disk is full.
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// The default folder for recordings.
fn usual_folder() -> Result<PathBuf, Failure> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| Failure::Usage("there is no home folder: name one with --folder DIR".into()))?;
    Ok(state.join("throng/sar"))
}

pub(super) fn run(matches: &ArgMatches, stop: &Stop, err: &mut dyn Write) -> Result<(), Failure> {
    let folder = match matches.get_one::<PathBuf>("folder") {
        Some(folder) => folder.clone(),
        None => usual_folder()?,
    };
    let interval = *matches.get_one::<Duration>("interval").expect("it has a default");
    let bytes_max = *matches.get_one::<u64>("bytes-max").expect("it has a default");
    let shown = folder.display();
    let ring = Ring::open(&folder, bytes_max).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            Failure::InUse(format!("{shown}: another recorder writes there; take another --folder"))
        }
        _ => Failure::Failed(format!("{shown}: {error}")),
    })?;
    if let Some(mode) = ring.tightened() {
        let _ = writeln!(err, "{shown} was accessible to other users (mode {mode:04o}); it is now 0700.");
    }
    let roots = Roots::of(matches.get_one::<u32>("pid").copied().unwrap_or_else(std::process::id));
    if !roots.proc.join(roots.pid.to_string()).exists() {
        return Err(Failure::Usage(format!("there is no process {}", roots.pid)));
    }
    let program = concat!("throng sar record ", env!("CARGO_PKG_VERSION"));
    let sampler = Sampler::new(sources::origin(&roots, interval.as_millis() as u64, program), sources::all(&roots));
    let mut recorder = Recorder::new(sampler, WINDOW_BYTES_MAX, Some(ring));
    // A failed report is not a reason to stop recording.
    let _ = writeln!(
        err,
        "Recording every {} s into {shown}, at most {} MiB.\n  Read it: throng sar --from {shown}\n  Stop it: Ctrl-C",
        interval.as_secs_f64(),
        bytes_max >> 20
    );
    let ends_us = matches.get_one::<Duration>("duration").map(|time| clock::monotonic_us() + time.as_micros() as u64);
    let mut pace = Pace::new(interval);
    while pace.wait(stop) {
        let now_us = clock::monotonic_us();
        let event = recorder.tick(clock::wall_ms(), now_us);
        if let Some(event) = event {
            let _ = writeln!(err, "{}", said(&event));
        }
        if ends_us.is_some_and(|end| now_us >= end) {
            break;
        }
    }
    recorder.stop(clock::wall_ms());
    Ok(())
}

/// An event as a sentence.
fn said(event: &Event) -> String {
    match event {
        Event::GapBegan(error) => {
            format!("Cannot write: {error}. Recording continues in memory; writing is retried every ten samples.")
        }
        Event::GapEnded(samples) => format!("Writing again; {samples} samples are missing, and the gap is marked."),
        Event::Short { hours, thins: false } => {
            format!("At the present rate, --bytes-max holds {hours:.0} hours; raise it to keep a day.")
        }
        Event::Short { hours, thins: true } => {
            format!(
                "At what is recorded here, --bytes-max holds {hours:.0} hours in full; of what is older, up to a day, single \
                 threads, cores and disks stay every ten samples only."
            )
        }
    }
}
