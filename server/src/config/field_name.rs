//! The header fields of requests that are passed on.

use super::kind::{Field, Kind, items};

/// The name of a header field (RFC 9110 5.1), in lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldName(pub Box<str>);

/// Most names: each request is searched for each of them.
const NAMES_MAX: usize = 16;

impl Field for Vec<FieldName> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<FieldName>> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        items(parts, NAMES_MAX, |text| {
            let good = (1..=64).contains(&text.len()) && text.bytes().all(fits);
            good.then(|| FieldName(text.to_ascii_lowercase().into()))
        })
    }
    fn show(&self, _: &Kind) -> String {
        match self.as_slice() {
            [] => "off".into(),
            some => some.iter().map(|name| &*name.0).collect::<Vec<_>>().join(","),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_are_tokens_in_any_case() {
        let kind = Kind::FieldNames;
        let read = |text: &str| <Vec<FieldName>>::read(&[text.to_owned()], &kind).map(|all| all.show(&kind));
        assert_eq!(read("Cookie, X-Api-Key,cookie").as_deref(), Some("cookie,x-api-key"));
        assert_eq!(read("off").as_deref(), Some("off"));
        for bad in ["a b", "a:", "a,,b", "\u{e9}"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
