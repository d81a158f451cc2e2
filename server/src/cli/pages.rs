//! `throng man` and `throng completions`: man pages, and completions for shells, for packages.
//!
//! Both come from clap's description, which comes from the table of options.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::{Failure, Io, done};

/// The command `man`.
pub fn man() -> Command {
    Command::new("man").about("Write a man page for each command to a folder").arg(
        Arg::new("into")
            .value_name("DIR")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("Folder, which is created if missing"),
    )
}

/// The command `completions`.
pub fn completions() -> Command {
    let shells = [Shell::Bash, Shell::Fish, Shell::Zsh];
    let shell = Arg::new("shell").value_name("SHELL").required(true).help("The shell");
    let names = shells.map(|shell| shell.to_string());
    Command::new("completions")
        .about("Print completions for a shell")
        .arg(shell.value_parser(clap::builder::PossibleValuesParser::new(names)))
        .after_help("Example:\n  throng completions bash > ~/.local/share/bash-completion/completions/throng")
}

/// Writes the man pages of `root`.
///
/// # Errors
/// A file cannot be written.
pub fn write_man(root: Command, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let into = matches.get_one::<PathBuf>("into").expect("clap requires it");
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", into.display()));
    std::fs::create_dir_all(into).map_err(failed)?;
    clap_mangen::generate_to(root, into).map_err(failed)?;
    let shown = into.display();
    match io.json {
        true => io.say_json(&done("written", serde_json::json!({ "folder": shown.to_string() }))),
        false => io.say(format!("man pages are in {shown}")),
    }
    Ok(())
}

/// Prints the completions of `root`.
pub fn print_completions(mut root: Command, matches: &ArgMatches, io: &mut Io) {
    let name = matches.get_one::<String>("shell").expect("clap requires it");
    let shell: Shell = name.parse().expect("clap allows these only");
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut root, "throng", &mut text);
    let text = String::from_utf8_lossy(&text);
    match io.json {
        true => io.say_json(&serde_json::json!({ "shell": name, "completions": text })),
        false => io.say(text.trim_end()),
    }
}
