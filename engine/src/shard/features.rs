//! What a stream offers: before authentication, behind it, and behind a resource.

use crate::extension::{ServerFacts, invite, register};
use crate::id::Domains;
use crate::session::conn::Opening;
use crate::session::sasl::{self, Allowed, ChannelBindings, Form};
use crate::settings::Settings;
use crate::store::hash::Hashes;
use crate::streams::opening::is_private;
use crate::wire::text::Writer;
use crate::{extension, ns};

/// Features that are the same for all connections of a shard. They are made again when settings change.
#[derive(Debug)]
pub(super) struct Features {
    /// What can come with an authentication (XEP-0388 2.1).
    inline: Box<[u8]>,
    /// Behind authentication: a resource first.
    pub(super) bind: Box<[u8]>,
    /// Behind a resource that was bound with the authentication, but for stream management.
    bound: Box<[u8]>,
    /// Tokens are taken before authentication (XEP-0445 3).
    invites: bool,
    /// What may be offered to everybody.
    pub(super) allowed: Allowed,
    /// What accounts can gain (XEP-0480 2.1).
    upgrades: Hashes,
}

impl Features {
    /// Those of a server with these settings. `facts` are those by which service discovery answers (XEP-0115 6.2).
    pub(super) fn of(settings: &Settings, facts: &ServerFacts) -> Features {
        let mut inline = Vec::new();
        let mut w = Writer::new(&mut inline);
        w.empty("sm", ns::SM).open("bind").attribute("xmlns", ns::BIND2).open("inline");
        let own = extension::inlines(facts).map(|(_, inline)| inline.namespace);
        for namespace in own.chain([ns::SM]) {
            w.open("feature").attribute("var", namespace).close();
        }
        w.close().close();
        let mut bound = Vec::new();
        extension::stream_features(facts, &mut bound);
        limits(&mut bound, settings.stanza_bytes_max, settings.idle_s_max);
        let mut bind = b"<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/>".to_vec();
        bind.extend_from_slice(&bound);
        let allowed = Allowed { hashes: settings.scram_hashes, ..Allowed::default() };
        let upgrades = settings.scram_upgrades;
        let invites = invite::is_on(facts);
        Features { inline: inline.into(), bind: bind.into(), bound: bound.into(), invites, allowed, upgrades }
    }

    /// Appends those before authentication (RFC 6120 4.3.2, 5.3.1, 6.3.1, XEP-0388 2.1, XEP-0077 8).
    pub(super) fn write_choice(&self, out: &mut Vec<u8>, opening: &Opening, settings: &Settings, bytes_max: usize) {
        if !opening.secured && opening.listener.starttls {
            out.extend_from_slice(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'>");
            if !is_private(opening) {
                out.extend_from_slice(b"<required/>");
            }
            out.extend_from_slice(b"</starttls>");
        }
        if is_private(opening) {
            let bindings = bindings(opening);
            let outside = settings.domains.is_outside(opening.domain);
            let allowed = allowed_for(opening, &settings.domains, self.allowed, settings.outside_tokens);
            let upgrades = if outside { Hashes::default() } else { self.upgrades };
            sasl::write_bindings(out, bindings.as_ref(), allowed);
            for form in [Form::Sasl1, Form::Sasl2] {
                sasl::write_features(out, form, bindings.as_ref(), allowed, &self.inline, upgrades);
            }
            if opening.listener.registration && !outside {
                if self.invites {
                    out.extend_from_slice(invite::STREAM_FEATURE);
                }
                out.extend_from_slice(register::STREAM_FEATURE);
            }
        }
        limits(out, bytes_max, 0);
    }

    /// Appends the features of a stream that goes on behind its authentication (XEP-0388 2.6.1): with a resource, or for one.
    pub(super) fn write_behind(&self, out: &mut Vec<u8>, bound: bool, managed: bool) {
        out.extend_from_slice(b"<stream:features>");
        if !bound {
            out.extend_from_slice(&self.bind);
        } else {
            if !managed {
                out.extend_from_slice(b"<sm xmlns='urn:xmpp:sm:3'/>");
            }
            out.extend_from_slice(&self.bound);
        }
        out.extend_from_slice(b"</stream:features>");
    }
}

/// What a connection may be offered, of what may be offered to everybody: `tokens` is for users who are kept elsewhere.
pub(super) fn allowed_for(opening: &Opening, domains: &Domains, all: Allowed, tokens: bool) -> Allowed {
    if domains.is_outside(opening.domain) {
        return Allowed::outside(tokens);
    }
    let certificate = opening.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
    Allowed { external: sasl::offers_external(certificate, domains.name(opening.domain)), ..all }
}

/// What a login on this connection can be bound to; there if it is over TLS.
pub(super) fn bindings(opening: &Opening) -> Option<ChannelBindings> {
    opening.secured.then(|| match &opening.tls {
        Some(tls) => {
            let end_point = (!tls.server_end_point.is_empty()).then(|| tls.server_end_point.as_slice().into());
            ChannelBindings { exporter: tls.exporter, server_end_point: end_point }
        }
        None => ChannelBindings::default(),
    })
}

/// What the stream takes (XEP-0478): bytes of a first-level element, and seconds of silence, if these have a limit.
fn limits(out: &mut Vec<u8>, bytes_max: usize, idle_s_max: u32) {
    let (max, idle) = (bytes_max.to_string(), idle_s_max.to_string());
    let mut w = Writer::new(out);
    w.open("limits").attribute("xmlns", ns::STREAM_LIMITS).leaf("max-bytes", &max);
    if idle_s_max > 0 {
        w.leaf("idle-seconds", &idle);
    }
    w.close();
}
