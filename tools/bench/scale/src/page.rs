//! The run as one page with plots.

use serde_json::Value;
use throng_load::html::{Line, Moment, document, plot};

/// Lines of a plot: a name, and the column of the samples.
type Lines = &'static [(&'static str, &'static str)];

/// Plots: title, unit and lines.
const PLOTS: &[(&str, &str, Lines)] = &[
    ("Sessions", "count", &[("standing", "up")]),
    ("Logins", "a second", &[("logins", "logins_per_s")]),
    ("Messages", "a second", &[("received", "received_per_s")]),
    ("Latency", "ms", &[("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms")]),
    ("Errors", "a second", &[("errors", "errors")]),
    (
        "Memory",
        "MiB",
        &[
            ("left", "left_mib"),
            ("kernel objects", "slab_mib"),
            ("server", "server_mib"),
            ("generator", "generator_mib"),
            ("socket buffers", "tcp_mib"),
        ],
    ),
    ("CPU", "cores", &[("machine", "machine_cores"), ("server", "server_cores"), ("generator", "generator_cores")]),
];

/// The page.
pub(crate) fn page(value: &Value) -> String {
    let column = |name: &str| value["seconds"][name].as_array().cloned().unwrap_or_default();
    let (at, phases) = (column("at_s"), column("phase"));
    let moments: Vec<Moment<'_>> =
        at.iter().zip(&phases).map(|(at, phase)| (at.as_f64().unwrap_or(0.0), phase.as_str().unwrap_or(""))).collect();
    let mut body = String::new();
    for (title, unit, lines) in PLOTS {
        let line = |(name, column_name): &(&'static str, &str)| Line {
            name,
            values: column(column_name).iter().map(Value::as_f64).collect(),
        };
        let lines: Vec<Line<'_>> = lines.iter().map(line).collect();
        body += &plot(title, unit, &moments, &lines);
    }
    let mut figures = value.clone();
    figures["seconds"] = Value::Null;
    document("Throng: very many sessions", &body, &figures)
}
