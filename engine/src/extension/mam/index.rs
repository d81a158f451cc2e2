//! Brings the index by peer up to date when a query needs it: the entries after its end are read
//! and added, once each.

use crate::store::archive::{entries, is_void};
use crate::store::peers::{self, Directory, OPEN, PARTS, Part, Peer, SEGMENT_ENTRIES};
use crate::store::{Batch, Found, Query};
use crate::wire::jid::bare_of;

use super::rows::Walk;

/// Up to this many entries after the end of the index are scanned one by one; more are added to the
/// index.
const TAIL_ENTRIES_MAX: usize = 256;

/// The state of the index while it is extended.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Extending {
    directory: Directory,
    parts: [Part; PARTS],
    walk: Walk,
}

/// The reads that bring the index up to date.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Reads {
    /// The requested part of the open segment, and the entries after the end. The archive's first
    /// entry has the number `first`.
    End { directory: Directory, first: u64 },
    /// All parts of the open segment. The tail has the entries after the end.
    Open { directory: Directory, tail: Found },
    /// More of the entries after the end.
    Tail(Box<Extending>),
    /// Nothing: the index is up to date once the additions are written.
    Nothing(Directory),
}

/// The state of the index.
pub(super) enum Index {
    /// These writes and reads bring it up to date.
    Extends(Batch, Vec<Query>, Reads),
    /// It is up to date.
    Ready(Directory),
}

/// Continues with the results. `None` if a row is unreadable.
pub(super) fn found(user: &str, reads: Reads, found: &[Found]) -> Option<Index> {
    match (reads, found) {
        (Reads::End { directory, first }, [open, tail]) => end_found(user, directory, first, open, tail),
        (Reads::Open { directory, tail }, found) => match open_parts(&directory, found) {
            Some(parts) => {
                let walk = Walk::forward(directory.until.saturating_add(1));
                extend(user, Extending { directory, parts, walk }, &tail)
            }
            None => Some(anew(user, directory)),
        },
        (Reads::Tail(extending), [found]) => extend(user, *extending, found),
        (Reads::Nothing(directory), _) => Some(Index::Ready(directory)),
        _ => None,
    }
}

/// Starts with a user's index, which is created or extended if many entries follow its end. `found`
/// is the result of [`Directory::query`], `part` the requested part, and `first` the number of the
/// archive's first entry. `None` if the row is unreadable.
pub(super) fn begin(user: &str, part: u8, found: &Found, first: u64) -> Option<Index> {
    let directory = match found {
        Found::Value(None) => Directory::default(),
        Found::Value(Some(row)) => Directory::decode(row)?,
        _ => return None,
    };
    let tail = Walk::forward(directory.until.saturating_add(1));
    let queries = vec![peers::part(user, OPEN, part), tail.query_most(user)];
    Some(Index::Extends(Batch::new(), queries, Reads::End { directory, first }))
}

fn end_found(user: &str, mut directory: Directory, first: u64, open: &Found, tail: &Found) -> Option<Index> {
    if directory.open > 0 && !matches!(open, Found::Value(Some(row)) if goes_to(row, directory.until)) {
        return Some(anew(user, directory));
    }
    let Found::Rows { rows, more } = tail else { return None };
    if !more && count(rows).is_some_and(|count| count <= TAIL_ENTRIES_MAX) {
        return Some(Index::Ready(directory));
    }
    // Segments that retention has removed.
    directory.closed.retain(|last| *last >= first);
    let queries = (0..PARTS as u8).map(|part| peers::part(user, OPEN, part)).collect();
    Some(Index::Extends(Batch::new(), queries, Reads::Open { directory, tail: tail.clone() }))
}

/// The open segment ends before the place recorded in the directory: it is rebuilt.
fn anew(user: &str, mut directory: Directory) -> Index {
    directory.until = directory.closed.last().copied().unwrap_or(0);
    directory.open = 0;
    let walk = Walk::forward(directory.until.saturating_add(1));
    read_on(user, Extending { directory, parts: Default::default(), walk }, Batch::new())
}

fn goes_to(row: &[u8], until: u64) -> bool {
    Part::decode(row).is_some_and(|(_, to)| to == until)
}

fn count(rows: &[crate::store::Row]) -> Option<usize> {
    rows.iter().filter(|row| !is_void(&row.value)).map(|row| Some(entries(&row.sort, &row.value)?.len())).sum()
}

/// The parts of the open segment; `None` if they end before the place recorded in the directory.
fn open_parts(directory: &Directory, found: &[Found]) -> Option<[Part; PARTS]> {
    let mut parts: [Part; PARTS] = Default::default();
    if directory.open == 0 {
        return Some(parts);
    }
    for (part, found) in parts.iter_mut().zip(found) {
        let Found::Value(Some(row)) = found else { return None };
        let (read, until) = Part::decode(row)?;
        if until != directory.until {
            return None;
        }
        *part = read;
    }
    Some(parts)
}

fn read_on(user: &str, extending: Extending, batch: Batch) -> Index {
    let query = extending.walk.query_most(user);
    Index::Extends(batch, vec![query], Reads::Tail(Box::new(extending)))
}

/// Adds the entries that were read. Completed segments are written, so that an interrupted query
/// has not worked in vain.
fn extend(user: &str, mut extending: Extending, found: &Found) -> Option<Index> {
    let reached = extending.walk.found(found)?;
    let (mut batch, Extending { directory, parts, .. }) = (Batch::new(), &mut extending);
    for row in reached.rows().filter(|row| !is_void(&row.value)) {
        let all = entries(&row.sort, &row.value)?;
        let mut named: Vec<Peer> = Vec::new();
        for (number, entry) in &all {
            let peer = Peer::of(bare_of(entry.peer));
            // A row is found by its first entry with a peer.
            if !named.contains(&peer) {
                named.push(peer);
                parts[usize::from(peer.part)].add(peer, *number);
            }
        }
        directory.until = all.last().map_or(directory.until, |(number, _)| *number);
        directory.open += all.len() as u32;
        if directory.open >= SEGMENT_ENTRIES {
            for (at, part) in std::mem::take(parts).iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                part.put(&mut batch, user, at, directory.until, directory.until);
            }
            directory.closed.push(directory.until);
            directory.open = 0;
        }
    }
    if batch.is_empty() && reached.more {
        return Some(read_on(user, extending, batch));
    }
    for (at, part) in parts.iter().enumerate() {
        part.put(&mut batch, user, at, OPEN, directory.until);
    }
    directory.put(&mut batch, user);
    if reached.more {
        return Some(read_on(user, extending, batch));
    }
    Some(Index::Extends(batch, Vec::new(), Reads::Nothing(extending.directory)))
}
