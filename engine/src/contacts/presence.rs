//! Presence that a session sends, and presence that arrives for a user of this home.

use std::ops::Range;

use crate::actors::Actors;
use crate::actors::safe::Address;
use crate::contacts::show::PRESENCE_GONE;
use crate::contacts::{Contacts, Decided};
use crate::extension::annotations::forged_in_presence;
use crate::extension::{Way, photo, subscription};
use crate::id::SessionId;
use crate::io::StorageState;
use crate::letters::{Kind, PresenceNews};
use crate::router::users::{Known, RosterStep, Waiting};
use crate::session::conn::NONE;
use crate::session::table::Session;
use crate::streams::Streams;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;
use crate::wire::limit::Limit;
use crate::wire::{Element, Splice, splice};
use crate::{extension, ns};

/// JIDs to which a session's directed presence is remembered. Further ones get no unavailable
/// presence.
const DIRECTED_MAX: usize = 1_000;

impl Contacts {
    /// Handles presence from one of the user's sessions (RFC 6121 4).
    pub(crate) fn from_session_presence(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        seq: u32,
        full: &str,
        element: &Element<'_>,
    ) {
        let kind = element.kind();
        let kind = kind.as_deref();
        let to = element.to();
        let mut scratch = std::borrow::Cow::Borrowed("");
        if let Some(subscription) = kind.and_then(subscription::Kind::from_type) {
            let contact = match actors.address(cx, full, to.as_deref(), &mut scratch) {
                Address::User(to) => to.bare().as_str(),
                Address::Own => bare_of(full),
                Address::Server | Address::Service(_) | Address::Nobody => {
                    return actors.refuse(cx, session, seq, element, StanzaCondition::ServiceUnavailable);
                }
                Address::Remote => {
                    return actors.refuse(cx, session, seq, element, StanzaCondition::RemoteServerNotFound);
                }
                Address::Malformed => return actors.refuse(cx, session, seq, element, StanzaCondition::JidMalformed),
            };
            let step = RosterStep::SendSubscription {
                session,
                seq,
                kind: subscription,
                contact: contact.into(),
                xml: self.unaddressed(cx, actors, session, element).into(),
            };
            let user = actors.sessions.slot(session.slot).user;
            return self.roster_step(cx, actors, user, step);
        }
        match (kind, to.as_deref()) {
            (None, None) => self.available(cx, actors, session, seq, full, element),
            (Some("unavailable"), None) => {
                self.unavailable(cx, actors, session, full, element);
                actors.stanza_done(cx, session, seq);
            }
            (None | Some("unavailable"), Some(to)) => {
                let target = match actors.address(cx, full, Some(to), &mut scratch) {
                    Address::User(to) => to.as_str(),
                    Address::Own => bare_of(full),
                    Address::Server | Address::Service(_) | Address::Nobody => {
                        return actors.stanza_done(cx, session, seq);
                    }
                    Address::Remote => {
                        return actors.refuse(cx, session, seq, element, StanzaCondition::RemoteServerNotFound);
                    }
                    Address::Malformed => {
                        return actors.refuse(cx, session, seq, element, StanzaCondition::JidMalformed);
                    }
                };
                self.directed(cx, actors, session, seq, full, target, kind.is_some(), element);
            }
            // A client need not send probes, but may (RFC 6121 4.3).
            (Some("probe"), to) => {
                if let Address::User(to) = actors.address(cx, full, to, &mut scratch) {
                    let user = actors.sessions.slot(session.slot).user;
                    let step = RosterStep::AskAfter { full: full.into(), to: to.as_str().into() };
                    self.roster_step(cx, actors, user, step);
                }
                actors.stanza_done(cx, session, seq);
            }
            // An error goes to its addressee (RFC 6120 10.5.4). From any other address it changes
            // nothing and is not answered (8.3.1).
            (Some("error"), to) => match actors.address(cx, full, to, &mut scratch) {
                Address::User(to) if !to.is_bare() => {
                    self.pass_on(cx, actors, session, seq, full, to.as_str(), false, element)
                }
                _ => actors.stanza_done(cx, session, seq),
            },
            (Some(_), _) => actors.refuse(cx, session, seq, element, StanzaCondition::BadRequest),
        }
    }

    pub(crate) fn available(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        seq: u32,
        full: &str,
        element: &Element<'_>,
    ) {
        let priority = element.child("priority", ns::CLIENT).map_or(Some(0), |p| p.text().trim().parse::<i8>().ok());
        let Some(priority) = priority else {
            return actors.refuse(cx, session, seq, element, StanzaCondition::BadRequest);
        };
        let photo = self.photo_update(actors, session, element);
        let (drop, append) = photo.as_ref().map_or((&[][..], &[][..]), |photo| (&photo.drop[..], &photo.append[..]));
        let whole = Splice { unaddressed: true, drop, append: &[append], ..Splice::default() };
        let xml = self.spliced(cx, actors, session, element, &whole);
        // The presence retained for later probes omits the id and the photo. These are rarely
        // equal, and with them every session would need its own copy. RFC 6121 4.3.2.1 recommends
        // retaining the id.
        let kept = match (element.id(), append) {
            (None, []) => None,
            _ => Some(self.spliced(cx, actors, session, element, &Splice { id: Some(None), append: &[], ..whole })),
        };
        let Ok(id) = self.presence_table.intern(kept.as_deref().unwrap_or(&xml)) else {
            return actors.refuse(cx, session, seq, element, Limit::Presence);
        };
        self.note_capabilities(id, element);
        cx.changed(session);
        let before = actors.sessions.set_presence(session, Some(id));
        let interests = before.and_then(|before| self.interests_by(before));
        let state = actors.sessions.heard(session);
        let user = state.user;
        state.priority = priority;
        if let Some(before) = before {
            self.leave_presence(cx, actors, session, before);
        }
        let announce = RosterStep::Announce { session, full: full.into(), xml: xml.into(), initial: before.is_none() };
        self.roster_step(cx, actors, user, announce);
        self.interests_announced(cx, actors, session, interests);
        if before.is_none() {
            self.look_for_announcement(cx, actors, session);
            self.begin_catch_up(cx, actors, session);
        }
        self.decided.push(Decided::Available(session));
        actors.stanza_done(cx, session, seq);
    }

    /// The server's statement about the user's photo in a session's presence (XEP-0398 4).
    fn photo_update(&self, actors: &Actors, session: SessionId, element: &Element<'_>) -> Option<photo::Update> {
        let user = actors.sessions.get(session)?.user;
        photo::update(element, actors.users.photo(user)?)
    }

    pub(crate) fn unavailable(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        full: &str,
        element: &Element<'_>,
    ) {
        cx.changed(session);
        let before = actors.sessions.set_presence(session, None);
        let state = actors.sessions.heard(session);
        let user = state.user;
        let directed = state.take_directed();
        let xml = self.unaddressed(cx, actors, session, element);
        let Some(before) = before else {
            // RFC 6121 4.6.3, case 3: directed presence is withdrawn even without a presence
            // session.
            return cx.kernel.withdraw_directed(full, &xml, &directed);
        };
        self.leave_presence(cx, actors, session, before);
        let status = element.child("status", ns::CLIENT).map(|s| s.text().into_owned()).unwrap_or_default();
        self.note_logout(cx, actors, user, &status);
        let step = RosterStep::Withdraw { session: Some(session), full: full.into(), xml: xml.into(), directed };
        self.roster_step(cx, actors, user, step);
        self.decided.push(Decided::Available(session));
    }

    /// A session is no longer available. If it was the last one, the user's absence begins now
    /// (XEP-0012 3). Not written on a full disk.
    fn note_logout(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, status: &str) {
        let online = actors.users.sessions(&actors.sessions, user).any(|(_, s)| s.is_available());
        if !online && cx.kernel.storage == StorageState::Ok {
            let (account, now_us) = (actors.bare_of_user(user), cx.kernel.now.wall_us);
            let turn = &mut cx.kernel;
            extension::logged_out(&turn.facts, &mut turn.writes, &account, now_us, status);
        }
    }

    /// Handles presence to one address (RFC 6121 4.6).
    pub(crate) fn directed(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        seq: u32,
        full: &str,
        to: &str,
        unavailable: bool,
        element: &Element<'_>,
    ) {
        if let Some(state) = actors.sessions.get_mut(session) {
            let list = &mut state.extra.get_or_insert_default().directed;
            match list.binary_search_by(|other| (**other).cmp(to)) {
                Ok(at) if unavailable => {
                    list.remove(at);
                }
                Err(at) if !unavailable && list.len() < DIRECTED_MAX => list.insert(at, to.into()),
                _ => {}
            }
            state.trim();
        }
        cx.changed(session);
        self.pass_on(cx, actors, session, seq, full, to, unavailable, element);
    }

    /// Sends a presence stanza to its addressee.
    fn pass_on(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        seq: u32,
        full: &str,
        to: &str,
        unavailable: bool,
        element: &Element<'_>,
    ) {
        let origin = actors.sent_off(cx, session, seq, element.bytes().len());
        let home = cx.kernel.home(bare_of(to));
        let lang = actors.lang(session);
        // XEP-0398 4: also in directed presence, but not in an error.
        let available = element.kind().is_none();
        let photo = available.then(|| self.photo_update(actors, session, element)).flatten().unwrap_or_default();
        let drop = self.left_out(cx, element, &photo.drop);
        cx.kernel.post(home, Kind::Directed { unavailable }, origin, full, to, |out| {
            let (from, to, lang) = (Some(full), Some(Some(to)), lang.as_deref());
            let append = [&photo.append[..]];
            splice(out, element, &Splice { from, to, lang, drop: &drop, append: &append, ..Splice::default() });
        });
    }

    /// Handles presence between users, at the receiver's home.
    pub(crate) fn presence_letter(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        news: PresenceNews,
        from: &str,
        to: &str,
        xml: &[u8],
    ) {
        let account = bare_of(to);
        // A user without a session is shown no presence (RFC 6121 4.3.2).
        let user = actors.users.find(account);
        let online = user.filter(|&user| actors.users.get(user).first != NONE);
        if online.is_none() && matches!(news, PresenceNews::Available { probe: None } | PresenceNews::Unavailable) {
            return;
        }
        let plain = matches!(news, PresenceNews::Available { .. } | PresenceNews::Unavailable);
        if plain && user.is_some_and(|user| actors.guards(cx, user, Way::In, from).is_some()) {
            return;
        }
        if actors.has_parked(user) {
            let waiting = Waiting::Presence { news, from: from.into(), to: to.into(), xml: xml.into() };
            if actors.wait_for_account(cx, account, waiting) {
                return;
            }
        }
        if let Some(user) = online.filter(|&user| plain && self.waits_behind(actors, user)) {
            let step = RosterStep::Presence { news, from: from.into(), to: to.into(), xml: xml.into() };
            return self.roster_step(cx, actors, user, step);
        }
        match news {
            PresenceNews::Available { probe } => {
                if let Some(user) = online {
                    self.to_available(cx, actors, user, from, to, xml);
                }
                if let Some(number) = probe {
                    self.probe_letter(cx, actors, from, bare_of(to), number);
                }
            }
            PresenceNews::Unavailable => {
                if let Some(user) = online {
                    self.to_available(cx, actors, user, from, to, xml);
                }
            }
            PresenceNews::Probe { number } => self.probe_letter(cx, actors, from, to, number),
            PresenceNews::Subscription { kind, number, confirm } => {
                let (contact, xml) = (from.into(), xml.into());
                self.with_account(
                    cx,
                    actors,
                    account,
                    RosterStep::ReceiveSubscription { kind, number, confirm, contact, xml },
                );
            }
            PresenceNews::Joined { number } => {
                self.with_account(cx, actors, account, RosterStep::Joined { contact: from.into(), number });
            }
            PresenceNews::Noted { confirm } => {
                self.with_account(cx, actors, account, RosterStep::Noted { contact: from.into(), confirm });
            }
        }
    }

    /// Whether a contact's presence must queue behind waiting steps of a user, and the queue has
    /// room. If it has none, delivery out of order is better than loss.
    fn waits_behind(&self, actors: &Actors, user: u32) -> bool {
        let waits = actors.users.get(user).state.as_ref().map_or(0, |state| state.roster_waits.len());
        (1..crate::limits::PARKED_STANZAS_MAX).contains(&waits)
    }

    /// A contact probes a user of this home. The roster of a user without a session is not read for
    /// it: there is no presence to send. A contact that has ended a subscription repeats that until
    /// it is confirmed.
    fn probe_letter(&mut self, cx: &mut Streams, actors: &mut Actors, from: &str, to: &str, number: u64) {
        let user = actors.users.find(to);
        let step = RosterStep::Probe { from: from.into(), to: to.into(), number };
        match user.filter(|&user| actors.users.get(user).first != NONE) {
            Some(user) => self.roster_step(cx, actors, user, step),
            // A session of an earlier process may wait there to be resumed; it counts as available.
            None if self.may_come_back(cx, actors, user) => self.with_account(cx, actors, to, step),
            None => self.tell_gone(cx, from, to, number),
        }
    }

    /// Whether a user without a session in memory may have one in the store.
    fn may_come_back(&self, cx: &Streams, actors: &Actors, user: Option<u32>) -> bool {
        let state = || user.and_then(|user| actors.users.get(user).state.as_ref());
        actors.may_have_stored(cx) && state().is_none_or(|state| state.known == Known::Unknown)
    }

    /// The stanza without its addresses, as sent to many receivers; it retains its id (RFC 6121
    /// 4.4.2).
    pub(crate) fn unaddressed(
        &self,
        cx: &Streams,
        actors: &Actors,
        session: SessionId,
        element: &Element<'_>,
    ) -> Vec<u8> {
        self.spliced(cx, actors, session, element, &Splice { unaddressed: true, ..Splice::default() })
    }

    fn spliced(
        &self,
        cx: &Streams,
        actors: &Actors,
        session: SessionId,
        element: &Element<'_>,
        how: &Splice<'_>,
    ) -> Vec<u8> {
        let mut xml = Vec::with_capacity(element.bytes().len());
        let lang = actors.lang(session);
        let drop = self.left_out(cx, element, how.drop);
        splice(&mut xml, element, &Splice { lang: lang.as_deref(), drop: &drop, ..*how });
        xml
    }

    /// Parts that are removed from a presence, in order: the given ones, and those that only the
    /// server may state.
    fn left_out(&self, cx: &Streams, element: &Element<'_>, these: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut all = forged_in_presence(&cx.kernel.settings.domains, element);
        all.extend_from_slice(these);
        all.sort_unstable_by_key(|range| range.start);
        all
    }

    /// Notifies entities that knew of a session that it has ended.
    pub(crate) fn session_gone(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        id: SessionId,
        full: &str,
        session: &mut Session,
    ) {
        let user = session.user;
        let directed = session.take_directed();
        match session.presence.take() {
            Some(presence) => {
                self.leave_presence(cx, actors, id, presence);
                self.note_logout(cx, actors, user, "");
                let xml = PRESENCE_GONE.into();
                let step = RosterStep::Withdraw { session: None, full: full.into(), xml, directed };
                self.roster_step(cx, actors, user, step);
            }
            None => cx.kernel.withdraw_directed(full, PRESENCE_GONE, &directed),
        }
    }
}
