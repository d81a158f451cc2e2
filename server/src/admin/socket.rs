//! The server's end of the control socket: one thread per client, few clients, everything bounded.
//!
//! Without clients there is one thread, which sleeps in `accept`. A client's thread sleeps a few
//! milliseconds when it is idle. It may wait for a shard or a lock; other clients are served
//! meanwhile, because that is when an operator wants to look. A listing is produced one page at a
//! time, as the client reads it. This module handles lines and clients; requests go to [`Control`].

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use throng_engine::limits::ROOM_CLOSED_S_MAX;

use super::protocol::{Ask, Done, LINE_BYTES_MAX, Part, Reply, Say, VERSION, read_request, write_line};
use super::rooms::{ROOM_FIELDS_MAX, ROOMS_PER_PAGE_MAX};
use super::{
    ACCOUNTS_PER_BATCH_MAX, ANNOUNCED_FOR_MAX, Audience, BY_SOCKET, Control, Fault, FaultKind, REASON_BYTES_MAX,
    REPORTS_DISMISSED_MAX, ROWS_PER_PAGE_MAX, SAY_BYTES_MAX, SAY_JIDS_MAX, STOPS_IN_MAX, VALUE_BYTES_MAX,
};
use crate::audit::By;
use crate::end;
use crate::waits::{self, Place};

/// Longest path that fits a socket address, with room for the temporary name used while binding.
const PATH_BYTES_MAX: usize = 107 - 32;

/// Wait at the server's end for answers in progress.
const LAST_ANSWERS: Duration = Duration::from_secs(11);

/// Timeouts and number of clients.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the rest of a line that has begun.
    pub line: Duration,
    /// For the client to continue reading an answer.
    pub write: Duration,
    /// For the next request.
    pub idle: Duration,
    /// Most simultaneous clients; a further one is refused with a fault and closed.
    pub clients_max: usize,
}

impl Default for Patience {
    fn default() -> Patience {
        let seconds = Duration::from_secs;
        Patience { line: seconds(10), write: seconds(10), idle: seconds(300), clients_max: 16 }
    }
}

/// A control socket that is served. Dropping it finishes the answers in progress, then closes and
/// removes the socket.
///
/// Drop it after the store is closed: `throng ctl shutdown` waits for the socket to disappear.
#[derive(Debug)]
pub struct AdminServer {
    path: PathBuf,
    inode: (u64, u64),
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Binds `path` with mode 0600 and serves it on a thread of its own.
    ///
    /// # Errors
    /// `AddrInUse` if another process answers on it; else the system's.
    pub fn start(path: &Path, control: Arc<dyn Control>, patience: Patience) -> io::Result<AdminServer> {
        let listener = bind(path)?;
        let metadata = std::fs::metadata(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let serve = move || Served { listener, control, patience, clients: Vec::new(), stop: flag }.run();
        let thread = waits::spawn("admin", serve)?;
        let inode = (metadata.dev(), metadata.ino());
        Ok(AdminServer { path: path.to_owned(), inode, stop, thread: Some(thread) })
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread from accept. If the socket is missing, the thread cannot be woken and is
        // left until the process ends.
        let woken = with_short_path(&self.path, UnixStream::connect).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
        if std::fs::metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Calls `with` with a path to the same file that fits a socket address, through the open folder if
/// necessary.
pub(super) fn with_short_path<T>(path: &Path, with: impl FnOnce(PathBuf) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return with(path.to_owned());
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a socket's path needs a folder and a name"));
    };
    let folder = File::open(folder)?;
    with(PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name))
}

/// Binds in a folder that other users cannot read, restricts the mode, and only then renames the
/// socket to its final name.
fn bind(path: &Path) -> io::Result<UnixListener> {
    with_short_path(path, |path| {
        match UnixStream::connect(&path) {
            Ok(_) => return Err(io::Error::new(ErrorKind::AddrInUse, "another server is using the control socket")),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(error),
            Err(_) => {}
        }
        if std::fs::symlink_metadata(&path).is_ok_and(|found| {
            use std::os::unix::fs::FileTypeExt;
            !found.file_type().is_socket()
        }) {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is not a socket is in the way"));
        }
        let passing = path.with_file_name(format!(".throng-{}", std::process::id()));
        let inner = passing.join("s");
        let make = || DirBuilder::new().mode(0o700).create(&passing);
        make().or_else(|error| match error.kind() {
            // Left by a process killed at this point: in a container all have the same process id.
            ErrorKind::AlreadyExists => {
                let _ = std::fs::remove_file(&inner);
                std::fs::remove_dir(&passing)?;
                make()
            }
            _ => Err(error),
        })?;
        let bound = UnixListener::bind(&inner).and_then(|listener| {
            std::fs::set_permissions(&inner, Permissions::from_mode(0o600))?;
            std::fs::rename(&inner, &path)?;
            Ok(listener)
        });
        let _ = std::fs::remove_file(&inner);
        let _ = std::fs::remove_dir(&passing);
        bound
    })
}

struct Served {
    listener: UnixListener,
    control: Arc<dyn Control>,
    patience: Patience,
    /// Threads of clients, at most [`Patience::clients_max`].
    clients: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

/// A listing in progress.
struct Listing {
    id: u64,
    of: Option<String>,
    after: Option<String>,
    count: u64,
}

struct Client {
    stream: UnixStream,
    /// The peer.
    by: By,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    listing: Option<Listing>,
    /// When the first byte of an unfinished line arrived.
    line_since: Option<Instant>,
    /// When bytes were last read or written.
    moved: Instant,
    ended: bool,
}

impl Served {
    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            #[cfg(debug_assertions)]
            crate::plant::pass("admin");
            let accepted = {
                let _at = waits::at(Place::Clients);
                self.listener.accept()
            };
            self.clients.retain(|client| !client.is_finished());
            let begun = match accepted {
                Ok((stream, _)) => self.begin(stream),
                Err(error) => Err(error),
            };
            if begun.is_err() {
                // Probably out of descriptors or threads: wait until some are freed.
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        // A thread that waits for a shard or a lock is left until the process ends.
        let end = Instant::now() + LAST_ANSWERS;
        while self.clients.iter().any(|client| !client.is_finished()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Serves a client on a thread of its own, or refuses it if there are too many.
    fn begin(&mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let mut client = Client::new(stream);
        if self.clients.len() >= self.patience.clients_max {
            client.say(0, Say::Fault(Fault::new(FaultKind::Busy, "too many clients at the control socket")));
            let _ = client.flush();
            return Ok(());
        }
        let (control, patience, stop) = (self.control.clone(), self.patience, self.stop.clone());
        self.clients.push(waits::spawn("admin", move || client.run(&*control, &patience, &stop))?);
        Ok(())
    }
}

enum Step {
    Busy,
    Idle,
    Close,
}

impl Client {
    fn new(stream: UnixStream) -> Client {
        let moved = Instant::now();
        let by = rustix::net::sockopt::socket_peercred(&stream).ok();
        let by = by.map_or(By::Unknown, |by| By::Process { uid: by.uid.as_raw(), pid: by.pid.as_raw_nonzero().get() });
        Client {
            stream,
            by,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            listing: None,
            line_since: None,
            moved,
            ended: false,
        }
    }

    /// Serves the client until it disconnects or the server ends.
    fn run(mut self, control: &dyn Control, patience: &Patience, stop: &AtomicBool) {
        let mut nap = Duration::from_millis(1);
        while !stop.load(Ordering::Acquire) {
            match self.step(control, patience) {
                Step::Busy => nap = Duration::from_millis(1),
                Step::Idle => {
                    let _at = waits::at(Place::Clients);
                    std::thread::sleep(nap);
                    nap = (nap * 2).min(Duration::from_millis(20));
                }
                Step::Close => return,
            }
        }
        self.finish();
    }

    /// Writes pending output, carries out at most one request or page, and reads input.
    fn step(&mut self, control: &dyn Control, patience: &Patience) -> Step {
        let Ok(mut busy) = self.flush() else { return Step::Close };
        if self.output.is_empty() {
            busy |= self.work(control);
        }
        if self.ended {
            // End of input: close once every request is answered.
            let rest = !self.output.is_empty() || self.listing.is_some() || self.input.contains(&b'\n');
            return if !rest || self.moved.elapsed() > patience.write { Step::Close } else { Step::Busy };
        }
        match self.fill() {
            Ok(read) => busy |= read,
            Err(_) => return Step::Close,
        }
        let late = if !self.output.is_empty() {
            self.moved.elapsed() > patience.write
        } else if let Some(since) = self.line_since {
            since.elapsed() > patience.line
        } else {
            self.moved.elapsed() > patience.idle
        };
        match (late, busy) {
            (true, _) => Step::Close,
            (_, true) => Step::Busy,
            (_, false) => Step::Idle,
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        let mut moved = false;
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count;
                    self.moved = Instant::now();
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(moved),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output = Vec::new();
        self.written = 0;
        Ok(moved)
    }

    /// Reads once. A line over its limit is answered and ends the client; reading pauses while a
    /// whole line waits.
    fn fill(&mut self) -> io::Result<bool> {
        if self.input.contains(&b'\n') {
            return Ok(false);
        }
        if self.input.len() > LINE_BYTES_MAX {
            self.say(
                0,
                Say::Fault(Fault::new(FaultKind::Invalid, format!("a line is at most {LINE_BYTES_MAX} bytes"))),
            );
            self.input = Vec::new();
            self.ended = true;
            return Ok(true);
        }
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => {
                self.ended = true;
                Ok(true)
            }
            Ok(count) => {
                let now = Instant::now();
                self.moved = now;
                self.line_since.get_or_insert(now);
                self.input.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Produces one page of the current listing, or carries out one request.
    fn work(&mut self, control: &dyn Control) -> bool {
        if let Some(listing) = self.listing.take() {
            self.page(control, listing);
            return true;
        }
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else { return false };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        self.input.shrink_to(16 << 10);
        self.line_since = (!self.input.is_empty()).then(Instant::now);
        self.moved = Instant::now();
        if line.len() > LINE_BYTES_MAX + 1 {
            self.say(
                0,
                Say::Fault(Fault::new(FaultKind::Invalid, format!("a line is at most {LINE_BYTES_MAX} bytes"))),
            );
            return true;
        }
        match read_request(&line) {
            Ok(request) => match request.ask {
                Ask::Sessions { of } => {
                    self.listing = Some(Listing { id: request.id, of, after: None, count: 0 });
                }
                ask => {
                    let order = super::orders::order(&ask);
                    let answer = one_answer(|| answer(control, BY_SOCKET, ask));
                    if let Some(order) = order {
                        order.tell(&self.by, &answer);
                    }
                    self.say(request.id, answer.map_or_else(Say::Fault, Say::Done));
                }
            },
            Err((id, fault)) => self.say(id, Say::Fault(fault)),
        }
        // The time that the work took does not count against the client.
        self.moved = Instant::now();
        true
    }

    fn page(&mut self, control: &dyn Control, mut listing: Listing) {
        let rows = || control.sessions(listing.of.as_deref(), listing.after.as_deref(), ROWS_PER_PAGE_MAX);
        match one_answer(rows) {
            Ok(page) => {
                listing.count += page.rows.len() as u64;
                if !page.rows.is_empty() {
                    self.say(listing.id, Say::Part(Part::Sessions(page.rows)));
                }
                match page.next {
                    Some(next) => self.listing = Some(Listing { after: Some(next), ..listing }),
                    None => self.say(listing.id, Say::Done(Done::Count(listing.count))),
                }
            }
            Err(fault) => self.say(listing.id, Say::Fault(fault)),
        }
        self.moved = Instant::now();
    }

    fn say(&mut self, id: u64, say: Say) {
        self.output.extend_from_slice(&write_line(&Reply { v: VERSION, id, say }));
    }

    /// At the server's end: still sends what is already answered, for at most a second.
    fn finish(&mut self) {
        let rest = &self.output[self.written..];
        let patient = self.stream.set_nonblocking(false).is_ok()
            && self.stream.set_write_timeout(Some(Duration::from_secs(1))).is_ok();
        if patient {
            let _ = self.stream.write_all(rest);
        }
    }
}

/// A request that panics is answered with a fault; other requests are not affected.
fn one_answer<T>(ask: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    let answered = end::survive(|| {
        #[cfg(debug_assertions)]
        crate::plant::pass("admin request");
        ask()
    });
    answered.unwrap_or_else(|said| {
        tracing::error!("a request on the control socket has failed: {said}");
        Err(Fault::new(FaultKind::Internal, format!("the request has failed, as the server's log reports: {said}")))
    })
}

/// Carries out a request with a single answer, within the limits documented on the requests.
pub(super) fn answer(control: &dyn Control, by: &str, ask: Ask) -> Result<Done, Fault> {
    let bounded = |count: usize, max: usize, what: &str| match count <= max {
        true => Ok(()),
        false => Err(Fault::new(FaultKind::Invalid, format!("at most {max} {what}"))),
    };
    match ask {
        Ask::Status {} => Ok(Done::Status(Box::new(control.status()))),
        Ask::Sessions { .. } => Err(Fault::new(FaultKind::Internal, "a listing has pages, not one answer")),
        Ask::Kick { jid, reason } => {
            bounded(reason.as_ref().map_or(0, String::len), REASON_BYTES_MAX, "bytes of reason")?;
            control.kick(&jid, reason.as_deref()).map(Done::Count)
        }
        Ask::FlushWaiting { jid } => control.flush_waiting(by, &jid).map(Done::Count),
        Ask::FlushQueue { jid } => control.flush_queue(by, &jid).map(Done::Count),
        Ask::Say { text, to, urgent } => {
            bounded(text.len(), SAY_BYTES_MAX, "bytes of text")?;
            if let Audience::These(jids) = &to {
                bounded(jids.len(), SAY_JIDS_MAX, "addresses")?;
            }
            control.say(by, &text, &to, urgent).map(Done::Count)
        }
        Ask::Announce { text, online, later_s } => {
            bounded(text.len(), SAY_BYTES_MAX, "bytes of text")?;
            let later = later_s.map(Duration::from_secs);
            if later.is_some_and(|later| later > ANNOUNCED_FOR_MAX) {
                return Err(Fault::new(FaultKind::Invalid, "an announcement can be kept for at most 366 days"));
            }
            control.announce(&text, online, later).map(|()| Done::Ok {})
        }
        Ask::Announced {} => control.announced().map(Done::Announced),
        Ask::EditAnnouncement { text } => {
            bounded(text.len(), SAY_BYTES_MAX, "bytes of text")?;
            control.edit_announcement(&text).map(|()| Done::Ok {})
        }
        Ask::WithdrawAnnouncement {} => control.withdraw_announcement().map(|()| Done::Ok {}),
        Ask::Components {} => control.components().map(Done::Components),
        Ask::Openings {} => control.openings().map(Done::Openings),
        Ask::Limits {} => control.limits().map(Done::Limits),
        Ask::Release { whom } => control.release(by, &whom).map(Done::Count),
        Ask::Shutdown { grace_s, after_s } => {
            let after = after_s.map(Duration::from_secs);
            if after.is_some_and(|after| after > STOPS_IN_MAX) {
                return Err(Fault::new(FaultKind::Invalid, "a shutdown can be delayed by at most a day"));
            }
            control.shutdown(grace_s.map(Duration::from_secs), after).map(|()| Done::Ok {})
        }
        Ask::CancelShutdown {} => control.cancel_shutdown().map(|()| Done::Ok {}),
        Ask::ConfirmClock {} => control.confirm_clock(by).map(|_| Done::Ok {}),
        Ask::Reload {} => control.reload().map(Done::Reloaded),
        Ask::Knobs {} => Ok(Done::Knobs(control.knobs())),
        Ask::SetKnob { key, value, for_s } => {
            bounded(key.len().max(value.len()), VALUE_BYTES_MAX, "bytes of a name or value")?;
            control.set_knob(by, &key, &value, for_s.map(Duration::from_secs)).map(Done::Turned)
        }
        Ask::ResetKnobs { key } => {
            bounded(key.as_ref().map_or(0, String::len), VALUE_BYTES_MAX, "bytes of a name")?;
            control.reset_knobs(by, key.as_deref()).map(Done::Turned)
        }
        Ask::Trace(ask) => control.trace(ask).map(Done::Trace),
        Ask::Profile(ask) => control.profile(ask).map(Done::Profile),
        Ask::Backup { to } => control.backup(&to).map(Done::Backup),
        Ask::Domain {} => control.domain().map(Done::Domain),
        Ask::Put { batch, existing } => {
            bounded(batch.len(), ACCOUNTS_PER_BATCH_MAX, "accounts a batch")?;
            control.put(batch, existing).map(Done::Put)
        }
        Ask::Delete { user } => control.delete(&user).map(|()| Done::Ok {}),
        Ask::List { after, limit } => {
            let page = control.list(after.as_deref(), limit.clamp(1, ROWS_PER_PAGE_MAX))?;
            Ok(Done::Accounts { rows: page.rows, next: page.next })
        }
        Ask::Invite { new } => control.invite(&new).map(Done::Invited),
        Ask::Invitations { after, limit } => {
            let page = control.invitations(after.as_deref(), limit.clamp(1, ROWS_PER_PAGE_MAX))?;
            Ok(Done::Invitations { rows: page.rows, next: page.next })
        }
        Ask::Revoke { actor, id } => control.revoke(&actor, &id).map(|()| Done::Ok {}),
        Ask::Applicants {} => control.applicants().map(Done::Applicants),
        Ask::Reports { after, limit } => {
            let page = control.reports(after.as_deref(), limit.clamp(1, ROWS_PER_PAGE_MAX))?;
            Ok(Done::Reports { rows: page.rows, next: page.next })
        }
        Ask::Rooms { after, limit } => {
            let page = control.rooms(after.as_deref(), limit.clamp(1, ROOMS_PER_PAGE_MAX))?;
            Ok(Done::Rooms { rows: page.rows, next: page.next })
        }
        Ask::Room { room } => control.room(&room).map(|shown| Done::Room(Box::new(shown))),
        Ask::ConfigureRoom { room, fields } => {
            bounded(fields.len(), ROOM_FIELDS_MAX, "fields")?;
            control.configure_room(&room, &fields).map(|()| Done::Ok {})
        }
        Ask::DestroyRoom { room, reason, alternate } => {
            bounded(reason.as_ref().map_or(0, String::len), REASON_BYTES_MAX, "bytes of reason")?;
            control.destroy_room(&room, reason.as_deref(), alternate.as_deref()).map(|()| Done::Ok {})
        }
        Ask::CloseRoom { room, seconds } => {
            if seconds > ROOM_CLOSED_S_MAX {
                return Err(Fault::new(FaultKind::Invalid, "a room can be closed for at most 7 days"));
            }
            control.close_room(&room, seconds).map(|()| Done::Ok {})
        }
        Ask::Dismiss { ids } => {
            bounded(ids.len(), REPORTS_DISMISSED_MAX, "reports")?;
            control.dismiss(&ids).map(Done::Count)
        }
        Ask::Suspend { user, suspended } => control.suspend(&user, suspended).map(Done::Count),
        Ask::Show { user } => control.show(&user).map(|shown| Done::Shown(Box::new(shown))),
        Ask::Decide { user, approve } => control.decide(&user, approve).map(|()| Done::Ok {}),
    }
}
