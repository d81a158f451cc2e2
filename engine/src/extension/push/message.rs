//! Which messages wake a device, and what may be sent about them.

use crate::limits::{PUSH_BODY_BYTES_MAX, beginning};
use crate::wire::{Element, Event};

/// Whether a message deserves immediate attention: not if it only reports read positions or typing.
/// Its text may be encrypted, so unknown elements count.
pub fn matters(message: &Element<'_>) -> bool {
    let (mut silent, mut other) = (false, false);
    for child in message.children() {
        match (child.namespace(), child.name()) {
            ("urn:xmpp:receipts", "received")
            | ("urn:xmpp:chat-markers:0", "received" | "displayed" | "acknowledged")
            | ("http://jabber.org/protocol/chatstates", _) => silent = true,
            // These accompany both.
            ("urn:xmpp:hints" | "urn:xmpp:sid:0" | "urn:xmpp:receipts" | "urn:xmpp:chat-markers:0", _) => {}
            (_, "thread") => {}
            _ => other = true,
        }
    }
    other || !silent
}

/// The beginning of a message's text, if it has one.
pub fn text(message: &Element<'_>) -> Option<Box<str>> {
    let body = message.child("body", message.namespace())?;
    let mut text = String::new();
    for event in body.cursor() {
        if let Event::Text(piece) = event {
            text.push_str(&piece);
        }
        if text.len() >= PUSH_BODY_BYTES_MAX {
            break;
        }
    }
    Some(beginning(&text, PUSH_BODY_BYTES_MAX).into())
}
