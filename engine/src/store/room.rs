//! Rows of a room (XEP-0045), and of the directory of the service that it belongs to:
//! [`Table::Rooms`].
//!
//! Sort keys begin with a byte for the kind of row:
//!
//! ```text
//! 0                              the room: configuration, subject, secret
//! 1 | bare JID                   the standing of a JID: affiliation and reserved nick
//! 2 | affiliation | bare JID     marks an affiliation, to list one kind alone
//! 3 | full JID                   a session that is in the room, and its nick
//! 4 | nick                       the bare JID for which a nick is reserved
//! 5 | localpart                  at the service: a public room, with its name
//! 6 | room                       at a user: a room in which the user has a standing
//! 7 | bare JID                   a user that wants to register with the room, and the nick
//! 8 | bare JID                   a member whose devices are woken while it is absent
//! 9                              hats, and who wears them ([`super::room_extra`])
//! 10                             the hashes of the images in the vCard
//! 11                             the vCard
//! ```
//!
//! The rows of a session let a room recognise its occupants after a crash. A room without occupants
//! has none. The archive of a room is that of an actor like any other ([`super::archive`]).

use serde::{Deserialize, Serialize};

use super::{Batch, Query, Row, Table};
use crate::limits::{
    ROOM_ALERTS_MAX, ROOM_LIST_MAX, ROOM_OCCUPANTS_PAGE, ROOM_REQUESTS_MAX, ROOM_STANDINGS_IN_MEMORY_MAX,
};

pub(super) const RECORD: u8 = 0;
pub(super) const STANDING: u8 = 1;
pub(super) const MARK: u8 = 2;
pub(super) const SEAT: u8 = 3;
pub(super) const NICK: u8 = 4;
pub(super) const LISTED: u8 = 5;
pub(super) const KNOWN: u8 = 6;
pub(super) const REQUEST: u8 = 7;
pub(super) const ALERT: u8 = 8;

/// First byte of a row's value: its format. The rest is written by `postcard`.
const FORMAT: u8 = 1;
/// That of standings with [`Standing::self_registered`], which [`FORMAT`] lacks.
const FORMAT_2: u8 = 2;

/// A long-lived relation of a user to a room (XEP-0045 5.2), in the order of power.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum Affiliation {
    /// Banned.
    Outcast,
    /// Of no affiliation.
    #[default]
    None,
    /// May enter a members-only room, and speaks in a moderated one.
    Member,
    /// A moderator who manages members and bans.
    Admin,
    /// Also configures the room.
    Owner,
}

impl Affiliation {
    /// Those that rows record, the most powerful first.
    pub const RECORDED: [Affiliation; 4] =
        [Affiliation::Owner, Affiliation::Admin, Affiliation::Member, Affiliation::Outcast];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Affiliation::Outcast => "outcast",
            Affiliation::None => "none",
            Affiliation::Member => "member",
            Affiliation::Admin => "admin",
            Affiliation::Owner => "owner",
        }
    }

    /// The affiliation with this name.
    pub fn from_name(name: &str) -> Option<Affiliation> {
        Affiliation::RECORDED.into_iter().chain([Affiliation::None]).find(|one| one.name() == name)
    }
}

/// Occupants by their role (XEP-0045 5.1), as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Roles {
    /// Moderators.
    pub moderator: bool,
    /// Participants.
    pub participant: bool,
    /// Visitors.
    pub visitor: bool,
}

impl Roles {
    /// All roles.
    pub const ALL: Roles = Roles { moderator: true, participant: true, visitor: true };
}

/// Those who may send private messages (`muc#roomconfig_allowpm`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AllowPm {
    /// All occupants.
    Anyone,
    /// Occupants with voice.
    Participants,
    /// Moderators.
    Moderators,
    /// None.
    None,
}

/// The configuration of a room (XEP-0045 10.2, 15.5.3).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Natural-language name; may be empty.
    pub name: Box<str>,
    /// Description; may be empty.
    pub description: Box<str>,
    /// Language tag; may be empty.
    pub language: Box<str>,
    /// Whether the service lists the room.
    pub public: bool,
    /// Whether the room continues to exist without occupants.
    pub persistent: bool,
    /// Whether only occupants with voice may speak, and newcomers have none.
    pub moderated: bool,
    /// Whether only members may enter.
    pub members_only: bool,
    /// The password that is needed to enter.
    pub password: Option<Box<str>>,
    /// Whether all occupants see real JIDs, not only moderators.
    pub shows_jids: bool,
    /// Whether messages stay in the archive of the room.
    pub archive: bool,
    /// Whether participants may change the subject.
    pub change_subject: bool,
    /// Whether all occupants may invite, not only admins.
    pub allow_invites: bool,
    /// Those who may send private messages.
    pub allow_pm: AllowPm,
    /// Maximum number of occupants; 0 for the limit of the service.
    pub occupants_max: u32,
    /// Maximum number of messages of history sent to a newcomer.
    pub history: u8,
    /// The roles whose presence is broadcast.
    pub presence: Roles,
    /// The roles that may retrieve the list of members.
    pub member_list: Roles,
    /// Seconds between two messages of one occupant (XEP-0500); 0 for no delay.
    pub slow_mode_s: u16,
    /// Whether messages are forwarded to absent members that they mention (XEP-0452).
    pub forward_mentions: bool,
    /// Whether users may register with the room (XEP-0045 7.10).
    pub registration: bool,
}

impl Default for Config {
    /// The configuration of an instant room (XEP-0045 10.1.2): open, temporary, semi-anonymous.
    fn default() -> Config {
        Config {
            name: "".into(),
            description: "".into(),
            language: "".into(),
            public: true,
            persistent: false,
            moderated: false,
            members_only: false,
            password: None,
            shows_jids: false,
            archive: true,
            change_subject: false,
            allow_invites: false,
            allow_pm: AllowPm::Anyone,
            occupants_max: 0,
            history: 20,
            presence: Roles::ALL,
            member_list: Roles { moderator: true, participant: false, visitor: false },
            slow_mode_s: 0,
            forward_mentions: false,
            registration: true,
        }
    }
}

/// The subject of a room (XEP-0045 7.2.15, 8.1).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Subject {
    /// The text; may be empty.
    pub text: Box<str>,
    /// The nick of the occupant who set it.
    pub nick: Box<str>,
    /// When it was set, milliseconds since the Unix epoch.
    pub time_ms: u64,
}

/// The row of a room.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The configuration.
    pub config: Config,
    /// The subject.
    pub subject: Subject,
    /// The key of occupant ids (XEP-0421 5): they differ from room to room.
    pub secret: [u8; 16],
    /// The number of owners. A room always has one.
    pub owners: u32,
    /// Whether the room waits for its first configuration (XEP-0045 10.1.2).
    pub locked: bool,
    /// When the room was created, milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// The end of its messages. Up to
    /// [`ROOM_COUNTED_EVERY`](crate::limits::ROOM_COUNTED_EVERY) later ones may be in the archive.
    pub said: Position,
}

/// A place in the archived messages of a room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Position {
    /// The number of the last message before it; 0 for none.
    pub number: u64,
    /// How many messages with a text there were up to it, since the room was created.
    pub count: u64,
    /// The time at which the room was there, milliseconds since the Unix epoch.
    pub time_ms: u64,
}

/// The standing of a user in a room.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Standing {
    /// The affiliation.
    pub affiliation: Affiliation,
    /// The nick that is reserved for the user (XEP-0045 7.10).
    pub nick: Option<Box<str>>,
    /// Why it was given.
    pub reason: Option<Box<str>>,
    /// Up to where a member has got the messages of the room. It counts while the member is absent:
    /// a member in the room gets everything.
    pub left: Position,
    /// Whether the user has become a member by registration, without an admin.
    pub self_registered: bool,
}

impl Standing {
    /// Whether there is nothing to record.
    pub fn is_none(&self) -> bool {
        self.affiliation == Affiliation::None && self.nick.is_none()
    }

    /// Whether the room keeps for the user, while absent, up to where the user has its messages.
    pub fn is_member(&self) -> bool {
        self.affiliation >= Affiliation::Member
    }
}

/// A session that is in a room, or, if its presence is empty, that has left it without the others
/// knowing yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Seat {
    /// The nick.
    pub nick: Box<str>,
    /// The presence, as occupants see it, without what the room adds.
    pub presence: Box<[u8]>,
}

pub(super) fn written<T: Serialize>(value: &T) -> Vec<u8> {
    written_as(FORMAT, value)
}

fn written_as<T: Serialize>(format: u8, value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![format]).expect("memory takes all bytes")
}

pub(super) fn read<'a, T: Deserialize<'a>>(value: &'a [u8]) -> Option<T> {
    read_as(FORMAT, value)
}

fn read_as<'a, T: Deserialize<'a>>(format: u8, value: &'a [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(value.strip_prefix(&[format])?).ok()?;
    rest.is_empty().then_some(value)
}

pub(super) fn get(room: &str, sort: Box<[u8]>) -> Query {
    Query::Get { table: Table::Rooms, actor: room.as_bytes().into(), sort }
}

fn key(kind: u8, rest: &str) -> Box<[u8]> {
    [&[kind], rest.as_bytes()].concat().into()
}

pub(super) fn range(room: &str, from: Box<[u8]>, until: Box<[u8]>, rows_max: usize) -> Query {
    Query::Range {
        table: Table::Rooms,
        actor: room.as_bytes().into(),
        from,
        until: Some(until),
        reverse: false,
        rows_max: u32::try_from(rows_max).unwrap_or(u32::MAX),
        bytes_max: 16 << 20,
    }
}

/// What a record has beside its configuration.
type Rest = (Subject, [u8; 16], u32, bool, u64, Position);

/// An early record, whose configuration ends before [`Config::forward_mentions`].
type BeforeRegistration =
    (([Box<str>; 3], [bool; 4], Option<Box<str>>, [bool; 4], AllowPm, u32, u8, [Roles; 2], u16), Rest);

impl From<BeforeRegistration> for Record {
    fn from((config, rest): BeforeRegistration) -> Record {
        let (subject, secret, owners, locked, created_ms, said) = rest;
        let (texts, access, password, flags, allow_pm, occupants_max, history, roles, slow_mode_s) = config;
        let [name, description, language] = texts;
        let [public, persistent, moderated, members_only] = access;
        let [shows_jids, archive, change_subject, allow_invites] = flags;
        let [presence, member_list] = roles;
        let config = Config {
            name,
            description,
            language,
            public,
            persistent,
            moderated,
            members_only,
            password,
            shows_jids,
            archive,
            change_subject,
            allow_invites,
            allow_pm,
            occupants_max,
            history,
            presence,
            member_list,
            slow_mode_s,
            ..Config::default()
        };
        Record { config, subject, secret, owners, locked, created_ms, said }
    }
}

impl Record {
    /// The query for the row.
    pub fn query(room: &str) -> Query {
        get(room, Box::new([RECORD]))
    }

    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, room: &str) {
        batch.put(Table::Rooms, room.as_bytes(), &[RECORD], &[&written(self)]);
    }

    /// Reads the row; `None` if it is damaged or of a later format.
    pub fn decode(value: &[u8]) -> Option<Record> {
        read(value).or_else(|| Some(read::<BeforeRegistration>(value)?.into()))
    }
}

/// Removes everything that a room has stored, except the entry in its service's directory.
pub fn delete_room(batch: &mut Batch, room: &str) {
    for table in [Table::Rooms, Table::Archive, Table::Private] {
        batch.delete_actor(table, room.as_bytes());
    }
}

impl Standing {
    /// The query for the standing of one user.
    pub fn query(room: &str, bare: &str) -> Query {
        get(room, key(STANDING, bare))
    }

    /// The query for all standings, one more than are kept in memory.
    pub fn query_all(room: &str) -> Query {
        range(room, Box::new([STANDING]), Box::new([MARK]), ROOM_STANDINGS_IN_MEMORY_MAX + 1)
    }

    /// The query for the users with an affiliation, in the order of their JIDs.
    pub fn query_list(room: &str, affiliation: Affiliation) -> Query {
        let kind = affiliation as u8;
        range(room, Box::new([MARK, kind]), Box::new([MARK, kind + 1]), ROOM_LIST_MAX + 1)
    }

    /// The query for members, admins and owners.
    pub fn query_members(room: &str, rows_max: usize) -> Query {
        let (least, most) = (Affiliation::Member as u8, Affiliation::Owner as u8);
        range(room, Box::new([MARK, least]), Box::new([MARK, most + 1]), rows_max)
    }

    /// The bare JID of a row of [`Standing::query_all`] or [`Standing::query_list`].
    pub fn jid_of(row: &Row) -> Option<&str> {
        let rest = match row.sort.split_first()? {
            (&STANDING, rest) => rest,
            (&MARK, rest) => rest.get(1..)?,
            _ => return None,
        };
        std::str::from_utf8(rest).ok()
    }

    /// The row: most standings need only what [`FORMAT`] has.
    fn written(&self) -> Vec<u8> {
        let Standing { affiliation, nick, reason, left, self_registered } = self;
        match self_registered {
            true => written_as(FORMAT_2, self),
            false => written(&(affiliation, nick, reason, left)),
        }
    }

    /// Writes the standing of a user in place of the former one, or removes it.
    pub fn put(&self, batch: &mut Batch, room: &str, bare: &str, former: &Standing) {
        let room = room.as_bytes();
        match self.is_none() {
            true => batch.delete(Table::Rooms, room, &key(STANDING, bare)),
            false => batch.put(Table::Rooms, room, &key(STANDING, bare), &[&self.written()]),
        }
        if former.affiliation != self.affiliation {
            for (standing, puts) in [(former, false), (self, true)] {
                if standing.affiliation == Affiliation::None {
                    continue;
                }
                let mark = [&[MARK, standing.affiliation as u8], bare.as_bytes()].concat();
                match puts {
                    true => batch.put(Table::Rooms, room, &mark, &[&[FORMAT]]),
                    false => batch.delete(Table::Rooms, room, &mark),
                }
            }
        }
        if former.nick != self.nick {
            if let Some(nick) = &former.nick {
                batch.delete(Table::Rooms, room, &key(NICK, nick));
            }
            if let Some(nick) = &self.nick {
                batch.put(Table::Rooms, room, &key(NICK, nick), &[&written(&bare)]);
            }
        }
    }

    /// Reads a row; `None` if it is damaged or of a later format.
    pub fn decode(value: &[u8]) -> Option<Standing> {
        read_as(FORMAT_2, value).or_else(|| {
            let (affiliation, nick, reason, left) = read(value)?;
            Some(Standing { affiliation, nick, reason, left, self_registered: false })
        })
    }
}

/// The query for the user for whom a nick is reserved.
pub fn nick_query(room: &str, nick: &str) -> Query {
    get(room, key(NICK, nick))
}

/// The user for whom a nick is reserved.
pub fn nick_decode(value: &[u8]) -> Option<Box<str>> {
    read(value)
}

/// A user that wants to register with a room (XEP-0045 9.9).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The nick to be reserved.
    pub nick: Box<str>,
}

impl Request {
    /// The query for all requests of a room.
    pub fn query_all(room: &str) -> Query {
        range(room, Box::new([REQUEST]), Box::new([REQUEST + 1]), ROOM_REQUESTS_MAX)
    }

    /// The bare JID of a row.
    pub fn jid_of(row: &Row) -> Option<&str> {
        let (&REQUEST, rest) = row.sort.split_first()? else { return None };
        std::str::from_utf8(rest).ok()
    }

    /// Writes the row of a user.
    pub fn put(&self, batch: &mut Batch, room: &str, bare: &str) {
        batch.put(Table::Rooms, room.as_bytes(), &key(REQUEST, bare), &[&written(self)]);
    }

    /// Removes the row of a user.
    pub fn delete(batch: &mut Batch, room: &str, bare: &str) {
        batch.delete(Table::Rooms, room.as_bytes(), &key(REQUEST, bare));
    }

    /// Reads a row; `None` if it is damaged or of a later format.
    pub fn decode(value: &[u8]) -> Option<Request> {
        read(value)
    }
}

impl Seat {
    /// The query for the sessions in a room, after the given full JID.
    pub fn query(room: &str, after: Option<&str>) -> Query {
        let from = match after {
            None => Box::from([SEAT].as_slice()),
            Some(full) => [&[SEAT], full.as_bytes(), &[0]].concat().into(),
        };
        range(room, from, Box::new([NICK]), ROOM_OCCUPANTS_PAGE)
    }

    /// The full JID of a row.
    pub fn jid_of(row: &Row) -> Option<&str> {
        let (&SEAT, rest) = row.sort.split_first()? else { return None };
        std::str::from_utf8(rest).ok()
    }

    /// Writes the row of a session.
    pub fn put(&self, batch: &mut Batch, room: &str, full: &str) {
        batch.put(Table::Rooms, room.as_bytes(), &key(SEAT, full), &[&written(self)]);
    }

    /// Removes the row of a session.
    pub fn delete(batch: &mut Batch, room: &str, full: &str) {
        batch.delete(Table::Rooms, room.as_bytes(), &key(SEAT, full));
    }

    /// Reads a row; `None` if it is damaged or of a later format.
    pub fn decode(value: &[u8]) -> Option<Seat> {
        read(value)
    }
}

/// A public room in the directory of its service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listed {
    /// The name of the room; may be empty.
    pub name: Box<str>,
    /// The description of the room; may be empty.
    pub description: Box<str>,
}

impl Listed {
    /// The query for a page of the directory, after the room with this localpart.
    pub fn query(service: &str, after: Option<&str>, rows_max: usize) -> Query {
        let from = match after {
            None => Box::from([LISTED].as_slice()),
            Some(local) => [&[LISTED], local.as_bytes(), &[0]].concat().into(),
        };
        range(service, from, Box::new([LISTED + 1]), rows_max)
    }

    /// The localpart of a row.
    pub fn local_of(row: &Row) -> Option<&str> {
        let (&LISTED, rest) = row.sort.split_first()? else { return None };
        std::str::from_utf8(rest).ok()
    }

    /// Writes the row of a room.
    pub fn put(&self, batch: &mut Batch, service: &str, local: &str) {
        batch.put(Table::Rooms, service.as_bytes(), &key(LISTED, local), &[&written(self)]);
    }

    /// The value of the row.
    pub fn written(&self) -> Vec<u8> {
        written(self)
    }

    /// Removes the row of a room.
    pub fn delete(batch: &mut Batch, service: &str, local: &str) {
        batch.delete(Table::Rooms, service.as_bytes(), &key(LISTED, local));
    }

    /// Reads a row; `None` if it is damaged or of a later format.
    pub fn decode(value: &[u8]) -> Option<Listed> {
        read(value)
    }
}

/// Notes at a user that a room has a standing of the user, or has none any more.
pub fn put_known(batch: &mut Batch, user: &str, room: &str, known: bool) {
    match known {
        true => batch.put(Table::Rooms, user.as_bytes(), &key(KNOWN, room), &[&[FORMAT]]),
        false => batch.delete(Table::Rooms, user.as_bytes(), &key(KNOWN, room)),
    }
}

/// The query for the rooms that have a standing of a user, in the order of their JIDs, after one. It
/// reads at most 64 KiB.
pub fn known_query(user: &str, after: Option<&str>, rows_max: usize) -> Query {
    let from = match after {
        None => Box::from([KNOWN].as_slice()),
        Some(room) => [&[KNOWN], room.as_bytes(), &[0]].concat().into(),
    };
    Query::Range {
        table: Table::Rooms,
        actor: user.as_bytes().into(),
        from,
        until: Some(Box::new([KNOWN + 1])),
        reverse: false,
        rows_max: u32::try_from(rows_max).unwrap_or(u32::MAX),
        bytes_max: 64 << 10,
    }
}

/// The room of a row of [`known_query`].
pub fn known_room(row: &Row) -> Option<&str> {
    let (&KNOWN, rest) = row.sort.split_first()? else { return None };
    std::str::from_utf8(rest).ok()
}

/// The messages for which an absent member is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum When {
    /// Those that mention it.
    Mentioned,
    /// All with a text.
    Always,
}

/// A member that is to be woken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Alert {
    /// When.
    pub when: When,
    /// The nick by which others mention it, in small letters.
    pub nick: Box<str>,
}

impl Alert {
    /// The query for all of a room.
    pub fn query_all(room: &str) -> Query {
        range(room, Box::new([ALERT]), Box::new([ALERT + 1]), ROOM_ALERTS_MAX)
    }

    /// The member of a row.
    pub fn jid_of(row: &Row) -> Option<&str> {
        let (&ALERT, rest) = row.sort.split_first()? else { return None };
        std::str::from_utf8(rest).ok()
    }

    /// Writes the row of a member.
    pub fn put(&self, batch: &mut Batch, room: &str, bare: &str) {
        batch.put(Table::Rooms, room.as_bytes(), &key(ALERT, bare), &[&written(self)]);
    }

    /// Removes the row of a member.
    pub fn delete(batch: &mut Batch, room: &str, bare: &str) {
        batch.delete(Table::Rooms, room.as_bytes(), &key(ALERT, bare));
    }

    /// Reads a row; `None` if it is damaged or of a later format.
    pub fn decode(value: &[u8]) -> Option<Alert> {
        read(value)
    }
}

/// Whether a row of these kinds is whole.
pub(super) fn is_whole(sort: &[u8], value: &[u8]) -> bool {
    match sort.first() {
        Some(&RECORD) => Record::decode(value).is_some(),
        Some(&STANDING) => Standing::decode(value).is_some(),
        Some(&MARK) => value == [FORMAT],
        Some(&SEAT) => Seat::decode(value).is_some(),
        Some(&NICK) => nick_decode(value).is_some(),
        Some(&LISTED) => Listed::decode(value).is_some(),
        Some(&KNOWN) => value == [FORMAT],
        Some(&REQUEST) => Request::decode(value).is_some(),
        Some(&ALERT) => Alert::decode(value).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;
    use proptest::prelude::*;

    fn affiliation() -> impl Strategy<Value = Affiliation> {
        prop::sample::select(vec![
            Affiliation::Outcast,
            Affiliation::None,
            Affiliation::Member,
            Affiliation::Admin,
            Affiliation::Owner,
        ])
    }

    proptest! {
        #[test]
        fn rows_read_back(
            name in "[^\0]{0,20}",
            nick in prop::option::of("[^\0]{1,20}"),
            affiliation in affiliation(),
            former in affiliation(),
            secret: [u8; 16],
            flags: [bool; 4],
            numbers: [u64; 3],
        ) {
            let said = Position { number: numbers[0], count: numbers[1], time_ms: numbers[2] };
            let mut batch = Batch::new();
            let config = Config {
                name: name.as_str().into(),
                password: nick.as_deref().map(Into::into),
                persistent: flags[0],
                members_only: flags[1],
                ..Config::default()
            };
            let record =
                Record { config, subject: Subject::default(), secret, owners: 1, locked: flags[2], created_ms: 7, said };
            record.put(&mut batch, "r@x");
            let nick = nick.as_deref().map(Into::into);
            let standing = Standing { affiliation, nick, reason: None, left: said, self_registered: flags[3] };
            standing.put(&mut batch, "r@x", "a@x", &Standing { affiliation: former, ..Standing::default() });
            let seat = Seat { nick: name.as_str().into(), presence: (*b"<presence/>").into() };
            seat.put(&mut batch, "r@x", "a@x/y");
            let listed = Listed { name: name.as_str().into(), description: "".into() };
            listed.put(&mut batch, "x", "r");
            for op in batch.iter() {
                let OpView::Put { table: Table::Rooms, sort, value, .. } = op else { continue };
                prop_assert!(is_whole(sort, value));
                prop_assert!(!is_whole(sort, &value[..value.len() - 1]), "cut");
                let row = Row { sort: sort.into(), value: value.into() };
                match sort[0] {
                    RECORD => prop_assert_eq!(Record::decode(value), Some(record.clone())),
                    STANDING => {
                        prop_assert_eq!(Standing::jid_of(&row), Some("a@x"));
                        prop_assert_eq!(Standing::decode(value), Some(standing.clone()));
                    }
                    MARK => prop_assert_eq!(Standing::jid_of(&row), Some("a@x")),
                    SEAT => {
                        prop_assert_eq!(Seat::jid_of(&row), Some("a@x/y"));
                        prop_assert_eq!(Seat::decode(value), Some(seat.clone()));
                    }
                    NICK => prop_assert_eq!(nick_decode(value), Some("a@x".into())),
                    _ => {
                        prop_assert_eq!(Listed::local_of(&row), Some("r"));
                        prop_assert_eq!(Listed::decode(value), Some(listed.clone()));
                    }
                }
            }
        }

        #[test]
        fn an_alert_reads_back(nick in "[^\0]{0,20}", always: bool) {
            let alert = Alert { when: if always { When::Always } else { When::Mentioned }, nick: nick.into() };
            let mut batch = Batch::new();
            alert.put(&mut batch, "r@x", "a@x");
            let Some(OpView::Put { sort, value, .. }) = batch.iter().next() else { panic!("a row") };
            prop_assert!(is_whole(sort, value) && !is_whole(sort, &value[..value.len() - 1]));
            let row = Row { sort: sort.into(), value: value.into() };
            prop_assert_eq!(Alert::jid_of(&row), Some("a@x"));
            prop_assert_eq!(Alert::decode(value), Some(alert));
        }
    }

    /// Rows that lack fields: the rooms are as they were.
    #[test]
    fn rows_of_earlier_formats_are_read() {
        let said = Position { number: 7, count: 5, time_ms: 1_700_000_000_000 };
        let config = Config {
            name: "Cave".into(),
            members_only: true,
            password: Some("x".into()),
            history: 7,
            slow_mode_s: 9,
            ..Config::default()
        };
        let subject = Subject { text: "Fire".into(), nick: "witch".into(), time_ms: 3 };
        let rest: Rest = (subject, [0xee; 16], 2, false, 1_700_000_000_000, said);
        let (subject, secret, owners, locked, created_ms, _) = rest.clone();
        let record = Record { config: config.clone(), subject, secret, owners, locked, created_ms, said };
        let c = config;
        let former = (
            (c.name, c.description, c.language),
            (c.public, c.persistent, c.moderated, c.members_only, c.password),
            (c.shows_jids, c.archive, c.change_subject, c.allow_invites, c.allow_pm, c.occupants_max, c.history),
            (c.presence, c.member_list, c.slow_mode_s),
        );
        let old = written(&(former, &rest));
        assert_eq!(Record::decode(&old), Some(record));
        assert!(is_whole(&[RECORD], &old) && !is_whole(&[RECORD], &old[..old.len() - 1]));
        let (nick, reason): (Option<Box<str>>, Option<Box<str>>) = (Some("w".into()), None);
        let old = written(&(Affiliation::Member, &nick, &reason, said));
        let standing = Standing { affiliation: Affiliation::Member, nick, reason, left: said, self_registered: false };
        assert_eq!(Standing::decode(&old), Some(standing));
    }

    #[test]
    fn a_change_of_affiliation_leaves_one_mark() {
        let mut batch = Batch::new();
        let of = |affiliation| Standing { affiliation, ..Standing::default() };
        of(Affiliation::Owner).put(&mut batch, "r@x", "a@x", &of(Affiliation::Member));
        let ops: Vec<_> = batch.iter().collect();
        assert_eq!(ops.len(), 3);
        assert_eq!(ops[1], OpView::Delete { table: Table::Rooms, actor: b"r@x", sort: b"\x02\x02a@x" });
        let OpView::Put { sort, .. } = ops[2] else { panic!("the mark of the owner: {:?}", ops[2]) };
        assert_eq!(sort, b"\x02\x04a@x");
        batch.clear();
        of(Affiliation::None).put(&mut batch, "r@x", "a@x", &of(Affiliation::Outcast));
        assert!(batch.iter().all(|op| matches!(op, OpView::Delete { .. })) && batch.len() == 2);
    }
}
