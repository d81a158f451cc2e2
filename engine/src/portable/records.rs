//! Private XML, vCards and privacy lists (XEP-0227 4.6 to 4.8).

use std::collections::BTreeMap;

use minidom::Element;

use super::{Counts, NS_PRIVACY, NS_PRIVATE, Word, xml};
use crate::extension::blocking;
use crate::limits::{PRIVATE_BYTES_MAX, PRIVATE_ELEMENTS_MAX, PRIVATE_KEY_BYTES_MAX};
use crate::store::{Batch, private as rows};
use crate::wire::jid::Jid;
use crate::wire::text::write_attribute;

/// Private XML being imported.
#[derive(Clone, Debug, Default)]
pub(super) struct Private {
    elements: BTreeMap<Box<[u8]>, Vec<u8>>,
    bytes: usize,
}

impl Private {
    /// Reads a child of the query (XEP-0049 2.3: each has a namespace of its own).
    pub(super) fn element(&mut self, element: &Element, words: &mut Vec<Word>) {
        let mut word = |why: &str| words.push(Word::new("private element", why));
        let own = element.ns();
        if own.is_empty() || own == NS_PRIVATE {
            return word("it has no namespace of its own");
        }
        if own.len() + element.name().len() > PRIVATE_KEY_BYTES_MAX {
            return word("its namespace and name are too long");
        }
        let (key, written) = (rows::key(&own, element.name()), xml::whole(element));
        if self.elements.contains_key(&key) {
            return word("two elements have this namespace and name; the first one is used");
        }
        if self.elements.len() == PRIVATE_ELEMENTS_MAX || self.bytes + written.len() > PRIVATE_BYTES_MAX {
            return word("the user's private data exceeds its limit");
        }
        self.bytes += written.len();
        self.elements.insert(key, written);
    }

    /// Writes the rows.
    pub(super) fn finish(self, owner: &str, batch: &mut Batch, counts: &mut Counts) {
        counts.private += self.elements.len() as u64;
        self.elements.iter().for_each(|(key, element)| rows::put(batch, owner, key, element));
    }
}

/// The addresses that privacy lists block permanently: those to which the default list denies
/// everything.
pub(super) fn blocked(query: &Element, words: &mut Vec<Word>) -> Vec<Box<str>> {
    let mut word = |why: &str| words.push(Word::new("privacy list", why));
    let named = |list: &&Element| list.is("list", NS_PRIVACY);
    let default = query.get_child("default", NS_PRIVACY).and_then(|default| default.attr("name"));
    for list in query.children().filter(named) {
        if list.attr("name") != default {
            word("only the default list applies to users who are offline");
        }
    }
    let list = query.children().filter(named).find(|list| default.is_some() && list.attr("name") == default);
    let Some(list) = list else { return Vec::new() };
    let mut items: Vec<&Element> = list.children().filter(|child| child.is("item", NS_PRIVACY)).collect();
    items.sort_by_key(|item| item.attr("order").and_then(|order| order.parse::<u64>().ok()).unwrap_or(u64::MAX));
    let mut jids = Vec::new();
    for item in items {
        let kinds = item.children().count();
        match (item.attr("action"), item.attr("type"), item.attr("value")) {
            // XEP-0016 2.1: none of the four kinds, or all of them, means everything.
            (Some("deny"), Some("jid"), Some(jid)) if kinds == 0 || kinds == 4 => match Jid::parse(jid) {
                Ok(jid) => jids.push(jid.as_str().into()),
                Err(_) => word("an item has no valid JID"),
            },
            (Some("allow"), None, _) => break,
            (Some("allow"), ..) => word("an item allows what later ones deny: the denials are imported unchanged"),
            _ => word("an item does not deny everything of one address: only such items can be imported"),
        }
    }
    jids.sort_unstable();
    jids.dedup();
    jids
}

/// Writes the block list.
pub(super) fn block(owner: &str, jids: Vec<Box<str>>, batch: &mut Batch, counts: &mut Counts, words: &mut Vec<Word>) {
    let count = jids.len() as u64;
    match blocking::put(batch, owner, jids) {
        true => counts.blocked += count,
        false => words.push(Word::new("privacy list", "it exceeds the limit of blocked addresses: none is blocked")),
    }
}

/// Appends the block list as the default privacy list.
pub(super) fn write_blocked(out: &mut Vec<u8>, jids: &[&str]) {
    out.extend_from_slice(b"<query");
    write_attribute(out, "xmlns", NS_PRIVACY);
    out.extend_from_slice(b"><default name='blocked'/><list name='blocked'>");
    for (number, jid) in jids.iter().enumerate() {
        out.extend_from_slice(b"<item type='jid'");
        write_attribute(out, "value", jid);
        out.extend_from_slice(format!(" action='deny' order='{}'/>", number + 1).as_bytes());
    }
    out.extend_from_slice(format!("<item action='allow' order='{}'/></list></query>", jids.len() + 1).as_bytes());
}
