//! Bytes and stanzas, by examples, by properties, and against a reader of its own.

mod properties;
mod reference;
mod scanner;
mod splice;
