//! `throng report`: lists and dismisses users' reports, with the server stopped or running.

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;
use throng_recorder::clock::wall_s;

use super::accounts::{Opened, bare, open};
use super::{Exit, Failure, Io, Program, age, harmless, to_json};
use crate::admin::{REPORTS_DISMISSED_MAX, ROWS_PER_PAGE_MAX, ReportRow};
use crate::config::Loaded;

const HELP: &str = "\
Users can report addresses that they block for spam or abuse (XEP-0377). A report is kept for \
reports_seconds (90 days), with at most reports_max (1,000) per domain and 20 per user and day. \
Administrators (admins) are notified of new reports at most every ten minutes, and have the same \
commands in their clients.

Works whether the server is stopped (on the data folder) or running (through its control socket).

Examples:
  throng report list
  throng report list --of spammer@example.net --json
  throng report dismiss 3f0a91c2
  throng report dismiss --by juliet            all reports by juliet";

const LIST: &str = "\
ID      for dismiss; a unique beginning is enough
AGE     since it was received
BY      the reporting user
REASON  spam, abuse or other; --json has it in full
OF      the reported address
TEXT    the user's comment; --json also has the stanza-ids of messages";

/// The command, with the options of the data folder that `rows` adds.
pub(super) fn command(rows: impl Fn(Command) -> Command) -> Command {
    let chosen = |command: Command| {
        command
            .arg(
                Arg::new("of")
                    .long("of")
                    .value_name("JID")
                    .help("Reported address: an account, an address, or a domain"),
            )
            .arg(Arg::new("by").long("by").value_name("USER").help("Reporting user: localpart, or localpart@domain"))
    };
    Command::new("report")
        .about("List and dismiss reports of spam and abuse")
        .after_help(HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            chosen(rows(Command::new("list"))).about("List reports, the latest first, one per line").after_help(LIST),
        )
        .subcommand(
            chosen(rows(Command::new("dismiss")))
                .about("Dismiss reports")
                .arg(Arg::new("id").value_name("ID").num_args(1..).help("IDs, or their beginnings"))
                .arg(Arg::new("all").long("all").action(ArgAction::SetTrue).help("All"))
                .group(clap::ArgGroup::new("whole").args(["id", "all"]))
                .group(clap::ArgGroup::new("some").args(["of", "by"]).multiple(true).conflicts_with("whole"))
                .group(clap::ArgGroup::new("which").args(["id", "all", "of", "by"]).multiple(true).required(true)),
        )
}

/// Runs `throng report NAME`.
///
/// # Errors
/// The errors of the accounts; there is no such report, or more than one.
pub(super) fn run(
    name: &str,
    matches: &ArgMatches,
    loaded: &Loaded,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    let opened = open(loaded, name, None, program, io)?;
    let by = matches.get_one::<String>("by").map(|by| bare(by, &opened.domain)).transpose();
    let by = by.map_err(|reason| Failure::new(Exit::Usage, reason))?;
    let of = matches.get_one::<String>("of");
    let mut rows = all(&opened)?;
    rows.retain(|row| by.as_ref().is_none_or(|by| row.by == *by) && of.is_none_or(|of| is_of(&row.jid, of)));
    rows.sort_by(|a, b| (b.at_s, &b.id).cmp(&(a.at_s, &a.id)));
    if name == "list" {
        list(&rows, io);
        return Ok(());
    }
    let ids = match matches.get_many::<String>("id") {
        Some(given) => given.map(|given| one(&rows, given)).collect::<Result<Vec<String>, Failure>>()?,
        None => rows.into_iter().map(|row| row.id).collect(),
    };
    let mut count = 0;
    for some in ids.chunks(REPORTS_DISMISSED_MAX) {
        count += opened.accounts.dismiss(some)?;
    }
    match io.json {
        true => io.say_json(&super::done("dismissed", json!({ "dismissed": count }))),
        false => io.say(format!("{count} dismissed")),
    }
    match count {
        0 => Err(Failure::new(Exit::NotThere, "no such report; see `throng report list`")),
        _ => Ok(()),
    }
}

/// Whether `of` matches an address, the account of it, or its domain.
fn is_of(jid: &str, of: &str) -> bool {
    let account = jid.split('/').next().unwrap_or_default();
    jid == of || account == of || account.split_once('@').is_some_and(|(_, domain)| domain == of)
}

/// The whole id of the only report whose id has this prefix.
fn one(rows: &[ReportRow], given: &str) -> Result<String, Failure> {
    let given = given.to_ascii_lowercase();
    let mut fits = rows.iter().filter(|row| row.id.starts_with(&given) && !given.is_empty());
    match (fits.next(), fits.count()) {
        (Some(row), 0) => Ok(row.id.clone()),
        (Some(_), more) => {
            let text = format!("{given} matches {} reports: give more of the ID", more + 1);
            Err(Failure::new(Exit::Usage, text))
        }
        (None, _) => {
            let text = format!("no such report: {given}; see `throng report list`");
            Err(Failure::new(Exit::NotThere, text))
        }
    }
}

fn all(opened: &Opened) -> Result<Vec<ReportRow>, Failure> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = opened.accounts.reports(after.as_deref(), ROWS_PER_PAGE_MAX)?;
        rows.extend(page.rows);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(rows),
        }
    }
}

fn list(rows: &[ReportRow], io: &mut Io) {
    let now_s = wall_s();
    if !io.json && !rows.is_empty() {
        io.say(format!("{:<8}  {:>7}  {:<28}  {:<6}  {:<28}  TEXT", "ID", "AGE", "BY", "REASON", "OF"));
    }
    for row in rows {
        if io.json {
            io.say_json(&to_json(row));
            continue;
        }
        let id = row.id.get(..8).unwrap_or(&row.id);
        let age = age(now_s.saturating_sub(row.at_s));
        // Foreign text: it reaches the terminal only escaped.
        let [by, jid, text] = [&row.by, &row.jid, &row.text].map(|text| harmless(text));
        io.say(format!("{id:<8}  {age:>7}  {by:<28}  {:<6}  {jid:<28}  {text}", reason(&row.reason)));
    }
}

/// The reason as one word, for the reasons of XEP-0377 3.
fn reason(urn: &str) -> &str {
    match urn.strip_prefix("urn:xmpp:reporting:") {
        Some(word @ ("spam" | "abuse")) => word,
        _ => "other",
    }
}
