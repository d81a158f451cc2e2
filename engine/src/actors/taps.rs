//! An operator's observations: the stanzas of one user, and the busiest sessions.
//!
//! While nothing is observed, `observers` is `None`, and each stanza costs one check of it.
//! Observers are beside the path of a message and change nothing on it.

use crate::actors::Actors;
use crate::id::{ConnId, SessionId};
use crate::io::{BusyRow, Reply};
use crate::observers::TRACES_MAX;
use crate::observers::busiest::Busiest;
use crate::observers::trace::{Fate, News, Stanza, Trace, Way};
use crate::router::users::Incoming;
use crate::streams::Streams;
use crate::wire::Element;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::split_resource;
use crate::wire::written::read_back;

impl Actors {
    /// Starts a trace of one session or of all sessions of a user. Returns how many there are now.
    pub(crate) fn trace(&mut self, cx: &mut Streams, id: u64, jid: &str, bodies: bool, ms: u64) -> Reply {
        let now_ms = cx.kernel.now.mono_ms;
        let observers = self.observers.get_or_insert_default();
        if observers.traces.len() >= TRACES_MAX {
            return Reply::Busy;
        }
        let (bare, resource) = split_resource(jid);
        observers.traces.push(Trace::new(id, bare, resource, bodies, now_ms, ms));
        Reply::Done(self.sessions_of(jid).len() as u32)
    }

    pub(crate) fn fetch_trace(&mut self, cx: &mut Streams, id: u64) -> Reply {
        let now = cx.kernel.now;
        let trace =
            self.observers.as_mut().and_then(|observers| observers.traces.iter_mut().find(|trace| trace.id == id));
        trace.map_or(Reply::NotFound, |trace| Reply::Traced(Box::new(trace.fetch(now))))
    }

    pub(crate) fn end_trace(&mut self, id: u64) -> Reply {
        let Some(observers) = self.observers.as_mut() else { return Reply::NotFound };
        let before = observers.traces.len();
        observers.traces.retain(|trace| trace.id != id);
        if observers.traces.len() == before { Reply::NotFound } else { Reply::Done(1) }
    }

    /// Returns the busiest sessions. Sessions are counted from the first request until requests
    /// stop.
    pub(crate) fn busiest(&mut self, cx: &mut Streams, most: u32) -> Reply {
        let now_ms = cx.kernel.now.mono_ms;
        let observers = self.observers.get_or_insert_default();
        let (window_ms, counted) = observers.busiest.get_or_insert_with(|| Busiest::new(now_ms)).ask(now_ms);
        let counted = counted.to_vec();
        let there = counted.into_iter().filter(|counted| self.sessions.get(counted.session).is_some());
        let row = |counted: crate::observers::busiest::Counted| BusyRow {
            jid: self.full_jid(counted.session),
            stanzas_in: counted.stanzas_in,
            stanzas_out: counted.stanzas_out,
            bytes_in: counted.bytes_in,
            bytes_out: counted.bytes_out,
            outbound_bytes: cx.unread_bytes(counted.session),
        };
        Reply::Busiest { window_ms, rows: there.take(most as usize).map(row).collect() }
    }

    /// Ends observations that are no longer requested.
    pub(crate) fn sweep_observers(&mut self, cx: &mut Streams) {
        let now_ms = cx.kernel.now.mono_ms;
        self.observers.take_if(|observers| !observers.keep(now_ms));
    }

    /// Returns the user of a session, if the session is traced.
    pub(crate) fn traced(&self, session: SessionId) -> bool {
        let (Some(observers), Some(session)) = (&self.observers, self.sessions.get(session)) else { return false };
        observers.traces_user(&self.users.bare(session.user))
    }

    /// Calls `with` for each trace that includes a session.
    fn with_traces(&mut self, session: SessionId, mut with: impl FnMut(&mut Trace)) {
        let Actors { sessions, users, observers, .. } = self;
        let (Some(observers), Some(state)) = (observers, sessions.get(session)) else { return };
        let account = users.bare(state.user);
        observers.traces.iter_mut().filter(|trace| trace.takes(&account, Some(&state.resource))).for_each(&mut with);
    }

    /// A stanza has arrived from a session; [`Actors::tap_taken`] follows.
    #[cold]
    pub(crate) fn tap_came(&mut self, cx: &mut Streams, session: SessionId, element: &Element<'_>) {
        let now = cx.kernel.now;
        if let Some(busiest) = self.observers.as_mut().and_then(|observers| observers.busiest.as_mut()) {
            busiest.count(now.mono_ms, session, true, element.bytes().len());
        }
        if !self.traced(session) {
            return;
        }
        let full = self.full_jid(session);
        self.with_traces(session, |trace| {
            trace.came(now, Stanza::of(element, Some(&full), Way::In, Fate::Taken, trace.bodies));
        });
    }

    /// A stanza that has just arrived is answered with an error.
    #[cold]
    pub(crate) fn tap_refused(&mut self, session: SessionId, condition: StanzaCondition) {
        self.with_traces(session, |trace| trace.refused(condition.name()));
    }

    /// This home is done with the stanza of this inbound number; `in_flight` stanzas were in flight
    /// before it.
    #[cold]
    pub(crate) fn tap_taken(&mut self, cx: &mut Streams, session: SessionId, seq: u32, in_flight: u16) {
        let under_way = cx.standing(session).is_some_and(|standing| standing.in_flight > in_flight).then_some(seq);
        self.with_traces(session, |trace| trace.taken(session, under_way));
    }

    /// The stanza with this inbound number is safe.
    #[cold]
    pub(crate) fn tap_safe(&mut self, cx: &mut Streams, session: SessionId, seq: u32) {
        let now = cx.kernel.now;
        self.with_traces(session, |trace| trace.safe(now, session, seq));
    }

    /// A stanza is about to go to a session.
    #[cold]
    pub(crate) fn tap_goes(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8]) {
        self.tap_goes_ahead(cx, session, xml, 0);
    }

    /// A stanza is about to go to a session, ahead of this many counted stanzas.
    #[cold]
    pub(crate) fn tap_goes_ahead(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8], overtaken: usize) {
        let now = cx.kernel.now;
        if let Some(busiest) = self.observers.as_mut().and_then(|observers| observers.busiest.as_mut()) {
            busiest.count(now.mono_ms, session, false, xml.len());
        }
        let Some(standing) = cx.standing(session).filter(|_| self.traced(session)) else { return };
        let fate = standing.conn.map_or(Fate::Held, |_| Fate::Queued(standing.outbound_bytes));
        let next = standing.sent.map(|sent| sent.wrapping_add(1));
        let counted = next.map(|next| next.wrapping_sub(overtaken as u32));
        let full = self.full_jid(session);
        read_back(xml, |element| {
            self.with_traces(session, |trace| {
                if let Some(counted) = counted.filter(|_| overtaken > 0) {
                    trace.overtakes(session, counted);
                }
                trace.goes(now, session, Stanza::of(element, Some(&full), Way::Out, fate, trace.bodies), counted);
            });
        });
    }

    /// All output pending for a connection is part of the send that starts now.
    #[cold]
    pub(crate) fn tap_sending(&mut self, cx: &mut Streams, conn: ConnId) {
        let now = cx.kernel.now;
        if let Some(session) = cx.session_of(conn) {
            self.with_traces(session, |trace| trace.sending(now, session));
        }
    }

    /// A send has completed: its bytes are with the kernel.
    #[cold]
    pub(crate) fn tap_sent(&mut self, cx: &mut Streams, conn: ConnId) {
        let now = cx.kernel.now;
        if let Some(session) = cx.session_of(conn) {
            self.with_traces(session, |trace| trace.sent(now, session));
        }
    }

    /// The client has acknowledged its stanzas up to this number.
    #[cold]
    pub(crate) fn tap_acknowledged(&mut self, cx: &mut Streams, session: SessionId, h: u32) {
        let now = cx.kernel.now;
        self.with_traces(session, |trace| trace.acknowledged(now, session, h));
    }

    /// A stanza for a user of this home is delivered to no session now.
    #[cold]
    pub(crate) fn tap_aside(&mut self, cx: &mut Streams, stanza: Incoming<'_>, refused: Option<StanzaCondition>) {
        let (now, (account, resource)) = (cx.kernel.now, split_resource(stanza.to));
        let fate = refused.map_or(Fate::Stored, |condition| Fate::Refused(condition.name()));
        let Some(observers) = self.observers.as_deref_mut().filter(|observers| observers.traces_user(account)) else {
            return;
        };
        read_back(stanza.xml, |element| {
            for trace in observers.traces.iter_mut().filter(|trace| trace.takes(account, resource)) {
                trace.aside(now, Stanza::of(element, None, Way::Aside, fate, trace.bodies));
            }
        });
    }

    /// An event of a session.
    #[cold]
    pub(crate) fn tap_news(&mut self, cx: &mut Streams, session: SessionId, news: News) {
        if self.traced(session) {
            let (now, full) = (cx.kernel.now, self.full_jid(session));
            self.with_traces(session, |trace| trace.news(now, session, &full, news));
        }
    }
}
