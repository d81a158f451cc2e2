//! A request with its body, for those who answer it.

use std::sync::Arc;

use super::body::Body;
use super::head::{self, Head, Method};
use super::policy::Policy;
use super::status::Refusal;
use crate::id::Domains;

/// A request whose head has come.
#[derive(Debug)]
pub struct Awaited {
    head: Box<[u8]>,
    /// Its body.
    pub body: Body,
    /// It is one of those of which there may be some only.
    pub long: Option<Arc<()>>,
}

impl Awaited {
    /// One with this head.
    pub fn new(head: &[u8], body: Body) -> Awaited {
        Awaited { head: head.into(), body, long: None }
    }

    /// Its head once more: that it can be read is known.
    ///
    /// # Errors
    /// None.
    pub fn head(&self) -> Result<Option<Head<'_>>, Refusal> {
        head::read(&self.head, 0)
    }

    /// Bytes that it keeps.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.body.bytes().len()
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its head.
    pub head: &'a Head<'a>,
    /// Its body.
    pub body: &'a [u8],
    /// It came by TLS.
    pub secured: bool,
}

impl Request<'_> {
    /// Whether the page that asks may use cookies: it is one of the operator's, or of the same address as the server. Pages of which no
    /// origin is said ask of their own (Fetch 3.2): with GET, and what they are answered nobody else reads.
    pub fn is_of_us(&self, policy: &Policy) -> bool {
        let Some(origin) = self.head.one("origin") else {
            // Newer browsers say it in any case (Fetch Metadata 2.4).
            let site = self.head.one("sec-fetch-site");
            return self.head.method != Method::Post && site.is_none_or(|site| ["same-origin", "none"].contains(&site));
        };
        policy.lists(origin) || self.is_own(origin)
    }

    /// Whether an origin is the server's as the client has asked for it. Before a proxy either scheme may be its own.
    fn is_own(&self, origin: &str) -> bool {
        let host = match origin.split_once("://") {
            Some(("https", host)) => Some(host),
            Some(("http", host)) if !self.secured => Some(host),
            _ => None,
        };
        host.is_some_and(|host| self.head.host.is_some_and(|own| own.eq_ignore_ascii_case(host)))
    }
}

/// What those who answer have to know of the server.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The domains served.
    pub domains: &'a Domains,
    /// What the operator wants.
    pub policy: &'a Policy,
}
