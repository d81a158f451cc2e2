//! A trace of one user's stanzas, as the control socket speaks of it.
//!
//! One command begins it, fetches what has come while its time lasts, and ends it. What was fetched is gone. One that nobody
//! fetches from for ten seconds ends by itself.

use serde::{Deserialize, Serialize};

/// Longest trace, seconds.
pub const SECONDS_MAX: u64 = 3_600;

/// What can be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Begin one. Answered by [`Told::Begun`].
    Begin {
        /// Bare JID for all sessions of a user, full JID for one.
        jid: String,
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
        /// With all that stanzas carry.
        bodies: bool,
    },
    /// What has come since the last time. Answered by [`Told::Page`].
    Fetch {
        /// Its number.
        trace: u64,
    },
    /// End it. Answered by [`Told::Ended`].
    End {
        /// Its number.
        trace: u64,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// It is under way.
    Begun {
        /// Its number.
        trace: u64,
        /// The address as the server reads it.
        jid: String,
        /// Sessions that it takes now.
        sessions: u64,
    },
    /// What has come.
    Page(Page),
    /// It is over.
    Ended {},
}

/// What was fetched at once.
///
/// The engine's own page ([`throng_engine::observers::trace::Page`]) has the same counts and is a type of its own: the engine knows no
/// serde, whose derive for types of others wants their fields written out again, too; and its records borrow the server's words,
/// which a command that reads a page has to own.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    /// In order.
    pub records: Vec<Record>,
    /// There are more already.
    pub more: bool,
    /// Records that were left out so far, because too many waited.
    pub dropped: u64,
    /// Stanzas so far, those that were left out included.
    pub stanzas: u64,
    /// Its time is over.
    pub over: bool,
}

/// A stanza, what became of one, or news of a session: what a line of `throng ctl trace --json` says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Its number in the trace.
    pub n: u64,
    /// When, UTC (XEP-0082).
    pub time: String,
    /// Full JID of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Of a stanza: `in` from the client, `out` to it, `aside` to no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// `message`, `presence` or `iq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stanza: Option<String>,
    /// As written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// As written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// As written; of a long one the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// As written; of a long one the beginning.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it carries, as far as the server has a name for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub payload: Vec<String>,
    /// Its length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of what became of a stanza: its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// What became of it: `taken`, `under-way`, `safe`, `refused`, `queued`, `held`, `sent`, `acknowledged`, `stored`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<String>,
    /// Of a refused one: the stanza error's condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Of a queued one: the bytes ahead of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_bytes: Option<u64>,
    /// How long after the stanza, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_us: Option<u64>,
    /// Of a session: `bound`, `disconnected`, `resumed`, `ended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub news: Option<String>,
    /// Of a resumed one: the stanzas that are sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<u64>,
    /// All of it, if that was asked for; of one longer than 64 KiB the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xml: Option<String>,
}
