//! Tokens as they are shown (RFC 7515 3.1, RFC 7519 3): a header, claims and a signature. All of it is bounded before it is read, and what
//! the text leaves to choose is refused (RFC 8725).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;

use super::json::{self, Object, Value};
use super::key::Algorithm;
use super::pattern::Patterns;
use super::template::{self, Template};
use super::topic;
use super::{AHEAD_S, Access, Fault};
use crate::limits::{
    NOTIFY_JWT_BYTES_MAX, NOTIFY_JWT_JTI_BYTES_MAX, NOTIFY_JWT_KID_BYTES_MAX, NOTIFY_SUBJECT_BYTES_MAX,
};

/// A token of which nothing is verified.
#[derive(Debug)]
pub struct Unverified<'a> {
    /// By what it says that it is signed.
    pub(super) algorithm: Algorithm,
    /// And by which key (`kid`).
    pub(super) key: Option<Box<str>>,
    /// What is signed.
    pub(super) signed: &'a [u8],
    /// The signature.
    pub(super) signature: Vec<u8>,
    claims: Object,
}

/// What a token claims.
#[derive(Debug)]
pub struct Claims {
    /// `publish`: where its bearer may publish.
    pub(super) publish: Patterns,
    /// `subscribe`: what it may read.
    pub(super) subscribe: Patterns,
    /// `presence`: of which it may know who subscribes to them.
    pub(super) presence: Patterns,
    /// `sub` (RFC 7519 4.1.2), unless it is empty.
    pub(super) subject: Option<Arc<str>>,
    /// `channel`: the one channel for which it is, as Centrifugo has it.
    pub(super) channel: Option<Box<str>>,
    /// `channels` and `subs`, as Centrifugo has them: its bearer is subscribed to these, as it calls them.
    pub(super) channels: Vec<Box<str>>,
    /// `exp` (RFC 7519 4.1.4), seconds since 1970.
    pub(super) expires_s: u64,
    /// `push`: until when pushes may be sent to the pages that register with it, seconds since 1970.
    pub(super) push_s: Option<u64>,
    /// `jti` (4.1.7).
    pub(super) name: Option<Box<str>>,
    begins_s: u64,
    issuer: Option<Box<str>>,
    audiences: Option<Vec<Box<str>>>,
}

fn fault<T>(text: &'static str) -> Result<T, Fault> {
    Err(Fault::Token(text))
}

/// Reads a token.
///
/// # Errors
/// What is wrong with it.
pub fn read(token: &str) -> Result<Unverified<'_>, Fault> {
    if token.len() > NOTIFY_JWT_BYTES_MAX {
        return fault("the token is longer than 4,096 bytes");
    }
    let mut parts = token.split('.');
    let (Some(header), Some(claims), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return fault("a token must have three parts separated by dots");
    };
    let decode =
        |part: &str| BASE64URL.decode(part).map_err(|_| Fault::Token("a part of the token is not valid Base64url"));
    let object = |part: &str, text| json::object(&decode(part)?).ok_or(Fault::Token(text));
    let header = object(header, "the header of the token is not a JSON object, or has a duplicate name")?;
    let (algorithm, key) = read_header(&header)?;
    let signed = &token.as_bytes()[..token.len() - signature.len() - 1];
    let signature = decode(signature)?;
    let claims = object(claims, "the claims of the token are not a JSON object, or have a duplicate name")?;
    Ok(Unverified { algorithm, key, signed, signature, claims })
}

/// RFC 7515 4.1. Keys that a token brings or points at (`jwk`, `jku`, `x5c`, `x5u`) are not looked at (RFC 8725 3.10).
fn read_header(header: &Object) -> Result<(Algorithm, Option<Box<str>>), Fault> {
    let Some(algorithm) = header.get("alg").and_then(Value::text).and_then(Algorithm::of) else {
        return fault("the algorithm of the token is not HS256, ES256 or EdDSA");
    };
    // RFC 7515 4.1.11: no extension is understood, and what says that it has to be is refused.
    if header.contains_key("crit") {
        return fault("the token has an unsupported critical header (crit)");
    }
    // RFC 8725 3.11: what was issued for something else is not taken.
    if let Some(kind) = header.get("typ") {
        let kind = kind.text().unwrap_or_default().to_ascii_lowercase();
        if !["jwt", "at+jwt"].contains(&kind.strip_prefix("application/").unwrap_or(&kind)) {
            return fault("the type of the token (typ) is neither JWT nor at+jwt");
        }
    }
    if header.contains_key("cty") {
        return fault("the token contains a nested token (cty), which is not supported");
    }
    let key = match header.get("kid") {
        None => None,
        Some(Value::Text(key)) if key.len() <= NOTIFY_JWT_KID_BYTES_MAX => Some(key.as_str().into()),
        Some(_) => return fault("the kid of the token is not a string, or longer than 128 bytes"),
    };
    Ok((algorithm, key))
}

/// A time in seconds, perhaps with a fraction, which is left out (RFC 7519 2).
fn seconds(value: &Value) -> Option<u64> {
    match value {
        // What is before 1970 is long ago.
        Value::Number(number) if number.is_finite() => Some(number.max(0.0) as u64),
        _ => None,
    }
}

/// Topics that a token names for Mercure, and which channels they are.
fn topics(own: &Object, name: &str, patterns: &mut Patterns) -> Result<(), Fault> {
    let Some(Value::List(topics)) = own.get(name) else {
        return match own.get(name) {
            None | Some(Value::Null) => Ok(()),
            Some(_) => fault("publish and subscribe of mercure must be lists of topics"),
        };
    };
    let text = "a topic of the token (mercure) is not a string, or too long";
    for topic in topics {
        let topic = topic.text().ok_or(Fault::Token(text))?;
        let read = match topic {
            topic::ALL => patterns.add("", true),
            topic if template::is_one(topic) => patterns.add_template(Template::read(topic).map_err(Fault::Token)?),
            topic => patterns.add(&topic::channel(topic).map_err(|_| Fault::Token(text))?, false),
        };
        read.ok_or(Fault::Token("a token may have up to 64 topics to publish and 64 to subscribe"))?;
    }
    Ok(())
}

/// The one channel of a token for Centrifugo, and those to which its bearer is subscribed.
type Named = (Option<Box<str>>, Vec<Box<str>>);

/// Channels that a token names for Centrifugo: the one for which it is, and those to which its bearer is subscribed. It grants to read them.
fn centrifugo(claims: &Object, subscribe: &mut Patterns) -> Result<Named, Fault> {
    let text = "channel, channels and subs of the token must name channels: one, a list, and the members of an object";
    let one = match claims.get("channel") {
        None => None,
        Some(channel) => Some(channel.text().ok_or(Fault::Token(text))?),
    };
    let mut all = Vec::new();
    match claims.get("channels") {
        None => {}
        Some(Value::List(channels)) => {
            for channel in channels {
                all.push(channel.text().ok_or(Fault::Token(text))?);
            }
        }
        Some(_) => return fault(text),
    }
    match claims.get("subs") {
        None => {}
        Some(Value::Object(channels)) => all.extend(channels.keys().map(String::as_str)),
        Some(_) => return fault(text),
    }
    for name in one.iter().chain(&all) {
        let channel = topic::channel(name).map_err(|_| Fault::Token(text))?;
        let text = "a token may have up to 64 channels to subscribe, including those of channel, channels and subs";
        subscribe.add(&channel, false).ok_or(Fault::Token(text))?;
    }
    // The claim means the channel, whatever it is called.
    let one = one.and_then(|one| Some(topic::channel(one).ok()?.as_ref().into()));
    Ok((one, all.into_iter().map(Into::into).collect()))
}

impl Unverified<'_> {
    /// What it claims; with `mercure` also by the claim of that name (The Mercure Protocol, draft 07, 6), and with `centrifugo` by those of
    /// Centrifugo.
    ///
    /// # Errors
    /// What of it cannot be read.
    pub fn claims(&self, mercure: bool, centrifugo: bool) -> Result<Claims, Fault> {
        let text = |name: &str| match self.claims.get(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(Box::<str>::from(text.as_str()))),
            Some(_) => fault("iss and jti of the token must be strings"),
        };
        let patterns = |name: &str| match self.claims.get(name) {
            None => Ok(Patterns::default()),
            Some(Value::List(list)) => Patterns::read(list.iter().map(Value::text)).ok_or(Fault::Token(
                "publish, subscribe and presence may have up to 64 channels each, with a * only as the last character",
            )),
            Some(_) => fault("publish, subscribe and presence must be lists of channels"),
        };
        let expires_s = match self.claims.get("exp") {
            None => return fault("the token has no expiry (exp), which is required"),
            Some(expires) => seconds(expires).ok_or(Fault::Token("exp of the token is not a time"))?,
        };
        let begins_s = match self.claims.get("nbf") {
            None => 0,
            Some(begins) => seconds(begins).ok_or(Fault::Token("nbf of the token is not a time"))?,
        };
        let push_s = match self.claims.get("push") {
            None => None,
            Some(until) => Some(seconds(until).ok_or(Fault::Token("push of the token is not a time"))?),
        };
        let audiences = match self.claims.get("aud") {
            None => None,
            Some(Value::Text(one)) => Some(vec![one.as_str().into()]),
            Some(Value::List(all)) => {
                let all: Option<Vec<_>> = all.iter().map(|one| one.text().map(Into::into)).collect();
                Some(all.ok_or(Fault::Token("aud of the token must be a string or a list of strings"))?)
            }
            Some(_) => return fault("aud of the token must be a string or a list of strings"),
        };
        let (issuer, name) = (text("iss")?, text("jti")?);
        if name.as_ref().is_some_and(|name| name.len() > NOTIFY_JWT_JTI_BYTES_MAX) {
            return fault("the jti of the token is longer than 128 bytes");
        }
        let (mut publish, mut subscribe, presence) =
            (patterns("publish")?, patterns("subscribe")?, patterns("presence")?);
        match self.claims.get("mercure").filter(|_| mercure) {
            None | Some(Value::Null) => {}
            Some(Value::Object(own)) => {
                topics(own, "publish", &mut publish)?;
                topics(own, "subscribe", &mut subscribe)?;
            }
            Some(_) => return fault("mercure of the token must be an object"),
        }
        let (channel, channels) = match centrifugo {
            true => self::centrifugo(&self.claims, &mut subscribe)?,
            false => Default::default(),
        };
        // Tokens of one subject belong together. One that was left out would be equal to every other that is left out.
        let subject = match self.claims.get("sub") {
            None => None,
            // So issuers of Centrifugo's tokens write that the bearer has no name.
            Some(Value::Text(subject)) if subject.is_empty() => None,
            Some(Value::Text(subject)) if is_name(subject) => Some(subject.as_str().into()),
            Some(_) => {
                return fault("sub of the token must be a string of up to 128 bytes without control characters");
            }
        };
        Ok(Claims {
            publish,
            subscribe,
            presence,
            subject,
            channel,
            channels,
            expires_s,
            push_s,
            name,
            begins_s,
            issuer,
            audiences,
        })
    }
}

/// Whether others can be told this as the name of a subscriber: it has 1 to [`NOTIFY_SUBJECT_BYTES_MAX`] bytes, and is one line.
pub fn is_name(subject: &str) -> bool {
    (1..=NOTIFY_SUBJECT_BYTES_MAX).contains(&subject.len()) && !subject.chars().any(char::is_control)
}

impl Claims {
    /// Whether they may count here and now.
    pub(super) fn check(&self, access: &Access, now_s: u64) -> Result<(), Fault> {
        if now_s >= self.expires_s {
            return Err(Fault::Expired);
        }
        if self.expires_s - now_s > access.ahead_s_max {
            return fault("exp of the token is further ahead than the server's option notify_jwt_seconds");
        }
        if self.begins_s > now_s.saturating_add(AHEAD_S) {
            return fault("the token is not valid yet (nbf)");
        }
        if access.issuer.is_some() && self.issuer != access.issuer {
            return fault("the token is not from the issuer that the server expects (iss)");
        }
        // RFC 7519 4.1.3: who does not know itself among those that a token is for refuses it.
        let is_for =
            |audience: &str| self.audiences.as_ref().is_some_and(|all| all.iter().any(|one| **one == *audience));
        match &access.audience {
            Some(audience) if !is_for(audience) => return fault("the token is not for this server (aud)"),
            None if self.audiences.is_some() => {
                return fault(
                    "the token has an audience (aud), but the server's option notify_jwt_audience is not set",
                );
            }
            _ => {}
        }
        match access.is_revoked(self.name.as_deref()) {
            true => fault("the token was revoked"),
            false => Ok(()),
        }
    }
}
