//! Reconciles the avatar and the vCard of an imported account, which may differ: only one of them
//! has the avatar, or the hash of the photo is unknown here.

use minidom::Element;

use super::super::photo::Photo;
use super::super::xml;
use super::image::{self, Image};
use super::{DATA, METADATA, info};
use crate::limits::VCARD_BYTES_MAX;

/// The node with the image (XEP-0084).
pub const DATA_NODE: &str = DATA;

/// The node with its metadata.
pub const METADATA_NODE: &str = METADATA;

/// The imported data of an account.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The vCard.
    pub card: Option<&'a Element>,
    /// The last payload of the data node, if everybody may read it (XEP-0398 6).
    pub data: Option<&'a [u8]>,
    /// The last payload of the metadata node.
    pub metadata: Option<&'a [u8]>,
    /// Whether neither node exists.
    pub no_nodes: bool,
}

/// The changes that make both the same.
#[derive(Debug, Default)]
pub struct Meeting {
    /// The photo that the vCard has then.
    pub photo: Option<Photo>,
    /// The new vCard.
    pub card: Option<Element>,
    /// Id of the items of both nodes, payload of the data node, and payload of the metadata node.
    /// Everybody may read both.
    pub items: Option<(String, Vec<u8>, Vec<u8>)>,
}

/// Reconciles the two. The published avatar takes precedence, as for clients of either kind that
/// come later (XEP-0398 3).
pub fn meet(parts: Parts<'_>) -> Meeting {
    let own = parts.card.and_then(image::in_card).filter(|image| image.kind().is_some());
    if let Some(image) = published(parts.data, parts.metadata) {
        if own.as_ref().map(|own| own.photo) == Some(image.photo) {
            return Meeting { photo: Some(image.photo), ..Meeting::default() };
        }
        let kind = image.kind().unwrap_or_default();
        let card = image::put_in_card(parts.card.cloned(), Some((kind, &image)));
        if xml::written(&card).len() <= VCARD_BYTES_MAX {
            return Meeting { photo: Some(image.photo), card: Some(card), items: None };
        }
    }
    let Some(image) = own else { return Meeting::default() };
    let items = parts.no_nodes.then(|| items(&image)).flatten();
    Meeting { photo: Some(image.photo), card: None, items }
}

/// The image in the nodes, if the metadata names it and its type is valid in vCards.
fn published(data: Option<&[u8]>, metadata: Option<&[u8]>) -> Option<Image> {
    let data = xml::parse(data?).filter(|data| data.is("data", DATA))?;
    let named = xml::parse(metadata?).filter(|metadata| metadata.is("metadata", METADATA))?;
    let photo = info(&named)?.photo;
    Image::decode(&data.text()).filter(|image| image.photo == photo && image.kind().is_some())
}

/// The payloads that publish an image (XEP-0398 3.2).
pub(super) fn items(image: &Image) -> Option<(String, Vec<u8>, Vec<u8>)> {
    let (kind, id, bytes) = (image.kind()?, image.photo.hex(), image.bytes.len());
    let data = format!("<data xmlns='{DATA}'>{}</data>", image.encode());
    let metadata = format!("<metadata xmlns='{METADATA}'><info bytes='{bytes}' id='{id}' type='{kind}'/></metadata>");
    Some((id, data.into_bytes(), metadata.into_bytes()))
}
