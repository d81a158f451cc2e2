//! Contacts by invitation (XEP-0379, XEP-0401): subscriptions that the server sends or grants on
//! the user's behalf.

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::Way;
use crate::extension::roster::Roster;
use crate::extension::subscription::Kind;
use crate::id::SessionId;
use crate::io::StorageState;
use crate::letters::PresenceNews;
use crate::streams::Streams;
use crate::wire::limit::Refusal;
use crate::wire::splice::address;

impl Contacts {
    /// Grants a contact's request, now or in advance, and sends a request in return (XEP-0379 3.5).
    /// Returns false if the roster is full.
    fn befriend(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, contact: &str) -> bool {
        let state = self.with_roster(cx, actors, user, |_, _, roster| roster.state(contact)).unwrap_or_default();
        if !state.from()
            && self
                .send_for_user(cx, actors, user, Kind::Subscribed, contact, b"<presence type='subscribed'/>")
                .is_err()
        {
            return false;
        }
        if state.to() || state.pending_out() {
            return true;
        }
        self.send_for_user(cx, actors, user, Kind::Subscribe, contact, b"<presence type='subscribe'/>").is_ok()
    }

    /// An account was registered by the user's invitation; its subscription request has this
    /// number.
    pub(super) fn joined(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, contact: &str, number: u64) {
        // On a full disk it is an ordinary request, which the user answers.
        if cx.kernel.storage == StorageState::Ok {
            self.befriend(cx, actors, user, contact);
        }
        self.receive_subscription(cx, actors, user, Kind::Subscribe, number, contact, b"<presence type='subscribe'/>");
    }

    /// A pending request has a valid token.
    pub(super) fn vouched(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, contact: &str) {
        let waits = self.with_roster(cx, actors, user, |_, _, roster| roster.state(contact).pending_in());
        if waits == Some(true)
            && actors.guards(cx, user, Way::In, contact).is_none()
            && !self.befriend(cx, actors, user, contact)
        {
            self.remind(cx, actors, user, contact);
        }
    }

    /// A pending request has an invalid token: the user answers it (XEP-0379 4.1).
    pub(super) fn remind(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, contact: &str) {
        let owner = actors.bare_of_user(user);
        let find = |_: &mut Streams, _: &mut Actors, roster: &mut Roster| {
            let mut requests = roster.requests();
            requests.find(|(from, _)| *from == contact).map(|(_, xml)| xml.map(<[u8]>::to_vec))
        };
        let Some(xml) = self.with_roster(cx, actors, user, find).flatten() else { return };
        let mut out = Vec::new();
        address(&mut out, &xml.unwrap_or_else(|| b"<presence type='subscribe'/>".to_vec()), contact, &owner);
        let sessions = actors.users.sessions(&actors.sessions, user).filter(|(_, session)| session.is_available());
        for session in sessions.map(|(id, _)| id).collect::<Vec<SessionId>>() {
            actors.send_stanza(cx, session, &out);
        }
    }

    /// Fills the roster of a new account: the inviter is in it, with a subscription granted in
    /// advance and a request sent.
    pub(crate) fn invite_into_roster(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, inviter: &str) {
        let Some(user) = actors.users.find(account) else { return };
        let now_s = cx.kernel.now.mono_s();
        // No rows are read for an account that does not exist yet. Its rows are written with this
        // turn.
        actors.users.state(user, now_s).roster.get_or_insert_default();
        let ask = |cx: &mut Streams, _: &mut Actors, roster: &mut Roster| -> Result<u64, Refusal> {
            roster.sent(account, inviter, Kind::Subscribed, &mut cx.kernel.writes)?;
            Ok(roster.sent(account, inviter, Kind::Subscribe, &mut cx.kernel.writes)?.number)
        };
        if let Some(Ok(number)) = self.with_roster(cx, actors, user, ask) {
            cx.kernel.presence_to(PresenceNews::Joined { number }, account, inviter, b"");
        }
    }
}
