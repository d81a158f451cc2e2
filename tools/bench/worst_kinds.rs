//! The kinds of hostile input that `worst` measures: for each limit the input that costs most within it.

use base64::Engine as _;

/// When a kind's bytes are sent.
pub(super) enum When {
    /// In a session.
    Session,
    /// Instead of a stream's header, by somebody unknown.
    Header,
    /// On an open stream, by somebody unknown, behind this.
    Choice(&'static str),
}

/// A kind of input.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) when: When,
    /// What is sent, `bytes` of it or a little less. Before there is a session each text has a connection of its own.
    pub(super) texts: fn(bytes: usize) -> Vec<String>,
    /// Bytes of a read.
    pub(super) read: usize,
    /// The bound: instructions per byte.
    pub(super) most: f64,
}

/// A read as clients' stanzas usually come.
const READ: usize = 4_096;
/// Bytes of an element that may be sent before there is a session (`PREAUTH_BYTES_MAX`), less a little.
const EARLY: usize = 16_000;
/// Bytes of a part of an address (`JID_PART_BYTES_MAX`).
const PART: usize = 1_023;

/// `unit` as often as it fits between `head` and `foot` into so many bytes.
fn fill(bytes: usize, head: &str, unit: &str, foot: &str) -> String {
    let times = bytes.saturating_sub(head.len() + foot.len()) / unit.len();
    [head, &unit.repeat(times), foot].concat()
}

/// One message whose content is so much of `unit`.
fn message(bytes: usize, unit: &str) -> Vec<String> {
    vec![fill(bytes, "<message to='juliet@localhost' type='chat'><x>", unit, "</x></message>")]
}

/// The same of an element for private storage, which is read into a tree.
fn private(bytes: usize, unit: &str) -> Vec<String> {
    let (head, foot) = ("<iq type='set' id='p'><query xmlns='jabber:iq:private'><x xmlns='n'>", "</x></query></iq>");
    vec![fill(bytes, head, unit, foot)]
}

/// The same of a registration by somebody unknown.
fn registration(bytes: usize, unit: &str) -> Vec<String> {
    let (head, foot) = ("<iq type='set' id='r'><query xmlns='jabber:iq:register'>", "</query></iq>");
    apart(bytes, EARLY, |bytes| fill(bytes, head, unit, foot))
}

/// So many bytes in texts of at most `most` bytes each.
fn apart(bytes: usize, most: usize, text: impl Fn(usize) -> String) -> Vec<String> {
    let count = bytes.div_ceil(most);
    (0..count).map(|_| text(bytes / count)).collect()
}

/// This text again and again.
fn again(bytes: usize, text: &str) -> Vec<String> {
    vec![text.to_owned(); (bytes / text.len()).max(1)]
}

/// Stanzas of a session, all in one.
fn stanzas(bytes: usize, stanza: &str) -> Vec<String> {
    vec![stanza.repeat((bytes / stanza.len()).max(1))]
}

/// `unit` as often as it fits into a part of an address.
fn part(unit: &str) -> String {
    unit.repeat(PART / unit.len())
}

fn message_to(bytes: usize, to: &str) -> Vec<String> {
    stanzas(bytes, &format!("<message to='{to}'/>"))
}

/// An element within 60 others.
fn deep() -> String {
    "<a>".repeat(60) + &"</a>".repeat(60)
}

/// A tag with 64 attributes, each name by `name`.
fn attributes(name: impl Fn(usize) -> String) -> String {
    let all: String = (0..64).map(|n| format!(" {}=''", name(n))).collect();
    format!("<a{all}/>")
}

/// Names of 64 attributes whose small hashes are one (`Scanner::attribute`): first and last letter, and length, agree.
fn one_hash(n: usize) -> String {
    format!("a{n:02}z")
}

/// A message in which 60 namespaces are declared by names as long as they may be, 15 KB, and then `unit`. It is six times as
/// long as asked for, so that these names are a small part of it.
fn declared(bytes: usize, name: impl Fn(usize) -> String, prefix: impl Fn(usize) -> String, unit: &str) -> Vec<String> {
    let all: String = (0..60).map(|n| format!(" xmlns:{}='{}'", prefix(n), name(n))).collect();
    vec![fill(6 * bytes, &format!("<message to='juliet@localhost' type='chat'><x{all}>"), unit, "</x></message>")]
}

/// A name of 250 bytes that differs from others in the end, written with a reference.
fn referring(n: usize) -> String {
    format!("{}&amp;{n:02}", "n".repeat(243))
}

/// The same, written as it is.
fn plain(n: usize) -> String {
    format!("{}{n:02}", "n".repeat(248))
}

fn short(n: usize) -> String {
    format!("p{n}")
}

/// Prefixes that differ only before their last seven bytes.
fn one_key(n: usize) -> String {
    format!("p{n:02}qqqqqqq")
}

/// A tag with an attribute in each of the 60 namespaces.
fn one_of_each() -> String {
    let all: String = (0..60).map(|n| format!(" p{n}:a=''")).collect();
    format!("<b{all}/>")
}

/// A tag with 32 declarations and an attribute in each of their namespaces.
fn half_declarations() -> String {
    let all: String = (0..32).map(|n| format!(" xmlns:p{n}='{n}' p{n}:a=''")).collect();
    format!("<b{all}/>")
}

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn auth(bytes: usize, mechanism: &str, message: &str) -> Vec<String> {
    let sasl = "urn:ietf:params:xml:ns:xmpp-sasl";
    again(bytes, &format!("<auth xmlns='{sasl}' mechanism='{mechanism}'>{}</auth>", base64(message.as_bytes())))
}

/// A login by PLAIN with name and password of this.
fn login(bytes: usize, unit: &str) -> Vec<String> {
    auth(bytes, "PLAIN", &format!("\0{}\0{}", part(unit), part(unit)))
}

/// A SCRAM exchange whose nonce the client does not know, so that its last message is read and then refused.
const SCRAM_FIRST: &str =
    "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-256'>biwsbj1yb21lbyxyPWFiY2RlZmdo</auth>";

fn header(bytes: usize, attributes: &str) -> Vec<String> {
    let start = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'";
    again(bytes, &format!("{start}{attributes}>"))
}

macro_rules! kinds {
    ($($name:literal, $when:expr, $most:literal, $texts:expr;)*) => {
        /// All kinds.
        pub(super) const KINDS: &[Kind] =
            &[$(Kind { name: $name, when: $when, texts: $texts, read: READ, most: $most as f64 },)*
              Kind { name: "reads of one byte", when: When::Session, texts: |n| message(n, "<a/>"), read: 1, most: 1400.0 }];
    };
}

kinds! {
    // What everything else is held against.
    "ordinary: messages of 180 bytes", When::Session, 65, |n| stanzas(n, &format!("<message to='juliet@localhost' type='chat'><body>{}</body></message>", "m".repeat(111)));
    "ordinary: one long message", When::Session, 8, |n| message(n, "Wherefore art thou Romeo? ");
    // The smallest stanzas.
    "stanzas: message", When::Session, 240, |n| stanzas(n, "<message to='juliet@localhost'/>");
    "stanzas: message to oneself", When::Session, 700, |n| stanzas(n, "<message/>");
    "stanzas: presence", When::Session, 580, |n| stanzas(n, "<presence/>");
    "stanzas: iq", When::Session, 240, |n| stanzas(n, "<iq type='get' id='1'/>");
    "stanzas: error", When::Session, 110, |n| stanzas(n, "<iq type='error' id='1'/>");
    "stanzas: white space", When::Session, 11, |n| stanzas(n, " ");
    // Text.
    "text: beyond ASCII", When::Session, 12, |n| message(n, "猫");
    "text: last rows", When::Session, 37, |n| message(n, "\u{fffd}");
    "text: references", When::Session, 44, |n| message(n, "&lt;");
    "text: last reference", When::Session, 37, |n| message(n, "&apos;");
    "text: character references", When::Session, 60, |n| message(n, "&#9;");
    "text: long character references", When::Session, 23, |n| message(n, &format!("&#{}9;", "0".repeat(200)));
    "text: brackets", When::Session, 31, |n| message(n, "]]");
    "text: line ends", When::Session, 11, |n| message(n, "\r");
    "text: empty CDATA sections", When::Session, 55, |n| message(n, "<![CDATA[]]>");
    "text: brackets in CDATA", When::Session, 37, |n| message(n, "<![CDATA[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]>");
    // Elements.
    "elements: empty", When::Session, 90, |n| message(n, "<a/>");
    "elements: apart", When::Session, 70, |n| message(n, "<a></a>");
    "elements: between letters", When::Session, 100, |n| message(n, "b<a/>");
    "elements: deep", When::Session, 70, |n| message(n, &deep());
    "elements: long names", When::Session, 14, |n| message(n, &format!("<{0}></{0}>", "a".repeat(250)));
    "elements: names beyond ASCII", When::Session, 110, |n| message(n, &format!("<{}/>", "é".repeat(120)));
    "elements: direct children", When::Session, 170, |n| stanzas(n, &format!("<message to='juliet@localhost' type='chat'>{}</message>", "<a/>".repeat(512)));
    "elements: children in a long namespace", When::Session, 150, |n| stanzas(n, &format!("<message to='juliet@localhost' type='chat' xmlns:p='{}'>{}</message>", plain(0), "<p:body/>".repeat(512)));
    // Attributes.
    "attributes: one", When::Session, 75, |n| message(n, "<a b=''/>");
    "attributes: 64", When::Session, 105, |n| message(n, &attributes(|n| format!("a{n}")));
    "attributes: one hash", When::Session, 60, |n| message(n, &attributes(one_hash));
    "attributes: long names of one hash", When::Session, 20, |n| message(n, &attributes(|n| format!("{}{n:02}z", "a".repeat(200))));
    "attributes: references", When::Session, 70, |n| message(n, "<a b='&#9;&#9;&#9;&#9;&#9;&#9;&#9;&#9;'/>");
    "attributes: of the stanza", When::Session, 115, |n| stanzas(n, &attributes(one_hash).replace("<a", "<message to='juliet@localhost'").replace(" a63z=''", ""));
    // Namespaces.
    "namespaces: one a tag", When::Session, 65, |n| message(n, "<a xmlns='b'/>");
    "namespaces: 60 a tag", When::Session, 135, |n| message(n, &attributes(|n| if n < 60 { format!("xmlns:a{n}") } else { format!("a{n}") }).replace("''", "'b'"));
    "namespaces: 32 a tag, each with an attribute", When::Session, 185, |n| message(n, &half_declarations());
    "namespaces: references", When::Session, 105, |n| message(n, "<a xmlns='&#98;&#98;&#98;&#98;&#98;&#98;'/>");
    "namespaces: 60 declared, and an attribute in each", When::Session, 185, |n| declared(n, plain, short, &one_of_each());
    "namespaces: 60 declared by references, and an attribute in each", When::Session, 185, |n| declared(n, referring, short, &one_of_each());
    "namespaces: 60 declared, and the first used", When::Session, 180, |n| declared(n, plain, short, "<p0:a/>");
    "namespaces: 60 declared by like prefixes, and the first used", When::Session, 310, |n| declared(n, plain, one_key, "<p00qqqqqqq:a/>");
    "namespaces: 60 declared, and one anew in each tag", When::Session, 180, |n| declared(n, plain, short, "<b xmlns:z='n' z:a='' p0:a=''/>");
    "namespaces: 60 declared, and a like one anew in each tag", When::Session, 55, |n| declared(n, plain, short, &format!("<b xmlns:z='{}' z:a='' p0:a=''/>", plain(99)));
    // Payloads that are read into a tree.
    "tree: text", When::Session, 62, |n| private(n, "m");
    "tree: references", When::Session, 720, |n| private(n, "&lt;");
    "tree: elements", When::Session, 110, |n| private(n, "<a/>");
    "tree: elements between letters", When::Session, 110, |n| private(n, "b<a/>");
    "tree: deep", When::Session, 90, |n| private(n, &deep());
    "tree: attributes", When::Session, 820, |n| private(n, &attributes(|n| format!("a{n}")));
    "tree: namespaces", When::Session, 65, |n| private(n, "<a xmlns='b'/>");
    "tree: 128 elements", When::Session, 890, |n| stanzas(n, &format!("<iq type='set' id='p'><query xmlns='jabber:iq:private'>{}</query></iq>", (0..128).map(|n| format!("<a xmlns='n{n}'/>")).collect::<String>()));
    "tree: a roster item with 32 groups", When::Session, 710, |n| stanzas(n, &format!("<iq type='set' id='r'><query xmlns='jabber:iq:roster'><item jid='a@localhost'>{}</item></query></iq>", (0..32).map(|n| format!("<group>{n}</group>")).collect::<String>()));
    // Addresses.
    "addresses: plain", When::Session, 40, |n| message_to(n, &format!("{}@{}/{}", part("a"), part("a"), part("a")));
    "addresses: capitals", When::Session, 80, |n| message_to(n, &format!("{}@localhost", part("A")));
    "addresses: a localpart beyond ASCII", When::Session, 860, |n| message_to(n, &format!("{}@localhost", part("é")));
    "addresses: a resourcepart beyond ASCII", When::Session, 810, |n| message_to(n, &format!("juliet@localhost/{}", part("é")));
    "addresses: a resourcepart of marks", When::Session, 1950, |n| message_to(n, &format!("juliet@localhost/{}", part("\u{315}\u{300}\u{5ae}")));
    "addresses: a localpart that is mapped and composed", When::Session, 1950, |n| message_to(n, &format!("{}@localhost", part("\u{1d7}")));
    "addresses: a localpart from the right", When::Session, 920, |n| message_to(n, &format!("{}@localhost", part("\u{5d0}")));
    "addresses: a localpart of full width", When::Session, 380, |n| message_to(n, &format!("{}@localhost", part("\u{ff21}")));
    "addresses: a resourcepart that grows", When::Session, 650, |n| message_to(n, &format!("juliet@localhost/{}", part("\u{f93}")));
    "addresses: a resourcepart with context", When::Session, 2850, |n| message_to(n, &format!("juliet@localhost/{}", part("\u{315}\u{300}\u{5ae}\u{661}")));
    "addresses: a resourcepart of ligatures", When::Session, 1550, |n| message_to(n, &format!("juliet@localhost/{}", part("\u{fdfa}")));
    "addresses: a domainpart that grows", When::Session, 1100, |n| message_to(n, &part("\u{33af}"));
    "addresses: a domainpart of capitals", When::Session, 165, |n| message_to(n, &part("A"));
    "addresses: a domainpart beyond ASCII", When::Session, 210, |n| message_to(n, &part("é"));
    "addresses: a domainpart of labels", When::Session, 70, |n| message_to(n, &format!("{}a", part("é.")));
    "addresses: a domainpart of A-labels", When::Session, 260, |n| message_to(n, &format!("{}a", part("xn--mnchen-3ya.")));
    "addresses: as they are sent", When::Session, 80, |n| stanzas(n, &format!("<message from='ROMEO@localhost/r' to='{}@localhost'/>", part("A")));
    // Before authentication.
    "header: attributes", When::Header, 115, |n| header(n, &(0..58).map(|n| format!(" a{n:02}z=''")).collect::<String>());
    "header: declarations", When::Header, 220, |n| header(n, &(0..13).map(|n| format!(" xmlns:p{n}='{n}'")).collect::<String>());
    "header: too many declarations", When::Header, 70, |n| header(n, &(0..58).map(|n| format!(" xmlns:p{n}='{}'", "n".repeat(50))).collect::<String>());
    "registration: elements", When::Choice(""), 110, |n| registration(n, "<a/>");
    "registration: deep", When::Choice(""), 90, |n| registration(n, &deep());
    "registration: attributes", When::Choice(""), 580, |n| registration(n, &attributes(one_hash));
    "registration: name and password", When::Choice(""), 1250, |n| again(n, &format!("<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>{}</username><password>{}</password></query></iq>", part("É"), part("É")));
    "SASL: PLAIN", When::Choice(""), 190, |n| login(n, "a");
    "SASL: PLAIN of capitals", When::Choice(""), 195, |n| login(n, "A");
    "SASL: PLAIN beyond ASCII", When::Choice(""), 560, |n| login(n, "é");
    "SASL: SCRAM", When::Choice(""), 150, |n| auth(n, "SCRAM-SHA-256", &format!("n,,n={},r={}", part("=2C"), "r".repeat(256)));
    "SASL: SCRAM with attributes", When::Choice(""), 250, |n| auth(n, "SCRAM-SHA-256", &format!("n,,n={},r={}{}", part("é"), "r".repeat(256), ",a=b".repeat(600)));
    "SASL: the end of SCRAM", When::Choice(SCRAM_FIRST), 60, |n| again(n, &format!("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{}</response>", base64(format!("c=biws,r=a{},p=AAAA", ",a=b".repeat(900)).as_bytes())));
    "SASL: base64 too long", When::Choice(""), 8, |n| again(n, &format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{}</auth>", "AAAA".repeat(3_900)));
    "SASL: base64 in elements", When::Choice(""), 18, |n| again(n, &format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{}</auth>", "A<a/>".repeat(3_100)));
}
