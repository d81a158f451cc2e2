//! Two users, one of which blocks the other (XEP-0191): whatever they try, neither receives
//! anything from the other.

use super::Run;
use super::talk::SETTLE_US;
use crate::client::Received;
use crate::world::Plant;

/// A way to reach the other user.
#[derive(Clone, Copy, Debug)]
enum Try {
    Message,
    Presence,
    Subscription,
    Request,
    Publication,
}

/// All ways, each with the fault that lets it through.
const TRIES: [(Try, Plant); 5] = [
    (Try::Message, Plant::UnblockedMessages),
    (Try::Presence, Plant::UnblockedPresence),
    (Try::Subscription, Plant::UnblockedSubscriptions),
    (Try::Request, Plant::UnblockedRequests),
    (Try::Publication, Plant::UnblockedItems),
];

/// Number of requests in a [`Try::Request`].
const REQUESTS: usize = 2;

impl Run {
    /// The second user blocks the first one for a while.
    pub(super) fn block(&mut self) -> Result<(), String> {
        let Some(blocks) = self.clients.iter().position(|client| client.user == 1) else { return Ok(()) };
        let plant = self.world.plant;
        let jid = if plant == Some(Plant::Unblocked) { "nobody@localhost" } else { &self.users[0] }.to_owned();
        self.set_block(blocks, &jid, true)?;
        self.blocked = self.ledger.sent.len() as u64..u64::MAX;
        for client in self.clients.iter_mut().filter(|client| client.user < 2) {
            client.heard = Some(Vec::new());
        }
        for (what, fault) in TRIES {
            let gets_through = plant == Some(fault);
            if gets_through {
                self.settle(SETTLE_US)?;
                self.set_block(blocks, &jid, false)?;
            }
            for index in (0..self.clients.len()).filter(|index| self.clients[*index].user < 2).collect::<Vec<_>>() {
                self.try_to_reach(index, what);
                self.flush(index);
            }
            if gets_through {
                self.settle(SETTLE_US)?;
                self.set_block(blocks, &jid, true)?;
            }
        }
        self.settle(SETTLE_US)?;
        self.blocked.end = self.ledger.sent.len() as u64;
        for index in 0..self.clients.len() {
            self.check_silence(index)?;
        }
        self.set_block(blocks, &jid, false)
    }

    fn set_block(&mut self, blocks: usize, jid: &str, on: bool) -> Result<(), String> {
        self.clients[blocks].block(jid, on);
        self.flush(blocks);
        self.settle(SETTLE_US)
    }

    fn try_to_reach(&mut self, index: usize, what: Try) {
        let other = 1 - self.clients[index].user;
        let bare = self.users[other].clone();
        let device = self.clients.iter().find(|client| client.user == other);
        let full = device.map_or_else(|| bare.clone(), |client| client.full());
        let client = &mut self.clients[index];
        match what {
            Try::Message => {
                for to in [bare, full] {
                    self.send_numbered(index, (other, to), ("chat", true), "");
                }
            }
            Try::Presence => {
                client.show_interest();
                client.show_to(&full);
            }
            Try::Subscription => client.subscribe(&bare),
            Try::Request => client.ask_other(&full, &bare),
            Try::Publication => client.publish("c"),
        }
    }

    /// A client has received nothing but errors from the other. Each request was answered: the
    /// blocked user gets the answer of an absent user, and the blocking user the reason (XEP-0191
    /// 3.3).
    fn check_silence(&mut self, index: usize) -> Result<(), String> {
        let client = &mut self.clients[index];
        let Some(heard) = client.heard.take() else { return Ok(()) };
        let (full, other) = (client.full(), &self.users[1 - client.user]);
        let (errors, others): (Vec<_>, Vec<_>) =
            heard.iter().filter(|heard| heard.from == *other).partition(|heard| heard.error.is_some());
        if !others.is_empty() {
            let others: Vec<String> = others.iter().map(|heard| heard.to_string()).collect();
            return Err(format!("{full} has heard {}, although one has blocked the other", others.join(", ")));
        }
        let condition = if client.user == 0 { "service-unavailable" } else { "not-acceptable" };
        let answers = errors.iter().filter(|heard| heard.name == "iq");
        let answers: Vec<&str> = answers.filter_map(|heard| heard.error.as_deref()).collect();
        if answers != [condition; REQUESTS] {
            return Err(format!("{full} was answered {answers:?} by {other}, one of whom has blocked the other"));
        }
        if let Some(seen) = client.seen.keys().find(|jid| client.user == 0 && jid.split('/').next() == Some(other)) {
            return Err(format!("{full} sees {seen}, who has blocked it"));
        }
        Ok(())
    }

    /// Whether a received message may pass between its sender and its receiver.
    pub(super) fn passes(&self, index: usize, message: &Received) -> Result<(), String> {
        if !self.blocked.contains(&message.number) {
            return Ok(());
        }
        let (number, full) = (message.number, self.clients[index].full());
        Err(format!("message {number} of {} came to {full}, although one has blocked the other", message.from))
    }

    /// Nor has a device of the receiver received a copy (XEP-0280).
    pub(super) fn check_copies(&self) -> Result<(), String> {
        for client in &self.clients {
            let to_it = |n: &&u64| self.ledger.sent[**n as usize].to_user == client.user;
            if let Some(number) = client.view.iter().filter(|n| self.blocked.contains(n)).find(to_it) {
                let full = client.full();
                return Err(format!("{full} has a copy of message {number}, although one has blocked the other"));
            }
        }
        Ok(())
    }
}
