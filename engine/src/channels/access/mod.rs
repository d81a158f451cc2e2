//! Authorization at `/n/`: the operator's token, tokens of issuers (`web::access`), or no token
//! where access is open.
//!
//! A shard verifies a token once and caches the result while the token is valid. Verifying a wrong
//! signature is wasted work, so wrong signatures are rate-limited per address. A request ends when
//! the grant that admitted it expires.
//!
//! Where no token decides, the operator's authorization service may be asked. This module
//! determines when; `inquiring` sends the inquiry.

pub(super) mod decisions;
mod halves;
mod inquiring;

use std::net::IpAddr;
use std::sync::Arc;

use ring::digest;

use crate::channels::Channels;
use crate::channels::access::decisions::Permit;
use crate::channels::access::halves::{Halves, Weighs};
use crate::channels::addresses::Held;
use crate::channels::listener::Listener;
use crate::id::Now;
use crate::limits::NOTIFY_JWT_KNOWN_BYTES_MAX;
use crate::streams::Streams;
use crate::web::access::shown::Shown;
use crate::web::access::{Access, Act, Fault, Grant};
use crate::web::prefix;
use crate::web::response::Response;
use crate::web::status::Status;

/// The rights of a client at the channels that it has requested.
#[derive(Clone, Debug, Default)]
pub(super) struct Admission {
    /// The client is the operator: no user's node refuses it, and its requests are not counted.
    pub(super) trusted: bool,
    /// The grant of the token. Without a token the client has the rights of the public.
    pub(super) grant: Option<Arc<Grant>>,
    /// The permission of the authorization service.
    pub(super) permit: Option<Arc<Permit>>,
    /// The authorization service has to be asked, because no credential decides.
    pub(super) asks: bool,
}

impl Admission {
    /// Admission by the authorization service.
    pub(super) fn by(permit: Arc<Permit>) -> Admission {
        Admission { permit: Some(permit), ..Admission::default() }
    }

    /// Remaining validity in seconds; `None` if it does not expire.
    pub(super) fn left_s(&self, now: Now) -> Option<u64> {
        let granted = self.grant.as_ref().map(|grant| grant.expires_s().saturating_sub(now.wall_us / 1_000_000));
        let permitted = self.permit.as_ref().map(|permit| permit.until_s.saturating_sub(now.mono_s()).into());
        granted.or(permitted)
    }

    /// Whether the admission depends on the client's credentials and is not open to the public.
    pub(super) fn is_granted(&self) -> bool {
        self.grant.is_some() || self.permit.is_some()
    }
}

impl Weighs for Arc<Grant> {
    fn bytes(&self) -> usize {
        self.memory_bytes()
    }
}

/// Verified tokens, by their hashes.
#[derive(Debug)]
pub(super) struct Known {
    /// The access policy against which the tokens were verified.
    of: Option<Arc<Access>>,
    grants: Halves<Arc<Grant>>,
}

impl Default for Known {
    fn default() -> Known {
        Known { of: None, grants: Halves::new(NOTIFY_JWT_KNOWN_BYTES_MAX) }
    }
}

impl Known {
    /// Upper bound of the memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.grants.memory_bytes()
    }

    fn find(&mut self, access: &Arc<Access>, hash: &[u8; 32]) -> Option<Arc<Grant>> {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, access)) {
            *self = Known { of: Some(access.clone()), ..Known::default() };
        }
        self.grants.find(hash)
    }
}

/// Why a token is rejected, or not verified at all.
#[derive(Debug)]
pub(super) enum Denied {
    /// The token is invalid.
    Fault(Fault),
    /// The address has presented too many invalid tokens.
    Held(Held),
}

impl From<Fault> for Denied {
    fn from(fault: Fault) -> Denied {
        Denied::Fault(fault)
    }
}

/// The challenge sent with every refusal (RFC 6750 3).
const CHALLENGE: &str = "Bearer realm=\"channels\"";

fn unauthorized(error: &str, text: &'static str) -> Response {
    Response::text(Status::Unauthorized, text).with("WWW-Authenticate", format!("{CHALLENGE}{error}"))
}

fn invalid(text: &'static str) -> Response {
    unauthorized(&format!(", error=\"invalid_token\", error_description=\"{text}\""), text)
}

impl From<Held> for Response {
    fn from(held: Held) -> Response {
        let (text, seconds) = match held {
            Held::Waiting => {
                ("too many requests from this address are waiting; end some, or combine channels in one request", 10)
            }
            Held::Published(seconds) => {
                ("this address has published too much; try again after the time in Retry-After", seconds)
            }
            Held::Wrong(seconds) => {
                ("this address has presented too many invalid tokens; try again after the time in Retry-After", seconds)
            }
            Held::Asked(seconds) => (
                "too many queries to the operator's service for this address; try again after the time in Retry-After",
                seconds,
            ),
        };
        Response::text(Status::TooManyRequests, text).with("Retry-After", seconds.to_string())
    }
}

impl Channels {
    /// Checks whether the credentials of a client allow an action at channels. Every protocol calls
    /// this before it does anything else: for each channel that is published to, and once for all
    /// channels of a subscription. For a prefix, a token has to grant all of it, unless the client
    /// `selects`. Such a client receives only items that the token grants, provided that it grants
    /// any below the prefix.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn admit<'a>(
        &mut self,
        cx: &mut Streams,
        network: IpAddr,
        shown: &Shown,
        (act, selects): (Act, bool),
        mut channels: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Admission, Response> {
        let settings = cx.kernel.settings.clone();
        let policy = &settings.web.channels;
        let publishes = act == Act::Publish;
        if let (true, Shown::Bearer(shown), Some(token)) = (publishes, shown, &policy.token)
            && token.is(shown)
        {
            return Ok(Admission { trusted: true, ..Admission::default() });
        }
        // A prefix that is private in part is readable without a token. With a token, the grant
        // determines how much of it is.
        let may_be_private = |name: &str| {
            let part = prefix::of(name).is_some_and(|prefix| policy.has_private(prefix));
            policy.is_private(name) || (part && policy.access.is_some() && shown.token().is_some())
        };
        let open = !channels.clone().any(may_be_private);
        // A client that presents credentials to publish intends them to apply. Channels that
        // everybody may read need no token, whatever is presented.
        if open && (!publishes || (policy.publish_open && *shown == Shown::Nothing)) {
            return Ok(Admission::default());
        }
        let (Some(access), Some(token)) = (&policy.access, shown.token()) else {
            // A private channel that the authorization service does not cover still needs a token.
            if channels.all(|channel| policy.asks(channel) || (!publishes && !policy.is_private(channel))) {
                return Ok(Admission { asks: true, ..Admission::default() });
            }
            return Err(match (&policy.access, &policy.token) {
                (None, None) if publishes => {
                    let text = "publishing by HTTP is not enabled; the operator can set notify_token, notify_jwt_keys or \
                                notify_publish_open";
                    Response::text(Status::Forbidden, text)
                }
                (None, _) if publishes => {
                    unauthorized("", "publishing requires the operator's token; send Authorization: Bearer TOKEN")
                }
                (None, _) => Response::text(
                    Status::Forbidden,
                    "this channel cannot be read by HTTP; the operator can set notify_jwt_keys",
                ),
                (Some(_), _) => unauthorized("", "a token is required; send Authorization: Bearer TOKEN"),
            });
        };
        let grant = match self.verified(cx, network, access, token) {
            Ok(grant) => grant,
            Err(Denied::Held(held)) => return Err(held.into()),
            Err(Denied::Fault(fault)) => return Err(invalid(fault.text())),
        };
        let covers = |channel: &str| match prefix::of(channel).filter(|_| selects) {
            Some(begins) => grant.meets(act, begins),
            None => grant.covers(act, channel),
        };
        if channels.all(|channel| covers(channel) || (!publishes && !policy.is_private(channel))) {
            return Ok(Admission { grant: Some(grant), ..Admission::default() });
        }
        let challenge = format!("{CHALLENGE}, error=\"insufficient_scope\"");
        let text = match act {
            Act::Publish => "the token does not permit publishing at this channel (publish)",
            Act::Subscribe => "the token does not permit reading all of these channels (subscribe)",
            Act::Presence => "the token does not permit listing subscribers of these channels (presence)",
        };
        Err(Response::text(Status::Forbidden, text).with("WWW-Authenticate", challenge))
    }

    /// Whether a client with these tokens may perform an action at a channel, and whether one of
    /// the tokens grants it. An action that is open to the public needs none. The result never
    /// exceeds what a single request with one of the tokens may do.
    pub(super) fn may_by(&self, cx: &Streams, grants: [Option<&Grant>; 2], act: Act, channel: &str) -> (bool, bool) {
        let (policy, now_s) = (&cx.kernel.settings.web.channels, cx.kernel.now.wall_us / 1_000_000);
        let counts = |grant: &&Grant| policy.access.as_ref().is_some_and(|access| access.holds(grant, now_s));
        let granted = grants.into_iter().flatten().filter(counts).any(|grant| grant.covers(act, channel));
        let open = !policy.is_private(channel) && (act != Act::Publish || policy.publish_open);
        (policy.is_there(channel) && (granted || open), granted)
    }

    /// Returns the grant of a token.
    ///
    /// # Errors
    /// Why the token is rejected.
    pub(super) fn verified(
        &mut self,
        cx: &mut Streams,
        network: IpAddr,
        access: &Arc<Access>,
        token: &str,
    ) -> Result<Arc<Grant>, Denied> {
        let (now_ms, now_s) = (cx.kernel.now.mono_ms, cx.kernel.now.wall_us / 1_000_000);
        let hash = digest::digest(&digest::SHA256, token.as_bytes());
        let hash: [u8; 32] = hash.as_ref().try_into().unwrap_or_default();
        // A cached token that is no longer valid is parsed again to report the exact fault.
        if let Some(grant) = self.grants.find(access, &hash).filter(|grant| access.holds(grant, now_s)) {
            return Ok(grant);
        }
        let each_ms = cx.kernel.settings.each_wrong_ms();
        let addresses = &mut self.listeners.addresses;
        match access.grant(token, now_s, || addresses.may_verify(now_ms, network).map_err(Denied::Held)) {
            Ok(grant) => {
                let grant = Arc::new(grant);
                cx.kernel.counters.notify_tokens_verified.one();
                self.grants.grants.keep(hash, grant.clone());
                Ok(grant)
            }
            Err(denied) => {
                if let Denied::Fault(Fault::Signature) = denied {
                    addresses.was_wrong(now_ms, network, each_ms);
                }
                if let Denied::Fault(_) = denied {
                    cx.kernel.counters.notify_tokens_refused.one();
                }
                Err(denied)
            }
        }
    }

    /// Whether the credentials of a waiting request are still valid.
    pub(super) fn is_granted(&self, cx: &Streams, listener: &Listener) -> bool {
        let now_s = cx.kernel.now.wall_us / 1_000_000;
        let access = cx.kernel.settings.web.channels.access.as_ref();
        let permitted = listener.permit.as_ref().is_none_or(|permit| cx.kernel.now.mono_s() < permit.until_s);
        permitted && listener.grant.as_ref().is_none_or(|grant| access.is_some_and(|access| access.holds(grant, now_s)))
    }
}

/// Refuses a client that may publish without a token but asks to delete a channel.
pub(super) fn needs_token() -> Response {
    unauthorized("", "deleting a channel requires a token; send Authorization: Bearer TOKEN")
}

/// The response that ends a waiting request when its credentials expire.
pub(super) fn over(listener: &Listener) -> Response {
    match listener.permit {
        Some(_) => unauthorized("", "the permission has expired; repeat the request"),
        None => invalid("the token has expired or was revoked"),
    }
}

/// The response to a request that the authorization service has not decided.
pub(super) fn unanswered() -> Response {
    let text = "access cannot be decided at the moment; try again later";
    Response::text(Status::ServiceUnavailable, text).with("Retry-After", "5")
}
