//! Stanzas that a client receives from others, for checks that it receives nothing.

use std::fmt;

use super::Client;
use crate::xml::Node;

/// A stanza from another user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The sender's bare JID.
    pub from: String,
    /// `message`, `presence` or `iq`.
    pub name: String,
    /// Its type, or empty.
    pub kind: String,
    /// The condition, if it is an error (RFC 6120 8.3.3).
    pub error: Option<String>,
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Heard { from, name, kind, error } = self;
        let space = if kind.is_empty() { "" } else { " " };
        write!(f, "{name}{space}{kind} of {from}")?;
        error.as_ref().map_or(Ok(()), |error| write!(f, " ({error})"))
    }
}

impl Client {
    /// Records a stanza of another user, if recording is enabled.
    pub(super) fn hear(&mut self, node: &Node) {
        let from = node.attribute("from").and_then(|from| from.split('/').next()).unwrap_or_default();
        let Some(heard) = self.heard.as_mut().filter(|_| from != self.bare) else { return };
        let kind = node.attribute("type").unwrap_or_default().to_owned();
        // Conditions have a namespace of their own; other children of an error are details.
        let condition = |error: &Node| Some(error.children.first()?.name.clone());
        let error = node.child("error").filter(|_| kind == "error").map(|error| condition(error).unwrap_or_default());
        heard.push(Heard { from: from.to_owned(), name: node.name.clone(), kind, error });
    }

    /// Sends requests to another user: a ping to a session (XEP-0199), and a query of a node of the
    /// account (XEP-0060 6.5).
    pub fn ask_other(&mut self, full: &str, bare: &str) {
        let items = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'/></pubsub>";
        for (to, inside) in [(full, "<ping xmlns='urn:xmpp:ping'/>"), (bare, items)] {
            let id = self.next_id();
            self.stanza(format!("<iq type='get' id='ask{id}' to='{to}'>{inside}</iq>"), None);
        }
    }

    /// Requests a subscription (RFC 6121 3.1.1).
    pub fn subscribe(&mut self, bare: &str) {
        self.stanza(format!("<presence to='{bare}' type='subscribe'/>"), None);
    }

    /// Sends directed presence to one session of another user (RFC 6121 4.6).
    pub fn show_to(&mut self, full: &str) {
        self.stanza(format!("<presence to='{full}'/>"), None);
    }
}
