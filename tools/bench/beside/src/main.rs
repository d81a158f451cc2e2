//! `beside`: Throng beside the raw floors and its installed peers, one load for all, in turn in one run.
//!
//! There are two sides: chat, beside ejabberd and Prosody, and the web, beside servers that tell many subscribers of items
//! ([`web`]). A table of set-ups ([`setup`]: who is measured), a table of scenarios ([`scenario`]: what is measured), one runner, and a
//! report of ratios. Servers are child processes on free loopback ports, their data in a temporary folder; the load is
//! `throng load` for chat and [`web::client`] for the web, the same for each. [`compare`] reads two results and names what got worse.
#![forbid(unsafe_code)]

mod chart;
mod children;
mod compare;
mod figures;
mod peers;
mod place;
mod report;
mod result;
mod runner;
mod scenario;
mod setup;
mod target;
mod web;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

const AFTER: &str = "\
Build the programs that it runs first:
  cargo build --profile dist -p throng -p throng-raw -p throng-beside

Examples:
  beside run --install
      everything, three times in turn, under 91 minutes, each step with the time left; installs the peers that are missing
  beside run --only web --install --out tools/bench/results/side-by-side-web.json --chart docs/side-by-side-web.svg
      notifications alone, under 35 minutes; `--only xmpp` is the rest, under 58 minutes
  beside run --brief
      once, shortly, under 31 minutes
  beside run --only messages-1,fan-out --out tools/bench/results/side-by-side.json
      these two; what else the file has stays
  beside table tools/bench/results/side-by-side.json --chart docs/side-by-side.svg
      table and chart of what has been measured
  beside compare old.json new.json
      what got worse; exit code 1 if something did

The table of ratios goes to standard output, a line for each measurement to standard error. Each scenario runs its set-ups
one after the other, as often as --runs says, so that what else the host does falls on all alike; figures are medians.";

#[derive(Parser)]
#[command(name = "beside", about = "Measure Throng beside the raw floors and its peers", after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure, and write the result, the table and the chart.
    Run(Run),
    /// Print the table of a result, and draw its chart.
    Table {
        /// The result.
        result: PathBuf,
        /// Where to draw.
        #[arg(long)]
        chart: Option<PathBuf>,
    },
    /// Name what got worse from one result to another; exit code 1 if something did.
    Compare {
        /// What was.
        old: PathBuf,
        /// What is.
        new: PathBuf,
        /// How much worse a median has to be, in per cent.
        #[arg(long, default_value_t = 15.0)]
        threshold: f64,
        /// Compare the peers as well.
        #[arg(long)]
        peers: bool,
    },
    /// List scenarios and set-ups.
    List,
}

#[derive(Args)]
struct Run {
    /// Only these scenarios or set-ups, or one side (xmpp, web), by name, separated by commas; `beside list` names them.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How often each is measured: 3 times if it is not said, once with --brief.
    #[arg(long)]
    runs: Option<usize>,
    /// Fewer sessions and less time for each.
    #[arg(long)]
    brief: bool,
    /// Install the peers that are missing: Debian's as root or by sudo, the others by `go install`.
    #[arg(long)]
    install: bool,
    /// The server, which has the load in it.
    #[arg(long, default_value = "target/dist/throng")]
    throng: PathBuf,
    /// The floors.
    #[arg(long, default_value = "target/dist/raw")]
    raw: PathBuf,
    /// Result as JSON; scenarios that it has and that are not measured now stay.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Chart as SVG.
    #[arg(long)]
    chart: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(options) => runner::run(&options),
        Command::Table { result, chart } => self::result::read(&result).and_then(|result| {
            print!("{}", report::table(&result));
            chart.map_or(Ok(()), |path| std::fs::write(path, chart::draw(&result))).map(|()| true)
        }),
        Command::Compare { old, new, threshold, peers } => compared(&old, &new, threshold, peers),
        Command::List => {
            print!("{}", runner::list());
            Ok(true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("beside: {error}");
            ExitCode::from(2)
        }
    }
}

fn compared(old: &std::path::Path, new: &std::path::Path, threshold: f64, peers: bool) -> io::Result<bool> {
    let worse = compare::worse(&result::read(old)?, &result::read(new)?, threshold, peers);
    for line in &worse {
        println!("{line}");
    }
    println!("{} worse by more than {threshold} %", worse.len());
    Ok(worse.is_empty())
}
