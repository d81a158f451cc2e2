//! The reference page of the command line, and the test that keeps the pages of docs/reference up
//! to date.
//!
//! This module converts clap's description to text and does nothing else.

use clap::Command;

use super::args;

/// The text of docs/reference/command-line.md.
pub fn command_line() -> String {
    let mut page = String::from(
        "# Command line\n\n\
         Generated from `server/src/cli/args.rs`; refresh it with `UPDATE_REFERENCE=1 cargo test -p throng reference`.\n\
         The options of `throng serve`, which `throng config` takes as well, are described in\n\
         [configuration.md](configuration.md).\n",
    );
    let mut root = args::root().disable_help_subcommand(true);
    root.build();
    describe(&mut page, &root, "throng");
    page
}

fn describe(page: &mut String, command: &Command, path: &str) {
    // The long list of options has a page of its own.
    let long = matches!(path, "throng serve") || path.starts_with("throng config ");
    let mut shown = command.clone().max_term_width(100).term_width(100).disable_help_flag(true);
    if long {
        shown = shown.mut_args(|arg| {
            let option = crate::config::TABLE.iter().any(|row| row.key == arg.get_id().as_str());
            arg.hide(option)
        });
    }
    let text = shown.render_help().to_string();
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    *page += &format!("\n## {path}\n\n```text\n{}\n```\n", text.join("\n").trim());
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        describe(page, inner, &format!("{path} {}", inner.get_name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::page;
    use std::path::Path;

    /// Compares a page with its file; if UPDATE_REFERENCE is set, writes the file instead.
    fn current(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference").join(name);
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, text).expect("a page");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "docs/reference/{name} is not what the table says; refresh it with \
             `UPDATE_REFERENCE=1 cargo test -p throng reference`"
        );
    }

    #[test]
    fn the_reference_of_the_configuration_is_current() {
        current("configuration.md", &page::reference());
    }

    #[test]
    fn the_reference_of_the_command_line_is_current() {
        current("command-line.md", &command_line());
    }
}
