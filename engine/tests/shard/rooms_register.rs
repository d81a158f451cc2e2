//! Registration with rooms (XEP-0045 7.10, 9.9): which users become members, which nicks are free, and
//! what waits for the admins.

use throng_engine::limits::{ROOM_REQUESTS_BURST, ROOM_REQUESTS_EVERY_S, ROOM_REQUESTS_MAX};
use throng_engine::settings::Settings;
use throng_sim::host::{Host, said};

use crate::rooms::{MUC, enters, play, play_with, refused, room, sees};

fn asks(who: &str, id: &str, nick: &str) -> String {
    format!(
        "{who} sends: <iq type='set' id='{id}' to='cave@conference.localhost'><query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>
    <field var='FORM_TYPE'><value>{MUC}#register</value></field><field var='muc#register_roomnick'><value>{nick}</value></field></x></query></iq>\n"
    )
}

fn leaves(who: &str, id: &str) -> String {
    format!(
        "{who} sends: <iq type='set' id='{id}' to='cave@conference.localhost'><query xmlns='jabber:iq:register'><remove/></query></iq>\n"
    )
}

fn done(who: &str, resource: &str, id: &str) -> String {
    format!(
        "{who} receives: <iq type='result' id='{id}' from='cave@conference.localhost' to='{who}@localhost/{resource}'/>\n"
    )
}

fn approval(who: &str, resource: &str, user: &str, nick: &str) -> String {
    format!(
        "{who} receives: <message from='cave@conference.localhost' to='{who}@localhost/{resource}'><x xmlns='jabber:x:data' type='form'><title>Registration request</title>
    <field var='FORM_TYPE' type='hidden'><value>{MUC}#register</value></field>
    <field var='muc#jid' type='jid-single' label='{{any}}'><value>{user}</value></field>
    <field var='muc#register_roomnick' type='text-single' label='{{any}}'><value>{nick}</value></field>
    <field var='muc#register_allow' type='boolean' label='{{any}}'><value>0</value></field></x></message>\n"
    )
}

fn decides(who: &str, id: &str, user: &str, nick: &str, allow: &str) -> String {
    format!(
        "{who} sends: <message id='{id}' to='cave@conference.localhost'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MUC}#register</value></field>
    <field var='muc#jid'><value>{user}@localhost</value></field><field var='muc#register_roomnick'><value>{nick}</value></field><field var='muc#register_allow'><value>{allow}</value></field></x></message>\n"
    )
}

fn members(id: &str, items: &str) -> String {
    format!(
        "romeo sends: <iq type='get' id='{id}' to='cave@conference.localhost'><query xmlns='{MUC}#admin'><item affiliation='member'/></query></iq>
romeo receives: <iq type='result' id='{id}' from='cave@conference.localhost' to='romeo@localhost/r'><query xmlns='{MUC}#admin'>{items}</query></iq>\n"
    )
}

/// XEP-0045 7.10: an open room registers at once. The nick is the user's alone, and the occupants see
/// the membership.
#[test]
fn a_user_registers_with_an_open_room() {
    let mut text = room(&[]);
    text += &enters("juliet", "j", &["romeo"]);
    text += &sees("romeo", "r", "juliet");
    text += &format!(
        "juliet sends: <iq type='get' id='g' to='cave@conference.localhost'><query xmlns='jabber:iq:register'/></iq>
juliet receives: <iq type='result' id='g' from='cave@conference.localhost' to='juliet@localhost/j'><query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='form'>
    <title>{{any}}</title><field var='FORM_TYPE' type='hidden'><value>{MUC}#register</value></field><field var='muc#register_roomnick' type='text-single' label='{{any}}'><required/></field></x></query></iq>\n"
    );
    text += &asks("juliet", "s", "capulet");
    for (who, resource) in [("romeo", "r"), ("juliet", "j")] {
        let own = if who == "juliet" { "<status code='110'/>" } else { "" };
        text += &format!(
            "{who} receives: <presence from='cave@conference.localhost/juliet' to='{who}@localhost/{resource}'><x xmlns='{MUC}#user'><item affiliation='member' role='participant' jid='juliet@localhost/j'/>{own}</x>
    <occupant-id xmlns='urn:xmpp:occupant-id:0' id='{{any}}'/></presence>\n"
        );
    }
    text += &done("juliet", "j", "s");
    // XEP-0045 9.5: one that registered itself does not see the addresses of the others.
    text += &format!(
        "juliet sends: <iq type='get' id='l' to='cave@conference.localhost'><query xmlns='{MUC}#admin'><item affiliation='member'/></query></iq>\n"
    );
    text += &refused("juliet", "j", "iq", "l", "auth", "forbidden");
    // XEP-0045 7.10: the one who is registered learns the nick; XEP-0045 6.6 says it, too.
    text += &format!("juliet sends: <iq type='get' id='h' to='cave@conference.localhost'><query xmlns='jabber:iq:register'/></iq>
juliet receives: <iq type='result' id='h' from='cave@conference.localhost' to='juliet@localhost/j'><query xmlns='jabber:iq:register'><registered/><username>capulet</username><x xmlns='jabber:x:data' type='form'>
    <title>{{any}}</title><field var='FORM_TYPE' type='hidden'><value>{MUC}#register</value></field><field var='muc#register_roomnick' type='text-single' label='{{any}}'><required/><value>capulet</value></field></x></query></iq>\n");
    text += "juliet sends: <iq type='get' id='d' to='cave@conference.localhost'><query xmlns='http://jabber.org/protocol/disco#info' node='x-roomuser-item'/></iq>
juliet receives: <iq type='result' id='d' from='cave@conference.localhost' to='juliet@localhost/j'><query xmlns='http://jabber.org/protocol/disco#info' node='x-roomuser-item'>
    <identity category='conference' type='text' name='capulet'/></query></iq>\n";
    // A nick that is reserved, and one that is in use, are not free for others.
    for (id, nick) in [("1", "capulet"), ("2", "romeo")] {
        text += &asks("nurse", id, nick);
        text += &refused("nurse", "n", "iq", id, "cancel", "conflict");
    }
    text += &format!(
        "nurse sends: <presence id='p' to='cave@conference.localhost/capulet'><x xmlns='{MUC}'/></presence>
nurse receives: <presence type='error' id='p' from='cave@conference.localhost/capulet' to='nurse@localhost/n'>
    <error type='cancel'><conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error><x xmlns='{MUC}'/></presence>\n"
    );
    // XEP-0077 3.2: the end of a registration is the end of the membership, and frees the nick.
    text += &leaves("juliet", "r");
    text += &sees("romeo", "r", "juliet");
    text += &sees("juliet", "j", "juliet");
    text += &done("juliet", "j", "r");
    text += &leaves("juliet", "t");
    text += &refused("juliet", "j", "iq", "t", "auth", "registration-required");
    text += &asks("nurse", "3", "capulet");
    text += &done("nurse", "n", "3");
    play(&text);
}

/// XEP-0045 9.9: a members-only room asks its admins, also those who come later. Each user waits
/// with one request.
#[test]
fn an_admin_decides_on_a_registration() {
    let mut text = room(&[("membersonly", "1"), ("persistentroom", "1")]);
    text += &asks("juliet", "1", "jul");
    text += &approval("romeo", "r", "juliet@localhost", "jul");
    text += &done("juliet", "j", "1");
    // Said again it waits once; a better nick replaces it.
    text += &asks("juliet", "2", "jul");
    text += &done("juliet", "j", "2");
    text += &asks("nurse", "3", "jul");
    text += &refused("nurse", "n", "iq", "3", "cancel", "conflict");
    text += &members("4", "");
    text += "romeo sends: <presence type='unavailable' to='cave@conference.localhost/romeo'/>\n";
    text += "romeo receives: <presence type='unavailable' from='cave@conference.localhost/romeo' to='romeo@localhost/r'>{any}</presence>\n";
    // The room goes from memory and comes back.
    text += "time passes: 120000 ms\n";
    text += &enters("romeo", "r", &[]);
    text += &approval("romeo", "r", "juliet@localhost", "jul");
    text += &decides("romeo", "5", "juliet", "jul", "1");
    text += &members("6", "<item affiliation='member' jid='juliet@localhost' nick='jul'/>");
    text += &decides("romeo", "7", "juliet", "jul", "1");
    text += &refused("romeo", "r", "message", "7", "cancel", "item-not-found");
    // One that is denied leaves nothing.
    text += &asks("nurse", "8", "nan");
    text += &approval("romeo", "r", "nurse@localhost", "nan");
    text += &done("nurse", "n", "8");
    text += &decides("romeo", "9", "nurse", "nan", "0");
    text += &members("10", "<item affiliation='member' jid='juliet@localhost' nick='jul'/>");
    text += &asks("nurse", "11", "nan");
    text += &approval("romeo", "r", "nurse@localhost", "nan");
    text += &done("nurse", "n", "11");
    play(&text);
}

/// XEP-0045 9.9: an admin decides on the request of the user that the form names. Its nick may be
/// in another request by now.
#[test]
fn an_approval_is_of_the_user_that_it_names() {
    let mut text = room(&[("membersonly", "1")]);
    text += &asks("juliet", "1", "jul");
    text += &approval("romeo", "r", "juliet@localhost", "jul");
    text += &done("juliet", "j", "1");
    text += &leaves("juliet", "2");
    text += &done("juliet", "j", "2");
    text += &asks("nurse", "3", "jul");
    text += &approval("romeo", "r", "nurse@localhost", "jul");
    text += &done("nurse", "n", "3");
    text += &decides("romeo", "4", "juliet", "jul", "1");
    text += &refused("romeo", "r", "message", "4", "cancel", "item-not-found");
    text += &members("5", "");
    text += &decides("romeo", "6", "nurse", "jul", "1");
    text += &members("7", "<item affiliation='member' jid='nurse@localhost' nick='jul'/>");
    play(&text);
}

/// XEP-0045 7.10, 9.9: only admins decide, an outcast has nothing to ask for, and an owner can do
/// without registration. A form that is none is refused.
#[test]
fn who_may_not_register() {
    let mut text = room(&[("moderatedroom", "1")]);
    text += &enters("juliet", "j", &["romeo"]);
    text += &sees("romeo", "r", "juliet");
    text += &asks("juliet", "1", "jul");
    text += &approval("romeo", "r", "juliet@localhost", "jul");
    text += &done("juliet", "j", "1");
    text += &decides("juliet", "2", "juliet", "jul", "1");
    text += &refused("juliet", "j", "message", "2", "auth", "forbidden");
    text += "nurse sends: <iq type='set' id='3' to='cave@conference.localhost'><query xmlns='jabber:iq:register'><username>n</username></query></iq>\n";
    text += &refused("nurse", "n", "iq", "3", "modify", "bad-request");
    text += &format!(
        "romeo sends: <iq type='set' id='b' to='cave@conference.localhost'><query xmlns='{MUC}#admin'><item jid='nurse@localhost' affiliation='outcast'/></query></iq>\n"
    );
    text += &done("romeo", "r", "b");
    text += &asks("nurse", "4", "nan");
    text += &refused("nurse", "n", "iq", "4", "cancel", "not-allowed");
    text += &format!(
        "romeo sends: <iq type='set' id='c' to='cave@conference.localhost'><query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'><field var='x-roomconfig_registration'><value>0</value></field></x></query></iq>\n"
    );
    for (who, resource) in [("romeo", "r"), ("juliet", "j")] {
        text += &format!(
            "{who} receives: <message type='groupchat' from='cave@conference.localhost' to='{who}@localhost/{resource}'>{{any}}</message>\n"
        );
    }
    text += &done("romeo", "r", "c");
    text += &asks("juliet", "5", "jules");
    text += &refused("juliet", "j", "iq", "5", "cancel", "service-unavailable");
    play(&text);
}

/// A password and a room closed by the operator keep strangers out: registration is no way around
/// them.
#[test]
fn a_closed_room_asks_its_admins() {
    let ask = |fields: &[(&str, &str)]| {
        let mut text = room(fields);
        text += &asks("juliet", "1", "jul");
        text += &approval("romeo", "r", "juliet@localhost", "jul");
        text += &done("juliet", "j", "1");
        text += &members("2", "");
        text
    };
    play(&ask(&[("passwordprotectedroom", "1"), ("roomsecret", "x")]));
    play_with(&ask(&[]), |s| s.room_members_only = true);
    // Strangers register as fast as they may enter: ten in a burst of ten seconds.
    let mut text = room(&[]);
    for n in 0..10 {
        for (id, request) in [("r", asks("juliet", "r", &format!("j{n}"))), ("u", leaves("juliet", "u"))] {
            text += &request;
            text += &done("juliet", "j", id);
        }
    }
    text += &asks("juliet", "1", "j10");
    text += "juliet receives: <iq type='error' id='1' from='cave@conference.localhost' to='juliet@localhost/j'><error type='wait'>{any}</error></iq>\n";
    play_with(&text, |s| s.room_joins_per_s = 1);
}

/// XEP-0045 9.1, 9.4: the nick of a user that is no member any more is free.
#[test]
fn a_nick_is_free_when_the_membership_has_ended() {
    for affiliation in ["outcast", "none"] {
        let mut text = room(&[]);
        text += &asks("juliet", "1", "capulet");
        text += &done("juliet", "j", "1");
        text += &asks("nurse", "2", "capulet");
        text += &refused("nurse", "n", "iq", "2", "cancel", "conflict");
        text += &format!(
            "romeo sends: <iq type='set' id='b' to='cave@conference.localhost'><query xmlns='{MUC}#admin'><item jid='juliet@localhost' affiliation='{affiliation}'/></query></iq>\n"
        );
        text += &done("romeo", "r", "b");
        text += &asks("nurse", "3", "capulet");
        text += &done("nurse", "n", "3");
        play(&text);
    }
}

/// A removed account leaves no request behind: an admin would make the next user of the name a member.
#[test]
fn a_request_goes_with_its_account() {
    let mut text = room(&[("membersonly", "1")]);
    text += &asks("juliet", "1", "jul");
    text += &approval("romeo", "r", "juliet@localhost", "jul");
    text += &done("juliet", "j", "1");
    text += "juliet sends: <iq type='set' id='x'><query xmlns='jabber:iq:register'><remove/></query></iq>
juliet receives: <iq type='result' id='x' to='juliet@localhost/j'/>
juliet receives: <error xmlns='http://etherx.jabber.org/streams'>{any}</error>
juliet is closed
time passes: 1000 ms\n";
    text += &decides("romeo", "2", "juliet", "jul", "1");
    text += &refused("romeo", "r", "message", "2", "cancel", "item-not-found");
    play_with(&text, |s| s.facts.account_changes = true);
}

/// Each user waits with one request, and a room has a limit of them: a user that asks often takes no
/// place of others.
#[test]
fn requests_that_wait_are_few() {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.serve_rooms("conference.localhost");
    let mut host = Host::new(settings);
    let users = ROOM_REQUESTS_MAX + 3;
    let clients: Vec<_> = (0..users)
        .map(|user| {
            host.account(&format!("u{user}"));
            host.bind(u32::try_from(user).expect("few"), &format!("u{user}")).0
        })
        .collect();
    let own = |fields: &str| {
        format!(
            "<iq type='set' id='c' to='cave@conference.localhost'><query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'>{fields}</x></query></iq>"
        )
    };
    host.ask(clients[0], &format!("<presence to='cave@conference.localhost/u0'><x xmlns='{MUC}'/></presence>"));
    host.ask(clients[0], &own("<field var='muc#roomconfig_membersonly'><value>1</value></field>"));
    let request = |nick: &str| {
        let text = asks("", "r", nick);
        text.strip_prefix(" sends: ").expect("a request").trim_end().to_owned()
    };
    let own_answer = |effects: &[throng_engine::io::Effect], user: usize| {
        let to = format!("to='u{user}@localhost");
        said(effects).split("<iq ").filter(|iq| iq.contains(&to)).map(str::to_owned).collect::<String>()
    };
    let mut told = 0;
    for n in 0..2 * ROOM_REQUESTS_MAX {
        let effects = host.ask(clients[1], &request(&format!("often{n}")));
        assert!(own_answer(&effects, 1).contains("type='result'"), "{}", said(&effects));
        told += said(&effects).matches("Registration request").count();
    }
    // A stranger does not flood the admins. They get the last request when they enter.
    assert_eq!(told, ROOM_REQUESTS_BURST as usize);
    let entering = format!("<presence to='cave@conference.localhost/u0'><x xmlns='{MUC}'/></presence>");
    let heard = said(&host.ask(clients[0], &entering));
    assert!(heard.matches("Registration request").count() == 1 && heard.contains("<value>often99</value>"), "{heard}");
    host.now.mono_ms += 1_000 * u64::from(ROOM_REQUESTS_EVERY_S);
    let effects = host.ask(clients[1], &request("later"));
    assert!(said(&effects).contains("Registration request"), "{}", said(&effects));
    for (user, client) in clients.iter().enumerate().skip(2) {
        let effects = host.ask(*client, &request(&format!("n{user}")));
        let (answer, fits) = (own_answer(&effects, user), user <= ROOM_REQUESTS_MAX);
        assert_eq!(answer.contains("type='result'"), fits, "{user}: {answer}");
        assert_eq!(answer.contains("<resource-constraint"), !fits, "{user}: {answer}");
    }
}
