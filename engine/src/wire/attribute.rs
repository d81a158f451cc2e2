//! The attributes of a start tag, either as recorded by the scanner or read again from its bytes.
//!
//! This file must never validate: the scanner has checked the grammar.

use super::chars;
use super::span::AttributeSpan;
use super::text::{decode_value, valid};
use std::borrow::Cow;

/// An attribute of a scanned element.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    span: AttributeSpan,
    bytes: &'a [u8],
}

impl<'a> Attribute<'a> {
    pub(super) fn new(span: AttributeSpan, bytes: &'a [u8]) -> Attribute<'a> {
        Attribute { span, bytes }
    }

    /// The local part of the name.
    pub fn name(&self) -> &'a str {
        valid(&self.span.name(self.bytes)[self.span.local as usize..])
    }

    /// The prefix of the name; empty for none.
    pub fn prefix(&self) -> &'a str {
        valid(self.span.prefix(self.bytes))
    }

    /// The decoded value.
    pub fn value(&self) -> Cow<'a, str> {
        decode_value(self.raw_value())
    }

    /// The value as written between the quotes.
    pub fn raw_value(&self) -> &'a [u8] {
        self.span.value(self.bytes)
    }

    pub(super) fn span(&self) -> AttributeSpan {
        self.span
    }

    pub(super) fn declares(&self) -> bool {
        self.span.declares(self.bytes)
    }
}

/// Reads the attributes of a scanned start tag, including namespace declarations.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawAttributes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> RawAttributes<'a> {
    /// Starts at `at`, the offset after the tag's name.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> RawAttributes<'a> {
        RawAttributes { bytes, at }
    }
}

impl<'a> Iterator for RawAttributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let start = chars::skip_space(self.bytes, self.at);
        if matches!(self.bytes.get(start), None | Some(b'>' | b'/')) {
            return None;
        }
        let name = chars::name(self.bytes, start).ok()??;
        let equals = chars::skip_space(self.bytes, name.end);
        let quote = chars::skip_space(self.bytes, equals + 1);
        let length = memchr::memchr(*self.bytes.get(quote)?, &self.bytes[quote + 1..])?;
        let span = AttributeSpan {
            name: start as u32,
            value: quote as u32 + 1,
            value_length: length as u32,
            name_length: (name.end - start) as u16,
            local: name.local as u16,
        };
        self.at = span.end();
        Some(Attribute { span, bytes: self.bytes })
    }
}
