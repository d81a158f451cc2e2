//! Hostile input: each sort gets its standard error, nobody else notices, and memory goes back to where it was.
//!
//! While two users chat on a thread of their own and their messages' times are taken, connections come in waves with
//! every sort of input in turn ([`kinds`]), then half-open ones, then slow ones in both directions, and then one that
//! never reads while a gigabyte is sent to it.

mod deaf;
mod kinds;
mod pair;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Login, Said};
use crate::report::Outcome;
use crate::server::{Folder, Plan, Server};
use crate::swarm::{News, Swarm};
use kinds::{HEADER, KINDS, Kind, When};

/// Time in which a connection must have ended.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory that may stay, beyond what the server held after a first round of the same.
const SLACK_BYTES: u64 = 8 << 20;
/// Memory that may be added while a gigabyte comes in for one that does not read, beyond what the server held after some of it,
/// which fills most of the store's cache and memory tables, as any load does.
const PEAK_BYTES: u64 = 16_000_000;
/// MiB of the first round for the one that does not read: they fill the store's cache and its buffer of rows.
const FIRST_DEAF_MIB: u64 = 64;
/// Time until memory is looked at.
const SETTLE: Duration = Duration::from_secs(30);
/// Accounts that hostile sessions use.
const ACCOUNTS: usize = 2_000;

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Connections with hostile input, over both drivers.
    #[arg(long, default_value_t = 100_000)]
    connections: usize,
    /// Of them at once.
    #[arg(long, default_value_t = 500)]
    at_once: usize,
    /// Connections that say nothing or begin to, over both drivers.
    #[arg(long, default_value_t = 50_000)]
    half_open: usize,
    /// Of them at once; a process may have 20,000 descriptors.
    #[arg(long, default_value_t = 12_500)]
    half_open_at_once: usize,
    /// MiB sent to the one that does not read, on each driver.
    #[arg(long, default_value_t = 1024)]
    deaf_mib: u64,
    /// Only this driver.
    #[arg(long)]
    driver: Option<String>,
    /// Only the one that does not read, after the first round.
    #[arg(long)]
    only_deaf: bool,
}

/// Runs both drivers.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let drivers: Vec<&str> = ["uring", "epoll"]
        .into_iter()
        .filter(|d| options.driver.as_deref().is_none_or(|wanted| wanted == *d))
        .collect();
    let (mut results, mut words, mut met) = (Vec::new(), Vec::new(), true);
    for driver in &drivers {
        let (value, line, good) = one(throng, options, driver, drivers.len())?;
        results.push(value);
        words.push(format!("{driver}: {line}"));
        met &= good;
    }
    let value = json!({
        "what": "hostile connections in waves beside two users who chat; every sort must get its stream error",
        "results": results,
        "met": met,
    });
    Ok(Outcome { name: "hostile", line: format!("hostile: {}", words.join("; ")), met, value })
}

fn one(throng: &Path, options: &Options, driver: &str, drivers: usize) -> io::Result<(Value, String, bool)> {
    let folder = Folder::new("hostile")?;
    let mut plan = Plan::new(throng, &folder.path().join("data")).driver(driver).flag("--preauth-timeout-seconds=5");
    plan.tls = true;
    let pair = ["romeo", "juliet", "loud", "deaf"].map(str::to_owned);
    plan.import(pair.into_iter().chain((0..ACCOUNTS).map(|i| format!("hostile{i}"))))?;
    let mut server = plan.start()?;
    let control = pair::Pair::start(server.plain)?;
    let mut answers = Answers::default();
    // A first round of all makes the tables and pools that a busy server keeps.
    waves(&server, options, options.at_once * 6, &mut Answers::default())?;
    half_open(&server, options, options.half_open_at_once, &mut Answers::default())?;
    if !options.only_deaf {
        slow_senders(&server, options, &mut Answers::default())?;
        self::slow_readers(&server)?;
        std::thread::sleep(SETTLE);
    }
    let before = server.settled_memory(256 << 10, Duration::from_secs(60))?;
    let calm = control.mark();
    let started = Instant::now();
    let (mut hostile_s, mut during_waves, mut during_slow) = (0.0, None, None);
    let mut slow_readers = (Value::Null, true);
    if !options.only_deaf {
        waves(&server, options, options.connections / drivers, &mut answers)?;
        hostile_s = started.elapsed().as_secs_f64();
        during_waves = Some(control.mark());
        half_open(&server, options, options.half_open / drivers, &mut answers)?;
        slow_senders(&server, options, &mut answers)?;
        slow_readers = self::slow_readers(&server)?;
        during_slow = Some(control.mark());
    }
    let after = server.settled_memory(256 << 10, Duration::from_secs(60))?;
    deaf::run(&server, options.deaf_mib.min(FIRST_DEAF_MIB) << 20)?;
    std::thread::sleep(SETTLE);
    let before_deaf = server.settled_memory(256 << 10, Duration::from_secs(60))?;
    control.mark();
    let deaf = deaf::run(&server, options.deaf_mib << 20)?;
    let during_deaf = control.mark();
    std::thread::sleep(SETTLE);
    let after_deaf = server.settled_memory(256 << 10, Duration::from_secs(60))?;
    let (lost, control_fault) = control.end();
    let (alive, panics) = (server.runs(), server.panics());
    let wrong = answers.wrong();
    let grown = after.anonymous.saturating_sub(before.anonymous);
    let peak = deaf.highest.saturating_sub(before_deaf.anonymous);
    let from_fresh = deaf.highest.saturating_sub(after.anonymous);
    let stayed = after_deaf.anonymous.saturating_sub(before_deaf.anonymous);
    let small = grown <= SLACK_BYTES && peak <= PEAK_BYTES && stayed <= SLACK_BYTES;
    let mut times =
        [Some(&calm), during_waves.as_ref(), during_slow.as_ref(), Some(&during_deaf)].into_iter().flatten();
    let undisturbed = lost == 0 && control_fault.is_none() && times.all(|times| times.p99_ms < 500.0);
    let good = wrong == 0 && alive && panics.is_empty() && small && undisturbed && deaf.good && slow_readers.1;
    let value_of = |times: &Option<pair::Times>| times.as_ref().map(pair::Times::value);
    let p99_of = |times: &Option<pair::Times>| times.as_ref().map_or(0.0, |times| times.p99_ms);
    let value = json!({
        "driver": driver,
        "answers": answers.value(),
        "answered_otherwise": wrong,
        "waves_s": hostile_s,
        "slow_readers": slow_readers.0,
        "deaf_receiver": deaf.value,
        "memory_anonymous_bytes": {
            "before": before.anonymous, "after": after.anonymous, "grown": grown,
            "after_a_first_deaf_receiver": before_deaf.anonymous, "after_the_deaf_receiver": after_deaf.anonymous,
            "grown_then": stayed, "highest_beyond_the_first": peak, "highest_beyond_after": from_fresh,
        },
        "control_pair": {
            "calm": calm.value(), "waves": value_of(&during_waves), "half open and slow": value_of(&during_slow),
            "deaf receiver": during_deaf.value(), "lost": lost, "fault": control_fault,
        },
        "server_alive": alive,
        "panics": panics,
        "met": good,
    });
    let line = format!(
        "{} connections, {wrong} answered otherwise, {} panics, {} KiB grown, pair p99 {:.0}/{:.0}/{:.0}/{:.0} ms, {lost} lost, \
         deaf {} (at most {:.1} MB more, of {:.1} with the store's tables and cache; {:.1} MB stayed)",
        answers.total(),
        panics.len(),
        grown >> 10,
        calm.p99_ms,
        p99_of(&during_waves),
        p99_of(&during_slow),
        during_deaf.p99_ms,
        if deaf.good { "good" } else { "NOT good" },
        peak as f64 / 1e6,
        from_fresh as f64 / 1e6,
        stayed as f64 / 1e6
    );
    Ok((value, line, good))
}

/// How connections ended, by sort.
#[derive(Default)]
struct Answers(BTreeMap<&'static str, (&'static str, BTreeMap<String, u64>)>);

impl Answers {
    fn note(&mut self, name: &'static str, expect: &'static str, got: String) {
        *self.0.entry(name).or_insert((expect, BTreeMap::new())).1.entry(got).or_default() += 1;
    }

    fn total(&self) -> u64 {
        self.0.values().flat_map(|(_, got)| got.values()).sum()
    }

    /// Those that did not get what they should.
    fn wrong(&self) -> u64 {
        let others = |(expect, got): &(&'static str, BTreeMap<String, u64>)| {
            got.iter().filter(|(answer, _)| answer != expect).map(|(_, count)| count).sum::<u64>()
        };
        self.0.values().map(others).sum()
    }

    fn value(&self) -> Value {
        let rows =
            self.0.iter().map(|(name, (expect, got))| json!({ "input": name, "expected": expect, "answers": got }));
        rows.collect()
    }
}

/// One hostile connection under way.
struct Attack {
    kind: &'static Kind,
    since: Instant,
    answer: Option<String>,
    /// Pieces still to be sent, the next one last.
    pieces: Vec<Vec<u8>>,
}

fn source(number: usize) -> Option<IpAddr> {
    Some(Ipv4Addr::new(127, 0, 1 + (number / 200 % 50) as u8, 1 + (number % 200) as u8).into())
}

/// `count` connections with every sort in turn.
fn waves(server: &Server, options: &Options, count: usize, answers: &mut Answers) -> io::Result<()> {
    let mut number = 0;
    while number < count {
        let size = options.at_once.min(count - number);
        wave(server, number..number + size, answers)?;
        number += size;
    }
    Ok(())
}

fn wave(server: &Server, numbers: std::ops::Range<usize>, answers: &mut Answers) -> io::Result<()> {
    let mut swarm = Swarm::new()?;
    let mut attacks = Vec::new();
    for number in numbers {
        let kind = &KINDS[number % KINDS.len()];
        let bytes = (kind.bytes)(number);
        let mut pieces = vec![bytes];
        if kind.split {
            let cut = 1 + number / KINDS.len() % (pieces[0].len() - 1);
            let rest = pieces[0].split_off(cut);
            pieces.insert(0, rest);
        }
        let to = if kind.when == When::OnTls { server.tls } else { server.plain };
        let client = match kind.when {
            When::First | When::OnTls => Client::raw(Vec::new()),
            When::Opened => Client::raw(HEADER.into()),
            When::Bound => Client::new(Login {
                name: format!("hostile{}", number % ACCOUNTS),
                resource: format!("r{number}"),
                managed: false,
                available: number % 2 == 0,
            }),
        };
        swarm.add_client(to, source(number), false, client)?;
        attacks.push(Attack { kind, since: Instant::now(), answer: None, pieces });
    }
    for (index, attack) in attacks.iter_mut().enumerate().filter(|(_, attack)| attack.kind.when != When::Bound) {
        push(&mut swarm, attack, index);
    }
    run_out(&mut swarm, &mut attacks)?;
    for attack in attacks {
        let mut answer = attack.answer.unwrap_or_default();
        if attack.kind.when == When::OnTls && !answer.starts_with("still open") {
            // An alert is no XML; all that matters is that the connection is closed.
            answer.clear();
        }
        answers.note(attack.kind.name, attack.kind.expect, answer);
    }
    Ok(())
}

fn push(swarm: &mut Swarm, attack: &mut Attack, index: usize) {
    if let Some(piece) = attack.pieces.pop() {
        swarm.conns[index].client.say_bytes(&piece);
        swarm.flush(index);
    }
}

/// Goes on until every connection has ended, or its time has.
fn run_out(swarm: &mut Swarm, attacks: &mut [Attack]) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    while swarm.conns.iter().any(|conn| conn.is_open()) {
        let mut ready = Vec::new();
        swarm.turn(Duration::from_millis(20), &mut |index, news| match news {
            News::Said(Said::Ready) => ready.push(index),
            News::Said(Said::StreamError(condition)) => attacks[index].answer = Some(condition),
            News::Said(Said::Refused(why)) => attacks[index].answer = Some(format!("login refused: {why}")),
            _ => {}
        })?;
        for (index, attack) in attacks.iter_mut().enumerate() {
            let due = attack.kind.when != When::Bound
                || ready.contains(&index)
                || attack.pieces.len() == 1 && attack.kind.split;
            if due
                && swarm.conns[index].is_open()
                && (attack.kind.when != When::Bound || swarm.conns[index].client.is_ready())
            {
                push(swarm, attack, index);
            }
            // After the error the server waits for the other end to close, for a while.
            if attack.answer.is_some() && swarm.conns[index].is_open() && swarm.conns[index].client.is_over() {
                swarm.forget(index);
            }
        }
        if Instant::now() > end {
            for (index, attack) in attacks.iter_mut().enumerate() {
                if swarm.conns[index].is_open() {
                    attack.answer = Some(format!("still open after {} s", attack.since.elapsed().as_secs()));
                    swarm.forget(index);
                }
            }
        }
    }
    Ok(())
}

/// Connections that say nothing, or only begin a header: closed when their time is up.
fn half_open(server: &Server, options: &Options, count: usize, answers: &mut Answers) -> io::Result<()> {
    let mut number = 0;
    while number < count {
        let size = options.half_open_at_once.min(count - number);
        let mut swarm = Swarm::new()?;
        for number in number..number + size {
            let said = if number % 2 == 0 { Vec::new() } else { b"<stream:stre".to_vec() };
            swarm.add_client(server.plain, source(number), false, Client::raw(said))?;
        }
        for answer in timed_out(&mut swarm, Duration::from_secs(60), |_| {})? {
            answers.note("half open", "connection-timeout", answer);
        }
        number += size;
    }
    Ok(())
}

/// Waits until all are closed; returns what each was told.
fn timed_out(swarm: &mut Swarm, patience: Duration, mut each: impl FnMut(&mut Swarm)) -> io::Result<Vec<String>> {
    let (end, mut told) = (Instant::now() + patience, vec![String::new(); swarm.conns.len()]);
    while swarm.conns.iter().any(|conn| conn.is_open()) && Instant::now() < end {
        swarm.turn(Duration::from_millis(100), &mut |index, news| {
            if let News::Said(Said::StreamError(condition)) = news {
                told[index] = condition;
            }
        })?;
        for (index, _) in told.iter().enumerate().filter(|(_, told)| !told.is_empty()) {
            swarm.forget(index);
        }
        each(swarm);
    }
    for (index, conn) in swarm.conns.iter().enumerate() {
        if conn.is_open() {
            told[index] = "still open".into();
        }
    }
    Ok(told)
}

/// A byte of a login every now and then.
fn slow_senders(server: &Server, options: &Options, answers: &mut Answers) -> io::Result<()> {
    let mut swarm = Swarm::new()?;
    for number in 0..options.at_once {
        swarm.add_client(server.plain, source(number), false, Client::raw(b"<".to_vec()))?;
    }
    let mut at = 0;
    let told = timed_out(&mut swarm, Duration::from_secs(30), |swarm| {
        at += 1;
        if let Some(byte) = HEADER.trim_start_matches("<?xml version='1.0'?>").as_bytes().get(at) {
            for index in 0..swarm.conns.len() {
                swarm.conns[index].client.say_bytes(&[*byte]);
                swarm.flush(index);
            }
        }
    })?;
    for answer in told {
        answers.note("a byte now and then", "connection-timeout", answer);
    }
    Ok(())
}

/// Sessions that ask for much and read a byte now and then: they end, and no other way than by the server.
fn slow_readers(server: &Server) -> io::Result<(Value, bool)> {
    const READERS: usize = 50;
    const QUESTIONS: usize = 12_000;
    let mut swarm = Swarm::new()?;
    let login =
        |i: usize| Login { name: format!("hostile{i}"), resource: "slow".into(), managed: false, available: false };
    swarm.log_in(server.plain, (0..READERS).map(login).collect(), READERS)?;
    let question = "<iq type='get' id='q' to='localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    let all = question.repeat(QUESTIONS);
    for index in 0..READERS {
        swarm.set_deaf(index, true);
        swarm.say(index, &all);
    }
    // The small socket buffers of loopback take some megabytes; beyond that it is the server's memory.
    let (start, mut open) = (Instant::now(), READERS);
    while open > 0 && start.elapsed() < Duration::from_secs(100) {
        swarm.turn(Duration::from_millis(100), &mut |_, _| {})?;
        open = (0..READERS).filter(|&index| swarm.sip(index, 1, &mut |_, _| {})).count();
        // A socket that the server has closed still holds what was sent before: once it has all been taken, look.
        if start.elapsed() > Duration::from_secs(20) {
            open = (0..READERS).filter(|&index| swarm.sip(index, 64 << 10, &mut |_, _| {})).count();
        }
    }
    let value = json!({ "sessions": READERS, "questions_each": QUESTIONS, "still_open": open, "seconds": start.elapsed().as_secs_f64() });
    Ok((value, open == 0))
}
