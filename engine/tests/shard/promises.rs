//! What may be sent before the writes of its turn are durable, and what may not (ARCHITECTURE.md,
//! "Order of effects").

use throng_engine::id::ConnId;
use throng_engine::io::{AccountCommand, Command, Effect, Input, ListenerKind, LogCommand, Rests, SessionCommand};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::host::{self, HEADER, Host};

const CONN: ConnId = ConnId { slot: 0, generation: 1 };

/// Output to a connection or an operator, and what it depends on.
type Said = Vec<(String, Rests)>;

fn new() -> Host {
    Host::new(Settings::new("localhost", 1, [0; 32], 0))
}

fn turn(host: &mut Host, input: Input<'_>) -> Said {
    let mut said = Vec::new();
    for effect in host.turn(input) {
        let rests = effect.rests();
        match &effect {
            Effect::Send { .. } | Effect::Close { .. } | Effect::StartTls { .. } => {
                said.push((host::said(&[effect]), rests));
            }
            Effect::Reply { reply, .. } => said.push((format!("{reply:?}"), rests)),
            Effect::Read { queries, .. } => {
                let account = queries.iter().all(|query| query.table() == Table::Accounts);
                assert_eq!(rests == Rests::OnAccounts, account);
            }
            _ => {}
        }
    }
    said
}

fn say(host: &mut Host, text: &str) -> Said {
    turn(host, Input::Received { conn: CONN, bytes: text.as_bytes() })
}

fn stranger() -> Host {
    let mut host = new();
    let listener = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: true };
    host.turn(Input::Accepted { conn: CONN, listener, peer: [127, 0, 0, 1].into() });
    host
}

fn bound() -> Host {
    let mut host = new();
    host.account("romeo");
    host.arrive(CONN.slot, "romeo");
    let said = say(&mut host, host::BIND);
    assert!(said.iter().any(|(text, rests)| text.contains("<jid>") && *rests == Rests::OnAll), "{said:?}");
    host
}

/// The dependency of the output with this text.
fn of(said: &[(String, Rests)], part: &str) -> Rests {
    said.iter().find(|(text, _)| text.contains(part)).unwrap_or_else(|| panic!("no {part} in {said:?}")).1
}

#[test]
fn who_has_not_logged_in_is_promised_nothing() {
    let mut host = stranger();
    assert_eq!(of(&say(&mut host, HEADER), "features"), Rests::OnNothing);
    // "\0romeo\0wrong"
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AHJvbWVvAHdyb25n</auth>";
    assert_eq!(of(&say(&mut host, auth), "<not-authorized"), Rests::OnNothing);
    let tls = say(&mut host, "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(of(&tls, "<proceed"), Rests::OnNothing);

    let mut host = stranger();
    assert_eq!(of(&say(&mut host, "</wrong>"), "<stream:error"), Rests::OnNothing);
}

#[test]
fn an_account_that_was_made_is_told_when_it_is_durable_and_so_is_all_that_comes_behind() {
    let mut host = stranger();
    say(&mut host, HEADER);
    let account = "<username>romeo</username><password>secret</password>";
    let set = format!("<iq type='set' id='r'><query xmlns='jabber:iq:register'>{account}</query></iq>");
    let said = turn(&mut host, Input::Received { conn: CONN, bytes: set.as_bytes() });
    assert_eq!(host.disk.rows_of(Table::Accounts, "romeo@localhost").count(), 1);
    assert_eq!(of(&said, "type='result'"), Rests::OnAll);
    let tls = say(&mut host, "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(of(&tls, "<proceed"), Rests::OnAll, "it would overtake the answer");
}

#[test]
fn a_session_hears_of_its_end_at_once_unless_something_else_waits_for_it() {
    let kick = || Input::Command {
        token: 1,
        command: Command::Session(SessionCommand::Kick { jid: "romeo@localhost".into(), reason: None }),
    };
    let mut host = bound();
    let said = turn(&mut host, kick());
    assert_eq!((of(&said, "<policy-violation"), of(&said, "Done(1)")), (Rests::OnNothing, Rests::OnNothing));

    let mut host = bound();
    let ping = "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>";
    let said = say(&mut host, &format!("{ping}</wrong>"));
    assert!(said.iter().all(|(_, rests)| *rests == Rests::OnAll), "{said:?}");

    let mut host = bound();
    assert_eq!(of(&say(&mut host, "</stream:stream>"), "</stream:stream>"), Rests::OnAll);
}

#[test]
fn what_was_written_is_answered_when_it_is_durable() {
    let mut host = new();
    let delete = Command::Account(AccountCommand::Delete { account: "romeo@localhost".into() });
    let flush = Command::Log(LogCommand::Flush { account: "romeo@localhost".into() });
    for command in [delete, flush] {
        let said = turn(&mut host, Input::Command { token: 1, command });
        assert!(said.iter().all(|(_, rests)| *rests == Rests::OnAll) && !said.is_empty(), "{said:?}");
    }
    let list = Command::Session(SessionCommand::List { of: None, from_slot: 0, most: 1 });
    assert_eq!(of(&turn(&mut host, Input::Command { token: 1, command: list }), "Sessions"), Rests::OnNothing);
}
