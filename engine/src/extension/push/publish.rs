//! The notification to a service (XEP-0357 7).

use super::row::Registration;
use super::{NS, NS_FORM};
use crate::extension::xml;

/// What has happened since the device was last connected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary<'a> {
    /// Number of waiting messages.
    pub count: u32,
    /// The sender of the last one, if it may be disclosed.
    pub sender: Option<&'a str>,
    /// Its text, if it may be disclosed.
    pub body: Option<&'a str>,
}

/// Appends the request with this id from this domain to a registration's service.
pub fn write(out: &mut Vec<u8>, id: &str, from: &str, to: &Registration, summary: Summary<'_>) {
    out.extend_from_slice(b"<iq type='set'");
    [("id", id), ("from", from), ("to", &to.jid)].iter().for_each(|(name, value)| xml::attribute(out, name, value));
    out.extend_from_slice(b"><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish");
    if !to.node.is_empty() {
        xml::attribute(out, "node", &to.node);
    }
    out.extend_from_slice(format!("><item><notification xmlns='{NS}'><x xmlns='{NS_FORM}' type='submit'>").as_bytes());
    field(out, "FORM_TYPE", "urn:xmpp:push:summary");
    field(out, "message-count", &summary.count.to_string());
    for (var, value) in [("last-message-sender", summary.sender), ("last-message-body", summary.body)] {
        if let Some(value) = value {
            field(out, var, value);
        }
    }
    out.extend_from_slice(b"</x></notification></item></publish>");
    if !to.options.is_empty() {
        out.extend_from_slice(b"<publish-options>");
        out.extend_from_slice(&to.options);
        out.extend_from_slice(b"</publish-options>");
    }
    out.extend_from_slice(b"</pubsub></iq>");
}

fn field(out: &mut Vec<u8>, var: &str, value: &str) {
    out.extend_from_slice(b"<field");
    xml::attribute(out, "var", var);
    out.push(b'>');
    xml::text_element(out, "value", value);
    out.extend_from_slice(b"</field>");
}
