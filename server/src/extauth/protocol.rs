//! The extauth protocol, as defined by ejabberd and implemented by Prosody's mod_auth_external:
//! requests and answers are a length of two bytes, big endian, followed by that many bytes.

use throng_engine::io::Question;

/// Bytes of an answer: its length, which is 2, and 0 or 1.
pub(super) const ANSWER_BYTES: usize = 4;

/// `auth:USER:DOMAIN:PASSWORD` or `isuser:USER:DOMAIN`, with its length. A localpart or domain has
/// no colon (RFC 7622 3.3.1), a password may have some. `None` if it exceeds 65,535 bytes.
pub(super) fn request(question: &Question) -> Option<Vec<u8>> {
    let (user, domain) = question.user();
    let text = match question.password() {
        Some(password) => format!("auth:{user}:{domain}:{password}"),
        None => format!("isuser:{user}:{domain}"),
    };
    let mut out = u16::try_from(text.len()).ok()?.to_be_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    Some(out)
}

/// Parses an answer; `None` if it is invalid.
pub(super) fn answer(bytes: [u8; ANSWER_BYTES]) -> Option<bool> {
    match bytes {
        [0, 2, 0, 0] => Some(false),
        [0, 2, 0, 1] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_as_ejabberds_guide_has_them() {
        let asked = |account, password| request(&Question::of(account, password));
        let auth = asked("romeo@a.example", Some("a:b")).expect("short");
        assert_eq!(auth, b"\0\x18auth:romeo:a.example:a:b");
        assert_eq!(asked("romeo@a.example", None).expect("short"), b"\0\x16isuser:romeo:a.example");
        assert_eq!(asked("romeo@a.example", Some(&"x".repeat(65_535))), None);
        assert_eq!((answer([0, 2, 0, 1]), answer([0, 2, 0, 0])), (Some(true), Some(false)));
        for wrong in [[0, 2, 1, 0], [0, 2, 0, 2], [0, 1, 0, 1], [2, 0, 0, 1], *b"ok\r\n"] {
            assert_eq!(answer(wrong), None, "{wrong:?}");
        }
    }
}
