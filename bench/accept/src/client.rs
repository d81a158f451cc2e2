//! One client: from its first byte to a bound, available session, and what it then reads. No socket is known here.

use throng_engine::wire::{Element, Expect, Progress, Scanner, StreamScope};

use crate::account;

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const SM: &str = "urn:xmpp:sm:3";
const CLIENT: &str = "jabber:client";
const STREAM: &str = "http://etherx.jabber.org/streams";
const STANZA_ID: &str = "urn:xmpp:sid:0";
const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
                      to='localhost' version='1.0'>";
/// Longest item taken from the server.
const ITEM_BYTES_MAX: usize = 1 << 20;

/// Who logs in, and how.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// Localpart.
    pub(crate) name: String,
    /// Resource.
    pub(crate) resource: String,
    /// Stream management (XEP-0198), not resumable.
    pub(crate) managed: bool,
    /// Send available presence.
    pub(crate) available: bool,
}

/// What a client has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is bound, and what else its login asks for is done.
    Ready,
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
    /// The server has handled this many stanzas.
    Handled(u32),
    /// This client has told the server that it has all that came before.
    Answered,
    /// The stream ends with this condition.
    StreamError(String),
    /// The login was refused with this condition.
    Refused(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Features,
    Challenge,
    Success,
    BindFeatures,
    Bound,
    Enabled,
    Ready,
    Raw,
    Over,
}

/// One client's side of a stream.
pub(crate) struct Client {
    login: Login,
    step: Step,
    nonce: String,
    input: Vec<u8>,
    scanner: Scanner,
    scope: StreamScope,
    expect: Expect,
    /// Bytes to be sent.
    pub(crate) output: Vec<u8>,
    received: u32,
}

impl Client {
    /// A client that begins its stream.
    pub(crate) fn new(login: Login) -> Client {
        Client {
            nonce: format!("{}{}", login.name, login.resource),
            login,
            step: Step::Features,
            input: Vec::new(),
            scanner: Scanner::new(),
            scope: StreamScope::Usual,
            expect: Expect::Opening,
            output: HEADER.into(),
            received: 0,
        }
    }

    /// One that says only this, and whose stream never stands.
    pub(crate) fn raw(bytes: Vec<u8>) -> Client {
        let login = Login { name: String::new(), resource: String::new(), managed: false, available: false };
        Client { step: Step::Raw, output: bytes, ..Client::new(login) }
    }

    /// Whether the session stands.
    pub(crate) fn is_ready(&self) -> bool {
        self.step == Step::Ready
    }

    /// Whether the stream has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.step == Step::Over
    }

    /// Who it is and what it waits for.
    pub(crate) fn standing(&self) -> String {
        format!("{} waits in {:?} with {} bytes unsent", self.login.name, self.step, self.output.len())
    }

    /// Appends to what is sent.
    pub(crate) fn say(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }

    /// Appends bytes to what is sent.
    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Bytes came.
    pub(crate) fn receive(&mut self, bytes: &[u8], said: &mut dyn FnMut(Said)) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while at < input.len() && self.step != Step::Over {
            match self.scanner.scan(&self.scope, self.expect, ITEM_BYTES_MAX, &input[at..]) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Whitespace { consumed }) => at += consumed,
                Ok(Progress::Declaration { consumed }) => {
                    self.expect = Expect::Header;
                    at += consumed;
                }
                Ok(Progress::Header { consumed }) => {
                    let scanner = std::mem::replace(&mut self.scanner, Scanner::new());
                    self.scope =
                        StreamScope::of_header(&scanner.element(&StreamScope::None, &input[at..at + consumed]));
                    self.expect = Expect::Content;
                    at += consumed;
                }
                Ok(Progress::Element { consumed }) => {
                    let scanner = std::mem::replace(&mut self.scanner, Scanner::new());
                    let scope = self.scope.clone();
                    self.element(&scanner.element(&scope, &input[at..at + consumed]), said);
                    self.scanner = scanner;
                    at += consumed;
                }
                Ok(Progress::StreamEnd { .. }) => self.step = Step::Over,
                Err(fault) => {
                    self.step = Step::Over;
                    said(Said::StreamError(format!("what the server sent is {fault:?}")));
                }
            }
            self.scanner.reset();
        }
        self.input = input[at..].to_vec();
    }

    fn restart(&mut self) {
        self.scope = StreamScope::Usual;
        self.expect = Expect::Opening;
        self.say(HEADER);
    }

    fn element(&mut self, element: &Element<'_>, said: &mut dyn FnMut(Said)) {
        if element.is("error", STREAM) {
            self.step = Step::Over;
            let condition = element.children().next().map_or(String::new(), |child| child.name().to_owned());
            return said(Said::StreamError(condition));
        }
        if element.is("failure", SASL) {
            self.step = Step::Over;
            let condition = element.children().next().map_or(String::new(), |child| child.name().to_owned());
            return said(Said::Refused(condition));
        }
        match self.step {
            Step::Features if element.is("features", STREAM) => {
                let first = account::first_message(&self.login.name, &self.nonce);
                self.say(&format!("<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{first}</auth>"));
                self.step = Step::Challenge;
            }
            Step::Challenge if element.is("challenge", SASL) => {
                match account::final_message(&self.login.name, &self.nonce, &element.text()) {
                    Some(answer) => self.say(&format!("<response xmlns='{SASL}'>{answer}</response>")),
                    None => return said(Said::Refused("a challenge of another account".into())),
                }
                self.step = Step::Success;
            }
            Step::Success if element.is("success", SASL) => {
                self.restart();
                self.step = Step::BindFeatures;
            }
            Step::BindFeatures if element.is("features", STREAM) => {
                let resource = &self.login.resource;
                let bind = "urn:ietf:params:xml:ns:xmpp-bind";
                let bind =
                    format!("<iq type='set' id='b'><bind xmlns='{bind}'><resource>{resource}</resource></bind></iq>");
                self.say(&bind);
                self.step = Step::Bound;
            }
            Step::Bound if element.is("iq", CLIENT) => {
                if element.kind().as_deref() != Some("result") {
                    return said(Said::Refused("binding".into()));
                }
                if self.login.managed {
                    self.say(&format!("<enable xmlns='{SM}'/>"));
                    self.step = Step::Enabled;
                } else {
                    self.ready(said);
                }
            }
            Step::Enabled if element.is("enabled", SM) => self.ready(said),
            Step::Ready => self.content(element, said),
            _ => {}
        }
    }

    fn ready(&mut self, said: &mut dyn FnMut(Said)) {
        self.step = Step::Ready;
        if self.login.available {
            self.say("<presence/>");
        }
        said(Said::Ready);
    }

    fn content(&mut self, element: &Element<'_>, said: &mut dyn FnMut(Said)) {
        if element.is("r", SM) {
            let h = self.received;
            self.say(&format!("<a xmlns='{SM}' h='{h}'/>"));
            return said(Said::Answered);
        }
        if element.is("a", SM) {
            let h = element.attribute("h").and_then(|h| h.parse().ok());
            return said(h.map_or(Said::StreamError("an <a/> without h".into()), Said::Handled));
        }
        self.received = self.received.wrapping_add(1);
        if element.is("message", CLIENT) {
            let error = element.child("error", CLIENT).map(|error| condition_of(error.inner()));
            let stanza_id =
                element.child("stanza-id", STANZA_ID).and_then(|id| id.attribute("id").map(|id| id.into_owned()));
            said(Said::Message {
                from: element.from().unwrap_or_default().into_owned(),
                id: element.id().unwrap_or_default().into_owned(),
                body: element.child("body", CLIENT).map(|body| body.text().into_owned()).unwrap_or_default(),
                stanza_id,
                error,
            });
        }
    }
}

/// The first element's name in an error's content.
fn condition_of(inner: &[u8]) -> String {
    let text = String::from_utf8_lossy(inner);
    text.trim_start_matches('<').split([' ', '/', '>']).next().unwrap_or_default().to_owned()
}
