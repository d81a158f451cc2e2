//! The avatar of a room (XEP-0486): a vCard at its address, and the hashes of the images in it.

use std::sync::Arc;

use minidom::Element as Tree;
use sha1::{Digest as _, Sha1};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::extension::xml;
use crate::kernel::Kernel;
use crate::limits::{ROOM_CARD_BYTES_MAX, ROOM_PHOTOS_MAX};
use crate::rooms::room::Room;
use crate::store::room::Affiliation;
use crate::store::room_extra::{Hashes, put_card};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;

pub(super) const NS: &str = "vcard-temp";

/// A vCard that is to be that of the room; an empty one removes the last.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) xml: Vec<u8>,
    pub(super) hashes: Hashes,
    pub(super) is_empty: bool,
}

impl Card {
    /// Reads a vCard.
    ///
    /// # Errors
    /// If it is too long, or an image in it is not base64.
    pub(super) fn of(card: &Tree) -> Result<Card, Refusal> {
        // Serialised again, it declares the namespaces that it inherited from the stream.
        let xml = xml::written(card);
        let photos: Vec<&Tree> = card.children().filter(|child| child.is("PHOTO", NS)).collect();
        if xml.len() > ROOM_CARD_BYTES_MAX || photos.len() > ROOM_PHOTOS_MAX {
            return Err(Limit::RoomCard.into());
        }
        let hash = |photo: &Tree| {
            let text = photo.get_child("BINVAL", NS)?.text();
            let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            let image = STANDARD.decode(text).ok().filter(|image| !image.is_empty())?;
            Some(Sha1::digest(&image).into())
        };
        // XEP-0486 5.1: all images of the card.
        let hashes: Option<Vec<[u8; 20]>> = photos.into_iter().map(hash).collect();
        let hashes = Hashes(hashes.ok_or(StanzaCondition::NotAcceptable)?);
        Ok(Card { xml, hashes, is_empty: card.children().next().is_none() })
    }
}

impl Room {
    /// XEP-0486 3.2: an owner publishes the avatar, or removes it. All occupants learn that the
    /// configuration has changed.
    ///
    /// # Errors
    /// `forbidden` for others.
    pub(super) fn set_card(&mut self, kernel: &mut Kernel, from: &str, card: &Card) -> Result<(), Refusal> {
        if self.affiliation(bare_of(from)) != Affiliation::Owner {
            return Err(StanzaCondition::Forbidden.into());
        }
        let card = (!card.is_empty).then_some((&*card.xml, &card.hashes));
        put_card(&mut kernel.writes, &self.jid, card);
        self.hashes = card.map(|(_, hashes)| hashes.clone());
        self.tell_statuses(kernel, &[104]);
        Ok(())
    }

    /// XEP-0486 3.4: the vCard of the room, for all who are not banned. `card` is the stored one.
    ///
    /// # Errors
    /// `forbidden` for outcasts.
    pub(super) fn card(&self, from: &str, card: Option<Arc<[u8]>>) -> Result<Arc<[u8]>, Refusal> {
        if self.affiliation(bare_of(from)) == Affiliation::Outcast {
            return Err(StanzaCondition::Forbidden.into());
        }
        Ok(card.unwrap_or_else(|| {
            let mut empty = Vec::new();
            Writer::new(&mut empty).empty("vCard", NS);
            empty.into()
        }))
    }

    /// XEP-0486 3.3.
    pub(super) fn avatar_hashes(&self) -> Vec<String> {
        let hex = |hash: &[u8; 20]| hash.iter().map(|byte| format!("{byte:02x}")).collect();
        self.hashes.iter().flat_map(|hashes| hashes.0.iter().map(hex)).collect()
    }
}
