//! Requests that a client inlines into its authentication (XEP-0388 2.4): to resume a session
//! (XEP-0198), or to bind a new one (XEP-0386) with its features, and to get a token for the next
//! login (XEP-0484).
//!
//! This module parses the requests and holds them until the client is authenticated. The shard
//! carries them out.

use super::sasl::{self, Failure, Fast, Made, Mechanism};
use crate::extension::datetime::{self, Precision};
use crate::extension::written;
use crate::limits::{BIND_TAG_BYTES_MAX, PREVID_BYTES_MAX};
use crate::store::hash::{HashKind, Hashes};
use crate::store::token::{Agent, TokenKind};
use crate::wire::error::SaslCondition;
use crate::wire::text::Writer;
use crate::wire::{Child, Element, Event, jid};
use crate::{extension, ns};

/// Requests inlined into an authentication. Bounded: `<authenticate/>` is bounded, and only texts
/// with a limit here are retained.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Inline {
    /// The client's installation.
    pub agent: Option<Agent>,
    /// Attributes that accompany a token.
    pub fast: Option<Fast>,
    /// Keys that the client can provide for the account (XEP-0480); after authentication, those of
    /// them that the account lacks.
    pub upgrades: Hashes,
    /// The state of that upgrade.
    pub upgrade: Option<Upgrade>,
    /// The kind of token that the client requests.
    pub token: Option<TokenKind>,
    /// The client's request to resume a session.
    pub resume: Option<Resume>,
    /// The client's request to bind a session.
    pub bind: Option<Bind>,
    /// The mechanism's final message, once the client is authenticated.
    pub message: Vec<u8>,
    /// The new token for the client.
    pub made: Option<Made>,
    /// What is written before and after `<resumed/>` while a session is being resumed.
    pub around: (Vec<u8>, Vec<u8>),
    /// Whether resumption failed.
    pub not_resumed: bool,
    /// Elements of `<bound/>`: account information that the client gets with its session.
    pub bound: Vec<u8>,
    /// The first place in the table of extensions that is still to contribute to `bound`.
    #[serde(with = "written::place")]
    pub told: usize,
}

/// A task that adds keys to an account (XEP-0480 3).
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Upgrade {
    /// The hash function.
    pub kind: HashKind,
    /// The salt that the client is told for deriving the key.
    pub salt: Box<[u8]>,
    /// PBKDF2 iterations.
    pub iterations: u32,
    /// Whether the client has begun the task and is to send the derived key; otherwise it is to
    /// begin.
    pub begun: bool,
}

/// `<resume/>` (XEP-0198 5).
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Resume {
    /// The id of the session; empty if it is invalid.
    pub previd: Box<str>,
    /// The client's count of handled stanzas.
    pub h: Option<u32>,
}

/// `<bind/>` (XEP-0386 2.2).
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Bind {
    /// The client's name for itself: the beginning of its resource.
    pub tag: Option<Box<str>>,
    /// Stream management.
    pub enable: Option<Enable>,
    /// Elements for extensions, by their place in the table, each once.
    #[serde(with = "written::places")]
    pub features: Vec<(u8, Box<str>)>,
}

/// `<enable/>` (XEP-0198 3).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Enable {
    /// Whether the session is to be resumable.
    pub resume: bool,
    /// The maximum resumption time, seconds.
    pub max: Option<u32>,
}

impl Enable {
    /// Reads the element's attributes.
    pub fn read<'a>(attribute: impl Fn(&str) -> Option<std::borrow::Cow<'a, str>>) -> Enable {
        let resume = matches!(attribute("resume").as_deref(), Some("true" | "1"));
        Enable { resume, max: attribute("max").and_then(|max| max.parse().ok()) }
    }
}

fn malformed(text: &'static str) -> Failure {
    Failure::with_text(SaslCondition::MalformedRequest, text)
}

/// Stores a value in a place that must be empty.
fn once<T>(place: &mut Option<T>, found: T) -> Result<(), Failure> {
    match place.replace(found) {
        None => Ok(()),
        Some(_) => Err(malformed("an element is repeated")),
    }
}

impl Inline {
    /// Reads `<authenticate/>`. Also returns the text of its `<initial-response/>`. Unknown
    /// elements are ignored.
    ///
    /// # Errors
    /// If an element occurs twice, or is invalid.
    pub fn read(element: &Element<'_>, server: &extension::ServerFacts) -> Result<(Inline, Option<String>), Failure> {
        let mut inline = Inline::default();
        let (mut initial, mut agent) = (None, None);
        for child in element.children() {
            match (child.namespace(), child.name()) {
                // XEP-0388 2.3 permits no white space around it, but examples have some.
                (ns::SASL2, "initial-response") => once(&mut initial, child.text().trim().to_owned())?,
                (ns::SASL2, "user-agent") => once(&mut agent, read_agent(&child)?)?,
                (ns::SM, "resume") => once(&mut inline.resume, read_resume(&child))?,
                (ns::BIND2, "bind") => once(&mut inline.bind, read_bind(&child, server)?)?,
                (ns::SASL_UPGRADE, "upgrade") => {
                    let kind = sasl::upgrade_of(child.text().trim());
                    inline.upgrades = kind.map_or(inline.upgrades, |kind| inline.upgrades.with(kind));
                }
                (ns::FAST, "fast") => once(&mut inline.fast, read_fast(&child)?)?,
                (ns::FAST, "request-token") => once(&mut inline.token, read_kind(&child)?)?,
                _ => {}
            }
        }
        inline.agent = agent.flatten();
        Ok((inline, initial))
    }

    /// The client of a new token and the token's kind, if one is to be created.
    pub fn wants_token(&self) -> Option<(Agent, TokenKind)> {
        self.agent.zip(self.token).filter(|_| self.made.is_none())
    }

    /// Appends the beginning of `<success/>` (XEP-0388 2.6.1) for a client whose address is `jid`.
    /// The results of the inlined requests follow.
    pub fn open_success(&self, out: &mut Vec<u8>, jid: &str) {
        sasl::open_success2(out, &self.message, jid);
    }

    /// Appends the rest: the token, if one was created (XEP-0484 3.3), and the end.
    pub fn close_success(&self, out: &mut Vec<u8>) {
        if let Some(made) = &self.made {
            let expiry = datetime::text(made.expires_s.saturating_mul(1_000_000), Precision::Seconds);
            let mut w = Writer::new(out);
            w.open("token").attribute("xmlns", ns::FAST).attribute("token", &made.text);
            w.attribute("expiry", &expiry).close();
        }
        out.extend_from_slice(sasl::CLOSE_SUCCESS2);
    }

    /// Writes the text around `<resumed/>` (XEP-0198 10.2) for a session with this address.
    pub fn surround(&mut self, jid: &str) {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        self.open_success(&mut before, jid);
        self.close_success(&mut behind);
        self.around = (before, behind);
    }
}

/// Reads the id of `<user-agent/>`: a UUID (XEP-0388 2.4). Its other content is not retained.
fn read_agent(child: &Child<'_>) -> Result<Option<Agent>, Failure> {
    let Some(id) = child.attribute("id") else { return Ok(None) };
    uuid(&id).map(Some).ok_or(malformed("the id of the user agent is not a UUID"))
}

fn uuid(text: &str) -> Option<Agent> {
    let lengths = text.split('-').map(str::len);
    if !text.is_ascii() || !lengths.eq([8, 4, 4, 4, 12]) {
        return None;
    }
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let mut agent = Agent::default();
    for (byte, pair) in agent.iter_mut().zip(digits.chunks(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(agent)
}

fn read_resume(child: &Child<'_>) -> Resume {
    let previd = child.attribute("previd").filter(|previd| previd.len() <= PREVID_BYTES_MAX).unwrap_or_default();
    Resume { previd: previd.into(), h: child.attribute("h").and_then(|h| h.parse().ok()) }
}

fn read_fast(child: &Child<'_>) -> Result<Fast, Failure> {
    let count = match child.attribute("count") {
        None => None,
        // XEP-0484 3.4: a positive integer.
        Some(count) => {
            Some(count.parse().ok().filter(|count| *count > 0).ok_or(malformed("the count is not a positive number"))?)
        }
    };
    Ok(Fast { count, invalidate: matches!(child.attribute("invalidate").as_deref(), Some("true" | "1")) })
}

/// The mechanism of `<request-token/>` (XEP-0484 3.2).
fn read_kind(child: &Child<'_>) -> Result<TokenKind, Failure> {
    let mechanism = child.attribute("mechanism").and_then(|name| Mechanism::from_name(&name));
    mechanism.and_then(Mechanism::token).ok_or(malformed("the mechanism of the requested token is not offered"))
}

fn read_bind(child: &Child<'_>, server: &extension::ServerFacts) -> Result<Bind, Failure> {
    let mut bind = Bind::default();
    let (mut depth, mut tag) = (0, None::<String>);
    let mut in_tag = false;
    for event in child.cursor() {
        match event {
            Event::Start(start) => {
                if depth == 1 {
                    let namespace = start.namespace();
                    match (&*namespace, start.name()) {
                        (ns::BIND2, "tag") => {
                            once(&mut tag, String::new())?;
                            in_tag = true;
                        }
                        (ns::SM, "enable") => once(&mut bind.enable, Enable::read(|name| start.attribute(name)))?,
                        (namespace, name) => {
                            if let Some((place, _)) = extension::inline(server, namespace) {
                                if bind.features.iter().any(|(of, _)| usize::from(*of) == place) {
                                    return Err(malformed("an element is repeated"));
                                }
                                bind.features.push((place as u8, name.into()));
                            }
                        }
                    }
                }
                depth += 1;
            }
            Event::Text(text) => {
                if let Some(tag) = tag.as_mut().filter(|_| in_tag && depth == 2) {
                    tag.push_str(&text);
                }
            }
            Event::End => {
                depth -= 1;
                in_tag &= depth != 1;
            }
        }
    }
    bind.tag = match tag.as_deref() {
        None | Some("") => None,
        // XEP-0386 2.2.1: it becomes part of the resource, unchanged.
        Some(tag) if tag.len() <= BIND_TAG_BYTES_MAX => Some(
            jid::normalise_resource(tag)
                .map_err(|_| malformed("the tag has characters that are not allowed in a resource"))?
                .into(),
        ),
        Some(_) => return Err(malformed("the tag is too long")),
    };
    Ok(bind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::ServerFacts;
    use crate::wire::{Expect, Scanner, StreamScope};

    const ID: &str = "d4565fa7-4d72-4749-b3d3-740edbf87770";

    fn read(inside: &str) -> Result<(Inline, Option<String>), Failure> {
        let xml = format!("<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'>{inside}</authenticate>");
        let (mut scanner, scope) = (Scanner::new(), StreamScope::Usual);
        scanner.scan(&scope, Expect::Content, usize::MAX, xml.as_bytes()).expect("an element");
        Inline::read(&scanner.element(&scope, xml.as_bytes()), &ServerFacts::default())
    }

    /// XEP-0388 2.4, XEP-0386 2.2, XEP-0198 10, XEP-0484 3.2, 3.4: all elements together.
    #[test]
    fn xep0388_2_4_what_comes_with_authentication() {
        let (inline, initial) = read(&format!(
            "<initial-response>\n AGE= </initial-response>\
             <user-agent id='{ID}'><software>Awesome</software><device>Kiva's Phone</device></user-agent>\
             <resume xmlns='urn:xmpp:sm:3' h='7' previd='1-2-3'/>\
             <bind xmlns='urn:xmpp:bind:0'><tag>Awe&amp;some</tag><enable xmlns='urn:xmpp:carbons:2'/>\
             <enable xmlns='urn:xmpp:sm:3' resume='true' max='60'/><inactive xmlns='urn:xmpp:csi:0'/>\
             <x xmlns='urn:unknown'><tag xmlns='urn:xmpp:bind:0'>no</tag></x></bind>\
             <fast xmlns='urn:xmpp:fast:0' count='123' invalidate='true'/>\
             <request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-ENDP'/><x xmlns='urn:unknown'/>"
        ))
        .unwrap();
        assert_eq!(initial.as_deref(), Some("AGE="));
        assert_eq!(inline.agent.unwrap()[..3], [0xd4, 0x56, 0x5f]);
        let resume = inline.resume.as_ref().unwrap();
        assert_eq!((&*resume.previd, resume.h), ("1-2-3", Some(7)));
        let bind = inline.bind.as_ref().unwrap();
        assert_eq!(bind.tag.as_deref(), Some("Awe&some"));
        assert!(matches!(bind.enable, Some(Enable { resume: true, max: Some(60) })));
        let names: Vec<_> = bind.features.iter().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["enable", "inactive"]);
        assert_eq!(inline.fast, Some(Fast { count: Some(123), invalidate: true }));
        assert_eq!(inline.wants_token(), Some((inline.agent.unwrap(), TokenKind::EndPoint)));
        let (inline, initial) = read("").unwrap();
        assert!(initial.is_none() && inline.agent.is_none() && inline.bind.is_none());
        assert_eq!(read("<initial-response/>").unwrap().1.as_deref(), Some(""));
        // XEP-0484 4.1: a token is for a client with an id.
        let token = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
        assert_eq!(read(token).unwrap().0.wants_token(), None);
        let bind = read("<bind xmlns='urn:xmpp:bind:0'><tag/></bind>").unwrap().0.bind.unwrap();
        assert!(bind.tag.is_none() && bind.enable.is_none() && bind.features.is_empty());
    }

    #[test]
    fn what_is_not_as_it_must_be() {
        let bind = |inside: &str| format!("<bind xmlns='urn:xmpp:bind:0'>{inside}</bind>");
        let enable = "<enable xmlns='urn:xmpp:sm:3'/>";
        let carbons = "<enable xmlns='urn:xmpp:carbons:2'/>";
        let fast = "<fast xmlns='urn:xmpp:fast:0'/>";
        for bad in [
            "<initial-response/><initial-response/>".to_owned(),
            format!("<user-agent id='{ID}'/><user-agent/>"),
            "<user-agent id='mine'/>".into(),
            format!("<user-agent id='{ID}0'/>"),
            format!("<user-agent id='{}'/>", ID.replace('d', "x")),
            format!("<user-agent id='{}'/>", ID.replace("d4", "\u{e9}")),
            format!("{fast}{fast}"),
            fast.replace("/>", " count='0'/>"),
            fast.replace("/>", " count='-1'/>"),
            "<request-token xmlns='urn:xmpp:fast:0'/>".into(),
            "<request-token xmlns='urn:xmpp:fast:0' mechanism='PLAIN'/>".into(),
            format!("{}{}", bind(""), bind("")),
            bind("<tag>a</tag><tag>b</tag>"),
            bind(&format!("<tag>{}</tag>", "a".repeat(257))),
            bind("<tag>a\u{7f}</tag>"),
            bind(&enable.repeat(2)),
            bind(&carbons.repeat(2)),
        ] {
            let failure = read(&bad).map(|_| ()).unwrap_err();
            assert_eq!(failure.condition, SaslCondition::MalformedRequest, "{bad}");
        }
        let long = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{}'/>", "1".repeat(65));
        assert_eq!(&*read(&long).unwrap().0.resume.unwrap().previd, "");
    }
}
