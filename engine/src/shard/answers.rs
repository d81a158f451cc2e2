//! Passes answers of the store to the module that requested them.
//!
//! Unreadable data is neither missing nor empty: what waited for it gets an error, and nothing is
//! written over it.

use crate::extension::Step;
use crate::kernel::pending::{ChannelRead, LoginRead, OperatorRead, Pending, RequestRead, SessionRead, UserRead};
use crate::shard::Shard;
use crate::store::Found;
use crate::wire::error::StanzaCondition;

impl Shard {
    /// Handles an answer of the store.
    pub(super) fn found(&mut self, token: u64, found: Vec<Found>) {
        // The requester is gone.
        let Some(pending) = self.cx.kernel.pending.remove(&token) else { return };
        let damaged = found.contains(&Found::Damaged);
        match pending {
            Pending::User(read) if damaged => self.user_unreadable(read, found),
            Pending::User(read) => self.user_found(read, found),
            Pending::Session(read) if damaged => self.session_unreadable(read),
            Pending::Session(read) => self.session_found(read, found),
            Pending::Login(read) if damaged => self.login_unreadable(read, found),
            Pending::Login(read) => self.login_found(read, found),
            Pending::Request(read) if damaged => self.request_unreadable(read, found),
            Pending::Request(read) => self.request_found(read, found),
            Pending::Room(read) => self.rooms.found(&mut self.cx, &mut self.actors, read, found),
            Pending::Channel(ChannelRead::Registrations(node)) => self.registrations_found(&node, &found),
            Pending::Channel(ChannelRead::Ends(read)) => self.ends_found(read, &found),
            // If a user's rows cannot be read, none of them is deleted.
            Pending::Operator(OperatorRead::Retention(read)) => {
                self.logs.retention_found(&mut self.cx, &mut self.actors, read, found)
            }
            Pending::Operator(OperatorRead::Flush(flush)) if damaged => {
                self.logs.flush_unreadable(&mut self.cx, &mut self.actors, &flush)
            }
            Pending::Operator(OperatorRead::Flush(flush)) => {
                self.logs.flush_found(&mut self.cx, &mut self.actors, flush, found)
            }
            Pending::Operator(OperatorRead::Account(command)) if damaged => self.command_account_unreadable(&command),
            Pending::Operator(OperatorRead::Account(command)) => self.command_account_found(command, found),
            Pending::Elsewhere(other) => {
                debug_assert!(false, "the store has answered what it was not asked: {other:?}")
            }
        }
    }

    fn user_found(&mut self, read: UserRead, found: Vec<Found>) {
        let (cx, actors) = (&mut self.cx, &mut self.actors);
        match read {
            UserRead::Receiver(account) => self.receiver_found(&account, found),
            UserRead::Roster(account) => self.contacts.roster_found(cx, actors, &account, found),
            UserRead::Log(account) => self.logs.log_found(cx, actors, &account, found),
            UserRead::Page { account, session, last, all } => {
                self.logs.page_found(cx, actors, &account, session, last, all, found);
            }
            UserRead::Aparts(account) => self.logs.aparts_found(cx, actors, &account, found),
            UserRead::Last(read) => self.contacts.last_found(cx, actors, read, &found),
            UserRead::Missed(account) => self.contacts.missed_found(cx, actors, &account, &found),
            UserRead::Announcement { account, session } => {
                self.contacts.seen_found(cx, actors, &account, session, &found)
            }
        }
    }

    fn user_unreadable(&mut self, read: UserRead, found: Vec<Found>) {
        let (cx, actors) = (&mut self.cx, &mut self.actors);
        match read {
            UserRead::Receiver(account) => self.receiver_unreadable(&account, found),
            // An unreadable roster is not an empty one: requests get an error.
            UserRead::Roster(account) => self.contacts.roster_found(cx, actors, &account, Vec::new()),
            UserRead::Log(account) => self.logs.log_unreadable(cx, actors, &account),
            UserRead::Page { account, session, .. } => self.logs.page_unreadable(cx, actors, &account, session),
            UserRead::Aparts(account) => self.logs.aparts_unreadable(actors, &account),
            UserRead::Last(read) => self.contacts.last_found(cx, actors, read, &found),
            UserRead::Missed(account) => self.contacts.missed_found(cx, actors, &account, &[]),
            UserRead::Announcement { account, session } => {
                self.contacts.seen_found(cx, actors, &account, session, &found)
            }
        }
    }

    fn session_found(&mut self, read: SessionRead, found: Vec<Found>) {
        match read {
            SessionRead::Tail(read) => self.tail_found(read, found),
            SessionRead::Again(again) => {
                self.again_found(*again, found).iter().for_each(|stanza| self.its_turn(stanza.into()));
            }
        }
    }

    fn session_unreadable(&mut self, read: SessionRead) {
        match read {
            SessionRead::Tail(read) => self.tail_unreadable(read),
            SessionRead::Again(again) => {
                self.again_unreadable(&again).iter().for_each(|stanza| self.its_turn(stanza.into()));
            }
        }
    }

    fn login_found(&mut self, read: LoginRead, found: Vec<Found>) {
        let (cx, actors) = (&mut self.cx, &mut self.actors);
        match read {
            LoginRead::Account(read) => self.accounts.account_found(cx, actors, read, found),
            LoginRead::Coming(read) => self.coming_found(read, found),
            LoginRead::Invitation(read) => self.accounts.invitation_found(cx, actors, read, found),
            LoginRead::Reports(domain) => self.accounts.reports_found(cx, &domain, found),
        }
    }

    fn login_unreadable(&mut self, read: LoginRead, found: Vec<Found>) {
        let (cx, actors) = (&mut self.cx, &mut self.actors);
        match read {
            LoginRead::Account(read) => self.accounts.account_unreadable(cx, actors, read),
            LoginRead::Coming(read) => self.coming_found(read, found),
            LoginRead::Invitation(read) => self.accounts.invitation_unreadable(cx, actors, read),
            LoginRead::Reports(domain) => self.accounts.reports_found(cx, &domain, Vec::new()),
        }
    }

    fn request_found(&mut self, read: RequestRead, found: Vec<Found>) {
        match read {
            RequestRead::Feature(read) => self.feature_found(*read, found),
            RequestRead::Bound(conn, pending) => self.tell_bound(conn, pending.go_on(&self.around(), &found)),
            RequestRead::Memberships(account) => self.memberships_found(&account, &found),
        }
    }

    fn request_unreadable(&mut self, read: RequestRead, found: Vec<Found>) {
        match read {
            RequestRead::Feature(read) => self.feature_unreadable(*read),
            RequestRead::Bound(conn, _) => {
                self.tell_bound(conn, Step::Error(StanzaCondition::InternalServerError.into()))
            }
            RequestRead::Memberships(account) => self.memberships_found(&account, &found),
        }
    }
}
