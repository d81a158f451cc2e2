//! The table as text: the reference page, `throng config print` and `throng config explain`.
//!
//! This module converts rows and values to text and does nothing else.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Loaded;
use super::kind::Kind;
use super::table::{Change, Row, Section, TABLE};

/// The sections in the order of the page.
const SECTIONS: [Section; 10] = [
    Section::Addresses,
    Section::Machine,
    Section::Tls,
    Section::SignIn,
    Section::Streams,
    Section::Messages,
    Section::Files,
    Section::Store,
    Section::Recorder,
    Section::Log,
];

fn change(row: &Row) -> &'static str {
    match row.change {
        Change::Restart => "at the next start",
        Change::Reload if row.is_knob() => "at `throng ctl knob set`, or `throng ctl reload`",
        Change::Reload => "at `throng ctl reload`",
    }
}

fn default(row: &Row) -> String {
    match row.default {
        "" => "empty".into(),
        text => format!("`{text}`"),
    }
}

/// The text of docs/reference/configuration.md.
pub fn reference() -> String {
    let mut page = String::from(
        "# Configuration\n\nGenerated from the table in `server/src/config/table.rs`; refresh it \
         with\n`UPDATE_REFERENCE=1 cargo test -p throng reference`.\n\nEvery option can be given \
         as a flag of `throng serve`, as an environment variable and in a TOML file. A flag\nbeats \
         the environment, the environment beats the file, the file beats the default. The file is \
         the one of\n`--config FILE`, else of `THRONG_CONFIG`, else `/etc/throng/throng.toml` if it exists \
         and no data folder is given,\nelse `throng.toml` in the data folder. `throng config print` shows\nevery value with its source, `throng config check` \
         checks without starting, `throng config explain KEY`\nshows one of the entries \
         below.\n\n```toml\n# throng.toml\ndomain = \"example.org\"\nc2s = [\"0.0.0.0:5222\", \
         \"[::]:5222\"]\nc2s_tls = [\"0.0.0.0:5223\", \"[::]:5223\"]\ntls_certificate = \
         \"/etc/throng/fullchain.pem\"\ntls_key = \"/etc/throng/privkey.pem\"\narchive_days = \
         90\nstanza_bytes_max = \"256KiB\"\n```\n",
    );
    for section in SECTIONS {
        let _ = write!(page, "\n## {}\n", section.word());
        for row in TABLE.iter().filter(|row| row.section == section) {
            let _ = write!(page, "\n### `{}`\n\n{}", row.key, row.help);
            if !row.more.is_empty() {
                let _ = write!(page, " {}", row.more);
            }
            let _ = write!(
                page,
                "\n\n| flag | variable | default | allowed | takes effect |\n| --- | --- | --- | --- | --- |\n\
                 | `--{}` | `{}` | {} | {} | {} |\n",
                row.flag(),
                row.variable(),
                default(row),
                row.kind.allowed(),
                change(row)
            );
        }
    }
    page
}

/// The entry of one option for a terminal, with its current value.
pub fn explain(row: &Row, loaded: Option<&Loaded>) -> String {
    let mut text = format!("{}\n  {}\n", row.key, row.help);
    if !row.more.is_empty() {
        let _ = writeln!(text, "  {}", row.more);
    }
    let spaced = |name: &str, value: &str| format!("  {name:<14}{value}\n");
    text += &spaced("flag", &format!("--{}", row.flag()));
    text += &spaced("environment", &row.variable());
    text += &spaced("file", &format!("{} = {}", row.key, toml(&row.kind, row.default)));
    text += &spaced("default", if row.default.is_empty() { "empty" } else { row.default });
    text += &spaced("allowed", &row.kind.allowed());
    text += &spaced("takes effect", &change(row).replace('`', ""));
    if let Some((loaded, value)) = loaded.and_then(|l| value(l, row).map(|value| (l, value))) {
        text += &spaced(
            "now",
            &format!("{} ({})", if value.is_empty() { "empty" } else { &value }, loaded.source(row.key)),
        );
    }
    text
}

fn value(loaded: &Loaded, row: &Row) -> Option<String> {
    let at = TABLE.iter().position(|other| other.key == row.key)?;
    loaded.config.shown().into_iter().nth(at)
}

/// A value as TOML.
fn toml(kind: &Kind, text: &str) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    match kind {
        Kind::Switch => text.to_owned(),
        kind if kind.is_list() => {
            let items: Vec<String> = text.split(',').filter(|item| !matches!(*item, "off" | "")).map(quoted).collect();
            format!("[{}]", items.join(", "))
        }
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => text.to_owned(),
        _ => quoted(text),
    }
}

/// All values as a TOML file with the source of each; reading it back yields the same values.
pub fn print(loaded: &Loaded) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let _ = writeln!(text, "{}# {}", if text.is_empty() { "" } else { "\n" }, section.word());
        for ((row, value), source) in TABLE.iter().zip(loaded.config.shown()).zip(&loaded.sources) {
            if row.section == section {
                let line = format!("{} = {}", row.key, toml(&row.kind, &value));
                let _ = writeln!(text, "{line:<48} # {source}");
            }
        }
    }
    text
}

/// All values as JSON: `{"key": {"value": .., "source": .., "default": bool}}`.
pub fn print_json(loaded: &Loaded) -> Value {
    let entries =
        TABLE.iter().zip(loaded.config.shown()).zip(&loaded.sources).map(|((row, value), source)| {
            (row.key.to_owned(), json!({ "value": value, "source": source.to_string() }))
        });
    Value::Object(entries.collect())
}

/// A list of all options, one line each.
pub fn list() -> String {
    TABLE.iter().fold(String::new(), |mut text, row| {
        let _ = writeln!(text, "{:<32}{}", row.key, row.help);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Flags, load};
    use super::*;

    #[test]
    fn printing_reads_back_as_the_same_values() {
        let mut flags = Flags::new();
        flags.insert("c2s", vec!["127.0.0.1:1".into(), "127.0.0.1:2".into()]);
        flags.insert("c2s_tls", vec!["off".into()]);
        flags.insert("tls_version_min", vec!["1.3".into()]);
        flags.insert("without", vec!["csi".into(), "carbons".into()]);
        let loaded = load(&flags, &Environment::new(), None).expect("good");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("printed.toml");
        std::fs::write(&path, print(&loaded)).expect("a file");
        let again = load(&Flags::new(), &Environment::new(), Some(path)).expect("printed TOML is good");
        assert_eq!(again.config, loaded.config);
        assert!(print(&loaded).contains("# flag --c2s"));
    }

    #[test]
    fn the_reference_has_every_option_and_every_section() {
        let page = reference();
        for row in TABLE {
            assert!(page.contains(&format!("### `{}`", row.key)), "{}", row.key);
            assert!(page.contains(&format!("`{}`", row.variable())), "{}", row.key);
        }
        assert_eq!(Section::WORDS.len(), SECTIONS.len());
        assert_eq!(page.matches("\n### ").count(), TABLE.len());
    }
}
