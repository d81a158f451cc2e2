//! Waiting and archived messages (XEP-0227 4.5, 4.11): conversion between the exchange format and
//! the stored form.

use minidom::Element;

use super::{NS_CLIENT, NS_DELAY, NS_FORWARD, NS_MAM, Word, xml};
use crate::extension::datetime::{self, Precision};
use crate::ns;
use crate::store::ids::Text;
use crate::wire::jid::{Jid, bare_of};
use crate::wire::text::write_attribute;
use crate::wire::written::insert_at_end;

/// A message as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub(super) incoming: bool,
    /// The other party's JID.
    pub(super) peer: Box<str>,
    /// Without its stanza-id.
    pub(super) xml: Vec<u8>,
    /// The id on the other server (XEP-0359).
    pub(super) id: Option<Box<str>>,
    /// When it arrived, milliseconds since the Unix epoch.
    pub(super) time_ms: u64,
}

/// Maximum time that can be stored: 2^48 - 1 milliseconds.
const TIME_MS_MAX: u64 = (1 << 48) - 1;

/// Reads a message of a user (a bare JID). `time_us` is the time of arrival if the enclosing
/// element gives it; otherwise the time is that of the delay, or now.
fn read(user: &str, message: &Element, time_us: Option<u64>, now_us: u64) -> Result<Stored, &'static str> {
    if message.name() != "message" {
        return Err("it is not a message");
    }
    let address = |name: &str| match message.attr(name) {
        // RFC 6120 8.1.1.1, 8.1.2.1: a missing address is the account's own.
        None => Ok(user.into()),
        Some(jid) => {
            Jid::parse(jid).map(|jid| Box::from(jid.as_str())).map_err(|_| "`from` or `to` is not a valid JID")
        }
    };
    let (from, to): (Box<str>, Box<str>) = (address("from")?, address("to")?);
    let incoming = bare_of(&from) != user;
    if incoming && bare_of(&to) != user {
        return Err("it is neither from nor to this user");
    }
    let host = user.split_once('@').map_or(user, |(_, host)| host);
    let own = |by: Option<&str>| by.is_some_and(|by| by == user || by == host);
    let is_id = |child: &Element| child.is("stanza-id", ns::STANZA_ID) && own(child.attr("by"));
    // The delay of the original server is written again from the stored time.
    let is_delay = |child: &Element| child.is("delay", NS_DELAY) && own(child.attr("from"));
    let id = message.children().find(|child| is_id(child)).and_then(|child| child.attr("id")).map(Box::from);
    let delay = message.children().find(|child| is_delay(child)).and_then(|child| child.attr("stamp"));
    let time_us = time_us.or_else(|| datetime::parse(delay?)).unwrap_or(now_us);
    let mut xml = Vec::new();
    let others = [("from", &*from), ("to", &*to)];
    xml::write_with(&mut xml, message, &message.ns(), &others, &|child| !is_id(child) && !is_delay(child));
    if !xml::is_stanza(&xml) {
        return Err("it exceeds the size or depth limit of a stanza");
    }
    let peer = if incoming { from } else { to };
    Ok(Stored { incoming, peer, xml, id, time_ms: (time_us / 1_000).min(TIME_MS_MAX) })
}

/// Reads a waiting message.
pub(super) fn waiting(user: &str, message: &Element, now_us: u64) -> Result<Stored, Word> {
    let stored = read(user, message, None, now_us).map_err(|why| Word::new("waiting message", why))?;
    match stored.incoming {
        true => Ok(stored),
        false => Err(Word::new("waiting message", "it is from the user")),
    }
}

/// Reads an archive result (XEP-0313 4.2), with its id in the archive.
pub(super) fn result(user: &str, result: &Element, now_us: u64) -> Result<Stored, Word> {
    let word = |why: &str| Word::new("archived message", why);
    if !result.is("result", NS_MAM) {
        return Err(word("an element of the archive is not a result"));
    }
    let forwarded = result.get_child("forwarded", NS_FORWARD).ok_or(word("it has no forwarded message"))?;
    let stamp = forwarded.get_child("delay", NS_DELAY).and_then(|delay| delay.attr("stamp"));
    let time_us = stamp.and_then(datetime::parse).ok_or(word("it has no valid time"))?;
    let message = forwarded.children().find(|child| child.name() == "message");
    let message = message.ok_or(word("it has no forwarded message"))?;
    let stored = read(user, message, Some(time_us), now_us).map_err(word)?;
    Ok(Stored { id: result.attr("id").map(Box::from).or(stored.id), ..stored })
}

/// Appends a stored message with its namespace and, after its content, its id and the output of
/// `more`.
fn write(out: &mut Vec<u8>, user: &str, message: &[u8], id: Option<Text>, more: impl FnOnce(&mut Vec<u8>)) {
    let mut whole = Vec::with_capacity(message.len() + 160);
    insert_at_end(&mut whole, message, |out| {
        if let Some(id) = id {
            out.extend_from_slice(b"<stanza-id");
            write_attribute(out, "xmlns", ns::STANZA_ID);
            write_attribute(out, "id", id.as_str());
            write_attribute(out, "by", user);
            out.extend_from_slice(b"/>");
        }
        more(out);
    });
    out.extend_from_slice(b"<message");
    write_attribute(out, "xmlns", NS_CLIENT);
    out.extend_from_slice(whole.strip_prefix(b"<message").unwrap_or(&whole));
}

fn write_delay(out: &mut Vec<u8>, from: Option<&str>, time_ms: u64) {
    out.extend_from_slice(b"<delay");
    write_attribute(out, "xmlns", NS_DELAY);
    if let Some(from) = from {
        write_attribute(out, "from", from);
    }
    out.extend_from_slice(b" stamp='");
    datetime::write(out, time_ms.saturating_mul(1_000), Precision::Millis);
    out.extend_from_slice(b"'/>");
}

/// Appends a waiting message, with the id `id` if it is in the archive.
pub(super) fn write_waiting(out: &mut Vec<u8>, user: &str, xml: &[u8], id: Option<Text>, time_ms: u64) {
    let host = user.split_once('@').map(|(_, host)| host);
    write(out, user, xml, id, |out| write_delay(out, host, time_ms));
}

/// Appends an archive result.
pub(super) fn write_result(out: &mut Vec<u8>, user: &str, xml: &[u8], id: Text, incoming: bool, time_ms: u64) {
    out.extend_from_slice(b"<result");
    write_attribute(out, "xmlns", NS_MAM);
    write_attribute(out, "id", id.as_str());
    out.extend_from_slice(b"><forwarded");
    write_attribute(out, "xmlns", NS_FORWARD);
    out.push(b'>');
    write_delay(out, None, time_ms);
    write(out, user, xml, incoming.then_some(id), |_| {});
    out.extend_from_slice(b"</forwarded></result>");
}
