//! Whole conversations with a client, in memory.

use super::*;

const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams' id='1' from='localhost' version='1.0'>";
const PLAIN: &str = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
                     <mechanism>SCRAM-SHA-1</mechanism><mechanism>PLAIN</mechanism></mechanisms></stream:features>";
const BIND_FEATURES: &str = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>";
const BOUND: &str = "<iq type='result' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
                     <jid>romeo@localhost/x</jid></bind></iq>";

struct Play {
    client: Client,
    profile: Profile,
    scanner: Scanner,
    /// How many bytes come at once.
    piece: usize,
    news: Vec<News<'static>>,
}

fn owned(news: News<'_>) -> News<'static> {
    match news {
        News::Message { body, delayed } => News::Message { body: body.into_owned().into(), delayed },
        News::MessageError(kind) => News::MessageError(kind.into_owned().into()),
        News::StartTls => News::StartTls,
        News::Ready => News::Ready,
        News::Presence => News::Presence,
        News::Failed { kind, fatal } => News::Failed { kind, fatal },
        News::End => News::End,
    }
}

impl Play {
    fn new(piece: usize) -> Play {
        let profile = Profile::plain("localhost");
        Play { client: Client::default(), profile, scanner: Scanner::new(), piece, news: Vec::new() }
    }

    fn open(&mut self) -> String {
        let mut out = Vec::new();
        self.client.open(&self.profile, false, &mut out);
        String::from_utf8(out).expect("text")
    }

    /// The server says this; returns what the client answers.
    fn hear(&mut self, text: &str) -> String {
        let (mut out, news) = (Vec::new(), &mut self.news);
        let account = || Account { name: "romeo".into(), password: "a<b".into() };
        for piece in text.as_bytes().chunks(self.piece) {
            let mut tools = Tools { scanner: &mut self.scanner, profile: &self.profile, account: &account };
            self.client.handle(&mut tools, piece, &mut out, &mut |told| news.push(owned(told)));
        }
        String::from_utf8(out).expect("text")
    }

    fn logged_in(piece: usize) -> Play {
        let mut play = Play::new(piece);
        play.open();
        play.hear(HEADER);
        play.hear(PLAIN);
        play.hear("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
        play.hear(HEADER);
        play.hear(BIND_FEATURES);
        play.hear(BOUND);
        play.hear("<iq type='result' id='p'/>");
        assert_eq!(play.news, [News::Ready]);
        play.news.clear();
        play
    }
}

#[test]
fn a_login_with_plain_however_the_bytes_are_cut() {
    for piece in [1, 7, 10_000] {
        let mut play = Play::new(piece);
        // RFC 6120 4.7.1: a client's header says which host it wants.
        assert!(play.open().contains(" to='localhost'"));
        assert_eq!(play.hear(HEADER), "");
        let auth = play.hear(PLAIN);
        // RFC 4616 2.
        let plain = sasl::plain("romeo", "a<b");
        assert_eq!(auth, format!("<auth xmlns='{SASL}' mechanism='PLAIN'>{plain}</auth>"));
        // RFC 6120 6.4.6: after success a new stream is opened.
        assert!(play.hear("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>").contains("<stream:stream"));
        assert_eq!(play.hear(HEADER), "");
        assert_eq!(play.hear(BIND_FEATURES), format!("<iq type='set' id='b'><bind xmlns='{BIND}'/></iq>"));
        // RFC 6121 4.2.1: initial presence.
        let settling = play.hear(BOUND);
        assert!(settling.starts_with("<presence/><iq type='get' id='p' to='localhost'>"), "{settling}");
        assert_eq!(play.news, []);
        play.hear("<iq type='error' id='p'><error type='cancel'/></iq>");
        assert_eq!(play.news, [News::Ready]);
        assert!(play.client.is_ready());
        assert!(!play.client.keeps_heap(), "an idle client keeps nothing");
    }
}

#[test]
fn a_presence_is_as_long_as_asked_for_and_its_own() {
    let mut play = Play::new(1_000);
    play.profile.presence_bytes = 350;
    play.open();
    for text in [HEADER, PLAIN, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>", HEADER, BIND_FEATURES] {
        play.hear(text);
    }
    let settling = play.hear(BOUND);
    assert_eq!(settling.find("<iq "), Some(350), "{settling}");
    assert!(settling.starts_with("<presence><status>romeox"), "{settling}");
}

#[test]
fn scram_is_taken_when_asked_for_and_the_server_has_to_prove_itself() {
    let mut play = Play::new(100);
    play.profile.mechanism = Some(Mechanism::ScramSha1);
    play.open();
    let auth = play.hear(&format!("{HEADER}{PLAIN}"));
    assert!(auth.starts_with(&format!("<auth xmlns='{SASL}' mechanism='SCRAM-SHA-1'>")), "{auth}");
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD;
    let first = auth.split(['>', '<']).nth(2).expect("a payload");
    let first = String::from_utf8(base64.decode(first).expect("base64")).expect("text");
    let nonce = first.rsplit_once("r=").expect("a nonce").1;
    let challenge = base64.encode(format!("r={nonce}server,s=QSXCR+Q6sek8bf92,i=1"));
    let response = play.hear(&format!("<challenge xmlns='{SASL}'>{challenge}</challenge>"));
    assert!(response.starts_with("<response"), "{response}");
    // RFC 5802 3: the client checks the server's signature.
    play.hear(&format!("<success xmlns='{SASL}'>{}</success>", base64.encode("v=AAAA")));
    let kind = "authentication: the server's proof is missing or wrong".to_owned();
    assert_eq!(play.news, [News::Failed { kind, fatal: false }]);
}

#[test]
fn starttls_comes_before_anything_else() {
    let mut play = Play::new(10_000);
    play.profile.security = Security::StartTls;
    play.open();
    let features = "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>";
    assert_eq!(play.hear(&format!("{HEADER}{features}")), format!("<starttls xmlns='{TLS}'/>"));
    play.hear("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(play.news, [News::StartTls]);
    let mut out = Vec::new();
    play.client.open(&play.profile, true, &mut out);
    assert!(play.hear(&format!("{HEADER}{PLAIN}")).starts_with("<auth"));
    // RFC 6120 5.3.1: who insists on TLS does not go on without.
    let mut play = Play::new(10_000);
    play.profile.security = Security::StartTls;
    play.open();
    play.hear(&format!("{HEADER}{PLAIN}"));
    assert_eq!(play.news, [News::Failed { kind: "starttls not offered".into(), fatal: true }]);
}

#[test]
fn registration_goes_before_the_login_and_an_account_that_is_there_is_fine() {
    for answer in [
        "<iq type='result' id='g'/>",
        // XEP-0077 3.1: the name is taken.
        "<iq type='error' id='g'><error type='cancel'>\
         <conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    ] {
        let mut play = Play::new(10_000);
        play.profile.register = true;
        play.open();
        let register = play.hear(&format!("{HEADER}{PLAIN}"));
        assert!(register.contains("<username>romeo</username><password>a&lt;b</password>"), "{register}");
        assert!(play.hear(answer).contains("mechanism='PLAIN'"));
    }
}

#[test]
fn what_goes_wrong_is_told_by_its_condition() {
    let failed = |kind: &str, fatal| News::Failed { kind: kind.into(), fatal };
    let mut play = Play::new(9);
    play.open();
    play.hear(&format!("{HEADER}{PLAIN}<failure xmlns='{SASL}'><not-authorized/></failure>"));
    assert_eq!(play.news, [failed("authentication: not-authorized", true)]);
    // RFC 6120 4.9.3: a stream error ends the stream.
    let mut play = Play::logged_in(9);
    play.hear("<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>");
    assert_eq!(play.news, [failed("stream error: conflict", false)]);
    let mut play = Play::logged_in(9);
    play.hear("</stream:stream>");
    assert_eq!(play.news, [News::End]);
    let mut play = Play::logged_in(9);
    play.hear("<message><body></message>");
    assert!(matches!(&play.news[..], [News::Failed { kind, .. }] if kind.starts_with("malformed")), "{:?}", play.news);
}

#[test]
fn what_comes_in_a_session_is_told_and_answered() {
    let mut play = Play::logged_in(11);
    play.hear(
        "<message from='a@localhost/x'><body>one &amp; two</body></message>\
         <message><delay xmlns='urn:xmpp:delay'/><body>late</body></message><message><active/></message>\
         <message type='error'><error type='cancel'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
         </error></message><presence from='a@localhost/x'/>",
    );
    assert_eq!(
        play.news,
        [
            News::Message { body: "one & two".into(), delayed: false },
            News::Message { body: "late".into(), delayed: true },
            News::MessageError("item-not-found".into()),
            News::Presence
        ]
    );
    // RFC 6121 3.1.4: a request is approved.
    let approved = play.hear("<presence type='subscribe' from='b@localhost'/>");
    assert_eq!(approved, "<presence type='subscribed' to='b@localhost'/>");
    // XEP-0199 4.1.
    let pong = play.hear("<iq type='get' id='7' from='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert_eq!(pong, "<iq type='result' id='7' to='localhost'></iq>");
    // RFC 6120 8.4.
    let unknown = play.hear("<iq type='get' id='8'><query xmlns='jabber:iq:version'/></iq>");
    assert!(unknown.starts_with("<iq type='error' id='8'>") && unknown.contains("service-unavailable"), "{unknown}");
    assert!(!play.client.keeps_heap());
}

/// XEP-0305: what needs no answer goes without waiting for one, and comes to the same end.
#[test]
fn a_client_in_a_hurry_waits_only_for_what_it_needs() {
    for piece in [1, 10_000] {
        let mut play = Play::new(piece);
        (play.profile.pipelined, play.profile.mechanism) = (true, Some(Mechanism::Plain));
        let mut said = play.open().into_bytes();
        let account = || Account { name: "romeo".into(), password: "a<b".into() };
        let tools = Tools { scanner: &mut play.scanner, profile: &play.profile, account: &account };
        play.client.hurry(&tools, &mut said, &mut |news| panic!("{news:?}"));
        assert!(String::from_utf8_lossy(&said).ends_with("</auth>"), "authentication goes with the header");
        assert_eq!(play.hear(&format!("{HEADER}{PLAIN}")), "", "it has chosen already");
        let said = play.hear("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
        assert!(said.starts_with("<?xml") && said.contains("<bind ") && said.contains("<presence/>"), "{said}");
        assert_eq!(play.hear(&format!("{HEADER}{BIND_FEATURES}{BOUND}")), "");
        assert_eq!(play.news, []);
        play.hear("<iq type='result' id='p'/>");
        assert_eq!(play.news, [News::Ready]);
        assert!(!play.client.keeps_heap());
    }
}

#[test]
fn a_caller_sees_each_item_of_a_bound_session_first_and_takes_what_it_wants() {
    for piece in [1, 10_000] {
        let mut play = Play::new(piece);
        (play.profile.available, play.profile.resource) = (false, "a<b".into());
        play.open();
        let (mut seen, mut said) = (Vec::new(), Vec::new());
        for text in [
            HEADER,
            PLAIN,
            "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
            HEADER,
            BIND_FEATURES,
            BOUND,
            "<r xmlns='urn:xmpp:sm:3'/><message><body>mine</body></message>",
            "<iq type='get' id='q'><ping xmlns='urn:xmpp:ping'/></iq>",
        ] {
            let (news, seen) = (&mut play.news, &mut seen);
            let account = || Account { name: "romeo".into(), password: "secret".into() };
            let mut take = |element: &Element<'_>, out: &mut Vec<u8>| {
                seen.push(element.name().to_owned());
                if element.name() == "r" {
                    out.extend_from_slice(b"<a/>");
                }
                element.name() != "iq"
            };
            for piece in text.as_bytes().chunks(play.piece) {
                let mut tools = Tools { scanner: &mut play.scanner, profile: &play.profile, account: &account };
                let mut told = |told: News<'_>| news.push(owned(told));
                play.client.handle_seen(&mut tools, piece, &mut said, &mut told, &mut take);
            }
        }
        assert_eq!(seen, ["r", "message", "iq"], "and nothing of the login");
        assert_eq!(play.news, [News::Ready], "the message was taken");
        let said = String::from_utf8(said).expect("text");
        assert!(said.contains("<resource>a&lt;b</resource>"), "{said}");
        assert!(said.ends_with("<a/><iq type='result' id='q'></iq>"), "what was not taken is answered: {said}");
    }
}

const SASL2_FEATURES: &str = "<stream:features><authentication xmlns='urn:xmpp:sasl:2'><mechanism>PLAIN</mechanism>\
     <inline><fast xmlns='urn:xmpp:fast:0'><mechanism>HT-SHA-256-NONE</mechanism></fast></inline></authentication></stream:features>";

fn returning() -> Play {
    let mut play = Play::new(10_000);
    (play.profile.login, play.profile.resumes) = (Login::Fast, true);
    play
}

/// The client opens a stream again, and says what it says at once.
fn hurried(play: &mut Play) -> String {
    let (mut out, news) = (Vec::new(), &mut play.news);
    play.client.open(&play.profile, false, &mut out);
    let account = || Account { name: "romeo".into(), password: "a<b".into() };
    let tools = Tools { scanner: &mut play.scanner, profile: &play.profile, account: &account };
    play.client.hurry(&tools, &mut out, &mut |told| news.push(owned(told)));
    String::from_utf8(out).expect("text")
}

/// XEP-0388, XEP-0386, XEP-0484, XEP-0198 10: a password and a session first, the token and that session afterwards.
#[test]
fn a_client_returns_with_a_token_and_its_session() {
    let mut play = returning();
    assert!(!hurried(&mut play).contains("authenticate"));
    play.hear(HEADER);
    let said = play.hear(SASL2_FEATURES);
    assert!(said.starts_with("<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>"), "{said}");
    assert!(
        said.contains("<request-token") && said.contains("<enable xmlns='urn:xmpp:sm:3' resume='true'/>"),
        "{said}"
    );
    let said = play.hear(
        "<success xmlns='urn:xmpp:sasl:2'><authorization-identifier>romeo@localhost/x</authorization-identifier>\
         <bound xmlns='urn:xmpp:bind:0'><enabled xmlns='urn:xmpp:sm:3' resume='true' id='a-1' max='300'/></bound>\
         <token xmlns='urn:xmpp:fast:0' token='secret' expiry='2030-01-01T00:00:00Z'/></success><stream:features/>",
    );
    assert!(said.starts_with("<presence/><iq type='get' id='p'"), "{said}");
    play.hear("<message><body>1</body></message><iq type='result' id='p'/>");
    assert_eq!(play.news.last(), Some(&News::Ready));
    assert_eq!(play.hear("<r xmlns='urn:xmpp:sm:3'/>"), "<a xmlns='urn:xmpp:sm:3' h='2'/>");
    // The connection breaks: all is said at once, and the answer is a session.
    play.client.rest();
    play.news.clear();
    let said = hurried(&mut play);
    assert!(
        said.contains("mechanism='HT-SHA-256-NONE'") && said.contains("<fast xmlns='urn:xmpp:fast:0' count='1'/>"),
        "{said}"
    );
    assert!(said.contains("<resume xmlns='urn:xmpp:sm:3' h='2' previd='a-1'/>"), "{said}");
    let shown = |what: &[u8]| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"secret");
        base64::engine::general_purpose::STANDARD.encode(ring::hmac::sign(&key, what))
    };
    use base64::Engine as _;
    let success = |data: &str| {
        format!(
            "<success xmlns='urn:xmpp:sasl:2'><additional-data>{data}</additional-data>\
             <authorization-identifier>romeo@localhost/x</authorization-identifier>\
             <resumed xmlns='urn:xmpp:sm:3' h='2' previd='a-1'/></success>"
        )
    };
    play.hear(HEADER);
    play.hear(SASL2_FEATURES);
    assert_eq!(play.hear(&success(&shown(b"Responder"))), "");
    assert_eq!(play.news, [News::Ready]);
    // A server that does not have the token is none.
    play.client.rest();
    play.news.clear();
    hurried(&mut play);
    play.hear(HEADER);
    play.hear(&success("AAAA"));
    assert!(matches!(&play.news[..], [News::Failed { .. }]), "{:?}", play.news);
}

/// A token that is refused is not shown again; a session that has ended is not resumed.
#[test]
fn a_token_that_is_refused_is_forgotten() {
    let mut play = returning();
    hurried(&mut play);
    play.hear(HEADER);
    play.hear(SASL2_FEATURES);
    play.hear(
        "<success xmlns='urn:xmpp:sasl:2'><bound xmlns='urn:xmpp:bind:0'><enabled xmlns='urn:xmpp:sm:3' id='a-1'/></bound>\
         <token xmlns='urn:xmpp:fast:0' token='secret'/></success>",
    );
    play.hear("<iq type='result' id='p'/>");
    play.client.leaves();
    play.client.rest();
    play.news.clear();
    let said = hurried(&mut play);
    assert!(said.contains("HT-SHA-256-NONE") && !said.contains("<resume"), "{said}");
    play.hear(HEADER);
    play.hear(
        "<failure xmlns='urn:xmpp:sasl:2'><credentials-expired xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>",
    );
    assert!(matches!(&play.news[..], [News::Failed { fatal: false, .. }]), "{:?}", play.news);
    play.client.rest();
    assert!(!hurried(&mut play).contains("authenticate"));
}
