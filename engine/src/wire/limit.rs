//! The limits that users can reach, as they are named to peers and operators.
//!
//! A refusal tells its peer which limit was reached and when to retry, and nothing about accounts
//! that a stranger could not know: a name without an account is refused with the same text. This
//! file must never know how a limit is enforced.

use std::fmt;

use super::error::{Detail, ErrorType, StanzaCondition};

macro_rules! limits {
    ($($(#[$doc:meta])* $case:ident = $name:literal, $condition:ident, $text:literal, $again:literal;)*) => {
        /// A limit.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
        pub enum Limit { $($(#[$doc])* $case,)* }

        impl Limit {
            /// All limits.
            pub const ALL: &'static [Limit] = &[$(Limit::$case),*];

            /// The limit's name for operators; stable.
            pub const fn name(self) -> &'static str {
                match self { $(Limit::$case => $name,)* }
            }

            /// The condition of the stanza error that refuses.
            pub const fn condition(self) -> StanzaCondition {
                match self { $(Limit::$case => StanzaCondition::$condition,)* }
            }

            /// The type of the error: whether the peer may try again unchanged.
            pub const fn kind(self) -> ErrorType {
                match self {
                    // XEP-0500 4 requires it.
                    Limit::RoomSlowMode => ErrorType::Wait,
                    _ => self.condition().default_type(),
                }
            }

            /// The text for the refused peer.
            pub const fn text(self) -> &'static str {
                match self { $(Limit::$case => $text,)* }
            }

            /// When to retry, if no time is known.
            pub const fn again(self) -> &'static str {
                match self { $(Limit::$case => $again,)* }
            }
        }
    };
}

limits! {
    /// Occupants of a room.
    RoomOccupants = "room-occupants", ServiceUnavailable,
        "the room is full", "try again when somebody has left";
    /// Sessions of one user in a room.
    RoomSeats = "room-sessions", ResourceConstraint,
        "this user is in the room with too many sessions", "try again when one of them has left";
    /// Bytes of a presence, or of an id, that a room passes on.
    RoomPresence = "room-presence", NotAcceptable,
        "the presence is too long for a room", "send a shorter one";
    /// Bytes of a subject.
    RoomSubject = "room-subject", NotAcceptable,
        "the subject is too long", "send a shorter one";
    /// Stanzas that wait for a room.
    RoomWaiting = "room-waiting", ResourceConstraint,
        "too many stanzas wait for this room", "try again in a few seconds";
    /// Joins of users without an affiliation.
    RoomJoins = "room-joins", ResourceConstraint,
        "too many users join this room at once", "try again in a few seconds";
    /// The delay between messages in slow mode (XEP-0500 4).
    RoomSlowMode = "room-slow-mode", PolicyViolation,
        "this room permits one message at a time", "try again in a few seconds";
    /// Items of a request about roles or affiliations.
    RoomItems = "room-items", NotAcceptable,
        "the request has too many items", "send them in several requests";
    /// Length of a list of affiliations.
    RoomList = "room-list", PolicyViolation,
        "the list is too long for one answer", "ask the operator of the service";
    /// Requests to register with a room.
    RoomRequests = "room-requests", ResourceConstraint,
        "too many requests wait for the admins of this room", "try again when they have decided";
    /// Hats of a room.
    RoomHats = "room-hats", PolicyViolation,
        "the room, or this user, has too many hats", "remove one first";
    /// Bytes and images of a room's vCard.
    RoomCard = "room-card", PolicyViolation,
        "the avatar is too large for a room", "send a smaller one";
    /// A request for voice in a room without a moderator.
    RoomModerators = "room-moderators", RecipientUnavailable,
        "no moderator is in the room", "try again later";
    /// Who may create rooms.
    RoomCreation = "room-creation", NotAllowed,
        "this user may not create rooms here", "ask the operator of the service";
    /// Stanzas queued for a component, in total and per sender.
    Component = "component-queue", ResourceConstraint,
        "the component takes no more stanzas for now", "try again in a few seconds";
    /// Failed logins per address.
    AddressLogins = "address-logins", ResourceConstraint,
        "too many failed logins from this address", "try again later";
    /// Failed logins per address and account.
    PairLogins = "pair-logins", ResourceConstraint,
        "too many failed logins to this account from this address", "try again later";
    /// Failed logins per account, from addresses without a recent successful login.
    AccountLogins = "account-logins", ResourceConstraint,
        "too many failed logins to this account", "try again later";
    /// Queries to an external user back end, and its availability.
    Outside = "external-authentication", ResourceConstraint,
        "passwords of this domain cannot be checked at the moment", "try again in a minute";
    /// Registration, password changes and removal of users kept in an external back end.
    KeptElsewhere = "kept-elsewhere", NotAllowed,
        "the accounts of this domain are in an external system", "ask its operator where to create or change them";
    /// Accounts registered per address.
    Registrations = "registrations", ResourceConstraint,
        "too many accounts were registered from this address", "try again later";
    /// An invitation token that is not valid (XEP-0445 4).
    Invitation = "invitation", ItemNotFound,
        "the invitation is unknown, used up, revoked or expired", "ask for another one";
    /// Registration without an invitation where one is required.
    Invited = "invited", NotAllowed,
        "accounts are registered here by invitation only", "ask a user for an invitation";
    /// A name other than the one that the invitation is for.
    InvitedName = "invited-name", NotAcceptable,
        "the invitation is for another name", "register the name in its link";
    /// A name that may not be registered.
    ReservedName = "reserved-name", NotAcceptable,
        "the name is reserved, or looks like a reserved one", "choose another";
    /// Invitations per user.
    Invitations = "invitations", ResourceConstraint,
        "this account has reached its limit of invitations", "try again when one of them has expired";
    /// Accounts that wait for approval.
    Applicants = "applicants", ResourceConstraint,
        "too many accounts wait for approval", "try again later";
    /// Resources per user.
    Sessions = "sessions-per-user", ResourceConstraint,
        "this user has reached the limit of sessions", "try again when one of them has ended";
    /// Messages and bytes that wait for a user.
    WaitingMessages = "waiting-messages", ServiceUnavailable,
        "the receiver takes no more messages for now", "try again when the receiver has been online";
    /// Stanzas that an account sends, over all its sessions; further ones are read later.
    Stanzas = "account-stanzas", ResourceConstraint,
        "this account sends faster than permitted", "its stanzas wait and are read later";
    /// Messages that an account adds to logs per day, and their bytes.
    LogQuota = "log-quota", ResourceConstraint,
        "this account has reached its daily limit of messages", "try again later";
    /// Unauthenticated connections per address.
    Unauthenticated = "unauthenticated-connections", ResourceConstraint,
        "too many connections from this address have not logged in", "try again when some of them have";
    /// Disk space of the server.
    Disk = "disk", ResourceConstraint,
        "the server's disk is full", "try again when there is space";
    /// Stanzas that wait for the lookup of a recipient.
    Waiting = "waiting-stanzas", ResourceConstraint,
        "too many stanzas wait for this receiver", "try again in a few seconds";
    /// Password changes per account.
    PasswordChanges = "password-changes", ResourceConstraint,
        "the password was changed too often", "try again later";
    /// Passwords that wait to be hashed.
    Passwords = "waiting-passwords", ResourceConstraint,
        "too many passwords wait to be hashed", "try again in a minute";
    /// Items of a roster and their bytes.
    Roster = "roster", PolicyViolation,
        "the roster is full", "remove one before adding another";
    /// Parts of one roster item.
    RosterItem = "roster-item", NotAcceptable,
        "a name or group of the item is too long, or it has too many groups", "try again with less";
    /// Private XML per user.
    Private = "private-storage", PolicyViolation,
        "the private storage is full", "remove an element before adding another";
    /// Private XML per request.
    PrivateElement = "private-element", NotAcceptable,
        "the element's name is too long, or there are too many elements in one request", "try again with less";
    /// Entries of a list that an extension stores for a user, and their bytes.
    Record = "list", PolicyViolation,
        "the list is full", "remove an entry before adding another";
    /// Files that a user may upload.
    Uploads = "uploads", ResourceConstraint,
        "this account has reached its upload limit", "try again later";
    /// Bytestreams through the proxy.
    Bytestreams = "bytestreams", ResourceConstraint,
        "the proxy or this account has reached its limit of bytestreams", "try again when one of them has ended";
    /// A user's vCard.
    VCard = "vcard", PolicyViolation,
        "the vCard is longer than 128 KiB", "try again with a smaller photo";
    /// Waiting archive queries per user.
    ArchiveQueries = "archive-queries", ResourceConstraint,
        "too many archive queries wait", "try again when one of them is answered";
    /// Entries that an archive query examines.
    ArchiveScan = "archive-scan", ResourceConstraint,
        "the query scans too many messages that do not match", "try again with a shorter time range";
    /// Ids that an archive query requests, and the length of its own id.
    ArchiveIds = "archive-ids", NotAcceptable,
        "the query requests too many ids, or its own id is too long", "try again with fewer, or a shorter one";
    /// Nodes per user, and the bytes of their items and configuration.
    Nodes = "nodes", PolicyViolation,
        "this account has reached its limit of nodes or of their size", "remove a node or an item before adding another";
    /// Nodes of services that a user has subscribed to or created.
    Memberships = "memberships", PolicyViolation,
        "this account has reached its limit of subscriptions", "unsubscribe from one before adding another";
    /// All bookmarks of a user.
    Bookmarks = "bookmarks", PolicyViolation,
        "this account has reached its limit of bookmarks or of their size", "remove one before adding another";
    /// Elements of a request to the server, relative to its length.
    Elements = "request-elements", NotAcceptable,
        "the request has too many elements for its length", "try again with fewer";
    /// Open command sessions, and commands in progress.
    Commands = "commands", ResourceConstraint,
        "too many commands are open or being carried out", "try again in a minute";
    /// The payload of a presence, and of all presences of a shard.
    Presence = "presence", PolicyViolation,
        "the presence is too large", "try again with less";
    /// Length of a name or password.
    Credentials = "credentials", NotAcceptable,
        "the name or password is empty, too long, or has invalid characters", "choose another";
}

impl Limit {
    /// Whether a refusal names this limit. Otherwise it must be indistinguishable from the reply
    /// for a name that does not exist (RFC 6121 8.5.1).
    pub const fn is_told(self) -> bool {
        !matches!(self, Limit::WaitingMessages)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A refusal because of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Held {
    /// The limit that was reached.
    pub limit: Limit,
    /// Time until a retry can succeed, milliseconds; `None` if no time is known.
    pub left_ms: Option<u64>,
}

impl Held {
    /// A refusal by a limit without a known retry time: it ends when something is freed.
    pub const fn by(limit: Limit) -> Held {
        Held { limit, left_ms: None }
    }
}

/// Why a stanza is refused: the condition, and the limit if there was one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Refusal {
    /// The condition sent to the peer (RFC 6120 8.3.3).
    pub condition: StanzaCondition,
    /// The limit that was reached, if any.
    pub held: Option<Held>,
    /// An extension's own condition (RFC 6120 8.3.4). One that another process has written and this
    /// build does not know is left out: the defined condition is sufficient.
    #[serde(with = "app")]
    pub app: Option<AppError>,
}

/// An extension's own condition beside the defined one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppError {
    /// The element's name, with an attribute if it has one.
    pub name: &'static str,
    /// Its namespace.
    pub xmlns: &'static str,
    /// The error's type, if it is not the default of its condition.
    pub kind: ErrorType,
    /// The element's content.
    pub detail: Detail,
}

/// Conditions of extensions that may be read from another process: name and namespace.
const APP_CONDITIONS: &[(&str, &[&str])] = &[
    (
        "http://jabber.org/protocol/pubsub#errors",
        &[
            "closed-node",
            "invalid-jid",
            "invalid-payload",
            "item-forbidden",
            "item-required",
            "max-items-exceeded",
            "nodeid-required",
            "not-in-roster-group",
            "not-subscribed",
            "payload-required",
            "payload-too-big",
            "pending-subscription",
            "precondition-not-met",
            "unsupported feature='collections'",
            "unsupported feature='persistent-items'",
            "unsupported feature='publish-only-affiliation'",
            "unsupported feature='publisher-affiliation'",
            "unsupported feature='retrieve-affiliations'",
            "unsupported feature='subscription-options'",
            "unsupported-access-model",
        ],
    ),
    (
        "http://jabber.org/protocol/commands",
        &["bad-action", "bad-payload", "bad-sessionid", "malformed-action", "session-expired"],
    ),
    ("urn:xmpp:blocking:errors", &["blocked"]),
    (
        "urn:xmpp:channel-search:0:error",
        &["conflicting-fields", "invalid-search-terms", "invalid-sort-key", "no-search-conditions"],
    ),
    ("urn:xmpp:http:upload:0", &["file-too-large", "retry"]),
];

/// The written form of an extension's own condition.
mod app {
    use super::{APP_CONDITIONS, AppError, Detail, ErrorType};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(app: &Option<AppError>, to: S) -> Result<S::Ok, S::Error> {
        app.map(|app| (app.name, app.xmlns, app.kind, app.detail)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AppError>, D::Error> {
        let read = Option::<(&str, &str, ErrorType, Detail)>::deserialize(from)?;
        Ok(read.and_then(|(name, xmlns, kind, detail)| {
            let (xmlns, names) = APP_CONDITIONS.iter().find(|(known, _)| *known == xmlns)?;
            let name = names.iter().find(|known| **known == name)?;
            Some(AppError { name, xmlns, kind, detail })
        }))
    }
}

impl Refusal {
    /// The text that the peer receives beside the condition.
    pub fn text(&self) -> Option<String> {
        self.held.filter(|held| held.limit.is_told()).map(|held| held.to_string())
    }
}

impl From<StanzaCondition> for Refusal {
    fn from(condition: StanzaCondition) -> Refusal {
        Refusal { condition, held: None, app: None }
    }
}

impl From<Held> for Refusal {
    fn from(held: Held) -> Refusal {
        Refusal { condition: held.limit.condition(), held: Some(held), app: None }
    }
}

impl From<Limit> for Refusal {
    fn from(limit: Limit) -> Refusal {
        Held::by(limit).into()
    }
}

/// A sentence for the peer: which limit was reached, and when to retry.
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left_ms.map(|ms| ms.div_ceil(1_000)) {
            None => write!(f, "{}; {}", self.limit.text(), self.limit.again()),
            Some(1) => write!(f, "{}; try again in 1 second", self.limit.text()),
            Some(seconds) => write!(f, "{}; try again in {seconds} seconds", self.limit.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_a_name_of_its_own_and_says_when_to_try_again() {
        let mut names: Vec<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Limit::ALL.len());
        for limit in Limit::ALL {
            assert!(limit.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
            assert!(Held::by(*limit).to_string().contains(limit.again()) && !limit.again().is_empty());
        }
        let held = |ms| Held { limit: Limit::Registrations, left_ms: Some(ms) }.to_string();
        assert!(held(900).ends_with("; try again in 1 second") && held(1_001).ends_with("; try again in 2 seconds"));
    }
}
