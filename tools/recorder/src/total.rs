//! All instances of a module together: the row `all`.
//!
//! For a counter, the row accumulates the growth of the instances, each from its first appearance
//! on, so that instances that appear, disappear or restart do not distort it. For a gauge, it is
//! the sum, or the maximum. This module handles samples, and neither files nor display.

use crate::schema::{Field, Module, Schema};
use crate::table::{ABSENT, Detail, Sample};

/// The row of one module, over samples in order of time.
#[derive(Debug)]
pub(crate) struct Total {
    module: usize,
    /// The start value of growth, reduced by one each time that growth could not be followed: the
    /// number is then seen to fall.
    base: u64,
    grown: Vec<u64>,
    row: Vec<u64>,
}

impl Total {
    /// For a module of the schema, by its index; growth is counted from `base` on.
    pub(crate) fn new(schema: &Schema, module: usize, base: u64) -> Total {
        let width = schema.modules[module].recorded().count();
        Total { module, base, grown: vec![base; width], row: vec![ABSENT; width] }
    }

    /// The module.
    pub(crate) fn module(&self) -> usize {
        self.module
    }

    /// The row of the last sample.
    pub(crate) fn row(&self) -> &[u64] {
        &self.row
    }

    /// Adds the next sample, with the one before it.
    pub(crate) fn take(&mut self, before: Option<&Sample>, now: &Sample) {
        let rows = Rows::of(now, self.module);
        let before = before.map(|before| (before, Rows::of(before, self.module)));
        if let Some((before, from)) = &before {
            self.grow(before, from, now, &rows);
        }
        for (at, (_, field)) in rows.module.recorded().enumerate() {
            let mut known = (0..rows.count).map(|row| rows.row(row)[at]).filter(|value| *value != ABSENT);
            let told = rows.all().filter(|_| rows.detail == Detail::All).map(|all| all[at]);
            self.row[at] = match (field.only_grows(), told) {
                (false, Some(level)) => level,
                (false, None) => level(field, known),
                (true, Some(ABSENT)) => ABSENT,
                (true, None) if known.next().is_none() => ABSENT,
                (true, _) => self.grown[at],
            };
        }
    }

    fn grow(&mut self, before: &Sample, from: &Rows<'_>, now: &Sample, to: &Rows<'_>) {
        let mut add = |old: &[u64], new: &[u64]| {
            for (at, (_, field)) in to.module.recorded().enumerate() {
                if field.only_grows() {
                    self.grown[at] = self.grown[at].wrapping_add(growth(old[at], new[at]));
                }
            }
        };
        if from.detail != Detail::All && to.detail != Detail::All {
            let same = std::sync::Arc::ptr_eq(&before.shape, &now.shape);
            for row in 0..to.count {
                let Some(place) = (if same { Some(row) } else { from.place(to.name(row), row) }) else { continue };
                add(from.row(place), to.row(row));
            }
        } else if let (Some(old), Some(new), true) = (from.all(), to.all(), before.shape.run() == now.shape.run()) {
            add(old, new);
        } else {
            self.base = self.base.saturating_sub(1);
            self.grown.fill(self.base);
        }
    }
}

/// The growth of a number that fell is unknown.
fn growth(old: u64, new: u64) -> u64 {
    if old == ABSENT || new == ABSENT { 0 } else { new.saturating_sub(old) }
}

fn level(field: &Field, known: impl Iterator<Item = u64>) -> u64 {
    let together = if field.most { u64::max } else { u64::saturating_add };
    known.reduce(together).unwrap_or(ABSENT)
}

/// The rows of one module in a sample.
struct Rows<'a> {
    module: &'a Module,
    detail: Detail,
    names: &'a [String],
    /// Number of rows without `all`.
    count: usize,
    values: &'a [u64],
    width: usize,
}

impl<'a> Rows<'a> {
    fn of(sample: &'a Sample, at: usize) -> Rows<'a> {
        let shape = &sample.shape;
        let (names, detail) = (&shape.rows()[at][..], shape.detail(at));
        let module = &shape.schema().modules[at];
        let values = &sample.values[shape.row_at(at, 0)..shape.row_at(at, names.len())];
        let count = if detail == Detail::Each { names.len() } else { names.len() - 1 };
        Rows { module, detail, names, count, values, width: module.recorded().count() }
    }

    fn row(&self, at: usize) -> &'a [u64] {
        &self.values[at * self.width..][..self.width]
    }

    /// The row `all`.
    fn all(&self) -> Option<&'a [u64]> {
        (self.detail != Detail::Each).then(|| self.row(self.count))
    }

    fn name(&self, at: usize) -> &'a str {
        &self.names[at]
    }

    /// The row of an instance, most likely at `near`.
    fn place(&self, name: &str, near: usize) -> Option<usize> {
        let names = &self.names[..self.count];
        if names.get(near).is_some_and(|known| known == name) {
            return Some(near);
        }
        names.iter().position(|known| known == name)
    }
}
