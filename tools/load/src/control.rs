//! Divides the work among workers in threads or processes, collects their samples and sends them
//! the phase.
//!
//! Workers in other processes are this program again, with `--child`: orders arrive on standard
//! input and samples leave on standard output, one JSON value per line. A child ends at the end of
//! its input.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use throng_tls::client::Terms;

use crate::accounts::Accounts;
use crate::client::{Login, Profile, Security};
use crate::driver::{self, Kind};
use crate::figures::{Gauges, Sample};
use crate::framing::Target;
use crate::keys::DriverChoice;
use crate::phases::{Bounds, Director, Phase, Totals, part};
use crate::proc;
use crate::sasl::Mechanism;
use crate::scenario::{self, Auth, Scenario, Tls, Transport};
use crate::swarm::{self, Plan};

/// Samples that wait for the control at most; workers wait when there are more.
const SAMPLES_MAX: usize = 4096;

/// Sessions for each source address, where it is not said: ports are 28,000 an address and some of
/// them rest.
const SESSIONS_PER_SOURCE: u32 = 10_000;

/// How long workers have to end once it is over.
const END_MAX: Duration = Duration::from_secs(10);

/// The resources requested for the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Crew {
    /// Which driver is asked for.
    pub(crate) driver: DriverChoice,
    /// Clients in all, as many as connections they may have.
    pub(crate) clients: u32,
    /// Processes.
    pub(crate) processes: u32,
    /// Worker threads of each that are asked for.
    pub(crate) threads: u32,
}

impl Crew {
    /// That of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Crew {
        let Scenario { driver, sessions, processes, threads, .. } = *scenario;
        Crew { driver, clients: sessions.saturating_mul(scenario.connections_each()), processes, threads }
    }
}

/// What the work is divided into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Division {
    /// Which driver.
    pub(crate) driver: Kind,
    /// Processes.
    pub(crate) processes: u32,
    /// Worker threads of each.
    pub(crate) threads: u32,
}

impl Division {
    /// The crew's, as this machine allows.
    ///
    /// # Errors
    /// A sentence: no io_uring though it is asked for, or more clients than descriptors.
    pub(crate) fn of(crew: &Crew) -> Result<Division, String> {
        let driver = match (crew.driver, driver::uring_works()) {
            (DriverChoice::Epoll, _) | (DriverChoice::Auto, Err(_)) => Kind::Epoll,
            (_, Ok(())) => Kind::Uring,
            (DriverChoice::Uring, Err(error)) => return Err(format!("driver: {error}")),
        };
        let most = driver::clients_max(driver);
        let each = crew.clients.div_ceil(crew.processes);
        let threads = match driver {
            // A few more than the share, for pairs are not cut.
            Kind::Uring => crew.threads.max((each + 2).div_ceil(most.saturating_sub(4).max(1))),
            Kind::Epoll if each > most => {
                return Err(format!(
                    "driver: epoll holds {most} connections a process under this limit of descriptors; \
                     take io_uring, more processes, or a higher limit"
                ));
            }
            Kind::Epoll => crew.threads,
        };
        Ok(Division { driver, processes: crew.processes, threads })
    }

    /// Workers in all.
    pub(crate) fn workers(&self) -> u32 {
        self.processes * self.threads
    }
}

/// The plans of a process's workers.
///
/// # Errors
/// Accounts or the domain; a sentence.
fn plans(scenario: &Arc<Scenario>, division: Division, process: u32, run: u32) -> Result<Vec<Plan>, String> {
    let accounts = Arc::new(Accounts::of(scenario)?);
    let security = match scenario.tls {
        Tls::Off => Security::Off,
        Tls::Upgrade => Security::StartTls,
        Tls::Direct => Security::Direct,
    };
    let profile = Profile {
        domain: scenario.domain.clone(),
        security,
        mechanism: match scenario.auth {
            Auth::Auto => None,
            Auth::Plain => Some(Mechanism::Plain),
            Auth::ScramSha1 => Some(Mechanism::ScramSha1),
            Auth::ScramSha256 => Some(Mechanism::ScramSha256),
            Auth::ScramSha512 => Some(Mechanism::ScramSha512),
        },
        register: scenario.register,
        available: scenario.available,
        presence_bytes: scenario.presence_bytes as usize,
        roster: scenario.contacts > 0,
        resource: String::new(),
        pipelined: scenario.pipelined,
        resume: None,
        login: match scenario.login {
            scenario::Login::Sasl => Login::Sasl,
            scenario::Login::Sasl2 => Login::Sasl2,
            scenario::Login::Fast => Login::Fast,
        },
        resumes: scenario.resume,
    };
    let tls = match (security, scenario.transport) {
        (Security::Off, _) => None,
        (_, Transport::Tcp) => Some(Terms::trusting_anyone(&scenario.domain)?),
        _ => Some(Terms::trusting_anyone(&scenario.domain)?.speaking("http/1.1")),
    };
    let each = scenario.connections_each();
    let sources = sources(scenario.to, scenario.sessions.saturating_mul(each), scenario.sources);
    let target = Target {
        host: format!("{}:{}", scenario.domain, scenario.to.port()),
        path: scenario.path_asked().into(),
        domain: scenario.domain.clone(),
        wait_s: scenario.wait_s,
    };
    let count = division.workers();
    let others = scenario.sessions - scenario.pairs * 2;
    let own = process * division.threads..(process + 1) * division.threads;
    let plan = |worker: u32| {
        let (first_pair, pairs) = part(scenario.pairs, worker, count);
        let (first_other, others) = part(others, worker, count);
        let clients = pairs * 2 + others;
        Plan {
            worker,
            scenario: scenario.clone(),
            accounts: accounts.clone(),
            profile: profile.clone(),
            tls: tls.clone(),
            first: first_pair * 2 + first_other,
            clients,
            pairs,
            first_pair,
            run,
            driver: division.driver,
            sockets: driver::Settings {
                clients: clients * each,
                table_slots: u32::MAX,
                to: scenario.to,
                sources: sources.clone(),
            },
            target: target.clone(),
            memory_before: (worker == own.start).then(proc::own_memory_bytes),
        }
    };
    Ok(own.clone().map(plan).collect())
}

/// Addresses for so many clients to connect from, `asked` of them or as many as they need: many
/// only where there are many, which is on this machine.
pub(crate) fn sources(to: SocketAddr, clients: u32, asked: u32) -> Vec<IpAddr> {
    let IpAddr::V4(to) = to.ip() else { return Vec::new() };
    if !to.is_loopback() {
        return Vec::new();
    }
    let count = match asked {
        0 => clients.div_ceil(SESSIONS_PER_SOURCE),
        count => count,
    };
    let first = u32::from(Ipv4Addr::LOCALHOST);
    (0..count.min(1 << 20)).map(|n| Ipv4Addr::from(first + n).into()).collect()
}

/// Workers as threads of this process, each with a plan: what `work` does until the phase is over,
/// telling samples.
fn spawn_threads<P: Send + 'static>(
    plans: Vec<P>,
    work: fn(P, &AtomicU8, &mut dyn FnMut(Sample)),
    phase: &Arc<AtomicU8>,
    samples: &SyncSender<Sample>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let spawn = |(index, plan): (usize, P)| {
        let (phase, samples) = (phase.clone(), samples.clone());
        std::thread::Builder::new().name(format!("load-{index}")).spawn(move || {
            work(plan, &phase, &mut |sample| {
                // The receiver is gone: the control has given up, and the phase says so as well.
                let _ = samples.send(sample);
            });
        })
    };
    plans.into_iter().enumerate().map(spawn).collect()
}

/// The first line to a child.
#[derive(Serialize, Deserialize)]
struct Errand {
    scenario: String,
    process: u32,
    run: u32,
}

/// Another process with workers of its own.
struct Other {
    child: Child,
    orders: ChildStdin,
    reader: Option<JoinHandle<()>>,
}

impl Other {
    fn spawn(scenario: &Scenario, process: u32, run: u32, samples: &SyncSender<Sample>) -> io::Result<Other> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["load", "--child"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut orders = child.stdin.take().expect("it is piped");
        let errand = Errand { scenario: scenario.toml(), process, run };
        writeln!(orders, "{}", serde_json::to_string(&errand)?)?;
        let said = BufReader::new(child.stdout.take().expect("it is piped"));
        let samples = samples.clone();
        let reader = std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Ok(sample) = serde_json::from_str(&line) {
                    let _ = samples.send(sample);
                }
            }
        });
        Ok(Other { child, orders, reader: Some(reader) })
    }

    fn tell(&mut self, phase: Phase) {
        // One that is gone shows as such by its missing samples.
        let _ = writeln!(self.orders, "{}", serde_json::json!(phase)).and_then(|()| self.orders.flush());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// The whole of a child process: reads its errand, runs its workers, passes their samples on.
///
/// # Errors
/// A sentence.
pub(crate) fn child(input: impl BufRead + Send + 'static, out: &mut dyn Write) -> Result<(), String> {
    let mut lines = input.lines();
    let line = lines.next().and_then(Result::ok).ok_or("no errand came")?;
    let errand: Errand = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let mut scenario = Scenario::default();
    scenario.set_toml(&errand.scenario)?;
    let scenario = Arc::new(scenario);
    let division = Division::of(&Crew::of(&scenario))?;
    let plans = plans(&scenario, division, errand.process, errand.run)?;
    let phase = Arc::new(AtomicU8::new(Phase::Ramp as u8));
    let (samples, gathered) = sync_channel(SAMPLES_MAX);
    let threads = spawn_threads(plans, swarm::run, &phase, &samples).map_err(|error| error.to_string())?;
    drop(samples);
    let told = phase.clone();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Ok(phase) = serde_json::from_str::<Phase>(&line) {
                told.store(phase as u8, Ordering::Release);
            }
        }
        told.store(Phase::Over as u8, Ordering::Release);
    });
    for sample in gathered {
        let line = serde_json::to_string(&sample).map_err(|error| error.to_string())?;
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            // The parent is gone.
            phase.store(Phase::Over as u8, Ordering::Release);
        }
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

/// What the control hears while a run goes on.
pub(crate) trait Listener {
    /// A worker has told something.
    fn sample(&mut self, sample: &Sample);
    /// Time has gone on; the phase, and all workers' gauges together.
    fn moment(&mut self, at: Duration, phase: Phase, gauges: &Gauges);
    /// Number of requests to end.
    fn stops(&self) -> u32;
}

/// Runs a scenario to its end.
///
/// # Errors
/// A sentence: it could not begin, or workers have broken.
pub(crate) fn run(scenario: &Arc<Scenario>, division: Division, listener: &mut dyn Listener) -> Result<(), String> {
    let run = run_number();
    let phase = Arc::new(AtomicU8::new(Phase::Ramp as u8));
    let (samples, gathered) = sync_channel(SAMPLES_MAX);
    let failed = |error: io::Error| format!("workers cannot be started: {error}");
    let (mut threads, mut others) = (Vec::new(), Vec::new());
    if division.processes == 1 {
        let plans = plans(scenario, division, 0, run)?;
        threads = spawn_threads(plans, swarm::run, &phase, &samples).map_err(failed)?;
    } else {
        Accounts::of(scenario)?;
        for process in 0..division.processes {
            others.push(Other::spawn(scenario, process, run, &samples).map_err(failed)?);
        }
    }
    drop(samples);
    let outcome = direct(&Bounds::of(scenario), division.workers(), listener, &gathered, &mut |next| {
        phase.store(next as u8, Ordering::Release);
        others.iter_mut().for_each(|other| other.tell(next));
    });
    phase.store(Phase::Over as u8, Ordering::Release);
    drop(gathered);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    outcome
}

/// Runs workers of this process to their end, one for each plan.
///
/// # Errors
/// A sentence: they could not be started, or have broken.
pub(crate) fn run_here<P: Send + 'static>(
    bounds: &Bounds,
    plans: Vec<P>,
    work: fn(P, &AtomicU8, &mut dyn FnMut(Sample)),
    listener: &mut dyn Listener,
) -> Result<(), String> {
    let phase = Arc::new(AtomicU8::new(Phase::Ramp as u8));
    let (samples, gathered) = sync_channel(SAMPLES_MAX);
    let workers = plans.len() as u32;
    let threads = spawn_threads(plans, work, &phase, &samples)
        .map_err(|error: io::Error| format!("workers cannot be started: {error}"))?;
    drop(samples);
    let outcome = direct(bounds, workers, listener, &gathered, &mut |next| phase.store(next as u8, Ordering::Release));
    phase.store(Phase::Over as u8, Ordering::Release);
    drop(gathered);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    outcome
}

/// A run's own number, which the next one does not have.
pub(crate) fn run_number() -> u32 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u32) ^ std::process::id()
}

fn direct(
    bounds: &Bounds,
    workers: u32,
    listener: &mut dyn Listener,
    gathered: &Receiver<Sample>,
    tell: &mut dyn FnMut(Phase),
) -> Result<(), String> {
    let start = Instant::now();
    let mut director = Director::new();
    let mut phase = Phase::Ramp;
    let mut gauges: BTreeMap<u32, Gauges> = BTreeMap::new();
    let (mut totals, mut broken, mut over_at) = (Totals::default(), None, None);
    loop {
        let mut next = gathered.recv_timeout(Duration::from_millis(20));
        let gone = matches!(next, Err(RecvTimeoutError::Disconnected));
        while let Ok(sample) = next {
            gauges.insert(sample.worker, sample.gauges);
            totals.sent += sample.counters.sent;
            totals.over += u64::from(sample.over);
            if let Some(why) = &sample.broken {
                broken = broken.or(Some(format!("worker {}: {why}", sample.worker)));
            }
            listener.sample(&sample);
            next = gathered.try_recv().map_err(|_| RecvTimeoutError::Timeout);
        }
        let mut all = Gauges::default();
        gauges.values().for_each(|gauges| all.add(gauges));
        (totals.arrived, totals.hopeless) = (all.arrived, all.hopeless);
        totals.outstanding = all.outstanding + u64::try_from(all.to_occupants).unwrap_or(0);
        totals.open = all.open;
        totals.sending = u64::from(workers).saturating_sub(all.drains);
        let now = start.elapsed();
        let complete = totals.over == u64::from(workers);
        let next = match broken {
            Some(_) => Phase::Over,
            None => director.step(bounds, now, &totals, listener.stops()),
        };
        if next != phase {
            phase = next;
            tell(phase);
        }
        listener.moment(now, phase, &all);
        if phase == Phase::Over && over_at.is_none() {
            over_at = Some(now);
        }
        if complete {
            return broken.map_or(Ok(()), Err);
        }
        if gone || over_at.is_some_and(|at| now > at + END_MAX) {
            return Err(broken.unwrap_or("workers ended without a report".into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_and_pair_belongs_to_one_worker() {
        let scenario = Scenario { sessions: 1001, pairs: 7, processes: 2, threads: 3, ..Scenario::default() };
        let scenario = Arc::new(scenario);
        let division = Division { driver: Kind::Epoll, processes: 2, threads: 3 };
        let (mut next, mut next_pair) = (0, 0);
        for process in 0..2 {
            for plan in plans(&scenario, division, process, 1).expect("plans") {
                assert_eq!((plan.first, plan.first_pair), (next, next_pair));
                assert!(plan.clients >= plan.pairs * 2);
                next += plan.clients;
                next_pair += plan.pairs;
            }
        }
        assert_eq!((next, next_pair), (1001, 7));
    }

    #[test]
    fn many_sessions_have_many_addresses_and_those_of_others_none() {
        let mut scenario = Scenario { sessions: 25_000, ..Scenario::default() };
        let of = |scenario: &Scenario| sources(scenario.to, scenario.sessions, scenario.sources);
        let addresses: Vec<String> = of(&scenario).iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
        scenario.to = "192.0.2.1:5222".parse().expect("an address");
        assert!(of(&scenario).is_empty());
    }
}
