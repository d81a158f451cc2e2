//! Two users subscribe to each other and unsubscribe, repeatedly, each step after its client has
//! seen the effects of the one before: like Smack's tests (`IntegrationTestRosterUtil`). Every
//! push, presence and item must arrive, and what one home sends about its user must arrive in order
//! (RFC 6120 10.1).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use throng_engine::settings::Settings;
use throng_sim::net::SocketId;
use throng_sim::random::Random;
use throng_sim::world::{Occurrence, PASSWORD, Pace, Plant, World};
use throng_sim::xml::{Item, Node, Reader};

const STREAM: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
const INFO: &str = "http://jabber.org/protocol/disco#info";
/// Simulated time limit for an answer, microseconds.
const SOON_US: u64 = 5_000_000;

/// Input about the other user, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Heard {
    /// `subscribe`, `subscribed`, `unsubscribe`, `unsubscribed`.
    Kind(String),
    Available,
    Unavailable,
    /// The item's subscription, with `+` while a request is pending; `remove`.
    Push(String),
    /// The id of a published item.
    Event(String),
    Result(String),
}

struct Party {
    name: &'static str,
    socket: SocketId,
    reader: Reader,
    /// According to the pushes.
    roster: BTreeMap<String, String>,
    heard: Vec<Heard>,
    /// Everything before this was examined already.
    seen: usize,
    requests: u32,
    /// A number that distinguishes the client's capabilities, besides its interests.
    kind: u64,
    wants: bool,
    approves: bool,
}

impl Party {
    fn bare(&self) -> String {
        format!("{}@localhost", self.name)
    }

    /// The client's capabilities answer and its hash (XEP-0115 5.1).
    fn capabilities(&self, wants: bool) -> (String, String) {
        let identity = format!("client/pc//{}", self.kind);
        let (feature, var) = match wants {
            true => ("n+notify<", "<feature var='n+notify'/>"),
            false => ("", ""),
        };
        let ver = STANDARD.encode(Sha1::digest(format!("{identity}<{feature}")));
        let query =
            format!("<query xmlns='{INFO}'><identity category='client' type='pc' name='{}'/>{var}</query>", self.kind);
        (ver, query)
    }
}

struct Scene {
    world: World,
    both: [Party; 2],
    trace: Vec<String>,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let mut random = Random::new(seed);
        let shards = random.range(1, 5) as u16;
        let mut settings = Settings::new("localhost", shards, [0; 32], 0);
        settings.throttle.account_burst = 0;
        settings.throttle.pair_burst = 0;
        settings.throttle.address_burst = 0;
        let mut up_to = |most: u64| 1 + random.below(most);
        let pace = Pace {
            turn_us: up_to(2_000),
            net_us: up_to(10_000),
            letters_us: up_to(5_000),
            commit_us: up_to(20_000),
            read_us: up_to(20_000),
            read_bytes: [0, 70][up_to(2) as usize - 1],
            ..Pace::default()
        };
        // Names with different homes if there is more than one shard, for most seeds.
        let names: [&'static str; 2] =
            [["romeo", "juliet"], ["nurse", "tybalt"], ["paris", "benvolio"]][random.index(3)];
        let mut world = World::new(seed, settings, pace, &names);
        let both = names.map(|name| Party {
            name,
            socket: world.connect(),
            reader: Reader::default(),
            roster: BTreeMap::new(),
            heard: Vec::new(),
            seen: 0,
            requests: 0,
            kind: 0,
            wants: false,
            approves: false,
        });
        let mut scene = Scene { world, both, trace: Vec::new() };
        for who in 0..2 {
            let plain = STANDARD.encode(format!("\0{}\0{PASSWORD}", scene.both[who].name));
            scene.say(who, STREAM);
            scene.say(who, &format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>"));
            scene.until(who, |party| party.requests == 1);
            scene.say(who, STREAM);
            scene.request(who, "bind", "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r</resource></bind>");
            scene.say(who, "<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>");
            scene.until(who, |party| party.heard.contains(&Heard::Result("roster".into())));
            scene.shows(who, false);
        }
        scene
    }

    fn say(&mut self, who: usize, text: &str) {
        self.trace.push(format!("{:>9} {} > {text}", self.world.now_us(), self.both[who].name));
        self.world.write(self.both[who].socket, text.as_bytes());
    }

    fn step(&mut self) {
        if let Occurrence::Bytes(socket, bytes) = self.world.step() {
            let who = usize::from(self.both[1].socket == socket);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            self.trace.push(format!("{:>9} {} < {text}", self.world.now_us(), self.both[who].name));
            self.both[who].reader.push(&bytes);
            while let Some(item) = self.both[who].reader.next().expect("well-formed") {
                if let Item::Element(node) = item {
                    self.takes(who, &node);
                }
            }
        }
    }

    fn takes(&mut self, who: usize, node: &Node) {
        let other = self.both[1 - who].bare();
        let party = &mut self.both[who];
        let about = |jid: Option<&str>| jid.is_some_and(|jid| jid.split('/').next() == Some(&other));
        let (from, kind) = (node.attribute("from"), node.attribute("type"));
        let id = node.attribute("id").unwrap_or_default().to_owned();
        match &*node.name {
            "success" => {
                party.requests = 1;
                party.reader.restart();
            }
            "presence" if about(from) => {
                party.heard.push(match kind {
                    None => Heard::Available,
                    Some("unavailable") => Heard::Unavailable,
                    Some(kind) => Heard::Kind(kind.to_owned()),
                });
                if kind == Some("subscribe") && party.approves {
                    self.say(who, &format!("<presence to='{other}' type='subscribed'/>"));
                }
            }
            "message" if about(from) => {
                let items = node.child("event").and_then(|event| event.child("items"));
                let ids = items.iter().flat_map(|items| &items.children).filter_map(|item| item.attribute("id"));
                party.heard.extend(ids.map(|id| Heard::Event(id.to_owned())));
            }
            "iq" if kind == Some("set") => {
                for item in node.child("query").map(|query| &query.children[..]).unwrap_or_default() {
                    let jid = item.attribute("jid").unwrap_or_default().to_owned();
                    let asks = if item.attribute("ask").is_some() { "+" } else { "" };
                    let state = format!("{}{asks}", item.attribute("subscription").unwrap_or_default());
                    match &*state {
                        "remove" => party.roster.remove(&jid),
                        _ => party.roster.insert(jid, state.clone()),
                    };
                    party.heard.push(Heard::Push(state));
                }
                self.say(who, &format!("<iq type='result' id='{id}'/>"));
            }
            "iq" if kind == Some("get") => {
                let asked = node.child("query").and_then(|query| query.attribute("node")).unwrap_or_default();
                let known = [true, false].map(|wants| party.capabilities(wants));
                let known = known.into_iter().find(|(ver, _)| asked.ends_with(ver.as_str()));
                let query = known.map(|(_, query)| query).unwrap_or_default();
                self.say(who, &format!("<iq type='result' id='{id}' to='localhost'>{query}</iq>"));
            }
            "iq" => party.heard.push(Heard::Result(id)),
            _ => {}
        }
    }

    /// Runs until a condition holds.
    fn until(&mut self, who: usize, there: impl Fn(&Party) -> bool) {
        let end_us = self.world.now_us() + SOON_US;
        while !there(&self.both[who]) {
            if self.world.now_us() > end_us {
                let party = &self.both[who];
                let last = self.trace.len().saturating_sub(60);
                let trace = self.trace[last..].join("\n");
                panic!("{} waits for ever; it has heard {:?}\n{trace}", party.name, &party.heard[party.seen..]);
            }
            self.step();
        }
    }

    /// Runs until this arrives after everything examined; then it counts as examined, with all
    /// before it.
    fn comes(&mut self, who: usize, what: &Heard) {
        self.until(who, |party| party.heard[party.seen..].contains(what));
        let party = &mut self.both[who];
        party.seen += party.heard[party.seen..].iter().position(|heard| heard == what).expect("it is there") + 1;
    }

    fn request(&mut self, who: usize, name: &str, payload: &str) {
        self.both[who].requests += 1;
        let id = format!("{name}{}", self.both[who].requests);
        self.say(who, &format!("<iq type='set' id='{id}'>{payload}</iq>"));
        self.until(who, |party| party.heard.contains(&Heard::Result(id.clone())));
    }

    /// Sends presence, with or without interest in the node.
    fn shows(&mut self, who: usize, wants: bool) {
        self.both[who].wants = wants;
        let ver = self.both[who].capabilities(wants).0;
        let c = format!("<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:test' ver='{ver}'/>");
        self.say(who, &format!("<presence>{c}</presence>"));
    }

    /// Removes each from the other's roster, as their clients see it.
    fn part(&mut self) {
        for who in 0..2 {
            let other = self.both[1 - who].bare();
            if self.both[who].roster.contains_key(&other) {
                let item = format!("<item jid='{other}' subscription='remove'/>");
                self.request(who, "remove", &format!("<query xmlns='jabber:iq:roster'>{item}</query>"));
                // RFC 6121 2.5.2: the push arrives before the answer to the request.
                assert!(!self.both[who].roster.contains_key(&other), "the push comes after the answer");
            }
        }
        for party in &mut self.both {
            party.seen = party.heard.len();
        }
    }

    /// One requests and the other approves: the push, the approval, the second push and the
    /// presence arrive in this order (RFC 6121 3.1).
    fn subscribe(&mut self, who: usize) {
        let other = 1 - who;
        let to = self.both[other].bare();
        self.both[other].approves = true;
        self.say(who, &format!("<presence to='{to}' type='subscribe'/>"));
        self.comes(who, &Heard::Kind("subscribed".into()));
        let is_one = |party: &Party, states: [&str; 2], of: &str| {
            party.roster.get(of).is_some_and(|state| states.contains(&state.as_str()))
        };
        self.until(who, |party| is_one(party, ["to", "both"], &to));
        self.comes(who, &Heard::Available);
        let from = self.both[who].bare();
        self.until(other, |party| is_one(party, ["from", "both"], &from));
        self.both[other].approves = false;
    }
}

/// After `subscribed`, nothing of the earlier unsubscription may arrive.
fn late(heard: &[Heard]) -> bool {
    let kind = |name: &str| heard.iter().rposition(|heard| *heard == Heard::Kind(name.into()));
    let gone = heard.iter().rposition(|heard| *heard == Heard::Unavailable);
    let (Some(approved), ended) = (kind("subscribed"), kind("unsubscribed")) else { return false };
    gone.is_some_and(|gone| gone > approved) || ended.is_some_and(|ended| ended > approved)
}

fn play(seed: u64, rounds: usize, plant: Option<Plant>) {
    let mut scene = Scene::new(seed);
    scene.world.plant = plant;
    let mut random = Random::new(!seed);
    for round in 0..rounds {
        scene.part();
        let order = if random.chance(500) { [0, 1] } else { [1, 0] };
        let before = [0, 1].map(|who| scene.both[who].heard.len());
        for who in order {
            scene.subscribe(who);
        }
        for (party, before) in scene.both.iter().zip(before) {
            assert!(!late(&party.heard[before..]), "seed {seed}: {}", scene.trace.join("\n"));
        }
        // One publishes, and the other became interested before, or becomes so after, sometimes
        // with a new hash.
        let (publisher, other) = (round % 2, 1 - round % 2);
        if random.chance(500) {
            scene.both[other].kind += 1;
        }
        let (first, item) = (random.chance(500), format!("{round}"));
        if first {
            scene.shows(other, true);
        }
        let publish = format!("<publish node='n'><item id='{item}'><x xmlns='y'/></item></publish>");
        scene.request(
            publisher,
            "publish",
            &format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'>{publish}</pubsub>"),
        );
        if !first {
            scene.shows(other, true);
        }
        scene.until(other, |party| party.heard.contains(&Heard::Event(item.clone())));
        scene.shows(other, false);
        if random.chance(200) {
            // Long enough for the cached data of a user to be evicted.
            let end_us = scene.world.now_us() + 40_000_000;
            while scene.world.now_us() < end_us {
                scene.step();
            }
        }
        scene.trace.clear();
    }
}

#[test]
fn who_subscribe_and_part_over_and_over_hear_all_of_it() {
    for seed in 0..200 {
        play(seed, 12, None);
    }
}

/// A loss is detected.
#[test]
#[should_panic(expected = "waits for ever")]
fn a_letter_that_is_lost_is_missed() {
    for seed in 0..50 {
        play(seed, 12, Some(Plant::LostBatch));
    }
}
