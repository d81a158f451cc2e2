//! `<body/>` as clients are answered with it (XEP-0124 7.2, 9, 17; XEP-0206 3, 4).

use super::read::Ver;
use super::wrapped::Wrapped;
use super::{Condition, HTTPBIND, Sid, XBOSH};
use crate::limits::{BOSH_PAUSE_S_MAX, BOSH_POLLING_S};
use crate::ns;
use crate::wire::text::write_attribute;

/// The version of BOSH that is spoken here.
pub const VER: Ver = Ver(1, 11);

/// What an answer says beside its content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Says<'a> {
    /// The session has begun.
    pub created: Option<Created<'a>>,
    /// The session ends.
    pub ends: Option<Option<Condition>>,
    /// Something went wrong on the way, and the client may ask again (XEP-0124 17.4).
    pub recoverable: bool,
    /// The highest request that has come, with all before it.
    pub ack: Option<u64>,
    /// An answer that was not acknowledged, and how long ago it was sent, milliseconds.
    pub report: Option<(u64, u64)>,
}

/// What the answer to the first request says.
#[derive(Clone, Copy, Debug)]
pub struct Created<'a> {
    /// The session.
    pub sid: Sid,
    /// The domain.
    pub from: &'a str,
    /// For how long a request waits at the most, seconds.
    pub wait_s: u32,
    /// How many do.
    pub hold: u8,
    /// How many may be there at once.
    pub requests: u8,
    /// For how long there may be none, seconds.
    pub inactivity_s: u32,
    /// The version of both sides; none if the client has said none.
    pub ver: Option<Ver>,
}

/// An answer with this content.
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

/// An answer that ends something for this reason.
pub fn ends(condition: Condition) -> Vec<u8> {
    body(&Says { ends: Some(Some(condition)), ..Says::default() }, &Wrapped::default())
}
