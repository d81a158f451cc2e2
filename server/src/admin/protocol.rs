//! The protocol of the control socket: one JSON object per line, in both directions.
//!
//! ```text
//! > {"v":1,"id":7,"ask":{"sessions":{"of":null}}}
//! < {"v":1,"id":7,"part":{"sessions":[...]}}        any number of parts
//! < {"v":1,"id":7,"done":{"count":312}}             or "fault":{"kind":"not-found","text":"..."}
//! ```
//!
//! A client may send several requests without waiting; they are answered in order. This module
//! handles lines and their meaning; it neither reads sockets nor carries out requests.

use serde::{Deserialize, Serialize};

use super::rooms::{RoomRow, RoomShown};
use super::{
    AccountRow, AccountShown, ApplicantRow, Audience, BackupState, ComponentRow, Existing, Fault, Held, InviteRow,
    Invited, KnobChange, KnobRow, NewAccount, NewInvite, OpeningRow, Put, Release, Reloaded, ReportRow, SessionRow,
    Status,
};

/// Version of the protocol. A server answers other versions with a fault that names its own.
pub const VERSION: u32 = 1;

/// Longest line in either direction, in bytes without its end.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// A request with its envelope.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub v: u32,
    /// Chosen by the client, repeated in every answer.
    #[serde(default)]
    pub id: u64,
    /// The request itself.
    pub ask: Ask,
}

/// The requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// [`super::Control::status`].
    Status {},
    /// [`super::Control::sessions`], all pages, streamed.
    Sessions {
        /// Bare or full JID; `None` for all users.
        of: Option<String>,
    },
    /// [`super::Control::kick`].
    Kick {
        /// Bare or full JID.
        jid: String,
        /// The reason sent to the client in the stream error.
        reason: Option<String>,
    },
    /// [`super::Control::say`].
    Say {
        /// The body.
        text: String,
        /// The recipients.
        to: Audience,
        /// Whether to send it before queued output.
        #[serde(default)]
        urgent: bool,
    },
    /// [`super::Control::announce`].
    Announce {
        /// The body.
        text: String,
        /// Whether to send it to all sessions.
        online: bool,
        /// Seconds during which users that log in receive it; `None` for not at all.
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
        /// What to release.
        whom: Release,
    },
    /// [`super::Control::shutdown`].
    Shutdown {
        /// Grace in seconds; `None` for the configured time.
        grace_s: Option<u64>,
        /// Seconds until the stop begins.
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
        /// Its value, in the syntax of the configuration file.
        value: String,
        /// Seconds after which the value reverts; `None` if it stays.
        for_s: Option<u64>,
    },
    /// [`super::Control::reset_knobs`].
    ResetKnobs {
        /// Its name; `None` for all.
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
        /// What to do with accounts that exist.
        existing: Existing,
    },
    /// [`super::Accounts::delete`].
    Delete {
        /// Localpart.
        user: String,
    },
    /// [`super::Accounts::list`], one page.
    List {
        /// The position that the page before ended with.
        after: Option<String>,
        /// Number of rows wanted.
        limit: usize,
    },
    /// [`super::Accounts::invite`].
    Invite {
        /// The invitation.
        new: NewInvite,
    },
    /// [`super::Accounts::invitations`], one page.
    Invitations {
        /// The position that the page before ended with.
        after: Option<String>,
        /// Number of rows wanted.
        limit: usize,
    },
    /// [`super::Accounts::revoke`].
    Revoke {
        /// The owner of the invitation.
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
        /// Whether to approve or to remove it.
        approve: bool,
    },
    /// [`super::Accounts::suspend`].
    Suspend {
        /// Localpart or bare JID.
        user: String,
        /// Whether to suspend it or to end the suspension.
        suspended: bool,
    },
    /// [`super::Accounts::show`].
    Show {
        /// Localpart or bare JID.
        user: String,
    },
    /// [`super::Accounts::reports`], one page.
    Reports {
        /// The position that the page before ended with.
        after: Option<String>,
        /// Number of rows wanted.
        limit: usize,
    },
    /// [`super::rooms::Rooms::rooms`], one page.
    Rooms {
        /// The position that the page before ended with.
        after: Option<String>,
        /// Number of rows wanted.
        limit: usize,
    },
    /// [`super::rooms::Rooms::room`].
    Room {
        /// The room.
        room: String,
    },
    /// [`super::rooms::Rooms::configure_room`].
    ConfigureRoom {
        /// The room.
        room: String,
        /// Fields with their values.
        fields: Vec<(String, Vec<String>)>,
    },
    /// [`super::rooms::Rooms::destroy_room`].
    DestroyRoom {
        /// The room.
        room: String,
        /// The reason that occupants see.
        reason: Option<String>,
        /// Another room.
        alternate: Option<String>,
    },
    /// [`super::rooms::Rooms::close_room`].
    CloseRoom {
        /// The room.
        room: String,
        /// For so long; 0 opens it.
        seconds: u32,
    },
    /// [`super::Accounts::dismiss`].
    Dismiss {
        /// The ids of the reports.
        ids: Vec<String>,
    },
}

/// A line of an answer with its envelope.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// [`VERSION`].
    pub v: u32,
    /// The id of the request; 0 if the request could not be read.
    pub id: u64,
    /// The content.
    #[serde(flatten)]
    pub say: Say,
}

/// The content of a line of an answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Say {
    /// More lines follow.
    Part(Part),
    /// The end, with the result.
    Done(Done),
    /// The end: the request was not carried out.
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
    /// Success without a result.
    Ok {},
    /// A number: of sessions listed, ended or sent a message.
    Count(u64),
    /// The progress of announcements.
    Announced(super::Announced),
    /// The answer of a trace.
    Trace(super::trace::Told),
    /// The answer of a profile.
    Profile(crate::profile::Told),
    /// The state.
    Status(Box<Status>),
    /// External components.
    Components(Vec<ComponentRow>),
    /// Unauthenticated connections by address.
    Openings(Vec<OpeningRow>),
    /// The clients and accounts held by limits.
    Limits(Held),
    /// The effect of a reload.
    Reloaded(Reloaded),
    /// The knobs.
    Knobs(Vec<KnobRow>),
    /// The changed knobs.
    Turned(Vec<KnobChange>),
    /// The progress of a backup.
    Backup(BackupState),
    /// A domain.
    Domain(String),
    /// The outcome for each account.
    Put(Vec<Put>),
    /// A page of accounts.
    Accounts {
        /// The rows.
        rows: Vec<AccountRow>,
        /// Where the next page starts.
        next: Option<String>,
    },
    /// An invitation that was created.
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
    /// A page of rooms.
    Rooms {
        /// The rows.
        rows: Vec<RoomRow>,
        /// Where the next page starts.
        next: Option<String>,
    },
    /// A room.
    Room(Box<RoomShown>),
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
        .map_err(|_| (0, Fault::new(Invalid, "a request must be one JSON object per line, with v, id and ask")))?;
    if envelope.v != VERSION {
        let text = format!("this server supports version {VERSION} of the control protocol, not {}", envelope.v);
        return Err((envelope.id, Fault::new(Invalid, text)));
    }
    // The parser's own text may repeat parts of the line, which may hold keys: report only the
    // position.
    serde_json::from_slice(line).map_err(|error: serde_json::Error| {
        (envelope.id, Fault::new(Invalid, format!("unknown request, or error at column {}", error.column())))
    })
}

/// Writes a line with its line end.
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
