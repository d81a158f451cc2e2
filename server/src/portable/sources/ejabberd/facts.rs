//! Rows of SQL and terms of Mnesia as facts.

use throng_engine::wire::text::{escape_into, write_attribute};

use super::*;
use throng_dumps::erlang::Term;
use throng_dumps::sql::Row;

/// The columns of [`MATCHES`].
const MATCH_COLUMNS: [&str; 4] = ["match_iq", "match_message", "match_presence_in", "match_presence_out"];

/// The tables that [`Tables::row`] reads.
pub(super) const TABLES: [&str; 15] = [
    "archive",
    "muc_room",
    "privacy_default_list",
    "privacy_list",
    "privacy_list_data",
    "private_storage",
    "pubsub_item",
    "pubsub_node",
    "pubsub_node_option",
    "pubsub_state",
    "rostergroups",
    "rosterusers",
    "spool",
    "users",
    "vcard",
];

impl Tables {
    /// Takes a row of SQL.
    pub(super) fn row(&mut self, row: &Row) -> Result<(), Wrong> {
        let get = |column: &str| row.get(column).unwrap_or_default().to_vec();
        if row.values.is_none() {
            self.skip("row", format!("a row of {} is larger than 16 MiB", row.table.name));
            return Ok(());
        }
        let host = match row.get("server_host") {
            Some(host) if !host.is_empty() => host.to_vec(),
            _ => self.host.clone().into_bytes(),
        };
        let user = get("username");
        match &*row.table.name {
            "users" => {
                let fields = ["password", "serverkey", "salt", "iterationcount"].map(get).to_vec();
                self.fact(&host, &user, KEYS, &[], fields)
            }
            "rosterusers" => {
                let fields = ["jid", "nick", "subscription", "ask", "askmessage"].map(get).to_vec();
                self.fact(&host, &user, CONTACT, &[&get("jid"), &[0, 0]], fields)
            }
            "rostergroups" => {
                let fields = vec![get("jid"), get("grp")];
                self.fact(&host, &user, CONTACT, &[&get("jid"), &[0, 1]], fields)
            }
            "vcard" => self.fact(&host, &user, CARD, &[], vec![get("vcard")]),
            "private_storage" => self.fact(&host, &user, PRIVATE, &[], vec![get("data")]),
            "spool" => {
                let order = number(row.get("seq")).to_be_bytes();
                self.fact(&host, &user, WAITING, &[&order], vec![get("xml"), Vec::new()])
            }
            // A room's archive names the room with its host.
            "archive" if user.contains(&b'@') => {
                self.skip("room", "archives of rooms are not imported");
                Ok(())
            }
            "archive" => {
                let time = number(row.get("timestamp")).to_be_bytes();
                self.fact(&host, &user, ARCHIVED, &[&time], vec![get("timestamp"), get("timestamp"), get("xml")])
            }
            "privacy_default_list" => self.fact(&host, &user, PRIVACY, &[&[0, 0]], vec![Vec::new(), get("name")]),
            "privacy_list" => self.part_of(b'l', &get("id"), 0, &[], vec![host, user, get("name")]),
            "privacy_list_data" => {
                let kind = match row.get("t") {
                    Some(b"j") => "jid",
                    Some(b"g") => "group",
                    Some(b"s") => "subscription",
                    _ => "",
                };
                let action = if row.get("action") == Some(b"a") { "allow" } else { "deny" };
                let mut fields = vec![kind.into(), get("value"), action.into(), get("ord")];
                let is = |column: &str| matches!(row.get(column), Some(b"1" | b"t" | b"true"));
                fields.extend(
                    MATCHES
                        .iter()
                        .zip(MATCH_COLUMNS)
                        .filter(|(_, column)| is(column))
                        .map(|(name, _)| name.as_bytes().to_vec()),
                );
                if is("match_all") {
                    fields.truncate(4);
                }
                self.part_of(b'l', &get("id"), 1, &number(row.get("ord")).to_be_bytes(), fields)
            }
            "pubsub_node" => match split(&get("host")) {
                Some((user, host)) => self.part_of(b'n', &get("nodeid"), 0, &[], vec![host, user, get("node")]),
                None => {
                    self.skip("node", "nodes of a publish-subscribe service are not imported");
                    Ok(())
                }
            },
            "pubsub_node_option" => {
                let value = get("val");
                let term = erlang::Reader::new(&value[..]).read_term().ok().flatten();
                let mut fields = vec![get("name")];
                fields.extend(term.map_or_else(|| vec![value.clone()], |term| option(&term)));
                self.part_of(b'n', &get("nodeid"), 1, &[], fields)
            }
            "pubsub_state" => {
                let affiliation = match row.get("affiliation") {
                    Some(b"m") => "member",
                    Some(b"c") => "outcast",
                    Some(b"p") => "publisher",
                    Some(b"P") => "publish-only",
                    _ => "none",
                };
                let subscription = match get("subscriptions").first() {
                    Some(b's') => "subscribed",
                    Some(b'p') => "pending",
                    _ => "none",
                };
                let fields = vec![get("jid"), affiliation.into(), subscription.into()];
                self.part_of(b'n', &get("nodeid"), 2, &[], fields)
            }
            "pubsub_item" => {
                let fields = vec![get("itemid"), get("payload")];
                self.part_of(b'n', &get("nodeid"), 3, &get("modification"), fields)
            }
            "muc_room" => self.room_fact(&get("host"), &get("name"), get("opts")),
            other => {
                let other = other.to_owned();
                self.unknown(&other);
                Ok(())
            }
        }
    }

    fn room_fact(&mut self, host: &[u8], name: &[u8], options: Vec<u8>) -> Result<(), Wrong> {
        if host.contains(&0) || name.contains(&0) {
            self.skip("room", "its name is none that is allowed");
            return Ok(());
        }
        let key = [&[OF_ROOM], host, &[0], name, &[0]].concat();
        self.add_fact(key, vec![options])
    }

    /// Takes a term of Mnesia.
    pub(super) fn term(&mut self, term: &Term) -> Result<(), Wrong> {
        let [name, fields @ ..] = term.tuple() else { return Ok(()) };
        let field = |at: usize| fields.get(at).unwrap_or(&Term::Other);
        let (user, host) = us(field(0));
        match name.atom() {
            "tables" => Ok(()),
            "passwd" => {
                let password = field(1);
                let fields = match password.tuple() {
                    [scram, stored, server, salt, .., iterations] if scram.atom() == "scram" => {
                        [stored, server, salt, iterations].map(|part| part.bytes().unwrap_or_default()).to_vec()
                    }
                    _ => vec![password.bytes().unwrap_or_default()],
                };
                self.fact(&host, &user, KEYS, &[], fields)
            }
            "roster" => {
                let jid = jid(field(2));
                let (user, host) = us(field(1));
                let letter = |term: &Term, all: &[(&str, &str)]| {
                    let found = all.iter().find(|(name, _)| *name == term.atom());
                    found.map_or_else(|| b"N".to_vec(), |(_, letter)| letter.as_bytes().to_vec())
                };
                let subscription = letter(field(4), &[("both", "B"), ("to", "T"), ("from", "F"), ("remove", "R")]);
                let ask = letter(field(5), &[("subscribe", "S"), ("both", "B"), ("out", "O"), ("in", "I")]);
                let text = |at: usize| field(at).bytes().unwrap_or_default();
                let contact = vec![jid.clone(), text(3), subscription, ask, text(7)];
                self.fact(&host, &user, CONTACT, &[&jid, &[0, 0]], contact)?;
                for group in field(6).list() {
                    let group = vec![jid.clone(), group.bytes().unwrap_or_default()];
                    self.fact(&host, &user, CONTACT, &[&jid, &[0, 1]], group)?;
                }
                Ok(())
            }
            "vcard" => self.fact(&host, &user, CARD, &[], vec![element(field(1), &[])]),
            "private_storage" => self.fact(&host, &user, PRIVATE, &[], vec![element(field(1), &[])]),
            "offline_msg" => {
                let time_us = time(field(1));
                let more = [("from", jid(field(3))), ("to", jid(field(4)))];
                let fields = vec![element(field(5), &more), time_us.to_string().into_bytes()];
                self.fact(&host, &user, WAITING, &[&time_us.to_be_bytes()], fields)
            }
            "archive_msg" => {
                let time_us = time(field(2));
                let fields = vec![
                    field(1).bytes().unwrap_or_default(),
                    time_us.to_string().into_bytes(),
                    element(field(5), &[]),
                ];
                self.fact(&host, &user, ARCHIVED, &[&time_us.to_be_bytes()], fields)
            }
            "privacy" => self.privacy_term(&host, &user, field(1), field(2)),
            "pubsub_node" => match field(0).tuple() {
                [owner, node] if !owner.tuple().is_empty() => {
                    let (user, host) = us(owner);
                    let id = field(1).bytes().unwrap_or_default();
                    self.part_of(b'n', &id, 0, &[], vec![host, user, node.bytes().unwrap_or_default()])?;
                    for one in field(5).list() {
                        let [name, value] = one.tuple() else { continue };
                        let mut fields = vec![name.bytes().unwrap_or_default()];
                        fields.extend(option(value));
                        self.part_of(b'n', &id, 1, &[], fields)?;
                    }
                    Ok(())
                }
                _ => {
                    self.skip("node", "nodes of a publish-subscribe service are not imported");
                    Ok(())
                }
            },
            "pubsub_state" => {
                let [owner, _] = field(0).tuple() else { return Ok(()) };
                let id = field(1).bytes().unwrap_or_default();
                let subscription = field(4).list().first().and_then(|first| first.tuple().first());
                let affiliation = field(3).atom().replace('_', "-").into_bytes();
                let subscription = subscription.map_or("none", Term::atom).as_bytes().to_vec();
                self.part_of(b'n', &id, 2, &[], vec![jid(owner), affiliation, subscription])
            }
            "pubsub_item" => {
                let [item, _] = field(0).tuple() else { return Ok(()) };
                let id = field(1).bytes().unwrap_or_default();
                let order = field(3).tuple().first().map_or(0, time).to_be_bytes();
                let payload = field(4).list().iter().find(|child| !child.tuple().is_empty());
                let payload = payload.map_or_else(Vec::new, |payload| element(payload, &[]));
                self.part_of(b'n', &id, 3, &order, vec![item.bytes().unwrap_or_default(), payload])
            }
            "muc_room" => {
                let mut options = Vec::new();
                write_term(&mut options, field(1));
                self.room_fact(&host, &user, options)
            }
            other => {
                let other = other.to_owned();
                self.unknown(&other);
                Ok(())
            }
        }
    }

    fn privacy_term(&mut self, host: &[u8], user: &[u8], default: &Term, lists: &Term) -> Result<(), Wrong> {
        if default.atom() != "none" {
            self.fact(host, user, PRIVACY, &[&[0, 0]], vec![Vec::new(), default.bytes().unwrap_or_default()])?;
        }
        for list in lists.list() {
            let [name, items] = list.tuple() else { continue };
            let name = name.bytes().unwrap_or_default();
            for item in items.list() {
                let [_, kind, value, action, order, matches @ ..] = item.tuple() else { continue };
                let value = if value.tuple().is_empty() { value.bytes().unwrap_or_default() } else { jid(value) };
                let kind = if kind.atom() == "none" { Vec::new() } else { kind.bytes().unwrap_or_default() };
                let order = order.bytes().unwrap_or_default();
                let sorted = number(Some(&order)).to_be_bytes();
                let mut fields = vec![name.clone(), kind, value, action.bytes().unwrap_or_default(), order];
                if matches.first().is_none_or(|all| all.atom() != "true") {
                    let is = matches.iter().skip(1).zip(MATCHES).filter(|(is, _)| is.atom() == "true");
                    fields.extend(is.map(|(_, name)| name.as_bytes().to_vec()));
                }
                self.fact(host, user, PRIVACY, &[&name, &[0, 1], &sorted], fields)?;
            }
        }
        Ok(())
    }
}

fn number(text: Option<&[u8]>) -> u64 {
    text.and_then(utf8).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// User and host of a bare JID; `None` without a user.
fn split(jid: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let at = jid.iter().position(|byte| *byte == b'@')?;
    Some((jid[..at].to_vec(), jid[at + 1..].to_vec()))
}

/// User and host of a tuple that begins with them.
fn us(term: &Term) -> (Vec<u8>, Vec<u8>) {
    match term.tuple() {
        [user, host, ..] => (user.bytes().unwrap_or_default(), host.bytes().unwrap_or_default()),
        _ => Default::default(),
    }
}

/// Microseconds of `{MegaSeconds, Seconds, Microseconds}`.
fn time(term: &Term) -> u64 {
    let part = |at: usize| number(term.tuple().get(at).and_then(Term::bytes).as_deref());
    (part(0).saturating_mul(1_000_000).saturating_add(part(1))).saturating_mul(1_000_000).saturating_add(part(2))
}

/// The values of an option of a node.
fn option(term: &Term) -> Vec<Vec<u8>> {
    match term {
        Term::Atom(name) if name == "infinity" => vec![b"max".to_vec()],
        Term::List(all) if all.iter().all(|one| matches!(one, Term::Bytes(_))) => {
            all.iter().filter_map(Term::bytes).collect()
        }
        other => other.bytes().into_iter().collect(),
    }
}

/// An element of `{xmlel, Name, Attributes, Children}` as XML, with attributes that it lacks. What is
/// no element is nothing, which is reported when it is read.
fn element(term: &Term, more: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    write_element(&mut out, term, more);
    out
}

fn write_element(out: &mut Vec<u8>, term: &Term, more: &[(&str, Vec<u8>)]) {
    match term.tuple() {
        [kind, name, attributes, children] if kind.atom() == "xmlel" => {
            let name = name.bytes().unwrap_or_default();
            out.push(b'<');
            out.extend_from_slice(&name);
            let mut missing: Vec<&(&str, Vec<u8>)> = more.iter().collect();
            for attribute in attributes.list() {
                let [key, value] = attribute.tuple() else { continue };
                let (Some(key), Some(value)) = (key.text(), value.text()) else { continue };
                missing.retain(|(name, _)| *name != key);
                write_attribute(out, &key, &value);
            }
            for (key, value) in missing {
                write_attribute(out, key, &String::from_utf8_lossy(value));
            }
            out.push(b'>');
            children.list().iter().for_each(|child| write_element(out, child, &[]));
            out.extend_from_slice(b"</");
            out.extend_from_slice(&name);
            out.push(b'>');
        }
        [kind, text] if kind.atom() == "xmlcdata" => escape_into(out, &text.text().unwrap_or_default()),
        _ => {}
    }
}

/// Appends a term as it is read again.
fn write_term(out: &mut Vec<u8>, term: &Term) {
    let mut all = |open: &str, close: &str, terms: &[Term]| {
        out.extend_from_slice(open.as_bytes());
        for (number, term) in terms.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write_term(out, term);
        }
        out.extend_from_slice(close.as_bytes());
    };
    match term {
        Term::List(terms) => all("[", "]", terms),
        Term::Tuple(terms) => all("{", "}", terms),
        Term::Number(text) => out.extend_from_slice(text.as_bytes()),
        Term::Atom(name) => {
            out.extend_from_slice(format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'")).as_bytes())
        }
        Term::Bytes(bytes) => {
            let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
            out.extend_from_slice(format!("<<{}>>", bytes.join(",")).as_bytes());
        }
        Term::Map(_) | Term::Other => out.extend_from_slice(b"undefined"),
    }
}
