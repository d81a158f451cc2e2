//! A removed account stays removed, whatever was in progress (XEP-0077 3.2): connections that have
//! authenticated and not bound, sessions that could be resumed, passwords whose keys are being
//! derived; and every answer is durable.

use std::cell::RefCell;

use base64::Engine as _;
use throng_engine::id::ShardId;
use throng_engine::io::{AccountCommand, Command, PutMode, Reply};
use throng_engine::settings::Settings;
use throng_engine::store::account::Credentials;
use throng_engine::store::{Batch, Table};
use throng_sim::net::SocketId;
use throng_sim::random::Random;
use throng_sim::world::{Occurrence, PASSWORD, Pace, World};

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const REMOVE: &str = "<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>";
/// Limit of any wait, microseconds.
const PATIENCE_US: u64 = 20_000_000;

/// A connection and its input.
struct Line {
    socket: SocketId,
    heard: RefCell<String>,
}

/// A world with connections that are used one after the other.
struct Talk {
    world: World,
    lines: Vec<Line>,
    ended: Vec<SocketId>,
    replies: Vec<(u64, Reply)>,
}

/// How an account is removed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// By one of its own sessions (XEP-0077 3.2).
    Itself,
    /// By the operator.
    Operator,
}

impl Talk {
    fn new(seed: u64, shards: u16, pace: Pace) -> Talk {
        // An authenticated client may wait for long.
        let settings = Settings { preauth_s_max: 600, ..Settings::new("localhost", shards, [0; 32], 0) };
        let mut world = World::new(seed, settings, pace, &["romeo", "juliet"]);
        world.listener.registration = true;
        Talk { world, lines: Vec::new(), ended: Vec::new(), replies: Vec::new() }
    }

    fn step(&mut self) {
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

    /// Lets time pass.
    fn pass(&mut self, us: u64) {
        let until = self.world.now_us() + us;
        while self.world.now_us() < until {
            self.step();
        }
    }

    fn say(&mut self, line: usize, text: &str) {
        self.world.write(self.lines[line].socket, text.as_bytes());
    }

    /// Waits until a connection has received one of these, or has ended; returns what was received.
    fn hear(&mut self, line: usize, signs: &[&str]) -> String {
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

    fn ask(&mut self, line: usize, text: &str, signs: &[&str]) -> String {
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

    /// Presents a password; returns the server's verdict.
    fn show(&mut self, line: usize, user: &str, password: &str) -> String {
        let plain = base64::engine::general_purpose::STANDARD.encode(format!("\0{user}\0{password}"));
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
        self.ask(line, &auth, &["<success", "<failure"])
    }

    fn knows(&mut self, user: &str, password: &str) -> bool {
        let line = self.open();
        self.show(line, user, password).contains("<success")
    }

    /// A connection that has authenticated and done nothing more.
    fn authenticated(&mut self, user: &str, password: &str) -> usize {
        let line = self.open();
        let said = self.show(line, user, password);
        assert!(said.contains("<success"), "{said}");
        line
    }

    /// Opens the second stream and requests a session; returns the server's answer.
    fn bind(&mut self, line: usize) -> String {
        self.ask(line, HEADER, &["</stream:features>", "<stream:error>"]);
        let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
        self.ask(line, bind, &["id='b'", "<stream:error>"])
    }

    fn bound(&mut self, user: &str, password: &str) -> usize {
        let line = self.authenticated(user, password);
        let said = self.bind(line);
        assert!(said.contains("<jid>"), "{said}");
        line
    }

    fn command(&mut self, token: u64, user: &str, command: Command) -> Reply {
        let home = self.world.home(&format!("{user}@localhost"));
        self.world.command(home, token, command);
        let until = self.world.now_us() + PATIENCE_US;
        while !self.replies.iter().any(|(of, _)| *of == token) {
            assert!(self.world.now_us() < until, "no answer");
            self.step();
        }
        let at = self.replies.iter().position(|(of, _)| *of == token).expect("it is there");
        self.replies.remove(at).1
    }

    fn remove(&mut self, user: &str, password: &str, by: By) {
        match by {
            By::Itself => {
                let line = self.bound(user, password);
                let said = self.ask(line, REMOVE, &["id='gone'"]);
                assert!(said.contains("type='result'"), "{said}");
            }
            By::Operator => {
                let reply = self.command(
                    77,
                    user,
                    Command::Account(AccountCommand::Delete { account: format!("{user}@localhost").into() }),
                );
                assert_eq!(reply, Reply::Done(1));
            }
        }
    }

    fn register(&mut self, user: &str, password: &str) -> String {
        let line = self.open();
        let set = format!(
            "<iq type='set' id='reg'><query xmlns='jabber:iq:register'><username>{user}</username><password>{password}</password></query></iq>"
        );
        self.ask(line, &set, &["id='reg'"])
    }

    /// A user's rows in all tables except the server's own.
    fn rows(&self, user: &str) -> Vec<(Table, Vec<u8>)> {
        let bare = format!("{user}@localhost");
        let tables = Table::ALL.into_iter().filter(|table| *table != Table::Meta);
        tables
            .flat_map(|table| {
                let rows = self.world.disk.rows_of(table, &bare);
                rows.map(|(sort, _)| (table, sort.to_vec())).collect::<Vec<_>>()
            })
            .collect()
    }
}

fn change(password: &str) -> String {
    format!(
        "<iq type='set' id='pw'><query xmlns='jabber:iq:register'><username>romeo</username><password>{password}</password></query></iq>"
    )
}

/// All ways of removal, on one shard and on several, so that connections are local and remote.
fn everywhere(mut play: impl FnMut(&mut Talk, By)) {
    for by in [By::Itself, By::Operator] {
        for shards in 1..=3 {
            for seed in 0..6 {
                play(&mut Talk::new(seed, shards, Pace::default()), by);
            }
        }
    }
}

#[test]
fn who_has_authenticated_has_no_session_of_an_account_that_was_removed_since() {
    everywhere(|talk, by| {
        let ghost = talk.authenticated("romeo", PASSWORD);
        talk.remove("romeo", PASSWORD, by);
        let said = talk.bind(ghost);
        assert!(said.contains("<not-authorized"), "{said}");
        talk.say(ghost, &change("ghost"));
        talk.pass(2_000_000);
        assert_eq!(talk.rows("romeo"), []);
        assert!(!talk.knows("romeo", "ghost") && !talk.knows("romeo", PASSWORD));
    });
}

#[test]
fn who_has_authenticated_is_a_stranger_to_the_next_account_of_the_name() {
    everywhere(|talk, by| {
        let ghost = talk.authenticated("romeo", PASSWORD);
        // Its stream is already open: only the bind is left.
        let other = talk.authenticated("romeo", PASSWORD);
        talk.ask(other, HEADER, &["</stream:features>"]);
        talk.remove("romeo", PASSWORD, by);
        let said = talk.register("romeo", "the next");
        assert!(said.contains("type='result'"), "{said}");
        let next = talk.bound("romeo", "the next");
        talk.ask(next, "<presence/>", &["<presence"]);
        let said = talk.bind(ghost);
        assert!(said.contains("<not-authorized"), "{said}");
        let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
        let said = talk.ask(other, bind, &["id='b'", "<stream:error>"]);
        assert!(said.contains("<not-authorized"), "{said}");
        assert!(talk.knows("romeo", "the next") && !talk.knows("romeo", PASSWORD));
    });
}

#[test]
fn a_session_is_not_resumed_once_its_account_is_removed_xep0198_5() {
    everywhere(|talk, by| {
        let line = talk.bound("romeo", PASSWORD);
        let enabled = talk.ask(line, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>", &["<enabled"]);
        let previd = enabled.split_once(" id='").expect("an id").1.split('\'').next().expect("an id").to_owned();
        let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>");
        let late = talk.authenticated("romeo", PASSWORD);
        talk.world.abort(talk.lines[line].socket);
        talk.pass(100_000);
        talk.remove("romeo", PASSWORD, by);
        talk.ask(late, HEADER, &["</stream:features>", "<stream:error>"]);
        let said = talk.ask(late, &resume, &["<failed", "<stream:error>", "<resumed"]);
        assert!(!said.contains("<resumed"), "{said}");
        talk.register("romeo", "the next");
        let next = talk.authenticated("romeo", "the next");
        talk.ask(next, HEADER, &["</stream:features>"]);
        let said = talk.ask(next, &resume, &["<failed", "<resumed"]);
        assert!(said.contains("<item-not-found"), "{said}");
    });
}

#[test]
fn a_password_whose_keys_were_being_derived_is_not_written_after_the_removal() {
    for shards in 1..=3 {
        for (seed, registered) in (0..12).map(|seed| (seed, seed % 2 == 0)) {
            // Deriving keys takes a second: the removal happens in between.
            let mut talk = Talk::new(seed, shards, Pace { job_us: 1_000_000, ..Pace::default() });
            let line = talk.bound("romeo", PASSWORD);
            talk.say(line, &change("late"));
            talk.pass(5_000);
            if seed % 3 == 0 {
                talk.ask(line, REMOVE, &["id='gone'"]);
            } else {
                talk.remove("romeo", PASSWORD, By::Operator);
            }
            if registered {
                talk.register("romeo", "the next");
            }
            talk.pass(5_000_000);
            assert!(!talk.knows("romeo", "late"));
            assert_eq!(talk.knows("romeo", "the next"), registered);
            assert_eq!(talk.rows("romeo").is_empty(), !registered);
        }
    }
}

#[test]
fn an_operators_change_that_crosses_a_removal_does_not_bring_the_account_back() {
    for (shards, seed) in (1..=3).flat_map(|shards| (0..20).map(move |seed| (shards, seed))) {
        let mut talk = Talk::new(seed, shards, Pace { read_us: 20_000, ..Pace::default() });
        let line = talk.bound("romeo", PASSWORD);
        let home = talk.world.home("romeo@localhost");
        let row = talk.world.disk.rows_of(Table::Accounts, "romeo@localhost").next().expect("an account").1.to_vec();
        talk.say(line, REMOVE);
        talk.pass(seed * 1_000);
        talk.world.command(home, 5, put(&row));
        talk.pass(1_000_000);
        assert_eq!(talk.rows("romeo"), [], "seed {seed} on {shards} shards");
    }
}

#[test]
fn what_is_answered_of_a_removal_is_durable() {
    for by in [By::Itself, By::Operator] {
        for seed in 0..40 {
            // The roster is read before contacts are notified: the last step of a removal is some
            // turns later.
            let pace = Pace { read_us: 300_000, commit_us: 50_000, ..Pace::default() };
            let mut talk = Talk::new(seed, 1 + (seed % 3) as u16, pace);
            talk.remove("romeo", PASSWORD, by);
            talk.world.crash();
            talk.pass(1_000_000);
            assert_eq!(talk.rows("romeo"), [], "{by:?}, seed {seed}");
            assert!(!talk.knows("romeo", PASSWORD), "{by:?}, seed {seed}");
        }
    }
}

#[test]
fn a_session_ends_when_its_account_is_found_missing() {
    let mut talk = Talk::new(1, 1, Pace::default());
    let line = talk.bound("romeo", PASSWORD);
    talk.ask(line, "<presence/>", &["<presence"]);
    talk.ask(line, "<presence type='unavailable'/>", &["<presence"]);
    // The cached data of the account is dropped.
    talk.pass(120_000_000);
    let mut batch = Batch::new();
    batch.delete_actor(Table::Accounts, b"romeo@localhost");
    talk.world.disk.submit(batch);
    talk.world.disk.commit(1);
    let said = talk.ask(line, "<message to='romeo@localhost'><body>to myself</body></message>", &["<stream:error>"]);
    assert!(said.contains("<not-authorized"), "{said}");
    let reads = |talk: &Talk| talk.world.shard(ShardId(0)).counters().reads.get();
    let before = reads(&talk);
    talk.pass(5_000_000);
    assert!(reads(&talk) <= before + 10, "no reads go on for ever");
}

/// The operator sets another password for the account.
fn put(row: &[u8]) -> Command {
    let credentials = Box::new(Credentials::decode(row).expect("a record"));
    Command::Account(AccountCommand::Put { account: "romeo@localhost".into(), credentials, mode: PutMode::Change })
}

/// One name through a random life: created, given other passwords, removed, and the process killed
/// at any moment. Every answer holds after each crash, and a client that authenticated before a
/// removal gets nothing after it.
fn life(seed: u64) {
    let mut random = Random::new(seed);
    let mut pace = Pace::default();
    (pace.read_us, pace.commit_us) = (random.range(100, 40_000), random.range(100, 60_000));
    (pace.job_us, pace.letters_us) = (random.range(100, 100_000), random.range(10, 5_000));
    let mut talk = Talk::new(seed, 1 + (seed % 3) as u16, pace);
    let (mut there, mut removals) = (Some(PASSWORD.to_owned()), 0u32);
    // Authenticated connections, each with the number of removals before.
    let mut ghosts: Vec<(usize, u32)> = Vec::new();
    for turn in 0..14 {
        // An account may change its password once every ten seconds.
        talk.pass(10_000_000);
        let fresh = format!("password {turn}");
        let by = if random.chance(500) { By::Itself } else { By::Operator };
        match (random.below(7), there.clone()) {
            (0 | 1, None) => {
                let said = talk.register("romeo", &fresh);
                assert!(said.contains("type='result'"), "{said}");
                there = Some(fresh);
            }
            (0, Some(_)) => {
                let said = talk.register("romeo", &fresh);
                assert!(said.contains("<conflict"), "{said}");
            }
            (1, Some(password)) => {
                let line = talk.bound("romeo", &password);
                let said = talk.ask(line, &change(&fresh), &["id='pw'"]);
                assert!(said.contains("type='result'"), "{said}");
                there = Some(fresh);
            }
            (2, Some(password)) => {
                talk.remove("romeo", &password, by);
                (there, removals) = (None, removals + 1);
            }
            // The process dies during a removal, sooner or later: the removal happens completely or
            // not at all.
            (3, Some(password)) => {
                let line = talk.bound("romeo", &password);
                talk.say(line, &change(&fresh));
                talk.say(line, REMOVE);
                talk.pass(random.below(200_000));
                let answered = talk.lines[line].heard.borrow().contains("id='gone'");
                talk.world.crash();
                ghosts.clear();
                if talk.rows("romeo").is_empty() {
                    there = None;
                } else {
                    assert!(!answered, "it was answered, and undone");
                    let still = if talk.knows("romeo", &password) { password } else { fresh };
                    there = Some(still);
                }
            }
            (4, Some(password)) => ghosts.push((talk.authenticated("romeo", &password), removals)),
            (5, _) if !ghosts.is_empty() => {
                let (line, before) = ghosts.swap_remove(random.index(ghosts.len()));
                let said = talk.bind(line);
                let own = before == removals && there.is_some();
                assert_eq!(said.contains("<jid>"), own, "{said}");
            }
            _ => {
                talk.world.crash();
                ghosts.clear();
            }
        }
        talk.pass(random.below(1_000_000));
        match &there {
            Some(password) => assert!(talk.knows("romeo", password)),
            None => assert_eq!(talk.rows("romeo"), []),
        }
    }
}

#[test]
fn a_name_keeps_what_was_answered_through_crashes() {
    for seed in 0..150 {
        life(seed);
    }
}
