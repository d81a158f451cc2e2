//! XMPP Ping (XEP-0199): the answer that shows that the stream works.

use super::hook::Extension;
use super::iq::{Context, Feature, IqRequest, Step, Target, Verbs, always};

/// XEP-0199 4.2: to the server, or to one's own bare JID or nobody.
pub const FEATURE: Feature = Feature {
    namespace: "urn:xmpp:ping",
    name: "ping",
    targets: &[Target::Server, Target::Own],
    verbs: Verbs::Get,
    offered: always,
    asks_roster: false,
    server_vars: &["urn:xmpp:ping"],
    account_vars: &["urn:xmpp:ping"],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension { name: "ping", requests: &[FEATURE], ..Extension::NONE };

fn handle(_: &Context<'_>, _: &IqRequest<'_>) -> Step {
    Step::Result(Vec::new())
}
