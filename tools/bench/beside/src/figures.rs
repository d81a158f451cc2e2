//! What is measured: one table of figures, and how several runs of one become a median with its spread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One kind of figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Its key in the result.
    pub(crate) name: &'static str,
    /// For people, with the unit.
    pub(crate) title: &'static str,
    /// Digits behind the point.
    pub(crate) digits: usize,
    /// Which direction is better; none: it says how something was measured.
    pub(crate) better: Option<Better>,
}

/// Which direction is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Better {
    /// Costs, times.
    Less,
    /// Rates.
    More,
}

/// The table, in the order in which figures are shown.
pub(crate) const KINDS: &[Kind] = &[
    kind("ways_in", "ways that work, of 9", 0, Some(Better::More)),
    kind("bytes_a_session", "memory a session, bytes", 0, Some(Better::Less)),
    kind("bytes_a_subscriber", "memory a waiting subscriber, bytes", 0, Some(Better::Less)),
    kind("cpu_us_a_login", "CPU a login, µs", 0, Some(Better::Less)),
    kind("logins_per_s", "logins/s", 0, Some(Better::More)),
    kind("cpu_us_a_login_again", "CPU a login for the second time, µs", 0, Some(Better::Less)),
    kind("logins_again_per_s", "logins/s for the second time", 0, Some(Better::More)),
    kind("cpu_us_a_message", "CPU a message, µs", 2, Some(Better::Less)),
    kind("messages_per_s", "messages/s", 0, Some(Better::More)),
    kind("rate_30_per_s", "30 % of the maximum, messages/s", 0, None),
    kind("p50_ms_at_30", "p50 at 30 %, ms", 2, Some(Better::Less)),
    kind("p99_ms_at_30", "p99 at 30 %, ms", 2, Some(Better::Less)),
    kind("p999_ms_at_30", "p99.9 at 30 %, ms", 2, Some(Better::Less)),
    kind("rate_70_per_s", "70 % of the maximum, messages/s", 0, None),
    kind("p50_ms_at_70", "p50 at 70 %, ms", 2, Some(Better::Less)),
    kind("p99_ms_at_70", "p99 at 70 %, ms", 2, Some(Better::Less)),
    kind("p999_ms_at_70", "p99.9 at 70 %, ms", 2, Some(Better::Less)),
    kind("p50_ms", "p50, ms", 2, Some(Better::Less)),
    kind("p99_ms", "p99, ms", 2, Some(Better::Less)),
    kind("p999_ms", "p99.9, ms", 2, Some(Better::Less)),
    kind("cpu_us_a_delivery", "CPU a delivery, µs", 2, Some(Better::Less)),
    kind("cpu_us_a_delivery_in_a_stream", "CPU a delivery in a stream, µs", 2, Some(Better::Less)),
    kind("stream_deliveries_per_s", "deliveries/s in the stream", 0, None),
    kind("late_p99_ms", "publications, p99 from due to sent, ms", 2, None),
    kind("first_s", "before: the first item of every channel, s", 2, None),
    kind("grown_mb", "memory grown at its peak, MB", 1, Some(Better::Less)),
    kind("sent_mb", "sent to the one who does not read, MB", 0, None),
    kind("faults", "messages lost, doubled or out of order", 0, Some(Better::Less)),
];

const fn kind(name: &'static str, title: &'static str, digits: usize, better: Option<Better>) -> Kind {
    Kind { name, title, digits, better }
}

/// The kind of a key.
pub(crate) fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// What one run of one set-up has shown, by key.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Several runs of one figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// The middle one; of an even number, the mean of the two.
    pub(crate) median: f64,
    /// The least.
    pub(crate) least: f64,
    /// The most.
    pub(crate) most: f64,
    /// How many.
    pub(crate) runs: usize,
}

impl Spread {
    fn of(mut all: Vec<f64>) -> Option<Spread> {
        all.sort_by(f64::total_cmp);
        let round = |n: f64| (n * 1000.0).round() / 1000.0;
        let middle = all.get(all.len().checked_sub(1)? / 2)?;
        let median = round((middle + all[all.len() / 2]) / 2.0);
        Some(Spread { median, least: round(*all.first()?), most: round(*all.last()?), runs: all.len() })
    }
}

/// Each figure's spread over these runs.
pub(crate) fn spreads(runs: &[Figures]) -> BTreeMap<String, Spread> {
    let mut all: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, value) in runs.iter().flatten() {
        all.entry(name).or_default().push(*value);
    }
    all.into_iter().filter_map(|(name, values)| Some((name.clone(), Spread::of(values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_runs_become_a_median_with_its_spread() {
        let run = |value| Figures::from([("p99_ms".to_owned(), value)]);
        let all = spreads(&[run(3.0), run(1.0), run(2.0)]);
        assert_eq!(all["p99_ms"], Spread { median: 2.0, least: 1.0, most: 3.0, runs: 3 });
        assert_eq!(spreads(&[run(3.0), run(1.0)])["p99_ms"].median, 2.0);
        assert!(spreads(&[]).is_empty());
    }

    #[test]
    fn keys_are_told_apart() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert_eq!(KINDS.iter().position(|other| other.name == kind.name), Some(index));
        }
    }
}
