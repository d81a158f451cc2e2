//! Elements that the server adds to other entities' stanzas, and protection against forging them.
//!
//! Stanzas that the server itself creates (copies of XEP-0280, results of XEP-0313, events of
//! XEP-0060, roster pushes) are recognised by their `from`, which no client or component can
//! choose. An element that the server adds to a foreign stanza names its author in an attribute
//! instead. Therefore incoming stanzas are stripped of such elements if the attribute names an
//! entity that this server speaks for. `ANNOTATIONS` lists them; `photo` replaces the elements that
//! it adds to presence itself.

use std::ops::Range;

use crate::id::{ActorKind, Domains};
use crate::ns;
use crate::wire::jid::JidRef;
use crate::wire::{Child, Element, jid};

/// An element that the server adds to other entities' stanzas.
struct Annotation {
    name: &'static [u8],
    namespace: &'static str,
    /// The attribute that names the entity that added it.
    by: &'static str,
}

const ANNOTATIONS: [Annotation; 2] = [
    // XEP-0359 3: added by the account (of the sender or the receiver) whose archive has the
    // message.
    Annotation { name: b"stanza-id", namespace: ns::STANZA_ID, by: "by" },
    // XEP-0203 2, 5: added by the domain or by the owner of a node.
    Annotation { name: b"delay", namespace: ns::DELAY, by: "from" },
];

/// The accounts that the server speaks for, in addition to its own domains and services.
#[derive(Clone, Copy)]
enum Accounts<'a> {
    /// These bare JIDs.
    These(&'a [&'a str]),
    /// All users.
    All,
}

/// The ranges of a message with elements that only the server adds, in its own name or in that of
/// one of these bare JIDs: the sender (if a user) and the receiver. Those in other names stay
/// (XEP-0359 3: an entity that routes a message SHOULD NOT strip them).
pub fn forged_in_message(domains: &Domains, element: &Element<'_>, accounts: &[&str]) -> Vec<Range<usize>> {
    forged(domains, element, Accounts::These(accounts))
}

/// The same for presence, which may have many receivers: elements in the name of any account.
pub fn forged_in_presence(domains: &Domains, element: &Element<'_>) -> Vec<Range<usize>> {
    forged(domains, element, Accounts::All)
}

fn forged(domains: &Domains, element: &Element<'_>, accounts: Accounts<'_>) -> Vec<Range<usize>> {
    element.children().filter(|child| is_forged(domains, child, accounts)).map(|child| child.range()).collect()
}

fn is_forged(domains: &Domains, child: &Child<'_>, accounts: Accounts<'_>) -> bool {
    let (namespace, name) = child.raw();
    let is = |one: &&Annotation| one.name == name && one.namespace.as_bytes() == namespace;
    ANNOTATIONS
        .iter()
        .find(is)
        .and_then(|one| child.attribute(one.by))
        .is_some_and(|by| speaks_for(domains, &by, accounts))
}

/// Whether this server speaks for an address.
fn speaks_for(domains: &Domains, by: &str, accounts: Accounts<'_>) -> bool {
    let Ok(by) = jid::normalise(by) else { return false };
    if let Accounts::These(these) = accounts
        && these.contains(&&*by)
    {
        return true;
    }
    let jid = JidRef::from_normalised(&by);
    match domains.of(&by).map(|(_, kind)| kind) {
        Some(ActorKind::Users) => jid.local().is_none() || (jid.is_bare() && matches!(accounts, Accounts::All)),
        Some(ActorKind::Service(_)) => true,
        // A room speaks for itself: others may pass on what it has said.
        Some(ActorKind::Rooms) => false,
        Some(ActorKind::Component) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Service;
    use crate::wire::written::read_back;

    fn cleaned(accounts: Accounts<'_>, inside: &str) -> String {
        let mut domains = Domains::of_users("capulet.lit");
        domains.serve("montague.lit", ActorKind::Users);
        domains.serve("pubsub.capulet.lit", ActorKind::Service(Service::PubSub));
        domains.serve("rooms.capulet.lit", ActorKind::Component);
        let xml = format!("<message>{inside}</message>");
        let ranges = read_back(xml.as_bytes(), |element| forged(&domains, element, accounts)).expect("well-formed");
        let mut left = xml;
        ranges.into_iter().rev().for_each(|range| left.replace_range(range, ""));
        left["<message>".len()..left.len() - "</message>".len()].to_owned()
    }

    #[test]
    fn nobody_speaks_in_the_servers_name_xep_0359_3_xep_0203_5() {
        let own = ["romeo@montague.lit", "juliet@capulet.lit"];
        let (these, all) = (Accounts::These(&own), Accounts::All);
        for (by, from_message, from_presence) in [
            ("juliet@capulet.lit", true, true),
            ("JULIET@Capulet.lit", true, true),
            ("romeo@montague.lit", true, true),
            ("nurse@capulet.lit", false, true),
            ("romeo@montague.lit/orchard", false, false),
            ("capulet.lit", true, true),
            ("montague.lit", true, true),
            ("montague.lit/throng", true, true),
            ("pubsub.capulet.lit", true, true),
            ("pubsub.capulet.lit/node", true, true),
            ("rooms.capulet.lit", false, false),
            ("cave@rooms.capulet.lit", false, false),
            ("verona.lit", false, false),
            ("cave@rooms.verona.lit", false, false),
            ("", false, false),
        ] {
            for (element, attribute) in
                [("stanza-id xmlns='urn:xmpp:sid:0' id='1'", "by"), ("delay xmlns='urn:xmpp:delay'", "from")]
            {
                let text = format!("<{element} {attribute}='{by}'/>");
                for (accounts, forged) in [(these, from_message), (all, from_presence)] {
                    assert_eq!(cleaned(accounts, &text).is_empty(), forged, "{text}");
                }
            }
        }
    }

    #[test]
    fn what_only_looks_like_it_stays() {
        let own = ["romeo@montague.lit"];
        for kept in [
            "<delay xmlns='urn:xmpp:delay' stamp='2002-09-10T23:08:25Z'/>",
            "<stanza-id xmlns='urn:xmpp:sid:0' id='1'/>",
            "<origin-id xmlns='urn:xmpp:sid:0' id='1' by='romeo@montague.lit'/>",
            "<delay xmlns='urn:other' from='capulet.lit'/>",
            "<x xmlns='a'><delay xmlns='urn:xmpp:delay' from='capulet.lit'/></x>",
        ] {
            assert_eq!(cleaned(Accounts::These(&own), kept), kept);
        }
        let forged = "<d:delay xmlns:d='urn:xmpp:delay' from='capulet.lit'>late</d:delay><body/><delay xmlns='urn:xmpp:del&#97;y' \
                      from='&#99;apulet.lit'/>";
        assert_eq!(cleaned(Accounts::These(&own), forged), "<body/>");
    }
}
