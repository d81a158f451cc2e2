//! Hats (XEP-0317): titles that admins give to members, shown in presence. They are created, given
//! and taken by commands (XEP-0050). A command keeps nothing between its form and the answer.
//!
//! Only users with an affiliation wear hats: they lose them with it, and so with their account.

use minidom::Element as Tree;

use crate::kernel::Kernel;
use crate::limits::{ROOM_HAT_BYTES_MAX, ROOM_HATS_BYTES_MAX, ROOM_HATS_PER_USER_MAX, ROOM_HUE_BYTES_MAX};
use crate::rooms::form::{self, Column, Field, Submitted};
use crate::rooms::room::{News, Room, sessions_of};
use crate::store::hash::HashKind;
use crate::store::room::Affiliation;
use crate::store::room_extra::{Hat, Hats};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{self, bare_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;

/// XEP-0050.
pub(super) const NS_COMMANDS: &str = "http://jabber.org/protocol/commands";
const NS_FORM: &str = "urn:xmpp:hats:commands";
const JID: &str = "hats#jid";
const TITLE: &str = "hats#title";
const URI: &str = "hats#uri";
const HUE: &str = "hats#hue";

#[derive(Clone, Copy, PartialEq, Debug)]
enum Node {
    Create,
    Destroy,
    Assign,
    Unassign,
    List,
    Assigned,
}

/// The commands: their nodes and names.
const NODES: [(Node, &str, &str); 6] = [
    (Node::Create, "urn:xmpp:hats:commands:create", "Create a hat"),
    (Node::Destroy, "urn:xmpp:hats:commands:destroy", "Destroy a hat"),
    (Node::Assign, "urn:xmpp:hats:commands:assign", "Assign a hat"),
    (Node::Unassign, "urn:xmpp:hats:commands:unassign", "Remove a hat from a user"),
    (Node::List, "urn:xmpp:hats:commands:list", "List hats"),
    (Node::Assigned, "urn:xmpp:hats:commands:list-assigned", "List assigned hats"),
];

/// A command, read.
#[derive(Debug)]
pub(super) struct Command {
    node: Node,
    cancels: bool,
    form: Option<Submitted>,
    /// The user that it is about, by bare JID.
    user: Option<Box<str>>,
}

impl Command {
    /// Reads a command.
    ///
    /// # Errors
    /// `item-not-found` for an unknown one, `bad-request` for an unknown action or form,
    /// `jid-malformed` for a user without a valid JID.
    pub(super) fn of(command: &Tree) -> Result<Command, Refusal> {
        let named = NODES.iter().find(|(_, node, _)| command.attr("node") == Some(node));
        let (node, ..) = *named.ok_or(StanzaCondition::ItemNotFound)?;
        let cancels = match command.attr("action") {
            None | Some("execute" | "complete") => false,
            Some("cancel") => true,
            Some(_) => return Err(StanzaCondition::BadRequest.into()),
        };
        let form = command.get_child("x", form::NS).filter(|_| !cancels);
        let form = form.map(|x| Submitted::of(x, NS_FORM).ok_or(StanzaCondition::BadRequest)).transpose()?;
        let user = match form.as_ref().and_then(|form| form.one(JID)) {
            Some(user) => {
                let user = jid::normalise(user).map_err(|_| StanzaCondition::JidMalformed)?;
                Some(bare_of(&user).into())
            }
            None => None,
        };
        Ok(Command { node, cancels, form, user })
    }

    /// The user whose standing it needs.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

/// XEP-0317 2: names the list of hats.
pub(super) fn hash(hats: &Hats) -> Option<String> {
    let uris: Vec<&[u8]> = hats.known.iter().flat_map(|hat| [hat.uri.as_bytes(), b"\0"]).collect();
    let digest = HashKind::Sha1.digest(&uris);
    let hex = digest.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    (!hats.known.is_empty()).then_some(hex)
}

/// A field of a submitted form that must have a value.
fn text<'a>(form: &'a Submitted, var: &str) -> Result<&'a str, Refusal> {
    Ok(form.one(var).filter(|value| !value.trim().is_empty()).ok_or(StanzaCondition::BadRequest)?)
}

/// A hat with these texts.
///
/// # Errors
/// `not-acceptable` for one that is too long, or a hue that is no angle.
pub(super) fn hat(uri: &str, title: &str, hue: Option<&str>) -> Result<Hat, StanzaCondition> {
    let is_angle = |hue: &str| {
        hue.len() <= ROOM_HUE_BYTES_MAX && hue.parse::<f32>().is_ok_and(|angle| (0.0..=360.0).contains(&angle))
    };
    if uri.len().max(title.len()) > ROOM_HAT_BYTES_MAX || hue.is_some_and(|hue| !is_angle(hue)) {
        return Err(StanzaCondition::NotAcceptable);
    }
    Ok(Hat { uri: uri.into(), title: title.into(), hue: hue.map(Into::into) })
}

impl Room {
    /// Whether a user may use a command: members and occupants list the hats.
    fn may_use(&self, from: &str, node: Node) -> bool {
        let affiliation = self.affiliation(bare_of(from));
        let reads = node == Node::List && (affiliation >= Affiliation::Member || self.occupant(from).is_some());
        affiliation >= Affiliation::Admin || reads
    }

    /// The nodes and names of the commands that a user may use (XEP-0050 2.2).
    pub(super) fn commands(&self, from: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
        NODES.iter().filter(move |(node, ..)| self.may_use(from, *node)).map(|(_, node, name)| (*node, *name))
    }

    /// Carries out a command. Returns the payload of its answer.
    ///
    /// # Errors
    /// `forbidden` for everybody but admins; members and occupants may list the hats.
    /// `item-not-found` for an unknown hat, or a user without an affiliation.
    pub(super) fn command(&mut self, kernel: &mut Kernel, from: &str, command: &Command) -> Result<Vec<u8>, Refusal> {
        if !self.may_use(from, command.node) {
            return Err(StanzaCondition::Forbidden.into());
        }
        let session = kernel.random_name();
        let answer = |status: &str, payload: &[u8]| {
            let mut out = Vec::with_capacity(payload.len() + 256);
            let mut writer = Writer::new(&mut out);
            let node = NODES.iter().find(|(node, ..)| *node == command.node).map_or("", |(_, node, _)| node);
            writer.open("command").attribute("xmlns", NS_COMMANDS).attribute("node", node);
            writer.attribute("sessionid", &session).attribute("status", status).raw(payload).close();
            out
        };
        if command.cancels {
            return Ok(answer("canceled", b""));
        }
        match (command.node, &command.form) {
            (Node::List | Node::Assigned, _) => return Ok(answer("completed", &self.listed_hats(command.node))),
            (_, None) => return Ok(answer("executing", &self.hat_form(command.node))),
            (Node::Create, Some(form)) => self.create_hat(kernel, form)?,
            (Node::Destroy, Some(form)) => self.destroy_hat(kernel, form.one(URI).unwrap_or_default())?,
            (Node::Assign | Node::Unassign, Some(form)) => {
                let user = command.user().ok_or(StanzaCondition::BadRequest)?;
                self.give_hat(kernel, user, form.one(URI).unwrap_or_default(), command.node == Node::Assign)?;
            }
        }
        Ok(answer("completed", b""))
    }

    fn hat_form(&self, node: Node) -> Vec<u8> {
        let options: Vec<(&str, &str)> = self.hats.known.iter().map(|hat| (&*hat.uri, &*hat.title)).collect();
        let hat = || Field::new(URI, "list-single", "Hat").required().options(&options);
        let user = || Field::new(JID, "jid-single", "User Address").required();
        let fields = match node {
            Node::Create => vec![
                Field::new(TITLE, "text-single", "Hat Title").required(),
                Field::new(URI, "text-single", "Hat URI").required(),
                Field::new(HUE, "text-single", "Hat Hue"),
            ],
            Node::Destroy => vec![hat()],
            _ => vec![user(), hat()],
        };
        let title = NODES.iter().find(|(of, ..)| *of == node).map_or("", |(.., name)| name);
        let mut out = Vec::with_capacity(512);
        form::write(&mut out, "form", title, NS_FORM, &fields);
        out
    }

    /// The hats of the room, or those that users wear.
    fn listed_hats(&self, node: Node) -> Vec<u8> {
        let assigned = node == Node::Assigned;
        let title = if assigned { "Assigned Hats List" } else { "Hats List" };
        let columns: Vec<Column<'_>> = [JID, TITLE, URI, HUE]
            .map(|var| (var, "", ""))
            .into_iter()
            .filter(|column| assigned || column.0 != JID)
            .collect();
        let all: Vec<(Option<&str>, &Hat)> = match assigned {
            true => self.hats.worn.iter().filter_map(|(of, uri)| Some((Some(&**of), self.hats.get(uri)?))).collect(),
            false => self.hats.known.iter().map(|hat| (None, hat)).collect(),
        };
        let values = |(user, hat): &(Option<&str>, &Hat)| {
            let values = [(JID, *user), (TITLE, Some(&*hat.title)), (URI, Some(&*hat.uri)), (HUE, hat.hue.as_deref())];
            values.into_iter().filter_map(|(var, value)| Some((var, value?.to_owned()))).collect::<Vec<_>>()
        };
        let mut out = Vec::with_capacity(1_024);
        form::write_items(&mut out, title, "", &columns, all.iter().map(values));
        out
    }

    /// XEP-0317 3.2.
    fn create_hat(&mut self, kernel: &mut Kernel, form: &Submitted) -> Result<(), Refusal> {
        let (uri, title) = (text(form, URI)?, text(form, TITLE)?);
        let hat = hat(uri, title, form.one(HUE).filter(|hue| !hue.is_empty()))?;
        let mut hats = self.hats.clone();
        match hats.known.iter_mut().find(|known| *known.uri == *uri) {
            Some(known) => *known = hat,
            None => hats.known.push(hat),
        }
        let wearers = wearers(&hats, uri);
        self.put_hats(kernel, hats, &wearers)?;
        self.tell_statuses(kernel, &[104]);
        Ok(())
    }

    /// XEP-0317 3.3.
    fn destroy_hat(&mut self, kernel: &mut Kernel, uri: &str) -> Result<(), Refusal> {
        self.hats.get(uri).ok_or(StanzaCondition::ItemNotFound)?;
        let (mut hats, wearers) = (self.hats.clone(), wearers(&self.hats, uri));
        hats.known.retain(|hat| *hat.uri != *uri);
        hats.worn.retain(|(_, worn)| **worn != *uri);
        self.put_hats(kernel, hats, &wearers)?;
        self.tell_statuses(kernel, &[104]);
        Ok(())
    }

    /// XEP-0317 3.5, 3.6.
    fn give_hat(&mut self, kernel: &mut Kernel, user: &str, uri: &str, wears: bool) -> Result<(), Refusal> {
        let worn = self.hats.worn.iter().any(|(of, worn)| **of == *user && **worn == *uri);
        let known = self.hats.get(uri).is_some() && (!wears || self.affiliation(user) >= Affiliation::Member);
        if !known || (!wears && !worn) {
            return Err(StanzaCondition::ItemNotFound.into());
        }
        if wears == worn {
            return Ok(());
        }
        let mut hats = self.hats.clone();
        match wears {
            true if hats.of(user).count() >= ROOM_HATS_PER_USER_MAX => return Err(Limit::RoomHats.into()),
            true => hats.worn.push((user.into(), uri.into())),
            false => hats.worn.retain(|(of, worn)| **of != *user || **worn != *uri),
        }
        self.put_hats(kernel, hats, &[user.into()])
    }

    /// A user has no affiliation any more.
    pub(super) fn drop_hats(&mut self, kernel: &mut Kernel, user: &str) {
        if self.hats.worn.iter().any(|(of, _)| **of == *user) {
            self.hats.worn.retain(|(of, _)| **of != *user);
            self.hats.put(&mut kernel.writes, &self.jid);
        }
    }

    /// Stores hats, and shows them on those who wear them.
    fn put_hats(&mut self, kernel: &mut Kernel, hats: Hats, users: &[Box<str>]) -> Result<(), Refusal> {
        if hats.bytes() > ROOM_HATS_BYTES_MAX {
            return Err(Limit::RoomHats.into());
        }
        hats.put(&mut kernel.writes, &self.jid);
        self.hats = hats;
        let slots: Vec<u32> = users.iter().flat_map(|user| self.occupants.of_user(user).to_vec()).collect();
        for slot in slots {
            let Some(occupant) = self.occupants.get(slot) else { continue };
            let (nick, rank, presence) = (occupant.nick.clone(), occupant.rank(), occupant.presence());
            let own = sessions_of(occupant);
            let jid = own.last().map_or("", String::as_str);
            self.changing(&nick);
            self.announce_in_time(kernel, rank.role, &News::of(&nick, jid, rank, &presence), &own);
        }
        Ok(())
    }
}

/// The users who wear a hat.
fn wearers(hats: &Hats, uri: &str) -> Vec<Box<str>> {
    hats.worn.iter().filter(|(_, worn)| **worn == *uri).map(|(user, _)| user.clone()).collect()
}
