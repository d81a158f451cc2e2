//! What operators see of the server, as names and values for the commands of administrators
//! (XEP-0133).

use throng_engine::limits::ADHOC_ROWS_MAX;
use throng_engine::orders::{Listing, SessionSeen};

use super::wrong::Found;
use super::{ComponentRow, Held, KnobChange, KnobRow, Page, Reloaded, ReportRow, SessionRow, Status};
use crate::events::utc;

/// Approximate bytes of the values in a listing of reports: one stanza carries them.
const REPORTS_BYTES_MAX: usize = 64 << 10;

/// A fact: its name and its values.
type Fact = (&'static str, Vec<String>);

fn utc_or_none(at_s: Option<u64>) -> String {
    at_s.map(utc).unwrap_or_default()
}

/// Rows, of which the first [`ADHOC_ROWS_MAX`] are shown.
fn listing(columns: &'static [&'static str], rows: impl Iterator<Item = Vec<String>>) -> Listing {
    let mut rows: Vec<Vec<String>> = rows.collect();
    let more = rows.len().saturating_sub(ADHOC_ROWS_MAX) as u64;
    rows.truncate(ADHOC_ROWS_MAX);
    Listing { columns, rows, next: None, more }
}

pub(super) fn sessions(rows: Vec<SessionRow>) -> Vec<SessionSeen> {
    let resource = |jid: &str| jid.split_once('/').map(|(_, resource)| resource.to_owned()).unwrap_or_default();
    rows.into_iter().map(|row| SessionSeen { resource: resource(&row.jid), address: row.address }).collect()
}

/// As many as one stanza may carry; the rest is on the next page.
pub(crate) fn reports(page: Page<ReportRow>) -> Listing {
    let columns = &["id", "time", "by", "jid", "reason", "text", "messages"];
    let (mut rows, mut next, mut bytes) = (Vec::new(), None, 0);
    let more = page.next.is_some();
    let mut all = page.rows.into_iter().peekable();
    for row in all.by_ref() {
        next = Some(row.place());
        let values = vec![row.id, utc(row.at_s), row.by, row.jid, row.reason, row.text, row.messages.join(" ")];
        bytes += values.iter().map(String::len).sum::<usize>();
        rows.push(values);
        if bytes >= REPORTS_BYTES_MAX {
            break;
        }
    }
    let next = next.filter(|_| more || all.peek().is_some());
    Listing { columns, rows, next, more: 0 }
}

/// The state, without machine-readable parts: counters and memory have a page of numbers.
pub(super) fn status(status: Status) -> Vec<Fact> {
    let state = match (status.stopping, status.stops_in_s, status.storage_full) {
        (true, ..) => "stopping".to_owned(),
        (_, Some(left), _) => format!("stops in {left} s"),
        (_, _, true) => "disk full, refusing new messages".to_owned(),
        _ => "running".to_owned(),
    };
    let listeners = status.listeners.iter().map(|listening| format!("{} ({})", listening.address, listening.sort()));
    let faults = status.wrong().into_iter().map(|Found { wrong, .. }| format!("{} {}", wrong.what, wrong.text));
    let faults = faults.take(ADHOC_ROWS_MAX).collect::<Vec<_>>();
    let one = |value: String| vec![value];
    let mut facts = vec![
        ("state", one(state)),
        ("version", one(status.version)),
        ("uptime", one(status.uptime_s.to_string())),
        ("domains", std::iter::once(status.domain).chain(status.virtual_hosts).take(ADHOC_ROWS_MAX).collect()),
        ("driver", one(status.driver)),
        ("shards", one(status.shards.to_string())),
        ("listeners", listeners.collect()),
        ("connections", one(status.connections.to_string())),
        ("connections-max", one(status.connections_max.to_string())),
        ("sessions", one(status.sessions.to_string())),
        ("resumable", one(status.resumable.to_string())),
        ("memory", one(status.resident_bytes.to_string())),
        ("faults", faults),
        ("knobs-set", status.knobs_set.iter().map(|row| format!("{} = {}", row.key, row.value)).collect()),
    ];
    facts.retain(|(_, values)| !values.is_empty());
    facts
}

pub(super) fn components(rows: Vec<ComponentRow>) -> Listing {
    let columns =
        &["domain", "state", "address", "age", "stanzas-in", "stanzas-out", "refused", "waiting", "waiting-bytes"];
    let values = |row: ComponentRow| {
        let state = if row.connected { "connected" } else { "away" };
        let numbers = [row.age_s, row.stanzas_in, row.stanzas_out, row.refused, row.waiting, row.waiting_bytes];
        let words = [row.domain, state.to_owned(), row.address.unwrap_or_default()];
        words.into_iter().chain(numbers.map(|number| number.to_string())).collect()
    };
    listing(columns, rows.into_iter().map(values))
}

pub(super) fn limits(held: Held) -> Listing {
    let columns = &["limit", "who", "since", "until", "refused"];
    let values = |row: super::HeldRow| {
        vec![row.limit, row.who, utc(row.since_s), utc_or_none(row.until_s), row.refused.to_string()]
    };
    let shown = listing(columns, held.rows.into_iter().map(values));
    Listing { more: shown.more + held.more, ..shown }
}

pub(super) fn knobs(rows: impl Iterator<Item = KnobRow>) -> Listing {
    let columns = &["key", "value", "allowed", "default", "from", "until", "help"];
    let values = |row: KnobRow| {
        vec![row.key, row.value, row.allowed, row.default, row.source, utc_or_none(row.until_s), row.help]
    };
    listing(columns, rows.map(values))
}

pub(super) fn changes(changes: Vec<KnobChange>) -> Listing {
    let values = |change: KnobChange| vec![change.key, change.from, change.to, utc_or_none(change.until_s)];
    listing(&["key", "from", "to", "until"], changes.into_iter().map(values))
}

pub(super) fn reloaded(reloaded: Reloaded) -> Vec<Fact> {
    vec![("applied", reloaded.applied), ("waiting", reloaded.waiting), ("overridden", reloaded.overridden)]
}
