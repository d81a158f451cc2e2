//! Requests to a room and to its occupants (XEP-0045 6.4, 6.5, 7.10, 17.1), and relayed ones (XEP-0045
//! 1.1, "IQ relay").

use std::sync::Arc;

use minidom::Element as Tree;

use crate::extension::xml;
use crate::kernel::Kernel;
use crate::letters::Kind;
use crate::limits::ROOM_LIST_MAX;
use crate::rooms::activity;
use crate::rooms::admin::{self, NS_ADMIN};
use crate::rooms::avatar;
use crate::rooms::form::{self, Field};
use crate::rooms::hats;
use crate::rooms::occupants::Occupant;
use crate::rooms::owner::{Fate, NS_OWNER};
use crate::rooms::rank::Role;
use crate::rooms::register;
use crate::rooms::room::Room;
use crate::rooms::talk::NS_RETRACT;
use crate::rooms::visit::NS_MUC;
use crate::rooms::write::{NS_HATS, NS_OCCUPANT_ID};
use crate::router::users::Incoming;
use crate::store::room::{Affiliation, Standing};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{bare_of, resource_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;
use crate::wire::{Element, Splice, splice};

pub(super) const NS_INFO: &str = "http://jabber.org/protocol/disco#info";
pub(super) const NS_ITEMS: &str = "http://jabber.org/protocol/disco#items";
pub(super) const NS_PING: &str = "urn:xmpp:ping";
const NS_MAM: &str = "urn:xmpp:mam:2";
pub(super) const NS_MODERATE: &str = "urn:xmpp:message-moderate:1";
const NS_ROOM_INFO: &str = "http://jabber.org/protocol/muc#roominfo";
/// XEP-0045 6.6: the node of the own reserved nick.
const NODE_NICK: &str = "x-roomuser-item";

/// A request to the room, read.
#[derive(Debug)]
pub(super) enum Request {
    Info(Option<String>),
    Items(Option<String>),
    Ping,
    Form,
    Own(Tree),
    Admin(admin::Request),
    /// The archive (XEP-0313), which an extension answers.
    Archive,
    /// Registration with the room (XEP-0045 7.10).
    Register(register::Request),
    /// A command about hats (XEP-0317).
    Command(hats::Command),
    /// The vCard of the room (XEP-0486).
    Card,
    SetCard(avatar::Card),
    /// A message is to be retracted (XEP-0425), by its stanza id.
    Moderate {
        id: u64,
        reason: Option<String>,
    },
}

/// What was read for a request.
pub(super) struct Read {
    /// The users of the list that it asks for.
    pub(super) list: Vec<(Box<str>, Standing)>,
    /// The vCard.
    pub(super) card: Option<Arc<[u8]>>,
    /// Whether the message that it names is in the archive.
    pub(super) exists: bool,
}

/// The answer to a request.
pub(super) enum Answer {
    /// The payload of the result.
    Result(Vec<u8>),
    /// One that many get.
    Shared(Arc<[u8]>),
    /// The same, after which the room may have ended.
    Done(Fate),
    /// The extension of the archive answers.
    Archive,
    /// It was passed on, and is answered by a client.
    Relayed,
}

impl Request {
    /// Reads a request to a room.
    ///
    /// # Errors
    /// The refusal of one that is malformed, or unknown.
    pub(super) fn of(element: &Element<'_>) -> Result<Request, Refusal> {
        let set = element.kind().as_deref() == Some("set");
        let Some(child) = element.children().next() else { return Err(StanzaCondition::BadRequest.into()) };
        let tree = || xml::parse_sparse(child.bytes()).ok_or(Refusal::from(StanzaCondition::BadRequest));
        match (child.namespace(), child.name(), set) {
            (NS_INFO, "query", false) => Ok(Request::Info(child.attribute("node").map(|node| node.into_owned()))),
            (NS_ITEMS, "query", false) => Ok(Request::Items(child.attribute("node").map(|node| node.into_owned()))),
            (NS_PING, "ping", false) => Ok(Request::Ping),
            (NS_OWNER, "query", false) => Ok(Request::Form),
            (NS_OWNER, "query", true) => Ok(Request::Own(tree()?)),
            (NS_ADMIN, "query", set) => Ok(Request::Admin(admin::Request::of(&tree()?, set)?)),
            (register::NS, "query", set) => Ok(Request::Register(register::Request::of(&tree()?, set)?)),
            (hats::NS_COMMANDS, "command", true) => Ok(Request::Command(hats::Command::of(&tree()?)?)),
            (avatar::NS, "vCard", false) => Ok(Request::Card),
            (avatar::NS, "vCard", true) => Ok(Request::SetCard(avatar::Card::of(&tree()?)?)),
            (NS_MAM, "query" | "metadata", _) => Ok(Request::Archive),
            (NS_MODERATE, "moderate", true) => {
                let tree = tree()?;
                if tree.get_child("retract", NS_RETRACT).is_none() {
                    return Err(StanzaCondition::FeatureNotImplemented.into());
                }
                let reason = tree.get_child("reason", NS_MODERATE).map(Tree::text).filter(|text| !text.is_empty());
                let id = tree.attr("id").and_then(|id| id.parse().ok()).ok_or(StanzaCondition::ItemNotFound)?;
                Ok(Request::Moderate { id, reason })
            }
            _ => Err(StanzaCondition::ServiceUnavailable.into()),
        }
    }

    /// The list of users that it needs, if not all are in memory.
    pub(super) fn list(&self) -> Option<Affiliation> {
        match self {
            Request::Admin(admin::Request::Affiliations(affiliation)) => Some(*affiliation),
            _ => None,
        }
    }
}

impl Room {
    /// Answers a request to the room.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn answer(
        &mut self,
        kernel: &mut Kernel,
        from: &str,
        request: Request,
        read: Read,
    ) -> Result<Answer, Refusal> {
        let affiliation = self.affiliation(bare_of(from));
        // Nobody but its owner finds a room that is not configured yet (XEP-0045 10.1.2).
        if self.record.locked && affiliation != Affiliation::Owner {
            return Err(StanzaCondition::ItemNotFound.into());
        }
        match request {
            Request::Info(node) => match node.as_deref() {
                None => Ok(Answer::Result(self.info(kernel.now.wall_us / 1_000))),
                Some(NODE_NICK) => self.reserved_nick(from).map(Answer::Result),
                Some(node) => self.command_info(from, node).map(Answer::Result),
            },
            Request::Items(None) => Ok(Answer::Result(self.items(from))),
            Request::Items(Some(node)) if node == hats::NS_COMMANDS => Ok(Answer::Result(self.command_items(from))),
            // XEP-0030 3.2.
            Request::Items(Some(_)) => Err(StanzaCondition::ItemNotFound.into()),
            Request::Ping => Ok(Answer::Result(Vec::new())),
            Request::Form | Request::Own(_) if affiliation != Affiliation::Owner => {
                Err(StanzaCondition::Forbidden.into())
            }
            Request::Form => Ok(Answer::Result(self.form())),
            Request::Own(query) => self.own(kernel, &query).map(Answer::Done),
            Request::Admin(admin::Request::Affiliations(of)) => {
                self.may_list(from, of)?;
                self.write_affiliations(of, &read.list).map(Answer::Result)
            }
            Request::Admin(admin::Request::Roles(role)) => self.roles(from, role).map(Answer::Result),
            Request::Admin(admin::Request::Change(changes)) => {
                self.change(kernel, from, changes)?;
                Ok(Answer::Done(Fate::Exists))
            }
            Request::Register(request) => {
                let answer = self.register(kernel, bare_of(from), request)?;
                Ok(answer.map_or(Answer::Done(Fate::Exists), Answer::Result))
            }
            Request::Command(command) => self.command(kernel, from, &command).map(Answer::Result),
            Request::Card => self.card(from, read.card).map(Answer::Shared),
            Request::SetCard(card) => {
                self.set_card(kernel, from, &card)?;
                Ok(Answer::Done(Fate::Exists))
            }
            Request::Archive => {
                // Who may enter may read what was said there: an outcast may not, nor a stranger in a
                // room that is for members, or protected by a password.
                let config = &self.record.config;
                let open = !config.members_only && config.password.is_none();
                let may = affiliation >= Affiliation::Member
                    || self.occupant(from).is_some()
                    || (open && affiliation == Affiliation::None);
                if may { Ok(Answer::Archive) } else { Err(StanzaCondition::Forbidden.into()) }
            }
            Request::Moderate { id, reason } => {
                let moderator = self.may_moderate(from, id)?;
                if !read.exists {
                    return Err(StanzaCondition::ItemNotFound.into());
                }
                let by = (self.address(&moderator.nick), self.occupant_id(&moderator.bare));
                self.moderate(kernel, id, &by, reason.as_deref());
                Ok(Answer::Done(Fate::Exists))
            }
        }
    }

    /// Whether somebody may retract the message with a number, which may be in the archive. Returns
    /// the moderator.
    ///
    /// # Errors
    /// `forbidden` for others, `item-not-found` for a message that the room cannot have.
    pub(super) fn may_moderate(&self, from: &str, id: u64) -> Result<&Occupant, StanzaCondition> {
        let moderator = self.occupant(from).filter(|one| one.role == Role::Moderator);
        let moderator = moderator.ok_or(StanzaCondition::Forbidden)?;
        if id > self.record.said.number { Err(StanzaCondition::ItemNotFound) } else { Ok(moderator) }
    }

    /// XEP-0425 4.1: all occupants learn that a message is retracted, and the archive keeps that.
    fn moderate(&mut self, kernel: &mut Kernel, id: u64, (by, occupant): &(String, String), reason: Option<&str>) {
        let mut inside = Vec::new();
        let mut writer = Writer::new(&mut inside);
        writer.open("retract").attribute("xmlns", NS_RETRACT).attribute("id", &id.to_string());
        writer.open("moderated").attribute("xmlns", NS_MODERATE).attribute("by", by);
        writer.open("occupant-id").attribute("xmlns", NS_OCCUPANT_ID).attribute("id", occupant).close();
        writer.close();
        if let Some(reason) = reason {
            writer.leaf("reason", reason);
        }
        writer.close();
        self.forget(id, None);
        crate::store::archive::put_void(&mut kernel.writes, &self.jid, id);
        self.room_says(kernel, &inside);
    }

    /// XEP-0045 6.4.
    fn info(&self, now_ms: u64) -> Vec<u8> {
        let config = &self.record.config;
        let mut out = Vec::with_capacity(2_048);
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS_INFO);
        writer.open("identity").attribute("category", "conference").attribute("type", "text");
        writer.attribute("name", self.name()).close();
        let either = |is: bool, yes, no| if is { yes } else { no };
        let archive = config.archive.then_some([NS_MAM, "urn:xmpp:mam:2#extended"]);
        let vars = [
            NS_MUC,
            NS_INFO,
            NS_ITEMS,
            NS_PING,
            "http://jabber.org/protocol/muc#request",
            "http://jabber.org/protocol/muc#self-ping-optimization",
            "http://jabber.org/protocol/muc#stable_id",
            "urn:xmpp:sid:0",
            NS_OCCUPANT_ID,
            NS_MODERATE,
            NS_RETRACT,
            NS_HATS,
            hats::NS_COMMANDS,
            avatar::NS,
            "jabber:x:conference",
            either(config.public, "muc_public", "muc_hidden"),
            either(config.persistent, "muc_persistent", "muc_temporary"),
            either(config.members_only, "muc_membersonly", "muc_open"),
            either(config.moderated, "muc_moderated", "muc_unmoderated"),
            either(config.shows_jids, "muc_nonanonymous", "muc_semianonymous"),
            either(config.password.is_some(), "muc_passwordprotected", "muc_unsecured"),
        ];
        let registration = config.registration.then_some([register::NS, register::NS_FORM]);
        for var in vars.into_iter().chain(archive.into_iter().chain(registration).flatten()) {
            writer.open("feature").attribute("var", var).close();
        }
        let mut form = Vec::with_capacity(1_024);
        let flag = |value| if value { "1" } else { "0" };
        let mut fields = vec![
            Field::new("muc#roominfo_description", "text-single", "Description").value(&*config.description),
            Field::new("muc#roominfo_subject", "text-single", "Subject").value(&*self.record.subject.text),
            Field::new("muc#roominfo_subjectmod", "boolean", "Participants may change the subject")
                .value(flag(config.change_subject)),
            Field::new("muc#roominfo_occupants", "text-single", "Number of occupants")
                .value(self.occupants.len().to_string()),
            Field::new("muc#roominfo_lang", "text-single", "Natural language").value(&*config.language),
            Field::new("muc#roomconfig_roomname", "text-single", "Name").value(&*config.name),
            Field::new("muc#maxhistoryfetch", "text-single", "Messages of history sent to newcomers")
                .value(config.history.to_string()),
        ];
        if config.slow_mode_s > 0 {
            let label = "Seconds between two messages of an occupant";
            let field = Field::new("muc#roominfo_slow_mode_duration", "text-single", label);
            fields.push(field.value(config.slow_mode_s.to_string()));
        }
        let hashes = self.avatar_hashes();
        if !hashes.is_empty() {
            let field = Field::new("muc#roominfo_avatarhash", "text-multi", "Avatar hash");
            fields.push(hashes.into_iter().fold(field, Field::value));
        }
        if let Some(hash) = hats::hash(&self.hats) {
            fields.push(Field::new("hats#hash", "text-single", "Hats hash").value(hash));
        }
        if let Some(rate) = self.messages_per_hour(now_ms) {
            fields.push(Field::new(activity::FIELD, "text-single", "Messages per hour").value(rate));
        }
        form::write(&mut form, "result", "", NS_ROOM_INFO, &fields);
        writer.raw(&form).close();
        out
    }

    /// XEP-0045 6.5: the occupants of a public room, and of any other for those who are in it.
    fn items(&self, from: &str) -> Vec<u8> {
        let shown = self.record.config.public || self.occupant(from).is_some();
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS_ITEMS);
        let shows = self.occupants.iter().filter(|(_, one)| shown && self.is_broadcast(one.role));
        for (_, one) in shows.take(ROOM_LIST_MAX) {
            writer.open("item").attribute("jid", &self.address(&one.nick)).attribute("name", &one.nick).close();
        }
        writer.close();
        out
    }

    /// The list of commands, or one that the user may use (XEP-0050 2.1, 2.3).
    fn command_info(&self, from: &str, node: &str) -> Result<Vec<u8>, Refusal> {
        let list = (node == hats::NS_COMMANDS).then_some(("command-list", "Commands"));
        let one = || self.commands(from).find(|(of, _)| *of == node).map(|(_, name)| ("command-node", name));
        let (kind, name) = list.or_else(one).ok_or(StanzaCondition::ItemNotFound)?;
        let mut out = Vec::with_capacity(512);
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS_INFO).attribute("node", node);
        writer.open("identity").attribute("category", "automation").attribute("type", kind);
        writer.attribute("name", name).close();
        for var in [hats::NS_COMMANDS, form::NS] {
            writer.open("feature").attribute("var", var).close();
        }
        writer.close();
        Ok(out)
    }

    /// The commands that a user may use (XEP-0050 2.2).
    fn command_items(&self, from: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(1_024);
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS_ITEMS).attribute("node", hats::NS_COMMANDS);
        for (node, name) in self.commands(from) {
            writer.open("item").attribute("jid", &self.jid).attribute("node", node).attribute("name", name).close();
        }
        writer.close();
        out
    }

    /// XEP-0045 6.6.
    fn reserved_nick(&self, from: &str) -> Result<Vec<u8>, Refusal> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS_INFO).attribute("node", NODE_NICK);
        if let Some(nick) = self.standing(bare_of(from))?.nick {
            writer.open("identity").attribute("category", "conference").attribute("type", "text");
            writer.attribute("name", &nick).close();
        }
        writer.close();
        Ok(out)
    }

    /// Passes a request of an occupant on to another one (XEP-0045 1.1), or answers one to itself.
    ///
    /// # Errors
    /// `not-acceptable` if the sender is not in the room, `item-not-found` without such an occupant.
    pub(super) fn relay(
        &mut self,
        kernel: &mut Kernel,
        stanza: Incoming<'_>,
        element: &Element<'_>,
    ) -> Result<Answer, Refusal> {
        let nick = resource_of(stanza.to).unwrap_or_default();
        let Some(child) = element.children().next() else { return Err(StanzaCondition::BadRequest.into()) };
        let Some((slot, at)) = self.occupants.by_session(stanza.from) else {
            // XEP-0045 6.6 has another condition for service discovery.
            let discovers = matches!(child.namespace(), NS_INFO | NS_ITEMS);
            return Err(if discovers { StanzaCondition::BadRequest } else { StanzaCondition::NotAcceptable }.into());
        };
        let Some(sender) = self.occupants.get(slot) else { return Err(StanzaCondition::NotAcceptable.into()) };
        let Some(target) = self.occupants.by_nick(nick).and_then(|slot| self.occupants.get(slot)) else {
            return Err(StanzaCondition::ItemNotFound.into());
        };
        // XEP-0410 4: the room knows the answer.
        if *sender.nick == *nick && child.is("ping", NS_PING) {
            return Ok(Answer::Result(Vec::new()));
        }
        let Some(id) = element.id().map(|id| format!("{:x}.{id}", sender.seats[at].number)) else {
            return Err(StanzaCondition::BadRequest.into());
        };
        if id.len() > 1_024 {
            return Err(Limit::RoomPresence.into());
        }
        // XEP-0045 17.3: the card is that of the user.
        let to = match (child.namespace(), target.seats.last()) {
            ("vcard-temp", _) | (_, None) => target.bare.to_string(),
            (_, Some(seat)) => format!("{}/{}", target.bare, seat.resource),
        };
        let own = sender.nick.clone();
        self.tell_unsaid_of_both(kernel, stanza.from, nick);
        self.pass(kernel, Kind::Request, &own, &to, &id, element);
        Ok(Answer::Relayed)
    }

    /// Passes an answer of an occupant on to the session that has asked, which its `id` names.
    pub(super) fn relay_answer(&mut self, kernel: &mut Kernel, stanza: Incoming<'_>, element: &Element<'_>) {
        let nick = resource_of(stanza.to).unwrap_or_default();
        // The answer to a card comes from the account, not from a session of it.
        let bare = bare_of(stanza.from);
        let Some(sender) = self.occupants.of_user(bare).first().and_then(|slot| self.occupants.get(*slot)) else {
            return;
        };
        let id = element.id().unwrap_or_default();
        let Some((number, id)) = id.split_once('.') else { return };
        let Ok(number) = u32::from_str_radix(number, 16) else { return };
        let Some(target) = self.occupants.by_nick(nick).and_then(|slot| self.occupants.get(slot)) else { return };
        let Some(seat) = target.seats.iter().find(|seat| seat.number == number) else { return };
        let (own, to) = (sender.nick.clone(), format!("{}/{}", target.bare, seat.resource));
        self.tell_unsaid_of(kernel, &own);
        self.pass(kernel, Kind::Response, &own, &to, id, element);
    }

    fn pass(&self, kernel: &mut Kernel, kind: Kind, nick: &str, to: &str, id: &str, element: &Element<'_>) {
        let (from, home) = (self.address(nick), kernel.home(bare_of(to)));
        kernel.post(home, kind, None, &from, to, |out| {
            let (from, to, id) = (Some(&*from), Some(Some(to)), Some(Some(id)));
            splice(out, element, &Splice { from, to, id, ..Splice::default() });
        });
    }
}
