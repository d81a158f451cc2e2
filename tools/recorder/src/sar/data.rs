//! Output for programs: JSON, one object per line, and CSV. Times are UTC.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::number::rounded;
use super::rates::Moment;
use super::select::Pick;
use super::time::stamp;

fn number(value: Option<f64>) -> Value {
    value.map_or(Value::Null, |value| rounded(value).into())
}

/// A moment as an object: one key per module with one key per field, or one per row with its
/// fields.
pub(super) fn json_line(picks: &[Pick], moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
    let mut line = json!({ "time": stamp(moment.wall_ms), "seconds": rounded(moment.seconds) });
    for (pick, rows) in picks.iter().zip(&moment.rows) {
        let names = pick.fields.iter().map(|field| pick.module.fields[*field].name.to_string());
        let objects = rows.iter().map(|(name, numbers)| {
            let object: Map<String, Value> = names.clone().zip(numbers.iter().copied().map(number)).collect();
            (name.clone(), Value::Object(object))
        });
        let mut objects: Map<String, Value> = objects.collect();
        line[&*pick.module.name] = match pick.module.instance {
            Some(_) => Value::Object(objects),
            None => objects.remove("").unwrap_or(Value::Null),
        };
    }
    writeln!(out, "{line}")
}

/// The first line: `time,row` and one column per field.
pub(super) fn csv_head(picks: &[Pick], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "time,row")?;
    for pick in picks {
        for field in &pick.fields {
            write!(out, ",{}.{}", pick.module.name, pick.module.fields[*field].name)?;
        }
    }
    writeln!(out)
}

/// A line for all modules with one row, and one for each row of the others.
pub(super) fn csv_lines(picks: &[Pick], moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
    let time = stamp(moment.wall_ms);
    let mut line = |row: &str, has: &dyn Fn(usize) -> Option<usize>| -> io::Result<()> {
        let row = match row.contains([',', '"', '\n']) {
            true => format!("\"{}\"", row.replace('"', "\"\"")),
            false => row.to_owned(),
        };
        write!(out, "{time},{row}")?;
        for (at, pick) in picks.iter().enumerate() {
            let numbers = has(at).map(|row| &moment.rows[at][row].1);
            for field in 0..pick.fields.len() {
                match numbers.and_then(|numbers| numbers[field]) {
                    Some(value) => write!(out, ",{}", rounded(value))?,
                    None => write!(out, ",")?,
                }
            }
        }
        writeln!(out)
    };
    let single = |at: usize| picks[at].module.instance.is_none() && !moment.rows[at].is_empty();
    if (0..picks.len()).any(single) {
        line("", &|at| single(at).then_some(0))?;
    }
    for (of, rows) in moment.rows.iter().enumerate().filter(|(at, _)| picks[*at].module.instance.is_some()) {
        for (place, (name, _)) in rows.iter().enumerate() {
            line(name, &|at| (at == of).then_some(place))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, Module};

    #[test]
    fn a_moment_is_an_object_and_lines() {
        let fields = vec![Field::gauge("a", "", 6, ""), Field::gauge("b", "", 6, "")];
        let pick = |module: Module, fields: &[usize]| Pick { module, fields: fields.to_vec(), rows: None };
        let picks = [
            pick(Module::single("one", "", fields.clone()), &[0, 1]),
            pick(Module::single("many", "", fields).by("thing", 4), &[1]),
        ];
        let rows = vec![
            vec![(String::new(), vec![Some(1.0), None])],
            vec![("x".to_owned(), vec![Some(0.123_456)]), ("y,\"".to_owned(), vec![Some(3.0)])],
        ];
        let moment = Moment { wall_ms: 1000, seconds: 1.0, rows };
        let mut out = Vec::new();
        csv_head(&picks, &mut out).expect("memory");
        csv_lines(&picks, &moment, &mut out).expect("memory");
        let wanted = "time,row,one.a,one.b,many.b\n1970-01-01T00:00:01.000Z,,1,,\n1970-01-01T00:00:01.000Z,x,,,0.1235\n\
                      1970-01-01T00:00:01.000Z,\"y,\"\"\",,,3\n";
        assert_eq!(String::from_utf8(out).expect("text"), wanted);
        let mut out = Vec::new();
        json_line(&picks, &moment, &mut out).expect("memory");
        let got: Value = serde_json::from_slice(&out).expect("JSON");
        let wanted = json!({
            "time": "1970-01-01T00:00:01.000Z", "seconds": 1.0,
            "one": { "a": 1.0, "b": null }, "many": { "x": { "b": 0.1235 }, "y,\"": { "b": 3.0 } },
        });
        assert_eq!(got, wanted);
    }
}
