//! What a room has beside its configuration: hats (XEP-0317) and an avatar (XEP-0486). Rows of
//! [`Table::Rooms`], whose kinds [`super::room`] lists.

use serde::{Deserialize, Serialize};

use super::room::{get, range, read, written};
use super::{Batch, Query, Row, Table};

pub(super) const HATS: u8 = 9;
pub(super) const HASHES: u8 = 10;
pub(super) const CARD: u8 = 11;

/// A hat (XEP-0317 3.1).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hat {
    /// The URI, which names it.
    pub uri: Box<str>,
    /// What people call it.
    pub title: Box<str>,
    /// The angle of its colour (XEP-0392), in degrees.
    pub hue: Option<Box<str>>,
}

/// The hats of a room, and those that users wear.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Hats {
    /// In the order in which they were created.
    pub known: Vec<Hat>,
    /// Bare JIDs, and the URIs of hats.
    pub worn: Vec<(Box<str>, Box<str>)>,
}

impl Hats {
    /// The hat with a URI.
    pub fn get(&self, uri: &str) -> Option<&Hat> {
        self.known.iter().find(|hat| *hat.uri == *uri)
    }

    /// The hats that a user wears.
    pub fn of<'a>(&'a self, bare: &'a str) -> impl Iterator<Item = &'a Hat> {
        self.worn.iter().filter(move |(user, _)| **user == *bare).filter_map(|(_, uri)| self.get(uri))
    }

    /// Bytes of text in it.
    pub fn bytes(&self) -> usize {
        let of_hat = |hat: &Hat| hat.uri.len() + hat.title.len() + hat.hue.as_ref().map_or(0, |hue| hue.len());
        let worn = self.worn.iter().map(|(user, uri)| user.len() + uri.len());
        self.known.iter().map(of_hat).chain(worn).sum()
    }

    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, room: &str) {
        batch.put(Table::Rooms, room.as_bytes(), &[HATS], &[&written(self)]);
    }
}

/// The hashes of the images in a room's vCard (XEP-0153 3.1), in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Hashes(pub Vec<[u8; 20]>);

/// Writes the vCard of a room, or removes it.
pub fn put_card(batch: &mut Batch, room: &str, card: Option<(&[u8], &Hashes)>) {
    let room = room.as_bytes();
    match card {
        Some((xml, hashes)) => {
            batch.put(Table::Rooms, room, &[HASHES], &[&written(hashes)]);
            batch.put(Table::Rooms, room, &[CARD], &[&written(&xml)]);
        }
        None => {
            batch.delete(Table::Rooms, room, &[HASHES]);
            batch.delete(Table::Rooms, room, &[CARD]);
        }
    }
}

/// The query for the vCard of a room.
pub fn card_query(room: &str) -> Query {
    get(room, Box::new([CARD]))
}

/// The XML of a vCard; `None` if the row is damaged or of a later format.
pub fn card_decode(value: &[u8]) -> Option<Vec<u8>> {
    read(value)
}

/// The query for the rows that are read with a room: all but the vCard.
pub fn query(room: &str) -> Query {
    range(room, Box::new([HATS]), Box::new([CARD]), 2)
}

/// Hats and hashes in the rows of [`query`]; `None` if a row is damaged or of a later format.
pub fn decode(rows: &[Row]) -> Option<(Hats, Option<Hashes>)> {
    let of = |kind: u8| rows.iter().find(|row| *row.sort == [kind]).map(|row| &*row.value);
    let hats = of(HATS).map_or(Some(Hats::default()), read)?;
    Some((hats, of(HASHES).map(|row| read(row).ok_or(())).transpose().ok()?))
}

/// Whether a row is whole, for `throng store check`.
pub fn is_whole(sort: &[u8], value: &[u8]) -> bool {
    match sort.first() {
        Some(&HATS) => read::<Hats>(value).is_some(),
        Some(&HASHES) => read::<Hashes>(value).is_some(),
        Some(&CARD) => card_decode(value).is_some(),
        _ => super::room::is_whole(sort, value),
    }
}
