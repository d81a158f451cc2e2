//! The operator's end of the control socket.
//!
//! Calls block until the answer has arrived. This module handles lines and answers; the commands
//! decide what to do with them.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::protocol::{Ask, Done, LINE_BYTES_MAX, Part, Reply, Request, Say, VERSION, write_line};
use super::rooms::{RoomRow, RoomShown, Rooms};
use super::socket::with_short_path;
use super::{
    ACCOUNTS_PER_BATCH_MAX, AccountRow, AccountShown, Accounts, ApplicantRow, Existing, Fault, FaultKind, InviteRow,
    Invited, NewAccount, NewInvite, Page, Put, ReportRow,
};

/// Longest wait for one line of an answer. A server with a full disk answers when there is space
/// again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest line of an answer that is read: a page of sessions with the longest JIDs.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// Why a request got no answer.
#[derive(Debug)]
pub enum AskError {
    /// No server listens at this path.
    NotRunning(PathBuf),
    /// The socket belongs to another user.
    Denied(PathBuf),
    /// The connection broke, or the input is not valid protocol.
    Broken(String),
    /// The server answered that the request was not carried out.
    Fault(Fault),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NotRunning(path) => write!(
                f,
                "no server answers on {}; start one with `throng serve`, or pass its data folder \
                 with --data",
                path.display()
            ),
            AskError::Denied(path) => {
                write!(f, "permission denied: {}; run this as the server's user or as root", path.display())
            }
            AskError::Broken(reason) => write!(f, "the control socket: {reason}"),
            AskError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for AskError {}

/// A connection to a running server.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    next_id: u64,
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// `NotRunning`, `Denied`, `Broken`.
    pub fn connect(path: &Path) -> Result<Client, AskError> {
        let stream = with_short_path(path, UnixStream::connect).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => AskError::NotRunning(path.to_owned()),
            ErrorKind::PermissionDenied => AskError::Denied(path.to_owned()),
            _ => AskError::Broken(format!("{}: {error}", path.display())),
        })?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(broken)?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(broken)?;
        Ok(Client { stream: BufReader::new(stream), next_id: 1 })
    }

    /// Sends a request, passes each part of the answer to `part` and returns the end of the answer.
    ///
    /// # Errors
    /// `Broken`, `Fault`.
    pub fn ask(&mut self, ask: Ask, mut part: impl FnMut(Part)) -> Result<Done, AskError> {
        let id = self.next_id;
        self.next_id += 1;
        let line = write_line(&Request { v: VERSION, id, ask });
        if line.len() > LINE_BYTES_MAX + 1 {
            return Err(AskError::Fault(Fault::new(FaultKind::Invalid, "the request is too long")));
        }
        // If the server has closed this client, its reason is still to be read.
        let sent = self.stream.get_mut().write_all(&line);
        loop {
            let reply = match (self.read_reply(), &sent) {
                (Err(_), Err(error)) => return Err(AskError::Broken(error.to_string())),
                (reply, _) => reply?,
            };
            match reply.say {
                _ if reply.id != id && reply.id != 0 => {
                    return Err(AskError::Broken("an answer to another request".into()));
                }
                Say::Part(rows) => part(rows),
                Say::Done(done) => return Ok(done),
                Say::Fault(fault) => return Err(AskError::Fault(fault)),
            }
        }
    }

    fn read_reply(&mut self) -> Result<Reply, AskError> {
        let mut line = Vec::new();
        (&mut self.stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line).map_err(broken)?;
        if line.pop() != Some(b'\n') {
            return Err(AskError::Broken("the server closed the connection".into()));
        }
        serde_json::from_slice(&line).map_err(|error| AskError::Broken(format!("unknown answer: {error}")))
    }
}

fn broken(error: io::Error) -> AskError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => AskError::Broken("the server does not answer".into()),
        _ => AskError::Broken(error.to_string()),
    }
}

/// The accounts of a running server.
#[derive(Debug)]
pub struct Remote(RefCell<Client>);

impl Remote {
    /// Uses this connection.
    pub fn new(client: Client) -> Remote {
        Remote(RefCell::new(client))
    }

    fn ask(&self, ask: Ask) -> Result<Done, Fault> {
        self.0.borrow_mut().ask(ask, drop).map_err(|error| match error {
            AskError::Fault(fault) => fault,
            other => Fault::new(FaultKind::Internal, other.to_string()),
        })
    }
}

impl Rooms for Remote {
    fn rooms(&self, after: Option<&str>, limit: usize) -> Result<Page<RoomRow>, Fault> {
        match self.ask(Ask::Rooms { after: after.map(str::to_owned), limit })? {
            Done::Rooms { rows, next } => Ok(Page { rows, next }),
            other => strange(other),
        }
    }

    fn room(&self, room: &str) -> Result<RoomShown, Fault> {
        match self.ask(Ask::Room { room: room.to_owned() })? {
            Done::Room(shown) => Ok(*shown),
            other => strange(other),
        }
    }

    fn configure_room(&self, room: &str, fields: &[(String, Vec<String>)]) -> Result<(), Fault> {
        self.ask(Ask::ConfigureRoom { room: room.to_owned(), fields: fields.to_vec() }).map(drop)
    }

    fn destroy_room(&self, room: &str, reason: Option<&str>, alternate: Option<&str>) -> Result<(), Fault> {
        let (reason, alternate) = (reason.map(str::to_owned), alternate.map(str::to_owned));
        self.ask(Ask::DestroyRoom { room: room.to_owned(), reason, alternate }).map(drop)
    }

    fn close_room(&self, room: &str, seconds: u32) -> Result<(), Fault> {
        self.ask(Ask::CloseRoom { room: room.to_owned(), seconds }).map(drop)
    }
}

fn strange<T>(_: Done) -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Internal, "unexpected answer from the server"))
}

impl Accounts for Remote {
    fn domain(&self) -> Result<String, Fault> {
        match self.ask(Ask::Domain {})? {
            Done::Domain(domain) => Ok(domain),
            other => strange(other),
        }
    }

    fn put(&self, batch: Vec<NewAccount>, existing: Existing) -> Result<Vec<Put>, Fault> {
        // Keys are about 300 bytes, but a name may exceed a thousand: split a batch too long for
        // one line.
        let bytes: usize = batch.iter().map(|account| 512 + 6 * account.user.len()).sum();
        if batch.len() > 1 && (bytes > LINE_BYTES_MAX || batch.len() > ACCOUNTS_PER_BATCH_MAX) {
            let mut first = batch;
            let second = first.split_off(first.len() / 2);
            let mut outcomes = self.put(first, existing)?;
            outcomes.extend(self.put(second, existing)?);
            return Ok(outcomes);
        }
        let count = batch.len();
        match self.ask(Ask::Put { batch, existing })? {
            Done::Put(outcomes) if outcomes.len() == count => Ok(outcomes),
            other => strange(other),
        }
    }

    fn delete(&self, user: &str) -> Result<(), Fault> {
        match self.ask(Ask::Delete { user: user.to_owned() })? {
            Done::Ok {} => Ok(()),
            other => strange(other),
        }
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault> {
        match self.ask(Ask::List { after: after.map(str::to_owned), limit })? {
            Done::Accounts { rows, next } => Ok(Page { rows, next }),
            other => strange(other),
        }
    }

    fn invite(&self, new: &NewInvite) -> Result<Invited, Fault> {
        match self.ask(Ask::Invite { new: new.clone() })? {
            Done::Invited(invited) => Ok(invited),
            other => strange(other),
        }
    }

    fn invitations(&self, after: Option<&str>, limit: usize) -> Result<Page<InviteRow>, Fault> {
        match self.ask(Ask::Invitations { after: after.map(str::to_owned), limit })? {
            Done::Invitations { rows, next } => Ok(Page { rows, next }),
            other => strange(other),
        }
    }

    fn revoke(&self, actor: &str, id: &str) -> Result<(), Fault> {
        match self.ask(Ask::Revoke { actor: actor.to_owned(), id: id.to_owned() })? {
            Done::Ok {} => Ok(()),
            other => strange(other),
        }
    }

    fn applicants(&self) -> Result<Vec<ApplicantRow>, Fault> {
        match self.ask(Ask::Applicants {})? {
            Done::Applicants(rows) => Ok(rows),
            other => strange(other),
        }
    }

    fn decide(&self, user: &str, approve: bool) -> Result<(), Fault> {
        match self.ask(Ask::Decide { user: user.to_owned(), approve })? {
            Done::Ok {} => Ok(()),
            other => strange(other),
        }
    }

    fn suspend(&self, user: &str, suspended: bool) -> Result<u64, Fault> {
        match self.ask(Ask::Suspend { user: user.to_owned(), suspended })? {
            Done::Count(count) => Ok(count),
            other => strange(other),
        }
    }

    fn show(&self, user: &str) -> Result<AccountShown, Fault> {
        match self.ask(Ask::Show { user: user.to_owned() })? {
            Done::Shown(shown) => Ok(*shown),
            other => strange(other),
        }
    }

    fn reports(&self, after: Option<&str>, limit: usize) -> Result<Page<ReportRow>, Fault> {
        match self.ask(Ask::Reports { after: after.map(str::to_owned), limit })? {
            Done::Reports { rows, next } => Ok(Page { rows, next }),
            other => strange(other),
        }
    }

    fn dismiss(&self, ids: &[String]) -> Result<u64, Fault> {
        match self.ask(Ask::Dismiss { ids: ids.to_vec() })? {
            Done::Count(count) => Ok(count),
            other => strange(other),
        }
    }
}
