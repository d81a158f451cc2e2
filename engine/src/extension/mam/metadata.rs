//! Where an archive begins and ends (XEP-0313 5).

use std::sync::Arc;

use crate::extension::datetime::{self, Precision};
use crate::extension::iq::{Condition, Limit, Resume, Step};
use crate::limits::ARCHIVE_SCAN_BYTES_MAX;
use crate::store::archive::live_entries;
use crate::store::{Found, Query};

use super::NS;
use super::page::Asked;
use super::rows::Walk;

/// Rows of a read: the first one with entries has nearly always one to show.
const ROWS: usize = 8;

/// The search for one end.
#[derive(Clone, Debug)]
struct End {
    walk: Walk,
    /// Number and time of the entry, in milliseconds; `None` if there is none.
    entry: Option<(u64, u64)>,
    done: bool,
}

impl End {
    fn of(walk: Walk) -> End {
        End { walk, entry: None, done: false }
    }

    /// Goes on with an answer; `None` if a row cannot be read.
    fn found(&mut self, asked: &Asked, found: &Found, last: bool) -> Option<()> {
        let reached = self.walk.found(found)?;
        let all = live_entries(reached.rows())?;
        let mut shown =
            all.iter().filter(|(_, entry)| asked.shows(entry)).map(|(number, entry)| (*number, entry.time_ms));
        self.entry = if last { shown.next_back() } else { shown.next() };
        self.done = self.entry.is_some() || !reached.more;
        Some(())
    }
}

/// Looks for both ends.
pub(super) fn ask(asked: Arc<Asked>) -> Step {
    go_on(asked, [End::of(Walk::forward(0)), End::of(Walk::back_from_end(0))], 0)
}

fn go_on(asked: Arc<Asked>, ends: [End; 2], spent: usize) -> Step {
    if ends.iter().all(|end| end.done) {
        return answer(&asked, &ends);
    }
    if spent > ARCHIVE_SCAN_BYTES_MAX {
        return Step::Error(Limit::ArchiveScan.into());
    }
    let queries: Vec<Query> =
        ends.iter().filter(|end| !end.done).map(|end| end.walk.query(&asked.account, ROWS)).collect();
    let resume = Resume::with(move |found| {
        let (mut ends, mut answers) = (ends, found.iter());
        for (end, last) in ends.iter_mut().zip([false, true]).filter(|(end, _)| !end.done) {
            if answers.next().and_then(|found| end.found(&asked, found, last)).is_none() {
                return Step::Error(Condition::InternalServerError.into());
            }
        }
        go_on(asked, ends, spent + found.iter().map(Found::bytes).sum::<usize>())
    });
    Step::Read(queries, resume)
}

fn answer(asked: &Asked, ends: &[End; 2]) -> Step {
    let mut out = format!("<metadata xmlns='{NS}'").into_bytes();
    let [Some(start), Some(end)] = ends.each_ref().map(|end| end.entry) else {
        out.extend_from_slice(b"/>");
        return Step::Result(out);
    };
    out.push(b'>');
    for (name, (number, time_ms)) in [("start", start), ("end", end)] {
        out.extend_from_slice(format!("<{name} id='{}' timestamp='", asked.ids.text(number)).as_bytes());
        datetime::write(&mut out, time_ms.saturating_mul(1_000), Precision::Millis);
        out.extend_from_slice(b"'/>");
    }
    out.extend_from_slice(b"</metadata>");
    Step::Result(out)
}
