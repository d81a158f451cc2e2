//! External components (XEP-0114): their streams, what they may send, what they receive, and what
//! happens to it when they are absent, slow or gone.

use sha1::Digest as _;
use throng_engine::extension::service::SharedSecret;
use throng_engine::id::{ConnId, ShardId};
use throng_engine::io::{Command, Effect, Happened, Input, Reply};
use throng_engine::limits::{COMPONENT_CHALLENGE_MS, COMPONENT_FEED_BYTES, COMPONENT_IN_FLIGHT_MAX, COMPONENT_WAIT_MS};
use throng_engine::settings::Settings;
use throng_sim::host::{Host, reply, said};

pub(crate) const SECRET: &str = "an excellent secret";

fn settings(shards: u16) -> Settings {
    let mut settings = Settings::new("localhost", shards, [0; 32], 0);
    for domain in ["echo.localhost", "irc.localhost"] {
        settings.serve_component(domain, SharedSecret(SECRET.into()));
    }
    settings
}

fn header(to: &str) -> String {
    format!("<stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' to='{to}'>")
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}")).1;
    rest.split_once(behind).expect("an end").0
}

fn handshake(stream: &str, secret: &str) -> String {
    let digest = sha1::Sha1::digest([between(stream, " id='", "'"), secret].concat());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("<handshake>{hex}</handshake>")
}

/// The output of a connection in these effects.
fn heard(effects: &[Effect], conn: ConnId) -> String {
    let own = effects.iter().filter(|effect| match effect {
        Effect::Send { conn: to, .. } | Effect::Close { conn: to, .. } | Effect::Depart { conn: to, .. } => *to == conn,
        _ => false,
    });
    own.map(|effect| said(std::slice::from_ref(effect))).collect()
}

fn accept(host: &mut Host, slot: u32) -> ConnId {
    let conn = ConnId { slot, generation: 1 };
    host.turn(Input::AcceptedComponent { conn, peer: [127, 0, 0, 1].into() });
    conn
}

/// A component that has proved its secret, and the effects.
pub(crate) fn connect(host: &mut Host, slot: u32, domain: &str) -> (ConnId, Vec<Effect>) {
    let conn = accept(host, slot);
    let stream = said(&host.ask(conn, &header(domain)));
    let effects = host.ask(conn, &handshake(&stream, SECRET));
    (conn, effects)
}

/// Romeo, available, and the component echo.localhost.
struct Scene {
    host: Host,
    romeo: ConnId,
    echo: ConnId,
}

impl Scene {
    fn new() -> Scene {
        Scene::with(|_| {})
    }

    fn with(settle: impl FnOnce(&mut Settings)) -> Scene {
        let mut settings = settings(1);
        settle(&mut settings);
        let mut host = Host::new(settings);
        ["romeo", "juliet"].into_iter().for_each(|user| host.account(user));
        let (romeo, _) = host.bind(0, "romeo");
        host.ask(romeo, "<presence/>");
        let (echo, effects) = connect(&mut host, 50, "echo.localhost");
        assert!(heard(&effects, echo).ends_with("<handshake/>"));
        Scene { host, romeo, echo }
    }

    /// What the component receives when Romeo sends this.
    fn romeo(&mut self, text: &str) -> String {
        let effects = self.host.ask(self.romeo, text);
        heard(&effects, self.echo)
    }

    /// What Romeo receives when the component sends this.
    fn echo(&mut self, text: &str) -> String {
        let effects = self.host.ask(self.echo, text);
        heard(&effects, self.romeo)
    }

    fn pass_ms(&mut self, ms: u64) -> Vec<Effect> {
        self.host.now.mono_ms += ms;
        self.host.now.pass_wall(ms * 1_000);
        self.host.turn(Input::Held { since_s: None, many: false })
    }
}

/// XEP-0114 3: the server's header is from the component's domain, with an id, without a version,
/// and without features.
#[test]
fn the_flow_is_that_of_the_text_xep0114_3() {
    let mut host = Host::new(settings(1));
    let conn = accept(&mut host, 0);
    let stream = said(&host.ask(conn, &header("Echo.LOCALHOST")));
    let id = between(&stream, " id='", "'").to_owned();
    assert!(id.len() >= 16);
    let whole = format!(
        "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' \
         id='{id}' from='echo.localhost'>"
    );
    assert_eq!(stream, whole);
    let effects = host.ask(conn, &handshake(&stream, SECRET));
    assert_eq!(said(&effects), "<handshake/>");
    let came = effects.iter().any(
        |effect| matches!(effect, Effect::Note(note) if note.what == Happened::ComponentCame && &*note.account == "echo.localhost"),
    );
    assert!(came, "{effects:?}");
    assert_eq!(said(&host.ask(conn, "</stream:stream>")), "</stream:stream>");
}

/// XEP-0114 3, RFC 6120 4.9.3.12: not authorized; and neither log nor error reveals the secret.
#[test]
fn a_wrong_secret_ends_the_stream_xep0114_3() {
    let mut host = Host::new(settings(1));
    for (slot, wrong) in [
        handshake(" id='x'", SECRET),
        "<handshake/>".into(),
        format!("<handshake>{}</handshake>", "0".repeat(40)),
        format!("<handshake>{SECRET}</handshake>"),
        format!("<handshake>{}</handshake>", "a".repeat(10_000)),
    ]
    .into_iter()
    .enumerate()
    {
        let conn = accept(&mut host, slot as u32);
        host.ask(conn, &header("echo.localhost"));
        let effects = host.ask(conn, &wrong);
        assert!(
            said(&effects).contains("<not-authorized") && said(&effects).ends_with("</stream:stream>"),
            "{effects:?}"
        );
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Close { .. })));
        assert!(!format!("{effects:?}").contains(SECRET));
    }
    assert!(!format!("{:?}", settings(1)).contains(SECRET), "settings do not show it");
}

/// XEP-0114 3, RFC 6120 4.9.1.2: each error of the header is sent inside a stream.
#[test]
fn errors_of_the_header_come_inside_of_a_stream_xep0114_3() {
    let mut host = Host::new(settings(1));
    let cases = [
        (header("nobody.localhost"), "host-unknown"),
        (header("localhost"), "host-unknown"),
        (header("romeo@echo.localhost"), "host-unknown"),
        (header("").replace(" to=''", ""), "host-unknown"),
        (header("echo.localhost").replace("component:accept", "client"), "invalid-namespace"),
        (header("echo.localhost").replace("component:accept", "component:connect"), "invalid-namespace"),
        (header("echo.localhost").replace("xmlns='jabber:component:accept' ", ""), "invalid-namespace"),
        ("<not-xml".repeat(2), "not-well-formed"),
        ("<iq xmlns='jabber:component:accept'>".into(), "invalid-namespace"),
        (header("echo.localhost").replace('>', "/>"), "bad-format"),
    ];
    for (slot, (header, condition)) in cases.into_iter().enumerate() {
        let conn = accept(&mut host, slot as u32);
        let answer = said(&host.ask(conn, &header));
        assert!(answer.contains("<stream:stream xmlns='jabber:component:accept'"), "{header}: {answer}");
        assert!(answer.contains(&format!("<{condition} ")), "{header}: {answer}");
        assert!(answer.ends_with("</stream:error></stream:stream>"), "{header}: {answer}");
    }
}

/// RFC 6120 4.9.3.12: anything before the handshake is too early and changes nothing.
#[test]
fn stanzas_before_the_handshake_end_the_stream() {
    for early in [
        "<message from='a@echo.localhost' to='romeo@localhost'><body>b</body></message>",
        "<iq type='get' id='1' from='echo.localhost' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>",
        "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>",
        "<handshake xmlns='other'>x</handshake>",
    ] {
        let mut host = Host::new(settings(1));
        host.account("romeo");
        let (romeo, _) = host.bind(0, "romeo");
        host.ask(romeo, "<presence/>");
        let conn = accept(&mut host, 1);
        host.ask(conn, &header("echo.localhost"));
        let effects = host.ask(conn, early);
        assert!(heard(&effects, conn).contains("<not-authorized"), "{early}");
        assert_eq!(heard(&effects, romeo), "", "{early}");
    }
}

/// RFC 6120 4.9.3.4: a client that does not continue is disconnected; and a client cannot log in
/// where components connect.
#[test]
fn who_shows_nothing_in_time_is_let_go() {
    let mut host = Host::new(settings(1));
    let (silent, client) = (accept(&mut host, 0), accept(&mut host, 1));
    host.ask(silent, &header("echo.localhost"));
    let refused = said(&host.ask(client, throng_sim::host::HEADER));
    assert!(refused.contains("<invalid-namespace") && !refused.contains("mechanism"), "{refused}");
    let mut all = String::new();
    for _ in 0..400 {
        host.now.mono_ms += 100;
        all += &heard(&host.turn(Input::Held { since_s: None, many: false }), silent);
    }
    assert!(all.contains("<connection-timeout"), "{all}");
}

/// XEP-0114 3: any JID of the domain, with or without localpart and resource, both ways.
#[test]
fn stanzas_go_both_ways_for_all_addresses_of_the_domain_xep0114_3() {
    let mut scene = Scene::new();
    for to in ["echo.localhost", "echo.localhost/a", "x@echo.localhost", "x@echo.localhost/a b"] {
        for (sent, part) in [
            (format!("<message to='{to}' id='m' type='chat'><body>b</body></message>"), "<body>b</body>"),
            (format!("<iq to='{to}' id='i' type='get'><q xmlns='y'/></iq>"), "<q xmlns='y'/>"),
            (format!("<presence to='{to}'><status>s</status></presence>"), "<status>s</status>"),
        ] {
            let came = scene.romeo(&sent);
            let from = " from='romeo@localhost/";
            assert!(
                came.contains(from) && came.contains(&format!(" to='{to}'")) && came.contains(part),
                "{sent}: {came}"
            );
            assert!(!came.contains("jabber:client"), "the content is that of the stream: {came}");
        }
        let full = between(
            &said(&scene.host.ask(scene.romeo, "<iq type='get' id='x'><ping xmlns='urn:xmpp:ping'/></iq>")),
            "to='",
            "'",
        )
        .to_owned();
        for sent in [
            format!("<message from='{to}' to='romeo@localhost' type='chat'><body>b</body></message>"),
            format!("<iq from='{to}' to='{full}' id='i' type='result'><q xmlns='y'/></iq>"),
            format!("<iq from='{to}' to='{full}' id='i' type='get'><q xmlns='y'/></iq>"),
            format!("<presence from='{to}' to='romeo@localhost'><show>away</show></presence>"),
        ] {
            let came = scene.echo(&sent);
            assert!(came.contains(&format!("from='{to}'")), "{sent}: {came}");
        }
    }
}

/// XEP-0114 3: `from` is at the component's domain, and both addresses are present.
#[test]
fn other_peoples_addresses_end_the_stream_xep0114_3() {
    for (text, condition) in [
        ("<message from='juliet@localhost' to='romeo@localhost'><body>b</body></message>", "invalid-from"),
        ("<message from='localhost' to='romeo@localhost'><body>b</body></message>", "invalid-from"),
        ("<message from='x@irc.localhost' to='romeo@localhost'><body>b</body></message>", "invalid-from"),
        ("<presence from='a@@echo.localhost' to='romeo@localhost'/>", "invalid-from"),
        ("<message from='localhost/echo.localhost' to='romeo@localhost'><body>b</body></message>", "invalid-from"),
        (
            "<message from='juliet@localhost/x@echo.localhost' to='romeo@localhost'><body>b</body></message>",
            "invalid-from",
        ),
        ("<message to='romeo@localhost'><body>b</body></message>", "improper-addressing"),
        ("<presence from='x@echo.localhost'/>", "improper-addressing"),
        ("<log xmlns='jabber:client' from='echo.localhost' to='localhost'/>", "unsupported-stanza-type"),
        ("<message xmlns='jabber:server' from='x@echo.localhost' to='romeo@localhost'/>", "unsupported-stanza-type"),
        ("<r xmlns='urn:xmpp:sm:3'/>", "unsupported-stanza-type"),
        ("</nothing>", "not-well-formed"),
    ] {
        let mut scene = Scene::new();
        let effects = scene.host.ask(scene.echo, text);
        assert!(heard(&effects, scene.echo).contains(&format!("<{condition} ")), "{text}: {effects:?}");
        assert_eq!(heard(&effects, scene.romeo), "", "{text}");
    }
}

/// Stanzas may be in a component's namespace; their meaning is the same, and their content stays.
#[test]
fn a_stanza_may_declare_the_streams_content() {
    let mut scene = Scene::new();
    let came = scene.echo(
        "<message xmlns='jabber:component:accept' from='x@echo.localhost' to='romeo@localhost' type='chat'><body>jabber:component:accept</body></message>",
    );
    assert!(came.contains("<body>jabber:component:accept</body>"), "{came}");
    assert!(came.contains("xmlns='jabber:client'") && came.matches("component:accept").count() == 1, "{came}");
    let came = scene.echo(
        "<message from='x@echo.localhost' to='romeo@localhost' type='chat'><body xmlns=\"jabber:component:accept\">b</body></message>",
    );
    assert!(came.contains("<body xmlns=\"jabber:client\">b</body>"), "{came}");
}

#[test]
fn a_component_is_told_what_cannot_be_delivered() {
    let mut scene = Scene::new();
    let answer = |scene: &mut Scene, text: &str| heard(&scene.host.ask(scene.echo, text), scene.echo);
    for (to, condition) in [
        ("nobody@localhost", "service-unavailable"),
        ("romeo@elsewhere.example", "remote-server-not-found"),
        ("x@irc.localhost", "remote-server-timeout"),
        ("localhost", "service-unavailable"),
        ("a@@b", "jid-malformed"),
    ] {
        let sent = format!("<message from='x@echo.localhost/r' to='{to}' id='m7' type='chat'><body>b</body></message>");
        let error = answer(&mut scene, &sent);
        assert!(error.contains(&format!("<{condition} ")) && error.contains("id='m7'"), "{to}: {error}");
        assert!(error.contains("to='x@echo.localhost/r'"), "{to}: {error}");
        let silent = sent.replace("type='chat'", "type='error'");
        assert_eq!(answer(&mut scene, &silent), "", "an error earns none");
    }
    let bad = answer(&mut scene, "<iq from='echo.localhost' to='romeo@localhost' type='get'><a xmlns='b'/></iq>");
    assert!(bad.contains("<bad-request"), "{bad}");
    let none =
        answer(&mut scene, "<iq from='echo.localhost' to='romeo@localhost/none' id='1' type='get'><a xmlns='b'/></iq>");
    assert!(none.contains("<service-unavailable"), "{none}");
}

/// The server describes itself to a component, and nothing else: it has no account here.
#[test]
fn a_component_asks_the_server_what_it_is_and_no_more() {
    let mut scene = Scene::new();
    let mut ask = |kind: &str, payload: &str| {
        let sent = format!("<iq from='echo.localhost' to='localhost' id='q' type='{kind}'>{payload}</iq>");
        heard(&scene.host.ask(scene.echo, &sent), scene.echo)
    };
    for payload in [
        "<query xmlns='http://jabber.org/protocol/disco#info'/>",
        "<query xmlns='http://jabber.org/protocol/disco#items'/>",
        "<query xmlns='jabber:iq:version'/>",
        "<time xmlns='urn:xmpp:time'/>",
        "<ping xmlns='urn:xmpp:ping'/>",
    ] {
        assert!(ask("get", payload).contains("type='result'"), "{payload}");
    }
    for (kind, payload) in [
        ("set", "<query xmlns='jabber:iq:register'><remove/></query>"),
        ("get", "<query xmlns='jabber:iq:register'/>"),
        ("get", "<query xmlns='jabber:iq:roster'/>"),
        ("set", "<ping xmlns='urn:xmpp:ping'/>"),
        ("set", "<command xmlns='http://jabber.org/protocol/commands' node='x'/>"),
        ("set", "<enable xmlns='urn:xmpp:push:0' jid='echo.localhost' node='n'/>"),
    ] {
        assert!(ask(kind, payload).contains("<service-unavailable"), "{kind} {payload}");
    }
}

/// RFC 6120 8.3.3.17: a sender to an absent component gets an error, and the message is void in the
/// sender's log.
#[test]
fn a_component_that_is_away_is_told_of_rfc6120_8_3_3_17() {
    let mut scene = Scene::new();
    let ask = |scene: &mut Scene, text: &str| said(&scene.host.ask(scene.romeo, text));
    let gone = scene.host.ask(scene.echo, "</stream:stream>");
    let noted = gone
        .iter()
        .any(|effect| matches!(effect, Effect::Note(note) if note.what == Happened::ComponentLeft { returned: 0 }));
    assert!(noted, "{gone:?}");
    for text in [
        "<message to='x@echo.localhost' id='w' type='chat'><body>b</body></message>",
        "<iq to='echo.localhost' id='w' type='get'><q xmlns='y'/></iq>",
    ] {
        let error = ask(&mut scene, text);
        assert!(error.contains("<error type='wait'><remote-server-timeout") && error.contains("id='w'"), "{error}");
    }
    let archive = ask(&mut scene, "<iq type='set' id='a'><query xmlns='urn:xmpp:mam:2'/></iq>");
    assert!(!archive.contains("<body>"), "it was never sent: {archive}");
    for quiet in ["<presence to='x@echo.localhost'/>", "<message to='x@echo.localhost' type='error'/>"] {
        assert_eq!(ask(&mut scene, quiet), "", "{quiet}");
    }
    let subscribes = ask(&mut scene, "<presence to='x@echo.localhost' type='subscribe' id='s'/>");
    assert!(
        subscribes.contains("<presence type='error'") && subscribes.contains("<remote-server-timeout"),
        "{subscribes}"
    );
}

/// XEP-0030 4: an item of the server's as long as it is connected.
#[test]
fn components_are_items_of_the_server_while_they_are_there_xep0030_4() {
    let mut scene = Scene::new();
    let items = |scene: &mut Scene| {
        said(&scene.host.ask(
            scene.romeo,
            "<iq type='get' id='d' to='localhost'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>",
        ))
    };
    assert!(items(&mut scene).contains("<item jid='echo.localhost'/></query>"), "irc is away");
    let (irc, _) = connect(&mut scene.host, 60, "irc.localhost");
    assert!(items(&mut scene).contains("<item jid='echo.localhost'/><item jid='irc.localhost'/></query>"));
    scene.host.ask(scene.echo, "</stream:stream>");
    assert!(items(&mut scene).ends_with("<item jid='irc.localhost'/></query></iq>"));
    scene.host.turn(Input::Closed { conn: irc });
    assert!(!items(&mut scene).contains("<item "));
}

/// RFC 6121 3, 4: subscriptions in both directions, presence and probes.
#[test]
fn contacts_at_components_are_contacts_rfc6121_3() {
    let mut scene = Scene::new();
    scene.host.ask(scene.romeo, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    let asked = scene.romeo("<presence to='x@echo.localhost/r' type='subscribe' id='s1'/>");
    assert_eq!(asked, "<presence from='romeo@localhost' to='x@echo.localhost' type='subscribe' id='s1'/>");
    let granted = scene.echo("<presence from='x@echo.localhost/r' to='romeo@localhost/any' type='subscribed'/>");
    assert!(
        granted.contains("<presence from='x@echo.localhost' to='romeo@localhost' type='subscribed'/>"),
        "{granted}"
    );
    assert!(granted.contains("subscription='to'"), "{granted}");
    let asks = scene.echo("<presence from='x@echo.localhost' to='romeo@localhost' type='subscribe'/>");
    assert!(asks.contains("type='subscribe'"), "{asks}");
    let shown = scene.romeo("<presence to='x@echo.localhost' type='subscribed'/>");
    assert!(shown.starts_with("<presence from='romeo@localhost' to='x@echo.localhost' type='subscribed'/>"), "{shown}");
    assert!(shown.contains("from='romeo@localhost/"), "who is subscribed is shown who is there: {shown}");
    // RFC 6121 4.4.2: later presence is sent there; 4.3: a probe is answered.
    let later = scene.romeo("<presence><show>dnd</show></presence>");
    assert!(
        later.contains("<show>dnd</show>") && later.contains("to='x@echo.localhost'") && !later.contains("probe"),
        "{later}"
    );
    let probed = heard(
        &scene.host.ask(scene.echo, "<presence from='x@echo.localhost' to='romeo@localhost' type='probe'/>"),
        scene.echo,
    );
    assert!(probed.contains("<show>dnd</show>") && probed.contains("to='x@echo.localhost'"), "{probed}");
    let stranger = heard(
        &scene.host.ask(scene.echo, "<presence from='y@echo.localhost' to='romeo@localhost' type='probe'/>"),
        scene.echo,
    );
    assert_eq!(stranger, "");
    // 4.2.2: the first presence of a session triggers a probe.
    let gone = scene.romeo("<presence type='unavailable'/>");
    assert!(gone.contains("type='unavailable'"), "{gone}");
    let again = scene.romeo("<presence/>");
    assert!(again.contains("<presence type='probe' from='romeo@localhost/"), "{again}");
    assert!(
        scene.echo("<presence from='x@echo.localhost/r' to='romeo@localhost'/>").contains("from='x@echo.localhost/r'")
    );
    // 3.2, 3.3.
    let ends = scene.echo("<presence from='x@echo.localhost' to='romeo@localhost' type='unsubscribe'/>");
    assert!(ends.contains("subscription='to'"), "{ends}");
    let ends = scene.romeo("<iq type='set' id='rm'><query xmlns='jabber:iq:roster'><item jid='x@echo.localhost' subscription='remove'/></query></iq>");
    assert!(ends.contains("type='unsubscribe'"), "{ends}");
}

/// RFC 6121 3.1.2, 3.2: subscription changes that an absent component has missed are sent when the
/// user comes online; received ones are not repeated.
#[test]
fn ends_of_subscriptions_are_told_again_until_they_are_taken_rfc6121_3_2() {
    let mut scene = Scene::new();
    scene.romeo("<presence to='x@echo.localhost' type='subscribe'/>");
    scene.echo("<presence from='x@echo.localhost' to='romeo@localhost' type='subscribed'/>");
    scene.host.ask(scene.echo, "</stream:stream>");
    scene.romeo("<presence to='x@echo.localhost' type='unsubscribe'/>");
    (scene.echo, _) = connect(&mut scene.host, 51, "echo.localhost");
    scene.romeo("<presence type='unavailable'/>");
    let told = scene.romeo("<presence/>");
    assert!(told.contains("to='x@echo.localhost' type='unsubscribe'"), "{told}");
    scene.romeo("<presence type='unavailable'/>");
    assert_eq!(scene.romeo("<presence/>"), "", "it has been taken");
}

/// XEP-0191 3: a component, or an entity there, may be blocked.
#[test]
fn blocking_holds_for_components_too_xep0191_3() {
    let mut scene = Scene::new();
    let message = "<message from='x@echo.localhost' to='romeo@localhost' type='chat' id='b'><body>b</body></message>";
    assert!(scene.echo(message).contains("<body>b"));
    scene.host.ask(
        scene.romeo,
        "<iq type='set' id='1'><block xmlns='urn:xmpp:blocking'><item jid='echo.localhost'/></block></iq>",
    );
    let effects = scene.host.ask(scene.echo, message);
    assert_eq!(heard(&effects, scene.romeo), "");
    assert!(heard(&effects, scene.echo).contains("<service-unavailable"), "{effects:?}");
    assert_eq!(scene.romeo("<message to='x@echo.localhost' type='chat'><body>b</body></message>"), "");
}

/// A message from a component waits for its receiver and is archived like any other (XEP-0160,
/// XEP-0313); nobody else can assert ids of the receiver's server (XEP-0359 3).
#[test]
fn what_a_component_writes_waits_and_is_archived() {
    let mut scene = Scene::new();
    scene.host.ask(
        scene.echo,
        "<message from='x@echo.localhost/r' to='juliet@localhost' type='chat'><body>later</body><stanza-id xmlns='urn:xmpp:sid:0' id='forged' by='juliet@localhost'/></message>",
    );
    let (juliet, _) = scene.host.bind(1, "juliet");
    let waits = heard(&scene.host.ask(juliet, "<presence/>"), juliet);
    assert!(waits.contains("<body>later</body>") && waits.contains("<delay ") && !waits.contains("forged"), "{waits}");
    let archive = heard(&scene.host.ask(juliet, "<iq type='set' id='a'><query xmlns='urn:xmpp:mam:2'/></iq>"), juliet);
    assert!(archive.contains("<body>later</body>"), "{archive}");
}

/// XEP-0198 4: a stanza counts as handled when the network has taken it for the component, and its
/// sender is not delayed meanwhile.
#[test]
fn a_stanza_is_handled_when_the_network_has_taken_it_xep0198_4() {
    let mut scene = Scene::new();
    scene.host.ask(scene.romeo, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    scene.host.prompt = false;
    let effects = scene.host.say(
        scene.romeo,
        "<message to='x@echo.localhost' type='chat'><body>1</body></message><r xmlns='urn:xmpp:sm:3'/>",
    );
    assert!(heard(&effects, scene.echo).contains("<body>1</body>"));
    assert!(!heard(&effects, scene.romeo).contains("<a "), "nobody has it yet");
    let many = "<message to='x@echo.localhost' type='chat'><body>more</body></message>".repeat(400);
    let effects = scene.host.say(scene.romeo, &many);
    // Beyond the limit of stanzas in flight the sender is paused until homes have received them,
    // whether or not the component has.
    let last = effects.iter().rev().find_map(|effect| match effect {
        Effect::Pause { conn } if *conn == scene.romeo => Some(false),
        Effect::Resume { conn, .. } if *conn == scene.romeo => Some(true),
        _ => None,
    });
    assert_eq!(last, Some(true), "not held up");
    assert_eq!(heard(&effects, scene.echo), "", "one send at a time");
    let effects = scene.host.sent(scene.echo);
    assert!(heard(&effects, scene.romeo).contains("<a xmlns='urn:xmpp:sm:3' h='1'/>"), "{effects:?}");
    assert!(heard(&effects, scene.echo).contains("<body>more</body>"));
}

/// Stanzas that a component has not taken when its connection ends are returned: no message is lost
/// silently.
#[test]
fn what_was_not_taken_goes_back_when_the_component_is_lost() {
    for ends in ["</stream:stream>", ""] {
        let mut scene = Scene::new();
        scene.host.ask(scene.romeo, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        scene.host.prompt = false;
        for n in 0..3 {
            scene.host.say(
                scene.romeo,
                &format!("<message to='x@echo.localhost' type='chat' id='m{n}'><body>b</body></message>"),
            );
        }
        scene.host.sent(scene.romeo);
        let mut effects = match ends {
            "" => scene.host.turn(Input::Closed { conn: scene.echo }),
            ends => scene.host.say(scene.echo, ends),
        };
        effects.extend(scene.host.sent(scene.romeo));
        let errors = heard(&effects, scene.romeo);
        for n in 0..3 {
            assert!(errors.contains(&format!("id='m{n}'")), "{errors}");
        }
        assert_eq!(errors.matches("<remote-server-timeout").count(), 3, "{errors}");
        let left = effects
            .iter()
            .any(|e| matches!(e, Effect::Note(note) if note.what == Happened::ComponentLeft { returned: 3 }));
        assert!(left, "{effects:?}");
        scene.host.prompt = true;
        let acked = heard(&scene.host.say(scene.romeo, "<r xmlns='urn:xmpp:sm:3'/>"), scene.romeo);
        assert!(acked.contains("h='3'"), "with an answer they are in safe hands: {acked}");
    }
}

/// A slow component delays nobody: stanzas beyond its limit are refused at once, and a flooding
/// sender leaves room for others.
#[test]
fn a_slow_component_has_a_bounded_queue_and_others_have_room() {
    let mut scene = Scene::with(|settings| settings.component_queue_bytes_max = 1 << 20);
    let (juliet, _) = scene.host.bind(1, "juliet");
    scene.host.prompt = false;
    let long = format!("<message to='x@echo.localhost' type='chat'><body>{}</body></message>", "x".repeat(3_000));
    let mut refused = String::new();
    for _ in 0..40 {
        refused += &heard(&scene.host.say(scene.romeo, &long), scene.romeo);
        refused += &heard(&scene.host.sent(scene.romeo), scene.romeo);
    }
    let count = refused.matches("<error type='wait'><resource-constraint").count();
    assert!((15..=25).contains(&count), "a sixteenth of 1 MiB is his: {count} of 40 refused");
    assert!(refused.contains("the component takes no more stanzas for now"), "{refused}");
    let other = heard(&scene.host.say(juliet, &long), juliet);
    assert_eq!(other, "", "there is room for others");
    let all = scene.host.turn(Input::Command { token: 1, command: Command::Components });
    let Some(Reply::Components(rows)) = reply(all) else { panic!("no rows") };
    let row = &rows[0];
    assert_eq!((&*row.domain, row.waiting, row.refused), ("echo.localhost", 41 - count, count as u64));
    assert!(row.waiting_bytes <= (1 << 20) / 16 + 4_000, "{row:?}");
    // It takes them again, in order, a piece at a time.
    let mut taken = 0;
    loop {
        let said = heard(&scene.host.sent(scene.echo), scene.echo);
        if said.is_empty() {
            break;
        }
        assert!(said.len() <= COMPONENT_FEED_BYTES, "{}", said.len());
        taken += said.matches("<message").count();
    }
    assert_eq!(taken, 41 - count - 1, "one was under way before");
}

/// Stanzas that a component does not take in time are returned, except those in flight; a component
/// that takes nothing for long is disconnected.
#[test]
fn what_is_not_taken_in_time_goes_back() {
    let mut scene = Scene::new();
    scene.host.prompt = false;
    scene.host.say(scene.romeo, "<iq type='get' id='first' to='echo.localhost'><q xmlns='y'/></iq>");
    scene.host.say(scene.romeo, "<iq type='get' id='second' to='echo.localhost'><q xmlns='y'/></iq>");
    let effects = scene.pass_ms(COMPONENT_WAIT_MS + 1);
    let error = heard(&effects, scene.romeo);
    assert!(error.contains("id='second'") && error.contains("<error type='wait'><resource-constraint"), "{error}");
    assert!(!error.contains("id='first'"), "it may yet arrive");
    scene.host.sent(scene.romeo);
    let mut all = Vec::new();
    for _ in 0..20 {
        all.extend(scene.pass_ms(1_000));
    }
    assert!(all.iter().any(|effect| matches!(effect, Effect::Close { conn, abort: true, .. } if *conn == scene.echo)));
    assert!(heard(&all, scene.romeo).contains("id='first'"), "now it has not");
}

/// XEP-0114 3: `<conflict/>` for a second one; if the first connection is dead, that is soon
/// discovered.
#[test]
fn a_second_component_is_a_conflict_and_the_first_has_to_show_that_it_is_there_xep0114_3() {
    let mut scene = Scene::new();
    let (second, effects) = connect(&mut scene.host, 51, "echo.localhost");
    assert!(heard(&effects, second).contains("<conflict ") && heard(&effects, second).ends_with("</stream:stream>"));
    let ping = heard(&effects, scene.echo);
    assert!(
        ping.contains("<ping xmlns='urn:xmpp:ping'/>") && ping.contains("from='localhost' to='echo.localhost'"),
        "{ping}"
    );
    let id = between(&ping, " id='", "'").to_owned();
    // It answers and stays.
    scene.host.ask(scene.echo, &format!("<iq type='result' id='{id}' from='echo.localhost' to='localhost'/>"));
    assert!(heard(&scene.pass_ms(COMPONENT_CHALLENGE_MS + 1), scene.echo).is_empty());
    assert!(scene.romeo("<message to='x@echo.localhost'><body>b</body></message>").contains("<body>"));
    // It does not answer and is closed: the next one takes its place.
    connect(&mut scene.host, 52, "echo.localhost");
    let effects = scene.pass_ms(COMPONENT_CHALLENGE_MS + 1);
    assert!(heard(&effects, scene.echo).contains("<connection-timeout"), "{effects:?}");
    let (third, effects) = connect(&mut scene.host, 53, "echo.localhost");
    assert!(heard(&effects, third).ends_with("<handshake/>"));
}

/// XEP-0199: a silent component is pinged, and disconnected if it does not answer.
#[test]
fn a_silent_component_is_asked_and_let_go() {
    let mut scene = Scene::with(|settings| settings.idle_s_max = 60);
    let mut all = String::new();
    for _ in 0..60 {
        all += &heard(&scene.pass_ms(1_300), scene.echo);
    }
    assert_eq!(all.matches("<ping ").count(), 1, "{all}");
    for _ in 0..60 {
        all += &heard(&scene.pass_ms(1_300), scene.echo);
    }
    assert!(all.contains("<connection-timeout"), "{all}");
}

/// A component that floods is not read from while too much of its data is in flight: with a stalled
/// disk, nothing is confirmed.
#[test]
fn a_component_is_not_read_from_while_too_much_is_under_way() {
    let mut scene = Scene::new();
    let message = "<message from='x@echo.localhost' to='juliet@localhost' type='chat'><body>b</body></message>";
    let effects = scene.host.say(scene.echo, &message.repeat(COMPONENT_IN_FLIGHT_MAX as usize + 10));
    let paused = effects.iter().any(|effect| matches!(effect, Effect::Pause { conn } if *conn == scene.echo));
    let resumed = effects.iter().any(|effect| matches!(effect, Effect::Resume { conn, .. } if *conn == scene.echo));
    assert!(paused && resumed, "and read from again when it is in safe hands");
}

/// XEP-0357 7: a component is a push service.
#[test]
fn a_component_wakes_devices_xep0357_7() {
    let mut scene = Scene::with(|settings| settings.idle_s_max = 0);
    let (phone, _) = scene.host.bind(1, "juliet");
    let enabled = scene.host.ask(
        phone,
        "<presence/><iq type='set' id='e'><enable xmlns='urn:xmpp:push:0' jid='echo.localhost' node='n'/></iq>",
    );
    assert!(heard(&enabled, phone).contains("type='result' id='e'"), "{enabled:?}");
    scene.host.ask(phone, "</stream:stream>");
    let told = scene.romeo("<message to='juliet@localhost' type='chat'><body>wake up</body></message>");
    assert!(told.contains("<publish node='n'>") && told.contains("from='localhost' to='echo.localhost'"), "{told}");
    let id = between(&told, "id='push-", "'").to_owned();
    scene.host.ask(scene.echo, &format!("<iq type='result' id='push-{id}' from='echo.localhost' to='localhost'/>"));
    assert_eq!(scene.host.shard.counters().pushes_taken.get(), 1);
    // When absent, the attempt fails and is repeated later.
    scene.host.ask(scene.echo, "</stream:stream>");
    scene.pass_ms(20_000);
    scene.host.ask(scene.romeo, "<message to='juliet@localhost' type='chat'><body>wake up</body></message>");
    assert_eq!(scene.host.shard.counters().pushes_failed.get(), 1);
}

/// XEP-0060 7.1.2: a subscriber at a component is notified there.
#[test]
fn subscribers_at_components_are_notified_xep0060_7_1_2() {
    let mut scene = Scene::new();
    let pubsub = |inside: &str| format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'>{inside}</pubsub>");
    let publish = |item: &str| {
        let options = "<publish-options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#publish-options</value></field><field var='pubsub#access_model'><value>open</value></field></x></publish-options>";
        format!(
            "<iq type='set' id='p'>{}</iq>",
            pubsub(&format!("<publish node='urn:n'><item id='{item}'><x xmlns='y'/></item></publish>{options}"))
        )
    };
    scene.host.ask(scene.romeo, &publish("one"));
    let subscribe = format!(
        "<iq type='set' id='s' from='x@echo.localhost' to='romeo@localhost'>{}</iq>",
        pubsub("<subscribe node='urn:n' jid='x@echo.localhost'/>")
    );
    let answer = heard(&scene.host.ask(scene.echo, &subscribe), scene.echo);
    assert!(answer.contains("subscription='subscribed'"), "{answer}");
    let told = scene.romeo(&publish("two"));
    assert!(told.contains("<items node='urn:n'><item id='two'") && told.contains("to='x@echo.localhost'"), "{told}");
}

/// XEP-0045 7.2, 7.4: users of a component can be in a room.
#[test]
fn users_of_a_component_enter_rooms() {
    const MUC: &str = "http://jabber.org/protocol/muc";
    let mut scene = Scene::with(|s| s.serve_rooms("conference.localhost"));
    scene.romeo(&format!("<presence to='cave@conference.localhost/romeo'><x xmlns='{MUC}'/></presence>"));
    scene.romeo(&format!(
        "<iq type='set' id='c' to='cave@conference.localhost'><query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'/></query></iq>"
    ));
    let (bot, nick) = ("bot@echo.localhost/b", "cave@conference.localhost/bot");
    let romeo = scene.echo(&format!("<presence from='{bot}' to='{nick}'><x xmlns='{MUC}'/></presence>"));
    assert!(romeo.contains(&format!("from='{nick}'")), "{romeo}");
    let say = |from: &str, body: &str| {
        format!("<message type='groupchat'{from} to='cave@conference.localhost'><body>{body}</body></message>")
    };
    let echo = scene.romeo(&say("", "hear"));
    assert!(echo.contains(&format!("to='{bot}'")) && echo.contains("hear"), "{echo}");
    let romeo = scene.echo(&say(&format!(" from='{bot}'"), "speak"));
    assert!(romeo.contains("speak"), "{romeo}");
    // It is still there, and so is its occupant.
    assert!(scene.romeo(&say("", "again")).contains("again"));
}

/// The connection moves to the home of the domain, with the data that follows its handshake.
#[test]
fn a_component_moves_to_the_home_of_its_domain() {
    let settings = settings(2);
    let away = ["echo.localhost", "irc.localhost"].into_iter().find(|domain| settings.home(domain) == ShardId(1));
    let mut settings = settings;
    let away = away.map(str::to_owned).unwrap_or_else(|| {
        let domain =
            (0..).map(|n| format!("c{n}.localhost")).find(|d| settings.partitions.home(d) == ShardId(1)).expect("one");
        settings.serve_component(&domain, SharedSecret(SECRET.into()));
        domain
    });
    let at = format!("someone@{away}");
    assert_eq!(settings.home(&at), ShardId(1), "all that is at the domain lives where the domain does");
    let mut host = Host::new(settings);
    let conn = accept(&mut host, 0);
    let stream = said(&host.ask(conn, &header(&away)));
    let early = format!("<iq type='get' id='p' from='{away}' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    let effects = host.ask(conn, &(handshake(&stream, SECRET) + &early));
    let moved = effects.into_iter().find_map(|effect| match effect {
        Effect::Depart { to: ShardId(1), moved, .. } => Some(moved),
        _ => None,
    });
    let moved = moved.expect("it leaves");
    host.turn(Input::Closed { conn });
    let there = ConnId { slot: 9, generation: 1 };
    let effects = host.turn(Input::Arrived { conn: there, moved });
    let heard = heard(&effects, there);
    assert!(heard.starts_with("<handshake/>"), "{heard}");
    let news: usize = effects
        .iter()
        .map(|effect| match effect {
            Effect::Letters { batch, .. } => batch.len(),
            _ => 0,
        })
        .sum();
    assert!(news > 0, "other shards hear of it: {effects:?}");
}

/// Without components, their domains are treated as those of other servers.
#[test]
fn where_none_is_configured_their_domain_is_remote() {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("romeo");
    let (romeo, _) = host.bind(0, "romeo");
    let error = said(&host.ask(romeo, "<message to='x@echo.localhost' type='chat'><body>b</body></message>"));
    assert!(error.contains("<remote-server-not-found"), "{error}");
    let conn = accept(&mut host, 1);
    assert!(said(&host.ask(conn, &header("echo.localhost"))).contains("<host-unknown"));
}

/// RFC 6120 4.9.3.19: at a stop it gets the stream error, and stanzas that it has not taken are
/// returned.
#[test]
fn a_stop_tells_components_too_rfc6120_4_9_3_19() {
    let mut scene = Scene::new();
    let effects = scene.host.turn(Input::Command { token: 1, command: Command::Shutdown });
    assert!(heard(&effects, scene.echo).contains("<system-shutdown"), "{effects:?}");
}

/// XEP-0359 3, XEP-0203 5: a component asserts ids and delays in the name of its own domain, and in
/// no name for which this server speaks.
#[test]
fn a_component_says_nothing_in_the_servers_name() {
    let mut scene = Scene::new();
    let delay = |from: &str| format!("<delay xmlns='urn:xmpp:delay' from='{from}' stamp='2002-09-10T23:08:25Z'/>");
    let id = |by: &str| format!("<stanza-id xmlns='urn:xmpp:sid:0' by='{by}' id='f'/>");
    let own = id("cave@echo.localhost") + &delay("cave@echo.localhost");
    let forged = id("romeo@localhost") + &id("localhost") + &delay("localhost") + &delay("romeo@localhost");
    let heard = scene.echo(&format!(
        "<message from='cave@echo.localhost/owl' to='romeo@localhost' type='chat'>{forged}{own}<body>hoo</body></message>"
    ));
    assert!(
        heard.contains(&format!(" type='chat' from='cave@echo.localhost/owl' to='romeo@localhost'>{own}<body>")),
        "{heard}"
    );
    assert_eq!(heard.matches("<stanza-id").count(), 2, "that of the room and that of the account: {heard}");
    for kind in ["", " type='unavailable'", " type='error'", " type='subscribe'"] {
        let heard = scene.echo(&format!(
            "<presence{kind} from='cave@echo.localhost/owl' to='romeo@localhost'>{own}{forged}</presence>"
        ));
        assert!(!heard.contains("from='localhost'") && !heard.contains("by='romeo@localhost'"), "{heard}");
        assert!(kind.contains("error") || heard.contains(&own), "{kind}: {heard}");
    }
}
