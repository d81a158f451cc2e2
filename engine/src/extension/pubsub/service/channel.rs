//! Nodes as notification channels: publishing and reading by HTTP, by clients of which only an
//! address is known.
//!
//! An item has a content type and content by HTTP, and one element by XMPP. Each form is derived
//! from the other: JSON is a `<json/>` of XEP-0335, other content a `<data/>` of this server's own,
//! and any other element is content of the type `application/xml`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;

use super::super::super::change::Change;
use super::super::super::datetime::{self, Precision};
use super::super::super::iq::Step;
use super::super::event::Event;
use super::super::keep::Oldest;
use super::super::node::{Access, Audience, Config, Directory, PublishModel, SendLast};
use super::super::notice::News;
use super::super::{Answered, Asked, error, found_directory, keep, place, range, row, step, xml};
use super::info::Info;
use super::known::{self, Known};
use super::node_of;
use super::notify;
use super::said::show;
use crate::follow::Page;
use crate::id::Wall;
use crate::limits::KNOWN_IDS_MAX;
use crate::store::nodes::{self as rows, Item, Named, Place, Span};
use crate::store::{Batch, Found, Query};
use crate::wire::element::Element;
use crate::wire::json;
use crate::wire::limit::Limit;
use crate::wire::written::read_back;

/// Namespace of content that is published by HTTP and is not JSON.
pub const NS: &str = "urn:throng:notify:0";

/// Namespace of JSON (XEP-0335 3).
const NS_JSON: &str = "urn:xmpp:json:0";

/// The content type that becomes a `<json/>`.
pub const JSON: &str = "application/json";

/// Number of the next items to be dropped that a publication reads for later ones, of limited total
/// size.
const AHEAD_ITEMS: u32 = 16;
const AHEAD_BYTES: u32 = 8 << 10;

/// A publication by HTTP: one item or a batch.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Publication {
    /// The node's actor.
    pub actor: Box<str>,
    /// The service's domain.
    pub service: Box<str>,
    /// Whether the publisher has presented a token, so that it may publish whatever the node's
    /// configuration.
    pub trusted: bool,
    /// Whether the channel is private: a new node is then for members only by XMPP.
    pub private: bool,
    /// Whether a missing node may be created.
    pub makes: bool,
    /// The publisher's key for it, which detects repetitions; for a batch, that of its last item.
    pub key: Option<Box<str>>,
    /// The elements of its items: one, or those of a batch, at most
    /// [`NOTIFY_BATCH_ITEMS_MAX`](crate::limits::NOTIFY_BATCH_ITEMS_MAX).
    pub payloads: Vec<Vec<u8>>,
    /// For each of these the key by which it replaces the previous item; empty if there are no
    /// keys.
    pub keys: Vec<Box<str>>,
    /// Whether it is a batch, even one with a single item.
    pub batch: bool,
    /// Limit of stored items if the node is created.
    pub items_max: u32,
    /// Lifetime of its items in seconds; 0 for no limit.
    pub items_s: u32,
    /// Number of subscribers, and seconds since the last request of one, if known.
    pub crowd: (u32, Option<u32>),
    /// The turn's time.
    pub now: Wall,
}

/// The outcome of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The item's number; for a batch, that of the last one.
    pub number: u64,
    /// Number of items in the batch; 0 if it is not a batch.
    pub items: u8,
    /// Whether it had been published before, with this key.
    pub repeated: bool,
    /// Whether the node was created for it.
    pub made: bool,
    /// The new state of the channel.
    pub info: Info,
}

impl Published {
    fn encode(self) -> Vec<u8> {
        let flags = u8::from(self.repeated) | u8::from(self.made) << 1;
        let mut out = [&self.number.to_be_bytes()[..], &[self.items, flags]].concat();
        self.info.encode(&mut out);
        out
    }

    /// The numbers of the items of a batch.
    pub fn batch(self) -> Option<impl Iterator<Item = u64>> {
        let first = self.number.saturating_sub(u64::from(self.items)) + 1;
        (self.items > 0).then_some(first..=self.number)
    }

    /// Decodes the answer.
    pub fn decode(answer: &[u8]) -> Option<Published> {
        let (number, [items, flags, info @ ..]) = answer.split_first_chunk()? else { return None };
        let (number, items, info) = (u64::from_be_bytes(*number), *items, Info::decode(info)?);
        Some(Published { number, items, repeated: flags & 1 != 0, made: flags & 2 != 0, info })
    }
}

/// The configuration of a node that is created by a publication.
fn made(publication: &Publication) -> Config {
    Config {
        access: if publication.private { Access::Whitelist } else { Access::Open },
        publish: if publication.trusted { PublishModel::Publishers } else { PublishModel::Open },
        send_last: SendLast::Never,
        items_max: publication.items_max,
        expire_s: publication.items_s,
        ..Config::default()
    }
}

/// Publishes all items or none. To everyone else each is an item of its own. If the `known` facts
/// about the node do not suffice, it reads first, in the node's turn, in which no other request
/// changes it.
pub fn publish(publication: Publication, known: Option<Known>) -> Step {
    let plan = Plan::new(publication);
    let known = match known {
        Some(known) if plan.suffices(&known) => {
            // No item has its id.
            return step(plan.carry_out(known, &[Found::Value(None)]));
        }
        known => known,
    };
    let (queries, asks_ids) = plan.queries(known.as_ref());
    let before = known.and_then(|known| known.ids);
    Step::InTurn(queries, super::Pending::Channel(Pending::Publish { plan, asks_ids, before }).into())
}

fn publish_found(plan: &Plan, asks_ids: bool, before: Option<VecDeque<u64>>, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    let oldest = range(found.get(1))?.0.iter().map_while(Oldest::of).collect();
    let is_empty = directory.get(&plan.node).is_none_or(|node| node.items == 0);
    let ids = match found.last() {
        Some(Found::Rows { rows, more: false }) if asks_ids => known::ids(rows),
        _ if is_empty => Some(VecDeque::new()),
        _ => before,
    };
    plan.carry_out(Known { directory, ids, oldest }, found)
}

/// The reads about channels.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[expect(clippy::large_enum_variant, reason = "what an extension waits for is boxed")]
pub(crate) enum Pending {
    /// A publication that waits for the node; the ids of its items, or those known before.
    Publish { plan: Plan, asks_ids: bool, before: Option<VecDeque<u64>> },
    /// A node, and its items.
    Read(Wanted),
    /// The nodes of these actors, and some of their items.
    Gather { wanted: Gathered, actors: BTreeSet<Arc<str>> },
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::Publish { plan, asks_ids, before } => publish_found(&plan, asks_ids, before, found),
            Pending::Read(wanted) => read_found(&wanted, found),
            Pending::Gather { wanted, actors } => gathered(&wanted, &actors, found).map(Step::Result),
        }
    }
}

/// A publication with the data derived from it alone.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Plan {
    publication: Publication,
    asked: Asked,
    node: Box<str>,
    /// The id of the last item, unless it is generated here: that item is kept the longest.
    id: Option<String>,
    /// The last item of each key, which is the one that is stored.
    last_of: BTreeMap<Box<str>, usize>,
}

impl Plan {
    fn new(publication: Publication) -> Plan {
        let asked = Asked::of_service(&publication.actor, &publication.service, publication.now);
        let node = node_of(&publication.actor).into();
        let id = match publication.keys.last() {
            Some(key) => Some(rows::keyed(key)),
            None => publication.key.as_ref().map(|key| format!("k-{key}")),
        };
        let last_of = (0..).zip(&publication.keys).map(|(at, key)| (key.clone(), at)).collect();
        Plan { publication, asked, node, id, last_of }
    }

    /// Whether no read is needed: no item has its id, the items to be dropped are known, and there
    /// are no subscribers to find.
    fn suffices(&self, known: &Known) -> bool {
        let Some(node) = known.directory.get(&self.node) else { return false };
        let more = self.publication.payloads.len() as u32;
        let is_new = self.id.as_ref().is_none_or(|id| known.lacks(id));
        let tells_nobody = node.subscribers == 0 || !node.config.notifications;
        let makes_room = known.makes_room(&node.config, node.items, more);
        self.publication.keys.is_empty() && is_new && tells_nobody && makes_room
    }

    /// The queries, and whether they include the ids of all items: useful for the next publications
    /// if items follow each other.
    fn queries(&self, known: Option<&Known>) -> (Vec<Query>, bool) {
        let (actor, node) = (&*self.publication.actor, &*self.node);
        let mut queries = vec![
            rows::directory(actor),
            rows::place(actor, node, self.id.as_deref().unwrap_or_default()),
            // The items that are dropped if the node is full.
            match self.publication.payloads.len() as u32 {
                1 if known.is_some() => rows::items(actor, node, Span::all(AHEAD_ITEMS, AHEAD_BYTES)),
                1 => rows::items(actor, node, Span::all(1, 1)),
                items => rows::items(actor, node, Span::all(items, u32::MAX)),
            },
        ];
        queries.extend(self.last_of.keys().map(|key| rows::place(actor, node, &rows::keyed(key))));
        let items = known.and_then(|known| Some(known.directory.get(node)?.items)).unwrap_or(u32::MAX);
        let lacks_ids = known.is_some_and(|known| known.ids.is_none()) && items as usize <= KNOWN_IDS_MAX;
        let asks_ids = lacks_ids && self.publication.key.is_some() && self.publication.keys.is_empty();
        queries.extend(asks_ids.then(|| rows::ids(actor, node, KNOWN_IDS_MAX as u32)));
        (queries, asks_ids)
    }

    /// Publishes with these known facts. `found` has the place of the last item's id, one further
    /// result, and the places of keys.
    fn carry_out(&self, mut known: Known, found: &[Found]) -> Answered {
        let Plan { publication, asked, node, id: own_id, last_of } = self;
        let directory = &mut known.directory;
        let there = directory.get(node).map(|node| node.config.clone());
        let config = there.clone().unwrap_or_else(|| made(publication));
        if !publication.trusted && (config.access != Access::Open || config.publish != PublishModel::Open) {
            return Err(error::FORBIDDEN);
        }
        if there.is_none() && !publication.makes {
            return Err(Limit::Nodes.into());
        }
        let items = if publication.batch { publication.payloads.len() as u8 } else { 0 };
        let info = |number, kept| {
            let (subscribers, requested_s) = publication.crowd;
            Info { there: true, kept, last: (number, publication.now.wall_us / 1_000_000), subscribers, requested_s }
        };
        if let Some(before) = repeated(publication, found)? {
            let (number, kept) = (before.number, directory.get(node).map_or(0, |node| node.items));
            let info = info(number, kept);
            return Ok(Step::Result(Published { number, items, repeated: true, made: false, info }.encode()));
        }
        // XEP-0060 7.1.3.6: items of such a node have no content. And a node that stores nothing
        // cannot recognise a key.
        if !config.persist && (!config.payloads || publication.key.is_some()) {
            return Err(error::NOT_ACCEPTABLE);
        }
        let mut batch = Batch::new();
        if there.is_none() {
            // Rows left by an interrupted deletion do not belong to the new node.
            [Named::Members, Named::Affiliated].into_iter().for_each(|kind| kind.delete_all(&mut batch, &asked.actor));
            directory.configure(node, config.clone());
        }
        let first = directory.last + 1;
        directory.last += publication.payloads.len() as u64;
        let last = directory.last;
        let id = |(number, key): (u64, Option<&Box<str>>)| match key {
            Some(key) => rows::keyed(key),
            None => own_id.clone().filter(|_| number == last).unwrap_or(format!("{:x}-{number:x}", asked.now.wall_us)),
        };
        let keys = publication.keys.iter().map(Some).chain(std::iter::repeat(None));
        let ids: Vec<_> = (first..=last).zip(keys).map(id).collect();
        let item = |(id, payload)| Item { at_us: asked.now.wall_us, id, payload };
        let items_of = || (first..).zip(ids.iter().zip(&publication.payloads).map(|(id, payload)| item((id, payload))));
        let is_last = |item: &Item<'_>, number: u64| {
            item.key().is_none_or(|key| last_of.get(key).is_none_or(|at| first + *at as u64 == number))
        };
        let kept: Vec<_> = items_of().filter(|(number, item)| is_last(item, *number)).collect();
        store(publication, &mut known, &mut batch, (node, &kept), last_of.keys(), found)?;
        known.directory.put(&mut batch, &asked.actor)?;
        let entry = known.directory.get(node).ok_or(error::NOT_FOUND)?;
        let audience = || Audience::of(&config, Default::default());
        let event = |number: u64, item: &Item<'_>| {
            Event::published(node, &config, audience(), Some(item)).numbered(number, &config)
        };
        let tells = config.notifications && entry.subscribers > 0;
        let events: Vec<_> = items_of().filter(|_| tells).map(|(number, item)| event(number, &item)).collect();
        let mut more: Vec<Change> = there.is_none().then(|| show(asked, entry)).into_iter().collect();
        more.extend(items_of().filter_map(|(number, item)| news(asked, &config, number, &item)));
        let info = info(last, entry.items);
        let answer = Published { number: last, items, repeated: false, made: there.is_none(), info }.encode();
        let told = notify::notify(asked, entry, batch, events, answer);
        // If items replace each other, the remaining ones are not known.
        if publication.keys.is_empty() {
            more.push(Change::Known { node: asked.actor.clone(), known: Box::new(known) });
        }
        Ok(told.with(more))
    }
}

/// The place of the last item if this is a repetition. An item with a replacement key records its
/// publication key; for others that is the id.
fn repeated(publication: &Publication, found: &[Found]) -> Result<Option<Place>, error::Error> {
    let Some(key) = &publication.key else { return Ok(None) };
    let before = place(found.first())?;
    let by = found.first().and_then(row).flatten().map_or("", Place::by);
    Ok(before.filter(|_| publication.keys.is_empty() || *by == **key))
}

/// Stores the items that are kept, each with its number: an item that is not the last of its key is
/// only sent to subscribers. `keys` are those whose places are in `found`.
fn store<'a>(
    publication: &Publication,
    known: &mut Known,
    batch: &mut Batch,
    (node, kept): (&str, &[(u64, Item<'_>)]),
    keys: impl Iterator<Item = &'a Box<str>>,
    found: &[Found],
) -> Result<(), error::Error> {
    let (last, actor) = (known.directory.last, &*publication.actor);
    let entry = known.directory.get_mut(node).ok_or(error::NOT_FOUND)?;
    let knows_all = known.oldest.len() == entry.items as usize;
    if !entry.config.persist {
        entry.lose(last);
        return Ok(());
    }
    if !publication.keys.is_empty() {
        entry.has_keys(last + 1 - publication.payloads.len() as u64);
    }
    let mut replaced = BTreeSet::new();
    for (key, found) in keys.zip(found.iter().skip(2)) {
        let Some(before) = place(Some(found))? else { continue };
        replaced.insert(before.number);
        keep::replace(entry, batch, actor, &rows::keyed(key), before);
    }
    // Items that later ones of the batch would push out are only sent to subscribers.
    let told_only = kept.len().saturating_sub(entry.config.items_max() as usize);
    kept[..told_only].iter().for_each(|(number, _)| entry.lose(*number));
    let mut oldest = known.oldest.iter().filter(|item| !replaced.contains(&item.number)).peekable();
    let (mut gone, gone_us) = (0, entry.config.gone_before_us(publication.now));
    for (number, item) in &kept[told_only..] {
        let by = publication.key.as_deref().filter(|_| *number == last && item.key().is_some());
        if keep::store(
            entry,
            batch,
            actor,
            (item, by.unwrap_or_default(), gone_us),
            *number,
            None,
            oldest.peek().copied(),
        )? {
            oldest.next();
            gone += 1;
        }
    }
    known.lose(gone);
    for (number, item) in &kept[told_only..] {
        known.keep(item.id);
        if knows_all && known.oldest.len() < AHEAD_ITEMS as usize {
            known.oldest.push_back(Oldest {
                number: *number,
                at_us: item.at_us,
                id: item.id.into(),
                bytes: item.bytes(),
            });
        }
    }
    Ok(())
}

/// Delivers this item to the HTTP clients that wait for it and may read it.
pub(in crate::extension::pubsub) fn news(
    asked: &Asked,
    config: &Config,
    number: u64,
    item: &Item<'_>,
) -> Option<Change> {
    let told = asked.service && config.notifications;
    let (id, payload) = (item.id.into(), if config.payloads { item.payload.to_vec() } else { Vec::new() });
    let open = config.access == Access::Open;
    let news = || News { actor: asked.actor.clone(), open, number, at_us: item.at_us, id, payload };
    told.then(|| Change::News(Box::new(news())))
}

/// The requested items.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Wanted {
    /// The node's actor.
    pub actor: Box<str>,
    /// Only those after this number.
    pub after: Option<u64>,
    /// Only those before this number, in descending order. Without either, no items: only the
    /// channel's position.
    pub before: Option<u64>,
    /// Whether the requester has presented a token that permits reading, whatever the node's
    /// configuration.
    pub private: bool,
    /// Limit of items.
    pub items_max: u32,
    /// Stop after the item that reaches this many bytes.
    pub bytes_max: u32,
    /// The turn's time.
    pub now: Wall,
}

/// Reads items.
pub fn read(wanted: Wanted) -> Step {
    let mut queries = vec![rows::directory(&wanted.actor)];
    if wanted.after.is_some() || wanted.before.is_some() {
        let (after, reverse) = (wanted.after.unwrap_or_default(), wanted.before.is_some());
        let before = wanted.before.unwrap_or(u64::MAX);
        let span = Span { after, before, reverse, ..Span::all(wanted.items_max, wanted.bytes_max) };
        queries.push(rows::items(&wanted.actor, node_of(&wanted.actor), span));
    }
    Step::Read(queries, super::Pending::Channel(Pending::Read(wanted)).into())
}

fn read_found(wanted: &Wanted, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    Ok(Step::Result(page(wanted, node_of(&wanted.actor), &directory, found)?.encode()))
}

fn page<'a>(
    wanted: &Wanted,
    node: &str,
    directory: &super::super::Directory,
    found: &'a [Found],
) -> Result<Page<'a>, error::Error> {
    let last = directory.last;
    // For items before a number, nothing is known to be missing.
    let Some(after) = wanted.after.or(wanted.before.map(|_| 0)) else {
        return match directory.get(node) {
            Some(node) if !wanted.private && node.config.access != Access::Open => Err(error::FORBIDDEN),
            _ => Ok(Page { last, upto: last, ..Page::default() }),
        };
    };
    // A missing node has no items yet. All items up to its last number are gone.
    let Some(entry) = directory.get(node) else {
        return Ok(Page { last, upto: last, gap: after > 0 && after < last, ..Page::default() });
    };
    if !wanted.private && entry.config.access != Access::Open {
        return Err(error::FORBIDDEN);
    }
    let gone_us = entry.config.gone_before_us(wanted.now);
    let (found, more) = range(found.first())?;
    let (mut items, mut read, mut next) = (Vec::new(), after.min(last), after.saturating_add(1));
    let (mut gap, lost) = (after > last, entry.lost.unwrap_or(u64::MAX));
    for row in found {
        let (number, item) = (rows::number_of(&row.sort), Item::decode(&row.value));
        let (number, item) = (number.ok_or(error::UNREADABLE)?, item.ok_or(error::UNREADABLE)?);
        read = number;
        // A reader from the beginning misses nothing through removals.
        let is_gone = item.at_us < gone_us;
        gap |= ((number > next && next <= lost) || is_gone) && after > 0;
        next = number + 1;
        if is_gone {
            continue;
        }
        items.push((number, Cow::Owned(written(node, number, &item, entry.config.payloads))));
    }
    let upto = if more { read } else { last.max(read) };
    gap |= !more && upto >= next && next <= lost && after > 0;
    Ok(Page { last: last.max(read), upto, more, gap, items })
}

/// An item of a channel.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Picked {
    /// The node's actor.
    pub actor: Arc<str>,
    /// Its number there.
    pub number: u64,
    /// Whether the requester has presented a token that permits reading, whatever the node's
    /// configuration.
    pub private: bool,
}

/// Items of channels of one home, in an order with its own numbers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Gathered {
    /// They follow this number consecutively.
    pub from: u64,
    /// The last number of that order.
    pub last: u64,
    /// Whether some before them are missing.
    pub gap: bool,
    /// The items.
    pub picked: Vec<Picked>,
    /// The turn's time.
    pub now: Wall,
}

/// Reads items of several channels. Items that the requester may no longer read are left out.
pub fn gather(wanted: Gathered) -> Step {
    let actors: BTreeSet<Arc<str>> = wanted.picked.iter().map(|picked| picked.actor.clone()).collect();
    let item = |picked: &Picked| rows::item(&picked.actor, node_of(&picked.actor), picked.number);
    let queries = actors.iter().map(|actor| rows::directory(actor)).chain(wanted.picked.iter().map(item)).collect();
    Step::Read(queries, super::Pending::Channel(Pending::Gather { wanted, actors }).into())
}

fn gathered(wanted: &Gathered, actors: &BTreeSet<Arc<str>>, found: &[Found]) -> Result<Vec<u8>, error::Error> {
    let (directories, found) = found.split_at_checked(actors.len()).ok_or(error::UNREADABLE)?;
    let read = |(actor, found): (&Arc<str>, &Found)| Some((actor.clone(), Directory::decode(row(found)?)?));
    let directories: BTreeMap<_, _> =
        actors.iter().zip(directories).map(read).collect::<Option<_>>().ok_or(error::UNREADABLE)?;
    let (mut items, mut gap) = (Vec::new(), wanted.gap);
    for (number, (picked, found)) in (wanted.from + 1..).zip(wanted.picked.iter().zip(found)) {
        let node = node_of(&picked.actor);
        let Some(entry) = directories.get(&picked.actor).and_then(|directory| directory.get(node)) else {
            gap = true;
            continue;
        };
        if !picked.private && entry.config.access != Access::Open {
            continue;
        }
        let Some(found) = row(found).ok_or(error::UNREADABLE)? else {
            // Otherwise a later item of its key has replaced it.
            gap |= picked.number <= entry.lost.unwrap_or(u64::MAX);
            continue;
        };
        let item = Item::decode(found).ok_or(error::UNREADABLE)?;
        if item.at_us < entry.config.gone_before_us(wanted.now) {
            gap = true;
            continue;
        }
        items.push((number, Cow::Owned(written(node, picked.number, &item, entry.config.payloads))));
    }
    let upto = wanted.from + wanted.picked.len() as u64;
    Ok(Page { last: wanted.last, upto, more: upto < wanted.last, gap, items }.encode())
}

/// An item as sent to waiting HTTP clients: one line of JSON.
pub fn told(news: &News) -> Vec<u8> {
    let item = Item { at_us: news.at_us, id: &news.id, payload: &news.payload };
    written(node_of(&news.actor), news.number, &item, true)
}

/// The same without the content; its length is bounded by a name and a number.
pub fn told_without_content(news: &News) -> Vec<u8> {
    #[derive(Serialize)]
    struct Place<'a> {
        channel: &'a str,
        id: &'a str,
    }
    json::on_one_line(&Place { channel: node_of(&news.actor), id: &news.number.to_string() })
}

fn written(channel: &str, number: u64, item: &Item<'_>, payload: bool) -> Vec<u8> {
    /// The number is a string: not every reader of JSON has 64 bits for one.
    #[derive(Serialize)]
    struct Line<'a> {
        channel: &'a str,
        id: &'a str,
        item: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<&'a str>,
        time: &'a str,
        #[serde(flatten)]
        content: Option<Content>,
    }
    let content = (payload && !item.payload.is_empty()).then(|| content(item.payload));
    let time = datetime::text(item.at_us, Precision::Millis);
    let id = number.to_string();
    json::on_one_line(&Line { channel, id: &id, item: item.id, key: item.key(), time: &time, content })
}

/// Content as published.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Content {
    #[serde(rename = "type")]
    kind: String,
    /// Whether the data is in base64, because it is not text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    base64: bool,
    data: String,
}

/// The element for this content.
pub fn payload(kind: &str, body: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(body).ok().filter(|text| is_xml_text(text));
    let mut escaped = Vec::new();
    if let Some(text) = text {
        xml::escape(&mut escaped, text);
    }
    // Content with very many characters that XML escapes is shorter in base64.
    let encoded = (text.is_none() || escaped.len() > body.len() / 3 * 4 + 16).then(|| BASE64.encode(body));
    if let (true, None) = (kind.eq_ignore_ascii_case(JSON), &encoded) {
        return [format!("<json xmlns='{NS_JSON}'>").as_bytes(), &escaped, b"</json>"].concat();
    }
    let mut out = format!("<data xmlns='{NS}'").into_bytes();
    xml::attribute(&mut out, "type", kind);
    if encoded.is_some() {
        xml::attribute(&mut out, "encoding", "base64");
    }
    out.push(b'>');
    out.extend_from_slice(encoded.as_ref().map_or(&escaped, |encoded| encoded.as_bytes()));
    out.extend_from_slice(b"</data>");
    out
}

/// Whether XML can represent a text completely (XML 1.0 2.2).
fn is_xml_text(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..))
}

/// The content that an element represents.
fn content(payload: &[u8]) -> Content {
    let own = if xml::is_dense(payload) { None } else { read_back(payload, content_of).flatten() };
    own.unwrap_or_else(|| {
        let data = String::from_utf8_lossy(payload).into_owned();
        Content { kind: "application/xml".into(), data, base64: false }
    })
}

/// The content of an element made by [`payload`]; `None` for any other element.
fn content_of(element: &Element<'_>) -> Option<Content> {
    if element.children().len() > 0 {
        return None;
    }
    let text = element.text().into_owned();
    if element.is("json", NS_JSON) {
        return Some(Content { kind: JSON.into(), data: text, base64: false });
    }
    if !element.is("data", NS) {
        return None;
    }
    let kind = element.kind().map_or("application/octet-stream".into(), Cow::into_owned);
    let base64 = element.attribute("encoding").as_deref() == Some("base64");
    // Text is returned as text, however it is stored.
    let decoded = base64.then(|| BASE64.decode(&text).ok().and_then(|bytes| String::from_utf8(bytes).ok()));
    Some(match decoded.flatten() {
        Some(text) => Content { kind, data: text, base64: false },
        None => Content { kind, data: text, base64 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_of_any_type_comes_back_as_it_was() {
        let ampersands = "&".repeat(1_000);
        for (kind, body) in [
            ("text/plain; charset=utf-8", &b"hello & <world>\r\n\tand \"you\""[..]),
            ("application/json", b"{\"a\": [1, \"<&\\u0000\"]}\r\n"),
            ("application/x-www-form-urlencoded", b""),
            ("text/html", ampersands.as_bytes()),
            ("text/plain", b"\x00\x01 control characters are text, and not in XML"),
        ] {
            let made = payload(kind, body);
            assert!(made.len() <= body.len() / 3 * 4 + 200 && xml::parse(&made).is_some());
            let expected =
                Content { kind: kind.into(), data: String::from_utf8(body.to_vec()).unwrap(), base64: false };
            assert_eq!(content(&made), expected);
        }
        let bytes = content(&payload("image/x", b"\xff\xfe\x00"));
        assert_eq!(bytes, Content { kind: "image/x".into(), data: "//4A".into(), base64: true });
        let other = content(b"<x xmlns='y'><z/></x>");
        assert_eq!((&*other.kind, &*other.data), ("application/xml", "<x xmlns='y'><z/></x>"));
        let dense = [b"<x xmlns='y'>".to_vec(), b"<z/>".repeat(10_000), b"</x>".to_vec()].concat();
        assert_eq!(content(&dense).kind, "application/xml");
    }

    #[test]
    fn items_are_one_line_of_json_whatever_is_in_them() {
        let text = "a\"b\\c\n\r\t\u{1}\u{2028}\u{e9}";
        let news = News {
            open: true,
            actor: "pubsub.x/a.b".into(),
            number: 7,
            at_us: 1_000_000,
            id: "i\"".into(),
            payload: payload("text/plain", text.as_bytes()),
        };
        let as_text = |news: &News| String::from_utf8(told(news)).unwrap();
        assert!(
            as_text(&News { id: "key-\u{e9}\"".into(), ..news.clone() })
                .contains(r#""item":"key-é\"","key":"é\"","time""#)
        );
        let told = as_text(&news);
        let expected = r#"{"channel":"a.b","id":"7","item":"i\"","time":"1970-01-01T00:00:01.000Z","type":"text/plain","data":"a\"b\\c\n\r\t\u0001\u2028é"}"#;
        assert_eq!(told, expected);
    }

    #[test]
    fn answers_read_back() {
        for (items, repeated, made) in [(0, false, false), (2, true, false), (64, false, true)] {
            let info = Info { there: true, last: (70, 5), ..Info::default() };
            let published = Published { number: 70, items, repeated, made, info };
            assert_eq!(Published::decode(&published.encode()), Some(published));
            assert_eq!(published.batch().map(|numbers| numbers.count()), (items > 0).then_some(items.into()));
        }
        assert_eq!(Published::decode(b""), None);
    }
}
