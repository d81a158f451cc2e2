//! An account whose nodes and vCard come from elsewhere together, and were not kept the same there: one of the two has the avatar, or
//! the hash of the photo is not known here.

use minidom::Element;

use super::super::photo::Photo;
use super::super::xml;
use super::image::{self, Image};
use super::{DATA, METADATA, info};
use crate::limits::VCARD_BYTES_MAX;

/// The node with the image (XEP-0084).
pub const DATA_NODE: &str = DATA;

/// The node that names it.
pub const METADATA_NODE: &str = METADATA;

/// What an account comes with.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The vCard.
    pub card: Option<&'a Element>,
    /// The last payload of the data node, if all may read it (XEP-0398 6).
    pub data: Option<&'a [u8]>,
    /// The last payload of the metadata node.
    pub metadata: Option<&'a [u8]>,
    /// There is neither node.
    pub no_nodes: bool,
}

/// What has to be done to make both the same.
#[derive(Debug, Default)]
pub struct Meeting {
    /// The photo that the vCard has then.
    pub photo: Option<Photo>,
    /// The vCard as it has to be.
    pub card: Option<Element>,
    /// Id of the items of both nodes, payload of the data node, and that of the other one. All may read both.
    pub items: Option<(String, Vec<u8>, Vec<u8>)>,
}

/// Brings the two together. What is published counts, as for clients of either kind that come later (XEP-0398 3).
pub fn meet(parts: Parts<'_>) -> Meeting {
    let own = parts.card.and_then(image::in_card).filter(|image| image.kind().is_some());
    if let Some(image) = published(parts.data, parts.metadata) {
        if own.as_ref().map(|own| own.photo) == Some(image.photo) {
            return Meeting { photo: Some(image.photo), ..Meeting::default() };
        }
        let kind = image.kind().unwrap_or_default();
        let card = image::put_in_card(parts.card.cloned(), Some((kind, &image)));
        if xml::written(&card).is_some_and(|written| written.len() <= VCARD_BYTES_MAX) {
            return Meeting { photo: Some(image.photo), card: Some(card), items: None };
        }
    }
    let Some(image) = own else { return Meeting::default() };
    let items = parts.no_nodes.then(|| items(&image)).flatten();
    Meeting { photo: Some(image.photo), card: None, items }
}

/// The image that the nodes have, if it is the one that is named and one that vCards have.
fn published(data: Option<&[u8]>, metadata: Option<&[u8]>) -> Option<Image> {
    let data = xml::parse(data?).filter(|data| data.is("data", DATA))?;
    let named = xml::parse(metadata?).filter(|metadata| metadata.is("metadata", METADATA))?;
    let photo = info(&named)?.photo;
    Image::decode(&data.text()).filter(|image| image.photo == photo && image.kind().is_some())
}

/// The payloads by which an image is published (XEP-0398 3.2).
pub(super) fn items(image: &Image) -> Option<(String, Vec<u8>, Vec<u8>)> {
    let (kind, id, bytes) = (image.kind()?, image.photo.hex(), image.bytes.len());
    let data = format!("<data xmlns='{DATA}'>{}</data>", image.encode());
    let metadata = format!("<metadata xmlns='{METADATA}'><info bytes='{bytes}' id='{id}' type='{kind}'/></metadata>");
    Some((id, data.into_bytes(), metadata.into_bytes()))
}
