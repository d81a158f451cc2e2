//! The open channels at `/n/`.

use super::kind::{Field, Kind, items};

/// A prefix of names of channels at `/n/`; an empty one matches all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefix(pub Box<str>);

/// Most prefixes: each request is compared with all of them.
const PREFIXES_MAX: usize = 100;

impl Field for Vec<Prefix> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<Prefix>> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@+".contains(&byte);
        match parts {
            [any] if any.trim() == "any" => Some(vec![Prefix("".into())]),
            parts => items(parts, PREFIXES_MAX, |text| {
                let good = (1..=128).contains(&text.len()) && text.bytes().all(fits) && text != "any";
                good.then(|| Prefix(text.into()))
            }),
        }
    }
    fn show(&self, _: &Kind) -> String {
        match self.as_slice() {
            [] => "off".into(),
            [Prefix(all)] if all.is_empty() => "any".into(),
            some => some.iter().map(|prefix| &*prefix.0).collect::<Vec<_>>().join(","),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_channels_are_names_or_all_there_are() {
        let kind = Kind::Prefixes;
        let read = |text: &str| <Vec<Prefix>>::read(&[text.to_owned()], &kind).map(|all| all.show(&kind));
        assert_eq!(read("news., public.,news.").as_deref(), Some("news.,public."));
        assert_eq!((read("any").as_deref(), read("off").as_deref()), (Some("any"), Some("off")));
        for bad in ["a,any", "a b", "a/b", "a,,b", "\u{e9}"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
