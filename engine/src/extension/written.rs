//! The written form of what extensions leave in requests that wait, and of names that are places or
//! static texts in memory: serializers for `#[serde(with)]`.

use std::cell::Cell;

use serde::de::{Deserialize, Deserializer, Error};

use crate::limits::CROSSING_NESTED_MAX;

thread_local! {
    /// Values around the one that is being read, each in the one before.
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// Restores the depth, also after an error.
struct Deeper(u8);

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

/// Reads a value that may contain another one of its type. The stack that reading needs is bounded
/// by [`CROSSING_NESTED_MAX`].
pub(crate) fn nested<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let around = DEPTH.get();
    if around >= CROSSING_NESTED_MAX {
        return Err(D::Error::custom("steps of requests are nested too deeply"));
    }
    let _deeper = Deeper(around);
    DEPTH.set(around + 1);
    T::deserialize(from)
}

/// A place in the table of extensions, written as the name of the extension there.
pub(crate) mod place {
    use crate::extension;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(place: &usize, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(extension::name_at(*place))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
        let name = <&str>::deserialize(from)?;
        extension::place_of(name).ok_or_else(|| D::Error::custom("an extension that this build does not have"))
    }
}

/// Texts for extensions, by their places. Those for extensions that this build does not have are
/// left out, as if the client had not asked (XEP-0386 2.2).
pub(crate) mod places {
    use crate::extension;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(texts: &[(u8, Box<str>)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(texts.iter().map(|(place, text)| (extension::name_at(usize::from(*place)), &**text)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(u8, Box<str>)>, D::Error> {
        let named = Vec::<(&str, &str)>::deserialize(from)?;
        let placed = named.into_iter().filter_map(|(of, text)| Some((extension::place_of(of)? as u8, text.into())));
        Ok(placed.collect())
    }
}

/// The node of a command (XEP-0050), which this build must have.
pub(crate) mod command {
    use crate::extension::adhoc;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(node: &&'static str, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(node)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<&'static str, D::Error> {
        let node = <&str>::deserialize(from)?;
        adhoc::command_node(node).ok_or_else(|| D::Error::custom("a command that this build does not have"))
    }
}

/// An array of bytes.
pub(crate) mod array {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer, const N: usize>(bytes: &[u8; N], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(from: D) -> Result<[u8; N], D::Error> {
        let bytes = <&[u8]>::deserialize(from)?;
        bytes.try_into().map_err(|_| D::Error::invalid_length(bytes.len(), &"an array of another length"))
    }
}

/// An element, written as XML.
pub(crate) mod element {
    use crate::extension::xml;
    use crate::wire::{Expect, Scanner, StreamScope};
    use minidom::Element;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(element: &Element, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&xml::written(element))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Element, D::Error> {
        let text = <&[u8]>::deserialize(from)?;
        // A tree is as deep as its text, and so is the stack that it needs to end.
        let scanned = Scanner::new().scan(&StreamScope::Usual, Expect::Content, usize::MAX, text);
        let element = scanned.is_ok().then(|| xml::parse_sparse(text)).flatten();
        element.ok_or_else(|| D::Error::custom("an element that is not XML"))
    }
}

/// Elements, written as XML.
pub(crate) mod elements {
    use minidom::Element;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[serde(transparent)]
    struct Writes<'a>(#[serde(with = "super::element")] &'a Element);

    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Reads(#[serde(with = "super::element")] Element);

    pub(crate) fn serialize<S: Serializer>(elements: &[Element], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(elements.iter().map(Writes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Element>, D::Error> {
        Ok(Vec::<Reads>::deserialize(from)?.into_iter().map(|Reads(element)| element).collect())
    }
}

#[cfg(test)]
mod tests {
    use minidom::Element;
    use serde::{Deserialize, Serialize};

    use crate::limits::wire::MAX_DEPTH;

    #[derive(Serialize, Deserialize)]
    struct One(#[serde(with = "super::element")] Element);

    /// A member may send any bytes: those of an element as deep as they are long need no stack
    /// without end.
    #[test]
    fn an_element_is_no_deeper_than_one_of_a_stream() {
        let nested =
            |levels: usize| ["<a>".repeat(levels), "</a>".repeat(levels)].concat().replacen("<a", "<a xmlns='x'", 1);
        let read = |xml: &str| {
            let text = "-".repeat(16 * xml.len());
            // Elements must not be dense.
            let xml = xml.replacen("</a>", &format!("{text}</a>"), 1);
            let bytes = postcard::to_allocvec(xml.as_bytes()).expect("memory");
            postcard::from_bytes::<One>(&bytes).is_ok()
        };
        assert!(read(&nested(1)) && read(&nested(MAX_DEPTH - 1)));
        assert!(!read(&nested(MAX_DEPTH + 1)) && !read(&nested(50_000)));
    }
}
