//! Steps that need a user's roster. The roster is read for the first step, steps wait in order, and
//! it is dropped after the user has been idle for a while.

use std::collections::BTreeSet;

use rand_core::RngCore;

use crate::actors::Actors;
use crate::contacts::show::PRESENCE_GONE;
use crate::contacts::{Contacts, Decided};
use crate::extension::Way;
use crate::extension::roster::{Again, ProbeAnswer, Roster};
use crate::extension::subscription::{Kind, State};
use crate::id::{SessionId, ShardId};
use crate::io::StorageState;
use crate::kernel::pending::{Pending, UserRead};
use crate::letters::{PresenceNews, TELLS_GONE};
use crate::router::users::{Known, Parked, RosterStep, Seen, User, Waiting};
use crate::session::conn::NONE;
use crate::store::Found;
use crate::store::roster::Life;
use crate::streams::Streams;
use crate::wire::error::StanzaCondition;
use crate::wire::jid;
use crate::wire::jid::{bare_of, resource_of};
use crate::wire::splice::address;

/// Contacts that are probed at once for presence that a session has missed.
const CATCH_UP_CONTACTS: usize = 500;
/// Estimated size of a contact's presence in that case, bytes.
const CATCH_UP_BYTES: usize = 1_024;

impl Contacts {
    /// Does a step, now or when the roster has been read.
    pub(crate) fn roster_step(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, step: RosterStep) {
        let now_s = cx.kernel.now.mono_s();
        let state = actors.users.state(user, now_s);
        if state.roster.is_some() && state.roster_waits.is_empty() {
            return self.do_roster_step(cx, actors, user, step);
        }
        let must = matches!(step, RosterStep::Withdraw { .. } | RosterStep::Leave);
        if state.roster_waits.len() >= crate::limits::PARKED_STANZAS_MAX && !must {
            cx.kernel.counters.parked_refused.one();
            return self.refuse_roster_step(cx, actors, user, step);
        }
        state.roster_waits.push_back(step);
        actors.parked += 1;
        cx.kernel.counters.parked_came.one();
        self.ask_for_roster(cx, actors, user);
    }

    /// Reads a user's roster before a step needs it.
    pub(crate) fn read_roster_ahead(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let now_s = cx.kernel.now.mono_s();
        if actors.users.state(user, now_s).roster.is_none() {
            self.ask_for_roster(cx, actors, user);
        }
    }

    fn ask_for_roster(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let now_s = cx.kernel.now.mono_s();
        let state = actors.users.state(user, now_s);
        if !state.roster_asked {
            state.roster_asked = true;
            let bare = actors.bare_of_user(user);
            let query = crate::store::roster::query(&bare);
            cx.kernel.read(Pending::User(UserRead::Roster(bare.into())), vec![query]);
        }
    }

    pub(crate) fn roster_found(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, found: Vec<Found>) {
        let Some(user) = actors.users.find(account) else { return };
        let now_s = cx.kernel.now.mono_s();
        let life = Life { life: cx.kernel.life, history: cx.kernel.entropy.next_u64().max(1) };
        let state = actors.users.state(user, now_s);
        // A damaged roster is not overwritten. It counts as empty for presence, and requests get an
        // error.
        let damaged = match found.first().map(Roster::load) {
            Some(Ok(roster)) => {
                state.roster = Some(roster.in_life(life).into());
                state.roster_used_s = now_s;
                false
            }
            _ => true,
        };
        // One at a time: a step checks what waits behind it, and its consequences queue behind
        // that.
        while let Some(step) = actors.users.state(user, now_s).roster_waits.pop_front() {
            actors.parked -= 1;
            if damaged {
                self.refuse_roster_step(cx, actors, user, step);
            } else {
                self.do_roster_step(cx, actors, user, step);
            }
        }
        actors.users.state(user, now_s).roster_asked = false;
    }

    pub(crate) fn refuse_roster_step(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, step: RosterStep) {
        match step {
            RosterStep::Request { session, seq, id, .. } => {
                actors.iq_error(cx, session, id.as_deref(), StanzaCondition::InternalServerError);
                actors.stanza_done(cx, session, seq);
            }
            RosterStep::SendSubscription { session, seq, .. } => actors.stanza_done(cx, session, seq),
            RosterStep::Authorize(parked) => {
                actors.answer_with_error(cx, (&parked).into(), StanzaCondition::InternalServerError);
                cx.kernel.confirm(parked.origin);
            }
            // The steps that it had to wait for are done.
            RosterStep::Presence { from, to, xml, .. } if actors.guards(cx, user, Way::In, &from).is_none() => {
                self.to_available(cx, actors, user, &from, &to, &xml);
            }
            // The contacts to notify are unknown, but the account is removed.
            RosterStep::Leave => self.decided.push(Decided::Left(user)),
            RosterStep::Walk { session } => self.decided.push(Decided::Walked { session, homes: Vec::new() }),
            RosterStep::Last(last) => {
                let (look, nodes) = *last;
                self.decided.push(Decided::Last { look, nodes, seen: None });
            }
            _ => {}
        }
    }

    fn do_roster_step(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, step: RosterStep) {
        let (before, session) = (cx.done_so_far(), step.session());
        self.carry_out_step(cx, actors, user, step);
        if let Some(session) = session {
            actors.charge_since(cx, session, before);
        }
    }

    fn carry_out_step(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, step: RosterStep) {
        match step {
            RosterStep::Request { session, seq, id, request } => {
                self.roster_request(cx, actors, user, session, id.as_deref(), request);
                actors.stanza_done(cx, session, seq);
            }
            RosterStep::Announce { session, full, xml, initial } => {
                self.announce(cx, actors, user, session, &full, &xml, initial)
            }
            RosterStep::Withdraw { session, full, xml, directed } => {
                self.withdraw(cx, actors, user, session, &full, &xml, &directed);
            }
            RosterStep::Shown { .. } => self.show_again(cx, actors, user),
            RosterStep::SendSubscription { session, seq, kind, contact, xml } => {
                self.send_subscription(cx, actors, user, session, kind, &contact, &xml);
                actors.stanza_done(cx, session, seq);
            }
            // Blocked contacts get no answer (XEP-0191 3.3).
            RosterStep::ReceiveSubscription { contact, .. }
            | RosterStep::Joined { contact, .. }
            | RosterStep::Noted { contact, .. }
            | RosterStep::Presence { from: contact, .. }
                if actors.guards(cx, user, Way::In, &contact).is_some() => {}
            // A blocked contact sees the user as offline, and is answered like all others (3.2).
            RosterStep::Probe { from, to, number } if actors.guards(cx, user, Way::In, &from).is_some() => {
                self.tell_gone(cx, &from, &to, number);
            }
            RosterStep::ReceiveSubscription { kind, number, confirm, contact, xml } => {
                self.receive_subscription(cx, actors, user, kind, number, &contact, &xml);
                let owner = actors.bare_of_user(user);
                cx.kernel.noted(&owner, &contact, confirm);
            }
            RosterStep::Presence { news, from, to, xml } => {
                self.to_available(cx, actors, user, &from, &to, &xml);
                if let PresenceNews::Available { probe: Some(number) } = news {
                    self.carry_out_step(cx, actors, user, RosterStep::Probe { from, to: bare_of(&to).into(), number });
                }
            }
            RosterStep::Joined { contact, number } => self.joined(cx, actors, user, &contact, number),
            RosterStep::Vouched { contact, good: true } => self.vouched(cx, actors, user, &contact),
            RosterStep::Vouched { contact, good: false } => self.remind(cx, actors, user, &contact),
            RosterStep::Noted { contact, confirm } => {
                let owner = actors.bare_of_user(user);
                self.with_roster(cx, actors, user, |cx, _, roster| {
                    roster.noted(&owner, &contact, confirm, &mut cx.kernel.writes)
                });
            }
            RosterStep::Probe { from, to, number } => {
                if self.presences(actors, user).is_empty() {
                    self.tell_gone(cx, &from, &to, number);
                }
                self.probed(cx, actors, user, &from, &to, number & !TELLS_GONE);
            }
            RosterStep::Renew { session } => self.renew(cx, actors, user, session),
            RosterStep::AskAgain => self.ask_again(cx, actors, user, None),
            RosterStep::Renewed { peer } => self.show_renewed(cx, actors, user, peer),
            RosterStep::Catch { session } => self.catch_up(cx, actors, user, session),
            RosterStep::Reveal { jid, visible } => self.reveal(cx, actors, user, &jid, visible),
            RosterStep::AskAfter { full, to } => self.ask_after(cx, actors, user, &full, &to),
            RosterStep::Authorize(parked) => self.authorized_request(cx, actors, user, parked),
            RosterStep::Event { session, event } => self.tell_of(cx, actors, user, session, &event),
            RosterStep::Walk { session } => {
                let homes = self.walk_page(cx, actors, user, session);
                self.decided.push(Decided::Walked { session, homes });
            }
            RosterStep::Last(last) => {
                let (look, nodes) = *last;
                let seen = self.seen_by_roster(cx, actors, user, &look.to);
                self.decided.push(Decided::Last { look, nodes, seen });
            }
            RosterStep::Leave => self.leave_contacts(cx, actors, user),
        }
    }

    pub(crate) fn announce(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
        full: &str,
        xml: &[u8],
        initial: bool,
    ) {
        let tell = |cx: &mut Streams, actors: &mut Actors, roster: &mut Roster| {
            let hidden: BTreeSet<&str> = match actors.has_notes(user) {
                true => {
                    let all = roster.contacts().map(|(contact, _)| contact);
                    all.filter(|contact| actors.guards(cx, user, Way::Out, contact).is_some()).collect()
                }
                false => BTreeSet::new(),
            };
            let asked = |contact: &str, state: State| (initial && state.to()).then(|| roster.asked(contact));
            let news = |(contact, state): (_, State)| match (state.from(), asked(contact, state)) {
                _ if hidden.contains(contact) => None,
                (true, probe) => Some((contact, PresenceNews::Available { probe })),
                (false, probe) => probe.map(|number| (contact, PresenceNews::Probe { number })),
            };
            cx.kernel.presence_to_all(full, xml, roster.contacts().filter_map(news));
        };
        if self.with_roster(cx, actors, user, tell).is_none() {
            return;
        }
        self.to_own_sessions(cx, actors, user, session, full, xml, initial);
        if initial {
            self.unanswered(cx, actors, user, session);
        }
    }

    /// Sends again what contacts have not answered, and shows a session again what the user has not
    /// answered (RFC 6121 3.1.3).
    fn unanswered(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, session: SessionId) {
        self.ask_again(cx, actors, user, None);
        let see = |_: &mut Streams, _: &mut Actors, roster: &mut Roster| -> Vec<(Box<str>, Option<Vec<u8>>)> {
            roster.requests().map(|(contact, xml)| (contact.into(), xml.map(<[u8]>::to_vec))).collect()
        };
        let Some(requests) = self.with_roster(cx, actors, user, see) else { return };
        self.show_requests(cx, actors, user, session, requests);
    }

    /// RFC 6121 3.1.2: an unanswered request is sent again, and so is the end of a subscription
    /// that was not confirmed; neither to blocked contacts (XEP-0191 3.3). A request that is
    /// repeated needs a row, so on a full disk it waits until there is space. With a shard, only
    /// contacts of that shard are meant.
    pub(super) fn ask_again(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, only: Option<ShardId>) {
        let owner = actors.bare_of_user(user);
        let full = cx.kernel.storage == StorageState::Full;
        let see = |cx: &mut Streams, _: &mut Actors, roster: &mut Roster| {
            let meant = |cx: &Streams, contact: &str| only.is_none_or(|only| cx.kernel.home(contact) == only);
            let asks = roster.contacts().any(|(contact, state)| state.pending_out() && meant(cx, contact));
            let mut again = if asks && !full { roster.ask_again(&owner, &mut cx.kernel.writes) } else { Vec::new() };
            again.extend(roster.unconfirmed().filter(|again| meant(cx, &again.contact)));
            (again, asks && full)
        };
        let Some((again, unasked)) = self.with_roster(cx, actors, user, see) else { return };
        actors.users.state(user, cx.kernel.now.mono_s()).unasked |= unasked;
        for Again { contact, kind, number, confirm } in again {
            if actors.guards(cx, user, Way::Out, &contact).is_none() {
                cx.kernel.subscription_to(&owner, &contact, kind, number, confirm);
            }
        }
    }

    /// Sends requests to contacts again that could not be repeated on a full disk, once there is
    /// space. Without a session, the next one repeats them.
    pub(crate) fn ask_later(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let User { first, state, .. } = actors.users.get_mut(user);
        let gone = *first == NONE;
        let Some(state) = state.as_mut().filter(|state| state.unasked) else { return };
        if gone || cx.kernel.storage == StorageState::Ok {
            state.unasked = false;
        }
        if !state.unasked && !gone {
            self.roster_step(cx, actors, user, RosterStep::AskAgain);
        }
    }

    fn show_requests(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
        requests: Vec<(Box<str>, Option<Vec<u8>>)>,
    ) {
        for (contact, whole) in requests {
            if actors.guards(cx, user, Way::In, &contact).is_some() {
                continue;
            }
            let owner = actors.bare_of_user(user);
            let mut out = Vec::new();
            let plain = b"<presence type='subscribe'/>".to_vec();
            address(&mut out, &whole.unwrap_or(plain), &contact, &owner);
            actors.send_stanza(cx, session, &out);
        }
    }

    /// A session of an earlier process continues. Which notifications it missed is unknown, so they
    /// are repeated. Which stanzas and answers reached its contacts is also unknown, and its client
    /// may not send initial presence again for a long time.
    fn renew(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, session: SessionId) {
        let Some(full) = actors.sessions.get(session).map(|_| actors.full_jid(session)) else { return };
        self.unanswered(cx, actors, user, session);
        for (other, presence) in self.presences(actors, user) {
            if other != full {
                let mut out = Vec::new();
                address(&mut out, &presence, &other, &full);
                actors.send_stanza(cx, session, &out);
            }
        }
    }

    /// Sends the presence of all available sessions of a user again, because its content has
    /// changed.
    fn show_again(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let available = actors.users.sessions(&actors.sessions, user).filter(|(_, session)| session.is_available());
        let sessions: Vec<SessionId> = available.map(|(id, _)| id).collect();
        for (session, (full, xml)) in sessions.into_iter().zip(self.presences(actors, user)) {
            self.announce(cx, actors, user, session, &full, &xml, false);
        }
    }

    /// Shows presence to the user's other resources, and on the first one theirs to the session
    /// (RFC 6121 4.2.2).
    fn to_own_sessions(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
        full: &str,
        xml: &[u8],
        initial: bool,
    ) {
        let owner = actors.bare_of_user(user);
        self.to_available(cx, actors, user, full, &owner, xml);
        if !initial {
            return;
        }
        for (other, presence) in self.presences(actors, user) {
            if other != full {
                let mut out = Vec::new();
                address(&mut out, &presence, &other, full);
                actors.send_stanza(cx, session, &out);
            }
        }
    }

    /// Probes the next contacts whose presence a session may have missed. The answers go only to
    /// that session (RFC 6121 4.3.2).
    fn catch_up(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, session: SessionId) {
        let extra = actors.sessions.get_mut(session).and_then(|session| session.extra.as_mut());
        let Some(first) = extra.and_then(|extra| extra.missed.take()) else { return };
        // This many answers fit if they are not very long. Catching up resumes at the first that
        // does not fit.
        let most = (cx.kernel.settings.outbound_bytes_max / 2 / CATCH_UP_BYTES).clamp(1, CATCH_UP_CONTACTS);
        let full = actors.full_jid(session);
        let ask = |cx: &mut Streams, _: &mut Actors, roster: &mut Roster| -> Option<Box<str>> {
            let all = roster.contacts().filter(|(contact, state)| state.to() && **contact >= *first);
            let mut page: Vec<(&str, PresenceNews)> = all
                .take(most + 1)
                .map(|(contact, _)| (contact, PresenceNews::Probe { number: roster.asked(contact) | TELLS_GONE }))
                .collect();
            let next = page.get(most).map(|(contact, _)| (*contact).into());
            page.truncate(most);
            cx.kernel.presence_to_all(&full, b"", page.into_iter());
            next
        };
        let next = self.with_roster(cx, actors, user, ask).flatten();
        if let Some(session) = actors.sessions.get_mut(session) {
            if let Some(extra) = session.extra.as_mut().filter(|extra| extra.missed.is_none()) {
                extra.missed = next;
            }
            session.trim();
        }
    }

    /// Shows the user's presence to contacts that match a JID and may see it, or withdraws it from
    /// them. The same applies to receivers of directed presence. The user also sees the presence of
    /// contacts that are shown it, as far as these permit.
    fn reveal(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, jid: &str, visible: bool) {
        // The JID may mean only one resource of a contact.
        let meant = |contact: &str| {
            if jid::matches(jid, contact) {
                Some(contact.to_owned())
            } else {
                (bare_of(jid) == contact).then(|| jid.to_owned())
            }
        };
        let see = |_: &mut Streams, _: &mut Actors, roster: &mut Roster| -> Vec<String> {
            roster.contacts().filter(|(_, state)| state.from()).filter_map(|(contact, _)| meant(contact)).collect()
        };
        for contact in self.with_roster(cx, actors, user, see).unwrap_or_default() {
            match visible {
                true => self.show_presence(cx, actors, user, &contact),
                false => self.hide_presence(cx, actors, user, &contact),
            }
        }
        if visible {
            return self.ask_after_matching(cx, actors, user, jid);
        }
        let told = actors.users.sessions(&actors.sessions, user).filter(|(_, session)| !session.directed().is_empty());
        for session in told.map(|(id, _)| id).collect::<Vec<_>>() {
            let state = actors.sessions.slot_mut(session.slot);
            let (gone, stay): (Vec<_>, Vec<_>) =
                state.take_directed().into_iter().partition(|to| jid::matches(jid, to));
            if !stay.is_empty() {
                state.extra.get_or_insert_default().directed = stay;
            }
            let full = actors.full_jid(session);
            cx.kernel.withdraw_directed(&full, PRESENCE_GONE, &gone);
        }
    }

    /// Probes contacts that match a JID, because their recent presence was not received.
    fn ask_after_matching(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, jid: &str) {
        if self.presences(actors, user).is_empty() {
            return;
        }
        let see = |_: &mut Streams, _: &mut Actors, roster: &mut Roster| -> Vec<(String, u64)> {
            let matching = roster
                .contacts()
                .filter(|(contact, state)| state.to() && (jid::matches(jid, contact) || bare_of(jid) == *contact));
            matching.map(|(contact, _)| (contact.to_owned(), roster.asked(contact))).collect()
        };
        let owner = actors.bare_of_user(user);
        for (contact, number) in self.with_roster(cx, actors, user, see).unwrap_or_default() {
            if actors.guards(cx, user, Way::Out, &contact).is_none() {
                cx.kernel.presence_to(PresenceNews::Probe { number }, &owner, &contact, b"");
            }
        }
    }

    /// Passes on a client's probe, with a number only if there is a subscription to repair.
    fn ask_after(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, full: &str, to: &str) {
        let contact = bare_of(to);
        let number = |_: &mut Streams, _: &mut Actors, roster: &mut Roster| {
            if roster.state(contact).to() { roster.asked(contact) } else { 0 }
        };
        if let Some(number) = self.with_roster(cx, actors, user, number) {
            cx.kernel.presence_to(PresenceNews::Probe { number }, full, to, b"");
        }
    }

    /// Answers the probe of a contact (RFC 6121 4.3.2), or of a receiver of directed presence
    /// (4.6.6).
    pub(crate) fn probed(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        from: &str,
        to: &str,
        number: u64,
    ) {
        let (owner, contact) = (actors.bare_of_user(user), bare_of(from));
        if contact == owner {
            return;
        }
        let Some(answer) = self.with_roster(cx, actors, user, |_, _, roster| roster.probed(contact, number)) else {
            return;
        };
        match (answer, resource_of(to)) {
            (ProbeAnswer::Presence, None) => self.show_presence(cx, actors, user, from),
            (ProbeAnswer::Presence, Some(resource)) => {
                self.show_one(cx, actors, user, resource, from, |session| session.is_available());
            }
            (ProbeAnswer::Unsubscribed(number), resource) => {
                let told = |all: &[Box<str>], to: &str| all.binary_search_by(|other| (**other).cmp(to)).is_ok();
                let directed = resource.is_some_and(|resource| {
                    self.show_one(cx, actors, user, resource, from, |session| {
                        told(session.directed(), from) || told(session.directed(), contact)
                    })
                });
                // Without a number there is no subscription that could have ended.
                if !directed && number != 0 {
                    cx.kernel.subscription_to(&owner, contact, Kind::Unsubscribed, number, 0);
                }
            }
        }
    }

    fn withdraw(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: Option<SessionId>,
        full: &str,
        xml: &[u8],
        directed: &[Box<str>],
    ) {
        // RFC 6121 4.6.3: receivers of directed presence that are not notified otherwise.
        let tell = |cx: &mut Streams, actors: &mut Actors, roster: &mut Roster| -> Vec<Box<str>> {
            let sees =
                |(contact, state): &(&str, State)| state.from() && actors.guards(cx, user, Way::Out, contact).is_none();
            let from: Vec<_> = roster.contacts().filter(sees).map(|(contact, _)| contact).collect();
            cx.kernel.presence_to_all(full, xml, from.into_iter().map(|contact| (contact, PresenceNews::Unavailable)));
            directed.iter().filter(|to| !roster.state(bare_of(to)).from()).cloned().collect()
        };
        let Some(others) = self.with_roster(cx, actors, user, tell) else { return };
        let owner = actors.bare_of_user(user);
        self.to_available(cx, actors, user, full, &owner, xml);
        // RFC 6121 4.5.2: also to the resource that has sent it, which is no longer available.
        let unavailable = |s: SessionId| actors.sessions.get(s).is_some_and(|s| !s.is_available());
        if let Some(session) = session.filter(|&s| unavailable(s)) {
            let mut out = Vec::new();
            address(&mut out, xml, full, &owner);
            actors.send_stanza(cx, session, &out);
        }
        cx.kernel.withdraw_directed(full, xml, &others);
    }

    /// Whether a sender may see the user's presence, for requests that depend on it.
    fn authorized_request(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, parked: Parked) {
        let from = bare_of(&parked.from).to_owned();
        let own = actors.users.is(user, &from);
        let may = |_: &mut Streams, _: &mut Actors, roster: &mut Roster| {
            (own || roster.state(&from).from()).then(|| roster.groups(&from))
        };
        let may = self.with_roster(cx, actors, user, may).flatten().or(own.then(Vec::new));
        self.decided.push(Decided::Request { user, parked, may });
    }

    /// The relation of an available requester to the roster of the nodes' owner; `None` if it gets
    /// nothing.
    fn seen_by_roster(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, to: &str) -> Option<Seen> {
        if actors.guards(cx, user, Way::Out, to).is_some() {
            return None;
        }
        let contact = bare_of(to);
        self.with_roster(cx, actors, user, |_, _, roster| Seen {
            owner: false,
            presence: roster.state(contact).from(),
            groups: roster.groups(contact),
        })
    }

    /// Does a roster step if the account exists.
    pub(crate) fn with_account(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, step: RosterStep) {
        let user = actors.users.find_or_insert(account);
        let User { first, state, .. } = actors.users.get(user);
        let online = *first != NONE;
        match state.as_ref().map_or(Known::Unknown, |s| s.known) {
            _ if online => self.roster_step(cx, actors, user, step),
            Known::Exists(_) => self.roster_step(cx, actors, user, step),
            Known::Missing => cx.kernel.step_for_no_one(account, step),
            Known::Unknown => {
                actors.wait_for_account(cx, account, Waiting::Step(step));
            }
        }
    }
}
