//! Conversations when all is calm: what each device of a user is shown of them, live, after having been away, and by the archive; and
//! two of whom one blocks the other.

use throng_engine::settings::BareDelivery;
use throng_engine::store::Table;
use throng_engine::store::archive::{entries, is_void, number_of};

use super::Run;
use crate::client::{Received, numbers};
use crate::world::Plant;

/// Time for all that follows from a message, a presence or a request.
const SETTLE_US: u64 = 500_000;

impl Run {
    /// Everybody writes to everybody, first while all devices of one user are away, then with all of them there.
    pub(super) fn converse(&mut self) -> Result<(), String> {
        if self.users.len() < 2 {
            return Ok(());
        }
        let first = self.ledger.sent.len() as u64;
        self.away = Some(0);
        for client in self.clients.iter_mut().filter(|client| client.user == 0) {
            client.leave();
        }
        self.flush_all();
        self.until(self.world.now_us() + 1_000_000)?;
        self.everybody_writes(Some(0))?;
        self.away = None;
        self.until(self.world.now_us() + 2_000_000)?;
        self.appear();
        self.until(self.world.now_us() + 2_000_000)?;
        let together = self.ledger.sent.len() as u64;
        self.everybody_writes(None)?;
        self.until(self.world.now_us() + 2_000_000)?;
        self.check_views(first, together)
    }

    /// Each client writes twice at once to each other user, and once to one of that user's devices.
    fn everybody_writes(&mut self, but: Option<usize>) -> Result<(), String> {
        for index in 0..self.clients.len() {
            let own = self.clients[index].user;
            if Some(own) == but {
                continue;
            }
            for user in (0..self.users.len()).filter(|user| *user != own) {
                let device = self.clients.iter().find(|client| client.user == user).map(|client| client.full());
                let bare = || (user, self.users[user].clone());
                let to = [bare(), bare(), (user, device.unwrap_or_default())];
                for to in to.into_iter().take(if Some(user) == but { 2 } else { 3 }) {
                    self.send_numbered(index, to, ("chat", true), "");
                }
                self.flush(index);
                self.until(self.world.now_us() + 20_000)?;
            }
        }
        self.until(self.world.now_us() + SETTLE_US)
    }

    /// Numbers of the messages in a user's archive, from one on, in its order. What was refused is not among them.
    fn archived(&self, user: &str, first: u64) -> Result<Vec<u64>, String> {
        let (mut void, mut all) = (Vec::new(), Vec::new());
        for (sort, row) in self.world.disk.rows_of(Table::Archive, user) {
            if is_void(row) {
                void.extend(number_of(sort));
            }
            for (number, entry) in entries(sort, row).ok_or("an archive row cannot be read")? {
                let n = numbers(entry.xml).first().copied().unwrap_or(u64::MAX);
                if n >= first && n != u64::MAX && !void.contains(&number) {
                    all.push(n);
                }
            }
        }
        Ok(all)
    }

    /// Each device has seen what is in the archive of its user, in that order, but for what it has sent itself: all of it if it was there all
    /// the time, from `together` on if it was away, and before that a part of it, because another device of the user may have
    /// received the rest.
    fn check_views(&self, first: u64, together: u64) -> Result<(), String> {
        let settings = self.world.settings();
        let narrow = settings.outbound_bytes_soft < 2_000 || settings.unacked_max < 8;
        if !settings.archive
            || settings.retention_s > 0
            || settings.bare_delivery != BareDelivery::All
            || narrow
            || self.refusals
        {
            return Ok(());
        }
        for (index, client) in self.clients.iter().enumerate() {
            let own = |n: &u64| self.ledger.sent[*n as usize].client == index;
            let archive: Vec<u64> = self.archived(&client.bare, first)?.into_iter().filter(|n| !own(n)).collect();
            let view: Vec<u64> = client.view.iter().copied().filter(|n| *n >= first).collect();
            let since = if client.user == 0 { together } else { first };
            let from = |all: &[u64], since: u64| all.iter().copied().filter(|n| *n >= since).collect::<Vec<_>>();
            let mut rest = archive.iter();
            let in_order = view.iter().all(|n| rest.any(|other| other == n));
            if !in_order || from(&view, since) != from(&archive, since) {
                let full = client.full();
                return Err(format!("{full} was shown {view:?} of a conversation, but there are {archive:?}"));
            }
        }
        Ok(())
    }

    /// The second user blocks the first one: both write, show themselves and publish, and neither hears of the other.
    pub(super) fn block(&mut self) -> Result<(), String> {
        let Some(blocks) = self.clients.iter().position(|client| client.user == 1) else { return Ok(()) };
        let meant = self.users[0].clone();
        let jid = if self.world.plant == Some(Plant::Unblocked) { "nobody@localhost" } else { &meant };
        self.clients[blocks].block(jid, true);
        self.flush(blocks);
        self.until(self.world.now_us() + SETTLE_US)?;
        self.blocked = Some((self.ledger.sent.len() as u64, 0, 1));
        for index in 0..self.clients.len() {
            let Some(other) = [1, 0].get(self.clients[index].user).copied() else { continue };
            self.send_numbered(index, (other, self.users[other].clone()), ("chat", true), "");
            self.clients[index].show_interest();
            self.flush(index);
        }
        self.clients[blocks].publish("c");
        self.flush(blocks);
        self.until(self.world.now_us() + SETTLE_US)?;
        for client in self.clients.iter().filter(|client| client.user == 0) {
            let full = client.full();
            if let Some((seen, ())) =
                client.seen.iter().find(|(jid, ())| jid.split('/').next() == Some(&*self.users[1]))
            {
                return Err(format!("{full} sees {seen}, who has blocked it"));
            }
            if client.events.contains_key(&(self.users[1].clone(), "c".to_owned())) {
                return Err(format!("{full} was told of an item of who has blocked it"));
            }
        }
        self.blocked = None;
        self.clients[blocks].block(jid, false);
        self.flush(blocks);
        self.until(self.world.now_us() + SETTLE_US)
    }

    /// Whether a message that has come may pass between its sender and its receiver.
    pub(super) fn passes(&self, index: usize, message: &Received) -> Result<(), String> {
        let Some((first, one, other)) = self.blocked.filter(|(first, ..)| message.number >= *first) else {
            return Ok(());
        };
        let (sender, receiver) = (&message.from, self.clients[index].user);
        if [(one, other), (other, one)].iter().any(|(a, b)| *sender == self.users[*a] && receiver == *b) {
            let full = self.clients[index].full();
            return Err(format!(
                "message {} of {sender} came to {full} from {first} on, although one has blocked the other",
                message.number
            ));
        }
        Ok(())
    }
}
