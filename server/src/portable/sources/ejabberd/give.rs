//! Facts of users and rooms, in the order of their keys, as parts of XEP-0227.

use throng_engine::portable::Container;
use throng_engine::wire::text::Writer;

use super::*;
use crate::portable::sources::{forms, xml};
use throng_dumps::erlang::Term;

/// Most items of a user's privacy lists, and options and affiliations of a node.
const GATHERED_MAX: usize = 10_000;

/// Most bytes of them, of a contact's groups, and of a user's keys; an element of more is skipped
/// anyway.
const GATHERED_BYTES_MAX: usize = ELEMENT_BYTES_MAX;

/// Options of nodes that mean the same here.
const NODE_OPTIONS: [&str; 8] = [
    "access_model",
    "item_expire",
    "max_items",
    "persist_items",
    "publish_model",
    "roster_groups_allowed",
    "title",
    "type",
];

/// The user or room whose facts are being turned into parts.
#[derive(Default)]
pub(super) struct Giving {
    /// The beginning of the keys of its facts; empty at first.
    key: Vec<u8>,
    host: String,
    /// Whether the host was given.
    told: bool,
    user: String,
    /// Whether there is an account.
    exists: bool,
    begun: bool,
    password: Option<String>,
    keys: Vec<Vec<u8>>,
    contact: Option<Contact>,
    privacy: Vec<Record>,
    node: Option<Node>,
    /// Bytes that are gathered of the current contact, node, privacy lists or keys.
    gathered: usize,
}

impl Giving {
    /// Whether there is space for so many more bytes.
    fn gathers(&mut self, bytes: usize) -> bool {
        self.gathered += bytes;
        self.gathered <= GATHERED_BYTES_MAX
    }
}

#[derive(Default)]
struct Contact {
    jid: String,
    name: String,
    subscription: &'static str,
    asked: bool,
    /// The message of a request, if the contact asks.
    request: Option<String>,
    is_listed: bool,
    groups: Vec<String>,
}

#[derive(Default)]
struct Node {
    name: String,
    fields: Vec<(String, Vec<String>)>,
    affiliations: Vec<(String, &'static str)>,
    subscriptions: Vec<(String, &'static str)>,
}

impl Tables {
    fn element(&mut self, what: &'static str, container: Option<Container>, node: Option<&str>, text: &[u8]) {
        if text.len() > ELEMENT_BYTES_MAX {
            return self.skip(what, "it is larger than 4 MiB");
        }
        match xml::element(text, forms::NS_CLIENT) {
            Ok(element) => {
                self.part(Part::Element { container, node: node.map(str::to_owned), element });
            }
            Err(why) => self.skip(what, why),
        }
    }

    /// Takes the next fact.
    pub(super) fn give(&mut self) -> Result<(), Wrong> {
        let Stage::Giving(sorted) = &mut self.stage else { return Ok(()) };
        let Some(record) = sorted.next().map_err(|error| failed(&error))? else {
            self.end();
            self.stage = Stage::Done;
            return Ok(());
        };
        let mut zeros = record.key.iter().enumerate().filter(|(_, byte)| **byte == 0);
        let of_user = record.key.first() == Some(&OF_USER);
        // The first byte of a user's key is a zero itself.
        let skipped = usize::from(of_user);
        let (Some((host_end, _)), Some((user_end, _))) = (zeros.nth(skipped), zeros.next()) else { return Ok(()) };
        if record.key[..user_end] != self.giving.key[..] {
            self.end();
            let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&record.key[range]).into_owned();
            let (host, user) = (text(1..host_end), text(host_end + 1..user_end));
            self.giving.key = record.key[..user_end].to_vec();
            self.giving.told &= self.giving.host == host;
            (self.giving.host, self.giving.user) = (host, user);
            (self.giving.exists, self.giving.begun, self.giving.gathered) = (false, false, 0);
        }
        self.line = record.line;
        if !of_user {
            self.room(&record);
            return Ok(());
        }
        let about = record.key.get(user_end + 1).copied().unwrap_or(u8::MAX);
        self.about_user(about, record);
        Ok(())
    }

    fn host(&mut self) {
        if !std::mem::replace(&mut self.giving.told, true) {
            self.part(Part::Host(self.giving.host.clone()));
        }
    }

    /// Begins the user once all keys are known.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.giving.begun, true) {
            return;
        }
        self.host();
        let (name, password) = (self.giving.user.clone(), self.giving.password.take());
        self.part(Part::User { name, password });
        self.giving.gathered = 0;
        for keys in std::mem::take(&mut self.giving.keys) {
            self.element("credentials", None, None, &keys);
        }
    }

    fn end(&mut self) {
        if !std::mem::take(&mut self.giving.exists) {
            return;
        }
        self.begin();
        self.contact_ends();
        self.privacy_ends();
        self.node_ends();
        self.part(Part::UserEnd);
    }

    fn about_user(&mut self, about: u8, record: Record) {
        if about == KEYS {
            self.giving.exists = true;
            return self.keys(&record);
        }
        if !self.giving.exists {
            return match about {
                ARCHIVED => {
                    self.skip("archive", "messages of rooms, and of users without an account, are not imported")
                }
                _ => self.skip("user", "rows of a user without an account: the passwords are elsewhere (LDAP, PAM)"),
            };
        }
        self.begin();
        if about != CONTACT {
            self.contact_ends();
        }
        if about != PRIVACY {
            self.privacy_ends();
        }
        if about != NODE {
            self.node_ends();
        }
        let field = |at: usize| record.fields.get(at).map_or(&[][..], |field| field);
        let text = |at: usize| utf8(field(at)).unwrap_or_default();
        match about {
            CONTACT => self.contact(&record),
            CARD => self.element("vCard", None, None, field(0)),
            PRIVATE => self.element("private element", Some(Container::Private), None, field(0)),
            PRIVACY => {
                let bytes = record.fields.iter().map(Vec::len).sum();
                match self.giving.privacy.len() < GATHERED_MAX && self.giving.gathers(bytes) {
                    true => self.giving.privacy.push(record),
                    false => self.skip("privacy list", "it has too many items"),
                }
            }
            NODE => self.node(&record),
            WAITING => {
                let mut message = field(0).to_vec();
                if let (Ok(time_us), Some(begun)) = (text(1).parse(), message.strip_suffix(b"</message>")) {
                    message = [begun, &forms::delay_of(&self.giving.host, time_us), b"</message>"].concat();
                }
                self.element("waiting message", Some(Container::Waiting), None, &message);
            }
            ARCHIVED => match text(1).parse() {
                Ok(time_us) => {
                    let result = forms::result(text(0), time_us, field(2));
                    self.element("archived message", Some(Container::Archive), None, &result);
                }
                Err(_) => self.skip("archived message", "it has no time"),
            },
            _ => {}
        }
    }

    /// The row of an account: a password, or a set of keys. The hash function is the one whose values
    /// are as long as these.
    fn keys(&mut self, record: &Record) {
        let text = |at: usize| record.fields.get(at).and_then(|field| utf8(field)).unwrap_or_default();
        let [stored, server, salt, iterations] = [0, 1, 2, 3].map(text);
        if matches!(iterations, "" | "0") {
            if !stored.is_empty() {
                self.giving.password = Some(stored.to_owned());
            }
            return;
        }
        // `sha256:` before the key of that hash function.
        let stored = stored.split_once(':').map_or(stored, |(_, stored)| stored);
        let hash = match stored.trim_end_matches('=').len() {
            27 => "SHA-1",
            43 => "SHA-256",
            86 => "SHA-512",
            _ => return self.skip("credentials", "a key has the length of no hash function of SCRAM"),
        };
        match self.giving.gathers(server.len() + salt.len() + iterations.len()) {
            true => self.giving.keys.push(forms::keys(hash, [stored, server, salt], iterations)),
            false => self.skip("credentials", "there are too many of them"),
        }
    }

    fn contact(&mut self, record: &Record) {
        let text = |at: usize| record.fields.get(at).and_then(|field| utf8(field)).unwrap_or_default();
        let is_same = self.giving.contact.as_ref().is_some_and(|contact| contact.jid == text(0));
        if !is_same {
            self.contact_ends();
            self.giving.contact = Some(Contact { jid: text(0).to_owned(), ..Contact::default() });
        }
        if let [_, group] = &record.fields[..] {
            let fits = self.giving.gathers(group.len());
            let Some(contact) = &mut self.giving.contact else { return };
            match utf8(group).filter(|_| fits && contact.groups.len() < GATHERED_MAX) {
                Some(group) => contact.groups.push(group.to_owned()),
                None => self.skip("contact", "it has too many groups, or one that is not UTF-8"),
            }
            return;
        }
        let Some(contact) = &mut self.giving.contact else { return };
        if text(2) == "R" {
            return;
        }
        contact.name = text(1).to_owned();
        contact.subscription = match text(2) {
            "B" => "both",
            "T" => "to",
            "F" => "from",
            _ => "none",
        };
        contact.asked = matches!(text(3), "S" | "O" | "B");
        contact.request = matches!(text(3), "I" | "B").then(|| text(4).to_owned());
        // ejabberd shows no contact that only asks.
        contact.is_listed = text(3) != "I" || contact.subscription != "none";
    }

    fn contact_ends(&mut self) {
        let Some(contact) = self.giving.contact.take() else { return };
        self.giving.gathered = 0;
        if let Some(request) = &contact.request {
            let mut children = Vec::new();
            if !request.is_empty() {
                Writer::new(&mut children).leaf("status", request);
            }
            self.element("request", None, None, &forms::request(&contact.jid, &children));
        }
        if contact.is_listed {
            let item = forms::Contact {
                jid: &contact.jid,
                name: &contact.name,
                subscription: contact.subscription,
                asked: contact.asked,
                approved: false,
                groups: contact.groups.iter().map(|group| &**group).collect(),
            };
            self.element("contact", Some(Container::Roster), None, &item.write());
        }
    }

    fn privacy_ends(&mut self) {
        let records = std::mem::take(&mut self.giving.privacy);
        if records.is_empty() {
            return;
        }
        self.giving.gathered = 0;
        fn text(record: &Record, at: usize) -> &str {
            record.fields.get(at).and_then(|field| utf8(field)).unwrap_or_default()
        }
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", "jabber:iq:privacy");
        // The default has two fields; an item begins with the name of its list.
        if let Some(default) = records.iter().find(|record| record.fields.len() == 2) {
            writer.open("default").attribute("name", text(default, 1)).close();
        }
        let mut open: Option<&str> = None;
        for record in records.iter().filter(|record| record.fields.len() > 4) {
            let list = text(record, 0);
            if open != Some(list) {
                if open.is_some() {
                    writer.close();
                }
                writer.open("list").attribute("name", list);
                open = Some(list);
            }
            writer.open("item");
            if !text(record, 1).is_empty() {
                writer.attribute("type", text(record, 1)).attribute("value", text(record, 2));
            }
            writer.attribute("action", text(record, 3)).attribute("order", text(record, 4));
            for what in record
                .fields
                .iter()
                .skip(5)
                .filter_map(|field| MATCHES.into_iter().find(|name| name.as_bytes() == &field[..]))
            {
                writer.open(what).close();
            }
            writer.close();
        }
        if open.is_some() {
            writer.close();
        }
        writer.close();
        self.element("privacy list", None, None, &out);
    }

    fn node(&mut self, record: &Record) {
        let text = |at: usize| record.fields.get(at).and_then(|field| utf8(field)).unwrap_or_default();
        let name = text(0);
        // The name, a zero, and what it is about.
        let at = self.giving.key.len() + 2 + record.fields.first().map_or(0, Vec::len) + 1;
        let about = record.key.get(at).copied().unwrap_or(u8::MAX);
        if about == 0 {
            self.node_ends();
            self.giving.node = Some(Node { name: name.to_owned(), ..Node::default() });
            return;
        }
        if about == 3 {
            self.node_ends();
            let payload = record.fields.get(2).map_or(&[][..], |payload| payload);
            let item = forms::item(text(1), payload);
            return self.element("item", Some(Container::Nodes), Some(name), &item);
        }
        let fits = self.giving.gathers(record.fields.iter().skip(1).map(Vec::len).sum());
        let Some(node) = &mut self.giving.node else { return };
        if !fits || node.fields.len() + node.affiliations.len() + node.subscriptions.len() >= GATHERED_MAX {
            return self.skip("node", "it has too many options and affiliations");
        }
        if about == 1 {
            if NODE_OPTIONS.contains(&text(1)) {
                let values = record.fields.iter().skip(2).filter_map(|value| utf8(value).map(str::to_owned));
                node.fields.push((text(1).to_owned(), values.collect()));
            }
            return;
        }
        let word = |given: &str, all: &[&'static str]| all.iter().copied().find(|word| *word == given);
        if let Some(is) = word(text(2), &["member", "outcast", "publisher", "publish-only"]) {
            node.affiliations.push((text(1).to_owned(), is));
        }
        if let Some(is) = word(text(3), &["subscribed", "pending"]) {
            node.subscriptions.push((text(1).to_owned(), is));
        }
    }

    fn node_ends(&mut self) {
        let Some(Node { name, fields, affiliations, subscriptions }) = self.giving.node.take() else { return };
        self.giving.gathered = 0;
        self.element("node", Some(Container::Owner), None, &forms::configure(&name, &fields));
        for (all, is_subscriptions) in [(affiliations, false), (subscriptions, true)] {
            if !all.is_empty() {
                let all: Vec<(&str, &str)> = all.iter().map(|(jid, is)| (&**jid, *is)).collect();
                self.element("node", Some(Container::Owner), None, &forms::affiliates(&name, is_subscriptions, &all));
            }
        }
    }

    fn room(&mut self, record: &Record) {
        let options = record.fields.first().map_or(&[][..], |options| options);
        let options = match erlang::Reader::new(options).read_term() {
            Ok(Some(options)) => options,
            Ok(None) => Term::List(Vec::new()),
            Err(why) => return self.skip("room", why),
        };
        let get = |name: &str| {
            let found =
                options.list().iter().find(|option| option.tuple().first().is_some_and(|own| own.atom() == name));
            found.and_then(|option| option.tuple().get(1))
        };
        if get("persistent").is_none_or(|is| is.atom() != "true") {
            return self.skip("room", "a room that is not persistent is not imported");
        }
        self.host();
        self.part(Part::Room { name: self.giving.user.clone(), created: None });
        self.element("room", None, None, &forms::room_config(&room_fields(&get)));
        let subject = get("subject").and_then(|subject| match subject.list().first() {
            Some(first) => first.tuple().get(2).and_then(Term::text),
            None => subject.text(),
        });
        if let Some(subject) = subject.filter(|subject| !subject.is_empty()) {
            let author = get("subject_author").and_then(|author| author.tuple().first().unwrap_or(author).text());
            let subject = forms::subject(&subject, &author.unwrap_or_default(), None);
            self.element("room", None, None, &subject);
        }
        for one in get("affiliations").map_or(&[][..], Term::list) {
            let [user, is] = one.tuple() else { continue };
            let (is, reason) = match is.tuple() {
                [is, reason] => (is.atom(), reason.text().unwrap_or_default()),
                _ => (is.atom(), String::new()),
            };
            let user = String::from_utf8_lossy(&jid(user)).into_owned();
            self.element("room", None, None, &forms::standing(&user, is, None, &reason));
        }
        self.part(Part::RoomEnd);
    }
}

/// The fields of a room's form.
fn room_fields<'a>(get: &dyn Fn(&str) -> Option<&'a Term>) -> Vec<(&'static str, Vec<String>)> {
    let flag = |name: &str, default: bool| get(name).map_or(default, |is| is.atom() == "true");
    let bit = |is: bool| vec![String::from(if is { "1" } else { "0" })];
    let text = |name: &str| get(name).and_then(Term::text).unwrap_or_default();
    let mut fields = vec![
        ("roomname", vec![text("title")]),
        ("roomdesc", vec![text("description")]),
        ("lang", vec![text("lang")]),
        ("publicroom", bit(flag("public", true))),
        ("membersonly", bit(flag("members_only", false))),
        // With `members_by_default`, newcomers of a moderated room have voice.
        ("moderatedroom", bit(flag("moderated", false) && !flag("members_by_default", true))),
        ("changesubject", bit(flag("allow_change_subj", true))),
        ("allowinvites", bit(flag("allow_user_invites", false))),
        ("whois", vec![String::from(if flag("anonymous", true) { "moderators" } else { "anyone" })]),
        ("enablelogging", bit(flag("mam", false))),
    ];
    let password = text("password");
    if flag("password_protected", false) {
        // Without a password, the form is refused: the room must not become one for all.
        fields.extend([("passwordprotectedroom", bit(true)), ("roomsecret", vec![password])]);
    }
    if let Ok(most) = text("max_users").parse::<usize>() {
        fields.push(("maxusers", vec![most.min(throng_engine::limits::ROOM_OCCUPANTS_MAX).to_string()]));
    }
    if let Some(roles) = get("presence_broadcast") {
        fields.push(("presencebroadcast", roles.list().iter().filter_map(Term::text).collect()));
    }
    fields
}
