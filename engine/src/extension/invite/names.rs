//! Names that nobody may register because their holders could pass for officials (RFC 2142), and
//! names that look like them.

/// A name reduced to what a quick reader sees. This is not a complete table of confusable
/// characters (UTS 39 has thousands): it covers digits, separators, and letters of other scripts
/// that are drawn like Latin ones.
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

/// Names that only the operator and administrators can assign: an account in `admins` or `inviters`
/// has more rights than others, and one with a reserved name could pass for the operator's.
#[derive(Clone, Copy, Debug)]
pub struct Withheld<'a> {
    /// Bare JIDs of administrators.
    pub admins: &'a [Box<str>],
    /// Bare JIDs of further users who may issue invitations to accounts.
    pub inviters: &'a [Box<str>],
    /// Localparts, normalised.
    pub reserved: &'a [Box<str>],
}

/// The reason why a name is withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its account has special rights.
    Rights,
    /// It is reserved, or looks like a reserved name.
    Reserved,
}

impl Withheld<'_> {
    /// Why an account's name, a normalised bare JID, is withheld; `None` if it is not.
    pub fn why(&self, account: &str) -> Option<Why> {
        let has_rights = |names: &[Box<str>]| names.iter().any(|name| **name == *account);
        if has_rights(self.admins) || has_rights(self.inviters) {
            return Some(Why::Rights);
        }
        let local = account.split_once('@').map_or(account, |(local, _)| local);
        is_reserved(self.reserved, local).then_some(Why::Reserved)
    }

    /// Whether this inviter may assign such names: an administrator by bare JID, or the operator,
    /// who has none.
    pub fn gives(&self, inviter: &str) -> bool {
        inviter.is_empty() || self.admins.iter().any(|admin| **admin == *inviter)
    }

    /// Whether this inviter may issue an invitation for an account's name.
    pub fn may_invite(&self, inviter: &str, account: &str) -> bool {
        self.gives(inviter) || self.why(account).is_none()
    }
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

    #[test]
    fn names_with_rights_are_the_operators_and_administrators_to_give() {
        let [admins, inviters, reserved]: [[Box<str>; 1]; 3] = [["boss@x".into()], ["usher@x".into()], ["root".into()]];
        let withheld = Withheld { admins: &admins, inviters: &inviters, reserved: &reserved };
        assert_eq!((withheld.why("boss@x"), withheld.why("usher@x")), (Some(Why::Rights), Some(Why::Rights)));
        assert_eq!((withheld.why("r00t@x"), withheld.why("boss@y")), (Some(Why::Reserved), None));
        assert!(withheld.may_invite("", "boss@x") && withheld.may_invite("boss@x", "root@x"));
        assert!(!withheld.may_invite("usher@x", "boss@x") && withheld.may_invite("usher@x", "romeo@x"));
    }
}
