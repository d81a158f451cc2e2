//! The end of streams. An end is *recorded* here, wherever it is decided. The shard carries it out
//! when the input that led to it has been handled. A connection therefore never disappears while
//! that input is being handled.

use std::collections::VecDeque;

use crate::id::{ConnId, SessionId};
use crate::io::Lost;
use crate::session::conn::ConnState;
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::wire::error::{AppCondition, StreamCondition};

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The stream has ended without an error, and the session ends as well. Data in flight to the
    /// peer is not lost unless the connection is lost first.
    Agreed,
    /// The peer receives a last error. The session ends.
    Broken,
    /// A last error is sent to a peer that may be unreachable. The session may be resumed.
    Unheard,
    /// The connection closes at once. The session may be resumed.
    Cut,
}

#[derive(Debug)]
pub(crate) struct ConnEnding {
    pub(crate) conn: ConnId,
    pub(crate) ending: Ending,
    pub(crate) why: Ended,
    /// A stream error.
    pub(crate) error: Vec<u8>,
    /// Whether the error is sent only when all writes of the turn are durable.
    pub(crate) durable: bool,
}

#[derive(Debug)]
pub(crate) enum Due {
    Conn(ConnEnding),
    Session(SessionId),
    /// An account whose sessions were named before.
    Account(u32),
}

/// What is to end.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// In the order of decision. Bounded because each connection, session and account ends once.
    pub(crate) due: VecDeque<Due>,
}

impl Endings {
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

impl Streams {
    /// Ends the stream without an error, and closes the connection once all output is sent. Also
    /// used when the peer has closed its own stream (RFC 6120 4.4).
    pub(crate) fn end_stream(&mut self, id: ConnId, why: Ended) {
        self.record(ConnEnding { conn: id, ending: Ending::Agreed, why, error: Vec::new(), durable: true });
    }

    /// Ends the stream with an error (RFC 6120 4.9), counted under the reason of its condition. The
    /// error may be sent before the writes of its turn are durable, because it confirms none of
    /// them.
    pub(crate) fn fail_stream(&mut self, id: ConnId, condition: StreamCondition, text: Option<&str>) {
        self.fail_stream_with(id, Ended::of(condition), condition, text, None);
    }

    /// Ends the stream with an error, with a given reason or an application-specific condition (RFC
    /// 6120 4.9.4).
    pub(crate) fn fail_stream_with(
        &mut self,
        id: ConnId,
        why: Ended,
        condition: StreamCondition,
        text: Option<&str>,
        app: Option<AppCondition<'_>>,
    ) {
        let departing = self.conns.get(id).is_some_and(|c| matches!(c.state(), ConnState::Departing));
        if !departing {
            self.record_error(id, why, condition, text, app, false);
        }
    }

    /// Ends the stream because the user's account was removed. The error is sent only when the
    /// removal is durable.
    pub(crate) fn fail_removed(&mut self, id: ConnId) {
        let text = Some("the account was removed");
        self.record_error(id, Ended::Operator, StreamCondition::NotAuthorized, text, None, true);
    }

    /// A departing connection has no home: the host is full (RFC 6120 4.9.3.17).
    pub(crate) fn has_no_home(&mut self, id: ConnId) {
        let condition = StreamCondition::ResourceConstraint;
        self.record_error(id, Ended::Server, condition, Some("no room for this session"), None, true);
    }

    /// The peer is unreachable: ends the stream with an error. The session may be resumed.
    pub(crate) fn drop_connection(&mut self, id: ConnId) {
        let mut error = Vec::new();
        crate::wire::error::write_stream_error(&mut error, StreamCondition::ConnectionTimeout, None, None);
        self.record(ConnEnding { conn: id, ending: Ending::Unheard, why: Ended::Timeout, error, durable: true });
    }

    /// Closes the connection and drops its pending output. The session may be resumed.
    pub(crate) fn cut(&mut self, id: ConnId, why: Ended) {
        self.record(ConnEnding { conn: id, ending: Ending::Cut, why, error: Vec::new(), durable: true });
    }

    fn record_error(
        &mut self,
        id: ConnId,
        why: Ended,
        condition: StreamCondition,
        text: Option<&str>,
        app: Option<AppCondition<'_>>,
        durable: bool,
    ) {
        let mut error = Vec::with_capacity(256);
        crate::wire::error::write_stream_error(&mut error, condition, text, app);
        self.record(ConnEnding { conn: id, ending: Ending::Broken, why, error, durable });
    }

    /// Records an ending. The first reason recorded for a connection counts.
    pub(crate) fn record(&mut self, ending: ConnEnding) {
        let Some(conn) = self.conns.get(ending.conn) else { return };
        if conn.ending || matches!(conn.state(), ConnState::Closing { .. }) {
            return;
        }
        conn.ending = true;
        self.endings.due.push_back(Due::Conn(ending));
    }

    /// The driver reports why a connection ends, before it ends.
    pub(crate) fn lost(&mut self, id: ConnId, how: Lost) {
        if let Some(conn) = self.conns.get(id) {
            conn.lost.get_or_insert(how);
        }
    }

    pub(crate) fn count_ended(&self, why: Ended) {
        let c = &self.kernel.counters;
        c.streams_closed.one();
        match why {
            Ended::Client => &c.closed_by_client,
            Ended::Lost => &c.closed_lost,
            Ended::Tls => &c.closed_tls,
            Ended::Protocol => &c.closed_protocol,
            Ended::Refused => &c.closed_refused,
            Ended::Unread => &c.closed_unread,
            Ended::Timeout => &c.closed_timeout,
            Ended::Replaced => &c.closed_replaced,
            Ended::Operator => &c.closed_operator,
            Ended::Shutdown => &c.closed_shutdown,
            Ended::Server => &c.closed_server,
        }
        .one();
    }

    /// The peer acknowledged more than was sent (XEP-0198 4).
    pub(crate) fn handled_too_high(&mut self, conn: ConnId, fault: crate::session::sm::HandledTooHigh) {
        let app = AppCondition::HandledCountTooHigh { h: fault.h, send_count: fault.sent };
        self.fail_stream_with(conn, Ended::Protocol, StreamCondition::UndefinedCondition, None, Some(app));
    }

    /// Ends a stream whose account could not be read from the store.
    pub(crate) fn fail_unreadable(&mut self, conn: ConnId) {
        let text = "this account cannot be read; the server's operator has to repair the store";
        self.fail_stream(conn, StreamCondition::InternalServerError, Some(text));
    }
}
