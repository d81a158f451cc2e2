//! Nodes of an actor as they are stored: their names and configuration in one row, the directory,
//! and each node's affiliations and subscriptions in another (XEP-0060 4).

use super::super::{Limit, Refusal};
use crate::follow::Follower;
use crate::id::Wall;
use crate::limits::{NODE_AFFILIATES_MAX, NODE_BYTES_MAX, NODE_DIRECTORY_BYTES_MAX, NODE_ITEMS_MAX, NODES_MAX};
use crate::store::{Batch, Found, nodes as rows};
use crate::wire::jid::bare_of;

const FORMAT: u8 = 1;
/// A directory in which each node also has the lifetime of its items. A directory without lifetimes
/// is written in the earlier format.
const FORMAT_EXPIRES: u8 = 2;
/// One in which each node also has its publish model, its owners, and the number of subscribers:
/// for a service's nodes, or for an access model that the earlier formats lack.
const FORMAT_OWNED: u8 = 3;
/// One in which some nodes have had items with keys, with the number up to which items may be lost.
const FORMAT_KEYED: u8 = 4;

/// Who may subscribe to a node and retrieve its items (XEP-0060 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Access {
    /// Anybody.
    Open,
    /// Everybody who may see the owner's presence.
    Presence,
    /// Contacts in certain groups of the owner's roster.
    Roster,
    /// Members only.
    Whitelist,
    /// Subscribers approved by an owner.
    Authorize,
}

/// Who may publish at a node (XEP-0060 16.4.4, `pubsub#publish_model`). Publishers and owners
/// always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PublishModel {
    /// Nobody else.
    Publishers,
    /// Subscribers.
    Subscribers,
    /// Everybody except outcasts.
    Open,
}

/// When the last item is sent without a new publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SendLast {
    /// Never.
    Never,
    /// To a new subscriber.
    OnSub,
    /// Also to a subscriber that becomes available.
    OnSubAndPresence,
}

/// The configuration of a node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// Who may see it.
    pub access: Access,
    /// Who may publish; on an account only its owner.
    pub publish: PublishModel,
    /// When the last item is sent without a new publication.
    pub send_last: SendLast,
    /// Whether items are stored.
    pub persist: bool,
    /// Whether subscribers are notified.
    pub notifications: bool,
    /// Whether only subscribers that are available are notified: the others do not get the items
    /// later. At a service only.
    pub available_only: bool,
    /// Whether notifications include the payload.
    pub payloads: bool,
    /// Whether subscribers are notified when the configuration changes.
    pub notify_config: bool,
    /// Whether they are notified when the node is deleted.
    pub notify_delete: bool,
    /// Whether they are notified when items are removed.
    pub notify_retract: bool,
    /// Limit of stored items; [`u32::MAX`] for the maximum.
    pub items_max: u32,
    /// Lifetime of an item after its publication in seconds; 0 for no limit.
    pub expire_s: u32,
    /// A title for display.
    pub title: Box<str>,
    /// The type of the payload, usually its namespace.
    pub kind: Box<str>,
    /// A description for display.
    pub description: Box<str>,
    /// Groups of the roster, for [`Access::Roster`].
    pub groups: Vec<Box<str>>,
}

impl Default for Config {
    /// XEP-0163 6: for those who may see the owner's presence, one item, sent to each resource that
    /// becomes available.
    fn default() -> Config {
        Config {
            access: Access::Presence,
            publish: PublishModel::Publishers,
            send_last: SendLast::OnSubAndPresence,
            persist: true,
            notifications: true,
            available_only: false,
            payloads: true,
            notify_config: false,
            notify_delete: true,
            notify_retract: true,
            items_max: 1,
            expire_s: 0,
            title: "".into(),
            kind: "".into(),
            description: "".into(),
            groups: Vec::new(),
        }
    }
}

impl Config {
    /// The effective limit of stored items.
    pub fn items_max(&self) -> u32 {
        self.items_max.min(NODE_ITEMS_MAX)
    }

    /// Whether subscribers that are away get items later.
    pub fn catches_up(&self) -> bool {
        self.persist && self.notifications && !self.available_only
    }

    /// Items published before this time have expired, microseconds since the Unix epoch.
    pub fn gone_before_us(&self, now: Wall) -> u64 {
        match self.expire_s {
            0 => 0,
            seconds => now.expiry_us.saturating_sub(u64::from(seconds) * 1_000_000),
        }
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Node {
    /// Its name.
    pub name: Box<str>,
    /// Its configuration.
    pub config: Config,
    /// Number of stored items.
    pub items: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Whether there are affiliations or subscriptions.
    pub listed: bool,
    /// At a service the bare JIDs of its owners, sorted; an account's owner is implicit.
    pub owners: Vec<Box<str>>,
    /// Number of subscribers at a service, including pending ones.
    pub subscribers: u32,
    /// Number of affiliations at a service besides the owners.
    pub affiliated: u32,
    /// For a node that has had items with keys: any missing item after this number was replaced by
    /// a newer one with its key. Up to this number, and in nodes without keys, a missing item may
    /// be lost.
    pub lost: Option<u64>,
}

/// All nodes of an actor, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Directory {
    /// The number of the last publication.
    pub last: u64,
    nodes: Vec<Node>,
}

impl Directory {
    /// Decodes the row; `None` if its format is unknown. No row is an empty directory.
    pub fn decode(row: Option<&[u8]>) -> Option<Directory> {
        let Some(row) = row else { return Some(Directory::default()) };
        let mut from = Reader(row);
        let format = from.byte().filter(|format| (FORMAT..=FORMAT_KEYED).contains(format))?;
        let mut directory = Directory { last: from.number()?, nodes: Vec::new() };
        while !from.0.is_empty() {
            directory.nodes.push(Node::decode(&mut from, format)?);
        }
        Some(directory)
    }

    /// The row.
    pub fn encode(&self) -> Vec<u8> {
        let format = self.nodes.iter().map(Node::format).max().unwrap_or(FORMAT);
        let mut out = vec![format];
        out.extend_from_slice(&self.last.to_be_bytes());
        for node in &self.nodes {
            node.encode(&mut out, format);
        }
        out
    }

    /// Writes the row.
    ///
    /// # Errors
    /// [`Limit::Nodes`] if there are too many nodes, their configuration is too long, or their
    /// items are too large.
    pub fn put(&self, batch: &mut Batch, actor: &str) -> Result<(), Refusal> {
        let row = self.encode();
        let bytes: u64 = self.nodes.iter().map(|node| node.bytes).sum();
        if self.nodes.len() > NODES_MAX || row.len() > NODE_DIRECTORY_BYTES_MAX || bytes > NODE_BYTES_MAX {
            return Err(Limit::Nodes.into());
        }
        rows::put_directory(batch, actor, &row);
        Ok(())
    }

    /// The directory after these writes: `found` is the row before them.
    pub fn after<'a>(found: &Found, written: impl Iterator<Item = &'a Batch>) -> Option<Directory> {
        let Found::Value(row) = found else { return None };
        match written.flat_map(rows::directory_in).last() {
            Some(row) => Directory::decode(Some(row)),
            None => Directory::decode(row.as_deref()),
        }
    }

    /// Sets the directory to no stored items and this number of the last publication.
    pub fn rest(&mut self, last: u64) {
        self.last = last;
        for node in &mut self.nodes {
            (node.items, node.bytes) = (0, 0);
            node.lose(last);
        }
    }

    /// Continues publication numbers after this one: up to it items may be missing.
    pub fn go_on_behind(&mut self, number: u64) {
        self.last = number;
        self.nodes.iter_mut().for_each(|node| node.lose(number));
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| (*node.name).cmp(name))
    }

    /// The node of this name.
    pub fn get(&self, name: &str) -> Option<&Node> {
        Some(&self.nodes[self.find(name).ok()?])
    }

    /// The node of this name.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        let at = self.find(name).ok()?;
        Some(&mut self.nodes[at])
    }

    /// Adds a node, or changes the configuration of the one of this name.
    pub fn configure(&mut self, name: &str, config: Config) -> &mut Node {
        match self.find(name) {
            Ok(at) => {
                self.nodes[at].config = config;
                &mut self.nodes[at]
            }
            Err(at) => {
                self.nodes.insert(at, Node { name: name.into(), config, ..Node::default() });
                &mut self.nodes[at]
            }
        }
    }

    /// Removes a node.
    pub fn remove(&mut self, name: &str) -> Option<Node> {
        Some(self.nodes.remove(self.find(name).ok()?))
    }
}

/// Flags of a node's row.
const PERSIST: u8 = 1;
const NOTIFICATIONS: u8 = 2;
const PAYLOADS: u8 = 4;
const NOTIFY_CONFIG: u8 = 8;
const NOTIFY_DELETE: u8 = 16;
const NOTIFY_RETRACT: u8 = 32;
const LISTED: u8 = 64;
const KEYED: u8 = 128;
/// A flag in the byte that tells when the last item is sent.
const AVAILABLE_ONLY: u8 = 128;

impl Node {
    /// The item with this number has a key: from now on lost items are distinguished from replaced
    /// ones.
    pub fn has_keys(&mut self, number: u64) {
        self.lost.get_or_insert(number.saturating_sub(1));
    }

    /// The item with this number is gone without a replacement.
    pub fn lose(&mut self, number: u64) {
        self.lost = self.lost.map(|lost| lost.max(number));
    }

    /// The oldest format that can represent the directory.
    fn format(&self) -> u8 {
        if self.lost.is_some() {
            return FORMAT_KEYED;
        }
        let config = &self.config;
        let owned = !self.owners.is_empty() || self.subscribers > 0 || self.affiliated > 0;
        if owned || config.access == Access::Authorize || config.publish != PublishModel::Publishers {
            return FORMAT_OWNED;
        }
        if config.expire_s > 0 { FORMAT_EXPIRES } else { FORMAT }
    }

    fn encode(&self, out: &mut Vec<u8>, format: u8) {
        let c = &self.config;
        put_text(out, &self.name);
        let access = match c.access {
            Access::Open => 0,
            Access::Presence => 1,
            Access::Roster => 2,
            Access::Whitelist => 3,
            Access::Authorize => 4,
        };
        let last = match c.send_last {
            SendLast::Never => 0,
            SendLast::OnSub => 1,
            SendLast::OnSubAndPresence => 2,
        };
        let flags = [
            (c.persist, PERSIST),
            (c.notifications, NOTIFICATIONS),
            (c.payloads, PAYLOADS),
            (c.notify_config, NOTIFY_CONFIG),
            (c.notify_delete, NOTIFY_DELETE),
            (c.notify_retract, NOTIFY_RETRACT),
            (self.listed, LISTED),
            (self.lost.is_some(), KEYED),
        ];
        let flags = flags.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
        let available_only = if c.available_only { AVAILABLE_ONLY } else { 0 };
        out.extend_from_slice(&[access, last | available_only, flags]);
        out.extend_from_slice(&c.items_max.to_be_bytes());
        out.extend_from_slice(&self.items.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
        for text in [&c.title, &c.kind, &c.description] {
            put_text(out, text);
        }
        out.push(c.groups.len() as u8);
        for group in &c.groups {
            put_text(out, group);
        }
        if format >= FORMAT_EXPIRES {
            out.extend_from_slice(&c.expire_s.to_be_bytes());
        }
        if format >= FORMAT_OWNED {
            out.push(match c.publish {
                PublishModel::Publishers => 0,
                PublishModel::Subscribers => 1,
                PublishModel::Open => 2,
            });
            out.extend_from_slice(&self.subscribers.to_be_bytes());
            out.extend_from_slice(&self.affiliated.to_be_bytes());
            out.push(self.owners.len() as u8);
            for owner in &self.owners {
                put_text(out, owner);
            }
        }
        if let Some(lost) = self.lost {
            out.extend_from_slice(&lost.to_be_bytes());
        }
    }

    fn decode(from: &mut Reader<'_>, format: u8) -> Option<Node> {
        let name = from.text()?;
        let access = match from.byte()? {
            0 => Access::Open,
            1 => Access::Presence,
            2 => Access::Roster,
            3 => Access::Whitelist,
            4 => Access::Authorize,
            _ => return None,
        };
        let last = from.byte()?;
        let send_last = match last & !AVAILABLE_ONLY {
            0 => SendLast::Never,
            1 => SendLast::OnSub,
            2 => SendLast::OnSubAndPresence,
            _ => return None,
        };
        let flags = from.byte()?;
        let (items_max, items, bytes) = (from.short()?, from.short()?, from.number()?);
        let (title, kind, description) = (from.text()?, from.text()?, from.text()?);
        let groups = (0..from.byte()?).map(|_| from.text()).collect::<Option<_>>()?;
        let expire_s = if format >= FORMAT_EXPIRES { from.short()? } else { 0 };
        let (mut publish, mut subscribers, mut affiliated, mut owners) = (PublishModel::Publishers, 0, 0, Vec::new());
        if format >= FORMAT_OWNED {
            publish = match from.byte()? {
                0 => PublishModel::Publishers,
                1 => PublishModel::Subscribers,
                2 => PublishModel::Open,
                _ => return None,
            };
            (subscribers, affiliated) = (from.short()?, from.short()?);
            owners = (0..from.byte()?).map(|_| from.text()).collect::<Option<_>>()?;
        }
        let lost = match format >= FORMAT_KEYED && flags & KEYED != 0 {
            true => Some(from.number()?),
            false => None,
        };
        let config = Config {
            access,
            publish,
            send_last,
            persist: flags & PERSIST != 0,
            notifications: flags & NOTIFICATIONS != 0,
            available_only: last & AVAILABLE_ONLY != 0,
            payloads: flags & PAYLOADS != 0,
            notify_config: flags & NOTIFY_CONFIG != 0,
            notify_delete: flags & NOTIFY_DELETE != 0,
            notify_retract: flags & NOTIFY_RETRACT != 0,
            items_max,
            expire_s,
            title,
            kind,
            description,
            groups,
        };
        Some(Node { name, config, items, bytes, listed: flags & LISTED != 0, owners, subscribers, affiliated, lost })
    }
}

/// An entity's affiliation with a node (XEP-0060 4.1). The owner of an account's nodes is in no
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Affiliation {
    /// May do everything; only at a service.
    Owner,
    /// May publish and see it; only at a service.
    Publisher,
    /// On the whitelist.
    Member,
    /// May not see it in any case.
    Outcast,
}

/// A node's affiliations and subscriptions.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Affiliates {
    /// Bare JIDs, sorted.
    pub affiliations: Vec<(Box<str>, Affiliation)>,
    /// Bare or full JIDs, sorted.
    pub subscribers: Vec<Box<str>>,
    /// Those whose subscriptions wait for approval (XEP-0060 8.6), sorted.
    pub pending: Vec<Box<str>>,
    /// Those who withdrew their requests, sorted: on a repeated request the owner has been asked
    /// already.
    pub withdrawn: Vec<Box<str>>,
    /// In lists with one subscriber of a service's node, its position among the items.
    pub(super) follower: Follower,
}

impl Affiliates {
    /// Decodes the row; `None` if its format is unknown. No row means none.
    pub fn decode(row: Option<&[u8]>) -> Option<Affiliates> {
        let Some(row) = row else { return Some(Affiliates::default()) };
        let mut from = Reader(row);
        if from.byte()? != FORMAT {
            return None;
        }
        let mut all = Affiliates::default();
        while !from.0.is_empty() {
            let (kind, jid) = (from.byte()?, from.text()?);
            match kind {
                0 => all.affiliations.push((jid, Affiliation::Member)),
                1 => all.affiliations.push((jid, Affiliation::Outcast)),
                2 => all.subscribers.push(jid),
                3 => all.pending.push(jid),
                4 => all.withdrawn.push(jid),
                _ => return None,
            }
        }
        Some(all)
    }

    fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut out = vec![FORMAT];
        for (jid, affiliation) in &self.affiliations {
            // An account's lists have no owners or publishers.
            out.push((*affiliation == Affiliation::Outcast) as u8);
            put_text(&mut out, jid);
        }
        for jid in &self.subscribers {
            out.push(2);
            put_text(&mut out, jid);
        }
        for (kind, list) in [(3, &self.pending), (4, &self.withdrawn)] {
            for jid in list {
                out.push(kind);
                put_text(&mut out, jid);
            }
        }
        out
    }

    /// Writes the row.
    ///
    /// # Errors
    /// [`Limit::Nodes`] if there are too many.
    pub fn put(&self, batch: &mut Batch, actor: &str, node: &str) -> Result<(), Refusal> {
        let row = self.encode();
        let wanting = self.pending.len() + self.withdrawn.len();
        let most = self.affiliations.len().max(self.subscribers.len()).max(wanting);
        if most > NODE_AFFILIATES_MAX || row.len() > NODE_DIRECTORY_BYTES_MAX {
            return Err(Limit::Nodes.into());
        }
        rows::put_affiliates(batch, actor, node, &row);
        Ok(())
    }

    /// Whether all lists are empty.
    pub fn is_empty(&self) -> bool {
        self.affiliations.is_empty()
            && self.subscribers.is_empty()
            && self.pending.is_empty()
            && self.withdrawn.is_empty()
    }

    fn find(&self, bare: &str) -> Result<usize, usize> {
        self.affiliations.binary_search_by(|(jid, _)| (**jid).cmp(bare))
    }

    /// The affiliation of a bare JID.
    pub fn affiliation(&self, bare: &str) -> Option<Affiliation> {
        Some(self.affiliations[self.find(bare).ok()?].1)
    }

    /// Changes the affiliation of a bare JID.
    pub fn affiliate(&mut self, bare: &str, affiliation: Option<Affiliation>) {
        match (self.find(bare), affiliation) {
            (Ok(at), Some(affiliation)) => self.affiliations[at].1 = affiliation,
            (Ok(at), None) => drop(self.affiliations.remove(at)),
            (Err(at), Some(affiliation)) => self.affiliations.insert(at, (bare.into(), affiliation)),
            (Err(_), None) => {}
        }
    }

    /// Removes all addresses of a user from the lists of subscribers and of pending ones. Returns
    /// whether the user was subscribed, and whether the owner had been asked.
    fn take_out(&mut self, bare: &str) -> (bool, bool) {
        let without = |list: &mut Vec<Box<str>>| {
            let before = list.len();
            list.retain(|other| bare_of(other) != bare);
            list.len() < before
        };
        let subscribed = without(&mut self.subscribers);
        let asked = without(&mut self.pending) | without(&mut self.withdrawn);
        (subscribed, asked)
    }

    /// Adds a subscriber. A user has at most one address: the latest.
    pub fn subscribe(&mut self, jid: &str) {
        self.take_out(bare_of(jid));
        put_sorted(&mut self.subscribers, jid);
    }

    /// Adds a request for a subscription; an existing subscription stays. Returns whether the owner
    /// has to be asked.
    pub fn want(&mut self, jid: &str) -> bool {
        if self.is_subscribed(bare_of(jid)) {
            self.subscribe(jid);
            return false;
        }
        let (_, asked) = self.take_out(bare_of(jid));
        put_sorted(&mut self.pending, jid);
        !asked
    }

    /// Whether a user is subscribed, with any address.
    pub fn is_subscribed(&self, bare: &str) -> bool {
        self.subscribers.iter().any(|jid| bare_of(jid) == bare)
    }

    /// The address of a user's pending request.
    pub fn pending(&self, bare: &str) -> Option<Box<str>> {
        self.pending.iter().find(|jid| bare_of(jid) == bare).cloned()
    }

    /// Ends a user's subscription and pending request.
    pub fn end(&mut self, bare: &str) {
        self.take_out(bare);
    }

    /// Removes a subscriber; false if there was none. A withdrawn request is remembered.
    pub fn unsubscribe(&mut self, jid: &str) -> bool {
        if let Ok(at) = self.subscribers.binary_search_by(|other| (**other).cmp(jid)) {
            self.subscribers.remove(at);
            return true;
        }
        let Ok(at) = self.pending.binary_search_by(|other| (**other).cmp(jid)) else { return false };
        self.pending.remove(at);
        put_sorted(&mut self.withdrawn, bare_of(jid));
        true
    }
}

fn put_sorted(list: &mut Vec<Box<str>>, jid: &str) {
    if let Err(at) = list.binary_search_by(|other| (**other).cmp(jid)) {
        list.insert(at, jid.into());
    }
}

/// An entity that wants to see a node, with the facts that decide about access.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'a> {
    /// The JID.
    pub jid: &'a str,
    /// Whether it is the owner's own.
    pub owner: bool,
    /// Whether it may see the owner's presence.
    pub presence: bool,
    /// Groups of the owner's roster that include it.
    pub groups: &'a [Box<str>],
}

/// Why an entity may not see a node (XEP-0060 6.5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It may not see the owner's presence.
    Presence,
    /// It is in none of the groups.
    Group,
    /// It is not on the whitelist.
    Closed,
    /// It is an outcast.
    Outcast,
    /// It is not subscribed, or not approved yet.
    Unsubscribed,
}

/// The facts about a node that decide who may see it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Audience {
    /// The access model.
    pub access: Access,
    /// For [`Access::Roster`].
    pub groups: Vec<Box<str>>,
    /// Its affiliations and subscriptions.
    pub affiliates: Affiliates,
}

impl Audience {
    /// The audience of a node.
    pub fn of(config: &Config, affiliates: Affiliates) -> Audience {
        Audience { access: config.access, groups: config.groups.clone(), affiliates }
    }

    /// Checks that an entity may see the node.
    pub fn may(&self, viewer: Viewer<'_>) -> Result<(), Denied> {
        may(self.access, &self.groups, &self.affiliates, viewer)
    }
}

/// Checks that an entity may see a node.
///
/// # Errors
/// The reason why it may not.
pub fn may(access: Access, groups: &[Box<str>], affiliates: &Affiliates, viewer: Viewer<'_>) -> Result<(), Denied> {
    if viewer.owner {
        return Ok(());
    }
    let affiliation = affiliates.affiliation(bare_of(viewer.jid));
    match (access, affiliation) {
        (_, Some(Affiliation::Outcast)) => Err(Denied::Outcast),
        (Access::Open, _) => Ok(()),
        (_, Some(_)) => Ok(()),
        (Access::Presence, None) if viewer.presence => Ok(()),
        (Access::Presence, None) => Err(Denied::Presence),
        (Access::Roster, None) if viewer.presence && viewer.groups.iter().any(|group| groups.contains(group)) => Ok(()),
        (Access::Roster, None) => Err(Denied::Group),
        (Access::Whitelist, None) => Err(Denied::Closed),
        (Access::Authorize, None) if affiliates.is_subscribed(bare_of(viewer.jid)) => Ok(()),
        (Access::Authorize, None) => Err(Denied::Unsubscribed),
    }
}

/// The rest of a row.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn short(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(super) fn text(&mut self) -> Option<Box<str>> {
        let len = u16::from_be_bytes(self.take(2)?.try_into().ok()?);
        Some(std::str::from_utf8(self.take(usize::from(len))?).ok()?.into())
    }
}

/// Appends a text with its length in two bytes; all texts are far shorter than 64 KiB.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).expect("texts of nodes are bounded");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Box<str>> {
        "[a-z\u{e9}:/#]{0,20}".prop_map(Into::into)
    }

    fn config() -> impl Strategy<Value = Config> {
        use Access::*;
        let access = prop::sample::select(vec![Open, Presence, Roster, Whitelist, Authorize]);
        let publish = vec![PublishModel::Publishers, PublishModel::Subscribers, PublishModel::Open];
        let access = (access, prop::sample::select(publish));
        let last = prop::sample::select(vec![SendLast::Never, SendLast::OnSub, SendLast::OnSubAndPresence]);
        let texts = (text(), text(), text(), prop::collection::vec(text(), 0..4));
        let numbers = (any::<u32>(), prop::sample::select(vec![0, 1, u32::MAX]));
        (access, last, any::<[bool; 7]>(), numbers, texts).prop_map(
            |((access, publish), send_last, on, (items_max, expire_s), texts)| {
                let (title, kind, description, groups) = texts;
                let [persist, notifications, payloads, notify_config, notify_delete, notify_retract, available_only] =
                    on;
                Config {
                    access,
                    publish,
                    send_last,
                    persist,
                    notifications,
                    available_only,
                    payloads,
                    notify_config,
                    notify_delete,
                    notify_retract,
                    items_max,
                    expire_s,
                    title,
                    kind,
                    description,
                    groups,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_directory_reads_back(names in prop::collection::vec((text(), config(), any::<u32>()), 0..6), last: u64) {
            let mut directory = Directory { last, ..Directory::default() };
            for (name, config, items) in names {
                let node = directory.configure(&name, config);
                (node.items, node.bytes, node.listed) = (items, u64::from(items) * 7, items % 2 == 0);
                (node.subscribers, node.affiliated) = (items % 3, items % 5);
                node.owners = (0..items % 4).map(|n| format!("owner{n}@x").into()).collect();
                node.lost = (items % 7 == 0).then_some(u64::from(items));
            }
            prop_assert!(directory.nodes.is_sorted_by(|a, b| a.name < b.name));
            let row = directory.encode();
            prop_assert_eq!(Directory::decode(Some(&row)), Some(directory));
            for cut in 1..row.len().min(40) {
                // A truncated row is invalid or has fewer nodes; decoding never panics.
                let _ = Directory::decode(Some(&row[..row.len() - cut]));
            }
        }

        #[test]
        fn any_row_is_read_without_a_panic(row in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Directory::decode(Some(&row)), Affiliates::decode(Some(&row)));
        }

        #[test]
        fn affiliates_read_back(jids in prop::collection::vec((text(), 0u8..5), 0..8)) {
            let mut all = Affiliates::default();
            for (jid, kind) in jids {
                match kind {
                    0 => all.affiliate(&jid, Some(Affiliation::Member)),
                    1 => all.affiliate(&jid, Some(Affiliation::Outcast)),
                    2 => all.subscribe(&jid),
                    3 => drop(all.want(&jid)),
                    _ => drop((all.want(&jid), all.unsubscribe(&jid))),
                }
            }
            let row = all.encode();
            prop_assert_eq!(Affiliates::decode((!row.is_empty()).then_some(&row)), Some(all));
        }
    }

    #[test]
    fn access_is_by_the_model_xep_0060_4_5() {
        let mut affiliates = Affiliates::default();
        affiliates.affiliate("member@x", Some(Affiliation::Member));
        affiliates.affiliate("outcast@x", Some(Affiliation::Outcast));
        let groups: Vec<Box<str>> = vec!["friends".into()];
        let may = |access, jid, presence, of: &[Box<str>]| {
            may(access, &groups, &affiliates, Viewer { jid, owner: false, presence, groups: of })
        };
        use Access as A;
        for (access, jid, presence, of, expected) in [
            (A::Open, "stranger@x/r", false, &[][..], Ok(())),
            (A::Open, "outcast@x/r", true, &groups[..], Err(Denied::Outcast)),
            (A::Presence, "stranger@x", false, &[], Err(Denied::Presence)),
            (A::Presence, "friend@x/r", true, &[], Ok(())),
            (A::Presence, "outcast@x", true, &[], Err(Denied::Outcast)),
            (A::Roster, "friend@x", true, &["family".into()], Err(Denied::Group)),
            (A::Roster, "friend@x", true, &["family".into(), "friends".into()], Ok(())),
            (A::Roster, "friend@x", false, &["friends".into()], Err(Denied::Group)),
            (A::Whitelist, "friend@x", true, &groups[..], Err(Denied::Closed)),
            (A::Whitelist, "member@x/r", false, &[], Ok(())),
        ] {
            assert_eq!(may(access, jid, presence, of), expected, "{access:?} {jid}");
        }
    }

    #[test]
    fn a_directory_is_bounded() {
        let mut directory = Directory::default();
        for n in 0..NODES_MAX {
            directory.configure(&format!("node{n}"), Config::default());
        }
        assert!(directory.put(&mut Batch::new(), "a@x").is_ok());
        directory.configure("one more", Config::default());
        assert!(directory.put(&mut Batch::new(), "a@x").is_err());
        let mut directory = Directory::default();
        directory.configure("n", Config::default()).bytes = NODE_BYTES_MAX + 1;
        assert!(directory.put(&mut Batch::new(), "a@x").is_err());
    }
}
