//! Invariants of archives at the end: their contents, and the results of clients' queries.

use std::collections::{BTreeMap, BTreeSet};

use throng_engine::store::Table;
use throng_engine::store::archive::{Entry, entries, is_void, number_of};

use super::Run;
use crate::client::{Look, Shown, numbers};

/// A message in an archive.
pub(super) struct Archived<'a> {
    /// The number of its entry.
    pub(super) id: u64,
    /// Number of the message; `u64::MAX` for one without a number.
    pub(super) number: u64,
    entry: Entry<'a>,
}

impl Archived<'_> {
    /// The bare JID of its sender or receiver.
    fn peer(&self) -> &str {
        self.entry.peer.split('/').next().unwrap_or_default()
    }

    /// Whether a query must find it. A user's message to itself is stored once.
    fn is_for(&self, look: &Look, user: &str) -> bool {
        let with = look.with.as_deref().is_none_or(|with| self.peer() == with);
        with && (self.entry.incoming || self.peer() != user)
    }
}

impl Run {
    /// Messages in a user's archive, in order, without refused ones.
    pub(super) fn archived(&self, user: &str) -> Result<Vec<Archived<'_>>, String> {
        let (mut void, mut all) = (BTreeSet::new(), Vec::new());
        for (sort, row) in self.world.disk.rows_of(Table::Archive, user) {
            if is_void(row) {
                void.extend(number_of(sort));
            }
            let entries = entries(sort, row).ok_or("an archive row cannot be read")?;
            let live = entries.into_iter().filter(|(id, _)| !void.contains(id));
            all.extend(live.map(|(id, entry)| {
                let number = numbers(entry.xml).first().copied().unwrap_or(u64::MAX);
                Archived { id, number, entry }
            }));
        }
        Ok(all)
    }

    /// Every acknowledged message is in the archive of its receiver, once, and in that of its
    /// sender, unless it was dropped for its age. Messages sent while one had blocked the other are
    /// in no archive.
    pub(super) fn check_archive(&self) -> Result<(), String> {
        if !self.world.settings().archive {
            return Ok(());
        }
        let mut kept = [BTreeMap::new(), BTreeMap::new()];
        for (index, user) in self.users.iter().enumerate() {
            for archived in self.archived(user)? {
                *kept[usize::from(archived.entry.incoming)].entry((index, archived.number)).or_insert(0) += 1;
            }
        }
        for (n, s) in self.ledger.sent.iter().enumerate() {
            let unheard = self.refusals && self.sessions[s.client] != s.session;
            let times = |way: usize, user: usize| kept[way].get(&(user, n as u64)).copied().unwrap_or(0);
            let (sent, received) = (times(0, self.clients[s.client].user), times(1, s.to_user));
            if received > 1 || sent > 1 {
                return Err(format!(
                    "message {n} stands {received} times in its receiver's archive, {sent} in its sender's"
                ));
            }
            if self.blocked.contains(&(n as u64)) && (sent, received) != (0, 0) {
                return Err(format!(
                    "message {n} is in an archive, although one had blocked the other: {sent} sent, {received} received"
                ));
            }
            let dropped = self.world.settings().retention_s > 0;
            if s.kept && s.acked && !s.refused && !unheard && !dropped && (sent, received) != (1, 1) {
                return Err(format!(
                    "message {n} is acknowledged and lost from an archive: {sent} sent, {received} received"
                ));
            }
        }
        Ok(())
    }

    /// Clients find all archived messages that were not refused, in order, in either direction, and
    /// see retracted ones as tombstones.
    pub(super) fn check_looks(&self) -> Result<(), String> {
        for client in &self.clients {
            let (full, Some(look)) = (client.full(), &client.look) else { continue };
            if !look.done {
                return Err(format!("{full} has not seen all of its archive, but {:?}", look.seen));
            }
            let all = self.archived(&client.bare)?;
            let wanted: Vec<&Archived<'_>> =
                all.iter().filter(|archived| archived.is_for(look, &client.bare)).collect();
            if !look.seen.iter().map(|seen| (seen.id, seen.number)).eq(wanted.iter().map(|w| (w.id, w.number))) {
                let wanted: Vec<_> = wanted.iter().map(|w| (w.id, w.number)).collect();
                let (seen, with) = (&look.seen, &look.with);
                return Err(format!("{full} sees in the archive {seen:?}, with {with:?}, but there are {wanted:?}"));
            }
            let retractions = self.retractions(&all);
            for (seen, is) in look.seen.iter().zip(wanted) {
                let by = retractions.get(&(is.entry.incoming, is.number)).map_or(&[][..], |by| by);
                self.check_tombstone(seen, by).map_err(|what| format!("{full} is shown {what}"))?;
            }
        }
        Ok(())
    }

    /// The retractions in an archive, by whether they were received and by the number of the
    /// retracted message: id, and number of the retraction.
    fn retractions(&self, all: &[Archived<'_>]) -> BTreeMap<(bool, u64), Vec<(u64, u64)>> {
        let mut retractions: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for archived in all {
            if let Some(n) = self.ledger.retracted_by(archived.number) {
                retractions.entry((archived.entry.incoming, n)).or_default().push((archived.id, archived.number));
            }
        }
        retractions
    }

    /// A message is a tombstone if a retraction by its sender follows it (XEP-0424 4, 5.1). A
    /// retraction stays (5).
    fn check_tombstone(&self, seen: &Shown, by: &[(u64, u64)]) -> Result<(), String> {
        let n = seen.number;
        let is_retraction = self.ledger.sent.get(n as usize).is_some_and(|sent| sent.retracts.is_some());
        let mut behind = by.iter().filter(|(id, _)| *id > seen.id && !is_retraction).map(|(_, number)| *number);
        match seen.retracted {
            Some(by) if !behind.any(|number| number == by) => {
                Err(format!("a tombstone for message {n}, which its sender has not retracted by {by}"))
            }
            None => match behind.next() {
                Some(number) => Err(format!("message {n}, which its sender has retracted by {number}")),
                None => Ok(()),
            },
            Some(_) => Ok(()),
        }
    }
}
