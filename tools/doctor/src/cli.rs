//! `throng doctor`.

use std::io::Write;

use clap::{Args, FromArgMatches, Subcommand};

use crate::front;
use crate::front::asked::Asked;
use crate::host::Host;
use crate::plan::{Driver, Plan};
use crate::{apply, examine, report};

const AFTER: &str = "\
Reads kernel settings and reports for each the current value, the value needed, and how to set \
it, now and permanently.
Changes nothing unless --apply is given. Limits of a process are those of this one: run it as the \
server is run.

Examples:
  throng doctor --connections 1000000
  throng doctor --connections 1000000 --json | jq '.findings[] | select(.state == \"short\") | .now'
  throng doctor --connections 1000000 --apply          as root; prints how to undo it
  throng doctor front nginx --domain example.org --out throng-nginx.conf

Exit codes:
  0 nothing falls short   1 something does, or could not be set   2 wrong usage";

/// What can be asked for.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
struct Doctor {
    /// Client connections that this host is to hold at once.
    #[arg(long, short = 'n', default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    connections: u64,
    /// The server's driver.
    #[arg(long, value_enum, default_value = "auto")]
    driver: Driver,
    /// Clients use TLS that ends in the server.
    #[arg(long)]
    tls: bool,
    /// Ports of the server's listeners.
    #[arg(long, value_delimiter = ',', default_value = "5222,5223")]
    ports: Vec<u16>,
    /// A proxy on this host stands in front of the server.
    #[arg(long)]
    with_front: bool,
    /// Set what can be set until the host's next start, and print how to undo it.
    #[arg(long)]
    apply: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Write a configuration of nginx, HAProxy or Caddy that carries so many clients, and have it
    /// checked
    Front(Asked),
}

/// Why the command failed.
#[derive(Debug)]
pub enum Failure {
    /// The arguments contradict each other.
    Usage(String),
    /// Something falls short, or failed.
    Failed(String),
}

/// The command, for clap.
pub fn command() -> clap::Command {
    Doctor::augment_args(clap::Command::new("doctor"))
        .about("Check this host for a number of connections, and report how to fix what falls short")
        .after_help(AFTER)
}

/// Runs the command. `colours` are for a terminal.
///
/// # Errors
/// [`Failure::Failed`] if something falls short.
pub fn run(matches: &clap::ArgMatches, as_json: bool, colours: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let asked = Doctor::from_arg_matches(matches).map_err(|error| Failure::Usage(error.to_string()))?;
    match asked.command {
        Some(Command::Front(wanted)) => write_front(&wanted, out),
        None => doctor(&asked, &Host::this(), as_json, colours, out),
    }
}

fn doctor(asked: &Doctor, host: &Host, as_json: bool, colours: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let plan = Plan {
        connections: asked.connections,
        driver: asked.driver,
        tls: asked.tls,
        ports: asked.ports.clone(),
        front: asked.with_front,
    };
    let before = examine(host, &plan);
    let applied = asked.apply.then(|| apply::apply(host, &before));
    // Check again after changes: the kernel may have adjusted a value.
    let findings = if applied.is_some() { examine(host, &plan) } else { before };
    let paint = |code: &str, word: &str| if colours { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() };
    let told = if as_json {
        format!("{}\n", report::json(&plan, &findings, applied.as_deref()))
    } else {
        let set = applied.as_deref().map(report::applied_text).filter(|text| !text.is_empty());
        format!("{}{}", set.map(|text| text + "\n").unwrap_or_default(), report::text(&plan, &findings, &paint))
    };
    // A reader that has closed its end (`| head`) is not a failure.
    let _ = out.write_all(told.as_bytes());
    match report::short(&findings) {
        0 => Ok(()),
        _ if as_json => Err(Failure::Failed(String::new())),
        short => Err(Failure::Failed(format!("{short} of what {} connections need falls short", plan.connections))),
    }
}

fn write_front(wanted: &Asked, out: &mut dyn Write) -> Result<(), Failure> {
    let front = wanted.front().map_err(Failure::Usage)?;
    let text = front::write(wanted.proxy, &front, wanted.out.as_deref());
    let Some(file) = &wanted.out else {
        let _ = out.write_all(text.as_bytes());
        return Ok(());
    };
    front::save(file, &text, wanted.force).map_err(Failure::Failed)?;
    let told = match front::judge(wanted.proxy, file) {
        None => "written, but not checked: the program is not installed here".to_owned(),
        Some(Ok(())) => "written and checked by the program itself".to_owned(),
        Some(Err(told)) => {
            return Err(Failure::Failed(format!("{} was written, but the program rejects it: {told}", file.display())));
        }
    };
    let _ = writeln!(out, "{}: {told}", file.display());
    Ok(())
}
