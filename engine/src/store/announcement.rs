//! The announcement for users who log in later: one row of the store itself, and for each user the
//! number of the last announcement shown.

use super::{Batch, Found, Query, Table, private};

/// Version of the encoding; the first byte of the row.
const FORMAT: u8 = 1;

/// Sort key of the row in [`Table::Meta`].
pub const KEY: &[u8] = b"announcement";

/// A stored announcement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Higher than the number of every earlier announcement.
    pub number: u64,
    /// When it was made, microseconds since the Unix epoch.
    pub at_us: u64,
    /// When it expires, microseconds since the Unix epoch.
    pub until_us: u64,
    /// The text; at most [`ADHOC_TEXT_BYTES_MAX`](crate::limits::ADHOC_TEXT_BYTES_MAX) bytes.
    pub text: Box<str>,
}

impl Kept {
    /// Encodes the row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        for number in [self.number, self.at_us, self.until_us] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(self.text.as_bytes());
        out
    }

    /// Reads the row; `None` if it has another format.
    pub fn decode(row: &[u8]) -> Option<Kept> {
        let (format, rest) = row.split_first()?;
        let (numbers, text) = rest.split_at_checked(24)?;
        let number = |at: usize| numbers[at..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let text = std::str::from_utf8(text).ok().filter(|_| *format == FORMAT)?;
        Some(Kept { number: number(0)?, at_us: number(8)?, until_us: number(16)?, text: text.into() })
    }
}

/// Writes the announcement, or removes it.
pub fn put(batch: &mut Batch, kept: Option<&Kept>) {
    match kept {
        Some(kept) => batch.put(Table::Meta, b"", KEY, &[&kept.encode()]),
        None => batch.delete(Table::Meta, b"", KEY),
    }
}

/// The query for the announcement.
pub fn query() -> Query {
    Query::Get { table: Table::Meta, actor: Box::default(), sort: KEY.into() }
}

/// The query for the number of the last announcement shown to a user.
pub fn seen(account: &str) -> Query {
    private::get(account, &private::own_key("announcement"))
}

/// Reads the answer to [`seen`]; 0 for none.
pub fn seen_number(found: &[Found]) -> u64 {
    match found {
        [Found::Value(Some(row))] => row.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)),
        _ => 0,
    }
}

/// Records the number of the last announcement shown to a user.
pub fn put_seen(batch: &mut Batch, account: &str, number: u64) {
    private::put(batch, account, &private::own_key("announcement"), &number.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_comes_back_whole_or_not_at_all() {
        let kept = Kept { number: 7, at_us: 8, until_us: u64::MAX, text: "Grüße".into() };
        let row = kept.encode();
        assert_eq!(Kept::decode(&row), Some(kept));
        for end in 0..25 {
            assert_eq!(Kept::decode(&row[..end]), None);
        }
        assert_eq!(Kept::decode(&[&[2], &row[1..]].concat()), None, "a later form");
        assert_eq!(Kept::decode(&[&row[..25], &[0xff]].concat()), None);
        assert_eq!(seen_number(&[Found::Value(Some(9u64.to_be_bytes().into()))]), 9);
        assert_eq!(seen_number(&[Found::Value(None)]), 0);
    }
}
