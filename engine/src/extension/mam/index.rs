//! The index by peer, brought up to date by a query that needs it: what is behind its end is read and added, once for each entry.

use std::sync::Arc;

use crate::extension::iq::{Condition, Resume, Step};
use crate::store::archive::{entries, is_void};
use crate::store::peers::{self, Directory, OPEN, PARTS, Part, Peer, SEGMENT_ENTRIES};
use crate::store::{Batch, Found};
use crate::wire::jid::bare_of;

use super::rows::Walk;

/// Entries behind the end of the index that are looked at one by one; with more of them they are added to it.
const TAIL_ENTRIES_MAX: usize = 256;

/// How to go on with an index that is up to date, and what is to be written before.
type GoOn = Box<dyn FnOnce(Directory) -> Step + Send + Sync>;

/// What is known of the index while it is extended.
#[derive(Debug, Default)]
struct Extending {
    directory: Directory,
    parts: [Part; PARTS],
    walk: Option<Walk>,
}

/// Goes on with the user's index, which is made or extended before if much is behind its end. `found` is the answer to
/// [`Directory::query`], `part` the one that is wanted of it, and `first` the number of the archive's first entry.
pub(super) fn with_index(user: Arc<str>, part: u8, found: &Found, first: u64, go_on: GoOn) -> Step {
    let directory = match found {
        Found::Value(None) => Directory::default(),
        Found::Value(Some(row)) => match Directory::decode(row) {
            Some(directory) => directory,
            None => return unreadable(),
        },
        _ => return unreadable(),
    };
    let queries =
        vec![peers::part(&user, OPEN, part), Walk::forward(directory.until.saturating_add(1)).query_most(&user)];
    let resume = Resume::with(move |found| {
        let [open, tail] = found else { return unreadable() };
        let mut directory = directory;
        if directory.open > 0 && !matches!(open, Found::Value(Some(row)) if goes_to(row, directory.until)) {
            return anew(user, directory, go_on);
        }
        let Found::Rows { rows, more } = tail else { return unreadable() };
        if !more && count(rows).is_some_and(|count| count <= TAIL_ENTRIES_MAX) {
            return go_on(directory);
        }
        // Segments that retention has removed.
        directory.closed.retain(|last| *last >= first);
        let queries = (0..PARTS as u8).map(|part| peers::part(&user, OPEN, part)).collect();
        let tail = tail.clone();
        let resume = Resume::with(move |found| {
            let Some(parts) = open_parts(&directory, found) else {
                return anew(user, directory, go_on);
            };
            let walk = Some(Walk::forward(directory.until.saturating_add(1)));
            extend(user, Extending { directory, parts, walk }, &tail, go_on)
        });
        Step::Prepare(Batch::new(), queries, resume)
    });
    // It is not known how much is behind the end: no query pays for it, or the first one would pay for all.
    Step::Prepare(Batch::new(), queries, resume)
}

/// The open segment does not go as far as the directory says: it is made anew.
fn anew(user: Arc<str>, mut directory: Directory, go_on: GoOn) -> Step {
    directory.until = directory.closed.last().copied().unwrap_or(0);
    directory.open = 0;
    let walk = Some(Walk::forward(directory.until.saturating_add(1)));
    read_on(user, Extending { directory, parts: Default::default(), walk }, Batch::new(), go_on)
}

fn goes_to(row: &[u8], until: u64) -> bool {
    Part::decode(row).is_some_and(|(_, to)| to == until)
}

fn unreadable() -> Step {
    Step::Error(Condition::InternalServerError.into())
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

fn read_on(user: Arc<str>, extending: Extending, batch: Batch, go_on: GoOn) -> Step {
    let Some(walk) = &extending.walk else { return unreadable() };
    let query = walk.query_most(&user);
    let resume = Resume::with(move |found| match found {
        [found] => extend(user, extending, found, go_on),
        _ => unreadable(),
    });
    Step::Prepare(batch, vec![query], resume)
}

/// Adds what was read. What is whole is written, so that who is broken off has not worked for nothing.
fn extend(user: Arc<str>, mut extending: Extending, found: &Found, go_on: GoOn) -> Step {
    let Some(reached) = extending.walk.as_mut().and_then(|walk| walk.found(found)) else { return unreadable() };
    let (mut batch, Extending { directory, parts, .. }) = (Batch::new(), &mut extending);
    for row in reached.rows().filter(|row| !is_void(&row.value)) {
        let Some(all) = entries(&row.sort, &row.value) else { return unreadable() };
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
                part.put(&mut batch, &user, at, directory.until, directory.until);
            }
            directory.closed.push(directory.until);
            directory.open = 0;
        }
    }
    if batch.is_empty() && reached.more {
        return read_on(user, extending, batch, go_on);
    }
    for (at, part) in parts.iter().enumerate() {
        part.put(&mut batch, &user, at, OPEN, directory.until);
    }
    directory.put(&mut batch, &user);
    if reached.more {
        return read_on(user, extending, batch, go_on);
    }
    let directory = extending.directory;
    Step::Prepare(batch, Vec::new(), Resume::with(move |_| go_on(directory)))
}
