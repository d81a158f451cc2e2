//! Requests (RFC 6120 8.2.3): those of the own sessions, and those of others to a user of this home. What the server
//! answers itself the features answer; here is who asked, and the way back.

use crate::actors::safe::Address;
use crate::extension;
use crate::extension::iq::Then;
use crate::extension::{AccountAction, Around, Change, Context, IqRequest, Step, Target};
use crate::id::SessionId;
use crate::io::{Happened, StorageState};
use crate::kernel::pending::{Asker, FeatureRead, InTurn, Remover};
use crate::letters::Kind;
use crate::limits::{WORK_ELEMENTS_USUAL, WORK_PER_ELEMENT};
use crate::router::users::{Incoming, RosterStep};
use crate::session::table::Privacy;
use crate::shard::Shard;
use crate::store::Found;
use crate::store::ids::Ids;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;
use crate::wire::limit::Limit;
use crate::wire::written::read_back;
use crate::wire::{Element, Expect, Scanner, Splice, StreamScope, jid, splice};

impl Shard {
    /// An IQ of one of the own sessions.
    pub(crate) fn from_session_iq(&mut self, session: SessionId, seq: u32, full: &str, element: &Element<'_>) {
        let kind = element.kind();
        let request = matches!(kind.as_deref(), Some("get" | "set"));
        let known = request || matches!(kind.as_deref(), Some("result" | "error"));
        // RFC 6120 8.2.3: an id, a known type, and exactly one child in a request.
        if !known || element.id().is_none() || (request && element.children().len() != 1) {
            return self.actors.refuse(&mut self.cx, session, seq, element, StanzaCondition::BadRequest);
        }
        let (to, mut scratch) = (element.to(), std::borrow::Cow::Borrowed(""));
        let target = match self.actors.address(&self.cx, full, to.as_deref(), &mut scratch) {
            Address::Own => Target::Own,
            Address::Server => Target::Server,
            Address::Service(service) => Target::Service(service),
            Address::Nobody if request => {
                return self.actors.refuse(&mut self.cx, session, seq, element, StanzaCondition::ItemNotFound);
            }
            Address::Nobody => return self.actors.stanza_done(&mut self.cx, session, seq),
            Address::User(to) => {
                let to = to.as_str();
                let origin = self.actors.sent_off(&mut self.cx, session, seq, element.bytes().len());
                let home = self.cx.kernel.home(bare_of(to));
                let kind = if request { Kind::Request } else { Kind::Response };
                let lang = self.actors.lang(session);
                return self.cx.kernel.post(home, kind, origin, full, to, |out| {
                    let (from, to, lang) = (Some(full), Some(Some(to)), lang.as_deref());
                    splice(out, element, &Splice { from, to, lang, ..Splice::default() });
                });
            }
            Address::Remote => {
                return self.actors.refuse(&mut self.cx, session, seq, element, StanzaCondition::RemoteServerNotFound);
            }
            Address::Malformed => {
                return self.actors.refuse(&mut self.cx, session, seq, element, StanzaCondition::JidMalformed);
            }
        };
        if !request {
            self.session_answered(session, full, element);
            if let Some(capable) = self.actors.client_answered(&mut self.cx, session, element) {
                self.contacts.learned(&mut self.cx, &mut self.actors, session, capable);
            }
            return self.actors.stanza_done(&mut self.cx, session, seq);
        }
        let asker = Asker {
            session: Some((session, seq)),
            origin: None,
            id: element.id().map(Into::into),
            from: full.into(),
            to: to.as_deref().map(Into::into),
            paced: false,
            front: None,
        };
        self.ask_feature(asker, target, bare_of(full), element, Some(&[]));
    }

    /// A request to a user of this home.
    pub(crate) fn request_for(&mut self, user: u32, stanza: Incoming<'_>) {
        let payload = read_back(stanza.xml, |element| {
            element.children().next().map(|child| (child.namespace().to_owned(), child.name().to_owned()))
        });
        let (namespace, name) = payload.flatten().unwrap_or_default();
        let full = stanza.to.contains('/');
        let asks_roster = match full {
            true => extension::guards_sessions(&namespace),
            false => extension::find(&self.cx.kernel.facts, &namespace, &name).is_some_and(|(_, f)| f.asks_roster),
        };
        if asks_roster {
            return self.contacts.roster_step(
                &mut self.cx,
                &mut self.actors,
                user,
                RosterStep::Authorize(stanza.into()),
            );
        }
        self.answer_request(user, stanza, None);
    }

    /// Answers a request to a user of this home, or hands it to the session it is for. Who may see the user's presence comes with the
    /// groups of the roster.
    pub(crate) fn answer_request(&mut self, user: u32, stanza: Incoming<'_>, may: Option<Vec<Box<str>>>) {
        let mut scanner = Scanner::new();
        let scope = StreamScope::Usual;
        if scanner.scan(&scope, Expect::Content, usize::MAX, stanza.xml).is_err() {
            return self.cx.kernel.confirm(stanza.origin);
        }
        let element = scanner.element(&scope, stanza.xml);
        if stanza.to.contains('/') {
            let guarded = element.children().next().is_some_and(|child| extension::guards_sessions(child.namespace()));
            if guarded && may.is_none() {
                self.actors.answer_with_error(&mut self.cx, stanza, StanzaCondition::Forbidden);
            } else if !self.actors.to_exact_session(&mut self.cx, user, stanza) {
                // RFC 6121 8.5.3.2.3. Who can take no more is not to be told from who is not there.
                self.actors.answer_with_error(&mut self.cx, stanza, StanzaCondition::ServiceUnavailable);
            }
            return self.cx.kernel.confirm(stanza.origin);
        }
        let asker = Asker {
            session: None,
            origin: stanza.origin,
            id: element.id().map(Into::into),
            from: stanza.from.into(),
            to: Some(stanza.to.into()),
            paced: false,
            front: None,
        };
        self.ask_feature(asker, Target::Other, bare_of(stanza.to), &element, may.as_deref());
    }

    /// A stanza for an account that is not there.
    pub(crate) fn to_no_one(&mut self, stanza: Incoming<'_>) {
        if stanza.kind != Kind::Request || stanza.to.contains('/') {
            return self.actors.for_no_one(&mut self.cx, stanza);
        }
        let answer = read_back(stanza.xml, |element| {
            let child = element.children().next()?;
            let request = IqRequest {
                set: element.kind().as_deref() == Some("set"),
                target: Target::Other,
                from: stanza.from,
                to: stanza.to,
                account: stanza.to,
                namespace: child.namespace(),
                name: child.name(),
                payload: child.bytes(),
            };
            let id = element.id().map(Into::into);
            Some((id, extension::unseen(&self.cx.kernel.facts, &request)?))
        });
        let Some((id, payload)) = answer.flatten() else { return self.actors.for_no_one(&mut self.cx, stanza) };
        let (from, to) = (stanza.from.into(), Some(stanza.to.into()));
        self.actors.answer(
            &mut self.cx,
            Asker { session: None, paced: false, front: None, origin: stanza.origin, id, from, to },
            Ok(&payload),
        );
    }

    pub(crate) fn ask_feature(
        &mut self,
        asker: Asker,
        target: Target,
        account: &str,
        element: &Element<'_>,
        may: Option<&[Box<str>]>,
    ) {
        let Some(child) = element.children().next() else {
            return self.actors.answer(&mut self.cx, asker, Err(StanzaCondition::BadRequest.into()));
        };
        let key = if target == Target::Node { account } else { bare_of(account) };
        let (namespace, user) = (child.namespace(), self.actors.users.find(key).filter(|_| target != Target::Node));
        let online =
            user.is_some_and(|u| self.actors.users.sessions(&self.actors.sessions, u).any(|(_, s)| s.is_available()));
        let own = asker.session.and_then(|(id, _)| self.actors.sessions.get(id));
        let secure = own.is_some_and(|session| session.privacy != Privacy::Open);
        let ids = own.map_or(Ids::PLAIN, |session| session.ids);
        let request = IqRequest {
            set: element.kind().as_deref() == Some("set"),
            target,
            from: &asker.from,
            to: asker.to.as_deref().unwrap_or(account),
            account,
            namespace,
            name: child.name(),
            payload: child.bytes(),
        };
        let fresh = match target {
            Target::Service(_) => self.cx.kernel.random_name(),
            _ => String::new(),
        };
        let context = Context {
            authorized: may.is_some(),
            groups: may.unwrap_or_default(),
            online,
            secure,
            ids,
            ..self.context(target, &asker.from, asker.session.is_some(), &fresh)
        };
        let state = user.filter(|_| target == Target::Own).and_then(|user| self.actors.users.get(user).state.as_ref());
        let (place, step) = extension::handle(&context, state.map(|state| &state.notes), &request);
        // It was read into a tree, and what waits its turn is held in memory.
        if let Some((session, _)) = asker.session {
            let elements = extension::xml::to_be_read(child.bytes()).saturating_sub(WORK_ELEMENTS_USUAL) as u64;
            self.cx.tell(session, Down::Charge(work(1, element.bytes().len()) + elements * WORK_PER_ELEMENT));
        }
        self.do_step(asker, key, place, step);
    }

    /// What a feature may know beside a request, as far as it is the same for all. The sender is of an own session, or elsewhere.
    pub(super) fn context<'a>(&'a self, target: Target, from: &str, own: bool, fresh: &'a str) -> Context<'a> {
        let Around { server, domains, bare } = self.around();
        Context {
            now: self.cx.kernel.now,
            server,
            domains,
            ids: Ids::PLAIN,
            authorized: target == Target::Own,
            groups: &[],
            online: false,
            secure: false,
            admin: (own || target == Target::Node) && self.is_admin(bare_of(from)),
            inviter: own && self.is_inviter(bare_of(from)),
            invitations: self.cx.kernel.settings.invitations,
            invitation_s: self.cx.kernel.settings.invitation_s,
            fresh,
            adhoc: &self.requests.adhoc,
            motd: self.contacts.kept_text(&self.cx),
            welcome: &self.cx.kernel.settings.welcome,
            room: self.cx.page_room(),
            note: None,
            jid: |text| jid::normalise(text).ok().map(|jid| (&*jid).into()),
            bare,
            local: |text| jid::normalise_local(text).ok().map(|local| local.into()),
        }
    }

    /// What a feature may know beside what was found, when it goes on.
    pub(crate) fn around(&self) -> Around<'_> {
        Around {
            server: &self.cx.kernel.facts,
            domains: &self.cx.kernel.settings.domains,
            bare: |text| jid::Jid::parse(text).ok().map(|jid| jid.bare_str().into()),
        }
    }

    /// Carries out what a feature wants done.
    pub(crate) fn do_step(&mut self, asker: Asker, account: &str, place: usize, step: Step) {
        let session = asker.session.filter(|_| asker.paced);
        let paced = session.map(|(session, _)| (Box::from(bare_of(&asker.from)), session));
        let goes_on = matches!(step, Step::Read(..) | Step::Prepare(..) | Step::Paced(..) | Step::Missed(_));
        self.carry_out(asker, account, place, step);
        if let Some((user, session)) = paced.filter(|_| !goes_on) {
            self.paced_over(&user, session);
        }
    }

    fn carry_out(&mut self, asker: Asker, account: &str, place: usize, step: Step) {
        match step {
            Step::Result(payload) => self.actors.answer(&mut self.cx, asker, Ok(&payload)),
            Step::Error(refusal) => self.actors.answer(&mut self.cx, asker, Err(refusal)),
            Step::Read(queries, pending) => self.read_for(asker, place, queries, pending, None),
            Step::InTurn(queries, pending) => self.in_turn(account, asker, place, queries, pending),
            Step::Prepare(batch, _, _) if self.cx.kernel.storage == StorageState::Full && !batch.is_empty() => {
                self.do_step(asker, account, place, Step::Error(Limit::Disk.into()));
            }
            Step::Prepare(batch, queries, pending) => {
                self.write_rows(&batch);
                if queries.is_empty() {
                    return self.do_step(asker, account, place, pending.go_on(&self.around(), &[]));
                }
                self.read_rows(
                    FeatureRead {
                        asker,
                        place,
                        pending,
                        charged: 0,
                        turn: None,
                        asked: Vec::new(),
                        numbered: Vec::new(),
                    },
                    queries,
                );
            }
            Step::Send(stanzas, payload) => {
                match asker.session {
                    Some((session, _)) => {
                        stanzas.iter().for_each(|stanza| self.actors.send_past_gates(&mut self.cx, session, stanza));
                    }
                    // They precede the answer, and are as much of an answer as it is.
                    None => {
                        let home = self.cx.kernel.home(bare_of(&asker.from));
                        let (from, to) = (asker.to.as_deref().unwrap_or_default(), &*asker.from);
                        for stanza in &stanzas {
                            self.cx.kernel.post(home, Kind::Response, None, from, to, |out| {
                                out.extend_from_slice(stanza);
                            });
                        }
                    }
                }
                self.actors.answer(&mut self.cx, asker, Ok(&payload));
            }
            Step::Paced(step) => self.paced(asker, place, *step),
            Step::Write(_, _) | Step::Change(_, _) | Step::Report(_, _)
                if self.cx.kernel.storage == StorageState::Full =>
            {
                self.actors.answer(&mut self.cx, asker, Err(Limit::Disk.into()));
            }
            Step::Write(batch, payload) => {
                if let Some((session, _)) = asker.session {
                    self.cx.tell(session, Down::Charge(work(batch.len(), batch.bytes())));
                }
                self.write_rows(&batch);
                self.actors.answer(&mut self.cx, asker, Ok(&payload));
            }
            Step::Change(changes, payload) => {
                self.do_changes(&asker, place, changes);
                self.actors.answer(&mut self.cx, asker, Ok(&payload));
            }
            Step::Report(changes, reports) => {
                self.do_changes(&asker, place, changes);
                self.report(asker, reports);
            }
            Step::Refuse(changes, refusal) => {
                changes.into_iter().for_each(|change| self.do_change(&asker, place, change));
                self.actors.answer(&mut self.cx, asker, Err(refusal));
            }
            Step::Then(_) => {
                debug_assert!(false, "only what has a turn goes on without who has asked");
                self.actors.answer(&mut self.cx, asker, Err(StanzaCondition::InternalServerError.into()));
            }
            Step::Route { batch, .. } if self.cx.kernel.storage == StorageState::Full && !batch.is_empty() => {
                self.actors.answer(&mut self.cx, asker, Err(Limit::Disk.into()));
            }
            Step::Route { to, set, payload, batch } => {
                if let Some((session, _)) = asker.session {
                    self.cx.tell(session, Down::Charge(work(batch.len(), batch.bytes())));
                }
                self.write_rows(&batch);
                self.route(asker, Kind::Request, &to, set, &payload);
            }
            Step::Roster(request) => match asker.session {
                Some((session, seq)) => {
                    // It has ended while what it asks for was read.
                    let Some(user) = self.actors.sessions.get(session).map(|s| s.user) else { return };
                    self.contacts.roster_step(
                        &mut self.cx,
                        &mut self.actors,
                        user,
                        RosterStep::Request { session, seq, id: asker.id, request },
                    );
                }
                None => self.actors.answer(&mut self.cx, asker, Err(StanzaCondition::Forbidden.into())),
            },
            Step::Account(action) => self.do_account_action(asker, account, action),
            Step::Command(act) => self.adhoc(asker, *act),
            Step::Activate(activation) => self.activate(asker, activation),
            Step::Missed(asked) => self.ask_rooms(asker, asked),
        }
    }

    /// Carries out changes in their order, at the cost of the session that asks.
    fn do_changes(&mut self, asker: &Asker, place: usize, changes: Vec<Change>) {
        let before = self.cx.done_so_far();
        for change in changes {
            self.do_change(asker, place, change);
        }
        if let Some((session, _)) = asker.session {
            self.actors.charge_since(&mut self.cx, session, before);
        }
    }

    /// Carries out one change that an extension wants for the session that asks, or for its user.
    fn do_change(&mut self, asker: &Asker, place: usize, change: Change) {
        let change = match change {
            Change::Write(batch) => return self.write_rows(&batch),
            Change::Alert { room, alert } => return self.send_alert(bare_of(&asker.from), &room, alert),
            Change::Event(event) => {
                let session = asker.session.map(|(session, _)| session);
                let user = match session {
                    Some(session) => self.actors.sessions.get(session).map(|session| session.user),
                    None => asker.to.as_deref().and_then(|to| self.actors.users.find(to)),
                };
                if let Some(user) = user {
                    self.contacts.roster_step(
                        &mut self.cx,
                        &mut self.actors,
                        user,
                        RosterStep::Event { session, event },
                    );
                }
                return;
            }
            Change::Notice(notice) => return self.contacts.notice(&mut self.cx, &notice),
            Change::Gone(node) => return self.channels.channel_deleted(&mut self.cx, &node),
            Change::Deleted { node, last } => {
                return self.requests.floors.node_deleted(&mut self.cx.kernel.writes, &node, last);
            }
            Change::News(news) => return self.channels.news(&mut self.cx, &news, &asker.from, asker.front),
            Change::Known { node, known } => return self.node_known(&node, *known),
            Change::Awaited(node) => return self.channels.web_pushes.registered(&node),
            Change::Message { from, to, xml } => return self.service_message(&from, &to, &xml),
            Change::Belongs { to, node, own, row } => return self.belongs(&to, &node, own, &row),
            Change::CaughtUp { node, from, user, page } => return self.send_missed(&node, &from, &user, &page),
            Change::Charge { count, bytes } => return self.charge_asker(asker, count, bytes),
            Change::Registered(all) => return self.services_found(asker.to.as_deref().unwrap_or_default(), all),
            Change::Dropped(dropped) => {
                let account = asker.to.as_deref().unwrap_or_default();
                return self.cx.kernel.note(Happened::PushDropped(dropped), account, None);
            }
            Change::Record(_) | Change::MarkAll(_) if asker.is_nobody() => {
                // Its user has left memory: the next one to come reads what was written.
                let Some(user) = asker.to.as_deref().and_then(|to| self.actors.users.find(to)) else { return };
                return self.change_user(user, place, change);
            }
            change => change,
        };
        // Who is no user of this home has no session that anything could be noted on.
        let Some((session, _)) = asker.session else { return };
        // It has ended while what it asks for was read.
        let Some(user) = self.actors.sessions.get(session).map(|session| session.user) else { return };
        match change {
            Change::Write(_)
            | Change::Alert { .. }
            | Change::Event(_)
            | Change::Notice(_)
            | Change::News(_)
            | Change::Known { .. }
            | Change::Awaited(_)
            | Change::Gone(_)
            | Change::Deleted { .. }
            | Change::Message { .. }
            | Change::Belongs { .. }
            | Change::CaughtUp { .. }
            | Change::Charge { .. }
            | Change::Registered(_)
            | Change::Dropped(_) => {}
            Change::Photo(photo) => {
                self.actors.users.set_photo(user, Some(photo));
                self.contacts.roster_step(&mut self.cx, &mut self.actors, user, RosterStep::Shown { session });
            }
            Change::Record(_) | Change::MarkAll(_) => self.change_user(user, place, change),
            Change::Mark(on) => self.actors.mark(&mut self.cx, session, place, on),
            Change::Push(payload) => self.actors.push_to_marked(&mut self.cx, user, place, &payload),
            Change::Hide(jid) => self.contacts.roster_step(
                &mut self.cx,
                &mut self.actors,
                user,
                RosterStep::Reveal { jid, visible: false },
            ),
            Change::Show(jid) => self.contacts.roster_step(
                &mut self.cx,
                &mut self.actors,
                user,
                RosterStep::Reveal { jid, visible: true },
            ),
        }
    }

    fn change_user(&mut self, user: u32, place: usize, change: Change) {
        match change {
            Change::Record(row) => self.actors.put_record(&mut self.cx, user, place, &row),
            Change::MarkAll(on) => {
                let all: Vec<SessionId> =
                    self.actors.users.sessions(&self.actors.sessions, user).map(|(id, _)| id).collect();
                all.into_iter().for_each(|session| self.actors.mark(&mut self.cx, session, place, on));
            }
            _ => {}
        }
    }

    fn do_account_action(&mut self, asker: Asker, account: &str, action: AccountAction) {
        if self.cx.kernel.settings.domains.keeps_outside(account) {
            return self.actors.answer(&mut self.cx, asker, Err(Limit::KeptElsewhere.into()));
        }
        match action {
            AccountAction::ChangePassword { password } => {
                let Some(job) = self.accounts.derive_keys(&mut self.cx, &password) else {
                    return self.actors.answer(&mut self.cx, asker, Err(Limit::Credentials.into()));
                };
                self.accounts.change_password(&mut self.cx, &mut self.actors, asker, account, job);
            }
            AccountAction::Remove => {
                self.accounts.delete_account(&mut self.cx, &mut self.actors, account, Remover::Session(asker))
            }
            // Making an account is for those who have none yet (XEP-0077 3.1).
            AccountAction::Create { .. } => {
                self.actors.answer(&mut self.cx, asker, Err(StanzaCondition::NotAllowed.into()))
            }
        }
    }

    /// The next one goes on of those that have asked something of which all is known here.
    pub(crate) fn known_read_goes_on(&mut self) {
        if let Some(read) = self.requests.known_reads.pop_front() {
            self.feature_found(read, Vec::new());
        }
    }

    pub(crate) fn feature_found(&mut self, mut read: FeatureRead, found: Vec<Found>) {
        let found = self.answers(std::mem::take(&mut read.asked), found);
        let Some(found) = self.requests.floors.above(std::mem::take(&mut read.numbered), found) else {
            return self.feature_unreadable(read);
        };
        // The session has ended, perhaps because its account was removed: nothing is written for it any more.
        if let Some((session, _)) = read.asker.session.filter(|_| !self.actors.asks_still(&read.asker)) {
            if read.asker.paced {
                self.paced_over(bare_of(&read.asker.from), session);
            }
            return self.turn_over(read.turn);
        }
        if read.asker.session.is_none() && !self.has_its_account(&read.turn) {
            self.actors.answer(&mut self.cx, read.asker, Err(StanzaCondition::ServiceUnavailable.into()));
            return self.turn_over(read.turn);
        }
        if let Some((session, _)) = read.asker.session {
            let came = found.iter().map(|found| work(1, found.bytes())).sum();
            self.cx.tell(session, Down::GiveBack(read.charged.saturating_sub(came)));
        }
        let account = read.asker.to.as_deref().map_or("", bare_of).to_owned();
        match (read.pending.go_on(&self.around(), &found), read.turn) {
            (Step::Read(queries, pending) | Step::InTurn(queries, pending), turn @ Some(_)) => {
                self.read_for(read.asker, read.place, queries, pending, turn);
            }
            (Step::Then(then), turn) => self.goes_on(read.asker, read.place, *then, turn),
            (step, turn) => {
                // Somebody else may have written since it was read.
                debug_assert!(turn.is_some() || !step.is_change(), "what is written rests on what was read in turn");
                self.do_step(read.asker, &account, read.place, step);
                self.turn_over(turn);
            }
        }
    }

    /// A request in its turn goes on when whoever asked is answered.
    fn goes_on(&mut self, asker: Asker, place: usize, then: Then, turn: InTurn) {
        if then.answer.is_some() && self.cx.kernel.storage == StorageState::Full {
            self.actors.answer(&mut self.cx, asker, Err(Limit::Disk.into()));
            return self.turn_over(turn);
        }
        let nobody = Asker::nobody(asker.to.as_deref().unwrap_or_default());
        then.changes.into_iter().for_each(|change| self.do_change(&asker, place, change));
        if let Some(answer) = then.answer {
            self.actors.answer(&mut self.cx, asker, Ok(&answer));
        }
        self.read_for(nobody, place, then.queries, then.pending, turn);
    }

    pub(crate) fn feature_unreadable(&mut self, read: FeatureRead) {
        self.do_step(read.asker, "", read.place, Step::Error(StanzaCondition::InternalServerError.into()));
        self.turn_over(read.turn);
    }
}
