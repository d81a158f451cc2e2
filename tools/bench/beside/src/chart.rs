//! The result as a chart: plain SVG, legible on light and dark pages.

use std::fmt::Write as _;

use crate::report::number;
use crate::result::Report;

/// A panel: title, scenario, figure, digits.
const PANELS: &[(&str, &str, &str, usize)] = &[
    ("Memory a session, bytes", "memory-plain", "bytes_a_session", 0),
    ("Memory a session over TLS, bytes", "memory-tls", "bytes_a_session", 0),
    ("Server CPU a login, SCRAM-SHA-1, µs", "logins-scram", "cpu_us_a_login", 0),
    ("Server CPU a message, 50 in flight a pair, µs", "messages-50", "cpu_us_a_message", 1),
    ("Server CPU a message, one in flight a pair, µs", "messages-1", "cpu_us_a_message", 1),
    ("CPU a delivery, presence to 100 contacts, µs", "fan-out", "cpu_us_a_delivery", 1),
    ("Memory a waiting subscriber, bytes", "web-memory", "bytes_a_subscriber", 0),
    ("CPU a delivery, one channel with 5,000 subscribers, µs", "web-fan-out", "cpu_us_a_delivery", 1),
    ("CPU a delivery, 500 channels with 10 subscribers, µs", "web-many", "cpu_us_a_delivery", 1),
    ("p99, one channel with 5,000 subscribers, ms", "web-fan-out", "p99_ms", 1),
    ("p99, 500 channels with 10 subscribers, ms", "web-many", "p99_ms", 1),
];

/// Bars of a panel, and their class.
const BARS: &[(&str, &str, &str)] = &[
    ("bare sockets", "floor", "floor"),
    ("Throng", "throng-uring", "own"),
    ("ejabberd", "ejabberd", "peer"),
    ("Prosody", "prosody", "peer"),
    ("Throng", "web-throng-uring", "own"),
    ("Nchan", "nchan", "peer"),
    ("Mosquitto", "mosquitto", "peer"),
    ("NATS", "nats", "peer"),
    ("Centrifugo", "centrifugo", "peer"),
    ("Mercure", "mercure", "peer"),
];

const WIDTH: f64 = 760.0;
const LEFT: f64 = 110.0;
const BAR_MAX: f64 = 460.0;
const ROW: f64 = 22.0;

/// Draws it; what was not measured is left out.
pub(crate) fn draw(report: &Report) -> String {
    let mut body = String::new();
    let mut y = 8.0;
    for (title, scenario, figure, digits) in PANELS {
        let bars: Vec<_> = BARS
            .iter()
            .filter_map(|(name, setup, class)| Some((*name, *class, report.median(scenario, setup, figure)?)))
            .collect();
        let Some(most) = bars.iter().map(|bar| bar.2).reduce(f64::max).filter(|most| *most > 0.0) else { continue };
        let own = bars.iter().find(|bar| bar.1 == "own").map(|bar| bar.2);
        let _ = writeln!(body, r#"<text class="title" x="0" y="{:.0}">{title}</text>"#, y + 14.0);
        y += ROW + 2.0;
        for (name, class, value) in &bars {
            let width = (value.max(0.0) / most * BAR_MAX).max(1.5);
            let times = own.filter(|own| *class == "peer" && *own > 0.0).map(|own| value / own);
            let times = times
                .map_or(String::new(), |times| format!(" · {} times", number(times, if times < 10.0 { 1 } else { 0 })));
            let _ =
                writeln!(body, r#"<text x="{:.0}" y="{:.0}" text-anchor="end">{name}</text>"#, LEFT - 10.0, y + 13.0);
            let _ = writeln!(
                body,
                r#"<rect class="{class}" x="{LEFT:.0}" y="{:.0}" width="{width:.1}" height="14" rx="2"/>"#,
                y + 2.0
            );
            let value = number(*value, *digits);
            let _ = writeln!(body, r#"<text x="{:.1}" y="{:.0}">{value}{times}</text>"#, LEFT + width + 6.0, y + 13.0);
            y += ROW;
        }
        y += 12.0;
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0} {y:.0}" width="{WIDTH:.0}" height="{y:.0}" role="img" aria-label="Throng beside its peers; shorter is better">
<style>
text {{ font: 13px system-ui, sans-serif; fill: #24292f }}
.title {{ font-weight: 600 }}
.own {{ fill: #1a7f64 }}
.peer {{ fill: #8c959f }}
.floor {{ fill: #bf8700 }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #d0d7de }}
.own {{ fill: #3fb68b }}
.peer {{ fill: #6e7681 }}
.floor {{ fill: #d29922 }}
}}
</style>
{body}</svg>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Figures, spreads};

    #[test]
    fn bars_are_as_long_as_their_figures_and_what_is_missing_has_no_panel() {
        let mut report = Report::default();
        for (setup, bytes) in [("throng-uring", 500.0), ("ejabberd", 50_000.0)] {
            let run = Figures::from([("bytes_a_session".to_owned(), bytes)]);
            report.put("memory-plain", setup, spreads(&[run]));
        }
        let svg = draw(&report);
        assert!(svg.contains(r#"width="460.0""#) && svg.contains(r#"width="4.6""#), "{svg}");
        assert!(svg.contains("50,000 · 100 times"), "{svg}");
        assert_eq!(svg.matches(r#"class="title""#).count(), 1);
    }
}
