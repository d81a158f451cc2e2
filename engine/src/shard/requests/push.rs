//! Services are told that messages wait (XEP-0357 7), and answer.
//!
//! A user's registrations are read in the account's turn ([`in_turn`](crate::shard::requests::in_turn)), as requests that change them are, so
//! nothing is published to a service that was disabled before (XEP-0357 6). A publication takes the way of any request to a JID. Its
//! answer is addressed to the domain, and its id names the shard that waits for it.

use crate::actors::safe::Address;
use crate::extension::push::answer::{self, Outcome};
use crate::extension::push::publish::{self, Summary};
use crate::extension::push::row::Registration;
use crate::extension::{WAKER, push};
use crate::id::SessionId;
use crate::kernel::pending::Asker;
use crate::letters::{Kind, Letter, NodeLetter};
use crate::router::users::Incoming;
use crate::shard::Shard;
use crate::shard::requests::pushes::{Next, UnderWay, shard_of};
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::Element;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;
use crate::wire::written::read_back;

impl Shard {
    /// Carries out what logs have noted.
    pub(crate) fn wake_noted(&mut self) {
        for wake in std::mem::take(&mut self.logs.woken) {
            let attended = self.logs.attended(&self.cx, &self.actors, &wake.account);
            let account = wake.account.clone();
            let now_ms = self.cx.kernel.now.mono_ms;
            match self.requests.pushes.wake(now_ms, wake, &attended) {
                Next::Look => self.look_for_services(&account),
                Next::Nothing => {}
                Next::Full => self.cx.kernel.counters.pushes_dropped.one(),
            }
        }
    }

    fn look_for_services(&mut self, account: &str) {
        let (queries, pending) = push::look(account);
        self.in_turn(account, Asker::nobody(account), WAKER, queries, pending);
    }

    /// A user's registrations have been read.
    pub(super) fn services_found(&mut self, account: &str, all: Vec<Registration>) {
        let (now_ms, now_s) = (self.cx.kernel.now.mono_ms, self.cx.kernel.now.wall_us / 1_000_000);
        let interval_ms = self.cx.kernel.settings.push_interval_ms;
        let attended = self.logs.attended(&self.cx, &self.actors, account);
        let round = self.requests.pushes.found((now_ms, now_s), interval_ms, account, all, &attended);
        self.cx.kernel.counters.pushes_held.add(round.held);
        let summary = Summary {
            count: round.count,
            sender: round.last.as_ref().map(|last| &*last.sender),
            body: round.last.as_ref().and_then(|last| last.body.as_deref()),
        };
        for to in &round.told {
            self.publish(account, to, summary);
        }
    }

    fn publish(&mut self, account: &str, to: &Registration, summary: Summary<'_>) {
        self.cx.kernel.counters.pushes_sent.one();
        let (shard, now_ms, secret) = (self.cx.kernel.id, self.cx.kernel.now.mono_ms, self.cx.kernel.random_name());
        let id = self.requests.pushes.sent(shard, now_ms, account, to, &secret);
        let mut scratch = "".into();
        match self.actors.address(&self.cx, "", Some(&to.jid), &mut scratch) {
            Address::User(jid) => {
                let home = self.cx.kernel.home(jid.bare().as_str());
                let from = account.split_once('@').map_or("", |(_, domain)| domain);
                self.cx.kernel.post(home, Kind::Request, None, from, jid.as_str(), |out| {
                    publish::write(out, &id, from, to, summary);
                });
            }
            // It was there when it was named.
            Address::Own
            | Address::Server
            | Address::Service(_)
            | Address::Nobody
            | Address::Remote
            | Address::Malformed => {
                let outcome = Outcome::Later(Some(StanzaCondition::RemoteServerNotFound));
                self.service_answered(&id, &to.jid, outcome);
            }
        }
    }

    /// A stanza that a server has made is for the server: only answers are.
    pub(crate) fn for_server(&mut self, stanza: Incoming<'_>) {
        if stanza.kind == Kind::Response {
            let read = |element: &Element<'_>| Some((element.id()?.into_owned(), Outcome::of(element)));
            if let Some((id, outcome)) = read_back(stanza.xml, read).flatten() {
                self.service_answered(&id, stanza.from, outcome);
            }
        }
        self.cx.kernel.confirm(stanza.origin);
    }

    /// A client answers the server. If it is not for this, somebody else has asked.
    pub(super) fn session_answered(&mut self, session: SessionId, full: &str, answer: &Element<'_>) {
        // Another part of the server has asked, or nobody.
        let Some(id) = answer.id().filter(|id| shard_of(id).is_some()) else { return };
        self.cx.tell(session, Down::Charge(work(1, id.len())));
        self.service_answered(&id, full, Outcome::of(answer));
    }

    /// A publication with this id is answered, here or at another shard.
    pub(crate) fn service_answered(&mut self, id: &str, from: &str, outcome: Outcome) {
        // Whoever answers has made the id up.
        let Some(shard) = shard_of(id).filter(|shard| shard.0 < self.cx.kernel.settings.shards()) else { return };
        if shard != self.cx.kernel.id {
            let letters = self.cx.kernel.letters_to(shard);
            let (id, from) = (letters.name(id), letters.name(from));
            return letters.push(Letter::Node(NodeLetter::ServiceAnswered { id, from, outcome }));
        }
        if let Some(of) = self.requests.pushes.answered(id, from, outcome == Outcome::Took) {
            self.note_outcome(&of, outcome);
        }
    }

    fn note_outcome(&mut self, of: &UnderWay, outcome: Outcome) {
        match outcome {
            Outcome::Took => self.cx.kernel.counters.pushes_taken.one(),
            Outcome::Later(_) | Outcome::Never(_) => self.cx.kernel.counters.pushes_failed.one(),
        }
        if outcome == Outcome::Took && !of.had_failed {
            return;
        }
        let now_s = self.cx.kernel.now.wall_us / 1_000_000;
        let (queries, pending) = answer::note(&of.account, &of.jid, &of.node, outcome, now_s);
        self.in_turn(&of.account, Asker::nobody(&of.account), WAKER, queries, pending);
    }

    /// Who has waited for long enough is told about; who has not answered has failed.
    pub(crate) fn sweep_pushes(&mut self) {
        let now_ms = self.cx.kernel.now.mono_ms;
        while let Some(account) = self.requests.pushes.next_due(now_ms) {
            self.look_for_services(bare_of(&account));
        }
        while let Some(of) = self.requests.pushes.unanswered(now_ms) {
            self.note_outcome(&of, Outcome::Later(None));
        }
    }
}
