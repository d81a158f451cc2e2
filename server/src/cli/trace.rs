//! `throng ctl trace`: one user's stanzas in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;

use super::accounts::ask_failure;
use super::{Failure, Io, harmless, many, to_json};
use crate::admin::client::Client;
use crate::admin::protocol::{Ask, Done};
use crate::admin::trace::{self, Page, Record, SECONDS_MAX, Told};

/// Interval at which records are fetched.
const ASK_EVERY: Duration = Duration::from_millis(200);

const AFTER: &str = "\
One line per stanza: time (UTC), number, in from the client or out to it, the session's resource, \
kind, type, from, to, id, content, bytes, and outcome. A line that begins with ... reports the \
outcome of an earlier stanza by its number.
  taken          the server has processed it                 refused   its sender gets this error
  under way      on the way to its receiver's home           safe      that home has it (XEP-0198 \
counts it)
  queued         waits to be sent, behind so many bytes      sent      the kernel has it
  held           the session waits to be resumed             acknowledged   the client has it \
(XEP-0198)
  aside          for the user, but to no session: stored in the log, or refused

Content is withheld: text, and everything that a client wrote except addresses, id and type; \
known payloads are named. --bodies shows it, up to 64 KiB per stanza. The start and end of each \
trace are recorded in the log, the events (`throng ctl knob list`) and the recording, with the \
user and whether bodies were shown.

A trace never delays a stanza: if stanzas arrive faster than they are fetched, some are skipped \
and counted. At most four traces at once.

Examples:
  throng ctl trace --jid juliet@localhost --seconds 60
  throng ctl trace --jid juliet@localhost/balcony --json | jq 'select(.fate == \"refused\")'";

/// The command; `rows` adds the flags that locate the server.
pub fn command(rows: impl Fn(Command) -> Command) -> Command {
    rows(Command::new("trace"))
        .about("Show one user's stanzas live")
        .after_help(AFTER)
        .arg(
            Arg::new("jid")
                .long("jid")
                .value_name("JID")
                .required(true)
                .help("Bare JID for all sessions of the user, full JID for one"),
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=SECONDS_MAX))
                .default_value("30")
                .help("Duration; Ctrl-C ends it earlier"),
        )
        .arg(Arg::new("bodies").long("bodies").action(ArgAction::SetTrue).help("Also show the content of stanzas"))
}

fn ask(client: &mut Client, asked: trace::Ask) -> Result<Told, Failure> {
    match client.ask(Ask::Trace(asked), drop).map_err(ask_failure)? {
        Done::Trace(told) => Ok(told),
        other => Err(Failure::failed(format!("unexpected answer: {other:?}"))),
    }
}

/// Runs `throng ctl trace`.
///
/// # Errors
/// What the server answers.
pub fn run(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let jid = matches.get_one::<String>("jid").expect("clap requires it").clone();
    let seconds = *matches.get_one::<u64>("seconds").expect("it has a default");
    let bodies = matches.get_flag("bodies");
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::failed)?;
    }
    let Told::Begun { trace, jid, sessions } = ask(client, trace::Ask::Begin { jid, seconds, bodies })? else {
        return Err(Failure::failed("unexpected answer"));
    };
    if !io.json {
        let what = if bodies { "" } else { "; stanza content is withheld (--bodies shows it)" };
        io.tell(format!("{} for {seconds} s, {} now; times are UTC{what}", plain(&jid), many(sessions, "session")));
    }
    let shown = show(client, trace, &stop, io);
    let ended = ask(client, trace::Ask::End { trace });
    let page = shown?;
    ended?;
    let Page { stanzas, dropped, .. } = page;
    match io.json {
        true => io.say_json(&super::done("traced", json!({ "ended": { "stanzas": stanzas, "dropped": dropped } }))),
        false => io.tell(many(stanzas, "stanza")),
    }
    if dropped > 0 {
        io.tell(format!("{} skipped: they arrived faster than they were fetched", many(dropped, "line")));
    }
    Ok(())
}

/// Shows records until the trace is over; returns the last page.
fn show(client: &mut Client, trace: u64, stop: &AtomicBool, io: &mut Io) -> Result<Page, Failure> {
    loop {
        // Read before the fetch, so that the records up to this moment are still shown.
        let last = stop.load(Ordering::Relaxed);
        let Told::Page(page) = ask(client, trace::Ask::Fetch { trace })? else {
            return Err(Failure::failed("unexpected answer"));
        };
        for record in &page.records {
            match io.json {
                true => io.say_json(&to_json(record)),
                false => io.say(line(record, io)),
            }
        }
        // The reader has closed its end (`| head`).
        let read = io.out.flush().is_ok();
        if !read || (last || page.over) && !page.more {
            return Ok(page);
        }
        if !page.more {
            std::thread::sleep(ASK_EVERY);
        }
    }
}

/// Client-supplied text for a terminal: unchanged if it is a word of printable characters, else
/// quoted, with unprintable characters escaped.
fn plain(text: &str) -> String {
    let word = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "@/.-_:#+=".contains(c));
    let escaped = text.escape_debug().to_string();
    if word && escaped == text { escaped } else { format!("\"{escaped}\"") }
}

fn line(record: &Record, io: &Io) -> String {
    let time = record.time.split('T').nth(1).unwrap_or_default().trim_end_matches('Z');
    let resource = record.session.as_deref().and_then(|session| session.split_once('/')).map_or("-", |(_, r)| r);
    let fate = fate(record, io);
    if let Some(of) = record.of {
        let ms = record.after_us.unwrap_or_default() as f64 / 1_000.0;
        return format!("{time} {:>5} ... {fate} after {ms:.1} ms", format!("#{of}"));
    }
    if let Some(news) = &record.news {
        let told = match (&**news, record.again) {
            ("bound", _) => "bound its resource".to_owned(),
            ("disconnected", _) => "lost its connection and can be resumed".to_owned(),
            ("resumed", again) => format!("was resumed; {} stanzas are sent again", again.unwrap_or_default()),
            _ => "has ended".to_owned(),
        };
        return format!("{time}       -- {} {told}", plain(record.session.as_deref().unwrap_or_default()));
    }
    let mut text = format!("{time} {:>5} ", format!("#{}", record.n));
    text += &format!("{:<5} {} ", record.way.as_deref().unwrap_or_default(), plain(resource));
    text += record.stanza.as_deref().unwrap_or_default();
    let named = [("", &record.kind), ("from ", &record.from), ("to ", &record.to), ("id ", &record.id)];
    for (name, value) in named {
        text += &value.as_ref().map_or(String::new(), |value| format!(" {name}{}", plain(value)));
    }
    text += &format!(" [{}] {} B  {fate}", record.payload.join(" "), record.bytes.unwrap_or_default());
    if let Some(xml) = &record.xml {
        text += &format!("\n             {}", harmless(xml));
    }
    text
}

fn fate(record: &Record, io: &Io) -> String {
    match record.fate.as_deref().unwrap_or_default() {
        "refused" => io.paint("31", &format!("refused: {}", record.condition.as_deref().unwrap_or_default())),
        "queued" => match record.behind_bytes {
            None | Some(0) => "queued".to_owned(),
            Some(bytes) => io.paint("33", &format!("queued behind {bytes} B")),
        },
        "held" => io.paint("33", "held: no connection"),
        "stored" => io.paint("33", "stored in the log"),
        other => other.replace('-', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_orders_of_a_client() {
        for good in ["juliet@localhost/balcony", "m1", "übung@localhost", "日本"] {
            assert_eq!(plain(good), good);
        }
        for (bad, shown) in [
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("\u{1b}[2J", "\"\\u{1b}[2J\""),
            ("\u{9b}31m", "\"\\u{9b}31m\""),
            ("x\u{202e}y", "\"x\\u{202e}y\""),
            ("\"\n", "\"\\\"\\n\""),
        ] {
            assert_eq!(plain(bad), shown);
        }
    }
}
