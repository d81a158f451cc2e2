//! Invitations (XEP-0379, XEP-0401, XEP-0445), registration rules, and accounts that wait for
//! approval.

use std::cell::RefCell;
use std::sync::Arc;

use base64::Engine as _;
use throng_engine::extension::invite::may::Invitations;
use throng_engine::extension::invite::token;
use throng_engine::extension::{Rule, bits};
use throng_engine::id::ShardId;
use throng_engine::io::{AccountCommand, Command, InvitationCommand, Reply};
use throng_engine::limits::{APPLICANTS_TOLD_S, INVITATION_CLAIM_S, INVITATION_KEPT_S, INVITATIONS_USER_MAX};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::invitation::{Invitation, InvitationId, NewInvitation};
use throng_sim::net::SocketId;
use throng_sim::world::{Occurrence, PASSWORD, Pace, Plant, World};

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
/// Limit of any wait, microseconds.
const PATIENCE_US: u64 = 20_000_000;
const DAY_S: u64 = 86_400;

pub(super) struct Line {
    socket: SocketId,
    pub(super) heard: RefCell<String>,
}

/// A world with connections that are used one after the other.
pub(super) struct Talk {
    pub(super) world: World,
    pub(super) lines: Vec<Line>,
    ended: Vec<SocketId>,
    replies: Vec<(u64, Reply)>,
}

pub(super) fn settings(shards: u16, rule: Rule) -> Settings {
    let mut settings = Settings { preauth_s_max: 3_000, ..Settings::new("localhost", shards, [0; 32], 0) };
    settings.facts.registration = true;
    settings.facts.rule = rule;
    settings.admins = Arc::new(["nurse@localhost".into()]);
    settings.reserved_names = Arc::new(["admin".into(), "root".into()]);
    settings
}

/// On one shard and on several, so that homes are local and remote.
fn everywhere(rule: Rule, mut play: impl FnMut(Talk)) {
    for shards in 1..=3 {
        for seed in 0..3 {
            play(Talk::with(seed, settings(shards, rule)));
        }
    }
}

impl Talk {
    pub(super) fn with(seed: u64, settings: Settings) -> Talk {
        let mut world = World::new(seed, settings, Pace::default(), &["romeo", "nurse", "tybalt"]);
        world.listener.registration = true;
        Talk { world, lines: Vec::new(), ended: Vec::new(), replies: Vec::new() }
    }

    pub(super) fn step(&mut self) {
        match self.world.step() {
            Occurrence::Bytes(socket, bytes) => {
                if let Some(line) = self.lines.iter().find(|line| line.socket == socket) {
                    line.heard.borrow_mut().push_str(&String::from_utf8(bytes).expect("text"));
                }
            }
            Occurrence::Ended(socket) => self.ended.push(socket),
            Occurrence::Replied(token, reply) => self.replies.push((token, reply)),
            _ => {}
        }
    }

    pub(super) fn pass(&mut self, us: u64) {
        let until = self.world.now_us() + us;
        while self.world.now_us() < until {
            self.step();
        }
    }

    pub(super) fn say(&mut self, line: usize, text: &str) {
        self.world.write(self.lines[line].socket, text.as_bytes());
    }

    /// Waits until a connection has received one of these, or has ended; returns what was received.
    pub(super) fn hear(&mut self, line: usize, signs: &[&str]) -> String {
        let until = self.world.now_us() + PATIENCE_US;
        loop {
            let heard = self.lines[line].heard.borrow().clone();
            if signs.iter().any(|sign| heard.contains(sign)) || self.ended.contains(&self.lines[line].socket) {
                return self.lines[line].heard.take();
            }
            assert!(self.world.now_us() < until, "waited for {signs:?}, heard {heard}");
            self.step();
        }
    }

    pub(super) fn ask(&mut self, line: usize, text: &str, signs: &[&str]) -> String {
        self.say(line, text);
        self.hear(line, signs)
    }

    fn open(&mut self) -> usize {
        let socket = self.world.connect();
        self.lines.push(Line { socket, heard: RefCell::default() });
        let line = self.lines.len() - 1;
        self.ask(line, HEADER, &["</stream:features>"]);
        line
    }

    fn log_in(&mut self, user: &str, password: &str) -> (usize, String) {
        let line = self.open();
        let plain = base64::engine::general_purpose::STANDARD.encode(format!("\0{user}\0{password}"));
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
        let said = self.ask(line, &auth, &["</success>", "<success", "</failure>"]);
        (line, said)
    }

    /// A session that has requested its roster and is available.
    pub(super) fn bound(&mut self, user: &str, password: &str) -> usize {
        let (line, said) = self.log_in(user, password);
        assert!(said.contains("<success"), "{said}");
        self.ask(line, HEADER, &["</stream:features>"]);
        let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
        self.ask(line, bind, &["id='b'"]);
        self.roster(line);
        self.say(line, "<presence/>");
        self.pass(100_000);
        line
    }

    fn roster(&mut self, line: usize) -> String {
        self.ask(line, "<iq type='get' id='ro'><query xmlns='jabber:iq:roster'/></iq>", &["id='ro'"])
    }

    pub(super) fn command(&mut self, actor: &str, command: Command) -> Reply {
        let home = self.world.home(actor);
        self.world.command(home, 7, command);
        let until = self.world.now_us() + PATIENCE_US;
        while self.replies.is_empty() {
            assert!(self.world.now_us() < until, "no answer");
            self.step();
        }
        self.replies.remove(0).1
    }

    /// The operator changes the settings of all shards.
    fn turn(&mut self, settings: Settings) {
        for shard in 0..settings.shards() {
            self.world.command(ShardId(shard), 8, Command::Turn(Arc::new(settings.clone())));
        }
        let until = self.world.now_us() + PATIENCE_US;
        while self.replies.len() < usize::from(settings.shards()) {
            assert!(self.world.now_us() < until, "no answer");
            self.step();
        }
        self.replies.clear();
    }

    /// The operator issues an invitation; returns the token.
    fn invite(&mut self, actor: &str, new: NewInvitation) -> String {
        let reply = self.command(actor, Command::Invitation(InvitationCommand::Make { actor: actor.into(), new }));
        let Reply::Invited { token, .. } = reply else { panic!("an invitation: {reply:?}") };
        token.into()
    }

    /// Presents a token; returns the answer.
    fn show(&mut self, line: usize, token: &str) -> String {
        let show =
            format!("<iq type='set' id='pa' to='localhost'><preauth xmlns='urn:xmpp:pars:0' token='{token}'/></iq>");
        self.ask(line, &show, &["id='pa'"])
    }

    fn register_on(&mut self, line: usize, user: &str) -> String {
        self.ask(line, &registration(user), &["id='reg'"])
    }

    /// Presents a token and registers on a connection of its own; returns the last answer.
    fn register_by(&mut self, token: &str, user: &str) -> String {
        let line = self.open();
        let said = self.show(line, token);
        if !said.contains("type='result'") {
            return said;
        }
        self.register_on(line, user)
    }

    fn register(&mut self, user: &str) -> String {
        let line = self.open();
        self.register_on(line, user)
    }

    /// The stored invitation with this token.
    fn stored(&self, actor: &str, token: &str) -> Option<Invitation> {
        let id = InvitationId::of(token);
        let mut rows = self.world.disk.rows_of(Table::Invitations, actor);
        rows.find(|(sort, _)| InvitationId::of_sort(sort) == Some(id)).and_then(|(_, row)| Invitation::decode(row))
    }

    fn is_there(&self, user: &str) -> bool {
        self.world.disk.rows_of(Table::Accounts, &format!("{user}@localhost")).next().is_some()
    }
}

fn registration(user: &str) -> String {
    format!(
        "<iq type='set' id='reg'><query xmlns='jabber:iq:register'><username>{user}</username><password>pencil</password></query></iq>"
    )
}

fn new() -> NewInvitation {
    NewInvitation {
        registers: true,
        befriends: false,
        is_named: false,
        is_trusted: true,
        uses: 1,
        life_s: 7 * DAY_S,
        inviter: "".into(),
        most: 0,
    }
}

/// Romeo's, to become a contact and to register.
fn of_romeo() -> NewInvitation {
    NewInvitation { befriends: true, inviter: "romeo@localhost".into(), ..new() }
}

fn good(said: &str) -> bool {
    said.contains("type='result'")
}

/// XEP-0445 3: the feature is offered exactly where tokens are accepted.
#[test]
fn the_stream_feature_says_that_tokens_are_taken_xep0445_3() {
    let feature = "<register xmlns='urn:xmpp:ibr-token:0'/>";
    for (without, offered) in [(0, true), (bits(&["invite"]), false)] {
        let mut settings = settings(1, Rule::Open);
        settings.facts.without = without;
        let mut talk = Talk::with(1, settings);
        let socket = talk.world.connect();
        talk.lines.push(Line { socket, heard: RefCell::default() });
        let features = talk.ask(0, HEADER, &["</stream:features>"]);
        assert_eq!(features.contains(feature), offered, "{features}");
        assert!(features.contains("http://jabber.org/features/iq-register"), "{features}");
        if !offered {
            let said =
                talk.ask(0, "<iq type='set' id='pa'><preauth xmlns='urn:xmpp:pars:0' token='x'/></iq>", &["</stream:"]);
            assert!(said.contains("<not-authorized"), "{said}");
        }
    }
}

/// XEP-0401 6.5, 6.1: a user who registers with a user's invitation is in both rosters, and the
/// inviter sees it at once. XEP-0379 7.2: once.
#[test]
fn who_is_invited_becomes_a_contact_and_nobody_else_comes_in_by_it_xep0401_6_5() {
    everywhere(Rule::Invite, |mut talk| {
        let romeo = talk.bound("romeo", PASSWORD);
        let token = talk.invite("romeo@localhost", of_romeo());
        let said = talk.register_by(&token, "juliet");
        assert!(good(&said), "{said}");
        talk.pass(500_000);
        let pushed = talk.lines[romeo].heard.take();
        assert!(pushed.contains("jid='juliet@localhost' subscription='both'"), "{pushed}");
        assert!(!pushed.contains("type='subscribe'"), "the inviter is not asked: {pushed}");
        let juliet = talk.bound("juliet", "pencil");
        let roster = talk.roster(juliet);
        assert!(roster.contains("jid='romeo@localhost' subscription='both'"), "{roster}");
        let stored = talk.stored("romeo@localhost", &token).expect("it is kept until its time is over");
        assert_eq!((stored.left, stored.claims.len(), &*stored.joined[0]), (0, 0, "juliet@localhost"));
        // XEP-0445 4: used up; the answer says only that it is invalid.
        let again = talk.register_by(&token, "second");
        assert!(again.contains("<item-not-found") && again.contains("used up, revoked or expired"), "{again}");
        assert!(!talk.is_there("second"));
    });
}

/// XEP-0445 4: without a token nobody can register, and both the form and the refusal say why.
#[test]
fn where_registration_takes_an_invitation_nobody_registers_without_one() {
    everywhere(Rule::Invite, |mut talk| {
        let line = talk.open();
        let get = "<iq type='get' id='reg'><query xmlns='jabber:iq:register'/></iq>";
        let form = talk.ask(line, get, &["id='reg'"]);
        assert!(form.contains("<username/>") && form.contains("by invitation only"), "{form}");
        let said = talk.register_on(line, "juliet");
        assert!(said.contains("<not-allowed") && said.contains("by invitation only"), "{said}");
        let token = talk.invite("localhost", new());
        assert!(good(&talk.show(line, &token)));
        let form = talk.ask(line, get, &["id='reg'"]);
        assert!(form.contains("<username/>") && !form.contains("invitation"), "{form}");
        assert!(good(&talk.register_on(line, "juliet")));
        // XEP-0445 4: one registration per use.
        let more = talk.register_on(line, "more");
        assert!(more.contains("by invitation only"), "{more}");
    });
}

/// XEP-0445 4: a failed registration does not use up a token, and its expiry is checked when it is
/// presented, not later.
#[test]
fn a_token_is_used_by_success_alone_and_its_time_is_looked_at_once_xep0445_4() {
    everywhere(Rule::Invite, |mut talk| {
        let token = talk.invite("localhost", NewInvitation { life_s: 60, ..new() });
        let line = talk.open();
        assert!(good(&talk.show(line, &token)));
        let taken = talk.register_on(line, "romeo");
        assert!(taken.contains("<conflict"), "{taken}");
        talk.pass(61_000_000);
        let late = talk.open();
        assert!(talk.show(late, &token).contains("<item-not-found"));
        assert!(good(&talk.register_on(line, "juliet")), "it was not used, and shown in time");
        assert_eq!(talk.stored("localhost", &token).expect("kept").left, 0);
    });
}

/// RFC 6120 13.9.2 by analogy: guessing tokens is charged like guessing passwords.
#[test]
fn guessed_tokens_are_charged_to_the_address() {
    let mut settings = settings(2, Rule::Invite);
    settings.throttle.address_burst = 6;
    settings.throttle.address_refill_ms = 1_000_000;
    let mut talk = Talk::with(5, settings);
    talk.world.peer = Some([192, 0, 2, 7].into());
    let token = talk.invite("localhost", new());
    let mut refused = 0;
    for guess in 0..4 {
        let line = talk.open();
        for n in 0..3 {
            let said = talk.show(line, &token::make([guess * 3 + n; 16], "localhost"));
            refused += u32::from(said.contains("<item-not-found"));
            // As many as failed logins are permitted on one stream (RFC 6120 6.4.5).
            let over = said.contains("<policy-violation") || talk.ended.contains(&talk.lines[line].socket);
            assert_eq!(over, n == 2 && guess < 2, "{guess} {n}: {said}");
        }
    }
    assert_eq!(refused, 6, "as many as there may be failed logins");
    let line = talk.open();
    let said = talk.show(line, &token);
    assert!(said.contains("<resource-constraint") && said.contains("failed logins from this address"), "{said}");
    assert!(talk.log_in("romeo", PASSWORD).1.contains("<temporary-auth-failure"), "logins are held by it, too");
    talk.world.peer = Some([192, 0, 2, 8].into());
    let line = talk.open();
    assert!(good(&talk.show(line, &token)), "others are not");
}

/// XEP-0401 7.2: a name with an invitation is reserved for the invited; and XEP-0445 2.1: the token
/// is for no other name.
#[test]
fn an_invitation_for_a_name_reserves_it_xep0401_7_2() {
    everywhere(Rule::Open, |mut talk| {
        let named = NewInvitation { is_named: true, befriends: true, inviter: "nurse@localhost".into(), ..new() };
        let token = talk.invite("juliet@localhost", named.clone());
        let reply = talk.command(
            "juliet@localhost",
            Command::Invitation(InvitationCommand::Make { actor: "juliet@localhost".into(), new: named.clone() }),
        );
        assert_eq!(reply, Reply::Exists, "one for a name");
        assert_eq!(
            talk.command(
                "romeo@localhost",
                Command::Invitation(InvitationCommand::Make { actor: "romeo@localhost".into(), new: named })
            ),
            Reply::Exists,
            "who is there is not invited"
        );
        let said = talk.register("juliet");
        assert!(said.contains("the name is reserved"), "{said}");
        let other = talk.invite("romeo@localhost", of_romeo());
        let said = talk.register_by(&other, "juliet");
        assert!(said.contains("the name is reserved"), "{said}");
        let said = talk.register_by(&token, "capulet");
        assert!(said.contains("the invitation is for another name"), "{said}");
        assert!(good(&talk.register_by(&token, "juliet")));
        talk.pass(500_000);
        let nurse = talk.bound("nurse", PASSWORD);
        let roster = talk.roster(nurse);
        assert!(roster.contains("jid='juliet@localhost' subscription='both'"), "{roster}");
        // The failed attempt has not used it up.
        assert!(good(&talk.register_by(&other, "capulet")));
    });
}

/// XEP-0401 6.3: an inviter can invite nobody to the name of an administrator, of an inviter, or a
/// name that could pass for the operator's. This is checked when the invitation is redeemed; the
/// operator and administrators may assign such names.
#[test]
fn names_with_rights_are_given_by_the_operator_and_administrators_alone() {
    everywhere(Rule::Open, |mut talk| {
        let named = |inviter: &str| NewInvitation { is_named: true, inviter: inviter.into(), ..new() };
        // Romeo is an inviter. These names are not special yet, except the last.
        let names = ["boss", "usher", "root"];
        let of = |name: &str| format!("{name}@localhost");
        let tokens = names.map(|name| talk.invite(&of(name), named("romeo@localhost")));
        let shown = talk.open();
        assert!(good(&talk.show(shown, &tokens[0])), "shown in time");
        let turn = |talk: &mut Talk, admins: &[&str], inviters: &[&str]| {
            let listed = |names: &[&str]| names.iter().map(|name| of(name).into()).collect();
            talk.turn(Settings { admins: listed(admins), inviters: listed(inviters), ..talk.world.settings().clone() });
        };
        turn(&mut talk, &["boss", "nurse"], &["usher", "romeo"]);
        for (name, token) in names.iter().zip(&tokens) {
            assert!(talk.register_by(token, name).contains("<item-not-found"), "{name}");
            assert!(!good(&talk.register(name)) && !talk.is_there(name), "{name}");
        }
        assert!(talk.register_on(shown, "boss").contains("<conflict"), "who has shown it before is looked at again");
        // The outcome reaches the invitation's home after the answer.
        talk.pass(500_000);
        assert_eq!(talk.stored("boss@localhost", &tokens[0]).expect("kept").left, 1, "it is not used");
        // An unusable invitation reserves nothing: the operator and an administrator assign the
        // names.
        let token = talk.invite("boss@localhost", named(""));
        assert!(good(&talk.register_by(&token, "boss")));
        let token = talk.invite("usher@localhost", named("nurse@localhost"));
        assert!(good(&talk.register_by(&token, "usher")));
        // A user who is removed from the list can no longer assign such names.
        let token = talk.invite("root@localhost", named("nurse@localhost"));
        turn(&mut talk, &["boss"], &["romeo"]);
        assert!(talk.register_by(&token, "root").contains("<item-not-found"));
        turn(&mut talk, &["boss", "nurse"], &["romeo"]);
        assert!(good(&talk.register_by(&token, "root")));
        // The name of a removed administrator is not available to others.
        let gone = talk
            .command("boss@localhost", Command::Account(AccountCommand::Delete { account: "boss@localhost".into() }));
        assert_eq!(gone, Reply::Done(1));
        let token = talk.invite("boss@localhost", named("romeo@localhost"));
        assert!(talk.register_by(&token, "boss").contains("<item-not-found"));
    });
}

/// A reservation ends with its invitation.
#[test]
fn a_name_is_free_again_when_its_invitation_is_over_or_revoked() {
    everywhere(Rule::Open, |mut talk| {
        let named = NewInvitation { is_named: true, life_s: 30, ..new() };
        talk.invite("juliet@localhost", named.clone());
        talk.pass(31_000_000);
        assert!(good(&talk.register("juliet")));
        let token = talk.invite("rosaline@localhost", named);
        let id = InvitationId::of(&token);
        let revoke = || Command::Invitation(InvitationCommand::Revoke { actor: "rosaline@localhost".into(), id });
        assert_eq!(talk.command("rosaline@localhost", revoke()), Reply::Done(1));
        assert_eq!(talk.command("rosaline@localhost", revoke()), Reply::NotFound);
        assert!(talk.register_by(&token, "rosaline").contains("<item-not-found"));
        assert!(good(&talk.register("rosaline")));
    });
}

/// An inviter must exist; invitations are removed with the account, also for the next one of its
/// name.
#[test]
fn an_invitation_of_somebody_who_was_removed_lets_nobody_in() {
    everywhere(Rule::Invite, |mut talk| {
        let own = talk.invite("romeo@localhost", of_romeo());
        let named = NewInvitation { is_named: true, inviter: "romeo@localhost".into(), ..new() };
        let for_name = talk.invite("juliet@localhost", named);
        let shown = talk.open();
        assert!(good(&talk.show(shown, &own)));
        let gone = talk
            .command("romeo@localhost", Command::Account(AccountCommand::Delete { account: "romeo@localhost".into() }));
        assert_eq!(gone, Reply::Done(1));
        for token in [&own, &for_name] {
            assert!(talk.register_by(token, "juliet").contains("<item-not-found"));
        }
        let said = talk.register_on(shown, "juliet");
        assert!(said.contains("<item-not-found"), "also for who has shown it before: {said}");
        let another = talk.invite("localhost", new());
        assert!(good(&talk.register_by(&another, "romeo")));
        assert!(talk.register_by(&own, "juliet").contains("<item-not-found"));
    });
}

/// Two clients register with a single-use token at the same time: exactly one succeeds, whichever
/// is first, on any number of shards.
#[test]
fn of_two_who_register_by_a_token_for_one_exactly_one_does() {
    for shards in 1..=4 {
        for seed in 0..12 {
            let mut talk = Talk::with(seed, settings(shards, Rule::Invite));
            let actor = if seed % 2 == 0 { "localhost" } else { "romeo@localhost" };
            let invitation = if seed % 2 == 0 { new() } else { of_romeo() };
            let token = talk.invite(actor, invitation);
            let lines: Vec<usize> = (0..3).map(|_| talk.open()).collect();
            for line in &lines {
                assert!(good(&talk.show(*line, &token)));
            }
            let names = ["juliet", "rosaline", "paris"];
            for (line, name) in lines.iter().zip(names) {
                talk.say(*line, &registration(name));
            }
            let answers: Vec<String> = lines.iter().map(|line| talk.hear(*line, &["id='reg'"])).collect();
            assert_eq!(answers.iter().filter(|said| good(said)).count(), 1, "{shards} {seed}: {answers:?}");
            let made = names.iter().filter(|name| talk.is_there(name)).count();
            assert_eq!(made, 1);
        }
    }
}

/// The same with a crash at any moment: never two, and if none was created, the token is valid
/// again (XEP-0445 4).
#[test]
fn a_token_is_used_once_over_crashes_and_comes_back_if_nothing_came_of_it() {
    let (mut came_back, mut stayed_used) = (0, 0);
    for shards in [1, 2, 3] {
        for seed in 0..40 {
            let mut talk = Talk::with(seed, settings(shards, Rule::Invite));
            let token = talk.invite("localhost", new());
            let lines: Vec<usize> = (0..2).map(|_| talk.open()).collect();
            for line in &lines {
                assert!(good(&talk.show(*line, &token)));
            }
            let names = ["juliet", "rosaline"];
            for (line, name) in lines.iter().zip(names) {
                talk.say(*line, &registration(name));
            }
            // Keys take up to 3 ms, everything else some tenths.
            talk.pass(seed * 250);
            talk.world.crash();
            let told: Vec<bool> = lines.iter().map(|line| good(&talk.lines[*line].heard.borrow())).collect();
            let made: Vec<&str> = names.into_iter().filter(|name| talk.is_there(name)).collect();
            assert!(made.len() <= 1, "{shards} {seed}: {made:?}");
            for (name, told) in names.iter().zip(told) {
                assert!(!told || made.contains(name), "{shards} {seed}: {name} was told of it");
            }
            let said = talk.register_by(&token, "paris");
            assert_eq!(good(&said), made.is_empty(), "{shards} {seed}: {made:?} {said}");
            let stored = talk.stored("localhost", &token).expect("kept");
            assert_eq!((stored.left, stored.claims.len()), (0, 0), "{shards} {seed}");
            came_back += u32::from(made.is_empty());
            stayed_used += u32::from(!made.is_empty());
        }
    }
    assert!(came_back > 5 && stayed_used > 5, "{came_back} {stayed_used}");
}

/// The same with lost letters between shards: the client gets no answer, nobody is registered
/// twice, and a lost use is restored after a while.
#[test]
fn a_token_is_used_once_whatever_letters_are_lost() {
    let mut lost = 0;
    for seed in 0..120 {
        let mut talk = Talk::with(seed, settings(3, Rule::Invite));
        let token = talk.invite("romeo@localhost", of_romeo());
        let lines: Vec<usize> = (0..3).map(|_| talk.open()).collect();
        for line in &lines {
            assert!(good(&talk.show(*line, &token)));
        }
        talk.world.plant = Some(Plant::LostBatch);
        let names = ["juliet", "rosaline", "helena"];
        for (line, name) in lines.iter().zip(names) {
            talk.say(*line, &registration(name));
        }
        talk.pass(5_000_000);
        talk.world.plant = None;
        let answers: Vec<String> = lines.iter().map(|line| talk.lines[*line].heard.take()).collect();
        let made: Vec<&str> = names.into_iter().filter(|name| talk.is_there(name)).collect();
        assert!(made.len() <= 1, "{seed}: {made:?}");
        assert!(answers.iter().filter(|said| good(said)).count() <= made.len(), "{seed}: {answers:?}");
        lost += u32::from(answers.iter().any(String::is_empty));
        talk.pass(INVITATION_CLAIM_S * 1_000_000);
        let said = talk.register_by(&token, "paris");
        assert_eq!(good(&said), made.is_empty(), "{seed}: {made:?} {said}");
    }
    assert!(lost > 0, "nothing was lost");
}

/// XEP-0379 3.4, 3.5: a request with a valid token is granted and answered without the user, who
/// may be absent.
#[test]
fn a_request_with_a_token_makes_both_contacts_at_once_xep0379_3_5() {
    everywhere(Rule::Open, |mut talk| {
        let contact = NewInvitation { registers: false, ..of_romeo() };
        let token = talk.invite("romeo@localhost", contact);
        let line = talk.open();
        assert!(talk.show(line, &token).contains("<item-not-found"), "it is for contacts alone");
        let subscribe = |token: &str| {
            format!(
                "<presence to='romeo@localhost' type='subscribe'><preauth xmlns='urn:xmpp:pars:0' token='{token}'/></presence>\
                 <presence to='romeo@localhost' type='subscribed'/>"
            )
        };
        let tybalt = talk.bound("tybalt", PASSWORD);
        talk.say(tybalt, &subscribe(&token));
        talk.pass(500_000);
        let roster = talk.roster(tybalt);
        assert!(roster.contains("jid='romeo@localhost' subscription='both'"), "{roster}");
        let romeo = talk.bound("romeo", PASSWORD);
        let roster = talk.roster(romeo);
        assert!(roster.contains("jid='tybalt@localhost' subscription='both'"), "{roster}");
        assert_eq!(talk.stored("romeo@localhost", &token).expect("kept").left, 0);
        // XEP-0379 4.1: with a used, unknown or malformed token it is an ordinary request.
        for (n, bad) in [token.as_str(), "unknown", "aaaaaaaaaaaaaaaaaaaaaaaaaaojxw2zlp"].into_iter().enumerate() {
            let nurse = talk.bound("nurse", PASSWORD);
            talk.say(nurse, &subscribe(bad));
            let asked = talk.hear(romeo, &["type='subscribe'"]);
            assert!(asked.contains("from='nurse@localhost'"), "{n}: {asked}");
            talk.say(romeo, "<presence to='nurse@localhost' type='unsubscribed'/>");
            talk.pass(500_000);
            assert!(!talk.roster(romeo).contains("nurse@localhost"));
        }
    });
}

/// XEP-0191 3.3: a blocked user does not become a contact with a token, and does not use it up.
#[test]
fn who_is_blocked_has_no_use_of_a_token() {
    everywhere(Rule::Open, |mut talk| {
        let token = talk.invite("romeo@localhost", of_romeo());
        let romeo = talk.bound("romeo", PASSWORD);
        let block =
            "<iq type='set' id='bl'><block xmlns='urn:xmpp:blocking'><item jid='tybalt@localhost'/></block></iq>";
        talk.ask(romeo, block, &["id='bl'"]);
        let tybalt = talk.bound("tybalt", PASSWORD);
        talk.say(
            tybalt,
            &format!("<presence to='romeo@localhost' type='subscribe'><preauth xmlns='urn:xmpp:pars:0' token='{token}'/></presence>"),
        );
        talk.pass(500_000);
        let roster = talk.roster(romeo);
        assert!(!roster.contains("tybalt"), "{roster}");
        assert_eq!(talk.stored("romeo@localhost", &token).expect("kept").left, 1);
    });
}

const INVITE: &str = "<iq type='set' id='c' to='localhost'><command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:invite#invite' action='execute'/></iq>";

/// XEP-0401 6.1: the command returns an address at once, and the number per user is limited.
#[test]
fn a_user_makes_invitations_by_command_and_not_without_end_xep0401_6_1() {
    for (may, ibr) in [(Invitations::Contacts, false), (Invitations::Accounts, true)] {
        let mut settings = settings(2, Rule::Invite);
        settings.invitations = may;
        settings.invitation_page = Some("https://localhost/invite/#{token}".into());
        let mut talk = Talk::with(3, settings);
        let romeo = talk.bound("romeo", PASSWORD);
        let list = "<iq type='get' id='d' to='localhost'><query xmlns='http://jabber.org/protocol/disco#items' node='http://jabber.org/protocol/commands'/></iq>";
        let listed = talk.ask(romeo, list, &["id='d'"]);
        assert!(listed.contains("node='urn:xmpp:invite#invite'") && !listed.contains("create-account"), "{listed}");
        let said = talk.ask(romeo, INVITE, &["id='c'"]);
        let token =
            said.split("preauth=").nth(1).and_then(|rest| rest.split(['<', ';']).next()).expect("a token").to_owned();
        let ending = if ibr { ";ibr=y" } else { "" };
        assert!(
            said.contains(&format!("<value>xmpp:romeo@localhost?roster;preauth={token}{ending}</value>")),
            "{said}"
        );
        assert!(said.contains(&format!("<value>https://localhost/invite/#{token}</value>")), "{said}");
        // 2026-01-01 plus seven days.
        assert!(said.contains("<value>2026-01-08T00:00:0") && said.contains("status='completed'"), "{said}");
        assert!(said.contains("<value>urn:xmpp:invite#invitation</value>"), "{said}");
        assert_eq!(good(&talk.register_by(&token, "juliet")), ibr);
        for _ in 1..INVITATIONS_USER_MAX {
            assert!(talk.ask(romeo, INVITE, &["id='c'"]).contains("completed"));
        }
        // Used invitations count, too: an inviter cannot let in any number of users.
        let said = talk.ask(romeo, INVITE, &["id='c'"]);
        assert!(said.contains("<resource-constraint") && said.contains("its limit of invitations"), "{said}");
        let create = INVITE.replace("#invite'", "#create-account'");
        assert!(talk.ask(romeo, &create, &["id='c'"]).contains("<forbidden"));
    }
    let mut settings = settings(1, Rule::Open);
    settings.invitations = Invitations::Off;
    let mut talk = Talk::with(1, settings);
    let romeo = talk.bound("romeo", PASSWORD);
    assert!(talk.ask(romeo, INVITE, &["id='c'"]).contains("<forbidden"));
}

/// RFC 6120 8.4: with invitations switched off, there is no command for them, and a token has no
/// effect.
#[test]
fn switched_off_invitations_are_not_there() {
    let mut settings = settings(1, Rule::Open);
    settings.facts.without = bits(&["invite"]);
    let mut talk = Talk::with(1, settings);
    let token = talk.invite("romeo@localhost", of_romeo());
    let romeo = talk.bound("romeo", PASSWORD);
    assert!(talk.ask(romeo, INVITE, &["id='c'"]).contains("<item-not-found"));
    let list = "<iq type='get' id='d' to='localhost'><query xmlns='http://jabber.org/protocol/disco#items' node='http://jabber.org/protocol/commands'/></iq>";
    assert!(!talk.ask(romeo, list, &["id='d'"]).contains("invite"));
    let tybalt = talk.bound("tybalt", PASSWORD);
    talk.say(
        tybalt,
        &format!(
            "<presence to='romeo@localhost' type='subscribe'><preauth xmlns='urn:xmpp:pars:0' token='{token}'/></presence>"
        ),
    );
    assert!(talk.hear(romeo, &["type='subscribe'"]).contains("from='tybalt@localhost'"));
}

/// Expired rows are removed when the next invitation is issued.
#[test]
fn invitations_that_are_over_make_room() {
    let mut settings = settings(1, Rule::Open);
    settings.invitation_s = 1;
    let mut talk = Talk::with(1, settings);
    let romeo = talk.bound("romeo", PASSWORD);
    let rows = |talk: &Talk| talk.world.disk.rows_of(Table::Invitations, "romeo@localhost").count();
    for _ in 0..INVITATIONS_USER_MAX {
        assert!(talk.ask(romeo, INVITE, &["id='c'"]).contains("completed"));
    }
    talk.pass(2_000_000);
    assert!(talk.ask(romeo, INVITE, &["id='c'"]).contains("completed"), "their time is over");
    assert_eq!(rows(&talk), INVITATIONS_USER_MAX + 1);
    let end = talk.world.now_us() + (INVITATION_KEPT_S + 2) * 1_000_000;
    while talk.world.now_us() < end {
        talk.pass(200_000_000);
        talk.say(romeo, " ");
    }
    let romeo = talk.bound("romeo", PASSWORD);
    assert!(talk.ask(romeo, INVITE, &["id='c'"]).contains("completed"));
    talk.pass(100_000);
    assert_eq!(rows(&talk), 1);
}

/// Invitations to names count at the inviter's own home, together with those without a name: also
/// refused ones, and until they expire.
#[test]
fn names_that_an_inviter_has_invited_to_count_at_its_home() {
    const MOST: usize = 4;
    everywhere(Rule::Invite, |mut talk| {
        let name = |talk: &mut Talk, account: &str| {
            let account = format!("{account}@localhost").into();
            let inviter = "romeo@localhost".into();
            talk.command(
                "romeo@localhost",
                Command::Invitation(InvitationCommand::MakeNamed { inviter, account, life_s: 60, most: MOST }),
            )
        };
        let own = |talk: &mut Talk| {
            let new = NewInvitation { life_s: 60, most: MOST, ..of_romeo() };
            talk.command(
                "romeo@localhost",
                Command::Invitation(InvitationCommand::Make { actor: "romeo@localhost".into(), new }),
            )
        };
        let rows = |talk: &Talk| talk.world.disk.rows_of(Table::Invitations, "romeo@localhost").count();
        for account in ["juliet", "rosaline", "tybalt"] {
            assert_eq!(name(&mut talk, account), Reply::Done(1));
        }
        assert!(matches!(own(&mut talk), Reply::Invited { .. }));
        assert_eq!((name(&mut talk, "paris"), own(&mut talk)), (Reply::Busy, Reply::Busy));
        assert_eq!(rows(&talk), MOST);
        // The operator has no limit.
        talk.invite("paris@localhost", NewInvitation { is_named: true, inviter: "romeo@localhost".into(), ..new() });
        talk.pass(61_000_000);
        assert_eq!(name(&mut talk, "paris"), Reply::Done(1), "the time of the others is over");
        let nobody = Command::Invitation(InvitationCommand::MakeNamed {
            inviter: "ghost@localhost".into(),
            account: "paris@localhost".into(),
            life_s: 60,
            most: MOST,
        });
        assert_eq!(talk.command("ghost@localhost", nobody), Reply::NotFound);
    });
}

/// The sweep removes whatever has expired, even if it is not requested again: names, a user's
/// invitations, accounts that wait.
#[test]
fn what_is_over_is_swept() {
    everywhere(Rule::Approval, |mut talk| {
        let life = |life_s: u64| NewInvitation { life_s, ..new() };
        for (name, life_s) in [("juliet", 1), ("paris", 100_000)] {
            talk.invite(&format!("{name}@localhost"), NewInvitation { is_named: true, ..life(life_s) });
        }
        talk.invite("localhost", life(1));
        talk.invite("localhost", life(100_000));
        talk.invite("romeo@localhost", NewInvitation { life_s: 1, ..of_romeo() });
        for (name, life_s) in [("a", 1), ("b", 100_000)] {
            let account = format!("{name}@localhost").into();
            let inviter = "romeo@localhost".into();
            talk.command(
                "romeo@localhost",
                Command::Invitation(InvitationCommand::MakeNamed { inviter, account, life_s, most: 9 }),
            );
        }
        assert!(good(&talk.register("waits")));
        talk.turn(Settings { applicants_s: 60, ..talk.world.settings().clone() });
        let sweep = |talk: &mut Talk| {
            for actor in ["juliet@localhost", "paris@localhost", "localhost", "romeo@localhost"] {
                let sweep = Command::Invitation(InvitationCommand::Sweep { actors: vec![actor.into()] });
                assert_eq!(talk.command(actor, sweep), Reply::Done(1));
            }
            talk.pass(1_000_000);
            ["juliet@localhost", "paris@localhost", "localhost", "romeo@localhost"]
                .map(|actor| talk.world.disk.rows_of(Table::Invitations, actor).count())
        };
        assert_eq!((sweep(&mut talk), talk.is_there("waits")), ([1, 1, 3, 3], true));
        let end = talk.world.now_us() + (INVITATION_KEPT_S + 2) * 1_000_000;
        while talk.world.now_us() < end {
            talk.pass(200_000_000);
        }
        assert_eq!((sweep(&mut talk), talk.is_there("waits")), ([0, 1, 1, 1], false));
    });
}

/// RFC 2142: names that stand for an operator cannot be registered, nor can names that look like
/// them.
#[test]
fn reserved_names_cannot_be_registered() {
    everywhere(Rule::Open, |mut talk| {
        for name in ["admin", "r00t", "\u{430}dmin"] {
            let said = talk.register(name);
            assert!(
                said.contains("<not-acceptable") && said.contains("the name is reserved, or looks like a reserved one"),
                "{said}"
            );
        }
        assert!(good(&talk.register("juliet")));
        // The operator may assign them.
        let token = talk.invite("root@localhost", NewInvitation { is_named: true, ..new() });
        assert!(good(&talk.register_by(&token, "root")));
    });
}

/// Accounts that wait for approval exist but cannot be used; administrators are notified; an
/// approved user can log in.
#[test]
fn an_account_waits_until_an_administrator_has_decided() {
    everywhere(Rule::Approval, |mut talk| {
        let nurse = talk.bound("nurse", PASSWORD);
        assert!(good(&talk.register("juliet")));
        let told = talk.hear(nurse, &["</message>"]);
        assert!(told.contains("from='localhost'") && told.contains("juliet@localhost"), "{told}");
        let (_, said) = talk.log_in("juliet", "pencil");
        assert!(said.contains("<account-disabled/>") && said.contains("waits for an administrator"), "{said}");
        let (_, said) = talk.log_in("juliet", "wrong");
        assert!(said.contains("<not-authorized/>"), "who does not know the password is not told: {said}");
        assert!(talk.register("juliet").contains("<conflict"), "the name is taken");
        // Not again for each of a flood.
        assert!(good(&talk.register("rosaline")));
        talk.pass(1_000_000);
        assert!(!talk.lines[nurse].heard.borrow().contains("<message"));
        let decide = |user: &str, approve| {
            Command::Account(AccountCommand::Decide { account: format!("{user}@localhost").into(), approve })
        };
        assert_eq!(talk.command("juliet@localhost", decide("juliet", true)), Reply::Done(1));
        assert_eq!(talk.command("juliet@localhost", decide("juliet", true)), Reply::NotFound, "it does not wait");
        assert_eq!(talk.command("rosaline@localhost", decide("rosaline", false)), Reply::Done(1));
        assert_eq!(talk.command("romeo@localhost", decide("romeo", false)), Reply::NotFound, "nobody else goes");
        assert!(talk.log_in("juliet", "pencil").1.contains("<success"));
        talk.pass(500_000);
        assert!(!talk.is_there("rosaline") && talk.is_there("romeo"));
        assert_eq!(talk.world.disk.rows_of(Table::Invitations, "localhost").count(), 0);
        let until = talk.world.now_us() + u64::from(APPLICANTS_TOLD_S) * 1_000_000;
        while talk.world.now_us() < until {
            talk.pass(100_000_000);
            talk.say(nurse, " ");
        }
        let told = talk.hear(nurse, &["</message>"]);
        assert!(told.contains("rosaline@localhost"), "who came meanwhile is told of later: {told}");
    });
}

/// Accounts that wait are limited in number and time.
#[test]
fn accounts_that_wait_are_few_and_not_for_ever() {
    for shards in 1..=3 {
        let mut settings = settings(shards, Rule::Approval);
        (settings.applicants_max, settings.applicants_s) = (3, 60);
        let mut talk = Talk::with(2, settings);
        for n in 0..3 {
            assert!(good(&talk.register(&format!("waits{n}"))));
        }
        let said = talk.register("more");
        assert!(
            said.contains("<resource-constraint") && said.contains("too many accounts wait for approval"),
            "{said}"
        );
        talk.pass(61_000_000);
        assert!(good(&talk.register("more")), "those who have waited too long make room");
        talk.pass(500_000);
        assert!((0..3).all(|n| !talk.is_there(&format!("waits{n}"))));
        // One of them is available again.
        assert!(good(&talk.register("waits1")));
        // A password set by the operator does not approve the account.
        let keys =
            throng_engine::store::account::Credentials::derive("other", 4096, b"0123456789abcdef", 0).expect("keys");
        let put = Command::Account(AccountCommand::Put {
            account: "waits1@localhost".into(),
            credentials: Box::new(keys),
            mode: throng_engine::io::PutMode::Change,
        });
        assert_eq!(talk.command("waits1@localhost", put), Reply::Done(0));
        assert!(talk.log_in("waits1", "other").1.contains("<account-disabled/>"));
    }
}

/// A user invited by the operator, or by somebody who may approve, does not wait; a user invited by
/// others does.
#[test]
fn an_invitation_stands_for_approval_if_its_maker_may_approve() {
    everywhere(Rule::Approval, |mut talk| {
        let trusted = talk.invite("localhost", new());
        assert!(good(&talk.register_by(&trusted, "juliet")));
        assert!(talk.log_in("juliet", "pencil").1.contains("<success"));
        let other = talk.invite("romeo@localhost", NewInvitation { is_trusted: false, ..of_romeo() });
        assert!(talk.register_by(&other, "romeo").contains("<conflict"));
        assert!(good(&talk.register_by(&other, "rosaline")), "what has failed has not used it");
        let (_, said) = talk.log_in("rosaline", "pencil");
        assert!(said.contains("<account-disabled/>"), "{said}");
        let stored = talk.stored("romeo@localhost", &other).expect("kept");
        assert_eq!((stored.left, stored.claims.len()), (0, 0));
        let decide = Command::Account(AccountCommand::Decide { account: "rosaline@localhost".into(), approve: true });
        assert_eq!(talk.command("rosaline@localhost", decide), Reply::Done(1));
        let rosaline = talk.bound("rosaline", "pencil");
        assert!(talk.roster(rosaline).contains("jid='romeo@localhost' subscription='both'"));
    });
}
