//! `<scram-credentials/>` (XEP-0227 4.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minidom::Element;

use super::{NS_SCRAM, Word};
use crate::limits::{SCRAM_ITERATIONS_MAX, SCRAM_SALT_BYTES_MAX};
use crate::store::account::{Credentials, KeySet, ScramKeys};
use crate::store::hash::{HashKind, Tag};
use crate::wire::text::write_attribute;

const WHAT: &str = "credentials";

fn name(kind: HashKind) -> &'static str {
    match kind {
        HashKind::Sha1 => "SCRAM-SHA-1",
        HashKind::Sha256 => "SCRAM-SHA-256",
        HashKind::Sha512 => "SCRAM-SHA-512",
    }
}

/// Prefix of a `password` that is not a password: earlier versions of ejabberd wrote keys this way.
const IN_PASSWORD: &str = "scram:";

/// Reads keys in place of a password: those of SCRAM-SHA-1, or of the hash function that is named
/// first. Returns `None` if it is a password.
///
/// # Errors
/// If the text has the prefix of such keys, but does not contain any.
pub(super) fn in_password(password: &str) -> Option<Result<KeySet, Word>> {
    let parts: Vec<&str> = password.strip_prefix(IN_PASSWORD)?.split(',').collect();
    let (kind, [stored, server, salt, count]) = match parts[..] {
        ["sha256", ref rest @ ..] => (HashKind::Sha256, <[&str; 4]>::try_from(rest).ok()?),
        ["sha512", ref rest @ ..] => (HashKind::Sha512, <[&str; 4]>::try_from(rest).ok()?),
        ref all => (HashKind::Sha1, <[&str; 4]>::try_from(all).ok()?),
    };
    Some(key_set(kind, stored, server, salt, count))
}

/// Reads the keys of one mechanism.
///
/// # Errors
/// If this server does not support the mechanism, or the element does not contain valid keys.
pub(super) fn read(element: &Element) -> Result<KeySet, Word> {
    let mechanism = element.attr("mechanism").unwrap_or_default();
    let Some(kind) = HashKind::ALL.into_iter().find(|kind| name(*kind) == mechanism) else {
        return Err(Word::new(WHAT, format!("{mechanism:?} is not a mechanism of this server")));
    };
    let text =
        |child: &str| element.get_child(child, NS_SCRAM).map_or(String::new(), |child| child.text().trim().to_owned());
    key_set(kind, &text("stored-key"), &text("server-key"), &text("salt"), &text("iter-count"))
}

fn key_set(kind: HashKind, stored: &str, server: &str, salt: &str, count: &str) -> Result<KeySet, Word> {
    // ejabberd stores the keys in base64, and encodes that in base64 again. No key is as long as
    // its base64 form.
    let set = |twice: bool| {
        let bytes = |text: &str| {
            let once = STANDARD.decode(text).ok()?;
            if twice { STANDARD.decode(once).ok() } else { Some(once) }
        };
        let tag = |text: &str| Tag::from_bytes(kind, &bytes(text)?);
        let keys = ScramKeys { stored: tag(stored)?, server: tag(server)? };
        KeySet::new(kind, count.parse().ok()?, &bytes(salt)?, keys)
    };
    set(false).or_else(|| set(true)).ok_or_else(|| {
        let why = format!(
            "{} needs iter-count (1 to {SCRAM_ITERATIONS_MAX}), salt (1 to {SCRAM_SALT_BYTES_MAX} bytes), stored-key and \
             server-key ({} bytes), the last three in base64",
            name(kind),
            kind.len()
        );
        Word::new(WHAT, why)
    })
}

/// Whether an element contains keys.
pub(super) fn is_keys(element: &Element) -> bool {
    element.is("scram-credentials", NS_SCRAM)
}

/// Appends the keys of all mechanisms of an account; in base64 twice for ejabberd.
pub(super) fn write(out: &mut Vec<u8>, credentials: &Credentials, twice: bool) {
    for set in HashKind::ALL.into_iter().filter_map(|kind| credentials.keys(kind)) {
        out.extend_from_slice(b"<scram-credentials");
        write_attribute(out, "xmlns", NS_SCRAM);
        write_attribute(out, "mechanism", name(set.kind()));
        let keys = set.keys();
        let [salt, server, stored] =
            [set.salt(), keys.server.as_bytes(), keys.stored.as_bytes()].map(|bytes| match twice {
                false => STANDARD.encode(bytes),
                true => STANDARD.encode(STANDARD.encode(bytes)),
            });
        out.extend_from_slice(
            format!(
                "><iter-count>{}</iter-count><salt>{salt}</salt><server-key>{server}</server-key><stored-key>{stored}\
                 </stored-key></scram-credentials>",
                set.iterations()
            )
            .as_bytes(),
        );
    }
}
