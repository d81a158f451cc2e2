//! Bookmarks between old and new clients (XEP-0402 4.3, XEP-0411).

use throng_engine::extension::bits;
use throng_engine::id::ConnId;
use throng_engine::limits::BOOKMARKS_BYTES_MAX;
use throng_engine::settings::Settings;
use throng_sim::host::{Host, said};

const NEW: &str = "urn:xmpp:bookmarks:1";
const OLD: &str = "storage:bookmarks";
const NS: &str = "http://jabber.org/protocol/pubsub";
const HOLE: &str = "<url xmlns='storage:bookmarks' name='Hole' url='https://example.net/'/>";

struct Scene {
    host: Host,
    conn: ConnId,
}

impl Scene {
    fn new(without: &[&str]) -> Scene {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settings.facts.without = bits(without);
        let mut host = Host::new(settings);
        host.account("juliet");
        let (conn, _) = host.bind(0, "juliet");
        Scene { host, conn }
    }

    /// The same with the rows of another scene.
    fn with_rows_of(mut self, other: Scene) -> Scene {
        self.host.disk = other.host.disk;
        self
    }

    fn ask(&mut self, says: &str) -> String {
        self.host.now.mono_ms += 30_000;
        said(&self.host.ask(self.conn, says))
    }

    fn done(&mut self, says: &str) -> String {
        let said = self.ask(says);
        assert!(!said.contains("type='error'"), "{says}: {said}");
        said
    }

    /// The content of private XML (XEP-0049).
    fn private(&mut self) -> String {
        let said = self.done(
            "<iq type='get' id='g'><query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'/></query></iq>",
        );
        between(&said, "<query xmlns='jabber:iq:private'>", "</query>")
    }

    /// The content of the node with one item (XEP-0048 3.3).
    fn node(&mut self) -> String {
        between(&self.done(&items(OLD)), "<item id='current'>", "</item>")
    }

    /// Items (XEP-0402), sorted by id.
    fn new_ones(&mut self) -> Vec<String> {
        let said = self.ask(&items(NEW));
        let mut all: Vec<String> = said.split("<item ").skip(1).map(|item| between(item, "", "</item>")).collect();
        all.sort();
        all
    }
}

fn between(text: &str, from: &str, to: &str) -> String {
    let behind = text.split_once(from).map_or("", |(_, rest)| rest);
    behind.split_once(to).map_or("", |(inside, _)| inside).to_owned()
}

fn items(node: &str) -> String {
    format!("<iq type='get' id='i'><pubsub xmlns='{NS}'><items node='{node}'/></pubsub></iq>")
}

fn field(var: &str, value: &str) -> String {
    format!("<field var='pubsub#{var}'><value>{value}</value></field>")
}

/// XEP-0402 3.3, example 5.
fn publish(id: &str, attributes: &str, inside: &str) -> String {
    let fields = [
        ("persist_items", "true"),
        ("max_items", "max"),
        ("send_last_published_item", "never"),
        ("access_model", "whitelist"),
    ];
    let fields: String = fields.iter().map(|(var, value)| field(var, value)).collect();
    format!(
        "<iq type='set' id='p'><pubsub xmlns='{NS}'><publish node='{NEW}'><item id='{id}'>\
         <conference xmlns='{NEW}'{attributes}>{inside}</conference></item></publish>\
         <publish-options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{NS}#publish-options</value></field>\
         {fields}</x></publish-options></pubsub></iq>"
    )
}

fn retract(id: &str) -> String {
    format!(
        "<iq type='set' id='r'><pubsub xmlns='{NS}'><retract node='{NEW}' notify='true'><item id='{id}'/></retract></pubsub></iq>"
    )
}

fn storage(inside: &str) -> String {
    format!("<storage xmlns='storage:bookmarks'>{inside}</storage>")
}

fn set_private(inside: &str) -> String {
    format!("<iq type='set' id='s'><query xmlns='jabber:iq:private'>{}</query></iq>", storage(inside))
}

fn set_node(inside: &str) -> String {
    format!(
        "<iq type='set' id='n'><pubsub xmlns='{NS}'><publish node='{OLD}'><item id='current'>{}</item></publish>\
         <publish-options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{NS}#publish-options</value></field>{}\
         </x></publish-options></pubsub></iq>",
        storage(inside),
        field("access_model", "whitelist")
    )
}

const PLAY: &str =
    "<conference jid='theplay@conference.shakespeare.lit' autojoin='true' name='The Play'><nick>JC</nick></conference>";
const ORCHARD: &str =
    "<conference jid='orchard@conference.shakespeare.lit' name='The Orchard'><password>pw</password></conference>";

/// XEP-0402 4.3.1: all items in the old form, in both places.
#[test]
fn an_item_is_seen_by_old_clients_and_goes_for_them() {
    let mut scene = Scene::new(&[]);
    let extension = "<extensions><state xmlns='http://myclient.example/bookmark/state' minimized='true'/></extensions>";
    scene.done(&publish("theplay@conference.shakespeare.lit", " name='The Play' autojoin='true'", "<nick>JC</nick>"));
    scene.done(&publish(
        "orchard@conference.shakespeare.lit",
        " name='The Orchard'",
        &format!("<password>pw</password>{extension}"),
    ));
    for seen in [scene.private(), scene.node()] {
        assert!(
            seen.starts_with("<storage xmlns='storage:bookmarks'>")
                || seen.starts_with("<storage xmlns=\"storage:bookmarks\">"),
            "{seen}"
        );
        for part in [
            "theplay@conference.shakespeare.lit",
            "The Play",
            "true",
            "<nick>JC</nick>",
            "<password>pw</password>",
            "minimized",
        ] {
            assert!(seen.contains(part), "{part} in {seen}");
        }
        assert_eq!(seen.matches("<conference").count(), 2, "{seen}");
    }
    scene.done(&retract("theplay@conference.shakespeare.lit"));
    for seen in [scene.private(), scene.node()] {
        assert!(!seen.contains("theplay") && seen.contains("orchard"), "{seen}");
    }
    scene.done(&format!("<iq type='set' id='d'><pubsub xmlns='{NS}#owner'><purge node='{NEW}'/></pubsub></iq>"));
    for seen in [scene.private(), scene.node()] {
        assert!(!seen.contains("<conference"), "{seen}");
    }
}

/// XEP-0402 4.3.2, XEP-0411 3: an old client's list is split into items; unchanged items and
/// unknown properties stay as they were.
#[test]
fn a_list_of_an_old_client_changes_the_items() {
    for (set, other) in [(set_private as fn(&str) -> String, true), (set_node, false)] {
        let mut scene = Scene::new(&[]);
        scene.done(&set(&format!("{PLAY}{ORCHARD}{HOLE}")));
        let all = scene.new_ones();
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(
            all[0].starts_with("id='orchard@conference.shakespeare.lit'") && all[0].contains("<password>pw</password>"),
            "{all:?}"
        );
        assert!(
            all[1].contains("autojoin") && all[1].contains("The Play") && all[1].contains("<nick>JC</nick>"),
            "{all:?}"
        );
        let seen = if other { scene.node() } else { scene.private() };
        assert!(seen.contains("theplay") && seen.contains("Hole"), "{seen}");
        // A new client adds properties unknown to the old one.
        let more = "<nick>JC</nick><extensions><state xmlns='urn:x'/></extensions>";
        scene.done(&publish("theplay@conference.shakespeare.lit", " name='The Play' autojoin='true'", more));
        assert!(scene.private().contains("Hole"), "web pages stay");
        let before = scene.new_ones();
        // The old one writes all of them again, with one more, and changes one name.
        let renamed = ORCHARD.replace("The Orchard", "Orchard");
        let third = "<conference jid='Third@conference.shakespeare.lit'/>";
        scene.done(&set(&format!("{PLAY}{renamed}{third}")));
        let after = scene.new_ones();
        assert_eq!(after.len(), 3, "{after:?}");
        assert!(after.contains(&before[1]), "what was not changed is what it was: {after:?}");
        assert!(after[0].contains("name='Orchard'") || after[0].contains("name=\"Orchard\""), "{after:?}");
        assert!(after[2].starts_with("id='third@conference.shakespeare.lit'"), "{after:?}");
        scene.done(&set(third));
        assert_eq!(scene.new_ones().len(), 1);
    }
}

/// XEP-0411 4: bookmarks from before the conversion existed are not lost, whichever client comes
/// first.
#[test]
fn what_was_there_before_is_brought_together() {
    let before = || {
        let mut old = Scene::new(&["bookmarks"]);
        old.done(&set_private(PLAY));
        old.done(&publish("orchard@conference.shakespeare.lit", " name='The Orchard'", ""));
        assert_eq!(old.new_ones().len(), 1, "nothing is converted");
        old
    };
    // A new client reads.
    let mut scene = Scene::new(&[]).with_rows_of(before());
    assert_eq!(scene.new_ones().len(), 2);
    // An old one reads.
    let mut scene = Scene::new(&[]).with_rows_of(before());
    let seen = scene.private();
    assert!(seen.contains("theplay") && seen.contains("orchard"), "{seen}");
    // Each writes at once.
    let mut scene = Scene::new(&[]).with_rows_of(before());
    scene.done(&publish("third@conference.shakespeare.lit", "", ""));
    assert_eq!(scene.new_ones().len(), 3);
    let mut scene = Scene::new(&[]).with_rows_of(before());
    scene.done(&set_private("<conference jid='third@conference.shakespeare.lit'/>"));
    assert_eq!(scene.new_ones().len(), 2, "the old one has removed what it had, and not what it has never seen");
    // From then on a removal takes effect.
    scene.done(&set_private(""));
    assert_eq!(scene.new_ones(), Vec::<String>::new());
}

/// XEP-0411 5: a node visible to others receives none of them.
#[test]
fn bookmarks_go_to_no_node_that_others_see() {
    for node in [NEW, OLD] {
        let mut scene = Scene::new(&[]);
        scene.done(&format!("<iq type='set' id='c'><pubsub xmlns='{NS}'><create node='{node}'/></pubsub></iq>"));
        scene.done(&set_private(PLAY));
        assert!(!scene.ask(&items(node)).contains("theplay"), "{node}");
        assert!(scene.private().contains("theplay"));
        // Once it is closed, it gets them with the next change.
        let x = format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{NS}#node_config</value></field>{}{}</x>",
            field("access_model", "whitelist"),
            field("max_items", "max")
        );
        scene.done(&format!(
            "<iq type='set' id='c'><pubsub xmlns='{NS}#owner'><configure node='{node}'>{x}</configure></pubsub></iq>"
        ));
        scene.done(&set_private(&format!("{PLAY}{ORCHARD}")));
        assert!(scene.ask(&items(node)).contains("theplay"), "{node}");
    }
}

/// Their total size is limited to that of one element, and a change beyond it is refused as a
/// whole.
#[test]
fn bookmarks_are_bounded() {
    let mut scene = Scene::new(&[]);
    let long = format!("<nick>{}</nick>", "n".repeat(BOOKMARKS_BYTES_MAX / 4));
    for n in 0..3 {
        scene.done(&publish(&format!("room{n}@c"), "", &long));
    }
    let said = scene.ask(&publish("room3@c", "", &long));
    assert!(said.contains("<policy-violation"), "{said}");
    assert_eq!(scene.new_ones().len(), 3);
    assert_eq!(scene.private().matches("<conference").count(), 3);
    let many: String = (0..2_000).map(|n| format!("<conference jid='r{n}@c'/>")).collect();
    let said = scene.ask(&set_private(&many));
    assert!(said.contains("type='error'"), "{said}");
    assert_eq!(scene.new_ones().len(), 3);
    // Removing one makes room.
    scene.done(&retract("room0@c"));
    scene.done(&publish("room3@c", "", &long));
}
