//! Metrics for Prometheus, in its text format or in OpenMetrics 1.0. The formats differ in the
//! names of counters and in the end of the text.
//!
//! Names follow Prometheus' conventions: the unit last, base units (seconds, bytes), `_total` for
//! counters.

use std::borrow::Cow;
use std::fmt::{Display, Write};

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use throng_engine::counters::Latencies;

use super::process::Process;
use super::{Delay, Number, Numbers, Telemetry};
use crate::admin::{AcmeState, Status};

/// The format of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// Prometheus' own format, version 0.0.4: the default.
    Prometheus,
    /// OpenMetrics 1.0, for clients that request it by name.
    OpenMetrics,
}

impl Format {
    /// Selects by `Accept` (RFC 9110 12.5.1): OpenMetrics if it is listed and its weight is not
    /// below that of plain text.
    pub(super) fn wanted(headers: &HeaderMap) -> Format {
        let (mut open, mut plain) = (0.0, 0.0);
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
            let liked: f32 = quality.unwrap_or(0.0);
            match kind.to_ascii_lowercase().as_str() {
                "application/openmetrics-text" => open = f32::max(open, liked),
                "text/plain" => plain = f32::max(plain, liked),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain { Format::OpenMetrics } else { Format::Prometheus }
    }

    /// The answer's `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The bounds of a histogram's buckets are powers of two of a microsecond, starting with this one:
/// [`Latencies`] has the same bounds, so that all counts are exact.
const FIRST_POWER: u32 = 6;
/// The last power: 16.8 seconds.
const LAST_POWER: u32 = 24;

/// The text. Names are stable: `throng_shard_` with the name of `throng ctl status --all`, one
/// series per shard; `throng_store_`, `throng_reads_` with the store's counters; `process_` with
/// the names of the Prometheus client libraries.
pub(super) fn text(telemetry: &dyn Telemetry, format: Format) -> String {
    let mut text = Text { out: String::with_capacity(64 << 10), format };
    let status = telemetry.status();
    let labels =
        [("version", &*status.version), ("driver", &*status.driver), ("domain", &*status.domain)].map(|(n, v)| (n, v));
    text.family("throng_build_info", "Version, driver and domain of the running server.", Kind::Gauge)
        .sample(&labels, 1);
    state(&mut text, &status);
    let shards = telemetry.shards().into_iter().enumerate().map(|(shard, numbers)| (shard.to_string(), numbers));
    let mut sets = vec![Numbers { of: "shard", by: Some("shard"), sets: shards.collect() }];
    sets.extend(telemetry.works());
    sets.iter().for_each(|numbers| self::numbers(&mut text, numbers));
    telemetry.delays().iter().for_each(|delay| histogram(&mut text, delay));
    let help = "Resident memory by holder: files are pages of files, rest is memory that no part reports.";
    let mut memory = text.family("throng_memory_bytes", help, Kind::Gauge);
    status.memory.iter().for_each(|(part, bytes)| memory.sample(&[("part", part)], bytes));
    let help = "Memory that the allocator has reserved; pages never written to are not resident.";
    text.family("throng_memory_reserved_bytes", help, Kind::Gauge).sample(&[], status.reserved_bytes);
    process(&mut text, &Process::look());
    text.end()
}

/// A figure of a name that an authority is asked for.
type OfName = fn(&AcmeState) -> u64;

fn state(text: &mut Text, status: &Status) {
    for (name, help, value) in [
        ("uptime_seconds", "Seconds since the start.", status.uptime_s),
        ("shards", "Number of shards.", status.shards.into()),
        ("connections", "Open connections, authenticated or not.", status.connections),
        ("connections_max", "Limit of connections of all shards together.", status.connections_max),
        (
            "shards_not_accepting",
            "Shards that accept no connections at the moment, for lack of room or of descriptors.",
            status.not_accepting.as_ref().map_or(0, |paused| paused.shards.into()),
        ),
        ("sessions", "Bound sessions with a connection.", status.sessions),
        ("sessions_resumable", "Sessions that wait to be resumed (XEP-0198).", status.resumable),
        ("storage_full", "1 while new messages are refused because the disk is full.", status.storage_full.into()),
        (
            "storage_lacks_bytes",
            "Bytes to be freed on the store's device before new messages are accepted again.",
            status.storage_lacks_bytes,
        ),
        (
            "clock_in_doubt",
            "1 while the wall clock is far from the expected time: nothing is deleted only because it is old.",
            status.clock.is_some().into(),
        ),
        ("stopping", "1 while the server is stopping.", status.stopping.into()),
        (
            "recorder_failed",
            "1 after the activity recorder has failed: it records nothing until the server is restarted.",
            status.unrecorded.is_some().into(),
        ),
    ] {
        text.family(&format!("throng_{name}"), help, Kind::Gauge).sample(&[], value);
    }
    let of_acme: [(&str, &str, Kind, OfName); 3] = [
        (
            "throng_acme_certificate_expires_seconds",
            "When the certificate obtained for a name expires, in seconds since 1970; 0 if there is none.",
            Kind::Gauge,
            |of| of.expires_s.unwrap_or(0).max(0).unsigned_abs(),
        ),
        (
            "throng_acme_obtained_seconds",
            "When the last certificate for a name came, in seconds since 1970; 0 if none did.",
            Kind::Gauge,
            |of| of.obtained_s.max(0).unsigned_abs(),
        ),
        (
            "throng_acme_failures",
            "Orders of a certificate for a name that failed since the start.",
            Kind::Counter,
            |of| of.failures,
        ),
    ];
    for (name, help, kind, value) in of_acme.into_iter().filter(|_| !status.acme.is_empty()) {
        let mut family = text.family(name, help, kind);
        status.acme.iter().for_each(|of| family.sample(&[("name", &of.name)], value(of)));
    }
    let help = "Log lines lost because they came faster than they were read, or could not be written.";
    text.family("throng_log_lines_lost", help, Kind::Counter).sample(&[], status.log_lines_lost);
    if let Some(certificate) = &status.certificate {
        let help = "When the TLS certificate in use expires, in seconds since 1970; subtract time() for the time left.";
        text.family("throng_tls_certificate_expires_seconds", help, Kind::Gauge).sample(&[], certificate.expires_s);
        let help = "Domains except localhost with a certificate signed by the server itself: clients warn or refuse.";
        text.family("throng_tls_self_signed_domains", help, Kind::Gauge).sample(&[], certificate.self_signed.len());
    }
}

/// One family per number, with one series per set.
fn numbers(text: &mut Text, numbers: &Numbers) {
    let Some((_, first)) = numbers.sets.first() else { return };
    for (at, number) in first.iter().enumerate() {
        let (name, per) = in_base_units(number.name);
        let kind = if number.counts { Kind::Counter } else { Kind::Gauge };
        let mut family = text.family(&format!("throng_{}_{name}", numbers.of), number.help, kind);
        for (set, own) in &numbers.sets {
            let Some(Number { value, .. }) = own.get(at) else { continue };
            let label = numbers.by.map(|by| (by, set.as_str()));
            match per {
                1 => family.sample(label.as_slice(), value),
                per => family.sample(label.as_slice(), *value as f64 / per as f64),
            }
        }
    }
}

/// The name of a number, with shorter units replaced by seconds, and how many of its units make one
/// new unit.
fn in_base_units(name: &str) -> (Cow<'_, str>, u64) {
    let seconds = |short: &str, per| Some((Cow::Owned(format!("{}_seconds", name.strip_suffix(short)?)), per));
    seconds("_us", 1_000_000)
        .or_else(|| seconds("_ms", 1_000))
        .or_else(|| seconds("_s", 1))
        .unwrap_or((Cow::Borrowed(name), 1))
}

fn histogram(text: &mut Text, delay: &Delay) {
    let name = format!("throng_{}_seconds", delay.of);
    let mut family = text.family(&name, delay.help, Kind::Histogram);
    for (set, latencies) in &delay.sets {
        let label = delay.by.map(|by| (by, set.as_str()));
        let mut counts = [0; Latencies::BUCKETS];
        // Read the sum first: values noted in between are then in the counts only, and a mean is
        // rather too small than too large.
        let sum_us = latencies.sum();
        latencies.read(&mut counts);
        let mut counted = counts.iter().enumerate().peekable();
        let mut below = 0;
        for power in FIRST_POWER..=LAST_POWER {
            while let Some((_, count)) = counted.next_if(|(bucket, _)| Latencies::most(*bucket) < 1 << power) {
                below += count;
            }
            family.bucket(label, &seconds(1 << power), below);
        }
        let all = below + counted.map(|(_, count)| count).sum::<u64>();
        family.bucket(label, "+Inf", all);
        family.suffixed("_sum", label.as_slice(), seconds(sum_us));
        family.suffixed("_count", label.as_slice(), all);
    }
}

/// Microseconds as seconds, without rounding errors.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The metrics that Prometheus client libraries have for every process.
fn process(text: &mut Text, process: &Process) {
    let help = "CPU time used, in user and system mode.";
    if let Some(cpu) = process.cpu_seconds {
        text.family("process_cpu_seconds", help, Kind::Counter).sample(&[], cpu);
    }
    for (name, help, value) in [
        ("open_fds", "Open file descriptors, without sockets in io_uring's own table.", process.open_fds),
        ("max_fds", "Limit of file descriptors.", process.max_fds),
        ("resident_memory_bytes", "Resident memory, pages of files included.", process.resident_bytes),
        ("virtual_memory_bytes", "Mapped addresses.", process.virtual_bytes),
        ("threads", "Threads.", process.threads),
    ] {
        if let Some(value) = value {
            text.family(&format!("process_{name}"), help, Kind::Gauge).sample(&[], value);
        }
    }
    if let Some(start) = process.start_seconds {
        let help = "When the process started, in seconds since 1970.";
        text.family("process_start_time_seconds", help, Kind::Gauge).sample(&[], format!("{start:.2}"));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The text written so far.
struct Text {
    out: String,
    format: Format,
}

/// A family whose samples are being written.
struct Family<'t> {
    out: &'t mut String,
    /// The name of its samples.
    name: String,
}

impl Text {
    /// Begins a family. `name` has no `_total`.
    fn family(&mut self, name: &str, help: &str, kind: Kind) -> Family<'_> {
        let total = if kind == Kind::Counter { "_total" } else { "" };
        // OpenMetrics names a counter without the suffix of its samples.
        let named = if self.format == Format::Prometheus { total } else { "" };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(self.out, "# HELP {name}{named} {}\n# TYPE {name}{named} {kind}", escaped(help, false));
        Family { out: &mut self.out, name: format!("{name}{total}") }
    }

    fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out += "# EOF\n";
        }
        self.out
    }
}

impl Family<'_> {
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.suffixed("", labels, value);
    }

    /// A count of values of at most `le` seconds.
    fn bucket(&mut self, label: Option<(&str, &str)>, le: &str, count: u64) {
        let labels: Vec<_> = label.into_iter().chain([("le", le)]).collect();
        self.suffixed("_bucket", &labels, count);
    }

    fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.out, "{}{suffix}", self.name);
        for (at, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.out, "{}{name}=\"{}\"", if at == 0 { "{" } else { "," }, escaped(value, true));
        }
        let _ = writeln!(self.out, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

/// Escapes a single-line text for both formats.
fn escaped(text: &str, quoted: bool) -> Cow<'_, str> {
    if !text.contains(['\\', '\n', '"']) {
        return Cow::Borrowed(text);
    }
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    Cow::Owned(if quoted { text.replace('"', "\\\"") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn openmetrics_is_for_those_that_ask_for_it() {
        for (accept, wanted) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            ("text/plain;version=0.0.4, application/openmetrics-text;q=0.4", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(Format::wanted(&headers), wanted, "{accept}");
        }
        assert_eq!(Format::wanted(&HeaderMap::new()), Format::Prometheus);
    }

    #[test]
    fn a_histogram_counts_each_once_below_bounds_that_are_exact() {
        let latencies = Latencies::default();
        [3, 63, 64, 1_000, 1_024, 40_000_000].into_iter().for_each(|us| latencies.note(us));
        let delay = Delay {
            of: "message_delivery",
            by: Some("shard"),
            help: "Some.",
            sets: vec![("0".into(), std::sync::Arc::new(latencies))],
        };
        let mut text = Text { out: String::new(), format: Format::Prometheus };
        histogram(&mut text, &delay);
        for line in [
            "# TYPE throng_message_delivery_seconds histogram",
            "throng_message_delivery_seconds_bucket{shard=\"0\",le=\"0.000064\"} 2",
            "throng_message_delivery_seconds_bucket{shard=\"0\",le=\"0.000128\"} 3",
            "throng_message_delivery_seconds_bucket{shard=\"0\",le=\"0.001024\"} 4",
            "throng_message_delivery_seconds_bucket{shard=\"0\",le=\"16.777216\"} 5",
            "throng_message_delivery_seconds_bucket{shard=\"0\",le=\"+Inf\"} 6",
            "throng_message_delivery_seconds_sum{shard=\"0\"} 40.002154",
            "throng_message_delivery_seconds_count{shard=\"0\"} 6",
        ] {
            assert!(text.out.lines().any(|told| told == line), "{line} is not in:\n{}", text.out);
        }
    }

    #[test]
    fn what_would_break_a_line_is_escaped() {
        let mut text = Text { out: String::new(), format: Format::OpenMetrics };
        text.family("x", "a \"b\"\nc", Kind::Gauge).sample(&[("of", "d\\\"e\nf")], 1);
        assert_eq!(text.end(), "# HELP x a \"b\"\\nc\n# TYPE x gauge\nx{of=\"d\\\\\\\"e\\nf\"} 1\n# EOF\n");
    }
}
