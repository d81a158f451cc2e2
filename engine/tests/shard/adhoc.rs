//! Ad-hoc commands (XEP-0050) and service administration (XEP-0133).

use std::sync::Arc;

use throng_engine::id::ConnId;
use throng_engine::io::{AccountCommand, AnnouncementCommand, Command, Effect, Input, PutMode};
use throng_engine::limits::{ADHOC_ORDERS_MAX, ADHOC_SESSIONS_USER_MAX, ADHOC_WELCOME_BYTES_MAX};
use throng_engine::orders::{Order, Outcome, SessionSeen, Users, Wanted, Why};
use throng_engine::session::moved::Errand;
use throng_engine::session::sasl::Authenticated;
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::account::{Credentials, Incarnation};
use throng_engine::store::announcement::Kept;
use throng_sim::host::{BIND, HEADER, Host, moved, said};

const ADMIN: &str = "http://jabber.org/protocol/admin#";

pub(super) fn settings() -> Settings {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.admins = Arc::new(["romeo@localhost".into()]);
    settings
}

/// Romeo, an administrator, and Juliet, who is not.
pub(super) fn host() -> (Host, ConnId, ConnId) {
    let mut host = Host::new(settings());
    host.account("romeo");
    host.account("juliet");
    let (romeo, _) = host.bind(0, "romeo");
    let (juliet, _) = host.bind(1, "juliet");
    (host, romeo, juliet)
}

fn command(node: &str, rest: &str, inside: &str) -> String {
    command_at(&format!("{ADMIN}{node}"), rest, inside)
}

pub(super) fn command_at(node: &str, rest: &str, inside: &str) -> String {
    format!(
        "<iq type='set' id='c' to='localhost'><command xmlns='http://jabber.org/protocol/commands' node='{node}'{rest}>{inside}</command></iq>"
    )
}

/// Fields of a form, with their values.
pub(super) type Fields<'a> = &'a [(&'a str, &'a [&'a str])];

pub(super) fn form(fields: Fields<'_>) -> String {
    let fields = fields.iter().map(|(var, values)| {
        let values: String = values.iter().map(|value| format!("<value>{value}</value>")).collect();
        format!("<field var='{var}'>{values}</field>")
    });
    format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", fields.collect::<String>())
}

pub(super) fn session(text: &str) -> String {
    text.split("sessionid='").nth(1).and_then(|rest| rest.split('\'').next()).expect("a session").to_owned()
}

/// The order in these effects.
pub(super) fn order(effects: &[Effect]) -> Option<(u64, Order)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Order { token, order } => Some((*token, (**order).clone())),
        _ => None,
    })
}

/// Starts a command and submits this form.
fn submit(host: &mut Host, conn: ConnId, node: &str, fields: Fields<'_>) -> Vec<Effect> {
    submit_at(host, conn, &format!("{ADMIN}{node}"), fields)
}

pub(super) fn submit_at(host: &mut Host, conn: ConnId, node: &str, fields: Fields<'_>) -> Vec<Effect> {
    let begun = said(&host.ask(conn, &command_at(node, "", "")));
    assert!(begun.contains("status='executing'") && begun.contains("<complete/>"), "{begun}");
    let id = session(&begun);
    host.ask(conn, &command_at(node, &format!(" sessionid='{id}' action='complete'"), &form(fields)))
}

fn disco(what: &str, node: &str) -> String {
    format!(
        "<iq type='get' id='d' to='localhost'><query xmlns='http://jabber.org/protocol/disco#{what}' node='{node}'/></iq>"
    )
}

/// XEP-0050 2.2, 2.3; XEP-0133 6, 7: a user who is not an administrator sees no command and can
/// execute none.
#[test]
fn commands_are_for_administrators_alone_xep0133_7() {
    let (mut host, romeo, juliet) = host();
    let list = disco("items", "http://jabber.org/protocol/commands");
    let (seen, hidden) = (said(&host.ask(romeo, &list)), said(&host.ask(juliet, &list)));
    assert_eq!(seen.matches("<item ").count(), 40, "{seen}");
    assert!(seen.contains(&format!("<item jid='localhost' node='{ADMIN}add-user' name=")), "{seen}");
    assert!(hidden.contains("type='result'") && !hidden.contains(ADMIN), "{hidden}");
    let node = disco("info", &format!("{ADMIN}add-user"));
    assert!(said(&host.ask(romeo, &node)).contains("type='command-node'"));
    assert!(said(&host.ask(juliet, &node)).contains("<forbidden "));
    let effects = host.ask(juliet, &command("get-registered-users-num", "", ""));
    assert!(said(&effects).contains("<forbidden ") && order(&effects).is_none());
    let about = said(&host.ask(juliet, &disco("info", "http://jabber.org/protocol/commands")));
    assert!(about.contains("type='command-list'"), "{about}");
    // XEP-0133 6: some are forbidden to everybody, others are not supported.
    for (node, error) in [
        ("edit-admin", "<not-allowed "),
        ("edit-blacklist", "<feature-not-implemented "),
        ("restart", "<feature-not-implemented "),
        ("add-user", "type='form'"),
    ] {
        let answer = said(&host.ask(romeo, &command(node, "", "")));
        assert!(answer.contains(error), "{node}: {answer}");
    }
    let answer = said(&host.ask(romeo, &command_at("urn:no-such", "", "")));
    assert!(answer.contains("<item-not-found "), "{answer}");
    // An account has no commands: XEP-0133 2 addresses the service.
    let own = command("add-user", "", "").replace(" to='localhost'", "");
    assert!(said(&host.ask(romeo, &own)).contains("<service-unavailable "));
}

/// Changing the setting: rights are checked with each request, also within a session.
#[test]
fn rights_end_with_the_setting() {
    let (mut host, romeo, _) = host();
    let id = session(&said(&host.ask(romeo, &command("delete-user", "", ""))));
    let none = Settings { admins: Arc::default(), ..settings() };
    host.turn(Input::Command { token: 1, command: Command::Turn(Arc::new(none)) });
    let submitted = command("delete-user", &format!(" sessionid='{id}'"), &form(&[("accountjids", &["a@localhost"])]));
    let effects = host.ask(romeo, &submitted);
    assert!(said(&effects).contains("<forbidden ") && order(&effects).is_none());
}

/// XEP-0133 4: each command's form, its order, and its result.
#[test]
fn each_command_leads_to_an_order_xep0133_4() {
    let (mut host, romeo, _) = host();
    let jid: Fields<'_> = &[("accountjid", &["Tybalt@localhost"])];
    let users = Outcome::Users { jids: vec!["a@localhost".into()], next: Some("1:2".into()) };
    let seen = SessionSeen { resource: "r&amp;".into(), address: Some("[2001:db8::1]:5222".into()) };
    let cases: [(&str, Fields<'_>, Wanted, Outcome, &str); 17] = [
        (
            "delete-user",
            &[("accountjids", &["tybalt@localhost", "paris@localhost"])],
            Wanted::Delete(vec!["tybalt@localhost".into(), "paris@localhost".into()]),
            Outcome::Done,
            "status='completed'",
        ),
        (
            "disable-user",
            &[("accountjids", &["tybalt@localhost"])],
            Wanted::Suspend { accounts: vec!["tybalt@localhost".into()], suspended: true },
            Outcome::Done,
            "status='completed'",
        ),
        (
            "reenable-user",
            &[("accountjids", &["tybalt@localhost"])],
            Wanted::Suspend { accounts: vec!["tybalt@localhost".into()], suspended: false },
            Outcome::Done,
            "status='completed'",
        ),
        (
            "get-disabled-users-list",
            &[],
            Wanted::List { of: Users::Disabled, after: None, most: 200 },
            users.clone(),
            "<field var='disableduserjids' type='jid-multi'><value>a@localhost</value></field>",
        ),
        (
            "end-user-session",
            &[("accountjids", &["tybalt@localhost/Home"])],
            Wanted::End(vec!["tybalt@localhost/Home".into()]),
            Outcome::Partly {
                rest: Box::new(Outcome::Done),
                failed: vec!["tybalt@localhost/Home: there is no session".into()],
            },
            "<note type='error'>tybalt@localhost/Home: there is no session</note>",
        ),
        (
            "user-stats",
            jid,
            Wanted::Statistics("tybalt@localhost".into()),
            Outcome::Statistics { sessions: vec![seen], contacts: 3 },
            "<field var='ipaddresses' type='text-single'><value>[2001:db8::1]</value></field>\
             <field var='rostersize' type='text-single'><value>3</value></field><field var='onlineresources' ",
        ),
        (
            "get-user-roster",
            &[("accountjids", &["tybalt@localhost", "paris@localhost"])],
            Wanted::Rosters(vec!["tybalt@localhost".into(), "paris@localhost".into()]),
            Outcome::Partly {
                rest: Box::new(Outcome::Rosters(vec![("tybalt@localhost".into(), b"<query xmlns='r'/>".to_vec())])),
                failed: vec!["paris@localhost: <none>".into()],
            },
            "<note type='error'>paris@localhost: &lt;none&gt;</note><x xmlns='jabber:x:data' type='result'>\
             <field type='hidden' var='FORM_TYPE'><value>http://jabber.org/protocol/admin</value></field>\
             <field var='accountjids' type='jid-multi'><value>tybalt@localhost</value></field><query xmlns='r'/></x>",
        ),
        (
            "get-user-lastlogin",
            &[("accountjids", &["tybalt@localhost"])],
            Wanted::LastLogins(vec!["tybalt@localhost".into()]),
            Outcome::Facts(vec![
                ("accountjids", vec!["tybalt@localhost".into()]),
                ("lastlogin", vec!["2003-12-19T17:58:35Z".into()]),
            ]),
            "<field var='lastlogin' type='text-single'><value>2003-12-19T17:58:35Z</value></field>",
        ),
        (
            "get-online-users-list",
            &[("max_items", &["25"]), ("after", &["0:7"])],
            Wanted::List { of: Users::Online, after: Some("0:7".into()), most: 25 },
            users.clone(),
            "<field var='onlineuserjids' type='jid-multi'><value>a@localhost</value></field>\
             <field var='after' type='text-single'><value>1:2</value>",
        ),
        (
            "get-registered-users-list",
            &[("max_items", &["none"])],
            Wanted::List { of: Users::Registered, after: None, most: 200 },
            users.clone(),
            "<field var='registereduserjids' type='jid-multi'><value>a@localhost</value></field>",
        ),
        (
            "get-active-users",
            &[],
            Wanted::List { of: Users::Active, after: None, most: 200 },
            users.clone(),
            "<field var='activeuserjids' type='jid-multi'><value>a@localhost</value></field>",
        ),
        (
            "get-idle-users",
            &[],
            Wanted::List { of: Users::Idle, after: None, most: 200 },
            users,
            "<field var='idleuserjids' type='jid-multi'><value>a@localhost</value></field>",
        ),
        (
            "get-online-users-list",
            &[("max_items", &["100000"])],
            Wanted::List { of: Users::Online, after: None, most: 200 },
            Outcome::Users { jids: Vec::new(), next: None },
            "<field var='onlineuserjids' type='jid-multi'></field></x>",
        ),
        (
            "announce",
            &[("announcement", &["one", "two"])],
            Wanted::Announce("one\ntwo".into()),
            Outcome::Count(3),
            "status='completed'",
        ),
        ("set-motd", &[("motd", &["today"])], Wanted::SetMotd("today".into()), Outcome::Done, "status='completed'"),
        ("edit-motd", &[("motd", &["now"])], Wanted::EditMotd("now".into()), Outcome::Done, "status='completed'"),
        (
            "set-welcome",
            &[("welcome", &["a", "b"])],
            Wanted::SetWelcome("a\nb".into()),
            Outcome::Noted("until <then>".into()),
            "<note type='info'>until &lt;then&gt;</note></command>",
        ),
    ];
    for (node, fields, wanted, outcome, told) in cases {
        let (token, order) = order(&submit(&mut host, romeo, node, fields)).expect("an order");
        assert_eq!((&*order.by, &order.what), (&*full(&mut host, romeo), &wanted), "{node}");
        let answer = said(&host.turn(Input::Ordered { token, outcome }));
        assert!(answer.contains("status='completed'") && answer.contains(told), "{node}: {answer}");
        assert!(host.turn(Input::Ordered { token, outcome: Outcome::Done }).is_empty(), "answered once");
    }
    for (node, wanted, var) in [
        ("get-registered-users-num", Wanted::Count(Users::Registered), "registeredusersnum"),
        ("get-disabled-users-num", Wanted::Count(Users::Disabled), "disabledusersnum"),
        ("get-online-users-num", Wanted::Count(Users::Online), "onlineusersnum"),
        ("get-active-users-num", Wanted::Count(Users::Active), "activeusersnum"),
        ("get-idle-users-num", Wanted::Count(Users::Idle), "idleusersnum"),
        ("delete-welcome", Wanted::SetWelcome("".into()), ""),
    ] {
        let effects = host.ask(romeo, &command(node, " action='execute'", ""));
        let (token, order) = order(&effects).expect("an order at once");
        assert_eq!(order.what, wanted);
        let answer = said(&host.turn(Input::Ordered { token, outcome: Outcome::Count(7) }));
        let told = format!("<field var='{var}' type='text-single'><value>7</value></field>");
        assert!(answer.contains(&told) || var.is_empty(), "{answer}");
    }
}

/// XEP-0133 4.25, 4.27: the form contains the current text.
#[test]
fn a_text_that_is_there_is_in_the_form_xep0133_4_25() {
    let mut settings = settings();
    settings.welcome = "Hello,\n<you>".into();
    let mut host = Host::new(settings);
    host.account("romeo");
    let (romeo, _) = host.bind(0, "romeo");
    let welcome = said(&host.ask(romeo, &command("set-welcome", "", "")));
    assert!(welcome.contains("<required/><value>Hello,</value><value>&lt;you&gt;</value></field>"), "{welcome}");
    let motd = said(&host.ask(romeo, &command("edit-motd", "", "")));
    assert!(motd.contains("<required/></field>"), "none is set: {motd}");
    let kept = Kept { number: 1, at_us: 0, until_us: u64::MAX, text: "today".into() };
    let keep = Command::Announcement(AnnouncementCommand::Keep { kept: Some(Arc::new(kept)), write: true });
    host.turn(Input::Command { token: 1, command: keep });
    for (node, there) in [("edit-motd", true), ("set-motd", false)] {
        let form = said(&host.ask(romeo, &command(node, "", "")));
        assert_eq!(form.contains("<required/><value>today</value></field>"), there, "{form}");
    }
    let long = "x".repeat(ADHOC_WELCOME_BYTES_MAX + 1);
    assert!(said(&submit(&mut host, romeo, "set-welcome", &[("welcome", &[&long])])).contains("<bad-payload "));
}

/// XEP-0133 4.27: each new account gets the welcome message once, from its domain, and it waits for
/// the first login.
#[test]
fn an_account_is_welcomed_when_it_is_made_xep0133_4_27() {
    let mut host = Host::new(Settings { welcome: "Hello, <you>".into(), ..settings() });
    let put = |host: &mut Host, mode| {
        let credentials = Box::new(Credentials::derive("s3cret", 4_096, &[7; 16], 0).expect("keys"));
        let command = Command::Account(AccountCommand::Put { account: "paris@localhost".into(), credentials, mode });
        host.turn(Input::Command { token: 1, command });
    };
    put(&mut host, PutMode::Add);
    // A changed password triggers no welcome message.
    put(&mut host, PutMode::Change);
    let (_, record) = host.disk.rows_of(Table::Accounts, "paris@localhost").next().expect("an account");
    let incarnation = Incarnation::of_record(record);
    let come = |host: &mut Host, slot| {
        let conn = ConnId { slot, generation: 1 };
        let mut moved = moved("paris@localhost");
        moved.errand = Errand::Login(Authenticated::vouched_for("paris@localhost", incarnation));
        host.turn(Input::Arrived { conn, moved });
        host.ask(conn, HEADER);
        host.ask(conn, BIND);
        said(&host.ask(conn, "<presence/>"))
    };
    let heard = come(&mut host, 1);
    assert_eq!(heard.matches("<body>Hello, &lt;you&gt;</body>").count(), 1, "{heard}");
    assert!(heard.contains("<message from='localhost' to='paris@localhost'"), "{heard}");
    assert!(!come(&mut host, 2).contains("<body>"), "once");
}

pub(super) fn full(host: &mut Host, conn: ConnId) -> String {
    let ping = said(&host.ask(conn, "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>"));
    ping.split("to='").nth(1).and_then(|rest| rest.split('\'').next()).expect("a JID").to_owned()
}

/// XEP-0133 4.1, 4.7: a job derives keys from the password, which is in no order.
#[test]
fn passwords_become_keys_before_they_are_ordered() {
    let (mut host, romeo, _) = host();
    let fields: Fields<'_> =
        &[("accountjid", &["paris@localhost"]), ("password", &["s3cret"]), ("password-verify", &["s3cret"])];
    for (node, created) in [("add-user", true), ("change-user-password", false)] {
        let fields = if created { fields } else { &fields[..2] };
        let effects = submit(&mut host, romeo, node, fields);
        let (token, order) = order(&effects).expect("an order");
        let Wanted::Put { account, create, .. } = &order.what else { panic!("{order:?}") };
        assert_eq!((&**account, *create), ("paris@localhost", created));
        assert!(!format!("{order:?}").contains("s3cret"));
        let exists = Outcome::Refused { why: Why::Exists, text: String::new() };
        assert!(said(&host.turn(Input::Ordered { token, outcome: exists })).contains("<conflict "), "XEP-0133 6");
    }
    let other = [fields[0], fields[1], ("password-verify", &["other"] as &[&str])];
    let effects = submit(&mut host, romeo, "add-user", &other);
    assert!(said(&effects).contains("<bad-payload ") && order(&effects).is_none());
}

/// XEP-0050 4.4.
#[test]
fn wrong_requests_have_the_errors_of_xep0050_4_4() {
    let (mut host, romeo, _) = host();
    let id = session(&said(&host.ask(romeo, &command("add-user", "", ""))));
    let own = format!(" sessionid='{id}'");
    let long = format!(" sessionid='{}'", "x".repeat(65));
    let many: Vec<String> = (0..101).map(|n| format!("<value>u{n}@localhost</value>")).collect();
    let many = format!("<x xmlns='jabber:x:data' type='submit'><field var='accountjids'>{}</field></x>", many.concat());
    for (node, rest, inside, error) in [
        ("add-user", " action='dance'", "", "<malformed-action "),
        ("add-user", &*format!("{own} action='dance'"), "", "<malformed-action "),
        ("add-user", &*format!("{own} action='next'"), "", "<bad-action "),
        ("add-user", &*format!("{own} action='prev'"), "", "<bad-action "),
        ("add-user", " action='complete'", "", "<bad-sessionid "),
        ("add-user", " sessionid=''", "", "<bad-sessionid "),
        ("add-user", &*long, "", "<bad-sessionid "),
        ("add-user", " sessionid='00000000000000000000'", "", "<session-expired "),
        ("delete-user", &*own, &*many, "<session-expired "),
        ("add-user", &*own, "", "<bad-payload "),
        ("add-user", &*own, &*form(&[("accountjid", &["a@localhost"])]), "<bad-payload "),
        ("add-user", &*own, &*form(&[("accountjid", &["@"]), ("password", &["p"])]), "<jid-malformed "),
        ("add-user", &*own, &*form(&[("accountjid", &["localhost"]), ("password", &["p"])]), "<jid-malformed "),
    ] {
        let effects = host.ask(romeo, &command(node, rest, inside));
        let answer = said(&effects);
        assert!(answer.contains(error) && order(&effects).is_none(), "{node}{rest}{inside}: {answer}");
    }
    let id = session(&said(&host.ask(romeo, &command("delete-user", "", ""))));
    let answer = said(&host.ask(romeo, &command("delete-user", &format!(" sessionid='{id}'"), &many)));
    assert!(answer.contains("<bad-payload "), "more than 100 addresses: {answer}");
    // XEP-0050 2.4.4: a cancelled session is over.
    let cancel = command("add-user", &format!("{own} action='cancel'"), "");
    assert!(said(&host.ask(romeo, &cancel)).contains("status='canceled'"));
    assert!(said(&host.ask(romeo, &cancel)).contains("<session-expired "));
    let get = command("add-user", "", "").replace("type='set'", "type='get'");
    assert!(said(&host.ask(romeo, &get)).contains("<bad-request "));
}

/// XEP-0050 3.4: a session is between one requester and one node, is used once, expires, and counts
/// against a limit.
#[test]
fn sessions_are_bounded_and_of_one_requester_xep0050_3_4() {
    let (mut host, romeo, _) = host();
    let (again, _) = host.bind(2, "romeo");
    let begin = command("delete-user", "", "");
    let fields = form(&[("accountjids", &["a@localhost"])]);
    let submit = |host: &mut Host, conn, id: &str| {
        host.ask(conn, &command("delete-user", &format!(" sessionid='{id}'"), &fields))
    };
    let id = session(&said(&host.ask(romeo, &begin)));
    assert!(said(&submit(&mut host, again, &id)).contains("<session-expired "), "another resource's");
    assert!(order(&submit(&mut host, romeo, &id)).is_some());
    assert!(said(&submit(&mut host, romeo, &id)).contains("<session-expired "), "used");
    let ids: Vec<String> = (0..=ADHOC_SESSIONS_USER_MAX).map(|_| session(&said(&host.ask(romeo, &begin)))).collect();
    assert!(said(&submit(&mut host, romeo, &ids[0])).contains("<session-expired "), "the oldest gave way");
    assert!(order(&submit(&mut host, romeo, &ids[1])).is_some());
    host.now.mono_ms += 601_000;
    assert!(said(&submit(&mut host, romeo, &ids[2])).contains("<session-expired "), "ten minutes are over");
}

/// The number of pending orders of an administrator's client is limited, and an order whose sender
/// has disconnected is not answered.
#[test]
fn orders_under_way_are_bounded() {
    let (mut host, romeo, _) = host();
    let ask = command("get-registered-users-num", "", "");
    let tokens: Vec<u64> = (0..ADHOC_ORDERS_MAX).filter_map(|_| Some(order(&host.ask(romeo, &ask))?.0)).collect();
    assert_eq!(tokens.len(), ADHOC_ORDERS_MAX);
    let effects = host.ask(romeo, &ask);
    assert!(said(&effects).contains("<resource-constraint ") && order(&effects).is_none());
    host.turn(Input::Closed { conn: romeo });
    for token in tokens {
        assert_eq!(said(&host.turn(Input::Ordered { token, outcome: Outcome::Count(1) })), "");
    }
    let (romeo, _) = host.bind(3, "romeo");
    assert!(order(&host.ask(romeo, &ask)).is_some(), "there is room again");
}

/// Whoever could register the name of an administrator without an account would become one.
#[test]
fn the_name_of_an_administrator_cannot_be_registered() {
    use throng_engine::io::ListenerKind;
    use throng_sim::host::HEADER;
    let mut host = Host::new(settings());
    for (name, error) in [("Romeo", true), ("mercutio", false)] {
        let conn = ConnId { slot: 7, generation: 1 };
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: true };
        host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
        host.ask(conn, HEADER);
        let register = format!(
            "<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>{name}</username><password>p</password></query></iq>"
        );
        let answer = said(&host.ask(conn, &register));
        assert_eq!(answer.contains("<conflict "), error, "{answer}");
        host.ask(conn, "</stream:stream>");
        host.turn(Input::Closed { conn });
    }
}
