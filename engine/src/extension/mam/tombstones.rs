//! Which messages of a page were retracted (XEP-0424): a query first reads the retractions, and
//! looks up those of its results before the page is sent.

use std::sync::Arc;

use crate::extension::iq::{Condition, Step};
use crate::store::Found;
use crate::store::archive::{live_entries, seek};
use crate::store::retractions::{Key, LATEST, Retraction};

use super::page::{Asked, Page};
use super::retract::Retracted;

/// A retraction of a result.
type Hit = (usize, Box<[u8]>);

fn unreadable() -> Step {
    Step::Error(Condition::InternalServerError.into())
}

/// The answer with a complete page, after a lookup of its retractions.
pub(super) fn finish(page: Page, asked: &Arc<Asked>, complete: bool) -> Step {
    if page.candidates().next().is_none() {
        return page.send(asked, complete);
    }
    let hits = match &page.retracted {
        Retracted::Many => return one_by_one(page, asked.clone(), complete),
        Retracted::These(rows) => {
            let of = |key: Key| rows.iter().rev().filter(move |row| key.is_of(row)).take(LATEST);
            let hits = page.candidates().flat_map(|(at, stone)| of(stone.key).map(move |row| (at, row.value.clone())));
            hits.collect()
        }
    };
    verify(page, asked.clone(), complete, hits)
}

/// A complete page that waits for its retractions.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending {
    page: Page,
    asked: Arc<Asked>,
    complete: bool,
    /// Retractions of its results, each with its own number; `None` until they have been looked up
    /// per message.
    hits: Option<Vec<(Hit, u64)>>,
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Step {
        let Pending { page, asked, complete, hits } = self;
        match hits {
            Some(hits) => bury(page, &asked, complete, &hits, found),
            None => one_by_one_found(page, asked, complete, found),
        }
    }
}

fn one_by_one(page: Page, asked: Arc<Asked>, complete: bool) -> Step {
    let queries = page.candidates().map(|(_, tombstone)| tombstone.key.query(&asked.account)).collect();
    Step::Read(queries, super::Pending::Tombstones(Pending { page, asked, complete, hits: None }).into())
}

fn one_by_one_found(page: Page, asked: Arc<Asked>, complete: bool, found: &[Found]) -> Step {
    let mut hits = Vec::new();
    for ((at, _), found) in page.candidates().zip(found) {
        match found {
            Found::Rows { rows, .. } => hits.extend(rows.iter().map(|row| (at, row.value.clone()))),
            Found::Value(_) | Found::Damaged => return unreadable(),
        }
    }
    verify(page, asked, complete, hits)
}

/// A retraction counts only if it came after its message and is in the archive: it may have been
/// refused. If a message has several, the latest comes first.
fn verify(page: Page, asked: Arc<Asked>, complete: bool, hits: Vec<Hit>) -> Step {
    let mut after = Vec::new();
    for (at, row) in hits {
        let Some(Retraction { number, .. }) = Retraction::decode(&row) else { return unreadable() };
        if number > page.number(at) {
            after.push(((at, row), number));
        }
    }
    if after.is_empty() {
        return page.send(&asked, complete);
    }
    let queries = after.iter().map(|(_, number)| seek(&asked.account, *number)).collect();
    Step::Read(queries, super::Pending::Tombstones(Pending { page, asked, complete, hits: Some(after) }).into())
}

/// Sends a page, in which these results are replaced by tombstones if their retractions were found.
fn bury(mut page: Page, asked: &Asked, complete: bool, hits: &[(Hit, u64)], found: &[Found]) -> Step {
    for (((at, row), number), found) in hits.iter().zip(found) {
        let Found::Rows { rows, .. } = found else { return unreadable() };
        let (Some(all), Some(retraction)) = (live_entries(rows), Retraction::decode(row)) else {
            return unreadable();
        };
        if all.iter().any(|(other, _)| other == number) {
            page.bury(asked, *at, &retraction);
        }
    }
    let complete = page.fit(asked) && complete;
    page.send(asked, complete)
}
