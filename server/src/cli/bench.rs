//! `throng bench`: how far the shards scale.

use clap::{ArgMatches, Args, FromArgMatches};

use super::{Failure, Io, Program};
use crate::bench::{Plan, table};

/// The command.
pub fn command() -> clap::Command {
    Plan::augment_args(clap::Command::new("bench"))
        .about("Measure how the shards scale on this machine, without a network")
        .after_help(AFTER)
}

const AFTER: &str = "\
Each user sends a message to every other user, who acknowledges it with a message. The server \
runs within this process with
all its threads, and its users are in memory. It measures the shards, the letters between them, \
and the store
with --archive. More shards than cores show the cost of sharing a core.

  throng bench chatty                       1,000 users, each waits for an acknowledgement before \
the next message
  throng bench bigbang --shards 1,2         all at once
  throng bench bigbang --archive --json     as data; archived and durable on both sides";

/// Runs the benchmark.
///
/// # Errors
/// Why a server did not run to the end.
pub fn execute(matches: &ArgMatches, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let plan = Plan::from_arg_matches(matches).map_err(Failure::failed)?;
    let result = program.bench(&plan, &mut |line| io.tell(line))?;
    match io.json {
        true => io.say_json(&result),
        false => io.say(table(&result)),
    }
    Ok(())
}
