//! The known state of a server, now and in the last minutes.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use throng_recorder::sar::Moment;

use crate::admin::{BusySession, Status};

/// Seconds of history.
pub const HISTORY_MAX: usize = 600;

/// The requested parts of the recording, in this order.
pub const PICK: [&str; 4] = [
    "shard.turns,connections,sessions,sessions_available,messages_live,stanzas_in,stanzas_out,bytes_in,bytes_out,outbound_bytes,\
     gate_waiting,letters_kept,reads_pending,jobs_pending,parked,notify_channels,notify_polls,notify_events,notify_sockets,\
     notify_waiting,notify_published,notify_told,notify_gaps,notify_behind,notify_publish_refused,notify_subscribe_refused,\
     websockets,bosh_sessions,bosh_waiting,rooms,room_occupants,room_messages,room_casts,room_copies,room_waiting",
    "thread.cpu,wait",
    "queue.length,in10,out10,delay",
    "process.rss",
];

/// Fields of a shard that are lengths of queues, as indices into [`PICK`].
const WAITING: [usize; 5] = [10, 11, 12, 13, 14];

/// A fault as a sentence.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Wrong {
    /// `bad` or `warn`.
    pub weight: String,
    /// The subject.
    pub what: String,
    /// The sentence.
    pub text: String,
}

/// The index in [`PICK`] of the first figure of HTTP clients, in the order of [`Web`].
const WEB: usize = 15;

/// The activity of HTTP clients at one shard in one second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Web {
    /// Channels of this home shard with clients waiting for items.
    pub channels: f64,
    /// Long polls waiting for items.
    pub polls: f64,
    /// Event streams, those of Mercure included.
    pub events: f64,
    /// WebSockets of channels.
    pub sockets: f64,
    /// All waiting requests at channels, publications included.
    pub waiting: f64,
    /// Items published per second.
    pub published: f64,
    /// Items delivered per second, counted per subscriber.
    pub told: f64,
    /// Gap notifications to subscribers per second.
    pub gaps: f64,
    /// Subscribers per second that fell behind because they read too slowly.
    pub behind: f64,
    /// Publications refused per second.
    pub publish_refused: f64,
    /// Subscriptions refused per second.
    pub subscribe_refused: f64,
    /// WebSockets of XMPP.
    pub websockets: f64,
    /// BOSH sessions.
    pub bosh: f64,
    /// Waiting BOSH requests.
    pub bosh_waiting: f64,
}

impl Web {
    fn of(is: impl Fn(usize) -> f64) -> Web {
        let is = |at| is(WEB + at);
        Web {
            channels: is(0),
            polls: is(1),
            events: is(2),
            sockets: is(3),
            waiting: is(4),
            published: is(5),
            told: is(6),
            gaps: is(7),
            behind: is(8),
            publish_refused: is(9),
            subscribe_refused: is(10),
            // The gauge includes those of channels.
            websockets: (is(11) - is(3)).max(0.0),
            bosh: is(12),
            bosh_waiting: is(13),
        }
    }

    /// Whether there is any activity.
    pub fn any(&self) -> bool {
        *self != Web::default()
    }
}

/// The index in [`PICK`] of the first figure of rooms, in the order of [`Rooms`].
const ROOMS: usize = WEB + 14;

/// The activity of rooms at one shard in one second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Rooms {
    /// Rooms in memory.
    pub rooms: f64,
    /// Sessions in them.
    pub occupants: f64,
    /// Messages per second to all occupants.
    pub messages: f64,
    /// Stanzas per second to occupants.
    pub casts: f64,
    /// Copies of these, one per session.
    pub copies: f64,
    /// Stanzas in the longest queue of a room.
    pub waiting: f64,
}

impl Rooms {
    fn of(is: impl Fn(usize) -> f64) -> Rooms {
        let is = |at| is(ROOMS + at);
        Rooms { rooms: is(0), occupants: is(1), messages: is(2), casts: is(3), copies: is(4), waiting: is(5) }
    }

    /// Whether there is any activity.
    pub fn any(&self) -> bool {
        *self != Rooms::default()
    }
}

/// One shard in a second.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Shard {
    /// Its number.
    pub shard: String,
    /// Use of its core, %.
    pub cpu: Option<f64>,
    /// Time runnable without a core, %.
    pub wait: Option<f64>,
    /// Turns per second.
    pub turns: f64,
    /// Seconds since its last turn; an idle shard turns four times per second.
    pub still_s: f64,
    /// Open connections.
    pub connections: f64,
    /// Sessions, resumable ones included.
    pub sessions: f64,
    /// Available sessions among these.
    pub available: f64,
    /// Messages per second delivered to sessions.
    pub messages: f64,
    /// Stanzas per second from clients.
    pub stanzas_in: f64,
    /// Stanzas per second to clients.
    pub stanzas_out: f64,
    /// KiB per second from clients.
    pub kib_in: f64,
    /// KiB per second to clients.
    pub kib_out: f64,
    /// KiB of queued output.
    pub outbound_kib: f64,
    /// Lengths of its other queues: for the disk, for other shards, reads, jobs, stanzas that wait
    /// for users.
    pub waiting: f64,
    /// The activity of HTTP clients.
    pub web: Web,
    /// The activity of rooms.
    pub rooms: Rooms,
}

/// A kind of queue in one second, over all shards.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Queue {
    /// Its kind.
    pub queue: String,
    /// Its length; `outbound` in bytes.
    pub length: f64,
    /// Arrivals per second, mean of ten seconds.
    pub rate_in: Option<f64>,
    /// Departures per second.
    pub rate_out: Option<f64>,
    /// Time that a new arrival waits in the longest one, ms.
    pub delay_ms: Option<f64>,
}

impl Queue {
    /// Seconds until it is empty at these rates; `None` if it grows or does not change.
    pub fn drains_in_s(&self) -> Option<f64> {
        let falls = self.rate_out? - self.rate_in?;
        (falls > 0.0).then(|| self.length / falls)
    }
}

/// The figures of one second.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Second {
    /// Its end, milliseconds since 1970 (UTC).
    pub wall_ms: u64,
    /// The shards.
    pub shards: Vec<Shard>,
    /// The queues.
    pub queues: Vec<Queue>,
    /// Memory of the process, MiB.
    pub rss_mib: Option<f64>,
}

impl Second {
    /// From a moment of the recording, in the order of [`PICK`].
    pub fn of(moment: &Moment) -> Second {
        let rows = |at: usize| moment.rows.get(at).map_or(&[][..], |rows| &rows[..]);
        let number = |row: &[Option<f64>], at: usize| row.get(at).copied().flatten();
        let thread = |name: &str| rows(1).iter().find(|(row, _)| row == name).map_or(&[][..], |(_, row)| &row[..]);
        let shard = |(name, row): &(String, Vec<Option<f64>>)| {
            let (is, its) = (|at| number(row, at).unwrap_or(0.0), thread(&format!("shard-{name}")));
            Shard {
                shard: name.clone(),
                cpu: number(its, 0),
                wait: number(its, 1),
                turns: is(0),
                still_s: 0.0,
                connections: is(1),
                sessions: is(2),
                available: is(3),
                messages: is(4),
                stanzas_in: is(5),
                stanzas_out: is(6),
                kib_in: is(7),
                kib_out: is(8),
                outbound_kib: is(9),
                waiting: WAITING.into_iter().map(is).sum(),
                web: Web::of(is),
                rooms: Rooms::of(is),
            }
        };
        let queue = |(name, row): &(String, Vec<Option<f64>>)| Queue {
            queue: name.clone(),
            length: number(row, 0).unwrap_or(0.0),
            rate_in: number(row, 1),
            rate_out: number(row, 2),
            delay_ms: number(row, 3),
        };
        Second {
            wall_ms: moment.wall_ms,
            shards: rows(0).iter().map(shard).collect(),
            queues: rows(2).iter().map(queue).collect(),
            rss_mib: rows(3).first().and_then(|(_, row)| number(row, 0)),
        }
    }

    /// Marks shards that have not turned since the second before.
    fn stands_still_since(&mut self, before: &Second) {
        let since_s = self.wall_ms.saturating_sub(before.wall_ms) as f64 / 1_000.0;
        for shard in self.shards.iter_mut().filter(|shard| shard.turns == 0.0) {
            let stood_s = before.shards.iter().find(|then| then.shard == shard.shard).map_or(0.0, |then| then.still_s);
            shard.still_s = stood_s + since_s;
        }
    }

    /// The sum over all shards.
    pub fn sum(&self, of: impl Fn(&Shard) -> f64) -> f64 {
        self.shards.iter().map(of).sum()
    }

    /// The busiest shard's CPU, %.
    pub fn cpu_max(&self) -> Option<f64> {
        self.shards.iter().filter_map(|shard| shard.cpu).fold(None, |most, cpu| Some(cpu.max(most.unwrap_or(cpu))))
    }
}

/// News from the source.
#[derive(Debug)]
pub enum News {
    /// A second has passed.
    Second(Box<Second>),
    /// The state and the faults.
    State(Box<Status>, Vec<Wrong>),
    /// The busiest sessions; `None` while counting has only begun.
    Busiest(Option<Vec<BusySession>>),
    /// Why the busiest sessions cannot be queried now.
    Uncounted(String),
    /// Why the server cannot be reached now.
    Lost(String),
}

/// The known state.
#[derive(Debug, Default)]
pub struct View {
    /// The address of the server.
    pub from: String,
    /// The state, once it is known.
    pub status: Option<Box<Status>>,
    /// The faults.
    pub wrong: Vec<Wrong>,
    /// The last minutes, the oldest second first; at most [`HISTORY_MAX`].
    pub seconds: VecDeque<Second>,
    /// The busiest sessions, once they are known.
    pub busiest: Option<Vec<BusySession>>,
    /// Why the busiest sessions are no longer updated.
    pub uncounted: Option<String>,
    /// Why nothing is updated any more.
    pub lost: Option<String>,
}

impl View {
    /// For this server, without data yet.
    pub fn new(from: String) -> View {
        View { from, ..View::default() }
    }

    /// Applies news.
    pub fn take(&mut self, news: News) {
        match news {
            News::Second(mut second) => {
                self.lost = None;
                let back_ms = self.last().map_or(0, |last| (last.wall_ms + 1).saturating_sub(second.wall_ms));
                match back_ms {
                    0 => {}
                    // A restarted server sends its last minutes again.
                    _ if back_ms <= HISTORY_MAX as u64 * 1_000 => return,
                    // Its clock was set back.
                    _ => self.seconds.clear(),
                }
                if let Some(before) = self.last() {
                    second.stands_still_since(before);
                }
                if self.seconds.len() == HISTORY_MAX {
                    self.seconds.pop_front();
                }
                self.seconds.push_back(*second);
            }
            News::State(status, wrong) => (self.status, self.wrong) = (Some(status), wrong),
            News::Busiest(busiest) => {
                self.uncounted = None;
                self.busiest = busiest.or(self.busiest.take());
            }
            News::Uncounted(why) => self.uncounted = Some(why),
            News::Lost(why) => self.lost = Some(why),
        }
    }

    /// The last second.
    pub fn last(&self) -> Option<&Second> {
        self.seconds.back()
    }

    /// Whether there is something of each kind.
    pub fn is_whole(&self) -> bool {
        self.status.is_some() && self.busiest.is_some() && !self.seconds.is_empty()
    }

    /// As an object for scripts.
    pub fn json(&self) -> serde_json::Value {
        let status = self.status.as_deref();
        serde_json::json!({
            "from": self.from,
            "version": status.map(|status| &status.version),
            "domain": status.map(|status| &status.domain),
            "uptime_s": status.map(|status| status.uptime_s),
            "connections": status.map(|status| status.connections),
            "sessions": status.map(|status| status.sessions),
            "resumable": status.map(|status| status.resumable),
            "wrong": self.wrong,
            "second": self.last(),
            "busiest": self.busiest,
        })
    }
}
