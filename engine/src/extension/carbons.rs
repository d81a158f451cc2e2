//! Message Carbons (XEP-0280): each of a user's devices sees both sides of all conversations. A
//! session that has enabled carbons gets a copy of each instant message that another session of the
//! user sends, and of each message that arrives only for another session.
//!
//! The rules for copying are those of XEP-0280 6.1; "payload elements typically used in IM" include
//! corrections, reactions and retractions. There is one exception, because of which
//! `urn:xmpp:carbons:rules:0` is not advertised: every error is copied, whatever it answers,
//! because the server does not remember what was sent.

use super::change::{Change, SessionChange, Way};
use super::hook::{Copies, Extension, Kept, Nonza, Original, Xep};
use super::iq::{Feature, Step, Target, Verbs, always};
use crate::wire::Element;
use crate::wire::text::write_attribute;
use crate::wire::written::write_forwarded;

const NS: &str = "urn:xmpp:carbons:2";
const NS_FORWARD: &str = "urn:xmpp:forward:0";
const RAW_NS: &[u8] = NS.as_bytes();

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "carbons",
    xeps: &[
        Xep { number: 280, version: "1.0.1", title: "Message Carbons" },
        Xep { number: 297, version: "1.0", title: "Stanza Forwarding" },
    ],
    requests: &[ENABLE, DISABLE],
    inline: Some(Nonza { namespace: NS, handle }),
    copies: Some(Copies { takes, write }),
    ..Extension::NONE
};

/// XEP-0280 4.
const ENABLE: Feature = Feature {
    namespace: NS,
    name: "enable",
    targets: &[Target::Server, Target::Own],
    verbs: Verbs::Set,
    offered: always,
    asks_roster: false,
    server_vars: &[NS],
    account_vars: &[NS],
    handle: |_, _| switch(true),
};

/// XEP-0280 5.
const DISABLE: Feature = Feature { name: "disable", handle: |_, _| switch(false), ..ENABLE };

/// XEP-0280 8.1: a client may repeat the request, even with the same value.
fn switch(on: bool) -> Step {
    Step::Change(vec![Change::Mark(on)], Vec::new())
}

/// XEP-0386 2.2: the session starts with carbons enabled.
fn handle(_: &mut Kept, name: &str) -> Option<SessionChange> {
    (name == "enable").then(|| SessionChange { mark: Some(true), ..SessionChange::default() })
}

/// Whether a message is copied (XEP-0280 6.1).
fn takes(message: &Element<'_>) -> bool {
    let kind = message.kind();
    let kind = kind.as_deref().unwrap_or("normal");
    let (mut payload, mut room, mut invitation) = (false, false, false);
    for child in message.children() {
        match child.raw() {
            // XEP-0280 7, XEP-0334 4.3.
            (RAW_NS, b"private") | (b"urn:xmpp:hints", b"no-copy") => return false,
            // A message that is already a copy.
            (RAW_NS, b"sent" | b"received") => return false,
            (namespace, b"body") if namespace == message.namespace().as_bytes() => payload = true,
            // A message that refers to another message (also XEP-0308, XEP-0424 and XEP-0444), and
            // one that is to be stored (XEP-0334 4.4).
            (b"urn:xmpp:receipts" | b"urn:xmpp:chat-markers:0" | b"http://jabber.org/protocol/chatstates", _)
            | (b"urn:xmpp:message-correct:0" | b"urn:xmpp:reactions:0" | b"urn:xmpp:message-retract:1", _)
            | (b"urn:xmpp:hints", b"store") => payload = true,
            (b"jabber:x:conference", b"x") => invitation = true,
            (b"http://jabber.org/protocol/muc#user", b"x") => {
                room = true;
                invitation |= memchr::memmem::find(child.bytes(), b"<invite").is_some();
            }
            _ => {}
        }
    }
    match kind {
        "groupchat" | "headline" => false,
        _ if invitation => true,
        // The room itself copies a private message of an occupant.
        _ if room => false,
        "chat" | "error" => true,
        _ => payload,
    }
}

/// Appends a copy (XEP-0280 7, 8; XEP-0297 3).
fn write(out: &mut Vec<u8>, original: &Original<'_>) {
    out.extend_from_slice(b"<message");
    write_attribute(out, "from", original.user);
    write_attribute(out, "to", original.to);
    if !original.kind.is_empty() {
        write_attribute(out, "type", original.kind);
    }
    let way = match original.way {
        Way::In => "received",
        Way::Out => "sent",
    };
    let opens = ["><", way, " xmlns='", NS, "'><forwarded xmlns='", NS_FORWARD, "'>"];
    opens.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    out.extend_from_slice(original.delay);
    write_forwarded(out, original.xml);
    ["</forwarded></", way, "></message>"].iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Expect, Scanner, StreamScope};

    fn taken(xml: &str) -> bool {
        let (mut scanner, scope) = (Scanner::new(), StreamScope::Usual);
        scanner.scan(&scope, Expect::Content, usize::MAX, xml.as_bytes()).expect("a stanza");
        takes(&scanner.element(&scope, xml.as_bytes()))
    }

    #[test]
    fn messages_to_copy_are_those_of_xep_0280_6() {
        for (yes, kind, inside, clause) in [
            (true, "chat", "<body>a</body>", "6.1: chat"),
            (true, "chat", "", "6.1: chat, whatever is in it"),
            (true, "normal", "<body>a</body>", "6.1: normal with a body"),
            (false, "normal", "<a xmlns='b'/>", "6.1: normal without"),
            (false, "normal", "<body xmlns='b'/>", "6.1: another body"),
            (true, "normal", "<received xmlns='urn:xmpp:receipts' id='1'/>", "6.1: receipts"),
            (true, "normal", "<active xmlns='http://jabber.org/protocol/chatstates'/>", "6.1: chat states"),
            (true, "normal", "<displayed xmlns='urn:xmpp:chat-markers:0' id='1'/>", "6.1: markers"),
            (true, "normal", "<reactions xmlns='urn:xmpp:reactions:0' id='1'/>", "6.1: reactions (XEP-0444)"),
            (true, "normal", "<replace xmlns='urn:xmpp:message-correct:0' id='1'/>", "6.1: corrections (XEP-0308)"),
            (true, "normal", "<retract xmlns='urn:xmpp:message-retract:1' id='1'/>", "6.1: retractions (XEP-0424)"),
            (true, "normal", "<a xmlns='b'/><store xmlns='urn:xmpp:hints'/>", "XEP-0334 4.4: for the history"),
            (false, "headline", "<reactions xmlns='urn:xmpp:reactions:0' id='1'/>", "6.1: headline"),
            (true, "error", "<error type='cancel'/>", "6.1: errors"),
            (false, "groupchat", "<body>a</body>", "6.1: groupchat"),
            (false, "headline", "<body>a</body>", "6.1: headline"),
            (true, "normal", "<x xmlns='jabber:x:conference' jid='r@c'/>", "6.1: direct invitation"),
            (
                true,
                "normal",
                "<x xmlns='http://jabber.org/protocol/muc#user'><invite from='a@b'/></x>",
                "6.1: mediated",
            ),
            (false, "chat", "<body>a</body><x xmlns='http://jabber.org/protocol/muc#user'/>", "6.1: of a room"),
            (false, "chat", "<body>a</body><private xmlns='urn:xmpp:carbons:2'/>", "7: private"),
            (false, "chat", "<body>a</body><no-copy xmlns='urn:xmpp:hints'/>", "XEP-0334 4.3"),
        ] {
            assert_eq!(taken(&format!("<message type='{kind}'>{inside}</message>")), yes, "{clause}");
        }
        assert!(taken("<message><body>a</body></message>"), "without a type it is normal");
    }

    #[test]
    fn a_copy_wraps_the_original_xep_0280_8() {
        let xml = b"<message from='r@m/home' to='j@c/b' type='chat'><body>a</body></message>";
        let mut out = Vec::new();
        write(&mut out, &Original { xml, kind: "chat", way: Way::Out, user: "r@m", to: "r@m/garden", delay: b"" });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<message from='r@m' to='r@m/garden' type='chat'><sent xmlns='urn:xmpp:carbons:2'>\
             <forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' from='r@m/home' to='j@c/b' type='chat'>\
             <body>a</body></message></forwarded></sent></message>"
        );
    }
}
