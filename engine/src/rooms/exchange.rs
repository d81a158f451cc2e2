//! Rooms in files of the Portable Import/Export Format (XEP-0227). That text leaves rooms out, so a
//! room is an element of our own in the `<host/>` of its service, with the elements that XEP-0045 has
//! for its parts:
//!
//! ```xml
//! <room xmlns='urn:throng:room:0' name='cave' created='2026-01-01T00:00:00Z'>
//!   <x xmlns='jabber:x:data' type='submit'>...</x>          the configuration (10.2)
//!   <subject by='nick' at='2026-01-02T00:00:00Z'>...</subject>
//!   <hats><hat uri='urn:host' title='Host' hue='327.25'><jid>romeo@localhost</jid></hat></hats>
//!   <vCard xmlns='vcard-temp'>...</vCard>                   the avatar (XEP-0486)
//!   <item xmlns='http://jabber.org/protocol/muc#admin' affiliation='owner' jid='romeo@localhost' nick='r'/>
//! </room>
//! ```
//!
//! This module works on data alone; the host reads and writes files and rows.

use std::collections::BTreeMap;

use minidom::Element as Tree;

use crate::extension::datetime;
use crate::id::Domains;
use crate::limits::{
    ROOM_HATS_BYTES_MAX, ROOM_HATS_PER_USER_MAX, ROOM_REASON_BYTES_MAX, ROOM_SUBJECT_BYTES_MAX, beginning,
};
use crate::rooms::admin::NS_ADMIN;
use crate::rooms::avatar::{self, Card};
use crate::rooms::config::{NS_CONFIG, apply};
use crate::rooms::fields::submitted;
use crate::rooms::form::{self, Submitted};
use crate::rooms::hats::hat;
use crate::store::Batch;
use crate::store::room::{Affiliation, Config, Listed, Position, Record, Standing, Subject, put_known};
use crate::store::room_extra::{Hats, put_card};
use crate::wire::jid::{self, Jid, bare_of, resource_of};
use crate::wire::text::Writer;

/// The namespace of a room's element.
pub const NS: &str = "urn:throng:room:0";

/// Most users with an affiliation or a nick that one room brings along.
pub const STANDINGS_MAX: usize = 2_000_000;

fn time(ms: u64) -> String {
    datetime::text(ms.saturating_mul(1_000), datetime::Precision::Seconds)
}

/// Writes the beginning of a room: everything but its users.
pub fn begin(out: &mut Vec<u8>, local: &str, record: &Record) {
    let mut writer = Writer::new(out);
    writer.open("room").attribute("xmlns", NS).attribute("name", local);
    writer.attribute("created", &time(record.created_ms)).raw(&submitted(&record.config));
    let Subject { text, nick, time_ms } = &record.subject;
    if *time_ms > 0 {
        writer.open("subject").attribute("by", nick).attribute("at", &time(*time_ms)).text(text).close();
    }
}

/// Writes the hats of the room, and the XML of its vCard.
pub fn extra(out: &mut Vec<u8>, hats: &Hats, card: Option<&[u8]>) {
    let mut writer = Writer::new(out);
    if !hats.known.is_empty() {
        writer.open("hats");
        for hat in &hats.known {
            writer.open("hat").attribute("uri", &hat.uri).attribute("title", &hat.title);
            writer.attribute_if("hue", hat.hue.as_deref());
            for (bare, _) in hats.worn.iter().filter(|(_, uri)| *uri == hat.uri) {
                writer.leaf("jid", bare);
            }
            writer.close();
        }
        writer.close();
    }
    writer.raw(card.unwrap_or_default());
}

/// Writes a user of the room.
pub fn user(out: &mut Vec<u8>, bare: &str, standing: &Standing) {
    let mut writer = Writer::new(out);
    writer.open("item").attribute("xmlns", NS_ADMIN).attribute("affiliation", standing.affiliation.name());
    writer.attribute("jid", bare).attribute_if("nick", standing.nick.as_deref());
    writer.attribute_if("registered", standing.self_registered.then_some("self"));
    if let Some(reason) = &standing.reason {
        writer.leaf("reason", reason);
    }
    writer.close();
}

/// Writes the end of a room.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"</room>\n");
}

/// Reads the hats of a room.
fn hats(element: &Tree) -> Result<Hats, String> {
    let mut all = Hats::default();
    for given in element.children().filter(|child| child.is("hat", NS)) {
        let text = |name| given.attr(name).filter(|text| !text.trim().is_empty()).ok_or("a hat has no URI or title");
        let hat =
            hat(text("uri")?, text("title")?, given.attr("hue")).map_err(|_| "a hat has a text that cannot be")?;
        for jid in given.children().filter(|child| child.is("jid", NS)) {
            let text = jid.text();
            let jid = jid::normalise(&text).map_err(|_| "a hat is worn by no valid JID")?;
            all.worn.push((bare_of(&jid).into(), hat.uri.clone()));
        }
        if all.get(&hat.uri).is_some() {
            return Err("two hats have one URI".into());
        }
        all.known.push(hat);
    }
    if all.bytes() > ROOM_HATS_BYTES_MAX { Err("the room has too many hats".into()) } else { Ok(all) }
}

/// A room that is being read.
#[derive(Debug)]
pub struct Arriving {
    jid: Box<str>,
    config: Option<Config>,
    subject: Subject,
    hats: Hats,
    card: Option<Card>,
    created_ms: u64,
    users: BTreeMap<Box<str>, Standing>,
    /// For whom each nick is reserved.
    nicks: BTreeMap<Box<str>, Box<str>>,
    users_max: usize,
}

impl Arriving {
    /// Begins a room of a service.
    ///
    /// # Errors
    /// Its name is none that is allowed.
    pub fn new(local: &str, service: &str, created: Option<&str>, now_ms: u64) -> Result<Arriving, String> {
        let jid = Jid::from_parts(Some(local), service, None).map_err(|error| error.to_string())?;
        let created_ms = created.and_then(datetime::parse).map_or(now_ms, |us| us / 1_000);
        Ok(Arriving {
            jid: jid.as_str().into(),
            config: None,
            subject: Subject::default(),
            hats: Hats::default(),
            card: None,
            created_ms,
            users: BTreeMap::new(),
            nicks: BTreeMap::new(),
            users_max: STANDINGS_MAX,
        })
    }

    /// Its bare JID.
    pub fn jid(&self) -> &str {
        &self.jid
    }

    /// Users so far.
    pub fn users(&self) -> usize {
        self.users.len()
    }

    /// Takes a child of the room.
    ///
    /// # Errors
    /// Why it is left out.
    pub fn element(&mut self, element: &Tree) -> Result<(), String> {
        if element.is("x", form::NS) {
            let form = Submitted::of(element, NS_CONFIG).ok_or("the configuration is no submitted form")?;
            // Never kept in part: a room for members must not become one for all.
            let config =
                apply(&form, &Config::default()).map_err(|_| "the configuration has a value that cannot be")?;
            self.config = Some(config);
            return Ok(());
        }
        if element.is("subject", NS) {
            let (text, nick) = (element.text(), element.attr("by").unwrap_or_default());
            if text.len() > ROOM_SUBJECT_BYTES_MAX || nick.len() > 1_023 {
                return Err("the subject is too long".into());
            }
            let time_ms = element.attr("at").and_then(datetime::parse).map_or(self.created_ms, |us| us / 1_000);
            self.subject = Subject { text: text.into(), nick: nick.into(), time_ms };
            return Ok(());
        }
        if element.is("hats", NS) {
            self.hats = hats(element)?;
            return Ok(());
        }
        if element.is("vCard", avatar::NS) {
            let card = Card::of(element).map_err(|_| "the vCard is too large, or an image in it is none")?;
            self.card = Some(card).filter(|card| !card.is_empty);
            return Ok(());
        }
        match element.is("item", NS_ADMIN) {
            true => self.user(element),
            false => Err(format!("<{} xmlns='{}'/> is nothing that is known", element.name(), element.ns())),
        }
    }

    fn user(&mut self, item: &Tree) -> Result<(), String> {
        let given = item.attr("jid").unwrap_or_default();
        let jid = jid::normalise(given).map_err(|_| "a user has no valid JID")?;
        let affiliation = Affiliation::from_name(item.attr("affiliation").unwrap_or_default());
        let affiliation = affiliation.ok_or("a user has no known affiliation")?;
        let reason = item.get_child("reason", NS_ADMIN).map(Tree::text).filter(|text| !text.is_empty());
        let nick = item.attr("nick").map(|nick| Jid::parse(&format!("{}/{nick}", self.jid)));
        let nick = nick.transpose().map_err(|_| "a user has a nick that cannot be")?;
        let nick: Option<Box<str>> = nick.as_ref().and_then(|jid| resource_of(jid.as_str())).map(Into::into);
        let bare = bare_of(&jid);
        if self.users.len() >= self.users_max && !self.users.contains_key(bare) {
            return Err(format!("the room has more than {} users", self.users_max));
        }
        if let Some(nick) = &nick {
            let holder: &str = self.nicks.entry(nick.clone()).or_insert_with(|| bare.into());
            if holder != bare {
                return Err("a nick is reserved for two users".into());
            }
        }
        let reason = reason.map(|reason| beginning(&reason, ROOM_REASON_BYTES_MAX).into());
        let self_registered = item.attr("registered") == Some("self");
        let standing = Standing { affiliation, nick, reason, self_registered, ..Standing::default() };
        if !standing.is_none() {
            self.users.insert(bare.into(), standing);
        }
        Ok(())
    }

    /// Writes the rows of the room, whose occupant ids come from this secret.
    ///
    /// # Errors
    /// It has no configuration: nothing is written.
    pub fn put(self, batch: &mut Batch, domains: &Domains, secret: [u8; 16]) -> Result<(), String> {
        let Arriving { jid, config, subject, mut hats, card, created_ms, users, .. } = self;
        let mut config = config.ok_or("the room has no configuration that can be: it is left out")?;
        // It has no occupants yet, and would end with the first one.
        config.persistent = true;
        let owners = users.values().filter(|standing| standing.affiliation == Affiliation::Owner).count();
        for (bare, standing) in &users {
            standing.put(batch, &jid, bare, &Standing::default());
            if domains.is_of_user(bare) {
                put_known(batch, bare, &jid, true);
            }
        }
        if let Some((local, service)) = jid.split_once('@').filter(|_| config.public) {
            let listed = Listed { name: config.name.clone(), description: config.description.clone() };
            listed.put(batch, service, local);
        }
        // Only users with an affiliation wear hats, and a few each.
        let mut worn: BTreeMap<Box<str>, usize> = BTreeMap::new();
        hats.worn.retain(|(bare, _)| {
            let count = worn.entry(bare.clone()).or_default();
            *count += 1;
            *count <= ROOM_HATS_PER_USER_MAX && users.get(bare).is_some_and(Standing::is_member)
        });
        if !hats.known.is_empty() {
            hats.put(batch, &jid);
        }
        if let Some(card) = card {
            put_card(batch, &jid, Some((&card.xml, &card.hashes)));
        }
        let owners = u32::try_from(owners).unwrap_or(u32::MAX);
        Record { config, subject, secret, owners, locked: false, created_ms, said: Position::default() }
            .put(batch, &jid);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_beyond_the_bound_are_left_out() {
        let mut room = Arriving::new("cave", "conference.localhost", None, 0).expect("a room");
        room.users_max = 3;
        let item = |number: usize| -> Tree {
            format!("<item xmlns='{NS_ADMIN}' affiliation='member' jid='u{number}@localhost'/>").parse().expect("XML")
        };
        let taken: Vec<bool> = [0, 1, 1, 2, 3, 2, 4].map(|number| room.element(&item(number)).is_ok()).to_vec();
        assert_eq!((taken, room.users()), (vec![true, true, true, true, false, true, false], 3));
    }
}
