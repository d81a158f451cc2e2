//! Subscriptions between a user and a contact (RFC 6121 3, Appendix A).

use crate::contacts::{Contacts, Decided};
use crate::extension::invite;
use crate::extension::roster::Roster;
use crate::extension::subscription::{Kind, OwnPresence};
use crate::id::SessionId;
use crate::io::StorageState;
use crate::letters::PresenceNews;
use crate::wire::limit::{Limit, Refusal};
use crate::wire::splice::address;
use crate::wire::written::{id_of_stanza, write_error};

impl Contacts {
    pub(super) fn send_subscription(&mut self, user: u32, session: SessionId, kind: Kind, contact: &str, xml: &[u8]) {
        let sent = self.takes_subscriptions().and_then(|()| self.send_for_user(user, kind, contact, xml));
        if let Err(refusal) = sent {
            self.presence_error(session, contact, xml, refusal);
        }
    }

    /// A subscription stanza of the user goes to a contact (RFC 6121 A.2).
    ///
    /// # Errors
    /// The roster has no room for it.
    pub(super) fn send_for_user(&mut self, user: u32, kind: Kind, contact: &str, xml: &[u8]) -> Result<(), Refusal> {
        let owner = self.bare_of_user(user);
        let send = |floor: &mut Contacts, roster: &mut Roster| roster.sent(&owner, contact, kind, &mut floor.writes);
        let sent = match self.with_roster(user, send) {
            Some(sent) => sent?,
            None => return Ok(()),
        };
        if let Some(push) = &sent.push {
            self.push_to_interested(user, push);
        }
        if sent.presence == OwnPresence::Hide {
            self.hide_presence(user, contact);
        }
        if sent.route {
            let news = PresenceNews::Subscription { kind, number: sent.number, confirm: sent.confirm };
            self.presence_to(news, &owner, contact, xml);
        }
        if sent.presence == OwnPresence::Show {
            self.show_presence(user, contact);
        }
        Ok(())
    }

    /// A full disk takes no subscriptions, of whichever way.
    fn takes_subscriptions(&self) -> Result<(), Refusal> {
        match self.storage {
            StorageState::Full => Err(Limit::Disk.into()),
            StorageState::Ok => Ok(()),
        }
    }

    /// Answers a subscription stanza with an error that bears its id (RFC 6120 8.3.1), unless the session has ended while
    /// the roster was read.
    pub(super) fn presence_error(
        &mut self,
        session: SessionId,
        contact: &str,
        xml: &[u8],
        refusal: impl Into<Refusal>,
    ) {
        if self.sessions.get(session).is_none() {
            return;
        }
        let (full, id, refusal) = (self.full_jid(session), id_of_stanza(xml), refusal.into());
        self.limited(refusal, || full.clone());
        let mut out = Vec::new();
        write_error(&mut out, "presence", id.as_deref(), Some(contact), Some(&full), refusal);
        self.send_stanza(session, &out);
    }

    pub(super) fn receive_subscription(&mut self, user: u32, kind: Kind, number: u64, contact: &str, xml: &[u8]) {
        let owner = self.bare_of_user(user);
        let receive = |floor: &mut Contacts, roster: &mut Roster| {
            roster.received(&owner, contact, kind, number, xml, &mut floor.writes)
        };
        let Some(received) = self.with_roster(user, receive) else { return };
        let subscribe = kind == Kind::Subscribe;
        let token = (received.deliver && subscribe && invite::is_on(&self.facts)).then(|| invite::with_request(xml));
        if let Some(token) = token.flatten() {
            self.decided.push(Decided::Shown { user, contact: contact.into(), token: token.into() });
        } else if received.deliver {
            let targets: Vec<SessionId> = self
                .users
                .sessions(&self.sessions, user)
                .filter(|(_, s)| if subscribe { s.is_available() } else { s.interested })
                .map(|(id, _)| id)
                .collect();
            let mut out = Vec::new();
            address(&mut out, xml, contact, &owner);
            for session in targets {
                self.send_stanza(session, &out);
            }
        }
        if let Some(push) = &received.push {
            self.push_to_interested(user, push);
        }
        if received.presence == OwnPresence::Hide {
            self.hide_presence(user, contact);
        }
        if let Some((reply, number)) = received.reply {
            self.subscription_to(&owner, contact, reply, number, 0);
        }
        if received.presence == OwnPresence::Show {
            self.show_presence(user, contact);
        }
        if received.deliver && kind == Kind::Subscribed {
            self.ask_lasts_of(user, contact);
        }
    }

    /// The account goes: its contacts see it leave (XEP-0077 3.2 leaves this to the server; nobody keeps a dead contact).
    pub(super) fn leave_contacts(&mut self, user: u32) {
        let owner = self.bare_of_user(user);
        let collect = |_: &mut Contacts, roster: &mut Roster| -> Vec<(Box<str>, Kind)> {
            roster.farewells().map(|(contact, kind)| (contact.into(), kind)).collect()
        };
        for (contact, kind) in self.with_roster(user, collect).unwrap_or_default() {
            self.subscription_to(&owner, &contact, kind, 0, 0);
        }
        self.decided.push(Decided::Left(user));
    }
}
