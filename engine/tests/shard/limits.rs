//! What a refusal by a limit says, and to whom it reveals nothing.

use base64::Engine as _;
use throng_engine::settings::Settings;
use throng_sim::script::{Heard, Patience, Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";

fn said(stage: &mut Stage, xml: &str, end: &str) -> String {
    stage.send("romeo", xml.as_bytes()).expect("a connection");
    let mut all = String::new();
    while !all.contains(end) {
        match stage.hear("romeo", Patience::Long) {
            Ok(Heard::Bytes(bytes)) => all += &String::from_utf8_lossy(&bytes),
            other => panic!("{other:?} after {all}"),
        }
    }
    all
}

/// Romeo, online.
fn stage(set: impl FnOnce(&mut Settings)) -> Stage {
    let script = Script::parse("clients: romeo=romeo/orchard juliet=juliet/balcony\n").unwrap();
    let mut settings = Settings::new("localhost", 2, [0; 32], 0);
    set(&mut settings);
    let mut stage = Stage::new(7, settings, Pace::default(), &script);
    stage.open("romeo").expect("a connection");
    said(&mut stage, HEADER, "</stream:features>");
    let plain = base64::engine::general_purpose::STANDARD.encode(format!("\0romeo\0{PASSWORD}"));
    said(
        &mut stage,
        &format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>"),
        "<success",
    );
    said(&mut stage, HEADER, "</stream:features>");
    said(&mut stage, "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", "</iq>");
    stage
}

/// RFC 6121 8.5.1: a sender who may not learn which accounts exist does not learn it from the
/// number of waiting messages.
#[test]
fn a_full_log_looks_like_a_name_that_nobody_has_rfc6121_8_5_1() {
    let mut stage = stage(|s| s.waiting_messages_max = 1);
    let mut message = |to: &str, id: u32| {
        let xml = format!("<message to='{to}@localhost' type='chat' id='{id}'><body>hello</body></message>");
        stage.send("romeo", xml.as_bytes()).expect("a connection");
        stage.pass(500);
        let ping = format!("<iq type='get' id='p{id}' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
        said(&mut stage, &ping, &format!("id='p{id}'"))
    };
    message("juliet", 1);
    let (full, nobody) = (message("juliet", 2) + &message("juliet", 3), message("nobody", 2) + &message("nobody", 3));
    assert!(full.contains("<service-unavailable"), "{full}");
    assert_eq!(full.matches("<service-unavailable").count(), nobody.matches("<service-unavailable").count());
    assert!(!full.contains("<text") && !nobody.contains("<text"), "{full} {nobody}");
}

/// A change of password costs a key derivation for about 150 bytes: an account may make five in a
/// row, and then one every ten seconds. Without a limit one account could make as many as the
/// server can derive.
#[test]
fn an_account_changes_its_password_five_times_in_a_row_and_is_told_when_it_may_again() {
    let mut stage = stage(|s| s.scram_iterations = 4_096);
    let change = |stage: &mut Stage, n: u32| {
        let query = format!("<username>romeo</username><password>secret{n}</password>");
        said(
            stage,
            &format!("<iq type='set' id='c{n}'><query xmlns='jabber:iq:register'>{query}</query></iq>"),
            &format!("id='c{n}'"),
        )
    };
    for n in 0..5 {
        let answer = change(&mut stage, n);
        assert!(answer.contains("type='result'"), "{answer}");
    }
    for n in 5..8 {
        let answer = change(&mut stage, n);
        let told = answer.contains("<resource-constraint")
            && answer.contains("the password was changed too often; try again in");
        assert!(told, "{answer}");
    }
    stage.pass(11_000);
    let answer = change(&mut stage, 8);
    assert!(answer.contains("type='result'"), "{answer}");
}

/// RFC 6120 8.3.2: the error names the sender's exceeded limit, with what to do about it.
#[test]
fn a_refusal_by_a_limit_names_it_rfc6120_8_3_2() {
    let mut stage = stage(|_| {});
    let long = "n".repeat(throng_engine::limits::ROSTER_NAME_BYTES_MAX + 1);
    let cases = [
        (
            format!("<query xmlns='jabber:iq:roster'><item jid='a@localhost' name='{long}'/></query>"),
            "try again with less",
        ),
        (
            format!(
                "<query xmlns='jabber:iq:private'>{}</query>",
                (0..129).map(|n| format!("<a{n} xmlns='n'/>")).collect::<String>()
            ),
            "or there are too many elements in one request; try again with less",
        ),
    ];
    let elements = "<a/>".repeat(200);
    let cases = cases.into_iter().chain([(
        format!("<query xmlns='jabber:iq:private'><x xmlns='n'>{elements}</x></query>"),
        "the request has too many elements for its length; try again with fewer",
    )]);
    for (payload, text) in cases {
        let answer = said(&mut stage, &format!("<iq type='set' id='q'>{payload}</iq>"), "</iq>");
        assert!(answer.contains("<not-acceptable") && answer.contains(text), "{answer}");
    }
    let payload = "p".repeat(throng_engine::limits::PRESENCE_PAYLOAD_BYTES_MAX + 1);
    let answer = said(&mut stage, &format!("<presence><status>{payload}</status></presence>"), "</presence>");
    assert!(answer.contains("<policy-violation") && answer.contains("the presence is too large"), "{answer}");
}
