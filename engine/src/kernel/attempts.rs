//! Logins from the point of view of other shards and the log: which shard is asked, what is
//! charged, and what is recorded.

use std::net::IpAddr;

use crate::id::{ConnId, Peer, ShardId};
use crate::io::{Effect, Happened, Note};
use crate::kernel::Kernel;
use crate::letters::{ConnRef, Gained, Letter, LoginLetter, Question};
use crate::session::conn::{Attempt, ConnState, Stage};
use crate::session::sasl::Refused;
use crate::store::hash::Tag;

/// An aborted login that has waited this long for the server is not charged to its address,
/// milliseconds. In a storm of logins, slow responses must not lock out other users behind the same
/// address.
const SERVER_SLOW_MS: u64 = 2_000;

impl Kernel {
    /// The shard that counts failed logins and registrations of an address, for the whole host.
    pub(crate) fn counting(&self, peer: Peer) -> ShardId {
        self.settings.partitions.owner(peer.key as u16)
    }

    /// Sends a question to the shard that counts for an address; the dispatch continues with its
    /// answer.
    pub(crate) fn ask_counting(&mut self, conn: ConnId, peer: Peer, account: &str, question: Question) {
        let conn = ConnRef { shard: self.id, conn };
        let counting = self.counting(peer);
        let letters = self.letters_to(counting);
        let account = letters.name(account);
        letters.push(Letter::Login(LoginLetter::Ask { conn, account, question }));
    }

    /// Sends a question to an account's home; the dispatch continues at the connection's shard.
    pub(crate) fn ask_home(&mut self, conn: ConnRef, account: &str, question: Question) {
        let home = self.home(account);
        let letters = self.letters_to(home);
        let account = letters.name(account);
        letters.push(Letter::Login(LoginLetter::Ask { conn, account, question }));
    }

    pub(crate) fn charge_address(&mut self, peer: Peer) {
        let counting = self.counting(peer);
        self.letters_to(counting).push(Letter::Login(LoginLetter::Failed { peer }));
    }

    /// Refunds the account, and its pair with the address, what the login was charged when it
    /// began. The home remembers the address, and the password that was correct.
    pub(crate) fn spare_account(&mut self, account: &str, peer: Peer, seen: Option<Tag>) {
        let home = self.home(account);
        let letters = self.letters_to(home);
        let account = letters.name(account);
        letters.push(Letter::Login(LoginLetter::Spared { account, peer, seen: seen.map(Box::new) }));
    }

    /// Adds keys to an account whose password was verified.
    pub(crate) fn give_keys(&mut self, account: &str, gained: Gained) {
        let home = self.home(account);
        let letters = self.letters_to(home);
        let account = letters.name(account);
        letters.push(Letter::Login(LoginLetter::KeysGained { account, gained: Box::new(gained) }));
    }

    /// Handles a connection that has ended before its authentication did. Account and pair stay
    /// charged, and so does the address unless the server was slow.
    pub(crate) fn login_broken_off(&mut self, state: &ConnState) {
        let ConnState::Opening(opening) = state else { return };
        let Some(attempt) = &opening.attempt else { return };
        // An external back end answers within a bounded time: a client that gives up before that
        // has made it work for nothing.
        let waits_for_peer = matches!(opening.stage(), Stage::ExpectProof(_) | Stage::ExpectVerdict(_));
        if waits_for_peer || self.now.mono_ms < attempt.asked_ms + SERVER_SLOW_MS {
            self.charge_address(attempt.peer);
            self.note_failure(attempt, "broken-off");
        }
    }

    pub(crate) fn note_failure(&mut self, attempt: &Attempt, reason: &'static str) {
        let what = Happened::LoginFailed { mechanism: attempt.mechanism.name(), reason };
        self.note(what, &attempt.account, Some(attempt.peer.address));
    }

    /// Records an account event for the log, caused by a peer with this address. It is emitted when
    /// the writes it depends on are durable.
    pub(crate) fn note(&mut self, what: Happened, account: &str, peer: Option<IpAddr>) {
        self.effects.push(Effect::Note(Box::new(Note { what, account: account.into(), peer, conn: None })));
    }

    /// Records a refusal by a limit, if the limit takes effect with it.
    pub(crate) fn note_held(&mut self, refused: Refused, account: &str, peer: Peer) {
        if refused.begins {
            let (limit, left_ms) = (refused.held.limit, refused.held.left_ms.unwrap_or_default());
            self.note(Happened::Held { limit, left_ms }, account, Some(peer.address));
        }
    }
}
