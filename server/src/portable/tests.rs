//! XEP-0227 clause by clause, and malicious files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use throng_engine::id::{ActorKind, Domains};
use throng_engine::store::account::Credentials;
use throng_engine::store::hash::HashKind;
use throng_engine::store::ids::Ids;
use throng_engine::store::{Batch, Found, Query, Table, key};

use super::*;
use crate::disk::{Engine, MemoryEngine, Visit};

const NOW_US: u64 = 1_767_225_600_000_000;

fn domains() -> Domains {
    let mut domains = Domains::of_users("capulet.com");
    domains.serve("montague.net", ActorKind::Users);
    domains
}

fn take_with(engine: &MemoryEngine, from: &Path, existing: Existing, dry_run: bool) -> (Summary, Result<(), Wrong>) {
    let put = |batch: &mut Batch, floor: u64| batch.put(Table::Meta, b"", b"floor", &[&floor.to_be_bytes()]);
    let plan = Import {
        engine: Some(engine),
        domains: &domains(),
        rooms: "conference.capulet.com",
        format: Format::Portable,
        host: "capulet.com",
        existing,
        dry_run,
        iterations: 4096,
        threads: 2,
        number_floor: 40,
        put_number_floor: &put,
        now_us: NOW_US,
    };
    import(from, &plan, &mut |_| {})
}

/// Imports a text as one file.
fn take(engine: &MemoryEngine, text: &str) -> (Summary, Result<(), String>) {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("in.xml");
    fs::write(&path, text).expect("written");
    let (summary, end) = take_with(engine, &path, Existing::Skip, false);
    (summary, end.map_err(|wrong| format!("{wrong:?}")))
}

/// The same for the content of one user, juliet of capulet.com.
fn juliet(engine: &MemoryEngine, inside: &str) -> Summary {
    let text = format!(
        "<?xml version='1.0' encoding='UTF-8'?>\n<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'>\
         <user name='juliet' password='pencil'>{inside}</user></host></server-data>"
    );
    let (summary, end) = take(engine, &text);
    end.expect("a good file");
    assert_eq!((summary.users, summary.left), (1, 0));
    summary
}

fn give(engine: &MemoryEngine) -> String {
    let (summary, text) = give_of(engine, &domains());
    assert!(summary.is_whole(), "{summary:?}");
    text
}

/// Exports all accounts of these domains as one file.
pub(super) fn give_of(engine: &MemoryEngine, served: &Domains) -> (Summary, String) {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("out.xml");
    let plan = Export {
        engine,
        served,
        layout: Layout::File,
        domains: &BTreeSet::new(),
        user: None,
        archive: true,
        now_us: NOW_US,
    };
    let summary = export(&path, &plan, &mut |_| {}).expect("written");
    (summary, fs::read_to_string(&path).expect("a text"))
}

/// A text with ids of messages replaced by their ordinal: ids differ between accounts.
fn alike(text: &str) -> String {
    let (mut known, mut out) = (Vec::new(), Vec::new());
    for part in text.split('\'') {
        let is_id = part.len() == 16 && part.bytes().all(|byte| (b'a'..=b'p').contains(&byte));
        if is_id && !known.contains(&part) {
            known.push(part);
        }
        out.push(match known.iter().position(|id| is_id && *id == part) {
            Some(at) => at.to_string(),
            None => part.to_owned(),
        });
    }
    out.join("'")
}

/// The part of a text from one word to another, both included.
fn part<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("{from} in {text}"));
    let end = text[start..].find(to).unwrap_or_else(|| panic!("{to} in {text}"));
    &text[start..start + end + to.len()]
}

fn rows(engine: &MemoryEngine, user: &str) -> Vec<Table> {
    let mut found = Vec::new();
    let mut visit = |row: &[u8], _: &[u8]| {
        if let Some((table, actor, _)) = key::decode(row).filter(|(_, actor, _)| *actor == user.as_bytes()) {
            assert_eq!(actor, user.as_bytes());
            found.push(table);
        }
        Visit::Continue(())
    };
    engine.scan(&mut visit).expect("read");
    found
}

fn credentials(engine: &MemoryEngine, user: &str) -> Option<Credentials> {
    let query = Query::Get { table: Table::Accounts, actor: user.as_bytes().into(), sort: Box::default() };
    let Found::Value(row) = engine.read(&query).expect("read") else { panic!("a get") };
    row.map(|row| Credentials::decode(&row).expect("a record"))
}

fn notes(summary: &Summary) -> Vec<String> {
    summary.notes().map(|note| format!("{}: {} ({})", note.what, note.why, note.times)).collect()
}

/// XEP-0227 4.3: the credentials of the example, which are for SCRAM-SHA-1 only.
#[test]
fn xep_0227_4_3_credentials_are_taken_and_given_as_they_are() {
    let engine = MemoryEngine::new();
    let keys = "<scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-1'><iter-count>100000</iter-count>\
                <salt>TmFDbE5hQ2xOYUNsTmFDbE5hQ2xOYUNsTmFDbE5hQ2xOYUNsTmFDbE5hQ2wK</salt>\
                <server-key>0pXWGK0GZJ6TR73AIUN3ITYtA1g=</server-key><stored-key>Q6qT/SbybblGCZz8e8eSfCJOQic=</stored-key>\
                </scram-credentials>";
    let text = format!(
        "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'><user name='juliet'>{keys}</user></host></server-data>"
    );
    let (summary, end) = take(&engine, &text);
    assert_eq!((end, summary.users, summary.only_sha1, notes(&summary)), (Ok(()), 1, 1, vec![]));
    assert!(give(&engine).contains(keys));
    let stored = credentials(&engine, "juliet@capulet.com").expect("an account");
    assert_eq!(stored.keys(HashKind::Sha1).map(|set| set.iterations()), Some(100_000));
}

/// ejabberd 23.01 writes and reads keys in base64 twice.
#[test]
fn xep_0227_4_3_credentials_of_ejabberd_are_taken_and_given() {
    let once = "<scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-1'><iter-count>4096</iter-count>\
                <salt>06qa0o/a/xN6XpIdiIXU+A==</salt><server-key>xNxA4XJ3p1hjMLdapaSVtJUrBmk=</server-key>\
                <stored-key>v1Shu8QMmSo5wEaYoSC/6falEVY=</stored-key></scram-credentials>";
    let twice = "<scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-1'><iter-count>4096</iter-count>\
                 <salt>MDZxYTBvL2EveE42WHBJZGlJWFUrQT09</salt><server-key>eE54QTRYSjNwMWhqTUxkYXBhU1Z0SlVyQm1rPQ==</server-key>\
                 <stored-key>djFTaHU4UU1tU281d0VhWW9TQy82ZmFsRVZZPQ==</stored-key></scram-credentials>";
    // Earlier versions wrote the same as a password.
    let old =
        "password='scram:v1Shu8QMmSo5wEaYoSC/6falEVY=,xNxA4XJ3p1hjMLdapaSVtJUrBmk=,06qa0o/a/xN6XpIdiIXU+A==,4096'";
    for (keys, attribute) in [(once, ""), (twice, ""), ("", old)] {
        let engine = MemoryEngine::new();
        let text = format!(
            "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'><user name='juliet' {attribute}>{keys}</user></host>\
             </server-data>"
        );
        let (summary, end) = take(&engine, &text);
        assert_eq!((end, summary.users, notes(&summary)), (Ok(()), 1, vec![]));
        assert!(give(&engine).contains(once));
        let dir = TempDir::new().expect("a folder");
        let path = dir.path().join("out");
        let plan = Export {
            engine: &engine,
            served: &domains(),
            layout: Layout::Hosts,
            domains: &BTreeSet::new(),
            user: None,
            archive: true,
            now_us: NOW_US,
        };
        export(&path, &plan, &mut |_| {}).expect("written");
        let text = fs::read_to_string(path.join("capulet.com.xml")).expect("a text");
        assert!(text.contains(twice), "{text}");
    }
}

/// XEP-0227 4.3: invalid credentials are reported, and the account exists without a usable
/// password.
#[test]
fn xep_0227_4_3_broken_credentials_open_nothing() {
    let engine = MemoryEngine::new();
    let keys = |mechanism: &str, count: &str| {
        format!(
            "<scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='{mechanism}'><iter-count>{count}</iter-count>\
             <salt>TmFD</salt><server-key>0pXWGK0GZJ6TR73AIUN3ITYtA1g=</server-key>\
             <stored-key>Q6qT/SbybblGCZz8e8eSfCJOQic=</stored-key></scram-credentials>"
        )
    };
    for broken in
        [keys("SCRAM-SHA-1", "0"), keys("SCRAM-SHA-1", "9999999"), keys("SCRAM-SHA-256", "4096"), keys("X", "1")]
    {
        let engine = MemoryEngine::new();
        let text = format!(
            "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'><user name='juliet'>{broken}</user></host></server-data>"
        );
        let (summary, end) = take(&engine, &text);
        assert_eq!((end, summary.users, summary.without_password), (Ok(()), 1, 1));
        assert!(notes(&summary).iter().any(|note| note.contains("throng user passwd")), "{summary:?}");
        assert!(credentials(&engine, "juliet@capulet.com").is_some());
    }
    // The same mechanism twice: the first one counts.
    let both = keys("SCRAM-SHA-1", "4096") + &keys("SCRAM-SHA-1", "5000");
    let text = format!(
        "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'><user name='juliet'>{both}</user></host></server-data>"
    );
    let (summary, _) = take(&engine, &text);
    assert_eq!(summary.notes().count(), 1);
    let stored = credentials(&engine, "juliet@capulet.com").expect("an account");
    assert_eq!(stored.keys(HashKind::Sha1).map(|set| set.iterations()), Some(4096));
}

/// XEP-0227 4.2: a plaintext password becomes keys of all hash functions, and is never exported.
#[test]
fn xep_0227_4_2_a_password_in_clear_becomes_keys() {
    let engine = MemoryEngine::new();
    juliet(&engine, "");
    let stored = credentials(&engine, "juliet@capulet.com").expect("an account");
    let salt = stored.anchor().salt().to_vec();
    let derived = Credentials::derive("pencil", 4096, &salt, NOW_US).expect("keys").of(stored.incarnation());
    assert_eq!(stored, derived);
    assert!(!give(&engine).contains("pencil"));
}

const EVERYTHING: &str = "\
<query xmlns='jabber:iq:roster'><item jid='Romeo@montague.net/x' name='R &amp; R' subscription='both'><group>Friends</group>\
<group>&lt;Lovers&gt;</group></item><item jid='nurse@capulet.com' ask='subscribe' approved='true'/></query>\
<offline-messages><message xmlns='jabber:client' from='romeo@montague.net/orchard' to='juliet@capulet.com/balcony' type='chat'>\
<body>Neither, fair saint</body><delay xmlns='urn:xmpp:delay' from='capulet.com' stamp='2010-07-11T00:32:29Z'>Offline Storage</delay>\
<stanza-id xmlns='urn:xmpp:sid:0' by='juliet@capulet.com' id='second'/></message></offline-messages>\
<query xmlns='jabber:iq:private'><exodus xmlns='exodus:prefs'><defaultnick a='1'>Hamlet</defaultnick></exodus></query>\
<vCard xmlns='vcard-temp'><FN>Juliet Capulet</FN></vCard>\
<query xmlns='jabber:iq:privacy'><default name='public'/><list name='public'><item type='jid' value='tybalt@example.com' \
action='deny' order='1'/><item action='allow' order='2'/></list></query>\
<presence xmlns='jabber:client' type='subscribe' id='xk3h1v69' from='mercutio@montague.net'>\
<nick xmlns='http://jabber.org/protocol/nick'>M</nick></presence>\
<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='urn:xmpp:bookmarks:1'><x xmlns='jabber:x:data' type='form'>\
<field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#node_config</value></field>\
<field var='pubsub#access_model'><value>whitelist</value></field><field var='pubsub#max_items'><value>max</value></field></x></configure>\
<affiliations node='urn:xmpp:bookmarks:1'><affiliation jid='mercutio@example.net' affiliation='member'/></affiliations>\
<subscriptions node='urn:xmpp:bookmarks:1'><subscription jid='mercutio@example.net' subscription='subscribed' subid='123-abc'/>\
</subscriptions></pubsub>\
<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:xmpp:bookmarks:1'>\
<item id='theplay@conference.shakespeare.lit'><conference xmlns='urn:xmpp:bookmarks:1' name='The Play&apos;s the Thing'/></item>\
<item id='orchard@conference.shakespeare.lit'><conference xmlns='urn:xmpp:bookmarks:1' name='The Orchard'/></item></items></pubsub>\
<archive xmlns='urn:xmpp:pie:0#mam'><result xmlns='urn:xmpp:mam:2' id='first'><forwarded xmlns='urn:xmpp:forward:0'>\
<delay xmlns='urn:xmpp:delay' stamp='2010-07-10T23:08:25Z'/><message xmlns='jabber:client' to='juliet@capulet.com/balcony' \
from='romeo@montague.net/orchard' type='chat' id='r1'><body>Call me but love &amp; I'll be new</body></message></forwarded></result>\
<result xmlns='urn:xmpp:mam:2' id='second'><forwarded xmlns='urn:xmpp:forward:0'>\
<delay xmlns='urn:xmpp:delay' stamp='2010-07-10T23:09:32.5Z'/><message xmlns='jabber:client' to='romeo@montague.net/orchard' \
from='juliet@capulet.com/balcony' type='chat' id='8a54s'><body>What man art thou</body></message></forwarded></result></archive>";

/// XEP-0227 4.4 to 4.11: imported data is exported again, and exported data can be imported again.
#[test]
fn xep_0227_4_what_comes_goes_out_and_comes_again() {
    let engine = MemoryEngine::new();
    let summary = juliet(&engine, EVERYTHING);
    assert_eq!(notes(&summary), Vec::<String>::new());
    let counts: Vec<u64> = summary.counts.named().iter().map(|(_, count)| *count).collect();
    // contacts, requests, archived, waiting, private, vcards, nodes, items, blocked
    assert_eq!(counts, [2, 1, 2, 1, 1, 1, 1, 2, 1]);
    let out = give(&engine);
    for whole in [
        "<item jid='nurse@capulet.com' subscription='none' ask='subscribe' approved='true'></item>",
        "<item jid='romeo@montague.net' name='R &amp; R' subscription='both'><group>Friends</group><group>&lt;Lovers&gt;</group></item>",
        "<exodus xmlns='exodus:prefs'><defaultnick a='1'>Hamlet</defaultnick></exodus>",
        "<vCard xmlns='vcard-temp'><FN>Juliet Capulet</FN></vCard>",
        "<default name='blocked'/><list name='blocked'><item type='jid' value='tybalt@example.com' action='deny' order='1'/>",
        "<affiliation jid='mercutio@example.net' affiliation='member'/>",
        "<subscription jid='mercutio@example.net' subscription='subscribed'/>",
        "<field var='pubsub#access_model' type='list-single'",
        "<item id='theplay@conference.shakespeare.lit'><conference xmlns='urn:xmpp:bookmarks:1' name='The Play&apos;s the Thing'/></item>",
        "<nick xmlns='http://jabber.org/protocol/nick'>M</nick></presence>",
    ] {
        assert!(out.contains(whole), "{whole} in {out}");
    }
    // The waiting copy is identified by the id of the one in the archive (XEP-0359), and its delay
    // comes from the stored time.
    let waits = part(&out, "<offline-messages>", "</offline-messages>");
    assert!(
        waits.contains("<delay xmlns='urn:xmpp:delay' from='capulet.com' stamp='2010-07-11T00:32:29.000Z'/>"),
        "{waits}"
    );
    let own = Ids::of(credentials(&engine, "juliet@capulet.com").expect("an account").incarnation());
    let id = format!("<stanza-id xmlns='urn:xmpp:sid:0' id='{}' by='juliet@capulet.com'/>", own.text(42));
    assert!(waits.contains(&id), "{waits}");
    assert_eq!(waits.matches("<delay").count() + waits.matches("<stanza-id").count(), 2);
    let archive = part(&out, "<archive", "</archive>");
    let first = format!(
        "id='{}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='2010-07-10T23:08:25.000Z'/>",
        own.text(41)
    );
    assert!(archive.contains(&first), "{archive}");
    assert!(archive.contains("stamp='2010-07-10T23:09:32.500Z'"), "{archive}");
    assert!(
        archive.contains("<body>Call me but love &amp; I&apos;ll be new</body>") || archive.contains("I'll be new"),
        "{archive}"
    );
    // A second export yields the same text, because numbers begin at the same value, except for the
    // ids derived from them.
    let second = MemoryEngine::new();
    let (summary, end) = take(&second, &out);
    assert_eq!((end, notes(&summary)), (Ok(()), vec![]));
    assert_eq!(alike(&give(&second)), alike(&out));
}

/// XEP-0227 4.4, 4.9: each state of RFC 6121 A.1 in the roster, and requests before or after it.
#[test]
fn xep_0227_4_9_requests_and_subscriptions_make_the_nine_states() {
    use throng_engine::extension::subscription::State;
    use throng_engine::store::roster::ItemView;
    let engine = MemoryEngine::new();
    let mut items = String::new();
    for (name, attributes) in [
        ("a", "subscription='none'"),
        ("b", "subscription='none' ask='subscribe'"),
        ("c", ""),
        ("d", "ask='subscribe'"),
        ("e", "subscription='to'"),
        ("f", "subscription='to'"),
        ("g", "subscription='from'"),
        ("h", "subscription='from' ask='subscribe'"),
        ("i", "subscription='both'"),
    ] {
        items += &format!("<item jid='{name}@x.org' {attributes}/>");
    }
    let ask = |name: &str| format!("<presence xmlns='jabber:client' type='subscribe' from='{name}@x.org/home'/>");
    // Prosody up to 0.12 writes requests without a namespace. A subscribed contact has no request.
    let asks = ["c", "d", "f", "i"].map(ask).concat() + "<presence type='subscribe' from='z@x.org'/>";
    let inside = asks[..ask("c").len()].to_owned()
        + &format!("<query xmlns='jabber:iq:roster'>{items}</query>")
        + &asks[ask("c").len()..];
    let summary = juliet(&engine, &inside);
    assert_eq!((summary.counts.contacts, summary.counts.requests, notes(&summary)), (9, 4, vec![]));
    let Found::Rows { rows, .. } =
        engine.read(&throng_engine::store::roster::query("juliet@capulet.com")).expect("read")
    else {
        panic!("rows")
    };
    let states: Vec<(u8, bool)> = rows[1..]
        .iter()
        .map(|row| ItemView::decode(&row.value).map(|item| (item.state, item.listed)).expect("an item"))
        .collect();
    let mut expected: Vec<(u8, bool)> = State::ALL.map(|state| (state as u8, true)).to_vec();
    expected.push((State::NonePendingIn as u8, false));
    assert_eq!(states, expected);
    let found = engine.read(&throng_engine::store::roster::query("juliet@capulet.com")).expect("read");
    let roster = throng_engine::extension::roster::Roster::load(&found).expect("a roster that the server can read");
    // The server puts the addresses into what it has kept (RFC 6121 3.1.3).
    let kept: Vec<_> =
        roster.requests().map(|(contact, stanza)| (contact.to_owned(), stanza.map(<[u8]>::to_vec))).collect();
    let expected =
        ["c", "d", "f", "z"].map(|name| (format!("{name}@x.org"), Some(b"<presence type='subscribe'/>".to_vec())));
    assert_eq!(kept, expected);
    let out = give(&engine);
    assert!(
        out.contains("<presence xmlns='jabber:client' from='z@x.org' to='juliet@capulet.com' type='subscribe'/>"),
        "{out}"
    );
}

/// XEP-0227 4.8: only what a server can keep without lists is kept of them.
#[test]
fn xep_0227_4_8_of_privacy_lists_the_blocked_addresses_are_taken() {
    let list = |items: &str| {
        format!(
            "<query xmlns='jabber:iq:privacy'><default name='d'/><list name='d'>{items}</list><list name='other'/></query>"
        )
    };
    let deny = |order: u32, rest: &str| format!("<item action='deny' order='{order}' {rest}");
    let all = deny(3, "type='jid' value='c@x.org'><message/><presence-in/><presence-out/><iq/></item>")
        + &deny(1, "type='jid' value='X.org'/>")
        + &deny(2, "type='jid' value='b@x.org'><message/></item>")
        + &deny(4, "type='group' value='Foes'/>")
        + "<item action='allow' order='5'/>"
        + &deny(6, "type='jid' value='behind@x.org'/>");
    let engine = MemoryEngine::new();
    let summary = juliet(&engine, &list(&all));
    assert_eq!(summary.counts.blocked, 2);
    let told = notes(&summary);
    assert_eq!(told.len(), 2, "{told:?}");
    let out = give(&engine);
    assert!(out.contains("value='c@x.org' action='deny'") && out.contains("value='x.org' action='deny'"), "{out}");
    assert!(!out.contains("b@x.org") && !out.contains("behind@x.org"));
}

/// XEP-0227 4.10.1: options that are not known are ignored, but for those that protect a node.
#[test]
fn xep_0227_4_10_1_what_is_not_known_of_a_node_opens_it_to_nobody() {
    let node = |name: &str, model: &str| {
        format!(
            "<configure node='{name}'><x xmlns='jabber:x:data' type='submit'><field var='pubsub#access_model'><value>{model}</value>\
             </field><field var='pubsub#collection'><value>x</value></field></x></configure>"
        )
    };
    let items = |name: &str| {
        format!("<items node='{name}'><item id='1'><a xmlns='b'/></item><item id='2'><a xmlns='b'/></item></items>")
    };
    let inside = format!(
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>{}{}{}</pubsub>\
         <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>{}{}</pubsub>",
        items("open"),
        items("secret"),
        items("untold"),
        node("open", "open"),
        node("secret", "members-of-the-guild")
    );
    let engine = MemoryEngine::new();
    let summary = juliet(&engine, &inside);
    let out = give(&engine);
    let model = |name: &str| {
        let form = part(&out, &format!("<configure node='{name}'>"), "</configure>").to_owned();
        let field = part(&form, "<field var='pubsub#access_model'", "</field>").to_owned();
        field[field.rfind("<value>").expect("a value") + 7..field.rfind("</value>").expect("its end")].to_owned()
    };
    assert_eq!(["open", "secret", "untold"].map(model), ["open", "whitelist", "whitelist"]);
    // Items came before the configuration, which allows one: the last one is kept.
    assert_eq!(summary.counts.items, 1 + 1 + 2);
    let kept = part(&out, "<items node='open'>", "</items>");
    assert!(kept.contains("id='2'") && !kept.contains("id='1'"), "{kept}");
    assert!(notes(&summary).iter().any(|note| note.contains("access model")), "{summary:?}");
}

/// XEP-0227 4: unknown data is ignored and reported to the operator.
#[test]
fn xep_0227_4_what_is_not_known_is_told_with_its_place() {
    let engine = MemoryEngine::new();
    let (summary, end) = take(
        &engine,
        "<server-data xmlns='urn:xmpp:pie:0'>\n<secret xmlns='x'><user name='no'/></secret>\n<host jid='capulet.com'>\n<odd xmlns='y'/>\n\
         <user name='juliet' password='x'>\n<mine xmlns='z'/>\n</user></host>\n\
         <host jid='verona.lit'><user name='a'/><user name='b'/></host></server-data>",
    );
    assert_eq!((end, summary.users, summary.left), (Ok(()), 1, 2));
    let told: Vec<String> = summary.notes().map(|note| format!("{} at {}", note.why, note.first)).collect();
    let has = |what: &str, place: &str| told.iter().any(|note| note.contains(what) && note.ends_with(place));
    assert!(has("<secret xmlns='x'/>", "in.xml:2") && has("<odd xmlns='y'/>", "in.xml:4"), "{told:#?}");
    assert!(has("<mine xmlns='z'/>", "in.xml:6") && has("verona.lit is not served here", "in.xml:8"), "{told:#?}");
    assert!(rows(&engine, "no@capulet.com").is_empty());
}

/// XEP-0227 5.1: the layout of three levels, and 6: inclusions within a user's data are data.
#[test]
fn xep_0227_5_files_include_files_and_data_includes_none() {
    let dir = TempDir::new().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("capulet.com")).expect("made");
    let include = "xmlns:xi='http://www.w3.org/2001/XInclude'";
    let main =
        format!("<server-data xmlns='urn:xmpp:pie:0' {include}><xi:include href='capulet.com.xml'/></server-data>");
    fs::write(at("main.xml"), main).expect("written");
    let host = format!(
        "<?xml version='1.0' encoding='UTF-8'?><host xmlns='urn:xmpp:pie:0' {include} jid='capulet.com'>\n\
         <xi:include href='capulet.com/juliet%2B1.xml'><xi:fallback><user name='nobody'/></xi:fallback></xi:include></host>"
    );
    fs::write(at("capulet.com.xml"), host).expect("written");
    let user = format!(
        "<user xmlns='urn:xmpp:pie:0' {include} name='juliet+1' password='x'><xi:include href='card.xml'/>\
         <query xmlns='jabber:iq:private'><a xmlns='b'><xi:include href='/etc/passwd'/></a></query></user>"
    );
    fs::write(at("capulet.com/juliet+1.xml"), user).expect("written");
    fs::write(at("capulet.com/card.xml"), "<vCard xmlns='vcard-temp'><FN>J</FN></vCard>").expect("written");
    let engine = MemoryEngine::new();
    let (summary, end) = take_with(&engine, dir.path(), Existing::Skip, false);
    end.expect("a good export");
    assert_eq!((summary.users, summary.counts.vcards, summary.counts.private), (1, 1, 1));
    let out = give(&engine);
    assert!(out.contains("name='juliet+1'") && out.contains("/etc/passwd") && !out.contains("root:"), "{out}");
}

/// An inclusion may only refer to files of the export.
#[test]
fn inclusions_do_not_leave_the_folder_of_the_export() {
    let dir = TempDir::new().expect("a folder");
    let inner = dir.path().join("export");
    fs::create_dir(&inner).expect("made");
    fs::write(dir.path().join("outside.xml"), "<host xmlns='urn:xmpp:pie:0' jid='capulet.com'/>").expect("written");
    std::os::unix::fs::symlink(dir.path().join("outside.xml"), inner.join("link.xml")).expect("linked");
    fs::create_dir(inner.join("folder.xml")).expect("made");
    let made = std::process::Command::new("mkfifo").arg(inner.join("pipe.xml")).status().expect("mkfifo");
    assert!(made.success());
    let again = "<include xmlns='http://www.w3.org/2001/XInclude' href='loop.xml'/>";
    fs::write(inner.join("loop.xml"), again).expect("written");
    for (href, more, told) in [
        ("../outside.xml", "", "leads out of"),
        ("%2e%2e/outside.xml", "", "leads out of"),
        ("/etc/passwd", "", "leads out of"),
        ("file:///etc/passwd", "", "leads out of"),
        ("http://127.0.0.1/x.xml", "", "leads out of"),
        ("link.xml", "", "leads out of"),
        ("missing.xml", "", "No such file"),
        ("folder.xml", "", "is no file"),
        ("loop.xml", "", "is included twice"),
        ("pipe.xml", "", "is no file"),
        ("capulet.com/../../outside.xml", "", "leads out of"),
        ("outside%00.xml", "", "leads out of"),
        ("main.xml", "parse='text'", "`parse` is not taken"),
        ("main.xml", "xpointer='x'", "`xpointer` is not taken"),
        ("", "", "no `href`"),
    ] {
        let main = format!(
            "<server-data xmlns='urn:xmpp:pie:0'>\n<include xmlns='http://www.w3.org/2001/XInclude' href='{href}' {more}/></server-data>"
        );
        fs::write(inner.join("main.xml"), main).expect("written");
        let (_, end) = take_with(&MemoryEngine::new(), &inner.join("main.xml"), Existing::Skip, false);
        let Err(Wrong::File(wrong)) = end else { panic!("{href} was taken") };
        assert!(wrong.contains(told) && wrong.contains(".xml:"), "{href}: {wrong}");
    }
}

/// A small export cannot become endless: each file may be included once.
#[test]
fn a_file_that_is_included_twice_is_refused() {
    let dir = TempDir::new().expect("a folder");
    let include = "xmlns:xi='http://www.w3.org/2001/XInclude'";
    let twice = |name: &str| format!("<xi:include href='{name}'/>\n<xi:include href='{name}'/>");
    let user = format!(
        "<server-data xmlns='urn:xmpp:pie:0' {include}><host jid='capulet.com'><user name='juliet' password='x'>\n{}</user></host>\
         </server-data>",
        twice("archive.xml")
    );
    fs::write(dir.path().join("main.xml"), user).expect("written");
    fs::write(dir.path().join("archive.xml"), "<archive xmlns='urn:xmpp:pie:0#mam'/>").expect("written");
    let engine = MemoryEngine::new();
    let (_, end) = take_with(&engine, &dir.path().join("main.xml"), Existing::Skip, false);
    let Err(Wrong::File(wrong)) = end else { panic!("taken") };
    assert!(wrong.contains("main.xml:3") && wrong.contains("archive.xml is included twice"), "{wrong}");
    assert!(rows(&engine, "juliet@capulet.com").is_empty());
}

/// Files included through three links are limited to the depth of exports.
#[test]
fn files_include_each_other_only_so_deep() {
    let dir = TempDir::new().expect("a folder");
    for number in 0..6 {
        let text = format!("<include xmlns='http://www.w3.org/2001/XInclude' href='{}.xml'/>", number + 1);
        fs::write(dir.path().join(format!("{number}.xml")), text).expect("written");
    }
    let text = "<server-data xmlns='urn:xmpp:pie:0'><include xmlns='http://www.w3.org/2001/XInclude' href='1.xml'/></server-data>";
    fs::write(dir.path().join("0.xml"), text).expect("written");
    let (_, end) = take_with(&MemoryEngine::new(), &dir.path().join("0.xml"), Existing::Skip, false);
    let Err(Wrong::File(wrong)) = end else { panic!("taken") };
    assert!(wrong.contains("3.xml:1") && wrong.contains("include each other more than 4 deep"), "{wrong}");
}

/// A file creates only accounts of served domains, with valid localparts, and nothing of other
/// users.
#[test]
fn names_of_other_domains_and_names_that_are_none_are_left_out() {
    let engine = MemoryEngine::new();
    juliet(&engine, EVERYTHING);
    let before = give(&engine);
    let user =
        |name: &str| format!("<user name='{name}' password='x'><vCard xmlns='vcard-temp'><FN>evil</FN></vCard></user>");
    let names = [
        "",
        "juliet@capulet.com",
        "juliet@montague.net",
        "a/b",
        "a b",
        "&quot;",
        "\u{212a}@",
        "&#x202e;",
        &"x".repeat(1_024),
    ];
    let hosts = [
        "montague.net",
        "montague.net/juliet",
        "juliet@capulet.com",
        "pubsub.montague.net",
        "gmail.com",
        "",
        "capulet.com.",
    ];
    let mut text = "<server-data xmlns='urn:xmpp:pie:0'>".to_owned();
    for host in hosts {
        text += &format!("<host jid='{host}'>{}</host>", names.iter().map(|name| user(name)).collect::<String>());
        text += &format!("<host jid='{host}'>{}</host>", user("juliet"));
    }
    text += "</server-data>";
    let (summary, end) = take(&engine, &text);
    assert_eq!(end, Ok(()));
    // juliet@montague.net is a valid name of a served domain, and juliet@capulet.com existed; the
    // trailing dot of its domain is ignored (RFC 7622 3.2).
    assert_eq!((summary.users, summary.there), (1, 1), "{summary:?}");
    assert_eq!(summary.left, (hosts.len() * (names.len() + 1) - 2) as u64);
    let after = give(&engine);
    assert!(after.contains(part(&before, "<user name='juliet'>", "</user>")), "{after}");
    assert_eq!(after.matches("<user ").count(), 2);
}

/// Messages in an archive or queue must be to or from the user, whatever a file claims about
/// others.
#[test]
fn messages_of_others_and_contacts_that_are_none_are_left_out() {
    let message = |from: &str, to: &str| {
        format!("<message xmlns='jabber:client' from='{from}' to='{to}' type='chat'><body>hi</body></message>")
    };
    let result = |message: String| {
        format!(
            "<result xmlns='urn:xmpp:mam:2' id='1'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' \
             stamp='2010-07-10T23:08:25Z'/>{message}</forwarded></result>"
        )
    };
    let others = message("romeo@montague.net/o", "nurse@capulet.com");
    let none = message("ro@meo@montague.net", "juliet@capulet.com");
    let inside = format!(
        "<query xmlns='jabber:iq:roster'><item jid='juliet@capulet.com/x'/><item jid='@x'/><item/><item jid='a@x.org' \
         subscription='remove'/><item jid='b@x.org'/><item jid='B@x.org' subscription='both'/></query>\
         <presence xmlns='jabber:client' type='subscribed' from='c@x.org'/><presence xmlns='jabber:client' type='subscribe' \
         from='juliet@capulet.com'/>\
         <offline-messages>{others}{none}{}{}</offline-messages>\
         <archive xmlns='urn:xmpp:pie:0#mam'>{}{}{}</archive>",
        message("juliet@capulet.com/own", "romeo@montague.net"),
        message("romeo@montague.net/o", "juliet@capulet.com"),
        result(others.clone()),
        result(none.clone()),
        result(message("juliet@capulet.com/own", "romeo@montague.net"))
    );
    let engine = MemoryEngine::new();
    let summary = juliet(&engine, &inside);
    let counts = &summary.counts;
    assert_eq!((counts.contacts, counts.requests, counts.waiting, counts.archived), (1, 0, 1, 1), "{summary:?}");
    let lost: u64 = summary.notes().map(|note| note.times).sum();
    assert_eq!(lost, 5 + 2 + 3 + 2, "{summary:?}");
    assert!(!give(&engine).contains("nurse@capulet.com"));
}

/// Texts from a file reach a terminal without control characters, and cut.
#[test]
fn notes_have_no_control_characters_and_are_short() {
    let host = format!("\u{9b}31m{}", "x".repeat(60_000));
    let text = format!("<server-data xmlns='urn:xmpp:pie:0'><host jid='{host}'/></server-data>");
    let (summary, end) = take(&MemoryEngine::new(), &text);
    assert_eq!(end, Ok(()));
    let told = notes(&summary);
    assert!(told.len() == 1 && told[0].len() < 600 && !told[0].contains(char::is_control), "{told:?}");
}

/// A dry run reports what the same import would do.
#[test]
fn a_dry_run_counts_as_the_import_does() {
    let user = |name: &str| format!("<user name='{name}' password='x'>{EVERYTHING}</user>");
    let text = format!(
        "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'>{}{}{}</host></server-data>",
        user("juliet"),
        user("JULIET"),
        user("nurse")
    );
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("in.xml");
    fs::write(&path, text).expect("written");
    for existing in [Existing::Skip, Existing::Replace, Existing::Refuse] {
        let engine = MemoryEngine::new();
        let (tried, _) = take_with(&engine, &path, existing, true);
        assert!(rows(&engine, "juliet@capulet.com").is_empty());
        let (took, end) = take_with(&engine, &path, existing, false);
        assert_eq!((tried.users, tried.there, tried.counts), (took.users, took.there, took.counts), "{existing:?}");
        assert_eq!(end.is_err(), existing == Existing::Refuse);
    }
}

/// XEP-0398 3, 4: an avatar imported as nodes becomes the photo of the vCard, and a photo imported
/// alone is published.
#[test]
fn xep_0398_an_avatar_comes_in_nodes_or_in_the_vcard_and_is_in_both() {
    use base64::Engine as _;
    use throng_engine::extension::photo::{self, Photo};
    let image = b"\x89PNG\r\n\x1a\nand so on";
    let encoded = base64::engine::general_purpose::STANDARD.encode(image);
    let hash = Photo::from_hex("a09f7f3385790f7a46c9770d39422b77b0066142").expect("the SHA-1 of the image");
    let hex = hash.hex();
    let shown = |engine: &MemoryEngine| match engine.read(&photo::query("juliet@capulet.com")).expect("read") {
        Found::Value(row) => row.and_then(|row| Photo::decode(&row)),
        _ => panic!("a get"),
    };
    let card = format!(
        "<vCard xmlns='vcard-temp'><FN>J</FN><PHOTO><TYPE>image/png</TYPE><BINVAL>{encoded}</BINVAL></PHOTO></vCard>"
    );
    let engine = MemoryEngine::new();
    let summary = juliet(&engine, &card);
    assert_eq!(
        (shown(&engine), summary.counts.nodes, summary.counts.items, summary.counts.vcards),
        (Some(hash), 2, 2, 1)
    );
    let out = give(&engine);
    let data = format!("<item id='{hex}'><data xmlns='urn:xmpp:avatar:data'>{encoded}</data></item>");
    let metadata = format!(
        "<item id='{hex}'><metadata xmlns='urn:xmpp:avatar:metadata'><info bytes='{}' id='{hex}' type='image/png'/></metadata></item>",
        image.len()
    );
    assert!(out.contains(&data) && out.contains(&metadata) && out.contains(&card), "{out}");
    // Only the nodes, as Prosody stores them: open ones become visible to all, others keep their
    // access model.
    let nodes = |model: &str| {
        let configure = |name: &str| {
            format!(
                "<configure node='urn:xmpp:avatar:{name}'><x xmlns='jabber:x:data'><field var='pubsub#access_model'>\
                 <value>{model}</value></field></x></configure>"
            )
        };
        format!(
            "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>{}{}</pubsub><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
             <items node='urn:xmpp:avatar:data'>{data}</items><items node='urn:xmpp:avatar:metadata'>{metadata}</items></pubsub>",
            configure("data"),
            configure("metadata")
        )
    };
    for (model, before, photo) in [
        ("open", "", Some(hash)),
        ("open", "<vCard xmlns='vcard-temp'><FN>J</FN></vCard>", Some(hash)),
        ("presence", "", None),
        ("presence", &*card, Some(hash)),
    ] {
        let engine = MemoryEngine::new();
        let summary = juliet(&engine, &(before.to_owned() + &nodes(model)));
        assert_eq!((shown(&engine), summary.counts.nodes, notes(&summary)), (photo, 2, vec![]), "{model} {before}");
        let out = give(&engine);
        assert_eq!(out.contains(&format!("<BINVAL>{encoded}</BINVAL>")), photo.is_some(), "{out}");
        assert_eq!(out.contains("<FN>J</FN>"), !before.is_empty());
    }
    // A photo that is not an image stays in the vCard, and does not become an avatar.
    let engine = MemoryEngine::new();
    let summary = juliet(&engine, "<vCard xmlns='vcard-temp'><PHOTO><BINVAL>PGh0bWw+</BINVAL></PHOTO></vCard>");
    assert_eq!((shown(&engine), summary.counts.nodes, summary.counts.vcards), (None, 0, 1));
}

/// A malicious or incomplete file is refused with the position, and nothing stays of the account in
/// which it ends.
#[test]
fn files_that_are_not_well_formed_are_refused_with_file_and_line() {
    let open = "<server-data xmlns='urn:xmpp:pie:0'>\n<host jid='capulet.com'>\n";
    let user =
        |inside: &str| format!("{open}<user name='good' password='x'/>\n<user name='juliet' password='x'>\n{inside}");
    let deep = "<a xmlns='x'>".repeat(100_000);
    for (text, told) in [
        ("<!DOCTYPE server-data [<!ENTITY a 'b'>]><server-data xmlns='urn:xmpp:pie:0'/>".to_owned(), "in.xml:1"),
        (user("<vCard xmlns='vcard-temp'><FN>&lol;</FN></vCard>"), "in.xml:5"),
        (user("<?php evil ?></user></host></server-data>"), "in.xml:5"),
        (user(&deep), "in.xml:5: elements are nested more than 64"),
        (user(&format!("<query xmlns='jabber:iq:private'>{deep}")), "in.xml:5: elements are nested more than 64"),
        (format!("{open}<odd>{}", "<a>".repeat(1_000)), "in.xml:3: elements are nested more than 64"),
        (user("<vCard xmlns='vcard-temp'><FN>cut"), "in.xml:5"),
        (user("<vCard xmlns='vcard-temp'></wrong>"), "in.xml:5"),
        (user("<vCard xmlns='vcard-temp'><FN>\u{1}</FN></vCard>"), "in.xml:5"),
        (format!("{open}<user password='x'/>"), "in.xml:3: <user/> has no `name`"),
        ("<html/>".to_owned(), "it begins with <html"),
        (String::new(), "in.xml:1"),
        (format!("{open}<user name='{}'/>", "x".repeat(100_000)), "in.xml:3"),
    ] {
        let engine = MemoryEngine::new();
        let (summary, end) = take(&engine, &text);
        let wrong = end.expect_err("refused");
        assert!(wrong.contains(told), "{told} in {wrong}");
        assert_eq!(rows(&engine, "juliet@capulet.com"), [], "{told}");
        assert_eq!(rows(&engine, "good@capulet.com").len(), usize::from(text.contains("'good'")), "{summary:?}");
    }
}

/// Elements larger than any that a server accepts are skipped while reading.
#[test]
fn what_is_too_large_is_passed_over_and_told() {
    let engine = MemoryEngine::new();
    let photo = "x".repeat(5 << 20);
    let inside = format!(
        "<vCard xmlns='vcard-temp'><PHOTO><BINVAL>{photo}</BINVAL></PHOTO></vCard>\
         <query xmlns='jabber:iq:roster'><item jid='a@x.org' name='{}'/></query>\
         <query xmlns='jabber:iq:private'><a xmlns='b'>{}</a><c xmlns='d'/></query>",
        "n".repeat(2_000),
        &photo[..600 << 10]
    );
    let summary = juliet(&engine, &inside);
    let counts = &summary.counts;
    assert_eq!((counts.vcards, counts.contacts, counts.private), (0, 1, 1));
    let told = notes(&summary);
    assert!(told.iter().any(|note| note.contains("<vCard xmlns='vcard-temp'/> is larger than 4 MiB")), "{told:?}");
    assert!(told.iter().any(|note| note.contains("the name is too long and was truncated")), "{told:?}");
    assert!(told.iter().any(|note| note.contains("private data exceeds its limit")), "{told:?}");
}

#[test]
fn accounts_that_are_there_are_left_alone_replaced_or_refused() {
    let engine = MemoryEngine::new();
    juliet(&engine, EVERYTHING);
    let before = give(&engine);
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("again.xml");
    let text = "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'><user name='JULIET' password='new'/></host></server-data>";
    fs::write(&path, text).expect("written");
    let (summary, end) = take_with(&engine, &path, Existing::Skip, false);
    end.expect("skipped");
    assert_eq!((summary.users, summary.there), (0, 1));
    assert_eq!(give(&engine), before);
    let (_, end) = take_with(&engine, &path, Existing::Refuse, false);
    let Err(Wrong::File(wrong)) = end else { panic!("taken") };
    assert!(wrong.contains("again.xml:1: juliet@capulet.com is there already"), "{wrong}");
    let (summary, end) = take_with(&engine, &path, Existing::Replace, true);
    end.expect("tried");
    assert_eq!(summary.users, 1);
    assert_eq!(give(&engine), before, "a dry run changes nothing");
    let old = credentials(&engine, "juliet@capulet.com").expect("an account").incarnation();
    let (summary, end) = take_with(&engine, &path, Existing::Replace, false);
    end.expect("replaced");
    assert_eq!(summary.users, 1);
    assert_eq!(rows(&engine, "juliet@capulet.com"), [Table::Accounts], "nothing of the old one stays");
    assert_ne!(credentials(&engine, "juliet@capulet.com").expect("an account").incarnation(), old, "another account");
}

/// A user that occurs twice, in the same batch or not, is imported once.
#[test]
fn a_user_who_comes_twice_is_taken_once() {
    for password in ["password='x'", ""] {
        let engine = MemoryEngine::new();
        let user = |card: &str| {
            format!("<user name='juliet' {password}><vCard xmlns='vcard-temp'><FN>{card}</FN></vCard></user>")
        };
        let text = format!(
            "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'>{}{}</host></server-data>",
            user("first"),
            user("second")
        );
        let (summary, end) = take(&engine, &text);
        assert_eq!((end, summary.users, summary.there), (Ok(()), 1, 1));
        assert!(give(&engine).contains("<FN>first</FN>"));
    }
}

/// An account exists completely or not at all, even with more rows than one commit holds.
#[test]
fn an_import_that_is_cut_off_leaves_no_half_account() {
    let body = "x".repeat(100 << 10);
    let result = format!(
        "<result xmlns='urn:xmpp:mam:2' id='1'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' \
         stamp='2010-07-10T23:08:25Z'/><message xmlns='jabber:client' from='romeo@montague.net/o' to='juliet@capulet.com'>\
         <body>{body}</body></message></forwarded></result>"
    );
    let many = result.repeat(700);
    let open = format!(
        "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'><user name='juliet' password='x'>\
         <archive xmlns='urn:xmpp:pie:0#mam'>{many}"
    );
    let engine = MemoryEngine::new();
    let (_, end) = take(&engine, &format!("{open}<broken"));
    end.expect_err("cut off");
    assert_eq!(rows(&engine, "juliet@capulet.com"), []);
    let whole = format!("{open}</archive></user></host></server-data>");
    let (summary, end) = take(&engine, &whole);
    assert_eq!((end, summary.counts.archived), (Ok(()), 700));
    assert_eq!(abandon(&engine).expect("looked"), None, "nothing is under way");
    assert!(credentials(&engine, "juliet@capulet.com").is_some());
    // The process was killed during the import: the next import, and the next start, remove its
    // leftovers.
    let mut killed = Batch::new();
    killed.put(Table::Meta, b"", b"portable/arriving", &[b"romeo@montague.net"]);
    killed.put(Table::Roster, b"romeo@montague.net", b"a@b", &[b"x"]);
    engine.commit(&[killed]).expect("written");
    assert_eq!(abandon(&engine).expect("removed").as_deref(), Some("romeo@montague.net"));
    assert_eq!(rows(&engine, "romeo@montague.net"), []);
}

/// A message retracted by its sender is exported as a tombstone (XEP-0424 4), and imported as one.
#[test]
fn what_was_retracted_does_not_go_out() {
    let message = |id: &str, inside: &str| {
        format!(
            "<result xmlns='urn:xmpp:mam:2' id='{id}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' \
             stamp='2010-07-10T23:08:25Z'/><message xmlns='jabber:client' from='romeo@montague.net/o' to='juliet@capulet.com' \
             id='{id}' type='chat'>{inside}</message></forwarded></result>"
        )
    };
    let inside = format!(
        "<archive xmlns='urn:xmpp:pie:0#mam'>{}{}</archive>",
        message("m1", "<body>I hate you</body>"),
        message("m2", "<retract xmlns='urn:xmpp:message-retract:1' id='m1'/>")
    );
    let away = "from='romeo@montague.net/o' to='juliet@capulet.com'";
    let sent = inside.replace(away, "from='juliet@capulet.com/o' to='romeo@montague.net'");
    for inside in [inside, sent] {
        let engine = MemoryEngine::new();
        juliet(&engine, &inside);
        let out = give(&engine);
        assert!(
            !out.contains("I hate you") && out.contains("<retracted xmlns='urn:xmpp:message-retract:1' id='m2'"),
            "{out}"
        );
        assert_eq!(part(&out, "<archive", "</archive>").matches("<result").count(), 2);
    }
}

/// XEP-0227 7: files are private, and none is overwritten. That of one account has no keys.
#[test]
fn xep_0227_7_files_are_private_and_in_four_layouts() {
    use std::os::unix::fs::MetadataExt;
    let engine = MemoryEngine::new();
    juliet(&engine, EVERYTHING);
    let text = "<server-data xmlns='urn:xmpp:pie:0'><host jid='montague.net'><user name='romeo' password='x'/></host></server-data>";
    take(&engine, text).1.expect("taken");
    let dir = TempDir::new().expect("a folder");
    let write = |layout, to: &str, only: &[&str], user| {
        let wanted = only.iter().map(|domain| (*domain).to_owned()).collect();
        let plan = Export {
            engine: &engine,
            served: &domains(),
            layout,
            domains: &wanted,
            user,
            archive: true,
            now_us: NOW_US,
        };
        export(&dir.path().join(to), &plan, &mut |_| {})
    };
    let first = give(&engine);
    assert!(first.contains("<stored-key>"));
    for (layout, to, files) in [
        (Layout::File, "one.xml", vec!["one.xml"]),
        (Layout::Folder, "three", vec!["three/main.xml", "three/capulet.com.xml", "three/montague.net/romeo.xml"]),
        (Layout::Hosts, "hosts", vec!["hosts/main.xml", "hosts/capulet.com.xml", "hosts/montague.net.xml"]),
        (Layout::Users, "users", vec!["users/juliet@capulet.com.xml", "users/romeo@montague.net.xml"]),
    ] {
        assert_eq!(write(layout, to, &[], None).expect("written").users, 2);
        for file in files {
            let found = fs::metadata(dir.path().join(file)).expect("it is there");
            assert_eq!(found.mode() & 0o777, 0o600, "{file}");
        }
        write(layout, to, &[], None).expect_err("it is there already");
        let again = MemoryEngine::new();
        let (summary, end) = take_with(&again, &dir.path().join(to), Existing::Skip, false);
        end.expect("its own export");
        assert_eq!((summary.users, notes(&summary)), (2, vec![]), "{to}");
        assert_eq!(alike(&give(&again)), alike(&first), "{to}");
        let one = dir.path().join(format!("one-{to}"));
        assert_eq!(write(layout, &format!("one-{to}"), &[], Some("juliet@capulet.com")).expect("written").users, 1);
        let found =
            std::process::Command::new("grep").args(["-rE", "scram|-key|salt"]).arg(one).output().expect("grep");
        assert_eq!((found.status.code(), &*found.stdout), (Some(1), &b""[..]), "{to}");
    }
    let only = write(Layout::File, "montague.xml", &["montague.net", "nowhere.org"], None).expect("written");
    assert_eq!((only.users, only.notes().count()), (1, 1));
}

/// Any modified file is imported or refused, and the export of what was imported can be imported
/// again completely.
#[test]
fn whatever_is_in_a_file_what_was_taken_goes_out_and_comes_again() {
    let text = format!(
        "<server-data xmlns='urn:xmpp:pie:0'><host jid='capulet.com'><user name='juliet'>{EVERYTHING}</user></host></server-data>"
    );
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("in.xml");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes[at] = b"<>&'\"/=x \xc3\0"[next(11)],
                1 => drop(bytes.remove(at)),
                2 => {
                    let end = (at + next(200)).min(bytes.len());
                    bytes.drain(at..end);
                }
                // A part of it twice, or elsewhere.
                _ => {
                    let end = (at + next(400)).min(bytes.len());
                    let (piece, to) = (bytes[at..end].to_vec(), next(bytes.len()));
                    bytes.splice(to..to, piece);
                }
            }
        }
        fs::write(&path, &bytes).expect("written");
        let engine = MemoryEngine::new();
        let (_, end) = take_with(&engine, &path, Existing::Skip, false);
        *(if end.is_ok() { &mut taken } else { &mut refused }) += 1;
        let out = give(&engine);
        let again = MemoryEngine::new();
        let (summary, end) = take(&again, &out);
        assert_eq!((end, notes(&summary)), (Ok(()), vec![]), "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(alike(&give(&again)), alike(&out));
    }
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}
