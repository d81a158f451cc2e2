//! What rooms send to sessions of users of this home, and requests that an extension answers for
//! them.

use hashbrown::HashMap;

use crate::extension::push::message;
use crate::extension::{Target, WAKER, Way};
use crate::follow::{BETWEEN, Follower, Page, names};
use crate::id::{ActorKind, SessionId, ShardId};
use crate::kernel::pending::Asker;
use crate::letters::{Kind, Letter, Letters, MessageClass, PresenceNews, RoomLetter};
use crate::limits::{ROOM_AGAIN_S, ROOMS_BEHIND_MAX};
use crate::logs::wake::{Last, Wake};
use crate::router::users::{Incoming, Known, RosterStep};
use crate::session::conn::NONE;
use crate::session::table::BehindRoom;
use crate::settings::PushDetails;
use crate::shard::Shard;
use crate::store::Found;
use crate::store::room::Alert;
use crate::store::room::{known_room, put_known};
use crate::wire::jid::{bare_of, split_resource};
use crate::wire::splice::address;
use crate::wire::written::{from_of_stanza, read_back};
use crate::wire::{Expect, Scanner, StreamScope};

/// The number of the last archived message that this shard has received of each room, for rooms with
/// sessions here; at most as many as these have entered since the round before the last one.
#[derive(Debug, Default)]
pub(crate) struct LastOfRooms {
    rooms: HashMap<Box<str>, LastOfRoom>,
    /// The round of the sweep over all sessions.
    round: u32,
}

#[derive(Debug)]
struct LastOfRoom {
    number: u64,
    /// The round in which a session here was last seen in the room.
    round: u32,
}

impl LastOfRooms {
    fn received(&mut self, room: &str, number: u64) {
        match self.rooms.get_mut(room) {
            _ if number == 0 => {}
            Some(last) => last.number = last.number.max(number),
            None => _ = self.rooms.insert(room.into(), LastOfRoom { number, round: self.round }),
        }
    }

    /// A session has sent presence to these addresses.
    pub(super) fn used_by(&mut self, directed: &[Box<str>]) {
        for to in directed {
            self.rooms.get_mut(bare_of(to)).into_iter().for_each(|last| last.round = self.round);
        }
    }

    /// All sessions were seen: rooms that no session was in for a whole round are forgotten.
    pub(super) fn next_round(&mut self) {
        self.rooms.retain(|_, last| last.round + 1 >= self.round);
        self.round += 1;
    }
}

impl Shard {
    /// The link to this shard was renewed, and messages of rooms there may be lost: sessions of this
    /// home that are in these rooms read their archives, from the last message that arrived.
    pub(super) fn miss_messages_of_rooms(&mut self, peer: ShardId) {
        self.cast_the_rest();
        let mut missed: Vec<(SessionId, Box<str>, u64)> = Vec::new();
        for id in (0..self.actors.sessions.slots()).filter_map(|slot| self.actors.sessions.id(slot)) {
            // It has ended, or is in no room.
            let directed = self.actors.sessions.get(id).map_or(&[][..], |session| session.directed());
            for room in directed.iter().map(|to| bare_of(to)).filter(|room| self.cx.kernel.home(room) == peer) {
                if let Some(last) = self.last_of_rooms.rooms.get(room) {
                    missed.push((id, room.into(), last.number));
                }
            }
        }
        for (session, room, number) in missed {
            self.falls_behind(session, &room, number);
        }
    }

    /// A session gets nothing more of a room until it has read the archive after this number.
    fn falls_behind(&mut self, id: SessionId, room: &str, after: u64) {
        // It has ended.
        let Some(session) = self.actors.sessions.get_mut(id) else { return };
        if let Some(follower) = session.behind_in(room) {
            // The request or its answer may be lost.
            return follower.fall_behind();
        }
        let behind = &mut session.extra.get_or_insert_default().behind;
        if behind.len() < ROOMS_BEHIND_MAX {
            behind.push(BehindRoom { room: room.into(), follower: Follower::behind(after) });
            self.cx.kernel.counters.room_behind.one();
        } else {
            self.cx.kernel.counters.stanzas_dropped.one();
        }
    }

    pub(super) fn room_letter(&mut self, batch: &Letters, letter: &RoomLetter) {
        match letter {
            RoomLetter::Cast { kind, from, to, xml, number } => {
                self.cast_in_turn(*kind, batch.str(*from), batch.str(*to), batch.bytes(*xml), *number);
            }
            RoomLetter::CatchUp { room, session, after, asked } => {
                self.rooms.catch_up(&mut self.cx, batch.str(*room), batch.str(*session), *after, *asked);
            }
            RoomLetter::CaughtUp { room, session, asked, page } => {
                self.caught_up_in_turn(batch.str(*room), batch.str(*session), *asked, batch.bytes(*page));
            }
            RoomLetter::Gone { room, sessions } => {
                self.rooms.gone(&mut self.cx, &mut self.actors, batch.str(*room), batch.str(*sessions));
            }
            RoomLetter::Knows { user, room, knows } => self.known_to_room(batch.str(*user), batch.str(*room), *knows),
            RoomLetter::Forget { room, user } => {
                self.rooms.forget(&mut self.cx, &mut self.actors, batch.str(*room), batch.str(*user));
            }
            RoomLetter::Listed { room, row } => self.rooms.listed(&mut self.cx, batch.str(*room), batch.bytes(*row)),
            RoomLetter::Alert { user, room, alert } => {
                let (room, user) = (batch.str(*room), batch.str(*user));
                self.rooms.alert(&mut self.cx, &mut self.actors, room, user, alert.as_deref());
            }
            RoomLetter::Wake { from, to, xml } => {
                self.wake_for_room(batch.str(*from), batch.str(*to), batch.bytes(*xml))
            }
            RoomLetter::Count { token, user, rooms } => {
                self.rooms.count(&mut self.cx, batch.from, *token, batch.str(*user), batch.str(*rooms));
            }
            RoomLetter::Counted { token, counts } => self.rooms_counted(*token, batch.bytes(*counts)),
        }
    }

    /// Delivers a stanza of a room to sessions of this home. Those that do not exist are reported to
    /// the room. An empty stanza asks only for that. `is_last` says that no session is left.
    pub(super) fn cast(&mut self, kind: Kind, from: &str, to: &str, unaddressed: &[u8], number: u64, is_last: bool) {
        if is_last {
            self.last_of_rooms.received(bare_of(from), number);
        }
        let mut gone = Vec::new();
        let mut stanza = Vec::with_capacity(unaddressed.len() + 256);
        for full in names(to) {
            stanza.clear();
            if unaddressed.is_empty() {
                ask_whether_there(&mut stanza, from, full);
            } else {
                address(&mut stanza, unaddressed, from, full);
            }
            if !self.cast_to(kind, from, full, &stanza, number, unaddressed.is_empty()) {
                gone.push(full);
            }
        }
        if !gone.is_empty() {
            let room = bare_of(from);
            let home = self.cx.kernel.home(room);
            let letters = self.cx.kernel.letters_to(home);
            let (room, sessions) = (letters.name(room), letters.name(&gone.join(BETWEEN)));
            letters.push(Letter::Room(RoomLetter::Gone { room, sessions }));
        }
    }

    /// Delivers a stanza to one session. Returns whether the session exists, as far as it is known.
    fn cast_to(&mut self, kind: Kind, from: &str, full: &str, stanza: &[u8], number: u64, asks: bool) -> bool {
        // A component knows its users: it answers for those that have gone (RFC 6120 8.3.1).
        if let Some((_, ActorKind::Component)) = self.cx.kernel.settings.domains.of(full) {
            if !asks {
                self.incoming(Incoming { kind, origin: None, from, to: full, xml: stanza });
            }
            return true;
        }
        let (bare, resource) = split_resource(full);
        let resource = resource.unwrap_or_default();
        let user = self.actors.users.find(bare);
        let Some(user) = user.filter(|user| self.actors.users.get(*user).first != NONE) else {
            let state = user.and_then(|user| self.actors.users.get(user).state.as_ref());
            let is_known = state.is_some_and(|state| state.known != Known::Unknown);
            // A session of an earlier process may be resumed: it is looked for.
            if !is_known && self.actors.may_have_stored(&self.cx) {
                let kind = if asks { Kind::Request } else { kind };
                self.incoming(Incoming { kind, origin: None, from, to: full, xml: stanza });
                return true;
            }
            return false;
        };
        let mut sessions = self.actors.users.sessions(&self.actors.sessions, user);
        let Some((session, _)) = sessions.find(|(_, session)| *session.resource == *resource) else { return false };
        // What a user blocks is not delivered, and the sender does not learn of it (XEP-0191 3.6).
        if asks || self.actors.guards(&self.cx, user, Way::In, from).is_some() {
            return true;
        }
        match kind {
            Kind::Message { class: MessageClass::Groupchat, .. } => {
                self.message_of_room(session, from, stanza, number);
            }
            _ => {
                self.actors.offer_stanza(&mut self.cx, session, stanza);
            }
        }
        true
    }

    /// Hands a message of a room to a session. One without room for it falls behind, as it does in
    /// the log of its user: it gets nothing more of this room until it has read the archive up to
    /// the end.
    fn message_of_room(&mut self, id: SessionId, from: &str, stanza: &[u8], number: u64) {
        // It has ended.
        let Some(session) = self.actors.sessions.get_mut(id) else { return };
        let is_behind = session.behind_in(bare_of(from)).is_some();
        if !is_behind && (number == 0 || !self.cx.is_busy(id)) {
            return self.actors.hand_ephemeral(&mut self.cx, id, stanza);
        }
        if !is_behind {
            self.falls_behind(id, bare_of(from), number - 1);
        } else if number == 0 {
            self.cx.kernel.counters.stanzas_dropped.one();
        }
    }

    /// A session may have room again: it requests what it has missed of rooms.
    pub(super) fn catch_up_in_rooms(&mut self, id: SessionId) {
        let now_s = self.cx.kernel.now.mono_s();
        let full = self.actors.full_jid(id);
        // It has ended, or is behind nowhere.
        let Some(extra) = self.actors.sessions.get_mut(id).and_then(|session| session.extra.as_mut()) else { return };
        let is_due = |behind: &&mut BehindRoom| behind.follower.asked().is_none_or(|s| now_s >= s + ROOM_AGAIN_S);
        // One at a time: what it reads of one may fill it again.
        let Some(BehindRoom { room, follower }) = extra.behind.iter_mut().find(is_due) else { return };
        follower.ask(now_s);
        let home = self.cx.kernel.home(room);
        let letters = self.cx.kernel.letters_to(home);
        let (room, session) = (letters.name(room), letters.name(&full));
        letters.push(Letter::Room(RoomLetter::CatchUp { room, session, after: follower.at, asked: now_s }));
    }

    fn session_of(&self, full: &str) -> Option<SessionId> {
        let (bare, resource) = split_resource(full);
        let user = self.actors.users.find(bare)?;
        let mut sessions = self.actors.users.sessions(&self.actors.sessions, user);
        sessions.find(|(_, session)| Some(&*session.resource) == resource).map(|(id, _)| id)
    }

    /// A room has sent what a session has missed. What does not fit is requested later.
    pub(super) fn caught_up_in_room(&mut self, room: &str, full: &str, asked: u32, page: &[u8]) {
        // It has ended.
        let Some(id) = self.session_of(full) else { return };
        let follower = self.actors.sessions.get_mut(id).and_then(|session| session.behind_in(room));
        // It was behind in an earlier visit, or has asked again since.
        let Some(mut follower) = follower.filter(|follower| follower.has_asked(asked)).copied() else { return };
        let page = Page::decode(page).unwrap_or_default();
        // Each session here has got these messages, or was behind before the page was sent.
        self.last_of_rooms.received(room, page.upto);
        let after = follower.at;
        follower.read(page.upto.max(after), page.more);
        // A row of the archive has several messages: the first ones may be known.
        for (number, stanza) in page.items.iter().filter(|(number, _)| *number > after) {
            if self.cx.is_busy(id) {
                follower.miss(*number);
                break;
            }
            if !self.is_from_blocked(id, stanza) {
                self.actors.hand_bytes(&mut self.cx, id, 0, stanza);
            }
        }
        // What was handed to it may have ended it.
        let Some(session) = self.actors.sessions.get_mut(id) else { return };
        if let Some(place) = session.behind_in(room) {
            *place = follower;
        }
        session.trim();
    }

    /// Whether the user of a session has blocked the sender of a message since it was sent (XEP-0191
    /// 3.3).
    fn is_from_blocked(&self, id: SessionId, stanza: &[u8]) -> bool {
        let user = self.actors.sessions.get(id).map(|session| session.user);
        let Some(user) = user.filter(|&user| self.actors.has_notes(user)) else { return false };
        let refuses = |from: String| self.actors.guards(&self.cx, user, Way::In, &from).is_some();
        from_of_stanza(stanza).is_some_and(refuses)
    }

    /// Presence that is not directed, for an address of rooms. A room grants no subscription.
    pub(super) fn presence_at_rooms(&mut self, news: PresenceNews, from: &str, to: &str, xml: &[u8]) {
        if let PresenceNews::Subscription { kind, number, confirm } = news {
            let (contact, xml) = (from.into(), xml.into());
            let step = RosterStep::ReceiveSubscription { kind, number, confirm, contact, xml };
            self.cx.kernel.step_for_no_one(to, step);
        }
    }

    /// A room has a standing of a user of this home, or has none any more: noted for the removal of
    /// the account.
    fn known_to_room(&mut self, user: &str, room: &str, knows: bool) {
        let state = self.actors.users.find(user).and_then(|user| self.actors.users.get(user).state.as_ref());
        if knows && state.is_some_and(|state| state.known == Known::Missing) {
            return self.send_room_forget(room, user);
        }
        put_known(&mut self.cx.kernel.writes, user, room, knows);
    }

    fn send_room_forget(&mut self, room: &str, user: &str) {
        let home = self.cx.kernel.home(room);
        let letters = self.cx.kernel.letters_to(home);
        let (room, user) = (letters.name(room), letters.name(user));
        letters.push(Letter::Room(RoomLetter::Forget { room, user }));
    }

    /// An account was removed: these rooms know it. Returns whether there are more.
    pub(super) fn leave_rooms(&mut self, account: &str, found: &Found) -> bool {
        let Found::Rows { rows, more } = found else { return false };
        for room in rows.iter().filter_map(known_room) {
            self.send_room_forget(room, account);
            put_known(&mut self.cx.kernel.writes, account, room, false);
        }
        *more
    }

    /// Tells a room for which messages a user of this home is woken while absent.
    pub(super) fn send_alert(&mut self, user: &str, room: &str, alert: Option<Alert>) {
        let home = self.cx.kernel.home(room);
        let letters = self.cx.kernel.letters_to(home);
        let (user, room) = (letters.name(user), letters.name(room));
        letters.push(Letter::Room(RoomLetter::Alert { user, room, alert: alert.map(Box::new) }));
    }

    /// A message of a room for members of this home that are absent: services that wake their
    /// devices are told (XEP-0357).
    fn wake_for_room(&mut self, from: &str, to: &str, unaddressed: &[u8]) {
        let details = self.cx.kernel.settings.push_details;
        let body = (details == PushDetails::Body).then(|| read_back(unaddressed, message::text).flatten()).flatten();
        for account in names(to) {
            let user = self.actors.users.find(account);
            let blocked = user.is_some_and(|user| self.actors.guards(&self.cx, user, Way::In, from).is_some());
            if blocked || !self.cx.kernel.facts.has(WAKER) {
                continue;
            }
            let last =
                (details != PushDetails::Count).then(|| Box::new(Last { sender: from.into(), body: body.clone() }));
            self.logs.woken.push(Wake { account: account.into(), device: None, waiting: 0, last });
        }
    }

    /// Passes requests for the archives of rooms to their extension.
    pub(super) fn answer_for_rooms(&mut self) {
        for parked in std::mem::take(&mut self.rooms.archive) {
            let (mut scanner, scope) = (Scanner::new(), StreamScope::Usual);
            if scanner.scan(&scope, Expect::Content, usize::MAX, &parked.xml).is_err() {
                self.cx.kernel.confirm(parked.origin);
                continue;
            }
            let element = scanner.element(&scope, &parked.xml);
            let asker = Asker {
                session: None,
                origin: parked.origin,
                id: element.id().map(Into::into),
                from: parked.from.clone(),
                to: Some(parked.to.clone()),
                paced: false,
                front: None,
            };
            self.ask_feature(asker, Target::Room, bare_of(&parked.to), &element, Some(&[]));
        }
    }
}

/// A request that only a session of an earlier process sees, when it is looked for (XEP-0199).
fn ask_whether_there(out: &mut Vec<u8>, from: &str, full: &str) {
    address(out, b"<iq type='get' id='room'><ping xmlns='urn:xmpp:ping'/></iq>", from, full);
}
