//! Converts samples in order of time to intervals, including thinned ones.
//!
//! In a thinned stretch, the rows of some modules are only in every tenth sample. Their rates then
//! cover ten samples, and each second has the row `all` instead. On request, that row is computed
//! for complete seconds as well, and its growth continues from one file to the next.

use std::sync::Arc;

use super::rates::{Moment, since};
use super::select::Pick;
use crate::schema::Schema;
use crate::table::{ALL, Detail, Sample, Shape};
use crate::total::Total;

/// Start value of counters in rows `all`: it leaves room below for restarts.
const BASE: u64 = 1 << 62;

/// The state of a recording during reading.
#[derive(Default)]
pub(super) struct Course {
    schema: Option<Arc<Schema>>,
    picks: Vec<Pick>,
    totals: Vec<Total>,
    /// The last sample as recorded.
    last: Option<Sample>,
    /// A shape, and the same with rows `all`.
    shape: Option<(Arc<Shape>, Arc<Shape>)>,
    /// The beginning of the current interval, and of that for the rows missing in this sample.
    from: Option<Sample>,
    each: Option<Sample>,
}

impl Course {
    /// Sets the picks, from the next sample on.
    pub(super) fn pick(&mut self, picks: &[Pick]) {
        *self = Course { picks: picks.to_vec(), ..Course::default() };
    }

    /// The picks.
    pub(super) fn picks(&self) -> &[Pick] {
        &self.picks
    }

    /// Ends the current interval: the next sample is unrelated.
    pub(super) fn part(&mut self) {
        (self.from, self.each) = (None, None);
    }

    /// The beginning of the current interval.
    pub(super) fn from(&self) -> Option<&Sample> {
        self.from.as_ref()
    }

    /// Prepares the next sample for the other methods: adds rows `all` if requested.
    pub(super) fn take(&mut self, sample: Sample) -> Sample {
        let schema = sample.shape.schema();
        if self.schema.as_ref().is_none_or(|known| known != schema) {
            let modules = self.picks.iter().filter_map(|pick| schema.module(&pick.module.name));
            let wholes = modules.filter(|at| schema.modules[*at].adds_up);
            self.totals = wholes.map(|at| Total::new(schema, at, BASE)).collect();
            self.totals.sort_by_key(Total::module);
            self.totals.dedup_by_key(|total| total.module());
            (self.schema, self.last) = (Some(schema.clone()), None);
        }
        self.totals.iter_mut().for_each(|total| total.take(self.last.as_ref(), &sample));
        let with_all = self.with_all(&sample);
        self.last = Some(sample);
        with_all
    }

    fn with_all(&mut self, sample: &Sample) -> Sample {
        let asked = |module: usize| {
            let name = &sample.shape.schema().modules[module].name;
            let rows = |pick: &Pick| pick.rows.as_ref().is_some_and(|rows| rows.iter().any(|row| row == ALL));
            self.picks.iter().any(|pick| pick.module.name == *name && rows(pick))
        };
        let wants = |module| sample.shape.detail(module) != Detail::Each || asked(module);
        let shown: Vec<&Total> = self.totals.iter().filter(|total| wants(total.module())).collect();
        if shown.is_empty() {
            return sample.clone();
        }
        let shape = match &self.shape {
            Some((known, shape)) if Arc::ptr_eq(known, &sample.shape) => shape.clone(),
            _ => {
                let bare = |total: &&&Total| sample.shape.detail(total.module()) == Detail::Each;
                let shape = Shape::clone(&sample.shape);
                let shape = shown.iter().filter(bare).try_fold(shape, |shape, total| shape.with_all(total.module()));
                // A sample without room for them has no rows `all`.
                let Ok(shape) = shape else { return sample.clone() };
                let shape = Arc::new(shape);
                self.shape = Some((sample.shape.clone(), shape.clone()));
                shape
            }
        };
        let mut values = vec![0; shape.slots()];
        values[..shape.row_at(0, 0)].copy_from_slice(&sample.values[..shape.row_at(0, 0)]);
        for (module, rows) in shape.rows().iter().enumerate() {
            let from = sample.shape.row_at(module, 0)..sample.shape.row_at(module, sample.shape.rows()[module].len());
            values[shape.row_at(module, 0)..][..from.len()].copy_from_slice(&sample.values[from]);
            if let Some(total) = shown.iter().find(|total| total.module() == module) {
                let all = shape.row_at(module, rows.len() - 1)..shape.row_at(module, rows.len());
                values[all].copy_from_slice(total.row());
            }
        }
        Sample { shape, values }
    }

    /// Modules whose rows are requested, and thinned in the last sample.
    pub(super) fn thinned(&self) -> Vec<String> {
        let thinned = self.rows_asked(|detail| detail != Detail::Each);
        thinned.map(|pick| pick.module.name.to_string()).collect()
    }

    /// Whether the last sample has all requested rows.
    pub(super) fn is_whole(&self) -> bool {
        self.rows_asked(|detail| detail == Detail::All).next().is_none()
    }

    /// Picks with rows other than `all` for which the last sample has this detail.
    fn rows_asked(&self, told: fn(Detail) -> bool) -> impl Iterator<Item = &Pick> {
        let of = move |pick: &&Pick| {
            let shape = &self.last.as_ref()?.shape;
            let at = shape.schema().module(&pick.module.name)?;
            let rows = pick.rows.as_ref().is_none_or(|rows| rows.iter().any(|row| row != ALL));
            Some(rows && told(shape.detail(at)))
        };
        self.picks.iter().filter(move |pick| of(pick).unwrap_or(false))
    }

    /// Begins an interval at a sample.
    pub(super) fn begin(&mut self, sample: Sample) {
        if self.is_whole() {
            self.each = (!self.thinned().is_empty()).then(|| sample.clone());
        }
        self.from = Some(sample);
    }

    /// Ends the current interval at a sample, and begins the next. At first, there is none to end.
    pub(super) fn end(&mut self, sample: Sample) -> Option<Moment> {
        let from = self.from.as_ref()?;
        let moment = since(&self.picks, from, self.each.as_ref(), &sample);
        self.begin(sample);
        Some(moment)
    }
}
