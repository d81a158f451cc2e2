//! The end of streams. That one is to end is *recorded* here, wherever that becomes clear; the shard carries it out when the
//! input that led to it has been handled. So whoever sends something never finds that a connection has gone meanwhile.

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
    /// The stream has ended without an error. The session ends, too; what is under way to the peer is not lost, unless the
    /// connection is gone before it is sent.
    Agreed,
    /// With last words that the peer may read. The session ends.
    Broken,
    /// With last words for a peer that may not be there. The session may be resumed.
    Unheard,
    /// At once. The session may be resumed.
    Cut,
}

/// The end of a connection.
#[derive(Debug)]
pub(crate) struct ConnEnding {
    pub(crate) conn: ConnId,
    pub(crate) ending: Ending,
    pub(crate) why: Ended,
    /// A stream error.
    pub(crate) error: Vec<u8>,
    /// It is told only when all is durable that the turn rests on.
    pub(crate) durable: bool,
}

#[derive(Debug)]
pub(crate) enum Due {
    Conn(ConnEnding),
    /// A session without a connection.
    Session(SessionId),
    /// An account whose sessions have been named before.
    Account(u32),
}

/// What is to end.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// In the order in which it was decided; bounded by what there is: each connection, session and account ends once.
    pub(crate) due: VecDeque<Due>,
}

impl Endings {
    /// Whether nothing is to end.
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

impl Streams {
    /// The stream is to end without an error, and the connection to close once all is sent: also when the peer has ended its
    /// own (RFC 6120 4.4).
    pub(crate) fn end_stream(&mut self, id: ConnId, why: Ended) {
        self.record(ConnEnding { conn: id, ending: Ending::Agreed, why, error: Vec::new(), durable: true });
    }

    /// The stream is to end with an error (RFC 6120 4.9), for the reason that its condition stands for.
    /// It may be told before the writes of its turn are durable: that it ends is no promise.
    pub(crate) fn fail_stream(&mut self, id: ConnId, condition: StreamCondition, text: Option<&str>) {
        self.fail_stream_with(id, Ended::of(condition), condition, text, None);
    }

    /// The same for a reason of its own, or with an application's condition (RFC 6120 4.9.4).
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

    /// The stream is to end because the user's account is removed, which is told only when it is durable.
    pub(crate) fn fail_removed(&mut self, id: ConnId) {
        let text = Some("the account was removed");
        self.record_error(id, Ended::Operator, StreamCondition::NotAuthorized, text, None, true);
    }

    /// A departing connection has nowhere to go: the host is full (RFC 6120 4.9.3.17).
    pub(crate) fn has_no_home(&mut self, id: ConnId) {
        let condition = StreamCondition::ResourceConstraint;
        self.record_error(id, Ended::Server, condition, Some("no room for this session"), None, true);
    }

    /// The peer is not there: the stream is to end with an error, the session may be resumed.
    pub(crate) fn drop_connection(&mut self, id: ConnId) {
        let mut error = Vec::new();
        crate::wire::error::write_stream_error(&mut error, StreamCondition::ConnectionTimeout, None, None);
        self.record(ConnEnding { conn: id, ending: Ending::Unheard, why: Ended::Timeout, error, durable: true });
    }

    /// The connection is to be cut with all that waits for it. The session may be resumed.
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

    /// The first reason for which a connection is to end is the one.
    pub(crate) fn record(&mut self, ending: ConnEnding) {
        let Some(conn) = self.conns.get(ending.conn) else { return };
        if conn.ending || matches!(conn.state(), ConnState::Closing { .. }) {
            return;
        }
        conn.ending = true;
        self.endings.due.push_back(Due::Conn(ending));
    }

    /// The driver says why the connection ends, before it does.
    pub(crate) fn lost(&mut self, id: ConnId, how: Lost) {
        if let Some(conn) = self.conns.get(id) {
            conn.lost.get_or_insert(how);
        }
    }

    /// A stream has ended.
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

    /// Ends a stream for whose session it cannot be known whether its account is there.
    pub(crate) fn fail_unreadable(&mut self, conn: ConnId) {
        let text = "this account cannot be read, the server's operator has to mend the store";
        self.fail_stream(conn, StreamCondition::InternalServerError, Some(text));
    }
}
