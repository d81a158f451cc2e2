//! Bytes and stanzas: examples, properties, and comparison with an independent reader.

mod properties;
mod reference;
mod scanner;
mod splice;
