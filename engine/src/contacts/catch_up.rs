//! Users that were away when items of services' nodes were sent to them (XEP-0060 7.1.2).
//!
//! A user follows a node as a session follows its user's log: at the head it gets an item when it
//! is published. If none of the user's sessions can take it, a row of the user notes the node, and
//! the node notes the position and sends no more items. When a session becomes available, gets a
//! new connection or drains, the nodes are asked one after another for what the user has missed.
//! Until a node has answered, the user is behind there: what arrives is left to the answer. So
//! items come once and in order.
//!
//! An item for a user that is away thus costs at most two rows, and the next ones nothing.

use std::collections::{BTreeMap, VecDeque};

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::Way;
use crate::follow::Page;
use crate::id::{Service, SessionId};
use crate::io::StorageState;
use crate::kernel::pending::{Pending, UserRead};
use crate::letters::{Letter, NodeLetter};
use crate::limits::{LAST_ITEMS_MS, NODE_CATCH_UPS, NODE_MEMBERSHIPS_BYTES_MAX, NODE_MEMBERSHIPS_MAX};
use crate::router::users::Known;
use crate::session::table::Session;
use crate::store::Found;
use crate::store::nodes::{self as rows, Named};
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::streams::work::work;

/// Waiting users that are checked at once to find one that can continue.
const TRIES: usize = 4 * NODE_CATCH_UPS;

/// A user that is behind at some nodes.
#[derive(Debug, Default)]
struct CatchUp {
    /// The nodes in the order in which they are asked; bounded by the user's subscriptions.
    nodes: VecDeque<Box<str>>,
    /// The rows that note them are being read.
    looks: bool,
    /// The first node was asked.
    asked: bool,
    /// The last number that was missed of the first node since it was asked, or 0. It is reported
    /// unless the answer has it: the item and the question for it may have crossed.
    since: u64,
}

/// What becomes of an item that a user cannot take now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Later {
    /// The node is to be told, and sends it when the user is back.
    Reported,
    /// An answer of the node is under way that may have it.
    Asked,
    /// The user never gets it: there is no account, or the disk is full.
    Never,
}

/// The users of a shard that are being brought up; at most as many as have sessions.
#[derive(Debug, Default)]
pub(crate) struct CatchUps {
    /// By bare JID.
    users: BTreeMap<Box<str>, CatchUp>,
    /// Those whose next node is to be asked, each at most once.
    waiting: VecDeque<Box<str>>,
    /// Those whose node was asked, and when, milliseconds; bounded by [`NODE_CATCH_UPS`].
    asked: Vec<(Box<str>, u64)>,
}

impl Contacts {
    /// A session has become available, or has a new connection: its user is back.
    pub(crate) fn begin_catch_up(&mut self, cx: &mut Streams, actors: &mut Actors, session: SessionId) {
        let Some(state) = actors.sessions.get(session).filter(|state| state.is_available()) else { return };
        if cx.kernel.settings.domains.service(Service::PubSub).is_none() {
            return;
        }
        let user = actors.users.get(state.user).state.as_ref();
        if user.is_some_and(|user| matches!(user.known, Known::Exists(_)) && !user.missed) {
            return;
        }
        let account = Box::<str>::from(actors.bare_of_user(state.user));
        if self.catch_ups.users.contains_key(&account) {
            return;
        }
        cx.tell(session, Down::Charge(work(1, 0)));
        let nodes = Named::Missed.after(&account, "", NODE_MEMBERSHIPS_MAX, NODE_MEMBERSHIPS_BYTES_MAX);
        self.catch_ups.users.insert(account.clone(), CatchUp { looks: true, ..CatchUp::default() });
        cx.kernel.read(Pending::User(UserRead::Missed(account)), vec![nodes]);
    }

    /// The nodes of which a user has missed items have been read. Unreadable rows count as none.
    pub(crate) fn missed_found(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, found: &[Found]) {
        let Some(catch_up) = self.catch_ups.users.get_mut(account) else { return };
        catch_up.looks = false;
        let found = if let [Found::Rows { rows, .. }] = found { rows.as_slice() } else { &[] };
        for node in found.iter().filter_map(|row| rows::named(&row.sort)) {
            catch_up.add(node);
        }
        self.next_node(account);
        self.go_on_catching_up(cx, actors);
    }

    /// Whether a user gets a node's items as they are published.
    pub(super) fn is_at_head(&self, cx: &Streams, actors: &Actors, user: u32, account: &str, node: &str) -> bool {
        let behind = self.catch_ups.users.get(account);
        let is_behind = behind.is_some_and(|behind| behind.looks || behind.nodes.iter().any(|other| **other == *node));
        !is_behind && self.takers(cx, actors, user).next().is_some()
    }

    /// The sessions of a user that can take an item now. One without a connection may end without
    /// having received anything.
    fn takers(&self, cx: &Streams, actors: &Actors, user: u32) -> impl Iterator<Item = SessionId> {
        let available = actors.users.sessions(&actors.sessions, user).filter(|(_, session)| session.is_available());
        available.map(|(id, _)| id).filter(|&id| !cx.is_detached(id) && !cx.is_busy(id))
    }

    /// Notes that a user cannot take the item with this number now.
    pub(super) fn misses(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        node: &str,
        number: u64,
    ) -> Later {
        let user = actors.users.find(account);
        let state = user.and_then(|user| actors.users.get_mut(user).state.as_mut());
        let missing = state.as_ref().is_some_and(|state| state.known == Known::Missing);
        if missing || cx.kernel.storage == StorageState::Full {
            return Later::Never;
        }
        if let Some(state) = state {
            state.missed = true;
        }
        Named::Missed.note(&mut cx.kernel.writes, account, node);
        let is_connected = |user: u32| {
            let mut sessions = actors.users.sessions(&actors.sessions, user);
            sessions.any(|(id, session)| session.is_available() && !cx.is_detached(id))
        };
        match self.catch_ups.users.get_mut(account) {
            Some(catch_up) if catch_up.has_asked(node) => {
                catch_up.since = catch_up.since.max(number);
                return Later::Asked;
            }
            Some(catch_up) => catch_up.add(node),
            // It goes on when a session has drained.
            None if user.is_some_and(is_connected) => {
                let nodes = VecDeque::from([Box::from(node)]);
                self.catch_ups.users.insert(account.into(), CatchUp { nodes, ..CatchUp::default() });
                self.catch_ups.waiting.push_back(account.into());
            }
            None => {}
        }
        Later::Reported
    }

    /// Reports to a node that these users, separated by NUL, were away when this item was sent to
    /// them.
    pub(crate) fn report_missed(&mut self, cx: &mut Streams, node: &str, number: u64, users: &str) {
        if users.is_empty() {
            return;
        }
        let home = cx.kernel.home(node);
        let letters = cx.kernel.letters_to(home);
        let (node, users) = (letters.name(node), letters.name(users));
        letters.push(Letter::Node(NodeLetter::Missed { node, number, users }));
    }

    /// Asks the next nodes, for as many users at once as the limit permits.
    fn go_on_catching_up(&mut self, cx: &mut Streams, actors: &mut Actors) {
        for _ in 0..self.catch_ups.waiting.len().min(TRIES) {
            if self.catch_ups.asked.len() >= NODE_CATCH_UPS {
                return;
            }
            let Some(account) = self.catch_ups.waiting.pop_front() else { return };
            let Some(catch_up) = self.catch_ups.users.get(&account) else { continue };
            let is_there = |(id, session): (SessionId, &Session)| session.is_available() && !cx.is_detached(id);
            let user = actors.users.find(&account);
            let user = user.filter(|&user| actors.users.sessions(&actors.sessions, user).any(is_there));
            let (Some(user), Some(node)) = (user, catch_up.nodes.front().cloned()) else {
                // The rows stay, and are read when the user is back.
                let (node, since) = (catch_up.nodes.front().cloned().unwrap_or_default(), catch_up.since);
                self.catch_ups.users.remove(&account);
                if since > 0 {
                    self.report_missed(cx, &node, since, &account);
                }
                continue;
            };
            // A session in debt causes no more reads.
            if self.takers(cx, actors, user).all(|session| cx.owes_work(session)) {
                self.catch_ups.waiting.push_back(account);
                continue;
            }
            if let Some(catch_up) = self.catch_ups.users.get_mut(&account) {
                catch_up.asked = true;
            }
            let home = cx.kernel.home(&node);
            let letters = cx.kernel.letters_to(home);
            let (node, user) = (letters.name(&node), letters.name(&account));
            letters.push(Letter::Node(NodeLetter::CatchUp { node, user }));
            self.catch_ups.asked.push((account, cx.kernel.now.mono_ms));
        }
    }

    /// A node has sent what a user has missed.
    pub(crate) fn caught_up(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        node: &str,
        from: &str,
        account: &str,
        page: &[u8],
    ) {
        let page = Page::decode(page).unwrap_or_default();
        let rest = self.hand_missed(cx, actors, from, account, &page);
        if let Some(number) = rest {
            self.report_missed(cx, node, number, account);
        }
        let Some(catch_up) = self.catch_ups.users.get_mut(account).filter(|catch_up| catch_up.has_asked(node)) else {
            // The user has left, or the node was given up: its row stays until it is asked again.
            return;
        };
        catch_up.asked = false;
        let is_more = std::mem::take(&mut catch_up.since) > page.upto;
        if rest.is_none() && !is_more {
            catch_up.nodes.pop_front();
            Named::Missed.put(&mut cx.kernel.writes, account, node, b"");
        }
        if rest.is_none() && is_more {
            self.report_missed(cx, node, page.upto + 1, account);
        }
        self.catch_ups.asked.retain(|(other, _)| **other != *account);
        self.next_node(account);
        self.go_on_catching_up(cx, actors);
    }

    /// Hands the user's sessions the items of a page, as long as one of them can take more. Returns
    /// the number of the first item that none could take.
    fn hand_missed(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        from: &str,
        account: &str,
        page: &Page<'_>,
    ) -> Option<u64> {
        let (first, _) = page.items.first()?;
        let Some(user) = actors.users.find(account) else { return Some(*first) };
        // The user may have blocked the service since (XEP-0191 3.3).
        if actors.guards(cx, user, Way::In, from).is_some() {
            return None;
        }
        for (number, message) in &page.items {
            let takers: Vec<SessionId> = self.takers(cx, actors, user).collect();
            let Some(payer) = takers.first() else { return Some(*number) };
            cx.tell(*payer, Down::Charge(work(1, message.len())));
            for session in takers {
                self.hand_event(cx, actors, session, from, message);
            }
        }
        None
    }

    /// The next node of a user is to be asked, if there is one.
    fn next_node(&mut self, account: &str) {
        match self.catch_ups.users.get(account).is_some_and(|catch_up| catch_up.nodes.is_empty()) {
            true => drop(self.catch_ups.users.remove(account)),
            false => self.catch_ups.waiting.push_back(account.into()),
        }
    }

    /// One turn's share of the sweep: users whose sessions have drained go on, and a node that has
    /// not answered in time is asked again.
    pub(crate) fn sweep_catch_ups(&mut self, cx: &mut Streams, actors: &mut Actors) {
        let now_ms = cx.kernel.now.mono_ms;
        let late =
            self.catch_ups.asked.iter().position(|(_, since_ms)| now_ms.saturating_sub(*since_ms) > LAST_ITEMS_MS);
        if let Some(at) = late {
            let (account, _) = self.catch_ups.asked.swap_remove(at);
            if let Some(catch_up) = self.catch_ups.users.get_mut(&account) {
                catch_up.asked = false;
            }
            self.catch_ups.waiting.push_back(account);
        }
        if !self.catch_ups.waiting.is_empty() {
            self.go_on_catching_up(cx, actors);
        }
    }
}

impl CatchUp {
    /// Whether an answer of this node is under way.
    fn has_asked(&self, node: &str) -> bool {
        self.asked && self.nodes.front().is_some_and(|first| **first == *node)
    }

    /// The user has missed an item of a node.
    fn add(&mut self, node: &str) {
        if !self.nodes.iter().any(|other| **other == *node) {
            self.nodes.push_back(node.into());
        }
    }
}
