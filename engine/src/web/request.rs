//! A request with its body, for handlers.

use std::sync::Arc;

use super::body::Body;
use super::head::{self, Head, Method};
use super::policy::Policy;
use super::status::Refusal;
use crate::id::Domains;

/// A request whose head has been received.
#[derive(Debug)]
pub struct Awaited {
    head: Box<[u8]>,
    /// The body, as far as it has been received.
    pub body: Body,
    /// Set while it counts against the limit on long bodies.
    pub long: Option<Arc<()>>,
}

impl Awaited {
    /// Starts a request with this head.
    pub fn new(head: &[u8], body: Body) -> Awaited {
        Awaited { head: head.into(), body, long: None }
    }

    /// Parses the head again, which has been parsed successfully before.
    ///
    /// # Errors
    /// None.
    pub fn head(&self) -> Result<Option<Head<'_>>, Refusal> {
        head::read(&self.head, 0)
    }

    /// Memory used, in bytes.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.body.bytes().len()
    }
}

/// A complete request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The parsed head.
    pub head: &'a Head<'a>,
    /// The complete body.
    pub body: &'a [u8],
    /// It was received over TLS.
    pub secured: bool,
}

impl Request<'_> {
    /// Whether the requesting page may use cookies: it is of a listed origin, or of the server's
    /// own. Requests without an origin come from the same origin (Fetch 3.2): they are GET
    /// requests, whose responses no other page can read.
    pub fn is_of_us(&self, policy: &Policy) -> bool {
        let Some(origin) = self.head.one("origin") else {
            // Newer browsers state this in any case (Fetch Metadata 2.4).
            let site = self.head.one("sec-fetch-site");
            return self.head.method != Method::Post && site.is_none_or(|site| ["same-origin", "none"].contains(&site));
        };
        policy.lists(origin) || self.is_own(origin)
    }

    /// Whether an origin is the server's own, by the host of the request. Behind a proxy the scheme
    /// may be either.
    fn is_own(&self, origin: &str) -> bool {
        let host = match origin.split_once("://") {
            Some(("https", host)) => Some(host),
            Some(("http", host)) if !self.secured => Some(host),
            _ => None,
        };
        host.is_some_and(|host| self.head.host.is_some_and(|own| own.eq_ignore_ascii_case(host)))
    }
}

/// The state of the server that handlers need.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The served domains.
    pub domains: &'a Domains,
    /// The operator's policy.
    pub policy: &'a Policy,
}
