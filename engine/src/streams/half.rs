//! Stream halves. A session has two halves that share one id. The *stream half* is defined here:
//! its connection, if any; the stanzas sent to the client and not acknowledged; the client's
//! stanzas that are not yet safe; and whether the connection is read from. The *user half*, in
//! `session/table.rs`, has the user, resource, presence and position in the log.
//!
//! The halves communicate by closed sets of letters. A user half sends [`Down`] to its stream half.
//! In return it receives stanzas, the numbers of messages that have arrived, endings, and [`Up`].
//! Both are on the same shard at present, so a letter is a call; neither half holds a reference to
//! the other.

use crate::id::{ConnId, Now, SessionId};
use crate::session::conn::{NONE, Opening};
use crate::session::half::StreamHalf;
use crate::session::sm::{HandledTooHigh, Managed, Rows, Unacked};
use crate::session::table::Privacy;
use crate::slots::Slots;
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::streams::ending::Due;
use crate::streams::opening::is_private;
use crate::wire::error::StreamCondition;

#[derive(Debug)]
pub(crate) struct Half {
    generation: u32,
    /// The connection, [`NOWHERE`], or [`FREE`].
    conn: ConnId,
    /// Stream management (XEP-0198).
    pub(crate) managed: Option<Box<Managed>>,
    /// Second (monotonic) at which it got its connection, or lost it.
    pub(crate) since_s: u32,
    /// When the session's work is paid off: the lower bits of the monotonic clock, milliseconds.
    pub(crate) pays_until_ms: u32,
    /// Stanzas in flight to other homes.
    pub(crate) in_flight: u16,
    /// Bytes of stanzas sent to other homes since all of them were last known to be durable, in
    /// units of [`UNSETTLED_PIECE`], rounded up.
    unsettled: u16,
}

const _: () = assert!(size_of::<Half>() <= 32, "an idle session costs this much, beside its user half");

/// Marks a half without a connection.
const NOWHERE: ConnId = ConnId { slot: NONE, generation: 0 };

/// Marks a free slot.
const FREE: ConnId = ConnId { slot: NONE - 1, generation: 0 };

/// Unit in which a session's bytes that are not yet durable are counted. The count has two bytes.
const UNSETTLED_PIECE: usize = 64;

/// Bytes that a session may have in flight at most: the maximum of the count.
const UNSETTLED_BYTES_MAX: usize = u16::MAX as usize * UNSETTLED_PIECE;

impl Half {
    /// Returns the connection, or `None` while the session waits to be resumed.
    pub(crate) fn conn(&self) -> Option<ConnId> {
        (self.conn != NOWHERE).then_some(self.conn)
    }

    /// Counts a stanza of `bytes` bytes that goes to another home.
    pub(crate) fn unsettle(&mut self, bytes: usize) {
        let pieces = u16::try_from(bytes.div_ceil(UNSETTLED_PIECE)).unwrap_or(u16::MAX);
        self.unsettled = self.unsettled.saturating_add(pieces);
    }

    /// Whether the session has sent at least `bytes_max`, at most [`UNSETTLED_BYTES_MAX`], since
    /// all was durable.
    pub(crate) fn is_unsettled(&self, bytes_max: usize) -> bool {
        usize::from(self.unsettled) * UNSETTLED_PIECE >= bytes_max.min(UNSETTLED_BYTES_MAX)
    }

    /// What of it is written for another process at this time.
    fn written(&self, now: Now) -> StreamHalf {
        let owed_ms = self.pays_until_ms.wrapping_sub(now.mono_ms as u32).cast_signed().max(0);
        StreamHalf {
            managed: self.managed.as_deref().cloned(),
            since_s: self.since_s,
            owed_ms: owed_ms.cast_unsigned(),
            in_flight: self.in_flight,
            unsettled_bytes: u32::from(self.unsettled) * UNSETTLED_PIECE as u32,
        }
    }

    /// All that the session has sent is durable, or will be before it is read from again.
    pub(crate) fn settle(&mut self) {
        self.unsettled = 0;
    }
}

/// The stream halves of a shard, in the same slots as their user halves.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    slots: Slots<Half>,
    held: usize,
    attached: usize,
    dormant: usize,
}

impl Halves {
    /// A session begins on a connection.
    pub(crate) fn open(&mut self, id: SessionId, conn: ConnId, now_ms: u64) {
        let (now_s, now_ms) = ((now_ms / 1_000) as u32, now_ms as u32);
        let half = Half {
            generation: id.generation,
            conn,
            managed: None,
            since_s: now_s,
            pays_until_ms: now_ms,
            in_flight: 0,
            unsettled: 0,
        };
        match self.slots.get_mut(id.slot as usize) {
            Some(free) => *free = half,
            None => {
                let slot = self.slots.push(half);
                debug_assert_eq!(slot, id.slot as usize, "both halves of a session have one place");
            }
        }
        (self.held, self.attached) = (self.held + 1, self.attached + 1);
    }

    /// Opens a session that has been waiting since before this process began.
    pub(crate) fn open_dormant(&mut self, id: SessionId, managed: Managed, now_ms: u64) {
        self.open(id, NOWHERE, now_ms);
        self.attached -= 1;
        self.dormant += 1;
        if let Some(half) = self.get_mut(id) {
            half.managed = Some(Box::new(managed));
        }
    }

    /// A dormant session is no longer dormant.
    pub(crate) fn woke(&mut self) {
        self.dormant -= 1;
    }

    /// Number of sessions that have been waiting since before this process began.
    pub(crate) fn dormant(&self) -> usize {
        self.dormant
    }

    /// Returns the half of a session if its generation is current.
    #[inline]
    pub(crate) fn get(&self, id: SessionId) -> Option<&Half> {
        self.slots.get(id.slot as usize).filter(|half| half.generation == id.generation && half.conn != FREE)
    }

    /// Returns the half of a session if its generation is current.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Half> {
        self.slots.get_mut(id.slot as usize).filter(|half| half.generation == id.generation && half.conn != FREE)
    }

    /// Returns the stream management of a session, if the session exists and has it.
    pub(crate) fn managed(&self, id: SessionId) -> Option<&Managed> {
        self.get(id)?.managed.as_deref()
    }

    /// Returns the stream management of a session, if the session exists and has it.
    #[inline]
    pub(crate) fn managed_mut(&mut self, id: SessionId) -> Option<&mut Managed> {
        self.get_mut(id)?.managed.as_deref_mut()
    }

    /// Returns the connection of a session, if it exists and has one.
    #[inline]
    pub(crate) fn conn(&self, id: SessionId) -> Option<ConnId> {
        self.get(id)?.conn()
    }

    /// Changes the connection of a session and returns the previous one.
    pub(crate) fn set_conn(&mut self, id: SessionId, conn: Option<ConnId>) -> Option<ConnId> {
        let half = self.get_mut(id)?;
        let before = half.conn();
        half.conn = conn.unwrap_or(NOWHERE);
        self.attached = self.attached + usize::from(conn.is_some()) - usize::from(before.is_some());
        before
    }

    /// Removes the half of a session that has ended.
    fn close(&mut self, id: SessionId) -> Option<Box<Managed>> {
        self.set_conn(id, None);
        let half = self.get_mut(id)?;
        let managed = half.managed.take();
        half.conn = FREE;
        self.held -= 1;
        self.dormant -= usize::from(managed.as_ref().is_some_and(|managed| managed.is_dormant()));
        managed
    }

    /// Number of sessions without a connection.
    pub(crate) fn detached(&self) -> usize {
        self.held - self.attached
    }

    /// Memory of the table by its capacity, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
    }
}

/// A letter from a user half to its stream half.
#[derive(Debug)]
pub(crate) enum Down<'a> {
    /// A stanza for the client, counted for stream management.
    Stanza(&'a [u8]),
    /// A message. Its number is its entry in the user's log, or 0. When the client has received it,
    /// the number is reported upwards.
    Message(u64, &'a [u8]),
    /// The stanza with this inbound number is safe (XEP-0198 4).
    Safe(u32),
    /// A stanza of this many bytes is in flight to another home. With too many in flight the
    /// connection is not read from.
    UnderWay(usize),
    /// A stanza that was in flight has arrived.
    Arrived,
    /// A stanza has led to writes of this many bytes at this home.
    Wrote(usize),
    /// The client has caused this much work.
    Charge(u64),
    /// The client was charged for this much more than it caused.
    GiveBack(u64),
    /// Ends the session with this error.
    End(Ended, StreamCondition, &'a str),
    /// Ends the session's stream with this error, if it has one. The session ends with it.
    Fail(StreamCondition, &'a str),
    /// Ends the session because its account is removed.
    Removed,
}

/// Properties that a session takes over from its stream.
#[derive(Debug)]
pub(crate) struct Takes {
    /// Which third parties can read the stream.
    pub(crate) privacy: Privacy,
    /// The stream's language, if it differs from the server's.
    pub(crate) lang: Option<Box<str>>,
}

impl Takes {
    pub(crate) fn of(opening: &mut Opening) -> Takes {
        let privacy = match opening.secured {
            true => Privacy::Encrypted,
            false if is_private(opening) => Privacy::Trusted,
            false => Privacy::Open,
        };
        Takes { privacy, lang: opening.take_lang() }
    }
}

/// Letters from streams upwards, besides stanzas and receipts. The shard takes them out when the
/// input is handled.
#[derive(Debug)]
pub(crate) enum Up {
    /// The connection may continue with input that it has already received.
    GoesOn(ConnId),
    /// Requests inlined into the connection's authentication may proceed.
    Inline(ConnId),
    /// A session that waited for room in its unread and unacknowledged output has room now.
    Lighter(SessionId),
    /// The session has a new connection (XEP-0198 5).
    Resumed {
        session: SessionId,
        /// Properties taken over from the new stream.
        takes: Takes,
        /// Number of stanzas that were sent again.
        again: u32,
    },
}

impl Streams {
    /// Delivers a letter from a user half to its stream half. It is dropped if the session has
    /// ended. Inlined, so that the letter costs no more than a call.
    #[inline(always)]
    pub(crate) fn tell(&mut self, id: SessionId, letter: Down<'_>) {
        match letter {
            Down::Stanza(xml) => self.write_stanza(id, None, xml),
            Down::Message(mark, xml) => self.write_stanza(id, Some(mark), xml),
            Down::Safe(seq) => self.safe(id, seq),
            Down::UnderWay(bytes) => self.under_way(id, bytes),
            Down::Arrived => self.confirmed_elsewhere(id),
            Down::Wrote(bytes) => self.wrote(id, bytes),
            Down::Charge(work) => self.charged(id, work),
            Down::GiveBack(work) => self.given_back(id, work),
            Down::End(why, condition, text) => {
                self.end(id, |streams, conn| streams.fail_stream_with(conn, why, condition, Some(text), None));
            }
            Down::Fail(condition, text) => {
                if let Some(conn) = self.halves.conn(id) {
                    self.fail_stream(conn, condition, Some(text));
                }
            }
            Down::Removed => self.end(id, Streams::fail_removed),
        }
    }

    /// Ends the stream of a session, or the session if it has no stream.
    fn end(&mut self, id: SessionId, stream: impl FnOnce(&mut Streams, ConnId)) {
        match self.halves.get(id).map(Half::conn) {
            Some(Some(conn)) => stream(self, conn),
            Some(None) => self.endings.due.push_back(Due::Session(id)),
            None => {}
        }
    }

    #[inline]
    fn write_stanza(&mut self, id: SessionId, mark: Option<u64>, xml: &[u8]) {
        let Some(half) = self.halves.get_mut(id) else { return };
        let conn = half.conn();
        match (&mut half.managed, conn, mark) {
            (Some(managed), conn, mark) => {
                managed.send(xml, mark.unwrap_or(0));
                self.unacked_bytes += xml.len();
                if let Some(conn) = conn {
                    self.send_bytes(conn, xml);
                    self.count_stanza(conn);
                }
            }
            (None, Some(conn), Some(mark)) => self.send_message(conn, mark, xml),
            (None, Some(conn), None) => self.send_bytes(conn, xml),
            (None, None, _) => {}
        }
    }

    /// A stanza has arrived from a session. Returns its inbound number, 0 without stream
    /// management, and the number of stanzas in flight.
    pub(crate) fn came(&mut self, id: SessionId) -> (u32, u16) {
        let last_number = self.kernel.last_number;
        let half = self.halves.get_mut(id).expect("a session that is heard is there");
        (half.managed.as_mut().map_or(0, |managed| managed.receive(last_number)), half.in_flight)
    }

    /// Sends a stanza ahead of the output pending for the session's connection. Returns how many
    /// counted stanzas it overtakes; `None` without a connection.
    pub(crate) fn write_urgent(&mut self, id: SessionId, xml: &[u8]) -> Option<usize> {
        let conn = self.halves.conn(id)?;
        let overtaken = self.send_first(conn, xml);
        if let Some(managed) = self.halves.managed_mut(id) {
            managed.send_ahead(xml, 0, overtaken);
            self.unacked_bytes += xml.len();
            // The overtaken stanzas no longer have the counts that their log entries record.
            self.rows_due(id, Rows::Counts);
        }
        Some(overtaken)
    }

    /// The client acknowledges up to `h` (XEP-0198 4). The stanzas that this removes from the queue
    /// have arrived.
    ///
    /// # Errors
    /// [`HandledTooHigh`] if more is acknowledged than was sent.
    pub(crate) fn acknowledged(&mut self, id: SessionId, h: u32) -> Result<Vec<Unacked>, HandledTooHigh> {
        let Some(managed) = self.halves.managed_mut(id) else { return Ok(Vec::new()) };
        let acked = managed.acknowledge(h)?;
        self.unacked_bytes -= acked.iter().map(|unacked| unacked.xml.len()).sum::<usize>();
        Ok(acked)
    }

    /// The session has ended. Returns its unacknowledged stanzas, and the connection that waits to
    /// resume it.
    pub(crate) fn close_half(&mut self, id: SessionId) -> (Vec<Unacked>, Option<ConnId>) {
        self.awaiting_room.remove(&id);
        let Some(mut managed) = self.halves.close(id) else { return Default::default() };
        self.unacked_bytes -= managed.unacked_bytes();
        (managed.take_unacked().into(), managed.waiting.take())
    }

    /// Detaches the session from its connection and returns that connection. [`Streams::may_wait`]
    /// decides whether the session may wait to be resumed.
    pub(crate) fn take_conn(&mut self, id: SessionId) -> Option<ConnId> {
        let (now_s, before) = (self.kernel.now.mono_s(), self.halves.set_conn(id, None));
        if let Some(half) = self.halves.get_mut(id) {
            half.since_s = now_s;
        }
        before
    }

    /// Whether a session without a connection may wait to be resumed.
    pub(crate) fn may_wait(&self, id: SessionId) -> bool {
        self.halves.managed(id).is_some_and(|managed| managed.resume_s > 0)
    }

    /// The stream half of a session as it is written for another process at this time.
    pub(crate) fn stream_half(&self, id: SessionId, now: Now) -> Option<StreamHalf> {
        self.halves.get(id).map(|half| half.written(now))
    }

    /// Attaches a new session to a connection.
    pub(crate) fn attach(&mut self, id: SessionId, conn: ConnId) {
        let now_ms = self.kernel.now.mono_ms;
        self.halves.open(id, conn, now_ms);
    }
}
