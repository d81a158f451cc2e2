//! How a query finds its results: what has to be there is looked up, times become numbers, and then the archive is gone over row by
//! row, or the index by peer says which rows there are.
//!
//! All of it are steps that read and go on. What lies between two of them is in [`Search`].

use std::collections::VecDeque;
use std::sync::Arc;

use crate::extension::iq::{Condition, Limit, Resume, Step};
use crate::limits::ARCHIVE_SCAN_BYTES_MAX;
use crate::store::archive::{Exact, entries, exact, exactly, is_void, live_entries, number_of, seek};
use crate::store::peers::{self, Directory, OPEN, Peer};
use crate::store::{Found, Query};
use crate::wire::jid::bare_of;

use super::index::with_index;
use super::page::{Asked, Page};
use super::rows::Walk;
use super::time::{Edge, first, last_time_ms};
use super::tombstones::finish;

/// Parts of segments that are read at once.
const PARTS_AT_ONCE: usize = 16;

/// A search under way.
#[derive(Clone, Debug)]
struct Search {
    asked: Arc<Asked>,
    page: Page,
    /// Bytes that were read for it.
    spent: usize,
    /// First and last number that may be among the results.
    low: u64,
    high: u64,
    /// Rows that are gone over one by one: all, or those that the index does not have.
    walk: Option<Walk>,
    /// Segments of the index that are still to be looked at, in the direction of the search; bounded by those of the directory.
    segments: VecDeque<u64>,
    /// Numbers of rows that the index has named, in this direction; bounded by what `PARTS_AT_ONCE` parts name.
    named: VecDeque<u64>,
}

/// The answer if a row cannot be read.
fn unreadable() -> Step {
    Step::Error(Condition::InternalServerError.into())
}

/// Begins: looks up what has to be there, and what is needed to begin.
pub(super) fn begin(asked: Arc<Asked>) -> Step {
    let (user, wanted) = (&*asked.account, &asked.wanted);
    let anchors = wanted.anchors.len();
    let mut queries: Vec<Query> = wanted.anchors.iter().map(|number| seek(user, *number)).collect();
    if let Some(ids) = &wanted.ids {
        queries.extend(ids.iter().map(|number| seek(user, *number)));
        return Step::Read(queries, Resume::with(move |found| by_ids(&asked, anchors, found)));
    }
    let search = Search {
        page: Page::default(),
        spent: 0,
        low: wanted.low(),
        high: wanted.high(),
        walk: None,
        segments: VecDeque::new(),
        named: VecDeque::new(),
        asked: asked.clone(),
    };
    if search.low > search.high {
        // There is nothing between them, if they are there.
        return Step::Read(
            queries,
            Resume::with(move |found| match all_there(&asked, &asked.wanted.anchors, found) {
                Err(step) => step,
                Ok(()) => finish(Page::default(), &asked, true),
            }),
        );
    }
    let timed = wanted.start_us > 0 || wanted.end_us < u64::MAX;
    if !timed && wanted.peer(user).is_none() {
        // Nothing else has to be known: the first rows come at once.
        let (walk, more) = search.walk_from(search.low);
        queries.extend(more);
        return Step::Read(
            queries,
            Resume::with(move |found| {
                let (anchored, found) = found.split_at(anchors.min(found.len()));
                match all_there(&asked, &asked.wanted.anchors, anchored) {
                    Err(step) => step,
                    Ok(()) => search.clone().walked(walk.clone(), found),
                }
            }),
        );
    }
    queries.push(seek(user, search.low));
    queries.push(Walk::back_from_end(0).query(user, 1));
    Step::Read(
        queries,
        Resume::with(move |found| {
            let Some((anchored, [low, last])) = found.split_at_checked(anchors) else { return unreadable() };
            match all_there(&asked, &asked.wanted.anchors, anchored) {
                Err(step) => step,
                Ok(()) => search.clone().bounded(low, last),
            }
        }),
    )
}

/// Whether all of these are in the archive, by what seeks have found (XEP-0313 4.1.3, 4.3.2).
fn all_there(asked: &Asked, numbers: &[u64], found: &[Found]) -> Result<(), Step> {
    for (number, found) in numbers.iter().zip(found) {
        let Found::Rows { rows, .. } = found else { return Err(unreadable()) };
        let Some(all) = live_entries(rows) else { return Err(unreadable()) };
        if !all.iter().any(|(other, entry)| other == number && asked.shows(entry)) {
            return Err(Step::Error(Condition::ItemNotFound.into()));
        }
    }
    Ok(())
}

/// XEP-0313 4.1.3: the messages with these ids.
fn by_ids(asked: &Arc<Asked>, anchors: usize, found: &[Found]) -> Step {
    let (anchored, found) = found.split_at(anchors.min(found.len()));
    let ids = asked.wanted.ids.as_deref().unwrap_or_default();
    if let Err(step) = all_there(asked, &asked.wanted.anchors, anchored).and_then(|()| all_there(asked, ids, found)) {
        return step;
    }
    let mut page = Page::default();
    let mut all: Vec<(&u64, &Found)> = ids.iter().zip(found).collect();
    if asked.wanted.back {
        all.reverse();
    }
    for (number, found) in all {
        let Found::Rows { rows, .. } = found else { return unreadable() };
        let Some(entries) = live_entries(rows) else { return unreadable() };
        let Some((_, entry)) = entries.iter().find(|(other, _)| other == number) else { return unreadable() };
        if page.take(asked, *number, entry) {
            return finish(page, asked, false);
        }
    }
    finish(page, asked, true)
}

impl Search {
    /// A walk over all that may be among the results from a number on, and its first questions.
    fn walk_from(&self, low: u64) -> (Walk, Vec<Query>) {
        let (user, wanted) = (&*self.asked.account, self.page.missing(&self.asked));
        if !self.asked.wanted.back {
            let walk = Walk::forward(low);
            let query = walk.query(user, wanted);
            return (walk, vec![query]);
        }
        if self.high == u64::MAX {
            let walk = Walk::back_from_end(low);
            let query = walk.query(user, wanted);
            return (walk, vec![query]);
        }
        let behind = self.high + 1;
        let nothing = Found::Rows { rows: Vec::new(), more: false };
        let walk = Walk::back_from(low, behind, &nothing);
        let query = walk.query(user, wanted);
        (walk, vec![seek(user, behind), query])
    }

    /// The walk's first questions are answered.
    fn walked(self, walk: Walk, found: &[Found]) -> Step {
        match found {
            [found] => self.walk_on(walk, found),
            [behind, found] => {
                let walk = Walk::back_from(walk.low(), self.high + 1, behind);
                self.walk_on(walk, found)
            }
            _ => unreadable(),
        }
    }

    /// Goes on with rows.
    fn walk_on(mut self, mut walk: Walk, found: &Found) -> Step {
        self.spent += found.bytes();
        let Some(reached) = walk.found(found) else { return unreadable() };
        let Some(mut entries) = live_entries(&reached.rows) else { return unreadable() };
        let (back, before) = (self.asked.wanted.back, self.page.missing(&self.asked));
        if back {
            entries.reverse();
        }
        for (number, entry) in &entries {
            if !back && *number > self.high {
                return finish(self.page, &self.asked, true);
            }
            if (self.low..=self.high).contains(number) && self.page.take(&self.asked, *number, entry) {
                return finish(self.page, &self.asked, false);
            }
        }
        if !reached.more {
            self.walk = None;
            return self.go_on();
        }
        // Where nothing was a result, little of what comes will be.
        let missing = self.page.missing(&self.asked);
        let most = missing == before && !entries.is_empty();
        let query = if most { walk.query_most(&self.asked.account) } else { walk.query(&self.asked.account, missing) };
        self.read(vec![query], move |search, found| match found {
            [found] => search.walk_on(walk.clone(), found),
            _ => unreadable(),
        })
    }

    /// Reads, if it has not read too much already.
    fn read(self, queries: Vec<Query>, go_on: impl Fn(Search, &[Found]) -> Step + Send + Sync + 'static) -> Step {
        if self.spent > ARCHIVE_SCAN_BYTES_MAX {
            return match self.page.is_empty() {
                true => Step::Error(Limit::ArchiveScan.into()),
                false => finish(self.page, &self.asked, false),
            };
        }
        Step::Read(queries, Resume::with(move |found| go_on(self.clone(), found)))
    }

    /// It is known where the archive begins and ends.
    fn bounded(mut self, low: &Found, last: &Found) -> Step {
        let Some(lowest) = first(low, self.low) else { return unreadable() };
        let Found::Rows { rows, .. } = last else { return unreadable() };
        let last = rows.iter().find(|row| !is_void(&row.value));
        let highest = last.and_then(|row| number_of(&row.sort));
        let (Some((lowest, lowest_ms)), Some(highest)) = (lowest, highest) else {
            // There is nothing.
            return finish(self.page, &self.asked, true);
        };
        // Where the last one is not within, its time says all the same how times rise.
        let Some(highest_ms) = last.and_then(last_time_ms) else { return unreadable() };
        self.low = self.low.max(lowest);
        if self.low > self.high {
            return finish(self.page, &self.asked, true);
        }
        let wanted = &self.asked.wanted;
        let (low, high) = (self.low, self.high.min(highest).saturating_add(1));
        let times = [(lowest, lowest_ms), (highest, highest_ms)];
        let edge = |time_us| Edge::new(time_us, low, high, times);
        let start = (wanted.start_us > 0).then(|| edge(wanted.start_us));
        let end = (wanted.end_us < u64::MAX).then(|| edge(wanted.end_us.saturating_add(1)));
        self.between([start, end])
    }

    /// Looks for the numbers where the time begins and ends.
    fn between(mut self, edges: [Option<Edge>; 2]) -> Step {
        let user = &*self.asked.account;
        let queries: Vec<Query> = edges.iter().flatten().flat_map(|edge| edge.queries(user)).collect();
        if !queries.is_empty() {
            return self.read(queries, move |mut search, mut found| {
                search.spent += found.iter().map(Found::bytes).sum::<usize>();
                let mut edges = edges;
                for edge in edges.iter_mut().flatten() {
                    if edge.found(&mut found).is_none() {
                        return unreadable();
                    }
                }
                search.between(edges)
            });
        }
        let [start, end] = edges;
        self.low = start.map_or(self.low, |edge| self.low.max(edge.low));
        self.high = end.map_or(self.high, |edge| self.high.min(edge.high.saturating_sub(1)));
        if self.low > self.high {
            return finish(self.page, &self.asked, true);
        }
        match self.asked.wanted.peer(&self.asked.account) {
            None => self.walk_all(),
            Some(_) => self.ask_index(),
        }
    }

    fn walk_all(self) -> Step {
        let (walk, queries) = self.walk_from(self.low);
        self.read(queries, move |search, found| search.walked(walk.clone(), found))
    }

    /// Whom the index is asked for.
    fn peer(&self) -> Option<Peer> {
        self.asked.wanted.peer(&self.asked.account).map(|with| Peer::of(bare_of(with)))
    }

    /// What the index has is found by it.
    fn ask_index(self) -> Step {
        let user: Arc<str> = (&*self.asked.account).into();
        let Some(peer) = self.peer() else { return unreadable() };
        let first = seek(&user, 0);
        let queries = vec![Directory::query(&user), first];
        self.read(queries, move |search, found| {
            let [directory, oldest] = found else { return unreadable() };
            let Some(oldest) = first_number(oldest) else { return unreadable() };
            let go_on = Arc::new(move |directory: Directory| search.clone().indexed(&directory));
            with_index(user.clone(), peer.part, directory, oldest, go_on)
        })
    }

    /// The index is up to date.
    fn indexed(mut self, directory: &Directory) -> Step {
        let open = (directory.open > 0).then_some(OPEN);
        let mut segments: VecDeque<u64> = directory.closed.iter().copied().filter(|last| *last >= self.low).collect();
        // Behind the first segment that ends behind the last number there is nothing.
        let whole = segments.iter().position(|last| *last >= self.high);
        match whole {
            Some(at) => segments.truncate(at + 1),
            None => segments.extend(open.filter(|_| directory.until >= self.low)),
        }
        let tail = directory.until.saturating_add(1).max(self.low);
        let tailed = tail <= self.high;
        if !self.asked.wanted.back {
            self.segments = segments;
            self.walk = tailed.then(|| Walk::forward(tail));
            return self.go_on();
        }
        self.segments = segments.into_iter().rev().collect();
        if !tailed {
            return self.go_on();
        }
        let (walk, queries) = self.walk_from(tail);
        self.read(queries, move |search, found| search.walked(walk.clone(), found))
    }

    /// Goes on where there is something to look at: rows that the index has named, more of the index, what it does not have.
    fn go_on(mut self) -> Step {
        let missing = self.page.missing(&self.asked);
        if !self.segments.is_empty() && self.named.len() < missing {
            return self.read_parts();
        }
        if !self.named.is_empty() {
            return self.read_named(missing);
        }
        match self.walk.take() {
            None => finish(self.page, &self.asked, true),
            Some(walk) => {
                let query = walk.query_most(&self.asked.account);
                self.read(vec![query], move |search, found| search.walked(walk.clone(), found))
            }
        }
    }

    fn read_parts(mut self) -> Step {
        let Some(peer) = self.peer() else { return unreadable() };
        let now: Vec<u64> = self.segments.drain(..PARTS_AT_ONCE.min(self.segments.len())).collect();
        let queries = now.iter().map(|key| peers::part(&self.asked.account, *key, peer.part)).collect();
        self.read(queries, move |mut search, found| {
            for found in found {
                search.spent += found.bytes();
                let numbers = match found {
                    // None of the part's peers is in this segment, or retention has removed it.
                    Found::Value(None) => continue,
                    Found::Value(Some(row)) => peers::numbers(row, peer),
                    _ => None,
                };
                let Some(mut numbers) = numbers else { return unreadable() };
                // A row is named by its first entry with the peer, and may have further ones.
                let from = numbers.partition_point(|number| *number <= search.low).saturating_sub(1);
                numbers.drain(..from);
                numbers.retain(|number| *number <= search.high);
                if search.asked.wanted.back {
                    numbers.reverse();
                }
                search.named.extend(numbers);
            }
            search.go_on()
        })
    }

    /// Reads rows that the index has named: by their keys, and those that have other keys by seeks.
    fn read_named(mut self, missing: usize) -> Step {
        let now: Vec<u64> = self.named.drain(..missing.min(self.named.len())).collect();
        let queries = now.iter().flat_map(|number| exact(&self.asked.account, *number)).collect();
        self.read(queries, move |mut search, found| {
            search.spent += found.iter().map(Found::bytes).sum::<usize>();
            let (pairs, []) = found.as_chunks::<2>() else { return unreadable() };
            let by_key = |(number, pair): (&u64, &[Found; 2])| Some((*number, exactly(*number, pair).ok()?.is_none()));
            let Some(rows) = now.iter().zip(pairs).map(by_key).collect::<Option<Vec<(u64, bool)>>>() else {
                return unreadable();
            };
            let account = search.asked.account.clone();
            let others: Vec<Query> =
                rows.iter().filter(|(_, sought)| *sought).map(|(number, _)| seek(&account, *number)).collect();
            if others.is_empty() {
                return search.take_named(&rows, pairs, &[]);
            }
            let pairs = pairs.to_vec();
            search.read(others, move |mut search, found| {
                search.spent += found.iter().map(Found::bytes).sum::<usize>();
                search.take_named(&rows, &pairs, found)
            })
        })
    }

    /// Goes on with rows that the index has named, each with whether it was sought.
    fn take_named(mut self, rows: &[(u64, bool)], pairs: &[[Found; 2]], sought: &[Found]) -> Step {
        let mut sought = sought.iter();
        for ((number, is_sought), pair) in rows.iter().zip(pairs) {
            let full = match is_sought {
                true => sought.next().and_then(|found| self.take_row(*number, found)),
                false => match exactly(*number, pair) {
                    Ok(Some(Exact::Live(entry))) if (self.low..=self.high).contains(number) => {
                        Some(self.page.take(&self.asked, *number, &entry))
                    }
                    Ok(_) => Some(false),
                    Err(_) => None,
                },
            };
            match full {
                Some(true) => return finish(self.page, &self.asked, false),
                Some(false) => {}
                None => return unreadable(),
            }
        }
        self.go_on()
    }

    /// Takes the results in a row that was sought by an entry that the index has named; whether the page is full, or none if the row
    /// cannot be read.
    fn take_row(&mut self, number: u64, found: &Found) -> Option<bool> {
        let Found::Rows { rows, .. } = found else { return None };
        let Some(at) = rows.iter().position(|row| !is_void(&row.value)) else { return Some(false) };
        // Retention has removed the row that was named; this one is named by itself, if it is.
        if !entries(&rows[at].sort, &rows[at].value)?.iter().any(|(other, _)| *other == number) {
            return Some(false);
        }
        let mut entries = live_entries(&rows[..=at])?;
        entries.retain(|(other, _)| *other >= number && (self.low..=self.high).contains(other));
        if self.asked.wanted.back {
            entries.reverse();
        }
        Some(entries.iter().any(|(number, entry)| self.page.take(&self.asked, *number, entry)))
    }
}

/// The number of the archive's first entry, 0 if there is none; `None` if its row cannot be read.
fn first_number(found: &Found) -> Option<u64> {
    Some(first(found, 0)?.map_or(0, |(number, _)| number))
}
