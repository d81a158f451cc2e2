//! Actors of services with a domain of their own: requests on their way to them, and what they say of users.

use crate::extension::offline::Keep;
use crate::id::{ActorKind, Service};
use crate::kernel::pending::{Asker, Pending, RequestRead};
use crate::letters::{Kind, Letter, MessageClass, NodeLetter, UserLetter};
use crate::limits::{MEMBERSHIP_BYTES, NODE_NOTIFY_WORK_MAX, NODE_TOLD_AT_ONCE};
use crate::router::users::Known;
use crate::shard::Shard;
use crate::store::Found;
use crate::store::nodes::{self as rows, Named};
use crate::store::room;
use crate::streams::work::work;
use crate::wire::jid::bare_of;
use crate::wire::splice::address;
use crate::wire::text::write_attribute;

impl Shard {
    /// A request of an own session, or a form in a message, goes on at the home of an actor.
    pub(super) fn route(&mut self, asker: Asker, kind: Kind, to: &str, set: bool, payload: &[u8]) {
        // Who asks from elsewhere, or for the server, has asked at the actor's home.
        let Some((session, seq)) = asker.session else { return };
        let origin = self.actors.sent_off(&mut self.cx, session, seq, payload.len());
        let home = self.cx.kernel.home(to);
        let name = if kind == Kind::Request { "iq" } else { "message" };
        self.cx.kernel.post(home, kind, origin, &asker.from, to, |out| {
            out.push(b'<');
            out.extend_from_slice(name.as_bytes());
            if kind == Kind::Request {
                write_attribute(out, "type", if set { "set" } else { "get" });
            }
            if let Some(id) = asker.id.as_deref() {
                write_attribute(out, "id", id);
            }
            out.push(b'>');
            out.extend_from_slice(payload);
            out.extend_from_slice(format!("</{name}>").as_bytes());
        });
    }

    /// Somebody elsewhere is charged for what was asked here.
    pub(super) fn charge_asker(&mut self, asker: &Asker, count: usize, bytes: usize) {
        self.channels.charge_front(&mut self.cx, &asker.from, asker.front, u32::try_from(count).unwrap_or(u32::MAX));
        // Nobody waits for the answer, whom its cost could be charged to.
        let Some(origin) = asker.origin else { return };
        let work = work(count, bytes).min(NODE_NOTIFY_WORK_MAX);
        let letters = self.cx.kernel.letters_to(origin.shard);
        let user = letters.name(bare_of(&asker.from));
        letters.push(Letter::User(UserLetter::Charge { session: origin.session, user, work }));
    }

    /// A message of a service to a user, which may wait there.
    pub(super) fn service_message(&mut self, from: &str, to: &str, xml: &[u8]) {
        let home = self.cx.kernel.home(to);
        let kind = Kind::Message { class: MessageClass::Normal, keep: Keep::UntilDelivered };
        self.cx.kernel.post(home, kind, None, from, to, |out| address(out, xml, from, to));
    }

    /// A user's home, or the service's, is told of a node of this home.
    pub(super) fn belongs(&mut self, to: &str, node: &str, own: bool, row: &[u8]) {
        let home = self.cx.kernel.home(to);
        let letters = self.cx.kernel.letters_to(home);
        let (to, node, row) = (letters.name(to), letters.name(node), letters.write(row));
        letters.push(Letter::Node(NodeLetter::Belongs { to, node, own, row }));
    }

    /// A node says what it has to do with a user of this home, or how its service is to show it.
    pub(crate) fn belongs_to(&mut self, to: &str, node: &str, own: bool, row: &[u8]) {
        if let Some((_, ActorKind::Service(Service::PubSub))) = self.cx.kernel.settings.domains.of(to) {
            return Named::Shown.put(&mut self.cx.kernel.writes, to, node, row);
        }
        let state = self.actors.users.find(to).and_then(|user| self.actors.users.get(user).state.as_ref());
        if state.is_some_and(|state| state.known == Known::Missing) {
            if !row.is_empty() {
                self.send_forget(node, to);
            }
            return;
        }
        let (kind, other) = if own { (Named::Own, Named::Given) } else { (Named::Given, Named::Own) };
        kind.put(&mut self.cx.kernel.writes, to, node, row);
        other.put(&mut self.cx.kernel.writes, to, node, b"");
    }

    fn send_forget(&mut self, node: &str, user: &str) {
        let home = self.cx.kernel.home(node);
        let letters = self.cx.kernel.letters_to(home);
        let (node, user) = (letters.name(node), letters.name(user));
        letters.push(Letter::Node(NodeLetter::Forget { node, user }));
    }

    /// An account is gone, with its rows but for those of what nodes know of it: those nodes are told, and then these rows go.
    pub(crate) fn leave_nodes(&mut self, account: &str) {
        let most = NODE_TOLD_AT_ONCE;
        let bytes = most * MEMBERSHIP_BYTES;
        let mut queries: Vec<_> = [Named::Own, Named::Given].map(|kind| kind.after(account, "", most, bytes)).into();
        queries.push(room::known_query(account, None, most as usize));
        self.cx.kernel.read(Pending::Request(RequestRead::Memberships(account.into())), queries);
    }

    /// These nodes know it.
    pub(crate) fn memberships_found(&mut self, account: &str, found: &[Found]) {
        let mut more_left = found.get(2).is_some_and(|rooms| self.leave_rooms(account, rooms));
        for (kind, found) in [Named::Own, Named::Given].into_iter().zip(found) {
            let Found::Rows { rows: found, more } = found else { continue };
            more_left |= more;
            for row in found {
                let Some(node) = rows::named(&row.sort) else { continue };
                self.send_forget(node, account);
                kind.put(&mut self.cx.kernel.writes, account, node, b"");
            }
        }
        if more_left {
            self.leave_nodes(account);
        }
    }
}
