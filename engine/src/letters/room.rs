//! Letters from rooms to the homes of their occupants, and back.

use crate::letters::{Kind, Name, Span};
use crate::store::room::Alert;

/// Letters for rooms, and from them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum RoomLetter {
    /// A stanza of a room for many sessions of users of this home. It crosses once.
    Cast {
        /// Kind and type.
        kind: Kind,
        /// The room's or an occupant's JID.
        from: Name,
        /// Full JIDs, separated by NUL.
        to: Name,
        /// The stanza, unaddressed; see [`crate::wire::splice::address`].
        xml: Span,
        /// Its number in the archive of the room; 0 if it is not there. Presence of the receiver
        /// itself has that of the last message.
        number: u64,
    },
    /// A session that is behind requests the next messages of a room.
    CatchUp {
        /// The room's bare JID.
        room: Name,
        /// The session's full JID.
        session: Name,
        /// They follow this one.
        after: u64,
        /// The number of the request.
        asked: u32,
    },
    /// The answer.
    CaughtUp {
        /// The room's bare JID.
        room: Name,
        /// The session's full JID.
        session: Name,
        /// The number of the request.
        asked: u32,
        /// The messages, as [`Page`](crate::follow::Page) encodes them: complete stanzas.
        page: Span,
    },
    /// Sessions that received a cast do not exist.
    Gone {
        /// The room's bare JID.
        room: Name,
        /// Full JIDs, separated by NUL.
        sessions: Name,
    },
    /// A room has a standing of a user, or has none any more.
    Knows {
        /// The user's bare JID.
        user: Name,
        /// The room's bare JID.
        room: Name,
        /// Whether it has.
        knows: bool,
    },
    /// The account of a user was removed.
    Forget {
        /// The room's bare JID.
        room: Name,
        /// The user's bare JID.
        user: Name,
    },
    /// A room enters the directory of its service, or leaves it.
    Listed {
        /// The room's bare JID.
        room: Name,
        /// Name and description as [`Listed`](crate::store::room::Listed) writes them; empty if the
        /// room leaves.
        row: Span,
    },
    /// The home of a user says for which messages the user is woken while absent.
    Alert {
        /// The user's bare JID.
        user: Name,
        /// The room's bare JID.
        room: Name,
        /// When; `None` for never.
        alert: Option<Box<Alert>>,
    },
    /// A message that wakes absent members of this home. It crosses once.
    Wake {
        /// The occupant's JID.
        from: Name,
        /// The members' bare JIDs, separated by NUL.
        to: Name,
        /// The message, unaddressed.
        xml: Span,
    },
    /// The home of a member asks what the member has missed of rooms of this home.
    Count {
        /// What waits for the answer there.
        token: u64,
        /// The member's bare JID.
        user: Name,
        /// The rooms' bare JIDs, separated by NUL.
        rooms: Name,
    },
    /// The answer.
    Counted {
        /// What waits for it.
        token: u64,
        /// The rooms that know the member; see
        /// [`RoomCount::written`](crate::extension::inbox::missed::RoomCount::written).
        counts: Span,
    },
}
