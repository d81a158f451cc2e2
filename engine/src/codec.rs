//! The written form of what crosses between processes: batches of letters, connections that move,
//! and what belongs to sessions. Used at process borders only; within a process nothing is encoded.
//!
//! ```text
//! format u8 | kind u8 | the value, by postcard
//! ```
//!
//! What has a meaning in one process only is translated, or does not cross:
//!
//! | in memory | written as |
//! | --- | --- |
//! | monotonic time | its age ([`crate::id::Border`]) |
//! | place of an extension in the table | the extension's name |
//! | `&'static str` of a condition | the text; one that this build does not know is left out |
//! | gate of a batch | nothing: a batch leaves when its gate is open |
//! | credentials | the account's record, which has versions of its own |
//! | [`ConnId`](crate::id::ConnId), [`SessionId`](crate::id::SessionId), tokens | numbers; only the process that made one reads it again, and a link that is renewed voids them |
//! | [`ShardId`](crate::id::ShardId), [`DomainId`](crate::id::DomainId) | numbers; both sides of a link agree on shards and domains ([`crate::link`]) |
//! | spans of a batch | positions within the batch, which are checked |
//!
//! Reading checks the form of a value: it cannot panic, and needs no more memory than a bounded
//! multiple of the bytes. It does not check its meaning, because a peer is a member of this service.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::id::{Border, Crosses, Now};
use crate::kernel::pending::Pending;
use crate::letters::Letters;
use crate::limits::CROSSING_BYTES_MAX;
use crate::session::half::Halves;
use crate::session::moved::{Handover, Moved};
use crate::session::sm::Managed;

/// The format that this build writes.
pub const FORMAT: u8 = 1;

/// The oldest format that this build reads.
pub const FORMAT_FIRST: u8 = 1;

/// Bytes before the value.
const HEAD_BYTES: usize = 2;

/// What is written. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A batch of letters.
    Letters = 1,
    /// A connection that moves with its socket.
    Connection = 2,
    /// A BOSH session that moves.
    Bosh = 3,
    /// Stream management of a session: the part of its stream half that has a history.
    Management = 4,
    /// A request that waits for an answer.
    Pending = 5,
    /// Both halves of a session.
    Session = 6,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] =
        [Kind::Letters, Kind::Connection, Kind::Bosh, Kind::Management, Kind::Pending, Kind::Session];

    /// The kind in words.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Letters => "a batch of letters",
            Kind::Connection => "a connection",
            Kind::Bosh => "a BOSH session",
            Kind::Management => "stream management of a session",
            Kind::Pending => "a request that waits",
            Kind::Session => "a session",
        }
    }
}

/// A value that has a written form.
pub trait Written: Crosses + Serialize + DeserializeOwned {
    /// Its kind.
    const KIND: Kind;
}

impl Written for Letters {
    const KIND: Kind = Kind::Letters;
}

impl Written for Moved {
    const KIND: Kind = Kind::Connection;
}

impl Written for Handover {
    const KIND: Kind = Kind::Bosh;
}

impl Written for Managed {
    const KIND: Kind = Kind::Management;
}

impl Written for Pending {
    const KIND: Kind = Kind::Pending;
}

impl Crosses for Pending {
    /// Nothing of what waits contains a monotonic time.
    fn cross(&mut self, _: Border) {}
}

impl Written for Halves {
    const KIND: Kind = Kind::Session;
}

/// Why a value cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There are fewer bytes than every value has.
    Short,
    /// Another build has written it, in a format that this one does not read.
    Format(u8),
    /// It is of another kind, or of one that this build does not know.
    Kind {
        /// The expected kind.
        wanted: Kind,
        /// The number of its kind.
        found: u8,
    },
    /// It is longer than [`CROSSING_BYTES_MAX`]; the number of bytes.
    Long(usize),
    /// Bytes follow its end; their number.
    Rest(usize),
    /// It has a value that cannot be written or read.
    Damaged(&'static str, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Short => f.write_str("less than the head of a value was received"),
            Error::Format(found) => {
                let what = "this build reads formats";
                write!(f, "this value is of format {found}; {what} {FORMAT_FIRST} to {FORMAT}: ")?;
                f.write_str(if *found > FORMAT { "update this member first" } else { "update the other member first" })
            }
            Error::Kind { wanted, found } => {
                let name = Kind::ALL.iter().find(|kind| **kind as u8 == *found).map(|kind| kind.name());
                write!(f, "expected {}, received ", wanted.name())?;
                match name {
                    Some(name) => f.write_str(name),
                    None => write!(f, "a value of kind {found}, which this build does not know"),
                }
            }
            Error::Long(bytes) => write!(f, "the value has {bytes} bytes; at most {CROSSING_BYTES_MAX} may cross"),
            Error::Rest(bytes) => write!(f, "{bytes} bytes follow the end of the value"),
            Error::Damaged(what, why) => write!(f, "{what} is damaged: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Writes a value that leaves this process at `now`.
///
/// # Errors
/// [`Error::Long`], or [`Error::Damaged`] if part of it has no written form.
pub fn encode<T: Written>(mut value: T, now: Now) -> Result<Vec<u8>, Error> {
    value.cross(Border::Leaves(now));
    let head = vec![FORMAT, T::KIND as u8];
    let bytes = postcard::to_extend(&value, head).map_err(|error| damaged(T::KIND, &error))?;
    if bytes.len() > CROSSING_BYTES_MAX {
        return Err(Error::Long(bytes.len()));
    }
    Ok(bytes)
}

/// Reads a value that arrives in this process at `now`.
///
/// # Errors
/// All of [`Error`]; the value is then refused as a whole.
pub fn decode<T: Written>(bytes: &[u8], now: Now) -> Result<T, Error> {
    let Some((&[format, kind], body)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Err(Error::Short) };
    if !(FORMAT_FIRST..=FORMAT).contains(&format) {
        return Err(Error::Format(format));
    }
    if kind != T::KIND as u8 {
        return Err(Error::Kind { wanted: T::KIND, found: kind });
    }
    if bytes.len() > CROSSING_BYTES_MAX {
        return Err(Error::Long(bytes.len()));
    }
    let (mut value, rest) = postcard::take_from_bytes::<T>(body).map_err(|error| damaged(T::KIND, &error))?;
    if !rest.is_empty() {
        return Err(Error::Rest(rest.len()));
    }
    value.cross(Border::Arrives(now));
    Ok(value)
}

/// Reads a value of any kind, and writes what was read.
///
/// # Errors
/// All of [`Error`]; [`Error::Kind`] only for a kind that this build does not know.
pub fn rewrite(bytes: &[u8], now: Now) -> Result<Vec<u8>, Error> {
    fn again<T: Written>(bytes: &[u8], now: Now) -> Result<Vec<u8>, Error> {
        encode(decode::<T>(bytes, now)?, now)
    }
    let kind = Kind::ALL.into_iter().find(|kind| bytes.get(1) == Some(&(*kind as u8)));
    match kind.unwrap_or(Kind::Letters) {
        Kind::Letters => again::<Letters>(bytes, now),
        Kind::Connection => again::<Moved>(bytes, now),
        Kind::Bosh => again::<Handover>(bytes, now),
        Kind::Management => again::<Managed>(bytes, now),
        Kind::Pending => again::<Pending>(bytes, now),
        Kind::Session => again::<Halves>(bytes, now),
    }
}

fn damaged(kind: Kind, error: &postcard::Error) -> Error {
    Error::Damaged(kind.name(), error.to_string())
}

#[cfg(test)]
mod tests;
