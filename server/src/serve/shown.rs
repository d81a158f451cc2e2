//! Knobs in the form shown to operators.

use crate::admin::KnobRow;
use crate::config::Knobs;
use crate::config::knobs::Knob;

/// All knobs as rows.
pub(super) fn rows(knobs: &Knobs) -> Vec<KnobRow> {
    knobs.list().into_iter().map(row).collect()
}

fn row(knob: Knob) -> KnobRow {
    let Knob { row, value, source, until } = knob;
    let range = row.kind.range();
    KnobRow {
        key: row.key.to_owned(),
        value,
        default: row.default.to_owned(),
        kind: row.kind.name().to_owned(),
        unit: row.kind.unit().map(str::to_owned),
        min: range.map(|(min, _)| min),
        max: range.map(|(_, max)| max),
        allowed: row.kind.allowed(),
        source: source.to_string(),
        until_s: until.map(|time| time.wall_us / 1_000_000),
        help: row.help.to_owned(),
    }
}
