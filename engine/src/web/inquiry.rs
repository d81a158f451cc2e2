//! Questions to the operator's authorization service about requests for channels, and its answers,
//! as data.
//!
//! The service gets the properties of a request that identify the client: the address, the origin
//! of the page, and the header fields that the operator has selected. A cookie is included only for
//! pages of the operator: browsers send it with the requests of any page.

use std::net::IpAddr;
use std::sync::Arc;

use ring::digest::{Context, SHA256};

use super::access::Act;
use super::form::decoded;
use super::policy::Policy;
use super::request::Request;

/// The field that browsers send with the requests of any page (RFC 6265 4.2).
pub const COOKIE: &str = "cookie";
/// The field of a token (RFC 9110 11.6.2).
pub const AUTHORIZATION: &str = "authorization";

/// The properties of a request that identify the client.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// The page's origin, if the client is a page (RFC 6454 7).
    pub origin: Option<Box<str>>,
    /// The fields that the operator has selected, by lower-case name, without duplicates.
    pub fields: Vec<(Box<str>, Box<str>)>,
}

/// Hides the values, which are secrets.
impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.fields.iter().map(|(name, _)| &**name).collect();
        write!(f, "Sent({:?}, {names:?})", self.origin)
    }
}

impl Sent {
    /// Extracts the properties that the operator wants forwarded.
    pub fn of(request: &Request<'_>, policy: &Policy) -> Sent {
        let head = request.head;
        let mut fields = Vec::new();
        for name in &policy.channels.asks.fields {
            if **name == *COOKIE && !request.is_of_us(policy) {
                continue;
            }
            // Several fields with one name are combined (RFC 9110 5.3); cookies with another
            // separator (RFC 9113 8.2.3).
            let between = if **name == *COOKIE { "; " } else { ", " };
            let value = head.all(name).collect::<Vec<_>>().join(between);
            if !value.is_empty() {
                fields.push((name.clone(), value.into()));
            } else if **name == *AUTHORIZATION
                && let Some(token) = head.query.split('&').find_map(|pair| pair.strip_prefix("access_token="))
            {
                // A browser's `EventSource` and `WebSocket` cannot send header fields of the page
                // (RFC 6750 2.3).
                fields.extend(decoded(token).map(|token| (name.clone(), format!("Bearer {token}").into())));
            }
        }
        Sent { origin: head.one("origin").map(Into::into), fields }
    }

    /// Memory used, in bytes.
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len() + 2 * size_of::<Box<str>>());
        self.origin.as_ref().map_or(0, |origin| origin.len()) + fields.sum::<usize>()
    }
}

/// The question whether a request for channels is permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// The right that it needs.
    pub act: Act,
    /// A publisher wants to delete the channel's items. An answer about publications does not apply
    /// to this.
    pub deletes: bool,
    /// A subscriber wants to know the other subscribers.
    pub occupancy: bool,
    /// The channels that the service has to decide about; other channels of the request are not
    /// disclosed.
    pub channels: Vec<Box<str>>,
    /// The client's address.
    pub address: IpAddr,
    /// The properties that identify the client.
    pub sent: Sent,
}

impl Inquiry {
    /// The name of the operation.
    pub fn operation(&self) -> &'static str {
        match self.act {
            Act::Publish if self.deletes => "delete",
            Act::Publish => "publish",
            Act::Subscribe => "subscribe",
            Act::Presence => "presence",
        }
    }

    /// The key of equal inquiries, as a cryptographic hash: collisions cannot be constructed.
    pub fn key(&self) -> [u8; 32] {
        let mut hash = Context::new(&SHA256);
        let mut part = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(self.operation().as_bytes());
        part(&[u8::from(self.occupancy)]);
        part(&(self.channels.len() as u64).to_le_bytes());
        self.channels.iter().for_each(|channel| part(channel.as_bytes()));
        part(self.address.to_string().as_bytes());
        match &self.sent.origin {
            Some(origin) => part(origin.as_bytes()),
            None => part(b"\0"),
        }
        for (name, value) in &self.sent.fields {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        hash.finish().as_ref().try_into().unwrap_or_default()
    }
}

/// The answer of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Permitted.
    Allowed {
        /// The name under which other subscribers see this one.
        name: Option<Arc<str>>,
        /// Validity in seconds. Afterwards the service is asked again, and what the permission
        /// admitted ends. `None` for this request only.
        seconds: Option<u32>,
    },
    /// Not permitted.
    Denied,
    /// Undecided: the service was not asked, or has not answered.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::head;

    fn sent(fields: &str, own: &[&str], origins: Option<&str>) -> Sent {
        let text = format!("GET /n/a?access_token=t&wait=1 HTTP/1.1\r\nHost: own.example\r\n{fields}\r\n");
        let head = head::read(text.as_bytes(), 0).expect("a head").expect("all of it");
        let mut policy = Policy { origins: origins.map(|origin| [origin.into()].into()), ..Policy::default() };
        policy.channels.asks.fields = own.iter().map(|name| (*name).into()).collect();
        Sent::of(&Request { head: &head, body: b"", secured: true }, &policy)
    }

    fn value<'a>(sent: &'a Sent, name: &str) -> Option<&'a str> {
        sent.fields.iter().find(|(own, _)| **own == *name).map(|(_, value)| &**value)
    }

    #[test]
    fn chosen_fields_are_passed_on_and_no_others() {
        let all = "Cookie: a=1\r\nCookie: b=2\r\nX-Key: 1\r\nX-Key: 2\r\nX-Other: 3\r\nAuthorization: Basic x\r\n";
        let shown = sent(all, &["cookie", "x-key", "authorization"], None);
        assert_eq!(value(&shown, "cookie"), Some("a=1; b=2"));
        assert_eq!((value(&shown, "x-key"), value(&shown, "authorization")), (Some("1, 2"), Some("Basic x")));
        assert_eq!((shown.fields.len(), sent(all, &[], None).fields.len()), (3, 0));
        assert!(!format!("{shown:?}").contains("Basic x"));
        // A token in the query replaces the header field, which a page cannot send.
        assert_eq!(value(&sent("", &["authorization"], None), "authorization"), Some("Bearer t"));
        assert_eq!(sent("", &["x-key"], None).fields.len(), 0);
    }

    /// RFC 6454: a cookie that another origin's page makes the browser send proves nothing.
    #[test]
    fn a_cookie_is_passed_on_for_pages_of_the_operator_only() {
        let cookie = |fields: &str, origins| {
            value(&sent(&format!("Cookie: a=1\r\n{fields}"), &["cookie"], origins), "cookie").is_some()
        };
        assert!(cookie("", None), "no page of another origin reads the answer");
        assert!(cookie("Origin: https://own.example\r\n", None));
        assert!(!cookie("Origin: https://evil.example\r\n", None));
        assert!(!cookie("Origin: null\r\n", None));
        assert!(!cookie("Sec-Fetch-Site: cross-site\r\n", None));
        assert!(cookie("Origin: https://app.example\r\n", Some("https://app.example")));
    }

    #[test]
    fn no_two_inquiries_have_one_key() {
        let own = Inquiry {
            act: Act::Subscribe,
            deletes: false,
            occupancy: false,
            channels: vec!["a".into(), "b".into()],
            address: [192, 0, 2, 1].into(),
            sent: Sent { origin: None, fields: vec![("cookie".into(), "x".into())] },
        };
        let mut others = vec![own.clone(); 7];
        others[0].act = Act::Publish;
        others[1].occupancy = true;
        others[2].channels = vec!["ab".into()];
        others[3].channels.push("cookie".into());
        others[4].address = [192, 0, 2, 2].into();
        others[5].sent.origin = Some("".into());
        others[6].sent.fields = vec![("cookie".into(), "".into()), ("x".into(), "".into())];
        others.push(Inquiry { deletes: true, ..others[0].clone() });
        assert_ne!(others[7].key(), others[0].key(), "a yes to a publication deletes nothing");
        for other in &others {
            assert_ne!(other.key(), own.key(), "{other:?}");
        }
        assert_eq!(own.clone().key(), own.key());
    }
}
