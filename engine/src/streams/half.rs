//! Stream halves. A session has two halves of one name. The *stream half* is here: its connection or none, what the client has been
//! sent and has not acknowledged, what it has sent that is not in safe hands, and whether it is read from. The *user half*, in
//! `session/table.rs`, has its user, resource, presence and place in the log.
//!
//! They know each other by closed letters only: [`Down`] is what a user half tells its stream half; what comes back are stanzas, the
//! numbers of messages that have arrived, endings, and [`Up`]. Here they are neighbours, and a letter is a call; nothing in one is a reference to the other.

use crate::id::{ConnId, SessionId};
use crate::session::conn::{NONE, Opening};
use crate::session::sm::{HandledTooHigh, Managed, Rows, Unacked};
use crate::session::table::Privacy;
use crate::slots::Slots;
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::streams::ending::Due;
use crate::streams::opening::is_private;
use crate::wire::error::StreamCondition;

/// The stream half of a session.
#[derive(Debug)]
pub(crate) struct Half {
    generation: u32,
    /// The connection, [`NOWHERE`], or [`FREE`].
    conn: ConnId,
    /// Stream management (XEP-0198).
    pub(crate) managed: Option<Box<Managed>>,
    /// Second (monotonic) since which it has its connection, or since which it has none.
    pub(crate) since_s: u32,
    /// When the work that it has set off is paid off, milliseconds of the monotonic clock, of which the lower bits stand here.
    pub(crate) pays_until_ms: u32,
    /// Stanzas under way to other homes.
    pub(crate) in_flight: u16,
    /// Bytes of stanzas sent to other homes since all of them were last known to be durable, in pieces of
    /// [`UNSETTLED_PIECE`], rounded up.
    unsettled: u16,
}

const _: () = assert!(size_of::<Half>() <= 32, "an idle session costs this much, beside its user half");

/// No connection.
const NOWHERE: ConnId = ConnId { slot: NONE, generation: 0 };

/// No session.
const FREE: ConnId = ConnId { slot: NONE - 1, generation: 0 };

/// Unit in which a session's bytes that are not yet durable are counted: it has two bytes for them.
const UNSETTLED_PIECE: usize = 64;

/// Bytes that a session may have under way at the most: what the count can tell.
const UNSETTLED_BYTES_MAX: usize = u16::MAX as usize * UNSETTLED_PIECE;

impl Half {
    /// The connection, or none while it waits to be resumed.
    pub(crate) fn conn(&self) -> Option<ConnId> {
        (self.conn != NOWHERE).then_some(self.conn)
    }

    /// A stanza of so many bytes goes to another home.
    pub(crate) fn unsettle(&mut self, bytes: usize) {
        let pieces = u16::try_from(bytes.div_ceil(UNSETTLED_PIECE)).unwrap_or(u16::MAX);
        self.unsettled = self.unsettled.saturating_add(pieces);
    }

    /// Whether it has sent `bytes_max`, at most [`UNSETTLED_BYTES_MAX`], or more since all was durable.
    pub(crate) fn is_unsettled(&self, bytes_max: usize) -> bool {
        usize::from(self.unsettled) * UNSETTLED_PIECE >= bytes_max.min(UNSETTLED_BYTES_MAX)
    }

    /// All that it has sent is durable, or will be before it is read from again.
    pub(crate) fn settle(&mut self) {
        self.unsettled = 0;
    }
}

/// The stream halves of a shard, in the places of their user halves.
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

    /// A session begins that has waited since before this process began.
    pub(crate) fn open_dormant(&mut self, id: SessionId, managed: Managed, now_ms: u64) {
        self.open(id, NOWHERE, now_ms);
        self.attached -= 1;
        self.dormant += 1;
        if let Some(half) = self.get_mut(id) {
            half.managed = Some(Box::new(managed));
        }
    }

    /// One of these is dormant no more.
    pub(crate) fn woke(&mut self) {
        self.dormant -= 1;
    }

    /// Sessions that have waited since before this process began.
    pub(crate) fn dormant(&self) -> usize {
        self.dormant
    }

    /// The half of a session that is there in this generation.
    #[inline]
    pub(crate) fn get(&self, id: SessionId) -> Option<&Half> {
        self.slots.get(id.slot as usize).filter(|half| half.generation == id.generation && half.conn != FREE)
    }

    /// The half of a session that is there in this generation.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Half> {
        self.slots.get_mut(id.slot as usize).filter(|half| half.generation == id.generation && half.conn != FREE)
    }

    /// Stream management of a session, if it is there and counted.
    pub(crate) fn managed(&self, id: SessionId) -> Option<&Managed> {
        self.get(id)?.managed.as_deref()
    }

    /// Stream management of a session, if it is there and counted.
    #[inline]
    pub(crate) fn managed_mut(&mut self, id: SessionId) -> Option<&mut Managed> {
        self.get_mut(id)?.managed.as_deref_mut()
    }

    /// Its connection, if it is there and has one.
    #[inline]
    pub(crate) fn conn(&self, id: SessionId) -> Option<ConnId> {
        self.get(id)?.conn()
    }

    /// Changes the connection of a session and returns the one before.
    pub(crate) fn set_conn(&mut self, id: SessionId, conn: Option<ConnId>) -> Option<ConnId> {
        let half = self.get_mut(id)?;
        let before = half.conn();
        half.conn = conn.unwrap_or(NOWHERE);
        self.attached = self.attached + usize::from(conn.is_some()) - usize::from(before.is_some());
        before
    }

    /// The session has ended: what it was is taken out.
    fn close(&mut self, id: SessionId) -> Option<Box<Managed>> {
        self.set_conn(id, None);
        let half = self.get_mut(id)?;
        let managed = half.managed.take();
        half.conn = FREE;
        self.held -= 1;
        self.dormant -= usize::from(managed.as_ref().is_some_and(|managed| managed.is_dormant()));
        managed
    }

    /// Sessions without a connection.
    pub(crate) fn detached(&self) -> usize {
        self.held - self.attached
    }

    /// Memory of the table, by its room, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
    }
}

/// What a user half tells its stream half.
#[derive(Debug)]
pub(crate) enum Down<'a> {
    /// A stanza for the client, counted for stream management.
    Stanza(&'a [u8]),
    /// A message. Its number is what the user's log knows it by, or 0; when it is received, the number is told upwards.
    Message(u64, &'a [u8]),
    /// The stanza with this number in the client's count is in safe hands (XEP-0198 4).
    Safe(u32),
    /// A stanza of so many bytes is on its way to another home. With too many the connection is not read from.
    UnderWay(usize),
    /// One that was under way has arrived.
    Arrived,
    /// A stanza has led to writes of so many bytes at this home.
    Wrote(usize),
    /// The client has set off so much work.
    Charge(u64),
    /// It was charged for so much more than it has set off.
    GiveBack(u64),
    /// The session is to end with this error.
    End(Ended, StreamCondition, &'a str),
    /// Its stream is to end with this error, if it has one. The session goes with it.
    Fail(StreamCondition, &'a str),
    /// The session is to end because its account is removed.
    Removed,
}

/// What a session takes from the stream that is now its own.
#[derive(Debug)]
pub(crate) struct Takes {
    /// Who else can read what it says.
    pub(crate) privacy: Privacy,
    /// The stream's language, where it is not the server's own.
    pub(crate) lang: Option<Box<str>>,
}

impl Takes {
    /// Takes it.
    pub(crate) fn of(opening: &mut Opening) -> Takes {
        let privacy = match opening.secured {
            true => Privacy::Encrypted,
            false if is_private(opening) => Privacy::Trusted,
            false => Privacy::Open,
        };
        Takes { privacy, lang: opening.take_lang() }
    }
}

/// What streams tell upwards, beside stanzas and what has arrived: data that the shard takes out when the input is handled.
#[derive(Debug)]
pub(crate) enum Up {
    /// The connection may go on with what it has sent already.
    GoesOn(ConnId),
    /// What came with the connection's authentication may go on.
    Inline(ConnId),
    /// A session that has waited for room in what it leaves unread and unacknowledged has some.
    Lighter(SessionId),
    /// The session has another connection (XEP-0198 5).
    Resumed {
        /// The session.
        session: SessionId,
        /// What it takes from the stream.
        takes: Takes,
        /// Stanzas that were sent again.
        again: u32,
    },
}

impl Streams {
    /// A letter of a user half to its stream half. To one that has gone nothing can be told. Inlined, so that the letter is a call.
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

    /// Ends the stream that a session has, or the session if it has none.
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

    /// A stanza has come from a session that is heard: its number in the client's count, 0 without one, and how many are under way.
    pub(crate) fn came(&mut self, id: SessionId) -> (u32, u16) {
        let last_number = self.kernel.last_number;
        let half = self.halves.get_mut(id).expect("a session that is heard is there");
        (half.managed.as_mut().map_or(0, |managed| managed.receive(last_number)), half.in_flight)
    }

    /// Sends a stanza ahead of what waits for the session's connection; how many counted ones it has overtaken. `None` without a
    /// connection.
    pub(crate) fn write_urgent(&mut self, id: SessionId, xml: &[u8]) -> Option<usize> {
        let conn = self.halves.conn(id)?;
        let overtaken = self.send_first(conn, xml);
        if let Some(managed) = self.halves.managed_mut(id) {
            managed.send_ahead(xml, 0, overtaken);
            self.unacked_bytes += xml.len();
            // What it has overtaken has another place in the count than entries say.
            self.rows_due(id, Rows::Counts);
        }
        Some(overtaken)
    }

    /// The client acknowledges up to `h` (XEP-0198 4): what that takes off the queue has arrived.
    ///
    /// # Errors
    /// [`HandledTooHigh`] if more is acknowledged than was sent.
    pub(crate) fn acknowledged(&mut self, id: SessionId, h: u32) -> Result<Vec<Unacked>, HandledTooHigh> {
        let Some(managed) = self.halves.managed_mut(id) else { return Ok(Vec::new()) };
        let acked = managed.acknowledge(h)?;
        self.unacked_bytes -= acked.iter().map(|unacked| unacked.xml.len()).sum::<usize>();
        Ok(acked)
    }

    /// The session has ended: what it was sent and has not acknowledged, and the connection that waits to resume it.
    pub(crate) fn close_half(&mut self, id: SessionId) -> (Vec<Unacked>, Option<ConnId>) {
        self.awaiting_room.remove(&id);
        let Some(mut managed) = self.halves.close(id) else { return Default::default() };
        self.unacked_bytes -= managed.unacked_bytes();
        (managed.take_unacked().into(), managed.waiting.take())
    }

    /// The session has no connection any more; the one that it had. Whether it may wait to be resumed says [`Streams::may_wait`].
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

    /// A session begins on a connection.
    pub(crate) fn attach(&mut self, id: SessionId, conn: ConnId) {
        let now_ms = self.kernel.now.mono_ms;
        self.halves.open(id, conn, now_ms);
    }
}
