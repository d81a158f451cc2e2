//! Requests and answers of the features, one case per clause.

use super::*;
use crate::id::Now;
use crate::store::{Found, OpView, Query, Row};

fn facts() -> ServerFacts {
    ServerFacts {
        version: "1.2.3".into(),
        os: None,
        registration: true,
        account_changes: true,
        archive: true,
        ..ServerFacts::default()
    }
}

fn local(text: &str) -> Option<Box<str>> {
    (!text.is_empty() && !text.contains(['@', ' ', '/'])).then(|| text.to_lowercase().into())
}

fn bare(text: &str) -> Option<Box<str>> {
    (!text.contains('/')).then(|| text.into())
}

/// The addressee of the request, and what the sender may see there.
#[derive(Clone, Copy)]
struct To {
    target: Target,
    authorized: bool,
    online: bool,
}

const SERVER: To = To { target: Target::Server, authorized: true, online: true };
const OWN: To = To { target: Target::Own, authorized: true, online: true };
const FRIEND: To = To { target: Target::Other, authorized: true, online: false };
const FRIEND_ONLINE: To = To { online: true, ..FRIEND };
const STRANGER: To = To { target: Target::Other, authorized: false, online: true };

fn ask_with(server: &ServerFacts, secure: bool, to: To, set: bool, payload: &str) -> Step {
    let element = xml::parse(payload.as_bytes()).expect("a well-formed payload");
    let domains = crate::id::Domains::of_users("capulet.com");
    let context = Context {
        now: Now::new(123_456_789, 1_166_551_115_000_000),
        server,
        domains: &domains.into(),
        ids: crate::store::ids::Ids::PLAIN,
        authorized: to.authorized,
        groups: &[],
        online: to.online,
        secure,
        admin: false,
        fresh: "",
        inviter: false,
        invitations: crate::extension::invite::may::Invitations::Off,
        invitation_s: 1,
        adhoc: &Default::default(),
        motd: "",
        welcome: "",
        room: 32 << 10,
        note: None,
        jid: |text| Some(text.into()),
        bare,
        local,
    };
    let request = IqRequest {
        set,
        target: to.target,
        from: "juliet@capulet.com/balcony",
        to: "capulet.com",
        account: if to.target == Target::Other { "nurse@capulet.com" } else { "juliet@capulet.com" },
        namespace: &element.ns(),
        name: element.name(),
        payload: payload.as_bytes(),
    };
    handle(&context, None, &request).1
}

/// Continues a request with these results.
pub(super) fn goes_on(pending: Pending, found: &[Found]) -> Step {
    let (server, domains) = (facts(), crate::id::Domains::of_users("capulet.com").into());
    pending.go_on(&Around { server: &server, domains: &domains, bare }, found)
}

fn get(to: To, payload: &str) -> Step {
    ask_with(&facts(), true, to, false, payload)
}

fn set(to: To, payload: &str) -> Step {
    ask_with(&facts(), true, to, true, payload)
}

fn result(xml: &str) -> Step {
    Step::Result(xml.as_bytes().to_vec())
}

#[track_caller]
fn text(step: Step) -> String {
    match step {
        Step::Result(payload) => String::from_utf8(payload).expect("UTF-8"),
        other => panic!("not a result: {other:?}"),
    }
}

#[test]
fn each_record_is_read_with_the_account() {
    use crate::store::record::NAMES;
    assert!(kept().all(|(place, _)| NAMES.contains(&TABLE[place].name)));
}

#[test]
fn small_requests_and_their_answers() {
    use Condition::*;
    const PING: &str = "<ping xmlns='urn:xmpp:ping'/>";
    const VERSION: &str = "<query xmlns='jabber:iq:version'/>";
    const TIME: &str = "<time xmlns='urn:xmpp:time'/>";
    const LAST: &str = "<query xmlns='jabber:iq:last'/>";
    const SESSION: &str = "<session xmlns='urn:ietf:params:xml:ns:xmpp-session'/>";
    const ROSTER: &str = "<query xmlns='jabber:iq:roster'/>";
    const PRIVATE: &str = "<query xmlns='jabber:iq:private'><exodus xmlns='exodus:prefs'/></query>";
    const ITEMS: &str = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    const NO_ITEMS: &str = "<query xmlns='http://jabber.org/protocol/disco#items'></query>";
    const RELEASE: &str = "<query xmlns='jabber:iq:version'><name>Throng</name><version>1.2.3</version></query>";
    const CLOCK: &str = "<time xmlns='urn:xmpp:time'><tzo>+00:00</tzo><utc>2006-12-19T17:58:35Z</utc></time>";
    let cases = [
        ("XEP-0199 4.2: ping to the server", SERVER, false, PING, result("")),
        ("XEP-0199 4.2: ping to oneself", OWN, false, PING, result("")),
        ("XEP-0199 3: there is no set", SERVER, true, PING, Step::Error(BadRequest.into())),
        ("XEP-0092 2", SERVER, false, VERSION, result(RELEASE)),
        ("XEP-0202 2", SERVER, false, TIME, result(CLOCK)),
        ("XEP-0012 5: uptime", SERVER, false, LAST, result("<query xmlns='jabber:iq:last' seconds='123456'/>")),
        ("XEP-0012 3: connected", FRIEND_ONLINE, false, LAST, result("<query xmlns='jabber:iq:last' seconds='0'/>")),
        ("XEP-0012 3: own account", OWN, false, LAST, result("<query xmlns='jabber:iq:last' seconds='0'/>")),
        ("XEP-0012 3: no permission", STRANGER, false, LAST, Step::Error(Forbidden.into())),
        ("RFC 3921 3", SERVER, true, SESSION, result("")),
        ("RFC 3921 3", OWN, true, SESSION, result("")),
        ("RFC 6121 2.1.3", OWN, false, ROSTER, Step::Roster(RosterRequest::Get { ver: None })),
        ("RFC 6121 2.3.3: somebody else's roster", FRIEND, false, ROSTER, Step::Error(Forbidden.into())),
        ("XEP-0049 2.3: somebody else's data", FRIEND, false, PRIVATE, Step::Error(Forbidden.into())),
        ("XEP-0030 7: no items", SERVER, false, ITEMS, result(NO_ITEMS)),
        ("RFC 6120 8.4: nobody knows it", SERVER, false, "<a xmlns='b'/>", Step::Error(ServiceUnavailable.into())),
        ("RFC 6121 8.5.2.1.3: not for accounts", FRIEND, false, VERSION, Step::Error(ServiceUnavailable.into())),
    ];
    for (clause, to, set, payload, expected) in cases {
        assert_eq!(ask_with(&facts(), true, to, set, payload), expected, "{clause}: {payload}");
    }
}

#[test]
fn an_operating_system_is_told_only_if_set() {
    // XEP-0092 5.
    let server = ServerFacts { os: Some("Linux <6>".into()), ..facts() };
    let answer = text(ask_with(&server, true, SERVER, false, "<query xmlns='jabber:iq:version'/>"));
    assert!(answer.ends_with("<os>Linux &lt;6&gt;</os></query>"), "{answer}");
}

#[test]
fn last_activity_of_a_user_who_is_offline() {
    // XEP-0012 3.
    let asked = || match get(FRIEND, "<query xmlns='jabber:iq:last'/>") {
        Step::Read(queries, after) => (queries, after),
        step => panic!("a read: {step:?}"),
    };
    let (queries, after) = asked();
    assert!(matches!(&queries[..], [Query::Get { actor, .. }] if **actor == *b"nurse@capulet.com"));
    let mut batch = crate::store::Batch::new();
    logged_out(&facts(), &mut batch, "nurse@capulet.com", 1_166_551_115_000_000 - 903_000_000, "Heading <Home>");
    let Some(OpView::Put { value, .. }) = batch.iter().next() else { panic!("a write") };
    let stored = |value: Option<&[u8]>| [Found::Value(value.map(Box::from))];
    assert_eq!(
        goes_on(after, &stored(Some(value))),
        result("<query xmlns='jabber:iq:last' seconds='903'>Heading &lt;Home&gt;</query>")
    );
    assert_eq!(goes_on(asked().1, &stored(None)), Step::Error(Condition::ItemNotFound.into()));
    assert_eq!(goes_on(asked().1, &stored(Some(b"?"))), Step::Error(Condition::InternalServerError.into()));
}

#[test]
fn what_waits_can_be_compared_copied_and_shown() {
    let waits = |payload: &str| match get(OWN, payload) {
        Step::Read(_, pending) | Step::InTurn(_, pending) => pending,
        step => panic!("a read: {step:?}"),
    };
    let private = "<query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'/></query>";
    let nodes = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'/></pubsub>";
    let card = "<vCard xmlns='vcard-temp'/>";
    for (one, other) in [(private, nodes), (nodes, card), (card, private)] {
        assert_eq!(waits(one), waits(one));
        assert_ne!(waits(one), waits(other));
        let (found, pending) = ([Found::Value(None)], waits(one));
        assert_eq!(goes_on(pending.clone(), &found), goes_on(pending, &found));
    }
    assert!(format!("{:?}", waits(nodes)).contains("juliet@capulet.com/balcony"));
}

#[test]
fn what_is_advertised_is_what_is_there() {
    // XEP-0030 3.1: every advertised namespace is answered, and a disabled one is neither.
    for registration in [true, false] {
        let server = ServerFacts { registration, account_changes: registration, ..facts() };
        let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
        let answer = text(ask_with(&server, true, SERVER, false, info));
        assert!(answer.contains("<identity category='server' type='im' name='Throng'/>"), "{answer}");
        let element = xml::parse(answer.as_bytes()).unwrap();
        let vars: Vec<_> = element.children().filter_map(|child| child.attr("var")).collect();
        assert!(vars.is_sorted() && vars.len() >= 9, "{vars:?}");
        // Features without requests.
        let without_requests = ["msgoffline", caps::NS, "urn:xmpp:reporting:1", "urn:xmpp:message-retract:1"];
        for var in &vars {
            let answered = offered(&server).any(|feature| feature.namespace == *var);
            assert!(answered || without_requests.contains(var), "{var}");
        }
        assert_eq!(vars.contains(&register::NS), registration);
        let form = ask_with(&server, true, SERVER, false, "<query xmlns='jabber:iq:register'/>");
        assert_eq!(form == Step::Error(Condition::ServiceUnavailable.into()), !registration);
    }
}

#[test]
fn an_account_is_discovered_by_those_who_may() {
    // XEP-0030 3.1, 8.
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    for to in [OWN, FRIEND] {
        let answer = text(get(to, info));
        assert!(answer.contains("<identity category='account' type='registered'/>"), "{answer}");
        assert!(answer.contains("<feature var='http://jabber.org/protocol/disco#info'/>"), "{answer}");
        assert!(!answer.contains("jabber:iq:version"), "{answer}");
    }
    assert_eq!(get(STRANGER, info), Step::Error(Condition::ServiceUnavailable.into()));
}

#[test]
fn nodes_of_service_discovery() {
    // XEP-0030 3.2 and 7: unknown nodes; XEP-0115 6.2: the node of the capabilities, mirrored in
    // the answer.
    for what in ["info", "items"] {
        let query = format!("<query xmlns='http://jabber.org/protocol/disco#{what}' node='x'/>");
        assert_eq!(get(SERVER, &query), Step::Error(Condition::ItemNotFound.into()));
        // An account may have nodes of its own.
        assert!(matches!(get(OWN, &query), Step::Read(..)));
        let without = ServerFacts { without: bits(&["pep"]), ..facts() };
        assert_eq!(ask_with(&without, true, OWN, false, &query), Step::Error(Condition::ItemNotFound.into()));
    }
    let mut features = Vec::new();
    stream_features(&facts(), &mut features);
    let features = xml::parse(&[b"<f>", &features[..], b"</f>"].concat()).expect("well-formed");
    let c = features.get_child("c", caps::NS).expect("XEP-0115 6.3");
    let node = format!("{}#{}", c.attr("node").unwrap(), c.attr("ver").unwrap());
    let answer = text(get(SERVER, &format!("<query xmlns='http://jabber.org/protocol/disco#info' node='{node}'/>")));
    let answer = xml::parse(answer.as_bytes()).unwrap();
    assert_eq!(answer.attr("node"), Some(&*node));
    // XEP-0115 5.4: the hash of the answer is the announced hash.
    let vars: Vec<_> = answer.children().filter_map(|child| child.attr("var")).collect();
    assert_eq!(c.attr("ver"), Some(&*caps::verification(&[("server", "im", "Throng")], &vars, &[])));
}

#[test]
fn stream_features_after_authentication() {
    let mut out = Vec::new();
    stream_features(&facts(), &mut out);
    let out = String::from_utf8(out).unwrap();
    for (clause, feature) in [
        ("RFC 6121 2.6.1", "<ver xmlns='urn:xmpp:features:rosterver'/>"),
        ("RFC 6121 3.4.1", "<sub xmlns='urn:xmpp:features:pre-approval'/>"),
        ("XEP-0115 6.3", "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1'"),
    ] {
        assert!(out.contains(feature), "{clause}");
    }
}

/// The example element of XEP-0049.
const EXODUS: &str = "<exodus xmlns=\"exodus:prefs\"><defaultnick>Hamlet</defaultnick></exodus>";

#[test]
fn private_xml_is_stored_and_read_back() {
    // XEP-0049 2.3.
    let payload = format!("<query xmlns='jabber:iq:private'>{EXODUS}</query>");
    let Step::InTurn(queries, after) = set(OWN, &payload) else { panic!("a read") };
    assert!(matches!(&queries[..], [Query::Range { .. }]));
    let Step::Write(batch, answer) = goes_on(after, &[Found::Rows { rows: Vec::new(), more: false }]) else {
        panic!("a write")
    };
    assert!(answer.is_empty());
    let ops: Vec<_> = batch.iter().collect();
    let [OpView::Put { sort, value, .. }] = ops[..] else { panic!("one row: {ops:?}") };

    let asked = || match get(OWN, "<query xmlns='jabber:iq:private'><exodus xmlns='exodus:prefs'/></query>") {
        Step::Read(queries, after) => (queries, after),
        step => panic!("a read: {step:?}"),
    };
    let (queries, after) = asked();
    assert!(matches!(&queries[..], [Query::Get { sort: asked, .. }] if **asked == *sort));
    let answer = text(goes_on(after, &[Found::Value(Some(value.into()))]));
    let stored = xml::parse(answer.as_bytes()).unwrap();
    let exodus = stored.get_child("exodus", "exodus:prefs").expect("the element");
    assert_eq!(exodus.get_child("defaultnick", "exodus:prefs").unwrap().text(), "Hamlet");
    // An element that was never stored reads as the requested element, empty.
    let answer = text(goes_on(asked().1, &[Found::Value(None)]));
    let stored = xml::parse(answer.as_bytes()).unwrap();
    assert_eq!(stored.get_child("exodus", "exodus:prefs").unwrap().nodes().count(), 0);
}

#[test]
fn private_xml_keeps_prefixed_names_and_attributes() {
    let payload = "<query xmlns='jabber:iq:private'><p:a xmlns:p='ns:p' p:x='1' y=\"&lt;'&quot;\" xml:lang='en'>\
                   <b xmlns='ns:b'>t &amp; u</b><p:c/></p:a></query>";
    let Step::InTurn(_, after) = set(OWN, payload) else { panic!("a read") };
    let nothing = Found::Rows { rows: Vec::new(), more: false };
    let Step::Write(batch, _) = goes_on(after, &[nothing]) else { panic!("a write") };
    let Some(OpView::Put { value, .. }) = batch.iter().next() else { panic!("one row") };
    let original = xml::parse(payload.as_bytes()).unwrap();
    let stored = xml::parse(value).expect("stands for itself");
    assert_eq!(&stored, original.children().next().unwrap());
}

#[test]
fn private_xml_that_is_refused() {
    let cases = [
        ("XEP-0049 2.3: no element", false, "<query xmlns='jabber:iq:private'/>", Condition::BadRequest),
        ("XEP-0049 2.3: no element", true, "<query xmlns='jabber:iq:private'/>", Condition::BadRequest),
        (
            "XEP-0049 2.3: get of one namespace",
            false,
            "<query xmlns='jabber:iq:private'><a xmlns='a'/><b xmlns='b'/></query>",
            Condition::BadRequest,
        ),
        (
            "XEP-0049 2.3: no namespace of its own",
            true,
            "<query xmlns='jabber:iq:private'><a>x</a></query>",
            Condition::NotAcceptable,
        ),
        (
            "the same element twice",
            true,
            "<query xmlns='jabber:iq:private'><a xmlns='a'>x</a><a xmlns='a'>y</a></query>",
            Condition::NotAcceptable,
        ),
    ];
    for (clause, verb, payload, condition) in cases {
        assert_eq!(ask_with(&facts(), true, OWN, verb, payload), Step::Error(condition.into()), "{clause}");
    }
    let long = "n".repeat(crate::limits::PRIVATE_KEY_BYTES_MAX);
    let payload = format!("<query xmlns='jabber:iq:private'><a xmlns='{long}'>x</a></query>");
    assert_eq!(set(OWN, &payload), Step::Error(Limit::PrivateElement.into()));
}

#[test]
fn private_xml_is_bounded() {
    let row = |n: usize, len: usize| Row {
        sort: crate::store::private::key("ns", &n.to_string()),
        value: vec![b'x'; len].into(),
    };
    let stored = |rows: Vec<Row>, more| [Found::Rows { rows, more }];
    let one = |name: &str, body: &str| {
        let payload = format!("<query xmlns='jabber:iq:private'><{name} xmlns='ns'>{body}</{name}></query>");
        match set(OWN, &payload) {
            Step::InTurn(_, after) => after,
            other => panic!("not a read: {other:?}"),
        }
    };
    let full: Vec<_> = (0..crate::limits::PRIVATE_ELEMENTS_MAX).map(|n| row(n, 10)).collect();
    let refused = Step::Error(Limit::Private.into());
    assert_eq!(goes_on(one("new", "x"), &stored(full.clone(), false)), refused);
    let large = vec![row(0, crate::limits::PRIVATE_BYTES_MAX)];
    assert_eq!(goes_on(one("new", "x"), &stored(large.clone(), false)), refused);
    assert_eq!(goes_on(one("new", "x"), &stored(large, true)), refused);
    // Freeing a place always works.
    assert!(matches!(goes_on(one("new", ""), &stored(full, true)), Step::Write(batch, _)
        if matches!(batch.iter().next(), Some(OpView::Delete { .. }))));
}

fn register(server: &ServerFacts, secure: bool, set: bool, fields: &str) -> Option<Step> {
    let payload = format!("<query xmlns='jabber:iq:register'>{fields}</query>");
    register::before_authentication(server, secure, false, local, set, payload.as_bytes())
}

#[test]
fn registration_before_authentication() {
    use Condition::*;
    let open = facts();
    let form = text(register(&open, true, false, "").unwrap());
    assert!(form.contains("<username/><password/>"), "XEP-0077 3.1: {form}");
    let create = AccountAction::Create { local: "bill".into(), password: "Calli<ope".into() };
    let account = "<username>Bill</username><password>Calli&lt;ope</password>";
    assert_eq!(register(&open, true, true, account), Some(Step::Account(create.clone())));
    assert!(!format!("{create:?}").contains("Calli"), "a password is never printed");
    let long = format!("<username>bill</username><password>{}</password>", "x".repeat(1025));
    let refused = [
        ("XEP-0077 3.1: not all information", "<username>bill</username>", Limit::Credentials.into()),
        ("XEP-0077 3.1: empty password", "<username>bill</username><password/>", Limit::Credentials.into()),
        ("RFC 7622 3.3: no localpart", "<username>a b</username><password>p</password>", Limit::Credentials.into()),
        ("over the bound", &*long, Limit::Credentials.into()),
        ("XEP-0077 3.2: nothing to remove", "<remove/>", UnexpectedRequest.into()),
    ];
    for (clause, fields, refusal) in refused {
        assert_eq!(register(&open, true, true, fields), Some(Step::Error(refusal)), "{clause}");
    }
    let closed = ServerFacts { registration: false, ..facts() };
    assert_eq!(register(&closed, true, false, ""), Some(Step::Error(ServiceUnavailable.into())));
    assert_eq!(register(&closed, true, true, account), Some(Step::Error(ServiceUnavailable.into())));
    assert_eq!(register(&open, false, true, account), Some(Step::Error(NotAuthorized.into())));
    let other = register::before_authentication(&open, true, false, local, false, b"<query xmlns='jabber:iq:roster'/>");
    assert_eq!(other, None, "RFC 6120 4.9.3.12");
    // XEP-0445 4: a token first.
    let invite = ServerFacts { rule: super::Rule::Invite, ..facts() };
    assert_eq!(register(&invite, true, true, account), Some(Step::Error(Limit::Invited.into())));
    let form = text(register(&invite, true, false, "").expect("a form"));
    assert!(form.contains("by invitation only") && form.contains("<username/>"), "{form}");
    let query = format!("<query xmlns='jabber:iq:register'>{account}</query>");
    let invited = register::before_authentication(&invite, true, true, local, true, query.as_bytes());
    assert!(matches!(invited, Some(Step::Account(AccountAction::Create { .. }))), "{invited:?}");
}

#[test]
fn registration_after_authentication() {
    use Condition::*;
    let query = |fields: &str| format!("<query xmlns='jabber:iq:register'>{fields}</query>");
    let registered = text(get(SERVER, &query("")));
    assert!(registered.contains("<registered/><username>juliet</username><password/>"), "XEP-0077 3.1: {registered}");
    let change = || Step::Account(AccountAction::ChangePassword { password: "new".into() });
    let cases = [
        ("XEP-0077 3.3", "<username>Juliet</username><password>new</password>", change()),
        ("XEP-0077 3.3", "<username>juliet@capulet.com</username><password>new</password>", change()),
        ("XEP-0077 3.3: incomplete", "<password>new</password>", Step::Error(BadRequest.into())),
        ("XEP-0077 3.3: empty password", "<username>juliet</username><password/>", Step::Error(BadRequest.into())),
        ("somebody else", "<username>nurse</username><password>new</password>", Step::Error(NotAllowed.into())),
        ("another domain", "<username>juliet@x</username><password>new</password>", Step::Error(NotAllowed.into())),
        ("XEP-0077 3.2", "<remove/>", Step::Account(AccountAction::Remove)),
        ("XEP-0077 3.2: not alone", "<remove/><username>juliet</username>", Step::Error(BadRequest.into())),
    ];
    for (clause, fields, expected) in cases {
        assert_eq!(set(SERVER, &query(fields)), expected, "{clause}: {fields}");
    }
    let change = query("<username>juliet</username><password>new</password>");
    assert_eq!(ask_with(&facts(), false, SERVER, true, &change), Step::Error(NotAuthorized.into()), "XEP-0077 3.3");
    let fixed = ServerFacts { account_changes: false, ..facts() };
    for payload in [&change, &query("<remove/>")] {
        assert_eq!(ask_with(&fixed, true, SERVER, true, payload), Step::Error(NotAllowed.into()), "XEP-0077 3.2, 3.3");
    }
}

#[test]
fn contact_addresses_are_told_in_a_form_that_the_hash_counts_xep_0157_2() {
    let contacts = ["abuse=mailto:abuse@x", "abuse=xmpp:abuse@x", "admin=xmpp:bard@x"].map(|c| c.parse().expect("one"));
    let server = ServerFacts { contacts: contacts.into(), ..facts() };
    let ask =
        |server| text(ask_with(server, true, SERVER, false, "<query xmlns='http://jabber.org/protocol/disco#info'/>"));
    let told = ask(&server);
    assert!(
        told.ends_with(
            "<x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE' type='hidden'>\
             <value>http://jabber.org/network/serverinfo</value></field>\
             <field var='abuse-addresses' type='list-multi'><value>mailto:abuse@x</value><value>xmpp:abuse@x</value></field>\
             <field var='admin-addresses' type='list-multi'><value>xmpp:bard@x</value></field></x></query>"
        ),
        "{told}"
    );
    assert!(!ask(&facts()).contains("jabber:x:data"), "nothing is told that is not set up");
    let ver = |server: &ServerFacts| {
        let mut out = Vec::new();
        stream_features(server, &mut out);
        String::from_utf8(out).expect("UTF-8").split_once("ver='").map(|(_, ver)| ver.to_owned())
    };
    assert_ne!(ver(&server), ver(&facts()), "XEP-0115 5.1");
}

#[test]
fn services_are_told_with_credentials_and_only_where_there_are_some_xep_0215_3() {
    use Condition::*;
    let all = "<services xmlns='urn:xmpp:extdisco:2'/>";
    assert_eq!(get(SERVER, all), Step::Error(ServiceUnavailable.into()), "not offered");
    let list: Vec<service::Service> =
        ["stun:x", "turn:x", "turns:[2001:db8::1]"].map(|uri| uri.parse().expect("a URI")).into();
    let with = |secret: Option<&str>| {
        let secret = secret.map(|secret| service::SharedSecret(secret.into()));
        let services = service::Services { list: list.as_slice().into(), secret, lifetime_s: 600 };
        ServerFacts { services, ..facts() }
    };
    let (open, closed) = (with(None), with(Some("a secret of the relay")));
    let ask = |server: &ServerFacts, payload: &str| ask_with(server, true, SERVER, false, payload);
    assert_eq!(
        text(ask(&open, all)),
        "<services xmlns='urn:xmpp:extdisco:2'><service type='stun' host='x' port='3478' transport='udp'/>\
         <service type='turn' host='x' port='3478' transport='udp'/>\
         <service type='turns' host='2001:db8::1' port='5349' transport='tcp'/></services>"
    );
    let one = text(ask(&closed, "<services xmlns='urn:xmpp:extdisco:2' type='turns'/>"));
    assert!(
        one.contains("restricted='true' username='1166551715:") && one.contains("expires='2006-12-19T18:08:35Z'"),
        "{one}"
    );
    assert_eq!(one.matches("<service ").count(), 1);
    let credentials = |of: &str| format!("<credentials xmlns='urn:xmpp:extdisco:2'>{of}</credentials>");
    let turn = credentials("<service host='x' type='turn' port='3478'/>");
    assert!(text(ask(&closed, &turn)).contains("password='"));
    for (server, payload, condition) in [
        (&open, turn.clone(), ItemNotFound),
        (&closed, credentials("<service host='x' type='stun'/>"), ItemNotFound),
        (&closed, credentials("<service host='y' type='turn'/>"), ItemNotFound),
        (&closed, credentials("<service host='x' type='turn' port='1'/>"), ItemNotFound),
        (&closed, credentials("<service type='turn'/>"), BadRequest),
        (&closed, credentials(""), BadRequest),
    ] {
        assert_eq!(ask(server, &payload), Step::Error(condition.into()), "{payload}");
    }
}
