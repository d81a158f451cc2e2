//! SOCKS5 Bytestreams (XEP-0065): the address of the proxy, and who may activate a bytestream
//! through it. The server relays the bytes (`throng`'s `bytestreams`); it receives an activation
//! and returns the outcome ([`Activation`], [`Activated`]).

pub mod stream;

use std::sync::Arc;

use super::hook::{Entity, Extension, Xep};
use super::iq::{Condition, Context, Feature, IqRequest, Limit, Refusal, Step, Target, Verbs};
use super::xml;
use crate::id::Service;
use crate::wire::jid::bare_of;

pub use stream::{Activated, Activation, StreamHash, StreamHost, stream_hash};

const NS: &str = "http://jabber.org/protocol/bytestreams";

/// The address (XEP-0065 4), and the activation of a bytestream (6.3.5).
const QUERY: Feature = Feature {
    namespace: NS,
    name: "query",
    targets: &[Target::Service(Service::Bytestreams)],
    verbs: Verbs::GetSet,
    offered: |server| server.bytestreams.is_some(),
    asks_roster: false,
    server_vars: &[],
    account_vars: &[],
    handle: query,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "bytestreams",
    xeps: &[Xep { number: 65, version: "1.8.2", title: "SOCKS5 Bytestreams" }],
    requests: &[QUERY],
    entity: Some(Entity {
        service: Service::Bytestreams,
        identity: ("proxy", "bytestreams", "SOCKS5 Bytestreams"),
        vars: &[NS],
        forms: |_, _| {},
        nodes: None,
    }),
    ..Extension::NONE
};

fn query(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some(host) = &context.server.bytestreams else { return Step::Error(Condition::NotAllowed.into()) };
    match request.set {
        false => address(host, request.to),
        true => activate(context, request),
    }
}

fn address(host: &Arc<StreamHost>, service: &str) -> Step {
    let mut out = b"<query".to_vec();
    xml::attribute(&mut out, "xmlns", NS);
    out.extend_from_slice(b"><streamhost");
    xml::attribute(&mut out, "jid", service);
    xml::attribute(&mut out, "host", &host.host);
    xml::attribute(&mut out, "port", &host.port.to_string());
    out.extend_from_slice(b"/></query>");
    Step::Result(out)
}

fn activate(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let query = xml::parse(request.payload);
    let asked = query.as_ref().and_then(|query| {
        // Exactly one child (XEP-0065 9.1).
        let mut children = query.children();
        let (activate, None) = (children.next()?, children.next()) else { return None };
        let sid = query.attr("sid").filter(|sid| !sid.is_empty())?;
        activate.is("activate", NS).then(|| (sid, activate.text()))
    });
    let Some((sid, target)) = asked else { return Step::Error(Condition::BadRequest.into()) };
    if query.as_ref().and_then(|query| query.attr("mode")).is_some_and(|mode| mode != "tcp") {
        // XEP-0065 8: datagrams are optional and not supported.
        return Step::Error(Condition::FeatureNotImplemented.into());
    }
    let Some(target) = (context.jid)(target.trim()) else { return Step::Error(Condition::JidMalformed.into()) };
    let user = bare_of(request.from).into();
    Step::Activate(Activation { user, stream: stream_hash(sid, request.from, &target) })
}

/// The answer to the requester: an empty result or the reason for the failure (XEP-0065 6.3.5).
///
/// # Errors
/// The outcome is a failure.
pub fn outcome(activated: Activated) -> Result<(), Refusal> {
    Err(match activated {
        Activated::Done => return Ok(()),
        // Either the requester or the hash differs: the hash alone does not show which.
        Activated::Unknown => Condition::ItemNotFound.into(),
        Activated::Alone => Condition::NotAllowed.into(),
        Activated::TooMany => Limit::Bytestreams.into(),
        Activated::Failed => Condition::InternalServerError.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_the_conditions_of_the_text_xep0065_6_3_5() {
        assert_eq!(outcome(Activated::Done), Ok(()));
        for (activated, condition) in [
            (Activated::Unknown, Condition::ItemNotFound),
            (Activated::Alone, Condition::NotAllowed),
            (Activated::TooMany, Condition::ResourceConstraint),
            (Activated::Failed, Condition::InternalServerError),
        ] {
            assert_eq!(outcome(activated).map_err(|refusal| refusal.condition), Err(condition));
        }
    }
}
