//! Registrations of pages for push messages while they are closed (Push API 7, RFC 8030), as
//! requested at `/n/`. They are parsed, bounded, and checked against the operator's list of push
//! services. Nothing is sent here.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ring::digest;
use serde::{Deserialize, Serialize};

use super::head::Head;
use super::response::Response;
use crate::id::PushId;
use crate::limits::{NOTIFY_PUSH_BODY_BYTES_MAX, NOTIFY_PUSH_ENDPOINT_BYTES_MAX};
use crate::wire::json;

/// The operator's settings for push messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The public key that identifies the server to push services (RFC 8292 3.2), in Base64url.
    pub key: Box<str>,
    /// Permitted push services, at most
    /// [`NOTIFY_PUSH_SERVICES_MAX`](crate::limits::NOTIFY_PUSH_SERVICES_MAX): hosts, or suffixes of
    /// hosts with a dot before them, optionally with a port.
    pub services: Box<[Box<str>]>,
    /// Limit on the registrations per channel.
    pub channel_max: u32,
    /// Limit on the registrations per channel and address (for IPv6 per /64).
    pub address_max: u32,
    /// Lifetime of a registration that is not renewed, in seconds.
    pub hold_s: u64,
    /// Minimum interval between two push messages of a channel, in milliseconds.
    pub interval_ms: u64,
}

/// A page's subscription at its push service, as serialized by `PushSubscription.toJSON()` (Push
/// API 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The push resource (RFC 8030 4): a capability, so it is not disclosed to others.
    pub endpoint: Box<str>,
    /// The page's public key, uncompressed (RFC 8291 2).
    pub p256dh: [u8; 65],
    /// Its authentication secret (RFC 8291 3.2).
    pub auth: [u8; 16],
    /// When the push service ends it, in seconds since 1970, if stated.
    pub expires_s: Option<u64>,
}

impl Subscription {
    /// The registration's id. It does not reveal the endpoint, and cannot be guessed without it.
    pub fn id(&self) -> PushId {
        let hash = digest::digest(&digest::SHA256, self.endpoint.as_bytes());
        PushId(*hash.as_ref().first_chunk().expect("32 bytes"))
    }
}

impl PushId {
    /// Formats the id for pages.
    pub fn text(self) -> String {
        BASE64URL.encode(self.0)
    }

    /// Parses an id.
    pub fn read(text: &str) -> Option<PushId> {
        Some(PushId(BASE64URL.decode(text).ok()?.try_into().ok()?))
    }
}

/// The host and port of an HTTPS address.
fn split(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.split_once(':') {
        None => (authority, 443),
        Some((host, port)) => (host, port.parse().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))?),
    };
    let good = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    good.then_some((host, port))
}

/// The host and port of a push resource, if it is valid: an HTTPS address without user and
/// fragment.
pub fn authority(endpoint: &str) -> Option<(&str, u16)> {
    let fits = endpoint.len() <= NOTIFY_PUSH_ENDPOINT_BYTES_MAX && endpoint.bytes().all(|byte| byte.is_ascii_graphic());
    let rest = endpoint.strip_prefix("https://").filter(|rest| fits && !rest.contains('#'))?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    split(authority).filter(|_| path.len() > 1)
}

/// Whether an entry of the operator's list is valid: a host, or a suffix of hosts.
pub fn is_service(entry: &str) -> bool {
    split(entry).is_some_and(|(host, _)| host.bytes().all(|byte| !byte.is_ascii_uppercase()) && !host.ends_with('.'))
}

impl Push {
    /// The index of the list's entry that permits an endpoint.
    pub fn service_of(&self, endpoint: &str) -> Option<usize> {
        let (host, port) = authority(endpoint)?;
        let host = host.to_ascii_lowercase();
        self.services.iter().position(|entry| {
            let Some((own, own_port)) = split(entry) else { return false };
            own_port == port
                && if own.starts_with('.') { host.ends_with(own) && host.len() > own.len() } else { host == own }
        })
    }

    /// The response with the public key, which pages need to subscribe at their push services
    /// (`applicationServerKey`).
    pub fn shown(&self) -> Response {
        #[derive(Serialize)]
        struct Shown<'a> {
            key: &'a str,
        }
        Response::json(json::line(&Shown { key: &self.key })).with("Cache-Control", "no-store")
    }

    /// Parses a page's subscription.
    ///
    /// # Errors
    /// What is invalid.
    pub fn read(&self, body: &[u8]) -> Result<Subscription, &'static str> {
        #[derive(Deserialize)]
        struct Form<'a> {
            #[serde(borrow)]
            endpoint: Cow<'a, str>,
            #[serde(rename = "expirationTime", default)]
            expires_ms: Option<f64>,
            #[serde(borrow)]
            keys: Keys<'a>,
        }
        #[derive(Deserialize)]
        struct Keys<'a> {
            #[serde(borrow)]
            p256dh: Cow<'a, str>,
            #[serde(borrow)]
            auth: Cow<'a, str>,
        }
        if body.len() > NOTIFY_PUSH_BODY_BYTES_MAX {
            return Err("the subscription is longer than 4,096 bytes");
        }
        let form: Form<'_> = serde_json::from_slice(body).map_err(
            |_| "the body must be the result of PushSubscription.toJSON(): endpoint, and keys p256dh and auth",
        )?;
        if self.service_of(&form.endpoint).is_none() {
            return Err(
                "the endpoint is not at a permitted push service; the operator can add it to notify_push_services",
            );
        }
        let decode = |text: &str| BASE64URL.decode(text.trim_end_matches('=')).ok();
        let p256dh = decode(&form.keys.p256dh).and_then(|key| <[u8; 65]>::try_from(key).ok()).filter(|key| key[0] == 4);
        let auth = decode(&form.keys.auth).and_then(|secret| secret.try_into().ok());
        let (Some(p256dh), Some(auth)) = (p256dh, auth) else {
            return Err("p256dh must be an uncompressed key of P-256, and auth must have 16 bytes, both in Base64url");
        };
        // The cast maps values that are no valid time to the bounds.
        let expires_s = form.expires_ms.map(|ms| (ms / 1_000.0) as u64);
        Ok(Subscription { endpoint: form.endpoint.into(), p256dh, auth, expires_s })
    }
}

/// The value of the parameter for push messages, if a request has one.
pub fn named<'a>(head: &Head<'a>) -> Option<&'a str> {
    let mut all = head.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    all.find_map(|(name, value)| (name == "push").then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push() -> Push {
        Push {
            key: "BKey".into(),
            services: [".push.apple.com", "fcm.googleapis.com", "localhost:4443"].map(Into::into).into(),
            channel_max: 1,
            address_max: 1,
            hold_s: 1,
            interval_ms: 1,
        }
    }

    #[test]
    fn endpoints_are_of_https_and_at_services_that_the_operator_names() {
        let service = |endpoint: &str| push().service_of(endpoint);
        assert_eq!(service("https://web.push.apple.com/QAbc"), Some(0));
        assert_eq!(service("https://FCM.googleapis.com:443/fcm/send/x"), Some(1));
        assert_eq!(service("https://localhost:4443/p?a=b"), Some(2));
        let long = format!("https://fcm.googleapis.com/{}", "x".repeat(NOTIFY_PUSH_ENDPOINT_BYTES_MAX));
        for bad in [
            "http://fcm.googleapis.com/x",
            "https://fcm.googleapis.com",
            "https://fcm.googleapis.com/",
            "https://fcm.googleapis.com:444/x",
            "https://fcm.googleapis.com:+443/x",
            "https://fcm.googleapis.com./x",
            "https://xfcm.googleapis.com/x",
            "https://.push.apple.com/x",
            "https://push.apple.com/x",
            "https://push.apple.com.example/x",
            "https://user@fcm.googleapis.com/x",
            "https://fcm.googleapis.com@10.0.0.1/x",
            "https://fcm.googleapis.com\\@10.0.0.1/x",
            "https://fcm.googleapis.com/x#y",
            "https://fcm.googleapis.com/x y",
            "https://[::1]/x",
            "https://localhost/x",
            &long,
        ] {
            assert_eq!(service(bad), None, "{bad}");
        }
        assert!(is_service(".push.apple.com") && is_service("localhost:4443"));
        assert!(
            !is_service("")
                && !is_service("Fcm.example")
                && !is_service("https://x")
                && !is_service("x.")
                && !is_service("x:y")
        );
    }

    /// RFC 8291 5, as serialized by `toJSON()` (Push API 8).
    #[test]
    fn a_subscription_is_what_a_browser_gives() {
        let p256dh = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        let auth = "BTBZMqHH6r4Tts7J_aSIgg";
        let form = |endpoint: &str, expires: &str, p256dh: &str, auth: &str| {
            let form = format!(
                "{{\"endpoint\":\"{endpoint}\",\"expirationTime\":{expires},\"keys\":{{\"p256dh\":\"{p256dh}\",\"auth\":\"{auth}\"}}}}"
            );
            push().read(form.as_bytes())
        };
        let at = "https:\\/\\/fcm.googleapis.com/x";
        let read = form(at, "null", p256dh, auth).unwrap();
        assert_eq!((&*read.endpoint, read.p256dh[0], read.expires_s), ("https://fcm.googleapis.com/x", 4, None));
        assert_eq!(PushId::read(&read.id().text()), Some(read.id()));
        assert_eq!(form(at, "1700000000999", p256dh, &format!("{auth}==")).unwrap().expires_s, Some(1_700_000_000));
        assert_eq!(form(at, "-1", p256dh, auth).unwrap().expires_s, Some(0));
        assert!(form("https://example.org/x", "null", p256dh, auth).is_err());
        assert!(form(at, "null", &p256dh[1..], auth).is_err() && form(at, "null", p256dh, "AAAA").is_err());
        assert!(form(at, "\"x\"", p256dh, auth).is_err() && push().read(b"{}").is_err() && push().read(b"[]").is_err());
        assert!(push().read(&[b' '; NOTIFY_PUSH_BODY_BYTES_MAX + 1]).is_err());
        assert_eq!((PushId::read(""), PushId::read("AAAA")), (None, None));
    }
}
