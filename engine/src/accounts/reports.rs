//! Reports of users to the operator (XEP-0377), at the home of their domain: retained for a time,
//! limited per account and in total.
//!
//! If there is no room, a new report replaces the oldest report of the account with the most
//! reports. An account that keeps reporting therefore replaces its own reports. The index of
//! reports is in memory; it is read from the store before the first report of a domain.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rand_core::RngCore;

use crate::accounts::Accounts;
use crate::accounts::telling::Untold;
use crate::id::ShardId;
use crate::io::{Effect, Reply, StorageState};
use crate::kernel::pending::{LoginRead, Pending};
use crate::letters::{Filing, Letter, LoginLetter};
use crate::limits::{
    REPORTS_DOMAINS_A_SECOND, REPORTS_MAX, REPORTS_TOLD_S, REPORTS_USER_MAX, REPORTS_USER_S, REPORTS_WAITING_MAX,
};
use crate::store::Found;
use crate::store::report::{self as rows, ReportId, ReportKey};
use crate::streams::Streams;

/// Seconds after the start at which the search for expired reports begins.
const FIRST_SWEEP_S: u32 = 60;

/// The reports of the domains of this home.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    books: BTreeMap<Box<str>, Book>,
    /// Reports that administrators were not notified of.
    untold: Untold,
    /// Index of the domain that is swept next.
    at: usize,
    /// Time of the next sweep, seconds of the monotonic clock.
    from_s: u32,
}

#[derive(Debug)]
enum Book {
    /// Its rows are being read, and this work waits: at most [`REPORTS_WAITING_MAX`].
    Unread(Vec<Work>),
    Read(Index),
}

#[derive(Debug)]
enum Work {
    /// Stores what was reported; the shard waits for it.
    File(ShardId, Filing),
    /// Deletes these reports, for the operator.
    Dismiss(u64, Vec<ReportId>),
}

/// The index of a domain's reports.
#[derive(Debug, Default)]
struct Index {
    /// The reporting accounts, in the order of time.
    rows: BTreeMap<ReportKey, Box<str>>,
    by: BTreeMap<Box<str>, BTreeSet<ReportKey>>,
}

impl Index {
    fn insert(&mut self, key: ReportKey, by: &str) {
        self.rows.insert(key, by.into());
        self.by.entry(by.into()).or_default().insert(key);
    }

    fn remove(&mut self, key: ReportKey) {
        let Some(by) = self.rows.remove(&key) else { return };
        let Some(own) = self.by.get_mut(&by) else { return };
        own.remove(&key);
        if own.is_empty() {
            self.by.remove(&by);
        }
    }

    /// Makes room for a report of this account among `most` in all. Returns the reports to delete;
    /// `None` if the account has reached its own limit.
    fn make_room(&mut self, by: &str, now_s: u64, most: usize) -> Option<Vec<ReportKey>> {
        let mut gone = Vec::new();
        if let Some(own) = self.by.get(by).filter(|own| own.len() >= REPORTS_USER_MAX) {
            let oldest = own.first().filter(|key| key.at_s.saturating_add(REPORTS_USER_S) <= now_s)?;
            gone.push(*oldest);
        }
        gone.iter().for_each(|key| self.remove(*key));
        while self.rows.len() >= most.max(1) {
            let Some(key) = self.oldest_of_most() else { break };
            self.remove(key);
            gone.push(key);
        }
        Some(gone)
    }

    /// The oldest report of the account with the most reports; among several such accounts, the
    /// oldest.
    fn oldest_of_most(&self) -> Option<ReportKey> {
        let firsts = self.by.values().filter_map(|own| own.first().map(|key| (own.len(), Reverse(*key))));
        firsts.max().map(|(_, Reverse(key))| key)
    }

    /// Removes reports from before this time.
    fn expire(&mut self, before_s: u64) -> Vec<ReportKey> {
        let mut gone = Vec::new();
        while let Some((key, _)) = self.rows.first_key_value().filter(|(key, _)| key.at_s < before_s) {
            gone.push(*key);
            self.remove(gone[gone.len() - 1]);
        }
        gone
    }
}

impl Accounts {
    /// A user of this domain has sent a report. The shard is informed when it is stored or left
    /// out.
    pub(super) fn file(&mut self, cx: &mut Streams, shard: ShardId, filing: Filing) {
        let domain: Box<str> = filing.by.split_once('@').map_or("", |(_, domain)| domain).into();
        self.on_reports(cx, &domain, Work::File(shard, filing));
    }

    /// Deletes reports of a domain, for the operator.
    pub(crate) fn dismiss(&mut self, cx: &mut Streams, token: u64, domain: &str, ids: Vec<ReportId>) {
        self.on_reports(cx, domain, Work::Dismiss(token, ids));
    }

    fn on_reports(&mut self, cx: &mut Streams, domain: &str, work: Work) {
        match self.reports.books.get_mut(domain) {
            Some(Book::Read(_)) => self.do_on_reports(cx, domain, work),
            Some(Book::Unread(waiting)) if waiting.len() < REPORTS_WAITING_MAX => waiting.push(work),
            Some(Book::Unread(_)) => self.leave_out(cx, work, Reply::Busy),
            None => self.read_reports(cx, domain, vec![work]),
        }
    }

    fn read_reports(&mut self, cx: &mut Streams, domain: &str, waiting: Vec<Work>) {
        self.reports.books.insert(domain.into(), Book::Unread(waiting));
        cx.kernel.read(
            Pending::Login(LoginRead::Reports(domain.into())),
            vec![rows::before(domain, None, REPORTS_MAX, u32::MAX)],
        );
    }

    /// The reports of a domain have been read, or cannot be read. In the latter case, the next
    /// report reads them again.
    pub(crate) fn reports_found(&mut self, cx: &mut Streams, domain: &str, found: Vec<Found>) {
        let Some(Book::Unread(waiting)) = self.reports.books.remove(domain) else { return };
        let Some(Found::Rows { rows: all, .. }) = found.into_iter().next() else {
            return waiting.into_iter().for_each(|work| self.leave_out(cx, work, Reply::Unreadable));
        };
        let mut index = Index::default();
        for row in all {
            let by = rows::decode(&row.value).map(|(by, _)| by);
            // A report by an unknown account belongs to no account, and expires in time.
            if let Some(key) = ReportKey::of_sort(&row.sort) {
                index.insert(key, by.as_deref().unwrap_or_default());
            }
        }
        self.reports.books.insert(domain.into(), Book::Read(index));
        waiting.into_iter().for_each(|work| self.do_on_reports(cx, domain, work));
    }

    fn do_on_reports(&mut self, cx: &mut Streams, domain: &str, work: Work) {
        match work {
            work if cx.kernel.storage == StorageState::Full => self.leave_out(cx, work, Reply::StoreFull),
            Work::File(shard, filing) => self.keep_reports(cx, domain, shard, filing),
            Work::Dismiss(token, ids) => {
                let Some(Book::Read(index)) = self.reports.books.get_mut(domain) else { return };
                let ids: BTreeSet<ReportId> = ids.into_iter().collect();
                let gone: Vec<ReportKey> = index.rows.keys().copied().filter(|key| ids.contains(&key.id)).collect();
                gone.iter().for_each(|key| index.remove(*key));
                gone.iter().for_each(|key| rows::delete(&mut cx.kernel.writes, domain, *key));
                let reply = if gone.is_empty() { Reply::NotFound } else { Reply::Done(gone.len() as u32) };
                cx.kernel.effects.push(Effect::Reply { token, reply, durable: true });
            }
        }
    }

    fn keep_reports(&mut self, cx: &mut Streams, domain: &str, shard: ShardId, filing: Filing) {
        let (now_s, expiry_s) = (self.wall_s(cx), self.expiry_s(cx));
        let most = cx.kernel.settings.reports_max.min(REPORTS_MAX) as usize;
        let Filing { by, reports, token } = filing;
        for report in reports {
            let id = ReportId(cx.kernel.entropy.next_u64());
            let key = ReportKey { at_s: now_s, id };
            let Some(Book::Read(index)) = self.reports.books.get_mut(domain) else { return };
            let Some(gone) = index.make_room(&by, expiry_s, most) else {
                cx.kernel.counters.reports_left_out.one();
                continue;
            };
            index.insert(key, &by);
            gone.iter().for_each(|key| rows::delete(&mut cx.kernel.writes, domain, *key));
            report.put(&mut cx.kernel.writes, domain, key, &by);
            cx.kernel.counters.reports_kept.one();
            cx.kernel.counters.reports_pushed_out.add(gone.len() as u64);
            self.reports.untold.note(domain, &format!("{by}, {}: {}", report.reason_word(), report.jid));
        }
        cx.kernel.letters_to(shard).push(Letter::Login(LoginLetter::Filed { token }));
        self.tell_of_reports(cx);
    }

    /// The work is not done. The reporting client is not delayed by that: the log has a line about
    /// it.
    fn leave_out(&mut self, cx: &mut Streams, work: Work, reply: Reply) {
        match work {
            Work::File(shard, filing) => {
                cx.kernel.counters.reports_left_out.add(filing.reports.len() as u64);
                cx.kernel.letters_to(shard).push(Letter::Login(LoginLetter::Filed { token: filing.token }));
            }
            Work::Dismiss(token, _) => cx.kernel.effects.push(Effect::Reply { token, reply, durable: false }),
        }
    }

    fn tell_of_reports(&mut self, cx: &mut Streams) {
        let Some(news) = self.reports.untold.due(cx.kernel.now.mono_s(), REPORTS_TOLD_S) else { return };
        let text = news.text(
            "reports from users",
            "List and dismiss them with your client's commands, or with throng report list and dismiss.",
        );
        self.message_administrators(cx, &news.domain, "Users have reported others", &text);
    }

    /// Notifies administrators, and deletes expired reports: of some domains per second.
    pub(crate) fn sweep_reports(&mut self, cx: &mut Streams) {
        self.tell_of_reports(cx);
        let now_s = cx.kernel.now.mono_s();
        if self.reports.from_s > now_s {
            return;
        }
        let first = self.reports.from_s == 0;
        self.reports.from_s = now_s.saturating_add(if first { FIRST_SWEEP_S } else { 1 });
        if first || cx.kernel.storage == StorageState::Full {
            return;
        }
        let settings = cx.kernel.settings.clone();
        let some = settings.domains.names().skip(self.reports.at).take(REPORTS_DOMAINS_A_SECOND);
        let mut seen = 0;
        for domain in some {
            seen += 1;
            if cx.kernel.home(domain) == cx.kernel.id {
                self.expire_reports(cx, domain);
            }
        }
        self.reports.at = if seen < REPORTS_DOMAINS_A_SECOND { 0 } else { self.reports.at + seen };
    }

    fn expire_reports(&mut self, cx: &mut Streams, domain: &str) {
        let before_s = self.expiry_s(cx).saturating_sub(cx.kernel.settings.reports_s);
        match self.reports.books.get_mut(domain) {
            Some(Book::Read(index)) => {
                let gone = index.expire(before_s);
                gone.iter().for_each(|key| rows::delete(&mut cx.kernel.writes, domain, *key));
            }
            Some(Book::Unread(_)) => {}
            None => self.read_reports(cx, domain, Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(at_s: u64, id: u64) -> ReportKey {
        ReportKey { at_s, id: ReportId(id) }
    }

    /// Adds a report if there is room. Returns the reports that it replaces.
    fn report(index: &mut Index, by: &str, at_s: u64, id: u64, most: usize) -> Option<Vec<ReportKey>> {
        let gone = index.make_room(by, at_s, most)?;
        index.insert(key(at_s, id), by);
        Some(gone)
    }

    #[test]
    fn an_account_has_so_many_a_day_and_then_replaces_its_oldest() {
        let mut index = Index::default();
        for n in 0..REPORTS_USER_MAX as u64 {
            assert_eq!(report(&mut index, "a@x", 100 + n, n, 1_000), Some(vec![]));
        }
        assert_eq!(report(&mut index, "a@x", 200, 99, 1_000), None);
        assert_eq!(report(&mut index, "b@x", 200, 98, 1_000), Some(vec![]), "others are not held");
        let next_day = 100 + REPORTS_USER_S;
        assert_eq!(report(&mut index, "a@x", next_day, 99, 1_000), Some(vec![key(100, 0)]));
        assert_eq!(report(&mut index, "a@x", next_day, 97, 1_000), None, "the next one is a second younger");
        assert_eq!(index.by["a@x"].len(), REPORTS_USER_MAX);
    }

    #[test]
    fn who_has_most_gives_way_and_of_equals_the_oldest() {
        let mut index = Index::default();
        report(&mut index, "victim@x", 1, 1, 6);
        (0..5).for_each(|n| drop(report(&mut index, "flood@x", 10 + n, 10 + n, 6)));
        assert_eq!(report(&mut index, "other@x", 20, 20, 6), Some(vec![key(10, 10)]));
        assert_eq!(report(&mut index, "flood@x", 21, 21, 6), Some(vec![key(11, 11)]), "its own");
        assert!(index.rows.contains_key(&key(1, 1)));
        // With one report each, the oldest is replaced; the limit is lower from now on.
        assert_eq!(report(&mut index, "third@x", 30, 30, 2).map(|gone| gone.len()), Some(5));
        assert_eq!(index.rows.keys().copied().collect::<Vec<_>>(), [key(21, 21), key(30, 30)]);
        assert_eq!(report(&mut index, "fourth@x", 31, 31, 2), Some(vec![key(21, 21)]));
        assert_eq!(index.by.len(), 2);
    }

    #[test]
    fn what_is_too_old_goes() {
        let mut index = Index::default();
        (1..4).for_each(|n| drop(report(&mut index, "a@x", n, n, 9)));
        assert_eq!(index.expire(3), [key(1, 1), key(2, 2)]);
        assert_eq!((index.rows.len(), index.by["a@x"].len()), (1, 1));
        assert_eq!(index.expire(9), [key(3, 3)]);
        assert!(index.by.is_empty());
    }
}
