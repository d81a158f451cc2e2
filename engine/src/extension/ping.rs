//! XMPP Ping (XEP-0199): a request in either direction whose answer proves that the stream works.

use super::change::{Ask, SessionChange};
use super::hook::{Asks, Extension, Xep};
use super::iq::{Context, Feature, IqRequest, Step, Target, Verbs, always};

/// XEP-0199 4.2: to the server, to the user's own bare JID, or without an address.
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
    // XEP-0199 4.1: any answer will do, even an error.
    asks: Some(Asks { idle: Some(ask), capable: None, answered: |_, _| SessionChange::default() }),
    ..Extension::NONE
};

fn ask() -> Ask {
    Ask { set: false, payload: b"<ping xmlns='urn:xmpp:ping'/>".to_vec() }
}

fn handle(_: &Context<'_>, _: &IqRequest<'_>) -> Step {
    Step::Result(Vec::new())
}
