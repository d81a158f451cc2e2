//! JSON (RFC 8259) for clients, by serde.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Appends a value.
pub fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Writing to a vector does not fail, and the names of all members are strings.
    let _ = serde_json::to_writer(out, value);
}

/// A value as bytes.
pub fn bytes(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write(&mut out, value);
    out
}

/// A value, with a line feed behind it.
pub fn line(value: &impl Serialize) -> Vec<u8> {
    let mut out = bytes(value);
    out.push(b'\n');
    out
}

/// A value as a line of an event stream. U+2028 and U+2029, which ended a line of JavaScript until
/// 2019, and U+007F are escaped, too.
pub fn on_one_line(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    // As for `write`.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, OneLine));
    out
}

/// Adds a member to an object. The parts of its value are JSON together, and are not parsed.
pub fn add(object: &mut Vec<u8>, name: &str, value: &[&[u8]]) {
    object.pop();
    if object.len() > 1 {
        object.push(b',');
    }
    write(object, name);
    object.push(b':');
    value.iter().for_each(|part| object.extend_from_slice(part));
    object.push(b'}');
}

struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        let mut written = 0;
        for at in memchr::memchr2_iter(0x7f, 0xe2, bytes) {
            let (length, escaped) = match bytes[at..] {
                [0x7f, ..] => (1, b"\\u007f"),
                [0xe2, 0x80, 0xa8, ..] => (3, b"\\u2028"),
                [0xe2, 0x80, 0xa9, ..] => (3, b"\\u2029"),
                _ => continue,
            };
            out.write_all(&bytes[written..at])?;
            out.write_all(escaped)?;
            written = at + length;
        }
        out.write_all(&bytes[written..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_on_one_line() {
        let text = "a\"\\\n\u{1}\u{7f}\u{2026}\u{2028}\u{2029}\u{20ac}\u{7f}";
        let written = String::from_utf8(on_one_line(&text)).unwrap();
        assert_eq!(written, "\"a\\\"\\\\\\n\\u0001\\u007f\u{2026}\\u2028\\u2029\u{20ac}\\u007f\"");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }

    #[test]
    fn members_are_added_to_objects() {
        let mut object = b"{}".to_vec();
        add(&mut object, "a", &[b"1"]);
        add(&mut object, "\"", &[b"[", b"2,3", b"]"]);
        assert_eq!(object, b"{\"a\":1,\"\\\"\":[2,3]}");
    }
}
