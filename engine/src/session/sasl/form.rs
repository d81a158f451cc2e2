//! The two wire forms of authentication: RFC 6120 6, and XEP-0388.

use base64::Engine as _;

use super::BASE64;
use crate::ns;
use crate::wire::error::{NS_SASL, SaslCondition, write_sasl_failure};
use crate::wire::text::Writer;

/// A wire form of authentication. The mechanisms, their messages and all limits are the same in
/// both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// RFC 6120 6: `<auth/>`, after which the stream restarts.
    Sasl1,
    /// XEP-0388: `<authenticate/>` with inlined requests, after which the stream continues.
    Sasl2,
}

impl Form {
    /// The namespace of its elements.
    pub const fn namespace(self) -> &'static str {
        match self {
            Form::Sasl1 => NS_SASL,
            Form::Sasl2 => ns::SASL2,
        }
    }

    /// Appends a `<challenge/>` with this message (RFC 6120 6.4.3, XEP-0388 2.5).
    pub fn write_challenge(self, out: &mut Vec<u8>, message: &[u8]) {
        self.write_element(out, "challenge", message);
    }

    /// Appends `<failure/>` (RFC 6120 6.4.5, XEP-0388 2.6.2).
    pub fn write_failure(self, out: &mut Vec<u8>, condition: SaslCondition, text: Option<&str>) {
        if self == Form::Sasl1 {
            return write_sasl_failure(out, condition, text);
        }
        let mut w = Writer::new(out);
        w.open("failure").attribute("xmlns", ns::SASL2).empty(condition.name(), NS_SASL);
        if let Some(text) = text {
            w.leaf("text", text);
        }
        w.close();
    }

    pub(super) fn write_element(self, out: &mut Vec<u8>, name: &str, message: &[u8]) {
        let head = format!("<{name} xmlns='{}'", self.namespace());
        out.extend_from_slice(head.as_bytes());
        if message.is_empty() {
            out.extend_from_slice(b"/>");
        } else {
            out.extend_from_slice(format!(">{}</{name}>", BASE64.encode(message)).as_bytes());
        }
    }
}

/// Appends the beginning of the `<success/>` of XEP-0388 2.6.1: the mechanism's final message, if
/// any, and the client's address. The results of inlined requests follow, and then `</success>`.
pub fn open_success2(out: &mut Vec<u8>, message: &[u8], jid: &str) {
    let mut w = Writer::new(out);
    w.open("success").attribute("xmlns", ns::SASL2);
    write_additional_data(&mut w, message);
    w.leaf("authorization-identifier", jid);
}

/// Appends the mechanism's final message, if any.
pub fn write_additional_data(w: &mut Writer<'_>, message: &[u8]) {
    let data = BASE64.encode(message);
    if !message.is_empty() {
        w.leaf("additional-data", &data);
    }
}

/// The end of that `<success/>`.
pub const CLOSE_SUCCESS2: &[u8] = b"</success>";
