//! The command line for clap: commands, their flags and the help texts.
//!
//! Flags of options come from the table of options. This module only describes; it carries nothing
//! out.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::config::kind::Kind;
use crate::config::table::Rank;
use crate::config::{Flags, Row, TABLE, table};

const ROOT: &str = "\
Examples:
  throng serve --open-registration      a server for this machine; data in the user's data folder
  throng user add romeo                 create romeo@localhost, asking for a password
  throng invite                         a link with which someone can create an account
  throng report list                    users reported for spam and abuse
  throng room list                      rooms for group chat
  throng ctl status                     the state of the running server
  throng config explain c2s             what an option means
  throng load --sessions 1000 --pairs 100   synthetic users against a running server
  throng doctor --connections 1000000   what this host lacks for that many
  throng sar                            the activity of this host, second by second
  throng top                            a live screen of the running server
  throng upload list                    files that users have uploaded
  throng import DIR                     migrate accounts from ejabberd or Prosody

Exit codes:
  0 done   1 failed   2 wrong usage or configuration   3 no server reachable
  4 data folder in use   5 no such user or session, or already exists   6 partly done
  Of a server: 7 shutdown timed out   70 panic   74 fatal error of the store";

const SERVE: &str = "\
Examples:
  throng serve
      localhost only, data in $XDG_DATA_HOME/throng, a self-signed certificate
  throng serve --data ./data --domain example.org --c2s 0.0.0.0:5222 --c2s-tls 0.0.0.0:5223 \\
      --tls-certificate fullchain.pem --tls-key privkey.pem
      a public server
  throng serve --c2s 127.0.0.1:0 --c2s-tls off --plain-auth --open-registration
      for tests: a port chosen by the system, passwords without TLS, open registration

Signals: SIGTERM and SIGINT stop gracefully, within shutdown_grace_seconds and \
shutdown_hard_seconds; a second one stops at once. SIGHUP reloads certificates and knobs. \
Every option can also be set by a variable (THRONG_DOMAIN) or in throng.toml (domain = ..); see \
`throng config`.";

const USER: &str = "\
Works whether the server is stopped (on the data folder) or running (through its control socket); \
the folder's lock shows which. This command converts passwords into SCRAM keys; neither the \
server nor the store sees them.

A store is bound to one main domain. The first `add` or `import` into a new data folder must name \
it: by --domain (or the configuration), or by the account's full name.

Examples:
  throng user add romeo                            asks for the password twice
  throng user add romeo@example.org                creates a store for example.org if there is none
  printf %s \"$PASSWORD\" | throng user add romeo --password-stdin
  throng user list --json
  throng user pending                              registrations awaiting approval
  throng user approve romeo
  throng user show romeo                           last seen, sessions, sizes, limits in effect
  throng user suspend romeo                        ends the sessions, refuses logins
  throng user resume romeo
  throng user import users.csv --data DIR --domain example.org";

const IMPORT: &str = "\
Each line is localpart,password. A first line that names the columns (`localpart,password`) is \
treated as a header, with a note; --header and --no-header override this. Instead of a password, \
a line may contain SCRAM keys in the format of RFC 5803, for one or more mechanisms, which need \
no hashing:
  romeo,{SCRAM-SHA-256$4096:SALT$KEY:KEY}{SCRAM-SHA-1$4096:SALT$KEY:KEY}

Most of the time is spent on hashing, on all cores, in proportion to --iterations. The default of \
4096 takes about 11 minutes per million users on two cores; 10000 (the default of other commands) \
takes 29. Imported accounts remain if a later line fails; running the same file again skips them.

Examples:
  throng user import users.csv --data DIR --domain example.org
  gen-users | throng user import - --keep-going --json
  throng user import users.csv --existing update     set the file's passwords for existing users";

const CONFIG: &str = "\
Takes the same flags, variables and file as `throng serve`.

Examples:
  throng config print                      all values as TOML, each with its source
  throng config check --config throng.toml
  throng config explain stanza_bytes_max";

const CTL: &str = "\
Examples:
  throng ctl status                        the state, and problems; with --all every figure
  throng ctl sessions romeo@localhost
  throng ctl kick romeo@localhost/balcony --reason 'please update'
  throng ctl say --all --urgent 'Restart at noon'
  throng ctl announce 'Maintenance on Sunday' --later --for 3d
  throng ctl queue flush romeo@localhost
  throng ctl limits list                   who is limited, by which limit, and until when
  throng ctl housekeeping pause --for 1h
  throng ctl shutdown --grace 30
  throng ctl shutdown --after 5m           --cancel cancels it
  throng ctl reload                        certificates and knobs, without a restart
  throng ctl knob set log_level debug --for 10m
  throng ctl trace --jid romeo@localhost   one user's stanzas, live
  throng ctl profile cpu --seconds 30      a flame graph of the running server";

const KNOB: &str = "\
Examples:
  throng ctl knob list                     all knobs, with value and source
  throng ctl knob get log_level
  throng ctl knob set log_level debug --for 10m
  throng ctl knob reset log_level          back to the configured value
  throng ctl knob reset --all

A value stays in effect until it is reset, its time is over, or the server stops; `throng ctl \
reload` does not change it.";

const SESSIONS: &str = "\
ADDRESS   the client's, as the kernel reports it; (resumable): the connection is lost, the \
session can be resumed (XEP-0198)
TLS       the version; - without
AGE       since the resource was bound or the session resumed; if resumable, since it lost its \
connection
IDLE      since the last input from the client
PRIO      priority of its presence; - while it is not available
UNSENT    output that the client has not read yet";

const STORE: &str = "\
Examples:
  throng store check
  throng store salvage --into ./whole      recover what can be read of a damaged store
  throng store backup /backups/today       works while the server runs
  throng store backup verify /backups/today
  throng store restore /backups/today --data ./new
  throng store restore --from file:///backups/live --at 2026-11-29T01:02:03Z --data ./new
  throng store drill --from file:///backups/live    is the continuous backup good?
  throng store migrate                     upgrade a folder of an earlier version
  throng store partitions                  contents of each of the 4,096 partitions
  throng store export --partition 17 part17.export
  throng store import part17.export --data ./other";

const DRILL: &str = "\
For cron: exit code 0 if the backup can be restored and all of it is sound, 1 otherwise; --json \
prints one object. The scratch folder needs as much space as the store.

Examples:
  throng store drill --from file:///backups/live --age-max 86400 --json
  throng store drill --from file:///backups/live --at 2026-11-29T01:02:03Z --scratch /var/tmp";

const MIGRATE: &str = "Starting the server does the same. An interrupted migration continues where \
                       it stopped. The only way back to the earlier format is a backup made with \
                       the earlier version.";

/// The whole command line.
pub fn root() -> Command {
    Command::new("throng")
        .about("An XMPP messaging server for very many, mostly idle, devices")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(ROOT)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(110)
        .arg(flag("verbose", "With --version: what `throng version --verbose` prints").requires("version").hide(true))
        .arg(flag("json", "Answer in JSON, for scripts").global(true).help_heading("General"))
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(std::path::PathBuf))
                .global(true)
                .help_heading("General")
                .help(
                    "Configuration file [env: THRONG_CONFIG] [default: /etc/throng/throng.toml if \
                     it exists and no data folder is given, else throng.toml in the data folder, if \
                     it exists]",
                ),
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
        .subcommand(super::room::command(|command| {
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
        .subcommand(super::pages::man())
        .subcommand(super::pages::completions())
        .subcommand(
            Command::new("version")
                .about("Print the version")
                .arg(flag("verbose", "Also print formats, build, libraries, and what this host allows")),
        )
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
                value("password", "TEXT", "The password; visible to other users of this machine in the process list")
                    .conflicts_with("password-stdin"),
            )
            .arg(flag("password-stdin", "Read the password from the first line of standard input"))
    };
    Command::new("user")
        .about("Manage accounts")
        .after_help(USER)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(password(Command::new("add")).about("Create an account").arg(jid()))
        .subcommand(password(Command::new("passwd")).about("Change an account's password").arg(jid()))
        .subcommand(
            rows(Command::new("del"))
                .about("Delete an account with all its data")
                .arg(jid())
                .arg(flag("yes", "Do not ask for confirmation").short('y')),
        )
        .subcommand(rows(Command::new("list")).about("List accounts, one per line"))
        .subcommand(
            rows(Command::new("suspend"))
                .about("End a user's sessions and refuse further logins; stored data is kept")
                .arg(jid()),
        )
        .subcommand(rows(Command::new("resume")).about("Let a suspended user log in again").arg(jid()))
        .subcommand(
            rows(Command::new("show"))
                .about("Show an account: last seen, sessions, stored data, limits in effect")
                .arg(jid()),
        )
        .subcommand(rows(Command::new("pending")).about("List accounts awaiting approval (registration = approval)"))
        .subcommand(rows(Command::new("approve")).about("Approve an account").arg(jid()))
        .subcommand(
            rows(Command::new("reject"))
                .about("Reject and delete an account awaiting approval")
                .arg(jid())
                .arg(flag("yes", "Do not ask for confirmation").short('y')),
        )
        .subcommand(
            hashing(Command::new("import"))
                .about("Create many accounts from a CSV file")
                .after_help(IMPORT)
                .arg(Arg::new("file").value_name("FILE.csv").required(true).help("The file; - for standard input"))
                .arg(
                    value("existing", "WORD", "How to treat existing users: error, skip or update")
                        .value_parser(["error", "skip", "update"])
                        .default_value("skip"),
                )
                .arg(flag("header", "The first line is a header").conflicts_with("no-header"))
                .arg(flag("no-header", "The first line is an account, even if it looks like a header"))
                .arg(flag("keep-going", "Continue after lines that cannot be imported; all are reported at the end"))
                .arg(
                    value("threads", "N", "Threads that hash passwords [default: all cores]")
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
        .subcommand(rows(Command::new("check")).about("Check the configuration without starting"))
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
    let keyed = |command| {
        with_rows(command, |row| matches!(row.key, "data" | "backup_key" | "backup_endpoint" | "backup_credentials"))
    };
    let from = || {
        let help = "URL of a continuous backup, as the server's backup_to";
        Arg::new("from").long("from").value_name("URL").help(help)
    };
    let at = || {
        let help = "Restore the store of this time, such as 2026-11-29T01:02:03Z; the newest if not given";
        Arg::new("at").long("at").value_name("TIME").requires("from").value_parser(crate::backup::time_ms).help(help)
    };
    Command::new("store")
        .about("Check, salvage, back up, restore, migrate, export and import the data folder")
        .after_help(STORE)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            rows(Command::new("check"))
                .about("Read every byte and report damage, without changes; the server must be stopped"),
        )
        .subcommand(
            rows(Command::new("salvage"))
                .about("Copy all intact rows to a new store; the damaged store is not changed")
                .arg(
                    Arg::new("into")
                        .long("into")
                        .value_name("DIR")
                        .required(true)
                        .value_parser(value_parser!(std::path::PathBuf))
                        .help("Data folder to create; must be empty or not exist"),
                ),
        )
        .subcommand(
            rows(Command::new("backup"))
                .about("Copy a consistent snapshot of the store; the server may be running")
                .subcommand_negates_reqs(true)
                .args_conflicts_with_subcommands(true)
                .arg(folder("Folder to create; must be empty or not exist"))
                .subcommand(
                    Command::new("verify")
                        .about("Read every byte of a backup and report damage, without changes")
                        .arg(folder("Folder of the backup")),
                ),
        )
        .subcommand(
            keyed(Command::new("restore"))
                .about("Create the data folder from a backup; it must not contain a store")
                .arg(folder("Folder of the backup").required_unless_present("from").required(false))
                .arg(from().conflicts_with("folder"))
                .arg(at()),
        )
        .subcommand(
            keyed(Command::new("drill"))
                .about("Restore a continuous backup into a scratch folder, check it, and remove it")
                .after_help(DRILL)
                .arg(from().required(true))
                .arg(at())
                .arg(
                    Arg::new("scratch")
                        .long("scratch")
                        .value_name("DIR")
                        .value_parser(value_parser!(std::path::PathBuf))
                        .help("Folder in which the scratch folder is created; the system's for temporary files if not given"),
                )
                .arg(
                    Arg::new("age-max")
                        .long("age-max")
                        .value_name("SECONDS")
                        .value_parser(value_parser!(u64))
                        .help("Fail if the newest commit in the backup is older"),
                ),
        )
        .subcommand(
            rows(Command::new("migrate"))
                .about("Upgrade a store of an earlier format in place; the server must be stopped")
                .after_help(MIGRATE),
        )
        .subcommands(super::partitions::commands(&rows))
}

fn ctl() -> Command {
    let rows = |command| with_rows(command, |row| matches!(row.key, "data" | "admin_socket"));
    Command::new("ctl")
        .about("Control a running server through its control socket")
        .after_help(CTL)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            rows(Command::new("status"))
                .about("Show the server's state and its problems")
                .arg(flag("all", "Show every figure: memory by part, and all counters")),
        )
        .subcommand(
            with_rows(Command::new("dashboard"), |row| matches!(row.key, "data" | "admin_socket" | "admin_http_token"))
                .about("Print the dashboard's address, including the token"),
        )
        .subcommand(
            rows(Command::new("sessions"))
                .about("List bound sessions")
                .after_help(SESSIONS)
                .arg(Arg::new("jid").value_name("JID").help("Only sessions of this bare or full JID")),
        )
        .subcommand(
            rows(Command::new("kick"))
                .about("End the sessions of a JID")
                .arg(Arg::new("jid").value_name("JID").required(true).help("Bare or full JID"))
                .arg(value("reason", "TEXT", "Reason shown to the client")),
        )
        .subcommand(
            rows(Command::new("say"))
                .about("Send a message from the server to sessions")
                .arg(Arg::new("text").value_name("TEXT").required(true))
                .arg(flag("all", "To every session").conflicts_with("to").required_unless_present("to"))
                .arg(flag("urgent", "Deliver it before output that is already queued"))
                .arg(value("to", "JID", "To this bare or full JID; may be repeated").action(ArgAction::Append)),
        )
        .subcommand(rows(Command::new("components")).about("List external components, connected or away"))
        .subcommand(
            rows(Command::new("connections"))
                .about("List addresses with connections that have not logged in, those with the most first"),
        )
        .subcommand(
            rows(Command::new("announce"))
                .about("Send an announcement to all sessions, a few thousand at a time, and to users who log in later")
                .arg(Arg::new("text").value_name("TEXT").required_unless_present("withdraw"))
                .arg(flag("later", "Also send it once to each user who logs in later"))
                .arg(flag("only-later", "Do not send it to users who are online now").requires("later"))
                .arg(
                    value(
                        "for",
                        "TIME",
                        "Send it to users who log in within this time: 12h, 7d; up to 366 days \
                         [default: 30d]",
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
                .about("Stop gracefully, and wait until the server has stopped")
                .arg(
                    value("grace", "SECONDS", "Time that streams have to close [default: as configured]")
                        .value_parser(value_parser!(u64).range(0..=3_600)),
                )
                .arg(flag("no-wait", "Return once the shutdown has begun"))
                .arg(
                    value("after", "TIME", "Begin after this time: 90, 5m; up to a day; returns at once")
                        .value_parser(super::ctl::stops_in)
                        .conflicts_with("no-wait"),
                )
                .arg(flag("cancel", "Cancel a scheduled shutdown").conflicts_with_all(["grace", "no-wait", "after"])),
        )
        .subcommand(
            Command::new("clock")
                .about("The server's wall clock")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(
                    rows(Command::new("confirm"))
                        .about("Confirm that a doubted clock is right, so that deletion by age continues"),
                ),
        )
        .subcommand(rows(Command::new("reload")).about("Reload certificates and knobs"))
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
                .about(
                    "Close a user's connections and drop their queued output; messages wait for \
                     the user's next session",
                )
                .arg(Arg::new("jid").value_name("JID").required(true).help("Bare or full JID")),
        )
}

fn waiting(rows: impl Fn(Command) -> Command) -> Command {
    Command::new("waiting")
        .about("Messages that wait for offline users")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            rows(Command::new("flush"))
                .about("Drop the waiting messages of a user without a session; they stay in the archive, if enabled")
                .arg(Arg::new("jid").value_name("JID").required(true).help("Bare JID"))
                .arg(flag("yes", "Do not ask for confirmation; required without a terminal").short('y')),
        )
}

fn housekeeping(rows: impl Fn(Command) -> Command) -> Command {
    let lasting = |command: Command| rows(command).arg(lasting());
    Command::new("housekeeping")
        .about("Compaction of tables and removal of old messages: the knob housekeeping")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(lasting(Command::new("pause")).about("Pause it"))
        .subcommand(lasting(Command::new("resume")).about("Resume it"))
}

fn lasting() -> Arg {
    value("for", "TIME", "Restore the earlier value after this time: 90, 10m, 2h, 1d; up to 30 days")
        .value_parser(super::knob::while_)
}

fn knob(rows: impl Fn(Command) -> Command) -> Command {
    let key = || Arg::new("key").value_name("KEY").help("The option's key");
    Command::new("knob")
        .about("Options that can be changed while the server runs")
        .after_help(KNOB)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(rows(Command::new("list")).about("List all knobs, and recent changes"))
        .subcommand(rows(Command::new("get")).about("Show one").arg(key().required(true)))
        .subcommand(
            rows(Command::new("set"))
                .about("Set one")
                .arg(key().required(true))
                .arg(Arg::new("value").value_name("VALUE").required(true).help("As in the configuration file"))
                .arg(lasting()),
        )
        .subcommand(
            rows(Command::new("reset"))
                .about("Reset one, or all, to the configured value")
                .arg(key().required_unless_present("all"))
                .arg(flag("all", "All knobs that have been set").conflicts_with("key")),
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
    TABLE.iter().filter(|row| wanted(row)).flat_map(flags_of).fold(command, Command::arg)
}

/// The flag of a row, then those of its former names, which help does not show.
fn flags_of(row: &'static Row) -> impl Iterator<Item = Arg> {
    row.names().enumerate().map(move |(at, name)| row_flag(row).id(name).long(table::flag(name)).hide(at > 0))
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
    let names = TABLE.iter().flat_map(Row::names);
    names.filter_map(|name| Some((name, matches.try_get_many::<String>(name).ok()??.cloned().collect()))).collect()
}
