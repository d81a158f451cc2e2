//! Nodes of an account and their items (XEP-0227 4.10).

use std::collections::{BTreeMap, VecDeque};

use minidom::Element;

use super::roster::bare;
use super::{Counts, NS_NODES, NS_OWNER, Word, xml};
use crate::extension::avatars::apart::{DATA_NODE, METADATA_NODE, Parts};
use crate::extension::pubsub::form;
use crate::extension::pubsub::node::{Access, Affiliates, Affiliation, Config, Directory, Node};
use crate::limits::{
    NODE_AFFILIATES_MAX, NODE_BYTES_MAX, NODE_ID_BYTES_MAX, NODE_ITEM_BYTES_MAX, NODE_ITEMS_MAX, NODE_NAME_BYTES_MAX,
    NODES_MAX,
};
use crate::store::Batch;
use crate::store::nodes::{self as rows, Item, Place};
use crate::wire::jid::Jid;
use crate::wire::text::write_attribute;

/// A node being imported.
#[derive(Clone, Debug, Default)]
struct Coming {
    /// `None` until its configuration has arrived.
    config: Option<Config>,
    affiliates: Affiliates,
    /// Items that have been written, the oldest first, at most [`NODE_ITEMS_MAX`].
    items: VecDeque<(Box<str>, Place)>,
    /// The payload of the last item, for nodes of an avatar.
    payload: Option<Vec<u8>>,
}

/// The nodes of a user being imported.
#[derive(Clone, Debug, Default)]
pub(super) struct Arriving {
    nodes: BTreeMap<Box<str>, Coming>,
    /// The number of the last item.
    last: u64,
    bytes: u64,
}

impl Arriving {
    fn node(&mut self, element_node: Option<&str>, words: &mut Vec<Word>) -> Option<&mut Coming> {
        let mut word = |why: &str| words.push(Word::new("node", why));
        let name = match element_node {
            None | Some("") => {
                word("it has no name");
                return None;
            }
            Some(name) if name.len() > NODE_NAME_BYTES_MAX => {
                word("its name is too long");
                return None;
            }
            Some(name) => name,
        };
        if !self.nodes.contains_key(name) && self.nodes.len() == NODES_MAX {
            word("the account has more nodes than it may have");
            return None;
        }
        Some(self.nodes.entry(name.into()).or_default())
    }

    /// Reads a child of the owner's element: the configuration of a node, its affiliations or
    /// subscriptions.
    pub(super) fn owner(&mut self, element: &Element, words: &mut Vec<Word>) {
        let Some(node) = self.node(element.attr("node"), words) else { return };
        let mut word = |why: String| words.push(Word::new("node", why));
        match element.name() {
            "configure" if element.has_ns(NS_OWNER) => {
                let (config, passed) = form::lenient(element);
                passed.into_iter().for_each(&mut word);
                node.config = Some(config);
            }
            "affiliations" if element.has_ns(NS_OWNER) => {
                for child in element.children() {
                    let affiliation = match child.attr("affiliation").unwrap_or_default() {
                        "member" => Affiliation::Member,
                        "outcast" => Affiliation::Outcast,
                        "publisher" | "publish-only" => {
                            word("only its owner can publish: publishers become members".into());
                            Affiliation::Member
                        }
                        "owner" | "none" => continue,
                        _ => {
                            word("an affiliation is unknown".into());
                            continue;
                        }
                    };
                    match child.attr("jid").and_then(bare) {
                        None => word("an affiliation has no valid JID".into()),
                        Some(_) if node.affiliates.affiliations.len() == NODE_AFFILIATES_MAX => {
                            word("it has too many affiliations".into());
                        }
                        Some(jid) => node.affiliates.affiliate(&jid, Some(affiliation)),
                    }
                }
            }
            "subscriptions" if element.has_ns(NS_OWNER) => {
                for child in element.children() {
                    // Prosody up to 0.12 writes the state as `subscribed`.
                    let state = child.attr("subscription").or(child.attr("subscribed")).unwrap_or_default();
                    let there = match state {
                        "subscribed" => node.affiliates.subscribers.len(),
                        "pending" => node.affiliates.pending.len(),
                        "none" => continue,
                        _ => {
                            word("the state of a subscription is unknown".into());
                            continue;
                        }
                    };
                    match child.attr("jid").and_then(|jid| Jid::parse(jid).ok()) {
                        None => word("a subscription has no valid JID".into()),
                        Some(_) if there == NODE_AFFILIATES_MAX => word("it has too many subscriptions".into()),
                        Some(jid) if state == "subscribed" => node.affiliates.subscribe(jid.as_str()),
                        Some(jid) => drop(node.affiliates.want(jid.as_str())),
                    }
                }
            }
            name => word(format!("<{name}/> is unknown in a node")),
        }
    }

    /// Writes an item of a node immediately.
    pub(super) fn item(
        &mut self,
        (owner, name): (&str, &str),
        element: &Element,
        now_us: u64,
        batch: &mut Batch,
        words: &mut Vec<Word>,
    ) {
        let (bytes, number) = (self.bytes, self.last + 1);
        let Some(node) = self.node(Some(name), words) else { return };
        let mut word = |why: &str| words.push(Word::new("item", why));
        if !element.is("item", NS_NODES) {
            return word("an element of the node is not an item");
        }
        let mut children = element.children();
        let (Some(payload), None) = (children.next(), children.next()) else {
            return word("its payload is not one element");
        };
        let id: Box<str> = match element.attr("id") {
            Some(id) if !id.is_empty() => id.into(),
            _ => format!("{now_us:x}-{number:x}").into(),
        };
        let payload = xml::whole(payload);
        if id.len() > NODE_ID_BYTES_MAX || payload.len() > NODE_ITEM_BYTES_MAX {
            return word("it exceeds the size limit of an item");
        }
        let item = Item { at_us: now_us, id: &id, payload: &payload };
        let place = Place { number, bytes: item.bytes() };
        let mut gone = 0;
        if let Some(at) = node.items.iter().position(|(other, _)| *other == id) {
            gone += forget(node, at, owner, name, batch);
            word("two items have this id: the later one is used");
        }
        while node.items.len() >= NODE_ITEMS_MAX as usize {
            gone += forget(node, 0, owner, name, batch);
            word("the node exceeds its limit of items: the last ones are kept");
        }
        if bytes - gone + u64::from(place.bytes) > NODE_BYTES_MAX {
            self.bytes = bytes - gone;
            return word("the user's items exceed their total size limit");
        }
        item.put(batch, owner, name, number);
        node.items.push_back((id, place));
        if matches!(name, DATA_NODE | METADATA_NODE) {
            node.payload = Some(payload);
        }
        self.bytes = bytes - gone + u64::from(place.bytes);
        self.last = number;
    }

    /// The parts of the account's avatar.
    pub(super) fn avatar<'a>(&'a self, card: Option<&'a Element>) -> Parts<'a> {
        let (data, metadata) = (self.nodes.get(DATA_NODE), self.nodes.get(METADATA_NODE));
        let open = |node: &&Coming| node.config.as_ref().is_some_and(|config| config.access == Access::Open);
        Parts {
            card,
            data: data.filter(open).and_then(|node| node.payload.as_deref()),
            metadata: metadata.and_then(|node| node.payload.as_deref()),
            no_nodes: data.is_none() && metadata.is_none(),
        }
    }

    /// Creates the nodes of an avatar with an item each, within the limits of the user.
    pub(super) fn publish_avatar(
        &mut self,
        owner: &str,
        id: &str,
        payloads: [&Vec<u8>; 2],
        now_us: u64,
        batch: &mut Batch,
    ) {
        let bytes: usize = payloads.iter().map(|payload| id.len() + payload.len()).sum();
        let fits = payloads.iter().all(|payload| payload.len() <= NODE_ITEM_BYTES_MAX);
        if !fits || self.nodes.len() + 2 > NODES_MAX || self.bytes + bytes as u64 > NODE_BYTES_MAX {
            return;
        }
        for (name, payload) in [DATA_NODE, METADATA_NODE].into_iter().zip(payloads) {
            self.last += 1;
            let item = Item { at_us: now_us, id, payload };
            let place = Place { number: self.last, bytes: item.bytes() };
            item.put(batch, owner, name, place.number);
            self.bytes += u64::from(place.bytes);
            let config = Config { access: Access::Open, ..Config::default() };
            let items = VecDeque::from([(id.into(), place)]);
            self.nodes.insert(name.into(), Coming { config: Some(config), items, ..Coming::default() });
        }
    }

    /// Writes the directory, and the affiliations and subscriptions.
    pub(super) fn finish(mut self, owner: &str, batch: &mut Batch, counts: &mut Counts, words: &mut Vec<Word>) {
        let mut word = |why: &str| words.push(Word::new("node", why));
        let mut directory = Directory::default();
        directory.last = self.last;
        for (name, node) in &mut self.nodes {
            let config = node.config.take().unwrap_or_else(|| {
                word("its configuration is not in the file: only the owner can see it");
                Config { access: Access::Whitelist, items_max: u32::MAX, ..Config::default() }
            });
            let most = if config.persist { config.items_max() as usize } else { 0 };
            if node.items.len() > most {
                word("it has more items than its configuration allows: the last ones are kept");
            }
            while node.items.len() > most {
                forget(node, 0, owner, name, batch);
            }
            let listed = !node.affiliates.is_empty();
            let entry = directory.configure(name, config);
            (entry.items, entry.listed) = (node.items.len() as u32, listed);
            entry.bytes = node.items.iter().map(|(_, place)| u64::from(place.bytes)).sum();
            if node.affiliates.put(batch, owner, name).is_err() {
                word("it has too many affiliations: none is kept");
                entry.listed = false;
            }
        }
        if directory.nodes().is_empty() {
            return;
        }
        // Writes as many nodes as fit. Names and texts are bounded, so this is nearly always all of
        // them.
        while directory.put(batch, owner).is_err() {
            let Some(name) = directory.nodes().last().map(|node| node.name.clone()) else { return };
            word("there is no room for the configuration of all nodes");
            directory.remove(&name);
            rows::delete_items(batch, owner, &name);
            rows::put_affiliates(batch, owner, &name, b"");
        }
        counts.nodes += directory.nodes().len() as u64;
        counts.items += directory.nodes().iter().map(|node| u64::from(node.items)).sum::<u64>();
    }
}

/// Removes an item that was written. Returns the bytes that it counted for.
fn forget(node: &mut Coming, at: usize, owner: &str, name: &str, batch: &mut Batch) -> u64 {
    let Some((id, place)) = node.items.remove(at) else { return 0 };
    rows::delete_item(batch, owner, name, &id, place.number);
    u64::from(place.bytes)
}

/// Appends the owner's view of a node (XEP-0227 4.10.1).
pub(super) fn write_owner(out: &mut Vec<u8>, node: &Node, affiliates: &Affiliates) {
    out.extend_from_slice(b"<configure");
    write_attribute(out, "node", &node.name);
    out.push(b'>');
    form::write(out, &node.config, "submit", false);
    out.extend_from_slice(b"</configure>");
    if !affiliates.affiliations.is_empty() {
        out.extend_from_slice(b"<affiliations");
        write_attribute(out, "node", &node.name);
        out.push(b'>');
        for (jid, affiliation) in &affiliates.affiliations {
            out.extend_from_slice(b"<affiliation");
            write_attribute(out, "jid", jid);
            let word = if *affiliation == Affiliation::Member { "member" } else { "outcast" };
            write_attribute(out, "affiliation", word);
            out.extend_from_slice(b"/>");
        }
        out.extend_from_slice(b"</affiliations>");
    }
    if !affiliates.subscribers.is_empty() || !affiliates.pending.is_empty() {
        out.extend_from_slice(b"<subscriptions");
        write_attribute(out, "node", &node.name);
        out.push(b'>');
        let subscribed = affiliates.subscribers.iter().map(|jid| (jid, "subscribed"));
        for (jid, state) in subscribed.chain(affiliates.pending.iter().map(|jid| (jid, "pending"))) {
            out.extend_from_slice(b"<subscription");
            write_attribute(out, "jid", jid);
            write_attribute(out, "subscription", state);
            out.extend_from_slice(b"/>");
        }
        out.extend_from_slice(b"</subscriptions>");
    }
}

/// Appends an item.
pub(super) fn write_item(out: &mut Vec<u8>, item: &Item<'_>) {
    out.extend_from_slice(b"<item");
    write_attribute(out, "id", item.id);
    out.push(b'>');
    out.extend_from_slice(item.payload);
    out.extend_from_slice(b"</item>");
}
