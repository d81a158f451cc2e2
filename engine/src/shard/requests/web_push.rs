//! Pages that are closed are told of items by their push services (RFC 8030), at the channel's home: registrations are made and removed as
//! the node's rows are, and read in pages when there is something to tell.

use std::sync::Arc;

use crate::channels::home::is_private;
use crate::channels::web_push::{Told, Verdict};
use crate::extension;
use crate::extension::pubsub::service::registration::{By, Registering, Registration, Removal};
use crate::id::PushId;
use crate::io::{Effect, PushOutcome, WebPush};
use crate::kernel::pending::{Asker, ChannelRead, Elsewhere, Front, Pending};
use crate::limits::{NOTIFY_PUSH_ENDPOINT_BYTES_MAX, NOTIFY_PUSH_PAGE};
use crate::shard::Shard;
use crate::store::nodes as rows;
use crate::store::{Found, Row};
use crate::web::push::Push;

/// What follows from a registration that a round has come to.
enum Standing {
    /// It is over.
    Over,
    /// It is not told.
    Passed,
    /// It is told, by this entry of the operator's list.
    Told(usize, Registration),
}

impl Shard {
    /// A page of a network registers at a channel of this home.
    pub(crate) fn channel_register(
        &mut self,
        (front, from): (Front, &str),
        node: &str,
        id: PushId,
        row: &[u8],
        makes: bool,
    ) {
        let policy = &self.cx.kernel.settings.web.channels;
        // Pushes were turned off while the letter was under way.
        let (Some(push), Some(registration)) = (policy.push.clone(), Registration::decode(row)) else { return };
        let asked = Registering {
            actor: node.into(),
            id,
            registration,
            private: is_private(policy, node),
            makes,
            channel_max: push.channel_max,
            address_max: push.address_max,
        };
        let (place, step) = extension::channel_register(asked);
        self.do_step(Asker::at_node(front, from, node), node, place, step);
    }

    /// Registrations go: a page of a network does not want pushes any more, or nobody is behind them.
    pub(crate) fn channel_unregister(&mut self, by: Option<(Front, &str)>, node: &str, removals: Vec<Removal>) {
        let (place, step) = extension::channel_unregister(node, removals);
        let asker = by.map_or_else(|| Asker::nobody(node), |(front, from)| Asker::at_node(front, from, node));
        self.do_step(asker, node, place, step);
    }

    /// Rounds begin and go on whose time has come.
    pub(crate) fn sweep_web_pushes(&mut self) {
        // There are none.
        let Some(push) = self.cx.kernel.settings.web.channels.push.clone() else { return };
        let now_ms = self.cx.kernel.now.mono_ms;
        while let Some(node) = self.channels.web_pushes.next_due(now_ms, push.interval_ms) {
            self.read_registrations(node);
        }
    }

    fn read_registrations(&mut self, node: Arc<str>) {
        // Rounds go on from here only, so one that is due is there.
        let Some((after, _)) = self.channels.web_pushes.round(&node) else { return };
        let bytes = NOTIFY_PUSH_PAGE * (NOTIFY_PUSH_ENDPOINT_BYTES_MAX as u32 + 512);
        let queries = vec![rows::pushes(&node, after, NOTIFY_PUSH_PAGE, bytes)];
        self.cx.kernel.read(Pending::Channel(ChannelRead::Registrations(node)), queries);
    }

    /// The next registrations of a round have been read.
    pub(crate) fn registrations_found(&mut self, node: &Arc<str>, found: &[Found]) {
        let now_ms = self.cx.kernel.now.mono_ms;
        let push = self.cx.kernel.settings.web.channels.push.clone();
        let (Some(Found::Rows { rows, more }), Some(push)) = (found.first(), push) else {
            self.cx.kernel.counters.notify_push_unsent.one();
            return self.channels.web_pushes.over(now_ms, node, false);
        };
        // A round ends only when nothing is read for it.
        let Some((_, told)) = self.channels.web_pushes.round(node) else { return };
        let (mut over, mut later, mut moved) = (Vec::new(), false, false);
        for row in rows {
            let Some(id) = rows::push_id(&row.sort) else { continue };
            match self.judge(&push, node, id, row) {
                Standing::Over => over.push(Removal { id, over: Some(row.value.clone()) }),
                Standing::Passed => {}
                Standing::Told(service, registration) => match self.channels.web_pushes.begin(now_ms, node, service) {
                    Verdict::Told => self.send_push(node, id, service, registration, &told),
                    Verdict::GivenUp => self.cx.kernel.counters.notify_push_unsent.one(),
                    Verdict::Later => {
                        later = true;
                        break;
                    }
                },
            }
            self.channels.web_pushes.passed(node, id);
            moved = true;
        }
        self.end_registrations(node, over);
        match (later, *more) {
            (true, _) => self.channels.web_pushes.put_off(now_ms, node),
            (false, true) if moved => self.read_registrations(node.clone()),
            (false, _) => self.channels.web_pushes.over(now_ms, node, true),
        }
    }

    /// Registrations that were found to be over go.
    pub(super) fn end_registrations(&mut self, node: &str, over: Vec<Removal>) {
        if !over.is_empty() {
            self.cx.kernel.counters.notify_push_removed.add(over.len() as u64);
            self.channel_unregister(None, node, over);
        }
    }

    /// Whether a registration holds no more: its time is over, or its token was taken back.
    pub(super) fn is_over(&self, registration: &Registration) -> bool {
        let taken_back = match (&registration.by, &self.cx.kernel.settings.web.channels.access) {
            (By::Token(key, name), Some(access)) => !access.stands(*key, name.as_deref()),
            _ => false,
        };
        taken_back || registration.until_s <= self.cx.kernel.now.expiry_us / 1_000_000
    }

    /// Whether a registration is told. What holds no more goes; what the operator does not allow now stays, in case it is allowed again.
    fn judge(&self, push: &Push, node: &str, id: PushId, row: &Row) -> Standing {
        let policy = &self.cx.kernel.settings.web.channels;
        let Some(registration) = Registration::decode(&row.value) else { return Standing::Passed };
        if self.is_over(&registration) {
            return Standing::Over;
        }
        match (&registration.by, &policy.access) {
            (By::Token(..), None) => return Standing::Passed,
            (By::Everybody, _) if is_private(policy, node) => return Standing::Passed,
            (By::Token(..) | By::Everybody | By::Permit, _) => {}
        }
        match push.service_of(&registration.endpoint) {
            Some(service) if !self.channels.web_pushes.is_listening(self.cx.kernel.now.mono_s(), node, id) => {
                Standing::Told(service, registration)
            }
            _ => Standing::Passed,
        }
    }

    fn send_push(&mut self, node: &Arc<str>, id: PushId, service: usize, to: Registration, told: &Told) {
        let service = service as u8;
        let token = self.cx.kernel.token(Pending::Elsewhere(Elsewhere::Push { node: node.clone(), id, service }));
        let Registration { endpoint, p256dh, auth, .. } = to;
        let Told { content, topic } = told.clone();
        let push = Box::new(WebPush { endpoint, p256dh, auth, service, topic, content });
        self.cx.kernel.effects.push(Effect::Push { token, push });
    }

    /// A push has come to its end.
    pub(crate) fn page_pushed(&mut self, token: u64, outcome: PushOutcome) {
        // Each outcome comes once.
        let Some(Pending::Elsewhere(Elsewhere::Push { node, id, service })) = self.cx.kernel.pending.remove(&token)
        else {
            return;
        };
        self.channels.web_pushes.ended(usize::from(service));
        match outcome {
            PushOutcome::Sent => self.cx.kernel.counters.notify_push_sent.one(),
            PushOutcome::Failed => self.cx.kernel.counters.notify_push_failed.one(),
            PushOutcome::Gone => {
                self.cx.kernel.counters.notify_push_removed.one();
                self.channel_unregister(None, &node, vec![Removal { id, over: None }]);
            }
        }
    }
}
