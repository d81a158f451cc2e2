//! Invitations: a token with which somebody can register an account (XEP-0445), become a user's
//! contact (XEP-0379), or both (XEP-0401).
//!
//! This folder knows tokens, addresses and requests. The actor's home knows which invitations exist
//! and how often each can be used ([`store::invitation`](crate::store::invitation)); the commands
//! that create them are with the other commands ([`super::adhoc`]).

pub mod links;
pub mod may;
pub mod names;
pub mod token;

use super::hook::{Extension, Xep};
use super::iq::ServerFacts;
use super::xml;

/// The namespace of a presented token (XEP-0379, XEP-0445 4).
pub const NS: &str = "urn:xmpp:pars:0";

/// The stream feature (XEP-0445 3).
pub const STREAM_FEATURE: &[u8] = b"<register xmlns='urn:xmpp:ibr-token:0'/>";

const NAME: &str = "invite";

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: NAME,
    xeps: &[
        Xep { number: 379, version: "0.3.3", title: "Pre-Authenticated Roster Subscription" },
        Xep { number: 401, version: "0.6.0", title: "Ad-hoc Account Invitation Generation" },
        Xep { number: 445, version: "0.2.0", title: "Pre-Authenticated In-Band Registration" },
    ],
    ..Extension::NONE
};

/// Whether invitations are switched on.
pub fn is_on(server: &ServerFacts) -> bool {
    let place = super::TABLE.iter().position(|extension| extension.name == NAME);
    place.is_some_and(|place| server.has(place))
}

/// Whether accounts can be registered by invitation.
pub fn registers(server: &ServerFacts) -> bool {
    server.registration && is_on(server)
}

/// The token that a payload presents; empty if the element has none. `None` for another payload.
pub fn shown(payload: &[u8]) -> Option<String> {
    if memchr::memmem::find(payload, NS.as_bytes()).is_none() || xml::is_dense(payload) {
        return None;
    }
    let element = xml::parse(payload)?;
    element.is("preauth", NS).then(|| element.attr("token").unwrap_or_default().to_owned())
}

/// The token in a subscription request (XEP-0379 3.4), if there is one.
pub fn with_request(presence: &[u8]) -> Option<String> {
    if memchr::memmem::find(presence, NS.as_bytes()).is_none() || xml::is_dense(presence) {
        return None;
    }
    let presence = xml::parse(presence)?;
    Some(presence.get_child("preauth", NS)?.attr("token")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_where_it_may_be() {
        let preauth = "<preauth xmlns='urn:xmpp:pars:0' token='abc'/>";
        assert_eq!(shown(preauth.as_bytes()).as_deref(), Some("abc"));
        assert_eq!(shown(b"<preauth xmlns='urn:xmpp:pars:0'/>").as_deref(), Some(""));
        assert_eq!(shown(b"<query xmlns='jabber:iq:register'/>"), None);
        let presence = |inner: &str| format!("<presence type='subscribe'>{inner}</presence>").into_bytes();
        assert_eq!(with_request(&presence(preauth)).as_deref(), Some("abc"));
        let within = format!("<other xmlns='x'>{preauth}</other>");
        assert_eq!(with_request(&presence(&within)), None, "of the stanza itself only");
        assert_eq!(with_request(&presence("<preauth xmlns='urn:xmpp:pars:0'/>")), None);
        assert_eq!(with_request(&presence("urn:xmpp:pars:0")), None);
    }
}
