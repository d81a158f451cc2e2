//! What a client keeps between connections, and sends at once on the next: a token (XEP-0484) and
//! the session to resume (XEP-0198), in one round trip (XEP-0388, XEP-0386).
//!
//! This module must never know a stream: it writes and reads elements.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};
use throng_engine::wire::{Child, Element};

use super::{Login, Profile, write};

pub(super) const SASL2: &str = "urn:xmpp:sasl:2";
pub(super) const SM: &str = "urn:xmpp:sm:3";
const BIND2: &str = "urn:xmpp:bind:0";
const FAST: &str = "urn:xmpp:fast:0";

/// The mechanism of a token that is bound to nothing: the same whether there is TLS or not.
const TOKEN_MECHANISM: &str = "HT-SHA-256-NONE";

/// A text for a client, of as many bytes and no more.
type Text = Option<Box<str>>;

/// What a client keeps.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Its token.
    token: Text,
    /// Attempts with it (XEP-0484 3.4).
    count: u32,
    /// The session that it may resume.
    previd: Text,
    /// Stanzas of that session that it has taken (XEP-0198 4).
    pub(super) handled: u32,
    /// What the server has to show for the token, once the client has shown its own.
    expected: Text,
}

/// What a success says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stands {
    /// The session is the one of before.
    Resumed,
    /// It is a new one.
    Bound,
}

impl Kept {
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether the client has shown its token, and waits for what that is worth.
    pub(super) fn shows_token(&self) -> bool {
        self.expected.is_some()
    }

    /// The token is not taken any more: the next login is by password.
    pub(super) fn forget_token(&mut self) {
        (self.token, self.expected) = (None, None);
    }

    /// The session has ended, on either side.
    pub(super) fn forget_session(&mut self) {
        self.previd = None;
    }

    /// `<authenticate/>` with the token, and all that follows.
    pub(super) fn show_token(&mut self, profile: &Profile, name: &str, out: &mut Vec<u8>) {
        let Some(token) = &self.token else { return };
        self.count += 1;
        let tag = |what: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes()), what);
        let message = [name.as_bytes(), b"\0", tag(b"Initiator").as_ref()].concat();
        self.expected = Some(STANDARD.encode(tag(b"Responder")).into());
        begin(TOKEN_MECHANISM, &STANDARD.encode(message), name, out);
        write(out, &["<fast xmlns='", FAST, "' count='", &self.count.to_string(), "'/>"]);
        self.finish(profile, out);
    }

    /// The same with the first message of a mechanism for passwords.
    pub(super) fn show_password(
        &mut self,
        profile: &Profile,
        mechanism: &str,
        first: &str,
        name: &str,
        out: &mut Vec<u8>,
    ) {
        begin(mechanism, first, name, out);
        if profile.login == Login::Fast {
            write(out, &["<request-token xmlns='", FAST, "' mechanism='", TOKEN_MECHANISM, "'/>"]);
        }
        self.finish(profile, out);
    }

    fn finish(&self, profile: &Profile, out: &mut Vec<u8>) {
        if let Some(previd) = &self.previd {
            write(out, &["<resume xmlns='", SM, "' h='", &self.handled.to_string(), "' previd='"]);
            throng_engine::wire::text::escape_value_into(out, previd);
            write(out, &["'/>"]);
        }
        write(out, &["<bind xmlns='", BIND2, "'>"]);
        if !profile.resource.is_empty() {
            write(out, &["<tag>"]);
            throng_engine::wire::text::escape_into(out, &profile.resource);
            write(out, &["</tag>"]);
        }
        if profile.resumes {
            write(out, &["<enable xmlns='", SM, "' resume='true'/>"]);
        }
        write(out, &["</bind></authenticate>"]);
    }

    /// Reads `<success/>`, but for the proof of a mechanism for passwords.
    ///
    /// # Errors
    /// The server has not shown that it has the token, or has begun no session.
    pub(super) fn succeeded(&mut self, success: &Element<'_>) -> Result<Stands, &'static str> {
        if let Some(expected) = self.expected.take()
            && additional_data(success).as_deref() != Some(&*expected)
        {
            return Err("the server's proof is missing or wrong");
        }
        if let Some(token) = success.child("token", FAST).and_then(|token| token.attribute("token")) {
            (self.token, self.count) = (Some(token.into()), 0);
        }
        if success.child("resumed", SM).is_some() {
            return Ok(Stands::Resumed);
        }
        let bound: Option<Child<'_>> = success.child("bound", BIND2);
        let bound = bound.ok_or("the server has bound no resource")?;
        // Only `<enabled/>` has an id here.
        let inner = String::from_utf8_lossy(bound.inner()).into_owned();
        let id = inner.split_once("<enabled ").and_then(|(_, rest)| attribute(rest.split('>').next()?, "id"));
        (self.previd, self.handled) = (id.map(Into::into), 0);
        Ok(Stands::Bound)
    }

    /// Whether stanzas are counted.
    pub(super) fn counts(&self) -> bool {
        self.previd.is_some()
    }

    /// `<a/>` (XEP-0198 4).
    pub(super) fn acknowledge(&self, out: &mut Vec<u8>) {
        write(out, &["<a xmlns='", SM, "' h='", &self.handled.to_string(), "'/>"]);
    }
}

/// What the mechanism says at the end, in base64.
pub(super) fn additional_data(success: &Element<'_>) -> Option<String> {
    success.child("additional-data", SASL2).map(|data| data.text().trim().to_owned())
}

/// The value of an attribute of a start tag that needs no unescaping.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let at = tag.find(&format!("{name}=")).filter(|at| *at == 0 || tag.as_bytes()[at - 1] == b' ')?;
    let rest = &tag[at + name.len() + 1..];
    let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    rest[1..].split_once(quote).map(|(value, _)| value)
}

fn begin(mechanism: &str, first: &str, name: &str, out: &mut Vec<u8>) {
    write(out, &["<authenticate xmlns='", SASL2, "' mechanism='", mechanism, "'><initial-response>", first]);
    write(out, &["</initial-response><user-agent id='", &agent(name), "'/>"]);
}

/// A UUID v4 that is the account's alone: there is one client of each.
fn agent(name: &str) -> String {
    let hash = digest::digest(&digest::SHA256, name.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_ref()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
