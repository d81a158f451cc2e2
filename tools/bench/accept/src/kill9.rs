//! `kill -9` under load: what was acknowledged arrives, once, in order.
//!
//! Each round sends messages from senders with stream management to receivers that are online (with stream management
//! and without) and offline, kills the server at a random moment, starts it again and collects. A message counts as
//! accepted when the sender's `<a/>` covers it. It must arrive; it may come again in the session after the crash, but
//! only under the stanza-id that it had. What no `<a/>` covered may arrive or not, and never under two stanza-ids.
//!
//! Senders and receivers with stream management resume their sessions afterwards (XEP-0198 5): half of those receivers had lost their
//! connections before the kill, all others have them until then. The server's count must be no less than what it had acknowledged; senders send again
//! what it does not cover, and then everything that was sent must arrive. What comes to a session that was resumed comes once.
//!
//! It also has to be in the archives of both sides, once, under that stanza-id, as an archive query finds it (XEP-0313). Beside them
//! publishers publish items (XEP-0060): one whose publication was answered with a result is in its node afterwards, once. Uploaders ask for
//! slots and upload files (XEP-0363): see [`slots`](crate::slots).

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Login, Said};
use crate::kept::{self, Ask};
use crate::report::{Outcome, Random, spread};
use crate::server::{Folder, Plan, Server};
use crate::slots::{Counts, Slots, UPLOADERS};
use crate::swarm::{News, Swarm};

const SENDERS: usize = 20;
const MANAGED: usize = 10;
/// Of these, such that have lost their connection before the kill.
const DETACHED: usize = 5;
/// Time until a session that has just begun is stored.
const STORED: Duration = Duration::from_millis(2_500);
const PLAIN: usize = 10;
const OFFLINE: usize = 20;
const RECEIVERS: usize = MANAGED + PLAIN + OFFLINE;
/// Accounts that publish items, one at a time.
const PUBLISHERS: usize = 5;
/// Items that one publishes in a round at the most: all are among the last ones that are asked for afterwards.
const ITEMS: u32 = 100;
/// Clients of the load: senders, receivers that are online, publishers, uploaders.
const FIRST_PUBLISHER: usize = SENDERS + MANAGED + PLAIN;
const FIRST_UPLOADER: usize = FIRST_PUBLISHER + PUBLISHERS;
/// Messages a sender leaves unacknowledged.
const WINDOW: u32 = 200;
/// Messages a sender sends between two `<r/>`.
const ASK_EVERY: u32 = 20;
/// Pairs of accounts that fill the archive beforehand.
const FILLERS: usize = 100;

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Times that the server is killed.
    #[arg(long, default_value_t = 50)]
    rounds: u32,
    /// Messages sent in each round, if the server lived that long.
    #[arg(long, default_value_t = 20_000)]
    messages: u32,
    /// Entries in the archive before the first round; each message makes two, the sender's and the receiver's.
    #[arg(long, default_value_t = 0)]
    archived: u64,
    /// Driver of the server; both alternates between the rounds.
    #[arg(long, default_value = "both")]
    driver: String,
    /// Shards of the server.
    #[arg(long, default_value_t = 2)]
    shards: u16,
    /// Seed of the random moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A message's name: round, sender, number.
type Name = (u32, u32, u32);

fn parse(body: &str) -> Option<Name> {
    let mut parts = body.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

fn receiver_name(index: usize) -> String {
    match index {
        _ if index < MANAGED => format!("managed{index}"),
        _ if index < MANAGED + PLAIN => format!("plain{}", index - MANAGED),
        _ => format!("offline{}", index - MANAGED - PLAIN),
    }
}

fn uploader_name(index: usize) -> String {
    format!("uploader{index}")
}

fn login(name: String, resource: String, managed: bool, available: bool) -> Login {
    Login { name, resource, managed, available, ..Login::default() }
}

/// The messages of one sender go to the receivers in turn.
fn receiver_of(sender: u32, number: u32) -> usize {
    (sender as usize * 7 + number as usize) % RECEIVERS
}

/// One arrival.
struct Arrival {
    name: Name,
    after_crash: bool,
    /// The receiver had acknowledged it to the server before the crash.
    acknowledged: bool,
}

/// What is known of one round.
struct Round {
    number: u32,
    sent: [u32; SENDERS],
    acked: [u32; SENDERS],
    refused: u32,
    arrivals: Vec<Vec<Arrival>>,
    /// Items that each publisher has sent, and those of which it has heard.
    published: [(u32, u32); PUBLISHERS],
    slots: Slots,
    /// What the sessions of senders, and of receivers with stream management, are resumed by.
    sessions: Vec<Option<(String, u32)>>,
    /// Of these, such that were resumed.
    resumed: Vec<bool>,
    resource: String,
}

/// Stanza-ids by message, over all rounds, and what was found wrong.
#[derive(Default)]
struct Ledger {
    ids: HashMap<Name, u64>,
    faults: Vec<String>,
    faults_total: u64,
    /// The last message that was found in each archive: of senders, then of receivers.
    looked: Vec<Option<String>>,
    /// Paths of files for which there were slots.
    paths: HashSet<String>,
}

impl Ledger {
    fn fault(&mut self, text: String) {
        self.faults_total += 1;
        // Of each sort a few.
        let sort = text.split_whitespace().last().unwrap_or_default().to_owned();
        if self.faults.iter().filter(|kept| kept.ends_with(&sort)).count() < 10 {
            self.faults.push(text);
        }
    }
}

/// What a round came to.
#[derive(Default)]
struct Tally {
    acked: u64,
    arrived: u64,
    arrived_unacked: u64,
    redelivered: u64,
    redelivered_after_ack: u64,
    /// Acknowledged messages found in the archives of their senders and of their receivers.
    archived: u64,
    /// Sessions that clients wanted to resume, and did.
    resumptions: u64,
    resumed: u64,
    published: u64,
    /// Of these, those that are in their nodes.
    kept: u64,
    slots: Counts,
    recovery_ms: f64,
    accepting_ms: f64,
    killed_at: u64,
}

/// Runs all rounds.
pub(crate) fn run(throng: &std::path::Path, options: &Options) -> io::Result<Outcome> {
    let folder = Folder::new("kill9")?;
    let plan = Plan::new(throng, &folder.path().join("data")).shards(options.shards).takes_files();
    let names = (0..SENDERS).map(|i| format!("sender{i}")).chain((0..RECEIVERS).map(receiver_name));
    let names = names.chain((0..PUBLISHERS).map(|i| format!("publisher{i}")));
    let names = names.chain((0..UPLOADERS).map(uploader_name));
    plan.import(names.chain((0..FILLERS).flat_map(|i| [format!("filler{i}"), format!("filled{i}")])))?;
    let drivers: &[&str] = match options.driver.as_str() {
        "both" => &["uring", "epoll"],
        "uring" => &["uring"],
        _ => &["epoll"],
    };
    let (mut random, mut ledger, mut tallies) = (Random::new(options.seed), Ledger::default(), Vec::new());
    let mut server = plan.clone().driver(drivers[0]).start()?;
    let filled_s = fill(&server, options.archived)?;
    for number in 0..options.rounds {
        let next = plan.clone().driver(drivers[(number as usize + 1) % drivers.len()]);
        let tally = round(&mut server, &next, number, options.messages, &mut random, &mut ledger)?;
        eprintln!(
            "round {number}: killed after {} acks; {} of {} acknowledged arrived, {} are in both archives, {} came again, {} of {} sessions resumed, {} of {} items \
             kept, {} of {} files served, {} of {} unused slots good, {} of {} broken uploads whole, {} faults, recovery {:.0} ms",
            tally.killed_at,
            tally.arrived,
            tally.acked,
            tally.archived,
            tally.redelivered,
            tally.resumed,
            tally.resumptions,
            tally.kept,
            tally.published,
            tally.slots.served,
            tally.slots.created,
            tally.slots.taken,
            tally.slots.unused,
            tally.slots.whole,
            tally.slots.broken_off,
            ledger.faults_total,
            tally.recovery_ms
        );
        tallies.push(tally);
    }
    let panics = server.panics();
    drop(server);
    let sum = |part: fn(&Tally) -> u64| tallies.iter().map(part).sum::<u64>();
    let recovery = spread(tallies.iter().map(|t| t.recovery_ms));
    let slowest = tallies.iter().map(|t| t.recovery_ms).fold(0.0, f64::max);
    let whole = sum(|t| t.arrived) == sum(|t| t.acked)
        && sum(|t| t.archived) == sum(|t| t.acked)
        && sum(|t| t.resumed) == sum(|t| t.resumptions)
        && sum(|t| t.kept) == sum(|t| t.published)
        && sum(|t| t.slots.served) == sum(|t| t.slots.created)
        && sum(|t| t.slots.taken) == sum(|t| t.slots.unused);
    let met = ledger.faults_total == 0 && panics.is_empty() && whole && slowest < 2000.0;
    let value = json!({
        "rounds": options.rounds,
        "messages_a_round": options.messages,
        "archived_before": options.archived,
        "fill_s": filled_s,
        "seed": options.seed,
        "shards": options.shards,
        "drivers": drivers,
        "acknowledged_to_senders": sum(|t| t.acked),
        "of_these_arrived": sum(|t| t.arrived),
        "of_these_in_the_archives_of_both_sides": sum(|t| t.archived),
        "sessions_to_resume": sum(|t| t.resumptions),
        "of_these_resumed": sum(|t| t.resumed),
        "publications_answered": sum(|t| t.published),
        "of_these_in_their_nodes": sum(|t| t.kept),
        "uploads_answered": sum(|t| t.slots.created),
        "of_these_served_whole": sum(|t| t.slots.served),
        "slots_not_used_up": sum(|t| t.slots.unused),
        "of_these_good": sum(|t| t.slots.taken),
        "uploads_broken_off": sum(|t| t.slots.broken_off),
        "of_these_whole": sum(|t| t.slots.whole),
        "arrived_without_acknowledgement": sum(|t| t.arrived_unacked),
        "came_again_with_the_same_stanza_id": sum(|t| t.redelivered),
        "of_these_after_the_receivers_ack": sum(|t| t.redelivered_after_ack),
        "faults": ledger.faults_total,
        "first_faults": ledger.faults,
        "panics": panics,
        "recovery_ms_exec_to_first_login": recovery,
        "accepting_ms": spread(tallies.iter().map(|t| t.accepting_ms)),
        "targets": "every acknowledged message arrives exactly once by stanza-id, in order, and is in both archives once; every item whose publication was answered is in its node once; every file whose upload was answered is served whole, and every slot that was not used up is good; recovery under 2000 ms",
        "met": met,
    });
    let line = format!(
        "kill9: {} rounds, {} acknowledged, {} arrived, {} in both archives, {} came again, {} of {} sessions resumed, {} of {} items kept, {} of {} files served whole, {} of {} slots good, {} faults; slowest recovery {slowest:.0} ms with {} archived before",
        options.rounds,
        sum(|t| t.acked),
        sum(|t| t.arrived),
        sum(|t| t.archived),
        sum(|t| t.redelivered),
        sum(|t| t.resumed),
        sum(|t| t.resumptions),
        sum(|t| t.kept),
        sum(|t| t.published),
        sum(|t| t.slots.served),
        sum(|t| t.slots.created),
        sum(|t| t.slots.taken),
        sum(|t| t.slots.unused),
        ledger.faults_total,
        options.archived
    );
    Ok(Outcome { name: "kill9", line, met, value })
}

/// Puts `entries` into the archives, two a message. Returns the seconds it took.
fn fill(server: &Server, entries: u64) -> io::Result<f64> {
    let (started, messages) = (Instant::now(), entries / 2);
    if messages == 0 {
        return Ok(0.0);
    }
    let mut swarm = Swarm::new()?;
    let pairs =
        |name: &str| (0..FILLERS).map(|i| login(format!("{name}{i}"), "f".into(), true, name == "filled")).collect();
    let senders = swarm.log_in(server.plain, pairs("filler"), 50)?;
    swarm.log_in(server.plain, pairs("filled"), 50)?;
    let each = messages.div_ceil(FILLERS as u64) as u32;
    let text = "x".repeat(80);
    let (mut sent, mut acked) = (vec![0u32; FILLERS], vec![0u32; FILLERS]);
    while acked.iter().any(|&acked| acked < each) {
        for (index, &sender) in senders.iter().enumerate() {
            if sent[index] < each && sent[index] - acked[index] <= WINDOW - ASK_EVERY {
                let mut batch = String::new();
                for _ in 0..ASK_EVERY.min(each - sent[index]) {
                    batch +=
                        &format!("<message to='filled{index}@localhost' type='chat'><body>{text}</body></message>");
                    sent[index] += 1;
                }
                swarm.say(sender, &(batch + "<r xmlns='urn:xmpp:sm:3'/>"));
            }
        }
        let mut failed = None;
        swarm.turn(Duration::from_secs(5), &mut |index, news| match news {
            News::Said(Said::Handled(h)) if index < FILLERS => acked[index] = h,
            News::Said(Said::StreamError(_) | Said::Message { error: Some(_), .. }) | News::Closed => {
                failed = Some(format!("{index}: {news:?}"))
            }
            _ => {}
        })?;
        if let Some(failed) = failed {
            return Err(io::Error::other(format!("filling the archive: {failed}")));
        }
    }
    Ok(started.elapsed().as_secs_f64())
}

fn round(
    server: &mut Server,
    next: &Plan,
    number: u32,
    messages: u32,
    random: &mut Random,
    ledger: &mut Ledger,
) -> io::Result<Tally> {
    let mut round = Round {
        number,
        sent: [0; SENDERS],
        acked: [0; SENDERS],
        refused: 0,
        arrivals: (0..RECEIVERS).map(|_| Vec::new()).collect(),
        published: [(0, 0); PUBLISHERS],
        slots: Slots::new(server, number),
        sessions: Vec::new(),
        resumed: vec![false; SENDERS + MANAGED],
        resource: format!("before{number}"),
    };
    let killed_at = load(server, &mut round, messages, random, ledger)?;
    *server = next.start()?;
    let mut tally = Tally {
        killed_at,
        accepting_ms: server.accepting.as_secs_f64() * 1000.0,
        recovery_ms: first_login(server, number)?,
        ..Tally::default()
    };
    let slots = std::mem::take(&mut round.slots);
    let (counts, faults) = slots.judge(server, next, &mut ledger.paths);
    tally.slots = counts;
    faults.into_iter().for_each(|fault| ledger.fault(format!("round {number}: {fault}")));
    collect(server, &mut round, ledger)?;
    judge(&round, &mut tally, ledger);
    look(server, &round, &mut tally, ledger)?;
    Ok(tally)
}

/// Senders and receivers look into their archives, and publishers into their nodes.
fn look(server: &Server, round: &Round, tally: &mut Tally, ledger: &mut Ledger) -> io::Result<()> {
    let names: Vec<String> =
        (0..SENDERS).map(|i| format!("sender{i}")).chain((0..RECEIVERS).map(receiver_name)).collect();
    ledger.looked.resize(names.len(), None);
    let asks = names.iter().cloned().zip(ledger.looked.iter().cloned().map(Ask::Archive));
    let nodes = (0..PUBLISHERS).map(|i| (format!("publisher{i}"), Ask::Items("items".into())));
    let found = kept::ask(server, &format!("look{}", round.number), asks.chain(nodes).collect())?;
    let (archives, nodes) = found.split_at(names.len());
    // How often each message is in the archive of its sender, and of its receiver.
    let mut times: HashMap<Name, [u32; 2]> = HashMap::new();
    for (at, archive) in archives.iter().enumerate() {
        let mut last: HashMap<u32, u32> = HashMap::new();
        for (id, body) in archive {
            let Some(name) = parse(body).filter(|name| name.0 == round.number) else {
                ledger
                    .fault(format!("round {}: the archive of {} has {body:?} behind its end", round.number, names[at]));
                continue;
            };
            let sent = usize::from(at >= SENDERS);
            let whose = if sent == 0 { name.1 as usize == at } else { SENDERS + receiver_of(name.1, name.2) == at };
            if !whose {
                ledger.fault(format!("{name:?} is in the archive of {}", names[at]));
            }
            times.entry(name).or_default()[sent] += 1;
            // What has come to the receiver has come under this id.
            let came = ledger.ids.get(&name).copied();
            if sent == 1 && came.is_some_and(|came| Ok(came) != id.parse()) {
                ledger.fault(format!("{name:?} is archived as {id} and came as {came:?}"));
            }
            let last = last.entry(name.1).or_default();
            if *last > name.2 {
                ledger.fault(format!("{name:?} is in the archive of {} behind {last}", names[at]));
            }
            *last = name.2;
        }
        if let Some((id, _)) = archive.last() {
            ledger.looked[at] = Some(id.clone());
        }
    }
    for sender in 0..SENDERS as u32 {
        for number in 0..round.sent[sender as usize] {
            let name = (round.number, sender, number);
            let both = times.get(&name).copied().unwrap_or_default();
            let acked = round.is_acked(name);
            tally.archived += u64::from(acked && both == [1, 1]);
            if both.iter().any(|times| *times > 1) || (acked && both != [1, 1]) {
                ledger.fault(format!("{name:?}, acknowledged: {acked}, is {both:?} times in the archives"));
            }
        }
    }
    for (publisher, items) in nodes.iter().enumerate() {
        let (_, heard) = round.published[publisher];
        for number in 0..heard {
            let id = format!("{}.{number}", round.number);
            let count = items.iter().filter(|(item, _)| *item == id).count();
            tally.published += 1;
            tally.kept += u64::from(count == 1);
            if count != 1 {
                ledger.fault(format!("item {id} of publisher{publisher} is {count} times in its node"));
            }
        }
    }
    Ok(())
}

/// Loads the server and kills it; what was on its way to clients is read to the end.
fn load(
    server: &mut Server,
    round: &mut Round,
    messages: u32,
    random: &mut Random,
    ledger: &mut Ledger,
) -> io::Result<u64> {
    let mut swarm = Swarm::new()?;
    let resource = format!("before{}", round.number);
    let resumable = |login: Login| Login { resumable: true, ..login };
    let senders = (0..SENDERS).map(|i| resumable(login(format!("sender{i}"), resource.clone(), true, false))).collect();
    swarm.log_in(server.plain, senders, SENDERS)?;
    let online = (0..MANAGED + PLAIN)
        .map(|i| Login { resumable: i < MANAGED, ..login(receiver_name(i), resource.clone(), i < MANAGED, true) });
    let online = online.collect();
    swarm.log_in(server.plain, online, RECEIVERS)?;
    let publishers = (0..PUBLISHERS).map(|i| login(format!("publisher{i}"), resource.clone(), false, false)).collect();
    let publishers = swarm.log_in(server.plain, publishers, PUBLISHERS)?;
    let uploaders = (0..UPLOADERS).map(|i| login(uploader_name(i), resource.clone(), false, false)).collect();
    let uploaders = swarm.log_in(server.plain, uploaders, UPLOADERS)?;
    let each = messages / SENDERS as u32;
    let total = u64::from(each) * SENDERS as u64;
    let kill_at = total * random.between(5, 95) / 100;
    let detach_at = kill_at * random.between(10, 90) / 100;
    let stored = Instant::now() + STORED;
    while Instant::now() < stored {
        round.slots.go_on(&mut swarm, &uploaders);
        swarm.turn(Duration::from_millis(50), &mut |index, news| round.note(index, false, news, ledger))?;
    }
    let mut stalled = Instant::now();
    while round.acked.iter().map(|&n| u64::from(n)).sum::<u64>() < kill_at {
        for sender in 0..SENDERS {
            let (sent, acked) = (&mut round.sent[sender], round.acked[sender]);
            if *sent < each && *sent - acked <= WINDOW - ASK_EVERY {
                let mut batch = String::new();
                for _ in 0..ASK_EVERY.min(each - *sent) {
                    batch += &message(round.number, sender as u32, *sent, &resource);
                    *sent += 1;
                }
                swarm.say(sender, &(batch + "<r xmlns='urn:xmpp:sm:3'/>"));
            }
        }
        for (at, &index) in publishers.iter().enumerate() {
            let (sent, heard) = &mut round.published[at];
            if sent == heard && *sent < ITEMS {
                swarm.say(index, &publication(round.number, *sent));
                *sent += 1;
            }
        }
        round.slots.go_on(&mut swarm, &uploaders);
        if round.acked.iter().map(|&n| u64::from(n)).sum::<u64>() >= detach_at {
            (SENDERS..SENDERS + DETACHED).for_each(|index| swarm.cut(index));
        }
        let before = round.acked;
        swarm.turn(Duration::from_millis(20), &mut |index, news| round.note(index, false, news, ledger))?;
        if before != round.acked {
            stalled = Instant::now();
        } else if stalled.elapsed() > Duration::from_secs(20) {
            return Err(io::Error::other(format!(
                "no message is acknowledged any more: {:?} of {:?}",
                round.acked, round.sent
            )));
        }
    }
    // The load goes on for a moment, so that the kill hits a turn anywhere.
    std::thread::sleep(Duration::from_micros(random.between(0, 3000)));
    server.kill()?;
    let end = Instant::now() + Duration::from_secs(5);
    while swarm.conns.iter().any(|conn| conn.is_open()) && Instant::now() < end {
        swarm.turn(Duration::from_millis(100), &mut |index, news| round.note(index, false, news, ledger))?;
    }
    let sessions = swarm.conns.iter().take(SENDERS + MANAGED);
    round.sessions = sessions.map(|conn| conn.client.resumption()).collect();
    Ok(kill_at)
}

fn message(round: u32, sender: u32, number: u32, resource: &str) -> String {
    let receiver = receiver_of(sender, number);
    let mut to = format!("{}@localhost", receiver_name(receiver));
    // Every other visit of an online receiver goes to the full JID.
    if receiver < MANAGED + PLAIN && (number as usize / RECEIVERS) % 2 == 1 {
        to += &format!("/{resource}");
    }
    format!("<message to='{to}' type='chat' id='{number}'><body>{round}.{sender}.{number}</body></message>")
}

/// The node keeps as many items as a node may.
fn publication(round: u32, number: u32) -> String {
    format!(
        "<iq type='set' id='{number}'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='items'>\
         <item id='{round}.{number}'><x xmlns='urn:throng:test'>{number}</x></item></publish><publish-options>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
         <value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
         <field var='pubsub#max_items'><value>max</value></field></x></publish-options></pubsub></iq>"
    )
}

/// Milliseconds from the start of the process to the first finished login.
fn first_login(server: &Server, number: u32) -> io::Result<f64> {
    let mut swarm = Swarm::new()?;
    swarm.log_in(server.plain, vec![login("sender0".into(), format!("first{number}"), false, false)], 1)?;
    Ok(server.started.elapsed().as_secs_f64() * 1000.0)
}

/// Every receiver logs in and reads until all that must come is there and nothing more comes.
fn collect(server: &Server, round: &mut Round, ledger: &mut Ledger) -> io::Result<()> {
    let mut swarm = Swarm::new()?;
    for receiver in 0..RECEIVERS {
        let managed = !(MANAGED..MANAGED + PLAIN).contains(&receiver);
        swarm.add(
            server.plain,
            false,
            Login {
                resume: round.sessions.get(SENDERS + receiver).cloned().flatten(),
                ..login(receiver_name(receiver), format!("after{}", round.number), managed, true)
            },
        )?;
    }
    for sender in 0..SENDERS {
        let resume = round.sessions[sender].clone();
        let name = format!("sender{sender}");
        swarm.add(server.plain, false, Login { resume, ..login(name, round.resource.clone(), true, false) })?;
    }
    let (mut last, start) = (Instant::now(), Instant::now());
    loop {
        let quiet = last.elapsed() > Duration::from_millis(700);
        let ready = swarm.conns.iter().all(|conn| conn.client.is_ready());
        let patience = if round.all_arrived() { Duration::ZERO } else { Duration::from_secs(15) };
        if ready && quiet && last.elapsed() > patience {
            return Ok(());
        }
        if !ready && start.elapsed() > Duration::from_secs(30) {
            return Err(io::Error::other("not every receiver could log in after the crash"));
        }
        let mut again = Vec::new();
        let count = swarm.turn(Duration::from_millis(50), &mut |index, news| {
            // Clients of this swarm: receivers, and behind them senders.
            let index = if index < RECEIVERS { SENDERS + index } else { index - RECEIVERS };
            if let Some(from) = round.goes_on(index, &news, ledger) {
                again.push((index, from));
            }
            round.note(index, true, news, ledger);
        })?;
        for (sender, from) in again {
            let rest = from..round.sent[sender];
            let rest: String = rest.map(|n| message(round.number, sender as u32, n, &round.resource)).collect();
            swarm.say(RECEIVERS + sender, &(rest + "<r xmlns='urn:xmpp:sm:3'/>"));
        }
        if count > 0 {
            last = Instant::now();
        }
    }
}

impl Round {
    /// A session was resumed, or not; the first message that its client has to send again, if it is a sender's.
    fn goes_on(&mut self, index: usize, news: &News, ledger: &mut Ledger) -> Option<u32> {
        match news {
            News::Said(Said::Resumed(h)) => {
                self.resumed[index] = true;
                if index >= SENDERS {
                    return None;
                }
                let (sent, acked) = (self.sent[index], self.acked[index]);
                if *h < acked || *h > sent {
                    ledger.fault(format!(
                        "round {}: resumed with h={h}, {acked} of {sent} were acknowledged",
                        self.number
                    ));
                }
                self.acked[index] = (*h).clamp(acked, sent);
                Some(self.acked[index])
            }
            News::Said(Said::NotResumed) => {
                ledger.fault(format!("round {}: the session of {index} was not resumed", self.number));
                None
            }
            _ => None,
        }
    }

    /// Notes what a client read. Clients before [`SENDERS`] are senders.
    fn note(&mut self, index: usize, after_crash: bool, news: News, ledger: &mut Ledger) {
        match news {
            News::Said(Said::Handled(h)) if index < SENDERS => {
                if h > self.sent[index] {
                    ledger.fault(format!("round {}: h={h} for {} messages", self.number, self.sent[index]));
                }
                self.acked[index] = h.min(self.sent[index]);
            }
            News::Said(Said::Message { error: Some(why), id, .. }) if index < SENDERS => {
                self.refused += 1;
                ledger.fault(format!("round {}: {index}.{id} was refused: {why}", self.number));
            }
            News::Said(said @ (Said::Slot { .. } | Said::Result { .. })) if !after_crash && index >= FIRST_UPLOADER => {
                self.slots.heard(index - FIRST_UPLOADER, said);
            }
            News::Said(Said::Result { id, done }) if !after_crash && index >= FIRST_PUBLISHER => {
                let (sent, heard) = &mut self.published[index - FIRST_PUBLISHER];
                if !done || id.parse() != Ok(*heard) || *heard >= *sent {
                    ledger.fault(format!("round {}: publication {id} was refused or unasked", self.number));
                }
                *heard += 1;
            }
            News::Said(Said::Message { body, stanza_id, error: None, .. }) if index >= SENDERS => {
                self.arrived(index - SENDERS, after_crash, &body, stanza_id.as_deref(), ledger);
            }
            News::Said(Said::Answered) if index >= SENDERS && !after_crash => {
                for arrival in &mut self.arrivals[index - SENDERS] {
                    arrival.acknowledged = true;
                }
            }
            News::Said(Said::StreamError(why)) => {
                ledger.fault(format!("round {}: stream {index} ended: {why}", self.number))
            }
            News::Said(Said::Refused(why)) => ledger.fault(format!("round {}: login {index}: {why}", self.number)),
            News::Closed if after_crash => ledger.fault(format!("round {}: {index} was closed", self.number)),
            _ => {}
        }
    }

    fn arrived(&mut self, receiver: usize, after_crash: bool, body: &str, id: Option<&str>, ledger: &mut Ledger) {
        let Some(name) = parse(body) else { return ledger.fault(format!("a message that nobody sent: {body}")) };
        let Some(id) = id.and_then(|id| id.parse::<u64>().ok()) else {
            return ledger.fault(format!("{body} came without a stanza-id"));
        };
        if *ledger.ids.entry(name).or_insert(id) != id {
            ledger.fault(format!("{body} came under two stanza-ids"));
        }
        if receiver_of(name.1, name.2) != receiver {
            ledger.fault(format!("{body} came to {}", receiver_name(receiver)));
        }
        if name.0 == self.number && name.2 >= self.sent[name.1 as usize] {
            ledger.fault(format!("{body} was not sent"));
        }
        self.arrivals[receiver].push(Arrival { name, after_crash, acknowledged: false });
    }

    fn is_acked(&self, name: Name) -> bool {
        name.2 < self.acked[name.1 as usize]
    }

    fn all_arrived(&self) -> bool {
        let mut there: std::collections::HashSet<Name> = std::collections::HashSet::new();
        there
            .extend(self.arrivals.iter().flatten().map(|a| a.name).filter(|n| n.0 == self.number && self.is_acked(*n)));
        there.len() as u64 == self.acked.iter().map(|&n| u64::from(n)).sum::<u64>()
    }
}

/// Compares what was promised with what came.
fn judge(round: &Round, tally: &mut Tally, ledger: &mut Ledger) {
    let mut seen: HashMap<Name, (u32, u32, bool)> = HashMap::new();
    for (receiver, arrivals) in round.arrivals.iter().enumerate() {
        // Highest number of each sender: in each session, and over both of what came first.
        let mut high: HashMap<(u32, u8), u32> = HashMap::new();
        for arrival in arrivals {
            let (before, after, acknowledged) = seen.entry(arrival.name).or_default();
            let first = *before + *after == 0;
            *(if arrival.after_crash { after } else { before }) += 1;
            *acknowledged |= arrival.acknowledged;
            if arrival.name.0 != round.number {
                continue;
            }
            let lanes = [Some(u8::from(arrival.after_crash)), first.then_some(2)];
            for lane in lanes.into_iter().flatten() {
                let highest = high.entry((arrival.name.1, lane)).or_insert(0);
                if *highest > arrival.name.2 {
                    let who = receiver_name(receiver);
                    ledger.fault(format!("{:?} came to {who} behind number {highest} (lane {lane})", arrival.name));
                }
                *highest = arrival.name.2;
            }
        }
    }
    tally.resumptions += round.sessions.iter().filter(|session| session.is_some()).count() as u64;
    tally.resumed += round.resumed.iter().filter(|resumed| **resumed).count() as u64;
    for (name, (before, after, _)) in &seen {
        let receiver = receiver_of(name.1, name.2);
        if receiver < MANAGED && round.resumed[SENDERS + receiver] && before + after > 1 {
            ledger.fault(format!("{name:?} came {before} and {after} times to a session that was resumed"));
        }
    }
    for (name, (before, after, acknowledged)) in &seen {
        if *before > 1 || *after > 1 {
            ledger.fault(format!("{name:?} came {before} and {after} times in one session"));
        }
        if before + after > 1 || name.0 != round.number {
            tally.redelivered += 1;
            tally.redelivered_after_ack += u64::from(*acknowledged);
        }
    }
    for sender in 0..SENDERS as u32 {
        for number in 0..round.sent[sender as usize] {
            let name = (round.number, sender, number);
            let (acked, came) = (round.is_acked(name), seen.contains_key(&name));
            tally.acked += u64::from(acked);
            tally.arrived += u64::from(acked && came);
            tally.arrived_unacked += u64::from(!acked && came);
            if acked && !came {
                ledger.fault(format!("{name:?} for {} is lost", receiver_name(receiver_of(sender, number))));
            }
        }
    }
}
