//! The `<body/>` of a response (XEP-0124 7.2, 9, 17; XEP-0206 3, 4).

use super::read::Ver;
use super::wrapped::Wrapped;
use super::{Condition, HTTPBIND, Sid, XBOSH};
use crate::limits::{BOSH_PAUSE_S_MAX, BOSH_POLLING_S};
use crate::ns;
use crate::wire::text::write_attribute;

/// The version of BOSH that this server implements.
pub const VER: Ver = Ver(1, 11);

/// The attributes of a response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Says<'a> {
    /// The session has been created.
    pub created: Option<Created<'a>>,
    /// The session ends, with a condition if there is an error.
    pub ends: Option<Option<Condition>>,
    /// A recoverable error, after which the client may repeat the request (XEP-0124 17.4).
    pub recoverable: bool,
    /// The highest request that has been received together with all before it.
    pub ack: Option<u64>,
    /// A response that was not acknowledged, and the time since it was sent, in milliseconds.
    pub report: Option<(u64, u64)>,
}

/// The parameters in the response to the first request.
#[derive(Clone, Copy, Debug)]
pub struct Created<'a> {
    /// The session's identifier.
    pub sid: Sid,
    /// The domain of the server.
    pub from: &'a str,
    /// The longest time that a request waits, in seconds.
    pub wait_s: u32,
    /// How many requests wait at once.
    pub hold: u8,
    /// How many requests may be outstanding at once.
    pub requests: u8,
    /// The longest time without a request, in seconds.
    pub inactivity_s: u32,
    /// The version in use; `None` if the client has not sent one.
    pub ver: Option<Ver>,
}

/// Writes a response with this content.
pub fn body(says: &Says<'_>, content: &Wrapped) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.bytes.len() + 128);
    out.extend_from_slice(b"<body");
    write_attribute(&mut out, "xmlns", HTTPBIND);
    let number = |out: &mut Vec<u8>, name: &str, value: u64| write_attribute(out, name, &value.to_string());
    if let Some(created) = &says.created {
        write_attribute(&mut out, "sid", &created.sid.text());
        write_attribute(&mut out, "from", created.from);
        number(&mut out, "wait", created.wait_s.into());
        number(&mut out, "hold", created.hold.into());
        number(&mut out, "requests", created.requests.into());
        number(&mut out, "inactivity", created.inactivity_s.into());
        number(&mut out, "polling", BOSH_POLLING_S.into());
        number(&mut out, "maxpause", BOSH_PAUSE_S_MAX.into());
        write_attribute(&mut out, "charsets", "UTF-8");
        if let Some(ver) = created.ver {
            let Ver(major, minor) = ver.min(VER);
            write_attribute(&mut out, "ver", &format!("{major}.{minor}"));
        }
        write_attribute(&mut out, "xmlns:xmpp", XBOSH);
        write_attribute(&mut out, "xmpp:version", "1.0");
        write_attribute(&mut out, "xmpp:restartlogic", "true");
    }
    if let Some(condition) = says.ends {
        write_attribute(&mut out, "type", "terminate");
        if let Some(condition) = condition {
            write_attribute(&mut out, "condition", condition.name());
        }
    } else if says.recoverable {
        write_attribute(&mut out, "type", "error");
    }
    if let Some(ack) = says.ack {
        number(&mut out, "ack", ack);
    }
    if let Some((rid, ms)) = says.report {
        number(&mut out, "report", rid);
        number(&mut out, "time", ms);
    }
    if content.uses_stream {
        write_attribute(&mut out, "xmlns:stream", ns::STREAM);
    }
    if content.bytes.is_empty() {
        out.extend_from_slice(b"/>");
        return out;
    }
    out.push(b'>');
    out.extend_from_slice(&content.bytes);
    out.extend_from_slice(b"</body>");
    out
}

/// Writes a response that ends a session or request for this reason.
pub fn ends(condition: Condition) -> Vec<u8> {
    body(&Says { ends: Some(Some(condition)), ..Says::default() }, &Wrapped::default())
}
