//! `throng top`: a live view of a server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use throng_recorder::sar;

use super::accounts::ask_failure;
use super::{Exit, Failure, Io};
use crate::admin::client::Client;
use crate::admin::protocol::{Ask, Done};
use crate::config::Loaded;
use crate::top::keys::Chosen;
use crate::top::screen::Theme;
use crate::top::source::{Address, Source};
use crate::top::terminal;
use crate::top::view::View;

const AFTER: &str = "\
Shards, queues with a backlog, the busiest sessions, and problems, second by second. Keys: ? for \
help, 1-5 and Tab select a view, s sorts sessions, p pauses, Ctrl-Z suspends, q quits. 80x24 is \
enough.

The data comes from the operator's HTTP (admin_http) of the server of the data folder, found \
through its control socket; --from names another server. Sessions are counted only while someone \
is watching.

Examples:
  throng top                                       the server of the usual data folder
  throng top --from http://10.0.0.5:5290 --token-file token       a copy of its http.token
  ssh -L 5290:127.0.0.1:5290 HOST, and then: throng top --from http://127.0.0.1:5290
  throng top --once                                one screen as text
  throng top --json | jq .second.shards            one object per second, for scripts (--once: \
one only)";

/// The command; `rows` adds the flags that locate the server.
pub fn command(rows: impl Fn(Command) -> Command) -> Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let size = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u16).range(1..=500)).help(help)
    };
    rows(Command::new("top"))
        .about("Show a running server live: shards, queues, the busiest sessions")
        .after_help(AFTER)
        .arg(Arg::new("from").long("from").value_name("URL").help("A server's http://HOST:PORT"))
        .arg(
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("File with the access token; without --from, the token of the data folder"),
        )
        .arg(flag("once", "Print one screen as text, once all of it is known"))
        .arg(flag("no-color", "No colours; also set by NO_COLOR"))
        .arg(size("width", "Columns for --once [default: the terminal's, or 80]"))
        .arg(size("height", "Lines for --once [default: the terminal's, or 40]"))
}

/// Runs `throng top`.
///
/// # Errors
/// No server, or the server cannot be queried; no terminal.
pub fn run(matches: &ArgMatches, loaded: &Loaded, io: &mut Io) -> Result<(), Failure> {
    let once = matches.get_flag("once");
    if !(once || io.json || io.out_terminal) {
        return Err(Failure::new(
            Exit::Usage,
            "the live screen needs a terminal; use --once for one screen as text, or --json for \
             scripts",
        ));
    }
    let address = address(matches, loaded)?;
    let mut view = View::new(address.url.clone());
    let source = Source::start(address).map_err(failure)?;
    terminal::first(&source, &mut view).map_err(Failure::failed)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::failed)?;
    }
    if once || io.json {
        terminal::whole(&source, &mut view, &stop).map_err(Failure::failed)?;
    }
    match (io.json, once) {
        (true, true) => io.say_json(&view.json()),
        (true, false) => return tell(&source, &mut view, &stop, io),
        (false, true) => {
            let (width, height) = terminal_size().unwrap_or((80, 40));
            let width = matches.get_one("width").copied().unwrap_or(width);
            let height = matches.get_one("height").copied().unwrap_or(height);
            io.say(terminal::text(&view, &Chosen::default(), width, height));
        }
        (false, false) => {
            let theme = Theme { colours: io.colours && !matches.get_flag("no-color") };
            terminal::run(&source, &mut view, theme, &stop).map_err(Failure::failed)?;
        }
    }
    Ok(())
}

/// Prints one object per second.
fn tell(source: &Source, view: &mut View, stop: &AtomicBool, io: &mut Io) -> Result<(), Failure> {
    let mut told = None;
    while !stop.load(Ordering::Relaxed) {
        let second = view.last().map(|second| second.wall_ms);
        if second != told {
            told = second;
            io.say_json(&view.json());
            // The reader has closed its end (`| head`).
            if io.out.flush().is_err() {
                break;
            }
        }
        if let Ok(news) = source.news().recv_timeout(std::time::Duration::from_millis(200)) {
            view.take(news);
        }
        if let Some(why) = &view.lost {
            return Err(Failure::failed(why));
        }
    }
    Ok(())
}

fn terminal_size() -> Option<(u16, u16)> {
    console::Term::stdout().size_checked().map(|(rows, columns)| (columns, rows))
}

fn failure(failure: sar::Failure) -> Failure {
    match failure {
        sar::Failure::Usage(text) => Failure::new(Exit::Usage, text),
        sar::Failure::Failed(text) | sar::Failure::InUse(text) => Failure::failed(text),
        sar::Failure::Closed => Failure::failed("nothing is listening there"),
    }
}

/// The given address, or the HTTP address that the server of the data folder reports.
fn address(matches: &ArgMatches, loaded: &Loaded) -> Result<Address, Failure> {
    let given = matches.get_one::<PathBuf>("token-file").cloned();
    if let Some(url) = matches.get_one::<String>("from") {
        return Ok(Address { url: url.clone(), token_file: given });
    }
    let mut client = Client::connect(&loaded.config.admin_socket_path()).map_err(ask_failure)?;
    let url = http_of(&mut client)?;
    Ok(Address { url, token_file: Some(given.unwrap_or_else(|| loaded.config.admin_http_token_path())) })
}

/// The HTTP address of a running server: `http://HOST:PORT`.
pub(super) fn http_of(client: &mut Client) -> Result<String, Failure> {
    let Done::Status(status) = client.ask(Ask::Status {}, drop).map_err(ask_failure)? else {
        return Err(Failure::failed("unexpected answer"));
    };
    let off = "the server's admin_http is off, or its port was in use; see `throng config explain \
               admin_http`";
    let first = status.admin_http.first().ok_or_else(|| Failure::failed(off))?;
    // A wildcard address is reachable through loopback.
    Ok(format!("http://{first}").replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:"))
}
