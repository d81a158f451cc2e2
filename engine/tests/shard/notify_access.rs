//! Private channels (`/n/`) on one shard: how a token is presented, what it permits and for how
//! long, and how many verifications one address can cause.

use std::sync::Arc;

use throng_engine::io::{Command, Input};
use throng_engine::web::access::Access;
use throng_engine::web::policy::{Channels, Policy};
use throng_sim::host::said as words;

use crate::issuer::{NOW_S, Signer, access, keys, minute, name_of};
use crate::notify_world::{Desk, Heard, KEY, TOKEN, open, place, pubsub, settings, upgrade};

/// Channels that begin with `own.` require a token, `news.` is open.
fn channels() -> Channels {
    Channels {
        prefixes: Box::new(["news.".into()]),
        private: Box::new(["own.".into()]),
        publish_open: false,
        access: Some(Arc::new(access())),
        ..open()
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn both() -> String {
    minute(",\"publish\":[\"own.*\"],\"subscribe\":[\"own.a\",\"own.b\"]")
}

impl Desk {
    fn ask(&mut self, path: &str, fields: &str) -> Heard {
        let conn = self.connect();
        self.get_with(conn, path, fields)
    }

    /// The operator's options change while the server runs.
    fn turn(&mut self, channels: Channels) {
        let new = settings(1, channels);
        self.host.turn(Input::Command { token: 1, command: Command::Turn(Arc::new(new)) });
    }
}

#[test]
fn what_a_token_names_is_read_and_published() {
    let mut desk = Desk::new(channels());
    let shown = bearer(&both());
    assert_eq!(desk.publish_with("own.a", &shown, "one").status(), "200");
    assert_eq!(desk.publish_with("own.c", &shown, "two").status(), "200", "it may publish where it may not read");
    let heard = desk.ask("own.a?after=0", &shown);
    assert_eq!((heard.status(), heard.data()), ("200", vec!["one"]));
    let heard = desk.ask("own.a,own.b?after=0,0", &shown);
    assert_eq!((heard.status(), heard.data()), ("200", vec!["one"]));
    for path in ["own.c", "own.a,own.c", "own.a,own.c,news.x"] {
        let heard = desk.ask(path, &shown);
        assert_eq!(heard.status(), "403", "{path}: {}", heard.text);
        assert!(heard.field("WWW-Authenticate").unwrap().contains("insufficient_scope"), "RFC 6750 3.1");
    }
    // Open channels may be requested along with it, and need no token, whatever is presented.
    assert_eq!(desk.ask("own.a,news.x?after=0,0", &shown).data(), ["one"]);
    assert_eq!(desk.ask("news.x?after=0", "Authorization: Bearer nonsense\r\n").status(), "204");
    // To publish there, it has to permit that.
    assert_eq!(desk.publish_with("news.x", &shown, "x").status(), "403");
    let all = bearer(&minute(",\"publish\":[\"*\"]"));
    assert_eq!(desk.publish_with("news.x", &all, "x").status(), "200");
    assert_eq!(desk.ask("own.a", &all).status(), "403", "to publish is not to read");
    assert_eq!(
        desk.publish_with("other", &all, "x").status(),
        "404",
        "no token makes a channel that the operator has not named"
    );
}

#[test]
fn without_a_token_that_counts_nothing_is_told() {
    let mut desk = Desk::new(channels());
    assert_eq!(desk.publish_with("own.a", &bearer(TOKEN), "secret").status(), "200", "the operator publishes anywhere");
    let expired = Signer::Hs256.token(&format!("\"exp\":{NOW_S},\"subscribe\":[\"*\"]"));
    let forged = format!("{}A", &both()[..both().len() - 1]);
    for (fields, error) in [
        (String::new(), None),
        ("Authorization: Basic YTpi\r\n".into(), None),
        ("Authorization: Bearer\r\n".into(), None),
        ("Cookie: access_token=x; authorization=y\r\n".into(), None),
        (format!("Cookie: access_token={}\r\n", both()), None),
        (bearer("x"), Some("three parts")),
        (bearer(TOKEN), Some("three parts")),
        (bearer(&expired), Some("expired")),
        (bearer(&forged), Some("signature")),
    ] {
        for path in ["own.a", "own.a?after=0&wait=9", "news.x,own.a"] {
            let heard = desk.ask(path, &fields);
            assert_eq!(heard.status(), "401", "{fields}: {}", heard.text);
            assert!(!heard.text.contains("secret"));
            let challenge = heard.field("WWW-Authenticate").unwrap();
            assert!(challenge.starts_with("Bearer realm=\"channels\""), "{challenge}");
            assert_eq!(challenge.contains("error=\"invalid_token\""), error.is_some(), "{challenge}");
            assert!(error.is_none_or(|error| challenge.contains(error) && heard.body().contains(error)), "{challenge}");
        }
        let conn = desk.connect();
        let heard = desk.stream(conn, "own.a", &fields);
        assert_eq!(heard.status(), "401");
        if !fields.contains(TOKEN) {
            assert_eq!(desk.publish_with("own.a", &fields, "x").status(), "401");
        }
    }
    let head = "HEAD /n/own.a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let conn = desk.connect();
    assert_eq!(desk.says(conn, head).body(), "");
    // Permission for everybody to publish at open channels opens no other; without keys there is no
    // access at all.
    let mut desk = Desk::new(Channels { publish_open: true, ..channels() });
    assert_eq!(desk.publish("news.x", "x").status(), "200");
    assert_eq!(desk.publish("own.a", "x").status(), "401");
    let mut desk = Desk::new(Channels { access: None, publish_open: true, ..channels() });
    assert_eq!((desk.ask("own.a", &bearer(&both())).status(), desk.publish("own.a", "x").status()), ("403", "401"));
}

#[test]
fn a_page_shows_its_token_in_the_address() {
    let mut desk = Desk::new(channels());
    desk.publish_with("own.a", &bearer(&both()), "one");
    let token = both();
    let conn = desk.connect();
    let heard = desk.stream(conn, &format!("own.a?after=0&access_token={token}"), "");
    assert_eq!((heard.status(), heard.data()), ("200", vec!["one"]));
    assert_eq!(heard.field("Cache-Control"), Some("no-store"), "RFC 6750 2.3");
    assert_eq!(desk.ask(&format!("own.a?access_token={token}"), "").data(), ["one"]);
    assert_eq!(desk.ask("own.a?access_token=", "").status(), "401");
    assert_eq!(desk.publish(&format!("own.a?access_token={token}"), "two").status(), "200");
    // The operator's token is not accepted in a URL.
    assert_eq!(desk.publish(&format!("own.a?access_token={}", TOKEN.replace(' ', "+")), "x").status(), "401");
    // RFC 6750 2: one way, once.
    for (query, fields) in [
        (format!("access_token={token}&access_token={token}"), String::new()),
        (format!("access_token={token}"), bearer(&token)),
        (String::new(), bearer(&token) + &bearer(&token)),
    ] {
        let heard = desk.ask(&format!("own.a?{query}"), &fields);
        assert_eq!(heard.status(), "400", "{}", heard.text);
        assert!(heard.field("WWW-Authenticate").unwrap().contains("invalid_request"));
    }
}

#[test]
fn who_waits_is_told_until_the_token_ends() {
    let mut desk = Desk::new(channels());
    let (streams, polls, other) = (desk.connect(), desk.connect(), desk.connect());
    assert_eq!(desk.stream(streams, "own.a?after=0", &bearer(&both())).status(), "200");
    let poll = format!("GET /n/own.a?after=0&wait=300 HTTP/1.1\r\nHost: localhost\r\n{}\r\n", bearer(&both()));
    assert_eq!(desk.says(polls, &poll), Heard::default());
    assert_eq!(desk.get(other, "news.x?wait=300"), Heard::default());
    assert_eq!(desk.told(streams, "own.a", &bearer(TOKEN), "one").data(), ["one"]);
    let again = poll.replace("after=0", "after=1");
    assert_eq!(desk.says(polls, &again), Heard::default(), "it was answered, and asks again");
    let heard = desk.wait(streams, 55);
    assert!(!heard.ends && heard.data().is_empty(), "{}", heard.text);
    let ends = desk.wait(streams, 10);
    assert!(ends.ends && ends.text.ends_with("event: expired\ndata: {}\n\n"), "{}", ends.text);
    assert!(!ends.text.contains("id:"), "it comes back to where it was");
    let again = desk.connect();
    let heard = desk.stream(again, "own.a?after=1", &bearer(&both()));
    assert!(heard.status() == "401" && heard.body().contains("expired"));
    assert_eq!(desk.publish_with("own.a", &bearer(&both()), "x").status(), "401");
    // A subscription without a token does not expire.
    desk.publish_with("news.x", &bearer(TOKEN), "x");
    assert_eq!(desk.host.shard.counters().notify_told.get(), 3, "and two told before");
}

#[test]
fn a_poll_ends_with_its_token_like_any_other() {
    let mut desk = Desk::new(channels());
    let conn = desk.connect();
    let poll = format!("GET /n/own.a?wait=300 HTTP/1.1\r\nHost: localhost\r\n{}\r\n", bearer(&both()));
    assert_eq!(desk.says(conn, &poll), Heard::default());
    assert_eq!(desk.wait(conn, 59), Heard::default());
    let heard = desk.wait(conn, 6);
    assert_eq!((heard.status(), heard.field("Next-After")), ("204", Some("0")), "{}", heard.text);
    assert_eq!(desk.says(conn, &poll).status(), "401");
}

/// A token with this subject, for a minute.
fn named(name: &str) -> String {
    minute(&format!(",\"jti\":\"{name}\",\"subscribe\":[\"*\"]"))
}

/// Changes by which an operator revokes access, and the resulting keys.
fn changes() -> [(&'static str, Option<Access>); 3] {
    [
        ("the token", Some(Access { revoked: ["one".into()].into(), ..access() })),
        ("the key", Some(Access { keys: keys(&[Signer::Es256.jwk("")]), ..access() })),
        ("all keys", None),
    ]
}

#[test]
fn what_is_taken_back_ends_who_waits() {
    for (what, access) in changes() {
        let others_stay = what == "the token";
        let mut desk = Desk::new(channels());
        let conns: Vec<_> = ["one", "two"]
            .into_iter()
            .map(|name| {
                let conn = desk.connect();
                assert_eq!(desk.stream(conn, "own.a", &bearer(&named(name))).status(), "200");
                conn
            })
            .collect();
        let poll = desk.connect();
        let asks = format!("GET /n/own.a?wait=300 HTTP/1.1\r\nHost: localhost\r\n{}\r\n", bearer(&named("one")));
        assert_eq!(desk.says(poll, &asks), Heard::default());
        desk.turn(Channels { access: access.map(Arc::new), ..channels() });
        let effects = desk.passes(8);
        let heard: Vec<_> = conns.iter().chain([&poll]).map(|conn| Heard::of(&effects, *conn)).collect();
        assert!(heard[0].ends && heard[0].text.contains("event: expired"), "{what}");
        assert_eq!(heard[1].ends, !others_stay, "{what}");
        assert_eq!(heard[2].status(), "401", "{what}: {}", heard[2].text);
        let again = desk.connect();
        let status = if what == "all keys" { "403" } else { "401" };
        assert_eq!(
            desk.stream(again, "own.a", &bearer(&named("one"))).status(),
            status,
            "{what}: it is not known from before"
        );
    }
}

#[test]
fn a_websocket_ends_with_its_token_rfc6455_7_4_1() {
    let mut desk = Desk::new(channels());
    let (conn, said) = desk.subscribe(&format!("own.a?access_token={}", both()), KEY);
    assert_eq!(said, [place("0")]);
    desk.publish_with("own.a", &bearer(TOKEN), "one");
    let (said, ends) = desk.listens(conn, 55);
    assert!(!ends && said.iter().all(|beat| *beat == place("1")), "{said:?}");
    let (said, ends) = desk.listens(conn, 10);
    assert_eq!((said.last().map(String::as_str), ends), (Some("close 1008"), true), "{said:?}");
    desk.publish_with("own.a", &bearer(TOKEN), "two");
    assert_eq!(desk.listens(conn, 20), (vec![], false), "nothing goes behind the last frame");
    assert_eq!(desk.host.shard.counters().notify_waiting.get(), 0);
    // Before the handshake it is refused, and with another token it continues where it was.
    let again = desk.connect();
    let fields = format!("{KEY}{}", bearer(&both()));
    assert_eq!(desk.says(again, &upgrade("own.a?after=1", &fields)).status(), "401");
    let longer = Signer::Es256.token(&format!("\"exp\":{},\"subscribe\":[\"own.a\"]", NOW_S + 600));
    let (_, said) = desk.subscribe(&format!("own.a?after=1&access_token={longer}"), KEY);
    assert!(said[0].contains("\"data\":\"two\"") && said[0].contains("\"gaps\":[],"), "{said:?}");
}

#[test]
fn a_websocket_whose_token_is_taken_back_ends_rfc6455_7_4_1() {
    for (what, access) in changes() {
        let others_stay = what == "the token";
        let mut desk = Desk::new(channels());
        let (one, _) = desk.subscribe("own.a", &format!("{KEY}{}", bearer(&named("one"))));
        let (two, _) = desk.subscribe(&format!("own.a?access_token={}", named("two")), KEY);
        desk.turn(Channels { access: access.map(Arc::new), ..channels() });
        assert_eq!(desk.listens(one, 8), (vec!["close 1008".to_owned()], true), "{what}");
        let beats = if others_stay { vec![place("0")] } else { vec![] };
        assert_eq!(desk.listens(two, 15), (beats, false), "{what}");
        assert_eq!(desk.host.shard.counters().notify_waiting.get(), u64::from(others_stay), "{what}");
    }
}

/// XEP-0060 4.5: by XMPP such a channel is for members named by an administrator, and users cannot
/// create it.
#[test]
fn users_neither_read_nor_make_what_is_not_for_everybody() {
    let mut desk = Desk::new(channels());
    let romeo = desk.user("romeo");
    assert_eq!(desk.publish_with("own.a", &bearer(&both()), "secret").status(), "200");
    for inside in [
        "<subscribe node='own.a' jid='romeo@localhost'/>",
        "<publish node='own.a'><item><x xmlns='x'/></item></publish>",
    ] {
        let said = words(&desk.host.ask(romeo, &pubsub(true, inside)));
        assert!(said.contains("type='error'") && !said.contains("secret"), "{said}");
    }
    let said = words(&desk.host.ask(romeo, &pubsub(false, "<items node='own.a'/>")));
    assert!(said.contains("type='error'") && !said.contains("secret"), "{said}");
    for (node, kind) in [("own.b", "error"), ("own.", "error"), ("ow", "result"), ("free", "result")] {
        let said = words(&desk.host.ask(romeo, &pubsub(true, &format!("<create node='{node}'/>"))));
        assert!(said.contains(&format!("type='{kind}'")), "{node}: {said}");
    }
    assert!(
        words(&desk.host.ask(romeo, &pubsub(true, "<publish node='own.c'><item/></publish>"))).contains("type='error'")
    );
}

/// A node created by an administrator by XMPP can be read with a token whatever its access model,
/// and notifies at once.
#[test]
fn a_token_reads_nodes_that_are_for_members() {
    let mut desk = Desk::new(channels());
    let romeo = desk.user("admin");
    let closed = [("pubsub#access_model", "whitelist")];
    desk.makes(romeo, "own.a", &closed);
    let conn = desk.connect();
    assert_eq!(desk.stream(conn, "own.a", &bearer(&both())).status(), "200");
    let publish = pubsub(true, "<publish node='own.a'><item><json xmlns='urn:xmpp:json:0'>1</json></item></publish>");
    let effects = desk.host.turn(Input::Received { conn: romeo, bytes: publish.as_bytes() });
    assert_eq!(Heard::of(&effects, conn).data(), ["1"]);
    assert_eq!(desk.ask("own.a?after=0", &bearer(&both())).data(), ["1"]);
    assert_eq!(desk.publish_with("own.a", &bearer(&both()), "2").status(), "200");
    // At an open channel no token reads what its owner has closed.
    desk.makes(romeo, "news.a", &closed);
    assert_eq!(desk.ask("news.a", &bearer(&minute(",\"subscribe\":[\"*\"]"))).status(), "403");
}

/// A token does not circumvent the publishing limits of an address.
#[test]
fn who_publishes_by_a_token_of_an_issuer_pays_like_others() {
    let mut desk = Desk::new(Channels { publications_s: 10, ..channels() });
    let shown = bearer(&both());
    let made =
        (0..30).take_while(|number| desk.publish_with(&format!("own.{number}"), &shown, "x").status() == "200").count();
    assert_eq!(made, 11, "channels that one address makes");
    let taken = (0..200).take_while(|_| desk.publish_with("own.0", &shown, "x").status() == "200").count();
    assert!((80..=95).contains(&taken), "{taken}, and those before, are ten seconds' worth");
    assert!(
        (0..300).all(|_| desk.publish_with("own.0", &bearer(TOKEN), "x").status() == "200"),
        "the operator does not"
    );
}

/// Beyond RFC 8725: a wrong signature is wasted work, which is limited per address.
#[test]
fn an_address_has_so_many_wrong_signatures_verified() {
    let mut desk = Desk::new(channels());
    let forge = |number: u32| {
        let claims = format!("\"exp\":{},\"subscribe\":[\"*\"],\"jti\":\"{}\"", NOW_S + 3_600, name_of(number));
        let token = Signer::Hs256.token(&claims);
        bearer(&format!("{}{}", &token[..token.len() - 4], "AAAA"))
    };
    let known = bearer(&both());
    assert_eq!(desk.ask("own.a", &known).status(), "204");
    let tried = (0..500).take_while(|number| desk.ask("own.a", &forge(*number)).status() == "401").count();
    assert_eq!(tried, 50);
    let refused = desk.ask("own.a", &forge(1_000));
    assert_eq!((refused.status(), refused.field("Retry-After")), ("429", Some("1")), "{}", refused.text);
    assert_eq!(
        desk.ask("own.a", &bearer(&minute(",\"subscribe\":[\"*\"]"))).status(),
        "429",
        "nor is a good one verified"
    );
    assert_eq!(desk.ask("own.a", &known).status(), "204", "one that is known needs no work");
    assert_eq!(desk.ask("own.a", &bearer("x.y.z")).status(), "401", "nor does what is no token");
    let other = desk.connect_from([192, 0, 2, 2]);
    let fields = bearer(&minute(",\"subscribe\":[\"own.a\"]"));
    assert_eq!(desk.says(other, &format!("GET /n/own.a HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")).status(), "204");
    let conn = desk.connect();
    desk.wait(conn, 10);
    let wrong = (0..300_u32).filter(|second| {
        desk.wait(conn, 1);
        (0..30).filter(|number| desk.ask("own.a", &forge(second * 30 + number)).status() == "401").count() > 12
    });
    assert!(wrong.count() < 10, "ten a second in the long run");
    assert_eq!(desk.host.shard.counters().notify_tokens_verified.get(), 2);
}

/// Verified tokens are cached: the same one is not verified twice, and the cache is bounded.
#[test]
fn what_is_kept_of_tokens_is_bounded() {
    let mut desk = Desk::new(channels());
    let list: Vec<_> = (0..64).map(|number| format!("\"own.{number:020}\"")).collect();
    let token =
        |number: u32| minute(&format!(",\"jti\":\"{number}\",\"subscribe\":[\"own.a\",{}]", list[1..].join(",")));
    let before = desk.host.shard.counters().notify_tokens_verified.get();
    for _ in 0..5 {
        assert_eq!(desk.ask("own.a", &bearer(&token(0))).status(), "204");
    }
    assert_eq!(desk.host.shard.counters().notify_tokens_verified.get(), before + 1);
    for number in 0..5_000 {
        assert_eq!(desk.ask("own.a", &bearer(&token(number))).status(), "204");
    }
    let conn = desk.connect();
    desk.wait(conn, 20);
    let kept = desk.host.shard.counters().mem_users_bytes.get();
    assert!((4 << 20..12 << 20).contains(&kept), "{kept} bytes");
    // The last ones are still cached, the first ones are not.
    let before = desk.host.shard.counters().notify_tokens_verified.get();
    assert_eq!(desk.ask("own.a", &bearer(&token(4_999))).status(), "204");
    assert_eq!(desk.host.shard.counters().notify_tokens_verified.get(), before);
    assert_eq!(desk.ask("own.a", &bearer(&token(1))).status(), "204");
    assert_eq!(desk.host.shard.counters().notify_tokens_verified.get(), before + 1);
}

#[test]
fn the_settings_of_a_process_are_not_said() {
    let policy = Policy { channels: channels(), ..Policy::default() };
    let shown = format!("{policy:?}");
    assert!(!shown.contains(TOKEN) && !shown.contains("AyM1"), "{shown}");
}
