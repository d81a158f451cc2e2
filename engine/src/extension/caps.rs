//! Entity Capabilities (XEP-0115): the result of service discovery as one hash, so that it need not
//! be requested again. The server's own discovery data come from `disco`; this file only hashes and
//! names them. A client is asked once per hash, and its answer is accepted if the hash matches.

use super::change::{Ask, Capable, SessionChange};
use super::note::Note;
use super::xml;
use crate::limits::{INTERESTS_BYTES_MAX, INTERESTS_MAX};
use crate::wire::Element as Stanza;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minidom::Element;
use sha1::{Digest, Sha1};

/// The namespace of entity capabilities.
pub const NS: &str = "http://jabber.org/protocol/caps";

/// Names the software (XEP-0115 4).
const NODE: &str = "urn:x-throng:server";

/// An identity (XEP-0030 3.1): category, type, name.
pub type Identity = (&'static str, &'static str, &'static str);

/// Extended information (XEP-0128): the type of a form, and its fields with their values.
pub(super) type Form<'a> = (&'static str, Vec<(&'static str, Vec<&'a str>)>);

/// The verification string of XEP-0115 5.1. Sorts its parts.
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

const INFO_NS: &str = "http://jabber.org/protocol/disco#info";
const FORM_NS: &str = "jabber:x:data";
const XML_NS: &str = "http://www.w3.org/XML/1998/namespace";

/// The request to a client about its capabilities (XEP-0115 6.2).
pub(super) fn ask(node: &str, ver: &str) -> Ask {
    let mut payload = format!("<query xmlns='{INFO_NS}'").into_bytes();
    xml::attribute(&mut payload, "node", &format!("{node}#{ver}"));
    payload.extend_from_slice(b"/>");
    Ask { set: false, payload }
}

/// Handles a client's answer: its capabilities, with the hash of exactly that answer. This function
/// does not know which hash was requested; an answer with another hash is void.
pub(super) fn answered(_: &mut Option<Box<dyn Note>>, answer: &Stanza<'_>) -> SessionChange {
    let query = answer.child("query", INFO_NS).filter(|query| !xml::is_dense(query.bytes()));
    let capable = query.and_then(|query| capable(&xml::parse(query.bytes())?));
    SessionChange { capable, ..SessionChange::default() }
}

/// The capabilities in an answer; `None` if it is ill-formed (XEP-0115 5.4).
fn capable(query: &Element) -> Option<Capable> {
    // No part of the hashed text may contain a terminator: the text would become ambiguous.
    let part = |text: &str, ends: &[char]| !text.contains(ends);
    let mut identities = Vec::new();
    for identity in query.children().filter(|child| child.is("identity", INFO_NS)) {
        let lang = identity.attr_ns(XML_NS, "lang").unwrap_or_default();
        let (category, kind) = (identity.attr("category")?, identity.attr("type")?);
        let name = identity.attr("name").unwrap_or_default();
        if ![category, kind, lang].iter().all(|text| part(text, &['/', '<'])) || !part(name, &['<']) {
            return None;
        }
        identities.push((category, kind, lang, name));
    }
    let features = query.children().filter(|child| child.is("feature", INFO_NS));
    let mut features: Vec<&str> = features.map(|feature| feature.attr("var")).collect::<Option<_>>()?;
    identities.sort_unstable();
    features.sort_unstable();
    let twice = identities.windows(2).any(|pair| pair[0] == pair[1]) || features.windows(2).any(|p| p[0] == p[1]);
    if twice || !features.iter().all(|feature| part(feature, &['<'])) {
        return None;
    }
    let mut text = String::new();
    for (category, kind, lang, name) in identities {
        text.extend([category, "/", kind, "/", lang, "/", name, "<"]);
    }
    for feature in &features {
        text.extend([*feature, "<"]);
    }
    for form in forms(query)? {
        text.push_str(&form);
    }
    let mut bytes = 0;
    let wanted = features.iter().filter_map(|feature| feature.strip_suffix("+notify")).take(INTERESTS_MAX);
    let wanted = wanted.take_while(|node| {
        bytes += node.len();
        bytes <= INTERESTS_BYTES_MAX
    });
    let mut interests: Vec<Box<str>> = wanted.map(Into::into).collect();
    interests.sort_unstable();
    Some(Capable { ver: STANDARD.encode(Sha1::digest(text)).into(), interests: interests.into() })
}

/// The forms of an answer (XEP-0128) in hashed form and in order.
fn forms(query: &Element) -> Option<Vec<String>> {
    let mut forms: Vec<(String, String)> = Vec::new();
    for form in query.children().filter(|child| child.is("x", FORM_NS)) {
        let (mut form_type, mut fields) = (None, Vec::new());
        for field in form.children().filter(|child| child.is("field", FORM_NS)) {
            let var = field.attr("var")?;
            let mut values: Vec<_> =
                field.children().filter(|child| child.is("value", FORM_NS)).map(Element::text).collect();
            if var.contains('<') || values.iter().any(|value| value.contains('<')) {
                return None;
            }
            if var == "FORM_TYPE" {
                values.dedup();
                let [value] = <[String; 1]>::try_from(values).ok()?;
                // A form of another type is ignored.
                form_type = (field.attr("type") == Some("hidden")).then_some(value);
            } else {
                values.sort_unstable();
                fields.push((var, values));
            }
        }
        let Some(form_type) = form_type else { continue };
        if forms.iter().any(|(other, _)| *other == form_type) {
            return None;
        }
        fields.sort_unstable();
        let mut text = format!("{form_type}<");
        for (var, values) in fields {
            text.extend([var, "<"]);
            values.iter().for_each(|value| text.extend([value.as_str(), "<"]));
        }
        forms.push((form_type, text));
    }
    forms.sort_unstable();
    Some(forms.into_iter().map(|(_, text)| text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(inside: &str) -> Option<Capable> {
        capable(&xml::parse(format!("<query xmlns='{INFO_NS}' node='n#v'>{inside}</query>").as_bytes()).unwrap())
    }

    #[test]
    fn the_examples_of_xep_0115_5_2_and_5_3_as_answers() {
        let simple = "<identity category='client' type='pc' name='Exodus 0.9.1'/>\
            <feature var='http://jabber.org/protocol/caps'/><feature var='http://jabber.org/protocol/muc'/>\
            <feature var='http://jabber.org/protocol/disco#items'/><feature var='http://jabber.org/protocol/disco#info'/>";
        assert_eq!(&*of(simple).unwrap().ver, "QgayPKawpkPSDYmwT/WM94uAlu0=");
        let complex = "<identity xml:lang='en' category='client' name='Psi 0.11' type='pc'/>\
            <identity xml:lang='el' category='client' name='\u{3a8} 0.11' type='pc'/>\
            <feature var='http://jabber.org/protocol/caps'/><feature var='http://jabber.org/protocol/disco#info'/>\
            <feature var='http://jabber.org/protocol/disco#items'/><feature var='http://jabber.org/protocol/muc'/>\
            <x xmlns='jabber:x:data' type='result'>\
            <field var='FORM_TYPE' type='hidden'><value>urn:xmpp:dataforms:softwareinfo</value></field>\
            <field var='ip_version' type='text-multi'><value>ipv4</value><value>ipv6</value></field>\
            <field var='os'><value>Mac</value></field><field var='os_version'><value>10.5.1</value></field>\
            <field var='software'><value>Psi</value></field><field var='software_version'><value>0.11</value></field></x>";
        assert_eq!(&*of(complex).unwrap().ver, "q07IKJEyjvHSyhy//CH0CxmKi8w=");
    }

    #[test]
    fn interests_are_what_ends_in_notify_and_are_bounded() {
        let capable = of("<feature var='b+notify'/><feature var='a'/><feature var='a+notify'/>").unwrap();
        assert_eq!(*capable.interests, ["a".into(), "b".into()]);
        let many: String = (0..500).map(|n| format!("<feature var='node{n:03}+notify'/>")).collect();
        assert_eq!(of(&many).unwrap().interests.len(), INTERESTS_MAX);
    }

    #[test]
    fn an_answer_that_could_be_taken_apart_in_two_ways_is_refused_xep_0115_5_4() {
        for inside in [
            "<feature var='a'/><feature var='a'/>",
            "<identity category='a' type='b'/><identity category='a' type='b'/>",
            "<feature var='a&lt;b'/>",
            "<identity category='a/b' type='c'/>",
            "<identity category='a' type='c' name='x&lt;f'/>",
            "<identity category='a'/>",
            "<x xmlns='jabber:x:data'><field var='FORM_TYPE' type='hidden'><value>a</value></field></x>\
             <x xmlns='jabber:x:data'><field var='FORM_TYPE' type='hidden'><value>a</value></field></x>",
            "<x xmlns='jabber:x:data'><field var='FORM_TYPE' type='hidden'><value>a</value><value>b</value></field></x>",
        ] {
            assert_eq!(of(inside), None, "{inside}");
        }
        assert!(of("<x xmlns='jabber:x:data'><field var='a'><value>b</value></field></x>").is_some(), "passed over");
    }

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

    /// The example has its identity's name in two languages, but the server has no languages: the
    /// test writes one in place of the other.
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
