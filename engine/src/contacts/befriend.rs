//! Contacts by invitation (XEP-0379, XEP-0401): what a user's server does in the user's name, as the user would for a request.

use crate::contacts::Contacts;
use crate::extension::Way;
use crate::extension::roster::Roster;
use crate::extension::subscription::Kind;
use crate::id::SessionId;
use crate::io::StorageState;
use crate::letters::PresenceNews;
use crate::wire::limit::Refusal;
use crate::wire::splice::address;

impl Contacts {
    /// Grants a contact's request, now or in advance, and asks in return (XEP-0379 3.5). False if the roster has no room.
    fn befriend(&mut self, user: u32, contact: &str) -> bool {
        let state = self.with_roster(user, |_, roster| roster.state(contact)).unwrap_or_default();
        if !state.from()
            && self.send_for_user(user, Kind::Subscribed, contact, b"<presence type='subscribed'/>").is_err()
        {
            return false;
        }
        if state.to() || state.pending_out() {
            return true;
        }
        self.send_for_user(user, Kind::Subscribe, contact, b"<presence type='subscribe'/>").is_ok()
    }

    /// An account was registered by the user's invitation, and asks by this number.
    pub(super) fn joined(&mut self, user: u32, contact: &str, number: u64) {
        // On a full disk it is a request like others, which the user answers.
        if self.storage == StorageState::Ok {
            self.befriend(user, contact);
        }
        self.receive_subscription(user, Kind::Subscribe, number, contact, b"<presence type='subscribe'/>");
    }

    /// A request that waits has come with a token that is good.
    pub(super) fn vouched(&mut self, user: u32, contact: &str) {
        let waits = self.with_roster(user, |_, roster| roster.state(contact).pending_in());
        if waits == Some(true) && self.guards(user, Way::In, contact).is_none() && !self.befriend(user, contact) {
            self.remind(user, contact);
        }
    }

    /// A request that waits has come with a token that is not: the user answers it (XEP-0379 4.1).
    pub(super) fn remind(&mut self, user: u32, contact: &str) {
        let owner = self.bare_of_user(user);
        let find = |_: &mut Contacts, roster: &mut Roster| {
            let mut requests = roster.requests();
            requests.find(|(from, _)| *from == contact).map(|(_, xml)| xml.map(<[u8]>::to_vec))
        };
        let Some(xml) = self.with_roster(user, find).flatten() else { return };
        let mut out = Vec::new();
        address(&mut out, &xml.unwrap_or_else(|| b"<presence type='subscribe'/>".to_vec()), contact, &owner);
        let sessions = self.users.sessions(&self.sessions, user).filter(|(_, session)| session.is_available());
        for session in sessions.map(|(id, _)| id).collect::<Vec<SessionId>>() {
            self.send_stanza(session, &out);
        }
    }

    /// The roster of an account that is being made: who has invited its user is in it, granted in advance, and asked.
    pub(crate) fn invite_into_roster(&mut self, account: &str, inviter: &str) {
        let Some(user) = self.users.find(account) else { return };
        let now_s = self.now.mono_s();
        // Of an account that is not there nothing was read; its rows go with this turn's.
        self.users.state(user, now_s).roster.get_or_insert_default();
        let ask = |floor: &mut Contacts, roster: &mut Roster| -> Result<u64, Refusal> {
            roster.sent(account, inviter, Kind::Subscribed, &mut floor.writes)?;
            Ok(roster.sent(account, inviter, Kind::Subscribe, &mut floor.writes)?.number)
        };
        if let Some(Ok(number)) = self.with_roster(user, ask) {
            self.presence_to(PresenceNews::Joined { number }, account, inviter, b"");
        }
    }
}
