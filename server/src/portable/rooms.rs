//! Export and import of rooms, from a store at rest and into it. XEP-0227 leaves rooms out; the form
//! is that of [`exchange`].
//!
//! A room is in memory while it is read or written, without its archive: at most
//! [`exchange::STANDINGS_MAX`] users. Its rows are one commit, so it exists as a whole or not at all.

use std::path::Path;

use throng_engine::id::Domains;
use throng_engine::portable::NS;
use throng_engine::rooms::exchange::{self, Arriving};
use throng_engine::store::room::{Record, Standing};
use throng_engine::store::room_extra::{self, Hats};
use throng_engine::store::{Batch, Found, Query, Table};

use super::parts::{At, Part, Source as _};
use super::read::Reader;
use super::write::Out;
use super::{Summary, Wrong};
use crate::disk::{Engine, Visit};
use crate::entropy::Entropy;

const HEAD: &[u8] = b"<?xml version='1.0' encoding='UTF-8'?>\n";

/// Bytes of text after which it is written.
const PIECE_BYTES: usize = 64 << 10;

/// Users of a room that are read at once.
const USERS_A_PAGE: u32 = 4_096;

/// Which rooms move, and where.
#[derive(Clone, Copy)]
pub struct Rooms<'a> {
    /// The store; `None` if it does not exist and is not to be created.
    pub engine: Option<&'a dyn Engine>,
    /// The domains with accounts.
    pub domains: &'a Domains,
    /// The domain of the service of rooms.
    pub service: &'a str,
    /// Whether to write nothing.
    pub dry_run: bool,
    /// The current time, microseconds since the Unix epoch.
    pub now_us: u64,
}

fn record(engine: &dyn Engine, jid: &str) -> Result<Option<Record>, Wrong> {
    Ok(engine.read(&Record::query(jid))?.value().and_then(|value| Record::decode(&value)))
}

/// Exports the rooms of the service to a new file: all, or those with these bare JIDs.
///
/// # Errors
/// Those of reading the store, and of writing the file.
pub fn export(to: &Path, plan: &Rooms<'_>, only: &[String], step: &mut dyn FnMut(&Summary)) -> Result<Summary, Wrong> {
    let mut summary = Summary::default();
    let Some(engine) = plan.engine else { return Ok(summary) };
    let mut out = Out::create(to.to_owned())?;
    let mut text = HEAD.to_vec();
    text.extend_from_slice(format!("<server-data xmlns='{NS}'>\n<host").as_bytes());
    throng_engine::extension::xml::attribute(&mut text, "jid", plan.service);
    text.extend_from_slice(b">\n");
    let mut after: Option<Vec<u8>> = None;
    let mut found: Vec<String> = Vec::new();
    loop {
        // Some at a time: a store may have more rooms than fit in memory.
        let mut page: Vec<Vec<u8>> = Vec::new();
        engine.for_each_actor(Table::Rooms, after.as_deref(), &mut |actor| {
            page.push(actor.to_vec());
            if page.len() < USERS_A_PAGE as usize { Visit::Continue(()) } else { Visit::Break(()) }
        })?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        for actor in page {
            let jid = String::from_utf8_lossy(&actor).into_owned();
            let Some((local, _)) = jid.split_once('@').filter(|(_, service)| *service == plan.service) else {
                continue;
            };
            if !only.is_empty() && !only.contains(&jid) {
                continue;
            }
            let Some(record) = record(engine, &jid)? else { continue };
            exchange::begin(&mut text, local, &record);
            let (hats, card) = extra(engine, &jid)?;
            exchange::extra(&mut text, &hats, card.as_deref());
            users(engine, &jid, &mut |bare, standing| {
                exchange::user(&mut text, bare, standing);
                summary.affiliations += 1;
                if text.len() > PIECE_BYTES {
                    out.write(&text)?;
                    text.clear();
                }
                Ok(())
            })?;
            exchange::end(&mut text);
            summary.rooms += 1;
            if !only.is_empty() {
                found.push(jid);
            }
            step(&summary);
        }
    }
    for missing in only.iter().filter(|jid| !found.contains(jid)) {
        summary.left += 1;
        summary.one("room", "there is no such room".into(), &|| missing.clone());
    }
    text.extend_from_slice(b"</host>\n</server-data>\n");
    out.write(&text)?;
    summary.bytes = out.finish(true)?;
    Ok(summary)
}

/// The hats of a room, and the XML of its vCard.
fn extra(engine: &dyn Engine, jid: &str) -> Result<(Hats, Option<Vec<u8>>), Wrong> {
    let hats = match engine.read(&room_extra::query(jid))? {
        Found::Rows { rows, .. } => room_extra::decode(&rows).map(|(hats, _)| hats).unwrap_or_default(),
        _ => Hats::default(),
    };
    let card = engine.read(&room_extra::card_query(jid))?.value();
    Ok((hats, card.and_then(|card| room_extra::card_decode(&card))))
}

/// Passes the users of a room on.
fn users(
    engine: &dyn Engine,
    jid: &str,
    take: &mut dyn FnMut(&str, &Standing) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let Query::Range { mut from, until, bytes_max, .. } = Standing::query_all(jid) else { return Ok(()) };
    loop {
        let query = Query::Range {
            table: Table::Rooms,
            actor: jid.as_bytes().into(),
            from: from.clone(),
            until: until.clone(),
            reverse: false,
            rows_max: USERS_A_PAGE,
            bytes_max,
        };
        let Found::Rows { rows, more } = engine.read(&query)? else { return Ok(()) };
        for row in &rows {
            if let (Some(bare), Some(standing)) = (Standing::jid_of(row), Standing::decode(&row.value)) {
                take(bare, &standing)?;
            }
        }
        let Some(last) = rows.last().filter(|_| more) else { return Ok(()) };
        from = [&*last.sort, &[0]].concat().into();
    }
}

/// Imports the rooms of a file; `step` receives the progress. After a failure, the summary holds what
/// was imported until then. Rooms that exist are left alone.
pub fn import(from: &Path, plan: &Rooms<'_>, step: &mut dyn FnMut(&Summary)) -> (Summary, Result<(), Wrong>) {
    let mut summary = Summary::default();
    let end = Reader::open(from).and_then(|mut reader| take(&mut reader, plan, &mut summary, step));
    (summary, end)
}

fn take(
    reader: &mut Reader,
    plan: &Rooms<'_>,
    summary: &mut Summary,
    step: &mut dyn FnMut(&Summary),
) -> Result<(), Wrong> {
    let (mut taking, mut host) = (Taking::new(*plan)?, None);
    while let Some(part) = reader.next()? {
        let at = reader.at();
        match part {
            Part::Host(jid) => host = Some(jid),
            Part::User { .. } => {
                let why = "users are imported by `throng import`, not by `throng room import`";
                summary.one("user", why.into(), &|| at.to_string());
            }
            part => {
                let ends = matches!(part, Part::RoomEnd);
                taking.part(part, host.as_deref(), &at, summary)?;
                if ends {
                    summary.bytes = reader.bytes();
                    step(summary);
                }
            }
        }
    }
    summary.bytes = reader.bytes();
    Ok(())
}

/// Rooms being imported, part by part.
pub(super) struct Taking<'a> {
    plan: Rooms<'a>,
    entropy: Entropy,
    current: Option<Arriving>,
    /// Whether the parts are those of a room, which may be left out.
    in_room: bool,
}

impl<'a> Taking<'a> {
    pub(super) fn new(plan: Rooms<'a>) -> Result<Taking<'a>, Wrong> {
        let entropy = Entropy::open().map_err(|error| Wrong::File(error.to_string()))?;
        Ok(Taking { plan, entropy, current: None, in_room: false })
    }

    pub(super) fn is_in_room(&self) -> bool {
        self.in_room
    }

    /// Takes a part of a host.
    pub(super) fn part(&mut self, part: Part, host: Option<&str>, at: &At, summary: &mut Summary) -> Result<(), Wrong> {
        let plan = &self.plan;
        match part {
            Part::Host(_) | Part::User { .. } | Part::UserEnd | Part::Progress => {}
            Part::Room { name, .. } if host != Some(plan.service) => {
                self.in_room = true;
                summary.left += 1;
                let why = format!("its host is not {}, where this server has its rooms", plan.service);
                summary.one("room", why, &|| format!("{name} at {at}"));
            }
            Part::Room { name, created } => {
                self.in_room = true;
                match Arriving::new(&name, plan.service, created.as_deref(), plan.now_us / 1_000) {
                    Err(why) => {
                        summary.left += 1;
                        summary.one("room", why, &|| format!("{name:?} at {at}"));
                    }
                    Ok(room) => match plan.engine.map(|engine| record(engine, room.jid())).transpose()?.flatten() {
                        Some(_) => summary.there += 1,
                        None => self.current = Some(room),
                    },
                }
            }
            Part::Element { element, .. } => {
                if let Some(room) = &mut self.current
                    && let Err(why) = room.element(&element)
                {
                    summary.one("element", why, &|| format!("{} at {at}", room.jid()));
                }
            }
            Part::Skipped(what, why) => summary.one(what, why, &|| at.to_string()),
            Part::RoomEnd => {
                self.in_room = false;
                if let Some(room) = self.current.take() {
                    let (jid, users) = (room.jid().to_owned(), room.users() as u64);
                    let secret = self.entropy.fresh().map_err(|error| Wrong::File(error.to_string()))?;
                    let mut batch = Batch::new();
                    match room.put(&mut batch, plan.domains, secret) {
                        Err(why) => {
                            summary.left += 1;
                            summary.one("room", why, &|| format!("{jid} at {at}"));
                        }
                        Ok(()) => {
                            (summary.rooms, summary.affiliations) = (summary.rooms + 1, summary.affiliations + users);
                            if let Some(engine) = plan.engine.filter(|_| !plan.dry_run) {
                                engine.commit(&[batch])?;
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
