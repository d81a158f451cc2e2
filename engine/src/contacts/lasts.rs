//! Last items (XEP-0163 4.3.4). A session that has become available, or whose client has become
//! interested in more nodes, is sent the last item of each such node that it may see.
//!
//! A session goes through its contacts page by page. Some sessions of a shard do so at once, the
//! others take turns. A contact's home reads the directory of the contact's nodes. Only if one of
//! them is wanted does it read the contact's account, roster and items, for some contacts at once.
//! A login with many contacts therefore spreads its reads over time and does not delay others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::Capable;
use crate::extension::pubsub::event::{last, shown};
use crate::extension::pubsub::node::{Affiliates, Directory, Node, Viewer, may};
use crate::follow::names;
use crate::id::{SessionId, ShardId};
use crate::kernel::pending::{LastRead, Pending, UserRead};
use crate::letters::{Letter, UserLetter};
use crate::limits::{
    LAST_ITEMS_BYTES, LAST_ITEMS_MS, LAST_ITEMS_READS, LAST_ITEMS_SESSIONS, NODE_ITEM_ROW_BYTES_MAX, PARKED_STANZAS_MAX,
};
use crate::router::users::{Look, RosterStep, Seen};
use crate::session::table::{Nodes, Walk};
use crate::store::nodes::{self as rows, Item, Span};
use crate::store::{Found, Query};
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::jid::bare_of;

/// Waiting sessions that are checked at once to find one that can continue.
const WALK_TRIES: usize = 4 * LAST_ITEMS_SESSIONS;

/// A session whose page has been requested.
#[derive(Debug)]
struct Active {
    session: SessionId,
    /// Homes that have not answered; `None` while the roster is being read.
    homes: Option<Vec<ShardId>>,
    since_ms: u64,
}

/// One home's request to another on behalf of a session.
#[derive(Debug)]
struct Group {
    shard: ShardId,
    /// The session that waits for the answer, if any.
    session: Option<SessionId>,
    /// Number of users not done.
    left: usize,
    /// Number of these whose rows are being read.
    reading: usize,
    /// Work of their reads.
    work: u64,
    since_ms: u64,
}

/// State of last items, both of waiting sessions and of other homes' requests.
#[derive(Debug, Default)]
pub(crate) struct Lasts {
    /// Sessions that wait for their next page; bounded by the shard's sessions, each once.
    waiting: VecDeque<SessionId>,
    /// Bounded by [`LAST_ITEMS_SESSIONS`].
    active: Vec<Active>,
    /// Users to be read; bounded by shards, [`LAST_ITEMS_SESSIONS`] and the size of a page.
    looks: VecDeque<Look>,
    groups: BTreeMap<u64, Group>,
    last_group: u64,
    reading: usize,
}

impl Contacts {
    /// A client has answered with its features, or without a usable answer.
    pub(crate) fn learned(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        capable: Option<Capable>,
    ) {
        for (session, nodes) in self.learn_interests(cx, actors, session, capable) {
            self.begin_walk(cx, actors, session, nodes);
        }
    }

    /// A session has sent presence with changed interests. Only nodes that are new are sent.
    pub(super) fn interests_announced(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        before: Option<Nodes>,
    ) {
        match (self.interests_of(actors, session), before) {
            (None, _) => self.ask_capabilities(cx, actors, session, true),
            (Some(nodes), None) => self.begin_walk(cx, actors, session, nodes),
            (Some(nodes), Some(before)) if !Arc::ptr_eq(&nodes, &before) => {
                let new = nodes.iter().filter(|node| before.binary_search(node).is_err()).cloned();
                self.begin_walk(cx, actors, session, new.collect());
            }
            (Some(_), Some(_)) => {}
        }
    }

    /// Begins to send a session the last items of these nodes.
    fn begin_walk(&mut self, cx: &mut Streams, actors: &mut Actors, session: SessionId, nodes: Nodes) {
        if nodes.is_empty() {
            return;
        }
        let Some(state) = actors.sessions.get_mut(session) else { return };
        let walk = Box::new(Walk { nodes, next: None });
        let before = state.extra.get_or_insert_default().walk.replace(walk);
        let active = self.lasts.active.iter().any(|active| active.session == session);
        if before.is_none() && !active {
            self.lasts.waiting.push_back(session);
        }
        self.walk_on(cx, actors);
    }

    /// Continues waiting sessions, as many at once as the limit permits.
    fn walk_on(&mut self, cx: &mut Streams, actors: &mut Actors) {
        for _ in 0..self.lasts.waiting.len().min(WALK_TRIES) {
            if self.lasts.active.len() >= LAST_ITEMS_SESSIONS {
                return;
            }
            let Some(session) = self.lasts.waiting.pop_front() else { return };
            let Some(state) = actors.sessions.get(session) else { continue };
            let (user, since_ms) = (state.user, cx.kernel.now.mono_ms);
            // Items for a busy session would be dropped, and a session in debt causes no more
            // reads.
            if cx.is_busy(session) || cx.owes_work(session) {
                self.lasts.waiting.push_back(session);
                continue;
            }
            self.lasts.active.push(Active { session, homes: None, since_ms });
            self.roster_step(cx, actors, user, RosterStep::Walk { session });
        }
    }

    /// A page was requested from these homes.
    pub(crate) fn walked(&mut self, cx: &mut Streams, actors: &mut Actors, session: SessionId, homes: Vec<ShardId>) {
        if let Some(active) = self.lasts.active.iter_mut().find(|active| active.session == session) {
            active.homes = Some(homes);
        }
        self.walk_ended(cx, actors, session);
    }

    /// A home has finished all contacts of a page.
    pub(crate) fn looked(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        home: ShardId,
        session: SessionId,
        work: u64,
    ) {
        cx.tell(session, Down::Charge(work));
        self.answered_by(cx, actors, home, session);
    }

    /// No answer of this home arrives any more: pages go on without the contacts there.
    pub(super) fn looked_all(&mut self, cx: &mut Streams, actors: &mut Actors, home: ShardId) {
        for session in self.lasts.active.iter().map(|active| active.session).collect::<Vec<_>>() {
            self.answered_by(cx, actors, home, session);
        }
        // Nobody waits for what this home has asked.
        self.lasts.groups.values_mut().filter(|group| group.shard == home).for_each(|group| group.session = None);
    }

    fn answered_by(&mut self, cx: &mut Streams, actors: &mut Actors, home: ShardId, session: SessionId) {
        let active = self.lasts.active.iter_mut().find(|active| active.session == session);
        if let Some(homes) = active.and_then(|active| active.homes.as_mut()) {
            homes.retain(|other| *other != home);
        }
        self.walk_ended(cx, actors, session);
    }

    /// Queues a session for its next page if its page is done.
    fn walk_ended(&mut self, cx: &mut Streams, actors: &mut Actors, session: SessionId) {
        let Some(at) =
            self.lasts.active.iter().position(|a| a.session == session && a.homes.as_ref().is_some_and(Vec::is_empty))
        else {
            return;
        };
        self.lasts.active.swap_remove(at);
        let extra = actors.sessions.get(session).and_then(|session| session.extra.as_ref());
        if extra.is_some_and(|extra| extra.walk.is_some()) {
            self.lasts.waiting.push_back(session);
        }
        self.walk_on(cx, actors);
    }

    /// Another home asks about users of this one, on behalf of one of its sessions.
    pub(crate) fn last_asked(
        &mut self,
        cx: &mut Streams,
        shard: ShardId,
        session: Option<SessionId>,
        to: &str,
        of: &str,
        nodes: &str,
    ) {
        // The number of sessions that wait for pages is limited.
        if session.is_none() && self.lasts.looks.len() >= PARKED_STANZAS_MAX {
            return;
        }
        self.lasts.last_group += 1;
        let group = self.lasts.last_group;
        let wanted: Nodes = names(nodes).map(Into::into).collect();
        let looks = names(of).map(|of| Look { group, of: of.into(), to: to.into(), wanted: wanted.clone() });
        let before = self.lasts.looks.len();
        self.lasts.looks.extend(looks);
        let left = self.lasts.looks.len() - before;
        let group_state = Group { shard, session, left, reading: 0, work: 0, since_ms: cx.kernel.now.mono_ms };
        self.lasts.groups.insert(group, group_state);
        self.look_on(cx);
    }

    fn look_on(&mut self, cx: &mut Streams) {
        while self.lasts.reading < LAST_ITEMS_READS {
            let Some(look) = self.lasts.looks.pop_front() else { return };
            let Some(group) = self.lasts.groups.get_mut(&look.group) else { continue };
            group.reading += 1;
            self.lasts.reading += 1;
            let query = rows::directory(&look.of);
            cx.kernel.read(Pending::User(UserRead::Last(LastRead { look, chosen: None })), vec![query]);
        }
    }

    /// One user is done.
    fn look_done(&mut self, cx: &mut Streams, group: u64) {
        let Some(state) = self.lasts.groups.get_mut(&group) else { return };
        (state.left, state.reading) = (state.left.saturating_sub(1), state.reading.saturating_sub(1));
        self.lasts.reading = self.lasts.reading.saturating_sub(1);
        if state.left == 0 {
            let (shard, session, work) = (state.shard, state.session, state.work);
            self.lasts.groups.remove(&group);
            if let Some(session) = session {
                cx.kernel.letters_to(shard).push(Letter::User(UserLetter::Looked { session, work }));
            }
        }
        self.look_on(cx);
    }

    /// Rows of a user's nodes have been read.
    pub(crate) fn last_found(&mut self, cx: &mut Streams, actors: &mut Actors, read: LastRead, found: &[Found]) {
        let LastRead { look, chosen } = read;
        if let Some(group) = self.lasts.groups.get_mut(&look.group) {
            group.work += found.iter().map(|found| work(1, found.bytes())).sum::<u64>();
        }
        if let Some((nodes, seen)) = chosen {
            self.show_last(cx, &look, &nodes, &seen, found);
            return self.look_done(cx, look.group);
        }
        let directory = match found {
            [Found::Value(row)] => Directory::decode(row.as_deref()).unwrap_or_default(),
            _ => Directory::default(),
        };
        let wanted: Vec<&str> = look.wanted.iter().map(|name| &**name).collect();
        let mut bytes = 0;
        let chosen = shown(&directory, &wanted).into_iter().take_while(|node| {
            bytes += node.bytes.min(NODE_ITEM_ROW_BYTES_MAX as u64);
            bytes <= u64::from(LAST_ITEMS_BYTES)
        });
        let nodes: Vec<Node> = chosen.cloned().collect();
        if nodes.is_empty() {
            return self.look_done(cx, look.group);
        }
        if *look.of == *bare_of(&look.to) {
            let seen = Seen { owner: true, presence: true, groups: Vec::new() };
            return self.read_last(cx, look, nodes, seen);
        }
        let of = look.of.clone();
        self.with_account(cx, actors, &of, RosterStep::Last(Box::new((look, nodes))));
    }

    /// The relation of the requester to the nodes' owner has been determined; `None` if the
    /// requester may see none.
    pub(crate) fn last_seen(&mut self, cx: &mut Streams, look: Look, nodes: Vec<Node>, seen: Option<Seen>) {
        match seen {
            Some(seen) => self.read_last(cx, look, nodes, seen),
            None => self.look_done(cx, look.group),
        }
    }

    fn read_last(&mut self, cx: &mut Streams, look: Look, nodes: Vec<Node>, seen: Seen) {
        // Affiliations are read only for nodes that have some.
        let queries = nodes.iter().flat_map(|node| -> [Query; 2] {
            [rows::affiliates(&look.of, &node.name), rows::items(&look.of, &node.name, Span::LAST)]
        });
        let queries = queries.collect();
        cx.kernel.read(Pending::User(UserRead::Last(LastRead { look, chosen: Some((nodes, seen)) })), queries);
    }

    fn show_last(&mut self, cx: &mut Streams, look: &Look, nodes: &[Node], seen: &Seen, found: &[Found]) {
        let viewer = Viewer { jid: &look.to, owner: seen.owner, presence: seen.presence, groups: &seen.groups };
        for (node, found) in nodes.iter().zip(found.chunks_exact(2)) {
            let [Found::Value(affiliates), Found::Rows { rows, .. }] = found else { continue };
            let Some(affiliates) = Affiliates::decode(affiliates.as_deref()) else { continue };
            let Some(item) = rows.first().and_then(|row| Item::decode(&row.value)) else { continue };
            if item.at_us < node.config.gone_before_us(cx.kernel.now.wall()) {
                continue;
            }
            if may(node.config.access, &node.config.groups, &affiliates, viewer).is_ok() {
                let message = last(&look.of, &node.name, node.config.payloads, &item);
                self.event_to(cx, &look.of, &node.name, &look.to, &message);
            }
        }
    }

    /// Stops waiting for homes and clients that have not answered in time. One turn's share of the
    /// sweep.
    pub(crate) fn sweep_lasts(&mut self, cx: &mut Streams, actors: &mut Actors) {
        if !self.lasts.waiting.is_empty() {
            self.walk_on(cx, actors);
        }
        let now_ms = cx.kernel.now.mono_ms;
        let late = |since_ms: u64| now_ms.saturating_sub(since_ms) > LAST_ITEMS_MS;
        if let Some(at) = self.lasts.active.iter().position(|active| late(active.since_ms)) {
            let session = self.lasts.active.swap_remove(at).session;
            if let Some(session) = actors.sessions.get_mut(session) {
                session.extra.as_mut().and_then(|extra| extra.walk.take());
                session.trim();
            }
            self.walk_on(cx, actors);
        }
        let oldest = self.lasts.groups.first_key_value().filter(|(_, group)| late(group.since_ms));
        if let Some((&number, group)) = oldest {
            self.lasts.reading = self.lasts.reading.saturating_sub(group.reading);
            self.lasts.groups.remove(&number);
            self.look_on(cx);
        }
    }
}
