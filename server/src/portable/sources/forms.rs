//! The elements of XEP-0227, as XML, from the data of other servers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use throng_engine::extension::datetime;
use throng_engine::wire::text::Writer;

/// Namespace of subscription requests, waiting and archived messages.
pub(super) const NS_CLIENT: &str = "jabber:client";

/// Keys of an account (XEP-0227 4.3). `hash` is as in the mechanism's name: `SHA-1`. The keys and the
/// salt are in base64.
pub(super) fn keys(hash: &str, [stored, server, salt]: [&str; 3], iterations: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("scram-credentials").attribute("xmlns", "urn:xmpp:pie:0#scram");
    writer.attribute("mechanism", &format!("SCRAM-{hash}")).leaf("iter-count", iterations).leaf("salt", salt);
    writer.leaf("server-key", server).leaf("stored-key", stored).close();
    out
}

/// The same bytes in base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A contact of a roster (4.4).
#[derive(Default)]
pub(super) struct Contact<'a> {
    pub(super) jid: &'a str,
    pub(super) name: &'a str,
    pub(super) subscription: &'a str,
    pub(super) asked: bool,
    pub(super) approved: bool,
    pub(super) groups: Vec<&'a str>,
}

impl Contact<'_> {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("item").attribute("xmlns", "jabber:iq:roster").attribute("jid", self.jid);
        writer.attribute_if("name", Some(self.name).filter(|name| !name.is_empty()));
        writer.attribute("subscription", self.subscription);
        writer.attribute_if("ask", self.asked.then_some("subscribe"));
        writer.attribute_if("approved", self.approved.then_some("true"));
        for group in &self.groups {
            writer.leaf("group", group);
        }
        writer.close();
        out
    }
}

/// A subscription request (4.9), with the children of its stanza.
pub(super) fn request(from: &str, children: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("presence").attribute("xmlns", NS_CLIENT).attribute("type", "subscribe").attribute("from", from);
    writer.raw(children).close();
    out
}

/// A message of an archive (4.11): its id there, its time in microseconds, and its XML.
pub(super) fn result(id: &str, time_us: u64, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 240);
    let mut writer = Writer::new(&mut out);
    writer.open("result").attribute("xmlns", "urn:xmpp:mam:2").attribute("id", id);
    writer.open("forwarded").attribute("xmlns", "urn:xmpp:forward:0");
    delay(&mut writer, None, time_us);
    writer.raw(message).close().close();
    out
}

/// A delay, for a message that waits (4.5).
pub(super) fn delay_of(host: &str, time_us: u64) -> Vec<u8> {
    let mut out = Vec::new();
    delay(&mut Writer::new(&mut out), Some(host), time_us);
    out
}

fn delay(writer: &mut Writer<'_>, from: Option<&str>, time_us: u64) {
    writer.open("delay").attribute("xmlns", "urn:xmpp:delay").attribute_if("from", from);
    writer.attribute("stamp", &datetime::text(time_us, datetime::Precision::Millis)).close();
}

/// Blocked addresses as the default privacy list (4.8).
pub(super) fn blocked<'a>(jids: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attribute("xmlns", "jabber:iq:privacy");
    writer.open("default").attribute("name", "blocked").close().open("list").attribute("name", "blocked");
    for (order, jid) in jids.enumerate() {
        writer.open("item").attribute("type", "jid").attribute("value", jid).attribute("action", "deny");
        writer.attribute("order", &(order + 1).to_string()).close();
    }
    writer.close().close();
    out
}

/// A submitted form with these fields.
fn form(writer: &mut Writer<'_>, kind: &str, fields: &[(String, Vec<String>)]) {
    writer.open("x").attribute("xmlns", "jabber:x:data").attribute("type", "submit");
    writer.open("field").attribute("var", "FORM_TYPE").leaf("value", kind).close();
    for (var, values) in fields {
        writer.open("field").attribute("var", var);
        for value in values {
            writer.leaf("value", value);
        }
        writer.close();
    }
    writer.close();
}

/// The configuration of a node (4.10.1): fields without their prefix.
pub(super) fn configure(node: &str, fields: &[(String, Vec<String>)]) -> Vec<u8> {
    let fields: Vec<_> = fields.iter().map(|(name, values)| (format!("pubsub#{name}"), values.clone())).collect();
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("configure").attribute("xmlns", "http://jabber.org/protocol/pubsub#owner").attribute("node", node);
    form(&mut writer, "http://jabber.org/protocol/pubsub#node_config", &fields);
    writer.close();
    out
}

/// The affiliations, or the subscriptions, of a node (4.10.1): JIDs with a word each.
pub(super) fn affiliates(node: &str, subscriptions: bool, all: &[(&str, &str)]) -> Vec<u8> {
    let (outer, inner, word) = match subscriptions {
        true => ("subscriptions", "subscription", "subscription"),
        false => ("affiliations", "affiliation", "affiliation"),
    };
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open(outer).attribute("xmlns", "http://jabber.org/protocol/pubsub#owner").attribute("node", node);
    for (jid, is) in all {
        writer.open(inner).attribute("jid", jid).attribute(word, is).close();
    }
    writer.close();
    out
}

/// An item of a node (4.10.2).
pub(super) fn item(id: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("item").attribute("xmlns", "http://jabber.org/protocol/pubsub").attribute("id", id);
    writer.raw(payload).close();
    out
}

/// The configuration of a room (XEP-0045 10.2): fields without their prefix.
pub(super) fn room_config(fields: &[(&str, Vec<String>)]) -> Vec<u8> {
    let var = |name: &str| if name == "maxhistoryfetch" { "muc#".into() } else { String::from("muc#roomconfig_") };
    let fields: Vec<_> = fields.iter().map(|(name, values)| (var(name) + name, values.clone())).collect();
    let mut out = Vec::new();
    form(&mut Writer::new(&mut out), "http://jabber.org/protocol/muc#roomconfig", &fields);
    out
}

/// The subject of a room, with the nick of its author and its time in seconds.
pub(super) fn subject(text: &str, nick: &str, at_s: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    let at = at_s.map(|at_s| datetime::text(at_s.saturating_mul(1_000_000), datetime::Precision::Seconds));
    let mut writer = Writer::new(&mut out);
    writer.open("subject").attribute("xmlns", "urn:throng:room:0").attribute("by", nick);
    writer.attribute_if("at", at.as_deref()).text(text).close();
    out
}

/// A user of a room.
pub(super) fn standing(jid: &str, affiliation: &str, nick: Option<&str>, reason: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("item").attribute("xmlns", "http://jabber.org/protocol/muc#admin");
    writer.attribute("affiliation", affiliation).attribute("jid", jid).attribute_if("nick", nick);
    if !reason.is_empty() {
        writer.leaf("reason", reason);
    }
    writer.close();
    out
}
