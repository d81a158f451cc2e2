//! What is known about an account, and what waits until it is known.

use crate::actors::Actors;
use crate::extension;
use crate::id::ConnId;
use crate::kernel::pending::{AccountRead, LoginRead, Pending, UserRead, get};
use crate::letters::{AGAIN, Delivery, Kind, Letter, MessageClass, Origin};
use crate::router::users::{Incoming, Known, Waiting};
use crate::session::conn::NONE;
use crate::session::sasl::Authenticated;
use crate::store::account::{Incarnation, Standing};
use crate::store::record::AccountRows;
use crate::store::waiting::Rest;
use crate::store::{Found, Query, Table, archive, record, roster, sessions};
use crate::streams::Streams;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::jid::bare_of;
use crate::wire::limit::{Limit, Refusal};
use crate::wire::written::id_of_stanza;

/// Answers that are read for a receiver: the account with its records, and the cursor. Rows of
/// stored sessions may follow them.
pub(crate) const RECEIVER_ANSWERS: usize = 2;

impl Actors {
    /// Whether something waits for this user's account. Later stanzas must queue behind it (RFC
    /// 6120 10.1).
    pub(crate) fn has_parked(&self, user: Option<u32>) -> bool {
        let state = user.and_then(|user| self.users.get(user).state.as_ref());
        state.is_some_and(|state| !state.parked.is_empty())
    }

    /// Queues something until the account is read. Returns false if too much is waiting already.
    pub(crate) fn wait_for_account(&mut self, cx: &mut Streams, account: &str, waiting: Waiting) -> bool {
        let now_s = cx.kernel.now.mono_s();
        let user = self.users.find_or_insert(account);
        let state = self.users.state(user, now_s);
        if state.parked.len() >= crate::limits::PARKED_STANZAS_MAX {
            cx.kernel.counters.parked_refused.one();
            return false;
        }
        state.parked.push_back(waiting);
        let asked = std::mem::replace(&mut state.asked, true);
        self.parked += 1;
        cx.kernel.counters.parked_came.one();
        if !asked {
            let queries = self.receiver_queries(cx, account).collect();
            cx.kernel.read(Pending::User(UserRead::Receiver(account.into())), queries);
        }
        true
    }

    /// Reads for a receiver: [`RECEIVER_ANSWERS`] answers, and one more while sessions are being
    /// restored.
    fn receiver_queries(&self, cx: &Streams, account: &str) -> impl Iterator<Item = Query> {
        let stored = self.may_have_stored(cx).then(|| sessions::query(account));
        [record::query_all(account), get(Table::Waiting, account)].into_iter().chain(stored)
    }

    /// Whether the store may have sessions of an earlier process that are not in memory yet.
    pub(crate) fn may_have_stored(&self, cx: &Streams) -> bool {
        cx.kernel.settings.restores && !cx.kernel.restored
    }

    /// Holds a stanza until its receiver's account and cursor are read.
    pub(crate) fn park(&mut self, cx: &mut Streams, account: &str, stanza: Incoming<'_>) {
        if !self.wait_for_account(cx, account, Waiting::Stanza(stanza.into())) {
            self.turn_away(cx, stanza, Limit::Waiting);
        }
    }

    /// Answers a stanza with an error, if its kind permits errors, and finishes it. The entry in
    /// its sender's log becomes void.
    pub(crate) fn turn_away(&mut self, cx: &mut Streams, stanza: Incoming<'_>, refusal: impl Into<Refusal>) {
        self.answer_with_error(cx, stanza, refusal);
        self.void_elsewhere(cx, stanza);
        cx.kernel.confirm(stanza.origin);
    }

    /// Makes the entry of a refused stanza in its sender's log void.
    pub(crate) fn void_elsewhere(&mut self, cx: &mut Streams, stanza: Incoming<'_>) {
        if let Some(Origin { shard, entry, .. }) = stanza.origin.filter(|origin| origin.entry & !AGAIN != 0) {
            let entry = entry & !AGAIN;
            let letters = cx.kernel.letters_to(shard);
            let from = letters.name(stanza.from);
            letters.push(Letter::Delivery(Delivery::Refused { from, entry }));
        }
    }

    /// The user does not exist (RFC 6121 8.5.1). A headline is ignored, as it is for a user without
    /// sessions (8.5.4).
    pub(crate) fn for_no_one(&mut self, cx: &mut Streams, stanza: Incoming<'_>) {
        if !matches!(stanza.kind, Kind::Message { class: MessageClass::Headline, .. }) {
            return self.turn_away(cx, stanza, StanzaCondition::ServiceUnavailable);
        }
        cx.kernel.confirm(stanza.origin);
    }

    /// Answers a stanza with an error, if its kind permits errors.
    pub(crate) fn answer_with_error(&mut self, cx: &mut Streams, stanza: Incoming<'_>, refusal: impl Into<Refusal>) {
        let refusal = refusal.into();
        cx.kernel.limited(refusal, || bare_of(stanza.to).to_owned());
        let name = match stanza.kind {
            Kind::Message { class: crate::letters::MessageClass::Error, .. }
            | Kind::Response
            | Kind::Directed { .. } => {
                return;
            }
            Kind::Message { .. } => "message",
            Kind::Request => "iq",
        };
        if name == "message" {
            cx.kernel.counters.messages_refused.one();
        }
        if self.observers.is_some() {
            self.tap_aside(cx, stanza, Some(refusal.condition));
        }
        let id = id_of_stanza(stanza.xml);
        cx.kernel.send_error_letter(name, id.as_deref(), stanza.to, stanza.from, refusal);
    }

    /// Makes an entry of a sender's log void, because its message was refused.
    pub(crate) fn void(&mut self, cx: &mut Streams, from: &str, entry: u64) {
        let user = self.users.find(from);
        let known = user.and_then(|user| self.users.get(user).state.as_ref()).map_or(Known::Unknown, |s| s.known);
        if known != Known::Missing {
            archive::put_void(&mut cx.kernel.writes, bare_of(from), entry);
        }
    }

    /// Whether an account of this home is known to be suspended.
    pub(crate) fn is_suspended(&self, account: &str) -> bool {
        let state = self.users.find(account).and_then(|user| self.users.get(user).state.as_ref());
        state.is_some_and(|state| state.standing == Some(Standing::Suspended))
    }

    /// Whether the account that a connection has authenticated for exists and may be used. If that
    /// is not known, returns `None` and blocks the connection until it is.
    pub(crate) fn is_there(&mut self, cx: &mut Streams, conn: ConnId, owner: &Authenticated) -> Option<bool> {
        let state = self.users.find(owner.bare()).and_then(|user| self.users.get(user).state.as_ref());
        match state.map_or(Known::Unknown, |state| state.known) {
            Known::Exists(incarnation) => Some(incarnation == owner.incarnation() && !self.is_suspended(owner.bare())),
            Known::Missing => Some(false),
            Known::Unknown => {
                cx.block(conn);
                if !self.wait_for_account(cx, owner.bare(), Waiting::Claim(conn)) {
                    let text = Some("too many stanzas wait for this account; try again later");
                    cx.fail_stream(conn, StreamCondition::ResourceConstraint, text);
                }
                None
            }
        }
    }

    /// Reads an account's record and the additional rows. The account's state in memory is retained
    /// until then. The caller must pass the answer to [`Actors::seen`].
    pub(crate) fn look(&mut self, cx: &mut Streams, pending: Pending, account: &str, more: Option<Query>) {
        let (user, now_s) = (self.users.find_or_insert(account), cx.kernel.now.mono_s());
        self.users.state(user, now_s).looks += 1;
        let record = get(Table::Accounts, account);
        // No row is read with it that the gate would hold back longer: a login is refused even
        // while the disk stalls.
        cx.kernel.read(pending, [record].into_iter().chain(more).collect());
    }

    /// Does the same for a login. If nothing is known of the user yet and no read is in progress,
    /// all that a session needs is read at once, for the resource binding and the first presence:
    /// also whether anything is in the log after the cursor. While the disk stalls, only the record
    /// is read, because that does not wait.
    pub(crate) fn look_for_login(&mut self, cx: &mut Streams, read: AccountRead) {
        let (user, now_s) = (self.users.find_or_insert(&read.account), cx.kernel.now.mono_s());
        let held = cx.held_s != u32::MAX;
        let sessionless = self.users.get(user).first == NONE;
        let state = self.users.state(user, now_s);
        if held || !state.is_blank() {
            let account = read.account.clone();
            return self.look(cx, Pending::Login(LoginRead::Account(read)), &account, None);
        }
        state.looks += 1;
        (state.asked, state.roster_asked, state.sessionless) = (true, true, sessionless);
        let [first, last] = Rest::queries(&read.account);
        let mut queries: Vec<Query> = self.receiver_queries(cx, &read.account).collect();
        queries[1] = first;
        queries.extend([last, roster::query(&read.account)]);
        cx.kernel.read(Pending::Login(LoginRead::Coming(read)), queries);
    }

    /// Determines the account from the rows found and the writes made since. Returns the account,
    /// and its record if the record is the account's. Leaves the additional rows in what was found.
    pub(crate) fn seen(
        &mut self,
        cx: &mut Streams,
        account: &str,
        found: &mut Vec<Found>,
    ) -> (Option<Incarnation>, Option<Box<[u8]>>) {
        let (user, now_s) = (self.users.find_or_insert(account), cx.kernel.now.mono_s());
        let state = self.users.state(user, now_s);
        state.looks = state.looks.saturating_sub(1);
        let mut record = match found.is_empty() {
            true => None,
            false => found.remove(0).value(),
        };
        if let (Some(standing), Some(record)) = (state.standing, &mut record) {
            standing.correct(record);
        }
        let read = record.as_deref().map(Incarnation::of_record);
        let there = match state.known {
            Known::Exists(incarnation) => Some(incarnation),
            Known::Missing => None,
            Known::Unknown => read,
        };
        // If the account exists, its state includes the records of extensions, which were not read
        // here.
        if there.is_none() {
            state.known = Known::Missing;
        }
        (there, record.filter(|_| read == there))
    }

    /// An account has been read with its records. Later writes in memory take precedence: the state
    /// of an account, and the extension records of a user with a session, because only that user's
    /// sessions change them. Returns the account.
    pub(crate) fn account_is(&mut self, cx: &mut Streams, user: u32, rows: &AccountRows) -> Option<Incarnation> {
        let (now_s, online) = (cx.kernel.now.mono_s(), self.users.get(user).first != NONE);
        let state = self.users.state(user, now_s);
        let there = match state.known {
            Known::Exists(incarnation) => Some(incarnation),
            Known::Missing => None,
            Known::Unknown => {
                let record = rows.account();
                let read = record.map(Incarnation::of_record);
                let first = read.is_some() && !online;
                if first {
                    state.notes = extension::load(rows);
                }
                state.missed |= rows.has_missed();
                state.known = read.map_or(Known::Missing, Known::Exists);
                state.standing = state.standing.or(record.map(Standing::of_record));
                if first {
                    self.users.set_photo(user, extension::photo(&cx.kernel.facts, rows));
                }
                return read;
            }
        };
        state.known = there.map_or(Known::Missing, Known::Exists);
        there
    }

    /// An account's record could not be read. What is known of the account does not change.
    pub(crate) fn unseen(&mut self, cx: &mut Streams, account: &str) {
        let (user, now_s) = (self.users.find_or_insert(account), cx.kernel.now.mono_s());
        let state = self.users.state(user, now_s);
        state.looks = state.looks.saturating_sub(1);
    }

    /// Forgets a name without an account, so that a client that guesses names does not fill memory.
    pub(crate) fn forget_no_one(&mut self, account: &str) {
        let Some(user) = self.users.find(account) else { return };
        let entry = self.users.get_mut(user);
        let missing = entry.state.as_ref().is_some_and(|s| s.known == Known::Missing && s.is_settled(false));
        if missing && entry.first == NONE {
            entry.state = None;
            self.users.forget_if_idle(user);
        }
    }
}
