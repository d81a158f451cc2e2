//! The result as a table of ratios for people.

use std::fmt::Write as _;

use crate::figures::{KINDS, Kind};
use crate::result::Report;
use crate::scenario::SCENARIOS;
use crate::setup::{FLOOR, SETUPS, Setup};
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
    let mut text = String::from("| what | floor |");
    let rule = SETUPS.iter().map(|setup| {
        let _ = write!(text, " {} |", setup.title);
        " ---: |"
    });
    let rule: String = rule.collect();
    let _ = writeln!(text, "\n| --- | ---: |{rule}");
    for scenario in SCENARIOS {
        for kind in KINDS {
            text += &row(report, scenario.name, scenario.title, kind).unwrap_or_default();
        }
    }
    text += "\nThrong's cells say how many times the floor; a peer's how many times the better of Throng's drivers. Medians.\n";
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

/// One figure of one scenario, if anybody has it and there is something to tell.
fn row(report: &Report, scenario: &str, title: &str, kind: &Kind) -> Option<String> {
    let figure = |setup: &str| report.median(scenario, setup, kind.name);
    let floor = figure(FLOOR);
    let own: Vec<f64> =
        SETUPS.iter().filter(|setup| setup.is_throng()).filter_map(|setup| figure(setup.name)).collect();
    let best = match kind.better {
        Some(crate::figures::Better::More) => own.iter().copied().reduce(f64::max),
        _ => own.iter().copied().reduce(f64::min),
    };
    if floor.is_none() && SETUPS.iter().all(|setup| figure(setup.name).is_none()) {
        return None;
    }
    if kind.name == "faults" && SETUPS.iter().all(|setup| figure(setup.name).unwrap_or(0.0) == 0.0) {
        return None;
    }
    let cell = |setup: &Setup| {
        let Some(value) = figure(setup.name) else { return " |".to_owned() };
        let against = if setup.is_throng() { floor } else { best };
        let ratio = against.filter(|other| kind.better.is_some() && *other > 0.0).map(|other| value / other);
        let ratio = ratio.map_or(String::new(), |ratio| format!(" ({})", times(ratio)));
        format!(" {}{ratio} |", number(value, kind.digits))
    };
    let cells: String = SETUPS.iter().map(cell).collect();
    let floor = floor.map_or(String::new(), |value| number(value, kind.digits));
    Some(format!("| {title}: {} | {floor} |{cells}\n", kind.title))
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
    fn thousands_are_grouped() {
        assert_eq!(number(1234567.891, 2), "1,234,567.89");
        assert_eq!((number(999.4, 0), number(-1000.0, 0)), ("999".into(), "-1,000".into()));
    }
}
