//! Updates the vCard when an avatar is published, disabled or withdrawn (XEP-0084).

use super::super::change::Change;
use super::super::iq::{IqRequest, Step};
use super::super::photo::{self, Photo};
use super::super::pubsub::node::{Access, Directory};
use super::super::{pubsub, vcard, xml};
use super::image::{self, Image};
use super::{DATA, Info, METADATA, info, last_metadata, photo as photo_of, place, published};
use crate::limits::VCARD_BYTES_MAX;
use crate::store::nodes::{self as rows, Item, Place, Span};
use crate::store::{Batch, Found};

/// The effect of a request on the avatar.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Asked {
    /// This avatar is published.
    Published(Info),
    /// The avatar is disabled; if an item is removed, only if the avatar is that item.
    Disabled(Option<Box<str>>),
    /// An image may be gone or no longer readable for everybody; if an item is removed, this one.
    Withdrawn(Option<Box<str>>),
}

/// The effect of a request to the user's own nodes on the avatar, if any.
fn asked(request: &IqRequest<'_>) -> Option<Asked> {
    // A name could be written with references, but no client that wants to be understood does so.
    let names = |text: &[u8]| memchr::memmem::find(request.payload, text).is_some();
    if !names(b"urn:xmpp:avatar:") && !names(b"&#") {
        return None;
    }
    let pubsub = xml::parse(request.payload)?;
    let first = pubsub.children().find(|child| child.ns() == request.namespace)?;
    let item = || first.get_child("item", pubsub::NS);
    let id = || -> Option<Box<str>> { item().and_then(|item| item.attr("id")).map(Into::into) };
    match (first.name(), first.attr("node")?) {
        ("publish", METADATA) => {
            let metadata = item()?.get_child("metadata", METADATA)?;
            match metadata.children().next() {
                // XEP-0084 3.5
                None => Some(Asked::Disabled(None)),
                Some(_) => info(metadata).map(Asked::Published),
            }
        }
        ("purge" | "delete" | "retract", METADATA) => Some(Asked::Disabled(id())),
        ("purge" | "delete" | "retract" | "configure", DATA) => Some(Asked::Withdrawn(id())),
        _ => None,
    }
}

pub(super) fn join(request: &IqRequest<'_>, step: Step) -> Step {
    let Some(asked) = asked(request) else { return step };
    let account: Box<str> = request.account.into();
    let queries = match &asked {
        Asked::Published(info) => {
            vec![photo::query(&account), rows::directory(&account), rows::place(&account, DATA, &info.id)]
        }
        Asked::Disabled(_) => vec![photo::query(&account), last_metadata(&account), vcard::query(&account)],
        Asked::Withdrawn(_) => vec![photo::query(&account), rows::directory(&account), vcard::query(&account)],
    };
    step.join(queries, super::Join::Nodes(Join { account, asked }))
}

/// Continues after a request that affects the avatar.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Join {
    account: Box<str>,
    asked: Asked,
}

impl Join {
    pub(super) fn go_on(self, found: &[Found], step: Step) -> Step {
        let account = self.account;
        match self.asked {
            Asked::Published(info) => show(account, info.photo, found, step),
            Asked::Disabled(id) => {
                let meant = published(found.get(1)).filter(|(last, _)| id.as_deref().is_none_or(|id| id == *last));
                match (photo_of(found.first()), meant.and_then(|(_, photo)| photo)) {
                    (Some(photo), Some(meant)) if photo == meant => step.with(hide(&account, found.get(2))),
                    _ => step,
                }
            }
            Asked::Withdrawn(id) => withdraw(account, id.as_deref(), found, step),
        }
    }
}

/// Waits for a further read before the request ends.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending {
    account: Box<str>,
    step: Step,
    reads: Reads,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Reads {
    /// The published image and the vCard.
    Image(Photo),
    /// Whether the removed image was among the published ones. This is the vCard.
    Place(Option<Found>),
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Step {
        let Pending { account, step, reads } = self;
        match reads {
            Reads::Image(photo) => step.with(shown(&account, photo, found).unwrap_or_default()),
            Reads::Place(card) if place(found.first()).is_some() => step.with(hide(&account, card.as_ref())),
            Reads::Place(_) => step,
        }
    }
}

/// XEP-0398 3.1. The image is put into the vCard, which everybody may read, only if everybody may
/// also read its node (6).
fn show(account: Box<str>, photo: Photo, found: &[Found], step: Step) -> Step {
    let is_open = |directory: Directory| directory.get(DATA).is_some_and(|node| node.config.access == Access::Open);
    let open = found.get(1).and_then(|found| Directory::after(found, step.writes())).is_some_and(is_open);
    match place(found.get(2)) {
        Some(Place { number, bytes }) if open && photo_of(found.first()) != Some(photo) => {
            let span = Span { after: number - 1, before: number + 1, ..Span::all(1, bytes) };
            let queries = vec![rows::items(&account, DATA, span), vcard::query(&account)];
            let pending = Pending { account, step, reads: Reads::Image(photo) };
            Step::Read(queries, super::Pending::Nodes(pending).into())
        }
        _ => step,
    }
}

/// The vCard with the image, if the metadata names it and its type is valid in vCards.
fn shown(account: &str, photo: Photo, found: &[Found]) -> Option<Vec<Change>> {
    let Some(Found::Rows { rows, .. }) = found.first() else { return None };
    let data = xml::parse(Item::decode(&rows.first()?.value)?.payload).filter(|data| data.is("data", DATA))?;
    let image = Image::decode(&data.text()).filter(|image| image.photo == photo)?;
    let kind = image.kind()?;
    let card = image::put_in_card(card(found.get(1))?, Some((kind, &image)));
    let card = Some(xml::written(&card)).filter(|card| card.len() <= VCARD_BYTES_MAX)?;
    Some(changes(account, &card, photo))
}

/// An image may have been removed from the data node, or the node is no longer open.
fn withdraw(account: Box<str>, id: Option<&str>, found: &[Found], step: Step) -> Step {
    let Some(photo) = photo_of(found.first()).filter(|photo| photo.is_there()) else { return step };
    let hex = photo.hex();
    let Some(directory) = found.get(1).and_then(|found| Directory::after(found, step.writes())) else { return step };
    let open = directory.get(DATA).is_some_and(|node| node.config.access == Access::Open && node.items > 0);
    if id.map_or(open, |id| !id.eq_ignore_ascii_case(&hex)) {
        return step;
    }
    // Only if it was one of the published images.
    let queries = vec![rows::place(&account, DATA, id.unwrap_or(&hex))];
    let pending = Pending { account, step, reads: Reads::Place(found.get(2).cloned()) };
    Step::Read(queries, super::Pending::Nodes(pending).into())
}

/// The vCard without its photo.
fn hide(account: &str, found: Option<&Found>) -> Vec<Change> {
    let card = card(found).flatten().map(|card| image::put_in_card(Some(card), None));
    match card.as_ref().map(xml::written) {
        Some(card) => changes(account, &card, Photo::GONE),
        None => Vec::new(),
    }
}

/// The existing vCard; `None` if it is unreadable.
fn card(found: Option<&Found>) -> Option<Option<minidom::Element>> {
    match found? {
        Found::Value(None) => Some(None),
        Found::Value(Some(row)) => Some(Some(xml::parse(vcard::in_row(row)?)?)),
        _ => None,
    }
}

fn changes(account: &str, card: &[u8], photo: Photo) -> Vec<Change> {
    let mut batch = Batch::new();
    vcard::put(&mut batch, account, card);
    photo.put(&mut batch, account);
    vec![Change::Write(batch), Change::Photo(photo)]
}
