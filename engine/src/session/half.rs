//! Both halves of a session as they are written for another process. In memory the user half
//! ([`super::table`]) names its user and its presence by numbers, and extensions by places in their
//! table; here these are texts.

use super::sm::Managed;
use super::table::{Nodes, Privacy};
use crate::extension::written;
use crate::id::{Border, Crosses};
use crate::store::ids::Ids;

/// A session: its user half and its stream half. Its connection, if it has one, is not part of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Halves {
    /// The user half.
    pub user: UserHalf,
    /// The stream half.
    pub stream: StreamHalf,
}

/// See [`Session`](super::table::Session).
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UserHalf {
    /// The user's bare JID.
    pub account: Box<str>,
    /// Resourcepart, normalised.
    pub resource: Box<str>,
    /// The last available presence, unaddressed; `None` while it is unavailable.
    pub presence: Option<Box<[u8]>>,
    /// Priority of that presence.
    pub priority: i8,
    /// Whether it gets roster pushes.
    pub interested: bool,
    /// Whether it follows its user's log.
    pub follows: bool,
    /// The number up to which it was handed messages of the log; 0 if it takes none.
    pub seen: u64,
    /// Which third parties can read its stream.
    pub privacy: Privacy,
    /// Extensions that have marked it. The mark of one that the receiver does not have is left out.
    #[serde(with = "written::places")]
    pub marks: Vec<(u8, Box<str>)>,
    /// The form of the ids of its user's messages.
    pub ids: Ids,
    /// Bare and full JIDs that were sent directed presence, sorted.
    pub directed: Vec<Box<str>>,
    /// The first contact whose presence it may have missed.
    pub missed: Option<Box<str>>,
    /// Rooms in which it is behind, and the number of the last message that it got of each.
    pub behind: Vec<(Box<str>, u64)>,
    /// Its progress through its contacts whose last items it is to be sent: the nodes that interest
    /// it, and the next contact.
    pub walk: Option<(Nodes, Option<Box<str>>)>,
    /// Requests of the server that its client has not answered: the place of the requesting
    /// extension, and their `id`.
    #[serde(with = "written::places")]
    pub asked: Vec<(u8, Box<str>)>,
    /// Language of the stream's stanzas, if it differs from the server's.
    pub lang: Option<Box<str>>,
    /// Stanzas that extensions hold back (XEP-0352). The receiver sends them.
    pub held: Vec<Vec<u8>>,
}

/// The stream half of a session.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StreamHalf {
    /// Stream management.
    pub managed: Option<Managed>,
    /// Second (monotonic) at which it got its connection, or lost it.
    pub since_s: u32,
    /// Milliseconds until its work is paid off.
    pub owed_ms: u32,
    /// Stanzas in flight to other homes.
    pub in_flight: u16,
    /// Bytes sent to other homes that are not known to be durable, rounded up.
    pub unsettled_bytes: u32,
}

impl Crosses for Halves {
    fn cross(&mut self, border: Border) {
        border.past_s(&mut self.stream.since_s);
        if let Some(managed) = &mut self.stream.managed {
            managed.cross(border);
        }
    }
}
