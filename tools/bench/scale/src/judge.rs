//! From what was measured to figures, and from figures to budgets met or not.

use serde_json::{Map, Value, json};

use crate::Options;
use crate::proc::Look;
use crate::run::Measured;

/// Figures with a verdict.
pub(crate) struct Judged {
    /// All figures.
    pub(crate) value: Value,
    /// A line a budget, and one on what ended it.
    pub(crate) lines: Vec<String>,
    /// Whether every budget was met.
    pub(crate) met: bool,
}

fn rounded(n: f64) -> f64 {
    (n * 1000.0).round() / 1000.0
}

fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path).and_then(Value::as_f64)
}

/// What a session takes, in bytes, at one moment: by what the machine has less, and by its parts.
fn bytes_a_session(before: &Look, now: &Look, sessions: f64) -> Value {
    let each = |bytes: u64| (bytes as f64 / sessions).round();
    let slab = now.slab.saturating_sub(before.slab);
    let kernel = now.kernel_other.saturating_sub(before.kernel_other);
    json!({
        "by_available": each(before.available.saturating_sub(now.available)),
        "by_parts": each(now.server + now.generator + slab + kernel),
        "server": each(now.server),
        "generator": each(now.generator),
        "kernel_slab": each(slab),
        "kernel_other": each(kernel),
    })
}

/// Samples as one list a figure, those of the generator beside the looks of the same second.
fn seconds(measured: &Measured) -> Value {
    let empty = Vec::new();
    let told = measured.load["seconds"].as_array().unwrap_or(&empty);
    let mut columns: Map<String, Value> = Map::new();
    let mut put = |name: &str, value: Value| {
        if let Value::Array(column) = columns.entry(name).or_insert_with(|| json!([])) {
            column.push(value);
        }
    };
    let mib = |bytes: u64| json!(bytes >> 20);
    for second in told {
        let at_s = second["at_s"].as_f64().unwrap_or(0.0);
        let at = measured.looks.partition_point(|(look_s, _)| *look_s < at_s);
        let Some((_, now)) = measured.looks.get(at.min(measured.looks.len().saturating_sub(1))) else { continue };
        let then = measured.looks.get(at.wrapping_sub(1)).copied().unwrap_or((at_s - 1.0, *now)).1;
        let cores = |now: u64, then: u64| json!(rounded(now.saturating_sub(then) as f64 / 1e6));
        for name in ["at_s", "phase", "up", "logins_per_s", "received_per_s", "p50_ms", "p99_ms", "p999_ms", "errors"] {
            put(name, second[name].clone());
        }
        put("available_mib", mib(now.available));
        put("left_mib", mib(now.left));
        put("slab_mib", mib(now.slab));
        put("tcp_mib", mib(now.tcp));
        put("server_mib", mib(now.server));
        put("generator_mib", mib(now.generator));
        put("server_cores", cores(now.server_cpu_us, then.server_cpu_us));
        put("recorder_cores", cores(now.recorder_cpu_us, then.recorder_cpu_us));
        put("generator_cores", cores(now.generator_cpu_us, then.generator_cpu_us));
        put("machine_cores", cores(now.busy_us, then.busy_us));
    }
    Value::Object(columns)
}

/// Looks at the held sessions: the one when most memory was taken, and the last.
fn held(measured: &Measured) -> Option<(Look, Look)> {
    let told = measured.load["seconds"].as_array()?;
    let held: Vec<f64> = told.iter().filter(|s| s["phase"] == "hold").filter_map(|s| s["at_s"].as_f64()).collect();
    let (first, last) = (*held.first()?, *held.last()?);
    let within: Vec<Look> =
        measured.looks.iter().filter(|(at_s, _)| (first..=last).contains(at_s)).map(|(_, look)| *look).collect();
    Some((*within.iter().min_by_key(|look| look.available)?, *within.last()?))
}

/// Share of a core that the server's recorder took while the sessions were held, in percent.
fn recorder_pct(measured: &Measured) -> Option<f64> {
    let told = measured.load["seconds"].as_array()?;
    let mut held = told.iter().filter(|s| s["phase"] == "hold").filter_map(|s| s["at_s"].as_f64());
    let (first, last) = (held.next()?, held.next_back()?);
    let mut within = measured.looks.iter().filter(|(at_s, _)| (first..=last).contains(at_s));
    let (then, now) = (within.next()?, within.next_back()?);
    Some(rounded(now.1.recorder_cpu_us.saturating_sub(then.1.recorder_cpu_us) as f64 / 1e4 / (now.0 - then.0)))
}

/// The part of the sessions that counts as most of them: the last ones wait for a packet that the kernel sends again.
const MOST: f64 = 0.999;

/// Seconds from the beginning of a storm until most sessions stood again, to a second.
fn most_back_s(load: &Value, sessions: f64) -> Option<f64> {
    let held = load["seconds"].as_array()?.iter().filter(|second| second["phase"] == "hold");
    let told = held.filter_map(|second| Some((second["at_s"].as_f64()?, second["up"].as_f64()?)));
    let (mut before_s, mut began_s, mut low) = (None, None, false);
    for (at_s, up) in told {
        if began_s.is_none() && up < sessions {
            began_s = before_s;
        }
        low |= began_s.is_some() && up < sessions * MOST;
        if low && up >= sessions * MOST {
            return Some(at_s - began_s?);
        }
        before_s = Some(at_s);
    }
    None
}

/// Judges a run.
pub(crate) fn judge(options: &Options, measured: &Measured) -> Judged {
    let load = &measured.load;
    let up = number(load, "/sessions/up_max").unwrap_or(0.0);
    let ramp_s = number(load, "/ramp_s").unwrap_or(0.0);
    let logins_per_s = if ramp_s > 0.0 { number(load, "/sessions/up_at_hold").unwrap_or(0.0) / ramp_s } else { 0.0 };
    let weigh = |now: &Look| bytes_a_session(&measured.before, now, up.max(1.0));
    // What was read at a login stays for `cache_seconds`: the sessions' own memory is what is left of it at the end.
    let (most, memory) = held(measured).map_or((Value::Null, Value::Null), |(most, last)| (weigh(&most), weigh(&last)));
    let whole = number(&memory, "/by_available").zip(number(&memory, "/by_parts")).map(|(a, b)| a.max(b));
    let errors = load["errors"].as_object().map_or(0, |e| e.values().filter_map(Value::as_u64).sum::<u64>()) as f64;
    let p99_ms = number(load, "/messages/latency_ms/p99");
    let storm = options.storm_share > 0.0;
    let mut budgets = vec![
        ("sessions", Some(up), options.sessions as f64, false),
        ("errors", Some(errors), 0.0, true),
        ("logins a second", Some(rounded(logins_per_s)), 10_000.0, false),
        ("generator, bytes a client", number(load, "/generator/client_bytes_per_session"), 200.0, true),
        ("memory, bytes a session", whole, 9_216.0, true),
        ("recorder, % of a core", recorder_pct(measured), 1.0, true),
    ];
    if storm {
        budgets.extend([
            ("p99 of those who stayed, ms", number(load, "/messages/latency_stayed_ms/p99"), 250.0, true),
            ("longest login, ms", number(load, "/sessions/login_ms/max"), 30_000.0, true),
            ("recovery, s", number(load, "/sessions/storm_recovered_s"), 30.0, true),
        ]);
    } else if p99_ms.is_some() {
        budgets.push(("p99, ms", p99_ms, 50.0, true));
    }
    let returned = options.storm_share * up;
    let recovered_s = number(load, "/sessions/storm_recovered_s").filter(|seconds| *seconds > 0.0);
    let returns_per_s = recovered_s.filter(|_| storm).map(|seconds| rounded(returned / seconds));
    let most_per_s = most_back_s(load, up).filter(|_| storm).map(|seconds| rounded(returned * MOST / seconds));
    let good = load["good"] == true || storm && number(load, "/messages/lost") == Some(0.0);
    let mut met = good && measured.ended_by.is_none();
    let (mut lines, mut told) = (Vec::new(), Vec::new());
    for (name, value, budget, at_most) in budgets {
        let is_met = value.is_some_and(|value| if at_most { value <= budget } else { value >= budget });
        met &= is_met;
        let (verdict, sign) = (if is_met { "met    " } else { "NOT MET" }, if at_most { "<=" } else { ">=" });
        let shown = value.map_or("-".into(), |value| format!("{value}"));
        lines.push(format!("{verdict}  {name}: {shown} ({sign} {budget})"));
        told.push(json!({ "name": name, "value": value, "bound": format!("{sign} {budget}"), "met": is_met }));
    }
    if !good {
        lines.push("NOT MET  messages: lost, doubled, out of order or unknown, or nobody was there".into());
    }
    for (per_s, who) in [(most_per_s, "99.9 %"), (returns_per_s, "all")] {
        lines.extend(per_s.map(|per_s| format!("         storm, logins a second until {who} were back: {per_s}")));
    }
    if let Some(why) = &measured.ended_by {
        lines.push(format!("ended by: {why}"));
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let total = read("/proc/meminfo").lines().next().map(|line| line.replace("MemTotal:", "").trim().to_owned());
    let value = json!({
        "program": "scale",
        "command": format!("target/dist/scale {}", arguments.join(" ")),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cores": std::thread::available_parallelism().map_or(0, |n| n.get()),
        "memory": total,
        "shards": measured.shards,
        "tables_a_shard": measured.tables,
        "workers": options.workers,
        "met": met,
        "budgets": told,
        "ended_by": measured.ended_by,
        "login": { "mechanism": options.auth, "form": options.login, "resume": options.resume,
                   "pipelined": options.pipelined, "a_second": rounded(logins_per_s),
                   "storm_a_second": returns_per_s, "storm_a_second_most": most_per_s,
                   "ms": load.pointer("/sessions/login_ms") },
        "presence_bytes": options.presence_bytes,
        "bytes_a_session": memory,
        "bytes_a_session_most": most,
        "sessions": load["sessions"], "messages": load["messages"], "presence": load["presence"],
        "errors": load["errors"], "server": load["server"], "generator": load["generator"],
        "ramp_s": load["ramp_s"], "hold_s": load["hold_s"],
        "seconds": seconds(measured),
    });
    Judged { value, lines, met }
}

/// The figures as text: all on lines of their own, but a list of samples on one.
pub(crate) fn text(value: &Value) -> String {
    let mut rest = value.clone();
    let seconds = rest.as_object_mut().and_then(|fields| fields.remove("seconds")).unwrap_or_default();
    let text = serde_json::to_string_pretty(&rest).unwrap_or_default();
    let text = text.strip_suffix("\n}").unwrap_or(&text);
    let columns: Vec<String> = seconds
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, column)| format!("    {}: {column}", json!(name)))
        .collect();
    format!("{text},\n  \"seconds\": {{\n{}\n  }}\n}}\n", columns.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_by_what_the_machine_has_less_and_by_parts() {
        let before = Look { available: 10_000, slab: 1_000, ..Look::default() };
        let now =
            Look { available: 4_000, slab: 4_000, server: 700, generator: 300, kernel_other: 50, ..Look::default() };
        let told = bytes_a_session(&before, &now, 10.0);
        assert_eq!((told["by_available"].as_f64(), told["by_parts"].as_f64()), (Some(600.0), Some(405.0)));
    }

    #[test]
    fn a_storm_is_over_when_most_are_back() {
        let second = |at_s: f64, up: u64| json!({ "at_s": at_s, "up": up, "phase": "hold" });
        let load = |ups: &[u64]| json!({ "seconds": ups.iter().zip(1..).map(|(up, n)| second(f64::from(n), *up)).collect::<Vec<_>>() });
        assert_eq!(most_back_s(&load(&[1_000, 1_000, 400, 0, 500, 998, 999, 1_000]), 1_000.0), Some(5.0));
        assert_eq!(most_back_s(&load(&[1_000, 400, 998]), 1_000.0), None);
        assert_eq!(most_back_s(&load(&[1_000, 1_000]), 1_000.0), None);
    }

    #[test]
    fn the_text_is_json_with_a_line_a_list() {
        let value = json!({ "a": { "b": 1 }, "seconds": { "at_s": [1, 2], "up": [3, 4] } });
        let text = text(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
        assert!(text.contains("\"up\": [3,4]"), "{text}");
    }
}
