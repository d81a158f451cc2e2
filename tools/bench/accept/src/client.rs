//! One client: `throng load`'s until its session is bound, and what it reads from there on. No socket is known here.

use std::cell::RefCell;

use throng_engine::extension::xml;
use throng_engine::wire::{Element, Scanner, ns};
use throng_load::{Account, Mechanism, News, Profile, Tools};

use crate::account::PASSWORD;

const SM: &str = "urn:xmpp:sm:3";
const STANZA_ID: &str = "urn:xmpp:sid:0";
const MAM: &str = "urn:xmpp:mam:2";
const FORWARD: &str = "urn:xmpp:forward:0";
const UPLOAD: &str = "urn:xmpp:http:upload:0";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const DISCO: &str = "http://jabber.org/protocol/disco#info";

/// What a phone's client asks for once it is bound: copies of messages (XEP-0280), and to be woken (XEP-0357).
const USES: &str = "<iq type='set' id='use1'><enable xmlns='urn:xmpp:carbons:2'/></iq>\
                    <iq type='set' id='use2'><enable xmlns='urn:xmpp:push:0' jid='pusher@localhost' node='yxs32uqsflafdk3iuqo'/></iq>";
/// What such a client can do (XEP-0115), with what it wants to be told of (XEP-0060 9.2), in order.
const FEATURES: [&str; 9] = [
    "eu.siacs.conversations.axolotl.devicelist+notify",
    "http://jabber.org/protocol/caps",
    "http://jabber.org/protocol/disco#info",
    "http://jabber.org/protocol/nick+notify",
    "urn:xmpp:avatar:metadata+notify",
    "urn:xmpp:bookmarks:1+notify",
    "urn:xmpp:mds:displayed:0+notify",
    "urn:xmpp:ping",
    "urn:xmpp:receipts",
];
/// The hash (XEP-0115 5.1) of `client/phone//accept<` and these.
const HASH: &str = "0BHSgUV+KXkambivfTsEAYOXe+w=";

/// Who logs in, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// Localpart.
    pub(crate) name: String,
    /// Resource.
    pub(crate) resource: String,
    /// Stream management (XEP-0198).
    pub(crate) managed: bool,
    /// The session may be resumed.
    pub(crate) resumable: bool,
    /// The session that is resumed, and how many stanzas it has received, in the place of a new one.
    pub(crate) resume: Option<(String, u32)>,
    /// Send available presence.
    pub(crate) available: bool,
    /// Use what phones use: carbons, push, interests in nodes, and the client state, which is inactive.
    pub(crate) in_use: bool,
}

/// What a client has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is bound, and what else its login asks for is done.
    Ready,
    /// Its session goes on: the server has handled this many of its stanzas.
    Resumed(u32),
    /// Its session does not.
    NotResumed,
    /// A message.
    Message {
        /// Sender.
        from: String,
        /// Its `id`.
        id: String,
        /// Body.
        body: String,
        /// Stanza-id of the own archive, if it has one.
        stanza_id: Option<String>,
        /// The condition, if it is an error.
        error: Option<String>,
    },
    /// A message that an archive query has found (XEP-0313 4.2).
    Found {
        /// Its id in the archive.
        id: String,
        /// Body.
        body: String,
    },
    /// A page of results is whole, and whether it was the last one.
    Page(bool),
    /// Items of a node, by their ids, in the order of publication.
    Items(Vec<String>),
    /// A slot for an upload (XEP-0363 4).
    Slot {
        /// The request's `id`.
        id: String,
        /// Where the file is uploaded and downloaded.
        url: String,
        /// What is shown at the upload.
        token: String,
    },
    /// A request with this `id` has any other result, or an error.
    Result {
        /// Its `id`.
        id: String,
        /// It is no error.
        done: bool,
    },
    /// The server has handled this many stanzas.
    Handled(u32),
    /// This client has told the server that it has all that came before.
    Answered,
    /// The stream ends with this condition.
    StreamError(String),
    /// The login was refused, for this reason.
    Refused(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    LoggingIn,
    Enabling,
    /// So many of its requests are not answered yet.
    Asking(usize),
    Ready,
    Over,
}

/// One client's side of a stream.
pub(crate) struct Client {
    stream: throng_load::Client,
    profile: Profile,
    scanner: Scanner,
    session: Session,
    /// Bytes to be sent.
    pub(crate) output: Vec<u8>,
}

/// What it does once it is bound.
struct Session {
    login: Login,
    step: Step,
    received: u32,
    previd: String,
}

impl Client {
    /// A client that begins its stream.
    pub(crate) fn new(login: Login) -> Client {
        // It is available when stream management counts, and not before: what waits for it is counted, too.
        let profile = Profile {
            resource: login.resource.clone(),
            mechanism: Some(Mechanism::ScramSha256),
            available: false,
            resume: login.resume.as_ref().map(|(id, h)| format!("<resume xmlns='{SM}' h='{h}' previd='{id}'/>")),
            ..Profile::plain("localhost")
        };
        let (mut stream, mut output) = (throng_load::Client::default(), Vec::new());
        stream.open(&profile, false, &mut output);
        let (previd, received) = login.resume.clone().unwrap_or_default();
        let session = Session { login, step: Step::LoggingIn, received, previd };
        Client { stream, profile, scanner: Scanner::new(), session, output }
    }

    /// Whether the session stands.
    pub(crate) fn is_ready(&self) -> bool {
        self.session.step == Step::Ready
    }

    /// What to resume its session by, if it may be resumed, and how many stanzas it has received.
    pub(crate) fn resumption(&self) -> Option<(String, u32)> {
        let Session { previd, received, .. } = &self.session;
        (!previd.is_empty()).then(|| (previd.clone(), *received))
    }

    /// Who it is and what it waits for.
    pub(crate) fn standing(&self) -> String {
        let Session { login, step, .. } = &self.session;
        format!("{} waits in {step:?} with {} bytes unsent", login.name, self.output.len())
    }

    /// Appends to what is sent.
    pub(crate) fn say(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }

    /// Bytes came.
    pub(crate) fn receive(&mut self, bytes: &[u8], said: &mut dyn FnMut(Said)) {
        let Client { stream, profile, scanner, session, output } = self;
        let name = session.login.name.clone();
        let account = || Account { name: name.clone(), password: PASSWORD.into() };
        let mut tools = Tools { scanner, profile, account: &account };
        let heard = RefCell::new(Vec::new());
        let (mut bound, mut over) = (false, false);
        let mut news = |news: News<'_>| match news {
            News::Ready => bound = true,
            News::Failed { kind, .. } => {
                over = true;
                heard.borrow_mut().push(ended(kind));
            }
            News::End => over = true,
            _ => {}
        };
        let mut seen = |element: &Element<'_>, out: &mut Vec<u8>| {
            let ours = element.namespace() != ns::STREAM;
            if ours {
                heard.borrow_mut().extend(session.item(element, out));
            }
            ours
        };
        stream.handle_seen(&mut tools, bytes, output, &mut news, &mut seen);
        if bound {
            heard.borrow_mut().extend(session.bound(output));
        }
        if over {
            session.step = Step::Over;
        }
        heard.into_inner().into_iter().for_each(said);
    }
}

impl Session {
    fn bound(&mut self, out: &mut Vec<u8>) -> Option<Said> {
        if self.login.resume.is_some() {
            self.step = Step::Enabling;
            return None;
        }
        if self.login.managed {
            let resume = if self.login.resumable { " resume='true'" } else { "" };
            out.extend_from_slice(format!("<enable xmlns='{SM}'{resume}/>").as_bytes());
            self.step = Step::Enabling;
            return None;
        }
        self.begin(out)
    }

    /// The session is bound, and managed if it is to be.
    fn begin(&mut self, out: &mut Vec<u8>) -> Option<Said> {
        if self.login.in_use {
            out.extend_from_slice(USES.as_bytes());
            self.step = Step::Asking(USES.matches("<iq ").count());
            return None;
        }
        Some(self.ready(out))
    }

    fn ready(&mut self, out: &mut Vec<u8>) -> Said {
        self.step = Step::Ready;
        match (self.login.available, self.login.in_use) {
            (false, _) => {}
            (true, false) => out.extend_from_slice(b"<presence/>"),
            (true, true) => out.extend_from_slice(
                format!(
                    "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:accept' ver='{HASH}'/></presence>\
                     <inactive xmlns='urn:xmpp:csi:0'/>"
                )
                .as_bytes(),
            ),
        }
        Said::Ready
    }

    /// A request for what phones use is answered.
    fn asked(&mut self, element: &Element<'_>, left: usize, out: &mut Vec<u8>) -> Option<Said> {
        if !element.id().is_some_and(|id| id.starts_with("use")) {
            return None;
        }
        if element.kind().as_deref() != Some("result") {
            return Some(Said::Refused(String::from_utf8_lossy(element.bytes()).into_owned()));
        }
        self.step = Step::Asking(left - 1);
        (left == 1).then(|| self.ready(out))
    }

    fn item(&mut self, element: &Element<'_>, out: &mut Vec<u8>) -> Option<Said> {
        if element.is("resumed", SM) && self.step == Step::Enabling {
            self.step = Step::Ready;
            let h = element.attribute("h").and_then(|h| h.parse().ok());
            return Some(h.map_or(Said::StreamError("a <resumed/> without h".into()), Said::Resumed));
        }
        if element.is("failed", SM) {
            self.step = Step::Ready;
            return Some(Said::NotResumed);
        }
        if element.is("enabled", SM) && self.step == Step::Enabling {
            self.previd = element.attribute("id").map(|id| id.into_owned()).unwrap_or_default();
            return self.begin(out);
        }
        if element.is("r", SM) {
            out.extend_from_slice(format!("<a xmlns='{SM}' h='{}'/>", self.received).as_bytes());
            return Some(Said::Answered);
        }
        if element.is("a", SM) {
            let h = element.attribute("h").and_then(|h| h.parse().ok());
            return Some(h.map_or(Said::StreamError("an <a/> without h".into()), Said::Handled));
        }
        self.received = self.received.wrapping_add(1);
        if element.is("message", ns::CLIENT) {
            return Some(found(element).unwrap_or_else(|| message(element)));
        }
        if !element.is("iq", ns::CLIENT) {
            return None;
        }
        if let Step::Asking(left) = self.step {
            return self.asked(element, left, out);
        }
        if self.login.in_use && element.kind().as_deref() == Some("get") && element.child("query", DISCO).is_some() {
            capabilities(element, out);
        }
        answer(element)
    }
}

/// Answers what the client can do (XEP-0115 6.2).
fn capabilities(asks: &Element<'_>, out: &mut Vec<u8>) {
    let (id, from) = (asks.id().unwrap_or_default(), asks.from().unwrap_or_default());
    let features: String = FEATURES.iter().map(|var| format!("<feature var='{var}'/>")).collect();
    out.extend_from_slice(
        format!(
            "<iq type='result' id='{id}' to='{from}'><query xmlns='{DISCO}'><identity category='client' type='phone' name='accept'/>\
             {features}</query></iq>"
        )
        .as_bytes(),
    );
}

/// Why a stream has ended.
fn ended(kind: String) -> Said {
    match kind.strip_prefix("stream error: ") {
        Some(condition) => Said::StreamError(condition.to_owned()),
        None if kind.starts_with("malformed") => Said::StreamError(kind),
        None => Said::Refused(kind),
    }
}

fn found(element: &Element<'_>) -> Option<Said> {
    let result = xml::parse(element.child("result", MAM)?.bytes())?;
    let message = result.get_child("forwarded", FORWARD)?.get_child("message", ns::CLIENT)?;
    let body = message.get_child("body", ns::CLIENT).map(|body| body.text()).unwrap_or_default();
    Some(Said::Found { id: result.attr("id")?.into(), body })
}

fn answer(element: &Element<'_>) -> Option<Said> {
    let kind = element.kind();
    let done = match kind.as_deref() {
        Some("result") => true,
        Some("error") => false,
        _ => return None,
    };
    if let Some(fin) = element.child("fin", MAM) {
        return Some(Said::Page(fin.attribute("complete").as_deref() == Some("true")));
    }
    let pubsub = element.child("pubsub", PUBSUB).and_then(|pubsub| xml::parse(pubsub.bytes()));
    if let Some(items) = pubsub.as_ref().and_then(|pubsub| pubsub.get_child("items", PUBSUB)) {
        return Some(Said::Items(items.children().filter_map(|item| item.attr("id").map(str::to_owned)).collect()));
    }
    if let Some(said) = slot(element) {
        return Some(said);
    }
    Some(Said::Result { id: element.id().unwrap_or_default().into_owned(), done })
}

fn slot(element: &Element<'_>) -> Option<Said> {
    let slot = xml::parse(element.child("slot", UPLOAD)?.bytes())?;
    let put = slot.get_child("put", UPLOAD)?;
    let header = put.get_child("header", UPLOAD).filter(|header| header.attr("name") == Some("Authorization"))?.text();
    let token = header.strip_prefix("Bearer ")?.to_owned();
    Some(Said::Slot { id: element.id()?.into_owned(), url: put.attr("url")?.into(), token })
}

fn message(element: &Element<'_>) -> Said {
    let stanza_id = element.child("stanza-id", STANZA_ID).and_then(|id| id.attribute("id").map(|id| id.into_owned()));
    Said::Message {
        from: element.from().unwrap_or_default().into_owned(),
        id: element.id().unwrap_or_default().into_owned(),
        body: element.child("body", ns::CLIENT).map(|body| body.text().into_owned()).unwrap_or_default(),
        stanza_id,
        error: throng_load::refusal(element).map(str::to_owned),
    }
}
