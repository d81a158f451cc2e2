//! `throng ctl limits`: lists the clients and accounts held by limits, and releases them.

use std::net::IpAddr;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use throng_recorder::clock::wall_s;

use super::accounts::ask_failure;
use super::{Failure, Io, age, done, to_json};
use crate::admin::client::Client;
use crate::admin::protocol::{Ask, Done};
use crate::admin::{Held, Release};

const LIMITS: &str = "\
Examples:
  throng ctl limits list
  throng ctl limits release 192.0.2.7
  throng ctl limits release romeo@localhost
  throng ctl knob set registrations_hourly_max 1000     raising a limit also releases";

const LIST: &str = "\
LIMIT    address-logins, pair-logins, account-logins, password-changes, registrations:
         counted over time, and released at UNTIL.
         The others apply while something is full; they are listed for ten minutes after the last \
refusal.
WHO      an address (IPv6: its /64), a JID, or an address and the account that it tried
SINCE    the first refusal
REFUSED  how often since

docs/limits.md describes each limit, and the error that a refused client gets.";

/// The command.
pub fn command(rows: impl Fn(Command) -> Command) -> Command {
    Command::new("limits")
        .about("Show who is limited, and release them")
        .after_help(LIMITS)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(rows(Command::new("list")).about("List who is limited, since when and until when").after_help(LIST))
        .subcommand(
            rows(Command::new("release"))
                .about("Release addresses or accounts limited by failed logins or registrations")
                .arg(
                    Arg::new("who")
                        .value_name("WHO")
                        .help("An address (IPv6: its /64) or an account: localpart or bare JID"),
                )
                .arg(
                    Arg::new("address")
                        .long("address")
                        .value_name("IP")
                        .value_parser(value_parser!(IpAddr))
                        .help("This address (IPv6: its /64), and its attempts at accounts"),
                )
                .arg(
                    Arg::new("account")
                        .long("account")
                        .value_name("JID")
                        .help("This account, and attempts at it from all addresses: localpart or bare JID"),
                )
                .arg(Arg::new("all").long("all").action(ArgAction::SetTrue).help("Everybody"))
                .group(clap::ArgGroup::new("whom").args(["who", "address", "account", "all"]).required(true)),
        )
}

/// Runs the command.
///
/// # Errors
/// What the server answers.
pub fn run(matches: &ArgMatches, client: &mut Client, io: &mut Io) -> Result<(), Failure> {
    match matches.subcommand().expect("clap requires one") {
        ("list", _) => match client.ask(Ask::Limits {}, drop).map_err(ask_failure)? {
            Done::Limits(held) => list(&held, io),
            other => return Err(Failure::failed(format!("unexpected answer: {other:?}"))),
        },
        (_, matches) => {
            let who = matches.get_one::<String>("who");
            let address = matches.get_one::<IpAddr>("address").copied().or_else(|| who?.parse().ok());
            let account = matches.get_one::<String>("account").or(who).cloned();
            let whom = match address {
                Some(address) => Release::Address(address),
                None => account.map_or(Release::All, Release::Account),
            };
            match client.ask(Ask::Release { whom }, drop).map_err(ask_failure)? {
                Done::Count(count) if io.json => io.say_json(&done("released", json!({ "released": count }))),
                Done::Count(count) => io.say(format!("{count} let go")),
                other => return Err(Failure::failed(format!("unexpected answer: {other:?}"))),
            }
        }
    }
    Ok(())
}

fn list(held: &Held, io: &mut Io) {
    if io.json {
        held.rows.iter().for_each(|row| io.say_json(&to_json(row)));
        if held.more > 0 {
            io.say_json(&json!({ "more": held.more }));
        }
        return;
    }
    let now_s = wall_s();
    io.say(format!("{:<18} {:<52} {:>9} {:>14} {:>9}", "LIMIT", "WHO", "SINCE", "UNTIL", "REFUSED"));
    for row in &held.rows {
        let since = format!("{} ago", age(now_s.saturating_sub(row.since_s)));
        let until = match row.until_s {
            Some(until_s) => format!("in {}", age(until_s.saturating_sub(now_s))),
            None => "there is room".to_owned(),
        };
        io.say(format!("{:<18} {:<52} {since:>9} {until:>14} {:>9}", row.limit, row.who, row.refused));
    }
    if held.more > 0 {
        io.say(format!("and {} more", held.more));
    }
}
