//! Messages that mention absent members (XEP-0452): the room forwards them, if its configuration says
//! so. A user agrees by registering a nick with the room.

use std::collections::BTreeSet;

use crate::extension::datetime::{self, Precision};
use crate::extension::offline::Keep;
use crate::kernel::Kernel;
use crate::letters::{Kind, MessageClass};
use crate::limits::{ROOM_CHARGED_SHARE, ROOM_FORWARDS_MAX};
use crate::rooms::alerts::mentioned;
use crate::rooms::room::{Room, Standings};
use crate::rooms::write::post;
use crate::store::room::Affiliation;
use crate::wire::Element;
use crate::wire::jid::{self, bare_of};
use crate::wire::text::Writer;
use crate::wire::written::write_forwarded_with;

pub(super) const NS: &str = "urn:xmpp:mmn:0";

/// Who is mentioned.
#[derive(Debug, PartialEq)]
pub(super) enum Mention {
    /// A user, by bare JID.
    User(Box<str>),
    /// The user for whom a nick of the room is reserved.
    Nick(Box<str>),
}

impl Mention {
    /// The user, as far as the room knows.
    pub(super) fn user<'a>(&'a self, standings: &'a Standings) -> Option<&'a str> {
        match self {
            Mention::User(bare) => Some(bare),
            Mention::Nick(nick) => standings.holder(nick),
        }
    }
}

/// The first mentions of a message by references (XEP-0372 3.2), each once.
pub(super) fn mentions(room: &str, element: &Element<'_>) -> Vec<Mention> {
    let mut all = Vec::new();
    for address in mentioned(element) {
        let Ok(address) = jid::normalise(&address) else { continue };
        let mention = match address.strip_prefix(room).and_then(|rest| rest.strip_prefix('/')) {
            Some(nick) => Mention::Nick(nick.into()),
            None => Mention::User(bare_of(&address).into()),
        };
        if !all.contains(&mention) {
            all.push(mention);
        }
        if all.len() >= ROOM_FORWARDS_MAX {
            break;
        }
    }
    all
}

impl Room {
    /// Forwards a message that was sent to all to those whom it mentions and who are absent. `xml` is
    /// the message as the occupants get it, unaddressed.
    pub(super) fn forward_mentions(&self, kernel: &mut Kernel, element: &Element<'_>, from: &str, xml: &[u8]) {
        let mentions = mentions(&self.jid, element);
        // One may be mentioned by address and by nick.
        let users: BTreeSet<&str> = mentions.iter().filter_map(|mention| mention.user(&self.standings)).collect();
        for user in users {
            let Some(standing) = self.standings.get(user) else { continue };
            let agrees = standing.nick.is_some() && standing.affiliation >= Affiliation::Member;
            if !agrees || !self.occupants.of_user(user).is_empty() {
                continue;
            }
            let mut inner = Vec::with_capacity(xml.len() + 256);
            write_addressed(&mut inner, xml, from, &self.jid);
            let mut out = Vec::with_capacity(inner.len() + 256);
            let mut writer = Writer::new(&mut out);
            writer.open("message").open("mentions").attribute("xmlns", NS);
            writer.open("forwarded").attribute("xmlns", "urn:xmpp:forward:0");
            let stamp = datetime::text(kernel.now.wall_us, Precision::Millis);
            writer.open("delay").attribute("xmlns", "urn:xmpp:delay").attribute("stamp", &stamp).close();
            writer.raw(&inner).close().close().close();
            let kind = Kind::Message { class: MessageClass::Normal, keep: Keep::Archive };
            post(kernel, kind, &self.jid, user, &out);
            // It is stored for the user: all of it is charged.
            self.spend(out.len() * ROOM_CHARGED_SHARE);
        }
    }
}

/// Writes an unaddressed message as it was sent to the room, with its namespace (XEP-0297 3.2).
fn write_addressed(out: &mut Vec<u8>, xml: &[u8], from: &str, to: &str) {
    let mut addressed = Vec::with_capacity(xml.len() + 128);
    crate::wire::splice::address(&mut addressed, xml, from, to);
    write_forwarded_with(out, &addressed, |_| {});
}
