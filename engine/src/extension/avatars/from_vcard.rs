//! When a vCard is written, publishes its photo (XEP-0398 3.2), or disables the avatar that was its
//! previous photo (XEP-0084 3.5).

use super::super::change::Change;
use super::super::iq::{IqRequest, Step};
use super::super::photo::{self, Photo};
use super::super::pubsub::keep;
use super::super::pubsub::node::{Access, Config, Directory};
use super::super::{pubsub::Event, xml};
use super::image::{self, Image};
use super::{DATA, METADATA, apart, last_metadata, photo as photo_of, place, published};
use crate::store::nodes::{self as rows, Item};
use crate::store::{Batch, Found};

/// The id of the item that disables the avatar.
const NONE: &str = "current";

pub(super) fn join(now_us: u64, request: &IqRequest<'_>, step: Step) -> Step {
    let account: Box<str> = request.account.into();
    let image = xml::parse(request.payload).and_then(|card| image::in_card(&card));
    let mut queries = vec![photo::query(&account), rows::directory(&account), last_metadata(&account)];
    match &image {
        Some(image) => {
            let id = image.photo.hex();
            queries.extend(keep::queries(&account, DATA, &id));
            queries.extend(keep::queries(&account, METADATA, &id));
        }
        None => queries.extend(keep::queries(&account, METADATA, NONE)),
    }
    step.join(queries, super::Join::Card(Join { account, now_us, image }))
}

/// Continues after a vCard is written.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Join {
    account: Box<str>,
    /// Time of the request, microseconds since the Unix epoch.
    now_us: u64,
    /// Its photo.
    image: Option<Image>,
}

impl Join {
    pub(super) fn go_on(self, found: &[Found], step: Step) -> Step {
        match self.image {
            Some(image) => step.with(publish(&self.account, self.now_us, &image, found)),
            None => disable(self.account, self.now_us, found, step),
        }
    }
}

/// The vCard has a photo.
fn publish(account: &str, now_us: u64, image: &Image, found: &[Found]) -> Vec<Change> {
    let mut changes = Vec::new();
    if photo_of(found.first()) != Some(image.photo) {
        let mut batch = Batch::new();
        image.photo.put(&mut batch, account);
        changes.extend([Change::Write(batch), Change::Photo(image.photo)]);
    }
    // Subscribers are not notified about an avatar that is already published.
    if published(found.get(2)).and_then(|(_, photo)| photo) != Some(image.photo) {
        changes.extend(published_as(account, now_us, image, found).unwrap_or_default());
    }
    changes
}

/// Data and metadata, in this order. `None` if it is not an image of a type valid for avatars, or
/// the nodes are full.
fn published_as(account: &str, now_us: u64, image: &Image, found: &[Found]) -> Option<Vec<Change>> {
    let (id, data, info) = apart::items(image)?;
    let mut directory = Directory::after(found.get(1)?, std::iter::empty())?;
    let (mut batch, mut events) = (Batch::new(), Vec::new());
    let (of_data, of_metadata) = found.get(3..)?.split_at_checked(keep::QUERIES)?;
    for (node, payload, found) in [(DATA, data, of_data), (METADATA, info, of_metadata)] {
        let item = Item { at_us: now_us, id: &id, payload: &payload };
        events.push(put(&mut directory, &mut batch, account, node, &item, found)?);
    }
    finish(account, &directory, batch, events)
}

/// A new node is open to everybody, like vCards.
fn put(
    directory: &mut Directory,
    batch: &mut Batch,
    account: &str,
    node: &str,
    item: &Item<'_>,
    found: &[Found],
) -> Option<Option<Event>> {
    let made = Config { access: Access::Open, ..Config::default() };
    keep::publish(directory, batch, account, (node, made), item, found).ok()
}

fn finish(account: &str, directory: &Directory, mut batch: Batch, events: Vec<Option<Event>>) -> Option<Vec<Change>> {
    directory.put(&mut batch, account).ok()?;
    let events = events.into_iter().flatten().map(|event| Change::Event(Box::new(event)));
    Some([Change::Write(batch)].into_iter().chain(events).collect())
}

/// The vCard has no photo.
fn disable(account: Box<str>, now_us: u64, found: &[Found], step: Step) -> Step {
    let Some(photo) = photo_of(found.first()).filter(|photo| photo.is_there()) else { return step };
    let mut batch = Batch::new();
    Photo::GONE.put(&mut batch, &account);
    let step = step.with(vec![Change::Write(batch), Change::Photo(Photo::GONE)]);
    if published(found.get(2)).and_then(|(_, photo)| photo) != Some(photo) {
        return step;
    }
    // The image must not stay readable for everybody.
    let queries = vec![rows::place(&account, DATA, &photo.hex())];
    let pending = Pending { account, now_us, photo, found: found.to_vec(), step };
    Step::Read(queries, super::Pending::Card(pending).into())
}

/// Waits for the place of the image to be removed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending {
    account: Box<str>,
    /// Time of the request, microseconds since the Unix epoch.
    now_us: u64,
    /// The image.
    photo: Photo,
    /// The results of the earlier read.
    found: Vec<Found>,
    step: Step,
}

impl Pending {
    pub(super) fn go_on(self, data: &[Found]) -> Step {
        let more = disabled(&self.account, self.now_us, self.photo, &self.found, data);
        self.step.with(more.unwrap_or_default())
    }
}

fn disabled(account: &str, now_us: u64, photo: Photo, found: &[Found], data: &[Found]) -> Option<Vec<Change>> {
    let mut directory = Directory::after(found.get(1)?, std::iter::empty())?;
    let mut batch = Batch::new();
    if let (Some(place), Some(node)) = (place(data.first()), directory.get_mut(DATA)) {
        keep::remove(node, &mut batch, account, &photo.hex(), place);
    }
    let payload = format!("<metadata xmlns='{METADATA}'/>");
    let item = Item { at_us: now_us, id: NONE, payload: payload.as_bytes() };
    let event = put(&mut directory, &mut batch, account, METADATA, &item, found.get(3..)?)?;
    finish(account, &directory, batch, vec![event])
}
