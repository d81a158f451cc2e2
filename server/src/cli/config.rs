//! `throng config`: print, check, explain.

use clap::ArgMatches;
use serde_json::json;

use super::{Exit, Failure, Io, Program};
use crate::config::{Loaded, TABLE, page, table};

/// Runs `throng config NAME`.
///
/// # Errors
/// The configuration's problems; a key that the table does not have.
pub fn run(
    name: &str,
    matches: &ArgMatches,
    loaded: Result<Loaded, Failure>,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    match name {
        "print" => {
            let loaded = loaded?;
            match io.json {
                true => io.say_json(&page::print_json(&loaded)),
                false => io.say(page::print(&loaded).trim_end()),
            }
            warn(&loaded, io);
        }
        "check" => return check(&loaded?, io, program),
        _ => return explain(matches.get_one::<String>("key"), loaded.ok().as_ref(), io),
    }
    Ok(())
}

/// Says whether a server would start with this, and whether clients would take its certificate.
fn check(loaded: &Loaded, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let standing = program.certificate(&loaded.config)?;
    let file = loaded.file.as_ref().map(|path| path.display().to_string());
    let good = standing.faults.is_empty();
    if io.json {
        let warnings: Vec<_> = loaded.warnings.iter().cloned().chain(standing.warnings()).collect();
        io.say_json(&json!({ "good": good, "file": file, "wrong": standing.faults, "warnings": warnings }));
    } else {
        warn(loaded, io);
        for warning in standing.warnings() {
            io.tell(format!("warning: {warning}"));
        }
        if good {
            io.say(format!("good{}", file.map(|file| format!(": {file}")).unwrap_or_default()));
        }
    }
    match (good, io.json) {
        (true, _) => Ok(()),
        (false, true) => Err(Failure::failed("")),
        (false, false) => Err(Failure::failed(standing.faults.join("\n"))),
    }
}

fn warn(loaded: &Loaded, io: &mut Io) {
    for warning in &loaded.warnings {
        io.tell(format!("warning: {warning}"));
    }
}

fn explain(key: Option<&String>, loaded: Option<&Loaded>, io: &mut Io) -> Result<(), Failure> {
    let Some(key) = key else {
        if io.json {
            TABLE.iter().for_each(|row| io.say_json(&json!({ "key": row.key, "help": row.help })));
        } else {
            io.say(page::list().trim_end());
        }
        return Ok(());
    };
    let row = table::row(key).ok_or_else(|| {
        let hint = match table::nearest(key) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`throng config explain` lists them all".into(),
        };
        Failure::new(Exit::Usage, format!("there is no option `{key}`; {hint}"))
    })?;
    if io.json {
        io.say_json(&json!({
            "key": row.key, "help": row.help, "more": row.more, "default": row.default,
            "allowed": row.kind.allowed(), "flag": format!("--{}", row.flag()), "variable": row.variable(),
        }));
    } else {
        io.say(page::explain(row, loaded).trim_end());
    }
    Ok(())
}
