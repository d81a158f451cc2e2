//! Command sessions (XEP-0050 3.4): from the form that is sent to its submission.

use std::collections::BTreeMap;

use crate::limits::{ADHOC_SESSION_S, ADHOC_SESSIONS_MAX, ADHOC_SESSIONS_USER_MAX};
use crate::wire::jid::bare_of;

/// The open sessions of a shard's users: at most [`ADHOC_SESSIONS_MAX`] in all and
/// [`ADHOC_SESSIONS_USER_MAX`] per user, each for [`ADHOC_SESSION_S`] seconds.
#[derive(Debug, Default)]
pub struct Sessions {
    /// By bare JID; the oldest session of each user comes first.
    open: BTreeMap<Box<str>, Vec<Open>>,
    count: usize,
}

#[derive(Debug)]
struct Open {
    id: Box<str>,
    /// Full JID: a session is between one requester and one responder.
    from: Box<str>,
    node: &'static str,
    until_s: u32,
}

impl Sessions {
    /// Whether a session with this id is open between the requester and this node.
    pub fn is_open(&self, id: &str, from: &str, node: &str, now_s: u32) -> bool {
        let mut own = self.open.get(bare_of(from)).into_iter().flatten();
        own.any(|open| *open.id == *id && *open.from == *from && open.node == node && open.until_s > now_s)
    }

    /// Opens a session. It may replace the user's oldest one. False if the limit for all users is
    /// reached.
    #[must_use]
    pub fn open(&mut self, id: &str, from: &str, node: &'static str, now_s: u32) -> bool {
        if self.count >= ADHOC_SESSIONS_MAX {
            self.open.retain(|_, own| {
                own.retain(|open| open.until_s > now_s);
                !own.is_empty()
            });
            self.count = self.open.values().map(Vec::len).sum();
            if self.count >= ADHOC_SESSIONS_MAX {
                return false;
            }
        }
        let own = self.open.entry(bare_of(from).into()).or_default();
        self.count -= own.len();
        own.retain(|open| open.until_s > now_s);
        if own.len() >= ADHOC_SESSIONS_USER_MAX {
            own.remove(0);
        }
        own.push(Open { id: id.into(), from: from.into(), node, until_s: now_s.saturating_add(ADHOC_SESSION_S) });
        self.count += own.len();
        true
    }

    /// Closes a session.
    pub fn close(&mut self, id: &str, from: &str) {
        let Some(own) = self.open.get_mut(bare_of(from)) else { return };
        self.count -= own.len();
        own.retain(|open| *open.id != *id || *open.from != *from);
        self.count += own.len();
        if own.is_empty() {
            self.open.remove(bare_of(from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_per_user_in_all_and_in_time() {
        let mut sessions = Sessions::default();
        for n in 0..ADHOC_SESSIONS_USER_MAX + 1 {
            assert!(sessions.open(&n.to_string(), "a@b/c", "node", 0));
        }
        assert!(!sessions.is_open("0", "a@b/c", "node", 0), "the oldest gives way");
        assert!(sessions.is_open("1", "a@b/c", "node", ADHOC_SESSION_S - 1));
        assert!(!sessions.is_open("1", "a@b/c", "node", ADHOC_SESSION_S), "its time is over");
        assert!(!sessions.is_open("1", "a@b/d", "node", 0) && !sessions.is_open("1", "a@b/c", "other", 0));
        sessions.close("1", "a@b/d");
        assert!(sessions.is_open("1", "a@b/c", "node", 0), "another one's session is not closed");
        (0..=ADHOC_SESSIONS_USER_MAX).for_each(|n| sessions.close(&n.to_string(), "a@b/c"));
        assert!(sessions.open.is_empty() && sessions.count == 0);
        for n in 0..ADHOC_SESSIONS_MAX {
            assert!(sessions.open("x", &format!("u{n}@b/c"), "node", 1));
        }
        assert!(!sessions.open("x", "one@more/c", "node", 1));
        assert!(sessions.open("x", "one@more/c", "node", 1 + ADHOC_SESSION_S), "those whose time is over make room");
        assert_eq!(sessions.count, 1);
    }
}
