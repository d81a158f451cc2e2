//! XMPP Ping (XEP-0199): the answer that shows that the stream works, asked by either side.

use super::change::{Ask, SessionChange};
use super::hook::{Asks, Extension, Xep};
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
pub const EXTENSION: Extension = Extension {
    name: "ping",
    xeps: &[Xep { number: 199, version: "2.0.1", title: "XMPP Ping" }],
    requests: &[FEATURE],
    // XEP-0199 4.1: that an answer came is all that counts, also if it is an error.
    asks: Some(Asks { idle: Some(ask), capable: None, answered: |_, _| SessionChange::default() }),
    ..Extension::NONE
};

fn ask() -> Ask {
    Ask { set: false, payload: b"<ping xmlns='urn:xmpp:ping'/>".to_vec() }
}

fn handle(_: &Context<'_>, _: &IqRequest<'_>) -> Step {
    Step::Result(Vec::new())
}
