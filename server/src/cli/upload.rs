//! `throng upload`: lists and purges uploaded files, with the server stopped or running.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use throng_recorder::clock::wall_s;

use super::accounts::{bare, no_folder};
use super::{Exit, Failure, Io, age, many};
use crate::config::Loaded;
use crate::upload::{Files, Listed};

const HELP: &str = "\
Works on the folder upload of the data folder, whether the server runs or not. A running server \
notices the change within a few minutes.

USER     owner of the file
BYTES    of the file
AGE      since it was uploaded
LEFT     until it is removed; over: at the server's next sweep
FILE     its identifier, the first part of its URL's path
NAME     file name for downloads

Examples:
  throng upload list
  throng upload list --user romeo --json
  throng upload purge --user romeo
  throng upload purge --older-than 7
  throng upload purge --file 0123456789abcdef0123456789abcdef
  throng upload purge --all --yes";

/// The command, with the options of the data folder that `rows` adds.
pub(super) fn command(rows: impl Fn(Command) -> Command) -> Command {
    let user = || {
        Arg::new("user").long("user").value_name("USER").help("Only files of this user: localpart, or localpart@domain")
    };
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("upload")
        .about("List and purge uploaded files")
        .after_help(HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(rows(Command::new("list")).about("List files, one per line").after_help(HELP).arg(user()))
        .subcommand(
            rows(Command::new("purge"))
                .about("Delete files; without --all, only those that match all of the other flags")
                .after_help(HELP)
                .arg(user())
                .arg(
                    Arg::new("older-than")
                        .long("older-than")
                        .value_name("DAYS")
                        .value_parser(value_parser!(u64).range(0..=36_500))
                        .help("Only files uploaded at least this many days ago"),
                )
                .arg(Arg::new("file").long("file").value_name("FILE").help("Only the file with this identifier"))
                .arg(flag("all", "All files").conflicts_with_all(["user", "older-than", "file"]))
                .arg(flag("yes", "Do not ask on a terminal").short('y')),
        )
}

/// The selected files.
struct Chosen {
    user: Option<String>,
    came_before_s: Option<u64>,
    file: Option<String>,
}

impl Chosen {
    fn takes(&self, listed: &Listed) -> bool {
        let about = listed.about.as_ref();
        self.user.as_deref().is_none_or(|user| about.is_some_and(|about| about.owner == user))
            && self.came_before_s.is_none_or(|before_s| about.is_some_and(|about| about.came_s <= before_s))
            && self.file.as_deref().is_none_or(|file| file == listed.id)
    }
}

/// Runs `throng upload NAME`.
///
/// # Errors
/// There is no data folder, or it cannot be read or changed.
pub(super) fn run(name: &str, matches: &ArgMatches, loaded: &Loaded, io: &mut Io) -> Result<(), Failure> {
    let config = &loaded.config;
    if !config.data.exists() {
        return Err(no_folder(config));
    }
    let now_s = wall_s();
    let user = matches.get_one::<String>("user").map(|user| bare(user, &config.domain)).transpose();
    let mut chosen =
        Chosen { user: user.map_err(|why| Failure::new(Exit::Usage, why))?, came_before_s: None, file: None };
    if name == "list" {
        return list(&chosen, loaded, io, now_s);
    }
    chosen.came_before_s = matches.get_one::<u64>("older-than").map(|days| now_s.saturating_sub(days * 86_400));
    chosen.file = matches.get_one::<String>("file").cloned();
    let some = chosen.user.is_some() || chosen.came_before_s.is_some() || chosen.file.is_some();
    if !some && !matches.get_flag("all") {
        let text = "select files with --user USER, --older-than DAYS, --file FILE, or --all";
        return Err(Failure::new(Exit::Usage, text));
    }
    if io.terminal && !matches.get_flag("yes") && !io.confirmed("Remove these files? Type yes: ") {
        return Err(Failure::failed("nothing was removed"));
    }
    purge(&chosen, loaded, io)
}

/// Visits the selected files.
fn visit(
    chosen: &Chosen,
    loaded: &Loaded,
    mut visit: impl FnMut(&Listed) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for part in 0..=u8::MAX {
        let listed = Files::list(&loaded.config.data, part).map_err(Failure::failed)?;
        listed.iter().filter(|listed| chosen.takes(listed)).try_for_each(&mut visit)?;
    }
    Ok(())
}

fn list(chosen: &Chosen, loaded: &Loaded, io: &mut Io, now_s: u64) -> Result<(), Failure> {
    if !io.json {
        io.say(format!("{:<32} {:>12} {:>7} {:>7}  {:<32}  NAME", "USER", "BYTES", "AGE", "LEFT", "FILE"));
    }
    visit(chosen, loaded, |listed| {
        let Listed { id, about, bytes } = listed;
        match about {
            _ if io.json => io.say_json(&json!({ "file": id, "bytes_on_disk": bytes, "about": about })),
            None => io.say(format!("{:<32} {bytes:>12} {:>7} {:>7}  {id}  damaged", "-", "-", "-")),
            Some(about) => {
                let left = match about.expires_s.saturating_sub(now_s) {
                    0 => "over".to_owned(),
                    left => age(left),
                };
                let came = age(now_s.saturating_sub(about.came_s));
                io.say(format!("{:<32} {:>12} {came:>7} {left:>7}  {id}  {}", about.owner, about.size, about.name));
            }
        }
        Ok(())
    })
}

fn purge(chosen: &Chosen, loaded: &Loaded, io: &mut Io) -> Result<(), Failure> {
    let (mut files, mut bytes) = (0_u64, 0);
    visit(chosen, loaded, |listed| {
        Files::remove(&loaded.config.data, &listed.id).map_err(Failure::failed)?;
        files += 1;
        bytes += listed.bytes;
        Ok(())
    })?;
    match io.json {
        true => io.say_json(&json!({ "done": "purged", "files": files, "bytes": bytes })),
        false => io.say(format!("removed {}, {}", many(files, "file"), super::bytes(bytes))),
    }
    if files == 0 && chosen.file.is_some() {
        return Err(Failure::new(Exit::NotThere, "there is no such file"));
    }
    Ok(())
}
