//! What one user can do in another's name, or without a right to it: rooms (XEP-0045) with many
//! standings, retractions after a nick was taken over, components, lists and refusals.

use throng_engine::extension::service::SharedSecret;
use throng_engine::id::ConnId;
use throng_engine::io::Effect;
use throng_engine::limits::{ROOM_INVITED_MAX, ROOM_STANDINGS_IN_MEMORY_MAX};
use throng_engine::settings::Settings;
use throng_engine::store::room::{Affiliation, Alert, Standing};
use throng_engine::store::{Batch, Found};
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

    /// Gives the room more members than it holds in memory, by its rows.
    pub(crate) fn crowd(mut self) -> Cave {
        let mut batch = Batch::new();
        for n in 0..=ROOM_STANDINGS_IN_MEMORY_MAX {
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

/// XEP-0045 7.8.2, RFC 6121 5.2.2: whatever the type of the message, an invitation changes no standing
/// that the room has not read, and bans hold.
#[test]
fn an_invitation_of_any_class_respects_the_standings_of_a_large_room() {
    let mut cave = Cave::new(&[("membersonly", "1"), ("persistentroom", "1")]);
    cave.affiliates("juliet@localhost", "owner");
    cave.affiliates("mallory@localhost", "outcast");
    cave.affiliates("other.example", "outcast");
    let mut cave = cave.crowd();
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

/// XEP-0077 3.2, XEP-0045 9.1: only the end of an account ends its bans. A component cannot state it, nor
/// for which messages its users are woken.
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

/// XEP-0045 7.8.2: an invitation is declined once, by whom it was for, and to its inviter. Nobody else
/// reaches an occupant in this way.
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
