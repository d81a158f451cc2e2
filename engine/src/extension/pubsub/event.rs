//! Notifications to subscribers (XEP-0060 7.1.2, XEP-0163 4.3).

use super::super::offline::delay;
use super::super::xml;
use super::form;
use super::node::{Audience, Config, Directory, Node, SendLast};
use crate::limits::NODE_NOTIFIED_BYTES_MAX;
use crate::store::nodes::Item;

const NS: &str = "http://jabber.org/protocol/pubsub#event";

/// An event at a node, for those who may see the node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Event {
    /// The node.
    pub node: Box<str>,
    /// The message, without addresses.
    pub message: Vec<u8>,
    /// The same without its payload, if the payload is too large to be sent to many.
    pub brief: Option<Vec<u8>>,
    /// Who may see it.
    pub audience: Audience,
    /// The item's number, if subscribers that are away get it later; otherwise 0.
    pub number: u64,
    /// Set if it is for this JID only.
    pub to: Option<Box<str>>,
}

impl Event {
    fn new(node: &str, audience: Audience, inside: &[u8]) -> Event {
        Event { node: node.into(), message: message(inside, b""), brief: None, audience, number: 0, to: None }
    }

    /// An item was published.
    pub fn published(node: &str, config: &Config, audience: Audience, item: Option<&Item<'_>>) -> Event {
        let Some(item) = item else { return Event::new(node, audience, &items(node, b"")) };
        let brief = items(node, &write_item(item, false));
        if !config.payloads {
            return Event::new(node, audience, &brief);
        }
        let large = item.payload.len() > NODE_NOTIFIED_BYTES_MAX;
        let whole = Event::new(node, audience, &items(node, &write_item(item, true)));
        Event { brief: large.then(|| message(&brief, b"")), ..whole }
    }

    /// The same event, of an item with this number at a node with this configuration.
    pub fn numbered(self, number: u64, config: &Config) -> Event {
        Event { number: if config.catches_up() { number } else { 0 }, ..self }
    }

    /// The last item, for a new subscriber.
    pub fn last(owner: &str, node: &Node, audience: Audience, item: &Item<'_>, to: &str) -> Event {
        let message = last(owner, &node.name, node.config.payloads, item);
        Event { node: node.name.clone(), message, brief: None, audience, number: 0, to: Some(to.into()) }
    }

    /// An item was removed.
    pub fn retracted(node: &str, audience: Audience, id: &str) -> Event {
        let mut retract = b"<retract".to_vec();
        xml::attribute(&mut retract, "id", id);
        retract.extend_from_slice(b"/>");
        Event::new(node, audience, &items(node, &retract))
    }

    /// All items were removed.
    pub fn purged(node: &str, audience: Audience) -> Event {
        Event::new(node, audience, &of_node("purge", node, b""))
    }

    /// The node was deleted; it may redirect to another one.
    pub fn deleted(node: &str, audience: Audience, redirect: Option<&str>) -> Event {
        let mut inside = Vec::new();
        if let Some(uri) = redirect {
            inside.extend_from_slice(b"<redirect");
            xml::attribute(&mut inside, "uri", uri);
            inside.extend_from_slice(b"/>");
        }
        Event::new(node, audience, &of_node("delete", node, &inside))
    }

    /// The configuration has changed.
    pub fn configured(node: &str, audience: Audience, config: &Config, service: bool) -> Event {
        let mut inside = Vec::new();
        if config.payloads {
            form::write(&mut inside, config, "result", service);
        }
        Event::new(node, audience, &of_node("configuration", node, &inside))
    }

    /// A subscription has changed, and the subscriber is notified (XEP-0060 12.19).
    pub fn subscription(node: &str, audience: Audience, jid: &str, state: &str) -> Event {
        Event { to: Some(jid.into()), ..Event::new(node, audience, &subscription(node, jid, state)) }
    }
}

/// The element that describes a subscription.
fn subscription(node: &str, jid: &str, state: &str) -> Vec<u8> {
    let mut inside = b"<subscription".to_vec();
    for (name, value) in [("node", node), ("jid", jid), ("subscription", state)] {
        xml::attribute(&mut inside, name, value);
    }
    inside.extend_from_slice(b"/>");
    inside
}

/// XEP-0163 4.3: a headline, which is never stored.
fn message(inside: &[u8], behind: &[u8]) -> Vec<u8> {
    let open = format!("<message type='headline'><event xmlns='{NS}'>");
    [open.as_bytes(), inside, b"</event>", behind, b"</message>"].concat()
}

fn of_node(name: &str, node: &str, inside: &[u8]) -> Vec<u8> {
    let mut out = format!("<{name}").into_bytes();
    xml::attribute(&mut out, "node", node);
    if inside.is_empty() {
        out.extend_from_slice(b"/>");
        return out;
    }
    out.push(b'>');
    out.extend_from_slice(inside);
    out.extend_from_slice(format!("</{name}>").as_bytes());
    out
}

fn items(node: &str, inside: &[u8]) -> Vec<u8> {
    of_node("items", node, inside)
}

/// An item as written in answers and notifications.
pub fn write_item(item: &Item<'_>, payload: bool) -> Vec<u8> {
    let mut out = b"<item".to_vec();
    xml::attribute(&mut out, "id", item.id);
    if !payload || item.payload.is_empty() {
        out.extend_from_slice(b"/>");
        return out;
    }
    out.push(b'>');
    out.extend_from_slice(item.payload);
    out.extend_from_slice(b"</item>");
    out
}

/// The message, without addresses, about an item that was published earlier (XEP-0163 4.3.4).
pub fn last(owner: &str, node: &str, payloads: bool, item: &Item<'_>) -> Vec<u8> {
    let payload = payloads && item.payload.len() <= NODE_NOTIFIED_BYTES_MAX;
    let mut stamp = Vec::new();
    delay(&mut stamp, owner, item.at_us);
    message(&items(node, &write_item(item, payload)), &stamp)
}

/// Nodes of a directory whose last items are sent to a resource that becomes available and is
/// interested in the names `wanted`, which are sorted.
pub fn shown<'a>(directory: &'a Directory, wanted: &[&str]) -> Vec<&'a Node> {
    let sent = |node: &&Node| {
        node.items > 0
            && node.config.notifications
            && node.config.send_last == SendLast::OnSubAndPresence
            && wanted.binary_search(&&*node.name).is_ok()
    };
    directory.nodes().iter().filter(sent).collect()
}
