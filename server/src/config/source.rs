//! The sources of values: flags, environment, file, default, in this order of precedence.
//!
//! This module handles names and texts. It does not judge values; the table does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::check::{Problem, Source};
use super::table::{RENAMED, Row, TABLE, flag, nearest, row, variable};

/// Environment variables, as a map so that tests have their own.
pub type Environment = BTreeMap<String, String>;

/// The values given by flags: name of an option, present or former, and its texts.
pub type Flags = BTreeMap<&'static str, Vec<String>>;

/// Largest configuration file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of an option and its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    /// One text, or several for a list.
    pub parts: Vec<String>,
    /// Where it stands.
    pub source: Source,
}

/// The values of a file, by name of the option, present or former.
pub type FileValues = BTreeMap<&'static str, Given>;

/// Reads a file's values; problems are collected, so that one run reports all of them.
pub fn read_file(path: &Path, problems: &mut Vec<Problem>) -> FileValues {
    match read_text(path) {
        Ok(text) => parse_file(path, &text, problems),
        Err(reason) => {
            problems.push(Problem::Unreadable { path: path.to_owned(), reason });
            FileValues::new()
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("{length} bytes long; the limit is {FILE_BYTES_MAX}"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Reads the TOML text of a file named `path`.
pub fn parse_file(path: &Path, text: &str, problems: &mut Vec<Problem>) -> FileValues {
    let line_at = |offset: usize| 1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count();
    let mut values = FileValues::new();
    let table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            let line = error.span().map_or(1, |span| line_at(span.start));
            problems.push(Problem::Syntax { path: path.to_owned(), line, reason: error.message().to_owned() });
            return values;
        }
    };
    for (key, value) in table {
        let source = Source::File(path.to_owned(), line_at(key.span().start));
        let spelled = |row: &'static Row| Some((row, row.names().find(|name| *name == key.get_ref().as_ref())?));
        let Some((row, name)) = TABLE.iter().find_map(spelled) else {
            let key = key.get_ref().to_string();
            let nearest = row(&key).map(|row| row.key).or_else(|| nearest(&key));
            problems.push(Problem::Unknown { source, key, nearest });
            continue;
        };
        match texts(row, value.get_ref()) {
            Some(parts) => drop(values.insert(name, Given { parts, source })),
            None => {
                let found = value.get_ref().type_str().to_owned();
                problems.push(Problem::Value { source, key: row.key, found, allowed: row.kind.allowed() });
            }
        }
    }
    values
}

/// The texts of a TOML value; `None` for types that no option has.
fn texts(row: &Row, value: &DeValue<'_>) -> Option<Vec<String>> {
    let scalar = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix()).ok().map(|number| number.to_string())
        }
        // A version such as 1.3 may be written without quotes.
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    };
    match value {
        DeValue::Array(items) if row.kind.is_list() => {
            if items.is_empty() {
                return Some(vec!["off".into()]);
            }
            items.iter().map(|item| scalar(item.get_ref())).collect()
        }
        _ => scalar(value).map(|text| vec![text]),
    }
}

/// The default of `data`: `$XDG_DATA_HOME/throng`, `~/.local/share/throng`, `./throng-data`. It
/// does not depend on the working directory unless there is no home, so that `throng user` finds
/// the store that `throng serve` created.
pub fn default_data(environment: &Environment) -> PathBuf {
    let folder = |name: &str| environment.get(name).filter(|path| path.starts_with('/')).map(PathBuf::from);
    match (folder("XDG_DATA_HOME"), folder("HOME")) {
        (Some(data), _) => data.join("throng"),
        (None, Some(home)) => home.join(".local/share/throng"),
        (None, None) => PathBuf::from("throng-data"),
    }
}

/// The value of one row by precedence.
pub fn pick(row: &'static Row, flags: &Flags, environment: &Environment, file: &FileValues) -> Given {
    let by_flag = |name| Some(Given { parts: flags.get(name)?.clone(), source: Source::Flag(flag(name)) });
    let by_variable = |name| {
        let name = variable(name);
        Some(Given { parts: vec![environment.get(&name)?.clone()], source: Source::Variable(name) })
    };
    let given = row.names().find_map(by_flag);
    let given = given.or_else(|| row.names().find_map(by_variable));
    let given = given.or_else(|| row.names().find_map(|name| file.get(name).cloned()));
    given.unwrap_or_else(|| default(row, environment))
}

/// The value of one row for which nothing was given.
pub fn default(row: &Row, environment: &Environment) -> Given {
    let text = match row.key {
        "data" => default_data(environment).display().to_string(),
        _ => row.default.to_owned(),
    };
    Given { parts: vec![text], source: Source::Default }
}

/// Variables that look like options but are none: one warning each, because other programs may use
/// the name.
pub fn strange_variables(environment: &Environment) -> Vec<String> {
    environment
        .keys()
        .filter(|name| name.starts_with("THRONG_") && *name != "THRONG_CONFIG" && row(name).is_none())
        .map(|name| match nearest(name).and_then(row) {
            Some(near) => format!("environment {name}: unknown option; did you mean {}?", near.variable()),
            None => format!("environment {name}: unknown option"),
        })
        .collect()
}

/// One warning for each value that is given under a former name.
pub fn former_names(flags: &Flags, environment: &Environment, file: &FileValues) -> Vec<String> {
    let of = |old: &'static str| {
        let by_flag = flags.contains_key(old).then(|| Source::Flag(flag(old)));
        let by_variable = Some(variable(old)).filter(|name| environment.contains_key(name)).map(Source::Variable);
        let in_file = file.get(old).map(|given| given.source.clone());
        [by_flag, by_variable, in_file].into_iter().flatten()
    };
    RENAMED
        .iter()
        .flat_map(|renamed| of(renamed.old).map(move |source| (source, renamed)))
        .map(|(source, renamed)| {
            let (old, key, until) = (renamed.old, renamed.key, renamed.until);
            format!("{source}: `{old}` is now called `{key}`; version {until} will not know the former name")
        })
        .collect()
}
