//! `throng ctl profile wait`: the table of waits.

use clap::{Arg, ArgMatches, Command};

use super::{ask, seconds, wait};
use crate::admin::client::Client;
use crate::cli::{Failure, Io, to_json};
use crate::profile::wait::{Row, WaitPage};
use crate::profile::{self, PATTERN_BYTES_MAX, Plan, Told};

const HELP: &str = "\
Stalls come first, in sentences: a shard that makes no progress and where it is, a lock with its \
holder and waiters. Then one row per thread and place:

  THREAD  shard-0, throng-commit, throng-read-0, ...; x2 where several have one name
  SORT    rest: idle; lock, channel, sleep, sync, write, read: waiting; core: running, or waiting \
for a core; kernel: state in the kernel of threads without own counts, sampled ten times per second
  COUNT   waits that ended, slices on a core, or samples
  SHARE   of the thread's time
  P99     99th percentile, to a factor of four
  NOW     duration of a wait still in progress at the end

Counting is on while the command runs, and costs 0.06 us per wait; otherwise a wait costs 2 ns.

Examples:
  throng ctl profile wait --seconds 10
  throng ctl profile wait --only 'shard-*'
  throng ctl profile wait --only lock --seconds 60
  throng ctl profile wait --json";

/// The command without the flags that locate the server.
pub(super) fn command(command: Command, seconds: Arg) -> Command {
    command.about("Where its threads wait: locks, channels, syncs, sleeps").after_help(HELP).arg(seconds).arg(
        Arg::new("only")
            .long("only")
            .value_name("PATTERN")
            .default_value("")
            .hide_default_value(true)
            .help("Threads and places whose names contain this text, or match this pattern (* and ?)"),
    )
}

/// Runs it.
pub(super) fn run(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let seconds = seconds(matches);
    let only = matches.get_one::<String>("only").cloned().unwrap_or_default();
    if only.len() > PATTERN_BYTES_MAX {
        let text = format!("--only accepts at most {PATTERN_BYTES_MAX} bytes");
        return Err(Failure::new(crate::cli::Exit::Usage, text));
    }
    wait(client, Plan::Wait { seconds, only }, seconds, io)?;
    let Told::Waits(page) = ask(client, profile::Ask::Found { from: 0 })? else {
        return Err(Failure::failed("unexpected answer"));
    };
    match io.json {
        true => io.say_json(&to_json(&page)),
        false => table(&page, io),
    }
    Ok(())
}

fn table(page: &WaitPage, io: &mut Io) {
    for stuck in &page.stuck {
        let what = io.paint("31", &stuck.what);
        io.say(format!("{what} {}", stuck.text));
    }
    if !page.stuck.is_empty() {
        io.say("");
    }
    io.say(format!(
        "{:<20} {:<26} {:<8} {:>9} {:>9} {:>7} {:>8} {:>8} {:>8} {:>8}",
        "THREAD", "PLACE", "SORT", "COUNT", "TOTAL", "SHARE", "MEAN", "P99", "WORST", "NOW"
    ));
    page.rows.iter().for_each(|row| io.say(line(row)));
    if page.left_out > 0 {
        io.tell(format!("{} further rows did not fit; narrow the selection with --only", page.left_out));
    }
}

fn line(row: &Row) -> String {
    let thread = if row.threads > 1 { format!("{} x{}", row.thread, row.threads) } else { row.thread.clone() };
    let micros = |micros: Option<f64>| micros.map_or_else(|| "-".to_owned(), time);
    format!(
        "{thread:<20} {:<26} {:<8} {:>9} {:>9} {:>6.1}% {:>8} {:>8} {:>8} {:>8}",
        row.place,
        row.sort,
        row.count,
        time(row.total_ms * 1e3),
        row.share * 100.0,
        micros((row.count > 0).then_some(row.mean_us)),
        micros(row.p99_us),
        micros(row.worst_us),
        micros(row.now_s.map(|seconds| seconds * 1e6)),
    )
}

/// Microseconds in a suitable unit.
fn time(micros: f64) -> String {
    match micros {
        ..1e3 => format!("{micros:.0}us"),
        ..1e6 => format!("{:.1}ms", micros / 1e3),
        _ => format!("{:.1}s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_is_known_and_a_dash_for_what_is_not() {
        let row = Row {
            thread: "shard-0".into(),
            threads: 1,
            place: "network".into(),
            sort: "rest".into(),
            count: 4,
            total_ms: 1_500.0,
            share: 0.75,
            mean_us: 375_000.0,
            worst_us: Some(812.4),
            now_s: Some(2.0),
            ..Row::default()
        };
        let words: Vec<String> = line(&row).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["shard-0", "network", "rest", "4", "1.5s", "75.0%", "375.0ms", "-", "812us", "2.0s"]);
        assert!(line(&Row { threads: 2, ..row }).starts_with("shard-0 x2 "));
    }
}
