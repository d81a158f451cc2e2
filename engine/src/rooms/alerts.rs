//! Absent members of a room that are to be woken, and what mentions one of them.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::limits::{ROOM_MENTION_BYTES, ROOM_MENTIONS_MAX, beginning};
use crate::ns;
use crate::store::Row;
use crate::store::room::Alert;
use crate::wire::Element;

/// XEP-0372.
const NS_REFERENCE: &str = "urn:xmpp:reference:0";

/// The members of a room that are to be woken; at most [`ROOM_ALERTS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Alerts(pub(super) BTreeMap<Box<str>, Sleeper>);

/// One of them.
#[derive(Debug)]
pub(super) struct Sleeper {
    pub(super) alert: Alert,
    /// It is not woken again before this monotonic second.
    pub(super) rests_until_s: u32,
}

impl Alerts {
    /// Reads the rows of a room.
    pub(super) fn of(rows: &[Row]) -> Alerts {
        let all = rows.iter().filter_map(|row| Some((Alert::jid_of(row)?.into(), Alert::decode(&row.value)?)));
        Alerts(all.map(|(bare, alert)| (bare, Sleeper { alert, rests_until_s: 0 })).collect())
    }
}

/// The addresses that a message mentions (XEP-0372 3.2), as they are written.
pub(super) fn mentioned(element: &Element<'_>) -> impl Iterator<Item = String> {
    let references = element.children().filter(|child| child.is("reference", NS_REFERENCE));
    references.filter(|child| child.attribute("type").as_deref() == Some("mention")).filter_map(|child| {
        let uri = child.attribute("uri")?;
        let address = uri.strip_prefix("xmpp:")?.split('?').next()?;
        Some(percent_decode_str(address).decode_utf8().ok()?.into_owned())
    })
}

/// A message as far as it can mention somebody.
pub(super) struct Said {
    /// The beginning of the text, in small letters.
    text: String,
    /// Mentioned addresses (XEP-0372).
    uris: Vec<String>,
}

impl Said {
    pub(super) fn of(element: &Element<'_>) -> Option<Said> {
        let text = element.child("body", ns::CLIENT)?.text();
        let text = beginning(&text, ROOM_MENTION_BYTES).to_lowercase();
        let uris = mentioned(element).map(|address| address.to_lowercase());
        Some(Said { text, uris: uris.take(ROOM_MENTIONS_MAX).collect() })
    }

    /// Whether it names a member: by its address, or by the nick, in small letters, as a word.
    pub(super) fn mentions(&self, room: &str, bare: &str, nick: &str) -> bool {
        let is_named =
            |uri: &String| *uri == bare || uri.strip_prefix(room).and_then(|uri| uri.strip_prefix('/')) == Some(nick);
        if self.uris.iter().any(is_named) {
            return true;
        }
        let apart = |next: Option<char>| next.is_none_or(|next| !next.is_alphanumeric());
        !nick.is_empty()
            && memchr::memmem::find_iter(self.text.as_bytes(), nick).any(|at| {
                apart(self.text[..at].chars().next_back()) && apart(self.text[at + nick.len()..].chars().next())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::written::read_back;

    fn mentions(inside: &str, nick: &str) -> bool {
        let xml = format!("<message type='groupchat'>{inside}</message>");
        let said = read_back(xml.as_bytes(), Said::of).flatten();
        said.is_some_and(|said| said.mentions("cave@x", "juliet@y", nick))
    }

    /// XEP-0492 4: by the nick in the text, or by a mention of XEP-0372.
    #[test]
    fn a_mention_is_a_word_or_a_reference() {
        for body in ["Juliet: come", "come, juliet!", "juliet", "@JULIET"] {
            assert!(mentions(&format!("<body>{body}</body>"), "juliet"), "{body}");
        }
        for body in ["julietta", "myjuliet", "romeo"] {
            assert!(!mentions(&format!("<body>{body}</body>"), "juliet"), "{body}");
        }
        assert!(!mentions("<body>anything</body>", ""));
        let late = " ".repeat(ROOM_MENTION_BYTES);
        assert!(!mentions(&format!("<body>{late}juliet</body>"), "juliet"), "a long text costs no more");
        for uri in ["xmpp:juliet@y", "xmpp:cave@x/juliet", "xmpp:juliet@y?message"] {
            let reference = format!("<reference xmlns='{NS_REFERENCE}' type='mention' uri='{uri}'/>");
            assert!(mentions(&format!("<body>you</body>{reference}"), "juliet"), "{uri}");
            assert!(!mentions(&reference, "juliet"), "no text");
        }
        let other = format!("<body>you</body><reference xmlns='{NS_REFERENCE}' type='data' uri='xmpp:juliet@y'/>");
        assert!(!mentions(&other, "juliet"));
    }
}
