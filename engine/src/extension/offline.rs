//! Which messages are stored for later delivery, and the delay stamp that they carry then (RFC 6121
//! 8.5.2.2, XEP-0160, XEP-0203, XEP-0334). It must never know where they are stored.

use super::datetime::{self, Precision};
use super::xml;

/// How long a message is stored, apart from immediate delivery to sessions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub enum Keep {
    /// Not stored: if no session takes it, it is dropped or returned by RFC 6121 8.5.
    Nothing,
    /// It may wait for the user, but is not archived (XEP-0334 4.1 `<no-permanent-store/>`).
    UntilDelivered,
    /// It may wait for the user and is archived.
    Archive,
}

/// Decides by the message's `type` (empty or unknown counts as "normal", RFC 6121 5.2.2) and by the
/// namespaces and names of its direct children.
pub fn keep<'a>(kind: &str, children: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Keep {
    // RFC 6121 8.5.2.2 defines no storage for these, and XEP-0334 5 says to ignore hints in errors.
    if matches!(kind, "error" | "groupchat" | "headline") {
        return Keep::Nothing;
    }
    let (mut content, mut chat_state, mut store, mut no_permanent_store) = (false, false, false, false);
    for child in children {
        match child {
            (b"urn:xmpp:hints", b"no-store") => return Keep::Nothing,
            (b"urn:xmpp:hints", b"no-permanent-store") => no_permanent_store = true,
            (b"urn:xmpp:hints", b"store") => store = true,
            (b"http://jabber.org/protocol/chatstates", _) => chat_state = true,
            // These accompany a chat state and mean nothing without content.
            (b"urn:xmpp:hints", _) | (b"jabber:client", b"thread") | (b"urn:xmpp:sid:0", _) => {}
            _ => content = true,
        }
    }
    // XEP-0160 3: a message with nothing but a chat state (XEP-0085) is not stored.
    if chat_state && !content && !store {
        Keep::Nothing
    } else if no_permanent_store {
        Keep::UntilDelivered
    } else {
        Keep::Archive
    }
}

/// Appends the XEP-0203 stamp: `from` is the domain that has stored the stanza, `sent_us` the time
/// of arrival in microseconds since the Unix epoch.
pub fn delay(out: &mut Vec<u8>, from: &str, sent_us: u64) {
    out.extend_from_slice(b"<delay xmlns='urn:xmpp:delay'");
    xml::attribute(out, "from", from);
    out.extend_from_slice(b" stamp='");
    datetime::write(out, sent_us, Precision::Millis);
    out.extend_from_slice(b"'/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept() {
        const BODY: (&str, &str) = ("jabber:client", "body");
        const THREAD: (&str, &str) = ("jabber:client", "thread");
        const COMPOSING: (&str, &str) = ("http://jabber.org/protocol/chatstates", "composing");
        const ACTIVE: (&str, &str) = ("http://jabber.org/protocol/chatstates", "active");
        const RECEIPT: (&str, &str) = ("urn:xmpp:receipts", "received");
        const ORIGIN: (&str, &str) = ("urn:xmpp:sid:0", "origin-id");
        const NO_STORE: (&str, &str) = ("urn:xmpp:hints", "no-store");
        const NO_PERMANENT: (&str, &str) = ("urn:xmpp:hints", "no-permanent-store");
        const NO_COPY: (&str, &str) = ("urn:xmpp:hints", "no-copy");
        const STORE: (&str, &str) = ("urn:xmpp:hints", "store");
        type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Keep);
        let cases: &[Case<'_>] = &[
            ("RFC 6121 8.5.2.2.1: normal", "normal", &[BODY], Keep::Archive),
            ("RFC 6121 5.2.2: no type is normal", "", &[BODY], Keep::Archive),
            ("RFC 6121 5.2.2: an unknown type is normal", "letter", &[BODY], Keep::Archive),
            ("RFC 6121 8.5.2.2.1: chat", "chat", &[BODY, ACTIVE], Keep::Archive),
            ("RFC 6121 8.5.2.2.1: groupchat", "groupchat", &[BODY], Keep::Nothing),
            ("RFC 6121 8.5.2.2.1: headline", "headline", &[BODY], Keep::Nothing),
            ("RFC 6121 8.5.2.2.1: error", "error", &[BODY], Keep::Nothing),
            ("XEP-0160 3: only a chat state", "chat", &[COMPOSING], Keep::Nothing),
            ("XEP-0160 3: with what comes along", "chat", &[COMPOSING, THREAD, NO_COPY, ORIGIN], Keep::Nothing),
            ("XEP-0184: a receipt is content", "chat", &[RECEIPT], Keep::Archive),
            ("XEP-0334 4.2: no-store", "chat", &[BODY, NO_STORE], Keep::Nothing),
            ("XEP-0334 4.2: no-store beats store", "chat", &[STORE, BODY, NO_STORE], Keep::Nothing),
            ("XEP-0334 4.1: no-permanent-store", "chat", &[BODY, NO_PERMANENT], Keep::UntilDelivered),
            ("XEP-0334 4.4: store", "chat", &[COMPOSING, STORE], Keep::Archive),
            ("XEP-0334 5: hints in an error are ignored", "error", &[BODY, STORE], Keep::Nothing),
        ];
        for &(clause, kind, children, expected) in cases {
            assert_eq!(
                keep(kind, children.iter().map(|(namespace, name)| (namespace.as_bytes(), name.as_bytes()))),
                expected,
                "{clause}"
            );
        }
    }

    #[test]
    fn a_kept_message_is_stamped_by_xep_0203() {
        let mut out = Vec::new();
        delay(&mut out, "capulet.com", 1_031_699_305_000_000);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<delay xmlns='urn:xmpp:delay' from='capulet.com' stamp='2002-09-10T23:08:25.000Z'/>"
        );
    }
}
