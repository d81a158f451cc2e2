//! Requests to the domain of a service of rooms (XEP-0045 6.1 to 6.3), and the directory of its
//! public rooms.

use crate::actors::Actors;
use crate::extension::xml;
use crate::kernel::pending::{DirectoryRead, Pending, RoomRead};
use crate::letters::Kind;
use crate::limits::ROOM_DIRECTORY_PAGE;
use crate::ns::RSM as NS_RSM;
use crate::rooms::requests::{NS_INFO, NS_ITEMS, NS_PING};
use crate::rooms::visit::NS_MUC;
use crate::rooms::{Rooms, charge_bytes, refuse, search};
use crate::router::users::Incoming;
use crate::store::Found;
use crate::store::room::Listed;
use crate::streams::Streams;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{bare_of, local_of};
use crate::wire::text::Writer;
use crate::wire::written::{read_back, write_result};

/// XEP-0045 10.1.4, unique room names.
const NS_UNIQUE: &str = "http://jabber.org/protocol/muc#unique";

impl Rooms {
    /// Handles a stanza to the domain itself.
    pub(super) fn for_service(&mut self, cx: &mut Streams, actors: &mut Actors, stanza: Incoming<'_>) {
        if stanza.kind != Kind::Request {
            return match stanza.kind {
                Kind::Message { .. } => refuse(cx, actors, stanza, StanzaCondition::ServiceUnavailable.into()),
                _ => cx.kernel.confirm(stanza.origin),
            };
        }
        let search =
            read_back(stanza.xml, |element| Some((element.id().map(Into::into), search::Request::of(element)?)));
        if let Some((id, request)) = search.flatten() {
            return self.search(cx, actors, stanza, id, request);
        }
        let unique = cx.kernel.random_name();
        let answer = read_back(stanza.xml, |element| {
            let child = element.children().next()?;
            match (child.namespace(), child.name(), element.kind().as_deref()) {
                (NS_INFO, "query", Some("get")) if child.attribute("node").is_none() => Some(info()),
                (NS_PING, "ping", Some("get")) => Some(Vec::new()),
                (NS_UNIQUE, "unique", Some("get")) => {
                    let mut out = Vec::new();
                    Writer::new(&mut out).open("unique").attribute("xmlns", NS_UNIQUE).text(&unique).close();
                    Some(out)
                }
                _ => None,
            }
        });
        if let Some(payload) = answer.flatten() {
            let id = crate::wire::written::id_of_stanza(stanza.xml);
            let home = cx.kernel.home(bare_of(stanza.from));
            cx.kernel.post(home, Kind::Response, None, stanza.to, stanza.from, |out| {
                write_result(out, id.as_deref(), Some(stanza.to), stanza.from, &payload);
            });
            return cx.kernel.confirm(stanza.origin);
        }
        let asked = read_back(stanza.xml, |element| {
            let child = element.child("query", NS_ITEMS).filter(|child| child.attribute("node").is_none())?;
            let tree = xml::parse_sparse(child.bytes())?;
            let page = tree.get_child("set", NS_RSM).map(|set| {
                let text = |name| set.get_child(name, NS_RSM).map(minidom::Element::text);
                let most = text("max").and_then(|most| most.parse().ok()).unwrap_or(ROOM_DIRECTORY_PAGE);
                let after = text("after").filter(|after| !after.is_empty());
                (most.min(ROOM_DIRECTORY_PAGE), after.map(|after| local_of(&after).into()))
            });
            let id = element.id().map(Into::into);
            let (service, from) = (bare_of(stanza.to).into(), stanza.from.into());
            Some(DirectoryRead { service, from, id, origin: stanza.origin, page })
        });
        let Some(asked) = asked.flatten() else {
            return refuse(cx, actors, stanza, StanzaCondition::ServiceUnavailable.into());
        };
        let (most, after) = asked.page.clone().unwrap_or((ROOM_DIRECTORY_PAGE, None));
        let query = Listed::query(&asked.service, after.as_deref(), most.max(1));
        cx.kernel.read(Pending::Room(RoomRead::Directory(asked)), vec![query]);
    }

    /// A page of the directory was read.
    pub(super) fn directory_found(&mut self, cx: &mut Streams, asked: DirectoryRead, found: Vec<Found>) {
        let DirectoryRead { service, from, id, origin, page } = asked;
        let Some(Found::Rows { rows, .. }) = found.into_iter().next() else {
            let condition = StanzaCondition::InternalServerError.into();
            cx.kernel.send_error_letter("iq", id.as_deref(), &service, &from, condition);
            return cx.kernel.confirm(origin);
        };
        let bytes = rows.iter().map(|row| row.sort.len() + row.value.len()).sum();
        charge_bytes(&mut cx.kernel, origin, &from, bytes);
        let shown = page.as_ref().map_or(rows.len(), |(most, _)| *most);
        let rooms =
            rows.iter().take(shown).filter_map(|row| Some((Listed::local_of(row)?, Listed::decode(&row.value)?)));
        let rooms: Vec<(&str, Listed)> = rooms.collect();
        let mut out = Vec::with_capacity(rows.len() * 96 + 64);
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS_ITEMS);
        for (local, listed) in &rooms {
            let name = if listed.name.is_empty() { *local } else { &*listed.name };
            writer.open("item").attribute("jid", &format!("{local}@{service}")).attribute("name", name).close();
        }
        if page.is_some() {
            writer.open("set").attribute("xmlns", NS_RSM);
            if let [(first, _), ..] = &*rooms
                && let [.., (last, _)] = &*rooms
            {
                writer.leaf("first", &format!("{first}@{service}")).leaf("last", &format!("{last}@{service}"));
            }
            writer.close();
        }
        writer.close();
        let home = cx.kernel.home(bare_of(&from));
        cx.kernel.post(home, Kind::Response, None, &service, &from, |to| {
            write_result(to, id.as_deref(), Some(&service), &from, &out);
        });
        cx.kernel.confirm(origin);
    }

    /// A room enters the directory of its service, or leaves it.
    pub(crate) fn listed(&mut self, cx: &mut Streams, room: &str, row: &[u8]) {
        let Some((local, service)) = room.split_once('@') else { return };
        match Listed::decode(row) {
            Some(listed) => listed.put(&mut cx.kernel.writes, service, local),
            None => Listed::delete(&mut cx.kernel.writes, service, local),
        }
    }
}

/// XEP-0045 6.2.
fn info() -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("query").attribute("xmlns", NS_INFO);
    writer.open("identity").attribute("category", "conference").attribute("type", "text");
    writer.attribute("name", "Group chat").close();
    for var in [
        NS_MUC,
        NS_UNIQUE,
        NS_INFO,
        NS_ITEMS,
        NS_PING,
        NS_RSM,
        "vcard-temp",
        search::NS,
        search::NS_PLAIN,
        "http://jabber.org/protocol/muc#self-ping-optimization",
        "http://jabber.org/protocol/muc#stable_id",
    ] {
        writer.open("feature").attribute("var", var).close();
    }
    writer.close();
    out
}
