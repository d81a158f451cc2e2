//! Bytes to stanzas and back.
//!
//! This module turns what a peer sent into checked, bounded slices and writes what a peer is told. It copies no
//! payload, builds no tree and keeps nothing between stanzas. It must never know who the peer is, what state its
//! stream is in, or what a stanza is for.
//!
//! - [`scanner`] finds the next item of a stream, whole or not at all, and checks it as it goes.
//! - [`element`] looks at a scanned item; [`cursor`] walks through one.
//! - [`mod@splice`] copies a stanza with another `from` and `to`; [`text`] decodes, escapes and writes XML.
//! - [`stream`] reads and writes stream headers; [`scope`] keeps what a header declared.
//! - [`jid`] reads addresses; [`limit`] names the limits that refuse somebody.
//! - [`datetime`] reads and writes moments (XEP-0082).
//! - [`fault`] names what can be wrong and the stream error it is answered with.

mod attribute;
mod chars;
pub mod cursor;
pub mod datetime;
mod declaration;
pub mod element;
pub mod error;
pub mod fault;
pub mod jid;
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

/// Namespaces that the wire itself has to know.
pub mod ns {
    /// Content of a client's stream (RFC 6120 4.8.2).
    pub const CLIENT: &str = "jabber:client";
    /// Content of a component's stream (XEP-0114 3).
    pub const COMPONENT: &str = "jabber:component:accept";
    /// Content of a stream between servers (RFC 6120 4.8.3).
    pub const SERVER: &str = "jabber:server";
    /// The stream itself (RFC 6120 4.8.1).
    pub const STREAM: &str = "http://etherx.jabber.org/streams";
    /// What the prefix `xml` is bound to (Namespaces in XML 3).
    pub const XML: &str = "http://www.w3.org/XML/1998/namespace";
    /// What the prefix `xmlns` is bound to (Namespaces in XML 3).
    pub const XMLNS: &str = "http://www.w3.org/2000/xmlns/";
}
