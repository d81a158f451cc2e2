//! An avatar is published, disabled or withdrawn (XEP-0084): the vCard has it, or has it no more.

use super::super::change::Change;
use super::super::iq::{IqRequest, Resume, Step};
use super::super::photo::{self, Photo};
use super::super::pubsub::node::{Access, Directory};
use super::super::{pubsub, vcard, xml};
use super::image::{self, Image};
use super::{DATA, Info, METADATA, info, last_metadata, photo as photo_of, place, published};
use crate::limits::VCARD_BYTES_MAX;
use crate::store::nodes::{self as rows, Item, Place, Span};
use crate::store::{Batch, Found};

/// What a request does to the avatar.
enum Asked {
    /// It is this one from now on.
    Published(Info),
    /// There is none any more; where an item was removed, if it was this one.
    Disabled(Option<Box<str>>),
    /// An image may be there no more, or not for all; where an item was removed, this one.
    Withdrawn(Option<Box<str>>),
}

/// What a request for the own nodes does to the avatar, if anything.
fn asked(request: &IqRequest<'_>) -> Option<Asked> {
    // A name can be written in more ways than one, which no client does that wants to be understood.
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
    let account: Box<str> = request.account.into();
    match asked(request) {
        None => step,
        Some(Asked::Published(info)) => {
            let queries =
                vec![photo::query(&account), rows::directory(&account), rows::place(&account, DATA, &info.id)];
            step.join(queries, move |found, step| show(&account, info.photo, found, step))
        }
        Some(Asked::Disabled(id)) => {
            let queries = vec![photo::query(&account), last_metadata(&account), vcard::query(&account)];
            step.join(queries, move |found, step| {
                let meant = published(found.get(1)).filter(|(last, _)| id.as_deref().is_none_or(|id| id == *last));
                match (photo_of(found.first()), meant.and_then(|(_, photo)| photo)) {
                    (Some(photo), Some(meant)) if photo == meant => step.with(hide(&account, found.get(2))),
                    _ => step,
                }
            })
        }
        Some(Asked::Withdrawn(id)) => {
            let queries = vec![photo::query(&account), rows::directory(&account), vcard::query(&account)];
            step.join(queries, move |found, step| withdraw(&account, id.as_deref(), found, step))
        }
    }
}

/// XEP-0398 3.1. The image goes into the vCard, which all may read, only if all may read it at its node, too (6).
fn show(account: &str, photo: Photo, found: &[Found], step: Step) -> Step {
    let is_open = |directory: Directory| directory.get(DATA).is_some_and(|node| node.config.access == Access::Open);
    let open = found.get(1).and_then(|found| Directory::after(found, step.writes())).is_some_and(is_open);
    match place(found.get(2)) {
        Some(Place { number, bytes }) if open && photo_of(found.first()) != Some(photo) => {
            let span = Span { after: number - 1, before: number + 1, ..Span::all(1, bytes) };
            let queries = vec![rows::items(account, DATA, span), vcard::query(account)];
            let account: Box<str> = account.into();
            let go_on = move |found: &[Found]| match shown(&account, photo, found) {
                Some(changes) => step.with(changes),
                None => step,
            };
            Step::Read(queries, Resume::with(go_on))
        }
        _ => step,
    }
}

/// The vCard with the image, if it is the one that the metadata names and one that vCards have.
fn shown(account: &str, photo: Photo, found: &[Found]) -> Option<Vec<Change>> {
    let Some(Found::Rows { rows, .. }) = found.first() else { return None };
    let data = xml::parse(Item::decode(&rows.first()?.value)?.payload).filter(|data| data.is("data", DATA))?;
    let image = Image::decode(&data.text()).filter(|image| image.photo == photo)?;
    let kind = image.kind()?;
    let card = image::put_in_card(card(found.get(1))?, Some((kind, &image)));
    let card = xml::written(&card).filter(|card| card.len() <= VCARD_BYTES_MAX)?;
    Some(changes(account, &card, photo))
}

/// An image may have gone from the data node, or the node is not open to all any more.
fn withdraw(account: &str, id: Option<&str>, found: &[Found], step: Step) -> Step {
    let Some(photo) = photo_of(found.first()).filter(|photo| photo.is_there()) else { return step };
    let hex = photo.hex();
    let Some(directory) = found.get(1).and_then(|found| Directory::after(found, step.writes())) else { return step };
    let open = directory.get(DATA).is_some_and(|node| node.config.access == Access::Open && node.items > 0);
    if id.map_or(open, |id| !id.eq_ignore_ascii_case(&hex)) {
        return step;
    }
    // Only if it was one of those that were published.
    let (account, card): (Box<str>, _) = (account.into(), found.get(2).cloned());
    let queries = vec![rows::place(&account, DATA, id.unwrap_or(&hex))];
    let go_on = move |found: &[Found]| match place(found.first()) {
        Some(_) => step.with(hide(&account, card.as_ref())),
        None => step,
    };
    Step::Read(queries, Resume::with(go_on))
}

/// The vCard without its photo.
fn hide(account: &str, found: Option<&Found>) -> Vec<Change> {
    let card = card(found).flatten().map(|card| image::put_in_card(Some(card), None));
    match card.as_ref().and_then(xml::written) {
        Some(card) => changes(account, &card, Photo::GONE),
        None => Vec::new(),
    }
}

/// The vCard that there is; none if it cannot be read.
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
