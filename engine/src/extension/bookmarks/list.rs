//! Bookmarks in their two forms: one item per bookmark (XEP-0402 2), and one element with all of
//! them (XEP-0048 3).

use minidom::{Element, Node};

use super::super::written;
use super::{NEW, OLD, xml};

/// Normalises a bare JID; `None` if it is invalid.
pub(super) type Bare = fn(&str) -> Option<Box<str>>;

/// A bookmark.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Bookmark {
    /// The id of its item: the room's JID.
    pub(super) id: Box<str>,
    /// The payload of the item: `<conference/>` of XEP-0402.
    #[serde(with = "written::element")]
    pub(super) payload: Element,
}

/// The content of an element with all bookmarks.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Storage {
    /// Its rooms, without duplicates.
    pub(super) rooms: Vec<Bookmark>,
    /// Its other children, such as web pages, which are not bookmarks of XEP-0402.
    #[serde(with = "written::elements")]
    pub(super) others: Vec<Element>,
}

/// Whether two ids refer to the same room.
pub(super) fn same(bare: Bare, one: &str, other: &str) -> bool {
    one == other || bare(one).is_some_and(|one| bare(other) == Some(one))
}

impl Storage {
    /// Reads the element.
    pub(super) fn of(storage: &Element, bare: Bare) -> Storage {
        let mut all = Storage::default();
        for child in storage.children() {
            let jid = child.attr("jid").filter(|_| child.is("conference", OLD)).and_then(bare);
            match jid {
                // Of two bookmarks for one room the last one counts.
                Some(id) => {
                    all.rooms.retain(|other| other.id != id);
                    all.rooms.push(Bookmark { id, payload: of_old(child) });
                }
                None => all.others.push(child.clone()),
            }
        }
        all
    }

    /// Writes the element (XEP-0402 4.3.1).
    pub(super) fn write(&self) -> Element {
        let rooms = self.rooms.iter().map(|room| to_old(&room.id, &room.payload));
        Element::builder("storage", OLD).append_all(rooms.chain(self.others.iter().cloned())).build()
    }
}

/// Converts a `<conference/>` from one form to the other: keeps the common attributes and adds
/// these children.
fn conference(namespace: &str, jid: Option<&str>, of: &Element, children: impl Iterator<Item = Element>) -> Element {
    let mut out = format!("<conference xmlns='{namespace}'").into_bytes();
    for (name, value) in [("jid", jid), ("autojoin", of.attr("autojoin")), ("name", of.attr("name"))] {
        if let Some(value) = value {
            xml::attribute(&mut out, name, value);
        }
    }
    out.extend_from_slice(b"/>");
    let mut conference = xml::parse(&out).unwrap_or_else(|| Element::bare("conference", namespace));
    for child in children {
        conference.append_child(child);
    }
    conference
}

/// A copy of an element in another namespace, without attributes; its content stays unchanged.
fn cast(element: &Element, namespace: &str) -> Element {
    Element::builder(element.name(), namespace).append_all(element.nodes().cloned().collect::<Vec<Node>>()).build()
}

fn to_old(id: &str, payload: &Element) -> Element {
    let cast = |child: &Element| if child.has_ns(NEW) { cast(child, OLD) } else { child.clone() };
    conference(OLD, Some(id), payload, payload.children().map(cast))
}

/// Non-standard children that clients have added are moved into `<extensions/>`.
fn of_old(old: &Element) -> Element {
    let (mut known, mut extensions) = (Vec::new(), Vec::new());
    for child in old.children() {
        match (child.has_ns(OLD), child.name()) {
            (true, "nick" | "password") => known.push(cast(child, NEW)),
            (true, "extensions") => extensions.extend(child.children().cloned()),
            (true, _) => {}
            (false, _) => extensions.push(child.clone()),
        }
    }
    let extensions =
        (!extensions.is_empty()).then(|| Element::builder("extensions", NEW).append_all(extensions).build());
    conference(NEW, None, old, known.into_iter().chain(extensions))
}

fn text(of: &Element, name: &str) -> Option<String> {
    of.get_child(name, NEW).map(Element::text)
}

/// Whether two bookmarks agree in the properties that an old client knows.
fn says_same(one: &Element, other: &Element) -> bool {
    let joins = |of: &Element| matches!(of.attr("autojoin"), Some("1" | "true"));
    let name = |of: &Element| of.attr("name").unwrap_or_default().to_owned();
    joins(one) == joins(other)
        && name(one) == name(other)
        && text(one, "nick") == text(other, "nick")
        && text(one, "password") == text(other, "password")
}

/// A bookmark as written by an old client, merged with the existing one: properties that the old
/// client does not know are kept (XEP-0402 3.4). So an unchanged bookmark compares as equal.
pub(super) fn rewritten(written: &Bookmark, before: &Bookmark) -> Bookmark {
    let (given, kept) = (&written.payload, before.payload.get_child("extensions", NEW));
    let same_extensions = given.get_child("extensions", NEW).is_none_or(|given| Some(given) == kept);
    if says_same(given, &before.payload) && same_extensions {
        return before.clone();
    }
    let mut payload = given.clone();
    if let (None, Some(kept)) = (given.get_child("extensions", NEW), kept) {
        payload.append_child(kept.clone());
    }
    Bookmark { id: before.id.clone(), payload }
}
