//! Carries out endings: connections close, sessions end or wait to be resumed, and stanzas that
//! they did not receive are delivered in another way.

use crate::id::{ConnId, SessionId, mark};
use crate::io::Effect;
use crate::outbound::Unsent;
use crate::session::conn::{ConnState, NONE, Pause, Stage};
use crate::session::sm::Rows;
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::streams::ending::{ConnEnding, Due, Ending};
use crate::streams::opening::SERVER_LANG;
use crate::web::{Transport, frame};
use crate::wire::stream;

impl Shard {
    /// Ends what is due to end, and everything that ends as a consequence.
    pub(crate) fn carry_out_endings(&mut self) {
        while let Some(due) = self.cx.endings.due.pop_front() {
            match due {
                Due::Conn(ending) => self.end_conn(ending),
                Due::Session(id) => self.end_session(id, Vec::new(), None),
                Due::Account(user) => {
                    self.accounts.erase_account(&mut self.cx, &mut self.actors, user);
                    let account = self.actors.users.bare(user).to_string();
                    self.leave_nodes(&account);
                }
            }
        }
    }

    fn end_conn(&mut self, ending: ConnEnding) {
        let ConnEnding { conn: id, mut ending, why, error, durable } = ending;
        // The connection has closed since its end was recorded.
        let Some(conn) = self.cx.conns.get(id) else { return };
        // The last output also waits behind other pending output.
        let silent = conn.outbound.as_ref().is_none_or(|outbound| outbound.bytes() == 0);
        let mut last = Vec::new();
        let transport = conn.transport();
        let in_handshake = matches!(conn.state(), ConnState::Opening(o) if matches!(o.stage(), Stage::ExpectHandshake));
        // On an HTTP connection that was answered before, unsolicited output would count as the
        // answer to a request in flight.
        let between = matches!(conn.state(), ConnState::Opening(o) if o.asked().is_some_and(|asked| !asked.waits));
        let is_idle = between && conn.partial.is_none() && why == Ended::Timeout;
        if transport == Transport::Http && !in_handshake {
            self.http_ends(id, &mut last, !error.is_empty() && !is_idle, why);
        } else if matches!(transport, Transport::Channels | Transport::Commands) {
            // A connection whose last frame was sent waits for nothing more.
            if ending != Ending::Cut && self.channels.is_listener(id) {
                match self.channels.shutdown(id).filter(|_| why == Ended::Shutdown) {
                    Some(fault) => frame::write_fault(&mut last, fault),
                    None => self.websocket_ends(&mut last, why),
                }
            }
        } else if !error.is_empty() {
            // Before the client's header, the server sends its own first (RFC 6120 4.9.1.2). During
            // a TLS handshake there is no stream to send an error on.
            if in_handshake {
                ending = Ending::Cut;
            } else if matches!(conn.state(), ConnState::Opening(o) if matches!(o.stage(), Stage::ExpectComponent)) {
                if !std::mem::replace(&mut conn.header_sent, true) {
                    self.components.component_header_alone(&mut self.cx, &mut last);
                }
            } else if !std::mem::replace(&mut conn.header_sent, true) {
                let stream_id = self.cx.kernel.random_name();
                let (from, version) = (self.cx.kernel.settings.domains.main(), Some(stream::Version::XMPP_1_0));
                let response = stream::Response { id: &stream_id, from, to: None, version, lang: SERVER_LANG };
                stream::write_header(&mut last, &response);
            }
            if ending == Ending::Broken {
                self.cx.kernel.counters.streams_closed_by_error.one();
            }
            last.extend_from_slice(&error);
        }
        let streams = matches!(transport, Transport::Stream | Transport::WebSocket);
        let header_sent = self.cx.conns.get(id).is_some_and(|conn| conn.header_sent);
        if ending != Ending::Cut && streams && (!error.is_empty() || header_sent) {
            last.extend_from_slice(b"</stream:stream>");
        }
        if ending != Ending::Cut && transport == Transport::WebSocket {
            // RFC 7395 3.6: the stream ends first.
            self.websocket_ends(&mut last, why);
        }
        if ending != Ending::Cut && !last.is_empty() {
            self.cx.send_bytes(id, &last);
        }
        self.close(id, ending, why, durable || !silent);
    }

    /// Closes the connection. Its session ends, or waits to be resumed. With `durable`, waits until
    /// all writes of the turn are durable, unless nothing was ever confirmed on this connection.
    pub(crate) fn close(&mut self, id: ConnId, ending: Ending, why: Ended, durable: bool) {
        let session = self.cx.session_of(id).filter(|_| ending == Ending::Agreed);
        let user = session.and_then(|s| self.actors.sessions.get(s)).map_or(NONE, |s| s.user);
        // The connection has closed since its end was recorded.
        let Some(conn) = self.cx.conns.get(id) else { return };
        conn.partial = None;
        let abort = ending == Ending::Cut;
        // A peer that does not read its last output is not read from, because its input would be
        // discarded.
        let reads_slowly = !abort && conn.outbound.as_ref().is_some_and(|o| o.is_sending());
        let was = self.cx.conns.set_state(id, ConnState::Closing { user }).expect("it was just there");
        self.cx.count_ended(why);
        if reads_slowly {
            self.cx.pause(id, Pause::Ending);
        }
        let outbound = &mut self.cx.conns.heard(id).outbound;
        // Output that may still reach the peer is lost only when the connection is gone without
        // having sent it.
        let sending = outbound.as_mut().filter(|_| user == NONE).map(|o| o.take_sending());
        let under_way = outbound.as_ref().and_then(|o| o.first_sending());
        let (waiting, mut last) = self.cx.take_last(id);
        let unsent = sending.into_iter().flatten().chain(waiting).collect();
        if abort {
            last = Vec::new();
        }
        self.cx.kernel.counters.bytes_out.add(last.len() as u64);
        // A connection that is cut waits for nothing.
        let durable = durable && !abort && !matches!(&was, ConnState::Opening(o) if o.is_promised_nothing());
        match id.has_socket() {
            true => self.cx.kernel.effects.push(Effect::Close { conn: id, last, abort, durable }),
            false => self.cx.bosh_closes(id, &last, why, durable),
        }
        self.cx.kernel.login_broken_off(&was);
        if let ConnState::Opening(opening) = &was {
            self.cx.http_gone(id, opening);
        }
        self.channels.listener_gone(id);
        if let ConnState::Component(_) = was {
            self.components.component_gone(&mut self.cx, &mut self.actors, id);
        }
        if let ConnState::Bound(session) = was {
            // A stored session may be resumed after the restart.
            let stops = why == Ended::Shutdown && self.cx.stored_as(session).is_some();
            let resumable = matches!(ending, Ending::Unheard | Ending::Cut) || stops;
            self.connection_lost(session, unsent, under_way, resumable);
        }
        if !id.has_socket() {
            // Without a socket, the host does not report the close.
            self.closed(id);
        }
    }

    /// Handles a closed connection.
    pub(crate) fn closed(&mut self, id: ConnId) {
        // A connection without a socket was removed when it ended.
        let Some((mut conn, state)) = self.cx.conns.remove(id) else { return };
        match state {
            ConnState::Departing => self.cx.kernel.counters.departed.one(),
            ConnState::Closing { .. } => {}
            _ => self.cx.count_ended(Ended::by(conn.lost)),
        }
        let mut unsent = Vec::new();
        if let Some(mut outbound) = conn.outbound.take() {
            self.cx.outbound_bytes -= outbound.bytes();
            unsent = outbound.take_unsent();
            self.cx.recycle(outbound);
        }
        self.cx.kernel.login_broken_off(&state);
        self.channels.listener_gone(id);
        match state {
            ConnState::Bound(session) => self.connection_lost(session, unsent, None, true),
            ConnState::Component(_) => self.components.component_gone(&mut self.cx, &mut self.actors, id),
            ConnState::Opening(opening) => self.cx.http_gone(id, &opening),
            // Messages of the log still wait there: the cursor has not passed them.
            ConnState::Closing { user } if user != NONE && unsent.iter().any(|u| u.id & mark::APART != 0) => {
                self.logs.gather(&mut self.cx, &mut self.actors, user, true);
            }
            _ => {}
        }
    }

    /// A session has lost its connection. It waits to be resumed if it may and is `resumable`;
    /// otherwise it ends.
    fn connection_lost(&mut self, id: SessionId, unsent: Vec<Unsent>, under_way: Option<u64>, resumable: bool) {
        self.cx.take_conn(id);
        let waits = self.cx.may_wait(id);
        // Messages from before stream management was enabled are not counted. If they were lost,
        // the session cannot continue as if they had arrived.
        let whole = unsent.iter().all(|unsent| unsent.id == 0);
        let stays = !self.cx.kernel.shutting_down || self.cx.stored_as(id).is_some();
        if !(waits && whole && resumable && stays) {
            return self.end_session(id, unsent, under_way);
        }
        let rows = if self.cx.is_stored(id) { Rows::Counts } else { Rows::All };
        self.cx.rows_due(id, rows);
        if self.actors.observers.is_some() {
            self.actors.tap_news(&mut self.cx, id, crate::observers::trace::News::Disconnected);
        }
        self.logs.wake_detached(&mut self.cx, &mut self.actors, id);
    }

    /// Ends a session, if it exists: removes it from its user's list, withdraws its presence, and
    /// redirects stanzas that it did not receive. `under_way` is the number of the first message
    /// that may still reach the client.
    pub(crate) fn end_session(&mut self, id: SessionId, unsent: Vec<Unsent>, under_way: Option<u64>) {
        self.contacts.forget_stored(&mut self.cx, &mut self.actors, id);
        let restored = self.cx.is_restored(id);
        let owed_ms = self.cx.owed_ms(id);
        // The session has ended since its end was recorded.
        let Some((full, mut session)) = self.actors.take_session(&mut self.cx, id) else { return };
        let user = session.user;
        self.actors.keep_debt(&mut self.cx, user, owed_ms);
        // The connection knows what was sent before stream management was enabled; the session
        // knows the rest.
        let mut lost = unsent;
        let (unacked, waiting) = self.cx.close_half(id);
        lost.extend(unacked.into_iter().map(|u| Unsent { id: u.id, xml: u.xml.into() }));
        self.forget_paced(user, id);
        self.logs.wake_ended(&mut self.cx, &mut self.actors, &session, &lost);
        self.contacts.session_gone(&mut self.cx, &mut self.actors, id, &full, &mut session);
        self.logs.follower_left(&mut self.cx, &mut self.actors, user, id, session.follows, lost, under_way);
        self.logs.takers_changed(&mut self.cx, &mut self.actors, user);
        if restored {
            // The store may have further messages that are set apart for the session.
            self.logs.gather(&mut self.cx, &mut self.actors, user, true);
        }
        // The connection of a resumption may have closed before its session ended.
        let tail = self.tails.remove(&id).map(|tail| tail.conn);
        let tail = tail.filter(|&conn| self.cx.opening(conn).is_some_and(|opening| opening.blocked));
        if let Some(conn) = waiting.or(tail) {
            self.cx.not_resumed(conn);
        }
    }
}
