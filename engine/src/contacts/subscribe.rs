//! Subscriptions between a user and a contact (RFC 6121 3, Appendix A).

use crate::actors::Actors;
use crate::contacts::{Contacts, Decided};
use crate::extension::invite;
use crate::extension::roster::Roster;
use crate::extension::subscription::{Kind, OwnPresence};
use crate::id::SessionId;
use crate::io::StorageState;
use crate::letters::PresenceNews;
use crate::streams::Streams;
use crate::wire::limit::{Limit, Refusal};
use crate::wire::splice::address;
use crate::wire::written::{id_of_stanza, write_error};

impl Contacts {
    pub(super) fn send_subscription(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
        kind: Kind,
        contact: &str,
        xml: &[u8],
    ) {
        let sent = self.takes_subscriptions(cx).and_then(|()| self.send_for_user(cx, actors, user, kind, contact, xml));
        if let Err(refusal) = sent {
            self.presence_error(cx, actors, session, contact, xml, refusal);
        }
    }

    /// Sends a subscription stanza of the user to a contact (RFC 6121 A.2).
    ///
    /// # Errors
    /// The roster is full.
    pub(super) fn send_for_user(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        kind: Kind,
        contact: &str,
        xml: &[u8],
    ) -> Result<(), Refusal> {
        let owner = actors.bare_of_user(user);
        let send = |cx: &mut Streams, _: &mut Actors, roster: &mut Roster| {
            roster.sent(&owner, contact, kind, &mut cx.kernel.writes)
        };
        let sent = match self.with_roster(cx, actors, user, send) {
            Some(sent) => sent?,
            None => return Ok(()),
        };
        if let Some(push) = &sent.push {
            self.push_to_interested(cx, actors, user, push);
        }
        if sent.presence == OwnPresence::Hide {
            self.hide_presence(cx, actors, user, contact);
        }
        if sent.route {
            let news = PresenceNews::Subscription { kind, number: sent.number, confirm: sent.confirm };
            cx.kernel.presence_to(news, &owner, contact, xml);
        }
        if sent.presence == OwnPresence::Show {
            self.show_presence(cx, actors, user, contact);
        }
        Ok(())
    }

    /// A full disk permits no subscriptions in either direction.
    fn takes_subscriptions(&self, cx: &Streams) -> Result<(), Refusal> {
        match cx.kernel.storage {
            StorageState::Full => Err(Limit::Disk.into()),
            StorageState::Ok => Ok(()),
        }
    }

    /// Answers a subscription stanza with an error that has its id (RFC 6120 8.3.1), unless the
    /// session has ended while the roster was read.
    pub(super) fn presence_error(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        contact: &str,
        xml: &[u8],
        refusal: impl Into<Refusal>,
    ) {
        if actors.sessions.get(session).is_none() {
            return;
        }
        let (full, id, refusal) = (actors.full_jid(session), id_of_stanza(xml), refusal.into());
        cx.kernel.limited(refusal, || full.clone());
        let mut out = Vec::new();
        write_error(&mut out, "presence", id.as_deref(), Some(contact), Some(&full), refusal);
        actors.send_stanza(cx, session, &out);
    }

    pub(super) fn receive_subscription(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        kind: Kind,
        number: u64,
        contact: &str,
        xml: &[u8],
    ) {
        let owner = actors.bare_of_user(user);
        let receive = |cx: &mut Streams, _: &mut Actors, roster: &mut Roster| {
            roster.received(&owner, contact, kind, number, xml, &mut cx.kernel.writes)
        };
        let Some(received) = self.with_roster(cx, actors, user, receive) else { return };
        let subscribe = kind == Kind::Subscribe;
        let token =
            (received.deliver && subscribe && invite::is_on(&cx.kernel.facts)).then(|| invite::with_request(xml));
        if let Some(token) = token.flatten() {
            self.decided.push(Decided::Shown { user, contact: contact.into(), token: token.into() });
        } else if received.deliver {
            let targets: Vec<SessionId> = actors
                .users
                .sessions(&actors.sessions, user)
                .filter(|(_, s)| if subscribe { s.is_available() } else { s.interested })
                .map(|(id, _)| id)
                .collect();
            let mut out = Vec::new();
            address(&mut out, xml, contact, &owner);
            for session in targets {
                actors.send_stanza(cx, session, &out);
            }
        }
        if let Some(push) = &received.push {
            self.push_to_interested(cx, actors, user, push);
        }
        if received.presence == OwnPresence::Hide {
            self.hide_presence(cx, actors, user, contact);
        }
        if let Some((reply, number)) = received.reply {
            cx.kernel.subscription_to(&owner, contact, reply, number, 0);
        }
        if received.presence == OwnPresence::Show {
            self.show_presence(cx, actors, user, contact);
        }
        if received.deliver && kind == Kind::Subscribed {
            self.ask_lasts_of(cx, actors, user, contact);
        }
    }

    /// The account is removed: its contacts see the subscriptions end. XEP-0077 3.2 leaves this to
    /// the server; it frees rosters of dead contacts.
    pub(super) fn leave_contacts(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let owner = actors.bare_of_user(user);
        let collect = |_: &mut Streams, _: &mut Actors, roster: &mut Roster| -> Vec<(Box<str>, Kind)> {
            roster.farewells().map(|(contact, kind)| (contact.into(), kind)).collect()
        };
        for (contact, kind) in self.with_roster(cx, actors, user, collect).unwrap_or_default() {
            cx.kernel.subscription_to(&owner, &contact, kind, 0, 0);
        }
        self.decided.push(Decided::Left(user));
    }
}
