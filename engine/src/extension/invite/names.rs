//! Names that nobody may register, because others would take their holder for somebody else (RFC 2142), and names that look like them.

/// What a name looks like, for whoever reads it quickly. No complete table of characters that look alike (UTS 39 has thousands): digits,
/// separators, and letters of other scripts that are drawn like those of Latin.
fn looks(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| !matches!(c, '.' | '-' | '_')).map(|c| match c {
        '0' | '\u{3bf}' | '\u{43e}' => 'o',
        '1' | 'i' | '|' | '\u{131}' | '\u{3b9}' | '\u{456}' | '\u{4cf}' => 'l',
        '3' | '\u{435}' => 'e',
        '4' | '\u{3b1}' | '\u{430}' => 'a',
        '5' | '\u{455}' => 's',
        '\u{432}' => 'b',
        '\u{441}' => 'c',
        '\u{501}' => 'd',
        '\u{4bb}' | '\u{43d}' => 'h',
        '\u{458}' => 'j',
        '\u{43a}' => 'k',
        '\u{43c}' => 'm',
        '\u{3c1}' | '\u{440}' => 'p',
        '\u{442}' => 't',
        '\u{475}' => 'v',
        '\u{51d}' => 'w',
        '\u{445}' => 'x',
        '\u{443}' | '\u{3b3}' => 'y',
        c => c,
    })
}

/// Whether a normalised localpart is one of these names, or looks like one.
pub fn is_reserved(reserved: &[Box<str>], local: &str) -> bool {
    reserved.iter().any(|name| **name == *local || looks(name).eq(looks(local)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_reserved_with_them() {
        let reserved: Vec<Box<str>> = vec!["admin".into(), "postmaster".into(), "root".into()];
        for taken in ["admin", "adm1n", "a.d-m_in", "r00t", "\u{430}dmin", "p\u{43e}stmaster", "postm4ster"] {
            assert!(is_reserved(&reserved, taken), "{taken}");
        }
        for free in ["romeo", "admins", "roots", "rut", ""] {
            assert!(!is_reserved(&reserved, free), "{free}");
        }
        assert!(!is_reserved(&[], "admin"));
    }
}
