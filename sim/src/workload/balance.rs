//! Invariants: the bounds of a shard at all times, and the final checks.

use std::collections::BTreeMap;

use throng_engine::settings::BareDelivery;
use throng_engine::store::Table;
use throng_engine::store::archive::entries;
use throng_engine::store::roster::ItemView;
use throng_engine::store::waiting::{self, Cursor};

use super::{ITEMS, Run};
use crate::client::{Client, PUBSUB, Phase, numbers};

impl Run {
    /// Every bound of a shard (`limits`, `settings`).
    pub(super) fn inspect(&self, shard: throng_engine::id::ShardId) -> Result<(), String> {
        let (settings, seen) = (self.world.settings(), self.world.shard(shard).inspect());
        let page = 200 << 10;
        let bounds = [
            ("outbound bytes", seen.outbound_bytes, settings.outbound_bytes_max + page),
            ("unacknowledged bytes", seen.unacked_bytes, 2 * settings.outbound_bytes_max + page),
            ("stanzas parked", seen.parked, throng_engine::limits::PARKED_STANZAS_MAX),
            ("roster steps waiting", seen.roster_waits, throng_engine::limits::PARKED_STANZAS_MAX + 64),
            ("effects at the gate", self.world.gate(shard).0, 20_000),
        ];
        for (what, is, most) in bounds {
            if is > most {
                return Err(format!("{what} on shard {shard}: {is} of {most}"));
            }
        }
        self.world.check_written(shard)?;
        crate::checks::counters(self.world.shard(shard))
    }

    pub(super) fn balance(&self) -> Result<(), String> {
        for client in &self.clients {
            if client.phase != Phase::Online {
                return Err(format!("{} is {:?} at the end", client.full(), client.phase));
            }
            if let Some(m) = client.management.as_ref().filter(|m| !m.unacked.is_empty()) {
                return Err(format!(
                    "{} waits for {} acknowledgements: {}",
                    client.full(),
                    m.unacked.len(),
                    String::from_utf8_lossy(&m.unacked[0].0)
                ));
            }
        }
        if self.compared < self.clients.len() {
            return Err(format!("{} of {} rosters came", self.compared, self.clients.len()));
        }
        self.check_messages()?;
        self.check_copies()?;
        self.check_quotas()?;
        self.check_archive()?;
        self.check_looks()?;
        self.check_devices()?;
        self.check_rosters()?;
        self.check_presence()?;
        self.check_events()?;
        self.check_waiting()
    }

    fn check_messages(&self) -> Result<(), String> {
        let missing = self.ledger.missing();
        // If messages may be refused, the sender may have disconnected before the error.
        let unheard = |n: &u64| {
            self.refusals
                && self.sessions[self.ledger.sent[*n as usize].client] != self.ledger.sent[*n as usize].session
        };
        let missing: Vec<u64> = missing.into_iter().filter(|n| !unheard(n)).collect();
        match missing.first() {
            None => Ok(()),
            Some(&n) => {
                let s = &self.ledger.sent[n as usize];
                Err(format!("acknowledged messages are lost: {missing:?}; the first went from {} to {}", s.from, s.to))
            }
        }
    }

    /// No account has put more messages or bytes into logs than allowed. A process does not live
    /// long enough for a day's quota to grow by one message, or a hundredth of the bytes, and does
    /// not know that of the previous process.
    fn check_quotas(&self) -> Result<(), String> {
        let lives = 1 + self.summary.crashes;
        for from in &self.users {
            let accepted = || self.ledger.sent.iter().filter(|s| s.kept && s.delivered && s.from == *from);
            let bytes: u64 = accepted().map(|sent| sent.bytes).sum();
            for (what, is, quota, grows) in [
                ("messages", accepted().count() as u64, self.quota, 0),
                ("bytes", bytes, self.quota_bytes, self.quota_bytes / 100),
            ] {
                let most = lives * (quota + grows);
                if quota > 0 && is > most {
                    return Err(format!("{from} is over its quota: {is} {what}, {most} are allowed"));
                }
            }
        }
        Ok(())
    }

    /// Each session that accepts messages to the bare JID has received every one in the user's log
    /// since its first.
    fn check_devices(&self) -> Result<(), String> {
        let settings = self.world.settings();
        if !settings.archive || settings.retention_s > 0 || settings.bare_delivery != BareDelivery::All {
            return Ok(());
        }
        for (index, client) in self.clients.iter().enumerate() {
            let Some(since) = self.follows[index].since.filter(|_| !self.follows[index].barred) else { continue };
            for (sort, row) in self.world.disk.rows_of(Table::Archive, &client.bare) {
                let entries = entries(sort, row).ok_or("an archive row cannot be read")?;
                let waits = entries.into_iter().filter(|(number, entry)| *number >= since && entry.waits);
                for (number, entry) in waits {
                    let n = numbers(entry.xml).first().copied().unwrap_or(u64::MAX);
                    let bare = self.ledger.sent.get(n as usize).is_some_and(|sent| !sent.to.contains('/'));
                    if bare && !self.ledger.has(self.sessions[index], n) {
                        let full = client.full();
                        return Err(format!("{full} has not got message {n}, entry {number}, and has {since}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// A contact's `from` is the user's `to` (RFC 6121 3, Appendix A).
    fn check_rosters(&self) -> Result<(), String> {
        let mut states = BTreeMap::new();
        for (index, user) in self.users.iter().enumerate() {
            let bare = user;
            for (contact, row) in self.world.disk.rows_of(Table::Roster, bare).filter(|(sort, _)| !sort.is_empty()) {
                let item = ItemView::decode(row).ok_or("a roster row cannot be read")?;
                let state = throng_engine::extension::subscription::State::from_number(item.state)
                    .ok_or("a roster row has no state")?;
                states.insert((index, String::from_utf8_lossy(contact).into_owned()), state);
            }
        }
        let state = |user: usize, contact: usize| {
            let found = states.get(&(user, self.users[contact].clone()));
            found.map_or((false, false), |s| (s.to(), s.from()))
        };
        for user in 0..self.users.len() {
            for contact in (0..self.users.len()).filter(|&c| c != user) {
                let (to, from) = (state(user, contact).0, state(contact, user).1);
                if to != from {
                    let (u, c) = (&self.users[user], &self.users[contact]);
                    return Err(format!("{u} has to={to} for {c}, who has from={from} for {u}"));
                }
            }
        }
        Ok(())
    }

    /// Each user sees exactly the available resources of contacts and of the own account (RFC 6121
    /// 4).
    fn check_presence(&self) -> Result<(), String> {
        for client in &self.clients {
            let sees = |jid: &str| {
                let roster = client.roster.as_ref();
                roster.and_then(|r| r.get(jid)).is_some_and(|s| s.starts_with("to") || s.starts_with("both"))
            };
            let wanted: BTreeMap<String, ()> = self
                .clients
                .iter()
                .filter(|other| other.user == client.user || sees(&other.bare))
                .map(|other| (other.full(), ()))
                .collect();
            if wanted != client.seen {
                let (wanted, seen): (Vec<_>, Vec<_>) = (wanted.keys().collect(), client.seen.keys().collect());
                return Err(format!("{} sees {seen:?}, but there are {wanted:?}", client.full()));
            }
        }
        Ok(())
    }

    /// Each publication has reached, once, each session of the publisher and of the users that see
    /// the publisher's presence, and no others. A session with a low limit for unread output may
    /// miss some because of a single answer.
    fn check_events(&self) -> Result<(), String> {
        for client in &self.clients {
            self.told(client, PUBSUB, client.bare != self.users[0])?;
        }
        for publisher in &self.users {
            let owner = self.clients.iter().find(|client| client.bare == *publisher);
            let roster = owner.and_then(|client| client.roster.as_ref()).ok_or("no roster came")?;
            for client in &self.clients {
                let sees = roster.get(&client.bare).is_some_and(|s| s.starts_with("from") || s.starts_with("both"));
                let is_told = sees || client.bare == *publisher;
                self.told(client, publisher, is_told)?;
            }
        }
        Ok(())
    }

    /// A session was notified of each item as often as it was published, or not at all.
    fn told(&self, client: &Client, publisher: &str, is_told: bool) -> Result<(), String> {
        for item in ["a", "b"] {
            let published = ITEMS.iter().filter(|other| **other == item).count() as u32;
            let wanted = if is_told { published } else { 0 };
            let got = client.events.get(&(publisher.to_owned(), item.to_owned())).copied().unwrap_or(0);
            let settings = self.world.settings();
            let narrow = settings.outbound_bytes_soft < 2_000 || settings.unacked_max < 8;
            if got > wanted || (got < wanted && !narrow) {
                return Err(format!("{} was told {got} times of an item of {publisher}, not {wanted}", client.full()));
            }
        }
        Ok(())
    }

    /// All messages are delivered: the figures agree, no row is left, and without archive no
    /// message either.
    fn check_waiting(&self) -> Result<(), String> {
        for user in &self.users {
            let bare = user;
            let mut row = Cursor::default();
            for (sort, value) in self.world.disk.rows_of(Table::Waiting, bare) {
                if let Some(number) = waiting::number_of(sort) {
                    return Err(format!("{bare} has all messages, but {number} still waits"));
                }
                row = Cursor::decode(value).ok_or("the row of a cursor cannot be read")?;
            }
            if (row.count, row.bytes) != (0, 0) {
                return Err(format!(
                    "{bare} has all messages, but as waiting are counted {} of {} bytes",
                    row.count, row.bytes
                ));
            }
            let rows = self.world.disk.rows_of(Table::Archive, bare);
            let incoming: Vec<_> = rows
                .filter_map(|(sort, value)| entries(sort, value))
                .flatten()
                .filter(|(_, entry)| entry.incoming)
                .collect();
            if let Some((id, _)) = incoming.iter().rfind(|(id, entry)| entry.waits && *id > row.number) {
                return Err(format!("{bare} has all messages, but the cursor stands at {} before {id}", row.number));
            }
            if !self.world.settings().archive
                && let Some((id, _)) = incoming.first()
            {
                return Err(format!("{bare} keeps the delivered message {id} without archive"));
            }
        }
        Ok(())
    }
}
