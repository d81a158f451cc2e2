//! What every source of an import yields, whatever the format of its files: hosts, users and rooms,
//! with their data as elements of XEP-0227.

use std::path::PathBuf;

use minidom::Element;
use throng_engine::portable::Container;

use super::Wrong;

/// Most bytes of a user's element; a larger one is skipped.
pub(super) const ELEMENT_BYTES_MAX: usize = 4 << 20;

/// Most open elements, counted from the element of a user.
pub(super) const DEPTH_MAX: usize = 64;

/// Most bytes of a name or of the value of an attribute.
pub(super) const TOKEN_BYTES_MAX: usize = 64 << 10;

/// A position in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct At {
    pub(super) file: PathBuf,
    /// The line, counted from 1.
    pub(super) line: u64,
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A part of a source, in the order of the source.
#[derive(Debug)]
pub(super) enum Part {
    /// Begins a host.
    Host(String),
    /// Begins a user of the host.
    User {
        /// The localpart as written.
        name: String,
        /// The plaintext password, if present.
        password: Option<String>,
    },
    /// An element of the user, or of the room.
    Element {
        /// The container of the element.
        container: Option<Container>,
        /// The node, if the element is an item.
        node: Option<String>,
        /// The element.
        element: Element,
    },
    /// Something that is skipped: its kind, and the reason.
    Skipped(&'static str, String),
    /// Nothing yet: more was read.
    Progress,
    /// Ends the user.
    UserEnd,
    /// Begins a room of the host. Its elements follow.
    Room {
        /// The localpart as written.
        name: String,
        /// When it was created, as written.
        created: Option<String>,
    },
    /// Ends the room.
    RoomEnd,
}

/// A source of parts: files of one server.
pub(super) trait Source {
    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// With file and line: the rest cannot be read.
    fn next(&mut self) -> Result<Option<Part>, Wrong>;

    /// The position of that part.
    fn at(&self) -> At;

    /// Number of bytes read.
    fn bytes(&self) -> u64;
}
