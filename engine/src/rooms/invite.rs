//! Messages to a room that are not for all occupants: invitations, their refusals, and requests for
//! voice (XEP-0045 7.8, 7.13, 8.6).

use minidom::Element as Tree;

use crate::extension::offline::Keep;
use crate::extension::xml;
use crate::kernel::Kernel;
use crate::letters::{Kind, MessageClass};
use crate::limits::{ROOM_CHARGED_SHARE, ROOM_INVITATIONS_AT_ONCE, ROOM_REASON_BYTES_MAX, beginning};
use crate::rooms::form::{self, Field};
use crate::rooms::rank::{Rank, Role};
use crate::rooms::register;
use crate::rooms::room::{Room, sessions_of};
use crate::rooms::write::{NS_USER, post};
use crate::router::users::Incoming;
use crate::store::room::{Affiliation, Standing};
use crate::wire::Element;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{self, bare_of, resource_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;

const NS_REQUEST: &str = "http://jabber.org/protocol/muc#request";

/// Whether messages of this class to a room itself may ask for something.
pub(super) fn asks(class: MessageClass) -> bool {
    !matches!(class, MessageClass::Groupchat | MessageClass::Error)
}

/// What a message to a room asks for.
pub(super) enum Asks {
    /// Invitations: the invitees' bare JIDs with the reasons.
    Invite(Vec<(Box<str>, Option<String>)>),
    /// An invitation by this JID is declined.
    Decline(Box<str>, Option<String>),
    /// Voice, or the answer of a moderator.
    Voice(form::Submitted),
    /// The decision on a registration (XEP-0045 9.9).
    Register(form::Submitted),
}

impl Asks {
    /// Reads a message; `None` if it asks for nothing.
    pub(super) fn of(element: &Element<'_>) -> Option<Asks> {
        if let Some(x) = element.child("x", NS_USER) {
            let x = xml::parse_sparse(x.bytes())?;
            let reason = |of: &Tree| of.get_child("reason", NS_USER).map(Tree::text).filter(|text| !text.is_empty());
            let to = |of: &Tree| of.attr("to").and_then(|to| jid::normalise(to).ok().map(|to| to.into_owned()));
            if let Some(decline) = x.get_child("decline", NS_USER) {
                return Some(Asks::Decline(to(decline)?.into(), reason(decline)));
            }
            let invites = x.children().filter(|child| child.is("invite", NS_USER)).take(ROOM_INVITATIONS_AT_ONCE);
            let invites: Vec<_> =
                invites.filter_map(|invite| Some((bare_of(&to(invite)?).into(), reason(invite)))).collect();
            return (!invites.is_empty()).then_some(Asks::Invite(invites));
        }
        let x = element.child("x", form::NS)?;
        let x = xml::parse_sparse(x.bytes())?;
        // A form without a type is taken for an answer to a request for voice.
        let registers = form::Submitted::of(&x, register::NS_FORM).filter(|form| form.one("FORM_TYPE").is_some());
        registers.map(Asks::Register).or_else(|| form::Submitted::of(&x, NS_REQUEST).map(Asks::Voice))
    }
}

impl Room {
    /// Handles a message to the room that is no groupchat message.
    pub(super) fn to_room(
        &mut self,
        kernel: &mut Kernel,
        stanza: Incoming<'_>,
        element: &Element<'_>,
    ) -> Result<(), Refusal> {
        match Asks::of(element) {
            Some(Asks::Invite(invites)) => self.invite(kernel, stanza, &invites),
            Some(Asks::Decline(to, reason)) => self.decline(kernel, stanza, &to, reason.as_deref()),
            Some(Asks::Voice(form)) => self.voice(kernel, stanza, &form),
            Some(Asks::Register(form)) => self.decide(kernel, stanza.from, &form),
            None if self.occupant(stanza.from).is_none() => Err(StanzaCondition::NotAcceptable.into()),
            None => Err(StanzaCondition::BadRequest.into()),
        }
    }

    /// XEP-0045 7.8.2.
    fn invite(
        &mut self,
        kernel: &mut Kernel,
        stanza: Incoming<'_>,
        invites: &[(Box<str>, Option<String>)],
    ) -> Result<(), Refusal> {
        let Some(inviter) = self.occupant(stanza.from) else { return Err(StanzaCondition::NotAcceptable.into()) };
        let (affiliation, nick) = (inviter.affiliation, inviter.nick.clone());
        let config = &self.record.config;
        // XEP-0045 7.8.2: in a members-only room an invitation makes a member.
        let members_only = config.members_only;
        if members_only && affiliation < Affiliation::Admin && !config.allow_invites {
            return Err(StanzaCondition::Forbidden.into());
        }
        for (to, reason) in invites {
            if jid::local_of(to).is_empty() {
                return Err(StanzaCondition::JidMalformed.into());
            }
            let former = self.standing(to)?;
            match self.affiliation(to) {
                Affiliation::Outcast => return Err(StanzaCondition::Forbidden.into()),
                Affiliation::None if members_only => {
                    self.put_standing(kernel, to, Standing { affiliation: Affiliation::Member, ..former });
                }
                _ => {}
            }
            // In a semi-anonymous room the inviter is known by the nick only.
            let from = match self.record.config.shows_jids {
                true => bare_of(stanza.from).to_owned(),
                false => self.address(&nick),
            };
            let mut out = Vec::with_capacity(256);
            let mut writer = Writer::new(&mut out);
            writer.open("message").open("x").attribute("xmlns", NS_USER);
            writer.open("invite").attribute("from", &from);
            if let Some(reason) = reason {
                writer.leaf("reason", reason);
            }
            writer.close();
            if let Some(password) = &self.record.config.password {
                writer.leaf("password", password);
            }
            writer.close().close();
            let kind = Kind::Message { class: MessageClass::Normal, keep: Keep::Archive };
            post(kernel, kind, &self.jid, to, &out);
            // It is stored for the user: all of it is charged.
            self.spend(out.len() * ROOM_CHARGED_SHARE);
            self.invited.note(to, bare_of(stanza.from));
        }
        Ok(())
    }

    /// XEP-0045 7.8.2: the inviter, if still in the room, learns of it. Without an invitation a
    /// stranger could send messages through the room.
    ///
    /// # Errors
    /// `forbidden` for outcasts, `item-not-found` without an invitation by that occupant.
    fn decline(
        &mut self,
        kernel: &mut Kernel,
        stanza: Incoming<'_>,
        to: &str,
        reason: Option<&str>,
    ) -> Result<(), Refusal> {
        let invitee = bare_of(stanza.from);
        if self.affiliation(invitee) == Affiliation::Outcast {
            return Err(StanzaCondition::Forbidden.into());
        }
        let nick = to.strip_prefix(&*self.jid).and_then(|rest| rest.strip_prefix('/'));
        let slot = match nick {
            Some(nick) => self.occupants.by_nick(nick),
            None => self.occupants.of_user(bare_of(to)).first().copied(),
        };
        let inviter = slot.and_then(|slot| self.occupants.get(slot)).map(|one| (one.bare.clone(), sessions_of(one)));
        let Some((_, sessions)) = inviter.filter(|(inviter, _)| self.invited.take(invitee, inviter)) else {
            return Err(StanzaCondition::ItemNotFound.into());
        };
        let mut out = Vec::with_capacity(256);
        let mut writer = Writer::new(&mut out);
        writer.open("message").open("x").attribute("xmlns", NS_USER);
        writer.open("decline").attribute("from", invitee);
        if let Some(reason) = reason {
            writer.leaf("reason", beginning(reason, ROOM_REASON_BYTES_MAX));
        }
        writer.close().close().close();
        let kind = Kind::Message { class: MessageClass::Normal, keep: Keep::Nothing };
        for session in &sessions {
            self.post(kernel, kind, &self.jid, session, &out);
        }
        Ok(())
    }

    /// XEP-0045 7.13 and 8.6.
    fn voice(&mut self, kernel: &mut Kernel, stanza: Incoming<'_>, form: &form::Submitted) -> Result<(), Refusal> {
        let Some(sender) = self.occupant(stanza.from) else { return Err(StanzaCondition::NotAcceptable.into()) };
        if sender.role == Role::Moderator {
            let nick = form.one("muc#roomnick").unwrap_or_default();
            let allowed = form.flag("muc#request_allow") == Some(true);
            let Some(slot) = self.occupants.by_nick(nick) else { return Err(StanzaCondition::ItemNotFound.into()) };
            let by = sender.nick.clone();
            if let Some(rank) = self.occupants.get(slot).map(|one| one.rank())
                && allowed
                && rank.role == Role::Visitor
            {
                self.set_rank(kernel, slot, Rank { role: Role::Participant, ..rank }, Some(&by), None);
            }
            return Ok(());
        }
        if sender.role != Role::Visitor {
            return Err(StanzaCondition::NotAllowed.into());
        }
        if self.occupants.moderators().next().is_none() {
            return Err(Limit::RoomModerators.into());
        }
        let jid = format!("{}/{}", sender.bare, resource_of(stanza.from).unwrap_or_default());
        let fields = [
            Field::new("muc#role", "list-single", "Requested role")
                .value("participant")
                .options(&[("participant", "Participant")]),
            Field::new("muc#jid", "jid-single", "User ID").value(&jid),
            Field::new("muc#roomnick", "text-single", "Room Nickname").value(&*sender.nick),
            Field::new("muc#request_allow", "boolean", "Grant voice to this person?").value("false"),
        ];
        let mut out = b"<message>".to_vec();
        form::write(&mut out, "form", "Voice request", NS_REQUEST, &fields);
        out.extend_from_slice(b"</message>");
        let kind = Kind::Message { class: MessageClass::Normal, keep: Keep::Nothing };
        let moderators = self.occupants.moderators().flat_map(|(_, one)| one.sessions());
        self.cast(kernel, kind, &self.jid, &out, 0, moderators);
        Ok(())
    }
}
