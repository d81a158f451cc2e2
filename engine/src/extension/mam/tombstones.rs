//! Which messages of a page were retracted (XEP-0424): a query reads what was retracted before it begins, and looks for the
//! retractions of its results before the page is sent.

use std::sync::Arc;

use crate::extension::iq::{Condition, Resume, Step};
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

/// The answer with a page that is whole: what of it was retracted is looked for before.
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

fn one_by_one(page: Page, asked: Arc<Asked>, complete: bool) -> Step {
    let queries = page.candidates().map(|(_, tombstone)| tombstone.key.query(&asked.account)).collect();
    let resume = Resume::with(move |found| {
        let mut hits = Vec::new();
        for ((at, _), found) in page.candidates().zip(found) {
            match found {
                Found::Rows { rows, .. } => hits.extend(rows.iter().map(|row| (at, row.value.clone()))),
                Found::Value(_) | Found::Damaged => return unreadable(),
            }
        }
        verify(page, asked, complete, hits)
    });
    Step::Read(queries, resume)
}

/// Only a retraction that came after its message counts, and that is in the archive: it may have been refused. Of several hits of one
/// message the latest one comes first.
fn verify(page: Page, asked: Arc<Asked>, complete: bool, mut hits: Vec<Hit>) -> Step {
    let mut numbers = Vec::new();
    let mut damaged = false;
    hits.retain(|(at, row)| match Retraction::decode(row) {
        Some(retraction) => {
            let after = retraction.number > page.number(*at);
            numbers.extend(after.then_some(retraction.number));
            after
        }
        None => {
            damaged = true;
            false
        }
    });
    match (damaged, hits.is_empty()) {
        (true, _) => return unreadable(),
        (false, true) => return page.send(&asked, complete),
        (false, false) => {}
    }
    let queries = numbers.iter().map(|number| seek(&asked.account, *number)).collect();
    let resume = Resume::with(move |found| {
        let mut page = page;
        for (((at, row), number), found) in hits.iter().zip(&numbers).zip(found) {
            let Found::Rows { rows, .. } = found else { return unreadable() };
            let (Some(all), Some(retraction)) = (live_entries(rows), Retraction::decode(row)) else {
                return unreadable();
            };
            if all.iter().any(|(other, _)| other == number) {
                page.bury(&asked, *at, &retraction);
            }
        }
        let complete = page.fit(&asked) && complete;
        page.send(&asked, complete)
    });
    Step::Read(queries, resume)
}
