//! Owners' requests about a node's subscribers and affiliations (XEP-0060 8.8, 8.9). Lists are
//! returned by pages (XEP-0059).

use minidom::Element;

use super::super::super::change::Change;
use super::super::super::iq::{Context, Step};
use super::super::event::Event;
use super::super::member::{self, Member, State};
use super::super::node::{Affiliates, Affiliation, Audience};
use super::super::{Answered, Asked, NS_OWNER, error, found_directory, open, owner, range, row, subscribe, xml};
use super::own::{Page, What};
use super::said::belongs;
use crate::limits::{
    NODE_AFFILIATES_MAX, NODE_ASKED_ITEMS_MAX, NODE_OWNERS_MAX, NODE_PAGE_BYTES_MAX, NODE_TOLD_AT_ONCE,
};
use crate::store::nodes::{self as rows, Named};
use crate::store::{Batch, Found, Row};
use crate::wire::jid::bare_of;

/// The reads about a node for an owner's request.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    /// A page of one of its lists, with at most this many.
    List { asked: Asked, page: Page, what: What, most: u32 },
    /// Users whose subscriptions change.
    Subscribe { asked: Asked, node: Box<str>, changes: Vec<(Box<str>, bool)> },
    /// Users whose affiliations change.
    Affiliate { asked: Asked, node: Box<str>, changes: Vec<(Box<str>, Option<Affiliation>)> },
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::List { asked, page, what, most } => list_found(asked, &page, what, most, found),
            Pending::Subscribe { asked, node, changes } => subscribe_found(asked, &node, &changes, found),
            Pending::Affiliate { asked, node, changes } => affiliate_found(asked, &node, &changes, found),
        }
    }
}

/// One of a node's lists.
fn list(asked: Asked, page: Page, what: What) -> Answered {
    let kind = match what {
        What::Subscriptions => Named::Members,
        What::Affiliations => Named::Affiliated,
    };
    let most = page.max.unwrap_or(NODE_TOLD_AT_ONCE).min(NODE_TOLD_AT_ONCE);
    let after = kind.after(&asked.actor, &page.after, most.max(1), NODE_PAGE_BYTES_MAX);
    let queries = vec![rows::directory(&asked.actor), after];
    Ok(Step::Read(queries, super::Pending::Owner(Pending::List { asked, page, what, most }).into()))
}

fn list_found(asked: Asked, page: &Page, what: What, most: u32, found: &[Found]) -> Answered {
    let node = super::node_of(&asked.actor);
    let (mut directory, found) = found_directory(found)?;
    asked.owns(&mut directory, node)?;
    let (rows, more) = range(found.first())?;
    let rows: &[Row] = if most == 0 { &[] } else { rows };
    let mut out = open(NS_OWNER, what.name(), Some(node));
    for row in rows {
        let bare = rows::named(&row.sort).ok_or(error::UNREADABLE)?;
        write(&mut out, what, bare, &Member::decode(Some(&row.value)).ok_or(error::UNREADABLE)?);
    }
    out.extend_from_slice(format!("</{}>", what.name()).as_bytes());
    let named = |row: Option<&Row>| row.and_then(|row| rows::named(&row.sort).map(Box::from));
    page.write(&mut out, named(rows.first()), named(rows.last()), more);
    out.extend_from_slice(b"</pubsub>");
    Ok(Step::Result(out))
}

fn write(out: &mut Vec<u8>, what: What, bare: &str, member: &Member) {
    match what {
        What::Subscriptions if member.state == State::Subscribed => {
            subscribe::write_of(out, &member.address, "subscribed");
        }
        What::Subscriptions => {}
        What::Affiliations => {
            out.extend_from_slice(b"<affiliation");
            xml::attribute(out, "jid", bare);
            xml::attribute(out, "affiliation", member::name(member.affiliation));
            out.extend_from_slice(b"/>");
        }
    }
}

/// XEP-0060 8.8.1.
pub(in crate::extension::pubsub) fn subscriptions(asked: Asked, pubsub: &Element) -> Answered {
    list(asked, Page::of(pubsub)?, What::Subscriptions)
}

/// XEP-0060 8.9.1: affiliations are so few that one answer has them all.
pub(in crate::extension::pubsub) fn affiliations(asked: Asked) -> Answered {
    list(asked, Page::default(), What::Affiliations)
}

fn found_member(found: Option<&Found>) -> Result<Member, error::Error> {
    found.and_then(row).and_then(Member::decode).ok_or(error::UNREADABLE)
}

/// XEP-0060 8.8.2.
pub(in crate::extension::pubsub) fn subscribe(
    context: &Context<'_>,
    asked: Asked,
    subscriptions: &Element,
) -> Answered {
    let node: Box<str> = asked.name(subscriptions)?;
    let changes = owner::wanted(context, subscriptions)?;
    let members = changes.iter().map(|(jid, _)| rows::member(&asked.actor, bare_of(jid)));
    let queries = [rows::directory(&asked.actor)].into_iter().chain(members).collect();
    Ok(Step::InTurn(queries, super::Pending::Owner(Pending::Subscribe { asked, node, changes }).into()))
}

fn subscribe_found(asked: Asked, node: &str, changes: &[(Box<str>, bool)], found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let config = asked.owns(&mut directory, node)?.config.clone();
    let (mut batch, mut all) = (Batch::new(), Vec::new());
    for (at, (jid, on)) in changes.iter().enumerate() {
        let before = found_member(found.get(at))?;
        let bare = bare_of(jid);
        let mut people = before.clone().alone(bare);
        let Some((address, state)) = member::change(&mut people, jid, *on)? else { continue };
        all.extend(asked.put_people(&mut batch, &mut directory, node, bare, (&before, &people))?);
        let audience = Audience::of(&config, Affiliates::default());
        all.push(asked.single(Event::subscription(node, audience, &address, state)));
    }
    Ok(Step::Change([Change::Write(batch)].into_iter().chain(all).collect(), Vec::new()))
}

/// XEP-0060 8.9.2.
pub(in crate::extension::pubsub) fn affiliate(context: &Context<'_>, asked: Asked, affiliations: &Element) -> Answered {
    let node: Box<str> = asked.name(affiliations)?;
    let mut changes: Vec<(Box<str>, Option<Affiliation>)> = Vec::new();
    for change in affiliations.children().filter(|child| child.is("affiliation", NS_OWNER)) {
        let jid = change.attr("jid").and_then(context.jid).ok_or(error::BAD_REQUEST)?;
        let jid: Box<str> = bare_of(&jid).into();
        if changes.iter().any(|(other, _)| *other == jid) {
            return Err(error::BAD_REQUEST);
        }
        let affiliation = match change.attr("affiliation") {
            None => continue,
            Some("owner") => Some(Affiliation::Owner),
            Some("publisher") => Some(Affiliation::Publisher),
            Some("member") => Some(Affiliation::Member),
            Some("outcast") => Some(Affiliation::Outcast),
            Some("none") => None,
            Some("publish-only") => return Err(error::NO_PUBLISH_ONLY),
            Some(_) => return Err(error::BAD_REQUEST),
        };
        // Users of other servers cannot reach the node.
        let local = jid.split_once('@').is_some_and(|(_, domain)| context.domains.find_users(domain).is_some());
        if (affiliation.is_some() && !local) || changes.len() == NODE_ASKED_ITEMS_MAX {
            return Err(error::NOT_ACCEPTABLE);
        }
        changes.push((jid, affiliation));
    }
    let members = changes.iter().map(|(jid, _)| rows::member(&asked.actor, jid));
    let queries = [rows::directory(&asked.actor)].into_iter().chain(members).collect();
    Ok(Step::InTurn(queries, super::Pending::Owner(Pending::Affiliate { asked, node, changes }).into()))
}

fn affiliate_found(asked: Asked, node: &str, changes: &[(Box<str>, Option<Affiliation>)], found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let entry = asked.owns(&mut directory, node)?;
    let config = entry.config.clone();
    let (mut batch, mut all) = (Batch::new(), Vec::new());
    for (at, (bare, affiliation)) in changes.iter().enumerate() {
        let before = found_member(found.get(at))?;
        let mut now = Member { affiliation: *affiliation, ..before.clone() };
        let state = match (affiliation, before.state) {
            // XEP-0060 8.9.2.1, 8.7.4: outcasts are unsubscribed, and owners and publishers need no
            // approval.
            (Some(Affiliation::Outcast), State::Subscribed | State::Pending) => {
                (now.state, now.address) = (State::None, "".into());
                Some("none")
            }
            (Some(Affiliation::Owner | Affiliation::Publisher), State::Pending) => {
                now.state = State::Subscribed;
                Some("subscribed")
            }
            _ => None,
        };
        if let Some(state) = state {
            let audience = Audience::of(&config, Affiliates::default());
            all.push(asked.single(Event::subscription(node, audience, &before.address, state)));
        }
        entry.owners.retain(|owner| owner != bare);
        if *affiliation == Some(Affiliation::Owner) {
            entry.owners.push(bare.clone());
            entry.owners.sort_unstable();
        }
        subscribe::count(entry, &before, &now);
        now.put(&mut batch, &asked.actor, bare);
        all.push(belongs(&asked.actor, bare, &now));
    }
    // XEP-0060 8.9.2.4: there is always an owner.
    if entry.owners.is_empty() || entry.owners.len() > NODE_OWNERS_MAX {
        return Err(error::NOT_ACCEPTABLE);
    }
    if entry.affiliated as usize > NODE_AFFILIATES_MAX {
        return Err(crate::wire::limit::Limit::Nodes.into());
    }
    directory.put(&mut batch, &asked.actor)?;
    Ok(Step::Change([Change::Write(batch)].into_iter().chain(all).collect(), Vec::new()))
}
