//! The limits that somebody can run into, as they are named to peers and operators.
//!
//! A refusal tells its peer which limit it was and when to try again, and nothing on accounts that a stranger could not
//! know: a name without an account is refused with the same words. This file must never know how a limit is kept.

use std::fmt;

macro_rules! limits {
    ($($(#[$doc:meta])* $case:ident = $name:literal, $text:literal, $again:literal;)*) => {
        /// A limit.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Limit { $($(#[$doc])* $case,)* }

        impl Limit {
            /// All of them.
            pub const ALL: &'static [Limit] = &[$(Limit::$case),*];

            /// Its name, for operators: stable.
            pub const fn name(self) -> &'static str {
                match self { $(Limit::$case => $name,)* }
            }

            /// What it says to who is refused.
            pub const fn text(self) -> &'static str {
                match self { $(Limit::$case => $text,)* }
            }

            /// When to try again, where no time is known.
            pub const fn again(self) -> &'static str {
                match self { $(Limit::$case => $again,)* }
            }
        }
    };
}

limits! {
    /// Failed logins of an address.
    AddressLogins = "address-logins", "too many failed logins from this address", "try again later";
    /// Failed logins of an address to one account.
    PairLogins = "pair-logins", "too many failed logins to this account from this address", "try again later";
    /// Failed logins to an account, of addresses from which no login has succeeded lately.
    AccountLogins = "account-logins", "too many failed logins to this account", "try again later";
    /// Accounts registered from an address.
    Registrations = "registrations", "too many accounts were registered from this address", "try again later";
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Somebody is refused by a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Which.
    pub limit: Limit,
    /// How long, milliseconds; none where no time is known.
    pub left_ms: Option<u64>,
}

impl Held {
    /// By a limit that lets go when something is freed.
    pub const fn by(limit: Limit) -> Held {
        Held { limit, left_ms: None }
    }
}

/// A sentence for the peer: which limit, and when to try again.
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left_ms.map(|ms| ms.div_ceil(1_000)) {
            None => write!(f, "{}; {}", self.limit.text(), self.limit.again()),
            Some(1) => write!(f, "{}; try again in 1 second", self.limit.text()),
            Some(seconds) => write!(f, "{}; try again in {seconds} seconds", self.limit.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_a_name_of_its_own_and_says_when_to_try_again() {
        let mut names: Vec<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Limit::ALL.len());
        for limit in Limit::ALL {
            assert!(limit.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
            assert!(Held::by(*limit).to_string().contains(limit.again()) && !limit.again().is_empty());
        }
        let held = |ms| Held { limit: Limit::Registrations, left_ms: Some(ms) }.to_string();
        assert!(held(900).ends_with("; try again in 1 second") && held(1_001).ends_with("; try again in 2 seconds"));
    }
}
