//! Session establishment (RFC 3921 3), which RFC 6120 has made superfluous: older clients require
//! an answer.

use super::hook::Extension;
use super::iq::{Context, Feature, IqRequest, ServerFacts, Step, Target, Verbs, always};

/// A request that does nothing.
pub const FEATURE: Feature = Feature {
    namespace: "urn:ietf:params:xml:ns:xmpp-session",
    name: "session",
    targets: &[Target::Server, Target::Own],
    verbs: Verbs::Set,
    offered: always,
    asks_roster: false,
    server_vars: &[],
    account_vars: &[],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "session",
    needed: true,
    requests: &[FEATURE],
    stream_feature: Some(stream_feature),
    ..Extension::NONE
};

/// The stream feature, marked optional so that newer clients omit the request.
const STREAM_FEATURE: &[u8] = b"<session xmlns='urn:ietf:params:xml:ns:xmpp-session'><optional/></session>";

fn stream_feature(_: &ServerFacts, out: &mut Vec<u8>) {
    out.extend_from_slice(STREAM_FEATURE);
}

fn handle(_: &Context<'_>, _: &IqRequest<'_>) -> Step {
    Step::Result(Vec::new())
}
