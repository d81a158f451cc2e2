//! `throng invite`: creates, lists and revokes invitations, with the server stopped or running.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use throng_engine::limits::{INVITATION_LIFE_S_MAX, INVITATION_USES_MAX};
use throng_recorder::clock::wall_s;

use super::accounts::{Opened, bare, open};
use super::{Exit, Failure, Io, Program, age, to_json};
use crate::admin::{InviteRow, NewInvite, ROWS_PER_PAGE_MAX};
use crate::config::Loaded;
use crate::config::kind::{Field, Kind};

const HELP: &str = "\
An invitation is an address (xmpp:...) that the invited person opens with a client or scans as a \
QR code. It lets them register an account if registration is invite, open or approval. With \
--contact, both users also become contacts of each other.

It is valid once and for invitation_seconds (7 days), unless --uses and --expires are given. The \
address is shown only once: the server stores a digest of it. Users can invite from their \
clients, as far as user_invitations and inviters allow.

Works whether the server is stopped (on the data folder) or running (through its control socket).

Examples:
  throng invite                                any name, at the main domain
  throng invite --user juliet                  juliet@..., a name that is reserved until then
  throng invite --contact romeo                the new user becomes a contact of romeo
  throng invite --uses 200 --expires 30d       for a class
  throng invite --json | jq -r .uri | qrencode -t UTF8
  throng invite list
  throng invite revoke 3f0a91c2";

const LIST: &str = "\
ID       for revoke; a unique beginning is enough
STATE    open; used: no uses left; revoked; over: expired
LEFT     remaining uses, of all uses
ENDS     time until it expires
FOR      the name that it is for; contact: for a contact, without an account
BY       the inviting user; - for the operator
JOINED   the first user who used it";

/// The command, with the options of the data folder that `rows` adds.
pub(super) fn command(rows: impl Fn(Command) -> Command) -> Command {
    let value = |name: &'static str, word: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(word).help(help)
    };
    rows(Command::new("invite"))
        .about("Invite people to the server")
        .after_help(HELP)
        .args_conflicts_with_subcommands(true)
        .arg(value("user", "NAME", "Only for this account: localpart, or localpart@domain; it must not exist"))
        .arg(value("contact", "JID", "Make the invited user and this user contacts"))
        .arg(
            value("at", "DOMAIN", "Domain of the account [default: the main domain]")
                .conflicts_with_all(["user", "contact"]),
        )
        .arg(
            value("expires", "TIME", "Time until it expires: 12h, 7d; up to 366 days [default: invitation_seconds]")
                .value_parser(life),
        )
        .arg(
            value("uses", "N", "How often it can be used [default: 1]")
                .value_parser(value_parser!(u32).range(1..=i64::from(INVITATION_USES_MAX)))
                .conflicts_with("user"),
        )
        .subcommand(rows(Command::new("list")).about("List invitations, one per line").after_help(LIST).arg(
            Arg::new("all").long("all").action(ArgAction::SetTrue).help("Include invitations that are no longer valid"),
        ))
        .subcommand(
            rows(Command::new("revoke")).about("Revoke an invitation").arg(
                Arg::new("id").value_name("ID").required(true).help("ID or its beginning, from `throng invite list`"),
            ),
        )
}

fn life(text: &str) -> Result<u64, String> {
    let kind = Kind::Seconds { min: 1, max: INVITATION_LIFE_S_MAX };
    let read = Duration::read(&[text.to_owned()], &kind).map(|life| life.as_secs());
    read.ok_or_else(|| format!("allowed: {}", kind.allowed()))
}

/// Runs `throng invite`.
///
/// # Errors
/// The errors of the accounts.
pub(super) fn run(matches: &ArgMatches, loaded: &Loaded, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let user = matches.get_one::<String>("user");
    let opened = open(loaded, "invite", None, program, io)?;
    let full = |user: &String| bare(user, &opened.domain).map_err(|reason| Failure::new(Exit::Usage, reason));
    let contact = matches.get_one::<String>("contact");
    let new = NewInvite {
        user: user.map(full).transpose()?,
        inviter: contact.map(full).transpose()?,
        befriends: contact.is_some(),
        domain: matches.get_one::<String>("at").cloned(),
        uses: matches.get_one::<u32>("uses").copied().unwrap_or(1),
        life_s: matches.get_one::<u64>("expires").copied(),
        most: 0,
    };
    let made = opened.accounts.invite(&new)?;
    if io.json {
        io.say_json(&super::done("invited", to_json(&made)));
        return Ok(());
    }
    io.say(&made.uri);
    if let Some(page) = &made.page {
        io.say(page);
    }
    let how_often = if new.uses == 1 { "once".to_owned() } else { format!("{} times", new.uses) };
    let left = age(made.until_s.saturating_sub(wall_s()));
    io.tell(format!(
        "valid {how_often}, for {left}; it is shown only once. To revoke it: throng invite revoke \
         {}",
        &made.id[..8]
    ));
    Ok(())
}

/// Runs `throng invite NAME`.
///
/// # Errors
/// The errors of the accounts; there is no such invitation, or more than one.
pub(super) fn run_named(
    name: &str,
    matches: &ArgMatches,
    loaded: &Loaded,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    if name == "list" {
        return list(matches.get_flag("all"), &open(loaded, "list", None, program, io)?, io);
    }
    let given = matches.get_one::<String>("id").expect("clap requires it").to_ascii_lowercase();
    let opened = open(loaded, "revoke", None, program, io)?;
    let mut fits: Vec<InviteRow> = Vec::new();
    each(&opened, |row| {
        if row.id.starts_with(&given) && !given.is_empty() {
            fits.push(row);
        }
    })?;
    match &fits[..] {
        [] => Err(Failure::new(Exit::NotThere, format!("no such invitation: {given}; see `throng invite list --all`"))),
        [one] => {
            opened.accounts.revoke(&one.actor, &one.id)?;
            match io.json {
                true => io.say_json(&json!({ "done": "revoked", "id": one.id })),
                false => io.say(format!("revoked {}", one.id)),
            }
            Ok(())
        }
        several => {
            let text = format!("{given} matches {} invitations: give more of the ID", several.len());
            Err(Failure::new(Exit::Usage, text))
        }
    }
}

fn each(opened: &Opened, mut take: impl FnMut(InviteRow)) -> Result<(), Failure> {
    let mut after: Option<String> = None;
    loop {
        let page = opened.accounts.invitations(after.as_deref(), ROWS_PER_PAGE_MAX)?;
        page.rows.into_iter().for_each(&mut take);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn list(all: bool, opened: &Opened, io: &mut Io) -> Result<(), Failure> {
    let mut rows = Vec::new();
    each(opened, |row| {
        if all || row.state == "open" {
            rows.push(row);
        }
    })?;
    rows.sort_by(|a, b| (a.until_s, &a.id).cmp(&(b.until_s, &b.id)));
    if !io.json {
        io.say(format!(
            "{:<8}  {:<7}  {:>11}  {:>7}  {:<24}  {:<24}  JOINED",
            "ID", "STATE", "LEFT", "ENDS", "FOR", "BY"
        ));
    }
    for row in rows {
        if io.json {
            io.say_json(&to_json(&row));
            continue;
        }
        let whom = match (&row.user, row.registers) {
            (Some(user), _) => user.as_str(),
            (None, true) => "anybody",
            (None, false) => "contact",
        };
        let ends = match row.until_s.saturating_sub(wall_s()) {
            0 => "over".to_owned(),
            left => age(left),
        };
        let left = format!("{}/{}", row.left, row.uses);
        let by = row.inviter.as_deref().unwrap_or("-");
        let joined = row.joined.join(" ");
        let id = row.id.get(..8).unwrap_or(&row.id);
        io.say(format!("{id:<8}  {:<7}  {left:>11}  {ends:>7}  {whom:<24}  {by:<24}  {joined}", row.state));
    }
    Ok(())
}
