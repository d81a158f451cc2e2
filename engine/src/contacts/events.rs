//! Events at nodes (XEP-0060, XEP-0163 4). The publisher's home determines the receivers; their
//! homes determine the sessions that get the event.
//!
//! A publication is one letter to each home, with all contacts there. That home knows which clients
//! are interested. Notifications are not stored: a session that cannot take one does not get it,
//! and is sent the last item when it becomes available again. Subscribers of a service's node that
//! were away get what they have missed ([`catch_up`](super::catch_up)).

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::contacts::catch_up::Later;
use crate::extension::Way;
use crate::extension::pubsub::Event;
use crate::extension::pubsub::node::{Access, Viewer};
use crate::extension::pubsub::notice::Notice;
use crate::extension::roster::Roster;
use crate::follow::Receivers;
use crate::id::{SessionId, ShardId};
use crate::letters::{Letter, UserLetter};
use crate::limits::{NODE_NOTIFIED_BYTES_MAX, NODE_NOTIFY_WORK_MAX};
use crate::router::users::Waiting;
use crate::session::conn::NONE;
use crate::streams::Streams;
use crate::streams::work::work;
use crate::wire::jid::{bare_of, resource_of};
use crate::wire::splice::address_to;

impl Contacts {
    /// Notifies the entities that may see a user's node, and are interested, of an event at it. The
    /// session that caused the event pays.
    pub(super) fn tell_of(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: Option<SessionId>,
        event: &Event,
    ) {
        let owner = actors.bare_of_user(user);
        if let Some(to) = &event.to {
            return self.event_to(cx, &owner, &event.node, to, &event.message);
        }
        for own in self.interested(cx, actors, user, &event.node, None) {
            self.hand_event(cx, actors, own, &owner, &event.message);
        }
        let split = |cx: &mut Streams, actors: &mut Actors, roster: &mut Roster| {
            receivers(cx, actors, user, &owner, roster, event)
        };
        let Some((explicit, implicit)) = self.with_roster(cx, actors, user, split) else { return };
        let count = explicit.count() + implicit.count();
        let xml = event.brief.as_ref().unwrap_or(&event.message);
        if let Some(session) = session {
            let cost = work(count, count * xml.len().min(NODE_NOTIFIED_BYTES_MAX)).min(NODE_NOTIFY_WORK_MAX);
            actors.charge(cx, &owner, session, cost);
        }
        let shards = (0..cx.kernel.settings.shards()).map(ShardId);
        let both = shards.map(|shard| (shard, (explicit.at(shard), implicit.at(shard))));
        let both = both.filter(|(_, (explicit, implicit))| !(explicit.is_empty() && implicit.is_empty()));
        cx.kernel.spread(both, |letters, (subscribers, contacts)| {
            let (node, from) = (letters.name(&event.node), letters.name(&owner));
            let (subscribers, contacts) = (letters.name(subscribers), letters.name(contacts));
            let xml = letters.write(xml);
            Letter::User(UserLetter::Event { node, from, subscribers, contacts, number: 0, xml })
        });
    }

    /// Notifies the given receivers of an event at a service's node, whatever the interests of
    /// their clients.
    pub(crate) fn notice(&mut self, cx: &mut Streams, notice: &Notice) {
        let mut to = Receivers::default();
        notice.to.iter().for_each(|jid| to.add(cx.kernel.home(bare_of(jid)), &[jid]));
        cx.kernel.spread(to.by_shard(), |letters, to| {
            let (node, from) = (letters.name(&notice.node), letters.name(&notice.from));
            let (subscribers, contacts) = (letters.name(to), letters.name(""));
            let xml = letters.write(&notice.message);
            Letter::User(UserLetter::Event { node, from, subscribers, contacts, number: notice.number, xml })
        });
    }

    /// Notifies one receiver, whatever the interests of its client.
    pub(super) fn event_to(&mut self, cx: &mut Streams, owner: &str, node: &str, to: &str, message: &[u8]) {
        let home = cx.kernel.home(bare_of(to));
        let letters = cx.kernel.letters_to(home);
        let (node, from) = (letters.name(node), letters.name(owner));
        let (subscribers, contacts) = (letters.name(to), letters.name(""));
        let xml = letters.write(message);
        letters.push(Letter::User(UserLetter::Event { node, from, subscribers, contacts, number: 0, xml }));
    }

    /// Delivers an event to one receiver. An explicit receiver is a subscriber: one address, or all
    /// sessions of a user. Otherwise all interested sessions get it, except that of the resource,
    /// if given, which gets it as a subscriber. Returns false if it is an item that the receiver
    /// gets later.
    pub(crate) fn event_for(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        node: &str,
        from: &str,
        to: &str,
        explicit: bool,
        (number, xml): (u64, &[u8]),
    ) -> bool {
        let resource = resource_of(to);
        let follows = number > 0 && resource.is_none();
        let Some(user) = actors.users.find(to).filter(|&user| actors.users.get(user).first != NONE) else {
            return !(follows && self.misses(cx, actors, to, node, number) == Later::Reported);
        };
        if actors.has_parked(Some(user)) {
            let (node, from, to) = (node.into(), from.into(), to.into());
            let waiting = Waiting::Event { node, from, to, explicit, number, xml: xml.into() };
            let account = actors.bare_of_user(user);
            actors.wait_for_account(cx, &account, waiting);
            return true;
        }
        if actors.guards(cx, user, Way::In, from).is_some() {
            return true;
        }
        if follows && !self.is_at_head(cx, actors, user, to, node) {
            match self.misses(cx, actors, to, node, number) {
                Later::Reported => return false,
                Later::Asked => return true,
                Later::Never => {}
            }
        }
        let mut available = actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.is_available());
        // Most users have one session, which needs no list.
        if let (false, None, Some((only, _)), None) = (explicit, resource, available.next(), available.next()) {
            self.ask_capabilities(cx, actors, only, false);
            if self.wants(actors, only, node) {
                self.hand_event(cx, actors, only, from, xml);
            }
            return true;
        }
        let sessions = match explicit {
            true => {
                let available = actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.is_available());
                let meant = available.filter(|(_, s)| resource.is_none_or(|resource| *s.resource == *resource));
                meant.map(|(id, _)| id).collect()
            }
            false => self.interested(cx, actors, user, node, resource),
        };
        for session in sessions {
            self.hand_event(cx, actors, session, from, xml);
        }
        true
    }

    /// Returns the available sessions of a user that are interested in a node. For hashes of other
    /// sessions that are unknown, their clients are asked.
    fn interested(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        node: &str,
        except: Option<&str>,
    ) -> Vec<SessionId> {
        let available = actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.is_available());
        let meant = available.filter(|(_, s)| except.is_none_or(|except| *s.resource != *except));
        let mut sessions: Vec<SessionId> = meant.map(|(id, _)| id).collect();
        for &session in &sessions {
            self.ask_capabilities(cx, actors, session, false);
        }
        sessions.retain(|&session| self.wants(actors, session, node));
        sessions
    }

    /// Sends a session a notification, which is not stored.
    pub(super) fn hand_event(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        from: &str,
        xml: &[u8],
    ) {
        let mut stanza = std::mem::take(&mut cx.kernel.scratch);
        let own = actors.sessions.slot(session.slot);
        let to = [actors.users.local(own.user), "@", actors.users.domain(own.user), "/", &*own.resource];
        address_to(&mut stanza, xml, from, &to);
        actors.hand_ephemeral(cx, session, &stanza);
        cx.kernel.keep_scratch(stanza);
    }
}

/// The receivers: subscribers, and contacts who may see the user's presence (XEP-0060 9.1.2), each
/// once.
fn receivers(
    cx: &Streams,
    actors: &Actors,
    user: u32,
    owner: &str,
    roster: &Roster,
    event: &Event,
) -> (Receivers, Receivers) {
    let (mut explicit, mut implicit) = (Receivers::default(), Receivers::default());
    let home = |jid: &str| cx.kernel.home(bare_of(jid));
    let audience = &event.audience;
    let noted = actors.has_notes(user);
    let may = |jid: &str, presence: bool| {
        let groups = if audience.access == Access::Roster { roster.groups(bare_of(jid)) } else { Vec::new() };
        let viewer = Viewer { jid, owner: false, presence, groups: &groups };
        audience.may(viewer).is_ok() && !(noted && actors.guards(cx, user, Way::Out, jid).is_some())
    };
    let subscribers = &audience.affiliates.subscribers;
    for jid in subscribers.iter().filter(|jid| bare_of(jid) != owner) {
        if cx.kernel.settings.domains.find_in(bare_of(jid).split_once('@').map_or("", |(_, domain)| domain)).is_some()
            && may(jid, roster.state(bare_of(jid)).from())
        {
            explicit.add(home(jid), &[jid]);
        }
    }
    for (contact, _) in roster.contacts().filter(|(_, state)| state.from()) {
        if !may(contact, true) {
            continue;
        }
        // The subscribed one of a contact's addresses gets the event already.
        match subscribers.iter().find(|jid| bare_of(jid) == contact) {
            Some(jid) if jid.len() == contact.len() => {}
            Some(jid) => implicit.add(home(jid), &[jid]),
            None => implicit.add(home(contact), &[contact]),
        }
    }
    (explicit, implicit)
}
