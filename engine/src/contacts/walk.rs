//! One page of a session's contacts, whose homes are asked for the last items that the session has
//! missed.

use std::sync::Arc;

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::roster::Roster;
use crate::follow::{BETWEEN, Receivers};
use crate::id::{SessionId, ShardId};
use crate::letters::{Letter, UserLetter};
use crate::limits::LAST_ITEMS_CONTACTS;
use crate::session::table::{Nodes, Walk};
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::streams::work::work;

/// Node names in the form that a letter has.
fn list(nodes: &Nodes) -> String {
    let names: Vec<&str> = nodes.iter().map(|name| &**name).collect();
    names.join(BETWEEN)
}

impl Contacts {
    /// The user may now see a contact's presence. The user's sessions are also sent the last items
    /// of the contact's nodes (XEP-0163 4.3.4).
    pub(super) fn ask_lasts_of(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, contact: &str) {
        let sessions: Vec<_> = actors.users.sessions(&actors.sessions, user).map(|(id, _)| id).collect();
        for session in sessions {
            let Some(nodes) = self.interests_of(actors, session).filter(|nodes| !nodes.is_empty()) else { continue };
            let (full, names, home) = (actors.full_jid(session), list(&nodes), cx.kernel.home(contact));
            let letters = cx.kernel.letters_to(home);
            let (to, of, nodes) = (letters.name(&full), letters.name(contact), letters.name(&names));
            letters.push(Letter::User(UserLetter::AskLast { session, to, of, nodes, page: false }));
        }
    }

    /// Asks the homes of the next contacts. Returns the homes that were asked.
    pub(super) fn walk_page(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
    ) -> Vec<ShardId> {
        let extra = actors.sessions.get_mut(session).and_then(|session| session.extra.as_mut());
        let Some(walk) = extra.and_then(|extra| extra.walk.take()) else { return Vec::new() };
        let own = actors.bare_of_user(user);
        let page = |_: &mut Streams, _: &mut Actors, roster: &mut Roster| -> (Vec<Box<str>>, Option<Box<str>>) {
            let from = walk.next.as_deref().unwrap_or_default();
            let all = roster.contacts().filter(|(contact, state)| state.to() && *contact >= from);
            let mut page: Vec<Box<str>> =
                all.take(LAST_ITEMS_CONTACTS + 1).map(|(contact, _)| contact.into()).collect();
            let next = if page.len() > LAST_ITEMS_CONTACTS { page.pop() } else { None };
            (page, next)
        };
        let (mut page, next) = self.with_roster(cx, actors, user, page).unwrap_or_default();
        if walk.next.is_none() {
            page.insert(0, own.into());
        }
        let full = actors.full_jid(session);
        let mut asked = Receivers::default();
        page.iter().for_each(|contact| asked.add(cx.kernel.home(contact), &[contact]));
        cx.tell(session, Down::Charge(work(page.len(), 0)));
        let names = list(&walk.nodes);
        cx.kernel.spread(asked.by_shard(), |letters, list| {
            let (to, of, nodes) = (letters.name(&full), letters.name(list), letters.name(&names));
            Letter::User(UserLetter::AskLast { session, to, of, nodes, page: true })
        });
        if let Some(next) = next
            && let Some(session) = actors.sessions.get_mut(session)
        {
            let walk = Walk { nodes: Arc::clone(&walk.nodes), next: Some(next) };
            session.extra.get_or_insert_default().walk = Some(Box::new(walk));
        } else if let Some(session) = actors.sessions.get_mut(session) {
            session.trim();
        }
        asked.by_shard().map(|(home, _)| home).collect()
    }
}
