//! Rows of the reports' table: JIDs that users have reported to the operator (XEP-0377). The actor
//! is the domain of the reporting users.
//!
//! ```text
//! seconds since the Unix epoch u64 big endian | id u64 big endian     a report
//! ```

use std::fmt;

use super::invitation::{put_text, take_text};
use super::{Batch, Query, Table};

const FORMAT: u8 = 1;

/// Bytes of a sort key.
pub(super) const KEY_BYTES: usize = 16;

/// Identifies a report of a domain: drawn at random.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReportId(pub u64);

impl fmt::Display for ReportId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl ReportId {
    /// Parses an id in the form in which it is shown.
    pub fn read(text: &str) -> Option<ReportId> {
        let digits = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        digits.then(|| u64::from_str_radix(text, 16).ok().map(ReportId)).flatten()
    }
}

/// The position of a report among those of its domain, the oldest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReportKey {
    /// When it arrived, seconds since the Unix epoch.
    pub at_s: u64,
    /// The report's id.
    pub id: ReportId,
}

impl ReportKey {
    fn sort(self) -> Box<[u8]> {
        [self.at_s.to_be_bytes(), self.id.0.to_be_bytes()].concat().into()
    }

    /// Reads the position from the sort key of a row.
    pub fn of_sort(sort: &[u8]) -> Option<ReportKey> {
        let (at_s, id) = sort.split_first_chunk()?;
        let (at_s, id) = (u64::from_be_bytes(*at_s), u64::from_be_bytes(id.try_into().ok()?));
        Some(ReportKey { at_s, id: ReportId(id) })
    }
}

/// A user's report to the operator (XEP-0377 3). All of it is as the client wrote it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// The reported JID, normalised.
    pub jid: Box<str>,
    /// The reason, a URN; at most [`REPORT_TEXT_BYTES_MAX`](crate::limits::REPORT_TEXT_BYTES_MAX)
    /// bytes.
    pub reason: Box<str>,
    /// The user's comment, if any; the same limit applies.
    pub text: Box<str>,
    /// Stanza-ids of the reported messages, separated by spaces; the same limit applies.
    pub messages: Box<str>,
}

impl Report {
    /// Its approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.jid.len() + self.reason.len() + self.text.len() + self.messages.len()
    }

    /// The reason in one word; the reasons of XEP-0377 3 have one.
    pub fn reason_word(&self) -> &str {
        match &*self.reason {
            "urn:xmpp:reporting:spam" => "spam",
            "urn:xmpp:reporting:abuse" => "abuse",
            _ => "other",
        }
    }

    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, domain: &str, key: ReportKey, by: &str) {
        let mut row = vec![FORMAT];
        for text in [by, &self.jid, &self.reason, &self.text, &self.messages] {
            put_text(&mut row, text);
        }
        batch.put(Table::Reports, domain.as_bytes(), &key.sort(), &[&row]);
    }
}

/// Reads a row: the reporting user's bare JID, and the report. `None` if it has another format.
pub fn decode(row: &[u8]) -> Option<(Box<str>, Report)> {
    let mut rest = row.strip_prefix(&[FORMAT])?;
    let mut next = || take_text(&mut rest);
    let (by, jid, reason, text, messages) = (next()?, next()?, next()?, next()?, next()?);
    rest.is_empty().then_some((by, Report { jid, reason, text, messages }))
}

/// Removes a report.
pub fn delete(batch: &mut Batch, domain: &str, key: ReportKey) {
    batch.delete(Table::Reports, domain.as_bytes(), &key.sort());
}

/// The query for a domain's reports before one of them, or for all; the latest first.
pub fn before(domain: &str, key: Option<ReportKey>, rows_max: u32, bytes_max: u32) -> Query {
    Query::Range {
        table: Table::Reports,
        actor: domain.as_bytes().into(),
        from: Box::default(),
        until: key.map(ReportKey::sort),
        reverse: true,
        rows_max,
        bytes_max,
    }
}

/// Whether a row is well-formed.
pub fn is_whole(sort: &[u8], value: &[u8]) -> bool {
    ReportKey::of_sort(sort).is_some() && decode(value).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;
    use proptest::prelude::*;

    #[test]
    fn a_row_reads_back_whole_or_not_at_all() {
        let report = Report {
            jid: "romeo@y/balcony".into(),
            reason: "urn:xmpp:reporting:spam".into(),
            text: "".into(),
            messages: "1 2".into(),
        };
        let key = ReportKey { at_s: 7, id: ReportId(0xab) };
        let mut batch = Batch::new();
        report.put(&mut batch, "x", key, "juliet@x");
        let Some(OpView::Put { sort, value, .. }) = batch.iter().next() else { panic!("a row") };
        assert_eq!(ReportKey::of_sort(sort), Some(key));
        assert_eq!(decode(value), Some(("juliet@x".into(), report)));
        assert!(is_whole(sort, value));
        (0..value.len()).for_each(|end| assert!(!is_whole(sort, &value[..end]), "cut at {end}"));
        (0..sort.len()).for_each(|end| assert!(!is_whole(&sort[..end], value), "cut at {end}"));
        assert!(!is_whole(sort, &[value, &[0]].concat()));
    }

    #[test]
    fn keys_sort_by_time_and_ids_read_as_they_are_shown() {
        let key = |at_s, id| ReportKey { at_s, id: ReportId(id) };
        assert!(key(1, 9).sort() < key(2, 0).sort() && key(2, 0) < key(2, 1));
        assert_eq!(ReportId::read(&ReportId(0xf0).to_string()), Some(ReportId(0xf0)));
        for wrong in ["", "f0", "+0000000000000f0", "0000000000000fg0", "00000000000000f00"] {
            assert_eq!(ReportId::read(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(row in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&row);
        }
    }
}
