//! The end of streams and sessions. That one is to end is *recorded*, wherever that becomes clear; it is carried out at one
//! point, when the input that led to it has been handled (`carry_out_endings`). So whoever sends something never
//! finds that a session, this one or another, has gone meanwhile.

use std::collections::VecDeque;

use crate::id::mark;
use crate::id::{ConnId, SessionId};
use crate::io::{Effect, Lost};
use crate::outbound::Unsent;
use crate::session::conn::{ConnState, NONE, Pause, Stage};
use crate::shard::Shard;
use crate::shard::ended::Ended;
use crate::shard::login::SERVER_LANG;
use crate::wire::error::{AppCondition, StreamCondition};
use crate::wire::stream;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
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
struct ConnEnding {
    conn: ConnId,
    ending: Ending,
    why: Ended,
    /// A stream error.
    error: Vec<u8>,
    /// It is told only when all is durable that the turn rests on.
    durable: bool,
}

#[derive(Debug)]
enum Due {
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
    due: VecDeque<Due>,
}

impl Shard {
    // What is recorded.

    /// The stream is to end without an error, and the connection to close once all is sent: also when the peer has ended its
    /// own (RFC 6120 4.4).
    pub(super) fn end_stream(&mut self, id: ConnId, why: Ended) {
        self.record(ConnEnding { conn: id, ending: Ending::Agreed, why, error: Vec::new(), durable: true });
    }

    /// The stream is to end with an error (RFC 6120 4.9), for the reason that its condition stands for.
    /// It may be told before the writes of its turn are durable: that it ends is no promise.
    pub(super) fn fail_stream(&mut self, id: ConnId, condition: StreamCondition, text: Option<&str>) {
        self.fail_stream_with(id, Ended::of(condition), condition, text, None);
    }

    /// The same for a reason of its own, or with an application's condition (RFC 6120 4.9.4).
    pub(super) fn fail_stream_with(
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
    pub(super) fn fail_removed(&mut self, id: ConnId) {
        let text = Some("the account was removed");
        self.record_error(id, Ended::Operator, StreamCondition::NotAuthorized, text, None, true);
    }

    /// A departing connection has nowhere to go: the host is full (RFC 6120 4.9.3.17).
    pub(super) fn stayed(&mut self, id: ConnId) {
        if matches!(self.conns.get(id), Some(conn) if matches!(conn.state(), ConnState::Departing)) {
            let condition = StreamCondition::ResourceConstraint;
            self.record_error(id, Ended::Server, condition, Some("no room for this session"), None, true);
        }
    }

    /// The peer is not there: the stream is to end with an error, the session may be resumed.
    pub(super) fn drop_connection(&mut self, id: ConnId) {
        let mut error = Vec::new();
        crate::wire::error::write_stream_error(&mut error, StreamCondition::ConnectionTimeout, None, None);
        self.record(ConnEnding { conn: id, ending: Ending::Unheard, why: Ended::Timeout, error, durable: true });
    }

    /// The connection is to be cut with all that waits for it. The session may be resumed.
    pub(super) fn cut(&mut self, id: ConnId, why: Ended) {
        self.record(ConnEnding { conn: id, ending: Ending::Cut, why, error: Vec::new(), durable: true });
    }

    /// A session is to end, with its connection if it has one: with this error.
    pub(super) fn end_session_with(&mut self, id: SessionId, why: Ended, condition: StreamCondition, text: &str) {
        match self.sessions.get(id).map(|session| session.conn) {
            Some(Some(conn)) => self.fail_stream_with(conn, why, condition, Some(text), None),
            Some(None) => self.endings.due.push_back(Due::Session(id)),
            None => {}
        }
    }

    /// The sessions of a user whose account is gone are to end; with `erase` all rows of the account go then.
    pub(super) fn end_removed(&mut self, user: u32, erase: bool) {
        let sessions: Vec<_> = self.users.sessions(&self.sessions, user).map(|(id, s)| (id, s.conn)).collect();
        for (id, conn) in sessions {
            match conn {
                Some(conn) => self.fail_removed(conn),
                None => self.endings.due.push_back(Due::Session(id)),
            }
        }
        if erase {
            self.endings.due.push_back(Due::Account(user));
        }
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
    fn record(&mut self, ending: ConnEnding) {
        let Some(conn) = self.conns.get(ending.conn) else { return };
        if conn.ending || matches!(conn.state(), ConnState::Closing { .. }) {
            return;
        }
        conn.ending = true;
        self.endings.due.push_back(Due::Conn(ending));
    }

    // What is carried out.

    /// Ends what is to end. What that leads to ends, too.
    pub(super) fn carry_out_endings(&mut self) {
        while let Some(due) = self.endings.due.pop_front() {
            match due {
                Due::Conn(ending) => self.end_conn(ending),
                Due::Session(id) => self.end_session(id, Vec::new(), None),
                Due::Account(user) => self.erase_account(user),
            }
        }
    }

    fn end_conn(&mut self, ending: ConnEnding) {
        let ConnEnding { conn: id, mut ending, why, error, durable } = ending;
        let Some(conn) = self.conns.get(id) else { return };
        // Behind anything else that it is to be told the last words wait, too.
        let silent = conn.outbound.as_ref().is_none_or(|outbound| outbound.bytes() == 0);
        let mut last = Vec::new();
        if !error.is_empty() {
            // Before its header, the receiving entity sends one first (RFC 6120 4.9.1.2). During a TLS handshake there is no
            // stream to say anything on.
            if matches!(conn.state(), ConnState::Opening(o) if matches!(o.stage(), Stage::ExpectHandshake)) {
                ending = Ending::Cut;
            } else if !std::mem::replace(&mut conn.header_sent, true) {
                let stream_id = self.random_name();
                let (from, version) = (&*self.settings.domain, Some(stream::Version::XMPP_1_0));
                let response = stream::Response { id: &stream_id, from, to: None, version, lang: SERVER_LANG };
                stream::write_header(&mut last, &response);
            }
            if ending == Ending::Broken {
                self.counters.streams_closed_by_error.one();
            }
            last.extend_from_slice(&error);
        }
        if ending != Ending::Cut && (!error.is_empty() || self.conns.get(id).is_some_and(|conn| conn.header_sent)) {
            last.extend_from_slice(b"</stream:stream>");
        }
        if ending != Ending::Cut && !last.is_empty() {
            self.send_bytes(id, &last);
        }
        self.close(id, ending, why, durable || !silent);
    }

    /// Closes the connection. A session behind it ends, or waits to be resumed. With `durable` not before all is durable that
    /// the turn rests on, unless nothing of that was ever promised here.
    fn close(&mut self, id: ConnId, ending: Ending, why: Ended, durable: bool) {
        let session = self.session_of(id).filter(|_| ending == Ending::Agreed);
        let user = session.and_then(|s| self.sessions.get(s)).map_or(NONE, |s| s.user);
        let Some(conn) = self.conns.get(id) else { return };
        conn.partial = None;
        let abort = ending == Ending::Cut;
        // Who does not read its last words need not be read from meanwhile, only to throw it away.
        let reads_slowly = !abort && conn.outbound.as_ref().is_some_and(|o| o.is_sending());
        let Some(was) = self.conns.set_state(id, ConnState::Closing { user }) else { return };
        self.count_ended(why);
        if reads_slowly && self.conns.pause(id, Pause::Ending) {
            self.effects.push(Effect::Pause { conn: id });
        }
        let Some(outbound) = self.conns.get(id).map(|conn| &mut conn.outbound) else { return };
        // What may still reach the peer is lost only when the connection is gone without having sent it.
        let sending = outbound.as_mut().filter(|_| user == NONE).map(|o| o.take_sending());
        let under_way = outbound.as_ref().and_then(|o| o.first_sending());
        let (waiting, mut last) = self.take_last(id);
        let unsent = sending.into_iter().flatten().chain(waiting).collect();
        if abort {
            last = Vec::new();
        }
        self.counters.bytes_out.add(last.len() as u64);
        // Of one that is cut off nothing is waited for.
        let durable = durable && !abort && !matches!(&was, ConnState::Opening(o) if o.is_promised_nothing());
        self.effects.push(Effect::Close { conn: id, last, abort, durable });
        self.login_broken_off(&was);
        if let ConnState::Bound(session) = was {
            self.connection_lost(session, unsent, under_way, matches!(ending, Ending::Unheard | Ending::Cut));
        }
    }

    /// Takes what is still to be sent, for effects that carry a connection's last words in its present form, and the messages
    /// that are not among them.
    pub(super) fn take_last(&mut self, id: ConnId) -> (Vec<Unsent>, Vec<u8>) {
        let outbound = self.conns.get(id).and_then(|conn| conn.outbound.as_mut());
        let Some(outbound) = outbound else { return Default::default() };
        let before = outbound.bytes();
        let (unsent, last) = outbound.take_last();
        self.levels.outbound_bytes -= before - outbound.bytes();
        (unsent, last)
    }

    /// The driver says why the connection ends, before it does.
    pub(super) fn lost(&mut self, id: ConnId, how: Lost) {
        if let Some(conn) = self.conns.get(id) {
            conn.lost.get_or_insert(how);
        }
    }

    /// The connection is gone.
    pub(super) fn closed(&mut self, id: ConnId) {
        let Some((mut conn, state)) = self.conns.remove(id) else { return };
        match state {
            ConnState::Departing => self.counters.departed.one(),
            ConnState::Closing { .. } => {}
            _ => self.count_ended(Ended::by(conn.lost)),
        }
        let mut unsent = Vec::new();
        if let Some(mut outbound) = conn.outbound.take() {
            self.levels.outbound_bytes -= outbound.bytes();
            unsent = outbound.take_unsent();
            self.recycle(outbound);
        }
        self.login_broken_off(&state);
        match state {
            ConnState::Bound(session) => self.connection_lost(session, unsent, None, true),
            // Those of the log wait there still: the cursor has not passed them.
            ConnState::Closing { user } if user != NONE && unsent.iter().any(|u| u.id & mark::APART != 0) => {
                self.gather(user, true);
            }
            _ => {}
        }
    }

    /// A session's connection is gone. It waits to be resumed, if it may and `resumable`; otherwise it ends.
    fn connection_lost(&mut self, id: SessionId, unsent: Vec<Unsent>, under_way: Option<u64>, resumable: bool) {
        let now_s = self.now.mono_s();
        self.sessions.set_conn(id, None);
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.since_s = now_s;
        let waits = session.managed.as_ref().is_some_and(|m| m.resume_s > 0);
        // Messages from before stream management was enabled are in no count: the session cannot go on as if they had come.
        let whole = unsent.iter().all(|unsent| unsent.id == 0);
        if !(waits && whole && resumable && !self.shutting_down) {
            return self.end_session(id, unsent, under_way);
        }
        if self.watch.is_some() {
            self.watch_news(id, crate::watch::trace::News::Disconnected);
        }
    }

    /// Ends a session, if it is there: it leaves its user's list, its presence goes, and what it did not receive finds another way.
    /// `under_way` is the number of the first message that may still reach the client.
    pub(super) fn end_session(&mut self, id: SessionId, unsent: Vec<Unsent>, under_way: Option<u64>) {
        let Some((full, mut session)) = self.take_session(id) else { return };
        let user = session.user;
        // What was sent before stream management was enabled is known by the connection, the rest by the session.
        let (mut lost, mut waiting) = (unsent, None);
        if let Some(mut managed) = session.managed.take() {
            lost.extend(managed.take_unacked().into_iter().map(|u| Unsent { id: u.id, xml: u.xml.into() }));
            waiting = managed.waiting.take();
        }
        self.session_gone(user, &full, &mut session);
        self.follower_left(user, id, session.follows, lost, under_way);
        self.takers_changed(user);
        if let Some(conn) = waiting {
            self.not_resumed(conn);
        }
    }
}
