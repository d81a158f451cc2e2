//! Cuts the byte stream into TLS records (RFC 8446 5.1).
//!
//! Whole records are passed on in place, in the driver's buffer. Only a record that spans two reads
//! is copied, and its buffer is dropped with it: an idle connection holds none. This file does not
//! use keys.

use std::mem;

/// Content types (RFC 8446 B.1).
pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

/// Bytes of a record's header.
pub(crate) const HEADER_BYTES: usize = 5;
/// Maximum plaintext of a record (RFC 8446 5.1).
pub(crate) const PLAINTEXT_BYTES_MAX: usize = 1 << 14;
/// Maximum fragment after the header, for any version (RFC 5246 6.2.3).
pub(crate) const FRAGMENT_BYTES_MAX: usize = PLAINTEXT_BYTES_MAX + 2048;
/// `legacy_record_version` of every record after the first.
pub(crate) const VERSION: [u8; 2] = [3, 3];

/// One whole record with its header.
pub(crate) enum Record<'a> {
    /// In place, in the bytes that were read.
    Here(&'a mut [u8]),
    /// Received in more than one read.
    Joined(Vec<u8>),
}

impl Record<'_> {
    /// Header and fragment, to be opened in place.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

/// A header that no TLS record starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// Not one of the four content types.
    ContentType,
    /// The fragment is longer than any version allows.
    Length,
}

/// The outcome of [`next`].
pub(crate) enum Next<'a> {
    /// A whole record; there may be more.
    Record(Record<'a>),
    /// All bytes were taken; the start of a record, if any, is pending.
    Drained,
    /// The stream cannot be parsed any further.
    Bad(BadHeader),
}

/// The length of the record at the start of `bytes`, including its header, once the header is
/// complete.
fn record_bytes(bytes: &[u8]) -> Result<Option<usize>, BadHeader> {
    match bytes.first() {
        None => return Ok(None),
        Some(&kind) if !(CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&kind) => {
            return Err(BadHeader::ContentType);
        }
        Some(_) => {}
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let fragment = usize::from(u16::from_be_bytes([high, low]));
    if fragment > FRAGMENT_BYTES_MAX {
        return Err(BadHeader::Length);
    }
    Ok(Some(HEADER_BYTES + fragment))
}

/// Takes the next record from the bytes in `pending` and from `input`, which is left with the bytes
/// after that record. `pending` never holds more than one record.
pub(crate) fn next<'a>(pending: &mut Vec<u8>, input: &mut &'a mut [u8]) -> Next<'a> {
    if pending.is_empty() {
        return match record_bytes(input) {
            Err(bad) => Next::Bad(bad),
            Ok(Some(len)) if len <= input.len() => {
                let (record, rest) = mem::take(input).split_at_mut(len);
                *input = rest;
                Next::Record(Record::Here(record))
            }
            Ok(_) => {
                let start: &mut [u8] = mem::take(input);
                pending.extend_from_slice(start);
                Next::Drained
            }
        };
    }
    loop {
        let wanted = match record_bytes(pending) {
            Err(bad) => return Next::Bad(bad),
            Ok(Some(len)) if len == pending.len() => {
                return Next::Record(Record::Joined(mem::take(pending)));
            }
            Ok(len) => len.unwrap_or(HEADER_BYTES) - pending.len(),
        };
        if input.is_empty() {
            return Next::Drained;
        }
        let (head, rest) = {
            let at = wanted.min(input.len());
            mem::take(input).split_at_mut(at)
        };
        pending.extend_from_slice(head);
        *input = rest;
    }
}
