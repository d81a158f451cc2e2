//! `throng sar`, a crate that does not depend on this server.

use std::sync::Arc;

use clap::ArgMatches;
use signal_hook::consts::{SIGINT, SIGTERM};
use throng_recorder::clock::Stop;
use throng_recorder::sar::{self, Outcome, Setting};

use super::{Exit, Failure, Io};

/// Reads or records until the end, or until SIGINT or SIGTERM.
///
/// # Errors
/// The crate's failure, as an exit code.
pub fn run(matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let stop = Arc::new(Stop::default());
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(Failure::failed)?;
    let wished = stop.clone();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if signals.forever().next().is_some() {
                wished.set();
            }
        })
        .map_err(Failure::failed)?;
    let setting = Setting { json: io.json, columns: None, stop };
    match sar::run(matches, &setting, &mut *io.out, &mut *io.err) {
        Ok(Outcome::Done) => Ok(()),
        Ok(Outcome::Partly) => Err(Failure::new(Exit::Partly, "part of the recording could not be read")),
        Err(sar::Failure::Usage(text)) => Err(Failure::new(Exit::Usage, text)),
        Err(sar::Failure::Failed(text)) => Err(Failure::new(Exit::Failed, text)),
        Err(sar::Failure::InUse(text)) => Err(Failure::new(Exit::InUse, text)),
        Err(sar::Failure::Closed) => Ok(()),
    }
}
