//! Results as one HTML page that needs nothing else: plots as inline SVG.
//!
//! [`plot`] and [`document`] draw any series; `page` is the page of a load run.

use std::fmt::Write as _;

use serde_json::Value;

use crate::progress::Second;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 24.0;
const COLOURS: [&str; 5] = ["#0a5fb4", "#c2410c", "#15803d", "#7c3aed", "#a16207"];

/// One line of a plot.
pub struct Line<'a> {
    /// What it is called.
    pub name: &'a str,
    /// A value for each moment where there is one.
    pub values: Vec<Option<f64>>,
}

/// A moment of a run: seconds since its start, and the phase it was in.
pub type Moment<'a> = (f64, &'a str);

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A round number at or above `most`.
fn ceiling(most: f64) -> f64 {
    let magnitude = 10f64.powf(most.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * magnitude).find(|top| *top >= most).unwrap_or(most)
}

fn plain(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{} M", n / 1e6),
        n if n >= 1e3 => format!("{} k", n / 1e3),
        n => format!("{}", (n * 1000.0).round() / 1000.0),
    }
}

/// A plot of at most five lines over time, with the phases marked; empty if there is nothing to show.
pub fn plot(title: &str, unit: &str, moments: &[Moment<'_>], lines: &[Line<'_>]) -> String {
    let most = lines.iter().flat_map(|line| &line.values).flatten().fold(0.0, |most: f64, value| most.max(*value));
    let end = moments.last().map_or(0.0, |(at_s, _)| *at_s);
    if most == 0.0 || end == 0.0 {
        return String::new();
    }
    let top = ceiling(most);
    let x = |at_s: f64| LEFT + (WIDTH - LEFT - 8.0) * at_s / end;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 12.0) * value / top;
    let mut svg =
        format!("<h2>{}, {}</h2>\n<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>\n", escaped(title), escaped(unit));
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let at = y(value);
        let _ = writeln!(svg, "<line x1='{LEFT}' x2='{WIDTH}' y1='{at:.1}' y2='{at:.1}' class='grid'/>");
        let _ = writeln!(svg, "<text x='{}' y='{:.1}' class='left'>{}</text>", LEFT - 6.0, at + 4.0, plain(value));
    }
    let mut phase = "";
    for (at_s, now) in moments {
        if *now != phase {
            phase = now;
            let at = x((at_s - 1.0).max(0.0));
            let _ = writeln!(svg, "<line x1='{at:.1}' x2='{at:.1}' y1='12' y2='{}' class='phase'/>", HEIGHT - BOTTOM);
            let _ = writeln!(svg, "<text x='{:.1}' y='{}'>{phase}</text>", at + 2.0, HEIGHT - 8.0);
        }
    }
    let _ = writeln!(svg, "<text x='{WIDTH}' y='{}' class='left'>{end:.0} s</text>", HEIGHT - 8.0);
    for (line, colour) in lines.iter().zip(COLOURS) {
        // A line is broken where there is no value.
        let mut path = String::new();
        let mut pen = 'M';
        for ((at_s, _), value) in moments.iter().zip(&line.values) {
            match value {
                Some(value) => {
                    let _ = write!(path, "{pen}{:.1} {:.1}", x(*at_s), y(*value));
                    pen = 'L';
                }
                None => pen = 'M',
            }
        }
        let _ = writeln!(svg, "<path d='{path}' stroke='{colour}'/>");
    }
    svg += "</svg>\n<p class='legend'>";
    for (line, colour) in lines.iter().zip(COLOURS) {
        let _ = write!(svg, "<span style='color:{colour}'>&#9632; {}</span> ", escaped(line.name));
    }
    svg + "</p>\n"
}

/// Figures of the result as rows.
fn rows(value: &Value, path: &str, out: &mut String) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                rows(value, &path, out);
            }
        }
        Value::Array(_) | Value::Null => {}
        value => {
            let _ = writeln!(out, "<tr><td>{}</td><td>{}</td></tr>", escaped(path), escaped(&value.to_string()));
        }
    }
}

/// The page of a load run.
pub(crate) fn page(result: &Value, seconds: &[Second]) -> String {
    let moments: Vec<Moment<'_>> = seconds.iter().map(|second| (second.at_s, second.phase)).collect();
    let of = |name, value: &dyn Fn(&Second) -> Option<f64>| Line { name, values: seconds.iter().map(value).collect() };
    let mut body = String::new();
    body += &plot(
        "Sessions",
        "count",
        &moments,
        &[of("standing", &|s| Some(s.up as f64)), of("connections", &|s| Some(s.open as f64))],
    );
    body += &plot("Logins", "a second", &moments, &[of("logins", &|s| Some(s.logins_per_s))]);
    body += &plot(
        "Messages",
        "a second",
        &moments,
        &[of("sent", &|s| Some(s.sent_per_s)), of("received", &|s| Some(s.received_per_s))],
    );
    body += &plot(
        "Latency",
        "ms",
        &moments,
        &[of("p50", &|s| s.p50_ms), of("p99", &|s| s.p99_ms), of("p99.9", &|s| s.p999_ms)],
    );
    body += &plot("Messages under way", "count", &moments, &[of("outstanding", &|s| Some(s.outstanding as f64))]);
    body += &plot("Errors", "a second", &moments, &[of("errors", &|s| Some(s.errors as f64))]);
    body += &plot(
        "CPU",
        "cores",
        &moments,
        &[of("server", &|s| s.server_cores), of("generator", &|s| Some(s.generator_cores))],
    );
    body += &plot(
        "Memory of the server",
        "MiB",
        &moments,
        &[of("resident", &|s| s.server_resident_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)))],
    );
    document("Throng load", &body, result)
}

/// A page: a title, what was drawn, and all single figures of a result.
pub fn document(title: &str, body: &str, result: &Value) -> String {
    let title = escaped(title);
    let mut table = String::new();
    rows(result, "", &mut table);
    format!(
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title>\n<style>\n\
         body {{ font: 15px system-ui, sans-serif; max-width: 900px; margin: 2em auto; color: #1a1a1a }}\n\
         svg {{ width: 100%; background: #fafafa }} path {{ fill: none; stroke-width: 1.6 }}\n\
         text {{ font-size: 11px; fill: #555 }} .left {{ text-anchor: end }}\n\
         .grid {{ stroke: #e2e2e2 }} .phase {{ stroke: #999; stroke-dasharray: 3 3 }}\n\
         h2 {{ font-size: 16px; margin: 1.5em 0 .3em }} .legend {{ margin: 0; font-size: 13px }}\n\
         td {{ padding: 1px 12px 1px 0; font-size: 13px; border-bottom: 1px solid #eee }}\n\
         </style></head><body>\n<h1>{title}</h1>\n{body}<h2>All figures</h2>\n<table>\n{table}</table>\n\
         </body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_plot_for_each_thing_there_is_and_is_well_formed() {
        let second = |at_s: f64, p50| Second { at_s, phase: "hold", up: 5, p50_ms: p50, ..Second::default() };
        let seconds = [second(1.0, Some(1.0)), second(2.0, None), second(3.0, Some(2.0))];
        let result = serde_json::json!({ "errors": { "a<b": 1 }, "good": true, "seconds": [1] });
        let page = page(&result, &seconds);
        assert!(page.contains("<h2>Sessions, count</h2>") && page.contains("<h2>Latency, ms</h2>"));
        assert!(!page.contains("<h2>Logins"), "nothing to show");
        assert!(page.contains("<td>errors.a&lt;b</td><td>1</td>"));
        // The line of the latency is broken where nothing came: two beginnings.
        let path = page.split("<h2>Latency").nth(1).and_then(|rest| rest.split("<path d='").nth(1)).expect("a line");
        assert_eq!(path.split('\'').next().expect("its points").matches('M').count(), 2);
        // It needs nothing from elsewhere.
        assert!(!page.contains("http") && !page.contains("<script"));
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn ceilings_are_round() {
        assert_eq!([0.7, 1.0, 3.0, 51.0].map(ceiling), [1.0, 1.0, 5.0, 100.0]);
    }
}
