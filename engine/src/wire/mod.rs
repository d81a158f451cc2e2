//! Conversion between bytes and stanzas.
//!
//! This module turns a peer's input into validated, bounded slices, and writes the output. It
//! copies no payload, builds no tree and keeps no state between stanzas. It must never know who the
//! peer is, what state its stream is in, or what a stanza is for.
//!
//! - [`scanner`] finds the next complete item of a stream and validates it in the same pass.
//! - [`element`] is a view of a scanned item; [`cursor`] traverses one.
//! - [`mod@splice`] copies a stanza with another `from` and `to`; [`text`] decodes, escapes and
//!   writes XML.
//! - [`stream`] reads and writes stream headers; [`scope`] holds the declarations of a header.
//! - [`jid`] parses addresses; [`limit`] names the limits that a refusal can cite.
//! - [`datetime`] reads and writes timestamps (XEP-0082).
//! - [`fault`] lists the possible faults of input and the stream error for each.

mod attribute;
mod chars;
pub mod cursor;
pub mod datetime;
mod declaration;
pub mod element;
pub mod error;
pub mod fault;
pub mod jid;
pub mod json;
pub mod limit;
pub mod scanner;
pub mod scope;
mod span;
pub mod splice;
pub mod stream;
mod tag;
pub mod text;
pub mod written;

pub use attribute::Attribute;
pub use cursor::{Cursor, Event};
pub use element::{Child, Element};
pub use fault::Fault;
pub use scanner::{Expect, Progress, Scanner};
pub use scope::StreamScope;
pub use splice::{Splice, splice};

/// Namespaces that this module itself uses.
pub mod ns {
    /// Content of a client's stream (RFC 6120 4.8.2).
    pub const CLIENT: &str = "jabber:client";
    /// Content of a component's stream (XEP-0114 3).
    pub const COMPONENT: &str = "jabber:component:accept";
    /// Content of a stream between servers (RFC 6120 4.8.3).
    pub const SERVER: &str = "jabber:server";
    /// The stream itself (RFC 6120 4.8.1).
    pub const STREAM: &str = "http://etherx.jabber.org/streams";
    /// The namespace of the prefix `xml` (Namespaces in XML 3).
    pub const XML: &str = "http://www.w3.org/XML/1998/namespace";
    /// The namespace of the prefix `xmlns` (Namespaces in XML 3).
    pub const XMLNS: &str = "http://www.w3.org/2000/xmlns/";
}
