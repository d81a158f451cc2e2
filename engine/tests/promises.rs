//! What may be said before the writes of its turn are durable, and what may not (ARCHITECTURE.md, "Order of effects").

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Command, Effect, Input, JobDone, ListenerKind, Output, Rests};
use throng_engine::session::conn::Owner;
use throng_engine::session::moved::Moved;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::Incarnation;
use throng_engine::testing::disk::Disk;

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const NOW: Now = Now { mono_ms: 1_000, wall_us: 1_000_000 };
const CONN: ConnId = ConnId { slot: 0, generation: 1 };
const LISTENER: ListenerKind = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: true };

/// A shard, and a store that keeps nothing of what it writes. Sends are done at once.
struct Host {
    shard: Shard,
    disk: Disk,
}

/// What was said to a connection, and what it rests on.
type Said = Vec<(String, Rests)>;

impl Host {
    fn new() -> Host {
        let settings = Arc::new(Settings::new("localhost", 1, [0; 32], 0));
        let shard = Shard::new(ShardId(0), settings, Arc::new(Counters::default()), [0; 32]);
        Host { shard, disk: Disk::default() }
    }

    /// Turns until nothing follows any more; whether accounts were written, too.
    fn turn(&mut self, input: Input<'_>) -> (Said, bool) {
        let (mut said, mut written, mut out) = (Vec::new(), false, Output::default());
        self.shard.handle(NOW, input, &mut out);
        loop {
            self.shard.handle(NOW, Input::EndOfTurn, &mut out);
            written |= out.writes.concerns(Table::Accounts);
            out.writes.clear();
            let effects = std::mem::take(&mut out.effects);
            if effects.is_empty() && !self.shard.has_own_mail() {
                return (said, written);
            }
            for effect in effects {
                let rests = effect.rests();
                match effect {
                    Effect::Send { conn, bytes, .. } => {
                        said.push((String::from_utf8(bytes).expect("text"), rests));
                        self.shard.handle(NOW, Input::Sent { conn }, &mut out);
                    }
                    Effect::Close { last, .. } => said.push((String::from_utf8(last).expect("text"), rests)),
                    Effect::StartTls { last, .. } => said.push((String::from_utf8(last).expect("text"), rests)),
                    Effect::Reply { reply, .. } => said.push((format!("{reply:?}"), rests)),
                    Effect::Read { token, queries } => {
                        let account = queries.iter().all(|query| query.table() == Table::Accounts);
                        assert_eq!(rests == Rests::OnAccounts, account);
                        let found = queries.iter().map(|query| self.disk.read(query)).collect();
                        self.shard.handle(NOW, Input::Found { token, found }, &mut out);
                    }
                    Effect::Job { token, job } => {
                        let done: JobDone = job.run();
                        self.shard.handle(NOW, Input::Done { token, done }, &mut out);
                    }
                    _ => {}
                }
            }
        }
    }

    fn say(&mut self, text: &str) -> Said {
        self.turn(Input::Received { conn: CONN, bytes: text.as_bytes() }).0
    }

    fn stranger() -> Host {
        let mut host = Host::new();
        host.turn(Input::Accepted { conn: CONN, listener: LISTENER, peer: [127, 0, 0, 1].into() });
        host
    }

    fn bound() -> Host {
        let mut host = Host::new();
        host.disk.put(Table::Accounts, "romeo@localhost", b"", b"");
        let owner = Owner { local: "romeo".into(), incarnation: Incarnation::UNNUMBERED };
        let peer = [127, 0, 0, 1].into();
        let moved = Moved { owner, listener: LISTENER, peer, secured: false, accepted_s: 1, leftover: Vec::new() };
        host.turn(Input::Arrived { conn: CONN, moved: Box::new(moved) });
        host.say(HEADER);
        let said = host.say("<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
        assert!(said.iter().any(|(text, rests)| text.contains("<jid>") && *rests == Rests::OnAll), "{said:?}");
        host
    }
}

/// The one that has this text.
fn of(said: &[(String, Rests)], part: &str) -> Rests {
    said.iter().find(|(text, _)| text.contains(part)).unwrap_or_else(|| panic!("no {part} in {said:?}")).1
}

#[test]
fn who_has_not_logged_in_is_promised_nothing() {
    let mut host = Host::stranger();
    assert_eq!(of(&host.say(HEADER), "features"), Rests::OnNothing);
    // "\0romeo\0wrong"
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AHJvbWVvAHdyb25n</auth>";
    assert_eq!(of(&host.say(auth), "<not-authorized"), Rests::OnNothing);
    let tls = host.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(of(&tls, "<proceed"), Rests::OnNothing);

    let mut host = Host::stranger();
    assert_eq!(of(&host.say("</wrong>"), "<stream:error"), Rests::OnNothing);
}

#[test]
fn an_account_that_was_made_is_told_when_it_is_durable_and_so_is_all_that_comes_behind() {
    let mut host = Host::stranger();
    host.say(HEADER);
    let account = "<username>romeo</username><password>secret</password>";
    let set = format!("<iq type='set' id='r'><query xmlns='jabber:iq:register'>{account}</query></iq>");
    let (said, written) = host.turn(Input::Received { conn: CONN, bytes: set.as_bytes() });
    assert!(written);
    assert_eq!(of(&said, "type='result'"), Rests::OnAll);
    let tls = host.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(of(&tls, "<proceed"), Rests::OnAll, "it would overtake the answer");
}

#[test]
fn a_session_hears_of_its_end_at_once_unless_something_else_waits_for_it() {
    let kick = || Input::Command { token: 1, command: Command::Kick { jid: "romeo@localhost".into(), reason: None } };
    let mut host = Host::bound();
    let (said, _) = host.turn(kick());
    assert_eq!((of(&said, "<policy-violation"), of(&said, "Done(1)")), (Rests::OnNothing, Rests::OnNothing));

    let mut host = Host::bound();
    let ping = "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>";
    let said = host.say(&format!("{ping}</wrong>"));
    assert!(said.iter().all(|(_, rests)| *rests == Rests::OnAll), "{said:?}");

    let mut host = Host::bound();
    assert_eq!(of(&host.say("</stream:stream>"), "</stream:stream>"), Rests::OnAll);
}

#[test]
fn what_was_written_is_answered_when_it_is_durable() {
    let mut host = Host::new();
    let delete = Command::DeleteAccount { local: "romeo".into() };
    let flush = Command::FlushMailbox { local: "romeo".into() };
    for command in [delete, flush] {
        let (said, _) = host.turn(Input::Command { token: 1, command });
        assert!(said.iter().all(|(_, rests)| *rests == Rests::OnAll) && !said.is_empty(), "{said:?}");
    }
    let list = Command::Sessions { of: None, from_slot: 0, most: 1 };
    assert_eq!(of(&host.turn(Input::Command { token: 1, command: list }).0, "Sessions"), Rests::OnNothing);
}
