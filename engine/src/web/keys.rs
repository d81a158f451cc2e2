//! Keys by which items of channels replace each other: given in the head of a publication, or by
//! the name of a member in each line of a batch.

use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::dialect::asked::lines;
use super::head::Head;
use super::response::Response;
use super::status::Status;
use crate::limits::NOTIFY_KEY_BYTES_MAX;

/// The field with the key of a single item.
const ITEM_KEY: &str = "item-key";
/// The field with the name of the member that is the key in each line.
const MEMBER: &str = "item-key-member";

/// Returns the keys of the items of a publication: one per item, or none at all.
///
/// # Errors
/// The response, if a key is invalid or a line has none.
pub fn keys(head: &Head<'_>, batch: bool, body: &[u8]) -> Result<Vec<Box<str>>, Box<Response>> {
    let bad = |text| Err(Box::new(Response::text(Status::BadRequest, text)));
    let one = |name| match head.all(name).count() {
        0 => Ok(None),
        1 => Ok(head.one(name)),
        _ => Err(()),
    };
    let (Ok(key), Ok(member)) = (one(ITEM_KEY), one(MEMBER)) else {
        return bad("Item-Key and Item-Key-Member may be sent only once");
    };
    match (key, member, batch) {
        (None, None, _) => Ok(Vec::new()),
        (Some(key), None, false) if is_key(key) => Ok(vec![key.into()]),
        (Some(_), None, false) => bad("Item-Key must be 1 to 64 visible characters"),
        (None, Some(member), true) => match lines(body).map(|line| key_in(line, member)).collect() {
            Some(keys) => Ok(keys),
            None => {
                bad("each line must be an object with one member of the name in Item-Key-Member: a string of 1 to 64 \
                 visible characters, or an integer")
            }
        },
        (Some(_), ..) => bad("Item-Key is for one item; for a batch, name the member with the key in Item-Key-Member"),
        (None, Some(_), false) => bad("Item-Key-Member is for batches; for one item, send Item-Key"),
    }
}

fn is_key(key: &str) -> bool {
    (1..=NOTIFY_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The key in a member of a JSON object. The rest of the object is discarded.
fn key_in(object: &[u8], member: &str) -> Option<Box<str>> {
    let mut from = serde_json::Deserializer::from_slice(object);
    let key = from.deserialize_map(Member(member)).ok()?;
    from.end().ok()?;
    key.filter(|key| is_key(key))
}

/// A visitor for the member with this name.
struct Member<'a>(&'a str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<Box<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut key = None;
        while let Some(name) = members.next_key::<Text>()? {
            if *name.0 != *self.0 {
                members.next_value::<IgnoredAny>()?;
            } else if key.replace(members.next_value::<Text>()?.0).is_some() {
                // Of two parsers, one might take the first member and the other the last.
                return Err(A::Error::custom("a name comes twice"));
            }
        }
        Ok(key)
    }
}

/// A string, or an integer as written.
struct Text(Box<str>);

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Text, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an integer")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.into()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string().into()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string().into()))
            }
        }
        from.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_line_is_one_member_of_it() {
        let key = |line: &str| key_in(line.as_bytes(), "id").map(String::from);
        for (line, expected) in [
            ("{\"id\":\"a\"}", Some("a")),
            (" {\"x\":{\"id\":\"no\"},\"id\":\"b-1\",\"y\":[1.5,null]} ", Some("b-1")),
            ("{\"\\u0069d\":\"\\u0061\"}", Some("a")),
            ("{\"id\":7}", Some("7")),
            ("{\"id\":-18446744073}", Some("-18446744073")),
            ("{\"id\":1.5}", None),
            ("{\"id\":true}", None),
            ("{\"id\":null}", None),
            ("{\"id\":\"\"}", None),
            ("{\"id\":\"a b\"}", None),
            ("{\"id\":\"\u{e9}\"}", None),
            ("{\"id\":\"a\",\"id\":\"a\"}", None),
            ("{\"id\":\"a\"} {}", None),
            ("{\"x\":1}", None),
            ("{\"id\":\"a\"", None),
            ("[\"id\"]", None),
            ("\"id\"", None),
            ("", None),
        ] {
            assert_eq!(key(line).as_deref(), expected, "{line}");
        }
        assert_eq!(key(&format!("{{\"id\":\"{}\"}}", "x".repeat(NOTIFY_KEY_BYTES_MAX))).map(|key| key.len()), Some(64));
        assert_eq!(key(&format!("{{\"id\":\"{}\"}}", "x".repeat(NOTIFY_KEY_BYTES_MAX + 1))), None);
        // The depth of the other members does not matter.
        let deep = format!("{{\"x\":{}{},\"id\":1}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(key(&deep).is_none_or(|key| key == "1"));
    }
}
