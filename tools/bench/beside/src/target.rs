//! What has to be reached: one table, judged on a result. A target holds for all set-ups of Throng: the worst is told.

use serde::Serialize;

use crate::result::Report;
use crate::setup::{FLOOR, SETUPS};

/// How a figure is judged.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// At most so much.
    Most(f64),
    /// At most so many times the floor.
    TimesFloor(f64),
    /// Each peer at least so many times as much.
    PeersTimes(f64),
}

/// One row.
struct Target {
    scenario: &'static str,
    figure: &'static str,
    bound: Bound,
}

const fn target(scenario: &'static str, figure: &'static str, bound: Bound) -> Target {
    Target { scenario, figure, bound }
}

const TARGETS: &[Target] = &[
    target("memory-plain", "bytes_a_session", Bound::Most(512.0)),
    target("memory-plain-40", "bytes_a_session", Bound::Most(512.0)),
    target("memory-tls", "bytes_a_session", Bound::Most(1024.0)),
    target("memory-tls-40", "bytes_a_session", Bound::Most(1024.0)),
    target("memory-plain", "bytes_a_session", Bound::PeersTimes(70.0)),
    target("memory-plain-40", "bytes_a_session", Bound::PeersTimes(70.0)),
    target("memory-tls", "bytes_a_session", Bound::PeersTimes(70.0)),
    target("memory-tls-40", "bytes_a_session", Bound::PeersTimes(70.0)),
    target("logins-plain", "cpu_us_a_login", Bound::PeersTimes(10.0)),
    target("logins-plain", "cpu_us_a_login_again", Bound::PeersTimes(10.0)),
    target("logins-scram", "cpu_us_a_login", Bound::PeersTimes(10.0)),
    target("messages-50", "cpu_us_a_message", Bound::PeersTimes(20.0)),
    target("messages-1", "cpu_us_a_message", Bound::PeersTimes(8.0)),
    target("messages-50", "cpu_us_a_message", Bound::Most(2.5)),
    target("messages-50-archived", "cpu_us_a_message", Bound::Most(5.0)),
    target("messages-1", "cpu_us_a_message", Bound::TimesFloor(1.6)),
    target("messages-1-archived", "cpu_us_a_message", Bound::TimesFloor(2.5)),
    target("latency-5000", "p99_ms", Bound::Most(1.0)),
    target("fan-out", "cpu_us_a_delivery", Bound::TimesFloor(1.3)),
    target("fan-out", "cpu_us_a_delivery_in_a_stream", Bound::Most(1.3)),
    target("stalled", "grown_mb", Bound::Most(16.0)),
    target("web-memory", "bytes_a_subscriber", Bound::PeersTimes(10.0)),
    target("web-memory-websocket", "bytes_a_subscriber", Bound::PeersTimes(10.0)),
    target("web-memory-poll", "bytes_a_subscriber", Bound::PeersTimes(10.0)),
    target("web-fan-out", "cpu_us_a_delivery", Bound::PeersTimes(3.0)),
    target("web-fan-out", "p99_ms", Bound::PeersTimes(1.0)),
    target("web-many", "cpu_us_a_delivery", Bound::PeersTimes(3.0)),
    target("web-many", "p99_ms", Bound::PeersTimes(1.0)),
    target("web-busy", "cpu_us_a_delivery", Bound::PeersTimes(3.0)),
    target("web-busy", "p99_ms", Bound::PeersTimes(1.0)),
];

/// A target, judged.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Judged {
    /// Of which scenario.
    pub(crate) scenario: &'static str,
    /// Which figure.
    pub(crate) figure: &'static str,
    /// What has to be.
    pub(crate) wanted: String,
    /// What is, for the driver, or the peer, with which it is worst.
    pub(crate) found: f64,
    /// Whether that is enough.
    pub(crate) met: bool,
}

/// Judges what has been measured; the rest is left out.
pub(crate) fn judge(report: &Report) -> Vec<Judged> {
    TARGETS.iter().flat_map(|target| rows(report, target)).collect()
}

fn rows(report: &Report, target: &Target) -> Vec<Judged> {
    let figure = |setup: &str| report.median(target.scenario, setup, target.figure);
    let of = |throng: bool| SETUPS.iter().filter(move |setup| setup.is_throng() == throng);
    let Some(worst) = of(true).filter_map(|setup| figure(setup.name)).reduce(f64::max) else {
        return Vec::new();
    };
    let judged = |wanted, found, met| Judged { scenario: target.scenario, figure: target.figure, wanted, found, met };
    match target.bound {
        Bound::Most(most) => vec![judged(format!("at most {most}"), worst, worst <= most)],
        Bound::TimesFloor(times) => {
            let Some(floor) = figure(FLOOR) else { return Vec::new() };
            let found = worst / floor;
            vec![judged(format!("at most {times} x the floor"), found, found <= times)]
        }
        Bound::PeersTimes(times) => of(false)
            .filter_map(|peer| {
                let found = figure(peer.name)? / worst;
                Some(judged(format!("{} at least {times} x", peer.title), found, found >= times))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{find, spreads};
    use crate::scenario::SCENARIOS;

    #[test]
    fn targets_name_what_is_measured() {
        for target in TARGETS {
            assert!(SCENARIOS.iter().any(|scenario| scenario.name == target.scenario), "{}", target.scenario);
            assert!(find(target.figure).is_some(), "{}", target.figure);
        }
    }

    #[test]
    fn the_worse_driver_is_judged_against_each_peer_and_the_floor() {
        let mut report = Report::default();
        for (setup, cpu) in
            [("floor", 4.0), ("throng-uring", 5.0), ("throng-epoll", 8.0), ("ejabberd", 100.0), ("prosody", 40.0)]
        {
            let run = crate::figures::Figures::from([("cpu_us_a_message".to_owned(), cpu)]);
            report.put("messages-1", setup, spreads(&[run]));
        }
        let judged = judge(&report);
        let rows: Vec<_> = judged.iter().map(|row| (row.wanted.as_str(), row.found, row.met)).collect();
        assert_eq!(
            rows,
            [
                ("ejabberd at least 8 x", 12.5, true),
                ("Prosody at least 8 x", 5.0, false),
                ("at most 1.6 x the floor", 2.0, false)
            ]
        );
    }
}
