//! Clients with a session take precedence over logins: the host is informed once, when a resource
//! is bound or a session resumed.

use throng_engine::id::ConnId;
use throng_engine::io::Effect;
use throng_engine::settings::Settings;
use throng_sim::host::{Host, said};

fn favoured(effects: &[Effect]) -> Vec<ConnId> {
    effects.iter().filter_map(|effect| if let Effect::Favour { conn } = effect { Some(*conn) } else { None }).collect()
}

#[test]
fn a_connection_goes_first_from_bind_or_resume_on_rfc6120_7_xep0198_5() {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("romeo");
    let (first, effects) = host.bind(0, "romeo");
    assert_eq!(favoured(&effects), [first]);
    let enabled = host.say(first, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    assert_eq!(favoured(&enabled), [], "once");
    let enabled = said(&enabled);
    let (_, rest) = enabled.split_once(" id='").expect("a session that can be resumed");
    let previd = rest.split('\'').next().unwrap();
    let (second, effects) = host.arrive(1, "romeo");
    assert_eq!(favoured(&effects), [], "a stream is no session yet");
    let effects = host.say(second, &format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>"));
    let said = said(&effects);
    assert!(said.contains("<resumed"), "{said}");
    assert_eq!(favoured(&effects), [second]);
}
