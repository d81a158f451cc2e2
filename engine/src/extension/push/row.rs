//! A user's registrations as one row, in the order in which they were created or renewed.
//!
//! ```text
//! 1 | registration...
//! registration: device (u64) | failures (u8) | until (u64, seconds) | jid | node | options, each a length (u16) and its bytes
//! ```

use crate::id;
use crate::limits::{PUSH_BACKOFF_S, PUSH_BACKOFF_S_MAX, PUSH_FAILURES_MAX, PUSH_REGISTRATIONS_MAX};

const FORMAT: u8 = 1;

/// One service that wakes one device.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Registration {
    /// The service's JID, normalised.
    pub jid: Box<str>,
    /// Its node; empty for none.
    pub node: Box<str>,
    /// The device that has created it (`push::device`).
    pub device: u64,
    /// The complete form that accompanies publications; empty for none.
    pub options: Box<[u8]>,
    /// Number of consecutive failed publications.
    pub failures: u8,
    /// Nothing is published before this second since the Unix epoch, because of these failures.
    pub until_s: u64,
}

impl Registration {
    /// A hash of its JID and node, which identifies it among the user's registrations.
    pub fn key(&self) -> u64 {
        id::hash(&[self.jid.as_bytes(), &[0], self.node.as_bytes()].concat())
    }

    fn is(&self, jid: &str, node: &str) -> bool {
        *self.jid == *jid && *self.node == *node
    }
}

/// All registrations of a user, with unique pairs of JID and node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations(Vec<Registration>);

impl Registrations {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn into_inner(self) -> Vec<Registration> {
        self.0
    }

    /// Adds a registration in place of an earlier one with its JID and node (XEP-0357 5). The count
    /// of failures continues: it belongs to the service. Beyond the limit, the oldest registration
    /// is dropped: no client can list them to remove one.
    pub fn put(&mut self, mut new: Registration) {
        if let Some(at) = self.0.iter().position(|other| other.is(&new.jid, &new.node)) {
            let old = self.0.remove(at);
            (new.failures, new.until_s) = (old.failures, old.until_s);
        }
        self.0.push(new);
        if self.0.len() > PUSH_REGISTRATIONS_MAX {
            self.0.remove(0);
        }
    }

    /// Removes those of a service, or the one of this node (XEP-0357 6).
    pub fn remove(&mut self, jid: &str, node: Option<&str>) {
        self.0.retain(|other| *other.jid != *jid || node.is_some_and(|node| *other.node != *node));
    }

    /// Records a successful publication.
    pub fn worked(&mut self, jid: &str, node: &str) {
        if let Some(of) = self.0.iter_mut().find(|of| of.is(jid, node)) {
            (of.failures, of.until_s) = (0, 0);
        }
    }

    /// Records a failed publication that may succeed later. Returns whether the limit of failures
    /// is reached: then the registration is removed.
    pub fn failed(&mut self, jid: &str, node: &str, now_s: u64) -> bool {
        let Some(at) = self.0.iter().position(|of| of.is(jid, node)) else { return false };
        let of = &mut self.0[at];
        of.failures += 1;
        let backoff_s = PUSH_BACKOFF_S << (of.failures - 1).min(16);
        of.until_s = now_s + backoff_s.min(PUSH_BACKOFF_S_MAX);
        let ends = of.failures >= PUSH_FAILURES_MAX;
        if ends {
            self.0.remove(at);
        }
        ends
    }

    /// The row; empty without registrations.
    pub fn row(&self) -> Vec<u8> {
        let mut row = if self.0.is_empty() { Vec::new() } else { vec![FORMAT] };
        for of in &self.0 {
            row.extend_from_slice(&of.device.to_be_bytes());
            row.push(of.failures);
            row.extend_from_slice(&of.until_s.to_be_bytes());
            for piece in [of.jid.as_bytes(), of.node.as_bytes(), &of.options] {
                row.extend_from_slice(&(piece.len() as u16).to_be_bytes());
                row.extend_from_slice(piece);
            }
        }
        row
    }

    /// Decodes a row; `None` if it is unreadable.
    pub fn read(row: &[u8]) -> Option<Registrations> {
        let (&FORMAT, mut rest) = row.split_first()? else { return None };
        let mut all = Vec::new();
        while !rest.is_empty() {
            let (device, after) = rest.split_first_chunk()?;
            let (&failures, after) = after.split_first()?;
            let (until_s, after) = after.split_first_chunk()?;
            let (jid, after) = piece(after)?;
            let (node, after) = piece(after)?;
            let (options, after) = piece(after)?;
            rest = after;
            all.push(Registration {
                jid: std::str::from_utf8(jid).ok()?.into(),
                node: std::str::from_utf8(node).ok()?.into(),
                device: u64::from_be_bytes(*device),
                options: options.into(),
                failures,
                until_s: u64::from_be_bytes(*until_s),
            });
        }
        Some(Registrations(all))
    }
}

fn piece(row: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = row.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}
