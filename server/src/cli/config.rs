//! `throng config`: print, check, explain.

use clap::ArgMatches;
use serde_json::json;

use super::{Exit, Failure, Io, Program};
use crate::config::{Loaded, Problems, TABLE, page, table};

/// Runs `throng config NAME`.
///
/// # Errors
/// The configuration's problems, which `print` shows together with the values; a key that the table
/// lacks.
pub fn run(
    name: &str,
    matches: &ArgMatches,
    (loaded, problems): (Loaded, Problems),
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    let whole = if problems.0.is_empty() { Ok(()) } else { Err(Failure::from(problems)) };
    match name {
        "print" => {
            match io.json {
                true => io.say_json(&page::print_json(&loaded)),
                false => io.say(page::print(&loaded).trim_end()),
            }
            warn(&loaded, io);
            whole
        }
        "check" => whole.and_then(|()| check(&loaded, io, program)),
        _ => explain(matches.get_one::<String>("key"), whole.is_ok().then_some(&loaded), io),
    }
}

/// Reports whether a server would start with this configuration, whether clients would accept its
/// certificate, and whether other users of the host can read its secrets.
fn check(loaded: &Loaded, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let mut checked = program.look(&loaded.config);
    let file = loaded.file.as_ref().map(|path| path.display().to_string());
    checked.refused.extend(checked.wrong.into_iter().map(Failure::failed));
    let failure = Failure::of_all(checked.refused.clone());
    if io.json {
        let wrong: Vec<_> = checked.refused.iter().map(|failure| &failure.text).collect();
        let warnings: Vec<_> = loaded.warnings.iter().chain(&checked.warnings).collect();
        io.say_json(&json!({ "good": failure.is_none(), "file": file, "wrong": wrong, "warnings": warnings }));
    } else {
        warn(loaded, io);
        for warning in &checked.warnings {
            io.tell(format!("warning: {warning}"));
        }
        if failure.is_none() {
            io.say(format!("good{}", file.map(|file| format!(": {file}")).unwrap_or_default()));
        }
    }
    match failure {
        None => Ok(()),
        Some(failure) if io.json => Err(Failure::new(failure.exit, "")),
        Some(failure) => Err(failure),
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
        Failure::new(Exit::Usage, format!("unknown option `{key}`; {hint}"))
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
