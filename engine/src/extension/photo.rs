//! The hash of a user's photo in the user's presence (XEP-0153 3.1, XEP-0398 4). The hash takes 20
//! bytes of memory per user. Presence is stored without it, so that a payload common to many
//! sessions is stored once, and the hash is inserted when presence is sent.

use std::ops::Range;

use crate::store::{Batch, Query, record};
use crate::wire::written::read_back;
use crate::wire::{Child, Element, Event, Splice, splice};

const NS: &str = "vcard-temp:x:update";
const FORMAT: u8 = 1;
const HASH_BYTES: usize = 20;

/// The photo in a user's vCard, named by the SHA-1 of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Photo([u8; HASH_BYTES]);

impl Photo {
    /// A photo that was removed, which contacts are to see. No image has this hash.
    pub const GONE: Photo = Photo([0; HASH_BYTES]);

    /// The photo with this hash.
    pub const fn of(hash: [u8; HASH_BYTES]) -> Photo {
        Photo(hash)
    }

    /// Reads a hash in hexadecimal digits of either case; `None` if it is invalid.
    pub fn from_hex(text: &str) -> Option<Photo> {
        let digits = text.as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        if digits.len() != 2 * HASH_BYTES {
            return None;
        }
        let mut hash = [0; HASH_BYTES];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Photo(hash))
    }

    /// The hash in lower-case hexadecimal digits; empty if the photo was removed.
    pub fn hex(self) -> String {
        match self.is_there() {
            true => self.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            false => String::new(),
        }
    }

    /// Whether there is a photo.
    pub fn is_there(self) -> bool {
        self != Photo::GONE
    }

    /// Reads the row; `None` if its format is unknown.
    pub fn decode(row: &[u8]) -> Option<Photo> {
        match row.split_first()? {
            (&FORMAT, hash) => Some(Photo(hash.try_into().ok()?)),
            _ => None,
        }
    }

    /// Writes the row.
    pub fn put(self, batch: &mut Batch, account: &str) {
        record::put(batch, account, record::PHOTO, &[&[FORMAT][..], &self.0].concat());
    }

    fn element(self) -> Vec<u8> {
        let hash = self.hex();
        match hash.is_empty() {
            true => format!("<x xmlns='{NS}'><photo/></x>").into_bytes(),
            false => format!("<x xmlns='{NS}'><photo>{hash}</photo></x>").into_bytes(),
        }
    }
}

/// The query for the row.
pub fn query(account: &str) -> Query {
    record::query(account, record::PHOTO)
}

/// The server's change to a presence stanza.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Ranges of the stanza to remove: the client's own photo elements.
    pub drop: Vec<Range<usize>>,
    /// What to append.
    pub append: Vec<u8>,
}

/// The change to available presence of a user with this photo (XEP-0398 4). `None` if the client
/// declares with an empty `<photo/>` that it advertises no photo: the presence stays unchanged.
pub fn update(element: &Element<'_>, photo: Photo) -> Option<Update> {
    let own: Vec<Child<'_>> = element.children().filter(|child| child.is("x", NS)).collect();
    match own.iter().any(says_none) {
        true => None,
        false => Some(Update { drop: own.iter().map(Child::range).collect(), append: photo.element() }),
    }
}

/// Whether it has a `<photo/>` without text.
fn says_none(own: &Child<'_>) -> bool {
    let mut cursor = own.cursor();
    while let Some(event) = cursor.next() {
        if let Event::Start(start) = event
            && cursor.depth() == 2
            && start.is("photo", NS)
        {
            return cursor.take_text().trim().is_empty();
        }
    }
    false
}

/// A complete stored available presence, as it is sent for a user with this photo.
pub fn shown(kept: &[u8], photo: Photo) -> Vec<u8> {
    let element = photo.element();
    let mut out = Vec::with_capacity(kept.len() + element.len() + "></presence>".len());
    // Nearly all payloads do not mention photos; then the element is inserted before the end tag.
    let mentioned = memchr::memmem::find(kept, NS.as_bytes()).is_some();
    match memchr::memrchr(b'<', kept) {
        Some(at) if !mentioned && kept[at + 1..].starts_with(b"/") => {
            out.extend_from_slice(&kept[..at]);
            out.extend_from_slice(&element);
            out.extend_from_slice(&kept[at..]);
            out
        }
        _ => {
            let change = |stanza: &Element<'_>| {
                let update = update(stanza, photo)?;
                splice(
                    &mut out,
                    stanza,
                    &Splice { drop: &update.drop, append: &[&update.append], ..Splice::default() },
                );
                Some(())
            };
            match read_back(kept, change).flatten() {
                Some(()) => out,
                None => kept.to_vec(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASH: &str = "01b87fcd030b72895ff8e88db57ec525450f000d";

    fn photo() -> Photo {
        Photo::from_hex(HASH).expect("a hash")
    }

    fn with(kept: &str) -> String {
        String::from_utf8(shown(kept.as_bytes(), photo())).expect("text")
    }

    #[test]
    fn the_hash_is_in_presence_xep_0398_4() {
        let x = format!("<x xmlns='{NS}'><photo>{HASH}</photo></x>");
        assert_eq!(with("<presence/>"), format!("<presence>{x}</presence>"));
        assert_eq!(with("<presence></presence>"), format!("<presence>{x}</presence>"));
        let away = "<presence><show>away</show><c xmlns='d'/>";
        assert_eq!(with(&format!("{away}</presence>")), format!("{away}{x}</presence>"));
        // An empty <x/> and one with another hash are replaced.
        assert_eq!(with(&format!("<presence><x xmlns='{NS}'/></presence>")), format!("<presence>{x}</presence>"));
        let other = format!("<presence><x xmlns='{NS}'><photo>0a</photo></x><show>dnd</show></presence>");
        assert_eq!(with(&other), format!("<presence><show>dnd</show>{x}</presence>"));
        let other = format!("<presence><x xmlns='{NS}'><y><photo/></y></x></presence>");
        assert_eq!(with(&other), format!("<presence>{x}</presence>"), "it is no <photo/> of its own");
    }

    #[test]
    fn an_empty_photo_stays_xep_0398_4() {
        for none in ["<photo/>", "<photo></photo>", "<photo> </photo>"] {
            let kept = format!("<presence><x xmlns='{NS}'>{none}</x></presence>");
            assert_eq!(with(&kept), kept);
            let prefixed = format!("<presence><v:x xmlns:v='{NS}'><v:photo/></v:x></presence>");
            assert_eq!(with(&prefixed), prefixed);
        }
    }

    #[test]
    fn a_name_in_a_text_is_not_the_element() {
        let x = format!("<x xmlns='{NS}'><photo>{HASH}</photo></x>");
        let status = format!("<presence><status>{NS}</status>");
        assert_eq!(with(&format!("{status}</presence>")), format!("{status}{x}</presence>"));
    }

    #[test]
    fn a_photo_that_was_removed_is_shown_as_none_xep_0153_4_1() {
        let shown = shown(b"<presence/>", Photo::GONE);
        assert_eq!(shown, format!("<presence><x xmlns='{NS}'><photo/></x></presence>").into_bytes());
    }

    #[test]
    fn rows_and_digits_read_back() {
        let mut batch = Batch::new();
        photo().put(&mut batch, "a@x");
        let Some(crate::store::OpView::Put { value, .. }) = batch.iter().next() else { panic!("a row") };
        assert_eq!(Photo::decode(value), Some(photo()));
        assert_eq!(Photo::from_hex(&HASH.to_uppercase()), Some(photo()));
        assert_eq!(photo().hex(), HASH);
        for bad in
            ["", "01", "g1b87fcd030b72895ff8e88db57ec525450f000d", "\u{e9}1b87fcd030b72895ff8e88db57ec525450f00d"]
        {
            assert_eq!(Photo::from_hex(bad), None);
        }
        assert!(Photo::decode(b"").is_none() && Photo::decode(&value[..20]).is_none());
    }

    proptest! {
        /// For any presence, the output is well-formed, has the rest unchanged, and has exactly one
        /// statement about a photo.
        #[test]
        fn presence_stays_readable_and_says_one_thing(pieces in prop::collection::vec((0u8..7, "[\t -\u{d7ff}]{0,20}"), 0..6)) {
            let mut kept = "<presence>".to_owned();
            let (mut none, mut others) = (false, Vec::new());
            for (kind, text) in &pieces {
                let mut escaped = Vec::new();
                crate::wire::text::escape_into(&mut escaped, text);
                let escaped = String::from_utf8(escaped).expect("text");
                let piece = match kind {
                    0 => format!("<status>{escaped}</status>"),
                    1 => format!("<x xmlns='{NS}'/>"),
                    2 => format!("<x xmlns='{NS}'><photo/></x>"),
                    3 => format!("<x xmlns='{NS}'><photo>a{escaped}</photo></x>"),
                    4 => format!("<p:x xmlns:p='{NS}'><p:photo>0</p:photo></p:x>"),
                    5 => format!("<status>{NS}</status>"),
                    _ => escaped.replace('\r', ""),
                };
                none |= *kind == 2;
                if !(1..=4).contains(kind) {
                    others.push(piece.clone());
                }
                kept.push_str(&piece);
            }
            kept.push_str("</presence>");
            let shown = with(&kept);
            let (own, hash) = read_back(shown.as_bytes(), |stanza| {
                let own: Vec<_> = stanza.children().filter(|child| child.is("x", NS)).collect();
                (own.len(), own.iter().any(|child| child.bytes() == photo().element()))
            }).expect("it can be read");
            match none {
                true => prop_assert_eq!(&shown, &kept),
                false => prop_assert_eq!((own, hash), (1, true)),
            }
            others.iter().for_each(|piece| assert!(shown.contains(piece.as_str())));
        }
    }
}
