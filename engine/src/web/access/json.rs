//! JSON (RFC 8259) as it stands in tokens and keys. A name that comes twice in an object is refused (RFC 7519 4, RFC 7515 4): of two
//! readers one would take the first, and the other the last.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    /// A string.
    Text(String),
    /// A number, of which no more is known than a float has.
    Number(f64),
    /// An array.
    List(Vec<Value>),
    /// An object.
    Object(Object),
    /// `true` and `false`, which nothing here asks for.
    Bool,
    /// `null`.
    Null,
}

/// The members of an object.
pub(super) type Object = BTreeMap<String, Value>;

impl Value {
    /// The string that it is.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads an object, and nothing behind it. Objects in it go 128 deep at the most.
pub(super) fn object(bytes: &[u8]) -> Option<Object> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Bool)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element()? {
            all.push(element);
        }
        Ok(Value::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Object::new();
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            if all.insert(name, value).is_some() {
                return Err(A::Error::custom("a name comes twice"));
            }
        }
        Ok(Value::Object(all))
    }
}
