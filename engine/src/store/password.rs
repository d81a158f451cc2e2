//! Preparation of passwords before hashing.
//!
//! SCRAM clients prepare the password themselves, with SASLprep (RFC 5802 2.2, RFC 4013). The
//! server must derive keys from the same form: NFKC and SASLprep's mappings, not the OpaqueString
//! profile that superseded it elsewhere. That profile normalises to NFC (RFC 8265 4.2), and would
//! lock out users with an "ﬁ" or a soft hyphen in the password. Code points newer than Unicode 3.2
//! are accepted unchanged, as in a query string (RFC 3454 7), since clients do the same. The check
//! of mixed writing directions (RFC 3454 6) is left to the client.

use std::borrow::Cow;
use std::fmt;

use precis_core::profile::Rules;
use precis_profiles::Nickname;

use crate::limits::PASSWORD_BYTES_MAX;

/// Why a password cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PasswordError {
    /// It is empty, before or after preparation.
    Empty,
    /// It exceeds 1,024 bytes, before or after preparation.
    TooLong,
    /// It contains a control character or another character that RFC 4013 2.3 prohibits.
    Prohibited,
}

impl fmt::Display for PasswordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PasswordError::Empty => "the password is empty",
            PasswordError::TooLong => "the password is too long",
            PasswordError::Prohibited => "the password holds a character that is not allowed",
        })
    }
}

impl std::error::Error for PasswordError {}

/// Prepares a password (RFC 4013 2). Printable ASCII is borrowed unchanged.
///
/// # Errors
///
/// If it is empty, exceeds 1,024 bytes, or contains a prohibited character.
pub fn prepare(password: &str) -> Result<Cow<'_, str>, PasswordError> {
    check_length(password)?;
    if password.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Ok(Cow::Borrowed(password));
    }
    let mapped: String = password.chars().filter(|&c| is_space(c) || !is_mapped_to_nothing(c)).map(space).collect();
    // The normalisation step of this profile is exactly NFKC (RFC 8266 2.1).
    let text = Nickname::new().normalization_rule(mapped).map_err(|_| PasswordError::Prohibited)?;
    if text.chars().any(is_prohibited) {
        return Err(PasswordError::Prohibited);
    }
    check_length(&text)?;
    Ok(Cow::Owned(text.into_owned()))
}

fn check_length(text: &str) -> Result<(), PasswordError> {
    match text.len() {
        0 => Err(PasswordError::Empty),
        1..=PASSWORD_BYTES_MAX => Ok(()),
        _ => Err(PasswordError::TooLong),
    }
}

fn space(c: char) -> char {
    if is_space(c) { ' ' } else { c }
}

/// RFC 3454 C.1.2, mapped to a space (RFC 4013 2.1).
fn is_space(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200b}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// RFC 3454 B.1.
fn is_mapped_to_nothing(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{1806}' | '\u{180b}'..='\u{180d}' | '\u{200b}'..='\u{200d}' | '\u{2060}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
    )
}

/// RFC 4013 2.3: RFC 3454 C.2 to C.9, except surrogates, which text cannot contain.
fn is_prohibited(c: char) -> bool {
    let noncharacter = u32::from(c) & 0xfffe == 0xfffe || matches!(c, '\u{fdd0}'..='\u{fdef}');
    noncharacter
        || c.is_control()
        || matches!(
            c,
            '\u{340}' | '\u{341}' | '\u{6dd}' | '\u{70f}' | '\u{180e}' | '\u{200c}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2063}' | '\u{206a}'..='\u{206f}'
                | '\u{2ff0}'..='\u{2ffb}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{fffd}'
                | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}'
                | '\u{f0000}'..='\u{10ffff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 4013 3 (without its last row, the check of directions), and bounds.
    #[test]
    fn rfc4013_3_examples() {
        let table: &[(&str, Result<&str, PasswordError>)] = &[
            ("I\u{ad}X", Ok("IX")),
            ("user", Ok("user")),
            ("USER", Ok("USER")),
            ("\u{aa}", Ok("a")),
            ("\u{2168}", Ok("IX")),
            ("\u{7}", Err(PasswordError::Prohibited)),
            ("", Err(PasswordError::Empty)),
            ("\u{ad}", Err(PasswordError::Empty)),
            (" ", Ok(" ")),
            ("pass\u{a0}word", Ok("pass word")),
            ("a\u{200b}b", Ok("a b")),
            ("\u{fb01}sh", Ok("fish")),
            ("e\u{301}", Ok("\u{e9}")),
            ("\u{1f436}\u{fe0f}", Ok("\u{1f436}")),
            ("\u{e000}", Err(PasswordError::Prohibited)),
            ("\u{1fffe}", Err(PasswordError::Prohibited)),
        ];
        for &(input, expected) in table {
            assert_eq!(prepare(input).as_deref(), expected.as_ref().map(|text| *text), "{input:?}");
        }
        assert_eq!(prepare(&"x".repeat(1025)), Err(PasswordError::TooLong));
        // U+FDFA is 3 bytes and becomes 33.
        assert_eq!(prepare(&"\u{fdfa}".repeat(100)), Err(PasswordError::TooLong));
    }

    proptest! {
        #[test]
        fn a_prepared_password_is_prepared(input in "\\PC{0,20}|.{0,20}") {
            if let Ok(text) = prepare(&input) {
                prop_assert_eq!(prepare(&text), Ok(text.clone()));
            }
        }
    }
}
