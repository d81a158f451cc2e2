//! The result of a run over channels as JSON, and as a few lines for people.

use serde_json::{Value, json};

use super::Fairness;
use super::scenario::Scenario;
use crate::control::Division;
use crate::driver::Kind;
use crate::progress::Whole;
use crate::report::{rounded, times};

/// What must not be, with how often it was.
fn faults(scenario: &Scenario, whole: &Whole) -> [(&'static str, u64); 8] {
    let counted = &whole.counters;
    [
        ("lost", counted.lost),
        ("duplicates", counted.duplicates),
        ("reordered", counted.reordered),
        ("corrupted", counted.corrupted),
        ("unknown", counted.unknown),
        ("late", counted.late),
        ("not known to subscribers that were away at the end", counted.unsure),
        ("clients that never arrived", u64::from(scenario.clients()).saturating_sub(whole.gauges.arrived)),
    ]
}

/// Whether each subscriber got each item once, whole, in order and in time, but for gaps that the server has told.
pub(super) fn is_good(scenario: &Scenario, whole: &Whole) -> bool {
    faults(scenario, whole).iter().all(|(_, count)| *count == 0)
}

/// In words: `good`, or what was wrong.
fn verdict(scenario: &Scenario, whole: &Whole) -> String {
    let wrong = faults(scenario, whole).into_iter().filter(|(_, count)| *count > 0);
    let wrong: Vec<String> = wrong.map(|(what, count)| format!("{what} {count}")).collect();
    if wrong.is_empty() { "good".into() } else { format!("NOT good: {}", wrong.join(", ")) }
}

/// The whole result. `server` is the process that was measured, with its resident memory before the first connection.
pub(super) fn result(
    scenario: &Scenario,
    division: Division,
    whole: &Whole,
    fairness: &Fairness,
    server: Option<(u32, Option<u64>)>,
) -> Value {
    let counted = &whole.counters;
    let hold_s = whole.hold_s.max(1e-3);
    let per_s = |count: u64| if whole.hold_s > 0.0 { rounded(count as f64 / hold_s, 1) } else { 0.0 };
    let each = |us: u64, count: u64| (count > 0).then(|| rounded(us as f64 / count as f64, 3));
    let of_hold = |count: u64| whole.server_hold_cpu_us.and_then(|us| each(us, count));
    let scenario_json: Value = scenario
        .toml()
        .parse::<toml::Table>()
        .map_or(Value::Null, |table| serde_json::to_value(table).unwrap_or_default());
    let grown = whole.gauges.grown_bytes;
    let all_wait =
        whole.seconds.iter().find(|second| second.phase == "hold").and_then(|second| second.server_resident_bytes);
    let server_grown =
        all_wait.zip(server.and_then(|(_, before)| before)).map(|(then, before)| then.saturating_sub(before));
    let per_client = |bytes: Option<u64>| {
        bytes
            .filter(|bytes| whole.up_at_hold > 0 && *bytes > 0)
            .map(|bytes| rounded(bytes as f64 / whole.up_at_hold as f64, 1))
    };
    let mean = (fairness.subscribers > 0).then(|| fairness.received as f64 / fairness.subscribers as f64);
    let share_mean = (fairness.subscribers > 0).then(|| fairness.shares / fairness.subscribers as f64);
    json!({
        "scenario": scenario_json,
        "good": is_good(scenario, whole),
        "verdict": verdict(scenario, whole),
        "ramp_s": rounded(whole.ramp_s, 3),
        "hold_s": rounded(whole.hold_s, 3),
        "connections": {
            "arrived": whole.gauges.arrived, "up_max": whole.up_max, "up_at_hold": whole.up_at_hold,
            "connects": counted.connects, "broken": counted.broken,
            "per_s": (whole.ramp_s > 0.0).then(|| rounded(whole.ramp_logins as f64 / whole.ramp_s, 1)),
            "begin_ms": times(&whole.logins),
        },
        "publications": {
            "items": counted.sent, "confirmed": counted.confirmed, "repeated": counted.repeated,
            "not_sent": counted.not_sent, "confirmed_per_s": per_s(whole.hold.confirmed), "answer_ms": times(&whole.answers),
        },
        "deliveries": {
            "received": counted.received, "received_per_s": per_s(whole.hold.received),
            "lost": counted.lost, "duplicates": counted.duplicates, "reordered": counted.reordered,
            "corrupted": counted.corrupted, "unknown": counted.unknown, "late": counted.late, "unsure": counted.unsure,
            "gaps": counted.gaps, "gapped": counted.gapped, "foreign": counted.foreign,
            "bytes_each": each(whole.hold.bytes_in, whole.hold.received), "latency_ms": times(&whole.latency),
        },
        "fairness": {
            "subscribers": fairness.subscribers,
            "items_per_s_mean": mean.map(|mean| rounded(mean / hold_s, 3)),
            "items_per_s_worst": mean.map(|_| rounded(fairness.received_min as f64 / hold_s, 3)),
            "worst_of_mean": share_mean.filter(|mean| *mean > 0.0).map(|mean| rounded(fairness.share_min / mean, 4)),
        },
        "bytes": { "in": counted.bytes_in, "out": counted.bytes_out },
        "errors": counted.errors,
        "server": {
            "pid": server.map(|(pid, _)| pid),
            "cpu_us_per_delivery": of_hold(whole.hold.received),
            "cpu_us_per_publication": of_hold(whole.hold.confirmed),
            "cores_in_hold": whole.server_hold_cpu_us.map(|us| rounded(us as f64 / 1e6 / hold_s, 3)),
            "resident_bytes_max": whole.server_resident_bytes_max,
            "resident_bytes_per_connection": per_client(server_grown),
        },
        "generator": {
            "driver": if division.driver == Kind::Uring { "uring" } else { "epoll" },
            "threads": division.threads,
            "client_bytes_per_connection": per_client(Some(grown)),
            "cpu_s": rounded(whole.cpu_us as f64 / 1e6, 3),
            "cpu_us_per_delivery": each(whole.hold_cpu_us, whole.hold.received),
            "sent_late_ms": times(&whole.sent_late),
        },
        "seconds": whole.seconds,
    })
}

/// The result in a few lines.
pub(super) fn summary(result: &Value) -> String {
    let figure = |path: &str| match result.pointer(path) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(value) => value.to_string(),
    };
    let mut lines = vec![
        format!(
            "connections  {} arrived, {} at most at once; up within p50 {} ms, p99 {} ms; {} broke",
            figure("/connections/arrived"),
            figure("/connections/up_max"),
            figure("/connections/begin_ms/p50"),
            figure("/connections/begin_ms/p99"),
            figure("/connections/broken"),
        ),
        format!(
            "published    {} items ({}/s), {} confirmed; answered within p50 {} ms, p99 {} ms",
            figure("/publications/items"),
            figure("/publications/confirmed_per_s"),
            figure("/publications/confirmed"),
            figure("/publications/answer_ms/p50"),
            figure("/publications/answer_ms/p99"),
        ),
    ];
    if figure("/deliveries/received") != "0" {
        lines.push(format!(
            "delivered    {} ({}/s); lost {}, duplicates {}, reordered {}; gaps {}, of {} items",
            figure("/deliveries/received"),
            figure("/deliveries/received_per_s"),
            figure("/deliveries/lost"),
            figure("/deliveries/duplicates"),
            figure("/deliveries/reordered"),
            figure("/deliveries/gaps"),
            figure("/deliveries/gapped"),
        ));
        lines.push(format!(
            "latency      p50 {} ms, p99 {} ms, p99.9 {} ms, most {} ms; the worst subscriber got {} of the mean",
            figure("/deliveries/latency_ms/p50"),
            figure("/deliveries/latency_ms/p99"),
            figure("/deliveries/latency_ms/p999"),
            figure("/deliveries/latency_ms/max"),
            figure("/fairness/worst_of_mean"),
        ));
    }
    lines.push(format!(
        "cost         server {} us a delivery, {} bytes a connection; generator {} us, {} bytes",
        figure("/server/cpu_us_per_delivery"),
        figure("/server/resident_bytes_per_connection"),
        figure("/generator/cpu_us_per_delivery"),
        figure("/generator/client_bytes_per_connection"),
    ));
    if let Some(p99) = result.pointer("/generator/sent_late_ms/p99").and_then(Value::as_f64) {
        lines.push(format!("generator sent 99 % of the open loop's publications within {p99} ms of their time"));
    }
    if let Some(errors) = result.pointer("/errors").and_then(Value::as_object) {
        lines.extend(errors.iter().map(|(kind, count)| format!("error        {kind}: {count}")));
    }
    lines.push(format!("verdict      {}", result["verdict"].as_str().unwrap_or_default()));
    lines.join("\n")
}
