//! A trace of one user's stanzas, as represented on the control socket.
//!
//! One command begins it, fetches its records while it lasts, and ends it. Fetched records are
//! removed. A trace that is not fetched from for ten seconds ends by itself.

use serde::{Deserialize, Serialize};

/// Longest trace, seconds.
pub const SECONDS_MAX: u64 = 3_600;

/// The requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Begins a trace. Answered by [`Told::Begun`].
    Begin {
        /// Bare JID for all sessions of a user, full JID for one.
        jid: String,
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
        /// Whether to include the full content of stanzas.
        bodies: bool,
    },
    /// Fetches the records since the last fetch. Answered by [`Told::Page`].
    Fetch {
        /// Its number.
        trace: u64,
    },
    /// Ends a trace. Answered by [`Told::Ended`].
    End {
        /// Its number.
        trace: u64,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// The trace has begun.
    Begun {
        /// Its number.
        trace: u64,
        /// The address as the server parsed it.
        jid: String,
        /// Number of sessions traced now.
        sessions: u64,
    },
    /// Fetched records.
    Page(Page),
    /// The trace has ended.
    Ended {},
}

/// The records fetched at once.
///
/// The engine's own page ([`throng_engine::observers::trace::Page`]) has the same counts and is a
/// separate type. The engine does not depend on serde, whose derive for foreign types would repeat
/// the fields anyway; and its records borrow the server's words, which a command that reads a page
/// must own.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    /// In order.
    pub records: Vec<Record>,
    /// Whether more records are available now.
    pub more: bool,
    /// Number of records dropped so far because too many were pending.
    pub dropped: u64,
    /// Number of stanzas so far, dropped ones included.
    pub stanzas: u64,
    /// Whether its time is over.
    pub over: bool,
}

/// A stanza, the fate of one, or an event of a session: one line of `throng ctl trace --json`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Its number in the trace.
    pub n: u64,
    /// The time in UTC (XEP-0082).
    pub time: String,
    /// Full JID of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// For a stanza: `in` from the client, `out` to it, `aside` to no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// `message`, `presence` or `iq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stanza: Option<String>,
    /// The attribute as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The attribute as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The attribute as written; only the beginning of a long one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The attribute as written; only the beginning of a long one.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its payloads, as far as the server has a name for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub payload: Vec<String>,
    /// Its length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// For the fate of a stanza: the number of that stanza.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The fate of a stanza: `taken`, `under-way`, `safe`, `refused`, `queued`, `held`, `sent`,
    /// `acknowledged`, `stored`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<String>,
    /// For a refused stanza: the condition of the stanza error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// For a queued stanza: the bytes queued before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_bytes: Option<u64>,
    /// Time since the stanza, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_us: Option<u64>,
    /// For a session: `bound`, `disconnected`, `resumed`, `ended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub news: Option<String>,
    /// For a resumed session: the number of stanzas sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<u64>,
    /// The whole stanza, if requested; of one longer than 64 KiB the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xml: Option<String>,
}
