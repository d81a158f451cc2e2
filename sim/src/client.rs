//! A compact client: it logs in, binds or resumes, keeps both counts of XEP-0198, and tracks its
//! roster and the presence of others. It checks nothing; events that the checks need are reported
//! as [`News`].

mod archive;
mod heard;

use std::collections::{BTreeMap, VecDeque};

use base64::Engine as _;

use throng_engine::ns;

use self::archive::RETRACT;
pub use self::archive::{Look, Shown};
pub use self::heard::Heard;
use crate::net::SocketId;
use crate::world::{PASSWORD, ids};
use crate::xml::{Item, Node, Reader};

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not connected.
    Offline,
    /// Connecting to bind a resource.
    Opening,
    /// Waiting for the answer to `<resume/>`.
    Resuming,
    /// Waiting for the answer to `<bind/>`.
    Binding,
    /// Bound.
    Online,
    /// It has closed its stream and waits for the server to do so.
    Leaving,
}

/// An event for the checks.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// A message with a number.
    Message(Received),
    /// An error for the message of this number.
    Refused(u64),
    /// The server has acknowledged these numbers.
    Acked(Vec<u64>),
    /// A resource is bound: a new session.
    Bound,
    /// The session was resumed.
    Resumed,
    /// The session is over: it could not be resumed.
    NotResumed,
    /// A subscription request.
    Asked(String),
    /// The roster, and its state by earlier pushes if it was known.
    Roster(Option<BTreeMap<String, String>>),
    /// The server violated the protocol.
    Wrong(String),
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Number in its body.
    pub number: u64,
    /// Bare JID of the sender.
    pub from: String,
    /// The address to which it was sent.
    pub to: String,
    /// The number encoded in its stanza-id, if it has one.
    pub stanza_id: Option<u64>,
    /// Whether it has a delay stamp.
    pub delayed: bool,
    /// Whether the server was known to have processed the receiver's available presence.
    pub seen: bool,
}

/// The client's state of stream management.
#[derive(Debug, Default)]
pub struct Management {
    /// The id for resumption; empty until `<enabled/>` is received.
    pub previd: String,
    /// Stanzas that the server has acknowledged.
    pub acked: u32,
    /// Stanzas sent since then, with the numbers of messages.
    pub unacked: VecDeque<(Vec<u8>, Option<u64>)>,
    /// Stanzas received.
    pub received: u32,
    /// Whether the server has an unanswered request for acknowledgement.
    pub owes: bool,
}

/// One client of one user.
#[derive(Debug)]
pub struct Client {
    /// Number of the user.
    pub user: usize,
    /// The user's bare JID.
    pub bare: String,
    /// Resource.
    pub resource: String,
    /// Whether it uses stream management.
    pub managed: bool,
    /// Its state.
    pub phase: Phase,
    /// Its connection.
    pub socket: Option<SocketId>,
    /// Bytes to send.
    pub out: Vec<u8>,
    /// Pending events.
    pub news: Vec<News>,
    /// Stream management of its session.
    pub management: Option<Management>,
    /// Contacts with their subscription, as received.
    pub roster: Option<BTreeMap<String, String>>,
    /// Number of times that each publication was received, by the bare JID of its publisher or
    /// service and its id; repeated last items do not count.
    pub events: BTreeMap<(String, String), u32>,
    /// Numbers of the messages received in order: its own, and copies (XEP-0280).
    pub view: Vec<u64>,
    /// Full JIDs seen available.
    pub seen: BTreeMap<String, ()>,
    /// Whether it has sent available presence.
    pub available: bool,
    /// Its query of the archive, if it has one.
    pub look: Option<Look>,
    /// Whether the server has died since its session last had a connection: presence changes of
    /// contacts may have been missed, and current presence is sent again.
    bereft: bool,
    /// Its connection at that time: input from it dates from before.
    died_on: Option<SocketId>,
    /// Whether it answers requests for acknowledgement at once.
    pub prompt: bool,
    /// Stanzas received from others, if it records them.
    pub heard: Option<Vec<Heard>>,
    reader: Reader,
    authenticated: bool,
    enabling: bool,
    ids: u64,
    /// Status of its own presence whose echo makes received presence count: before it, presence
    /// from an earlier available period may still be in transit.
    fresh_from: Option<String>,
}

impl Client {
    /// A client that is not connected.
    pub fn new(user: usize, bare: &str, resource: &str, managed: bool) -> Client {
        Client {
            user,
            bare: bare.into(),
            resource: resource.into(),
            managed,
            phase: Phase::Offline,
            socket: None,
            out: Vec::new(),
            news: Vec::new(),
            management: None,
            roster: None,
            events: BTreeMap::new(),
            view: Vec::new(),
            seen: BTreeMap::new(),
            available: false,
            look: None,
            bereft: false,
            died_on: None,
            prompt: true,
            heard: None,
            reader: Reader::default(),
            authenticated: false,
            enabling: false,
            ids: 0,
            fresh_from: None,
        }
    }

    /// Localpart and domain of its user.
    fn name(&self) -> (&str, &str) {
        self.bare.split_once('@').expect("a bare JID")
    }

    /// Its full JID.
    pub fn full(&self) -> String {
        format!("{}/{}", self.bare, self.resource)
    }

    /// Whether the server is known to have processed its available presence.
    pub fn is_seen(&self) -> bool {
        self.available && self.fresh_from.is_none()
    }

    /// Records that the server has died.
    pub fn server_died(&mut self) {
        (self.bereft, self.died_on) = (true, self.socket);
    }

    /// Begins a stream on a new connection.
    pub fn connected(&mut self, socket: SocketId) {
        self.socket = Some(socket);
        self.phase = Phase::Opening;
        self.authenticated = false;
        self.enabling = false;
        self.reader = Reader::default();
        self.out.clear();
        self.open_stream();
        if self.in_one() {
            self.authenticate();
        }
    }

    /// Whether it logs in with one request (XEP-0388) that includes the resumption: every other
    /// user does.
    fn in_one(&self) -> bool {
        self.user % 2 == 1
    }

    /// Authenticates before it has received anything.
    fn authenticate(&mut self) {
        let message = base64::prelude::BASE64_STANDARD.encode(format!("\0{}\0{PASSWORD}", self.name().0));
        let mut resume = String::new();
        if let Some(m) = self.management.as_ref().filter(|m| !m.previd.is_empty()) {
            self.phase = Phase::Resuming;
            resume = format!("<resume xmlns='{}' h='{}' previd='{}'/>", ns::SM, m.received, m.previd);
        }
        let request = format!(
            "<authenticate xmlns='{}' mechanism='PLAIN'><initial-response>{message}</initial-response>{resume}</authenticate>",
            ns::SASL2
        );
        self.out.extend_from_slice(request.as_bytes());
    }

    /// Closes the connection. Returns the received part of an incomplete item.
    pub fn disconnected(&mut self) -> Vec<u8> {
        self.socket = None;
        self.phase = Phase::Offline;
        self.out.clear();
        if self.management.as_ref().is_none_or(|m| m.previd.is_empty()) {
            self.session_over();
        }
        let rest = self.reader.rest().to_vec();
        self.reader = Reader::default();
        rest
    }

    /// The received part of an incomplete item.
    pub fn rest(&self) -> &[u8] {
        self.reader.rest()
    }

    fn session_over(&mut self) {
        self.bereft = false;
        self.management = None;
        self.roster = None;
        self.events.clear();
        self.seen.clear();
        self.available = false;
    }

    fn open_stream(&mut self) {
        self.reader.restart();
        let (_, domain) = self.name();
        let header = format!(
            "<?xml version='1.0'?><stream:stream to='{domain}' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
        );
        self.out.extend_from_slice(header.as_bytes());
    }

    /// Sends a stanza, counted if necessary.
    pub fn stanza(&mut self, xml: String, number: Option<u64>) {
        self.out.extend_from_slice(xml.as_bytes());
        if let Some(m) = self.management.as_mut() {
            m.unacked.push_back((xml.into_bytes(), number));
        }
    }

    /// An `id` for a request.
    pub fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Requests an acknowledgement.
    pub fn ask(&mut self) {
        if self.management.is_some() {
            self.out.extend_from_slice(b"<r xmlns='urn:xmpp:sm:3'/>");
        }
    }

    /// Sends an acknowledgement.
    pub fn answer(&mut self) {
        if let Some(m) = self.management.as_mut() {
            m.owes = false;
            let h = m.received;
            self.out.extend_from_slice(format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>").as_bytes());
        }
    }

    /// Requests the roster.
    pub fn get_roster(&mut self) {
        let id = self.next_id();
        self.stanza(format!("<iq type='get' id='roster{id}'><query xmlns='jabber:iq:roster'/></iq>"), None);
    }

    /// Sends available presence.
    pub fn show(&mut self, priority: i8) {
        self.show_with(priority, "");
    }

    /// Sends available presence whose capabilities (XEP-0115) express interest in a node.
    pub fn show_interest(&mut self) {
        self.show_with(
            0,
            &format!("<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:sim' ver='{CAPABILITIES}'/>"),
        );
    }

    /// Publishes an item of that node (XEP-0163 3).
    pub fn publish(&mut self, item: &str) {
        let id = self.next_id();
        let publish = format!(
            "<iq type='set' id='publish{id}'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'>\
             <item id='{item}'><x xmlns='y'/></item></publish></pubsub></iq>"
        );
        self.stanza(publish, None);
    }

    /// Sends a request about its node to the publish-subscribe service.
    pub fn at_service(&mut self, inside: &str) {
        let id = self.next_id();
        let ns = "http://jabber.org/protocol/pubsub";
        let request = format!("<iq type='set' id='node{id}' to='{PUBSUB}'><pubsub xmlns='{ns}'>{inside}</pubsub></iq>");
        self.stanza(request, None);
    }

    /// Sends a numbered message, which may retract another one (XEP-0424 3).
    pub fn message_to(&mut self, to: &str, kind: &str, number: u64, retracts: Option<u64>, padding: &str) -> u64 {
        let retract = retracts.map_or(String::new(), |n| format!("<retract xmlns='{RETRACT}' id='m{n}'/>"));
        let body = format!("<body>#{number}#{padding}</body>");
        let message = format!("<message to='{to}' type='{kind}' id='m{number}'>{body}{retract}</message>");
        let bytes = message.len() as u64;
        self.stanza(message, Some(number));
        bytes
    }

    /// Enables copies of messages sent and received by the user's other devices.
    pub fn enable_carbons(&mut self) {
        let id = self.next_id();
        self.stanza(format!("<iq type='set' id='carbons{id}'><enable xmlns='{CARBONS}'/></iq>"), None);
    }

    /// Blocks or unblocks a bare JID (XEP-0191).
    pub fn block(&mut self, jid: &str, on: bool) {
        let (id, name) = (self.next_id(), if on { "block" } else { "unblock" });
        let request = format!("<{name} xmlns='urn:xmpp:blocking'><item jid='{jid}'/></{name}>");
        self.stanza(format!("<iq type='set' id='block{id}'>{request}</iq>"), None);
    }

    fn show_with(&mut self, priority: i8, more: &str) {
        let status = self.next_id();
        if !std::mem::replace(&mut self.available, true) {
            self.fresh_from = Some(status.to_string());
        }
        let presence = format!("<presence><priority>{priority}</priority><status>{status}</status>{more}</presence>");
        self.stanza(presence, None);
    }

    /// Ends its stream.
    pub fn leave(&mut self) {
        self.out.extend_from_slice(b"</stream:stream>");
        self.phase = Phase::Leaving;
        self.session_over();
    }

    /// Processes received bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
        loop {
            match self.reader.next() {
                Ok(Some(Item::Element(node))) => self.element(&node),
                Ok(Some(Item::Header(_))) => {}
                Ok(Some(Item::End)) => {
                    // The server has ended the session: there is nothing to resume.
                    if self.phase != Phase::Leaving {
                        self.out.extend_from_slice(b"</stream:stream>");
                        self.phase = Phase::Leaving;
                    }
                }
                Ok(None) => return,
                Err(error) => return self.news.push(News::Wrong(error)),
            }
        }
    }

    fn element(&mut self, node: &Node) {
        match (&*node.namespace, &*node.name) {
            ("http://etherx.jabber.org/streams", "features") => self.features(),
            (ns::SASL, "success") => {
                self.authenticated = true;
                self.open_stream();
            }
            (ns::SASL2, "success") => {
                self.authenticated = true;
                if let Some(node) = node.children.iter().find(|child| child.namespace == ns::SM) {
                    self.management_element(node);
                }
            }
            (ns::SASL | ns::SASL2, _) => self.news.push(News::Wrong(format!("{} cannot log in: {node}", self.bare))),
            (ns::SM, _) => self.management_element(node),
            (ns::STREAM, "error") if node.children.iter().any(|c| c.name == "resource-constraint") => {
                self.news.push(News::Wrong(format!("the stream of {} ended by what others sent: {node}", self.full())));
            }
            (ns::CLIENT, name) => {
                if let Some(m) = self.management.as_mut().filter(|m| !m.previd.is_empty()) {
                    m.received = m.received.wrapping_add(1);
                }
                self.hear(node);
                match name {
                    "message" => self.message(node),
                    "presence" => self.presence(node),
                    _ => self.iq(node),
                }
            }
            _ => {}
        }
    }

    fn features(&mut self) {
        if self.in_one() {
            // Before authentication a failure has no consequence; afterwards, the client may have a
            // session, or have requested one.
            if self.authenticated && self.phase == Phase::Opening {
                self.bind();
            }
            return;
        }
        if !self.authenticated {
            let message = base64::prelude::BASE64_STANDARD.encode(format!("\0{}\0{PASSWORD}", self.name().0));
            self.out
                .extend_from_slice(format!("<auth xmlns='{}' mechanism='PLAIN'>{message}</auth>", ns::SASL).as_bytes());
            return;
        }
        match &self.management {
            Some(m) if !m.previd.is_empty() => {
                self.phase = Phase::Resuming;
                let resume = format!("<resume xmlns='{}' h='{}' previd='{}'/>", ns::SM, m.received, m.previd);
                self.out.extend_from_slice(resume.as_bytes());
            }
            _ => self.bind(),
        }
    }

    fn bind(&mut self) {
        self.session_over();
        self.phase = Phase::Binding;
        let resource = &self.resource;
        let bind =
            format!("<iq type='set' id='bind'><bind xmlns='{}'><resource>{resource}</resource></bind></iq>", ns::BIND);
        self.out.extend_from_slice(bind.as_bytes());
    }

    fn management_element(&mut self, node: &Node) {
        let h = node.attribute("h").and_then(|h| h.parse::<u32>().ok());
        match &*node.name {
            "enabled" => {
                self.enabling = false;
                let previd = node.attribute("id").unwrap_or_default().to_owned();
                if let Some(m) = self.management.as_mut() {
                    m.previd = previd;
                }
            }
            "r" if self.prompt => self.answer(),
            "r" => {
                if let Some(m) = self.management.as_mut() {
                    m.owes = true;
                }
            }
            "a" => self.acknowledged(h),
            "resumed" => {
                self.acknowledged(h);
                self.phase = Phase::Online;
                if self.bereft && self.socket != self.died_on {
                    self.bereft = false;
                    let own = self.full();
                    self.seen.retain(|seen, ()| *seen == own);
                }
                self.news.push(News::Resumed);
                if let Some(m) = self.management.as_ref() {
                    let again: Vec<u8> = m.unacked.iter().flat_map(|(xml, _)| xml.iter().copied()).collect();
                    self.out.extend_from_slice(&again);
                }
            }
            "failed" if self.phase == Phase::Resuming => {
                self.news.push(News::NotResumed);
                self.bind();
            }
            other => self.news.push(News::Wrong(format!("unexpected {other} of stream management: {node}"))),
        }
    }

    fn acknowledged(&mut self, h: Option<u32>) {
        let Some(m) = self.management.as_mut() else { return };
        let n = h.map_or(u32::MAX, |h| h.wrapping_sub(m.acked)) as usize;
        if n > m.unacked.len() {
            let (acked, sent) = (m.acked, m.unacked.len());
            return self.news.push(News::Wrong(format!("h={h:?} of {acked}+{sent} stanzas sent by {}", self.bare)));
        }
        m.acked = m.acked.wrapping_add(n as u32);
        let numbers: Vec<u64> = m.unacked.drain(..n).filter_map(|(_, number)| number).collect();
        if !numbers.is_empty() {
            self.news.push(News::Acked(numbers));
        }
    }

    fn message(&mut self, node: &Node) {
        let bare = |jid: &str| jid.split('/').next().unwrap_or_default().to_owned();
        if node.attribute("type") == Some("error") {
            if let Some(number) = node.attribute("id").and_then(number_of_id) {
                self.news.push(News::Refused(number));
            }
            return;
        }
        // The service sends each item once, also to users that were away. Accounts repeat the last
        // one.
        let from = bare(node.attribute("from").unwrap_or_default());
        let counts = from == PUBSUB || node.child("delay").is_none();
        if let Some(event) = node.child("event").filter(|_| counts) {
            for item in event.children.iter().flat_map(|items| &items.children) {
                let of = (from.clone(), item.attribute("id").unwrap_or_default().to_owned());
                *self.events.entry(of).or_default() += 1;
            }
            return;
        }
        if self.is_result(node) || self.is_copy(node) {
            return;
        }
        let Some(number) = node.child("body").and_then(|b| numbers(b.text.as_bytes()).first().copied()) else { return };
        self.view.push(number);
        let stanza_id = node.children.iter().filter(|c| c.is("stanza-id", ns::STANZA_ID)).collect::<Vec<_>>();
        if stanza_id.len() > 1 {
            self.news.push(News::Wrong(format!("two stanza-ids: {node}")));
        }
        self.news.push(News::Message(Received {
            number,
            from: bare(node.attribute("from").unwrap_or_default()),
            to: node.attribute("to").unwrap_or_default().to_owned(),
            stanza_id: stanza_id.first().and_then(|c| ids().number(c.attribute("id")?)),
            delayed: node.child("delay").is_some(),
            seen: self.is_seen(),
        }));
    }

    /// Whether a message is a copy of one of the user's messages (XEP-0280 8).
    fn is_copy(&mut self, node: &Node) -> bool {
        let Some(copy) = node.children.iter().find(|child| child.namespace == CARBONS) else { return false };
        let message = copy.child("forwarded").and_then(|forwarded| forwarded.child("message"));
        let number = message.and_then(|message| numbers(message.child("body")?.text.as_bytes()).first().copied());
        let from = message.and_then(|message| message.attribute("from")).unwrap_or_default();
        let own = from.split('/').next() == Some(&*self.bare);
        let right = node.attribute("from") == Some(&*self.bare) && (copy.name == "received" || own);
        match number.filter(|_| right) {
            Some(number) => self.view.push(number),
            None => self.news.push(News::Wrong(format!("a copy that is none: {node}"))),
        }
        true
    }

    fn presence(&mut self, node: &Node) {
        let from = node.attribute("from").unwrap_or_default().to_owned();
        match node.attribute("type") {
            None => {
                let status = node.child("status").map(|s| s.text.as_str());
                if from == self.full() && self.fresh_from.is_some() && status == self.fresh_from.as_deref() {
                    self.fresh_from = None;
                    self.seen.clear();
                }
                self.seen.insert(from, ());
            }
            Some("unavailable") => {
                // A bare JID means that no resource is available (RFC 6121 4.3.2).
                match from.contains('/') {
                    true => drop(self.seen.remove(&from)),
                    false => self.seen.retain(|seen, ()| seen.split('/').next() != Some(&*from)),
                }
            }
            Some("subscribe") => self.news.push(News::Asked(from)),
            Some(_) => {}
        }
    }

    fn iq(&mut self, node: &Node) {
        let id = node.attribute("id").unwrap_or_default().to_owned();
        match node.attribute("type") {
            Some("result") if id == "bind" && self.phase == Phase::Binding => {
                self.phase = Phase::Online;
                self.news.push(News::Bound);
                if self.managed {
                    // Counting begins with <enable/> on this side, and with <enabled/> on the other
                    // (XEP-0198 4).
                    self.out.extend_from_slice(format!("<enable xmlns='{}' resume='true'/>", ns::SM).as_bytes());
                    self.management = Some(Management::default());
                    self.enabling = true;
                }
            }
            Some("result") if id.starts_with("roster") => {
                let Some(query) = node.child("query") else { return };
                let known = self.roster.take();
                let items = query.children.iter().map(roster_item).filter(|(_, s)| s != "remove");
                self.roster = Some(items.collect());
                self.news.push(News::Roster(known));
            }
            Some("result" | "error") if id.starts_with("look") => self.page_ended(node),
            Some("set") => {
                for item in node.child("query").map(|q| &q.children[..]).unwrap_or_default() {
                    let (jid, state) = roster_item(item);
                    let Some(roster) = self.roster.as_mut() else { continue };
                    if state == "remove" {
                        roster.remove(&jid);
                    } else {
                        roster.insert(jid, state);
                    }
                }
                self.stanza(format!("<iq type='result' id='{id}'/>"), None);
            }
            Some("get") => {
                let from = node.attribute("from").map_or(String::new(), |f| format!(" to='{f}'"));
                let info = "http://jabber.org/protocol/disco#info";
                let query = node.child("query").filter(|query| query.namespace == info).map_or(String::new(), |_| {
                    format!("<query xmlns='{info}'><identity category='client' type='pc' name='Sim'/><feature var='n+notify'/></query>")
                });
                self.stanza(format!("<iq type='result' id='{id}'{from}>{query}</iq>"), None);
            }
            _ => {}
        }
    }
}

/// The namespace of copies.
const CARBONS: &str = "urn:xmpp:carbons:2";

/// The publish-subscribe service.
pub const PUBSUB: &str = "pubsub.localhost";

/// The hash of the client's answer to a disco query (XEP-0115 5.1).
const CAPABILITIES: &str = "5CS0Z4wSNnYrQG42hIJoR1TYJBQ=";

/// A contact, and its state as one text.
fn roster_item(item: &Node) -> (String, String) {
    let of = |name| item.attribute(name).unwrap_or_default();
    let state = match of("subscription") {
        "remove" => "remove".to_owned(),
        subscription => format!("{subscription} {} {}", of("ask"), of("name")),
    };
    (of("jid").to_owned(), state)
}

/// The number in the `id` of a message.
fn number_of_id(id: &str) -> Option<u64> {
    id.strip_prefix('m')?.parse().ok()
}

/// The numbers of messages in bytes: `#number#`. A truncated one may be the beginning of another
/// and does not count.
pub fn numbers(bytes: &[u8]) -> Vec<u64> {
    let parts: Vec<&[u8]> = bytes.split(|&b| b == b'#').collect();
    let between = parts.get(1..parts.len() - 1).unwrap_or_default();
    between.iter().filter_map(|part| std::str::from_utf8(part).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn numbers_are_found_in_any_bytes() {
        assert_eq!(numbers(b"<body>#12#xx</body><body>#7#</body><body>#9"), [12, 7]);
        assert!(numbers(b"12#").is_empty());
    }
}
