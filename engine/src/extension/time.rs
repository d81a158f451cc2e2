//! Entity Time (XEP-0202): the server's time. The engine knows no time zone, so the offset is that of UTC.

use super::datetime::{self, Precision};
use super::hook::{Extension, Xep};
use super::iq::{Context, Feature, IqRequest, Step, Target, Verbs, always};

/// XEP-0202 2, for the server.
pub const FEATURE: Feature = Feature {
    namespace: "urn:xmpp:time",
    name: "time",
    targets: &[Target::Server, Target::Own],
    verbs: Verbs::Get,
    offered: always,
    asks_roster: false,
    server_vars: &["urn:xmpp:time"],
    account_vars: &[],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "time",
    xeps: &[Xep { number: 202, version: "2.0", title: "Entity Time" }],
    requests: &[FEATURE],
    ..Extension::NONE
};

fn handle(context: &Context<'_>, _: &IqRequest<'_>) -> Step {
    let mut out = b"<time xmlns='urn:xmpp:time'><tzo>+00:00</tzo><utc>".to_vec();
    datetime::write(&mut out, context.now.wall_us, Precision::Seconds);
    out.extend_from_slice(b"</utc></time>");
    Step::Result(out)
}
