//! Invariants: the ledger of all messages, and the errors when it does not balance.
//!
//! For every delivered message: its stated sender sent it to this user, it is new to this session,
//! its stanza-id is unique at this receiver, and it does not overtake others. At the end: no
//! acknowledged message is missing.

use std::collections::{BTreeMap, BTreeSet};

use throng_engine::counters::Counted;
use throng_engine::shard::Shard;

use crate::client::Received;

/// Checks the counters of a shard at the end of a turn: parts add up to their sum, levels match the
/// inspected state, and every connection that arrived is open, or has left or ended for a counted
/// reason.
///
/// # Errors
/// The mismatch.
pub fn counters(shard: &Shard) -> Result<(), String> {
    let list = shard.counters().list();
    let value = |name: &str| list.iter().find(|row| row.0 == name).map_or(u64::MAX, |row| row.3);
    let sum = |prefix: &str| list.iter().filter(|row| row.0.starts_with(prefix)).map(|row| row.3).sum::<u64>();
    let inside = shard.inspect();
    let phases = inside.phases;
    let parts = [
        ("connections by phase", sum("conns_"), value("connections")),
        ("connections that opened", value("conns_opening"), phases[0]),
        ("connections in TLS handshakes", value("conns_securing"), phases[1]),
        ("connections that authenticate", value("conns_authenticating"), phases[2]),
        ("authenticated connections", value("conns_authenticated"), phases[3]),
        ("bound connections", value("conns_bound"), phases[4]),
        ("closing connections", value("conns_closing"), phases[5]),
        ("departing connections", value("conns_departing"), phases[6]),
        ("connected sessions", value("sessions") - value("sessions_detached"), value("conns_bound")),
        ("bytes that wait for connections", value("outbound_bytes"), inside.outbound_bytes_all as u64),
        ("stanzas in", value("messages_in") + value("presences_in") + value("iqs_in"), value("stanzas_in")),
        ("stanzas out", value("messages_out") + value("presences_out") + value("iqs_out"), value("stanzas_out")),
        ("ends by reason", sum("closed_"), value("streams_closed")),
        (
            "connections that came",
            value("departed") + value("streams_closed") + value("connections") - value("conns_closing"),
            value("accepted") + value("arrived"),
        ),
    ];
    let wrong = parts.into_iter().find(|(_, is, should)| is != should);
    wrong.map_or(Ok(()), |(what, is, should)| Err(format!("{what} on shard {}: {is}, not {should}", shard.id())))
}

/// A message that was sent.
#[derive(Debug)]
pub struct Sent {
    /// Number of the sending client.
    pub client: usize,
    /// The sender's session, numbered over all sessions.
    pub session: u64,
    /// Whether it may be sent again: it is never stored, and was not acknowledged before a crash.
    pub again: bool,
    /// The sender's bare JID.
    pub from: String,
    /// The receiver's number.
    pub to_user: usize,
    /// The address.
    pub to: String,
    /// Whether it may wait for its receiver, so that an acknowledgement is a promise.
    pub kept: bool,
    /// The message that it retracts (XEP-0424), or tries to retract although it is from another
    /// user.
    pub retracts: Option<u64>,
    /// Its length when sent.
    pub bytes: u64,
    /// Whether the server has acknowledged it.
    pub acked: bool,
    /// Whether the server has returned it with an error.
    pub refused: bool,
    /// Whether it has reached a session of its receiver.
    pub delivered: bool,
    /// Whether bytes of it were lost without the server's knowledge, on a connection without stream
    /// management.
    pub excused: bool,
    /// Whether a crash may have lost it: it was not stored.
    pub volatile: bool,
}

/// The messages received by one session.
#[derive(Debug, Default)]
struct Inbox {
    seen: BTreeSet<u64>,
    /// Latest number by sender's session and address.
    latest: BTreeMap<(u64, String), u64>,
}

/// The ledger of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    /// All messages by number.
    pub sent: Vec<Sent>,
    stanza_ids: BTreeMap<(usize, u64), u64>,
    inboxes: BTreeMap<u64, Inbox>,
    /// Number of deliveries, over all sessions.
    pub deliveries: u64,
    /// Whether every message must arrive in order, acknowledged or not: a run without faults.
    pub strict: bool,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(strict: bool) -> Ledger {
        Ledger { strict, ..Ledger::default() }
    }

    /// Records a message received by a session of a user. Order is required from the message
    /// `ordered_from` on: the first one sent since the user has no other session that could have
    /// received and returned it.
    ///
    /// # Errors
    /// The violated invariant.
    pub fn received(&mut self, user: usize, session: u64, message: &Received, ordered_from: u64) -> Result<(), String> {
        let n = message.number;
        let Some(sent) = self.sent.get_mut(n as usize) else {
            return Err(format!("message {n} was never sent"));
        };
        if sent.to_user != user || sent.from != message.from || sent.to != message.to {
            return Err(format!(
                "message {n} of {} to {} came to user {user} as of {} to {}",
                sent.from, sent.to, message.from, message.to
            ));
        }
        sent.delivered = true;
        self.deliveries += 1;
        if let Some(id) = message.stanza_id {
            let known = *self.stanza_ids.entry((user, n)).or_insert(id);
            if known != id {
                return Err(format!("message {n} has stanza-id {known} and {id} at user {user}"));
            }
        }
        let inbox = self.inboxes.entry(session).or_default();
        // A message that is in no log and was not acknowledged before a crash is sent again by its
        // sender.
        if !inbox.seen.insert(n) && !sent.again {
            return Err(format!("message {n} was delivered twice to session {session} of user {user}"));
        }
        // Messages that are never stored overtake those that wait for a slow receiver. One that was
        // refused, and whose predecessors were not safe when the process died, is sent again by its
        // client, and may be accepted then.
        if n >= ordered_from && sent.kept && !sent.refused {
            let latest = inbox.latest.entry((sent.session, sent.to.clone())).or_default();
            if *latest > n {
                let to = &sent.to;
                return Err(format!(
                    "message {n} came after {latest} to session {session}, both from one session to {to}"
                ));
            }
            *latest = n;
        }
        Ok(())
    }

    /// Whether a session has received a message.
    pub fn has(&self, session: u64, n: u64) -> bool {
        self.inboxes.get(&session).is_some_and(|inbox| inbox.seen.contains(&n))
    }

    /// Records acknowledged messages.
    pub fn acked(&mut self, numbers: &[u64]) {
        for &n in numbers {
            self.sent[n as usize].acked = true;
        }
    }

    /// Records messages lost on the way to a client without stream management.
    pub fn excuse(&mut self, numbers: &[u64]) {
        for &n in numbers {
            if let Some(sent) = self.sent.get_mut(n as usize) {
                sent.excused = true;
            }
        }
    }

    /// The message that another one retracted, if that is valid: it is from the same sender to the
    /// same receiver (XEP-0424 5.1).
    pub fn retracted_by(&self, n: u64) -> Option<u64> {
        let retraction = self.sent.get(n as usize)?;
        let retracted = self.sent.get(retraction.retracts? as usize)?;
        let own = retracted.from == retraction.from && retracted.to_user == retraction.to_user;
        retraction.retracts.filter(|_| own)
    }

    /// Acknowledged messages that were not delivered, at the end of a run in which all users came
    /// online.
    pub fn missing(&self) -> Vec<u64> {
        let promised = |s: &Sent| (s.acked || self.strict) && s.kept && !s.refused && !s.excused && !s.volatile;
        let all = self.sent.iter().enumerate();
        all.filter(|(_, s)| promised(s) && !s.delivered).map(|(n, _)| n as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let sent = |n: u64| Sent {
            client: 0,
            session: 1,
            from: "a@x".into(),
            to_user: 1,
            to: "b@x".into(),
            kept: true,
            retracts: None,
            bytes: 0,
            acked: n != 2,
            refused: false,
            delivered: false,
            excused: false,
            volatile: false,
            again: false,
        };
        Ledger { sent: (0..3).map(sent).collect(), ..Ledger::default() }
    }

    fn message(number: u64, stanza_id: u64) -> Received {
        Received {
            number,
            from: "a@x".into(),
            to: "b@x".into(),
            stanza_id: Some(stanza_id),
            delayed: false,
            seen: true,
        }
    }

    #[test]
    fn the_ledger_sees_loss_doubles_order_and_ids() {
        let mut l = ledger();
        assert_eq!(l.missing(), [0, 1], "the third was not acknowledged");
        l.received(1, 7, &message(1, 11), 0).unwrap();
        assert!(l.received(1, 7, &message(1, 11), 0).is_err(), "twice to one session");
        l.received(1, 8, &message(1, 11), 0).unwrap();
        assert!(l.received(1, 9, &message(1, 12), 0).is_err(), "another id");
        assert!(l.received(1, 7, &message(0, 10), 0).is_err(), "overtaken");
        assert!(l.received(2, 5, &message(2, 1), 0).is_err(), "not his");
        assert!(l.received(1, 5, &message(3, 1), 0).is_err(), "never sent");
        assert!(l.missing().is_empty());
    }
}
