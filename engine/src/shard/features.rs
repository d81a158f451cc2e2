//! Stream features: before authentication, after it, and after resource binding.

use crate::extension::{ServerFacts, invite, register};
use crate::id::Domains;
use crate::session::conn::Opening;
use crate::session::sasl::{self, Allowed, ChannelBindings, Form};
use crate::settings::Settings;
use crate::store::hash::Hashes;
use crate::streams::opening::is_private;
use crate::wire::text::Writer;
use crate::{extension, ns};

/// Features that are the same for all connections of a shard. They are rebuilt when settings
/// change.
#[derive(Debug)]
pub(super) struct Features {
    /// What can be inlined into an authentication (XEP-0388 2.1).
    inline: Box<[u8]>,
    /// Features after authentication, where a resource must be bound first.
    pub(super) bind: Box<[u8]>,
    /// Features after a resource was bound with the authentication, except stream management.
    bound: Box<[u8]>,
    /// Whether tokens are accepted before authentication (XEP-0445 3).
    invites: bool,
    /// Mechanisms that may be offered to every connection.
    pub(super) allowed: Allowed,
    /// Keys that accounts can gain (XEP-0480 2.1).
    upgrades: Hashes,
}

impl Features {
    /// The features of a server with these settings. `facts` are those that service discovery
    /// reports (XEP-0115 6.2).
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

    /// Appends the features before authentication (RFC 6120 4.3.2, 5.3.1, 6.3.1, XEP-0388 2.1,
    /// XEP-0077 8).
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

    /// Appends the features of a stream that continues after its authentication (XEP-0388 2.6.1):
    /// with a bound resource, or for binding one.
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

/// What a connection may be offered out of `all`; `tokens` applies to users of an external back
/// end.
pub(super) fn allowed_for(opening: &Opening, domains: &Domains, all: Allowed, tokens: bool) -> Allowed {
    if domains.is_outside(opening.domain) {
        return Allowed::outside(tokens);
    }
    let certificate = opening.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
    Allowed { external: sasl::offers_external(certificate, domains.name(opening.domain)), ..all }
}

/// The channel bindings of a connection; `None` without TLS.
pub(super) fn bindings(opening: &Opening) -> Option<ChannelBindings> {
    opening.secured.then(|| match &opening.tls {
        Some(tls) => {
            let end_point = (!tls.server_end_point.is_empty()).then(|| tls.server_end_point.as_slice().into());
            ChannelBindings { exporter: tls.exporter, server_end_point: end_point }
        }
        None => ChannelBindings::default(),
    })
}

/// The stream limits (XEP-0478): bytes of a first-level element, and seconds of silence, where they
/// are limited.
fn limits(out: &mut Vec<u8>, bytes_max: usize, idle_s_max: u32) {
    let (max, idle) = (bytes_max.to_string(), idle_s_max.to_string());
    let mut w = Writer::new(out);
    w.open("limits").attribute("xmlns", ns::STREAM_LIMITS).leaf("max-bytes", &max);
    if idle_s_max > 0 {
        w.leaf("idle-seconds", &idle);
    }
    w.close();
}
