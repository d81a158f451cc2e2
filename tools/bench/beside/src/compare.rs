//! What got worse from one result to another. Where a scenario has a floor, a cost is compared in multiples of it, so that
//! a slower or busier machine is not taken for a slower server.

use crate::figures::{Better, find};
use crate::report::number;
use crate::result::Report;
use crate::setup::{FLOOR, SETUPS};

/// A line for each figure that is more than `threshold` per cent worse, or gone.
pub(crate) fn worse(old: &Report, new: &Report, threshold: f64, peers: bool) -> Vec<String> {
    let is_meant = |name: &str| SETUPS.iter().any(|setup| setup.name == name && (peers || setup.is_throng()));
    let mut lines = Vec::new();
    for (scenario, setup, figure, was) in old.all().filter(|(_, setup, ..)| is_meant(setup)) {
        let Some((kind, better)) = find(figure).and_then(|kind| Some((kind, kind.better?))) else { continue };
        let Some(is) = new.figure(scenario, setup, figure) else {
            lines.push(format!("{scenario}, {setup}: {}: not measured any more", kind.title));
            continue;
        };
        let floors = old.median(scenario, FLOOR, figure).zip(new.median(scenario, FLOOR, figure));
        let (was_floor, is_floor) = floors.filter(|(was, is)| *was > 0.0 && *is > 0.0).unwrap_or((1.0, 1.0));
        let (was_level, is_level) = (was.median / was_floor, is.median / is_floor);
        let change = match better {
            Better::Less => is_level - was_level,
            Better::More => was_level - is_level,
        };
        let is_worse = change * 100.0 > threshold * was_level.abs() && change > 0.0;
        if is_worse {
            let per_cent =
                if was_level > 0.0 { format!("{:.0} % worse", change / was_level * 100.0) } else { "worse".into() };
            let unit = if floors.is_some() { ", measured by the floor of each run" } else { "" };
            lines.push(format!(
                "{scenario}, {setup}: {}: {} -> {} ({per_cent}{unit})",
                kind.title,
                number(was.median, kind.digits),
                number(is.median, kind.digits)
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Figures, spreads};

    fn result(rows: &[(&str, &str, f64)]) -> Report {
        let mut report = Report::default();
        for (setup, figure, value) in rows {
            report.put("messages-1", setup, spreads(&[Figures::from([((*figure).to_owned(), *value)])]));
        }
        report
    }

    #[test]
    fn costs_are_measured_by_the_floor() {
        let cpu = "cpu_us_a_message";
        let old = result(&[("floor", cpu, 4.0), ("throng-uring", cpu, 6.0)]);
        let slower_machine = result(&[("floor", cpu, 8.0), ("throng-uring", cpu, 12.5)]);
        assert!(worse(&old, &slower_machine, 15.0, false).is_empty());
        let slower = result(&[("floor", cpu, 4.0), ("throng-uring", cpu, 7.2)]);
        let told = worse(&old, &slower, 15.0, false);
        assert!(matches!(&told[..], [line] if line.contains("20 % worse") && line.contains("floor")), "{told:?}");
    }

    #[test]
    fn rates_that_fall_and_figures_that_are_gone_are_named() {
        let old = result(&[("throng-uring", "messages_per_s", 1000.0), ("throng-epoll", "p99_ms", 1.0)]);
        let new = result(&[("throng-uring", "messages_per_s", 800.0)]);
        let told = worse(&old, &new, 15.0, false);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("not measured any more") && told[1].contains("20 % worse"), "{told:?}");
        assert!(worse(&new, &new, 0.0, false).is_empty());
        let better = result(&[("throng-uring", "messages_per_s", 2000.0)]);
        assert!(worse(&new, &better, 15.0, false).is_empty());
    }

    #[test]
    fn peers_are_compared_only_if_asked_for_and_faults_from_none_are_worse() {
        let old = result(&[("prosody", "p99_ms", 1.0), ("throng-uring", "faults", 0.0)]);
        let new = result(&[("prosody", "p99_ms", 9.0), ("throng-uring", "faults", 1.0)]);
        assert_eq!(worse(&old, &new, 15.0, false).len(), 1);
        assert_eq!(worse(&old, &new, 15.0, true).len(), 2);
    }
}
