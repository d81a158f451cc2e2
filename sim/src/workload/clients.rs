//! The clients' actions, and the ledger entries for what they receive.

use std::collections::BTreeMap;

use super::{Follows, MEND, Run};
use crate::checks::Sent;
use crate::client::{Client, News, Phase, Received};

/// Recent messages that may be retracted.
const LATE: usize = 40;

impl Run {
    pub(super) fn flush(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if let Some(socket) = client.socket
            && !client.out.is_empty()
        {
            let bytes = std::mem::take(&mut client.out);
            self.say(index, ">", &bytes);
            self.world.write(socket, &bytes);
        }
    }

    pub(super) fn flush_all(&mut self) {
        for index in 0..self.clients.len() {
            self.flush(index);
        }
    }

    fn connect(&mut self, index: usize) {
        let socket = self.world.connect();
        self.owners.insert(socket, index);
        self.clients[index].connected(socket);
        self.flush(index);
    }

    /// A client abandons its connection, which stays open for a while or is closed at once.
    fn let_go(&mut self, index: usize, linger: bool) {
        let Some(socket) = self.clients[index].socket else { return };
        let managed = self.clients[index].management.as_ref().is_some_and(|m| !m.previd.is_empty());
        if !managed {
            self.world.mark(socket);
        }
        if linger && managed {
            let later = self.random.range(1_000, 3_000_000);
            self.world.timer(later, MEND + socket.0 as u64);
            self.world.stall(socket, false);
        } else {
            self.world.abort(socket);
            self.note_lost();
        }
        self.owners.remove(&socket);
        self.gone(index);
    }

    /// One action of a client.
    pub(super) fn act(&mut self, index: usize) {
        let next = if self.calm { 300_000 } else { self.random.range(5_000, 250_000) };
        self.world.timer(next, index as u64);
        match self.clients[index].phase {
            Phase::Offline if self.away == Some(self.clients[index].user) => return,
            Phase::Offline if self.calm || self.random.chance(300) => return self.connect(index),
            Phase::Online if !self.calm => {}
            Phase::Opening | Phase::Resuming | Phase::Binding if self.random.chance(self.faults.abort) => {
                return self.let_go(index, true);
            }
            _ => return,
        }
        let faults = self.faults.clone();
        if self.random.chance(faults.abort) {
            let linger = self.random.chance(500);
            return self.let_go(index, linger);
        }
        if self.random.chance(faults.duplicate)
            && self.clients[index].management.as_ref().is_some_and(|m| !m.previd.is_empty())
        {
            self.let_go(index, true);
            return self.connect(index);
        }
        if self.random.chance(faults.stall)
            && let Some(socket) = self.clients[index].socket
        {
            self.world.stall(socket, true);
        } else if self.random.chance(300)
            && let Some(socket) = self.clients[index].socket
        {
            self.world.stall(socket, false);
        }
        if self.random.chance(faults.lazy) {
            self.clients[index].prompt ^= true;
        }
        if self.clients[index].management.as_ref().is_some_and(|m| m.owes) && self.random.chance(300) {
            self.clients[index].answer();
        }
        self.say_something(index);
        self.flush(index);
    }

    fn say_something(&mut self, index: usize) {
        let what = self.random.below(100);
        let client = &self.clients[index];
        let contact = self.random.index(self.users.len());
        let jid = self.users[contact].clone();
        match what {
            0..50 => {
                let burst = if self.random.chance(50) { self.random.range(2, 20) } else { 1 };
                for _ in 0..burst {
                    self.send_message(index);
                }
                if self.random.chance(500) {
                    self.clients[index].ask();
                }
            }
            50..58 => {
                let priority = if self.random.chance(100) { -1 } else { self.random.below(3) as i8 };
                if priority < 0 {
                    self.ordered_from[index] = u64::MAX;
                    self.follows[index].barred = true;
                }
                self.clients[index].show(priority);
            }
            58..60 if client.available => {
                self.ordered_from[index] = u64::MAX;
                self.follows[index] = Follows { barred: self.follows[index].barred, ..Follows::default() };
                self.clients[index].available = false;
                self.clients[index].seen.clear();
                self.clients[index].stanza("<presence type='unavailable'/>".into(), None);
            }
            60..66 if contact != client.user => {
                let (id, name) = (self.clients[index].next_id(), self.random.below(5));
                let set = format!(
                    "<iq type='set' id='s{id}'><query xmlns='jabber:iq:roster'><item jid='{jid}' name='n{name}'/></query></iq>"
                );
                self.clients[index].stanza(set, None);
            }
            66..69 if contact != client.user => {
                let id = self.clients[index].next_id();
                let set = format!(
                    "<iq type='set' id='d{id}'><query xmlns='jabber:iq:roster'><item jid='{jid}' subscription='remove'/></query></iq>"
                );
                self.clients[index].stanza(set, None);
            }
            69..88 if contact != client.user => {
                let kind = match self.random.below(10) {
                    0..4 => "subscribe",
                    4..8 => "subscribed",
                    8 => "unsubscribe",
                    _ => "unsubscribed",
                };
                self.clients[index].stanza(format!("<presence to='{jid}' type='{kind}'/>"), None);
            }
            88..90 if self.clients[index].roster.is_none() => self.clients[index].get_roster(),
            90..95 => self.clients[index].ask(),
            95..98 => self.clients[index].leave(),
            98.. if self.world.settings().archive => {
                self.clients[index].glance(contact.is_multiple_of(2).then_some(&jid), contact as u64 * 30, what == 98);
            }
            _ => {}
        }
    }

    fn send_message(&mut self, index: usize) {
        let to_user = self.random.index(self.users.len());
        let bare = self.users[to_user].clone();
        let (kind, kept, to) = match self.random.below(20) {
            0 => ("headline", false, bare),
            1..4 => ("normal", true, bare),
            4..9 => {
                let others: Vec<&Client> = self.clients.iter().filter(|c| c.user == to_user).collect();
                let full = others[self.random.index(others.len())].full();
                ("chat", true, full)
            }
            _ => ("chat", true, bare),
        };
        let padding =
            if self.random.chance(50) { "x".repeat(self.random.below(3_000) as usize) } else { String::new() };
        self.send_numbered(index, (to_user, to), (kind, kept), &padding);
    }

    /// A client sends a message with the next number, which may be stored, to an address of a user.
    pub(super) fn send_numbered(
        &mut self,
        index: usize,
        (to_user, to): (usize, String),
        (kind, kept): (&str, bool),
        padding: &str,
    ) {
        let number = self.ledger.sent.len() as u64;
        let retracts = self.choose_to_retract(index, to_user);
        let client = &mut self.clients[index];
        let bytes = client.message_to(&to, kind, number, retracts, padding);
        self.ledger.sent.push(Sent {
            client: index,
            session: self.sessions[index],
            from: client.bare.clone(),
            to_user,
            to,
            kept,
            retracts,
            bytes,
            acked: false,
            refused: false,
            delivered: false,
            excused: false,
            volatile: false,
            again: false,
        });
    }

    /// Chooses the message that the next one retracts, if any: usually one from the sender to the
    /// same user, otherwise any recent one.
    fn choose_to_retract(&mut self, index: usize, to_user: usize) -> Option<u64> {
        if !self.retracting.chance(120) {
            return None;
        }
        let own = self.retracting.chance(600).then_some(&self.clients[index].bare);
        let late = self.ledger.sent.iter().enumerate().rev().take(LATE);
        let fitting = late.filter(|(_, s)| own.is_none_or(|own| s.from == *own && s.to_user == to_user));
        let fitting: Vec<u64> = fitting.map(|(n, _)| n as u64).collect();
        fitting.get(self.retracting.index(fitting.len())).copied()
    }

    pub(super) fn news(&mut self, index: usize) -> Result<(), String> {
        for news in std::mem::take(&mut self.clients[index].news) {
            match news {
                News::Message(message) => {
                    let user = self.clients[index].user;
                    // A message to a full JID from before its session existed waits until the
                    // session is available, while a new one does not.
                    let exact = message.to.contains('/');
                    let from = self.ordered_from[index].max(if exact { self.first[index] } else { 0 });
                    self.ledger.received(user, self.sessions[index], &message, from)?;
                    self.followed(index, &message)?;
                    self.passes(index, &message)?;
                }
                News::Refused(number) => self.ledger.sent[number as usize].refused = true,
                News::Acked(numbers) => self.ledger.acked(&numbers),
                News::Bound => {
                    self.sessions_made += 1;
                    self.sessions[index] = self.sessions_made;
                    self.first[index] = self.ledger.sent.len() as u64;
                    self.follows[index] = Follows::default();
                    let user = self.clients[index].user;
                    let alone = self.clients.iter().filter(|c| c.user == user).count() == 1;
                    self.ordered_from[index] = match (alone, self.ledger.strict) {
                        (_, true) => 0,
                        (true, false) => self.ledger.sent.len() as u64,
                        (false, false) => u64::MAX,
                    };
                    if self.calm || self.random.chance(800) {
                        self.clients[index].get_roster();
                        self.clients[index].show(0);
                    }
                }
                News::Resumed => self.summary.resumed += 1,
                News::NotResumed => {}
                News::Asked(from) => {
                    if !self.calm && self.random.chance(700) {
                        self.clients[index].stanza(format!("<presence to='{from}' type='subscribed'/>"), None);
                    }
                }
                News::Roster(known) => self.compare_roster(index, known.as_ref())?,
                News::Wrong(what) => return Err(what),
            }
        }
        Ok(())
    }

    /// Messages to all sessions of a user reach each in the order of the user's log.
    fn followed(&mut self, index: usize, message: &Received) -> Result<(), String> {
        let Some(number) = message.stanza_id.filter(|_| !message.to.contains('/')) else { return Ok(()) };
        let follows = &mut self.follows[index];
        if follows.barred || !message.seen {
            return Ok(());
        }
        if number <= follows.last {
            let (last, full) = (follows.last, self.clients[index].full());
            return Err(format!("entry {number} came to {full} after {last}"));
        }
        follows.last = number;
        follows.since.get_or_insert(number);
        Ok(())
    }

    /// Roster pushes leave a client with the state of the store (RFC 6121 2.1.6).
    fn compare_roster(&mut self, index: usize, known: Option<&BTreeMap<String, String>>) -> Result<(), String> {
        if !self.comparing {
            return Ok(());
        }
        self.compared += 1;
        let client = &self.clients[index];
        match (known, &client.roster) {
            (Some(known), Some(now)) if known != now => {
                Err(format!("{} was told of roster {known:?}, but it is {now:?}", client.full()))
            }
            _ => Ok(()),
        }
    }
}
