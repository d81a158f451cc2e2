//! Images as far as the server inspects them: their bytes, their hash, and their type by the first
//! bytes. They are never decoded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minidom::Element;
use sha1::{Digest, Sha1};

use super::super::photo::Photo;
use super::super::vcard;

/// An image received from a client.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Image {
    /// The bytes of the file.
    pub(super) bytes: Vec<u8>,
    /// Its hash.
    pub(super) photo: Photo,
}

impl Image {
    /// Decodes base64 with white space in it (XEP-0153 4.6.5, XEP-0084 4.2.1); `None` if it is
    /// invalid or empty.
    pub(super) fn decode(text: &str) -> Option<Image> {
        let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let bytes = STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())?;
        let photo = Photo::of(Sha1::digest(&bytes).into());
        Some(Image { bytes, photo })
    }

    /// The image in base64.
    pub(super) fn encode(&self) -> String {
        STANDARD.encode(&self.bytes)
    }

    /// Its type by the first bytes, whatever type was declared (XEP-0153 5): one of those in
    /// XEP-0153 4.5.4; `None` for others.
    pub(super) fn kind(&self) -> Option<&'static str> {
        let begins = |with: &[u8]| self.bytes.starts_with(with);
        if begins(b"\x89PNG\r\n\x1a\n") {
            Some("image/png")
        } else if begins(b"\xff\xd8\xff") {
            Some("image/jpeg")
        } else if begins(b"GIF87a") || begins(b"GIF89a") {
            Some("image/gif")
        } else {
            None
        }
    }
}

/// The photo in a vCard (XEP-0153 3.1), if it has one.
pub(super) fn in_card(card: &Element) -> Option<Image> {
    let photo = card.get_child("PHOTO", vcard::NS)?;
    Image::decode(&photo.get_child("BINVAL", vcard::NS)?.text())
}

/// A vCard with this photo in place of the previous one.
pub(super) fn put_in_card(card: Option<Element>, photo: Option<(&str, &Image)>) -> Element {
    let mut card = card.unwrap_or_else(|| Element::bare("vCard", vcard::NS));
    while card.remove_child("PHOTO", vcard::NS).is_some() {}
    if let Some((kind, image)) = photo {
        let leaf = |name: &str, text: String| Element::builder(name, vcard::NS).append(text).build();
        let photo = Element::builder("PHOTO", vcard::NS)
            .append(leaf("TYPE", kind.into()))
            .append(leaf("BINVAL", image.encode()))
            .build();
        card.append_child(photo);
    }
    card
}
