//! Rooms for group chat, as operators see and change them.

use serde::{Deserialize, Serialize};

use super::{Fault, Page, StoredShown};

/// Most rooms in one page of [`Rooms::rooms`].
pub const ROOMS_PER_PAGE_MAX: usize = 100;

/// Most fields of [`Rooms::configure_room`].
pub const ROOM_FIELDS_MAX: usize = 64;

/// One room of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RoomRow {
    /// Bare JID.
    pub jid: String,
    /// Its name; may be empty.
    pub name: String,
    /// Occupants now; `None` while no server runs.
    pub occupants: Option<u64>,
    /// Sessions of these.
    pub sessions: Option<u64>,
    /// Members, admins and owners.
    pub members: u64,
    /// Whether there are more, which were not counted.
    pub members_more: bool,
    /// Whether it continues to exist without occupants.
    pub persistent: bool,
    /// Whether it is left out of the directory of its service.
    pub hidden: bool,
    /// Whether it waits for its first configuration (XEP-0045 10.1.2).
    pub locked: bool,
    /// The time of the last message in its archive, seconds since the Unix epoch.
    pub last_message_s: Option<u64>,
    /// Stanzas that wait for its rows.
    pub waiting: u64,
}

/// A field of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RoomField {
    /// Its name.
    pub name: String,
    /// Its meaning.
    pub label: String,
    /// Its values.
    pub values: Vec<String>,
    /// The values that it can have, if these are a few.
    #[serde(default)]
    pub options: Vec<String>,
}

/// A room.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RoomShown {
    /// The same as in a listing.
    #[serde(flatten)]
    pub row: RoomRow,
    /// When it was created, seconds since the Unix epoch.
    pub created_s: u64,
    /// Its subject; may be empty.
    pub subject: String,
    /// Number of users with each affiliation, the most powerful first.
    pub affiliations: Vec<(String, u64)>,
    /// The first owners: bare JIDs.
    pub owners: Vec<String>,
    /// The configuration.
    pub config: Vec<RoomField>,
    /// Seconds for which it still admits only users with an affiliation, if an operator has closed
    /// it.
    pub closed_s: Option<u64>,
    /// Bytes that it has sent since it is in memory; 0 if it is not.
    pub sent_bytes: u64,
    /// Bytes of these that senders were charged.
    pub charged_bytes: u64,
    /// What is stored of it, by table.
    pub stored: Vec<StoredShown>,
}

/// The rooms of a store, through a running server or directly. A room is named by its bare JID, or by
/// its localpart at the service of the main domain.
pub trait Rooms {
    /// Up to `limit` rooms in a stable order, after the one that `after` names. A page may have
    /// fewer rooms although more follow.
    ///
    /// # Errors
    /// The store's.
    fn rooms(&self, after: Option<&str>, limit: usize) -> Result<Page<RoomRow>, Fault>;

    /// Describes a room.
    ///
    /// # Errors
    /// [`super::FaultKind::NotFound`], and the store's.
    fn room(&self, room: &str) -> Result<RoomShown, Fault>;

    /// Sets fields of the configuration as an owner would. At most [`ROOM_FIELDS_MAX`].
    ///
    /// # Errors
    /// [`super::FaultKind::NotFound`]; [`super::FaultKind::Invalid`]: a field is unknown or cannot
    /// have its value, or no server runs.
    fn configure_room(&self, room: &str, fields: &[(String, Vec<String>)]) -> Result<(), Fault>;

    /// Destroys a room with everything that it has stored. Its occupants see the reason, and the
    /// address of another room.
    ///
    /// # Errors
    /// [`super::FaultKind::NotFound`]; [`super::FaultKind::Invalid`]: the other address is no JID,
    /// or no server runs.
    fn destroy_room(&self, room: &str, reason: Option<&str>, alternate: Option<&str>) -> Result<(), Fault>;

    /// Lets only users with an affiliation enter for so many seconds; 0 ends that. At most
    /// [`throng_engine::limits::ROOM_CLOSED_S_MAX`].
    ///
    /// # Errors
    /// [`super::FaultKind::NotFound`]; [`super::FaultKind::Invalid`]: no server runs.
    fn close_room(&self, room: &str, seconds: u32) -> Result<(), Fault>;
}
