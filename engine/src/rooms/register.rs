//! Registration with a room: a user becomes a member, with a nick that nobody else can use (XEP-0045
//! 7.10, 9.9).
//!
//! An open room registers at once, as fast as it admits strangers. A room that is members-only,
//! moderated, protected by a password or closed by the operator asks its admins: membership means
//! entry, voice and the archive. Such requests are stored, and sent to each admin that enters.

use minidom::Element as Tree;

use crate::extension::offline::Keep;
use crate::kernel::Kernel;
use crate::letters::{Kind, MessageClass};
use crate::limits::ROOM_REQUESTS_MAX;
use crate::rooms::form::{self, Field, Submitted};
use crate::rooms::room::Room;
use crate::store::room::{self, Affiliation, Standing};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{self, bare_of, split_resource};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;

pub(super) const NS: &str = "jabber:iq:register";
pub(super) const NS_FORM: &str = "http://jabber.org/protocol/muc#register";
const NICK: &str = "muc#register_roomnick";
const USER: &str = "muc#jid";

/// A request of the namespace.
#[derive(Debug)]
pub(super) enum Request {
    /// What is needed to register.
    Form,
    /// Registration with this nick.
    Nick(Box<str>),
    /// The end of a registration (XEP-0077 3.2).
    Remove,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// `bad-request` without a valid form, `not-acceptable` for what cannot be a nick.
    pub(super) fn of(query: &Tree, set: bool) -> Result<Request, Refusal> {
        if !set {
            return Ok(Request::Form);
        }
        if query.get_child("remove", NS).is_some() {
            return Ok(Request::Remove);
        }
        let form = query.get_child("x", form::NS).and_then(|x| Submitted::of(x, NS_FORM));
        let form = form.ok_or(StanzaCondition::BadRequest)?;
        let nick = form.one(NICK).filter(|nick| !nick.trim().is_empty()).ok_or(StanzaCondition::BadRequest)?;
        let nick = jid::normalise_resource(nick).map_err(|_| StanzaCondition::NotAcceptable)?;
        Ok(Request::Nick((&*nick).into()))
    }

    /// The nick whose holder it needs.
    pub(super) fn nick(&self) -> Option<&str> {
        if let Request::Nick(nick) = self { Some(nick) } else { None }
    }
}

impl Room {
    /// Handles a request of a user. Returns the payload of the answer; `None` after a change.
    ///
    /// # Errors
    /// `service-unavailable` where nobody may register, `not-allowed` for outcasts, `conflict` for
    /// a nick that is another user's, `resource-constraint` at the limit of strangers or requests,
    /// `registration-required` for the end of a registration that does not exist.
    pub(super) fn register(
        &mut self,
        kernel: &mut Kernel,
        bare: &str,
        request: Request,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let affiliation = self.affiliation(bare);
        if !self.record.config.registration {
            return Err(StanzaCondition::ServiceUnavailable.into());
        }
        if affiliation == Affiliation::Outcast {
            return Err(StanzaCondition::NotAllowed.into());
        }
        match request {
            Request::Form => return Ok(Some(self.registration(bare)?)),
            Request::Remove => self.unregister(kernel, bare)?,
            Request::Nick(nick) => {
                self.may_reserve(bare, &nick)?;
                let config = &self.record.config;
                let is_open = !config.members_only && !config.moderated && config.password.is_none();
                if affiliation == Affiliation::None && (!is_open || self.guard.is_closed(kernel)) {
                    self.request_registration(kernel, bare, nick)?;
                } else {
                    self.guard.may_enter(kernel, affiliation == Affiliation::None)?;
                    self.put_registration(kernel, bare, nick, None)?;
                }
            }
        }
        Ok(None)
    }

    /// What is needed to register, or with what the user has registered (XEP-0077 3.1).
    fn registration(&self, bare: &str) -> Result<Vec<u8>, Refusal> {
        let nick = self.standing(bare)?.nick;
        let mut out = Vec::with_capacity(512);
        let (label, mut form) = ("Nick that is to be yours alone", Vec::with_capacity(384));
        let field = Field::new(NICK, "text-single", label).required();
        let fields = [match &nick {
            Some(nick) => field.value(&**nick),
            None => field,
        }];
        form::write(&mut form, "form", &format!("Registration with {}", self.name()), NS_FORM, &fields);
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS);
        if let Some(nick) = &nick {
            writer.open("registered").close().leaf("username", nick);
        }
        writer.raw(&form).close();
        Ok(out)
    }

    /// Whether a user may have a nick: nobody else has it, uses it, or has asked for it first.
    fn may_reserve(&self, bare: &str, nick: &str) -> Result<(), StanzaCondition> {
        let held = self.standings.is_reserved(nick, bare);
        let used = self.occupants.by_nick(nick).and_then(|slot| self.occupants.get(slot));
        let wanted = self.requests.iter().any(|(user, wanted)| **user != *bare && **wanted == *nick);
        let is_free = !held && !wanted && used.is_none_or(|occupant| *occupant.bare == *bare);
        if is_free { Ok(()) } else { Err(StanzaCondition::Conflict) }
    }

    fn put_registration(
        &mut self,
        kernel: &mut Kernel,
        bare: &str,
        nick: Box<str>,
        actor: Option<&str>,
    ) -> Result<(), Refusal> {
        let former = self.standing(bare)?;
        let affiliation = former.affiliation.max(Affiliation::Member);
        let is_member = affiliation == former.affiliation;
        let self_registered = if is_member { former.self_registered } else { actor.is_none() };
        let standing = Standing { affiliation, nick: Some(nick), self_registered, ..former };
        match is_member {
            true => self.put_standing(kernel, bare, standing),
            false => self.affiliate(kernel, bare, standing, actor),
        }
        Ok(())
    }

    /// XEP-0077 3.2. A member is none any more; admins and owners lose the nick alone.
    fn unregister(&mut self, kernel: &mut Kernel, bare: &str) -> Result<(), StanzaCondition> {
        let former = self.standing(bare)?;
        if self.drop_request(kernel, bare) {
            return Ok(());
        }
        if former.nick.is_none() {
            return Err(StanzaCondition::RegistrationRequired);
        }
        let is_member = former.affiliation == Affiliation::Member;
        let standing = Standing { nick: None, ..former };
        match is_member {
            true => {
                let standing = Standing { left: standing.left, ..Standing::default() };
                self.affiliate(kernel, bare, standing, None);
            }
            false => self.put_standing(kernel, bare, standing),
        }
        Ok(())
    }

    /// XEP-0045 9.9: the admins decide.
    fn request_registration(&mut self, kernel: &mut Kernel, bare: &str, nick: Box<str>) -> Result<(), Refusal> {
        if !self.requests.contains_key(bare) && self.requests.len() >= ROOM_REQUESTS_MAX {
            return Err(Limit::RoomRequests.into());
        }
        if self.requests.get(bare) == Some(&nick) {
            return Ok(());
        }
        room::Request { nick: nick.clone() }.put(&mut kernel.writes, &self.jid, bare);
        self.tell_known(kernel, bare, true);
        let form = self.approval(bare, &nick);
        self.requests.insert(bare.into(), nick);
        // Others are sent to them when they enter.
        if self.guard.tells_admins(kernel) {
            let admins = self.sessions(|one| one.affiliation >= Affiliation::Admin);
            self.cast(kernel, APPROVAL, &self.jid, &form, 0, admins);
        }
        Ok(())
    }

    /// The form by which an admin decides.
    fn approval(&self, bare: &str, nick: &str) -> Vec<u8> {
        let fields = [
            Field::new(USER, "jid-single", "User ID").value(bare),
            Field::new(NICK, "text-single", "Desired Nickname").value(nick),
            Field::new("muc#register_allow", "boolean", "Allow this person to register with the room?").value("0"),
        ];
        let mut out = b"<message>".to_vec();
        form::write(&mut out, "form", "Registration request", NS_FORM, &fields);
        out.extend_from_slice(b"</message>");
        out
    }

    /// An admin who enters gets the requests that wait.
    pub(super) fn send_requests(&self, kernel: &mut Kernel, full: &str, slot: u32) {
        if self.occupants.get(slot).is_none_or(|occupant| occupant.affiliation < Affiliation::Admin) {
            return;
        }
        for (bare, nick) in &self.requests {
            let (user, resource) = split_resource(full);
            let to = [(user, resource.unwrap_or_default())].into_iter();
            self.cast(kernel, APPROVAL, &self.jid, &self.approval(bare, nick), 0, to);
        }
    }

    /// The user and the nick of the request that a submitted form decides. The form names both:
    /// since it was sent, the nick may have become that of another request.
    pub(super) fn request(&self, form: &Submitted) -> Option<(&str, &str)> {
        let user = jid::normalise(form.one(USER)?).ok()?;
        let (bare, nick) = self.requests.get_key_value(bare_of(&user))?;
        (form.one(NICK) == Some(nick)).then_some((bare, nick))
    }

    /// Carries out the decision of an admin on a request.
    ///
    /// # Errors
    /// `forbidden` for others, `item-not-found` without such a request, `conflict` for a nick that
    /// is another user's by now.
    pub(super) fn decide(&mut self, kernel: &mut Kernel, from: &str, form: &Submitted) -> Result<(), Refusal> {
        let Some(admin) = self.occupant(from) else { return Err(StanzaCondition::NotAcceptable.into()) };
        if admin.affiliation < Affiliation::Admin {
            return Err(StanzaCondition::Forbidden.into());
        }
        let by = admin.nick.clone();
        let (bare, nick): (Box<str>, Box<str>) =
            self.request(form).map(|(bare, nick)| (bare.into(), nick.into())).ok_or(StanzaCondition::ItemNotFound)?;
        if form.flag("muc#register_allow").ok_or(StanzaCondition::BadRequest)? {
            self.may_reserve(bare_of(&bare), &nick)?;
            self.put_registration(kernel, &bare, nick, Some(&by))?;
        }
        self.drop_request(kernel, &bare);
        Ok(())
    }

    /// A request waits no more. Returns whether there was one.
    pub(super) fn drop_request(&mut self, kernel: &mut Kernel, bare: &str) -> bool {
        if self.requests.remove(bare).is_none() {
            return false;
        }
        room::Request::delete(&mut kernel.writes, &self.jid, bare);
        if self.standings.get(bare).is_some_and(|standing| standing.is_none()) {
            self.tell_known(kernel, bare, false);
        }
        true
    }
}

const APPROVAL: Kind = Kind::Message { class: MessageClass::Normal, keep: Keep::Nothing };
