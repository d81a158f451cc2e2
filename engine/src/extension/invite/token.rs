//! Tokens: 128 random bits, and the home that knows them.
//!
//! A client presents a token before anything else shows where it belongs (XEP-0445 4). Therefore
//! the token names the actor that stores it: the localpart follows the random part, or nothing if
//! the actor is the domain. Both are in lower-case base 32 (RFC 4648 6) without padding: letters
//! and digits only, as XEP-0401 6.1 recommends.

use crate::limits::{INVITATION_TOKEN_BYTES, JID_PART_BYTES_MAX};

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Length of the random part in characters.
const RANDOM_CHARS: usize = (INVITATION_TOKEN_BYTES * 8).div_ceil(5);

/// Maximum length of a token in characters.
pub const TOKEN_CHARS_MAX: usize = RANDOM_CHARS + (JID_PART_BYTES_MAX * 8).div_ceil(5);

fn encode(bytes: &[u8], out: &mut String) {
    let (mut held, mut bits) = (0_u32, 0);
    for byte in bytes {
        held = held << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.push(char::from(ALPHABET[(held >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        out.push(char::from(ALPHABET[(held << (5 - bits) & 31) as usize]));
    }
}

/// Decodes what [`encode`] writes and nothing else: every token has exactly one form.
fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut held, mut bits) = (Vec::with_capacity(text.len() * 5 / 8), 0_u32, 0);
    for digit in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == digit)? as u32;
        held = held << 5 | value;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    (bits < 5 && held == 0).then_some(out)
}

/// The token of an actor of a domain: a bare JID, or the domain itself.
pub fn make(random: [u8; INVITATION_TOKEN_BYTES], actor: &str) -> String {
    let mut token = String::new();
    encode(&random, &mut token);
    let local = actor.split_once('@').map_or("", |(local, _)| local);
    encode(local.as_bytes(), &mut token);
    token
}

/// The actor of a domain whose home knows a token; `None` if it is not a token. The localpart is
/// not normalised again: only tokens issued here are found.
pub fn actor(token: &str, domain: &str) -> Option<String> {
    if token.len() > TOKEN_CHARS_MAX || !token.is_ascii() {
        return None;
    }
    let (random, local) = token.split_at_checked(RANDOM_CHARS)?;
    decode(random).filter(|random| random.len() == INVITATION_TOKEN_BYTES)?;
    let local = String::from_utf8(decode(local)?).ok()?;
    match &*local {
        "" => Some(domain.to_owned()),
        local if local.contains(['@', '/', '\0']) => None,
        local => Some(format!("{local}@{domain}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_names_its_home_and_can_be_part_of_any_address() {
        let token = make([0xff; INVITATION_TOKEN_BYTES], "romeo@x");
        assert_eq!(token, "77777777777777777777777774ojxw2zlp");
        assert_eq!(actor(&token, "x").as_deref(), Some("romeo@x"));
        assert_eq!(make([0; INVITATION_TOKEN_BYTES], "x").len(), 26);
        assert_eq!(actor(&make([1; INVITATION_TOKEN_BYTES], "x"), "x").as_deref(), Some("x"));
        for bad in ["", "a", "77777777777777777777777777", "7777777777777777777777777A", "é", &"a".repeat(1 << 12)] {
            assert_eq!(actor(bad, "x"), None, "{bad}");
        }
        // Bytes that cannot be a localpart lead to no other actor.
        assert_eq!(actor(&make([1; INVITATION_TOKEN_BYTES], "a/b@x"), "x"), None);
    }

    proptest! {
        #[test]
        fn tokens_come_back(random in any::<[u8; INVITATION_TOKEN_BYTES]>(), local in "[^@/\0]{0,40}") {
            let of = if local.is_empty() { "x".to_owned() } else { format!("{local}@x") };
            let token = make(random, &of);
            prop_assert!(token.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
            prop_assert_eq!(actor(&token, "x"), Some(of));
        }

        #[test]
        fn each_actor_has_one_form(text in "[a-z2-7]{26,60}") {
            if let Some(of) = actor(&text, "x") {
                let random = decode(&text[..RANDOM_CHARS]).expect("read").try_into().expect("16");
                prop_assert_eq!(make(random, &of), text);
            }
        }

        #[test]
        fn nothing_panics(text in ".{0,80}") {
            let _ = actor(&text, "x");
        }
    }
}
