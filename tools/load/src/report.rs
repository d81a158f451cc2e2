//! The result as JSON, and as a few lines for people.

use serde_json::{Value, json};

use crate::control::Division;
use crate::driver::Kind;
use crate::histogram::Times;
use crate::progress::Whole;
use crate::scenario::Scenario;

pub(crate) fn rounded(n: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (n * scale).round() / scale
}

pub(crate) fn times(times: &Times) -> Value {
    json!({
        "count": times.count(), "mean": times.mean_ms(),
        "p50": times.quantile_ms(0.5), "p90": times.quantile_ms(0.9), "p99": times.quantile_ms(0.99),
        "p999": times.quantile_ms(0.999), "max": times.max_ms(),
    })
}

/// What a server must not do, with how often it has been done.
fn faults(whole: &Whole) -> [(&'static str, u64); 7] {
    let counted = &whole.counters;
    [
        ("lost", counted.lost),
        ("duplicates", counted.duplicates),
        ("reordered", counted.reordered),
        ("corrupted", counted.corrupted),
        ("unknown", counted.unknown),
        ("late", counted.late),
        ("sessions broken", counted.broken),
    ]
}

/// Messages of rooms that did not come, and were followed by none that came. They are known if each occupant was there all the
/// time.
pub(crate) fn lost_to_occupants(scenario: &Scenario, whole: &Whole) -> u64 {
    let seats = u64::from(scenario.rooms) * u64::from(scenario.room_occupants);
    let known = whole.counters.entered == seats && whole.counters.left == 0 && whole.counters.broken == 0;
    u64::try_from(whole.gauges.to_occupants).ok().filter(|_| known).unwrap_or(0)
}

/// Whether every message came once, whole, in order and in time, but for those that a broken connection explains, no session
/// was broken off, and some stood.
pub(crate) fn is_good(whole: &Whole) -> bool {
    faults(whole).iter().all(|(_, count)| *count == 0) && whole.gauges.arrived > 0
}

/// In words: `good`, or what was wrong.
fn verdict(whole: &Whole) -> String {
    let told = faults(whole).into_iter().filter(|(_, count)| *count > 0);
    let mut wrong: Vec<String> = told.map(|(what, count)| format!("{what} {count}")).collect();
    if whole.gauges.arrived == 0 {
        wrong.push("no session could log in".into());
    }
    if wrong.is_empty() { "good".into() } else { format!("NOT good: {}", wrong.join(", ")) }
}

/// Seconds from the storm until all that stood before it stood again; none if there was none, or it did not end.
fn storm_s(scenario: &Scenario, whole: &Whole) -> Option<f64> {
    if scenario.storm_share == 0.0 {
        return None;
    }
    let at_s = whole.ramp_s + scenario.storm_at_s;
    let before = whole.seconds.iter().rfind(|second| second.at_s <= at_s).map_or(whole.up_at_hold, |second| second.up);
    let back = whole.seconds.iter().find(|second| second.at_s > at_s + 1.0 && second.up >= before)?;
    Some(rounded(back.at_s - at_s, 1))
}

/// The whole result.
pub(crate) fn result(scenario: &Scenario, division: Division, whole: &Whole, server_pid: Option<u32>) -> Value {
    let counted = &whole.counters;
    let per_s = |count: u64| if whole.hold_s > 0.0 { rounded(count as f64 / whole.hold_s, 1) } else { 0.0 };
    let each = |us: u64, count: u64| (count > 0).then(|| rounded(us as f64 / count as f64, 2));
    let cost = |us: u64| each(us, whole.hold.received);
    let (ramp_us, hold_us) = (whole.server_ramp_cpu_us, whole.server_hold_cpu_us);
    let grown = whole.gauges.grown_bytes;
    let scenario_json: Value = scenario
        .toml()
        .parse::<toml::Table>()
        .map_or(Value::Null, |table| serde_json::to_value(table).unwrap_or_default());
    json!({
        "scenario": scenario_json,
        "good": is_good(whole),
        "verdict": verdict(whole),
        "ramp_s": rounded(whole.ramp_s, 3),
        "hold_s": rounded(whole.hold_s, 3),
        "sessions": {
            "arrived": whole.gauges.arrived, "hopeless": whole.gauges.hopeless, "up_max": whole.up_max,
            "up_at_hold": whole.up_at_hold, "connects": counted.connects, "logins": counted.logins,
            "logins_per_s": (whole.ramp_s > 0.0).then(|| rounded(whole.ramp_logins as f64 / whole.ramp_s, 1)),
            "broken": counted.broken, "login_ms": times(&whole.logins), "storm_recovered_s": storm_s(scenario, whole),
        },
        "messages": {
            "sent": counted.sent, "received": counted.received, "delayed": counted.delayed,
            "lost": counted.lost, "unsure": counted.unsure, "duplicates": counted.duplicates,
            "reordered": counted.reordered, "corrupted": counted.corrupted, "late": counted.late, "unknown": counted.unknown, "foreign": counted.foreign,
            "not_sent": counted.not_sent, "given_up": counted.given_up,
            "sent_per_s": per_s(whole.hold.sent), "received_per_s": per_s(whole.hold.received),
            "bytes_each": each(whole.hold.bytes_in, whole.hold.received),
            "latency_ms": times(&whole.latency),
            "latency_stayed_ms": times(&whole.stayed),
        },
        "rooms": { "entered": counted.entered, "left": counted.left },
        "presence": { "sent": counted.presence_sent, "received": counted.presence_received,
            "sent_per_s": per_s(whole.hold.presence_sent), "received_per_s": per_s(whole.hold.presence_received) },
        "bytes": { "in": counted.bytes_in, "out": counted.bytes_out },
        "bosh": { "requests": counted.requests, "requests_again": counted.requests_again },
        "errors": counted.errors,
        "server": {
            "pid": server_pid,
            "cpu_us_per_login": ramp_us.and_then(|us| each(us, whole.ramp_logins)),
            "cpu_us_per_message": hold_us.and_then(cost),
            "cpu_us_per_presence": hold_us.and_then(|us| each(us, whole.hold.presence_received)),
            "cores_in_hold": hold_us.map(|us| rounded(us as f64 / 1e6 / whole.hold_s.max(1e-3), 3)),
            "resident_bytes_max": whole.server_resident_bytes_max,
        },
        "generator": {
            "driver": if division.driver == Kind::Uring { "uring" } else { "epoll" },
            "processes": division.processes,
            "threads": division.threads,
            "client_bytes_per_session":
                (whole.up_at_hold > 0 && grown > 0).then(|| rounded(grown as f64 / whole.up_at_hold as f64, 1)),
            "cpu_s": rounded(whole.cpu_us as f64 / 1e6, 3),
            "cpu_us_per_message": cost(whole.hold_cpu_us),
            "sent_late_ms": times(&whole.sent_late),
        },
        "seconds": whole.seconds,
    })
}

/// The result in a few lines.
pub(crate) fn summary(result: &Value) -> String {
    let figure = |path: &str| match result.pointer(path) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(value) => value.to_string(),
    };
    let mut lines = vec![format!(
        "sessions  {} stood, {} at most at once; login p50 {} ms, p99 {} ms",
        figure("/sessions/arrived"),
        figure("/sessions/up_max"),
        figure("/sessions/login_ms/p50"),
        figure("/sessions/login_ms/p99")
    )];
    if figure("/messages/sent") != "0" {
        lines.push(format!(
            "messages  {} sent, {} came ({}/s); lost {}, unsure {}, duplicates {}, reordered {}",
            figure("/messages/sent"),
            figure("/messages/received"),
            figure("/messages/received_per_s"),
            figure("/messages/lost"),
            figure("/messages/unsure"),
            figure("/messages/duplicates"),
            figure("/messages/reordered")
        ));
        lines.push(format!(
            "latency   p50 {} ms, p99 {} ms, p99.9 {} ms, most {} ms",
            figure("/messages/latency_ms/p50"),
            figure("/messages/latency_ms/p99"),
            figure("/messages/latency_ms/p999"),
            figure("/messages/latency_ms/max")
        ));
    }
    lines.push(format!(
        "cpu       server {} us a message, generator {} us; generator {} bytes a session",
        figure("/server/cpu_us_per_message"),
        figure("/generator/cpu_us_per_message"),
        figure("/generator/client_bytes_per_session")
    ));
    if let Some(p99) = result.pointer("/generator/sent_late_ms/p99").and_then(Value::as_f64) {
        lines.push(format!("generator sent 99 % of the open loop's messages within {p99} ms of their time"));
    }
    if let Some(errors) = result.pointer("/errors").and_then(Value::as_object) {
        lines.extend(errors.iter().map(|(kind, count)| format!("error     {kind}: {count}")));
    }
    lines.push(format!("verdict   {}", result["verdict"].as_str().unwrap_or_default()));
    lines.join("\n")
}
