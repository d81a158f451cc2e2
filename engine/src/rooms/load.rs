//! What rooms read from the store: the room itself, and what single stanzas need.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::actors::Actors;
use crate::follow::Page;
use crate::kernel::pending::{Pending, RoomNeed as Need, RoomRead, one_value};
use crate::letters::{Kind, Letter, MessageClass, RoomLetter};
use crate::limits::{
    ROOM_AGAIN_BYTES, ROOM_AGAIN_ROWS, ROOM_CARDS_AT_ONCE, ROOM_HISTORY_MAX, ROOM_NEEDS_AHEAD,
    ROOM_STANDINGS_IN_MEMORY_MAX, ROOM_WAITING_MAX,
};
use crate::ns;
use crate::rooms::alerts::Alerts;
use crate::rooms::count::counted;
use crate::rooms::guard::domain_of;
use crate::rooms::invite::{Asks, asks};
use crate::rooms::mentions::{Mention, mentions};
use crate::rooms::occupants::Occupant;
use crate::rooms::rank::{Rank, Role};
use crate::rooms::requests::{NS_MODERATE, Request};
use crate::rooms::room::{Past, Room, Standings};
use crate::rooms::talk::{retracted, write_stanza_id};
use crate::rooms::{Card, Hosted, Rooms, State, admin, avatar, refuse};
use crate::router::users::Incoming;
use crate::store::archive::{Entry, live_entries, number_of, seek};
use crate::store::room::Alert;
use crate::store::room::{Affiliation, Record, Seat, Standing, nick_decode, nick_query};
use crate::store::{self, Found, Query, Row, Table, room_extra};
use crate::streams::Streams;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{bare_of, resource_of};
use crate::wire::splice::address;
use crate::wire::written::read_back;
use crate::wire::{Element, Splice, splice};

/// Recent messages of a room.
fn history_query(room: &str) -> Query {
    Query::Range {
        table: Table::Archive,
        actor: room.as_bytes().into(),
        from: Box::default(),
        until: None,
        reverse: true,
        // Each message may have a row that voids it.
        rows_max: 2 * ROOM_HISTORY_MAX as u32,
        bytes_max: 1 << 20,
    }
}

/// Begins to read a room.
fn read_room(cx: &mut Streams, hosted: &mut Hosted, bare: &str) {
    hosted.reads = true;
    let queries = vec![
        Record::query(bare),
        Standing::query_all(bare),
        history_query(bare),
        Alert::query_all(bare),
        Seat::query(bare, None),
        store::room::Request::query_all(bare),
        room_extra::query(bare),
    ];
    cx.kernel.read(Pending::Room(RoomRead::Room(bare.into())), queries);
}

fn rows(found: Option<Found>) -> (Vec<Row>, bool) {
    match found {
        Some(Found::Rows { rows, more }) => (rows, more),
        _ => (Vec::new(), false),
    }
}

/// Whether a stanza may be a request for rows that no room has in memory: the vCard of a room that
/// has one, or a message that is to be retracted.
fn may_ask_rows(room: &Room, stanza: Incoming<'_>) -> bool {
    let names = |namespace: &str| memchr::memmem::find(stanza.xml, namespace.as_bytes()).is_some();
    let asks = stanza.kind == Kind::Request && resource_of(stanza.to).is_none();
    asks && (room.hashes.is_some() && names(avatar::NS) || names(NS_MODERATE))
}

/// What a stanza needs of a room that does not have all standings in memory.
fn needs(room: &Room, stanza: Incoming<'_>, element: &Element<'_>) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut user = |bare: &str| {
        if !room.standings.knows(bare) {
            needs.push(Need::Standing(bare.into()));
        }
    };
    let sender = bare_of(stanza.from);
    user(sender);
    if room.occupants.of_user(sender).is_empty() {
        user(domain_of(sender));
    }
    match stanza.kind {
        Kind::Message { class, .. } if asks(class) && resource_of(stanza.to).is_none() => match Asks::of(element) {
            Some(Asks::Invite(invites)) => {
                invites.iter().flat_map(|(to, _)| [&**to, domain_of(to)]).for_each(user);
            }
            Some(Asks::Register(form)) => {
                if let Some((bare, nick)) = room.request(&form) {
                    user(bare);
                    needs.extend((!room.standings.knows_nick(nick)).then(|| Need::Nick(nick.into())));
                }
            }
            _ => {}
        },
        Kind::Request if resource_of(stanza.to).is_none() => match Request::of(element) {
            Ok(Request::Card) if room.hashes.is_some() => needs.push(Need::Card),
            Ok(Request::Moderate { id, .. }) if room.may_moderate(stanza.from, id).is_ok() => {
                needs.push(Need::Message(id));
            }
            Ok(Request::Command(command)) => command.user().into_iter().for_each(user),
            Ok(Request::Register(request)) => {
                let nick = request.nick().filter(|nick| !room.standings.knows_nick(nick));
                needs.extend(nick.map(|nick| Need::Nick(nick.into())));
            }
            Ok(Request::Admin(request)) => {
                request.users().for_each(&mut user);
                let nicks = request.nicks().filter_map(|nick| room.occupants.by_nick(nick));
                nicks.filter_map(|slot| room.occupants.get(slot)).for_each(|one| user(&one.bare));
                // A list is long: it is read for those alone who may see it.
                if let admin::Request::Affiliations(affiliation) = request
                    && room.standings.knows(sender)
                    && room.may_list(stanza.from, affiliation).is_ok()
                {
                    needs.push(Need::List(affiliation));
                }
            }
            _ => {}
        },
        Kind::Message { class: MessageClass::Groupchat, .. } if room.record.config.forward_mentions => {
            for mention in mentions(&room.jid, element) {
                match &mention {
                    Mention::Nick(nick) if !room.standings.knows_nick(nick) => needs.push(Need::Nick(nick.clone())),
                    _ => {
                        let bare = mention.user(&room.standings).filter(|bare| !room.standings.knows(bare));
                        needs.extend(bare.map(|bare| Need::Standing(bare.into())));
                    }
                }
            }
        }
        Kind::Directed { unavailable: false } => {
            if let Some(nick) = resource_of(stanza.to).filter(|nick| !room.standings.knows_nick(nick)) {
                needs.push(Need::Nick(nick.into()));
            }
        }
        _ => {}
    }
    needs
}

impl Rooms {
    /// Whether everything that a stanza needs is in memory. If not, it is being read from now on,
    /// together with what the next ones need.
    pub(super) fn is_ready(&mut self, cx: &mut Streams, bare: &str, stanza: Incoming<'_>) -> bool {
        let hosted = self.rooms.entry_ref(bare).or_default();
        let room = match &hosted.state {
            State::Missing => return true,
            State::Here(room) if room.standings.complete && !may_ask_rows(room, stanza) => return true,
            State::Here(room) => room,
            State::Unknown => {
                read_room(cx, hosted, bare);
                return false;
            }
        };
        let of =
            |stanza: Incoming<'_>| read_back(stanza.xml, |element| needs(room, stanza, element)).unwrap_or_default();
        let mut all = of(stanza);
        all.retain(|need| match need {
            Need::Card => hosted.card.as_ref().is_none_or(|card| card.left == 0),
            Need::Message(_) => hosted.exists.is_none(),
            _ => true,
        });
        if let Some(Need::List(_)) = all.last()
            && hosted.list.is_some()
        {
            all.pop();
        }
        if all.is_empty() {
            return true;
        }
        // Those that follow do not wait for a read each. Lists are read one by one.
        for parked in hosted.waiting.iter().take(ROOM_NEEDS_AHEAD) {
            for need in of(parked.into()) {
                if matches!(need, Need::Standing(_) | Need::Nick(_)) && !all.contains(&need) {
                    all.push(need);
                }
            }
        }
        hosted.reads = true;
        let queries = all.iter().map(|need| match need {
            Need::Standing(user) => Standing::query(bare, user),
            Need::Nick(nick) => nick_query(bare, nick),
            Need::List(affiliation) => Standing::query_list(bare, *affiliation),
            Need::Card => room_extra::card_query(bare),
            Need::Message(number) => seek(bare, *number),
        });
        let queries = queries.collect();
        cx.kernel.read(Pending::Room(RoomRead::Needs(bare.into(), all)), queries);
        false
    }

    /// Handles rows that were read.
    pub(crate) fn found(&mut self, cx: &mut Streams, actors: &mut Actors, read: RoomRead, found: Vec<Found>) {
        if found.contains(&Found::Damaged) {
            return self.unreadable(cx, actors, read);
        }
        match read {
            RoomRead::Room(bare) => self.room_found(cx, actors, &bare, found),
            RoomRead::Seats(bare) => self.seats_found(cx, actors, &bare, found.into_iter().next()),
            RoomRead::Needs(bare, needs) => self.needs_found(cx, actors, &bare, needs, found),
            RoomRead::Behind { room, session, asked, last } => {
                self.behind_found(cx, &room, &session, asked, last, found);
            }
            RoomRead::Directory(asked) => self.directory_found(cx, asked, found),
            RoomRead::Counts(read) => self.counts_found(cx, *read, &found),
            RoomRead::Search(read) => self.search_found(cx, *read, found.into_iter().next()),
        }
    }

    /// Rows are damaged: what waits for them gets an error, and nothing is written over them.
    fn unreadable(&mut self, cx: &mut Streams, actors: &mut Actors, read: RoomRead) {
        let bare = match read {
            RoomRead::Room(bare) | RoomRead::Seats(bare) | RoomRead::Needs(bare, _) => bare,
            RoomRead::Behind { room, session, asked, .. } => {
                return caught_up(cx, &room, &session, asked, &Page::default());
            }
            RoomRead::Directory(asked) => return self.directory_found(cx, asked, Vec::new()),
            RoomRead::Counts(read) => return self.counts_found(cx, *read, &[]),
            RoomRead::Search(read) => return self.search_found(cx, *read, None),
        };
        let Some(hosted) = self.rooms.get_mut(&bare) else { return };
        hosted.reads = false;
        for (session, _, asked) in std::mem::take(&mut hosted.behind) {
            caught_up(cx, &bare, &session, asked, &Page::default());
        }
        let waiting = std::mem::take(&mut hosted.waiting);
        for parked in waiting {
            refuse(cx, actors, (&parked).into(), StanzaCondition::InternalServerError.into());
        }
        self.settle(cx, &bare);
    }

    fn room_found(&mut self, cx: &mut Streams, actors: &mut Actors, bare: &str, found: Vec<Found>) {
        let Some(hosted) = self.rooms.get_mut(bare) else { return };
        let mut found = found.into_iter();
        let record = found.next().and_then(|found| one_value(vec![found]));
        let standings = rows(found.next());
        let (history, has_older) = rows(found.next());
        let (alerts, _) = rows(found.next());
        let (seats, requests, extra) = (found.next(), rows(found.next()).0, rows(found.next()).0);
        let Some(record) = record else {
            (hosted.state, hosted.reads) = (State::Missing, false);
            return self.go_on(cx, actors, bare);
        };
        let (Some(record), Some(extra)) = (Record::decode(&record), room_extra::decode(&extra)) else {
            return self.unreadable(cx, actors, RoomRead::Room(bare.into()));
        };
        let few = !standings.1 && standings.0.len() <= ROOM_STANDINGS_IN_MEMORY_MAX;
        let all =
            standings.0.iter().filter_map(|row| Some((Standing::jid_of(row)?.into(), Standing::decode(&row.value)?)));
        let all: Option<BTreeMap<Box<str>, Standing>> = few.then(|| all.collect());
        let mut room = Room::new(bare, record, Standings::new(all), cx.kernel.now.mono_s());
        room.alerts = Alerts::of(&alerts);
        room.has_older = has_older;
        (room.hats, room.hashes) = extra;
        if remember(&mut room, history) {
            room.put(&mut cx.kernel);
        }
        room.requests = requests.iter().filter_map(request_of).collect();
        hosted.state = State::Here(Box::new(room));
        self.seats_found(cx, actors, bare, seats);
    }

    /// Sessions that were in the room when the server stopped. Those that are not resumed are
    /// reported as gone.
    fn seats_found(&mut self, cx: &mut Streams, actors: &mut Actors, bare: &str, found: Option<Found>) {
        let Some(hosted) = self.rooms.get_mut(bare) else { return };
        let State::Here(room) = &mut hosted.state else { return };
        let (rows, more) = rows(found);
        let before = room.occupants.seats();
        for row in &rows {
            let (Some(full), Some(seat)) = (Seat::jid_of(row), Seat::decode(&row.value)) else { continue };
            if seat.presence.is_empty() {
                room.left.push((full.into(), seat.nick));
                continue;
            }
            let user = bare_of(full);
            let taken = room.occupants.by_nick(&seat.nick).and_then(|slot| room.occupants.get(slot));
            if taken.is_some_and(|occupant| *occupant.bare != *user) {
                room.delete_seat(&mut cx.kernel, full);
                continue;
            }
            let affiliation = room.standings.get(user).map_or(Affiliation::None, |standing| standing.affiliation);
            let rank = Rank { affiliation, role: Role::initial(affiliation, &room.record.config) };
            room.occupants.enter(full, &seat.nick, rank, Arc::from(seat.presence));
        }
        self.occupants += room.occupants.seats() - before;
        if let Some(last) = rows.last().filter(|_| more).and_then(Seat::jid_of) {
            return cx.kernel.read(Pending::Room(RoomRead::Seats(bare.into())), vec![Seat::query(bare, Some(last))]);
        }
        // If not all standings are in memory, those of the occupants are read now.
        let lacks = |occupant: &&Occupant| !room.standings.knows(&occupant.bare);
        let users: Vec<Need> = room
            .occupants
            .iter()
            .map(|(_, occupant)| occupant)
            .filter(lacks)
            .map(|occupant| Need::Standing(occupant.bare.clone()))
            .collect();
        room.tell_left(&mut cx.kernel);
        room.ask_who_is_there(&mut cx.kernel, |_, _| true);
        if !users.is_empty() {
            let query = |need: &Need| match need {
                Need::Standing(user) => Some(Standing::query(bare, user)),
                _ => None,
            };
            let queries = users.iter().filter_map(query).collect();
            return cx.kernel.read(Pending::Room(RoomRead::Needs(bare.into(), users)), queries);
        }
        hosted.reads = false;
        self.go_on(cx, actors, bare);
    }

    fn needs_found(&mut self, cx: &mut Streams, actors: &mut Actors, bare: &str, needs: Vec<Need>, found: Vec<Found>) {
        let Some(hosted) = self.rooms.get_mut(bare) else { return };
        hosted.reads = false;
        let State::Here(room) = &mut hosted.state else { return };
        for (need, found) in needs.into_iter().zip(found) {
            match need {
                Need::Standing(user) => {
                    let standing = found.value().and_then(|value| Standing::decode(&value)).unwrap_or_default();
                    room.restore_rank(&user, standing.affiliation);
                    room.standings.put(&user, standing);
                }
                Need::Nick(nick) => {
                    room.standings.put_nick(&nick, found.value().and_then(|value| nick_decode(&value)));
                }
                Need::Card => {
                    let card = found.value().and_then(|value| room_extra::card_decode(&value));
                    hosted.card = Some(Card { xml: card.map(Arc::from), left: ROOM_CARDS_AT_ONCE });
                }
                Need::Message(number) => {
                    let (rows, _) = rows(Some(found));
                    let all = live_entries(&rows).unwrap_or_default();
                    hosted.exists = Some(all.iter().any(|(other, _)| *other == number));
                }
                Need::List(_) => {
                    let (rows, _) = rows(Some(found));
                    let users =
                        rows.iter().filter_map(|row| Some((Standing::jid_of(row)?.into(), Standing::default())));
                    hosted.list = Some(users.collect());
                }
            }
        }
        self.go_on(cx, actors, bare);
    }
}

impl Rooms {
    /// A session that is behind requests the next messages.
    pub(crate) fn catch_up(&mut self, cx: &mut Streams, room: &str, session: &str, after: u64, asked: u32) {
        let last = self.last_number(room, session);
        let hosted = self.rooms.entry_ref(room).or_default();
        // This home has started again since the session entered.
        if last.is_none() && (hosted.reads || matches!(hosted.state, State::Unknown)) {
            if hosted.behind.len() < ROOM_WAITING_MAX {
                hosted.behind.push((session.into(), after, asked));
            }
            if !hosted.reads {
                read_room(cx, hosted, room);
            }
            return;
        }
        let Some(last) = last else {
            return caught_up(cx, room, session, asked, &Page::default());
        };
        // It has missed nothing.
        if after >= last {
            return caught_up(cx, room, session, asked, &Page { last, upto: last, ..Page::default() });
        }
        let query = Query::Range {
            table: Table::Archive,
            actor: room.as_bytes().into(),
            from: (after + 1).to_be_bytes().as_slice().into(),
            until: None,
            reverse: false,
            rows_max: ROOM_AGAIN_ROWS,
            bytes_max: ROOM_AGAIN_BYTES,
        };
        let (room, session) = (room.into(), session.into());
        cx.kernel.read(Pending::Room(RoomRead::Behind { room, session, asked, last }), vec![query]);
    }

    /// The number of the last message of a room, for a session in it. `None` if the session has
    /// left meanwhile, or the room has ended.
    fn last_number(&self, room: &str, session: &str) -> Option<u64> {
        match self.rooms.get(room).map(|hosted| &hosted.state) {
            Some(State::Here(here)) => here.occupant(session).map(|_| here.record.said.number),
            _ => None,
        }
    }

    /// Messages for a session that is behind were read. If there are more, it requests them when it
    /// has room for them.
    fn behind_found(&mut self, cx: &mut Streams, room: &str, session: &str, asked: u32, last: u64, found: Vec<Found>) {
        let now = self.last_number(room, session);
        let (rows, more) = rows(found.into_iter().next());
        let (Some(now), Some(entries)) = (now, live_entries(&rows)) else {
            return caught_up(cx, room, session, asked, &Page::default());
        };
        let item = |(number, entry): (u64, Entry<'_>)| {
            let mut xml = Vec::with_capacity(entry.xml.len() + 256);
            read_back(entry.xml, |element| unaddressed(&mut xml, room, number, element))?;
            let mut stanza = Vec::with_capacity(xml.len() + 256);
            address(&mut stanza, &xml, entry.peer, session);
            Some((number, Cow::Owned(stanza)))
        };
        let read = rows.last().and_then(|row| number_of(&row.sort)).unwrap_or_default();
        // The session was not sent what has been said since the read began.
        let (upto, more) = (if more { read } else { read.max(last) }, more || now > last);
        let items = entries.into_iter().filter_map(item).collect();
        caught_up(cx, room, session, asked, &Page { last: now, upto, more, gap: false, items });
    }
}

/// Answers a session that is behind.
fn caught_up(cx: &mut Streams, room: &str, session: &str, asked: u32, page: &Page<'_>) {
    let home = cx.kernel.home(bare_of(session));
    let letters = cx.kernel.letters_to(home);
    let (room, session, page) = (letters.name(room), letters.name(session), letters.write(&page.encode()));
    letters.push(Letter::Room(RoomLetter::CaughtUp { room, session, asked, page }));
}

/// Writes an archived message as it was sent to the occupants.
fn unaddressed(out: &mut Vec<u8>, room: &str, number: u64, element: &Element<'_>) {
    let mut id = Vec::with_capacity(128);
    write_stanza_id(&mut id, room, number);
    splice(out, element, &Splice { unaddressed: true, append: &[&id], ..Splice::default() });
}

/// The user and the nick of a request to register.
fn request_of(row: &Row) -> Option<(Box<str>, Box<str>)> {
    Some((store::room::Request::jid_of(row)?.into(), store::room::Request::decode(&row.value)?.nick))
}

/// Fills the recent history from the archive. The rows are in reverse order. Returns whether there
/// are messages that the room had not counted.
fn remember(room: &mut Room, mut rows: Vec<Row>) -> bool {
    rows.reverse();
    let Some(entries) = live_entries(&rows) else { return false };
    let stored = room.record.said;
    room.record.said = counted(stored, &entries);
    let skipped = entries.len().saturating_sub(ROOM_HISTORY_MAX);
    for (number, entry) in entries.into_iter().skip(skipped) {
        read_back(entry.xml, |element| {
            if element.child("body", ns::CLIENT).is_some() {
                let mut xml = Vec::with_capacity(entry.xml.len() + 128);
                unaddressed(&mut xml, &room.jid, number, element);
                let (time_ms, from) = (entry.time_ms, entry.peer.into());
                room.remember(Past { time_ms, number, from, xml: Arc::from(xml) });
            }
            let by = element.child("occupant-id", ns::OCCUPANT_ID);
            if let Some((number, by)) = retracted(element).zip(by.as_ref().and_then(|by| by.attribute("id"))) {
                room.forget(number, Some(&by));
            }
        });
    }
    stored != room.record.said
}
