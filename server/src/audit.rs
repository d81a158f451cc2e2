//! What has happened, as lines of the log: who logged in or failed to, whom a limit holds, which accounts changed, what
//! operators did.
//!
//! The lines have a stable form, which docs/log.md describes and `contrib/fail2ban` reads: a fixed message, then fields in a
//! fixed order, the peer first. Names that somebody else chose are written as text fields, which the log's formats quote and
//! escape: one event is one line, whatever a name holds. Of each kind only so many lines a second are written, so that
//! nobody can fill a disk by failing; those left out are counted, and the log says how many.

use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use throng_engine::io::{Happened, Note};
use throng_engine::store::report::Report;

/// Lines of one kind: so many at once, and then so many a second.
struct Kind {
    name: &'static str,
    burst: u64,
    a_second: u64,
    /// When all of the burst is there again, microseconds.
    full_at: AtomicU64,
    left_out: AtomicU64,
    /// When it was said last how many were left out, microseconds.
    told_at: AtomicU64,
}

/// Between two lines that say how many were left out, microseconds.
const TELL_EVERY_US: u64 = 10_000_000;

impl Kind {
    const fn new(name: &'static str, burst: u64, a_second: u64) -> Kind {
        Kind {
            name,
            burst,
            a_second,
            full_at: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            told_at: AtomicU64::new(0),
        }
    }

    /// Whether a line may be written now.
    fn admits(&self, now_us: u64) -> bool {
        let each_us = 1_000_000 / self.a_second;
        let take = |full_at: u64| {
            let after = full_at.max(now_us) + each_us;
            (after - now_us <= self.burst * each_us).then_some(after)
        };
        let admitted = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if !admitted {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// How many were left out since this was said last, if it is time to say so.
    fn to_tell(&self, now_us: u64) -> Option<u64> {
        let told_at = self.told_at.load(Ordering::Relaxed);
        if self.left_out.load(Ordering::Relaxed) == 0 || now_us < told_at.saturating_add(TELL_EVERY_US) {
            return None;
        }
        let first = self.told_at.compare_exchange(told_at, now_us, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        first.then(|| self.left_out.swap(0, Ordering::Relaxed)).filter(|count| *count > 0)
    }
}

static LOGIN: Kind = Kind::new("login", 20_000, 2_000);
static FAILED: Kind = Kind::new("login failed", 2_000, 20);
static REFUSED: Kind = Kind::new("login refused", 200, 2);
static HELD: Kind = Kind::new("limit holds", 200, 2);
static ACCOUNT: Kind = Kind::new("account", 2_000, 20);
static REPORT: Kind = Kind::new("report", 200, 1);
static PUSH: Kind = Kind::new("push service dropped", 2_000, 20);
static COMPONENT: Kind = Kind::new("component", 2_000, 20);
static BACK_END: Kind = Kind::new("external authentication", 200, 2);
static ASK: Kind = Kind::new("service of notify_ask", 200, 2);
static ORDER: Kind = Kind::new("order", 2_000, 20);
/// Each of two lines once per process: a proxy has written what is no address, or nothing.
static UNNAMED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
static KINDS: [&Kind; 11] =
    [&LOGIN, &FAILED, &REFUSED, &HELD, &ACCOUNT, &REPORT, &PUSH, &COMPONENT, &BACK_END, &ASK, &ORDER];

fn now_us() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // The first moment is a while after zero, at which nothing was told yet.
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_micros()).unwrap_or(u64::MAX - TELL_EVERY_US)
        + TELL_EVERY_US
}

/// An address, or `-`.
struct Shown(Option<IpAddr>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.to_canonical().fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Writes down what a shard has noted. `peer` is the address of the connection, where it names one.
pub fn tell(note: &Note, peer: Option<IpAddr>) {
    let (now_us, peer, account) = (now_us(), Shown(note.peer.or(peer)), &*note.account);
    match &note.what {
        Happened::LoggedIn { mechanism } if LOGIN.admits(now_us) => {
            tracing::debug!(%peer, account, mechanism, "login");
        }
        Happened::LoginFailed { mechanism, reason } if FAILED.admits(now_us) => {
            tracing::info!(%peer, account, mechanism, reason, "login failed");
        }
        Happened::LoginRefused { mechanism, limit } if REFUSED.admits(now_us) => {
            tracing::info!(%peer, account, mechanism, limit = limit.name(), "login refused");
        }
        Happened::Held { limit, left_ms } if HELD.admits(now_us) => {
            tracing::warn!(%peer, account, limit = limit.name(), seconds = left_ms.div_ceil(1_000), "limit holds");
        }
        Happened::Registered if ACCOUNT.admits(now_us) => tracing::info!(%peer, account, "account registered"),
        Happened::Admitted if ACCOUNT.admits(now_us) => {
            tracing::info!(account, "account admitted");
        }
        Happened::Ousted if ACCOUNT.admits(now_us) => tracing::info!(account, "account ousted"),
        Happened::Joined { by } if ACCOUNT.admits(now_us) => tracing::info!(account, by = &**by, "invitation used"),
        Happened::PasswordChanged if ACCOUNT.admits(now_us) => tracing::info!(%peer, account, "password changed"),
        Happened::Removed if ACCOUNT.admits(now_us) => tracing::info!(%peer, account, "account removed"),
        Happened::Reported(report) if REPORT.admits(now_us) => {
            let Report { jid, reason, text, messages } = &**report;
            tracing::info!(%peer, account, of = &**jid, reason = &**reason, messages = &**messages, text = &**text, "report");
        }
        Happened::PushDropped(dropped) if PUSH.admits(now_us) => {
            tracing::info!(account, service = &*dropped.service, reason = dropped.reason, "push service dropped");
        }
        Happened::ComponentCame if COMPONENT.admits(now_us) => {
            tracing::info!(%peer, domain = account, "component connected");
        }
        Happened::ComponentLeft { returned } if COMPONENT.admits(now_us) => {
            tracing::info!(%peer, domain = account, returned, "component gone");
        }
        Happened::Unnamed { said } if !UNNAMED[usize::from(said.is_empty())].swap(true, Ordering::Relaxed) => {
            tracing::warn!(%peer, said = &**said, "no client in X-Forwarded-For");
        }
        // One too many of its kind: counted.
        _ => {}
    }
    tell_left_out();
}

/// Writes down that whoever keeps a domain's users elsewhere was asked, and has not answered.
pub fn back_end(domain: &str, fault: &dyn fmt::Display) {
    if BACK_END.admits(now_us()) {
        tracing::warn!(domain, %fault, "external authentication failed");
    }
    tell_left_out();
}

/// Writes down that whoever decides about channels was asked, and has not answered.
pub fn ask_service(fault: &dyn fmt::Display) {
    if ASK.admits(now_us()) {
        tracing::warn!(%fault, "the service of notify_ask failed");
    }
    tell_left_out();
}

/// Says how many lines were left out lately: whoever writes none more has to be heard, too, so threads call this once in a
/// while.
pub fn tell_left_out() {
    let now_us = now_us();
    for kind in KINDS {
        if let Some(count) = kind.to_tell(now_us) {
            tracing::warn!(kind = kind.name, count, "lines left out");
        }
    }
}

/// Who gives an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum By {
    /// Somebody at the control socket, as the kernel says.
    Process {
        /// The user.
        uid: u32,
        /// The process.
        pid: i32,
    },
    /// Somebody at the control socket of whom the kernel says nothing.
    Unknown,
    /// An administrator who is a user: the full JID.
    Administrator(String),
}

/// Writes down what an operator has ordered, and what came of it.
pub fn order(by: &By, order: &str, of: &str, result: Result<&str, &str>) {
    if ORDER.admits(now_us()) {
        let (uid, pid, admin) = match by {
            By::Process { uid, pid } => (Some(*uid), Some(*pid), None),
            By::Unknown => (None, None, None),
            By::Administrator(jid) => (None, None, Some(jid.as_str())),
        };
        match result {
            Ok(done) => tracing::info!(uid, pid, admin, order, of, result = "done", text = done, "order"),
            Err(why) => tracing::info!(uid, pid, admin, order, of, result = "failed", text = why, "order"),
        }
    }
    tell_left_out();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_kind_are_bounded_and_those_left_out_are_counted_once() {
        let kind = Kind::new("test", 10, 2);
        let start = TELL_EVERY_US;
        assert_eq!((0..100).filter(|_| kind.admits(start)).count(), 10);
        assert_eq!(kind.to_tell(start), Some(90));
        assert!(!kind.admits(start + 400_000));
        assert_eq!(kind.to_tell(start + 400_000), None, "not so soon again");
        let written = (0..1_000).filter(|n| kind.admits(start + n * 100_000)).count() as u64;
        assert!((198..=201).contains(&written), "two a second: {written} in 100 s");
        assert_eq!(kind.to_tell(start + 100_000_000), Some(1 + 1_000 - written));
        assert_eq!(kind.to_tell(start + 200_000_000), None, "nothing was left out");
    }
}
