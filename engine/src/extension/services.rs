//! External Service Discovery (XEP-0215): the STUN and TURN servers that clients need for calls,
//! with temporary credentials.
//!
//! The credentials are those of a TURN server that shares a secret with this one ("A REST API for
//! access to TURN services", draft-uberti-behave-turn-rest-00; coturn's `use-auth-secret`): the
//! user name begins with the second in which they expire, and the password is its HMAC-SHA-1. The
//! servers do not have to communicate.

use super::datetime::{self, Precision};
use super::hook::{Extension, Xep};
use super::iq::{Condition, Context, Feature, IqRequest, ServerFacts, Step, Target, Verbs};
use super::service::Service;
use super::xml;
use crate::store::hash::HashKind;
use crate::wire::jid::bare_of;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const NS: &str = "urn:xmpp:extdisco:2";

/// All services, or those of a type (XEP-0215 3.1, 3.2). Updates are not pushed: the list changes
/// only at a restart.
const SERVICES: Feature = Feature {
    namespace: NS,
    name: "services",
    targets: &[Target::Server, Target::Own],
    verbs: Verbs::Get,
    offered: |server| !server.services.list.is_empty(),
    asks_roster: false,
    server_vars: &[NS],
    account_vars: &[],
    handle: services,
};

/// Credentials for one service (XEP-0215 3.3).
const CREDENTIALS: Feature = Feature { name: "credentials", server_vars: &[], handle: credentials, ..SERVICES };

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "services",
    xeps: &[Xep { number: 215, version: "1.0.0", title: "External Service Discovery" }],
    requests: &[SERVICES, CREDENTIALS],
    ..Extension::NONE
};

impl Service {
    fn write(&self, out: &mut Vec<u8>, credentials: Option<&Credentials>) {
        out.extend_from_slice(b"<service");
        xml::attribute(out, "type", self.kind.name());
        xml::attribute(out, "host", &self.host);
        xml::attribute(out, "port", &self.port.to_string());
        xml::attribute(out, "transport", self.transport());
        if let Some(credentials) = credentials.filter(|_| self.kind.is_relay()) {
            xml::attribute(out, "restricted", "true");
            xml::attribute(out, "username", &credentials.user);
            xml::attribute(out, "password", &credentials.password);
            xml::attribute(out, "expires", &credentials.expires);
        }
        out.extend_from_slice(b"/>");
    }
}

struct Credentials {
    user: String,
    password: String,
    expires: String,
}

impl Credentials {
    /// New credentials for an account. The relay and an eavesdropper on the client's path to it can
    /// read the user name. Therefore it has no JID, but a prefix of its HMAC-SHA-256, by which the
    /// operator can identify the user.
    fn of(server: &ServerFacts, now_us: u64, account: &str) -> Option<Credentials> {
        let secret = server.services.secret.as_ref()?.0.as_bytes();
        let expires_s = now_us / 1_000_000 + u64::from(server.services.lifetime_s);
        let name = HashKind::Sha256.hmac(secret, &[account.as_bytes()]);
        let name = name.as_bytes()[..8].iter().fold(String::new(), |name, byte| format!("{name}{byte:02x}"));
        let user = format!("{expires_s}:{name}");
        let password = STANDARD.encode(HashKind::Sha1.hmac(secret, &[user.as_bytes()]).as_bytes());
        Some(Credentials { user, password, expires: datetime::text(expires_s * 1_000_000, Precision::Seconds) })
    }
}

fn services(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some(query) = xml::parse(request.payload) else { return Step::Error(Condition::BadRequest.into()) };
    let kind = query.attr("type");
    let credentials = Credentials::of(context.server, context.now.wall_us, bare_of(request.from));
    let mut out = b"<services".to_vec();
    xml::attribute(&mut out, "xmlns", NS);
    if let Some(kind) = kind {
        xml::attribute(&mut out, "type", kind);
    }
    out.push(b'>');
    let wanted = |service: &&Service| kind.is_none_or(|kind| service.kind.name() == kind);
    let list = context.server.services.list.iter().filter(wanted);
    list.for_each(|service| service.write(&mut out, credentials.as_ref()));
    out.extend_from_slice(b"</services>");
    Step::Result(out)
}

fn credentials(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let query = xml::parse(request.payload);
    let asked = query.as_ref().and_then(|query| {
        let mut services = query.children().filter(|child| child.is("service", NS));
        let (service, None) = (services.next()?, services.next()) else { return None };
        Some((service.attr("host")?, service.attr("type")?, service.attr("port")))
    });
    let Some((host, kind, port)) = asked else { return Step::Error(Condition::BadRequest.into()) };
    let credentials = Credentials::of(context.server, context.now.wall_us, bare_of(request.from));
    let is_it = |service: &&Service| {
        *service.host == *host
            && service.kind.name() == kind
            && service.kind.is_relay()
            && port.is_none_or(|port| port.parse() == Ok(service.port))
    };
    let mut found = context.server.services.list.iter().filter(is_it).peekable();
    // XEP-0215 3.3: there is no such service, or it has no credentials.
    if credentials.is_none() || found.peek().is_none() {
        return Step::Error(Condition::ItemNotFound.into());
    }
    let mut out = b"<credentials".to_vec();
    xml::attribute(&mut out, "xmlns", NS);
    out.push(b'>');
    found.for_each(|service| service.write(&mut out, credentials.as_ref()));
    out.extend_from_slice(b"</credentials>");
    Step::Result(out)
}

#[cfg(test)]
mod tests {
    use super::super::service::{Services, SharedSecret};
    use super::*;
    use std::sync::Arc;

    /// Computed with `printf '%s' NAME | openssl dgst -sha1 -hmac SECRET -binary | base64`, as
    /// coturn does.
    #[test]
    fn credentials_are_those_that_a_relay_computes() {
        let secret = Some(SharedSecret("a secret of the relay".into()));
        let services = Services { list: Arc::default(), secret, lifetime_s: 86_400 };
        let server = ServerFacts { services, ..ServerFacts::default() };
        let made = Credentials::of(&server, 1_700_000_000_999_999, "juliet@capulet.com").unwrap();
        assert_eq!(made.expires, "2023-11-15T22:13:20Z");
        assert!(made.user.starts_with("1700086400:") && !made.user.contains("juliet"), "{}", made.user);
        let other = Credentials::of(&server, 1_700_000_000_999_999, "romeo@capulet.com").unwrap();
        assert_ne!(made.user, other.user);
        assert_eq!(
            STANDARD.encode(HashKind::Sha1.hmac(b"a secret of the relay", &[b"1700086400:x"]).as_bytes()),
            "IejKnKtnA/nH1xXlOM/Mw6fLlPo="
        );
    }
}
