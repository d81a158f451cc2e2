//! `throng ctl status`: the state in about ten lines, the faults, and, with `--all`, every figure.

use super::{Io, age, bytes, many};
use crate::admin::wrong::Weight;
use crate::admin::{BackupStanding, Status};
use crate::backup::shown;
use crate::tls::date;

/// Width of the name of a line.
const NAME: usize = 12;

/// Groups of counters with the prefixes of their names; a counter belongs to the first group with a
/// matching prefix.
const GROUPS: &[(&str, &[&str])] = &[
    ("connections", &["connections", "conns_", "accept", "arrived", "departed", "streams_", "closed_", "paused"]),
    ("sessions and logins", &["sessions", "session_", "users_", "logins", "resumed", "expired", "asks_", "outside_"]),
    ("stanzas", &["stanzas_", "messages_", "presences_", "iqs_", "bytes_", "outbound_", "parked", "work_", "pace_"]),
    ("HTTP, WebSocket and BOSH", &["http_", "websockets", "bosh_"]),
    ("channels", &["notify_"]),
    ("push and reports", &["pushes_", "reports_"]),
    ("components", &["component"]),
    ("store", &["reads", "writes", "commits", "gate", "storage_"]),
    ("memory", &["mem_"]),
    ("shards", &[""]),
];

/// The text; with `all`, every figure.
pub(super) fn text(status: &Status, all: bool, io: &Io) -> String {
    let mut text = format!("throng {}\n", heading(status, io));
    let mut line = |name: &str, what: String| text += &format!("{name:<NAME$} {what}\n");
    line("serves", format!("{}, by {} on {}", domains(status), status.driver, many(status.shards.into(), "shard")));
    let listeners = status.listeners.iter().map(|of| format!("{} ({})", of.address, of.sort()));
    listeners.for_each(|listener| line("listens on", listener));
    if !status.admin_http.is_empty() {
        line("admin HTTP", status.admin_http.join(", "));
    }
    let count = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    let session = count("conns_bound");
    let rest = status.connections.saturating_sub(session);
    let (open, most) = (status.connections, status.connections_max);
    line("connections", format!("{open} of {most}: {session} with a session, {rest} without"));
    line("sessions", format!("{} connected, {} resumable", status.sessions, status.resumable));
    line("logins", format!("{} since start, {} failed", count("logins"), count("logins_failed")));
    let (refused, waits) = (count("messages_refused"), count("messages_stored"));
    let [came, went] = ["messages_in", "messages_out"].map(count);
    line("messages", format!("{came} in, {went} out, {waits} stored for later, {refused} refused since start"));
    let [came, went] = ["bytes_in", "bytes_out"].map(count);
    line("traffic", format!("{} in, {} out since start", bytes(came), bytes(went)));
    line("memory", memory(status));
    certificates(status).into_iter().for_each(|certificates| line("certificate", certificates));
    if let Some(backup) = &status.backup {
        line("backup", backed_up(backup));
    }
    for found in status.wrong() {
        let (name, colour) = match found.wrong.weight {
            Weight::Bad => ("WRONG", "31"),
            Weight::Warn => ("warning", "33"),
        };
        let name = io.paint(colour, &format!("{name:<NAME$}"));
        line(&name, format!("{} {}", found.wrong.what, found.wrong.text));
    }
    status.knobs_set.iter().for_each(|knob| line("set", super::knob::line(knob)));
    if all {
        text += &every(status);
    }
    text.truncate(text.trim_end().len());
    text
}

fn heading(status: &Status, io: &Io) -> String {
    let state = match (status.stopping, status.storage_full, status.stops_in_s) {
        (true, ..) => io.paint("33", "stopping"),
        (_, true, _) => io.paint("31", "disk full, refusing new messages"),
        (.., Some(left)) => io.paint("33", &format!("stops in {}", age(left))),
        _ => io.paint("32", "running"),
    };
    format!("{} (process {}), {state}, up {}", status.version, status.pid, age(status.uptime_s))
}

/// The main domain, and the number of additional ones: there may be thousands.
fn domains(status: &Status) -> String {
    match status.virtual_hosts.as_slice() {
        [] => status.domain.clone(),
        [one] => format!("{} and {one}", status.domain),
        more => format!("{} and {} virtual hosts", status.domain, more.len()),
    }
}

/// Certificates obtained from an authority: the first to be renewed, and the number of others.
fn certificates(status: &Status) -> Option<String> {
    let there = || status.acme.iter().filter_map(|of| Some((of, of.expires_s?)));
    let (first, expires_s) = there().min_by_key(|(of, _)| of.next_s)?;
    let others = match there().count() {
        1 => String::new(),
        all => format!(", the first of {all}"),
    };
    let (until, next) = (date(expires_s), date(first.next_s));
    Some(format!("of {} until {until}, renewed about {next}{others}", first.name))
}

/// The continuous backup.
fn backed_up(backup: &BackupStanding) -> String {
    let BackupStanding { to, encrypted, lag_ms, kept_bytes, full_s, .. } = backup;
    let full = full_s.map_or_else(|| "no full piece yet".into(), |s| format!("full at {}", shown(s * 1000)));
    let how = if *encrypted { "encrypted" } else { "not encrypted" };
    let waits = if *kept_bytes > 0 { format!(", {} wait on disk", bytes(*kept_bytes)) } else { String::new() };
    format!("to {to}, {how}: {:.1} s behind{waits}, {full}", *lag_ms as f64 / 1000.0)
}

/// Resident memory and its parts: the three figures add up to it.
fn memory(status: &Status) -> String {
    let part = |name: &str| status.memory.get(name).copied().unwrap_or(0);
    let (files, rest) = (part("files"), part("rest"));
    let held = status.resident_bytes.saturating_sub(files + rest);
    format!(
        "{} resident: {} program and files, {} data and buffers, {} other",
        bytes(status.resident_bytes),
        bytes(files),
        bytes(held),
        bytes(rest)
    )
}

/// What only `--all` shows: memory by part, and the counters in groups.
fn every(status: &Status) -> String {
    let mut text = "\nmemory by part, of what is resident\n".to_owned();
    let figure = |text: &mut String, name: &str, value: String| *text += &format!("  {name:<38} {value:>14}\n");
    status.memory.iter().for_each(|(part, held)| figure(&mut text, part, bytes(*held)));
    text += "memory reserved by the allocator, resident or not\n";
    figure(&mut text, "reserved", bytes(status.reserved_bytes));
    for (at, (heading, _)) in GROUPS.iter().enumerate() {
        text += &format!("{heading}\n");
        let own = status.counters.iter().filter(|(name, _)| group(name) == at);
        own.for_each(|(name, count)| figure(&mut text, name, with_unit(name, *count)));
    }
    text
}

fn group(name: &str) -> usize {
    let has = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    GROUPS.iter().position(|(_, beginnings)| has(beginnings)).expect("the last takes all")
}

/// A figure with the unit that its name ends in.
fn with_unit(name: &str, count: u64) -> String {
    match name {
        _ if name.ends_with("_bytes") || name.contains("bytes_") => bytes(count),
        _ if name.ends_with("_us") => format!("{:.1} s", count as f64 / 1e6),
        _ if name.ends_with("_s") => format!("{count} s"),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use throng_engine::counters::{Counted, Counters};

    use super::*;
    use crate::admin::Listening;

    fn status() -> Status {
        let counters = Counters::default();
        counters.conns_bound.set(2);
        counters.logins.add(7);
        counters.bytes_in.add(3 << 20);
        counters.sleep_us.add(1_500_000);
        let of = |address: &str, http| Listening {
            address: address.into(),
            direct_tls: true,
            proxied: false,
            component: false,
            http,
        };
        let parts = [("files", 20 << 20), ("users", 3 << 20), ("blocks", 1 << 20), ("rest", 4 << 20)];
        Status {
            version: "9.9".into(),
            pid: 4711,
            domain: "example.org".into(),
            driver: "epoll".into(),
            shards: 1,
            uptime_s: 61,
            listeners: vec![of("127.0.0.1:5223", false), of("127.0.0.1:5443", true)],
            admin_http: vec!["127.0.0.1:5290".into()],
            connections: 3,
            connections_max: 19_900,
            sessions: 2,
            resumable: 1,
            counters: counters.list().into_iter().map(|(name, .., value)| (name.to_owned(), value)).collect(),
            resident_bytes: 28 << 20,
            reserved_bytes: 64 << 20,
            memory: parts.map(|(part, held)| (part.to_owned(), held)).into(),
            ..Status::default()
        }
    }

    fn told(status: &Status, all: bool) -> String {
        let io = Io {
            out: Box::new(std::io::sink()),
            err: Box::new(std::io::sink()),
            input: None,
            out_terminal: false,
            terminal: false,
            colours: false,
            ask_secret: |_| unreachable!("nothing is asked"),
            json: false,
            is_process: false,
        };
        text(status, all, &io)
    }

    #[test]
    fn a_server_at_rest_is_about_ten_lines_with_units() {
        let told = told(&status(), false);
        let wanted = "\
throng 9.9 (process 4711), running, up 1m01s
serves       example.org, by epoll on 1 shard
listens on   127.0.0.1:5223 (TLS)
listens on   127.0.0.1:5443 (HTTPS)
admin HTTP   127.0.0.1:5290
connections  3 of 19900: 2 with a session, 1 without
sessions     2 connected, 1 resumable
logins       7 since start, 0 failed
messages     0 in, 0 out, 0 stored for later, 0 refused since start
traffic      3.0 MiB in, 0 B out since start
memory       28.0 MiB resident: 20.0 MiB program and files, 4.0 MiB data and buffers, 4.0 MiB other";
        assert_eq!(told, wanted);
    }

    #[test]
    fn what_is_wrong_is_a_line_each_and_everything_only_by_all() {
        let status = Status { storage_full: true, log_lines_lost: 1, ..status() };
        let short = told(&status, false);
        let last: Vec<&str> = short.lines().skip(11).collect();
        assert!(last[0].starts_with("WRONG        disk is full: new messages are refused"), "{short}");
        assert!(last[1].starts_with("warning      log has lost 1 line since start"), "{short}");
        assert_eq!(last.len(), 2, "{short}");
        let all = told(&status, true);
        assert!(all.starts_with(&short));
        for (name, value) in [("bytes_in", "3.0 MiB"), ("sleep_us", "1.5 s"), ("logins", "7"), ("reserved", "64.0 MiB")]
        {
            let found = all.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(name)?.strip_prefix(' '));
            assert_eq!(found.map(str::trim), Some(value), "{name} in {all}");
        }
        // Each counter appears once, below a heading; no heading is without counters.
        let names: BTreeMap<&str, usize> = status.counters.keys().map(|name| (name.as_str(), group(name))).collect();
        assert!((0..GROUPS.len()).all(|at| names.values().any(|of| *of == at)), "{names:?}");
        assert!(names.keys().all(|name| all.matches(&format!("  {name} ")).count() == 1), "{all}");
    }
}
