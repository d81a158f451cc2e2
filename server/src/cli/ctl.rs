//! `throng ctl`: commands to a running server.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use serde_json::{Value, json};

use super::accounts::ask_failure;
use super::{Exit, Failure, Io, age, bytes, many, to_json};
use crate::admin::client::{AskError, Client};
use crate::admin::protocol::{Ask, Done, Part};
use crate::admin::{ANNOUNCED_FOR, ANNOUNCED_FOR_MAX, Audience, ComponentRow, Reloaded, STOPS_IN_MAX, SessionRow};
use crate::config::Loaded;
use crate::config::kind::{Field, Kind};

/// Longest duration of a stop beyond the grace of the streams.
const STOP_WAIT: Duration = Duration::from_secs(60);

/// Runs `throng ctl NAME`.
///
/// # Errors
/// No server; the server's fault.
pub fn run(name: &str, matches: &ArgMatches, loaded: &Loaded, io: &mut Io) -> Result<(), Failure> {
    let path = loaded.config.admin_socket_path();
    let mut client = Client::connect(&path).map_err(ask_failure)?;
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let asked = match name {
        "status" => Ask::Status {},
        "dashboard" => return dashboard(&mut client, loaded, io),
        "knob" => return super::knob::run(matches, &mut client, io),
        "housekeeping" => return super::knob::housekeeping(matches, &mut client, io),
        "queue" => {
            let (_, matches) = matches.subcommand().expect("clap requires one");
            Ask::FlushQueue { jid: matches.get_one::<String>("jid").cloned().expect("clap requires it") }
        }
        "waiting" => {
            let (_, matches) = matches.subcommand().expect("clap requires one");
            let jid = matches.get_one::<String>("jid").cloned().expect("clap requires it");
            let question = format!("Drop the waiting messages of {jid}? Type yes:");
            let sure = matches.get_flag("yes") || io.terminal && io.confirmed(&question);
            if !sure {
                return Err(Failure::new(Exit::Usage, "nothing was dropped; pass --yes to confirm"));
            }
            Ask::FlushWaiting { jid }
        }
        "limits" => return super::limits::run(matches, &mut client, io),
        "trace" => return super::trace::run(&mut client, matches, io),
        "profile" => return super::profile::run(&mut client, matches, io),
        "sessions" => return sessions(&mut client, text("jid"), io),
        "components" => return components(&mut client, io),
        "connections" => return connections(&mut client, io),
        "announce" => return announce(&mut client, matches, io),
        "kick" => Ask::Kick { jid: text("jid").expect("clap requires it"), reason: text("reason") },
        "say" => Ask::Say {
            text: text("text").expect("clap requires it"),
            to: audience(matches),
            urgent: matches.get_flag("urgent"),
        },
        "clock" => Ask::ConfirmClock {},
        "shutdown" if matches.get_flag("cancel") => Ask::CancelShutdown {},
        "shutdown" => Ask::Shutdown { grace_s: matches.get_one::<u64>("grace").copied(), after_s: after_s(matches) },
        _ => Ask::Reload {},
    };
    let done = client.ask(asked, drop).map_err(ask_failure)?;
    let waits = name == "shutdown" && !matches.get_flag("no-wait") && !matches.get_flag("cancel");
    if waits && after_s(matches).is_none() {
        let grace = matches.get_one::<u64>("grace").copied().map(Duration::from_secs);
        // The server may have been started with another grace than the configuration of this
        // command.
        wait(&path, grace.unwrap_or(loaded.config.shutdown_grace_seconds).max(Duration::from_secs(60)) + STOP_WAIT)?;
    }
    match name {
        "shutdown" if matches.get_flag("cancel") => said(io, json!({ "done": "cancelled" }), "shutdown cancelled"),
        "shutdown" => match after_s(matches) {
            Some(seconds) => said(
                io,
                super::done("planned", json!({ "stops_in_s": seconds })),
                &format!("stops in {}", age(seconds)),
            ),
            None if waits => said(io, json!({ "done": "stopped" }), "stopped"),
            None => said(io, json!({ "done": "stopping" }), "stopping"),
        },
        "clock" => {
            said(io, json!({ "done": "confirmed" }), "confirmed; deletion by age continues");
        }
        _ => return tell(name, name == "status" && matches.get_flag("all"), done, io),
    }
    Ok(())
}

fn said(io: &mut Io, value: Value, text: &str) {
    match io.json {
        true => io.say_json(&value),
        false => io.say(text),
    }
}

fn after_s(matches: &ArgMatches) -> Option<u64> {
    matches.get_one::<Duration>("after").map(Duration::as_secs)
}

/// Parses the time until a stop.
///
/// # Errors
/// The allowed values.
pub fn stops_in(text: &str) -> Result<Duration, String> {
    time(text, STOPS_IN_MAX)
}

fn time(text: &str, most: Duration) -> Result<Duration, String> {
    let kind = Kind::Seconds { min: 1, max: most.as_secs() };
    Duration::read(&[text.to_owned()], &kind).ok_or_else(|| format!("allowed: {}", kind.allowed()))
}

/// Parses the time for which an announcement is stored.
///
/// # Errors
/// The allowed values.
pub fn kept_for(text: &str) -> Result<Duration, String> {
    time(text, ANNOUNCED_FOR_MAX)
}

/// Sends an announcement, and waits until it has been sent to all sessions.
fn announce(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let mut ask = |ask: Ask| client.ask(ask, drop).map_err(ask_failure);
    if matches.get_flag("withdraw") {
        ask(Ask::WithdrawAnnouncement {})?;
        match io.json {
            true => io.say_json(&json!({ "done": "withdrawn" })),
            false => io.say("announcement withdrawn"),
        }
        return Ok(());
    }
    let text = matches.get_one::<String>("text").cloned().unwrap_or_default();
    let online = !matches.get_flag("only-later");
    let lasting = matches.get_one::<Duration>("for").copied().unwrap_or(ANNOUNCED_FOR);
    let later_s = matches.get_flag("later").then_some(lasting.as_secs());
    let told = |done: Done| match done {
        Done::Announced(announced) => Ok(announced),
        other => Err(Failure::failed(format!("unexpected answer: {other:?}"))),
    };
    let before = told(ask(Ask::Announced {})?)?.told;
    ask(Ask::Announce { text, online, later_s })?;
    let mut now = told(ask(Ask::Announced {})?)?;
    while !now.done {
        std::thread::sleep(Duration::from_millis(200));
        now = told(ask(Ask::Announced {})?)?;
    }
    let count = now.told.saturating_sub(before);
    match io.json {
        true => io.say_json(&super::done("announced", json!({ "told": count, "kept": later_s.is_some() }))),
        false if later_s.is_some() => {
            io.say(format!("sent to {}; users who log in later will also get it", many(count, "session")));
        }
        false => io.say(format!("{} told", many(count, "session"))),
    }
    Ok(())
}

/// The dashboard's address with the token after `#`, a part that browsers never send.
fn dashboard(client: &mut Client, loaded: &Loaded, io: &mut Io) -> Result<(), Failure> {
    let (url, file) = (super::top::http_of(client)?, loaded.config.admin_http_token_path());
    let read = std::fs::read_to_string(&file);
    let token = read.map_err(|error| Failure::failed(format!("cannot read the token {}: {error}", file.display())))?;
    let address = format!("{url}/#token={}", token.trim());
    match io.json {
        true => io.say_json(&json!({ "dashboard": address })),
        false => io.say(address),
    }
    Ok(())
}

fn audience(matches: &ArgMatches) -> Audience {
    match matches.get_many::<String>("to") {
        Some(jids) => Audience::These(jids.cloned().collect()),
        None => Audience::All,
    }
}

/// Prints the result of a request; `all` applies to `status`.
fn tell(name: &str, all: bool, done: Done, io: &mut Io) -> Result<(), Failure> {
    let (value, text) = match (name, done) {
        ("status", Done::Status(status)) => (to_json(&*status), super::status::text(&status, all, io)),
        ("kick", Done::Count(count)) => {
            (super::done("kicked", json!({ "ended": count })), format!("{} ended", many(count, "session")))
        }
        ("waiting", Done::Count(count)) => {
            (super::done("flushed", json!({ "dropped": count })), format!("{} dropped", many(count, "message")))
        }
        ("queue", Done::Count(count)) => {
            (super::done("flushed", json!({ "cut": count })), format!("{} cut", many(count, "connection")))
        }
        ("say", Done::Count(count)) => {
            (super::done("said", json!({ "told": count })), format!("{} told", many(count, "session")))
        }
        ("reload", Done::Reloaded(reloaded)) => (super::done("reloaded", to_json(&reloaded)), reloaded_text(&reloaded)),
        (_, other) => return Err(Failure::failed(format!("unexpected answer: {other:?}"))),
    };
    said(io, value, &text);
    Ok(())
}

fn reloaded_text(reloaded: &Reloaded) -> String {
    let list = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("{what}: {}\n", names.join(", ")),
    };
    let text = list("took effect", &reloaded.applied)
        + &list("needs a restart", &reloaded.waiting)
        + &list("remains as set at run time", &reloaded.overridden);
    if text.is_empty() { "nothing changed".into() } else { text.trim_end().to_owned() }
}

/// Prints rows as they arrive: one line of JSON each, or a table.
fn sessions(client: &mut Client, of: Option<String>, io: &mut Io) -> Result<(), Failure> {
    if !io.json {
        io.say(format!(
            "{:<40} {:<24} {:<8} {:>5} {:>7} {:>7} {:>4} {:>9}",
            "SESSION", "ADDRESS", "TLS", "SHARD", "AGE", "IDLE", "PRIO", "UNSENT"
        ));
    }
    let part = |part: Part| {
        let Part::Sessions(rows) = part;
        for row in rows {
            match io.json {
                true => io.say_json(&to_json(&row)),
                false => io.say(session_line(&row)),
            }
        }
    };
    client.ask(Ask::Sessions { of }, part).map_err(ask_failure)?;
    Ok(())
}

/// Prints the addresses of unauthenticated connections: one line of JSON each, or a table.
fn connections(client: &mut Client, io: &mut Io) -> Result<(), Failure> {
    let rows = match client.ask(Ask::Openings {}, drop).map_err(ask_failure)? {
        Done::Openings(rows) => rows,
        other => return Err(Failure::failed(format!("unexpected answer: {other:?}"))),
    };
    if io.json {
        rows.iter().for_each(|row| io.say_json(&to_json(row)));
        return Ok(());
    }
    io.say(format!("{:<40} {:>11}", "ADDRESS", "CONNECTIONS"));
    for row in &rows {
        // Limits count an IPv6 /64 as one address.
        let network = if row.address.contains(':') { "/64" } else { "" };
        io.say(format!("{:<40} {:>11}", format!("{}{network}", row.address), row.connections));
    }
    Ok(())
}

/// Prints all components: one line of JSON each, or a table.
fn components(client: &mut Client, io: &mut Io) -> Result<(), Failure> {
    let rows = match client.ask(Ask::Components {}, drop).map_err(ask_failure)? {
        Done::Components(rows) => rows,
        other => return Err(Failure::failed(format!("unexpected answer: {other:?}"))),
    };
    if io.json {
        rows.iter().for_each(|row| io.say_json(&to_json(row)));
        return Ok(());
    }
    io.say(format!(
        "{:<40} {:<24} {:>5} {:>7} {:>7} {:>10} {:>10} {:>8} {:>8} {:>9}",
        "COMPONENT", "ADDRESS", "SHARD", "AGE", "IDLE", "FROM", "TO", "REFUSED", "WAITING", "BYTES"
    ));
    rows.iter().for_each(|row| io.say(component_line(row)));
    Ok(())
}

fn component_line(row: &ComponentRow) -> String {
    if !row.connected {
        return format!("{:<40} (away)", row.domain);
    }
    format!(
        "{:<40} {:<24} {:>5} {:>7} {:>7} {:>10} {:>10} {:>8} {:>8} {:>9}",
        row.domain,
        row.address.as_deref().unwrap_or("-"),
        row.shard,
        age(row.age_s),
        age(row.idle_s),
        row.stanzas_in,
        row.stanzas_out,
        row.refused,
        row.waiting,
        bytes(row.waiting_bytes),
    )
}

fn session_line(row: &SessionRow) -> String {
    format!(
        "{:<40} {:<24} {:<8} {:>5} {:>7} {:>7} {:>4} {:>9}",
        row.jid,
        if row.resumable { "(resumable)" } else { row.address.as_deref().unwrap_or("-") },
        row.tls.as_deref().unwrap_or("-"),
        row.shard,
        age(row.age_s),
        age(row.idle_s),
        row.priority.map_or_else(|| "-".into(), |priority| priority.to_string()),
        bytes(row.outbound_bytes),
    )
}

/// Waits until the socket, which the server removes last, has disappeared.
fn wait(path: &Path, most: Duration) -> Result<(), Failure> {
    let end = Instant::now() + most;
    while Instant::now() < end {
        match Client::connect(path) {
            Err(AskError::NotRunning(_)) => return Ok(()),
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    Err(Failure::failed(format!("the server did not stop within {} seconds", most.as_secs())))
}
