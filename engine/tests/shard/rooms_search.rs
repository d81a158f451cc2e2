//! Search of the directory of rooms (XEP-0433, XEP-0055): what is found, in pages, and how much one
//! request can make the service read.

use throng_engine::id::ConnId;
use throng_engine::limits::{ROOM_DIRECTORY_PAGE, ROOM_SEARCH_PAGES};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::room::Listed;
use throng_sim::host::{Host, said};

const SERVICE: &str = "conference.localhost";
/// The kind of the rows of a directory.
const LISTED: u8 = 5;

struct Scene {
    host: Host,
    romeo: ConnId,
}

impl Scene {
    /// A directory with these rooms: localpart, name, description.
    fn new(rooms: &[(String, &str, &str)]) -> Scene {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settings.serve_rooms(SERVICE);
        let mut host = Host::new(settings);
        host.account("romeo");
        for (local, name, description) in rooms {
            let listed = Listed { name: (*name).into(), description: (*description).into() };
            let sort = [&[LISTED], local.as_bytes()].concat();
            host.disk.put(Table::Rooms, SERVICE, &sort, &listed.written());
        }
        let (romeo, _) = host.bind(0, "romeo");
        Scene { host, romeo }
    }

    fn asks(&mut self, request: &str) -> String {
        said(&self.host.ask(self.romeo, request))
    }

    /// A search by XEP-0433 with these fields, and a page.
    fn searches(&mut self, fields: &[(&str, &str)], page: &str) -> String {
        let fields: String =
            fields.iter().map(|(var, value)| format!("<field var='{var}'><value>{value}</value></field>")).collect();
        self.asks(&format!(
            "<iq type='get' id='s' to='{SERVICE}'><search xmlns='urn:xmpp:channel-search:0:search'>{page}<x xmlns='jabber:x:data' type='submit'>
<field var='FORM_TYPE'><value>urn:xmpp:channel-search:0:search-params</value></field>{fields}</x></search></iq>"
        ))
    }
}

fn rooms() -> Vec<(String, &'static str, &'static str)> {
    vec![
        ("balcony".to_owned(), "Love", "For two"),
        ("cave".to_owned(), "", "Witches of Scotland"),
        ("orchard".to_owned(), "Capulets' orchard", "Love at night"),
    ]
}

fn addresses(answer: &str) -> Vec<&str> {
    let items = answer.split("address='").skip(1);
    items.filter_map(|item| item.split_once('\'')).map(|(address, _)| address).collect()
}

/// XEP-0433 4: all terms count, in the places that are asked for, without regard to case. What is not
/// found is an empty result.
#[test]
fn rooms_are_found_by_words() {
    let mut scene = Scene::new(&rooms());
    let (balcony, cave, orchard) =
        ("balcony@conference.localhost", "cave@conference.localhost", "orchard@conference.localhost");
    for (fields, expected) in [
        (&[("q", "love")] as &[_], &[balcony, orchard] as &[_]),
        (&[("q", "LOVE night")], &[orchard]),
        (&[("q", "love"), ("sindescription", "0")], &[balcony]),
        (&[("q", "cave")], &[cave]),
        (&[("q", "cave"), ("sinaddress", "0")], &[]),
        (&[("q", "nothing")], &[]),
        (&[("all", "1")], &[balcony, cave, orchard]),
        (&[("all", "1"), ("types", "xep-0369")], &[]),
        (
            &[("all", "1"), ("key", "{urn:xmpp:channel-search:0:order}address"), ("future", "x")],
            &[balcony, cave, orchard],
        ),
    ] {
        let answer = scene.searches(fields, "");
        assert!(answer.contains("<iq type='result'") && answer.contains("<result xmlns="), "{answer}");
        assert_eq!(addresses(&answer), expected, "{fields:?}: {answer}");
    }
    let answer = scene.searches(&[("q", "night")], "");
    let item = "<item address='orchard@conference.localhost'><name>Capulets&apos; orchard</name><description>Love at night</description><service-type>xep-0045</service-type></item>";
    assert!(
        answer.replace("&#39;", "&apos;").contains(item) || answer.contains(&item.replace("&apos;", "'")),
        "{answer}"
    );
}

/// XEP-0433 4.2.2.2, 4.2.2.3, 4.2.2.6, 4.2.2.7: each fault has its condition.
#[test]
fn a_search_without_sense_is_refused() {
    let mut scene = Scene::new(&rooms());
    for (fields, condition, app) in [
        (&[("q", "x")] as &[_], "bad-request", "invalid-search-terms"),
        (&[("q", "love"), ("all", "1")], "bad-request", "conflicting-fields"),
        (&[("sinname", "1")], "bad-request", "no-search-conditions"),
        (
            &[("q", "love"), ("key", "{urn:xmpp:channel-search:0:order}nusers")],
            "feature-not-implemented",
            "invalid-sort-key",
        ),
    ] {
        let answer = scene.searches(fields, "");
        assert!(
            answer.contains(&format!("<{condition} ")) && answer.contains(&format!("<{app} ")),
            "{fields:?}: {answer}"
        );
    }
    let form = scene
        .asks(&format!("<iq type='get' id='f' to='{SERVICE}'><search xmlns='urn:xmpp:channel-search:0:search'/></iq>"));
    for var in ["q", "all", "sinname", "sindescription", "sinaddress", "types", "key"] {
        assert!(form.contains(&format!("var='{var}'")), "{form}");
    }
}

/// XEP-0433 4.2.2.1, XEP-0059 2.2: pages have all results once.
#[test]
fn a_search_goes_on_behind_its_last_page() {
    let many: Vec<_> = (0..250).map(|n| (format!("r{n:03}"), if n % 3 == 0 { "Love" } else { "War" }, "")).collect();
    let mut scene = Scene::new(&many);
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = format!("<set xmlns='http://jabber.org/protocol/rsm'><max>30</max>{after}</set>");
        let answer = scene.searches(&[("q", "love")], &page);
        let got = addresses(&answer);
        if got.is_empty() {
            break;
        }
        assert!(got.len() <= 30 && found.len() < 100, "{answer}");
        found.extend(got.into_iter().map(str::to_owned));
        let last = answer.split_once("<last>").expect("a last one").1.split_once('<').expect("its end").0;
        after = format!("<after>{last}</after>");
    }
    let expected: Vec<String> = (0..250).step_by(3).map(|n| format!("r{n:03}@{SERVICE}")).collect();
    assert_eq!(found, expected);
    // XEP-0059 2.6: an empty page was asked for.
    let answer = scene.searches(&[("q", "love")], "<set xmlns='http://jabber.org/protocol/rsm'><max>0</max></set>");
    assert!(answer.contains("<max>0</max>") && !answer.contains("<first>") && !answer.contains("<last>"), "{answer}");
    assert!(addresses(&answer).is_empty(), "{answer}");
}

/// A request reads a bounded part of the directory, whatever it searches for, and says where to go on.
#[test]
fn one_request_reads_a_bounded_part_of_the_directory() {
    let read = ROOM_DIRECTORY_PAGE * ROOM_SEARCH_PAGES;
    let many: Vec<_> =
        (0..read + 10).map(|n| (format!("r{n:05}"), if n > read { "Love" } else { "War" }, "")).collect();
    let mut scene = Scene::new(&many);
    let answer = scene.searches(&[("q", "love")], "");
    let last = format!("r{:05}@{SERVICE}", read - 1);
    assert!(addresses(&answer).is_empty() && answer.contains(&format!("<last>{last}</last>")), "{answer}");
    // XEP-0059 3: both or none.
    assert!(answer.contains(&format!("<first>{last}</first>")), "{answer}");
    let page = format!("<set xmlns='http://jabber.org/protocol/rsm'><after>{last}</after></set>");
    assert_eq!(addresses(&scene.searches(&[("q", "love")], &page)).len(), 9);
}

/// A short request that reads much of the directory is paid for, whether it finds anything or not: a
/// session that repeats it is not read from for a while.
#[test]
fn what_is_read_of_the_directory_is_charged() {
    let long = "x".repeat(1_000);
    let many: Vec<_> = (0..ROOM_DIRECTORY_PAGE).map(|n| (format!("r{n:03}"), "War", &*long)).collect();
    let items =
        format!("<iq type='get' id='i' to='{SERVICE}'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>");
    for listed in [true, false] {
        let mut scene = Scene::new(&many);
        let mut asked = 0;
        while scene.host.shard.counters().work_paused.get() == 0 {
            assert!(asked < 30, "half a megabyte each");
            asked += 1;
            match listed {
                true => scene.asks(&items),
                false => scene.searches(&[("q", "love")], ""),
            };
        }
    }
}

/// XEP-0055 2.1, 3: the same by the older protocol.
#[test]
fn the_older_protocol_finds_them_too() {
    let mut scene = Scene::new(&rooms());
    let form = scene.asks(&format!("<iq type='get' id='f' to='{SERVICE}'><query xmlns='jabber:iq:search'/></iq>"));
    assert!(form.contains("var='x-term'"), "{form}");
    let mut search = |term: &str| {
        scene.asks(&format!(
            "<iq type='set' id='s' to='{SERVICE}'><query xmlns='jabber:iq:search'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>jabber:iq:search</value></field>
<field var='x-term'><value>{term}</value></field></x></query></iq>"
        ))
    };
    let answer = search("witches");
    assert!(answer.contains("<field var='jid'><value>cave@conference.localhost</value></field>"), "{answer}");
    let answer = search("nothing");
    assert!(
        answer.contains("<query xmlns='jabber:iq:search'/>")
            || answer.contains("<query xmlns='jabber:iq:search'></query>"),
        "{answer}"
    );
    assert!(search("x").contains("<not-acceptable "));
}
