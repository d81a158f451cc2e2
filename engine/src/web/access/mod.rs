//! Who may publish and subscribe at which channels, by JSON Web Tokens (RFC 7519) in the compact form of RFC 7515.
//!
//! - [`key`] reads the operator's keys: a JWK Set (RFC 7517), of which each key is good for one algorithm.
//! - [`token`] reads a token and what it claims. Nothing of it counts before its signature is verified.
//! - [`pattern`] says which channels are meant. `json` reads objects in which no name comes twice.
//! - [`shown`] finds the token in a request. [`topic`] says which channels are called so by clients of Mercure and Centrifugo, and a
//!   [`template`] which topics are meant by one.
//!
//! Here is nothing but data: a token and a time lead to a [`Grant`] or to what is wrong. Who has shown which token, and how often one was
//! wrong, is known to the shard.

mod json;
pub mod key;
pub mod pattern;
pub mod shown;
pub mod template;
pub mod token;
pub mod topic;

use std::collections::BTreeSet;
use std::sync::Arc;

use key::Keys;
use pattern::Patterns;

/// Seconds by which the clock of an issuer may be ahead of this one: `nbf` counts so much earlier (RFC 7519 4.1.5).
pub const AHEAD_S: u64 = 30;

/// What tokens are held against, the same for all shards until the operator has the files read again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Keys of issuers.
    pub keys: Keys,
    /// Who has to have issued a token (`iss`); `None`: whoever has a key.
    pub issuer: Option<Box<str>>,
    /// For whom it has to be (`aud`); `None`: for nobody in particular.
    pub audience: Option<Box<str>>,
    /// How far ahead `exp` may be, seconds.
    pub ahead_s_max: u64,
    /// What tokens claim for Mercure (`mercure`) counts.
    pub mercure: bool,
    /// What they claim for Centrifugo (`channel`, `channels`, `subs`) counts.
    pub centrifugo: bool,
    /// Tokens of these names (`jti`) do not count any more.
    pub revoked: BTreeSet<Box<str>>,
}

/// What a token grants whose signature was verified: there is no other way to have one.
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    publish: Patterns,
    subscribe: Patterns,
    presence: Patterns,
    subject: Option<Arc<str>>,
    channel: Option<Box<str>>,
    channels: Box<[Box<str>]>,
    expires_s: u64,
    push_s: Option<u64>,
    key: key::Id,
    name: Option<Box<str>>,
}

/// What is to be done at a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Items are published.
    Publish,
    /// They are read, and waited for.
    Subscribe,
    /// Who subscribes is asked.
    Presence,
}

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// For this reason, which was found without much work.
    Token(&'static str),
    /// It has been so once.
    Expired,
    /// No key has made the signature, which was work to find out.
    Signature,
}

impl Fault {
    /// What is wrong, as a sentence without a full stop.
    pub fn text(self) -> &'static str {
        match self {
            Fault::Token(text) => text,
            Fault::Expired => "the token has expired",
            Fault::Signature => "the signature of the token does not match the server's key",
        }
    }
}

impl Access {
    /// What a token grants at a time, seconds since 1970. All that is cheap to find out comes first, and a signature is verified with one
    /// key: `may_verify` says whether it may be.
    ///
    /// # Errors
    /// Why it does not count; what `may_verify` says.
    pub fn grant<E: From<Fault>>(
        &self,
        token: &str,
        now_s: u64,
        may_verify: impl FnOnce() -> Result<(), E>,
    ) -> Result<Grant, E> {
        let unverified = token::read(token)?;
        let key = self.keys.of(unverified.algorithm, unverified.key.as_deref())?;
        let claims = unverified.claims(self.mercure, self.centrifugo)?;
        claims.check(self, now_s)?;
        may_verify()?;
        if !key.verifies(unverified.signed, &unverified.signature) {
            return Err(Fault::Signature.into());
        }
        Ok(Grant {
            publish: claims.publish,
            subscribe: claims.subscribe,
            presence: claims.presence,
            subject: claims.subject,
            channel: claims.channel,
            channels: claims.channels.into(),
            expires_s: claims.expires_s,
            push_s: claims.push_s,
            key: key.id(),
            name: claims.name,
        })
    }

    /// Whether a grant counts that was given before: the operator may have read other keys since, or taken back the token.
    pub fn holds(&self, grant: &Grant, now_s: u64) -> bool {
        now_s < grant.expires_s && self.stands(grant.key.bytes(), grant.name.as_deref())
    }

    /// The same whatever the time, of a grant of which no more is known than the key of its token and the token's name.
    pub fn stands(&self, key: [u8; 32], name: Option<&str>) -> bool {
        self.keys.has(key) && !self.is_revoked(name)
    }

    fn is_revoked(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| self.revoked.contains(name))
    }
}

impl Grant {
    /// Whether something may be done at a channel.
    pub fn covers(&self, act: Act, channel: &str) -> bool {
        match act {
            Act::Publish => self.publish.cover(channel),
            Act::Subscribe => self.subscribe.cover(channel),
            Act::Presence => self.presence.cover(channel),
        }
    }

    /// Whether something may be done at a channel whose name begins so, if there is such a one.
    pub fn meets(&self, act: Act, prefix: &str) -> bool {
        match act {
            Act::Publish => self.publish.meet(prefix),
            Act::Subscribe => self.subscribe.meet(prefix),
            Act::Presence => self.presence.meet(prefix),
        }
    }

    /// The subject for which it was issued (RFC 7519 4.1.2), by which others see the bearer.
    pub fn subject(&self) -> Option<&Arc<str>> {
        self.subject.as_ref()
    }

    /// The one channel for which it is, as Centrifugo has it: by such a token nobody connects.
    pub fn channel(&self) -> Option<&str> {
        self.channel.as_deref()
    }

    /// Channels, as topics, to which the server subscribes its bearer, as Centrifugo has it.
    pub fn channels(&self) -> &[Box<str>] {
        &self.channels
    }

    /// Until when, seconds since 1970.
    pub fn expires_s(&self) -> u64 {
        self.expires_s
    }

    /// Until when pushes may be sent to a page that registers with it, seconds since 1970: for as long as it says, or as it counts.
    pub fn push_s(&self) -> u64 {
        self.push_s.unwrap_or(self.expires_s)
    }

    /// The key of its token, and the token's name: by them it can be taken back ([`Access::stands`]).
    pub fn stands_by(&self) -> ([u8; 32], Option<&str>) {
        (self.key.bytes(), self.name.as_deref())
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.len());
        let subject = self.subject.as_ref().map_or(0, |subject| subject.len() + 2 * size_of::<usize>());
        let channels = self.channels.iter().map(|channel| channel.len() + size_of::<Box<str>>()).sum::<usize>();
        let channels = channels + self.channel.as_ref().map_or(0, |channel| channel.len());
        let patterns = [&self.publish, &self.subscribe, &self.presence].map(Patterns::memory_bytes);
        size_of::<Grant>() + patterns.iter().sum::<usize>() + name + subject + channels
    }
}
