//! Stanzas of a room: what the room adds to those of others, and how they reach many receivers.

use std::fmt::Write as _;

use crate::extension::offline::Keep;
use crate::follow::Receivers;
use crate::kernel::Kernel;
use crate::letters::{Kind, Letter, MessageClass, RoomLetter};
use crate::rooms::rank::Rank;
use crate::store::hash::HashKind;
use crate::store::room_extra::Hat;
use crate::wire::jid::bare_of;
use crate::wire::splice::address;
use crate::wire::text::{Writer, write_attribute};

/// Elements that a room adds to presence and messages (XEP-0045 7).
pub(super) const NS_USER: &str = "http://jabber.org/protocol/muc#user";
pub(super) use crate::ns::OCCUPANT_ID as NS_OCCUPANT_ID;

/// XEP-0317.
pub(super) const NS_HATS: &str = "urn:xmpp:hats:0";

/// A message to all occupants.
pub(super) const GROUPCHAT: Kind = Kind::Message { class: MessageClass::Groupchat, keep: Keep::Nothing };

/// The id of a user in a room (XEP-0421 5): the same for each visit, different in each room, and
/// unrelated to the JID for those who do not know the room's secret.
pub(super) fn occupant_id(secret: &[u8; 16], bare: &str) -> String {
    let tag = HashKind::Sha256.hmac(secret, &[bare.as_bytes()]);
    tag.as_bytes()[..16].iter().fold(String::with_capacity(32), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

/// Appends an occupant id.
pub(super) fn write_occupant_id(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(b"<occupant-id");
    write_attribute(out, "xmlns", NS_OCCUPANT_ID);
    write_attribute(out, "id", id);
    out.extend_from_slice(b"/>");
}

/// Appends the hats of an occupant, if there are any (XEP-0317 3.1).
pub(super) fn write_hats<'a>(out: &mut Vec<u8>, hats: impl Iterator<Item = &'a Hat>) {
    let mut hats = hats.peekable();
    if hats.peek().is_none() {
        return;
    }
    let mut writer = Writer::new(out);
    writer.open("hats").attribute("xmlns", NS_HATS);
    for hat in hats {
        writer.open("hat").attribute("title", &hat.title).attribute("uri", &hat.uri);
        writer.attribute_if("hue", hat.hue.as_deref()).close();
    }
    writer.close();
}

/// An occupant as presence describes it (XEP-0045 7.2.2).
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) rank: Rank,
    /// The real JID, for those who may see it.
    pub(super) jid: Option<&'a str>,
    /// The new nick, or the nick of somebody who is absent.
    pub(super) nick: Option<&'a str>,
    /// The nick of the occupant who has caused it.
    pub(super) actor: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
}

impl<'a> Item<'a> {
    pub(super) fn of(rank: Rank) -> Item<'a> {
        Item { rank, jid: None, nick: None, actor: None, reason: None }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.open("item").attribute("affiliation", self.rank.affiliation.name());
        writer.attribute("role", self.rank.role.name());
        writer.attribute_if("jid", self.jid).attribute_if("nick", self.nick);
        if let Some(actor) = self.actor {
            writer.open("actor").attribute("nick", actor).close();
        }
        if let Some(reason) = self.reason {
            writer.leaf("reason", reason);
        }
        writer.close();
    }
}

/// Appends `<x/>` of [`NS_USER`] with an item, an element of its own, and status codes.
pub(super) fn write_x(
    out: &mut Vec<u8>,
    item: Option<&Item<'_>>,
    more: &[u8],
    statuses: impl IntoIterator<Item = u16>,
) {
    let mut writer = Writer::new(out);
    writer.open("x").attribute("xmlns", NS_USER);
    if let Some(item) = item {
        item.write(&mut writer);
    }
    writer.raw(more);
    for status in statuses {
        writer.open("status").attribute("code", &status.to_string()).close();
    }
    writer.close();
}

/// Sends one stanza to one session, or to a user.
pub(super) fn post(kernel: &mut Kernel, kind: Kind, from: &str, to: &str, unaddressed: &[u8]) {
    let home = kernel.home(bare_of(to));
    kernel.post(home, kind, None, from, to, |out| address(out, unaddressed, from, to));
}

/// Sends one stanza to many sessions: it crosses to each shard once. `number` is that of a message of
/// the archive, which sessions without room for it get later; 0 for others. Returns how many
/// sessions it is for.
pub(super) fn cast<'a>(
    kernel: &mut Kernel,
    kind: Kind,
    from: &str,
    unaddressed: &[u8],
    number: u64,
    to: impl Iterator<Item = (&'a str, &'a str)>,
) -> usize {
    let mut receivers = Receivers::default();
    to.for_each(|(bare, resource)| receivers.add(kernel.home(bare), &[bare, "/", resource]));
    kernel.spread(receivers.by_shard(), |letters, to| {
        let (from, to, xml) = (letters.name(from), letters.name(to), letters.write(unaddressed));
        Letter::Room(RoomLetter::Cast { kind, from, to, xml, number })
    });
    receivers.count()
}
