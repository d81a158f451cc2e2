//! `throng room`: lists, shows, configures, closes, destroys and moves rooms for group chat.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use throng_engine::limits::ROOM_CLOSED_S_MAX;
use throng_engine::rooms::fields;
use throng_engine::store::room::Config;
use throng_recorder::clock::wall_s;

use super::accounts::{Opened, in_use, no_folder, open, tell_tightened};
use super::{Exit, Failure, Io, Program, age, done, harmless, to_json};
use crate::admin::rooms::{ROOMS_PER_PAGE_MAX, RoomField, RoomRow, RoomShown};
use crate::config::Loaded;
use crate::config::kind::{Field as _, Kind};
use crate::disk::FolderLock;
use crate::portable::Summary;

const HELP: &str = "\
ROOM is a JID, or the part before @conference.DOMAIN. `list` and `show` work whether the server is \
stopped (on the data folder) or running (through its control socket); the others need a running \
server. Changes take their turn in the room like those of its owner, and occupants learn of them.

Examples:
  throng room list
  throng room list --json | jq 'select(.occupants > 100)'
  throng room show cave
  throng room config cave                                 the fields, their values and what they can be
  throng room config cave membersonly=1 roomname='The cave'
  throng room config cave passwordprotectedroom=1 roomsecret=newt
  throng room config cave presencebroadcast=moderator,participant
  throng room close cave --for 10m                        during a raid: only members enter
  throng room open cave
  throng room destroy cave --reason 'moved' --alternate hall
  throng room export rooms.xml                            with the server stopped
  throng room import rooms.xml --dry-run";

const LIST: &str = "\
ROOM     its JID
OCC      occupants now; - while no server runs
MEMBERS  members, admins and owners; counted up to 1000
KIND     p: stays without occupants, t: ends with its last occupant; h: hidden from the directory; \
l: waits for its first configuration
LAST     since the last message in its archive; - if there is none
NAME     as its owners call it

With --json, `waiting` is the number of stanzas that wait for the room while it reads the store.";

const CONFIG: &str = "\
FIELD=VALUE sets a field of the form that owners have (XEP-0045 10.2), with the same checks and the \
same consequences: in a room that becomes members-only, all others have to leave. Several values \
are separated by commas. Without fields, all are listed.

Examples:
  throng room config cave
  throng room config cave membersonly=1 moderatedroom=0
  throng room config cave persistentroom=1 maxusers=100";

const CLOSE: &str = "\
For that time only members, admins and owners may enter; occupants stay. It ends by itself, by \
`throng room open`, or when the server stops. To close all rooms, set the knob room_members_only; to \
limit joins, room_joins_per_second.

Examples:
  throng room close cave --for 10m
  throng ctl knob set room_members_only true --for 10m
  throng ctl knob set room_joins_per_second 1 --for 1h";

const EXPORT: &str = "\
Writes the rooms of conference.DOMAIN to one file: configuration with password, subject, affiliations \
and reserved nicks. Archives stay behind; `throng store backup` and `throng store export` copy them, \
too. The server must be stopped. The file is created with mode 0600; keep it.

The file has the frame of the portable format (XEP-0227), which has nothing for rooms; each room is \
an element of our own, described in docs/rooms.md.

Examples:
  throng room export rooms.xml
  throng room export two.xml cave hall
  throng store backup /backups/now && throng store restore /backups/now --data ./copy && throng \
room export --data ./copy rooms.xml";

const IMPORT: &str = "\
Reads such a file. The server must be stopped. Rooms that exist are left alone, so an interrupted \
import can be repeated. A room is imported as a whole or not at all: never with a configuration in \
part. Imported rooms are persistent. What cannot be imported is reported, with file and line.

Rooms of Prosody and ejabberd come with their accounts: see `throng import`.

Examples:
  throng room import rooms.xml --dry-run
  throng room import rooms.xml --data DIR --json";

/// The command, with the options of the data folder that `rows` adds.
pub(super) fn command(rows: impl Fn(Command) -> Command) -> Command {
    let room = || Arg::new("room").value_name("ROOM").required(true).help("JID, or its localpart");
    let value = |name: &'static str, word: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(word).help(help)
    };
    let file = |name: &'static str, word: &'static str, help: &'static str| {
        Arg::new(name).value_name(word).required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("room")
        .about("List, show, configure, close, destroy, export and import rooms for group chat")
        .after_help(HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(rows(Command::new("list")).about("List rooms, one per line").after_help(LIST))
        .subcommand(
            rows(Command::new("show"))
                .about("Show a room: configuration, occupants, affiliations, sizes, charges")
                .arg(room()),
        )
        .subcommand(
            rows(Command::new("config"))
                .about("Set fields of a room's configuration, or list them")
                .after_help(CONFIG)
                .arg(room())
                .arg(Arg::new("field").value_name("FIELD=VALUE").num_args(0..).help("Fields to set")),
        )
        .subcommand(
            rows(Command::new("close"))
                .about("Let only members enter a room for a while")
                .after_help(CLOSE)
                .arg(room())
                .arg(
                    value("for", "TIME", "For this time: 90, 10m, 2h; up to 7 days")
                        .default_value("10m")
                        .value_parser(closed_for),
                ),
        )
        .subcommand(rows(Command::new("open")).about("End the time for which a room was closed").arg(room()))
        .subcommand(
            rows(Command::new("export"))
                .about("Export rooms without their archives to a file; the server must be stopped")
                .after_help(EXPORT)
                .arg(file("to", "TO", "File to create; must not exist"))
                .arg(Arg::new("room").value_name("ROOM").num_args(0..).help("Only these rooms")),
        )
        .subcommand(
            rows(Command::new("import"))
                .about("Import rooms from a file; the server must be stopped")
                .after_help(IMPORT)
                .arg(file("from", "FROM", "The file"))
                .arg(
                    Arg::new("dry-run")
                        .long("dry-run")
                        .action(ArgAction::SetTrue)
                        .help("Read everything and report what would be imported, without writing"),
                ),
        )
        .subcommand(
            rows(Command::new("destroy"))
                .about("Destroy a room with its members, bans and archive")
                .arg(room())
                .arg(value("reason", "TEXT", "Reason shown to its occupants"))
                .arg(value("alternate", "ROOM", "Another room, which clients of its occupants may enter"))
                .arg(
                    Arg::new("yes")
                        .long("yes")
                        .short('y')
                        .action(ArgAction::SetTrue)
                        .help("Do not ask for confirmation"),
                ),
        )
}

fn closed_for(text: &str) -> Result<Duration, String> {
    let kind = Kind::Seconds { min: 1, max: ROOM_CLOSED_S_MAX.into() };
    Duration::read(&[text.to_owned()], &kind).ok_or_else(|| format!("allowed: {}", kind.allowed()))
}

/// Runs `throng room NAME`.
///
/// # Errors
/// The errors of the rooms; there is no such room.
pub(super) fn run(
    name: &str,
    matches: &ArgMatches,
    loaded: &Loaded,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    if matches!(name, "export" | "import") {
        return move_rooms(name, matches, loaded, io, program);
    }
    let fields: Vec<&String> = match name {
        "config" => matches.get_many("field").unwrap_or_default().collect(),
        _ => Vec::new(),
    };
    let reads = matches!(name, "list" | "show") || (name == "config" && fields.is_empty());
    let opened = open(loaded, if reads { "show" } else { "room" }, None, program, io)?;
    if name == "list" {
        return list(&opened, io);
    }
    let room = matches.get_one::<String>("room").expect("clap requires it");
    let rooms = &*opened.accounts;
    match name {
        "show" => show(&rooms.room(room)?, opened.running, io),
        "config" if reads => tell_fields(&rooms.room(room)?.config, io),
        "config" => {
            let fields = fields.into_iter().map(|field| parse(field)).collect::<Result<Vec<_>, _>>()?;
            rooms.configure_room(room, &fields)?;
            changed(io, "configured", room);
        }
        "close" => {
            let lasting = matches.get_one::<Duration>("for").expect("it has a default");
            rooms.close_room(room, u32::try_from(lasting.as_secs()).unwrap_or(ROOM_CLOSED_S_MAX))?;
            match io.json {
                true => io.say_json(&done("closed", json!({ "room": room, "seconds": lasting.as_secs() }))),
                false => io.say(format!("closed {room} for {}", age(lasting.as_secs()))),
            }
        }
        "open" => {
            rooms.close_room(room, 0)?;
            changed(io, "opened", room);
        }
        _ => {
            let question = format!("Destroy {room} with its members, bans and archive? Type yes:");
            if io.terminal && !matches.get_flag("yes") && !io.confirmed(&question) {
                return Err(Failure::failed("nothing was destroyed"));
            }
            let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
            rooms.destroy_room(room, text("reason"), text("alternate"))?;
            changed(io, "destroyed", room);
        }
    }
    Ok(())
}

fn move_rooms(
    name: &str,
    matches: &ArgMatches,
    loaded: &Loaded,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    let config = &loaded.config;
    if !config.data.exists() {
        return Err(no_folder(config));
    }
    let hint = "stop it, or use a copy (`throng store backup`, `throng store restore`)";
    let lock = FolderLock::take(&config.data, name).map_err(|error| in_use(config, error, hint))?;
    tell_tightened(&lock, io);
    let file = |name: &str| matches.get_one::<PathBuf>(name).expect("clap requires it").as_path();
    let (summary, end) = if name == "export" {
        let only: Vec<String> = matches.get_many("room").unwrap_or_default().cloned().collect();
        (program.leave_rooms(config, &lock, file("to"), &only, &mut |line| io.tell(line))?, Ok(()))
    } else {
        program.arrive_rooms(config, &lock, file("from"), matches.get_flag("dry-run"), &mut |line| io.tell(line))?
    };
    tell_moved(name, &summary, io);
    end?;
    if summary.is_whole() { Ok(()) } else { Err(Failure::new(Exit::Partly, String::new())) }
}

fn tell_moved(name: &str, summary: &Summary, io: &mut Io) {
    let notes: Vec<_> = summary.notes().collect();
    if io.json {
        let notes: Vec<_> = notes
            .iter()
            .map(|note| json!({ "what": note.what, "why": note.why, "times": note.times, "first": note.first }))
            .collect();
        return io.say_json(&done(
            name,
            json!({
                "rooms": summary.rooms, "affiliations": summary.affiliations, "already_there": summary.there,
                "left_out": summary.left, "bytes": summary.bytes, "notes": notes, "more_notes": summary.more(),
            }),
        ));
    }
    let counts = [
        ("rooms", summary.rooms),
        ("affiliations", summary.affiliations),
        ("already there", summary.there),
        ("left out", summary.left),
    ];
    for (name, count) in counts.iter().take(2).chain(counts.iter().skip(2).filter(|(_, count)| *count > 0)) {
        io.say(format!("{name:<16}{count:>14}"));
    }
    for note in notes {
        io.say(format!("note: {}: {} ({} times, first: {})", note.what, note.why, note.times, note.first));
    }
    if summary.more() > 0 {
        io.say(format!("and {} further notes of other kinds", summary.more()));
    }
    io.say(format!("{name}: {}", if summary.is_whole() { "good" } else { "done, with the exceptions noted above" }));
}

fn changed(io: &mut Io, what: &str, room: &str) {
    match io.json {
        true => io.say_json(&done(what, json!({ "room": room }))),
        false => io.say(format!("{what} {room}")),
    }
}

/// A field and its values.
fn parse(text: &str) -> Result<(String, Vec<String>), Failure> {
    let wrong =
        || Failure::new(Exit::Usage, format!("`{text}` is no FIELD=VALUE; `throng room config ROOM` lists the fields"));
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let known = fields::settings(&Config::default());
    let has_options = known.iter().any(|known| known.name == name && !known.options.is_empty());
    let values = match has_options {
        true => value.split(',').map(str::to_owned).collect(),
        false => vec![value.to_owned()],
    };
    Ok((name.to_owned(), values))
}

fn list(opened: &Opened, io: &mut Io) -> Result<(), Failure> {
    let (now_s, mut after, mut has_head) = (wall_s(), None, io.json);
    // Page by page: there may be more rooms than memory.
    loop {
        let page = opened.accounts.rooms(after.as_deref(), ROOMS_PER_PAGE_MAX)?;
        if !page.rows.is_empty() && !std::mem::replace(&mut has_head, true) {
            io.say(format!("{:<40}  {:>6}  {:>7}  {:<4}  {:>7}  NAME", "ROOM", "OCC", "MEMBERS", "KIND", "LAST"));
        }
        for row in &page.rows {
            match io.json {
                true => io.say_json(&to_json(row)),
                false => io.say(line(row, now_s)),
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn line(row: &RoomRow, now_s: u64) -> String {
    let occupants = row.occupants.map_or("-".to_owned(), |occupants| occupants.to_string());
    let members = format!("{}{}", row.members, if row.members_more { "+" } else { "" });
    let mut kind = String::from(if row.persistent { "p" } else { "t" });
    for (holds, letter) in [(row.hidden, 'h'), (row.locked, 'l')] {
        kind.extend(holds.then_some(letter));
    }
    let last = row.last_message_s.map_or("-".to_owned(), |at_s| age(now_s.saturating_sub(at_s)));
    // Foreign text: it reaches the terminal only escaped.
    let (jid, name) = (harmless(&row.jid), harmless(&row.name));
    format!("{jid:<40}  {occupants:>6}  {members:>7}  {kind:<4}  {last:>7}  {name}")
}

fn show(shown: &RoomShown, running: bool, io: &mut Io) {
    if io.json {
        return io.say_json(&to_json(shown));
    }
    let (row, now_s) = (&shown.row, wall_s());
    let ago = |at_s: u64| format!("{} ago", age(now_s.saturating_sub(at_s)));
    io.say(format!("room        {}", harmless(&row.jid)));
    io.say(format!("created     {}", ago(shown.created_s)));
    match running {
        true => {
            let (occupants, sessions) = (row.occupants.unwrap_or(0), row.sessions.unwrap_or(0));
            io.say(format!("occupants   {occupants}, with {sessions} sessions"));
        }
        false => io.say("occupants   unknown: the server is not running"),
    }
    io.say(format!("message     {}", row.last_message_s.map_or("none in its archive".to_owned(), ago)));
    io.say(format!("subject     {}", harmless(&shown.subject)));
    let counts = shown.affiliations.iter().map(|(name, count)| format!("{count} {name}s"));
    io.say(format!("users       {}", counts.collect::<Vec<_>>().join(", ")));
    for owner in &shown.owners {
        io.say(format!("owner       {}", harmless(owner)));
    }
    if row.locked {
        io.say("state       waits for its first configuration");
    }
    if let Some(seconds) = shown.closed_s {
        io.say(format!("state       closed to all but members for {}", age(seconds)));
    }
    if row.waiting > 0 {
        io.say(format!("waiting     {} stanzas, for the store", row.waiting));
    }
    if shown.sent_bytes > 0 {
        let (sent, charged) = (shown.sent_bytes.div_ceil(1_024), shown.charged_bytes.div_ceil(1_024));
        io.say(format!("sent        {sent} KiB since it is in memory; senders were charged {charged} KiB"));
    }
    for stored in shown.stored.iter().filter(|stored| stored.rows > 0) {
        let most = if stored.more { "at least " } else { "" };
        io.say(format!("{:<12}{most}{} KiB in {} rows", stored.what, stored.bytes.div_ceil(1_024), stored.rows));
    }
    io.say("");
    tell_fields(&shown.config, io);
}

fn tell_fields(fields: &[RoomField], io: &mut Io) {
    for field in fields {
        if io.json {
            io.say_json(&to_json(field));
            continue;
        }
        let value = harmless(&field.values.join(","));
        let options = match &*field.options {
            [] => String::new(),
            options => format!(" ({})", options.join(", ")),
        };
        io.say(format!("{:<24}{value:<24}{}{options}", field.name, field.label));
    }
}
