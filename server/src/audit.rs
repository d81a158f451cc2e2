//! Events as lines of the log: logins and failed logins, clients held by limits, changed accounts,
//! orders of operators.
//!
//! The lines have a stable form, which docs/log.md describes and `contrib/fail2ban` reads: a fixed
//! message, then fields in a fixed order, the peer first. Names chosen by peers are written as text
//! fields, which the log's formats quote and escape: one event is one line, whatever a name
//! contains. The number of lines per second and kind is limited, so that failures cannot fill a
//! disk. Suppressed lines are counted, and the count is logged.

use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use throng_engine::io::{Happened, Note};
use throng_engine::store::report::Report;

/// The rate limit of one kind of line: a burst, then a number per second.
struct Kind {
    name: &'static str,
    burst: u64,
    a_second: u64,
    /// When the whole burst is available again, microseconds.
    full_at: AtomicU64,
    left_out: AtomicU64,
    /// When the number of suppressed lines was last logged, microseconds.
    told_at: AtomicU64,
}

/// Interval between two lines that report suppressed lines, microseconds.
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

    /// The number of lines suppressed since the last report, if a report is due.
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
/// Each of the two lines is written once per process: a proxy has sent an invalid address, or none.
static UNNAMED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
static KINDS: [&Kind; 11] =
    [&LOGIN, &FAILED, &REFUSED, &HELD, &ACCOUNT, &REPORT, &PUSH, &COMPONENT, &BACK_END, &ASK, &ORDER];

fn now_us() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // The clock starts well above zero, so that a report time of zero means "never reported".
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

/// Logs a note of a shard. `peer` is the address of the connection that the note names, if any.
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
        // Over the limit of its kind: only counted.
        _ => {}
    }
    tell_left_out();
}

/// Logs that the external user back end of a domain did not answer.
pub fn back_end(domain: &str, fault: &dyn fmt::Display) {
    if BACK_END.admits(now_us()) {
        tracing::warn!(domain, %fault, "external authentication failed");
    }
    tell_left_out();
}

/// Logs that the service that decides about channels did not answer.
pub fn ask_service(fault: &dyn fmt::Display) {
    if ASK.admits(now_us()) {
        tracing::warn!(%fault, "the service of notify_ask failed");
    }
    tell_left_out();
}

/// Logs how many lines were suppressed lately. Threads call this periodically, because a thread
/// that logs no further lines would not report its count otherwise.
pub fn tell_left_out() {
    let now_us = now_us();
    for kind in KINDS {
        if let Some(count) = kind.to_tell(now_us) {
            tracing::warn!(kind = kind.name, count, "lines left out");
        }
    }
}

/// The originator of an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum By {
    /// A process at the control socket, as identified by the kernel.
    Process {
        /// Its user id.
        uid: u32,
        /// Its process id.
        pid: i32,
    },
    /// A process at the control socket that the kernel does not identify.
    Unknown,
    /// An administrator's XMPP session: the full JID.
    Administrator(String),
}

/// Logs an operator's order and its outcome.
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
