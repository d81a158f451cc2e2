//! How a query finds its results: required ids are looked up, times are converted to numbers, and
//! then the archive is scanned row by row, or the index by peer selects the rows.
//!
//! All of it consists of steps that read and continue. The state between two steps is in
//! [`Search`]; what the next one has read is described by [`Reads`].

use std::collections::VecDeque;
use std::sync::Arc;

use crate::extension;
use crate::extension::iq::{Condition, Limit, Step};
use crate::id::Domains;
use crate::limits::{ARCHIVE_COUNT_BYTES_MAX, ARCHIVE_SCAN_BYTES_MAX};
use crate::store::archive::{
    Unreadable, ending, entries, is_void, last_entry, live_entries, number_of, refused, seek, was_refused,
};
use crate::store::peers::{self, Directory, OPEN, Peer};
use crate::store::{Found, Query};
use crate::wire::jid::bare_of;

use super::index::{self, Index};
use super::page::{Asked, Page};
use super::retract::Retracted;
use super::rows::Walk;
use super::time::{Edge, first, last_time_ms};
use super::tombstones::finish;

/// Number of segment parts per read.
const PARTS_AT_ONCE: usize = 16;

/// A search in progress.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Search {
    asked: Arc<Asked>,
    page: Page,
    /// Bytes read for it.
    spent: usize,
    /// Lowest and highest number that may be among the results.
    low: u64,
    high: u64,
    /// Rows that are scanned one by one: all, or those that the index does not cover.
    walk: Option<Walk>,
    /// Segments of the index that remain to be read, in the direction of the search; bounded by the
    /// directory.
    segments: VecDeque<u64>,
    /// Numbers of rows that the index has selected, in this direction; bounded by the content of
    /// `PARTS_AT_ONCE` parts.
    named: VecDeque<u64>,
}

/// The reads for which a search waits.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Reads {
    /// Rows that are scanned one by one.
    Rows(Walk),
    /// Entries near the numbers at which the time range begins and ends.
    Edges([Option<Edge>; 2]),
    /// The directory of the index, and the archive's first entry.
    Directory,
    /// The reads that bring the index up to date.
    Index(index::Reads),
    /// Parts of these segments of the index.
    Parts,
    /// The rows with these numbers, which the index has selected.
    Named(Vec<u64>),
    /// Further reads about such rows.
    More { numbers: Vec<u64>, rows: Vec<Found> },
}

/// A query that waits for rows.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[expect(clippy::large_enum_variant, reason = "what an extension waits for is boxed")]
pub(crate) enum Pending {
    /// Waits for retractions, required ids, and the first reads of the search.
    Begin { asked: Arc<Asked>, begin: Begin },
    /// Waits for the reads of its search.
    Search(Search, Reads),
}

impl Pending {
    pub(super) fn go_on(self, domains: &Domains, found: &[Found]) -> Step {
        match self {
            Pending::Begin { asked, begin } => begun(asked, begin, domains, found),
            Pending::Search(search, reads) => search.found(reads, domains, found),
        }
    }
}

/// The answer if a row is unreadable.
fn unreadable() -> Step {
    Step::Error(Condition::InternalServerError.into())
}

/// The first reads of a search, and how it continues.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Begin {
    /// The messages with the requested ids.
    Ids,
    /// The range is empty.
    Nothing,
    /// Nothing else is needed: the first rows are read at once.
    Rows(Walk),
    /// The first and the last entry of the archive.
    Bounds,
}

/// Starts a query: reads the required ids, the retractions, and what the search needs first.
pub(super) fn begin(asked: Arc<Asked>) -> Step {
    let (begin, more) = begin_with(&asked);
    let mut queries = vec![Retracted::query(&asked.account)];
    queries.extend(asked.wanted.anchors.iter().map(|number| seek(&asked.account, *number)));
    queries.extend(more);
    Step::Read(queries, super::Pending::Find(Pending::Begin { asked, begin }).into())
}

fn begun(asked: Arc<Asked>, begin: Begin, domains: &Domains, found: &[Found]) -> Step {
    let Some((retracted, found)) = found.split_first() else { return unreadable() };
    let anchors = &asked.wanted.anchors;
    let Some((anchored, found)) = found.split_at_checked(anchors.len()) else { return unreadable() };
    if let Err(step) = all_there(&asked, anchors, anchored) {
        return step;
    }
    let Some(retracted) = Retracted::read(retracted) else { return unreadable() };
    let page = Page::new(&asked, retracted);
    match (begin, found) {
        (Begin::Ids, found) => by_ids(page, &asked, domains, found),
        (Begin::Nothing, _) => finish(page, &asked, true),
        (Begin::Rows(walk), found) => Search::new(asked, page).walked(walk, domains, found),
        (Begin::Bounds, [low, last]) => Search::new(asked, page).bounded(low, last),
        (Begin::Bounds, _) => unreadable(),
    }
}

/// The first reads in addition to the required ids.
fn begin_with(asked: &Asked) -> (Begin, Vec<Query>) {
    let (user, wanted) = (&*asked.account, &asked.wanted);
    if let Some(ids) = &wanted.ids {
        return (Begin::Ids, ids.iter().map(|number| seek(user, *number)).collect());
    }
    if wanted.low() > wanted.high() {
        return (Begin::Nothing, Vec::new());
    }
    let timed = wanted.start_us > 0 || wanted.end_us < u64::MAX;
    if timed || wanted.peer(user).is_some() {
        return (Begin::Bounds, vec![seek(user, wanted.low()), Walk::back_from_end(0).query(user, 1)]);
    }
    let (walk, queries) = walk_from(asked, wanted.low(), wanted.high(), wanted.max + 1);
    (Begin::Rows(walk), queries)
}

/// A walk over all possible results between two numbers, and its first queries if this many results
/// are wanted.
fn walk_from(asked: &Asked, low: u64, high: u64, wanted: usize) -> (Walk, Vec<Query>) {
    let user = &*asked.account;
    let walk = match (asked.wanted.back, high) {
        (false, _) => Walk::forward(low),
        (true, u64::MAX) => Walk::back_from_end(low),
        (true, high) => {
            let walk = Walk::back_from(low, high + 1, &Found::Rows { rows: Vec::new(), more: false });
            let query = walk.query(user, wanted);
            return (walk, vec![seek(user, high + 1), query]);
        }
    };
    let query = walk.query(user, wanted);
    (walk, vec![query])
}

/// Whether all of these are in the archive, according to the results of seeks (XEP-0313 4.1.3,
/// 4.3.2).
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
fn by_ids(mut page: Page, asked: &Arc<Asked>, domains: &Domains, found: &[Found]) -> Step {
    let ids = asked.wanted.ids.as_deref().unwrap_or_default();
    if let Err(step) = all_there(asked, ids, found) {
        return step;
    }
    let mut all: Vec<(&u64, &Found)> = ids.iter().zip(found).collect();
    if asked.wanted.back {
        all.reverse();
    }
    for (number, found) in all {
        let Found::Rows { rows, .. } = found else { return unreadable() };
        let Some(entries) = live_entries(rows) else { return unreadable() };
        let Some((_, entry)) = entries.iter().find(|(other, _)| other == number) else { return unreadable() };
        if page.take(asked, domains, *number, entry) {
            return finish(page, asked, false);
        }
    }
    finish(page, asked, true)
}

impl Search {
    fn new(asked: Arc<Asked>, page: Page) -> Search {
        let (low, high) = (asked.wanted.low(), asked.wanted.high());
        Search { page, spent: 0, low, high, walk: None, segments: VecDeque::new(), named: VecDeque::new(), asked }
    }

    /// Continues with the results of its reads.
    fn found(self, reads: Reads, domains: &Domains, found: &[Found]) -> Step {
        match reads {
            Reads::Rows(walk) => self.walked(walk, domains, found),
            Reads::Edges(edges) => self.narrowed(edges, found),
            Reads::Directory => self.directory_found(found),
            Reads::Index(reads) => {
                let index = index::found(self.user(), reads, found);
                self.with_index(index)
            }
            Reads::Parts => self.parts_found(found),
            Reads::Named(numbers) => self.named_found(numbers, domains, found),
            Reads::More { numbers, rows } => self.more_found(&numbers, &rows, domains, found),
        }
    }

    /// The queries of a walk are answered: the first time there may be two.
    fn walked(self, walk: Walk, domains: &Domains, found: &[Found]) -> Step {
        match found {
            [found] => self.walk_on(walk, domains, found),
            [behind, found] => {
                let walk = Walk::back_from(walk.low(), self.high + 1, behind);
                self.walk_on(walk, domains, found)
            }
            _ => unreadable(),
        }
    }

    /// Continues with rows.
    fn walk_on(mut self, mut walk: Walk, domains: &Domains, found: &Found) -> Step {
        self.spent += found.bytes();
        let Some(reached) = walk.found(found) else { return unreadable() };
        let Some(mut entries) = live_entries(reached.rows()) else { return unreadable() };
        let (back, before) = (self.asked.wanted.back, self.page.missing(&self.asked));
        if back {
            entries.reverse();
        }
        for (number, entry) in &entries {
            if !back && *number > self.high {
                return finish(self.page, &self.asked, true);
            }
            if (self.low..=self.high).contains(number) && self.page.take(&self.asked, domains, *number, entry) {
                return finish(self.page, &self.asked, false);
            }
        }
        if !reached.more {
            self.walk = None;
            return self.go_on();
        }
        // If nothing matched so far, few of the following rows will.
        let missing = self.page.missing(&self.asked);
        let most = missing == before && !entries.is_empty();
        let query = if most { walk.query_most(&self.asked.account) } else { walk.query(&self.asked.account, missing) };
        self.read(vec![query], Reads::Rows(walk))
    }

    /// Reads, unless the limit of bytes is reached.
    fn read(self, queries: Vec<Query>, reads: Reads) -> Step {
        if self.page.counts() && self.spent > ARCHIVE_COUNT_BYTES_MAX {
            return finish(self.page.uncounted(), &self.asked, false);
        }
        if self.spent > ARCHIVE_SCAN_BYTES_MAX {
            return match self.page.is_empty() {
                true => Step::Error(Limit::ArchiveScan.into()),
                false => finish(self.page, &self.asked, false),
            };
        }
        Step::Read(queries, self.waits(reads))
    }

    /// The continuation that waits for these reads.
    fn waits(self, reads: Reads) -> extension::Pending {
        super::Pending::Find(Pending::Search(self, reads)).into()
    }

    /// Bare JID of the user.
    fn user(&self) -> &str {
        &self.asked.account
    }

    /// The first and the last entry of the archive are known.
    fn bounded(mut self, low: &Found, last: &Found) -> Step {
        let Some(lowest) = first(low, self.low) else { return unreadable() };
        let Found::Rows { rows, .. } = last else { return unreadable() };
        let last = rows.iter().find(|row| !is_void(&row.value));
        let highest = last.and_then(|row| number_of(&row.sort));
        let (Some((lowest, lowest_ms)), Some(highest)) = (lowest, highest) else {
            // The archive is empty.
            return finish(self.page, &self.asked, true);
        };
        // Even if the last entry is out of range, its time shows how times increase.
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

    /// Finds the numbers at which the time range begins and ends.
    fn between(mut self, edges: [Option<Edge>; 2]) -> Step {
        let user = &*self.asked.account;
        let queries: Vec<Query> = edges.iter().flatten().flat_map(|edge| edge.queries(user)).collect();
        if !queries.is_empty() {
            return self.read(queries, Reads::Edges(edges));
        }
        let [start, end] = edges;
        self.low = start.map_or(self.low, |edge| self.low.max(edge.low));
        self.high = end.map_or(self.high, |edge| self.high.min(edge.high.saturating_sub(1)));
        if self.low > self.high {
            return finish(self.page, &self.asked, true);
        }
        match self.asked.wanted.peer(&self.asked.account) {
            None => {
                let low = self.low;
                self.walk_from(low)
            }
            Some(_) => self.ask_index(),
        }
    }

    fn narrowed(mut self, mut edges: [Option<Edge>; 2], mut found: &[Found]) -> Step {
        self.spent += found.iter().map(Found::bytes).sum::<usize>();
        for edge in edges.iter_mut().flatten() {
            if edge.found(&mut found).is_none() {
                return unreadable();
            }
        }
        self.between(edges)
    }

    /// Scans all rows from a number on.
    fn walk_from(self, low: u64) -> Step {
        let (walk, queries) = walk_from(&self.asked, low, self.high, self.page.missing(&self.asked));
        self.read(queries, Reads::Rows(walk))
    }

    /// The peer to look up in the index.
    fn peer(&self) -> Option<Peer> {
        self.asked.wanted.peer(&self.asked.account).map(|with| Peer::of(bare_of(with)))
    }

    /// Searches with the index.
    fn ask_index(self) -> Step {
        let queries = vec![Directory::query(self.user()), seek(self.user(), 0)];
        self.read(queries, Reads::Directory)
    }

    fn directory_found(self, found: &[Found]) -> Step {
        let Some(peer) = self.peer() else { return unreadable() };
        let [directory, oldest] = found else { return unreadable() };
        let Some(oldest) = first_number(oldest) else { return unreadable() };
        let index = index::begin(self.user(), peer.part, directory, oldest);
        self.with_index(index)
    }

    /// Continues once the index is up to date.
    fn with_index(self, index: Option<Index>) -> Step {
        match index {
            // The number of entries after the end of the index is unknown: no query is charged for
            // them, or the first one would pay for all.
            Some(Index::Extends(batch, queries, reads)) => {
                Step::Prepare(batch, queries, self.waits(Reads::Index(reads)))
            }
            Some(Index::Ready(directory)) => self.indexed(&directory),
            None => unreadable(),
        }
    }

    /// The index is up to date.
    fn indexed(mut self, directory: &Directory) -> Step {
        let open = (directory.open > 0).then_some(OPEN);
        let mut segments: VecDeque<u64> = directory.closed.iter().copied().filter(|last| *last >= self.low).collect();
        // No entry after the first segment that ends at or after the last number can be in range.
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
        self.walk_from(tail)
    }

    /// Continues with the next source of rows: those selected by the index, further parts of the
    /// index, and rows that the index does not cover.
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
                self.read(vec![query], Reads::Rows(walk))
            }
        }
    }

    fn read_parts(mut self) -> Step {
        let Some(peer) = self.peer() else { return unreadable() };
        let now: Vec<u64> = self.segments.drain(..PARTS_AT_ONCE.min(self.segments.len())).collect();
        let queries = now.iter().map(|key| peers::part(&self.asked.account, *key, peer.part)).collect();
        self.read(queries, Reads::Parts)
    }

    fn parts_found(mut self, found: &[Found]) -> Step {
        let Some(peer) = self.peer() else { return unreadable() };
        for found in found {
            self.spent += found.bytes();
            let numbers = match found {
                // The segment has no peer of this part, or retention has removed it.
                Found::Value(None) => continue,
                Found::Value(Some(row)) => peers::numbers(row, peer),
                _ => None,
            };
            let Some(mut numbers) = numbers else { return unreadable() };
            // A row is selected by its first entry with the peer; it may have further ones.
            let from = numbers.partition_point(|number| *number <= self.low).saturating_sub(1);
            numbers.drain(..from);
            numbers.retain(|number| *number <= self.high);
            if self.asked.wanted.back {
                numbers.reverse();
            }
            self.named.extend(numbers);
        }
        self.go_on()
    }

    /// Reads the rows selected by the index: by their keys, and then by seeks those with other
    /// keys. For sent entries it also reads whether they were refused.
    fn read_named(mut self, missing: usize) -> Step {
        let now: Vec<u64> = self.named.drain(..missing.min(self.named.len())).collect();
        let queries = now.iter().map(|number| ending(&self.asked.account, *number)).collect();
        self.read(queries, Reads::Named(now))
    }

    fn named_found(mut self, numbers: Vec<u64>, domains: &Domains, found: &[Found]) -> Step {
        self.spent += found.iter().map(Found::bytes).sum::<usize>();
        let (account, mut more) = (self.user(), Vec::new());
        for (number, found) in numbers.iter().zip(found) {
            match last_entry(*number, found) {
                Ok(Some(entry)) if entry.incoming => {}
                Ok(Some(_)) => more.push(refused(account, *number)),
                Ok(None) => more.push(seek(account, *number)),
                Err(Unreadable) => return unreadable(),
            }
        }
        if more.is_empty() {
            return self.more_found(&numbers, found, domains, &[]);
        }
        self.read(more, Reads::More { numbers, rows: found.to_vec() })
    }

    /// Continues with the rows selected by the index and with the further reads about them, in the
    /// same order.
    fn more_found(mut self, numbers: &[u64], rows: &[Found], domains: &Domains, more: &[Found]) -> Step {
        self.spent += more.iter().map(Found::bytes).sum::<usize>();
        let mut more = more.iter();
        for (number, row) in numbers.iter().zip(rows) {
            let full = match last_entry(*number, row) {
                Ok(None) => more.next().and_then(|found| self.take_row(*number, domains, found)),
                Ok(Some(entry)) => {
                    let refused =
                        if entry.incoming { Ok(false) } else { more.next().map_or(Err(Unreadable), was_refused) };
                    let shown = |refused: bool| !refused && (self.low..=self.high).contains(number);
                    refused.ok().map(|refused| shown(refused) && self.page.take(&self.asked, domains, *number, &entry))
                }
                Err(Unreadable) => None,
            };
            match full {
                Some(true) => return finish(self.page, &self.asked, false),
                Some(false) => {}
                None => return unreadable(),
            }
        }
        self.go_on()
    }

    /// Takes the results from a row that was found by seeking an entry selected by the index.
    /// Returns whether the page is full; `None` if the row is unreadable.
    fn take_row(&mut self, number: u64, domains: &Domains, found: &Found) -> Option<bool> {
        let Found::Rows { rows, .. } = found else { return None };
        let Some(at) = rows.iter().position(|row| !is_void(&row.value)) else { return Some(false) };
        // Retention has removed the selected row; the one found is selected by itself, if at all.
        if !entries(&rows[at].sort, &rows[at].value)?.iter().any(|(other, _)| *other == number) {
            return Some(false);
        }
        let mut entries = live_entries(&rows[..=at])?;
        entries.retain(|(other, _)| *other >= number && (self.low..=self.high).contains(other));
        if self.asked.wanted.back {
            entries.reverse();
        }
        Some(entries.iter().any(|(number, entry)| self.page.take(&self.asked, domains, *number, entry)))
    }
}

/// The number of the archive's first entry, 0 if there is none; `None` if its row is unreadable.
fn first_number(found: &Found) -> Option<u64> {
    Some(first(found, 0)?.map_or(0, |(number, _)| number))
}
