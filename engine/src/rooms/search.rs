//! Search of the directory of public rooms: XEP-0433, with pages, and the older form of XEP-0055.
//!
//! A request reads the directory in the order of addresses, until it has a page of results or has
//! read [`ROOM_SEARCH_PAGES`] pages of rows; the searcher goes on from there. Nothing is kept between
//! requests.

use minidom::Element as Tree;

use crate::actors::Actors;
use crate::extension::xml;
use crate::kernel::pending::{Pending, RoomRead, SearchRead};
use crate::letters::Kind;
use crate::limits::{ROOM_DIRECTORY_PAGE, ROOM_SEARCH_BYTES_MAX, ROOM_SEARCH_PAGES, ROOM_SEARCH_RESULTS};
use crate::ns::RSM as NS_RSM;
use crate::rooms::form::{self, Field, Submitted};
use crate::rooms::{Rooms, charge_bytes, refuse};
use crate::router::users::Incoming;
use crate::store::Found;
use crate::store::room::Listed;
use crate::streams::Streams;
use crate::wire::Element;
use crate::wire::error::{Detail, ErrorType, StanzaCondition};
use crate::wire::jid::{bare_of, local_of};
use crate::wire::limit::{AppError, Refusal};
use crate::wire::text::Writer;
use crate::wire::written::write_result;

/// XEP-0433.
pub(super) const NS: &str = "urn:xmpp:channel-search:0:search";
const NS_PARAMETERS: &str = "urn:xmpp:channel-search:0:search-params";
const NS_ERROR: &str = "urn:xmpp:channel-search:0:error";
const BY_ADDRESS: &str = "{urn:xmpp:channel-search:0:order}address";
/// XEP-0055.
pub(super) const NS_PLAIN: &str = "jabber:iq:search";
const TERM: &str = "x-term";
/// Characters that a term must have.
const TERM_CHARS_MIN: usize = 2;

/// A request, read.
pub(super) enum Request {
    /// The form; of XEP-0433, or of XEP-0055.
    Form(bool),
    Search(Wanted),
}

/// What is searched for.
pub(super) struct Wanted {
    is_extended: bool,
    /// In lower case. A room has all of them.
    terms: Vec<Box<str>>,
    /// Whether the name, the description and the address are searched.
    places: [bool; 3],
    /// The size of the page, and the room before it.
    most: usize,
    after: Option<Box<str>>,
}

fn refused(condition: StanzaCondition, kind: ErrorType, name: &'static str) -> Refusal {
    Refusal { app: Some(AppError { kind, name, xmlns: NS_ERROR, detail: Detail::Nothing }), ..condition.into() }
}

/// The terms of a query.
fn terms(query: &str) -> Vec<Box<str>> {
    let query = crate::limits::beginning(query, ROOM_SEARCH_BYTES_MAX).to_lowercase();
    query.split_whitespace().filter(|term| term.chars().count() >= TERM_CHARS_MIN).map(Into::into).collect()
}

impl Request {
    /// Reads a request; `None` if it is none for a search.
    pub(super) fn of(element: &Element<'_>) -> Option<Result<Request, Refusal>> {
        let child = element.children().next()?;
        let set = element.kind().as_deref() == Some("set");
        let tree = || xml::parse_sparse(child.bytes());
        let bad = || Refusal::from(StanzaCondition::BadRequest);
        match (child.namespace(), child.name(), set) {
            (NS, "search", false) => Some(tree().ok_or_else(bad).and_then(|tree| Request::extended(&tree))),
            (NS_PLAIN, "query", false) => Some(Ok(Request::Form(false))),
            (NS_PLAIN, "query", true) => Some(tree().ok_or_else(bad).and_then(|tree| Request::plain(&tree))),
            _ => None,
        }
    }

    fn extended(search: &Tree) -> Result<Request, Refusal> {
        let Some(x) = search.get_child("x", form::NS) else { return Ok(Request::Form(true)) };
        let form = Submitted::of(x, NS_PARAMETERS).ok_or(StanzaCondition::BadRequest)?;
        let query = form.one("q").filter(|query| !query.is_empty());
        let all = form.flag("all") == Some(true);
        let modify = |condition, name| refused(condition, ErrorType::Modify, name);
        let terms = match (query, all) {
            // XEP-0433 4.2.2.6.
            (Some(_), true) => return Err(modify(StanzaCondition::BadRequest, "conflicting-fields")),
            // XEP-0433 4.2.2.7.
            (None, false) => {
                return Err(refused(StanzaCondition::BadRequest, ErrorType::Cancel, "no-search-conditions"));
            }
            (None, true) => Vec::new(),
            (Some(query), false) => match terms(query) {
                // XEP-0433 4.2.2.3.
                terms if terms.is_empty() => {
                    return Err(modify(StanzaCondition::BadRequest, "invalid-search-terms"));
                }
                terms => terms,
            },
        };
        // XEP-0433 4.2.2.2: the directory does not know how many occupants a room has.
        if form.one("key").is_some_and(|key| !key.is_empty() && key != BY_ADDRESS) {
            return Err(modify(StanzaCondition::FeatureNotImplemented, "invalid-sort-key"));
        }
        let place = |var| form.flag(var).unwrap_or(true);
        let places = [place("sinname"), place("sindescription"), place("sinaddress")];
        let set = search.get_child("set", NS_RSM);
        let text = |name| set.and_then(|set| set.get_child(name, NS_RSM)).map(Tree::text);
        let after = text("after").filter(|after| !after.is_empty()).map(|after| local_of(&after).into());
        let asked = text("max").and_then(|most| most.parse().ok()).unwrap_or(ROOM_SEARCH_RESULTS);
        // XEP-0433 5.1: no other types than those that were asked for.
        let types = form.all("types").is_none_or(|types| types.iter().any(|one| one == "xep-0045"));
        let most = if types { asked.min(ROOM_SEARCH_RESULTS) } else { 0 };
        Ok(Request::Search(Wanted { is_extended: true, terms, places, most, after }))
    }

    fn plain(query: &Tree) -> Result<Request, Refusal> {
        let form = query.get_child("x", form::NS).and_then(|x| Submitted::of(x, NS_PLAIN));
        let form = form.ok_or(StanzaCondition::BadRequest)?;
        let terms = terms(form.one(TERM).unwrap_or_default());
        if terms.is_empty() {
            return Err(StanzaCondition::NotAcceptable.into());
        }
        let most = ROOM_SEARCH_RESULTS;
        Ok(Request::Search(Wanted { is_extended: false, terms, places: [true; 3], most, after: None }))
    }
}

/// The form (XEP-0433 4.2.1, XEP-0055 3).
fn write_form(is_extended: bool) -> Vec<u8> {
    let mut form = Vec::with_capacity(1_024);
    let flag = |var, label, value: &str| Field::new(var, "boolean", label).value(value);
    if is_extended {
        let fields = [
            Field::new("q", "text-single", "Search for"),
            flag("all", "Return all entries (ignore search terms)", "false"),
            flag("sinname", "Search in name", "true"),
            flag("sindescription", "Search in description", "true"),
            flag("sinaddress", "Search in address", "true"),
            Field::new("types", "list-multi", "Service types")
                .value("xep-0045")
                .options(&[("xep-0045", "XEP-0045 Multi User Chats")]),
            Field::new("key", "list-single", "Sort results by").value(BY_ADDRESS).options(&[(BY_ADDRESS, "Address")]),
        ];
        form::write(&mut form, "form", "", NS_PARAMETERS, &fields);
    } else {
        let label = "Words in the address, name or description";
        form::write(&mut form, "form", "Search for rooms", NS_PLAIN, &[Field::new(TERM, "text-single", label)]);
    }
    let mut out = Vec::with_capacity(form.len() + 128);
    let mut writer = Writer::new(&mut out);
    match is_extended {
        true => writer.open("search").attribute("xmlns", NS),
        false => writer.open("query").attribute("xmlns", NS_PLAIN).leaf("instructions", "Fill in the form to search."),
    };
    writer.raw(&form).close();
    out
}

/// Whether a room has all terms.
fn has(read: &SearchRead, local: &str, listed: &Listed) -> bool {
    let [name, description, address] = read.places;
    let texts = [(name, &*listed.name), (description, &*listed.description), (address, local)];
    let texts: Vec<String> = texts.iter().filter(|(wanted, _)| *wanted).map(|(_, text)| text.to_lowercase()).collect();
    read.terms.iter().all(|term| texts.iter().any(|text| text.contains(&**term)))
}

impl Rooms {
    /// Handles a request to the service.
    pub(super) fn search(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        stanza: Incoming<'_>,
        id: Option<Box<str>>,
        request: Result<Request, Refusal>,
    ) {
        let (service, from): (Box<str>, Box<str>) = (bare_of(stanza.to).into(), stanza.from.into());
        match request {
            Err(refusal) => refuse(cx, actors, stanza, refusal),
            Ok(Request::Form(is_extended)) => {
                let payload = write_form(is_extended);
                let home = cx.kernel.home(bare_of(&from));
                cx.kernel.post(home, Kind::Response, None, &service, &from, |out| {
                    write_result(out, id.as_deref(), Some(&service), &from, &payload);
                });
                cx.kernel.confirm(stanza.origin);
            }
            Ok(Request::Search(Wanted { is_extended, terms, places, most, after })) => {
                let (origin, found) = (stanza.origin, Vec::new());
                let read =
                    SearchRead { service, from, id, origin, is_extended, terms, places, most, after, pages: 0, found };
                self.read_on(cx, read, most > 0);
            }
        }
    }

    /// Reads the next page of the directory, or answers.
    fn read_on(&mut self, cx: &mut Streams, mut read: SearchRead, more: bool) {
        if more && read.found.len() < read.most && read.pages < ROOM_SEARCH_PAGES {
            read.pages += 1;
            let query = Listed::query(&read.service, read.after.as_deref(), ROOM_DIRECTORY_PAGE);
            return cx.kernel.read(Pending::Room(RoomRead::Search(Box::new(read))), vec![query]);
        }
        let payload = answer(&read, more);
        let home = cx.kernel.home(bare_of(&read.from));
        cx.kernel.post(home, Kind::Response, None, &read.service, &read.from, |out| {
            write_result(out, read.id.as_deref(), Some(&read.service), &read.from, &payload);
        });
        cx.kernel.confirm(read.origin);
    }

    /// A page of the directory was read.
    pub(super) fn search_found(&mut self, cx: &mut Streams, mut read: SearchRead, found: Option<Found>) {
        let Some(Found::Rows { rows, more }) = found else {
            let condition = StanzaCondition::InternalServerError.into();
            cx.kernel.send_error_letter("iq", read.id.as_deref(), &read.service, &read.from, condition);
            return cx.kernel.confirm(read.origin);
        };
        // A search that finds nothing reads as much as one that finds all.
        let bytes: usize = rows.iter().map(|row| row.sort.len() + row.value.len()).sum();
        charge_bytes(&mut cx.kernel, read.origin, &read.from, bytes);
        let mut rest = false;
        for row in &rows {
            let Some(local) = Listed::local_of(row) else { continue };
            if read.found.len() >= read.most {
                rest = true;
                break;
            }
            read.after = Some(local.into());
            let Some(listed) = Listed::decode(&row.value) else { continue };
            if has(&read, local, &listed) {
                read.found.push((local.into(), listed));
            }
        }
        self.read_on(cx, read, more || rest);
    }
}

/// The answer (XEP-0433 4.2.2.1, XEP-0055 3). `more` says that the directory was not read to its end.
fn answer(read: &SearchRead, more: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(read.found.len() * 160 + 256);
    let mut writer = Writer::new(&mut out);
    let rooms = read.found.iter().map(|(local, listed)| {
        let name = if listed.name.is_empty() { local } else { &listed.name };
        (format!("{local}@{}", read.service), &**name, &*listed.description)
    });
    if !read.is_extended {
        writer.open("query").attribute("xmlns", NS_PLAIN);
        // XEP-0055 2.1: without a match the element is empty.
        if !read.found.is_empty() {
            let columns = [
                ("jid", "Address", "jid-single"),
                ("x-name", "Name", "text-single"),
                ("x-text", "Description", "text-single"),
            ];
            let values = |(address, name, description): (String, &str, &str)| {
                vec![("jid", address), ("x-name", name.to_owned()), ("x-text", description.to_owned())]
            };
            let mut form = Vec::with_capacity(read.found.len() * 160 + 256);
            form::write_items(&mut form, "", NS_PLAIN, &columns, rooms.map(values));
            writer.raw(&form);
        }
        writer.close();
        return out;
    }
    writer.open("result").attribute("xmlns", NS);
    for (address, name, description) in rooms {
        writer.open("item").attribute("address", &address).leaf("name", name);
        if !description.is_empty() {
            writer.leaf("description", description);
        }
        writer.leaf("service-type", "xep-0045").close();
    }
    writer.open("set").attribute("xmlns", NS_RSM);
    // The searcher goes on behind the last room that was read, even if that is no result. XEP-0059
    // 3: a page has both elements or none.
    let (first, last) = (read.found.first().map(|(local, _)| local), read.found.last().map(|(local, _)| local));
    let last = if more && read.most > 0 { read.after.as_ref() } else { last };
    if let Some(last) = last {
        writer.leaf("first", &format!("{}@{}", first.unwrap_or(last), read.service));
        writer.leaf("last", &format!("{last}@{}", read.service));
    }
    writer.leaf("max", &read.most.to_string());
    writer.close().close();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_at_least_two_characters_and_all_of_them_count() {
        assert_eq!(terms("a Ab  ÄÖ c"), ["ab".into(), "äö".into()] as [Box<str>; 2]);
        assert!(terms(&"x ".repeat(1_000)).is_empty());
        let read = SearchRead {
            service: "conference.localhost".into(),
            from: "romeo@localhost/r".into(),
            id: None,
            origin: None,
            is_extended: true,
            terms: terms("verona LOVE"),
            places: [true, true, false],
            most: 1,
            after: None,
            pages: 0,
            found: Vec::new(),
        };
        let listed = |name: &str, description: &str| Listed { name: name.into(), description: description.into() };
        assert!(has(&read, "x", &listed("In Verona", "Of love")));
        assert!(!has(&read, "x", &listed("In Verona", "Of hate")));
        assert!(!has(&read, "love", &listed("In Verona", "")), "the address is not searched");
    }
}
