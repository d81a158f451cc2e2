//! The index by peer, brought up to date by a query that needs it: what is behind its end is read and added, once for each entry.

use crate::store::archive::{entries, is_void};
use crate::store::peers::{self, Directory, OPEN, PARTS, Part, Peer, SEGMENT_ENTRIES};
use crate::store::{Batch, Found, Query};
use crate::wire::jid::bare_of;

use super::rows::Walk;

/// Entries behind the end of the index that are looked at one by one; with more of them they are added to it.
const TAIL_ENTRIES_MAX: usize = 256;

/// What is known of the index while it is extended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Extending {
    directory: Directory,
    parts: [Part; PARTS],
    walk: Walk,
}

/// What has been asked for to bring the index up to date.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reads {
    /// The wanted part of the open segment, and what is behind the end. The archive's first entry has the number `first`.
    End { directory: Directory, first: u64 },
    /// All parts of the open segment. The tail is what is behind the end.
    Open { directory: Directory, tail: Found },
    /// More of what is behind the end.
    Tail(Box<Extending>),
    /// Nothing: the index is up to date when what was added is written.
    Nothing(Directory),
}

/// How far the index is.
pub(super) enum Index {
    /// It is brought up to date by these writes, and by what these bring.
    Extends(Batch, Vec<Query>, Reads),
    /// It is up to date.
    Ready(Directory),
}

/// Goes on with what was asked for. `None` if a row cannot be read.
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

/// Begins with a user's index, which is made or extended if much is behind its end. `found` is the answer to [`Directory::query`], `part`
/// the one that is wanted of it, and `first` the number of the archive's first entry. `None` if the row cannot be read.
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

/// The open segment does not go as far as the directory says: it is made anew.
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

/// The parts of the open segment; `None` if they do not go as far as the directory says.
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

/// Adds what was read. What is whole is written, so that who is broken off has not worked for nothing.
fn extend(user: &str, mut extending: Extending, found: &Found) -> Option<Index> {
    let reached = extending.walk.found(found)?;
    let (mut batch, Extending { directory, parts, .. }) = (Batch::new(), &mut extending);
    for row in reached.rows().filter(|row| !is_void(&row.value)) {
        let all = entries(&row.sort, &row.value)?;
        let mut named: Vec<Peer> = Vec::new();
        for (number, entry) in &all {
            let peer = Peer::of(bare_of(entry.peer));
            // A row is found by the first entry of a peer in it.
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
