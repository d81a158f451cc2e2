//! Minimum, mean, maximum and percentiles of each number over the whole time.

use std::collections::BTreeMap;

use super::number::{fit, rounded};
use super::rates::Moment;
use super::select::Pick;

/// The statistics of one number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Number of seconds with a value.
    pub count: usize,
    /// The minimum.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The maximum.
    pub max: f64,
    /// The 50th percentile by nearest rank.
    pub p50: f64,
    /// The 95th percentile by nearest rank.
    pub p95: f64,
    /// The 99th percentile by nearest rank.
    pub p99: f64,
}

impl Figures {
    /// The statistics of some numbers; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Figures> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        // By nearest rank.
        let rank = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Figures { count: values.len(), min, mean, max, p50: rank(50), p95: rank(95), p99: rank(99) })
    }
}

/// Collects moments.
#[derive(Default, Debug)]
pub struct Summary {
    picks: Vec<Pick>,
    /// By pick, row and field: all its numbers, 8 bytes per number and moment.
    values: BTreeMap<(usize, String, usize), Vec<f64>>,
}

impl Summary {
    /// Sets the picks of the coming moments. A changed selection restarts the summary.
    pub fn picks(&mut self, picks: &[Pick]) {
        if self.picks != picks {
            self.values.clear();
            self.picks = picks.to_vec();
        }
    }

    /// Adds a moment.
    pub fn add(&mut self, moment: &Moment) {
        for (pick, rows) in moment.rows.iter().enumerate() {
            for (name, numbers) in rows {
                for (field, number) in numbers.iter().enumerate() {
                    if let Some(number) = number {
                        self.values.entry((pick, name.clone(), field)).or_default().push(*number);
                    }
                }
            }
        }
    }

    /// Pick, row, field and statistics of each number, in display order.
    fn lines(&self) -> impl Iterator<Item = (&Pick, &str, &crate::schema::Field, Figures)> {
        self.values.iter().filter_map(|((at, name, field), values)| {
            let pick = &self.picks[*at];
            let figures = Figures::of(values.clone())?;
            Some((pick, name.as_str(), &pick.module.fields[pick.fields[*field]], figures))
        })
    }

    /// As a table.
    pub fn text(&self) -> String {
        let lines: Vec<_> = self.lines().collect();
        let name = |pick: &Pick, row: &str, field: &str| match row {
            "" => format!("{}.{field}", pick.module.name),
            row => format!("{}:{row}.{field}", pick.module.name),
        };
        let width = lines.iter().map(|(pick, row, field, _)| name(pick, row, &field.name).chars().count()).max();
        let width = width.unwrap_or(0);
        let mut text = format!("{:width$} {:>8}", "", "unit");
        for word in ["min", "mean", "max", "p50", "p95", "p99", "seen"] {
            text += &format!(" {word:>8}");
        }
        text.push('\n');
        for (pick, row, field, figures) in lines {
            text += &format!("{:width$} {:>8}", name(pick, row, &field.name), field.shown_unit());
            let Figures { count, min, mean, max, p50, p95, p99 } = figures;
            for number in [min, mean, max, p50, p95, p99] {
                text += &format!(" {:>8}", fit(Some(number), field, 8));
            }
            text += &format!(" {count:>8}\n");
        }
        text
    }

    /// As JSON: module, row if it has rows, field, figures.
    pub fn json(&self) -> serde_json::Value {
        let mut all = serde_json::json!({});
        for (pick, row, field, figures) in self.lines() {
            let mut at = &mut all[&*pick.module.name];
            if pick.module.instance.is_some() {
                at = &mut at[row];
            }
            let Figures { count, min, mean, max, p50, p95, p99 } = figures;
            let [min, mean, max, p50, p95, p99] = [min, mean, max, p50, p95, p99].map(rounded);
            at[&*field.name] = serde_json::json!({
                "unit": field.shown_unit(), "count": count, "min": min, "mean": mean, "max": max, "p50": p50, "p95": p95, "p99": p99,
            });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let figures = Figures::of((1..=200).rev().map(f64::from).collect()).expect("some");
        assert_eq!((figures.min, figures.mean, figures.max), (1.0, 100.5, 200.0));
        assert_eq!((figures.p50, figures.p95, figures.p99, figures.count), (100.0, 190.0, 198.0, 200));
        let one = Figures::of(vec![7.0]).expect("one");
        assert_eq!((one.p50, one.p99), (7.0, 7.0));
        assert_eq!(Figures::of(vec![]), None);
    }
}
