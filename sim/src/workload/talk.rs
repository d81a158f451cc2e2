//! Conversations in the calm period: what each device of a user receives of them, live, after an
//! absence, and from the archive.

use throng_engine::settings::BareDelivery;

use super::Run;

/// Time for all consequences of a message, a presence or a request.
pub(super) const SETTLE_US: u64 = 500_000;

impl Run {
    /// All users write to each other, first while all devices of one user are offline, then with
    /// all of them online.
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
        self.settle(1_000_000)?;
        self.everybody_writes(Some(0))?;
        self.away = None;
        self.settle(2_000_000)?;
        self.appear();
        self.settle(2_000_000)?;
        let together = self.ledger.sent.len() as u64;
        self.everybody_writes(None)?;
        self.settle(2_000_000)?;
        self.check_views(first, together)
    }

    /// Each client writes twice in succession to each other user, and once to one of that user's
    /// devices.
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
        self.settle(SETTLE_US)
    }

    /// Each device has received the content of its user's archive, in that order, without its own
    /// messages: all of it if it was always online; if it was offline, everything from `together`
    /// on, and before that a part, because another device of the user may have received the rest.
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
            let archive = self.archived(&client.bare)?.into_iter().map(|archived| archived.number);
            let archive: Vec<u64> = archive.filter(|n| (first..u64::MAX).contains(n) && !own(n)).collect();
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
}
