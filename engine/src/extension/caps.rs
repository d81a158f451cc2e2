//! Entity Capabilities of the server (XEP-0115): its service discovery in one hash, so that clients need not ask again.
//! What is discovered is `disco`'s to say; this file only hashes and names it.

use super::xml;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// The namespace of entity capabilities.
pub const NS: &str = "http://jabber.org/protocol/caps";

/// Names the software (XEP-0115 4).
const NODE: &str = "urn:x-throng:server";

/// An identity (XEP-0030 3.1): category, type, name.
pub(super) type Identity = (&'static str, &'static str, &'static str);

/// Extended information (XEP-0128): the type of a form, and its fields with their values.
pub(super) type Form<'a> = (&'static str, Vec<(&'static str, Vec<&'a str>)>);

/// The verification string of XEP-0115 5.1. What it is made of is sorted here.
pub(super) fn verification(identities: &[Identity], vars: &[&str], forms: &[Form<'_>]) -> String {
    let mut identities: Vec<_> =
        identities.iter().map(|(category, kind, name)| format!("{category}/{kind}//{name}<")).collect();
    identities.sort_unstable();
    let mut vars = vars.to_vec();
    vars.sort_unstable();
    let mut hash = Sha1::new();
    for identity in identities {
        hash.update(identity);
    }
    for var in vars {
        hash.update(var);
        hash.update(b"<");
    }
    let mut forms = forms.to_vec();
    forms.sort_unstable_by_key(|(kind, _)| *kind);
    for (kind, mut fields) in forms {
        hash.update(kind);
        hash.update(b"<");
        fields.sort_unstable_by_key(|(var, _)| *var);
        for (var, mut values) in fields {
            values.sort_unstable();
            for text in std::iter::once(var).chain(values) {
                hash.update(text);
                hash.update(b"<");
            }
        }
    }
    STANDARD.encode(hash.finalize())
}

/// The disco#info node of the capabilities with this verification string (XEP-0115 6.2).
pub(super) fn full_node(ver: &str) -> String {
    format!("{NODE}#{ver}")
}

/// Appends the stream feature of the capabilities with this verification string (XEP-0115 6.3).
pub(super) fn stream_feature(ver: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<c");
    xml::attribute(out, "xmlns", NS);
    xml::attribute(out, "hash", "sha-1");
    xml::attribute(out, "node", NODE);
    xml::attribute(out, "ver", ver);
    out.extend_from_slice(b"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_xep_0115_5_2() {
        let vars = [
            "http://jabber.org/protocol/disco#items",
            "http://jabber.org/protocol/caps",
            "http://jabber.org/protocol/muc",
            "http://jabber.org/protocol/disco#info",
        ];
        assert_eq!(verification(&[("client", "pc", "Exodus 0.9.1")], &vars, &[]), "QgayPKawpkPSDYmwT/WM94uAlu0=");
    }

    /// The example has the name of its identity in two languages, of which the server has none: one is written into the other's place.
    #[test]
    fn a_form_counts_as_in_xep_0115_5_3() {
        let form: Form<'_> = (
            "urn:xmpp:dataforms:softwareinfo",
            vec![
                ("os_version", vec!["10.5.1"]),
                ("ip_version", vec!["ipv6", "ipv4"]),
                ("os", vec!["Mac"]),
                ("software_version", vec!["0.11"]),
                ("software", vec!["Psi"]),
            ],
        );
        let text = "client/pc//Psi<a<urn:xmpp:dataforms:softwareinfo<ip_version<ipv4<ipv6<os<Mac<os_version<10.5.1<software<Psi<\
                    software_version<0.11<";
        let told = STANDARD.encode(Sha1::digest(text));
        assert_eq!(verification(&[("client", "pc", "Psi")], &["a"], &[form]), told);
    }
}
