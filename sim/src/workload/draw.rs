//! The random choices of a seed: faults, settings and pace of its run.

use throng_engine::id::Service;
use throng_engine::settings::{BareDelivery, Settings};

use crate::random::Random;
use crate::world::{Crossing, Network, Pace, Plant};

/// Faults of a run, each in thousandths of the actions or moments at which it may occur.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// A client vanishes, at one of its actions.
    pub abort: u32,
    /// A client stops reading, at one of its actions.
    pub stall: u32,
    /// A client does not answer requests for acknowledgement for a while.
    pub lazy: u32,
    /// A client resumes on a second connection while the first is still open.
    pub duplicate: u32,
    /// The process dies, at one of the moments (one to ten per second).
    pub crash: u32,
    /// The disk is full for a while, at one of the moments.
    pub full: u32,
    /// Commits stall for a while, at one of the moments.
    pub stop: u32,
}

impl Faults {
    /// Whether there are no faults at all.
    pub fn is_calm(&self) -> bool {
        [self.abort, self.stall, self.lazy, self.duplicate, self.crash, self.full, self.stop].iter().all(|&f| f == 0)
    }

    /// Draws the faults: one seed in six has none, and each fault occurs in about half of the
    /// others.
    pub fn draw(random: &mut Random) -> Faults {
        if random.chance(160) {
            return Faults::default();
        }
        let mut some = |most: u64| if random.chance(500) { 1 + random.below(most) as u32 } else { 0 };
        Faults {
            abort: some(60),
            stall: some(30),
            lazy: some(100),
            duplicate: some(40),
            crash: some(150),
            full: some(60),
            stop: some(150),
        }
    }
}

pub(super) fn settings(random: &mut Random, shards: u16) -> Settings {
    let mut s = Settings::new("localhost", shards, [0; 32], 0);
    s.serve("capulet.lit");
    s.serve_service(crate::client::PUBSUB, Service::PubSub);
    s.archive = random.chance(700);
    s.resume_s_max = random.range(1, 8) as u32;
    s.idle_s_max = if random.chance(300) { random.range(2, 6) as u32 } else { 600 };
    s.send_stall_s_max = random.range(2, 10) as u32;
    s.cache_s = random.range(0, 3) as u32;
    s.throttle.account_burst = 0;
    s.throttle.pair_burst = 0;
    s.throttle.address_burst = 0;
    if random.chance(300) {
        s.bare_delivery = BareDelivery::MostAvailable;
    }
    if random.chance(400) {
        s.unacked_max = random.range(1, 12) as usize;
        s.outbound_bytes_soft = random.range(300, 4_000) as usize;
        s.in_flight_max = random.range(1, 8) as u16;
        s.in_flight_bytes_max = random.range(200, 4_000) as usize;
    }
    if random.chance(150) {
        s.outbound_bytes_max = random.range(12_000, 40_000) as usize;
        s.outbound_bytes_soft = s.outbound_bytes_soft.min(s.outbound_bytes_max / 4);
    }
    if random.chance(150) {
        s.waiting_messages_max = random.range(3, 20) as u32;
    }
    s
}

pub(super) fn pace(random: &mut Random) -> Pace {
    if random.chance(200) {
        return Pace::default();
    }
    let mut up_to = |most: u64| 1 + random.below(most);
    Pace {
        turn_us: up_to(2_000),
        net_us: up_to(30_000),
        read_bytes: 0,
        kernel_bytes: 1 << 20,
        letters_us: up_to(5_000),
        commit_us: if up_to(3) == 1 { up_to(300_000) } else { up_to(20_000) },
        read_us: up_to(20_000),
        job_us: up_to(50_000),
        detect_us: up_to(4_000_000),
        ..Pace::default()
    }
}

/// What lies between the shards of a seed's run, how the network there treats frames, and how often
/// links are given up, in thousandths of the moments. Three seeds in ten encode letters, and three
/// lose and repeat them besides. Links are given up only where processes die: the consequence is the
/// same.
pub(super) fn crossing(random: &mut Random, faults: &Faults, plant: Option<Plant>) -> (Crossing, Network, u32) {
    let drawn = match random.below(10) {
        0..3 => Crossing::Encoded,
        3..6 => Crossing::Lossy,
        _ => Crossing::Direct,
    };
    let crossing = plant.and_then(Plant::crossing).unwrap_or(drawn);
    let (network, broken) = (network(random), random.below(100) as u32);
    let broken = match plant {
        Some(Plant::UnnoticedRenewal) => 500,
        _ if faults.crash > 0 => broken,
        _ => 0,
    };
    // Without links none can break.
    (crossing, if crossing == Crossing::Lossy { network } else { Network::default() }, broken)
}

/// How a network treats frames: up to 15 % are lost and as many repeated.
pub(super) fn network(random: &mut Random) -> Network {
    Network { lost: random.below(150) as u32, twice: random.below(150) as u32 }
}
