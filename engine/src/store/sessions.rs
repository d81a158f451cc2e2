//! Sessions that may be resumed after a restart (XEP-0198 5): [`Table::Sessions`]. Each session has
//! its rows under the hash of its token:
//!
//! - `S`: the session's state ([`Kept`]), with its counts at that time;
//! - `C`: its counts alone ([`Counts`]), written when they have advanced further than the logs
//!   show;
//! - `P` and a number: a roster push that arrived while it waited since before its process began.
//!
//! A user with sessions has one more row, which belongs to no session: `T`, the number up to which
//! the log has been dropped because of its age.
//!
//! Of the counts, those with the higher serial number apply. Later events are in the user's log: an
//! entry that a session has sent, or was sent, names the session and the count ([`Trail`]). A
//! message therefore costs no row of its own here.

use super::hash::HashKind;
use super::{Batch, Found, Query, Table};

/// Version byte of the rows.
const VERSION: u8 = 1;

pub(super) const STATE: u8 = b'S';
pub(super) const COUNTS: u8 = b'C';
pub(super) const PUSH: u8 = b'P';
pub(super) const DROPPED: u8 = b'T';

/// The key of a row that belongs to no session.
const NO_SESSION: Key = Key([0; KEY_BYTES]);

/// Bytes of the secret that resumes a session.
pub const TOKEN_BYTES: usize = 16;

/// Bytes of a session's key.
pub const KEY_BYTES: usize = 16;

/// Maximum number of JIDs with directed presence that are stored per session.
pub const DIRECTED_KEPT_MAX: usize = 64;

/// Rows that are read per user: more than the sessions that a user may have.
const ROWS_MAX: u32 = 2_048;
/// Bytes of these rows.
const BYTES_MAX: u32 = 8 << 20;

/// Identifies a session in the store. It is a hash, so that a reader of the store cannot resume the
/// session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub [u8; KEY_BYTES]);

impl Key {
    /// The key of a session with this token.
    pub fn of(token: &[u8; TOKEN_BYTES]) -> Key {
        let digest = HashKind::Sha256.digest(&[b"throng sm", token]);
        Key(*digest.as_bytes().first_chunk().expect("32 bytes"))
    }

    /// The session's name in its user's log; never 0.
    pub fn tag(&self) -> u32 {
        u32::from_le_bytes(*self.0.first_chunk().expect("16 bytes")).max(1)
    }

    fn sort(&self, kind: u8) -> [u8; KEY_BYTES + 1] {
        let mut sort = [kind; KEY_BYTES + 1];
        sort[..KEY_BYTES].copy_from_slice(&self.0);
        sort
    }
}

/// The stored state of a session, apart from its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The shard that wrote this, distinguished from those of all other processes.
    pub life: u64,
    /// The incarnation of its account.
    pub incarnation: u64,
    /// Seconds for which it may be resumed.
    pub resume_s: u32,
    /// The resourcepart.
    pub resource: Box<str>,
    /// Its unaddressed presence, while it is available.
    pub presence: Option<Box<[u8]>>,
    /// Priority of the presence.
    pub priority: i8,
    /// Whether it receives roster pushes.
    pub interested: bool,
    /// Whether it follows its user's log.
    pub follows: bool,
    /// Names of extensions that have set a mark on it.
    pub marks: Vec<Box<str>>,
    /// JIDs with directed presence, at most [`DIRECTED_KEPT_MAX`].
    pub directed: Vec<Box<str>>,
    /// Language of its stanzas, if it differs from the server's.
    pub lang: Option<Box<str>>,
}

/// Counts of a session, and its position in its user's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The serial number of these counts.
    pub serial: u32,
    /// Number of stanzas from the client that were handled.
    pub handled: u32,
    /// Entries of later stanzas have numbers above this.
    pub from: u64,
    /// Number of stanzas sent.
    pub sent: u32,
    /// The highest number of an entry when this was written.
    pub number: u64,
    /// Entries up to this number have been sent to it.
    pub seen: u64,
    /// When it lost its connection, seconds since the Unix epoch; 0 while it has one.
    pub detached_s: u64,
    /// Messages that were sent to it and not acknowledged: their place in the count, and their
    /// marks ([`mark`](crate::id::mark)).
    pub held: Vec<(u32, u64)>,
    /// Roster pushes that were sent and not acknowledged; they are in no log.
    pub pushes: Vec<(u32, Box<[u8]>)>,
}

impl Counts {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.serial.to_le_bytes());
        out.extend_from_slice(&self.handled.to_le_bytes());
        out.extend_from_slice(&self.sent.to_le_bytes());
        for number in [self.from, self.number, self.seen, self.detached_s] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.held.len() as u32).to_le_bytes());
        for (count, mark) in &self.held {
            out.extend_from_slice(&count.to_le_bytes());
            out.extend_from_slice(&mark.to_le_bytes());
        }
        out.extend_from_slice(&(self.pushes.len() as u32).to_le_bytes());
        for (count, push) in &self.pushes {
            out.extend_from_slice(&count.to_le_bytes());
            write_bytes(out, push);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Counts> {
        let (serial, handled, sent) = (from.u32()?, from.u32()?, from.u32()?);
        let (first, number, seen, detached_s) = (from.u64()?, from.u64()?, from.u64()?, from.u64()?);
        let len = from.u32()? as usize;
        // A damaged length must not reserve memory.
        let held = (0..len).map(|_| Some((from.u32()?, from.u64()?))).collect::<Option<Vec<_>>>()?;
        let len = from.u32()? as usize;
        let pushes = (0..len).map(|_| Some((from.u32()?, from.bytes()?.into()))).collect::<Option<Vec<_>>>()?;
        Some(Counts { serial, handled, from: first, sent, number, seen, detached_s, held, pushes })
    }

    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, user: &str, key: Key) {
        let mut value = vec![VERSION];
        self.write(&mut value);
        batch.put(Table::Sessions, user.as_bytes(), &key.sort(COUNTS), &[&value]);
    }

    /// Reads the row; `None` if it is damaged or has a later version.
    pub fn decode(value: &[u8]) -> Option<Counts> {
        let mut from = Reader(value.strip_prefix(&[VERSION])?);
        Counts::read(&mut from).filter(|_| from.0.is_empty())
    }
}

const INTERESTED: u8 = 1;
const FOLLOWS: u8 = 2;
const PRESENT: u8 = 4;
const SPOKEN: u8 = 8;

impl Kept {
    /// Writes the row, with the counts.
    pub fn put(&self, counts: &Counts, batch: &mut Batch, user: &str, key: Key) {
        let mut value = vec![VERSION];
        counts.write(&mut value);
        value.extend_from_slice(&self.life.to_le_bytes());
        value.extend_from_slice(&self.incarnation.to_le_bytes());
        value.extend_from_slice(&self.resume_s.to_le_bytes());
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        value.push(
            flag(self.interested, INTERESTED)
                | flag(self.follows, FOLLOWS)
                | flag(self.presence.is_some(), PRESENT)
                | flag(self.lang.is_some(), SPOKEN),
        );
        value.extend_from_slice(&self.priority.to_le_bytes());
        write_bytes(&mut value, self.resource.as_bytes());
        if let Some(presence) = &self.presence {
            write_bytes(&mut value, presence);
        }
        if let Some(lang) = &self.lang {
            write_bytes(&mut value, lang.as_bytes());
        }
        for list in [&self.marks, &self.directed] {
            value.push(list.len() as u8);
            list.iter().for_each(|text| write_bytes(&mut value, text.as_bytes()));
        }
        batch.put(Table::Sessions, user.as_bytes(), &key.sort(STATE), &[&value]);
    }

    /// Reads the row; `None` if it is damaged or has a later version.
    pub fn decode(value: &[u8]) -> Option<(Kept, Counts)> {
        let mut from = Reader(value.strip_prefix(&[VERSION])?);
        let counts = Counts::read(&mut from)?;
        let (life, incarnation, resume_s) = (from.u64()?, from.u64()?, from.u32()?);
        let [flags, priority] = *from.take(2)? else { return None };
        let resource = from.text()?;
        let presence = if flags & PRESENT != 0 { Some(from.bytes()?.into()) } else { None };
        let lang = if flags & SPOKEN != 0 { Some(from.text()?) } else { None };
        let (marks, directed) = (from.list()?, from.list()?);
        let kept = Kept {
            life,
            incarnation,
            resume_s,
            resource,
            presence,
            priority: priority as i8,
            interested: flags & INTERESTED != 0,
            follows: flags & FOLLOWS != 0,
            marks,
            directed,
            lang,
        };
        from.0.is_empty().then_some((kept, counts))
    }
}

/// Lengths have two bytes: a presence has at most 8 KiB, a JID 3,071 bytes.
fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    fn text(&mut self) -> Option<Box<str>> {
        Some(std::str::from_utf8(self.bytes()?).ok()?.into())
    }

    fn list(&mut self) -> Option<Vec<Box<str>>> {
        let &[len] = self.take(1)? else { return None };
        (0..len).map(|_| self.text()).collect()
    }
}

/// Removes all rows of a session.
pub fn delete(batch: &mut Batch, user: &str, key: Key) {
    batch.delete_range(Table::Sessions, user.as_bytes(), &key.sort(0), &key.sort(u8::MAX));
}

/// The query for all rows of a user.
pub fn query(user: &str) -> Query {
    first(user, ROWS_MAX, BYTES_MAX)
}

/// The query whether a user has rows of sessions, which sort first.
pub fn query_any(user: &str) -> Query {
    first(user, 2, 16 << 10)
}

fn first(user: &str, rows_max: u32, bytes_max: u32) -> Query {
    Query::Range {
        table: Table::Sessions,
        actor: user.as_bytes().into(),
        from: Box::default(),
        until: None,
        reverse: false,
        rows_max,
        bytes_max,
    }
}

/// Writes a roster push for a session that has waited since before its process began. `number` is
/// the push's number.
pub fn put_push(batch: &mut Batch, user: &str, key: Key, number: u32, push: &[u8]) {
    let sort = [&key.sort(PUSH)[..], &number.to_be_bytes()].concat();
    let mut value = vec![VERSION];
    write_bytes(&mut value, push);
    batch.put(Table::Sessions, user.as_bytes(), &sort, &[&value]);
}

/// Removes all of these pushes: they are now part of the session's counts.
pub fn delete_pushes(batch: &mut Batch, user: &str, key: Key) {
    batch.delete_range(Table::Sessions, user.as_bytes(), &key.sort(PUSH), &key.sort(PUSH + 1));
}

/// Records that entries of the user's log below this number have been dropped because of their age.
/// If the counts of a session of an earlier process are older than that, its later events are
/// unknown.
pub fn put_dropped(batch: &mut Batch, user: &str, below: u64) {
    batch.put(Table::Sessions, user.as_bytes(), &NO_SESSION.sort(DROPPED), &[&[VERSION], &below.to_le_bytes()]);
}

/// Removes that record.
pub fn delete_dropped(batch: &mut Batch, user: &str) {
    delete(batch, user, NO_SESSION);
}

fn decode_dropped(value: &[u8]) -> Option<u64> {
    let mut from = Reader(value.strip_prefix(&[VERSION])?);
    let below = from.u64()?;
    from.0.is_empty().then_some(below)
}

fn is_dropped(row: &super::Row) -> bool {
    matches!(key_of(&row.sort), Some((_, DROPPED)))
}

/// The query for the number below which entries of a user's log have been dropped.
pub fn query_dropped(user: &str) -> Query {
    let sort = NO_SESSION.sort(DROPPED).as_slice().into();
    Query::Get { table: Table::Sessions, actor: user.as_bytes().into(), sort }
}

/// Reads the answer to [`query_dropped`]: 0 if none have been dropped, all if it cannot be read.
pub fn dropped(found: Option<&Found>) -> u64 {
    match found {
        Some(Found::Value(None)) => 0,
        Some(Found::Value(Some(value))) => decode_dropped(value).unwrap_or(u64::MAX),
        _ => u64::MAX,
    }
}

/// Whether any of these rows belongs to a session.
pub fn any(rows: &[super::Row]) -> bool {
    rows.iter().any(|row| !is_dropped(row))
}

fn decode_push(value: &[u8]) -> Option<Box<[u8]>> {
    let mut from = Reader(value.strip_prefix(&[VERSION])?);
    let push = from.bytes()?.into();
    from.0.is_empty().then_some(push)
}

/// A session as read from its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its key.
    pub key: Key,
    /// Its state.
    pub kept: Kept,
    /// Its counts.
    pub counts: Counts,
    /// Roster pushes that arrived after the counts were written.
    pub pushes: Vec<Box<[u8]>>,
}

/// The sessions in the rows of a user, and the keys of those that cannot be read.
pub fn read(rows: &[super::Row]) -> (Vec<Stored>, Vec<Key>) {
    let (mut sessions, mut damaged): (Vec<Stored>, Vec<Key>) = (Vec::new(), Vec::new());
    let (mut counts, mut pushes): (Vec<(Key, Option<Counts>)>, Vec<_>) = (Vec::new(), Vec::new());
    for row in rows {
        let Some((key, kind)) = key_of(&row.sort) else { continue };
        match kind {
            STATE => match Kept::decode(&row.value) {
                Some((kept, counts)) => sessions.push(Stored { key, kept, counts, pushes: Vec::new() }),
                None => damaged.push(key),
            },
            // These sort after it: their first letter differs.
            PUSH => pushes.push((key, decode_push(&row.value))),
            DROPPED => {}
            _ => counts.push((key, Counts::decode(&row.value))),
        }
    }
    for (key, push) in pushes {
        match (sessions.iter_mut().find(|stored| stored.key == key), push) {
            (Some(stored), Some(push)) => stored.pushes.push(push),
            _ => damaged.push(key),
        }
    }
    for (key, counts) in counts {
        let session = sessions.iter_mut().find(|stored| stored.key == key);
        match (session, counts) {
            (Some(stored), Some(counts)) if counts.serial > stored.counts.serial => stored.counts = counts,
            (Some(_), Some(_)) => {}
            // A session cannot be resumed without correct counts.
            (_, None) | (None, _) => damaged.push(key),
        }
    }
    sessions.retain(|stored| !damaged.contains(&stored.key));
    (sessions, damaged)
}

fn key_of(sort: &[u8]) -> Option<(Key, u8)> {
    let (key, kind) = sort.split_first_chunk::<KEY_BYTES>()?;
    match kind {
        [kind @ (STATE | COUNTS | DROPPED)] | [kind @ PUSH, _, _, _, _] => Some((Key(*key), *kind)),
        _ => None,
    }
}

/// Whether a row of this table can be read by this version.
pub fn is_whole(sort: &[u8], value: &[u8]) -> bool {
    match key_of(sort) {
        Some((_, STATE)) => Kept::decode(value).is_some(),
        Some((_, PUSH)) => decode_push(value).is_some(),
        Some((_, DROPPED)) => decode_dropped(value).is_some(),
        Some(_) => Counts::decode(value).is_some(),
        None => false,
    }
}

/// The highest number of an entry that a row refers to.
pub fn number_of(sort: &[u8], value: &[u8]) -> Option<u64> {
    let counts = match key_of(sort)? {
        (_, STATE) => Kept::decode(value)?.1,
        (_, PUSH | DROPPED) => return None,
        _ => Counts::decode(value)?,
    };
    Some(counts.number.max(counts.seen).max(counts.from))
}

const SENT: u8 = 1;
const HANDED: u8 = 2;

/// The references of a log entry to sessions that are counted and may be resumed: the session that
/// sent the stanza, and those that it was sent to. Empty for all other entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail(smallvec::SmallVec<[u8; 32]>);

/// Maximum bytes of an entry's trail: its length has one byte.
const TRAIL_BYTES_MAX: usize = 255;

/// One item of a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The session with this tag sent the entry, as its stanza of this number; `open` of its
    /// stanzas, up to this one, were not handled yet.
    Sent {
        /// The session's tag.
        tag: u32,
        /// The stanza's number.
        seq: u32,
        /// Stanzas in progress, this one included.
        open: u16,
    },
    /// The entry was sent to the session with this tag, as the stanza of this number in its count
    /// of sent stanzas.
    Handed {
        /// The session's tag.
        tag: u32,
        /// The stanza's number.
        count: u32,
    },
}

impl Trail {
    /// Adds a step. A step beyond the limit is omitted: its session may receive the entry twice
    /// after a crash.
    pub fn add(&mut self, step: Step) {
        let mut bytes = [0; 11];
        let (kind, tag, number) = match step {
            Step::Sent { tag, seq, open } => {
                bytes[9..].copy_from_slice(&open.to_le_bytes());
                (SENT, tag, seq)
            }
            Step::Handed { tag, count } => (HANDED, tag, count),
        };
        bytes[0] = kind;
        bytes[1..5].copy_from_slice(&tag.to_le_bytes());
        bytes[5..9].copy_from_slice(&number.to_le_bytes());
        let len = if kind == SENT { 11 } else { 9 };
        if self.0.len() + len <= TRAIL_BYTES_MAX {
            self.0.extend_from_slice(&bytes[..len]);
        }
    }

    /// The encoded form.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The steps of an entry's trail, up to the first one that cannot be read.
pub fn steps(trail: &[u8]) -> impl Iterator<Item = Step> + '_ {
    let mut from = Reader(trail);
    std::iter::from_fn(move || {
        let &[kind] = from.take(1)? else { return None };
        let (tag, number) = (from.u32()?, from.u32()?);
        match kind {
            SENT => Some(Step::Sent { tag, seq: number, open: from.u16()? }),
            HANDED => Some(Step::Handed { tag, count: number }),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{OpView, Row};

    fn kept() -> Kept {
        Kept {
            life: 8,
            incarnation: 7,
            resume_s: 86_400,
            resource: "orchard".into(),
            presence: Some(b"<presence/>".as_slice().into()),
            priority: -3,
            interested: true,
            follows: true,
            marks: vec!["carbons".into(), "csi".into()],
            directed: vec!["juliet@x/balcony".into()],
            lang: Some("it".into()),
        }
    }

    fn counts(serial: u32) -> Counts {
        let held = vec![(4, 90), (6, 91)];
        let pushes = vec![(5, b"<iq/>".as_slice().into())];
        Counts { serial, handled: 3, from: 80, sent: 6, number: 92, seen: 92, detached_s: 1_000, held, pushes }
    }

    fn rows(batch: &Batch) -> Vec<Row> {
        let put = |op| match op {
            OpView::Put { sort, value, .. } => Row { sort: sort.into(), value: value.into() },
            _ => panic!("only puts"),
        };
        batch.iter().map(put).collect()
    }

    #[test]
    fn rows_read_back_and_nothing_else_does() {
        let (mut batch, key) = (Batch::new(), Key::of(&[1; TOKEN_BYTES]));
        kept().put(&counts(1), &mut batch, "romeo@x", key);
        counts(2).put(&mut batch, "romeo@x", key);
        let rows = rows(&batch);
        let stored = |counts| Stored { key, kept: kept(), counts, pushes: Vec::new() };
        assert_eq!(read(&rows), (vec![stored(counts(2))], vec![]), "the later counts");
        assert_eq!(read(&rows[..1]).0, [stored(counts(1))]);
        assert_eq!(read(&rows[1..]), (vec![], vec![key]), "counts of nobody");
        for Row { sort, value } in &rows {
            assert!(is_whole(sort, value));
            assert_eq!(number_of(sort, value), Some(92));
            for cut in 0..value.len() {
                assert!(!is_whole(sort, &value[..cut]), "cut short");
            }
            assert!(!is_whole(&sort[1..], value));
        }
    }

    #[test]
    fn pushes_come_with_their_session() {
        let (mut batch, key) = (Batch::new(), Key::of(&[1; TOKEN_BYTES]));
        put_push(&mut batch, "romeo@x", key, 1, b"<iq id='1'/>");
        put_push(&mut batch, "romeo@x", key, 2, b"<iq id='2'/>");
        kept().put(&counts(1), &mut batch, "romeo@x", key);
        let rows = rows(&batch);
        assert!(rows.iter().all(|row| is_whole(&row.sort, &row.value)));
        let pushes = &read(&rows).0[0].pushes;
        assert_eq!(pushes.iter().map(|push| &push[..]).collect::<Vec<_>>(), [b"<iq id='1'/>", b"<iq id='2'/>"]);
    }

    #[test]
    fn a_session_whose_counts_are_damaged_is_none() {
        let (mut batch, key) = (Batch::new(), Key::of(&[1; TOKEN_BYTES]));
        kept().put(&counts(1), &mut batch, "romeo@x", key);
        counts(2).put(&mut batch, "romeo@x", key);
        let mut rows = rows(&batch);
        rows[1].value = b"\x01damaged".as_slice().into();
        assert_eq!(read(&rows), (vec![], vec![key]));
    }

    #[test]
    fn trails_read_back() {
        let steps_of = [
            Step::Sent { tag: 9, seq: u32::MAX, open: 3 },
            Step::Handed { tag: 10, count: 5 },
            Step::Handed { tag: u32::MAX, count: 0 },
        ];
        let mut trail = Trail::default();
        steps_of.into_iter().for_each(|step| trail.add(step));
        assert!(steps(trail.bytes()).eq(steps_of));
        assert!(steps(&trail.bytes()[..12]).eq(steps_of.into_iter().take(1)), "cut short");
        assert_eq!(steps(b"\x07garbage").count(), 0);
        for count in 0..100 {
            trail.add(Step::Handed { tag: 1, count });
        }
        assert!(trail.bytes().len() <= TRAIL_BYTES_MAX);
    }

    proptest::proptest! {
        #[test]
        fn no_row_panics(value in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), valid in proptest::prelude::any::<bool>()) {
            let mut value = value;
            if valid && !value.is_empty() {
                value[0] = VERSION;
            }
            let _ = (Counts::decode(&value), Kept::decode(&value), steps(&value).count());
        }
    }
}
