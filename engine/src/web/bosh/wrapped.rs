//! Converts the output of a stream to the content of a `<body/>` (XEP-0206 2): without the stream's
//! header and end, and with the namespaces that elements inherit from them.

use memchr::{memchr, memmem};

use crate::ns;
use crate::web::framed::{element_end, tag_end};
use crate::wire::stream::STREAM_END;
use crate::wire::text::write_attribute;
use crate::wire::written::declares;

/// Content of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrapped {
    /// Complete elements.
    pub bytes: Vec<u8>,
    /// The elements may use the prefix `stream`, which `<body/>` has to declare (XEP-0206 2).
    pub uses_stream: bool,
}

/// Wraps the output of a stream.
pub fn wrapped(stream: &[u8]) -> Wrapped {
    let mut out = Vec::with_capacity(stream.len() + stream.len() / 8);
    let mut rest = stream;
    while !rest.is_empty() {
        let length = match rest {
            [b'<', b'?', ..] => memchr(b'>', rest).map_or(rest.len(), |end| end + 1),
            _ if rest.starts_with(STREAM_END) => STREAM_END.len(),
            _ if rest.starts_with(b"<stream:stream ") => tag_end(rest),
            [b'<', ..] => element(&mut out, rest),
            // White space between stanzas has no meaning here.
            _ => 1,
        };
        rest = &rest[length.min(rest.len())..];
    }
    let uses_stream = memmem::find(&out, b"stream:").is_some();
    Wrapped { bytes: out, uses_stream }
}

fn element(out: &mut Vec<u8>, rest: &[u8]) -> usize {
    let end = element_end(rest);
    let xml = &rest[..end];
    let name_end = xml.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'));
    let (name, inside) = xml.split_at(name_end.unwrap_or(xml.len()));
    out.extend_from_slice(name);
    if !name.starts_with(b"<stream:") && !declares(inside, b"xmlns") {
        write_attribute(out, "xmlns", ns::CLIENT);
    }
    out.extend_from_slice(inside);
    end
}
