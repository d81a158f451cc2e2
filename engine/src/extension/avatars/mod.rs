//! Avatars between old and new clients (XEP-0398): an avatar that a user publishes (XEP-0084)
//! becomes the photo of the vCard (XEP-0153), and the photo of a vCard is published. The hash of
//! the photo is added to the user's presence ([`photo`](mod@super::photo)).
//!
//! Both forms are stored, so that reading either costs no more than before. The addressed extension
//! carries out a request; this one adds its own writes to the same commit, in turn with other
//! requests for the account. These writes trigger nothing, so there is no loop. If an image cannot
//! be converted, the other form stays unchanged.

pub mod apart;
mod from_nodes;
mod from_vcard;
mod image;

use minidom::Element;

use super::hook::{Extension, Xep};
use super::iq::{Around, Context, IqRequest, ServerFacts, Step};
use super::photo::Photo;
use super::{are_on, pubsub, vcard, xml};
use crate::store::nodes::Item;
use crate::store::{Found, Query, nodes as rows};

const DATA: &str = "urn:xmpp:avatar:data";
const METADATA: &str = "urn:xmpp:avatar:metadata";

const VARS: &[&str] = &["urn:xmpp:pep-vcard-conversion:0"];

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "avatars",
    xeps: &[
        Xep { number: 153, version: "1.1.1", title: "vCard-Based Avatars" },
        Xep { number: 398, version: "1.0.0", title: "User Avatar to vCard-Based Avatars Conversion" },
    ],
    account_vars: |server| if converts(server) { VARS } else { &[] },
    joins: Some(joins),
    ..Extension::NONE
};

/// Whether both extensions are switched on.
fn converts(server: &ServerFacts) -> bool {
    are_on(server, &["pep", "vcard"])
}

fn joins(context: &Context<'_>, request: &IqRequest<'_>, step: Step) -> Step {
    if !request.set || !converts(context.server) {
        return step;
    }
    match request.namespace {
        vcard::NS => from_vcard::join(context.now.wall_us, request, step),
        pubsub::NS | pubsub::NS_OWNER => from_nodes::join(request, step),
        _ => step,
    }
}

/// Continues at the end of a request.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Join {
    /// A request to nodes.
    Nodes(from_nodes::Join),
    /// A request that wrote a vCard.
    Card(from_vcard::Join),
}

impl Join {
    pub(super) fn go_on(self, found: &[Found], step: Step) -> Step {
        match self {
            Join::Nodes(join) => join.go_on(found, step),
            Join::Card(join) => join.go_on(found, step),
        }
    }
}

/// Waits for a further read before the request ends.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Pending {
    /// A request to nodes.
    Nodes(from_nodes::Pending),
    /// A request that writes a vCard.
    Card(from_vcard::Pending),
}

impl Pending {
    pub(super) fn go_on(self, _: &Around<'_>, found: &[Found]) -> Step {
        match self {
            Pending::Nodes(pending) => pending.go_on(found),
            Pending::Card(pending) => pending.go_on(found),
        }
    }
}

/// The photo of the vCard, from its row; `None` if there never was one.
fn photo(found: Option<&Found>) -> Option<Photo> {
    match found {
        Some(Found::Value(Some(row))) => Photo::decode(row),
        _ => None,
    }
}

/// The query for the published avatar.
fn last_metadata(account: &str) -> Query {
    rows::items(account, METADATA, rows::Span::LAST)
}

/// The item found by that query, and the avatar that it names: the one whose image is in the data
/// node.
fn published(found: Option<&Found>) -> Option<(&str, Option<Photo>)> {
    let Some(Found::Rows { rows, .. }) = found else { return None };
    let item = Item::decode(&rows.first()?.value)?;
    let info = xml::parse(item.payload).and_then(|metadata| info(&metadata).map(|info| info.photo));
    Some((item.id, info))
}

/// The part of an avatar's metadata that names the image in the data node (XEP-0398 3.1): the first
/// `<info/>` without a URL.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Info {
    id: Box<str>,
    photo: Photo,
}

fn info(metadata: &Element) -> Option<Info> {
    let mut all = metadata.children().filter(|child| child.is("info", METADATA) && child.attr("url").is_none());
    let id = all.next()?.attr("id")?;
    Some(Info { id: id.into(), photo: Photo::from_hex(id)? })
}

/// The place of an item.
fn place(found: Option<&Found>) -> Option<rows::Place> {
    match found {
        Some(Found::Value(Some(row))) => rows::Place::decode(row),
        _ => None,
    }
}
