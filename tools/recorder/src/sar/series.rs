//! Columns over time, for plots: the times, and one number per time for each field of each row.

use std::collections::HashMap;
use std::sync::Arc;

use super::course::Course;
use super::feed::Said;
use super::select::Selection;
use crate::record::Mark;
use crate::schema::Schema;
use crate::table::Sample;

/// One field of one row.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its module.
    pub module: String,
    /// Its row; empty for a module with a single row.
    pub row: String,
    /// Its field.
    pub field: String,
    /// The displayed unit.
    pub unit: String,
    /// One number per time, where available.
    pub values: Vec<Option<f64>>,
}

/// The picked fields over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// Ends of the intervals, in milliseconds since 1970 (UTC).
    pub times_ms: Vec<u64>,
    /// The columns, in the order in which they were first seen.
    pub columns: Vec<Column>,
    /// The events.
    pub marks: Vec<Mark>,
    /// Modules whose rows are, somewhere in this time, only in every tenth sample, with `all` in
    /// each.
    pub thinned: Vec<String>,
    /// Number of places at which the recording could not be read.
    pub damaged: usize,
}

/// Makes a series of what a feed says.
pub struct Plotter<'a> {
    selection: &'a Selection,
    from_ms: u64,
    until_ms: u64,
    now_ms: u64,
    step_ms: u64,
    schema: Option<Arc<Schema>>,
    course: Course,
    places: HashMap<(String, String, String), usize>,
    series: Series,
}

impl<'a> Plotter<'a> {
    /// Of the time between two moments, at most about `points_max` intervals, none shorter than the
    /// samples are apart. By `now_ms` it tells later samples from those of a clock that was ahead.
    pub fn new(selection: &'a Selection, (from_ms, until_ms): (u64, u64), now_ms: u64, points_max: u64) -> Plotter<'a> {
        let step_ms = until_ms.saturating_sub(from_ms) / points_max.max(1);
        Plotter {
            selection,
            from_ms,
            until_ms,
            now_ms,
            step_ms,
            schema: None,
            course: Course::default(),
            places: HashMap::new(),
            series: Series::default(),
        }
    }

    /// Takes the next item in recorded order; returns `false` when later ones cannot matter.
    pub fn take(&mut self, said: Said) -> bool {
        match said {
            Said::Sample(sample) if sample.wall_ms() > self.until_ms => {
                // A sample from the future is followed by those recorded after the clock was
                // corrected.
                if sample.wall_ms() <= self.now_ms {
                    return false;
                }
                self.course.part();
            }
            Said::Sample(sample) => self.sample(sample),
            Said::Mark(mark) if (self.from_ms..=self.until_ms).contains(&mark.wall_ms) => self.series.marks.push(mark),
            Said::Mark(_) | Said::Waiting => {}
            Said::Damage(..) => self.series.damaged += 1,
        }
        true
    }

    fn sample(&mut self, sample: Sample) {
        let schema = sample.shape.schema();
        if self.schema.as_ref().is_none_or(|known| known != schema) {
            let picks = self.selection.picks(schema);
            if picks != self.course.picks() {
                self.course.pick(&picks);
            }
            self.schema = Some(schema.clone());
        }
        let sample = self.course.take(sample);
        let Some(before) = self.course.from() else {
            self.course.begin(sample);
            return;
        };
        if sample.wall_ms() < before.wall_ms() {
            // The clock was set back: drop what was recorded for this time before.
            let kept = self.series.times_ms.partition_point(|time_ms| *time_ms < sample.wall_ms());
            self.series.times_ms.truncate(kept);
            self.series.columns.iter_mut().for_each(|column| column.values.truncate(kept));
            self.course.begin(sample);
            return;
        }
        // The last sample before the beginning starts the first interval. Slightly early counts:
        // intervals are not exact to the millisecond.
        let due = before.wall_ms() + self.step_ms.saturating_sub(self.step_ms / 8 + 1);
        if sample.wall_ms() < self.from_ms {
            self.course.begin(sample);
            return;
        }
        for module in self.course.thinned() {
            if !self.series.thinned.contains(&module) {
                self.series.thinned.push(module);
            }
        }
        // Where rows are thinned, an interval of several samples ends with one that has them.
        let interval_ms = sample.shape.schema().origin.interval_ms;
        if sample.wall_ms() < due || self.step_ms > interval_ms && !self.course.is_whole() {
            return;
        }
        let Some(moment) = self.course.end(sample) else { return };
        self.series.times_ms.push(moment.wall_ms);
        let length = self.series.times_ms.len();
        for (pick, rows) in self.course.picks().iter().zip(moment.rows) {
            for (row, numbers) in rows {
                for (field, number) in pick.fields.iter().zip(numbers) {
                    let field = &pick.module.fields[*field];
                    let name = (pick.module.name.to_string(), row.clone(), field.name.to_string());
                    let columns = &mut self.series.columns;
                    let place = *self.places.entry(name).or_insert_with_key(|(module, row, name)| {
                        columns.push(Column {
                            module: module.clone(),
                            row: row.clone(),
                            field: name.clone(),
                            unit: field.shown_unit(),
                            values: Vec::new(),
                        });
                        columns.len() - 1
                    });
                    columns[place].values.resize(length - 1, None);
                    columns[place].values.push(number);
                }
            }
        }
    }

    /// Returns the series.
    pub fn finish(mut self) -> Series {
        let length = self.series.times_ms.len();
        self.series.columns.iter_mut().for_each(|column| column.values.resize(length, None));
        self.series
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, Module};
    use crate::table::Shape;

    fn schema() -> Arc<Schema> {
        let fields = || vec![Field::count("in", "seg", 6, ""), Field::gauge("level", "", 6, "")];
        let modules = vec![Module::single("tcp", "", fields()), Module::single("nic", "", fields()).by("interface", 8)];
        Arc::new(Schema { modules, ..Schema::default() })
    }

    /// One sample per second from 1,000 s on; each counter grows by ten per second.
    fn samples(schema: &Arc<Schema>, count: u64) -> Vec<Said> {
        let sample = |n: u64| {
            // The second interface appears in the middle.
            let nics = if n < count / 2 { vec!["a".to_owned()] } else { vec!["a".into(), "b".into()] };
            let rows = nics.len();
            let shape = Arc::new(Shape::new(schema.clone(), vec![vec![String::new()], nics]).expect("it fits"));
            let values = [&[(1_000 + n) * 1_000, n * 1_000_000][..], &[10 * n, n].repeat(1 + rows)].concat();
            Said::Sample(Sample { shape, values })
        };
        (0..count).map(sample).collect()
    }

    fn plotted(words: &[&str], from_s: u64, until_s: u64, points: u64) -> Series {
        let schema = schema();
        let selection = Selection::of(words.iter().copied(), &schema).expect("it is there");
        plot(&selection, samples(&schema, 100), (from_s, until_s), points)
    }

    /// Ten seconds after the end of the displayed time.
    fn plot(selection: &Selection, all: Vec<Said>, (from_s, until_s): (u64, u64), points: u64) -> Series {
        let now_ms = (until_s + 10) * 1_000;
        let mut plotter = Plotter::new(selection, (from_s * 1_000, until_s * 1_000), now_ms, points);
        for said in all {
            if !plotter.take(said) {
                break;
            }
        }
        plotter.finish()
    }

    #[test]
    fn each_second_of_a_short_time_is_told() {
        let series = plotted(&["tcp"], 1_010, 1_020, 600);
        assert_eq!(series.times_ms, (1_010..=1_020).map(|s| s * 1_000).collect::<Vec<_>>());
        assert_eq!((&*series.columns[0].field, &*series.columns[0].unit), ("in", "seg/s"));
        assert!(series.columns[0].values.iter().all(|value| *value == Some(10.0)));
        assert_eq!(series.columns[1].values[3], Some(13.0));
    }

    /// Sets the time of a sample.
    fn set(said: &mut Said, wall_s: u64) {
        if let Said::Sample(sample) = said {
            sample.values[0] = wall_s * 1_000;
        }
    }

    /// A series used to end at the first sample of a clock that was ahead, because no sample after
    /// its correction was later than the last one shown.
    #[test]
    fn a_clock_that_was_ahead_hides_nothing_that_came_after_it() {
        let schema = schema();
        let selection = Selection::of(["tcp.level"], &schema).expect("it is there");
        let mut all = samples(&schema, 100);
        // 31 days ahead in seconds 20 to 29.
        all[20..30].iter_mut().zip(1_020..).for_each(|(said, s)| set(said, s + 31 * 86_400));
        let series = plot(&selection, all, (1_010, 1_050), 600);
        let wanted: Vec<u64> = (1_010..1_020).chain(1_031..=1_050).collect();
        assert_eq!(series.times_ms, wanted.iter().map(|s| s * 1_000).collect::<Vec<_>>());
        assert_eq!(series.columns[0].values.last(), Some(&Some(50.0)));
    }

    #[test]
    fn a_clock_that_is_set_back_a_little_goes_over_its_time_again() {
        let schema = schema();
        let selection = Selection::of(["tcp.level"], &schema).expect("it is there");
        let mut all = samples(&schema, 100);
        // From second 40 on ten seconds behind: the time from 1,030 on occurs twice.
        all[40..].iter_mut().zip(1_030..).for_each(|(said, s)| set(said, s));
        let series = plot(&selection, all, (1_010, 1_050), 600);
        assert!(series.times_ms.is_sorted_by(|a, b| a < b), "{:?}", series.times_ms);
        assert_eq!((series.times_ms.last(), series.columns[0].values.last()), (Some(&1_050_000), Some(&Some(60.0))));
        let at = series.times_ms.iter().position(|at| *at == 1_031_000).expect("shown");
        assert_eq!(series.columns[0].values[at], Some(41.0), "as it was the second time");
    }

    #[test]
    fn intervals_of_a_long_time_are_exact() {
        let series = plotted(&["tcp.in"], 1_000, 1_099, 10);
        assert!((9..=12).contains(&series.times_ms.len()), "{:?}", series.times_ms);
        assert!(series.columns[0].values.iter().all(|value| *value == Some(10.0)), "rates come from counters");
    }

    #[test]
    fn a_row_that_comes_later_has_nothing_before() {
        let series = plotted(&["nic.level"], 1_000, 1_099, 600);
        let second = series.columns.iter().find(|column| column.row == "b").expect("it came");
        assert_eq!(second.values.len(), series.times_ms.len());
        assert_eq!((second.values[10], second.values.last()), (None, Some(&Some(99.0))));
    }
}
