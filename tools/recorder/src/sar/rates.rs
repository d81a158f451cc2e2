//! Derives displayed numbers from two samples: rates, shares, quotients.

use super::select::Pick;
use crate::schema::{Field, Kind, Module};
use crate::table::{ABSENT, Sample};

/// Rows of one pick: their names, and one number per field.
pub type Rows = Vec<(String, Vec<Option<f64>>)>;

/// The displayed numbers of the time between two samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Moment {
    /// Its end, in milliseconds since 1970 (UTC).
    pub wall_ms: u64,
    /// Its length.
    pub seconds: f64,
    /// Rows of each pick.
    pub rows: Vec<Rows>,
}

/// The recorded number of a field in a row.
fn recorded(module: &Module, field: usize, row: &[u64]) -> Option<u64> {
    let slot = module.fields[..field].iter().filter(|field| field.is_recorded()).count();
    row.get(slot).copied().filter(|value| *value != ABSENT)
}

/// The growth of a number. A number that fell was reset in between, so its growth is unknown.
fn growth(module: &Module, field: usize, from: &[u64], to: &[u64]) -> Option<f64> {
    let (from, to) = (recorded(module, field, from)?, recorded(module, field, to)?);
    to.checked_sub(from).map(|growth| growth as f64)
}

fn shown(module: &Module, field: usize, from: &[u64], to: &[u64], seconds: f64) -> Option<f64> {
    let Field { kind, per, .. } = &module.fields[field];
    let per = f64::from(*per);
    match kind {
        Kind::Gauge => recorded(module, field, to).map(|value| value as f64 / per),
        Kind::Count => growth(module, field, from, to).map(|growth| growth / per / seconds),
        Kind::Time => growth(module, field, from, to).map(|growth| 100.0 * growth / per / seconds),
        Kind::Share => {
            let shares = (0..module.fields.len()).filter(|at| module.fields[*at].kind == Kind::Share);
            // A share may fall slightly: the kernel's idle and iowait do (proc(5)).
            let of = |at| Some((recorded(module, at, to)?).saturating_sub(recorded(module, at, from)?) as f64);
            let whole: f64 = shares.filter_map(of).sum();
            let part = of(field)?;
            Some(if whole > 0.0 { 100.0 * part / whole } else { 0.0 })
        }
        Kind::Quotient { of, by, times } => {
            let part = |name: &str| {
                let at = module.field(name)?;
                let unit = f64::from(module.fields[at].per);
                let value = match module.fields[at].only_grows() {
                    true => growth(module, at, from, to),
                    false => recorded(module, at, to).map(|value| value as f64),
                };
                value.map(|value| value / unit)
            };
            let (of, by) = (part(of)?, part(by)?);
            // Zero by zero is shown as 0: no read was slow.
            Some(if by > 0.0 { f64::from(*times) * of / by } else { 0.0 })
        }
    }
}

/// The displayed numbers of the time between two samples.
pub fn between(picks: &[Pick], from: &Sample, to: &Sample) -> Moment {
    since(picks, from, None, to)
}

/// The same, except that rows missing in the first sample are measured from an earlier one.
pub(super) fn since(picks: &[Pick], from: &Sample, each: Option<&Sample>, to: &Sample) -> Moment {
    let rows = picks.iter().map(|pick| rows(pick, from, each, to).unwrap_or_default()).collect();
    Moment { wall_ms: to.wall_ms(), seconds: seconds(from, to), rows }
}

fn seconds(from: &Sample, to: &Sample) -> f64 {
    to.monotonic_us().saturating_sub(from.monotonic_us()).max(1) as f64 / 1e6
}

/// The numbers of a module's row.
fn row<'a>(sample: &'a Sample, module: &Module, name: &str) -> Option<&'a [u64]> {
    let shape = &sample.shape;
    let at = shape.schema().module(&module.name)?;
    let row = shape.rows()[at].iter().position(|known| known == name)?;
    let first = shape.row_at(at, row);
    Some(&sample.values[first..shape.row_at(at, row + 1)])
}

fn rows(pick: &Pick, from: &Sample, each: Option<&Sample>, sample: &Sample) -> Option<Rows> {
    let module = &pick.module;
    let at = sample.shape.schema().module(&module.name)?;
    let wanted = |name: &&String| pick.rows.as_ref().is_none_or(|rows| rows.contains(name));
    let mut found = Rows::new();
    for name in sample.shape.rows()[at].iter().filter(wanted) {
        let Some(to) = row(sample, module, name) else { continue };
        // An instance that no longer exists.
        if module.instance.is_some() && to.iter().all(|value| *value == ABSENT) {
            continue;
        }
        let known = |before| Some((row(before, module, name)?, seconds(before, sample)));
        let (from, seconds) = known(from).or_else(|| known(each?)).unwrap_or((&[], 1.0));
        let numbers = pick.fields.iter().map(|field| shown(module, *field, from, to, seconds));
        found.push((name.clone(), numbers.collect()));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::schema::Schema;
    use crate::table::Shape;

    fn samples(fields: Vec<Field>, from: &[u64], to: &[u64]) -> Vec<Option<f64>> {
        let module = Module::single("m", "", fields);
        let picks = [Pick { fields: (0..module.fields.len()).collect(), module: module.clone(), rows: None }];
        let schema = Arc::new(Schema { modules: vec![module], ..Schema::default() });
        let shape = Arc::new(Shape::new(schema, vec![vec![String::new()]]).expect("it fits"));
        let sample = |us, row: &[u64]| Sample { shape: shape.clone(), values: [&[us / 1000, us], row].concat() };
        let moment = between(&picks, &sample(1_000_000, from), &sample(3_000_000, to));
        assert_eq!((moment.wall_ms, moment.seconds), (3000, 2.0));
        moment.rows[0][0].1.clone()
    }

    #[test]
    fn each_kind_is_shown_as_it_says() {
        let fields = vec![
            Field::gauge("level", "MiB", 6, "").per(1024),
            Field::count("bytes", "KiB", 6, "").per(1024),
            Field::time("busy", 1000, ""),
            Field::share("user", ""),
            Field::share("idle", ""),
            Field::quotient("wait", "ms", ("busy", "bytes", 10), ""),
            Field::quotient("levels", "%", ("level", "level", 100), ""),
        ];
        let got = samples(fields, &[1, 1024, 500, 10, 100], &[2048, 5120, 1500, 40, 110]);
        // `wait`: per second, by 4 KiB, times ten.
        let wanted = [2.0, 2.0, 50.0, 75.0, 25.0, 2.5, 100.0];
        assert_eq!(got, wanted.map(Some));
    }

    #[test]
    fn what_fell_or_is_absent_is_not_made_up() {
        let fields =
            || vec![Field::count("a", "", 6, ""), Field::share("s", ""), Field::quotient("q", "", ("a", "a", 1), "")];
        assert_eq!(samples(fields(), &[5, 7], &[4, 6]), [None, Some(0.0), None]);
        assert_eq!(samples(fields(), &[ABSENT, 7], &[4, ABSENT]), [None, None, None]);
        assert_eq!(samples(fields(), &[4, 7], &[4, 7]), [Some(0.0), Some(0.0), Some(0.0)]);
    }
}
