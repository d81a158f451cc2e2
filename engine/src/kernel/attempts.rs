//! Logins as other shards and the log hear of them: who is asked, who is charged, and what is noted.

use std::net::IpAddr;

use crate::id::{ConnId, Peer, ShardId};
use crate::io::{Effect, Happened, Note};
use crate::kernel::Kernel;
use crate::letters::{ConnRef, Gained, Letter, LoginLetter, Question};
use crate::session::conn::{Attempt, ConnState, Stage};
use crate::session::sasl::Refused;
use crate::store::hash::Tag;

/// A login that has waited so long for the server, and is given up, is not held against its address, milliseconds: in a storm
/// of logins those who come late must not lock out those behind the same address.
const SERVER_SLOW_MS: u64 = 2_000;

impl Kernel {
    /// The shard that counts failed logins and registrations of an address, for the whole host.
    pub(crate) fn counting(&self, peer: Peer) -> ShardId {
        self.settings.partitions.owner(peer.key as u16)
    }

    /// Asks the shard that counts for an address; the dispatch goes on.
    pub(crate) fn ask_counting(&mut self, conn: ConnId, peer: Peer, account: &str, question: Question) {
        let conn = ConnRef { shard: self.id, conn };
        let counting = self.counting(peer);
        let letters = self.letters_to(counting);
        let account = letters.name(account);
        letters.push(Letter::Login(LoginLetter::Ask { conn, account, question }));
    }

    /// Asks an account's home; the dispatch goes on where the connection is.
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

    /// The account and its pair with the address get back what they were charged when a login began. The home remembers
    /// where from it was, and the password that was right.
    pub(crate) fn spare_account(&mut self, account: &str, peer: Peer, seen: Option<Tag>) {
        let home = self.home(account);
        let letters = self.letters_to(home);
        let account = letters.name(account);
        letters.push(Letter::Login(LoginLetter::Spared { account, peer, seen: seen.map(Box::new) }));
    }

    /// An account gains keys that its password was shown to be right for.
    pub(crate) fn give_keys(&mut self, account: &str, gained: Gained) {
        let home = self.home(account);
        let letters = self.letters_to(home);
        let account = letters.name(account);
        letters.push(Letter::Login(LoginLetter::KeysGained { account, gained: Box::new(gained) }));
    }

    /// A connection has ended before authentication did: account and pair stay charged, and so is the address unless it was
    /// the server that took long.
    pub(crate) fn login_broken_off(&mut self, state: &ConnState) {
        let ConnState::Opening(opening) = state else { return };
        let Some(attempt) = &opening.attempt else { return };
        // A question to whoever keeps users elsewhere has an answer in bounded time: who gives up before has it asked for nothing.
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

    /// Notes for the log what has happened to an account, by a peer with this address. It leaves when what it rests on is
    /// durable.
    pub(crate) fn note(&mut self, what: Happened, account: &str, peer: Option<IpAddr>) {
        self.effects.push(Effect::Note(Box::new(Note { what, account: account.into(), peer, conn: None })));
    }

    /// A limit has refused somebody: noted if it begins to hold.
    pub(crate) fn note_held(&mut self, refused: Refused, account: &str, peer: Peer) {
        if refused.begins {
            let (limit, left_ms) = (refused.held.limit, refused.held.left_ms.unwrap_or_default());
            self.note(Happened::Held { limit, left_ms }, account, Some(peer.address));
        }
    }
}
