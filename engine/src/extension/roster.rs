//! One user's roster as the home shard caches it, and every change to it (RFC 6121 2, 3).
//!
//! A change alters the cached form, adds its rows to a batch and returns what follows; nothing is
//! read, sent or looked up here. It must never know which resources are connected: pushes go to the
//! "interested" ones (RFC 6121 2.2), and the shard has that flag.
//!
//! **Numbers.** A stanza from the user to a contact of the same deployment carries
//! [`Sent::number`], the server's answer carries the number in [`Received::reply`]; the receiving
//! home passes it to [`Roster::received`]. It identifies an answer to an older request (see
//! `subscription`). Zero means "no number", as with another domain. A probe carries
//! [`Roster::asked`]; the `unsubscribed` that answers for an account that does not exist returns
//! the number that it answers.
//!
//! **Healing.** A crash can lose a stanza between two homes after one of them has recorded its
//! effect. The sender remembers it: a request is pending until it is answered, and the end of a
//! subscription is unconfirmed until the contact's home has recorded it ([`Roster::noted`]). When a
//! resource becomes available, both are sent again ([`Roster::ask_again`],
//! [`Roster::unconfirmed`]).

use super::iq::SetItem;
use super::roster_iq::{self, GetAnswer, state_of};
use super::subscription::{Answer, Kind, OwnPresence, State, inbound, outbound};
use super::{Condition, Limit, Refusal};
use crate::limits::{
    ROSTER_AGAIN_MAX, ROSTER_BYTES_MAX, ROSTER_GROUP_BYTES_MAX, ROSTER_GROUPS_MAX, ROSTER_ITEMS_MAX,
    ROSTER_NAME_BYTES_MAX, ROSTER_PENDING_MAX, ROSTER_REQUEST_BYTES_MAX,
};
use crate::store::roster::{self as rows, Groups, ItemView, Life, Unconfirmed, Version};
use crate::store::{Batch, Found};

/// A user's roster: its items sorted by the contact's JID, each in one allocation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roster {
    version: Version,
    /// The incarnation of the account in which the roster is changed.
    life: Life,
    entries: Vec<Entry>,
    listed: usize,
    bytes: usize,
}

/// The JID's length (2 bytes), the contact's bare JID and the stored row.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry(Box<[u8]>);

impl Entry {
    fn new(contact: &str, item: &ItemView<'_>) -> Entry {
        let len = u16::try_from(contact.len()).expect("a bare JID has at most 2,047 bytes");
        let mut bytes = Vec::with_capacity(contact.len() + item.name.len() + item.pending.len() + 40);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(contact.as_bytes());
        item.encode(&mut bytes);
        Entry(bytes.into())
    }

    /// Builds an entry from a stored row; `None` if the contact's JID is too long.
    fn of_row(contact: &[u8], record: &[u8]) -> Option<Entry> {
        let len = u16::try_from(contact.len()).ok()?.to_le_bytes();
        Some(Entry([&len, contact, record].concat().into()))
    }

    fn split(&self) -> (&[u8], &[u8]) {
        let len = usize::from(u16::from_le_bytes([self.0[0], self.0[1]]));
        self.0[2..].split_at(len)
    }

    /// The contact's JID as bytes, which have the same order.
    fn key(&self) -> &[u8] {
        self.split().0
    }

    fn contact(&self) -> &str {
        std::str::from_utf8(self.key()).expect("checked when it was made")
    }

    fn record(&self) -> &[u8] {
        self.split().1
    }

    fn item(&self) -> ItemView<'_> {
        ItemView::decode(self.record()).expect("checked when it was made")
    }

    /// The item's state, without decoding the rest of the row.
    fn state(&self) -> State {
        let number = ItemView::decode_state(self.record()).expect("checked when it was made");
        State::from_number(number).expect("checked when it was loaded")
    }
}

/// What follows from a subscription stanza sent by one of the user's resources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Whether the stanza is routed to the contact, with the user's bare JID as `from` (RFC 6121
    /// 3.1.2).
    pub route: bool,
    /// The number that it carries to a home of the same deployment.
    pub number: u64,
    /// The number that the contact's home is to confirm; 0 for none.
    pub confirm: u64,
    /// Payload of a roster push to the interested resources.
    pub push: Option<Vec<u8>>,
    /// How the user's own presence to the contact changes.
    pub presence: OwnPresence,
}

/// What follows from a subscription stanza sent by a contact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// Whether it is delivered: `subscribe` to the available resources, other kinds to the
    /// interested ones.
    pub deliver: bool,
    /// Payload of a roster push to the interested resources, after the stanza.
    pub push: Option<Vec<u8>>,
    /// The server's immediate answer from the user's bare JID, with the number that it carries.
    pub reply: Option<(Kind, u64)>,
    /// How the user's own presence to the contact changes.
    pub presence: OwnPresence,
}

/// What follows from a removal (RFC 6121 2.5.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    /// Payload of the roster push to the interested resources.
    pub push: Vec<u8>,
    /// Whether `unsubscribe` is sent to the contact.
    pub unsubscribe: bool,
    /// Whether `unsubscribed` is sent to the contact, and with which number.
    pub unsubscribed: Option<u64>,
    /// The number that the contact's home is to confirm for the last of them; 0 for none.
    pub confirm: u64,
    /// How the user's own presence to the contact changes.
    pub presence: OwnPresence,
}

/// The answer to a presence probe (RFC 6121 4.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeAnswer {
    /// The presence of each available resource.
    Presence,
    /// `unsubscribed` with this number: the prober assumes a subscription that does not exist.
    Unsubscribed(u64),
}

/// A subscription stanza that is sent again when a resource becomes available.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Again {
    /// The addressee.
    pub contact: Box<str>,
    /// The stanza's type.
    pub kind: Kind,
    /// The number that it carries or answers.
    pub number: u64,
    /// The number that the contact's home is to confirm; 0 for none.
    pub confirm: u64,
}

/// The number of an answer that is older than every numbered request.
const OUTDATED: u64 = 1;

/// A row of a roster, or its place in the list of rows, is not one that this server writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

impl Roster {
    /// Reads the rows that `store::roster::query` returns.
    ///
    /// # Errors
    /// [`Corrupt`] if a row is malformed or rows are missing.
    pub fn load(found: &Found) -> Result<Roster, Corrupt> {
        let Found::Rows { rows, more: false } = found else {
            return Err(Corrupt);
        };
        let mut roster = Roster::default();
        for row in rows {
            if row.sort.is_empty() {
                roster.version = Version::decode(&row.value).ok_or(Corrupt)?;
                continue;
            }
            let item = ItemView::decode(&row.value).ok_or(Corrupt)?;
            let in_order = roster.entries.last().is_none_or(|last| last.key() < &*row.sort);
            if !in_order || State::from_number(item.state).is_none() || std::str::from_utf8(&row.sort).is_err() {
                return Err(Corrupt);
            }
            let entry = Entry::of_row(&row.sort, &row.value).ok_or(Corrupt)?;
            roster.count(&entry, item.listed, 1);
            roster.entries.push(entry);
        }
        roster.entries.shrink_to_fit();
        Ok(roster)
    }

    /// The same, to be changed in this incarnation.
    #[must_use]
    pub fn in_life(self, life: Life) -> Roster {
        Roster { life, ..self }
    }

    /// The number of the roster's version.
    pub fn version(&self) -> u64 {
        self.version.current
    }

    /// Number of listed items.
    pub fn listed(&self) -> usize {
        self.listed
    }

    /// Memory used by the roster in bytes, with an estimate of the allocator's overhead: for the
    /// eviction of cached rosters.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.bytes + self.entries.len() * 8
    }

    /// The subscription state of a bare JID; [`State::None`] if it is not in the roster.
    pub fn state(&self, contact: &str) -> State {
        self.find(contact).map_or(State::None, |at| self.entries[at].state())
    }

    /// The number of the user's latest request to the contact; 0 if there is none.
    pub fn asked(&self, contact: &str) -> u64 {
        self.find(contact).map_or(0, |at| self.entries[at].item().asked)
    }

    /// The groups of a bare JID; none if it is not in the roster.
    pub fn groups(&self, contact: &str) -> Vec<Box<str>> {
        let Some(at) = self.find(contact) else { return Vec::new() };
        self.entries[at].item().groups.iter().map(Into::into).collect()
    }

    /// All contacts with their states, sorted: those who get the user's presence ([`State::from`])
    /// and those who are probed ([`State::to`]).
    pub fn contacts(&self) -> impl Iterator<Item = (&str, State)> {
        self.entries.iter().map(|entry| (entry.contact(), entry.state()))
    }

    /// The stanzas that are sent to contacts when the account is removed, sorted by contact,
    /// without numbers: no subscription to or from a removed account remains (XEP-0077 3.2 leaves
    /// this to the server).
    pub fn farewells(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.contacts().flat_map(|(contact, state)| {
            let own = (state.to() || state.pending_out()).then_some((contact, Kind::Unsubscribe));
            let theirs = (state.from() || state.pending_in()).then_some((contact, Kind::Unsubscribed));
            own.into_iter().chain(theirs)
        })
    }

    /// The subscription requests that wait for the user's answer, for delivery to a resource that
    /// becomes available (RFC 6121 3.1.3): the contact, and its stanza if it was stored whole.
    pub fn requests(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.entries.iter().filter_map(|entry| {
            let item = entry.item();
            let whole = (!item.pending.is_empty()).then_some(item.pending);
            state_of(&item).pending_in().then(|| (entry.contact(), whole))
        })
    }

    /// The requests that wait for the contacts' answers, sorted by contact, to be sent again when a
    /// resource becomes available (RFC 6121 3.1.2). Each gets a new number: with the old one, it
    /// could cross its own denial.
    pub fn ask_again(&mut self, owner: &str, batch: &mut Batch) -> Vec<Again> {
        let mut asked = Vec::new();
        // The oldest requests come first: they have the lowest numbers.
        let waits = self.entries.iter().map(Entry::item).filter(|item| state_of(item).pending_out());
        let mut numbers: Vec<u64> = waits.map(|item| item.asked).collect();
        numbers.sort_unstable();
        let most = numbers.get(ROSTER_AGAIN_MAX - 1).copied().unwrap_or(u64::MAX);
        for entry in &mut self.entries {
            let item = entry.item();
            if state_of(&item).pending_out() && item.asked <= most && asked.len() < ROSTER_AGAIN_MAX {
                self.version.raise(self.version.current + 1, self.life);
                let item = ItemView { asked: self.version.current, ..item };
                let renewed = Entry::new(entry.contact(), &item);
                self.bytes = self.bytes - entry.0.len() + renewed.0.len();
                *entry = renewed;
                rows::put(batch, owner, entry.contact(), entry.record());
                asked.push(Again {
                    contact: entry.contact().into(),
                    kind: Kind::Subscribe,
                    number: self.version.current,
                    confirm: 0,
                });
            }
        }
        if !asked.is_empty() {
            rows::put_version(batch, owner, self.version);
        }
        asked
    }

    /// The ends of subscriptions that the contacts' homes may not have recorded, sorted by contact,
    /// to be sent again when a resource becomes available: each with the number that it answers and
    /// the one to be confirmed.
    pub fn unconfirmed(&self) -> impl Iterator<Item = Again> {
        self.entries.iter().flat_map(|entry| {
            let item = entry.item();
            let Unconfirmed { number, left, ended } = item.unconfirmed;
            // The contact's latest request waits here: the subscription that has ended is an older
            // one.
            let answered = if state_of(&item).pending_in() { OUTDATED.min(item.seen) } else { item.seen };
            // One confirmation suffices for both.
            let of_left = if ended { 0 } else { number };
            let again = |kind, number, confirm| Again { contact: entry.contact().into(), kind, number, confirm };
            let left = left.then(|| again(Kind::Unsubscribe, item.seen, of_left));
            let ended = ended.then(|| again(Kind::Unsubscribed, answered, number));
            left.into_iter().chain(ended)
        })
    }

    /// The contact's home has recorded the end of a subscription with the number `confirm`, and all
    /// before it.
    pub fn noted(&mut self, owner: &str, contact: &str, confirm: u64, batch: &mut Batch) {
        let Some(old) = self.take(contact) else { return };
        let before = old.item();
        if before.unconfirmed.number != confirm {
            return self.put_back(old);
        }
        let item = ItemView { unconfirmed: Unconfirmed::default(), ..before };
        let entry = Entry::new(contact, &item);
        self.settle(owner, contact, before, item, entry, batch);
    }

    /// The listed items, sorted by contact.
    fn items(&self) -> impl Iterator<Item = (&str, ItemView<'_>)> + Clone {
        self.entries.iter().map(|entry| (entry.contact(), entry.item())).filter(|(_, item)| item.listed)
    }

    /// The listed contacts.
    pub fn listed_contacts(&self) -> impl Iterator<Item = &str> + Clone {
        self.items().map(|(contact, _)| contact)
    }

    /// Answers a roster get with the client's version, if it sent one.
    pub fn get(&self, ver: Option<&str>) -> GetAnswer {
        roster_iq::answer(self.version, self.items(), ver)
    }

    /// Adds an item or changes its name and groups (RFC 6121 2.3, 2.4). Returns the push's payload.
    ///
    /// # Errors
    /// [`Condition::NotAllowed`] for the user's own JID, [`Limit::RosterItem`], [`Limit::Roster`].
    pub fn set(&mut self, owner: &str, set: &SetItem, batch: &mut Batch) -> Result<Vec<u8>, Refusal> {
        if *set.jid == *owner {
            return Err(Condition::NotAllowed.into());
        }
        let refused = |group: &str| group.is_empty() || group.len() > ROSTER_GROUP_BYTES_MAX;
        if set.name.len() > ROSTER_NAME_BYTES_MAX
            || set.groups.len() > ROSTER_GROUPS_MAX
            || set.groups.iter().any(|group| refused(group))
        {
            return Err(Limit::RosterItem.into());
        }
        let mut groups = Vec::new();
        Groups::encode(&set.groups, &mut groups);
        let old = self.take(&set.jid);
        let before = old.as_ref().map_or_else(ItemView::default, Entry::item);
        let item = ItemView {
            listed: true,
            ver: self.version.current + 1,
            name: &set.name,
            groups: Groups::from_encoded(&groups).expect("just encoded"),
            ..before
        };
        let entry = Entry::new(&set.jid, &item);
        let full = !before.listed && self.listed >= ROSTER_ITEMS_MAX;
        if full || self.bytes + entry.0.len() > ROSTER_BYTES_MAX {
            if let Some(old) = old {
                self.put_back(old);
            }
            return Err(Limit::Roster.into());
        }
        self.version.raise(self.version.current + 1, self.life);
        rows::put_version(batch, owner, self.version);
        Ok(self.write(owner, entry, batch))
    }

    /// Removes a listed item (RFC 6121 2.5).
    ///
    /// # Errors
    /// [`Condition::ItemNotFound`] if the roster does not list it (2.5.3).
    pub fn remove(&mut self, owner: &str, contact: &str, batch: &mut Batch) -> Result<Removed, Condition> {
        let at = self.find(contact).ok_or(Condition::ItemNotFound)?;
        let item = self.entries[at].item();
        if !item.listed {
            return Err(Condition::ItemNotFound);
        }
        let (state, seen) = (state_of(&item), item.seen);
        // The unconfirmed ends are sent again, so that one confirmation suffices for all.
        let unconfirmed = Unconfirmed {
            number: self.version.current + 1,
            left: state.to() || state.pending_out() || item.unconfirmed.left,
            ended: state.from() || item.unconfirmed.ended,
        };
        self.version.raise(self.version.current + 1, self.life);
        self.version.removal = self.version.current;
        rows::put_version(batch, owner, self.version);
        // An end that cannot be remembered is sent once.
        let room = self.entries.len() - self.listed < ROSTER_PENDING_MAX;
        let confirm = if room && !unconfirmed.is_empty() { unconfirmed.number } else { 0 };
        let entry = Entry::new(contact, &ItemView { asked: item.asked, seen, unconfirmed, ..ItemView::default() });
        drop(self.take(contact));
        if confirm == 0 {
            rows::delete(batch, owner, contact);
        } else {
            self.write(owner, entry, batch);
        }
        Ok(Removed {
            push: roster_iq::push_removed(&self.version, contact),
            unsubscribe: unconfirmed.left,
            unsubscribed: (unconfirmed.ended || state.pending_in()).then_some(seen),
            confirm,
            presence: if state.from() { OwnPresence::Hide } else { OwnPresence::Keep },
        })
    }

    /// Handles a subscription stanza from one of the user's resources to the contact's bare JID
    /// (RFC 6121 A.2). To the user's own JID it does nothing: a user's resources always see each
    /// other (RFC 6121 4.2.2).
    ///
    /// # Errors
    /// [`Limit::Roster`] if it requires a new item.
    pub fn sent(&mut self, owner: &str, contact: &str, kind: Kind, batch: &mut Batch) -> Result<Sent, Refusal> {
        if contact == owner {
            return Ok(Sent { route: false, number: 0, confirm: 0, push: None, presence: OwnPresence::Keep });
        }
        let old = self.take(contact);
        let before = old.as_ref().map_or_else(ItemView::default, Entry::item);
        let state = state_of(&before);
        let result = outbound(state, before.approved, kind);
        let Unconfirmed { mut left, mut ended, .. } = before.unconfirmed;
        match kind {
            Kind::Subscribe => left = false,
            Kind::Unsubscribe => left |= state.to() || state.pending_out(),
            Kind::Subscribed => ended &= !result.route,
            Kind::Unsubscribed => ended |= state.from(),
        }
        let ends = (kind == Kind::Unsubscribe && left) || (kind == Kind::Unsubscribed && ended && result.route);
        let numbered = kind == Kind::Subscribe || ends;
        let new_version = self.version.current + u64::from(numbered || result.push);
        let item = ItemView {
            listed: before.listed || result.push,
            approved: result.approved,
            state: result.state as u8,
            ver: if result.push { new_version } else { before.ver },
            asked: if kind == Kind::Subscribe { new_version } else { before.asked },
            unconfirmed: Unconfirmed { left, ended, ..before.unconfirmed }.numbered(ends.then_some(new_version)),
            pending: if result.state.pending_in() { before.pending } else { b"" },
            ..before
        };
        let number = if kind == Kind::Subscribe { new_version } else { item.seen };
        // While the other end is also unconfirmed, both are sent again together later.
        let confirm = if ends && !(left && ended) { new_version } else { 0 };
        let entry = Entry::new(contact, &item);
        let adds = item.listed && !before.listed;
        if adds && (self.listed >= ROSTER_ITEMS_MAX || self.bytes + entry.0.len() > ROSTER_BYTES_MAX) {
            if let Some(old) = old {
                self.put_back(old);
            }
            return Err(Limit::Roster.into());
        }
        if new_version != self.version.current {
            self.version.raise(new_version, self.life);
            rows::put_version(batch, owner, self.version);
        }
        let push = self.settle(owner, contact, before, item, entry, batch);
        Ok(Sent { route: result.route, number, confirm, push: push.filter(|_| result.push), presence: result.presence })
    }

    /// Handles a subscription stanza from the contact to the user (RFC 6121 A.3). `number` is the
    /// number that it carries, `stanza` its bytes as delivered (a `subscribe` is stored until it is
    /// answered).
    pub fn received(
        &mut self,
        owner: &str,
        contact: &str,
        kind: Kind,
        number: u64,
        stanza: &[u8],
        batch: &mut Batch,
    ) -> Received {
        let nothing = Received { deliver: false, push: None, reply: None, presence: OwnPresence::Keep };
        if contact == owner {
            return nothing;
        }
        let old = self.take(contact);
        let before = old.as_ref().map_or_else(ItemView::default, Entry::item);
        let answer = if number != 0 && number < before.asked { Answer::Stale } else { Answer::Current };
        let result = inbound(state_of(&before), before.approved, kind, answer);
        let asks = result.state.pending_in();
        let new_version = self.version.current + u64::from(result.push);
        let mut item = ItemView {
            state: result.state as u8,
            ver: if result.push { new_version } else { before.ver },
            seen: if kind == Kind::Subscribe { number } else { before.seen },
            unconfirmed: if result.reply == Some(Kind::Subscribed) {
                Unconfirmed { ended: false, ..before.unconfirmed }.numbered(None)
            } else {
                before.unconfirmed
            },
            pending: if asks { before.pending } else { b"" },
            ..before
        };
        let room = self.bytes + contact.len() + stanza.len() + 64 <= ROSTER_BYTES_MAX;
        if asks && kind == Kind::Subscribe && result.deliver && stanza.len() <= ROSTER_REQUEST_BYTES_MAX && room {
            item.pending = stanza;
        }
        let entry = Entry::new(contact, &item);
        let hidden = self.entries.len() - self.listed;
        if old.is_none() && asks && (hidden >= ROSTER_PENDING_MAX || !room) {
            // Denied, so that the requester does not wait for an answer that cannot be given.
            return Received { reply: Some((Kind::Unsubscribed, number)), ..nothing };
        }
        if result.push {
            self.version.raise(new_version, self.life);
            rows::put_version(batch, owner, self.version);
        }
        let seen = item.seen;
        let push = self.settle(owner, contact, before, item, entry, batch).filter(|_| result.push);
        let reply = result.reply.map(|kind| (kind, seen));
        Received { deliver: result.deliver, push, reply, presence: result.presence }
    }

    /// Handles a probe from the contact, with the number of its latest request (RFC 6121 4.3.2).
    pub fn probed(&self, contact: &str, number: u64) -> ProbeAnswer {
        match self.state(contact) {
            state if state.from() => ProbeAnswer::Presence,
            // The contact's latest request waits here: the subscription that has ended is an older
            // one.
            state if state.pending_in() && number > OUTDATED => ProbeAnswer::Unsubscribed(OUTDATED),
            _ => ProbeAnswer::Unsubscribed(number),
        }
    }

    /// Keeps, writes or drops an item that was taken out: empty rows are dropped, and unchanged
    /// rows are not written. Returns a push's payload if the item is kept.
    fn settle(
        &mut self,
        owner: &str,
        contact: &str,
        before: ItemView<'_>,
        item: ItemView<'_>,
        entry: Entry,
        batch: &mut Batch,
    ) -> Option<Vec<u8>> {
        if !item.listed && !state_of(&item).pending_in() && item.unconfirmed.is_empty() {
            if before != ItemView::default() {
                rows::delete(batch, owner, contact);
            }
            return None;
        }
        if item == before {
            self.put_back(entry);
            return None;
        }
        Some(self.write(owner, entry, batch))
    }

    /// Puts an item into the cache and its row into the batch. Returns a push's payload.
    fn write(&mut self, owner: &str, entry: Entry, batch: &mut Batch) -> Vec<u8> {
        rows::put(batch, owner, entry.contact(), entry.record());
        let push = roster_iq::push(&self.version, self.version.current, entry.contact(), &entry.item());
        self.put_back(entry);
        push
    }

    fn find(&self, contact: &str) -> Option<usize> {
        self.entries.binary_search_by(|entry| entry.key().cmp(contact.as_bytes())).ok()
    }

    fn take(&mut self, contact: &str) -> Option<Entry> {
        let at = self.find(contact)?;
        let entry = self.entries.remove(at);
        self.count(&entry, entry.item().listed, -1);
        Some(entry)
    }

    fn put_back(&mut self, entry: Entry) {
        self.count(&entry, entry.item().listed, 1);
        let at = self.entries.partition_point(|other| other.key() < entry.key());
        self.entries.insert(at, entry);
    }

    fn count(&mut self, entry: &Entry, listed: bool, sign: isize) {
        self.bytes = self.bytes.wrapping_add_signed(sign * entry.0.len() as isize);
        self.listed = self.listed.wrapping_add_signed(sign * isize::from(listed));
    }
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
