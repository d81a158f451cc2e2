//! Software Version (XEP-0092): name, version and, if the operator permits, the operating system.

use super::hook::{Extension, Xep};
use super::iq::{Context, Feature, IqRequest, Step, Target, Verbs, always};
use super::xml;

/// The name of the software.
pub const SOFTWARE: &str = "Throng";

/// XEP-0092 2, for the server.
pub const FEATURE: Feature = Feature {
    namespace: "jabber:iq:version",
    name: "query",
    targets: &[Target::Server, Target::Own],
    verbs: Verbs::Get,
    offered: always,
    asks_roster: false,
    server_vars: &["jabber:iq:version"],
    account_vars: &[],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "version",
    xeps: &[Xep { number: 92, version: "1.1", title: "Software Version" }],
    requests: &[FEATURE],
    ..Extension::NONE
};

fn handle(context: &Context<'_>, _: &IqRequest<'_>) -> Step {
    let mut out = b"<query xmlns='jabber:iq:version'>".to_vec();
    xml::text_element(&mut out, "name", SOFTWARE);
    xml::text_element(&mut out, "version", &context.server.version);
    if let Some(os) = &context.server.os {
        xml::text_element(&mut out, "os", os);
    }
    out.extend_from_slice(b"</query>");
    Step::Result(out)
}
