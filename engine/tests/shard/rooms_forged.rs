//! What one user can do in another's name, or without a right to it: rooms (XEP-0045) with many
//! standings, retractions after a nick was taken over, components, lists and refusals.

use throng_engine::extension::service::SharedSecret;
use throng_engine::id::ConnId;
use throng_engine::io::{Command, Effect, Input, RoomCommand};
use throng_engine::limits::{ROOM_CARDS_AT_ONCE, ROOM_HISTORY_MAX, ROOM_INVITED_MAX, ROOM_STANDINGS_IN_MEMORY_MAX};
use throng_engine::settings::Settings;
use throng_engine::store::room::{Affiliation, Alert, Standing};
use throng_engine::store::{Batch, Found, Query, Table, room_extra};
use throng_sim::host::{Host, said};

use crate::components::{SECRET, connect};
use crate::rooms::MUC;

pub(crate) const ROOM: &str = "cave@conference.localhost";

/// Users at one shard, the first of whom owns the room.
pub(crate) struct Cave {
    pub(crate) host: Host,
    pub(crate) conns: Vec<ConnId>,
}

pub(crate) const ROMEO: usize = 0;
pub(crate) const JULIET: usize = 1;
pub(crate) const MALLORY: usize = 2;
const USERS: [&str; 3] = ["romeo", "juliet", "mallory"];

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.serve_rooms("conference.localhost");
    settings.serve_component("echo.localhost", SharedSecret(SECRET.into()));
    settings
}

impl Cave {
    /// The room, with these fields of the configuration.
    pub(crate) fn new(fields: &[(&str, &str)]) -> Cave {
        let mut host = Host::new(settings());
        let conns = USERS.iter().zip(0..).map(|(user, slot)| {
            host.account(user);
            let conn = host.bind(slot, user).0;
            host.ask(conn, "<presence/>");
            conn
        });
        let conns = conns.collect();
        let mut cave = Cave { host, conns };
        cave.enters(ROMEO, "romeo");
        cave.configures(fields);
        cave
    }

    /// The same room after a restart, with everybody connected again and Romeo inside.
    pub(crate) fn again(mut self) -> Cave {
        let disk = std::mem::take(&mut self.host.disk);
        let now = self.host.now;
        let mut host = Host::new(settings());
        (host.disk, host.now) = (disk, now);
        let conns = USERS.iter().zip(0..).map(|(user, slot)| host.bind(slot, user).0).collect();
        let mut cave = Cave { host, conns };
        cave.enters(ROMEO, "romeo");
        cave
    }

    /// Gives the room so many more members, by its rows.
    pub(crate) fn crowd(mut self, members: usize) -> Cave {
        let mut batch = Batch::new();
        for n in 0..members {
            let standing = Standing { affiliation: Affiliation::Member, ..Standing::default() };
            standing.put(&mut batch, ROOM, &format!("m{n}@localhost"), &Standing::default());
        }
        self.host.disk.apply(&batch);
        self.again()
    }

    /// What a user receives when another one sends this.
    pub(crate) fn hears(&mut self, by: usize, xml: &str, at: usize) -> String {
        let effects = self.host.ask(self.conns[by], xml);
        let to = self.conns[at];
        let own = effects.iter().filter(|effect| matches!(effect, Effect::Send { conn, .. } if *conn == to));
        own.map(|effect| said(std::slice::from_ref(effect))).collect()
    }

    /// What a user receives for this.
    pub(crate) fn says(&mut self, by: usize, xml: &str) -> String {
        self.hears(by, xml, by)
    }

    pub(crate) fn enters(&mut self, by: usize, nick: &str) -> String {
        self.says(by, &format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>"))
    }

    pub(crate) fn leaves(&mut self, by: usize, nick: &str) -> String {
        self.says(by, &format!("<presence type='unavailable' to='{ROOM}/{nick}'/>"))
    }

    pub(crate) fn configures(&mut self, fields: &[(&str, &str)]) {
        let field =
            |(var, value): &(&str, &str)| format!("<field var='muc#roomconfig_{var}'><value>{value}</value></field>");
        let fields: String = fields.iter().map(field).collect();
        let form = format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>");
        let own = format!("<iq type='set' id='c' to='{ROOM}'><query xmlns='{MUC}#owner'>{form}</query></iq>");
        let answer = self.says(ROMEO, &own);
        assert!(answer.contains("type='result'"), "{answer}");
    }

    pub(crate) fn affiliates(&mut self, jid: &str, affiliation: &str) {
        let item = format!("<item jid='{jid}' affiliation='{affiliation}'/>");
        let set = format!("<iq type='set' id='a' to='{ROOM}'><query xmlns='{MUC}#admin'>{item}</query></iq>");
        let answer = self.says(ROMEO, &set);
        assert!(answer.contains("type='result'"), "{answer}");
    }

    pub(crate) fn lists(&mut self, by: usize, affiliation: &str) -> String {
        let item = format!("<item affiliation='{affiliation}'/>");
        self.says(by, &format!("<iq type='get' id='l' to='{ROOM}'><query xmlns='{MUC}#admin'>{item}</query></iq>"))
    }

    /// The stored standing of a user.
    pub(crate) fn standing(&self, bare: &str) -> Option<Standing> {
        match self.host.disk.read(&Standing::query(ROOM, bare)) {
            Found::Value(value) => value.map(|value| Standing::decode(&value).expect("a whole row")),
            found => panic!("{found:?}"),
        }
    }

    /// The stored list of users with an affiliation.
    fn listed(&self, affiliation: Affiliation) -> Vec<String> {
        match self.host.disk.read(&Standing::query_list(ROOM, affiliation)) {
            Found::Rows { rows, .. } => rows.iter().filter_map(Standing::jid_of).map(str::to_owned).collect(),
            found => panic!("{found:?}"),
        }
    }
}

fn invite(class: &str, to: &str) -> String {
    format!(
        "<message type='{class}' id='i' to='{ROOM}'><x xmlns='{MUC}#user'><invite to='{to}'><reason>Come</reason></invite></x></message>"
    )
}

/// XEP-0045 7.8.2, RFC 6121 5.2.2: whatever the type of the message, an invitation changes no
/// standing that the room has not read, and bans hold.
#[test]
fn an_invitation_of_any_class_respects_the_standings_of_a_large_room() {
    let mut cave = Cave::new(&[("membersonly", "1"), ("persistentroom", "1")]);
    cave.affiliates("juliet@localhost", "owner");
    cave.affiliates("mallory@localhost", "outcast");
    cave.affiliates("other.example", "outcast");
    let mut cave = cave.crowd(ROOM_STANDINGS_IN_MEMORY_MAX);
    for class in ["headline", "normal", "chat"] {
        cave.says(ROMEO, &invite(class, "juliet@localhost"));
        assert_eq!(cave.standing("juliet@localhost").map(|one| one.affiliation), Some(Affiliation::Owner), "{class}");
        assert_eq!(cave.listed(Affiliation::Owner), ["juliet@localhost", "romeo@localhost"]);
        for banned in ["mallory@localhost", "mallory@other.example"] {
            let answer = cave.says(ROMEO, &invite(class, banned));
            assert!(answer.contains("<forbidden"), "{class}, {banned}: {answer}");
        }
        assert_eq!(cave.listed(Affiliation::Outcast), ["mallory@localhost", "other.example"], "{class}");
    }
    cave.says(ROMEO, &invite("headline", "nurse@localhost"));
    assert_eq!(cave.standing("nurse@localhost").map(|one| one.affiliation), Some(Affiliation::Member));
    // An error asks for nothing (RFC 6120 8.3.1).
    cave.says(ROMEO, &invite("error", "tybalt@localhost"));
    assert_eq!(cave.standing("tybalt@localhost"), None);
}

fn archive(cave: &mut Cave) -> String {
    cave.says(ROMEO, &format!("<iq type='set' id='q' to='{ROOM}'><query xmlns='urn:xmpp:mam:2'/></iq>"))
}

fn retracts(id: &str) -> String {
    format!(
        "<message type='groupchat' id='r' to='{ROOM}'><retract xmlns='urn:xmpp:message-retract:1' id='{id}'/><store xmlns='urn:xmpp:hints'/></message>"
    )
}

/// XEP-0424 4 and 5.1, XEP-0421 5: an occupant retracts by the id that the room has given to the
/// message. Who has the nick later retracts nothing; who has sent it does, under any nick.
#[test]
fn only_the_sender_of_a_message_retracts_it_whoever_has_the_nick() {
    let mut cave = Cave::new(&[("persistentroom", "1")]);
    cave.enters(JULIET, "bob");
    let said = cave.says(JULIET, &format!("<message type='groupchat' id='m1' to='{ROOM}'><body>Rose</body></message>"));
    let id = said.split_once("urn:xmpp:sid:0' id='").expect("an id").1.split_once('\'').expect("its end").0.to_owned();
    cave.leaves(JULIET, "bob");
    cave.enters(MALLORY, "bob");
    for id in ["m1", &id] {
        cave.says(MALLORY, &retracts(id));
    }
    let all = archive(&mut cave);
    assert!(all.contains("<body>Rose</body>") && !all.contains("<retracted"), "{all}");
    let history = cave.enters(JULIET, "jul");
    assert!(history.contains("<body>Rose</body>"), "{history}");
    cave.says(JULIET, &retracts(&id));
    let all = archive(&mut cave);
    assert!(!all.contains("Rose") && all.matches("<retracted").count() == 1, "{all}");
    // It is not in the history of newcomers, nor after a restart.
    cave.leaves(MALLORY, "bob");
    let history = cave.enters(MALLORY, "mallory");
    assert!(history.contains("<subject") && !history.contains("Rose"), "{history}");
    let mut cave = cave.again();
    let history = cave.enters(MALLORY, "mallory");
    assert!(history.contains("<subject") && !history.contains("Rose"), "{history}");
}

/// XEP-0077 3.2, XEP-0045 9.1: only the end of an account ends its bans. A component cannot state
/// it, nor for which messages its users are woken.
#[test]
fn a_component_lifts_no_ban_of_its_users() {
    let mut cave = Cave::new(&[("persistentroom", "1")]);
    let (echo, _) = connect(&mut cave.host, 50, "echo.localhost");
    cave.affiliates("banned@echo.localhost", "outcast");
    cave.affiliates("member@echo.localhost", "member");
    for inside in ["", "<alert xmlns='urn:throng:rooms:alert' when='always' nick=''/>", "<forget/>"] {
        for user in ["banned", "member"] {
            let iq = format!("<iq type='result' id='x' from='{user}@echo.localhost' to='{ROOM}'>{inside}</iq>");
            cave.host.ask(echo, &iq);
        }
    }
    cave.host.ask(echo, &format!("<forget from='banned@echo.localhost' to='{ROOM}'/>"));
    assert_eq!(cave.listed(Affiliation::Outcast), ["banned@echo.localhost"]);
    assert_eq!(cave.listed(Affiliation::Member), ["member@echo.localhost"]);
    let alerts = cave.host.disk.read(&Alert::query_all(ROOM));
    assert_eq!(alerts, Found::Rows { rows: Vec::new(), more: false });
}

/// XEP-0045 9.5: a member of a members-only room retrieves the list of members if the room is
/// non-anonymous.
#[test]
fn a_semi_anonymous_room_shows_its_members_no_addresses() {
    let mut cave = Cave::new(&[("membersonly", "1")]);
    cave.affiliates("juliet@localhost", "member");
    let answer = cave.lists(JULIET, "member");
    assert!(answer.contains("<forbidden") && !answer.contains("<item"), "{answer}");
    cave.configures(&[("membersonly", "1"), ("whois", "anyone")]);
    let answer = cave.lists(JULIET, "member");
    assert!(answer.contains("jid='juliet@localhost'"), "{answer}");
    assert!(cave.lists(MALLORY, "member").contains("<forbidden"));
}

/// XEP-0045 7.8.2: an invitation is declined once, by whom it was for, and to its inviter. Nobody
/// else reaches an occupant in this way.
#[test]
fn only_an_invitation_can_be_declined() {
    let mut cave = Cave::new(&[]);
    let decline = |to: &str| {
        format!(
            "<message id='d' to='{ROOM}'><x xmlns='{MUC}#user'><decline to='{to}'><reason>Spam</reason></decline></x></message>"
        )
    };
    cave.affiliates("mallory@localhost", "outcast");
    for (to, by, condition) in
        [("/romeo", MALLORY, "forbidden"), ("/romeo", JULIET, "item-not-found"), ("/nobody", JULIET, "item-not-found")]
    {
        let to = format!("{ROOM}{to}");
        assert_eq!(cave.hears(by, &decline(&to), ROMEO), "", "{condition}");
        let answer = cave.says(by, &decline(&to));
        assert!(answer.contains(&format!("<{condition}")), "{answer}");
    }
    let addresses = [format!("{ROOM}/romeo"), "romeo@localhost".to_owned()];
    for to in &addresses {
        cave.says(ROMEO, &invite("normal", "juliet@localhost"));
        let heard = cave.hears(JULIET, &decline(to), ROMEO);
        assert!(heard.contains("<decline from='juliet@localhost'><reason>Spam</reason>"), "{heard}");
        assert_eq!(cave.hears(JULIET, &decline(to), ROMEO), "", "once");
    }
    // The room remembers the latest ones.
    cave.says(ROMEO, &invite("normal", "juliet@localhost"));
    (0..ROOM_INVITED_MAX).for_each(|n| _ = cave.says(ROMEO, &invite("normal", &format!("u{n}@localhost"))));
    assert_eq!(cave.hears(JULIET, &decline(&addresses[0]), ROMEO), "");
}

fn register(nick: &str) -> String {
    format!(
        "<iq type='set' id='g' to='{ROOM}'><query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MUC}#register</value></field><field var='muc#register_roomnick'><value>{nick}</value></field></x></query></iq>"
    )
}

/// Whether something was read because a user sent this, and what the user received.
fn reads(cave: &mut Cave, by: usize, xml: &str, query: &Query) -> (usize, String) {
    let effects = cave.host.ask(cave.conns[by], xml);
    let queries = effects.iter().filter_map(|effect| match effect {
        Effect::Read { queries, .. } => Some(queries.iter().filter(|other| *other == query).count()),
        _ => None,
    });
    (queries.sum(), said(&effects))
}

/// XEP-0045 7.10, 9.3: a room that is closed to strangers is closed to those, too, whom nobody but
/// themselves has made members.
#[test]
fn a_closed_room_admits_no_member_that_has_made_itself_one() {
    let mut cave = Cave::new(&[("persistentroom", "1")]);
    assert!(cave.says(JULIET, &register("jul")).contains("type='result'"));
    cave.affiliates("mallory@localhost", "member");
    let close = |cave: &mut Cave| {
        let command = Command::Room(RoomCommand::Close { room: ROOM.into(), seconds: 600 });
        cave.host.turn(Input::Command { token: 7, command });
    };
    for again in [false, true] {
        if again {
            cave = cave.again();
        }
        close(&mut cave);
        let answer = cave.enters(JULIET, "jul");
        assert!(answer.contains("<registration-required"), "{again}: {answer}");
        assert!(cave.enters(MALLORY, "mallory").contains("<subject"), "{again}");
        cave.leaves(MALLORY, "mallory");
    }
    // The nick stays when an admin confirms the membership.
    cave.affiliates("juliet@localhost", "member");
    assert!(cave.enters(JULIET, "jul").contains("<subject"));
    assert_eq!(cave.standing("juliet@localhost").and_then(|one| one.nick).as_deref(), Some("jul"));
}

/// XEP-0452 3: one message tells a member once, however it is mentioned.
#[test]
fn a_mention_by_address_and_by_nick_is_one() {
    let mut cave = Cave::new(&[("forwardmentions", "1")]);
    cave.says(JULIET, &register("capulet"));
    let uris = ["juliet@localhost", "cave@conference.localhost/capulet", "juliet@localhost/x"];
    let references =
        uris.map(|uri| format!("<reference xmlns='urn:xmpp:reference:0' type='mention' uri='xmpp:{uri}'/>"));
    let says = format!("<message type='groupchat' to='{ROOM}'><body>Hark</body>{}</message>", references.concat());
    let heard = cave.hears(ROMEO, &says, JULIET);
    assert_eq!(heard.matches("<forwarded").count(), 1, "{heard}");
}

/// XEP-0425 4, 5: a moderator retracts messages that exist. Others leave no trace, and do not
/// displace the history.
#[test]
fn a_moderator_retracts_only_what_was_said() {
    let mut cave = Cave::new(&[("persistentroom", "1")]);
    let heard = cave.says(ROMEO, &format!("<message type='groupchat' id='m' to='{ROOM}'><body>Rose</body></message>"));
    let id = heard.split_once("urn:xmpp:sid:0' id='").expect("an id").1.split_once('\'').expect("its end").0.to_owned();
    let number: u64 = id.parse().expect("a number");
    let moderate = |id: u64| {
        format!(
            "<iq type='set' id='x' to='{ROOM}'><moderate xmlns='urn:xmpp:message-moderate:1' id='{id}'><retract xmlns='urn:xmpp:message-retract:1'/></moderate></iq>"
        )
    };
    cave.enters(JULIET, "juliet");
    let before = cave.host.disk.rows_of(Table::Archive, ROOM).count();
    for id in (0..2 * ROOM_HISTORY_MAX as u64).map(|n| u64::MAX - n).chain([0, number - 1, number + 1]) {
        let answer = cave.says(ROMEO, &moderate(id));
        assert!(answer.contains("<item-not-found"), "{id}: {answer}");
    }
    assert!(cave.says(JULIET, &moderate(number)).contains("<forbidden"));
    assert_eq!(cave.host.disk.rows_of(Table::Archive, ROOM).count(), before);
    let mut cave = cave.again();
    assert!(cave.enters(JULIET, "juliet").contains("Rose"));
    assert!(cave.says(ROMEO, &moderate(number)).contains("type='result'"));
    assert!(!cave.enters(JULIET, "juliet").contains("Rose"));
}

/// XEP-0045 9.5: a list of thousands is read for those who may see it.
#[test]
fn a_long_list_is_read_for_those_alone_who_may_see_it() {
    let mut cave = Cave::new(&[("persistentroom", "1")]).crowd(ROOM_STANDINGS_IN_MEMORY_MAX + 1);
    let item = "<item affiliation='member'/>";
    let list = format!("<iq type='get' id='l' to='{ROOM}'><query xmlns='{MUC}#admin'>{item}</query></iq>");
    let query = Standing::query_list(ROOM, Affiliation::Member);
    let (times, answer) = reads(&mut cave, MALLORY, &list, &query);
    assert!(times == 0 && answer.contains("<forbidden"), "{times}: {answer}");
    let (times, answer) = reads(&mut cave, ROMEO, &list, &query);
    assert!(times == 1 && answer.contains("m1000@localhost"), "{times}");
}

/// A room that gets more standings than it may have in memory reads them from then on. Nothing is
/// forgotten.
#[test]
fn a_room_that_grows_keeps_its_memory_and_its_standings() {
    let mut cave = Cave::new(&[("persistentroom", "1")]).crowd(ROOM_STANDINGS_IN_MEMORY_MAX - 4);
    assert!(cave.says(JULIET, &register("jul")).contains("type='result'"));
    let (enters, query) = (
        |nick: &str| format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>"),
        Standing::query(ROOM, "mallory@localhost"),
    );
    for (members, expected) in [("01", 0), ("23456", 1)] {
        members.chars().for_each(|n| cave.affiliates(&format!("new{n}@localhost"), "member"));
        let (times, answer) = reads(&mut cave, MALLORY, &enters("jul"), &query);
        assert!(times == expected && answer.contains("<conflict"), "{members}: {times} reads, {answer}");
    }
    let answer = cave.enters(MALLORY, "mallory");
    assert!(answer.contains("<subject"), "{answer}");
    cave.affiliates("new0@localhost", "none");
    assert_eq!(cave.standing("new0@localhost"), None);
    assert_eq!(cave.standing("new6@localhost").map(|one| one.affiliation), Some(Affiliation::Member));
}

/// XEP-0486 3.4: many requests for the vCard are answered in several turns, each of which reads it
/// once.
#[test]
fn a_card_is_read_once_for_several_requests() {
    let mut cave = Cave::new(&[]);
    let card = "<vCard xmlns='vcard-temp'><NOTE>witches</NOTE></vCard>";
    assert!(cave.says(ROMEO, &format!("<iq type='set' id='s' to='{ROOM}'>{card}</iq>")).contains("type='result'"));
    let get = format!("<iq type='get' id='v' to='{ROOM}'><vCard xmlns='vcard-temp'/></iq>");
    let requests = 2 * ROOM_CARDS_AT_ONCE as usize + 1;
    let (times, answer) = reads(&mut cave, ROMEO, &get.repeat(requests), &room_extra::card_query(ROOM));
    assert_eq!((times, answer.matches("witches").count()), (3, requests));
}

/// XEP-0045 7.2.14: what a newcomer asks for costs no more than its bytes, and no number is too
/// large.
#[test]
fn a_request_to_enter_has_few_elements() {
    let mut cave = Cave::new(&[]);
    let enter = |inside: &str| format!("<presence to='{ROOM}/m'><x xmlns='{MUC}'>{inside}</x></presence>");
    let answer = cave.says(MALLORY, &enter(&"<a/>".repeat(20_000)));
    assert!(answer.contains("<not-acceptable"), "{answer}");
    let answer = cave.says(MALLORY, &enter(&format!("<history seconds='{}'/>", u64::MAX)));
    assert!(answer.contains("<subject"), "{answer}");
}

/// A room with a damaged row is not used without it, and the row stays as it is.
#[test]
fn damaged_hats_are_not_taken_for_none() {
    let mut cave = Cave::new(&[("persistentroom", "1")]);
    let (hats, damaged) = ([9], b"\x01\xff");
    cave.host.disk.put(Table::Rooms, ROOM, &hats, damaged);
    let mut cave = cave.again();
    let answer = cave.enters(JULIET, "juliet");
    assert!(answer.contains("<internal-server-error"), "{answer}");
    assert!(cave.host.disk.rows_of(Table::Rooms, ROOM).any(|row| row == (&hats[..], &damaged[..])));
}

/// XEP-0050 2.1 to 2.3, XEP-0030 3.2: the commands that a user may use, each with its information.
/// An unknown node is none of the room.
#[test]
fn commands_are_shown_to_those_who_may_use_them() {
    let mut cave = Cave::new(&[]);
    cave.affiliates("juliet@localhost", "member");
    let disco = |what: &str, node: &str| {
        format!(
            "<iq type='get' id='d' to='{ROOM}'><query xmlns='http://jabber.org/protocol/disco#{what}' node='{node}'/></iq>"
        )
    };
    let (commands, hats) = ("http://jabber.org/protocol/commands", "urn:xmpp:hats:commands");
    for (user, items) in [(ROMEO, 6), (JULIET, 1), (MALLORY, 0)] {
        let answer = cave.says(user, &disco("items", commands));
        assert_eq!(answer.matches("<item ").count(), items, "{answer}");
        let answer = cave.says(user, &disco("info", commands));
        assert!(answer.contains("type='command-list'"), "{answer}");
        for (node, may) in [("list", items > 0), ("create", items > 1)] {
            let answer = cave.says(user, &disco("info", &format!("{hats}:{node}")));
            assert_eq!(
                answer.contains("type='command-node'") && answer.contains("var='jabber:x:data'"),
                may,
                "{answer}"
            );
            assert_eq!(answer.contains("<item-not-found"), !may, "{answer}");
        }
        for what in ["info", "items"] {
            let answer = cave.says(user, &disco(what, "urn:unknown"));
            assert!(answer.contains("<item-not-found"), "{answer}");
        }
    }
}
