//! The first and the last message of an archive (XEP-0313 5).

use std::sync::Arc;

use crate::extension::datetime::{self, Precision};
use crate::extension::iq::{Condition, Limit, Step};
use crate::limits::ARCHIVE_SCAN_BYTES_MAX;
use crate::store::archive::live_entries;
use crate::store::{Found, Query};

use super::NS;
use super::page::Asked;
use super::rows::Walk;

/// Rows per read: the first row with entries nearly always has a visible one.
const ROWS: usize = 8;

/// The search for one of the two ends.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
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

    /// Continues with a result; `None` if a row is unreadable.
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
    Pending { asked, ends: [End::of(Walk::forward(0)), End::of(Walk::back_from_end(0))], spent: 0 }.read()
}

/// The search for both ends.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending {
    asked: Arc<Asked>,
    ends: [End; 2],
    /// Bytes read for it.
    spent: usize,
}

impl Pending {
    fn read(self) -> Step {
        if self.ends.iter().all(|end| end.done) {
            return answer(&self.asked, &self.ends);
        }
        if self.spent > ARCHIVE_SCAN_BYTES_MAX {
            return Step::Error(Limit::ArchiveScan.into());
        }
        let open = self.ends.iter().filter(|end| !end.done);
        let queries: Vec<Query> = open.map(|end| end.walk.query(&self.asked.account, ROWS)).collect();
        Step::Read(queries, super::Pending::Metadata(self).into())
    }

    pub(super) fn go_on(mut self, found: &[Found]) -> Step {
        let mut answers = found.iter();
        for (end, last) in self.ends.iter_mut().zip([false, true]).filter(|(end, _)| !end.done) {
            if answers.next().and_then(|found| end.found(&self.asked, found, last)).is_none() {
                return Step::Error(Condition::InternalServerError.into());
            }
        }
        self.spent += found.iter().map(Found::bytes).sum::<usize>();
        self.read()
    }
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
