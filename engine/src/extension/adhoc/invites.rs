//! Invitations by command (XEP-0401 6).

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::command::{Command, Who, no_text};
use super::form::{Field, Filled, Form, result};
use crate::extension::datetime::{self, Precision};
use crate::extension::invite;
use crate::extension::invite::links::Links;
use crate::extension::invite::may::Invitations;
use crate::extension::iq::{Condition, Context, Refusal};
use crate::limits::{INVITATIONS_INVITER_MAX, INVITATIONS_USER_MAX};
use crate::orders::{Outcome, Wanted};
use crate::store::invitation::NewInvitation;

/// The type of the form with an invitation (XEP-0401 11.1).
const INVITATION: &str = "urn:xmpp:invite#invitation";

pub(super) static COMMANDS: &[Command] = &[
    // 6.1
    Command {
        node: "urn:xmpp:invite#invite",
        name: "Invite user",
        who: Who::Users,
        form: None,
        now: no_text,
        at_once: Some(invite_contact),
        read: |_, _| Err(BAD_PAYLOAD),
        tell: |_| Vec::new(),
    },
    // 6.4
    Command {
        node: "urn:xmpp:invite#create-account",
        name: "Create account",
        who: Who::Inviters,
        form: Some(Form {
            form_type: "urn:xmpp:invite#create-account",
            title: "Create account",
            fields: &[
                Field::new("username", "text-single", "Username; any if left empty", false),
                Field::new("roster-subscription", "boolean", "Become contacts", false),
            ],
        }),
        now: no_text,
        at_once: None,
        read: create_account,
        tell: |outcome| match outcome {
            Outcome::Invited { uri, page, until_s } => {
                form(&Links { uri: uri.clone(), page: page.clone(), until_s: *until_s })
            }
            _ => Vec::new(),
        },
    },
];

fn invite_contact(context: &Context<'_>, sender: &str) -> Wish {
    let decides = context.admin || context.inviter;
    Wish::Invite(NewInvitation {
        // If nobody can register with it, the result says so (XEP-0401 6.1).
        registers: invite::registers(context.server)
            && !context.domains.keeps_outside(sender)
            && (decides || context.invitations == Invitations::Accounts),
        befriends: true,
        is_named: false,
        is_trusted: decides,
        uses: 1,
        life_s: context.invitation_s,
        inviter: sender.into(),
        most: if decides { INVITATIONS_INVITER_MAX } else { INVITATIONS_USER_MAX },
    })
}

fn create_account(context: &Context<'_>, filled: &Filled) -> Result<Wish, Refusal> {
    let befriends = match filled.one("roster-subscription") {
        None | Some("false" | "0") => false,
        Some("true" | "1") => true,
        Some(_) => return Err(BAD_PAYLOAD),
    };
    let local = match filled.one("username") {
        None => None,
        Some(name) => Some((context.local)(name).ok_or(Condition::JidMalformed)?),
    };
    Ok(Wish::Order(Wanted::Invite { local, befriends }))
}

/// An invitation as given to its issuer.
pub(super) fn form(links: &Links) -> Vec<u8> {
    let until = datetime::text(links.until_s.saturating_mul(1_000_000), Precision::Seconds);
    let page = links.page.iter().map(|page| ("landing-url", vec![page.clone()]));
    let fields = std::iter::once(("uri", vec![links.uri.clone()])).chain(page);
    result(INVITATION, fields.chain([("expire", vec![until])]))
}
