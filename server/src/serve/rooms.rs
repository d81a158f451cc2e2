//! Rooms for operators: what is stored of them, and what the shards know. Changes go to the home of
//! the room.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use throng_engine::id::Domains;
use throng_engine::io::{Command, Reply, RoomCommand};
use throng_engine::rooms::fields;
use throng_engine::store::room::{Affiliation, Record, Standing};
use throng_engine::store::{Found, Query, Table, archive};
use throng_engine::wire::jid::Jid;

use super::Rows;
use super::account_shown::count;
use super::accounts::AtRest;
use super::control::{Running, done, internal};
use super::names::fault;
use crate::admin::rooms::{RoomField, RoomRow, RoomShown, Rooms};
use crate::admin::{Fault, FaultKind, Page};

/// Most actors with rows of rooms that one page looks at: users in rooms have some, too, and a page
/// must not take long.
const ACTORS_PER_PAGE_MAX: usize = 20_000;

/// Most members that a listing counts per room.
const MEMBERS_COUNTED_MAX: usize = 1_000;

/// Most owners that are named.
const OWNERS_SHOWN_MAX: usize = 10;

fn invalid(why: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Invalid, why)
}

fn no_room(jid: &str) -> Fault {
    Fault::new(FaultKind::NotFound, format!("there is no room {jid}; `throng room list` lists them"))
}

/// The bare JID of a room, from a JID or a localpart at `service`.
fn named(given: &str, service: &str) -> Result<String, Fault> {
    let full = if given.contains('@') { given.to_owned() } else { format!("{given}@{service}") };
    let jid = Jid::parse(&full).map_err(|error| invalid(error.to_string()))?;
    match jid.is_bare() {
        true => Ok(jid.as_str().to_owned()),
        false => Err(invalid(format!("{given} has a resource; use the bare JID of the room"))),
    }
}

fn record(engine: &Rows, jid: &str) -> Result<Option<Record>, Fault> {
    let found = engine.read(&Record::query(jid)).map_err(|error| fault(&error))?;
    let damaged = || internal(format!("the record of {jid} is damaged; `throng store check` lists the damage"));
    found.value().map(|value| Record::decode(&value).ok_or_else(damaged)).transpose()
}

/// The users that a query finds.
fn found(engine: &Rows, query: &Query) -> Result<Vec<String>, Fault> {
    match engine.read(query).map_err(|error| fault(&error))? {
        Found::Rows { rows, .. } => Ok(rows.iter().filter_map(Standing::jid_of).map(str::to_owned).collect()),
        Found::Value(_) | Found::Damaged => Ok(Vec::new()),
    }
}

fn last_message_s(engine: &Rows, jid: &str) -> Result<Option<u64>, Fault> {
    let query = Query::Range {
        table: Table::Archive,
        actor: jid.as_bytes().into(),
        from: Box::default(),
        until: None,
        reverse: true,
        rows_max: 1,
        bytes_max: 1 << 20,
    };
    let Found::Rows { rows, .. } = engine.read(&query).map_err(|error| fault(&error))? else { return Ok(None) };
    let entries = archive::live_entries(&rows);
    Ok(entries.and_then(|entries| entries.iter().map(|(_, entry)| entry.time_ms / 1_000).max()))
}

fn row(engine: &Rows, jid: &str, record: &Record) -> Result<RoomRow, Fault> {
    let members = found(engine, &Standing::query_members(jid, MEMBERS_COUNTED_MAX + 1))?.len();
    Ok(RoomRow {
        jid: jid.to_owned(),
        name: record.config.name.to_string(),
        occupants: None,
        sessions: None,
        members: members.min(MEMBERS_COUNTED_MAX) as u64,
        members_more: members > MEMBERS_COUNTED_MAX,
        persistent: record.config.persistent,
        hidden: !record.config.public,
        locked: record.locked,
        last_message_s: last_message_s(engine, jid)?,
        waiting: 0,
    })
}

/// A page of the stored rooms.
fn page(engine: &Rows, domains: &Domains, after: Option<&str>, limit: usize) -> Result<Page<RoomRow>, Fault> {
    let (mut rows, mut next, mut seen) = (Vec::new(), None, 0);
    let mut names: Vec<String> = Vec::new();
    let mut visit = |actor: &[u8]| {
        let jid = String::from_utf8_lossy(actor).into_owned();
        seen += 1;
        let is_room = jid.split_once('@').is_some_and(|(_, domain)| domains.find_users(domain).is_none());
        if is_room {
            names.push(jid.clone());
        }
        if names.len() >= limit || seen >= ACTORS_PER_PAGE_MAX {
            next = Some(jid);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    engine.for_each_actor(Table::Rooms, after.map(str::as_bytes), &mut visit).map_err(|error| fault(&error))?;
    for jid in names {
        // A user of a component has rows there, too.
        if let Some(record) = record(engine, &jid)? {
            rows.push(row(engine, &jid, &record)?);
        }
    }
    Ok(Page { rows, next })
}

/// Everything that is stored of a room.
fn shown(engine: &Rows, jid: &str) -> Result<RoomShown, Fault> {
    let record = record(engine, jid)?.ok_or_else(|| no_room(jid))?;
    let mut affiliations = Vec::new();
    let mut owners = Vec::new();
    for affiliation in Affiliation::RECORDED {
        let users = found(engine, &Standing::query_list(jid, affiliation))?;
        affiliations.push((affiliation.name().to_owned(), users.len() as u64));
        if affiliation == Affiliation::Owner {
            owners = users.into_iter().take(OWNERS_SHOWN_MAX).collect();
        }
    }
    let field = |setting: fields::Setting| RoomField {
        name: setting.name,
        label: setting.label,
        values: setting.values,
        options: setting.options,
    };
    let stored = [("room", Table::Rooms), ("archive", Table::Archive), ("private", Table::Private)];
    Ok(RoomShown {
        row: row(engine, jid, &record)?,
        created_s: record.created_ms / 1_000,
        subject: record.subject.text.to_string(),
        affiliations,
        owners,
        config: fields::settings(&record.config).into_iter().map(field).collect(),
        closed_s: None,
        sent_bytes: 0,
        charged_bytes: 0,
        stored: stored.into_iter().map(|(what, table)| count(engine, jid, what, table)).collect::<Result<_, _>>()?,
    })
}

fn not_running<T>() -> Result<T, Fault> {
    Err(invalid("rooms are changed through a running server, and this one is stopped: start it first"))
}

impl Rooms for AtRest {
    fn rooms(&self, after: Option<&str>, limit: usize) -> Result<Page<RoomRow>, Fault> {
        page(&*self.engine, &self.domains, after, limit)
    }

    fn room(&self, room: &str) -> Result<RoomShown, Fault> {
        shown(&*self.engine, &named(room, &format!("conference.{}", self.domains.main()))?)
    }

    fn configure_room(&self, _: &str, _: &[(String, Vec<String>)]) -> Result<(), Fault> {
        not_running()
    }

    fn destroy_room(&self, _: &str, _: Option<&str>, _: Option<&str>) -> Result<(), Fault> {
        not_running()
    }

    fn close_room(&self, _: &str, _: u32) -> Result<(), Fault> {
        not_running()
    }
}

impl Running {
    fn room_named(&self, given: &str) -> Result<String, Fault> {
        named(given, &format!("conference.{}", self.links.settings.domains.main()))
    }

    /// What the homes of these rooms know of them. Rooms that are not in memory are left out.
    fn look_at_rooms(&self, rooms: Vec<&str>) -> Result<BTreeMap<Box<str>, throng_engine::io::RoomRow>, Fault> {
        let mut homes: BTreeMap<usize, Vec<Box<str>>> = BTreeMap::new();
        for room in rooms {
            homes.entry(self.partitions().home(room).index()).or_default().push(room.into());
        }
        let mut known = BTreeMap::new();
        for (shard, rooms) in homes {
            match self.ask(shard, Command::Room(RoomCommand::Look { rooms }))? {
                Reply::Rooms(rows) => known.extend(rows.into_iter().map(|row| (row.room.clone(), row))),
                _ => return Err(internal("an answer to another question")),
            }
        }
        Ok(known)
    }

    fn change_room(&self, room: String, command: RoomCommand) -> Result<(), Fault> {
        match self.ask(self.partitions().home(&room).index(), Command::Room(command))? {
            Reply::NotFound => Err(no_room(&room)),
            reply => done(reply, "room").map(drop),
        }
    }
}

fn add(row: &mut RoomRow, known: Option<&throng_engine::io::RoomRow>) {
    row.occupants = Some(known.map_or(0, |known| known.occupants as u64));
    row.sessions = Some(known.map_or(0, |known| known.sessions as u64));
    row.waiting = known.map_or(0, |known| known.waiting as u64);
}

impl Rooms for Running {
    fn rooms(&self, after: Option<&str>, limit: usize) -> Result<Page<RoomRow>, Fault> {
        let mut page = page(&*self.links.engine, &self.links.settings.domains, after, limit)?;
        let known = self.look_at_rooms(page.rows.iter().map(|row| &*row.jid).collect())?;
        for row in &mut page.rows {
            let known = known.get(&*row.jid);
            add(row, known);
        }
        Ok(page)
    }

    fn room(&self, room: &str) -> Result<RoomShown, Fault> {
        let jid = self.room_named(room)?;
        let mut shown = shown(&*self.links.engine, &jid)?;
        let known = self.look_at_rooms(vec![&jid])?.remove(&*jid);
        add(&mut shown.row, known.as_ref());
        if let Some(known) = known {
            shown.closed_s = known.closed_s.map(u64::from);
            (shown.sent_bytes, shown.charged_bytes) = (known.sent_bytes, known.charged_bytes);
        }
        Ok(shown)
    }

    fn configure_room(&self, room: &str, fields: &[(String, Vec<String>)]) -> Result<(), Fault> {
        let jid = self.room_named(room)?;
        let record = record(&*self.links.engine, &jid)?.ok_or_else(|| no_room(&jid))?;
        // The room checks it again: its configuration may have changed meanwhile.
        fields::changed(&record.config, fields).map_err(invalid)?;
        let form = fields::form_of(fields).map_err(invalid)?.into();
        self.change_room(jid.clone(), RoomCommand::Configure { room: jid.into(), form })
    }

    fn destroy_room(&self, room: &str, reason: Option<&str>, alternate: Option<&str>) -> Result<(), Fault> {
        let jid = self.room_named(room)?;
        let alternate = alternate.map(|other| self.room_named(other)).transpose()?.map(Into::into);
        let command = RoomCommand::Destroy { room: jid.as_str().into(), reason: reason.map(Into::into), alternate };
        self.change_room(jid, command)
    }

    fn close_room(&self, room: &str, seconds: u32) -> Result<(), Fault> {
        let jid = self.room_named(room)?;
        self.change_room(jid.clone(), RoomCommand::Close { room: jid.into(), seconds })
    }
}
