//! Scripts: "romeo sends ... juliet receives ..." as data, so that the same file runs in the
//! simulated world and over real sockets.
//!
//! ```text
//! # RFC 6121 8.5.3.1: a message to a full JID goes to that resource.
//! clients: romeo=romeo/orchard juliet=juliet/balcony
//! romeo connects
//! juliet connects
//! romeo sends: <message to='juliet@localhost/balcony' type='chat'><body>hi</body></message>
//! juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost/balcony' type='chat'>
//!     <body>hi</body></message>
//! ```
//!
//! A line that begins with white space continues the previous one. `{any}` as the value of an
//! attribute, or as the whole content of an element, matches anything. `{=name}` does, too, and
//! from then on `{name}` is replaced by the matched text. In a client's output, `{plain}` is its
//! PLAIN message in base64, `{previd}` and `{h}` are the id of its resumable session and the number
//! of stanzas received in it, and `{id}` is the `id` of the last request that it received. The
//! order of attributes and of children does not matter. A `stanza-id` is ignored unless expected,
//! and so is a request for an acknowledgement.
//!
//! Actions of a client: `connects` (opens, authenticates, binds), `connects raw` (opens only),
//! `logs in` (opens and authenticates), `opens stream`, `sends: XML`, `receives: XML`, `receives in
//! any order: XML...`, `receives nothing`, `ignores what comes`, `is closed` (the stream ends and
//! the connection with it), `enables`, `resumes`, `disconnects`, `aborts`. Other steps are `time
//! passes: N ms`, `the server dies` and `the server restarts`; the latter two close all
//! connections.

use std::collections::BTreeMap;

use base64::Engine as _;

use throng_engine::ns;

use super::xml::{Item, Node, Reader};

/// The additional domain that a player serves.
pub const OTHER_DOMAIN: &str = "capulet.lit";

/// Input of a player from the network.
#[derive(Debug)]
pub enum Heard {
    /// Bytes.
    Bytes(Vec<u8>),
    /// The connection is closed.
    Closed,
    /// Nothing within the wait.
    Nothing,
}

/// How long to wait for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Input must arrive.
    Long,
    /// Verify that nothing arrives.
    Short,
}

/// Runs a script: in the simulated world, or over real sockets. Connections have the names of
/// clients; opening a new one under a name abandons the old one, which is no longer read.
pub trait Player {
    /// Opens a connection.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn open(&mut self, client: &str) -> Result<(), String>;
    /// Sends bytes.
    ///
    /// # Errors
    /// If there is no connection.
    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), String>;
    /// Waits for bytes.
    ///
    /// # Errors
    /// If there is no connection.
    fn hear(&mut self, client: &str, patience: Patience) -> Result<Heard, String>;
    /// Closes the connection abruptly.
    fn abort(&mut self, client: &str);
    /// Lets time pass, in milliseconds.
    fn pass(&mut self, ms: u64);
    /// Ends the server, gracefully or not, and starts it again.
    ///
    /// # Errors
    /// If the player does not support it.
    fn restart(&mut self, in_order: bool) -> Result<(), String> {
        Err(format!("nobody restarts the server here (in order: {in_order})"))
    }
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Line in the file, counted from one.
    pub line: usize,
    /// The acting client; empty for time.
    pub client: String,
    /// The action.
    pub action: Action,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The server ends, gracefully or not, and starts again.
    Restart(bool),
    /// Only opens a connection.
    ConnectRaw,
    /// Opens and authenticates.
    LogIn,
    /// Opens, authenticates and binds the resource.
    Connect,
    /// Sends a stream header and expects header and features.
    OpenStream,
    /// Sends text unchanged.
    Send(String),
    /// Expects these items next, in this order or, with `any_order`, in any.
    Receive {
        /// The expected items.
        wanted: Vec<Node>,
        /// Whether any order is accepted.
        any_order: bool,
    },
    /// Expects no input.
    ReceiveNothing,
    /// Discards input until it stops.
    Ignore,
    /// Expects the end of the stream and of the connection.
    IsClosed,
    /// Enables stream management with resumption.
    Enable,
    /// Opens a new connection, authenticates and resumes.
    Resume,
    /// Ends the stream gracefully.
    Disconnect,
    /// Closes the connection abruptly.
    Abort,
    /// Lets milliseconds pass.
    Pass(u64),
}

/// A script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Client names with account, a localpart or a bare JID, and resource.
    pub clients: BTreeMap<String, (String, String)>,
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    /// The line and the fault.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut lines: Vec<(usize, String)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            match lines.last_mut() {
                Some((_, last)) if line.starts_with([' ', '\t']) => last.push_str(line.trim_start()),
                _ => lines.push((index + 1, line.trim_end().to_owned())),
            }
        }
        let mut script = Script::default();
        for (number, line) in lines {
            script.parse_line(number, &line).map_err(|error| format!("line {number}: {error}"))?;
        }
        Ok(script)
    }

    fn parse_line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if let Some(clients) = line.strip_prefix("clients:") {
            for client in clients.split_whitespace() {
                let parts = client.split_once('=').and_then(|(name, user)| Some((name, user.split_once('/')?)));
                let (name, (local, resource)) =
                    parts.ok_or("a client is written name=local/resource or name=local@domain/resource")?;
                self.clients.insert(name.into(), (local.into(), resource.into()));
            }
            return Ok(());
        }
        if let Some(time) = line.strip_prefix("time passes:") {
            let ms = time.trim().trim_end_matches("ms").trim().parse().map_err(|_| "time is written N ms")?;
            self.steps.push(Step { line: number, client: String::new(), action: Action::Pass(ms) });
            return Ok(());
        }
        if let Some(in_order) =
            [("the server dies", false), ("the server restarts", true)].iter().find(|(is, _)| *is == line)
        {
            self.steps.push(Step { line: number, client: String::new(), action: Action::Restart(in_order.1) });
            return Ok(());
        }
        let (client, rest) = line.split_once(' ').ok_or("who does what?")?;
        if !self.clients.contains_key(client) {
            return Err(format!("{client} is not among the clients"));
        }
        let (verb, xml) = rest.split_once(':').filter(|(verb, _)| !verb.contains('<')).unwrap_or((rest, ""));
        let xml = xml.trim();
        let action = match verb.trim() {
            "connects" => Action::Connect,
            "connects raw" => Action::ConnectRaw,
            "logs in" => Action::LogIn,
            "opens stream" => Action::OpenStream,
            "sends" => Action::Send(xml.to_owned()),
            "receives" => Action::Receive { wanted: elements(xml)?, any_order: false },
            "receives in any order" => Action::Receive { wanted: elements(xml)?, any_order: true },
            "receives nothing" => Action::ReceiveNothing,
            "ignores what comes" => Action::Ignore,
            "is closed" => Action::IsClosed,
            "enables" => Action::Enable,
            "resumes" => Action::Resume,
            "disconnects" => Action::Disconnect,
            "aborts" => Action::Abort,
            other => return Err(format!("nobody can do this: {other}")),
        };
        self.steps.push(Step { line: number, client: client.into(), action });
        Ok(())
    }

    /// The accounts that the script needs: localparts, or bare JIDs of [`OTHER_DOMAIN`].
    pub fn accounts(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.clients.values().map(|(local, _)| local.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Plays the script for a domain, with one password for all accounts.
    ///
    /// # Errors
    /// The line at which the result differed, and the difference.
    pub fn play(&self, player: &mut dyn Player, domain: &str, password: &str) -> Result<(), String> {
        let mut play =
            Play { script: self, player, domain, password, clients: BTreeMap::new(), names: BTreeMap::new() };
        for step in &self.steps {
            play.step(step).map_err(|error| format!("line {}: {} {error}", step.line, step.client))?;
        }
        Ok(())
    }
}

fn elements(xml: &str) -> Result<Vec<Node>, String> {
    let mut reader = Reader::default();
    reader.push(HEADER.as_bytes());
    reader.next()?;
    reader.push(xml.as_bytes());
    let mut all = Vec::new();
    while let Some(item) = reader.next()? {
        match item {
            Item::Element(node) => all.push(node),
            other => return Err(format!("elements are wanted, not {other:?}")),
        }
    }
    if all.is_empty() || !reader.rest().is_empty() {
        return Err(format!("not whole: {xml}"));
    }
    Ok(all)
}

const HEADER: &str =
    "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

/// The state of a client of a script.
#[derive(Default)]
struct Client {
    reader: Reader,
    previd: String,
    /// The `id` of the last request.
    asked: String,
    /// Stanzas received since stream management was enabled.
    handled: u32,
    managed: bool,
}

struct Play<'a> {
    script: &'a Script,
    player: &'a mut dyn Player,
    domain: &'a str,
    password: &'a str,
    clients: BTreeMap<&'a str, Client>,
    /// The texts that names have matched.
    names: BTreeMap<String, String>,
}

impl<'a> Play<'a> {
    fn step(&mut self, step: &'a Step) -> Result<(), String> {
        let name = step.client.as_str();
        match &step.action {
            Action::Pass(ms) => {
                self.player.pass(*ms);
                Ok(())
            }
            Action::Restart(in_order) => self.player.restart(*in_order),
            Action::ConnectRaw => self.connect_raw(name),
            Action::LogIn => self.log_in(name),
            Action::Connect => {
                self.log_in(name)?;
                let resource = &self.script.clients[name].1;
                let bind = format!(
                    "<iq type='set' id='bind'><bind xmlns='{}'><resource>{resource}</resource></bind></iq>",
                    ns::BIND
                );
                self.player.send(name, bind.as_bytes())?;
                let answer = self.element(name)?;
                if answer.attribute("type") == Some("result") {
                    Ok(())
                } else {
                    Err(format!("could not bind: {answer}"))
                }
            }
            Action::OpenStream => self.open_stream(name),
            Action::Send(xml) => {
                let xml = self.named(xml);
                // A new header starts a new stream.
                if xml.contains("<stream:stream") {
                    self.client(name).reader.restart();
                }
                let plain = self.plain(name);
                let client = self.client(name);
                let xml = xml.replace("{plain}", &plain).replace("{previd}", &client.previd);
                let xml = xml.replace("{h}", &client.handled.to_string()).replace("{id}", &client.asked);
                self.player.send(name, xml.as_bytes())
            }
            Action::Receive { wanted, any_order } => self.receive(name, wanted, *any_order),
            Action::ReceiveNothing => match self.next(name, Patience::Short, false)? {
                Next::Nothing => Ok(()),
                other => Err(format!("should receive nothing, but: {other}")),
            },
            Action::Ignore => loop {
                if let Next::Nothing | Next::Closed = self.next(name, Patience::Short, false)? {
                    return Ok(());
                }
            },
            Action::IsClosed => {
                match (self.next(name, Patience::Long, false)?, self.next(name, Patience::Long, false)?) {
                    (Next::Item(Item::End), Next::Closed) | (Next::Closed, _) => Ok(()),
                    (first, second) => Err(format!("should see the end, but: {first} and {second}")),
                }
            }
            Action::Enable => {
                self.player.send(name, format!("<enable xmlns='{}' resume='true'/>", ns::SM).as_bytes())?;
                let answer = self.element(name)?;
                let id = answer
                    .attribute("id")
                    .filter(|_| answer.name == "enabled")
                    .ok_or(format!("not enabled: {answer}"))?;
                let client = self.client(name);
                (client.previd, client.handled, client.managed) = (id.to_owned(), 0, true);
                Ok(())
            }
            Action::Resume => {
                let (previd, handled) = (self.client(name).previd.clone(), self.client(name).handled);
                self.log_in(name)?;
                let resume = format!("<resume xmlns='{}' h='{handled}' previd='{previd}'/>", ns::SM);
                self.player.send(name, resume.as_bytes())?;
                let answer = self.element(name)?;
                let client = self.client(name);
                (client.previd, client.handled, client.managed) = (previd, handled, true);
                if answer.name == "resumed" { Ok(()) } else { Err(format!("not resumed: {answer}")) }
            }
            Action::Disconnect => {
                self.player.send(name, b"</stream:stream>")?;
                loop {
                    match self.next(name, Patience::Long, false)? {
                        Next::Closed => return Ok(()),
                        Next::Nothing => return Err("is not disconnected".into()),
                        Next::Item(_) => {}
                    }
                }
            }
            Action::Abort => {
                self.player.abort(name);
                Ok(())
            }
        }
    }

    /// Replaces names by their texts.
    fn named(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    fn resolved(&self, node: &Node) -> Node {
        Node {
            attributes: node.attributes.iter().map(|(name, value)| (name.clone(), self.named(value))).collect(),
            children: node.children.iter().map(|child| self.resolved(child)).collect(),
            text: self.named(&node.text),
            ..node.clone()
        }
    }

    fn client(&mut self, name: &'a str) -> &mut Client {
        self.clients.entry(name).or_default()
    }

    /// Localpart and domain of a client.
    fn account(&self, name: &str) -> (&'a str, &'a str) {
        let account = &self.script.clients[name].0;
        account.split_once('@').unwrap_or((account, self.domain))
    }

    /// A client's PLAIN message (RFC 4616 2).
    fn plain(&self, name: &str) -> String {
        let (local, _) = self.account(name);
        base64::prelude::BASE64_STANDARD.encode(format!("\0{local}\0{}", self.password))
    }

    fn connect_raw(&mut self, name: &'a str) -> Result<(), String> {
        let client = self.client(name);
        (client.reader, client.managed) = (Reader::default(), false);
        self.player.open(name)
    }

    fn open_stream(&mut self, name: &'a str) -> Result<(), String> {
        self.client(name).reader.restart();
        let (_, domain) = self.account(name);
        let to = format!(" to='{domain}'>");
        self.player.send(name, HEADER.replace('>', &to).as_bytes())?;
        match self.next(name, Patience::Long, false)? {
            // RFC 6120 4.7.1: the address of the server.
            Next::Item(Item::Header(header)) if header.attribute("from") == Some(domain) => {}
            other => return Err(format!("should receive a header of {domain}, but: {other}")),
        }
        let features = self.element(name)?;
        if features.name == "features" { Ok(()) } else { Err(format!("should receive features, but: {features}")) }
    }

    fn log_in(&mut self, name: &'a str) -> Result<(), String> {
        self.connect_raw(name)?;
        self.open_stream(name)?;
        let message = self.plain(name);
        let auth = format!("<auth xmlns='{}' mechanism='PLAIN'>{message}</auth>", ns::SASL);
        self.player.send(name, auth.as_bytes())?;
        let answer = self.element(name)?;
        if answer.name != "success" {
            return Err(format!("could not log in: {answer}"));
        }
        self.open_stream(name)
    }

    fn element(&mut self, name: &'a str) -> Result<Node, String> {
        match self.next(name, Patience::Long, false)? {
            Next::Item(Item::Element(node)) => Ok(node),
            other => Err(format!("should receive an element, but: {other}")),
        }
    }

    /// The next item; requests for acknowledgement are skipped unless expected.
    fn next(&mut self, name: &'a str, patience: Patience, requests: bool) -> Result<Next, String> {
        loop {
            let client = self.client(name);
            if let Some(item) = client.reader.next()? {
                if let Item::Element(node) = &item {
                    if client.managed && node.namespace == ns::CLIENT {
                        client.handled += 1;
                    }
                    if let (Some("get" | "set"), Some(id)) = (node.attribute("type"), node.attribute("id")) {
                        client.asked = id.to_owned();
                    }
                    // Stream management that began, or was resumed, with the login (XEP-0386 2.2,
                    // XEP-0198 10.2).
                    if let Some(enabled) = node.child("bound").and_then(|bound| bound.child("enabled")) {
                        let id = enabled.attribute("id").unwrap_or_default();
                        (client.previd, client.handled, client.managed) = (id.to_owned(), 0, true);
                    }
                    client.managed |= node.child("resumed").is_some();
                    if node.is("r", ns::SM) && !requests {
                        continue;
                    }
                }
                return Ok(Next::Item(item));
            }
            match self.player.hear(name, patience)? {
                Heard::Bytes(bytes) => self.client(name).reader.push(&bytes),
                Heard::Closed => return Ok(Next::Closed),
                Heard::Nothing => return Ok(Next::Nothing),
            }
        }
    }

    fn receive(&mut self, name: &'a str, wanted: &[Node], any_order: bool) -> Result<(), String> {
        let mut left: Vec<&Node> = wanted.iter().collect();
        // Names within one step are not known before it.
        while !left.is_empty() {
            let requests = left.iter().any(|w| w.is("r", ns::SM));
            let node = match self.next(name, Patience::Long, requests)? {
                Next::Item(Item::Element(node)) => node,
                other => return Err(format!("should receive {}, but: {other}", left[0])),
            };
            let among = if any_order { left.len() } else { 1 };
            match left[..among].iter().position(|w| matches(&self.resolved(w), &node)) {
                Some(at) => {
                    let wanted = left.remove(at);
                    bind(&self.resolved(wanted), &node, &mut self.names);
                }
                None => return Err(format!("should receive {}\n  but: {node}", left[0])),
            }
        }
        Ok(())
    }
}

/// The next input.
enum Next {
    Item(Item),
    Closed,
    Nothing,
}

impl std::fmt::Display for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Next::Item(Item::Element(node)) => node.fmt(f),
            Next::Item(Item::Header(_)) => f.write_str("a stream header"),
            Next::Item(Item::End) => f.write_str("the end of the stream"),
            Next::Closed => f.write_str("the connection is closed"),
            Next::Nothing => f.write_str("nothing comes"),
        }
    }
}

/// The name in `{=name}`.
fn name_of(value: &str) -> Option<&str> {
    value.trim().strip_prefix("{=")?.strip_suffix('}')
}

/// Stores the texts that names have matched.
fn bind(wanted: &Node, got: &Node, names: &mut BTreeMap<String, String>) {
    for (attribute, value) in &wanted.attributes {
        if let (Some(name), Some(value)) = (name_of(value), got.attribute(attribute)) {
            names.insert(name.to_owned(), value.to_owned());
        }
    }
    if let Some(name) = name_of(&wanted.text) {
        names.insert(name.to_owned(), got.text.clone());
    }
    let mut left: Vec<&Node> = got.children.iter().collect();
    for child in &wanted.children {
        if let Some(at) = left.iter().position(|g| matches(child, g)) {
            bind(child, left.remove(at), names);
        }
    }
}

/// Whether an element matches the expected one.
pub fn matches(wanted: &Node, got: &Node) -> bool {
    if wanted.name != got.name || wanted.namespace != got.namespace {
        return false;
    }
    let value_matches = |value: &str, got: Option<&str>| {
        got.is_some_and(|got| value == "{any}" || name_of(value).is_some() || value == got)
    };
    let wanted_all = wanted.attributes.iter().all(|(name, value)| value_matches(value, got.attribute(name)));
    let got_all = got.attributes.iter().all(|(name, _)| name == "xml:lang" || wanted.attribute(name).is_some());
    if !wanted_all || !got_all {
        return false;
    }
    if wanted.text.trim() == "{any}" || name_of(&wanted.text).is_some() {
        return true;
    }
    if wanted.text.trim() != got.text.trim() {
        return false;
    }
    let mut left: Vec<&Node> = got.children.iter().collect();
    for child in &wanted.children {
        match left.iter().position(|g| matches(child, g)) {
            Some(at) => left.remove(at),
            None => return false,
        };
    }
    left.iter().all(|g| g.is("stanza-id", ns::STANZA_ID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_steps() {
        let text = "# comment\nclients: romeo=romeo/orchard\nromeo connects\nromeo sends: <presence>\n   </presence>\ntime passes: 20 ms\n";
        let script = Script::parse(text).unwrap();
        assert_eq!(script.accounts(), ["romeo"]);
        assert_eq!(script.steps[1].action, Action::Send("<presence></presence>".into()));
        assert_eq!((script.steps[2].line, &script.steps[2].action), (6, &Action::Pass(20)));
        for bad in [
            "juliet connects",
            "clients: a",
            "clients: a=b/c\na dances",
            "clients: a=b/c\na receives: <x",
            "time passes: soon",
        ] {
            assert!(Script::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn matching_overlooks_order_and_wildcards_only() {
        let node = |xml: &str| elements(xml).unwrap().remove(0);
        let got = node(
            "<message to='a' from='b'><x/><body>hi</body><stanza-id xmlns='urn:xmpp:sid:0' id='1' by='c'/></message>",
        );
        for good in [
            "<message from='b' to='a'><body>hi</body><x/></message>",
            "<message from='{any}' to='a'><body>{any}</body><x/></message>",
            "<message from='b' to='a'>{any}</message>",
        ] {
            assert!(matches(&node(good), &got), "{good}");
        }
        for bad in [
            "<message from='b'><body>hi</body><x/></message>",
            "<message from='b' to='a'><body>hi</body></message>",
            "<message from='b' to='a'><body>ho</body><x/></message>",
            "<message from='b' to='a' id='{any}'><body>hi</body><x/></message>",
            "<presence from='b' to='a'><body>hi</body><x/></presence>",
            "<message from='b' to='a'><body>hi</body><x/><x/></message>",
        ] {
            assert!(!matches(&node(bad), &got), "{bad}");
        }
    }
}
