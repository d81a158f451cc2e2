//! `throng user`: add, passwd, del, list, suspend, resume, show, and approval of waiting accounts;
//! import has its own file.

use std::io::{BufRead, BufReader, Read};

use clap::ArgMatches;
use serde_json::json;
use throng_engine::limits::PASSWORD_BYTES_MAX;
use throng_recorder::clock::wall_s;

use super::accounts::{Opened, bare, open, password_fits};
use super::{Exit, Failure, Io, Program, age, import, to_json};
use crate::admin::{Accounts, Existing, NewAccount, Put, ROWS_PER_PAGE_MAX, ScramKeys};
use crate::config::Loaded;
use crate::entropy::Entropy;
use crate::log::Secret;

/// Runs `throng user NAME`.
///
/// # Errors
/// The errors of the accounts, the file or the terminal.
pub fn run(
    name: &str,
    matches: &ArgMatches,
    loaded: &Loaded,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    match name {
        "import" => return import::run(matches, loaded, io, program),
        "list" => return list(&open(loaded, "list", None, program, io)?, io),
        "pending" => return pending(&open(loaded, "list", None, program, io)?, io),
        _ => {}
    }
    let given = matches.get_one::<String>("jid").expect("clap requires it");
    if name == "del" {
        return delete(given, matches.get_flag("yes"), &open(loaded, "del", Some(given), program, io)?, io);
    }
    if matches!(name, "approve" | "reject") {
        let opened = open(loaded, name, Some(given), program, io)?;
        let sure = name == "approve" || matches.get_flag("yes");
        return decide(given, name == "approve", sure, &opened, io);
    }
    if matches!(name, "suspend" | "resume") {
        return suspend(given, name == "suspend", &open(loaded, name, Some(given), program, io)?, io);
    }
    if name == "show" {
        return show(given, &open(loaded, name, Some(given), program, io)?, io);
    }
    // The lock is not held while the user types a password.
    let password = read_password(matches, io)?;
    let opened = open(loaded, name, Some(given), program, io)?;
    let user = named(given, &opened)?;
    let iterations = u32::try_from(loaded.config.scram_iterations).expect("within its range");
    let salt = Entropy::open().and_then(|mut entropy| entropy.fresh::<16>()).map_err(Failure::failed)?;
    let keys = ScramKeys::derive(&password, iterations, &salt).map_err(|reason| Failure::new(Exit::Usage, reason))?;
    let existing = if name == "add" { Existing::Refuse } else { Existing::Require };
    let outcome = opened.accounts.put(vec![NewAccount { user: user.clone(), keys }], existing)?;
    let jid = user;
    match outcome.first() {
        Some(Put::Added) => done(io, "added", &jid),
        Some(Put::Updated) => done(io, "changed", &jid),
        Some(Put::Exists) => return Err(Failure::new(Exit::NotThere, format!("account already exists: {jid}"))),
        Some(Put::Missing) => return Err(Failure::new(Exit::NotThere, format!("no such account: {jid}"))),
        Some(Put::Invalid(reason)) => return Err(Failure::new(Exit::Usage, format!("{jid}: {reason}"))),
        other => return Err(Failure::failed(format!("{jid}: an unexpected outcome: {other:?}"))),
    }
    Ok(())
}

fn done(io: &mut Io, what: &str, jid: &str) {
    match io.json {
        true => io.say_json(&json!({ "done": what, "jid": jid })),
        false => io.say(format!("{what} {jid}")),
    }
}

fn named(given: &str, opened: &Opened) -> Result<String, Failure> {
    bare(given, &opened.domain).map_err(|reason| Failure::new(Exit::Usage, reason))
}

fn delete(given: &str, sure: bool, opened: &Opened, io: &mut Io) -> Result<(), Failure> {
    let jid = named(given, opened)?;
    let question = format!("Delete {jid} with its contacts, messages and sessions? Type yes:");
    if io.terminal && !sure && !io.confirmed(&question) {
        return Err(Failure::failed("nothing was removed"));
    }
    opened.accounts.delete(&jid)?;
    done(io, "removed", &jid);
    Ok(())
}

fn decide(given: &str, approve: bool, sure: bool, opened: &Opened, io: &mut Io) -> Result<(), Failure> {
    let jid = named(given, opened)?;
    if io.terminal && !sure && !io.confirmed(&format!("Delete {jid}, which is awaiting approval? Type yes:")) {
        return Err(Failure::failed("nothing was removed"));
    }
    opened.accounts.decide(&jid, approve)?;
    done(io, if approve { "approved" } else { "rejected" }, &jid);
    Ok(())
}

fn suspend(given: &str, suspended: bool, opened: &Opened, io: &mut Io) -> Result<(), Failure> {
    let jid = named(given, opened)?;
    let ended = opened.accounts.suspend(&jid, suspended)?;
    let what = if suspended { "suspended" } else { "resumed" };
    match (io.json, suspended) {
        (true, _) => io.say_json(&json!({ "done": what, "jid": jid, "sessions_ended": ended })),
        (false, true) => io.say(format!("suspended {jid}; {ended} of its sessions ended")),
        (false, false) => io.say(format!("resumed {jid}")),
    }
    Ok(())
}

fn show(given: &str, opened: &Opened, io: &mut Io) -> Result<(), Failure> {
    let shown = opened.accounts.show(&named(given, opened)?)?;
    if io.json {
        io.say_json(&to_json(&shown));
        return Ok(());
    }
    let now_s = wall_s();
    let ago = |at_s: Option<u64>| at_s.map(|at_s| format!("{} ago", age(now_s.saturating_sub(at_s))));
    let connected = shown.sessions.iter().filter(|session| !session.resumable).count();
    let seen = match (connected, ago(shown.last_seen_s)) {
        (1.., _) => "now".to_owned(),
        (0, seen) => seen.unwrap_or_else(|| "unknown".to_owned()),
    };
    io.say(format!("user       {}", shown.user));
    io.say(format!("standing   {}", shown.standing.word()));
    io.say(format!("made       {}", ago(shown.created_s).unwrap_or_else(|| "unknown".to_owned())));
    io.say(format!("last seen  {seen}"));
    match opened.running {
        true => io.say(format!("sessions   {connected}, and {} resumable", shown.sessions.len() - connected)),
        false => io.say("sessions   none: the server is not running"),
    }
    for session in &shown.sessions {
        let address = session.address.as_deref().unwrap_or("no connection");
        io.say(format!("           {}  {address}  for {}", session.jid, age(session.age_s)));
    }
    for stored in shown.stored.iter().filter(|stored| stored.rows > 0) {
        let most = if stored.more { "at least " } else { "" };
        let kib = stored.bytes.div_ceil(1_024);
        io.say(format!("{:<11}{most}{kib} KiB in {} rows", stored.what, stored.rows));
    }
    if shown.held.is_empty() {
        io.say("limits     none in effect");
    }
    for held in &shown.held {
        let since = age(now_s.saturating_sub(held.since_s));
        let until =
            held.until_s.map_or(String::new(), |until_s| format!(", for {} more", age(until_s.saturating_sub(now_s))));
        io.say(format!(
            "limits     {} ({}), refused {} times since {since} ago{until}",
            held.limit, held.who, held.refused
        ));
    }
    Ok(())
}

fn pending(opened: &Opened, io: &mut Io) -> Result<(), Failure> {
    let now_s = wall_s();
    let rows = opened.accounts.applicants()?;
    if !io.json && !rows.is_empty() {
        io.say(format!("{:<32}  {:>7}  FROM", "USER", "WAITS"));
    }
    for row in rows {
        match io.json {
            true => io.say_json(&to_json(&row)),
            false => {
                io.say(format!("{:<32}  {:>7}  {}", row.user, age(now_s.saturating_sub(row.since_s)), row.address));
            }
        }
    }
    Ok(())
}

fn list(opened: &Opened, io: &mut Io) -> Result<(), Failure> {
    let accounts: &dyn Accounts = &*opened.accounts;
    let mut after: Option<String> = None;
    let mut users: Vec<String> = Vec::new();
    loop {
        let page = accounts.list(after.as_deref(), ROWS_PER_PAGE_MAX)?;
        users.extend(page.rows.into_iter().map(|row| row.user));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    // The store's order is by partition.
    users.sort_unstable();
    for jid in users {
        match io.json {
            true => io.say_json(&json!({ "jid": jid })),
            false => io.say(jid),
        }
    }
    Ok(())
}

fn read_password(matches: &ArgMatches, io: &mut Io) -> Result<Secret, Failure> {
    let password = if let Some(given) = matches.get_one::<String>("password") {
        Secret::new(given)
    } else if matches.get_flag("password-stdin") {
        read_line(io)?
    } else if io.terminal {
        let ask = |prompt| (io.ask_secret)(prompt).map_err(Failure::failed);
        let first = ask("Password: ")?;
        if first != ask("Again: ")? {
            return Err(Failure::failed("the passwords do not match"));
        }
        first
    } else {
        return Err(Failure::new(
            Exit::Usage,
            "no terminal to ask for the password: pass --password-stdin or --password",
        ));
    };
    password_fits(password.reveal()).map_err(|reason| Failure::new(Exit::Usage, reason))?;
    Ok(password)
}

/// The first line of standard input, without its end.
fn read_line(io: &mut Io) -> Result<Secret, Failure> {
    let input = io.input.take().ok_or_else(|| Failure::failed("standard input is taken"))?;
    let mut line = String::new();
    let mut bounded = BufReader::new(input.take(PASSWORD_BYTES_MAX as u64 + 2));
    bounded.read_line(&mut line).map_err(Failure::failed)?;
    Ok(Secret::new(line.trim_end_matches(['\r', '\n'])))
}
