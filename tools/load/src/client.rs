//! One synthetic client as a pure state machine: bytes in, bytes and news out.
//!
//! [`Client::open`] begins a stream and [`Client::handle`] takes what came; both append what is to
//! be sent. From the first byte on it secures the stream, registers if asked to, authenticates,
//! binds, shows presence, and asks for a ping whose answer tells that the server has taken all this
//! in. This module must never know a socket, a clock, or what other clients do. A client whose
//! session stands keeps no heap, so that very many fit.

use std::borrow::Cow;

use throng_engine::wire::text::{escape_into, escape_value_into};
use throng_engine::wire::{Element, Expect, Progress, Scanner, StreamScope, ns};

use crate::sasl::{self, Mechanism, Scram};
use returning::{Kept, SASL2, SM, Stands};

mod returning;

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
const BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
const DELAY: &str = "urn:xmpp:delay";

/// Longest item taken from a server, in bytes.
const ITEM_BYTES_MAX: usize = 1 << 20;

/// When a stream is secured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Security {
    /// Never.
    Off,
    /// After its first features (RFC 6120 5).
    StartTls,
    /// From the first byte (XEP-0368).
    Direct,
}

/// How clients obtain a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Login {
    /// By authentication, a new stream and binding (RFC 6120 6, 7).
    Sasl,
    /// By authentication with binding in it (XEP-0388, XEP-0386).
    Sasl2,
    /// The same, and by a token when they return (XEP-0484).
    Fast,
}

/// What all clients have in common.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The server's domain.
    pub domain: String,
    /// TLS.
    pub security: Security,
    /// The one mechanism to use; none: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-1, the first that is
    /// offered.
    pub mechanism: Option<Mechanism>,
    /// Register the account first (XEP-0077); one that is there already is fine.
    pub register: bool,
    /// Send available presence.
    pub available: bool,
    /// Bytes of that presence, with a status that nobody else has; 0: the shortest one, the same
    /// for all.
    pub presence_bytes: usize,
    /// Ask for the roster (RFC 6121 2.1.3).
    pub roster: bool,
    /// The resource to ask for; empty: the server's choice (RFC 6120 7.6).
    pub resource: String,
    /// Send what needs no answer without waiting for one (XEP-0305).
    pub pipelined: bool,
    /// What to send instead of a request for a resource: `<resume/>` (XEP-0198 5). The session then
    /// counts as established, and the caller handles the answer.
    pub resume: Option<String>,
    /// How they come to a session.
    pub login: Login,
    /// With [`Login::Sasl2`] and [`Login::Fast`]: manage the stream (XEP-0198), and resume the
    /// session after a break.
    pub resumes: bool,
}

impl Profile {
    /// Clients of a domain that log in as they can on an open connection, and are available.
    pub fn plain(domain: &str) -> Profile {
        Profile {
            domain: domain.into(),
            security: Security::Off,
            mechanism: None,
            register: false,
            available: true,
            presence_bytes: 0,
            roster: false,
            resource: String::new(),
            pipelined: false,
            resume: None,
            login: Login::Sasl,
            resumes: false,
        }
    }
}

/// The account that logs in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Localpart.
    pub name: String,
    /// In the clear.
    pub password: String,
}

/// What is lent to a client for a call.
pub struct Tools<'a> {
    /// A scanner that stands between two items; shared by all clients.
    pub scanner: &'a mut Scanner,
    /// Of all clients.
    pub profile: &'a Profile,
    /// Returns the client's account; called during login.
    pub account: &'a dyn Fn() -> Account,
}

/// An event from a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News<'a> {
    /// TLS has to begin now; then the stream is opened anew.
    StartTls,
    /// The session is established.
    Ready,
    /// A message, kept for the user while away (XEP-0203) or not.
    Message {
        /// What it says.
        body: Cow<'a, str>,
        /// It was kept.
        delayed: bool,
    },
    /// A message came back with this condition.
    MessageError(Cow<'a, str>),
    /// Presence was received.
    Presence,
    /// It cannot go on.
    Failed {
        /// What went wrong.
        kind: String,
        /// Trying again is pointless.
        fatal: bool,
    },
    /// The server has ended the stream.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Features,
    Proceed,
    Registered,
    Challenge,
    Success,
    BindFeatures,
    Bound,
    Settled,
    Ready,
    Over,
}

/// The beginning of an item that has not come to its end.
#[derive(Debug)]
struct Partial {
    bytes: Vec<u8>,
    scanner: Scanner,
}

/// One client's side of a stream.
#[derive(Debug)]
pub struct Client {
    scope: StreamScope,
    partial: Option<Box<Partial>>,
    scram: Option<Box<Scram>>,
    /// What it has from its logins by XEP-0388; it stays from one connection to the next.
    kept: Option<Box<Kept>>,
    step: Step,
    expect: Expect,
    /// The stream is secured.
    secured: bool,
}

const _: () = assert!(size_of::<Client>() <= 48, "an idle client costs this much here");

impl Default for Client {
    /// A client before its stream.
    fn default() -> Client {
        Client {
            scope: StreamScope::Usual,
            partial: None,
            scram: None,
            kept: None,
            step: Step::Over,
            expect: Expect::Opening,
            secured: false,
        }
    }
}

impl Client {
    /// Opens a stream (RFC 6120 4.2), on a new connection or on one that has just been `secured`.
    pub fn open(&mut self, profile: &Profile, secured: bool, out: &mut Vec<u8>) {
        *self = Client { step: Step::Features, secured, kept: self.kept.take(), ..Client::default() };
        header(profile, out);
    }

    /// Its connection is closed: what it keeps is for the next one.
    pub(crate) fn rest(&mut self) {
        *self = Client { kept: self.kept.take(), ..Client::default() };
    }

    /// It closes its stream, and its session ends with that.
    pub(crate) fn leaves(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.forget_session();
        }
    }

    /// After [`Client::open`]: the first word of authentication, if the profile lets it go with the
    /// header (XEP-0305).
    pub(crate) fn hurry(&mut self, tools: &Tools<'_>, out: &mut Vec<u8>, news: &mut dyn FnMut(News<'_>)) {
        let profile = tools.profile;
        let private = self.secured || profile.security == Security::Off;
        // A token goes with the header whatever else does: that is what it is for.
        if private && self.kept.as_ref().is_some_and(|kept| kept.has_token()) {
            return self.show_token(tools, out);
        }
        if profile.pipelined && private && !profile.register && profile.mechanism.is_some() {
            self.authenticate(profile.mechanism, tools, out, news);
        }
    }

    /// Whether the session stands.
    #[cfg(test)]
    fn is_ready(&self) -> bool {
        self.step == Step::Ready
    }

    /// Bytes of heap that it keeps.
    #[cfg(test)]
    fn keeps_heap(&self) -> bool {
        self.partial.is_some()
            || self.scram.is_some()
            || self.kept.is_some()
            || matches!(self.scope, StreamScope::Declared(_))
    }

    /// Bytes came; what is to be answered is appended to `out`.
    pub fn handle(&mut self, tools: &mut Tools<'_>, bytes: &[u8], out: &mut Vec<u8>, news: &mut dyn FnMut(News<'_>)) {
        self.handle_seen(tools, bytes, out, news, &mut |_, _| false);
    }

    /// The same for a caller that looks at each item of a bound session first. What `seen` answers
    /// with true is its own affair.
    pub fn handle_seen(
        &mut self,
        tools: &mut Tools<'_>,
        bytes: &[u8],
        out: &mut Vec<u8>,
        news: &mut dyn FnMut(News<'_>),
        seen: &mut dyn FnMut(&Element<'_>, &mut Vec<u8>) -> bool,
    ) {
        let (kept, mut scanner) = match self.partial.take() {
            Some(mut partial) => {
                partial.bytes.extend_from_slice(bytes);
                (Some(partial.bytes), partial.scanner)
            }
            None => (None, std::mem::take(tools.scanner)),
        };
        let input = kept.as_deref().unwrap_or(bytes);
        let mut at = 0;
        while at < input.len() && self.step != Step::Over {
            match scanner.scan(&self.scope, self.expect, ITEM_BYTES_MAX, &input[at..]) {
                Ok(Progress::Incomplete) => {
                    self.partial = Some(Box::new(Partial { bytes: input[at..].to_vec(), scanner }));
                    return;
                }
                Ok(Progress::Whitespace { consumed }) => at += consumed,
                Ok(Progress::Declaration { consumed }) => {
                    self.expect = Expect::Header;
                    at += consumed;
                }
                Ok(Progress::Header { consumed }) => {
                    self.scope =
                        StreamScope::of_header(&scanner.element(&StreamScope::None, &input[at..at + consumed]));
                    self.expect = Expect::Content;
                    at += consumed;
                }
                Ok(Progress::Element { consumed }) => {
                    let scope = self.scope.clone();
                    let element = scanner.element(&scope, &input[at..at + consumed]);
                    let stands = matches!(self.step, Step::Settled | Step::Ready);
                    if stands && let Some(kept) = self.kept.as_mut().filter(|kept| kept.counts()) {
                        match element.is("r", SM) {
                            true => kept.acknowledge(out),
                            false => kept.handled += u32::from(element.namespace() == ns::CLIENT),
                        }
                    }
                    if !stands || !seen(&element, out) {
                        self.element(&element, tools, out, news);
                    }
                    at += consumed;
                }
                Ok(Progress::StreamEnd { .. }) => {
                    self.step = Step::Over;
                    news(News::End);
                }
                Err(fault) => self.fail(news, format!("malformed: {fault}"), false),
            }
        }
        scanner.reset();
        *tools.scanner = scanner;
    }

    fn fail(&mut self, news: &mut dyn FnMut(News<'_>), kind: String, fatal: bool) {
        self.step = Step::Over;
        self.scram = None;
        news(News::Failed { kind, fatal });
    }

    /// A new stream on the same connection (RFC 6120 4.3.3). What may stand behind in the same
    /// bytes belongs to it.
    fn restart(&mut self, profile: &Profile, step: Step, out: &mut Vec<u8>) {
        self.scope = StreamScope::Usual;
        self.expect = Expect::Opening;
        self.step = step;
        header(profile, out);
    }

    fn element(
        &mut self,
        element: &Element<'_>,
        tools: &mut Tools<'_>,
        out: &mut Vec<u8>,
        news: &mut dyn FnMut(News<'_>),
    ) {
        if matches!(self.step, Step::Settled | Step::Ready) && element.namespace() == ns::CLIENT {
            return self.stanza(element, out, news);
        }
        let condition = || element.children().next().map_or("without a condition", |child| child.name());
        if element.is("error", ns::STREAM) {
            return self.fail(news, format!("stream error: {}", condition()), false);
        }
        let step = self.step;
        match step {
            Step::Features if element.is("features", ns::STREAM) => self.features(element, tools, out, news),
            Step::Proceed if element.is("proceed", TLS) => {
                self.step = Step::Over;
                news(News::StartTls);
            }
            Step::Proceed => self.fail(news, "starttls refused".into(), false),
            Step::Registered if element.is("iq", ns::CLIENT) => match refusal(element) {
                None | Some("conflict") => self.authenticate(None, tools, out, news),
                Some(why) => self.fail(news, format!("registration: {why}"), false),
            },
            Step::Challenge | Step::Success if self.refuses_token(element) => {
                self.fail(news, format!("token: {}", condition()), false);
            }
            Step::Challenge | Step::Success if element.is("failure", form(tools.profile)) => {
                let fatal = matches!(condition(), "not-authorized" | "account-disabled");
                self.fail(news, format!("authentication: {}", condition()), fatal);
            }
            Step::Challenge if element.is("challenge", form(tools.profile)) => {
                let password = (tools.account)().password;
                let answer = self.scram.as_mut().and_then(|scram| scram.answer(&password, &element.text()));
                match answer {
                    Some(answer) => {
                        write(out, &["<response xmlns='", form(tools.profile), "'>", &answer, "</response>"]);
                    }
                    None => return self.fail(news, "authentication: unusable challenge".into(), false),
                }
                self.step = Step::Success;
            }
            Step::Success if element.is("success", SASL2) => self.succeeded(element, tools, out, news),
            Step::Success if element.is("success", SASL) => {
                let proved = self.scram.take().is_none_or(|scram| scram.verify(&element.text()));
                if !proved {
                    return self.fail(news, "authentication: the server's proof is missing or wrong".into(), false);
                }
                self.restart(tools.profile, Step::BindFeatures, out);
                if tools.profile.pipelined {
                    bind(tools.profile, out);
                    settle(tools, out);
                }
            }
            Step::BindFeatures if element.is("features", ns::STREAM) => {
                if let Some(resume) = &tools.profile.resume {
                    write(out, &[resume]);
                    self.step = Step::Ready;
                    return news(News::Ready);
                }
                if !tools.profile.pipelined {
                    bind(tools.profile, out);
                }
                self.step = Step::Bound;
            }
            Step::Bound if element.is("iq", ns::CLIENT) => match refusal(element) {
                None => {
                    if !tools.profile.pipelined {
                        settle(tools, out);
                    }
                    self.step = Step::Settled;
                    if !is_settling(tools.profile) {
                        self.step = Step::Ready;
                        news(News::Ready);
                    }
                }
                Some(why) => self.fail(news, format!("binding: {why}"), false),
            },
            _ => {}
        }
    }

    fn features(
        &mut self,
        element: &Element<'_>,
        tools: &mut Tools<'_>,
        out: &mut Vec<u8>,
        news: &mut dyn FnMut(News<'_>),
    ) {
        if tools.profile.security == Security::StartTls && !self.secured {
            if element.child("starttls", TLS).is_none() {
                return self.fail(news, "starttls not offered".into(), true);
            }
            write(out, &["<starttls xmlns='", TLS, "'/>"]);
            self.step = Step::Proceed;
            return;
        }
        let list = if tools.profile.login == Login::Sasl { "mechanisms" } else { "authentication" };
        let offered =
            element.child(list, form(tools.profile)).map(|child| String::from_utf8_lossy(child.inner()).into_owned());
        let offered = offered.unwrap_or_default();
        let is_offered = |mechanism: &Mechanism| offered.contains(&format!(">{}<", mechanism.name()));
        let order = [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha1];
        let chosen = match tools.profile.mechanism {
            Some(mechanism) => Some(mechanism).filter(is_offered),
            None => order.into_iter().find(is_offered),
        };
        let Some(mechanism) = chosen else {
            return self.fail(news, "no usable mechanism offered".into(), true);
        };
        if tools.profile.register {
            // The exchange is kept until the registration is answered, so that the offer need not
            // be.
            self.scram = Some(Box::new(Scram::new(mechanism, &(tools.account)().name)));
            self.register(tools, out);
        } else {
            self.authenticate(Some(mechanism), tools, out, news);
        }
    }

    /// XEP-0077 3.1, without asking for the form: each server takes a name and a password.
    fn register(&mut self, tools: &Tools<'_>, out: &mut Vec<u8>) {
        let Account { name, password } = (tools.account)();
        write(out, &["<iq type='set' id='g'><query xmlns='jabber:iq:register'><username>"]);
        escape_into(out, &name);
        write(out, &["</username><password>"]);
        escape_into(out, &password);
        write(out, &["</password></query></iq>"]);
        self.step = Step::Registered;
    }

    fn authenticate(
        &mut self,
        mechanism: Option<Mechanism>,
        tools: &Tools<'_>,
        out: &mut Vec<u8>,
        news: &mut dyn FnMut(News<'_>),
    ) {
        let Some(mechanism) = mechanism.or(self.scram.as_ref().map(|scram| scram.mechanism())) else {
            return self.fail(news, "no usable mechanism offered".into(), true);
        };
        let Account { name, password } = (tools.account)();
        self.scram = None;
        let first = if mechanism == Mechanism::Plain {
            self.step = Step::Success;
            sasl::plain(&name, &password)
        } else {
            self.step = Step::Challenge;
            self.scram.insert(Box::new(Scram::new(mechanism, &name))).first()
        };
        if tools.profile.login == Login::Sasl {
            write(out, &["<auth xmlns='", SASL, "' mechanism='", mechanism.name(), "'>", &first, "</auth>"]);
            return;
        }
        let kept = self.kept.get_or_insert_default();
        kept.show_password(tools.profile, mechanism.name(), &first, &name, out);
    }

    fn show_token(&mut self, tools: &Tools<'_>, out: &mut Vec<u8>) {
        let name = (tools.account)().name;
        if let Some(kept) = &mut self.kept {
            kept.show_token(tools.profile, &name, out);
            self.step = Step::Success;
        }
    }

    /// Whether the presented token is refused; it is then discarded.
    fn refuses_token(&mut self, element: &Element<'_>) -> bool {
        let Some(kept) = self.kept.as_mut().filter(|kept| kept.shows_token()) else { return false };
        let refused = element.is("failure", SASL2);
        if refused {
            kept.forget_token();
        }
        refused
    }

    /// `<success/>` of XEP-0388, with a session (XEP-0386) or the one of before (XEP-0198).
    fn succeeded(
        &mut self,
        element: &Element<'_>,
        tools: &mut Tools<'_>,
        out: &mut Vec<u8>,
        news: &mut dyn FnMut(News<'_>),
    ) {
        let said = returning::additional_data(element).unwrap_or_default();
        let proved = self.scram.take().is_none_or(|scram| scram.verify(&said));
        let stands = match self.kept.as_mut().map(|kept| kept.succeeded(element)) {
            Some(Ok(stands)) if proved => stands,
            Some(Err(why)) => return self.fail(news, format!("authentication: {why}"), false),
            _ => return self.fail(news, "authentication: the server's proof is missing or wrong".into(), false),
        };
        self.step = Step::Settled;
        if stands == Stands::Bound {
            settle(tools, out);
        }
        // The session of before has shown presence already.
        if stands == Stands::Resumed || !is_settling(tools.profile) {
            self.step = Step::Ready;
            news(News::Ready);
        }
    }

    fn stanza(&mut self, element: &Element<'_>, out: &mut Vec<u8>, news: &mut dyn FnMut(News<'_>)) {
        let kind = element.kind();
        let kind = kind.as_deref().unwrap_or_default();
        match element.name() {
            "message" if kind == "error" => news(News::MessageError(refusal(element).unwrap_or("error").into())),
            "message" => {
                if let Some(body) = element.child("body", ns::CLIENT) {
                    let delayed = element.child("delay", DELAY).is_some();
                    news(News::Message { body: body.text(), delayed });
                }
            }
            "presence" if kind == "subscribe" => {
                write(out, &["<presence type='subscribed' to='"]);
                escape_value_into(out, &element.from().unwrap_or_default());
                write(out, &["'/>"]);
            }
            "presence" => news(News::Presence),
            "iq" if kind == "get" || kind == "set" => answer(element, out),
            // An answer to the ping of any kind shows that all before it has been taken in.
            "iq" if self.step == Step::Settled && element.id().as_deref() == Some("p") => {
                self.step = Step::Ready;
                news(News::Ready);
            }
            _ => {}
        }
    }
}

/// The namespace in which clients authenticate.
fn form(profile: &Profile) -> &'static str {
    if profile.login == Login::Sasl { SASL } else { SASL2 }
}

fn bind(profile: &Profile, out: &mut Vec<u8>) {
    write(out, &["<iq type='set' id='b'><bind xmlns='", BIND]);
    if profile.resource.is_empty() {
        return write(out, &["'/></iq>"]);
    }
    write(out, &["'><resource>"]);
    escape_into(out, &profile.resource);
    write(out, &["</resource></bind></iq>"]);
}

/// Whether anything follows the binding.
fn is_settling(profile: &Profile) -> bool {
    profile.roster || profile.available
}

/// Asks for the roster, shows presence, and asks for the ping that tells that all this has been
/// taken in.
fn settle(tools: &Tools<'_>, out: &mut Vec<u8>) {
    let profile = tools.profile;
    if profile.roster {
        write(out, &["<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>"]);
    }
    if profile.available {
        presence(tools, out);
    }
    if is_settling(profile) {
        write(out, &["<iq type='get' id='p' to='"]);
        escape_value_into(out, &profile.domain);
        write(out, &["'><ping xmlns='urn:xmpp:ping'/></iq>"]);
    }
}

fn presence(tools: &Tools<'_>, out: &mut Vec<u8>) {
    const AROUND: usize = "<presence><status></status></presence>".len();
    let bytes = tools.profile.presence_bytes;
    if bytes == 0 {
        return write(out, &["<presence/>"]);
    }
    let name = (tools.account)().name;
    let rest = bytes.saturating_sub(AROUND + name.len());
    write(out, &["<presence><status>"]);
    escape_into(out, &name);
    write(out, &[&"x".repeat(rest), "</status></presence>"]);
}

fn write(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

fn header(profile: &Profile, out: &mut Vec<u8>) {
    write(out, &["<?xml version='1.0'?><stream:stream xmlns='", ns::CLIENT, "' xmlns:stream='", ns::STREAM, "' to='"]);
    escape_value_into(out, &profile.domain);
    write(out, &["' version='1.0'>"]);
}

/// The condition of an error stanza (RFC 6120 8.3.2); none if it is no error.
pub fn refusal<'a>(element: &Element<'a>) -> Option<&'a str> {
    if element.kind().as_deref() != Some("error") {
        return None;
    }
    let inner = element.child("error", ns::CLIENT).map_or(&b""[..], |error| error.inner());
    let text = std::str::from_utf8(inner).unwrap_or_default().trim_start().trim_start_matches('<');
    Some(text.split([' ', '/', '>']).next().filter(|name| !name.is_empty()).unwrap_or("error"))
}

/// Answers what a server or a contact asks: a ping (XEP-0199) with a result, a roster push (RFC
/// 6121 2.1.6) with one, and anything else as not known (RFC 6120 8.4).
fn answer(element: &Element<'_>, out: &mut Vec<u8>) {
    let known =
        element.child("ping", "urn:xmpp:ping").is_some() || element.child("query", "jabber:iq:roster").is_some();
    write(out, &["<iq type='", if known { "result" } else { "error" }, "' id='"]);
    escape_value_into(out, &element.id().unwrap_or_default());
    if let Some(from) = element.from() {
        write(out, &["' to='"]);
        escape_value_into(out, &from);
    }
    write(out, &["'>"]);
    if !known {
        let stanzas = "urn:ietf:params:xml:ns:xmpp-stanzas";
        write(out, &["<error type='cancel'><service-unavailable xmlns='", stanzas, "'/></error>"]);
    }
    write(out, &["</iq>"]);
}

#[cfg(test)]
mod tests;
