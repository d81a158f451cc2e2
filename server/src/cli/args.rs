//! The command line for clap: commands, their flags and the help texts.
//!
//! Flags of options come from the table of options. This module only describes; it carries nothing
//! out.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::config::kind::Kind;
use crate::config::table::Rank;
use crate::config::{Flags, Row, TABLE};

const ROOT: &str = "\
Examples:
  throng serve --open-registration      a server for this machine; data in the user's data folder
  throng user add romeo                 make romeo@localhost, asking for a password
  throng invite                         an address by which somebody makes an account
  throng report list                    whom users have reported for spam and abuse
  throng ctl status                     what the running server does
  throng config explain c2s             what an option means
  throng load --sessions 1000 --pairs 100   synthetic users against a server that runs
  throng doctor --connections 1000000   what this host lacks for so many
  throng sar                            what this host does, second by second
  throng top                            a live screen of the running server
  throng upload list                    files that users have uploaded
  throng import DIR                     accounts that move in from ejabberd or Prosody

Exit codes:
  0 done   1 failed   2 wrong usage or configuration   3 no server reachable
  4 data folder in use   5 no such user or session, or there already   6 done in part
  Of a server: 7 its stop was cut off   70 it panicked   74 its store cannot go on";

const SERVE: &str = "\
Examples:
  throng serve
      localhost only, data in $XDG_DATA_HOME/throng, a self-signed certificate
  throng serve --data ./data --domain example.org --c2s 0.0.0.0:5222 --c2s-tls 0.0.0.0:5223 \\
      --tls-certificate fullchain.pem --tls-key privkey.pem
      a public server
  throng serve --c2s 127.0.0.1:0 --c2s-tls off --plain-auth --open-registration
      for tests: a port chosen by the system, passwords without TLS, anyone registers

Signals: SIGTERM and SIGINT stop gracefully and within shutdown_grace_seconds and shutdown_hard_seconds, a second one at once; SIGHUP reloads certificates and knobs. \
Every option is also a variable (THRONG_DOMAIN) and a key of throng.toml (domain = ..); see `throng config`.";

const USER: &str = "\
Works with the server stopped (on the data folder) and running (through its control socket); the folder's lock tells \
which. Passwords are turned into SCRAM keys by this command; neither server nor store see them.

A store keeps the accounts of one domain for good. The first `add` or `import` into a new data folder has to say which: \
by --domain (or the configuration), or by the account's full name.

Examples:
  throng user add romeo                            asks for the password twice
  throng user add romeo@example.org                makes the store of example.org, if there is none
  printf %s \"$PASSWORD\" | throng user add romeo --password-stdin
  throng user list --json
  throng user pending                              who has registered and waits for approval
  throng user approve romeo
  throng user show romeo                           last seen, sessions, sizes, limits that hold it
  throng user suspend romeo                        ends the sessions, refuses logins
  throng user resume romeo
  throng user import users.csv --data DIR --domain example.org";

const IMPORT: &str = "\
Each line is localpart,password; a first line that names the columns (`localpart,password`) is taken for a header, which is told; --header and \
--no-header decide. Instead of a \
password a line may carry SCRAM keys in the form of RFC 5803, of one mechanism or more, which need no hashing:
  romeo,{SCRAM-SHA-256$4096:SALT$KEY:KEY}{SCRAM-SHA-1$4096:SALT$KEY:KEY}

Hashing takes the time, on all cores, in proportion to --iterations: 4096 when not given, about 11 minutes a \
million users on two cores; 10000 (the default of other commands) takes 29. What is imported stays imported when a later \
line fails, and running the same file again skips it.

Examples:
  throng user import users.csv --data DIR --domain example.org
  gen-users | throng user import - --keep-going --json
  throng user import users.csv --existing update     give existing users the file's passwords";

const CONFIG: &str = "\
Takes the same flags, variables and file as `throng serve`.

Examples:
  throng config print                      all values as TOML, each with its source
  throng config check --config throng.toml
  throng config explain stanza_bytes_max";

const CTL: &str = "\
Examples:
  throng ctl status                        the state, and what is wrong; with --all every figure
  throng ctl sessions romeo@localhost
  throng ctl kick romeo@localhost/balcony --reason 'please update'
  throng ctl say --all --urgent 'Restart at noon'
  throng ctl announce 'Maintenance on Sunday' --later --for 3d
  throng ctl queue flush romeo@localhost
  throng ctl limits list                   who is held by which limit, and until when
  throng ctl housekeeping pause --for 1h
  throng ctl shutdown --grace 30
  throng ctl shutdown --after 5m           and --cancel calls it off
  throng ctl reload                        certificates and knobs, without a restart
  throng ctl knob set log_level debug --for 10m
  throng ctl trace --jid romeo@localhost   one user's stanzas as they come and go
  throng ctl profile cpu --seconds 30      a flame graph of the running server";

const KNOB: &str = "\
Examples:
  throng ctl knob list                     what can be set, what it is now, and where that came from
  throng ctl knob get log_level
  throng ctl knob set log_level debug --for 10m
  throng ctl knob reset log_level          as configured again
  throng ctl knob reset --all

What is set stays until it is reset, its time is over, or the server stops; `throng ctl reload` does not touch it.";

const SESSIONS: &str = "\
ADDRESS   the client's, asked of the kernel now; (resumable): the connection is lost, the session waits (XEP-0198)
TLS       the version; - without
AGE       since the resource was bound or the session resumed; of a resumable one since it lost its connection
IDLE      since the client was last heard
PRIO      of its available presence; - while it is not available
UNSENT    what waits for the client to take it";

const STORE: &str = "\
Examples:
  throng store check
  throng store salvage --into ./whole      all that can be read of a damaged store
  throng store backup /backups/today       also while the server runs
  throng store backup verify /backups/today
  throng store restore /backups/today --data ./new
  throng store migrate                     a folder of an earlier version
  throng store partitions                  what each of the 4,096 partitions has
  throng store export --partition 17 part17.export
  throng store import part17.export --data ./other";

const MIGRATE: &str = "\
The start of a server does the same. What is interrupted goes on where it was. There is no way back to the earlier format but a backup that \
was made with the program that wrote it.";

/// The whole command line.
pub fn root() -> Command {
    Command::new("throng")
        .about("A messaging server (XMPP) for very many, mostly idle, devices")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(ROOT)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(110)
        .arg(flag("json", "Answer in JSON, for scripts").global(true).help_heading("General"))
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(std::path::PathBuf))
                .global(true)
                .help_heading("General")
                .help("Configuration file [env: THRONG_CONFIG] [default: throng.toml in the data folder, if there]"),
        )
        .subcommand(with_rows(Command::new("serve"), |_| true).about("Run the server").after_help(SERVE))
        .subcommand(user())
        .subcommand(super::invite::command(|command| {
            with_rows(command, |row| {
                let of_invitations = matches!(
                    row.key,
                    "registration" | "open_registration" | "invitation_page" | "invitation_seconds" | "without"
                );
                of_invitations || matches!(row.key, "data" | "domain" | "virtual_hosts" | "admin_socket")
            })
        }))
        .subcommand(super::report::command(|command| {
            with_rows(command, |row| matches!(row.key, "data" | "domain" | "virtual_hosts" | "admin_socket"))
        }))
        .subcommand(config())
        .subcommands(portable())
        .subcommand(store())
        .subcommand(ctl())
        .subcommand(throng_load::command())
        .subcommand(throng_recorder::sar::command())
        .subcommand(super::top::command(|command| {
            with_rows(command, |row| matches!(row.key, "data" | "admin_socket" | "admin_http_token"))
        }))
        .subcommand(super::upload::command(|command| with_rows(command, |row| matches!(row.key, "data" | "domain"))))
        .subcommand(super::bench::command())
        .subcommand(throng_doctor::command())
        .subcommand(Command::new("version").about("Print the version"))
}

fn user() -> Command {
    let rows =
        |command| with_rows(command, |row| matches!(row.key, "data" | "domain" | "virtual_hosts" | "admin_socket"));
    let hashing = |command| {
        with_rows(command, |row| {
            matches!(row.key, "data" | "domain" | "virtual_hosts" | "admin_socket" | "scram_iterations")
        })
    };
    let jid = || Arg::new("jid").value_name("USER").required(true).help("Localpart, or localpart@domain");
    let password = |command: Command| {
        hashing(command)
            .arg(
                value(
                    "password",
                    "TEXT",
                    "The password; other users of this machine may see it in the list of processes",
                )
                .conflicts_with("password-stdin"),
            )
            .arg(flag("password-stdin", "Read the password from standard input, up to the end of the first line"))
    };
    Command::new("user")
        .about("Manage accounts")
        .after_help(USER)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(password(Command::new("add")).about("Make an account").arg(jid()))
        .subcommand(password(Command::new("passwd")).about("Change an account's password").arg(jid()))
        .subcommand(
            rows(Command::new("del"))
                .about("Remove an account and everything of its user")
                .arg(jid())
                .arg(flag("yes", "Do not ask on a terminal").short('y')),
        )
        .subcommand(rows(Command::new("list")).about("List the accounts, one a line"))
        .subcommand(
            rows(Command::new("suspend"))
                .about("End a user's sessions and refuse the user's logins; what is stored stays")
                .arg(jid()),
        )
        .subcommand(rows(Command::new("resume")).about("Let a suspended user log in again").arg(jid()))
        .subcommand(
            rows(Command::new("show"))
                .about("Show an account: last seen, sessions, what is stored of it, limits that hold it")
                .arg(jid()),
        )
        .subcommand(
            rows(Command::new("pending")).about("List accounts that wait for approval (registration = approval)"),
        )
        .subcommand(rows(Command::new("approve")).about("Put an account to use that waits for approval").arg(jid()))
        .subcommand(
            rows(Command::new("reject"))
                .about("Remove an account that waits for approval")
                .arg(jid())
                .arg(flag("yes", "Do not ask on a terminal").short('y')),
        )
        .subcommand(
            hashing(Command::new("import"))
                .about("Make many accounts from a CSV file")
                .after_help(IMPORT)
                .arg(Arg::new("file").value_name("FILE.csv").required(true).help("The file; - is standard input"))
                .arg(
                    value("existing", "WORD", "What to do with users that are there: error, skip or update")
                        .value_parser(["error", "skip", "update"])
                        .default_value("skip"),
                )
                .arg(flag("header", "The first line is a header").conflicts_with("no-header"))
                .arg(flag("no-header", "The first line is an account, whatever it says"))
                .arg(flag("keep-going", "Go on after a line that cannot be imported; all are told at the end"))
                .arg(
                    value("threads", "N", "Threads that hash passwords; all cores when not given")
                        .value_parser(value_parser!(u16).range(1..=1024)),
                ),
        )
}

fn portable() -> [Command; 2] {
    let rows = |command| with_rows(command, |row| row.key == "data");
    let hashing =
        |command| with_rows(command, |row| matches!(row.key, "data" | "domain" | "virtual_hosts" | "scram_iterations"));
    super::portable::commands(&rows, &hashing)
}

fn config() -> Command {
    let rows = |command| with_rows(command, |_| true);
    Command::new("config")
        .about("Show, check and explain the configuration")
        .after_help(CONFIG)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(rows(Command::new("print")).about("Print every value with its source, as TOML"))
        .subcommand(rows(Command::new("check")).about("Judge the configuration without starting"))
        .subcommand(
            rows(Command::new("explain"))
                .about("Explain one option, or list all")
                .arg(Arg::new("key").value_name("KEY").help("The option's key")),
        )
}

fn store() -> Command {
    let rows = |command| with_rows(command, |row| matches!(row.key, "data" | "domain" | "admin_socket"));
    let folder = |help: &'static str| {
        Arg::new("folder").value_name("DIR").required(true).value_parser(value_parser!(std::path::PathBuf)).help(help)
    };
    Command::new("store")
        .about("Check, salvage, back up, restore, migrate, export and import the data folder")
        .after_help(STORE)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            rows(Command::new("check"))
                .about("Read every byte and name what is damaged; changes nothing; the server must be stopped"),
        )
        .subcommand(
            rows(Command::new("salvage"))
                .about("Bring all rows that are whole into a new store; the damaged one is only read")
                .arg(
                    Arg::new("into")
                        .long("into")
                        .value_name("DIR")
                        .required(true)
                        .value_parser(value_parser!(std::path::PathBuf))
                        .help("Data folder to make; must not be there, or be empty"),
                ),
        )
        .subcommand(
            rows(Command::new("backup"))
                .about("Copy the store as of one moment; the server may run")
                .subcommand_negates_reqs(true)
                .args_conflicts_with_subcommands(true)
                .arg(folder("Folder to make; must not be there, or be empty"))
                .subcommand(
                    Command::new("verify")
                        .about("Read every byte of a backup and name what is damaged; changes nothing")
                        .arg(folder("Folder of the backup")),
                ),
        )
        .subcommand(
            rows(Command::new("restore"))
                .about("Make the data folder from a backup; its store must not be there")
                .arg(folder("Folder of the backup")),
        )
        .subcommand(
            rows(Command::new("migrate"))
                .about("Change a store of an earlier format to this program's, in place; the server must be stopped")
                .after_help(MIGRATE),
        )
        .subcommands(super::partitions::commands(&rows))
}

fn ctl() -> Command {
    let rows = |command| with_rows(command, |row| matches!(row.key, "data" | "admin_socket"));
    Command::new("ctl")
        .about("Command a running server through its control socket")
        .after_help(CTL)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            rows(Command::new("status"))
                .about("What the server does, and what is wrong with it")
                .arg(flag("all", "Every figure: memory by part, and all counters")),
        )
        .subcommand(
            with_rows(Command::new("dashboard"), |row| matches!(row.key, "data" | "admin_socket" | "admin_http_token"))
                .about("Print the dashboard's address, with the token that it asks for"),
        )
        .subcommand(
            rows(Command::new("sessions"))
                .about("List bound sessions")
                .after_help(SESSIONS)
                .arg(Arg::new("jid").value_name("JID").help("Only those of this bare or full JID")),
        )
        .subcommand(
            rows(Command::new("kick"))
                .about("End the sessions of a JID")
                .arg(Arg::new("jid").value_name("JID").required(true).help("Bare or full JID"))
                .arg(value("reason", "TEXT", "Told to the client")),
        )
        .subcommand(
            rows(Command::new("say"))
                .about("Send a message from the server to sessions")
                .arg(Arg::new("text").value_name("TEXT").required(true))
                .arg(flag("all", "To every session").conflicts_with("to").required_unless_present("to"))
                .arg(flag("urgent", "Ahead of what waits for them already"))
                .arg(value("to", "JID", "To this bare or full JID; may be repeated").action(ArgAction::Append)),
        )
        .subcommand(rows(Command::new("components")).about("List external components, connected or away"))
        .subcommand(
            rows(Command::new("connections"))
                .about("List from which addresses connections come that have not logged in, those with most first"),
        )
        .subcommand(
            rows(Command::new("announce"))
                .about("Tell all sessions, a few thousand at a time, and who logs in later")
                .arg(Arg::new("text").value_name("TEXT").required_unless_present("withdraw"))
                .arg(flag("later", "Also tell each user once who logs in later"))
                .arg(flag("only-later", "Tell nobody who is online now").requires("later"))
                .arg(
                    value(
                        "for",
                        "TIME",
                        "Tell those who log in within this time: 12h, 7d; up to 366 days [default: 30d]",
                    )
                    .requires("later")
                    .value_parser(super::ctl::kept_for),
                )
                .arg(flag("withdraw", "Withdraw the announcement from users who log in later").conflicts_with_all([
                    "text",
                    "later",
                    "only-later",
                    "for",
                ])),
        )
        .subcommand(
            rows(Command::new("shutdown"))
                .about("Stop gracefully, and wait for the end")
                .arg(
                    value("grace", "SECONDS", "Time that streams have to close; as configured when not given")
                        .value_parser(value_parser!(u64).range(0..=3_600)),
                )
                .arg(flag("no-wait", "Return once the stop has begun"))
                .arg(
                    value("after", "TIME", "Begin in this time: 90, 5m; up to a day; returns at once")
                        .value_parser(super::ctl::stops_in)
                        .conflicts_with("no-wait"),
                )
                .arg(
                    flag("cancel", "Call off a stop that is to come").conflicts_with_all(["grace", "no-wait", "after"]),
                ),
        )
        .subcommand(
            Command::new("clock")
                .about("The server's wall clock")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(
                    rows(Command::new("confirm"))
                        .about("Say that a clock in doubt is right: what is old by it is deleted from then on"),
                ),
        )
        .subcommand(rows(Command::new("reload")).about("Read certificates and knobs again"))
        .subcommand(knob(rows))
        .subcommand(queue(rows))
        .subcommand(super::limits::command(rows))
        .subcommand(waiting(rows))
        .subcommand(housekeeping(rows))
        .subcommand(super::trace::command(rows))
        .subcommand(super::profile::command(rows))
}

fn queue(rows: impl Fn(Command) -> Command) -> Command {
    Command::new("queue")
        .about("Queues of connections")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            rows(Command::new("flush"))
                .about("Cut a user's connections and drop what waits for them; messages wait again for the user's next session")
                .arg(Arg::new("jid").value_name("JID").required(true).help("Bare or full JID")),
        )
}

fn waiting(rows: impl Fn(Command) -> Command) -> Command {
    Command::new("waiting")
        .about("Messages that wait for users who are not there")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            rows(Command::new("flush"))
                .about("Drop what waits for a user without a session; it stays in the archive, if there is one")
                .arg(Arg::new("jid").value_name("JID").required(true).help("Bare JID"))
                .arg(flag("yes", "Do not ask on a terminal; needed without one").short('y')),
        )
}

fn housekeeping(rows: impl Fn(Command) -> Command) -> Command {
    let lasting = |command: Command| rows(command).arg(lasting());
    Command::new("housekeeping")
        .about("Merging of tables and removal of old messages: the knob housekeeping")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(lasting(Command::new("pause")).about("Put it off"))
        .subcommand(lasting(Command::new("resume")).about("Let it go on"))
}

fn lasting() -> Arg {
    value("for", "TIME", "Put the earlier value back after this: 90, 10m, 2h, 1d; up to 30 days")
        .value_parser(super::knob::while_)
}

fn knob(rows: impl Fn(Command) -> Command) -> Command {
    let key = || Arg::new("key").value_name("KEY").help("The option's key");
    Command::new("knob")
        .about("Options that change while the server runs")
        .after_help(KNOB)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(rows(Command::new("list")).about("List them, and what was set lately"))
        .subcommand(rows(Command::new("get")).about("Show one").arg(key().required(true)))
        .subcommand(
            rows(Command::new("set"))
                .about("Set one")
                .arg(key().required(true))
                .arg(Arg::new("value").value_name("VALUE").required(true).help("As it would stand in the file"))
                .arg(lasting()),
        )
        .subcommand(
            rows(Command::new("reset"))
                .about("Give one, or all, the configured value again")
                .arg(key().required_unless_present("all"))
                .arg(flag("all", "Everything that is set").conflicts_with("key")),
        )
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn value(name: &'static str, word: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(word).help(help)
}

/// Adds the flags for the rows of the table that `wanted` selects.
fn with_rows(command: Command, wanted: impl Fn(&Row) -> bool) -> Command {
    TABLE.iter().filter(|row| wanted(row)).fold(command, |command, row| command.arg(row_flag(row)))
}

fn row_flag(row: &'static Row) -> Arg {
    let default = if row.default.is_empty() { String::new() } else { format!(" [default: {}]", row.default) };
    let short = format!("{}{default}", row.help);
    let more = if row.more.is_empty() { String::new() } else { format!(" {}", row.more) };
    let long = format!("{}{more}\n[allowed: {}]{default} [env: {}]", row.help, row.kind.allowed(), row.variable());
    let arg = Arg::new(row.key)
        .long(row.flag())
        .value_name(row.kind.placeholder())
        .help_heading(row.section.word())
        .hide_short_help(row.rank == Rank::Detail)
        .allow_hyphen_values(false)
        .help(short)
        .long_help(long);
    let arg = if row.key == "scram_iterations" { arg.visible_alias("iterations").hide_short_help(false) } else { arg };
    match row.kind {
        Kind::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        kind if kind.is_list() => arg.action(ArgAction::Append),
        _ => arg,
    }
}

/// The option flags that were given.
pub fn given(matches: &ArgMatches) -> Flags {
    TABLE
        .iter()
        .filter_map(|row| {
            let texts = matches.try_get_many::<String>(row.key).ok()??;
            Some((row.key, texts.cloned().collect()))
        })
        .collect()
}
