//! The control socket's language: one JSON object a line, both ways.
//!
//! ```text
//! > {"v":1,"id":7,"ask":{"sessions":{"of":null}}}
//! < {"v":1,"id":7,"part":{"sessions":[...]}}        any number of parts
//! < {"v":1,"id":7,"done":{"count":312}}             or "fault":{"kind":"not-found","text":"..."}
//! ```
//!
//! A client may send several requests without waiting; they are answered in order. This module knows lines and
//! their meaning; it neither reads sockets nor carries anything out.

use serde::{Deserialize, Serialize};

use super::{
    AccountRow, AccountShown, ApplicantRow, Audience, BackupState, ComponentRow, Existing, Fault, Held, InviteRow,
    Invited, KnobChange, KnobRow, NewAccount, NewInvite, OpeningRow, Put, Release, Reloaded, ReportRow, SessionRow,
    Status,
};

/// Version of the language. A server answers other versions with a fault that names its own.
pub const VERSION: u32 = 1;

/// Longest line either way, in bytes without its end.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// A request with its envelope.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub v: u32,
    /// Chosen by the client, repeated in every answer.
    #[serde(default)]
    pub id: u64,
    /// What is asked.
    pub ask: Ask,
}

/// What can be asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// [`super::Control::status`].
    Status {},
    /// [`super::Control::sessions`], all pages, streamed.
    Sessions {
        /// Bare or full JID; all users when none.
        of: Option<String>,
    },
    /// [`super::Control::kick`].
    Kick {
        /// Bare or full JID.
        jid: String,
        /// For the client, in the stream's end.
        reason: Option<String>,
    },
    /// [`super::Control::say`].
    Say {
        /// The body.
        text: String,
        /// Who hears it.
        to: Audience,
        /// Ahead of what waits.
        #[serde(default)]
        urgent: bool,
    },
    /// [`super::Control::announce`].
    Announce {
        /// The body.
        text: String,
        /// Tell all sessions.
        online: bool,
        /// Seconds for which who logs in is told; not at all when none.
        later_s: Option<u64>,
    },
    /// [`super::Control::announced`].
    Announced {},
    /// [`super::Control::edit_announcement`].
    EditAnnouncement {
        /// The body.
        text: String,
    },
    /// [`super::Control::withdraw_announcement`].
    WithdrawAnnouncement {},
    /// [`super::Control::flush_waiting`].
    FlushWaiting {
        /// Bare JID.
        jid: String,
    },
    /// [`super::Control::flush_queue`].
    FlushQueue {
        /// Bare or full JID.
        jid: String,
    },
    /// [`super::Control::components`].
    Components {},
    /// [`super::Control::openings`].
    Openings {},
    /// [`super::Control::limits`].
    Limits {},
    /// [`super::Control::release`].
    Release {
        /// Whom.
        whom: Release,
    },
    /// [`super::Control::shutdown`].
    Shutdown {
        /// Seconds; the configured time when none.
        grace_s: Option<u64>,
        /// Seconds until it begins.
        #[serde(default)]
        after_s: Option<u64>,
    },
    /// [`super::Control::cancel_shutdown`].
    CancelShutdown {},
    /// [`super::Control::confirm_clock`].
    ConfirmClock {},
    /// [`super::Control::reload`].
    Reload {},
    /// [`super::Control::knobs`].
    Knobs {},
    /// [`super::Control::set_knob`].
    SetKnob {
        /// Its name.
        key: String,
        /// As it would be written in the file.
        value: String,
        /// Seconds after which it is put back; it stays when none.
        for_s: Option<u64>,
    },
    /// [`super::Control::reset_knobs`].
    ResetKnobs {
        /// Its name; all when none.
        key: Option<String>,
    },
    /// [`super::Control::trace`].
    Trace(super::trace::Ask),
    /// [`super::Control::profile`].
    Profile(crate::profile::Ask),
    /// [`super::Control::backup`].
    Backup {
        /// Folder, an absolute path.
        to: String,
    },
    /// [`super::Accounts::domain`].
    Domain {},
    /// [`super::Accounts::put`].
    Put {
        /// At most [`super::ACCOUNTS_PER_BATCH_MAX`].
        batch: Vec<NewAccount>,
        /// What happens to accounts that are there.
        existing: Existing,
    },
    /// [`super::Accounts::delete`].
    Delete {
        /// Localpart.
        user: String,
    },
    /// [`super::Accounts::list`], one page.
    List {
        /// From the page before.
        after: Option<String>,
        /// Rows wanted.
        limit: usize,
    },
    /// [`super::Accounts::invite`].
    Invite {
        /// What.
        new: NewInvite,
    },
    /// [`super::Accounts::invitations`], one page.
    Invitations {
        /// From the page before.
        after: Option<String>,
        /// Rows wanted.
        limit: usize,
    },
    /// [`super::Accounts::revoke`].
    Revoke {
        /// Who keeps it.
        actor: String,
        /// Its id.
        id: String,
    },
    /// [`super::Accounts::applicants`].
    Applicants {},
    /// [`super::Accounts::decide`].
    Decide {
        /// Localpart or bare JID.
        user: String,
        /// Put it to use.
        approve: bool,
    },
    /// [`super::Accounts::suspend`].
    Suspend {
        /// Localpart or bare JID.
        user: String,
        /// Suspend it, or let it be used again.
        suspended: bool,
    },
    /// [`super::Accounts::show`].
    Show {
        /// Localpart or bare JID.
        user: String,
    },
    /// [`super::Accounts::reports`], one page.
    Reports {
        /// From the page before.
        after: Option<String>,
        /// Rows wanted.
        limit: usize,
    },
    /// [`super::Accounts::dismiss`].
    Dismiss {
        /// Which.
        ids: Vec<String>,
    },
}

/// A line of an answer with its envelope.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// [`VERSION`].
    pub v: u32,
    /// The request's; 0 when the request could not be read.
    pub id: u64,
    /// The line itself.
    #[serde(flatten)]
    pub say: Say,
}

/// A line of an answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Say {
    /// More follows.
    Part(Part),
    /// The end, and what was asked for.
    Done(Done),
    /// The end: it was not carried out.
    Fault(Fault),
}

/// A piece of a long answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Rows of a listing.
    Sessions(Vec<SessionRow>),
}

/// The end of an answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// Nothing to tell.
    Ok {},
    /// How many: sessions listed, ended, told.
    Count(u64),
    /// How far announcements are.
    Announced(super::Announced),
    /// Of a trace.
    Trace(super::trace::Told),
    /// Of a profile.
    Profile(crate::profile::Told),
    /// The state.
    Status(Box<Status>),
    /// External components.
    Components(Vec<ComponentRow>),
    /// Connections that have not logged in, by address.
    Openings(Vec<OpeningRow>),
    /// Those who are held by limits.
    Limits(Held),
    /// What a reload did.
    Reloaded(Reloaded),
    /// The knobs.
    Knobs(Vec<KnobRow>),
    /// What has changed.
    Turned(Vec<KnobChange>),
    /// How far a backup is.
    Backup(BackupState),
    /// A domain.
    Domain(String),
    /// What became of each account.
    Put(Vec<Put>),
    /// A page of accounts.
    Accounts {
        /// The rows.
        rows: Vec<AccountRow>,
        /// Where the next page starts.
        next: Option<String>,
    },
    /// An invitation that was made.
    Invited(Invited),
    /// A page of invitations.
    Invitations {
        /// The rows.
        rows: Vec<InviteRow>,
        /// Where the next page starts.
        next: Option<String>,
    },
    /// Accounts that wait for approval.
    Applicants(Vec<ApplicantRow>),
    /// An account.
    Shown(Box<AccountShown>),
    /// A page of reports.
    Reports {
        /// The rows.
        rows: Vec<ReportRow>,
        /// Where the next page starts.
        next: Option<String>,
    },
}

/// Reads a request line.
///
/// # Errors
/// The fault to answer with, and the id to answer to as far as it could be read.
pub fn read_request(line: &[u8]) -> Result<Request, (u64, Fault)> {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(default)]
        v: u32,
        #[serde(default)]
        id: u64,
    }
    use super::FaultKind::Invalid;
    let envelope: Envelope = serde_json::from_slice(line)
        .map_err(|_| (0, Fault::new(Invalid, "a request is one JSON object a line, with v, id and ask")))?;
    if envelope.v != VERSION {
        let text = format!("this server speaks version {VERSION} of the control language, not {}", envelope.v);
        return Err((envelope.id, Fault::new(Invalid, text)));
    }
    // The parser's own text may repeat parts of the line, and a line may hold keys: only the place is told.
    serde_json::from_slice(line).map_err(|error: serde_json::Error| {
        (envelope.id, Fault::new(Invalid, format!("the request is not known, or wrong at column {}", error.column())))
    })
}

/// Writes a line with its end.
pub fn write_line<T: Serialize>(value: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("these types have a JSON form");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::super::FaultKind;
    use super::*;

    #[test]
    fn requests_and_replies_survive_their_line() {
        let ask = Ask::Sessions { of: Some("romeo@localhost".into()) };
        let request = Request { v: VERSION, id: 7, ask };
        let line = write_line(&request);
        assert_eq!(line, b"{\"v\":1,\"id\":7,\"ask\":{\"sessions\":{\"of\":\"romeo@localhost\"}}}\n");
        assert_eq!(read_request(&line).expect("good"), request);
        let reply = Reply { v: VERSION, id: 7, say: Say::Done(Done::Count(3)) };
        let line = write_line(&reply);
        assert_eq!(line, b"{\"v\":1,\"id\":7,\"done\":{\"count\":3}}\n");
        assert_eq!(serde_json::from_slice::<Reply>(&line).expect("good"), reply);
    }

    #[test]
    fn bad_requests_are_answered_to_their_id_without_repeating_them() {
        let fault = |line: &str| read_request(line.as_bytes()).expect_err(line);
        assert_eq!(fault("not json").0, 0);
        let (id, old) = fault(r#"{"v":9,"id":4,"ask":{"status":{}}}"#);
        assert!(id == 4 && old.text.contains("version 1"));
        for line in
            [r#"{"v":1,"id":5,"ask":{"secret":{}}}"#, r#"{"v":1,"id":5}"#, r#"{"v":1,"id":5,"ask":{"kick":{"jid":3}}}"#]
        {
            let (id, fault) = fault(line);
            assert_eq!((id, fault.kind), (5, FaultKind::Invalid));
            assert!(!fault.text.contains("secret"));
        }
    }
}
