//! What comes to actors of services with a domain of their own: requests, and forms in messages, which accounts get, too.

use crate::extension;
use crate::extension::offline::Keep;
use crate::extension::{IqRequest, Step, Target};
use crate::id::SessionId;
use crate::kernel::pending::Asker;
use crate::letters::{Kind, Letter, MessageClass, NodeLetter};
use crate::router::users::Incoming;
use crate::shard::Shard;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::jid::bare_of;
use crate::wire::{Element, Expect, Scanner, StreamScope};

impl Shard {
    /// A stanza for an actor of this home, or for its service.
    pub(crate) fn for_node(&mut self, stanza: Incoming<'_>) {
        let domain = stanza.to.split_once('/').map_or(stanza.to, |(domain, _)| domain);
        let mut scanner = Scanner::new();
        let scope = StreamScope::Usual;
        let is_whole = scanner.scan(&scope, Expect::Content, usize::MAX, stanza.xml).is_ok();
        if !is_whole || !matches!(stanza.kind, Kind::Request | Kind::Message { .. }) {
            return self.cx.kernel.confirm(stanza.origin);
        }
        let element = scanner.element(&scope, stanza.xml);
        let asker = Asker {
            session: None,
            origin: stanza.origin,
            id: element.id().map(Into::into),
            from: stanza.from.into(),
            to: Some(domain.into()),
            paced: false,
            front: None,
        };
        match stanza.kind {
            Kind::Request => self.ask_feature(asker, Target::Node, stanza.to, &element, Some(&[])),
            _ => self.ask_form(asker, stanza.to, &element),
        }
    }

    /// A form in a message of an own session: to its account, or to a service. Whether it was one for an extension.
    pub(crate) fn form_came(
        &mut self,
        session: SessionId,
        seq: u32,
        full: &str,
        target: Target,
        element: &Element<'_>,
    ) -> bool {
        let Some(form) = element.children().find(|child| child.is("x", "jabber:x:data")) else { return false };
        let to = element.to().map_or_else(|| bare_of(full).into(), |to| to.into_owned());
        let request = IqRequest {
            set: true,
            target,
            from: full,
            to: &to,
            account: bare_of(full),
            namespace: form.namespace(),
            name: form.name(),
            payload: form.bytes(),
        };
        let context = self.context(target, full, true, "");
        let Some((place, step)) = extension::submitted(&context, &request) else { return false };
        let bytes = element.bytes().len();
        self.cx.tell(session, Down::Charge(work(1, bytes)));
        let asker = |session, origin| Asker {
            session,
            origin,
            id: None,
            from: if session.is_some() { full.into() } else { "".into() },
            to: Some(bare_of(full).into()),
            paced: false,
            front: None,
        };
        match step {
            Step::Route { to, set, payload, .. } => {
                let kind = Kind::Message { class: MessageClass::Normal, keep: Keep::Nothing };
                self.route(asker(Some((session, seq)), None), kind, &to, set, &payload);
            }
            step => {
                let origin = self.actors.sent_off(&mut self.cx, session, seq, bytes);
                self.do_step(asker(None, origin), bare_of(full), place, step);
            }
        }
        true
    }

    /// A form in a message to an actor. Nobody waits for an answer.
    fn ask_form(&mut self, asker: Asker, actor: &str, element: &Element<'_>) {
        let from = asker.from.clone();
        let asker = Asker { id: None, from: "".into(), ..asker };
        let Some(form) = element.children().next() else { return self.actors.answer(&mut self.cx, asker, Ok(b"")) };
        let request = IqRequest {
            set: true,
            target: Target::Node,
            from: &from,
            to: asker.to.as_deref().unwrap_or_default(),
            account: actor,
            namespace: form.namespace(),
            name: form.name(),
            payload: form.bytes(),
        };
        let context = self.context(Target::Node, &from, false, "");
        match extension::submitted(&context, &request) {
            Some((place, step)) => self.do_step(asker, actor, place, step),
            None => self.actors.answer(&mut self.cx, asker, Ok(b"")),
        }
    }

    /// Users of another home were away when an item of a node of this home was sent to them.
    pub(crate) fn missed(&mut self, node: &str, number: u64, users: &str) {
        let (place, step) = extension::missed(node, number, users);
        self.do_step(Asker::nobody(service_of(node)), node, place, step);
    }

    /// A user is back that has missed items of a node of this home.
    pub(crate) fn catch_up(&mut self, node: &str, user: &str) {
        let (place, step) = extension::catch_up(node, user, self.cx.kernel.now.wall());
        self.do_step(Asker::nobody(service_of(node)), node, place, step);
    }

    /// The items that a user has missed go to the user's home.
    pub(super) fn send_missed(&mut self, node: &str, from: &str, user: &str, page: &[u8]) {
        let home = self.cx.kernel.home(user);
        let letters = self.cx.kernel.letters_to(home);
        let (node, from, user) = (letters.name(node), letters.name(from), letters.name(user));
        let page = letters.write(page);
        letters.push(Letter::Node(NodeLetter::CaughtUp { node, from, user, page }));
    }

    /// The account of a user is gone, whom a node of this home may know.
    pub(crate) fn forget(&mut self, node: &str, user: &str) {
        let (place, step) = extension::forget(node, user);
        self.do_step(Asker::nobody(service_of(node)), node, place, step);
    }
}

/// The domain of a node's service.
fn service_of(node: &str) -> &str {
    node.split_once('/').map_or(node, |(domain, _)| domain)
}
