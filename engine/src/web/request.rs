//! A request with its body, for those who answer it.

use std::sync::Arc;

use super::body::Body;
use super::head::{self, Head};
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

/// What those who answer have to know of the server.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The domains served.
    pub domains: &'a Domains,
    /// What the operator wants.
    pub policy: &'a Policy,
}
