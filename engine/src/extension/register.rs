//! In-Band Registration (XEP-0077): creating an account before authentication, and changing the
//! password and cancelling the account after it. It must never know how a password is stored.

use super::hook::{Extension, Xep};
use super::iq::{AccountAction, Condition, Context, Feature, IqRequest, Limit, Rule, ServerFacts, Step, Target, Verbs};
use super::xml;
use crate::limits::{JID_PART_BYTES_MAX, PASSWORD_BYTES_MAX};
use minidom::Element;

/// The namespace of in-band registration.
pub const NS: &str = "jabber:iq:register";

/// The stream feature that announces it to a client before authentication (XEP-0077 7), only where
/// [`ServerFacts::registration`] is set.
pub const STREAM_FEATURE: &[u8] = b"<register xmlns='http://jabber.org/features/iq-register'/>";

/// After authentication: XEP-0077 3.2, 3.3.
pub const FEATURE: Feature = Feature {
    namespace: NS,
    name: "query",
    targets: &[Target::Server, Target::Own],
    verbs: Verbs::GetSet,
    offered: |server| server.registration || server.account_changes,
    asks_roster: false,
    server_vars: &[NS],
    account_vars: &[],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "register",
    xeps: &[Xep { number: 77, version: "2.4", title: "In-Band Registration" }],
    requests: &[FEATURE],
    ..Extension::NONE
};

/// A request on a stream before authentication (XEP-0077 3.1): `None` if it is not about
/// registration, which RFC 6120 4.9.3.12 answers with a stream error. `secure` says whether the
/// connection may carry a password, `invited` whether it has presented a token that permits
/// registration (XEP-0445 4).
pub fn before_authentication(
    server: &ServerFacts,
    secure: bool,
    invited: bool,
    local: fn(&str) -> Option<Box<str>>,
    set: bool,
    payload: &[u8],
) -> Option<Step> {
    if xml::is_dense(payload) {
        return Some(Step::Error(Limit::Elements.into()));
    }
    let query = xml::parse(payload).filter(|element| element.is("query", NS))?;
    Some(if !server.registration {
        Step::Error(Condition::ServiceUnavailable.into())
    } else if !secure {
        Step::Error(Condition::NotAuthorized.into())
    } else if !set {
        // Clients request the form before anything else.
        form(if server.rule == Rule::Invite && !invited { INVITED } else { ANYBODY })
    } else if server.rule == Rule::Invite && !invited {
        Step::Error(Limit::Invited.into())
    } else if child(&query, "remove").is_some() {
        // XEP-0077 3.2: without an account there is nothing to remove.
        Step::Error(Condition::UnexpectedRequest.into())
    } else {
        create(&query, local)
    })
}

const ANYBODY: &str = "Choose a username and password.";
const INVITED: &str = "Registration is by invitation only: open the link of your invitation.";

fn form(instructions: &str) -> Step {
    Step::Result(
        format!("<query xmlns='{NS}'><instructions>{instructions}</instructions><username/><password/></query>")
            .into_bytes(),
    )
}

fn create(query: &Element, local: fn(&str) -> Option<Box<str>>) -> Step {
    let (Some(username), Some(password)) = (field(query, "username"), field(query, "password")) else {
        // XEP-0077 3.1: requires all requested fields and a password that is not empty.
        return Step::Error(Limit::Credentials.into());
    };
    if username.len() > JID_PART_BYTES_MAX || password.len() > PASSWORD_BYTES_MAX {
        return Step::Error(Limit::Credentials.into());
    }
    match local(&username) {
        Some(local) => Step::Account(AccountAction::Create { local, password: password.into() }),
        None => Step::Error(Limit::Credentials.into()),
    }
}

fn handle(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some(query) = xml::parse(request.payload).filter(|element| element.is("query", NS)) else {
        return Step::Error(Condition::BadRequest.into());
    };
    if !request.set {
        return registered(request.account);
    }
    if !context.server.account_changes {
        return Step::Error(Condition::NotAllowed.into());
    }
    if child(&query, "remove").is_some() {
        // XEP-0077 3.2: it must be the only child.
        let alone = query.children().count() == 1;
        return if alone { Step::Account(AccountAction::Remove) } else { Step::Error(Condition::BadRequest.into()) };
    }
    change_password(context, request.account, &query)
}

/// XEP-0077 3.1: the existing account, without its password.
fn registered(account: &str) -> Step {
    let local = account.split_once('@').map_or(account, |(local, _)| local);
    let mut out = format!("<query xmlns='{NS}'><registered/>").into_bytes();
    xml::text_element(&mut out, "username", local);
    out.extend_from_slice(b"<password/></query>");
    Step::Result(out)
}

fn change_password(context: &Context<'_>, account: &str, query: &Element) -> Step {
    if !context.secure {
        return Step::Error(Condition::NotAuthorized.into());
    }
    // XEP-0077 3.3: an incomplete request or an empty password leaves the old one unchanged.
    let (Some(username), Some(password)) = (field(query, "username"), field(query, "password")) else {
        return Step::Error(Condition::BadRequest.into());
    };
    let own = match username.contains('@') {
        true => (context.bare)(&username).as_deref() == Some(account),
        false => (context.local)(&username).as_deref() == account.split_once('@').map(|(local, _)| local),
    };
    if !own {
        // A user may not change another user's password, and accounts are created before
        // authentication.
        return Step::Error(Condition::NotAllowed.into());
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Step::Error(Limit::Credentials.into());
    }
    Step::Account(AccountAction::ChangePassword { password: password.into() })
}

fn child<'a>(query: &'a Element, name: &str) -> Option<&'a Element> {
    query.children().find(|child| child.is(name, NS))
}

fn field(query: &Element, name: &str) -> Option<String> {
    child(query, name).map(Element::text).filter(|text| !text.is_empty())
}
