//! Actions of operators on the running server: a short list for queries, and for recording beside
//! figures.
//!
//! The list is bounded and each event has a number, so that a caller that polls ([`Events::after`])
//! sees each event once, or sees that numbers are missing. This module only stores events; it
//! carries nothing out and does not know its listeners. Its lock is not on any hot path: only
//! operators' actions take it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use throng_engine::extension::datetime::{self, Precision};

use crate::waits::{Mutex, MutexGuard, Place};

/// Most stored events; the oldest are removed first.
pub const EVENTS_MAX: usize = 256;

/// An action of an operator, or a consequence of one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its number, counted from 1 since the start.
    pub number: u64,
    /// Its time, seconds since the Unix epoch.
    pub at_s: u64,
    /// The originator: `control socket`, `reload`, `time is over`.
    pub by: String,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The value of an option changed.
    Knob {
        /// The option.
        key: String,
        /// The value before.
        from: String,
        /// The value now.
        to: String,
        /// When the value reverts, seconds since the Unix epoch; `None` if it stays.
        until_s: Option<u64>,
    },
    /// An order was carried out.
    Done {
        /// The order: `queue flush`, `waiting flush`, `say --urgent`.
        order: String,
        /// The target: a JID, or `all`.
        to: String,
        /// Number of sessions or messages affected.
        count: u64,
    },
    /// A trace of a user's stanzas began or ended.
    Trace {
        /// The traced bare or full JID.
        of: String,
        /// Whether the trace includes full content.
        bodies: bool,
        /// At the end of the trace: the number of stanzas.
        ended: Option<u64>,
    },
}

impl What {
    /// Its kind, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            What::Knob { .. } => "knob",
            What::Done { .. } => "order",
            What::Trace { .. } => "trace",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Knob { key, from, to, until_s: None } => write!(f, "{key}: {from} -> {to}"),
            What::Knob { key, from, to, until_s: Some(until_s) } => {
                write!(f, "{key}: {from} -> {to}, until {}", utc(*until_s))
            }
            What::Done { order, to, count } => write!(f, "{order}: {to}, {count}"),
            What::Trace { of, bodies, ended } => {
                let bodies = if *bodies { ", with bodies" } else { "" };
                match ended {
                    None => write!(f, "a trace of {of} begins{bodies}"),
                    Some(stanzas) => write!(f, "a trace of {of} has ended{bodies}, {stanzas} stanzas"),
                }
            }
        }
    }
}

/// Formats a time given in seconds since the Unix epoch (XEP-0082 3.2).
pub fn utc(at_s: u64) -> String {
    datetime::text(at_s.saturating_mul(1_000_000), Precision::Seconds)
}

/// Called with each event as it is added.
type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// The events of a process.
pub struct Events {
    kept: Mutex<Kept>,
    listener: OnceLock<Listener>,
}

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    /// At most [`EVENTS_MAX`].
    events: VecDeque<Event>,
}

impl Default for Events {
    fn default() -> Events {
        Events { kept: Mutex::new(Place::LockEvents, Kept::default()), listener: OnceLock::new() }
    }
}

impl Events {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    /// Adds an event.
    pub fn note(&self, at_s: u64, by: &str, what: What) {
        let mut kept = self.kept();
        kept.last += 1;
        let number = kept.last;
        if kept.events.len() == EVENTS_MAX {
            kept.events.pop_front();
        }
        let event = Event { number, at_s, by: by.to_owned(), what };
        if let Some(listener) = self.listener.get() {
            listener(&event);
        }
        kept.events.push_back(event);
    }

    /// Calls this listener for each event from now on. There is at most one; a second is ignored.
    pub fn tell(&self, listener: Listener) {
        let _ = self.listener.set(listener);
    }

    /// The stored events with a higher number, oldest first: pass the last number seen, 0 for all.
    pub fn after(&self, number: u64) -> Vec<Event> {
        self.kept().events.iter().filter(|event| event.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_whoever_polls_sees_each_event_once_or_that_some_are_missing() {
        let events = Events::default();
        let mut note = |n: u64| {
            let (key, from, to) = (format!("knob{n}"), "1".to_owned(), "2".to_owned());
            events.note(n, "control socket", What::Knob { key, from, to, until_s: None });
        };
        (1..=3).for_each(&mut note);
        let seen: Vec<u64> = events.after(0).iter().map(|event| event.number).collect();
        assert_eq!(seen, [1, 2, 3]);
        assert_eq!(events.after(3), []);
        let (told_in, told) = std::sync::mpsc::sync_channel(1_000);
        events.tell(Box::new(move |event| told_in.send(event.what.to_string()).expect("room")));
        (4..=1_000).for_each(&mut note);
        assert_eq!(told.try_iter().count(), 997, "all from then on");
        let new = events.after(3);
        assert_eq!(
            (new.len(), new[0].number, new[EVENTS_MAX - 1].number),
            (EVENTS_MAX, 1_001 - EVENTS_MAX as u64, 1_000)
        );
    }
}
