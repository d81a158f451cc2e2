//! Client State Indication (XEP-0352): a client that its user is not looking at is woken only by
//! important stanzas.
//!
//! While a session is inactive, the server keeps the latest presence of each sender and the latest
//! notification of each item of a node (XEP-0060 7.1.2), and drops messages with nothing but a chat
//! state. The kept stanzas are sent ahead of the next stanza that is sent: the phone is awake then,
//! and the stanzas of one sender stay in order (RFC 6120 10.1).

use std::borrow::Cow;

use super::change::{Going, SessionChange};
use super::hook::{Extension, Gate, Nonza, Xep};
use super::note::Note;
use crate::wire::{Child, Element, Event};

const NS: &str = "urn:xmpp:csi:0";
/// Limit of bytes kept for an inactive session. Beyond it all kept stanzas are sent.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "csi",
    xeps: &[Xep { number: 352, version: "1.0.0", title: "Client State Indication" }],
    stream_feature: Some(|_, out| out.extend_from_slice(b"<csi xmlns='urn:xmpp:csi:0'/>")),
    nonza: Some(Nonza { namespace: NS, handle }),
    // XEP-0386 2.2: the session starts in this state.
    inline: Some(Nonza { namespace: NS, handle }),
    gate: Some(Gate { pass, resumed }),
    rests: true,
    ..Extension::NONE
};

/// The latest presence of each sender and notification of each item, in order of arrival.
#[derive(Debug, Default)]
struct Kept {
    presences: Vec<(Box<str>, Vec<u8>)>,
    bytes: usize,
}

impl Note for Kept {
    fn memory_bytes(&self) -> usize {
        size_of::<Kept>() + self.bytes
    }

    fn held(&self) -> Vec<&[u8]> {
        self.presences.iter().map(|(_, presence)| &**presence).collect()
    }
}

/// The cost of one entry in addition to its bytes.
const EACH_BYTES: usize = size_of::<(Box<str>, Vec<u8>)>();

impl Kept {
    fn keep(&mut self, from: &str, presence: &[u8]) {
        if let Some(at) = self.presences.iter().position(|(sender, _)| **sender == *from) {
            let (sender, earlier) = self.presences.remove(at);
            self.bytes -= sender.len() + earlier.len() + EACH_BYTES;
        }
        self.bytes += from.len() + presence.len() + EACH_BYTES;
        self.presences.push((from.into(), presence.to_vec()));
    }
}

/// Takes out all kept stanzas.
fn release(note: &mut Option<Box<dyn Note>>) -> Vec<Vec<u8>> {
    let kept = note.take().and_then(|note| (note as Box<dyn std::any::Any>).downcast::<Kept>().ok());
    kept.map(|kept| kept.presences.into_iter().map(|(_, presence)| presence).collect()).unwrap_or_default()
}

/// XEP-0352 4.2.
fn handle(note: &mut Option<Box<dyn Note>>, name: &str) -> Option<SessionChange> {
    match name {
        "inactive" => Some(SessionChange { mark: Some(true), ..SessionChange::default() }),
        "active" => Some(active(note)),
        _ => None,
    }
}

fn active(note: &mut Option<Box<dyn Note>>) -> SessionChange {
    SessionChange { mark: Some(false), send: release(note), ..SessionChange::default() }
}

/// XEP-0352 5.2: a resumed stream is active.
fn resumed(note: &mut Option<Box<dyn Note>>) -> SessionChange {
    active(note)
}

fn pass(note: &mut Option<Box<dyn Note>>, stanza: &Element<'_>, logged: bool) -> Going {
    let kind = stanza.kind();
    match (stanza.name(), kind.as_deref()) {
        ("presence", None | Some("unavailable")) => {
            keep(note, stanza.from().as_deref().unwrap_or_default(), stanza.bytes())
        }
        ("message", Some("headline")) if !logged && item_of(stanza).is_some() => {
            keep(note, &item_of(stanza).unwrap_or_default(), stanza.bytes())
        }
        ("message", _) if !logged && is_chat_state(stanza) => Going::Kept,
        _ => match release(note) {
            none if none.is_empty() => Going::Goes,
            first => Going::After(first),
        },
    }
}

/// Keeps a stanza in place of the previous one with this name.
fn keep(note: &mut Option<Box<dyn Note>>, name: &str, stanza: &[u8]) -> Going {
    let kept = note.get_or_insert_with(|| Box::new(Kept::default()));
    if let Some(kept) = (&mut **kept as &mut dyn std::any::Any).downcast_mut::<Kept>() {
        kept.keep(name, stanza);
        if kept.bytes <= KEPT_BYTES_MAX {
            return Going::Kept;
        }
    }
    let mut first = release(note);
    // The last one is the stanza itself.
    first.pop();
    Going::After(first)
}

/// The key of a notification: its sender, its node and its item, if there is one. A later one with
/// the same key replaces it. `None` if the message is not a notification, or has more content.
fn item_of(message: &Element<'_>) -> Option<String> {
    let mut children = message.children();
    let event = children.next().filter(|event| event.is("event", "http://jabber.org/protocol/pubsub#event"))?;
    if children.any(|child| child.namespace() != "urn:xmpp:delay") {
        return None;
    }
    let mut name = message.from()?.into_owned();
    let (mut depth, mut items) = (0, 0);
    for happened in event.cursor() {
        match happened {
            Event::Start(start) => {
                let attribute = match depth {
                    1 => start.attribute("node"),
                    2 => start.attribute("id"),
                    _ => None,
                };
                items += usize::from(depth == 2);
                if let Some(attribute) = attribute {
                    name.push('\0');
                    name.push_str(&attribute);
                }
                depth += 1;
            }
            Event::End => depth -= 1,
            Event::Text(_) => {}
        }
    }
    (items <= 1).then_some(name)
}

/// Whether a message has a chat state (XEP-0085) but no visible content. For a copy (XEP-0280) the
/// original decides.
fn is_chat_state(message: &Element<'_>) -> bool {
    let copy = message
        .children()
        .find(|child| child.namespace() == "urn:xmpp:carbons:2" && matches!(child.name(), "sent" | "received"));
    match copy {
        Some(copy) => holds_chat_state(originals_children(&copy)),
        None => holds_chat_state(message.children().map(|child| (child.namespace().into(), child.name()))),
    }
}

fn holds_chat_state<'a>(children: impl Iterator<Item = (Cow<'a, str>, &'a str)>) -> bool {
    let mut states = 0;
    for (namespace, name) in children {
        match (&*namespace, name) {
            ("http://jabber.org/protocol/chatstates", _) => states += 1,
            ("urn:xmpp:hints" | "urn:xmpp:sid:0", _) | (_, "thread") => {}
            _ => return false,
        }
    }
    states > 0
}

/// Namespaces and names of the children of the message inside `<forwarded/>` of a copy (XEP-0297
/// 3.1).
fn originals_children<'a>(copy: &Child<'a>) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
    const DEPTH: usize = 3;
    let (mut depth, mut in_message) = (0, false);
    copy.cursor().filter_map(move |event| match event {
        Event::Start(start) => {
            let child = (depth == DEPTH && in_message).then(|| (start.namespace(), start.name()));
            depth += 1;
            if depth == DEPTH {
                in_message = start.name() == "message";
            }
            child
        }
        Event::End => {
            depth -= 1;
            None
        }
        Event::Text(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Expect, Scanner, StreamScope};

    fn going(note: &mut Option<Box<dyn Note>>, xml: &str, logged: bool) -> Going {
        let (mut scanner, scope) = (Scanner::new(), StreamScope::Usual);
        scanner.scan(&scope, Expect::Content, usize::MAX, xml.as_bytes()).expect("a stanza");
        pass(note, &scanner.element(&scope, xml.as_bytes()), logged)
    }

    #[test]
    fn the_latest_presence_of_each_goes_ahead_of_what_matters_xep_0352_3() {
        let mut note = None;
        for xml in
            ["<presence from='a@b/c'/>", "<presence from='d@b/e'/>", "<presence from='a@b/c' type='unavailable'/>"]
        {
            assert_eq!(going(&mut note, xml, false), Going::Kept, "{xml}");
        }
        let state = "<message from='a@b/c'><gone xmlns='http://jabber.org/protocol/chatstates'/></message>";
        assert_eq!(going(&mut note, state, false), Going::Kept, "a chat state alone");
        assert_eq!(
            going(&mut note, "<message from='a@b/c'><body>1</body></message>", true),
            Going::After(vec![
                b"<presence from='d@b/e'/>".to_vec(),
                b"<presence from='a@b/c' type='unavailable'/>".to_vec()
            ])
        );
        assert_eq!(going(&mut note, "<message from='a@b/c'><body>2</body></message>", true), Going::Goes);
        assert_ne!(going(&mut note, state, true), Going::Kept, "nothing is lost that waits in a log");
        let copy = |inside: &str| {
            format!(
                "<message from='a@b'><sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>\
                 <delay xmlns='urn:xmpp:delay'/><message xmlns='jabber:client' from='a@b/d'>{inside}</message>\
                 </forwarded></sent></message>"
            )
        };
        let composing = "<thread>1</thread><composing xmlns='http://jabber.org/protocol/chatstates'/>";
        assert_eq!(going(&mut note, &copy(composing), false), Going::Kept, "a copy of a chat state");
        for matters in [format!("{composing}<body>3</body>"), String::new(), "<a xmlns='b'><c/></a>".into()] {
            assert_eq!(going(&mut note, &copy(&matters), false), Going::Goes, "{matters}");
        }
        assert_eq!(
            going(&mut note, "<presence from='a@b' type='subscribe'/>", false),
            Going::Goes,
            "a request matters"
        );
    }

    #[test]
    fn of_each_item_of_a_node_the_latest_notification_is_kept() {
        let mut note = None;
        let event = |node: &str, inside: &str| {
            format!(
                "<message from='a@b' to='c@d/e' type='headline'><event xmlns='http://jabber.org/protocol/pubsub#event'>\
                 <items node='{node}'>{inside}</items></event></message>"
            )
        };
        let (first, other) = (event("n", "<item id='1'><x xmlns='y'>1</x></item>"), event("n", "<item id='2'/>"));
        let (second, third) = (event("n", "<item id='1'><x xmlns='y'>2</x></item>"), event("m", "<item id='1'/>"));
        let retracted = event("n", "<retract id='2'/>");
        for xml in [&first, &other, &third, &second, &retracted] {
            assert_eq!(going(&mut note, xml, false), Going::Kept, "{xml}");
        }
        let two = event("n", "<item id='1'/><item id='2'/>");
        let kept = [third, second, retracted].map(String::into_bytes).to_vec();
        assert_eq!(going(&mut note, &two, false), Going::After(kept), "what is of several goes");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut note: Option<Box<dyn Note>> = None;
        let mut most = 0;
        for n in 0..10_000 {
            going(
                &mut note,
                &format!("<presence from='user{n}@localhost/phone'><status>away</status></presence>"),
                false,
            );
            most = most.max(note.as_ref().map_or(0, |note| note.memory_bytes()));
        }
        assert!(most > KEPT_BYTES_MAX / 2 && most <= KEPT_BYTES_MAX + 1_024, "{most}");
    }
}
