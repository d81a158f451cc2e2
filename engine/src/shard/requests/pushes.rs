//! When services are told that messages wait (XEP-0357), as data: about whom lately, what is not answered yet, and how much a service
//! takes.
//!
//! A user is told about once in an interval, however many messages come. A service may leave a few publications unanswered, and more
//! the more it has taken: so somebody who is no service gets a few in half a minute, whoever names the address as one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::extension::push::row::Registration;
use crate::id::ShardId;
use crate::limits::{
    PUSH_ANSWER_MS, PUSH_BACKOFF_S_MAX, PUSH_REGISTRATIONS_MAX, PUSH_SERVICES_MAX, PUSH_USERS_MAX, PUSH_WINDOW_MAX,
    PUSH_WINDOW_MIN,
};
use crate::logs::wake::{Last, Wake};
use crate::wire::jid::bare_of;

/// Publications of a shard that are not answered.
const UNDER_WAY_MAX: usize = 1 << 16;

/// Milliseconds after which registrations that were to be read are not waited for any more: the disk may stand still for a while.
const LOOK_MS: u64 = 600_000;

/// What an id of a publication begins with; the shard's number follows.
const ID: &str = "push-";

/// A user about whom services are told, or were told lately. Registrations are known by their keys ([`Registration::key`]).
#[derive(Debug, Default)]
struct User {
    /// When it goes on ([`Pushes::next_due`]).
    due_ms: u64,
    /// Since when services may be told again.
    free_ms: u64,
    /// The registrations are being read.
    looking: bool,
    /// All devices are to be woken that nobody looks at, but for those that somebody has looked at whenever there was a reason;
    /// decided when the registrations are known.
    all: Option<Vec<u64>>,
    /// These are; decided then, too.
    devices: Vec<u64>,
    /// Registrations as they were read last, with their devices.
    known: Vec<(u64, u64)>,
    /// Those whose services are to be told.
    wanted: Vec<u64>,
    /// Those whose services are to be told when the time has passed that their failures have set.
    failing: Vec<u64>,
    /// When that is for the first of them.
    failing_until_ms: u64,
    /// Messages that nobody has seen since the first one.
    count: u32,
    last: Option<Box<Last>>,
}

/// A publication that is not answered yet.
#[derive(Debug)]
pub(super) struct UnderWay {
    secret: Box<str>,
    sent_ms: u64,
    /// Whose messages wait.
    pub(super) account: Box<str>,
    /// The service.
    pub(super) jid: Box<str>,
    /// Its node; empty for none.
    pub(super) node: Box<str>,
    /// Others before it have failed.
    pub(super) had_failed: bool,
}

/// What a service takes of this shard.
#[derive(Debug)]
struct Service {
    under_way: u16,
    window: u16,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    users: BTreeMap<Box<str>, User>,
    due: BTreeSet<(u64, Box<str>)>,
    /// In the order in which they were sent, answered ones emptied; bounded by [`UNDER_WAY_MAX`].
    under_way: VecDeque<Option<UnderWay>>,
    /// The number of the first of them.
    first: u64,
    services: BTreeMap<Box<str>, Service>,
}

/// What follows from a reason to wake a user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The registrations are to be read.
    Look,
    /// It is noted.
    Nothing,
    /// There are too many users.
    Full,
}

/// What follows from a user's registrations.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Those whose services are told now.
    pub(super) told: Vec<Registration>,
    /// How many were put off because their services leave too much unanswered.
    pub(super) held: u64,
    /// Messages that wait.
    pub(super) count: u32,
    /// The last one.
    pub(super) last: Option<Box<Last>>,
}

/// Publications with this id are of this shard.
pub(super) fn shard_of(id: &str) -> Option<ShardId> {
    let (shard, _) = id.strip_prefix(ID)?.split_once('-')?;
    u16::from_str_radix(shard, 16).ok().map(ShardId)
}

impl Pushes {
    /// A user is to be woken. `attended` are devices that somebody looks at.
    pub(super) fn wake(&mut self, now_ms: u64, wake: Wake, attended: &[u64]) -> Next {
        let Wake { account, device, waiting, last } = wake;
        let known = self.users.contains_key(&account);
        if !known && self.users.len() >= PUSH_USERS_MAX {
            return Next::Full;
        }
        let user = self.users.entry(account.clone()).or_default();
        if last.is_some() {
            user.last = last;
        }
        match device {
            Some(device) if !known || user.looking => add(&mut user.devices, device),
            None if !known || user.looking => match &mut user.all {
                Some(seen) => seen.retain(|device| attended.contains(device)),
                None => user.all = Some(attended.to_vec()),
            },
            _ => {
                let User { known, failing, wanted, .. } = &mut *user;
                for (key, of) in known.iter() {
                    let meant = device.map_or(!attended.contains(of), |device| device == *of);
                    if meant && !failing.contains(key) {
                        add(wanted, *key);
                    }
                }
            }
        }
        // What somebody has seen does not count.
        if device.is_none() && user.waits() {
            user.count = user.count.saturating_add(1);
        }
        user.count = user.count.max(waiting);
        let waits = user.looking || user.wanted.is_empty() || now_ms < user.free_ms;
        if known && waits {
            return Next::Nothing;
        }
        self.look(now_ms, &account);
        Next::Look
    }

    /// The registrations are being read.
    fn look(&mut self, now_ms: u64, account: &str) {
        if let Some(user) = self.users.get_mut(account) {
            user.looking = true;
        }
        self.set_due(account, now_ms + LOOK_MS);
    }

    fn set_due(&mut self, account: &str, due_ms: u64) {
        // Nothing more is to be told of the user.
        let Some(user) = self.users.get_mut(account) else { return };
        let before = std::mem::replace(&mut user.due_ms, due_ms);
        self.due.remove(&(before, account.into()));
        self.due.insert((due_ms, account.into()));
    }

    /// The next user whose registrations are to be read now. Of whom nothing more is to be told is forgotten.
    pub(super) fn next_due(&mut self, now_ms: u64) -> Option<Box<str>> {
        loop {
            let (_, account) = self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms)?.clone();
            let user = self.users.get_mut(&account).filter(|user| !user.looking && user.waits());
            let Some(user) = user else {
                self.forget(&account);
                continue;
            };
            let until_ms = user.failing_until_ms;
            if until_ms <= now_ms {
                let failing = std::mem::take(&mut user.failing);
                failing.into_iter().for_each(|key| add(&mut user.wanted, key));
            }
            if user.wanted.is_empty() {
                self.set_due(&account, until_ms);
                continue;
            }
            self.look(now_ms, &account);
            return Some(account);
        }
    }

    fn forget(&mut self, account: &str) {
        if let Some(user) = self.users.remove(account) {
            self.due.remove(&(user.due_ms, account.into()));
        }
    }

    /// A user's registrations have been read: which services are told now, at most once in `interval_ms`.
    pub(super) fn found(
        &mut self,
        (now_ms, now_s): (u64, u64),
        interval_ms: u64,
        account: &str,
        all: Vec<Registration>,
        attended: &[u64],
    ) -> Round {
        let mut round = Round::default();
        let Some(user) = self.users.get_mut(account).filter(|user| user.looking) else { return round };
        if all.is_empty() {
            self.forget(account);
            return round;
        }
        let (every, devices) = (std::mem::take(&mut user.all), std::mem::take(&mut user.devices));
        let (wanted, failing) = (std::mem::take(&mut user.wanted), std::mem::take(&mut user.failing));
        (user.looking, user.failing_until_ms) = (false, u64::MAX);
        user.known = all.iter().map(|of| (of.key(), of.device)).collect();
        round.count = user.count;
        let (mut put_off, mut fail, mut until_ms) = (Vec::new(), Vec::new(), u64::MAX);
        for of in all {
            let key = of.key();
            let unseen = every.as_ref().is_some_and(|seen| !seen.contains(&of.device));
            let meant = unseen || devices.contains(&of.device) || wanted.contains(&key) || failing.contains(&key);
            if !meant || attended.contains(&of.device) {
                continue;
            }
            // The clock may have been set back since.
            if (now_s + 1..=now_s + PUSH_BACKOFF_S_MAX).contains(&of.until_s) {
                until_ms = until_ms.min(now_ms + 1_000 * (of.until_s - now_s));
                fail.push(key);
            } else if !self.begins(&of.jid) {
                put_off.push(key);
            } else {
                round.told.push(of);
            }
        }
        round.held = put_off.len() as u64;
        if let Some(user) = self.users.get_mut(account) {
            let told = !(round.told.is_empty() && put_off.is_empty());
            user.free_ms = if told { now_ms + interval_ms } else { now_ms };
            (user.wanted, user.failing, user.failing_until_ms) = (put_off, fail, until_ms);
            if !round.told.is_empty() {
                round.last = user.last.take();
            } else if !user.waits() {
                user.count = 0;
            }
        }
        self.set_due(account, now_ms + interval_ms);
        round
    }

    /// A publication to a service is about to be sent; false if it leaves too many unanswered.
    fn begins(&mut self, jid: &str) -> bool {
        let service = bare_of(jid);
        if self.under_way.len() >= UNDER_WAY_MAX {
            return false;
        }
        if !self.services.contains_key(service) {
            if self.services.len() >= PUSH_SERVICES_MAX {
                self.services.retain(|_, service| service.under_way > 0);
            }
            if self.services.len() >= PUSH_SERVICES_MAX {
                return false;
            }
            self.services.insert(service.into(), Service { under_way: 0, window: PUSH_WINDOW_MIN });
        }
        let service = self.services.get_mut(service).expect("it is there");
        let may = service.under_way < service.window;
        service.under_way += u16::from(may);
        may
    }

    /// A publication to the service of a registration is sent; its id. `secret` cannot be guessed.
    pub(super) fn sent(
        &mut self,
        shard: ShardId,
        now_ms: u64,
        account: &str,
        to: &Registration,
        secret: &str,
    ) -> String {
        let number = self.first + self.under_way.len() as u64;
        self.under_way.push_back(Some(UnderWay {
            secret: secret.into(),
            sent_ms: now_ms,
            account: account.into(),
            jid: to.jid.clone(),
            node: to.node.clone(),
            had_failed: to.failures > 0,
        }));
        format!("{ID}{:x}-{number:x}-{secret}", shard.0)
    }

    /// An answer has come; what it answers, if it is of the service that was told.
    pub(super) fn answered(&mut self, id: &str, from: &str, took: bool) -> Option<UnderWay> {
        let (number, secret) = id.strip_prefix(ID)?.split_once('-')?.1.split_once('-')?;
        let at = u64::from_str_radix(number, 16).ok()?.checked_sub(self.first)?;
        let slot = self.under_way.get_mut(usize::try_from(at).ok()?)?;
        let under_way = slot.take_if(|of| *of.secret == *secret && bare_of(&of.jid) == bare_of(from))?;
        self.ended(&under_way.jid, took);
        while self.under_way.front().is_some_and(Option::is_none) {
            self.pop();
        }
        Some(under_way)
    }

    /// The next publication that has waited too long for its answer.
    pub(super) fn unanswered(&mut self, now_ms: u64) -> Option<UnderWay> {
        while let Some(front) = self.under_way.front() {
            if front.as_ref().is_some_and(|of| now_ms < of.sent_ms + PUSH_ANSWER_MS) {
                return None;
            }
            if let Some(under_way) = self.pop() {
                self.ended(&under_way.jid, false);
                return Some(under_way);
            }
        }
        None
    }

    fn pop(&mut self) -> Option<UnderWay> {
        self.first += 1;
        self.under_way.pop_front().flatten()
    }

    fn ended(&mut self, jid: &str, took: bool) {
        // The service was forgotten: nothing was under way to it.
        let Some(service) = self.services.get_mut(bare_of(jid)) else { return };
        service.under_way = service.under_way.saturating_sub(1);
        service.window = match took {
            true => (service.window + 1).min(PUSH_WINDOW_MAX),
            false => (service.window / 2).max(PUSH_WINDOW_MIN),
        };
    }

    /// Publications that are not answered.
    pub(super) fn pending(&self) -> u64 {
        self.services.values().map(|service| u64::from(service.under_way)).sum()
    }

    /// Memory that it takes, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let users = self.users.len() * (size_of::<User>() + 3 * size_of::<(u64, Box<str>)>());
        users + self.under_way.capacity() * size_of::<Option<UnderWay>>() + self.services.len() * size_of::<Service>()
    }
}

impl User {
    /// Whether something is to be told.
    fn waits(&self) -> bool {
        self.all.is_some() || !(self.devices.is_empty() && self.wanted.is_empty() && self.failing.is_empty())
    }
}

/// Adds to a list, in which each is once.
fn add(list: &mut Vec<u64>, new: u64) {
    if !list.contains(&new) && list.len() < PUSH_REGISTRATIONS_MAX {
        list.push(new);
    }
}

#[cfg(test)]
mod tests;
