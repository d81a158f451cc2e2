//! Injected faults that verify the checks: in what shards read, in what they write, and in the
//! output to clients.

use std::ops::Range;

use throng_engine::store::archive::{Entry, entries, is_void, number_of};
use throng_engine::store::retractions::{self, Key, Retraction};
use throng_engine::store::sessions::{Step, Trail, steps};
use throng_engine::store::{Batch, Found, OpView, Query, Row, Table};

use super::Crossing;
use crate::random::Random;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The output of a turn is sent before its writes are durable.
    AckBeforeCommit,
    /// One batch of letters in two hundred is lost.
    LostBatch,
    /// The first stanza after `<resumed/>` is sent twice.
    DoubleDelivery,
    /// A page read from a log lacks its first row, one time in four.
    SkippedRow,
    /// One send in fifty of more than 500 bytes ends its stream, as if its queue had overflowed.
    Overflow,
    /// Reads do not find the rows that void entries of a log.
    RefusedShown,
    /// An archive row for a sent message is not written, one time in fifty.
    LostArchiveRow,
    /// An archive entry is written twice in succession, one time in fifty.
    DoubledArchiveRow,
    /// Reads do not find retractions.
    LostTombstone,
    /// A message can be retracted by its receiver, too.
    OthersTombstone,
    /// A batch of letters with a publication is lost, one time in four.
    LostEvent,
    /// A copy of a message for another device (XEP-0280) is lost, one time in eight.
    LostCopy,
    /// Two adjacent copies are swapped.
    SwappedCopies,
    /// A notification of a publication is sent twice, one time in eight.
    DoubledEvent,
    /// The wrong address is blocked.
    Unblocked,
    /// Blocks are ignored for messages.
    UnblockedMessages,
    /// Blocks are ignored for presence.
    UnblockedPresence,
    /// Blocks are ignored for subscription requests.
    UnblockedSubscriptions,
    /// Blocks are ignored for requests.
    UnblockedRequests,
    /// Blocks are ignored for publications.
    UnblockedItems,
    /// For sessions that are resumable after a crash, reads return the first stored counts and no
    /// later ones.
    OldCounts,
    /// Log entries lack the sessions to which they were delivered.
    LostTrail,
    /// Accounts may put twice as many messages into logs as the checks expect.
    Quota,
    /// Accounts may put twice as many bytes into logs as the checks expect.
    QuotaBytes,
    /// Two entries read from a log are swapped, one time in four.
    SwappedEntries,
    /// A repeated batch of letters is not recognised, one time in fifty.
    RepeatedLetters,
    /// A link between shards is renewed, and nobody notices.
    UnnoticedRenewal,
}

impl Plant {
    /// What lies between shards where the fault can show; `None` if that does not matter.
    pub fn crossing(self) -> Option<Crossing> {
        matches!(self, Plant::RepeatedLetters | Plant::UnnoticedRenewal).then_some(Crossing::Lossy)
    }

    /// All faults, with their names.
    pub const ALL: [(&str, Plant); 27] = [
        ("ack-before-commit", Plant::AckBeforeCommit),
        ("lost-batch", Plant::LostBatch),
        ("double-delivery", Plant::DoubleDelivery),
        ("skipped-row", Plant::SkippedRow),
        ("overflow", Plant::Overflow),
        ("refused-shown", Plant::RefusedShown),
        ("lost-archive-row", Plant::LostArchiveRow),
        ("doubled-archive-row", Plant::DoubledArchiveRow),
        ("lost-tombstone", Plant::LostTombstone),
        ("others-tombstone", Plant::OthersTombstone),
        ("lost-event", Plant::LostEvent),
        ("lost-copy", Plant::LostCopy),
        ("swapped-copies", Plant::SwappedCopies),
        ("doubled-event", Plant::DoubledEvent),
        ("unblocked", Plant::Unblocked),
        ("unblocked-messages", Plant::UnblockedMessages),
        ("unblocked-presence", Plant::UnblockedPresence),
        ("unblocked-subscriptions", Plant::UnblockedSubscriptions),
        ("unblocked-requests", Plant::UnblockedRequests),
        ("unblocked-items", Plant::UnblockedItems),
        ("counts", Plant::OldCounts),
        ("trail", Plant::LostTrail),
        ("quota", Plant::Quota),
        ("quota-bytes", Plant::QuotaBytes),
        ("swapped-entries", Plant::SwappedEntries),
        ("repeated-letters", Plant::RepeatedLetters),
        ("unnoticed-renewal", Plant::UnnoticedRenewal),
    ];

    /// The fault with this name.
    pub fn named(name: &str) -> Option<Plant> {
        Plant::ALL.iter().find(|(own, _)| *own == name).map(|(_, plant)| *plant)
    }

    /// Injects the fault into the answers to a shard's reads.
    pub(super) fn spoil_answers(self, queries: &[Query], found: &mut [Found], random: &mut Random) {
        match self {
            Plant::SkippedRow if random.chance(250) => skip_row(queries, found),
            Plant::SwappedEntries if random.chance(250) => swap_rows(queries, found),
            Plant::OldCounts => found.iter_mut().zip(queries).for_each(hide_counts),
            Plant::LostTrail => found.iter_mut().zip(queries).for_each(hide_handed),
            Plant::RefusedShown => found.iter_mut().for_each(hide_void),
            Plant::LostTombstone => found.iter_mut().zip(queries).for_each(hide_retractions),
            _ => {}
        }
    }

    /// The writes that replace a turn's writes, if the fault affects them.
    pub(super) fn spoiled_writes(self, writes: &Batch, random: &mut Random) -> Option<Batch> {
        let each = match self {
            Plant::LostArchiveRow => lose_row,
            Plant::DoubledArchiveRow => double_row,
            Plant::OthersTombstone => retract_others,
            _ => return None,
        };
        let mut spoiled = Batch::new();
        for op in writes.iter() {
            match op {
                OpView::Put { table: Table::Archive, actor, sort, value } if !is_void(value) => {
                    each(&mut spoiled, actor, &Row { sort: sort.into(), value: value.into() }, random);
                }
                OpView::Put { table, actor, sort, value } => spoiled.put(table, actor, sort, &[value]),
                OpView::Delete { table, actor, sort } => spoiled.delete(table, actor, sort),
                OpView::DeleteRange { table, actor, from, until } => spoiled.delete_range(table, actor, from, until),
                OpView::DeleteActor { table, actor } => spoiled.delete_actor(table, actor),
            }
        }
        Some(spoiled)
    }

    /// Injects the fault into output to a client.
    pub(super) fn spoil_bytes(self, bytes: &mut Vec<u8>, random: &mut Random) {
        match self {
            Plant::DoubleDelivery => double_after_resumed(bytes),
            Plant::Overflow if bytes.len() > 500 && random.chance(20) => {
                bytes.extend_from_slice(
                    b"<stream:error><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>",
                );
            }
            Plant::LostCopy if random.chance(125) => {
                // Replaces it by another stanza: both ends count them (XEP-0198 4).
                if let Some(range) = copy(0, bytes) {
                    bytes.splice(range, *b"<message type='headline'/>");
                }
            }
            Plant::SwappedCopies => {
                let Some(first) = copy(0, bytes) else { return };
                let Some(second) = copy(first.end, bytes).filter(|second| second.start == first.end) else { return };
                bytes[first.start..second.end].rotate_left(first.len());
            }
            Plant::DoubledEvent if random.chance(125) => {
                if let Some(range) = stanza(bytes, 0, EVENT, b"</event></message>") {
                    let event = bytes[range.clone()].to_vec();
                    bytes.splice(range.end..range.end, event);
                }
            }
            _ => {}
        }
    }
}

// Faults in reads.

/// Hides the rows with later counts of sessions.
fn hide_counts((found, query): (&mut Found, &Query)) {
    if let (Found::Rows { rows, .. }, Query::Range { table: Table::Sessions, .. }) = (found, query) {
        rows.retain(|row| row.sort.last() != Some(&b'C'));
    }
}

/// Reduces entries of an archive to their sender.
fn hide_handed((found, query): (&mut Found, &Query)) {
    if let (Found::Rows { rows, .. }, Query::Range { table: Table::Archive, .. }) = (found, query) {
        for row in rows.iter_mut() {
            let Some(entries) = entries(&row.sort, &row.value) else { continue };
            let mut batch = Batch::new();
            for (number, entry) in entries {
                let mut trail = Trail::default();
                steps(entry.trail).filter(|step| matches!(step, Step::Sent { .. })).for_each(|step| trail.add(step));
                Entry { trail: trail.bytes(), ..entry }.put(&mut batch, "somebody@localhost", number);
            }
            if let Some(OpView::Put { value, .. }) = batch.last() {
                row.value = value.into();
            }
        }
    }
}

fn hide_void(found: &mut Found) {
    if let Found::Rows { rows, .. } = found {
        rows.retain(|row| !is_void(&row.value));
    }
}

fn hide_retractions((found, query): (&mut Found, &Query)) {
    let Query::Range { from: first, .. } = retractions::first("somebody@localhost", 1) else { return };
    let of_retraction = |sort: &[u8]| sort.starts_with(&first);
    match (found, query) {
        (Found::Rows { rows, .. }, Query::Range { table: Table::Private, .. }) => {
            rows.retain(|row| !of_retraction(&row.sort));
        }
        (Found::Value(value), Query::Get { table: Table::Private, sort, .. }) if of_retraction(sort) => *value = None,
        _ => {}
    }
}

/// Removes the first row from a page of a log.
fn skip_row(queries: &[Query], found: &mut [Found]) {
    if let Some(rows) = page(queries, found).filter(|rows| !rows.is_empty()) {
        rows.remove(0);
    }
}

/// Swaps the contents of two adjacent rows of a page: entries of one sender, one in each.
fn swap_rows(queries: &[Query], found: &mut [Found]) {
    let Some(rows) = page(queries, found) else { return };
    let sender = |row: &Row| match &entries(&row.sort, &row.value)?[..] {
        [(_, entry)] if entry.incoming => Some(entry.peer.to_owned()),
        _ => None,
    };
    let pair = rows.windows(2).position(|pair| sender(&pair[0]).is_some_and(|of| sender(&pair[1]) == Some(of)));
    if let Some(at) = pair {
        let [first, second] = &mut rows[at..at + 2] else { unreachable!("two rows") };
        std::mem::swap(&mut first.value, &mut second.value);
    }
}

/// The page of a log that is read for a session which follows it.
fn page<'a>(queries: &[Query], found: &'a mut [Found]) -> Option<&'a mut Vec<Row>> {
    // Sessions also read waiting messages; clients' queries, which are subject to other faults, do
    // not.
    if !queries.iter().any(|query| matches!(query, Query::Range { table: Table::Waiting, .. })) {
        return None;
    }
    let is_page = |query: &Query| matches!(query, Query::Range { table: Table::Archive, rows_max: 2.., .. });
    match queries.iter().zip(found).find(|(query, _)| is_page(query)) {
        Some((_, Found::Rows { rows, .. })) => Some(rows),
        _ => None,
    }
}

// Faults in writes: each of these puts a row of an archive, or something else, into the batch.

fn put_row(batch: &mut Batch, user: &[u8], row: &Row) {
    batch.put(Table::Archive, user, &row.sort, &[&row.value]);
}

fn lose_row(batch: &mut Batch, user: &[u8], row: &Row, random: &mut Random) {
    let sent = entries(&row.sort, &row.value).is_some_and(|all| all.iter().all(|(_, entry)| !entry.incoming));
    if !sent || !random.chance(20) {
        put_row(batch, user, row);
    }
}

fn double_row(batch: &mut Batch, user: &[u8], row: &Row, random: &mut Random) {
    put_row(batch, user, row);
    let (Some(number), Some(all)) = (number_of(&row.sort), entries(&row.sort, &row.value)) else { return };
    if let ([(_, entry)], true, Ok(user)) = (&all[..], random.chance(20), std::str::from_utf8(user)) {
        // In a separate batch, because it would share the row otherwise.
        let mut again = Batch::new();
        entry.put(&mut again, user, number + 1);
        batch.append(&again);
    }
}

/// Makes retractions apply to what their sender has received, too.
fn retract_others(batch: &mut Batch, user: &[u8], row: &Row, _: &mut Random) {
    put_row(batch, user, row);
    let (Some(all), Ok(user)) = (entries(&row.sort, &row.value), std::str::from_utf8(user)) else { return };
    for (number, entry) in all {
        let xml = String::from_utf8_lossy(entry.xml);
        let attribute = |text: &str, sign: &str| {
            let value = text.split_once(sign)?.1.split_once('\'')?.0;
            Some(value.to_owned())
        };
        let named = xml.split_once("<retract ").and_then(|(_, rest)| attribute(rest, " id='"));
        if let (Some(named), Some(own)) = (named, attribute(&xml, " id='")) {
            let key = Key::of(!entry.incoming, entry.peer.split('/').next().unwrap_or_default(), &named);
            Retraction { number, time_ms: entry.time_ms, id: &own }.put(batch, user, &key);
        }
    }
}

// Faults in output.

const COPY: &[u8] = b"xmlns='urn:xmpp:carbons:2'><forwarded ";
const EVENT: &[u8] = b"<event xmlns='http://jabber.org/protocol/pubsub#event'>";

/// The position of the first copy after `from`.
fn copy(from: usize, bytes: &[u8]) -> Option<Range<usize>> {
    let sent = stanza(bytes, from, COPY, b"</sent></message>");
    let received = stanza(bytes, from, COPY, b"</received></message>");
    [sent, received].into_iter().flatten().min_by_key(|range| range.end)
}

/// The position of the first message after `from` that contains `sign` and ends with `end`.
fn stanza(bytes: &[u8], from: usize, sign: &[u8], end: &[u8]) -> Option<Range<usize>> {
    let find = |from: usize, what: &[u8]| memchr::memmem::find(bytes.get(from..)?, what).map(|at| from + at);
    let at = find(from, sign)?;
    let start = from + memchr::memmem::rfind(&bytes[from..at], b"<message ")?;
    Some(start..find(at, end)? + end.len())
}

/// Inserts the first stanza after `<resumed/>` twice.
fn double_after_resumed(bytes: &mut Vec<u8>) {
    let Some(at) = memchr::memmem::find(bytes, b"<resumed ") else { return };
    let Some(start) = memchr::memmem::find(&bytes[at..], b"<message ").map(|n| at + n) else { return };
    let Some(end) = memchr::memmem::find(&bytes[start..], b"</message>").map(|n| start + n + 10) else { return };
    let again = bytes[start..end].to_vec();
    bytes.splice(end..end, again);
}
