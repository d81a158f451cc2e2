//! `throng ctl knob`: options that change while the server runs.

use std::time::Duration;

use clap::ArgMatches;

use super::accounts::ask_failure;
use super::{Exit, Failure, Io, to_json};
use crate::admin::client::Client;
use crate::admin::protocol::{Ask, Done};
use crate::admin::{KnobChange, KnobRow};
use crate::config::kind::{Field, Kind};
use crate::config::knobs::knob;
use crate::events::{Event, utc};

/// Longest time for which a knob may be set, seconds: 30 days.
const WHILE_S_MAX: u64 = 30 * 86_400;

/// Most events shown after a list.
const EVENTS_SHOWN: usize = 10;

/// Runs `throng ctl knob NAME`.
///
/// # Errors
/// What the server answers.
pub fn run(matches: &ArgMatches, client: &mut Client, io: &mut Io) -> Result<(), Failure> {
    let (name, matches) = matches.subcommand().expect("clap requires one");
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let asked = match name {
        "list" => return list(client, io),
        "get" => return get(&text("key").expect("clap requires it"), client, io),
        "set" => Ask::SetKnob {
            key: text("key").expect("clap requires it"),
            value: text("value").expect("clap requires it"),
            for_s: matches.get_one::<Duration>("for").map(Duration::as_secs),
        },
        _ => Ask::ResetKnobs { key: text("key") },
    };
    turn(asked, client, io)
}

/// Runs `throng ctl housekeeping pause` or `resume`: a knob under a separate name.
///
/// # Errors
/// What the server answers.
pub fn housekeeping(matches: &ArgMatches, client: &mut Client, io: &mut Io) -> Result<(), Failure> {
    let (name, matches) = matches.subcommand().expect("clap requires one");
    let for_s = matches.get_one::<Duration>("for").map(Duration::as_secs);
    let value = if name == "pause" { "false" } else { "true" };
    turn(Ask::SetKnob { key: "housekeeping".into(), value: value.into(), for_s }, client, io)
}

fn turn(asked: Ask, client: &mut Client, io: &mut Io) -> Result<(), Failure> {
    match client.ask(asked, drop).map_err(ask_failure)? {
        Done::Turned(changes) => tell(&changes, io),
        other => strange(&other),
    }
}

/// Parses a time such as `90`, `10m` or `2h` for clap.
///
/// # Errors
/// The allowed values.
pub fn while_(text: &str) -> Result<Duration, String> {
    let kind = Kind::Seconds { min: 1, max: WHILE_S_MAX };
    Duration::read(&[text.to_owned()], &kind).ok_or_else(|| format!("allowed: {}", kind.allowed()))
}

fn strange<T>(done: &Done) -> Result<T, Failure> {
    Err(Failure::failed(format!("unexpected answer: {done:?}")))
}

fn knobs(client: &mut Client) -> Result<Vec<KnobRow>, Failure> {
    match client.ask(Ask::Knobs {}, drop).map_err(ask_failure)? {
        Done::Knobs(rows) => Ok(rows),
        other => strange(&other),
    }
}

fn events(client: &mut Client) -> Result<Vec<Event>, Failure> {
    match client.ask(Ask::Status {}, drop).map_err(ask_failure)? {
        Done::Status(status) => Ok(status.events),
        other => strange(&other),
    }
}

fn list(client: &mut Client, io: &mut Io) -> Result<(), Failure> {
    let rows = knobs(client)?;
    if io.json {
        rows.iter().for_each(|row| io.say_json(&to_json(row)));
        return Ok(());
    }
    let events = events(client)?;
    io.say(format!("{:<34} {:<10} {:<34} FROM", "KNOB", "VALUE", "ALLOWED"));
    for row in &rows {
        let allowed = row.allowed.split(" (").next().unwrap_or_default();
        io.say(format!("{:<34} {:<10} {:<34} {}", row.key, row.value, allowed, from(row)));
    }
    for event in events.iter().skip(events.len().saturating_sub(EVENTS_SHOWN)) {
        io.say(event_line(event));
    }
    Ok(())
}

fn get(key: &str, client: &mut Client, io: &mut Io) -> Result<(), Failure> {
    let key = knob(key)?.key;
    let rows = knobs(client)?;
    let missing = || Failure::new(Exit::NotThere, format!("the server has no knob {key}; is it a different version?"));
    let row = rows.iter().find(|row| row.key == key).ok_or_else(missing)?;
    match io.json {
        true => io.say_json(&to_json(row)),
        false => {
            io.say(format!("{} = {}\n  {}", row.key, row.value, row.help));
            io.say(format!(
                "  allowed       {}\n  default       {}\n  from          {}",
                row.allowed,
                row.default,
                from(row)
            ));
        }
    }
    Ok(())
}

fn tell(changes: &[KnobChange], io: &mut Io) -> Result<(), Failure> {
    if io.json {
        changes.iter().for_each(|change| io.say_json(&super::done("changed", to_json(change))));
        if changes.is_empty() {
            io.say_json(&serde_json::json!({ "done": "nothing" }));
        }
        return Ok(());
    }
    for change in changes {
        let until = until(change.until_s).map_or_else(String::new, |until| format!(", {until}"));
        io.say(format!("{}: {} -> {}{until}", change.key, change.from, change.to));
    }
    if changes.is_empty() {
        io.say("nothing changed");
    }
    Ok(())
}

/// A knob that is set, as one line.
pub fn line(row: &KnobRow) -> String {
    let until = until(row.until_s).map_or_else(String::new, |until| format!(", {until}"));
    format!("{} = {}{until}", row.key, row.value)
}

fn from(row: &KnobRow) -> String {
    let until = until(row.until_s).map_or_else(String::new, |until| format!(", {until}"));
    format!("{}{until}", row.source)
}

fn until(until_s: Option<u64>) -> Option<String> {
    until_s.map(|until_s| format!("until {}", utc(until_s)))
}

fn event_line(event: &Event) -> String {
    format!("{} {} ({})", utc(event.at_s), event.what, event.by)
}
