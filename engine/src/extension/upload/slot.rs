//! Slots (XEP-0363 4): the permission to upload one file, as two URLs and a token.
//!
//! A slot is not stored. The token contains the file's properties, the owner and the expiry, with a
//! tag that only the holder of the key can compute. So a slot outlives the process that issued it,
//! and every holder of the key can verify it. The file server ensures that a slot is used only
//! once: an existing file is never overwritten.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::limits::{UPLOAD_NAME_BYTES_MAX, UPLOAD_TYPE_BYTES_MAX};
use crate::store::account::Incarnation;
use crate::store::hash::{HashKind, Tag};

/// The parameters of slots.
#[derive(Clone, PartialEq, Eq)]
pub struct Upload {
    /// The secret for tags and names, shared with the file server.
    pub key: [u8; 32],
    /// The base URL of uploads and downloads: `https://host:port/`, with a trailing `/`.
    pub url: Box<str>,
    /// Limit of a file's size in bytes.
    pub file_bytes_max: u64,
    /// Lifetime of a slot in seconds (XEP-0363 8: about 300).
    pub slot_s: u32,
    /// Limit of concurrently valid slots per user.
    pub slots_max: u16,
    /// Limit of bytes per user and day; 0 for no limit.
    pub day_bytes: u64,
    /// Limit of files per user and day; 0 for no limit.
    pub day_files: u64,
    /// Lifetime of a file in seconds.
    pub keep_s: u32,
}

impl fmt::Debug for Upload {
    /// The key must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Length of a file's identifier in bytes; it is written in hexadecimal.
const ID_BYTES: usize = 16;

/// Length of a file's identifier in characters.
pub const ID_CHARS: usize = 2 * ID_BYTES;

/// First byte of a token's content.
const VERSION: u8 = 1;

/// The permission to upload one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The file's identifier: 32 unguessable hexadecimal digits.
    pub id: Box<str>,
    /// Its name: see [`safe_name`].
    pub name: Box<str>,
    /// Its content type, if the user has declared one.
    pub content_type: Option<Box<str>>,
    /// Its size in bytes.
    pub size: u64,
    /// The user's bare JID.
    pub owner: Box<str>,
    /// The incarnation of that account.
    pub incarnation: Incarnation,
    /// The slot's expiry, seconds since the Unix epoch.
    pub until_s: u64,
    /// The file's expiry, seconds since the Unix epoch.
    pub expires_s: u64,
}

/// Why a token is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is invalid, or belongs to another file or key.
    Forged,
    /// It has expired.
    Late,
}

impl Slot {
    /// An identifier that cannot be guessed without the key. It differs for each serial number of
    /// an account, and for each `fresh`: a random name per slot. The serial number alone would
    /// repeat addresses after a restored backup.
    pub fn id(upload: &Upload, owner: &str, incarnation: Incarnation, serial: u64, fresh: &str) -> Box<str> {
        let (incarnation, serial) = (incarnation.to_bytes(), serial.to_be_bytes());
        let parts = [&b"file\0"[..], owner.as_bytes(), b"\0", &incarnation, &serial, fresh.as_bytes()];
        let tag = HashKind::Sha256.hmac(&upload.key, &parts);
        tag.as_bytes()[..ID_BYTES]
            .iter()
            .fold(String::with_capacity(ID_CHARS), |id, byte| format!("{id}{byte:02x}"))
            .into()
    }

    /// The URL of the file, to be uploaded and downloaded.
    pub fn url(&self, upload: &Upload) -> String {
        let mut url = format!("{}{}/", upload.url, self.id);
        encode_segment(&mut url, &self.name);
        url
    }

    /// The token to present at the upload.
    pub fn token(&self, upload: &Upload) -> String {
        let content_type = self.content_type.as_deref().unwrap_or_default();
        let mut text = vec![VERSION];
        for number in [self.size, self.until_s, self.expires_s] {
            text.extend_from_slice(&number.to_be_bytes());
        }
        text.extend_from_slice(&self.incarnation.to_bytes());
        text.push(content_type.len() as u8);
        text.extend_from_slice(content_type.as_bytes());
        text.extend_from_slice(self.owner.as_bytes());
        let tag = tag(&upload.key, &self.id, &self.name, &text);
        text.extend_from_slice(tag.as_bytes());
        URL_SAFE_NO_PAD.encode(text)
    }

    /// Decodes the slot of the file with this identifier and name from its token.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn read(key: &[u8; 32], id: &str, name: &str, token: &str, now_s: u64) -> Result<Slot, Fault> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| Fault::Forged)?;
        let at = bytes.len().checked_sub(HashKind::Sha256.len()).ok_or(Fault::Forged)?;
        let (text, shown) = bytes.split_at(at);
        if Tag::from_bytes(HashKind::Sha256, shown) != Some(tag(key, id, name, text)) {
            return Err(Fault::Forged);
        }
        let slot = Slot::decode(id, name, text).ok_or(Fault::Forged)?;
        if now_s > slot.until_s { Err(Fault::Late) } else { Ok(slot) }
    }

    fn decode(id: &str, name: &str, text: &[u8]) -> Option<Slot> {
        let text = text.strip_prefix(&[VERSION])?;
        let (size, text) = number(text)?;
        let (until_s, text) = number(text)?;
        let (expires_s, text) = number(text)?;
        let (incarnation, text) = text.split_first_chunk::<8>()?;
        let (length, text) = text.split_first()?;
        let (content_type, owner) = text.split_at_checked(usize::from(*length))?;
        let content_type = std::str::from_utf8(content_type).ok().filter(|text| !text.is_empty());
        Some(Slot {
            id: id.into(),
            name: name.into(),
            content_type: content_type.map(Into::into),
            size,
            owner: std::str::from_utf8(owner).ok()?.into(),
            incarnation: Incarnation::from_bytes(*incarnation),
            until_s,
            expires_s,
        })
    }
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = text.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

fn tag(key: &[u8; 32], id: &str, name: &str, text: &[u8]) -> Tag {
    let length = (text.len() as u64).to_be_bytes();
    HashKind::Sha256.hmac(key, &[b"slot\0", &length, text, id.as_bytes(), b"\0", name.as_bytes()])
}

/// Whether this has the form of a file's identifier.
pub fn is_id(text: &str) -> bool {
    text.len() == ID_CHARS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A safe file name derived from the client's (XEP-0363 4: preserved, especially its extension): no
/// path separators, no invisible or direction-changing characters, at most
/// [`UPLOAD_NAME_BYTES_MAX`] bytes.
pub fn safe_name(text: &str) -> Box<str> {
    let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last.chars().filter(|c| !is_hidden(*c)).collect();
    let name = shown.trim_start().trim_end_matches(|c: char| c.is_whitespace() || c == '.');
    if name.is_empty() {
        return "file".into();
    }
    if name.len() <= UPLOAD_NAME_BYTES_MAX {
        return name.into();
    }
    // A long name is truncated at the beginning: the extension shows the type.
    let mut at = name.len() - UPLOAD_NAME_BYTES_MAX;
    while !name.is_char_boundary(at) {
        at += 1;
    }
    name[at..].trim_start().into()
}

/// Control characters, direction marks, and other invisible characters (Unicode's category Cc, and
/// those of Cf that hide or reverse text).
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether this is a valid content type (RFC 9110 8.3.1): a type, a subtype and optional
/// parameters, of at most [`UPLOAD_TYPE_BYTES_MAX`] bytes.
pub fn is_content_type(text: &str) -> bool {
    let token = |text: &str| {
        let of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(of_token)
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    text.len() <= UPLOAD_TYPE_BYTES_MAX
        && printable
        && essence.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub))
}

/// Appends a path segment (RFC 3986 3.3; XEP-0363 4: non-ASCII characters are percent-encoded).
pub fn encode_segment(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Decodes a path segment; `None` if it is not text or has a broken escape.
pub fn decode_segment(text: &str) -> Option<String> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn upload() -> Upload {
        Upload {
            key: [7; 32],
            url: "https://upload.example.org/".into(),
            file_bytes_max: 1_000,
            slot_s: 300,
            slots_max: 3,
            day_bytes: 10_000,
            day_files: 5,
            keep_s: 86_400,
        }
    }

    fn slot(name: &str, content_type: Option<&str>) -> Slot {
        let (owner, incarnation) = ("romeo@montague.lit", Incarnation::drawn(9));
        Slot {
            id: Slot::id(&upload(), owner, incarnation, 1, ""),
            name: name.into(),
            content_type: content_type.map(Into::into),
            size: 23_456,
            owner: owner.into(),
            incarnation,
            until_s: 1_000,
            expires_s: 5_000,
        }
    }

    /// XEP-0363 4: the name of the example, percent-encoded.
    #[test]
    fn a_url_keeps_the_name_and_is_ascii_xep0363_4() {
        let slot = slot("très cool.jpg", Some("image/jpeg"));
        let url = slot.url(&upload());
        assert!(is_id(&slot.id));
        assert_eq!(url, format!("https://upload.example.org/{}/tr%C3%A8s%20cool.jpg", slot.id));
        assert_eq!(decode_segment("tr%C3%A8s%20cool.jpg").as_deref(), Some("très cool.jpg"));
        for broken in ["%", "%4", "%zz", "%+4", "%ff", "a%C3"] {
            assert_eq!(decode_segment(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_token_is_good_for_its_file_until_its_time_is_over() {
        let slot = slot("a.jpg", Some("image/jpeg"));
        let token = slot.token(&upload());
        let read = |id: &str, name: &str, now_s| Slot::read(&[7; 32], id, name, &token, now_s);
        assert_eq!(read(&slot.id, "a.jpg", 1_000), Ok(slot.clone()));
        assert_eq!(read(&slot.id, "a.jpg", 1_001), Err(Fault::Late));
        assert_eq!(read(&slot.id, "b.jpg", 10), Err(Fault::Forged));
        assert_eq!(read(&"0".repeat(ID_CHARS), "a.jpg", 10), Err(Fault::Forged));
        assert_eq!(Slot::read(&[8; 32], &slot.id, "a.jpg", &token, 10), Err(Fault::Forged));
        for at in 0..token.len() {
            let mut other = token.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("ASCII");
            let taken = Slot::read(&[7; 32], &slot.id, "a.jpg", &other, 10);
            assert_eq!(taken, Err(Fault::Forged), "a change at {at}");
            assert_eq!(Slot::read(&[7; 32], &slot.id, "a.jpg", &token[..at], 10), Err(Fault::Forged), "cut at {at}");
        }
    }

    #[test]
    fn identifiers_differ_by_account_serial_draw_and_key() {
        let (one, two) = (Incarnation::drawn(1), Incarnation::drawn(2));
        let other = Upload { key: [8; 32], ..upload() };
        let ids = [
            Slot::id(&upload(), "a@b", one, 1, "f"),
            Slot::id(&upload(), "a@b", one, 1, "0"),
            Slot::id(&upload(), "a@b", one, 2, "f"),
            Slot::id(&upload(), "a@b", two, 1, "f"),
            Slot::id(&upload(), "a@c", one, 1, "f"),
            Slot::id(&other, "a@b", one, 1, "f"),
        ];
        let all: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(all.len(), ids.len());
    }

    #[test]
    fn names_hide_nothing_and_are_no_paths() {
        for (given, safe) in [
            ("photo.jpg", "photo.jpg"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Windows\\evil.exe", "evil.exe"),
            ("", "file"),
            (".", "file"),
            ("..", "file"),
            ("a/", "file"),
            ("  a b.txt \u{a0}", "a b.txt"),
            ("a\r\nSet-Cookie: x\0.txt", "aSet-Cookie: x.txt"),
            ("gpj.\u{202e}exe", "gpj.exe"),
            ("\u{feff}\u{200b}.\u{2066}", "file"),
            ("naïve \u{1f600}.png", "naïve \u{1f600}.png"),
        ] {
            assert_eq!(&*safe_name(given), safe, "{given:?}");
        }
        let long = format!("{}.jpeg", "ä".repeat(500));
        let safe = safe_name(&long);
        assert!(safe.len() <= UPLOAD_NAME_BYTES_MAX && safe.ends_with("ä.jpeg"), "{safe}");
    }

    #[test]
    fn content_types_are_of_rfc_9110_8_3_1() {
        for good in ["image/jpeg", "text/plain; charset=utf-8", "application/vnd.a+b", "application/x-7z-compressed"] {
            assert!(is_content_type(good), "{good}");
        }
        let long = format!("a/{}", "b".repeat(UPLOAD_TYPE_BYTES_MAX));
        for bad in ["", "image", "/", "a/", "/b", "a b/c", "a/b\r\nc: d", "text/ä", &long] {
            assert!(!is_content_type(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_file_is_called_its_url_leads_to_its_name(text in "\\PC{0,60}|[\\x00-\\x7f]{0,60}") {
            let name = safe_name(&text);
            prop_assert!(!name.is_empty() && !name.contains(['/', '\\']) && &*name != "." && &*name != "..");
            prop_assert_eq!(safe_name(&name), name.clone());
            let mut segment = String::new();
            encode_segment(&mut segment, &name);
            let plain = segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b));
            prop_assert!(plain);
            prop_assert_eq!(decode_segment(&segment), Some(String::from(name)));
        }

        #[test]
        fn no_bytes_break_the_reader(token in "[A-Za-z0-9_-]{0,120}", id in "[0-9a-f]{32}") {
            prop_assert_eq!(Slot::read(&[7; 32], &id, "a", &token, 0), Err(Fault::Forged));
            let _ = Slot::decode(&id, "a", token.as_bytes());
        }
    }
}
