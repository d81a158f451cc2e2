//! What is known of a server at a moment, and in the last minutes.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use throng_recorder::sar::Moment;

use crate::admin::{BusySession, Status};

/// Seconds of history that are kept.
pub const HISTORY_MAX: usize = 600;

/// What is asked of the recording: modules in this order.
pub const PICK: [&str; 4] = [
    "shard.turns,connections,sessions,sessions_available,messages_live,stanzas_in,stanzas_out,bytes_in,bytes_out,outbound_bytes,\
     gate_waiting,letters_kept,reads_pending,jobs_pending,parked,notify_channels,notify_polls,notify_events,notify_sockets,\
     notify_waiting,notify_published,notify_told,notify_gaps,notify_behind,notify_publish_refused,notify_subscribe_refused,\
     websockets,bosh_sessions,bosh_waiting",
    "thread.cpu,wait",
    "queue.length,in10,out10,delay",
    "process.rss",
];

/// Fields of a shard that are levels of queues, in the order of [`PICK`].
const WAITING: [usize; 5] = [10, 11, 12, 13, 14];

/// A sentence about what is wrong.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Wrong {
    /// `bad` or `warn`.
    pub weight: String,
    /// What it is about.
    pub what: String,
    /// The sentence.
    pub text: String,
}

/// Where in [`PICK`] what clients by HTTP do begins, in the order of [`Web`].
const WEB: usize = 15;

/// What clients by HTTP do at one shard in a second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Web {
    /// Channels of this home for whose items some wait.
    pub channels: f64,
    /// Long polls that wait for items.
    pub polls: f64,
    /// Streams of events, those of Mercure included.
    pub events: f64,
    /// WebSockets of channels.
    pub sockets: f64,
    /// All requests at channels that wait, publications included.
    pub waiting: f64,
    /// Items published a second.
    pub published: f64,
    /// Items handed to subscribers a second, each to each.
    pub told: f64,
    /// Times a second that a subscriber was told that it has missed items.
    pub gaps: f64,
    /// Times a second that one fell behind because it takes items too slowly.
    pub behind: f64,
    /// Publications refused a second.
    pub publish_refused: f64,
    /// Subscriptions refused a second.
    pub subscribe_refused: f64,
    /// WebSockets of XMPP.
    pub websockets: f64,
    /// Sessions of BOSH.
    pub bosh: f64,
    /// Requests that these keep waiting.
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
            // The gauge counts those of channels, too.
            websockets: (is(11) - is(3)).max(0.0),
            bosh: is(12),
            bosh_waiting: is(13),
        }
    }

    /// Whether anything goes on.
    pub fn any(&self) -> bool {
        *self != Web::default()
    }
}

/// One shard in a second.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Shard {
    /// Its number.
    pub shard: String,
    /// Of one core: it ran, %.
    pub cpu: Option<f64>,
    /// It could have run, and had no core, %.
    pub wait: Option<f64>,
    /// Turns a second.
    pub turns: f64,
    /// Seconds for which it has not turned; it turns four times a second if it has nothing to do.
    pub still_s: f64,
    /// Connections held.
    pub connections: f64,
    /// Sessions, resumable ones included.
    pub sessions: f64,
    /// Of these, available ones.
    pub available: f64,
    /// Messages a second that were handed to sessions.
    pub messages: f64,
    /// Stanzas a second from clients.
    pub stanzas_in: f64,
    /// Stanzas a second to clients.
    pub stanzas_out: f64,
    /// KiB a second from clients.
    pub kib_in: f64,
    /// KiB a second to clients.
    pub kib_out: f64,
    /// KiB that wait for clients to take them.
    pub outbound_kib: f64,
    /// Things in its other queues: for the disk, for other shards, reads, jobs, stanzas that wait for users.
    pub waiting: f64,
    /// What clients by HTTP do.
    pub web: Web,
}

/// A kind of queue in a second, of all shards.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Queue {
    /// Its kind.
    pub queue: String,
    /// What waits; `outbound` in bytes.
    pub length: f64,
    /// What comes in a second, mean of ten.
    pub rate_in: Option<f64>,
    /// What goes out.
    pub rate_out: Option<f64>,
    /// Time that what comes now waits where it is longest, ms.
    pub delay_ms: Option<f64>,
}

impl Queue {
    /// Seconds until it is empty at these rates; none if it grows, or stands.
    pub fn drains_in_s(&self) -> Option<f64> {
        let falls = self.rate_out? - self.rate_in?;
        (falls > 0.0).then(|| self.length / falls)
    }
}

/// A second.
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
    /// From what the recording tells of it, in the order of [`PICK`].
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

    /// Of all shards.
    pub fn sum(&self, of: impl Fn(&Shard) -> f64) -> f64 {
        self.shards.iter().map(of).sum()
    }

    /// The busiest shard's CPU, %.
    pub fn cpu_max(&self) -> Option<f64> {
        self.shards.iter().filter_map(|shard| shard.cpu).fold(None, |most, cpu| Some(cpu.max(most.unwrap_or(cpu))))
    }
}

/// What the source tells.
#[derive(Debug)]
pub enum News {
    /// A second has passed.
    Second(Box<Second>),
    /// The state, and what is wrong.
    State(Box<Status>, Vec<Wrong>),
    /// The busiest sessions; none while counting has only begun.
    Busiest(Option<Vec<BusySession>>),
    /// The busiest sessions cannot be asked for now; why.
    Uncounted(String),
    /// There is no way to the server now; why.
    Lost(String),
}

/// Everything that is known.
#[derive(Debug, Default)]
pub struct View {
    /// Where from.
    pub from: String,
    /// The state, once it is known.
    pub status: Option<Box<Status>>,
    /// What is wrong.
    pub wrong: Vec<Wrong>,
    /// The last minutes, the oldest second first; at most [`HISTORY_MAX`].
    pub seconds: VecDeque<Second>,
    /// The busiest sessions, once they are known.
    pub busiest: Option<Vec<BusySession>>,
    /// Why these do not come any more.
    pub uncounted: Option<String>,
    /// Why nothing comes any more.
    pub lost: Option<String>,
}

impl View {
    /// Of this server, nothing yet.
    pub fn new(from: String) -> View {
        View { from, ..View::default() }
    }

    /// Takes news in.
    pub fn take(&mut self, news: News) {
        match news {
            News::Second(mut second) => {
                self.lost = None;
                let back_ms = self.last().map_or(0, |last| (last.wall_ms + 1).saturating_sub(second.wall_ms));
                match back_ms {
                    0 => {}
                    // A server that was started anew tells its last minutes again.
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
