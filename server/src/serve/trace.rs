//! Traces of users' stanzas: begun at the user's home shard and fetched from there; their beginning
//! and end are recorded in the log and the events.
//!
//! The shard stores the records.

use std::time::{Duration, Instant};

use throng_engine::extension::datetime::{self, Precision};
use throng_engine::io::{Command, ObserverCommand, Reply};
use throng_engine::observers::trace::{Fate, News, Record as Seen, Way, What as Thing};
use throng_engine::observers::{TRACES_MAX, trace};

use super::control::Running;
use super::traces::Open;
use crate::admin::trace::{Ask, Page, Record, SECONDS_MAX, Told};
use crate::admin::{BY_SOCKET, Fault, FaultKind};
use crate::events::What;

fn gone() -> Fault {
    Fault::new(FaultKind::NotFound, "no such trace; a trace ends when nothing fetches it for ten seconds")
}

impl Running {
    /// Carries out a request about traces.
    pub(super) fn trace(&self, ask: Ask) -> Result<Told, Fault> {
        match ask {
            Ask::Begin { jid, seconds, bodies } => self.begin_trace(&jid, seconds, bodies),
            Ask::Fetch { trace } => self.fetch_trace(trace).map(Told::Page),
            Ask::End { trace } => {
                let open = self.traces.take(trace).ok_or_else(gone)?;
                self.end_trace(open, false);
                Ok(Told::Ended {})
            }
        }
    }

    fn begin_trace(&self, jid: &str, seconds: u64, bodies: bool) -> Result<Told, Fault> {
        let jid = self.jid(jid)?;
        if !(1..=SECONDS_MAX).contains(&seconds) {
            return Err(Fault::new(FaultKind::Invalid, format!("a trace takes 1 to {SECONDS_MAX} seconds")));
        }
        let shard = self.home(&jid);
        let (now, jid) = (Instant::now(), jid.as_str().to_owned());
        let id = {
            let mut open = self.traces.open();
            if open.1.len() >= TRACES_MAX {
                return Err(Fault::new(FaultKind::Busy, format!("the limit of {TRACES_MAX} traces is reached")));
            }
            open.0 += 1;
            let id = open.0;
            let until = now + Duration::from_secs(seconds);
            let jid = jid.clone();
            open.1.push(Open { id, shard, jid, bodies, until, asked: now, stanzas: 0, dropped: 0 });
            id
        };
        let command =
            Command::Observer(ObserverCommand::Trace { id, jid: jid.as_str().into(), bodies, ms: seconds * 1_000 });
        let sessions = match self.ask(shard, command) {
            Ok(Reply::Done(sessions)) => u64::from(sessions),
            other => {
                self.traces.take(id);
                let busy = || Fault::new(FaultKind::Busy, "too many traces are under way");
                return Err(other.err().unwrap_or_else(busy));
            }
        };
        tracing::info!(by = BY_SOCKET, %jid, bodies, seconds, "a trace of a user's stanzas begins");
        self.note_event(What::Trace { of: jid.clone(), bodies, ended: None });
        // The thread that ends abandoned traces must recompute its deadline.
        self.links.wishes.look();
        Ok(Told::Begun { trace: id, jid, sessions })
    }

    fn fetch_trace(&self, id: u64) -> Result<Page, Fault> {
        let shard =
            self.traces.open().1.iter().find(|trace| trace.id == id).map(|trace| trace.shard).ok_or_else(gone)?;
        let Reply::Traced(page) = self.ask(shard, Command::Observer(ObserverCommand::Fetch { id }))? else {
            return Err(gone());
        };
        if let Some(trace) = self.traces.open().1.iter_mut().find(|trace| trace.id == id) {
            (trace.asked, trace.stanzas, trace.dropped) = (Instant::now(), page.stanzas, page.dropped);
        }
        let trace::Page { records, more, dropped, stanzas, over } = *page;
        Ok(Page { records: records.into_iter().map(record).collect(), more, dropped, stanzas, over })
    }

    /// Ends abandoned traces; returns the time until the next check, if any trace is left.
    pub(super) fn end_abandoned_traces(&self) -> Option<Duration> {
        let now = Instant::now();
        for open in self.traces.take_abandoned(now, false) {
            self.end_trace(open, true);
        }
        let next = self.traces.open().1.iter().map(Open::abandoned).min();
        // A little later, so that its time is over then.
        next.map(|next| next.saturating_duration_since(now) + Duration::from_millis(1))
    }

    /// Ends all traces because the server stops.
    pub(super) fn end_all_traces(&self) {
        for open in self.traces.take_abandoned(Instant::now(), true) {
            self.end_trace(open, true);
        }
    }

    fn end_trace(&self, open: Open, abandoned: bool) {
        let Open { id, shard, jid, bodies, stanzas, dropped, .. } = open;
        // The answer is not needed: the shard also ends abandoned traces by itself.
        let _ = self.put(shard, Command::Observer(ObserverCommand::End { id }), None);
        tracing::info!(by = BY_SOCKET, %jid, bodies, stanzas, dropped, abandoned, "a trace of a user's stanzas has ended");
        self.note_event(What::Trace { of: jid, bodies, ended: Some(stanzas) });
    }
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Taken => "taken",
        Fate::UnderWay => "under-way",
        Fate::Safe => "safe",
        Fate::Refused(_) => "refused",
        Fate::Queued(_) => "queued",
        Fate::Held => "held",
        Fate::Sent => "sent",
        Fate::Acknowledged => "acknowledged",
        Fate::Stored => "stored",
    }
}

fn news(news: News) -> &'static str {
    match news {
        News::Bound => "bound",
        News::Disconnected => "disconnected",
        News::Resumed(_) => "resumed",
        News::Ended => "ended",
    }
}

fn with_fate(record: Record, what: Fate) -> Record {
    Record {
        fate: Some(fate(what).to_owned()),
        condition: if let Fate::Refused(condition) = what { Some(condition.to_owned()) } else { None },
        behind_bytes: if let Fate::Queued(bytes) = what { Some(bytes as u64) } else { None },
        ..record
    }
}

fn record(seen: Seen) -> Record {
    let time = datetime::text(seen.at_us, Precision::Millis);
    let record = Record { n: seen.number, time, ..Record::default() };
    match seen.what {
        Thing::Fate { of, fate, after_us } => {
            with_fate(Record { of: Some(of), after_us: Some(after_us), ..record }, fate)
        }
        Thing::Session { session, news: what } => Record {
            session: Some(session.into()),
            news: Some(news(what).to_owned()),
            again: if let News::Resumed(again) = what { Some(again.into()) } else { None },
            ..record
        },
        Thing::Stanza(stanza) => {
            let way = match stanza.way {
                Way::In => "in",
                Way::Out => "out",
                Way::Aside => "aside",
            };
            let record = Record {
                session: stanza.session.map(Into::into),
                way: Some(way.to_owned()),
                stanza: Some(stanza.name.to_owned()),
                from: stanza.from.map(Into::into),
                to: stanza.to.map(Into::into),
                id: stanza.id.map(Into::into),
                kind: stanza.kind.map(Into::into),
                payload: stanza.payload.into_iter().map(str::to_owned).collect(),
                bytes: Some(stanza.bytes as u64),
                xml: stanza.xml.map(Into::into),
                ..record
            };
            with_fate(record, stanza.fate)
        }
    }
}
