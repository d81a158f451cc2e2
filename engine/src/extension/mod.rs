//! What the server does beyond carrying stanzas: one file an extension, as pure functions that return closed enums.
//!
//! A feature never reads, writes or sends, and never calls another one: it is handed what it needs and says what should
//! follow; `shard` carries it out. What is answered to an IQ request stands in [`TABLE`], and service discovery
//! advertises from the same table, so that what is advertised is what is there.

pub mod caps;
pub mod datetime;
pub mod disco;
pub mod iq;
pub mod last;
pub mod offline;
pub mod ping;
pub mod presence;
pub mod private;
pub mod register;
pub mod roster;
pub mod roster_iq;
pub mod session;
pub mod subscription;
pub mod time;
pub mod version;
pub mod xml;

pub use iq::{
    AccountAction, Condition, Context, Feature, IqRequest, Limit, Refusal, Resume, RosterRequest, ServerFacts, Step,
    Target, Verbs,
};

use crate::store::Found;

/// Every feature that answers an IQ request.
pub static TABLE: &[Feature] = &[
    disco::INFO,
    disco::ITEMS,
    last::FEATURE,
    ping::FEATURE,
    private::FEATURE,
    register::FEATURE,
    roster_iq::FEATURE,
    session::FEATURE,
    time::FEATURE,
    version::FEATURE,
];

/// The feature that answers a payload, if it is offered.
pub fn find(server: &ServerFacts, namespace: &str, name: &str) -> Option<&'static Feature> {
    TABLE.iter().find(|feature| feature.namespace == namespace && feature.name == name && (feature.offered)(server))
}

/// Answers a request that no session is to get: by its feature, or with the error for a payload that nobody knows
/// (RFC 6120 8.3.3.19, 8.4).
pub fn handle(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some(feature) = find(context.server, request.namespace, request.name) else {
        return Step::Error(Condition::ServiceUnavailable.into());
    };
    if !feature.targets.contains(&request.target) {
        // Somebody else's data, as opposed to something that the target does not do.
        let private = request.target == Target::Other && *feature.targets == [Target::Own];
        return Step::Error(if private { Condition::Forbidden } else { Condition::ServiceUnavailable }.into());
    }
    match (feature.verbs, request.set) {
        (Verbs::Get, true) | (Verbs::Set, false) => Step::Error(Condition::BadRequest.into()),
        _ if xml::is_dense(request.payload) => Step::Error(Limit::Elements.into()),
        _ => (feature.handle)(context, request),
    }
}

/// Goes on with a request whose reads are done.
pub fn resume(resume: Resume, found: &[Found]) -> Step {
    match resume {
        Resume::Last { asked_us } => last::resume(asked_us, found),
        Resume::PrivateGet { empty } => private::resume_get(empty, found),
        Resume::PrivateSet { account, elements } => private::resume_set(&account, elements, found),
    }
}

/// Appends the stream features of an authenticated client that stand for features of this room: roster versioning (RFC
/// 6121 2.6.1), pre-approval (3.4.1), session establishment (optional, RFC 3921 3), entity capabilities (XEP-0115 6.3).
pub fn stream_features(server: &ServerFacts, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<ver xmlns='urn:xmpp:features:rosterver'/>");
    out.extend_from_slice(b"<sub xmlns='urn:xmpp:features:pre-approval'/>");
    out.extend_from_slice(session::STREAM_FEATURE);
    caps::stream_feature(&disco::verification(server), out);
}

#[cfg(test)]
mod tests;
