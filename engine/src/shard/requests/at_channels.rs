//! What is asked by HTTP of channels of this home: items are published and read there as by XMPP, and whoever asks is told by a letter.

use crate::channels::home::is_private;
use crate::extension;
use crate::extension::pubsub::service::channel::{Gathered, JSON, Picked, Publication, Wanted, payload};
use crate::extension::pubsub::service::info::Question;
use crate::follow::Page;
use crate::kernel::pending::{Asker, Front};
use crate::letters::ConnRef;
use crate::limits::{NOTIFY_PAGE_BYTES_MAX, NOTIFY_PAGE_ITEMS_MAX};
use crate::shard::Shard;
use crate::web::dialect::asked::lines;
use crate::web::feed_names::FeedName;
use crate::wire::limit::Limit;

/// Who publishes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By<'a> {
    /// Its network; empty for who has shown the operator's token.
    pub(crate) from: &'a str,
    /// It may make the channel.
    pub(crate) makes: bool,
    /// It has shown a token that grants it.
    pub(crate) granted: bool,
}

/// Who asks for items on behalf of a connection. It has no turn, and no place that others could want.
fn asker_of(conn: ConnRef, number: u32, node: &str) -> Asker {
    Asker::at_node(Front { conn, number }, "", node)
}

impl Shard {
    /// An item is to be published, or each line as one.
    pub(crate) fn channel_publish(
        &mut self,
        front: Front,
        node: &str,
        by: By<'_>,
        (kind, key, keys): (&str, &str, &str),
        (body, batch): (&[u8], bool),
    ) {
        let service = node.split_once('/').map_or(node, |(service, _)| service);
        let By { from, makes, granted } = by;
        // Who has shown the operator's token is named by nothing, others by their network.
        let is_operator = from.is_empty();
        let policy = &self.cx.kernel.settings.web.channels;
        let (subscribers, requested_s) = self.channels.watchers.crowd(node, self.cx.kernel.now.mono_s());
        let publication = Publication {
            actor: node.into(),
            service: service.into(),
            trusted: is_operator || granted,
            private: is_private(policy, node),
            makes,
            key: (!key.is_empty()).then(|| key.into()),
            keys: keys.split('\n').filter(|key| !key.is_empty()).map(Into::into).collect(),
            payloads: match batch {
                true => lines(body).map(|line| payload(JSON, line)).collect(),
                false => vec![payload(kind, body)],
            },
            batch,
            items_max: policy.items_max,
            items_s: policy.items_s,
            crowd: (subscribers, requested_s),
            now: self.cx.kernel.now.wall(),
        };
        // In a request's turn nothing is known but by that.
        let known = if self.requests.turns.has(node) { None } else { self.requests.known_nodes.take(node) };
        let (place, step) = extension::channel_publish(publication, known);
        self.do_step(Asker::at_node(front, from, node), node, place, step);
    }

    /// Items behind a place are wanted, of so many channels at once.
    pub(crate) fn channel_read(
        &mut self,
        conn: ConnRef,
        number: u32,
        node: &str,
        after: u64,
        (watchers, share): (u32, u8),
    ) {
        let asker = asker_of(conn, number, node);
        if !self.channels.watch_for(&mut self.cx, node, conn.shard, watchers) {
            return self.actors.answer(&mut self.cx, asker, Err(Limit::Waiting.into()));
        }
        let share = u32::from(share.max(1));
        let wanted = Wanted {
            actor: node.into(),
            after: (after != u64::MAX).then_some(after),
            before: None,
            private: is_private(&self.cx.kernel.settings.web.channels, node),
            items_max: NOTIFY_PAGE_ITEMS_MAX.div_ceil(share),
            bytes_max: NOTIFY_PAGE_BYTES_MAX / share,
            now: self.cx.kernel.now.wall(),
        };
        let (place, step) = extension::channel_read(wanted);
        self.do_step(asker, node, place, step);
    }

    /// Items of a feed are wanted as those of a channel. With a share of 0 it is nothing but whether all behind the place are known.
    pub(crate) fn feed_read(
        &mut self,
        conn: ConnRef,
        number: u32,
        (node, name): (&str, FeedName<'_>),
        after: u64,
        (watchers, share): (u32, u8),
    ) {
        let asker = asker_of(conn, number, node);
        if !self.channels.watch(&mut self.cx, node, conn.shard, watchers) {
            return self.actors.answer(&mut self.cx, asker, Err(Limit::Waiting.into()));
        }
        let opened = self.channels.open_feed(&mut self.cx, name);
        let Some(feed) = self.channels.feeds.get(name.prefix, name.all).filter(|_| opened) else {
            return self.actors.answer(&mut self.cx, asker, Err(Limit::Waiting.into()));
        };
        let (start, last) = (feed.start(), feed.last);
        let (from, gap) = match after {
            u64::MAX => (last, false),
            // It is of another time.
            after if after > last => (last, true),
            after => (after.max(start), after < start),
        };
        if share == 0 || from == last {
            return self.actors.answer(
                &mut self.cx,
                asker,
                Ok(&Page { last, upto: from, gap, ..Page::default() }.encode()),
            );
        }
        let share = u32::from(share);
        let items_max = NOTIFY_PAGE_ITEMS_MAX.div_ceil(share) as usize;
        let policy = &self.cx.kernel.settings.web.channels;
        let picked = feed.behind(from, items_max, NOTIFY_PAGE_BYTES_MAX / share).map(|known| Picked {
            actor: known.actor.clone(),
            number: known.number,
            private: is_private(policy, &known.actor),
        });
        let gathered = Gathered { from, last, gap, picked: picked.collect(), now: self.cx.kernel.now.wall() };
        let (place, step) = extension::channel_gather(gathered);
        self.do_step(asker, node, place, step);
    }

    /// A publisher wants to know what there is to tell of a channel, and that it be emptied, or not.
    pub(crate) fn channel_info(&mut self, front: Front, node: &str, by: By<'_>, deletes: bool) {
        let is_operator = by.from.is_empty();
        let question = Question {
            actor: node.into(),
            operator: is_operator,
            granted: by.granted,
            deletes,
            crowd: self.channels.watchers.crowd(node, self.cx.kernel.now.mono_s()),
            now: self.cx.kernel.now.wall(),
        };
        let (place, step) = extension::channel_info(question);
        self.do_step(Asker::at_node(front, by.from, node), node, place, step);
    }

    /// Items behind a place, or before one, are wanted once.
    pub(crate) fn channel_history(
        &mut self,
        conn: ConnRef,
        number: u32,
        node: &str,
        (after, before): (u64, u64),
        items: u32,
    ) {
        let asker = asker_of(conn, number, node);
        let wanted = Wanted {
            actor: node.into(),
            after: (items > 0 && before == 0).then_some(after),
            before: (items > 0 && before > 0).then_some(before),
            private: is_private(&self.cx.kernel.settings.web.channels, node),
            items_max: items.min(NOTIFY_PAGE_ITEMS_MAX),
            bytes_max: NOTIFY_PAGE_BYTES_MAX,
            now: self.cx.kernel.now.wall(),
        };
        let (place, step) = extension::channel_read(wanted);
        self.do_step(asker, node, place, step);
    }
}
