//! The result as a table of ratios for people.

use std::fmt::Write as _;

use crate::figures::{KINDS, Kind};
use crate::result::Report;
use crate::scenario::{SCENARIOS, Scenario};
use crate::setup::{FLOOR, SETUPS, Setup, Side};
use crate::target;

/// A number with so many digits and commas between thousands.
pub(crate) fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

/// How many times: two digits that count.
fn times(ratio: f64) -> String {
    let digits = if ratio >= 10.0 {
        0
    } else if ratio >= 1.95 {
        1
    } else {
        2
    };
    format!("{} x", number(ratio, digits))
}

/// The tables as Markdown.
pub(crate) fn table(report: &Report) -> String {
    let sides = Side::ALL.map(|(_, side)| one_side(report, side).unwrap_or_default());
    let mut text = sides.iter().filter(|side| !side.is_empty()).cloned().collect::<Vec<_>>().join("\n");
    for (name, why) in &report.skipped {
        let _ = writeln!(text, "\nNot measured: {name}: {why}.");
    }
    let judged = target::judge(report);
    if !judged.is_empty() {
        text += "\n| target | wanted | found | |\n| --- | --- | ---: | --- |\n";
    }
    for row in judged {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == row.scenario);
        let kind = crate::figures::find(row.figure);
        let _ = writeln!(
            text,
            "| {}: {} | {} | {} | {} |",
            scenario.map_or(row.scenario, |scenario| scenario.title),
            kind.map_or(row.figure, |kind| kind.title),
            row.wanted,
            number(row.found, if row.found < 100.0 { 2 } else { 0 }),
            if row.met { "met" } else { "**not met**" }
        );
    }
    text
}

/// One side's table, if it was measured.
fn one_side(report: &Report, side: Side) -> Option<String> {
    let has_floor = side == Side::Xmpp;
    let setups: Vec<_> = SETUPS.iter().filter(|setup| setup.side() == side).collect();
    let mut rows = String::new();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.side() == side) {
        for kind in KINDS {
            rows += &row(report, &setups, has_floor, scenario, kind).unwrap_or_default();
        }
    }
    if rows.is_empty() {
        return None;
    }
    let titles: String = setups.iter().map(|setup| format!(" {} |", setup.title)).collect();
    let rule = " ---: |".repeat(setups.len());
    let (floor, floor_rule, told) = match has_floor {
        true => (" floor |", " ---: |", "Throng's cells say how many times the floor; a peer's"),
        false => ("", "", "A peer's cells say"),
    };
    Some(format!(
        "| what |{floor}{titles}\n| --- |{floor_rule}{rule}\n{rows}\n{told} how many times the better of Throng's set-ups. \
         Medians.\n"
    ))
}

/// One figure of one scenario, if anybody has it and there is something to tell.
fn row(report: &Report, setups: &[&Setup], has_floor: bool, scenario: &Scenario, kind: &Kind) -> Option<String> {
    let figure = |setup: &str| report.median(scenario.name, setup, kind.name);
    let floor = figure(FLOOR);
    let own: Vec<f64> =
        setups.iter().filter(|setup| setup.is_throng()).filter_map(|setup| figure(setup.name)).collect();
    let best = match kind.better {
        Some(crate::figures::Better::More) => own.iter().copied().reduce(f64::max),
        _ => own.iter().copied().reduce(f64::min),
    };
    if floor.is_none() && setups.iter().all(|setup| figure(setup.name).is_none()) {
        return None;
    }
    if kind.name == "faults" && setups.iter().all(|setup| figure(setup.name).unwrap_or(0.0) == 0.0) {
        return None;
    }
    let cell = |setup: &&Setup| {
        let Some(value) = figure(setup.name) else { return " |".to_owned() };
        let against = if setup.is_throng() { floor } else { best };
        let ratio = against.filter(|other| kind.better.is_some() && *other > 0.0).map(|other| value / other);
        let ratio = ratio.map_or(String::new(), |ratio| format!(" ({})", times(ratio)));
        format!(" {}{ratio} |", number(value, kind.digits))
    };
    let cells: String = setups.iter().map(cell).collect();
    let floor = floor.map_or(String::new(), |value| number(value, kind.digits));
    let floor = if has_floor { format!(" {floor} |") } else { String::new() };
    Some(format!("| {}: {} |{floor}{cells}\n", scenario.title, kind.title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Figures, spreads};

    fn sample() -> Report {
        let mut report = Report::default();
        let one = |cpu: f64| spreads(&[Figures::from([("cpu_us_a_message".to_owned(), cpu)])]);
        for (setup, cpu) in [("floor", 4.0), ("throng-uring", 6.0), ("throng-epoll", 8.0), ("prosody", 1500.0)] {
            report.put("messages-1", setup, one(cpu));
        }
        report
    }

    #[test]
    fn the_table_has_ratios_to_the_floor_and_to_throng() {
        let text = table(&sample());
        let row = text.lines().find(|line| line.contains("CPU a message") && line.contains("1,500")).expect("a row");
        assert!(row.contains("| 4.00 | 6.00 (1.50 x) | 8.00 (2.0 x) | | 1,500.00 (250 x) |"), "{row}");
        assert!(!text.contains("ejabberd at least"), "nobody is judged against what was not measured:\n{text}");
    }

    #[test]
    fn each_side_has_a_table_of_its_own_if_it_was_measured() {
        let mut report = sample();
        assert!(!table(&report).contains("Nchan"));
        let one = |cpu: f64| spreads(&[Figures::from([("cpu_us_a_delivery".to_owned(), cpu)])]);
        for (setup, cpu) in [("web-throng-uring", 2.0), ("web-throng-epoll", 3.0), ("nchan", 8.0)] {
            report.put("web-fan-out", setup, one(cpu));
        }
        let text = table(&report);
        assert!(text.contains("| 2.00 | 3.00 | | | 8.00 (4.0 x) |"), "{text}");
        assert!(text.contains("| Nchan at least 3 x | 2.67 | **not met** |"), "the worst set-up is judged: {text}");
        assert_eq!(text.matches("| what |").count(), 2);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(number(1234567.891, 2), "1,234,567.89");
        assert_eq!((number(999.4, 0), number(-1000.0, 0)), ("999".into(), "-1,000".into()));
    }
}
