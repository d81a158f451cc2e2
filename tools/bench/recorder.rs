//! What recording costs: samples of this host, and of a made-up server with many shards, taken as fast as it goes and
//! kept in a ring as if a second apart.
//!
//! ```text
//! cargo run --profile dist -p throng-recorder --example cost -- [--samples 2000 | --hours 30] [--shards 64] [--load idle|busy]
//! ```
//!
//! Prints, as JSON: CPU microseconds a sample by part, bytes a sample in the ring, what a day of it takes and how long 64 MiB
//! last, and the memory that the recorder holds. With `--hours 30` it records so long as if, and tells what the ring holds then,
//! in full and thinned.

use std::time::Instant;

use throng_recorder::recorder::{Recorder, Sampler};
use throng_recorder::ring::Ring;
use throng_recorder::schema::{Field, Module};
use throng_recorder::sources::{self, Roots};
use throng_recorder::table::{Source, Table};

/// Numbers of a shard, of which half are levels: about as many as the engine counts.
const FIELDS: usize = 88;

/// Shards whose counters grow by about what 200,000 sessions in all make them grow, noise included.
struct Shards {
    count: usize,
    values: Vec<u64>,
    /// Mean growth a second of each number of a shard.
    rates: [f64; FIELDS],
    seed: u64,
}

impl Shards {
    fn new(count: usize, busy: bool) -> Shards {
        // Idle: sessions that ping, a little presence. Busy: 20,000 stanzas a second over all shards.
        let scale = if busy { 20_000.0 } else { 700.0 } / count as f64;
        let mut rates = [0.0; FIELDS];
        for (at, rate) in rates.iter_mut().enumerate() {
            // Kinds of numbers: bytes, stanzas, turns, seldom events, and some that never move.
            *rate = [100.0 * scale, scale, scale / 2.0, scale / 50.0, scale / 1000.0, 0.0, 0.0, 0.0][at % 8];
        }
        Shards { count, values: vec![1_000_000; count * FIELDS], rates, seed: 1 }
    }

    /// Of 0 to 1; xorshift (Marsaglia 2003).
    fn random(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Source for Shards {
    fn modules(&self) -> Vec<Module> {
        let kind = |at: usize| if at.is_multiple_of(2) { Field::count } else { Field::gauge };
        let field = |at| Field { name: format!("number_{at}").into(), ..kind(at)("", "", 7, "A made-up number.") };
        let fields = (0..FIELDS).map(field).collect();
        vec![Module::single("shard", "Made-up shards.", fields).by("shard", 1024).adds_up()]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let mut name = [0; 20];
        for shard in 0..self.count {
            for at in 0..FIELDS {
                // Events at random have a variance of their mean; of twelve uniform numbers the sum is about normal.
                let mean = self.rates[at];
                let normal = (0..12).map(|_| self.random()).sum::<f64>() - 6.0;
                let uniform = self.random();
                let value = &mut self.values[shard * FIELDS + at];
                let events =
                    if mean < 3.0 { f64::from(uniform < mean) } else { (mean + mean.sqrt() * normal).max(0.0) };
                *value = match at % 2 {
                    0 => *value + events as u64,
                    _ => value.saturating_add_signed((events - mean) as i64),
                };
            }
            let length = digits(shard, &mut name);
            if let Some(row) = tables[0].row(&name[..length]) {
                row.copy_from_slice(&self.values[shard * FIELDS..][..FIELDS]);
            }
        }
    }
}

fn digits(number: usize, into: &mut [u8]) -> usize {
    use std::io::Write;
    let length = into.len();
    let mut rest = &mut *into;
    write!(rest, "{number}").expect("it fits");
    length - rest.len()
}

/// CPU time of this thread, in microseconds.
fn cpu_us() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn argument<T: std::str::FromStr>(name: &str, default: T) -> T {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn memory_kib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// How long a ring holds what was recorded, and bytes a sample: of the files in full, and of those that are thinned.
fn held(folder: &std::path::Path, now_s: i64) -> serde_json::Value {
    let parts = throng_recorder::ring::parts(folder).expect("a folder");
    let (mut bytes, mut seconds) = ([0; 2], [0; 2]);
    for (at, part) in parts.iter().enumerate() {
        let file = std::fs::read(&part.path).expect("a file");
        let thinned = usize::from(file.starts_with(throng_recorder::record::MAGIC_THINNED));
        bytes[thinned] += file.len();
        seconds[thinned] += parts.get(at + 1).map_or(now_s, |next| next.begun_s) - part.begun_s;
    }
    let figure = |at: usize| {
        let each = bytes[at] as f64 / seconds[at].max(1) as f64;
        serde_json::json!({ "hours": seconds[at] as f64 / 3600.0, "bytes_a_sample": (each * 10.0).round() / 10.0 })
    };
    serde_json::json!({ "files": parts.len(), "bytes": bytes[0] + bytes[1], "in_full": figure(0), "thinned": figure(1) })
}

/// Records as many hours as if, and prints what a ring of 64 MiB holds then, and what a sample took.
fn hours(hours: u64, shards: usize, load: &str) {
    let samples = hours * 3600;
    let mut ticks = vec![1.0; samples as usize];
    let before_kib = memory_kib("RssAnon:");
    let folder = std::env::temp_dir().join(format!("throng-recorder-cost-{}", std::process::id()));
    let ring = Ring::open(&folder, 64 << 20).expect("a folder");
    let roots = Roots::of(std::process::id());
    let mut all = sources::all(&roots);
    all.push(Box::new(Shards::new(shards, load == "busy")));
    let mut recorder = Recorder::new(Sampler::new(sources::origin(&roots, 1000, "cost"), all), 2 << 20, Some(ring));
    let (began_ms, began) = (1_795_000_000_000, cpu_us());
    let (mut kib, mut thinning) = (0, [(0.0, 0_u64); 2]);
    for second in 0..samples {
        let before = cpu_us();
        recorder.tick(began_ms + second * 1000, second * 1_000_000 + second * 7919 % 400);
        let took = cpu_us() - before;
        let is_thinning = recorder.ring().is_some_and(Ring::is_thinning);
        let sum = &mut thinning[usize::from(is_thinning)];
        (sum.0, sum.1) = (sum.0 + took, sum.1 + 1);
        ticks[second as usize] = took;
        if second % 600 == 0 {
            kib = kib.max(memory_kib("RssAnon:"));
        }
    }
    let cpu = (cpu_us() - began) / samples as f64;
    ticks.sort_by(f64::total_cmp);
    let most = |of: f64| ticks[((ticks.len() - 1) as f64 * of) as usize];
    let round = |number: f64| (number * 10.0).round() / 10.0;
    let mean = |at: usize| round(thinning[at].0 / thinning[at].1.max(1) as f64);
    let figures = serde_json::json!({
        "cpu_us_a_sample": round(cpu),
        "percent_of_a_core": (cpu / 1e4 * 1000.0).round() / 1000.0,
        "cpu_us_a_tick": { "without_thinning": mean(0), "with_thinning": mean(1), "p99_9": round(most(0.999)), "longest": round(most(1.0)) },
        "memory_kib": kib - before_kib,
        "held": held(&folder, ((began_ms + samples * 1000) / 1000) as i64),
    });
    std::fs::remove_dir_all(&folder).expect("it is there");
    tell(&recorder, (samples, shards, load), figures);
}

/// Prints what was asked for, and the figures.
fn tell(recorder: &Recorder, (samples, shards, load): (u64, usize, &str), figures: serde_json::Value) {
    let program = "cargo run --profile dist -p throng-recorder --example cost --".to_owned();
    let mut result = serde_json::json!({
        "program": "recorder",
        "command": std::env::args().skip(1).fold(program, |all, one| all + " " + &one),
        "kernel": recorder.sampler().shape().schema().origin.kernel,
        "samples": samples,
        "shards": shards,
        "load": load,
    });
    if let (Some(result), serde_json::Value::Object(figures)) = (result.as_object_mut(), figures) {
        result.extend(figures);
    }
    println!("{}", serde_json::to_string_pretty(&result).expect("JSON"));
}

fn main() {
    let (samples, shards) = (argument("--samples", 2000_u64), argument("--shards", 64_usize));
    let load = argument("--load", "idle".to_owned());
    let roots = Roots::of(std::process::id());
    // Threads of a server with as many shards, which sleep.
    for shard in 0..shards {
        let name = format!("shard-{shard}");
        let sleeper = std::thread::Builder::new().name(name).stack_size(64 << 10);
        sleeper
            .spawn(|| {
                loop {
                    std::thread::park()
                }
            })
            .expect("a thread");
    }
    if let 1.. = argument("--hours", 0) {
        return hours(argument("--hours", 0), shards, &load);
    }
    let before_kib = memory_kib("RssAnon:");
    let mut all = sources::all(&roots);
    if shards > 0 {
        all.push(Box::new(Shards::new(shards, load == "busy")));
    }
    // Sources one by one.
    let mut by_source = serde_json::Map::new();
    for source in &mut all {
        let modules = source.modules();
        let mut tables: Vec<Table> = modules.iter().map(Table::new).collect();
        let mut taken = |times: u64| {
            let began = cpu_us();
            for _ in 0..times {
                tables.iter_mut().for_each(|table| table.begin(true));
                source.sample(&mut tables);
            }
            (cpu_us() - began) / times as f64
        };
        taken(3);
        let names: Vec<&str> = modules.iter().map(|module| &*module.name).collect();
        by_source.insert(names.join("+"), ((taken(200) * 10.0).round() / 10.0).into());
    }
    let folder = std::env::temp_dir().join(format!("throng-recorder-cost-{}", std::process::id()));
    let ring = Ring::open(&folder, 64 << 20).expect("a folder");
    let sampler = Sampler::new(sources::origin(&roots, 1000, "cost"), all);
    let mut recorder = Recorder::new(sampler, 4 << 20, Some(ring));
    let (wall_ms, began, cpu_began) = (1_795_000_000_000, Instant::now(), cpu_us());
    for second in 0..samples {
        // A second apart, and not quite.
        recorder.tick(wall_ms + second * 1000 + second * 7 % 3, second * 1_000_000 + second * 7919 % 400);
    }
    let (cpu, wall) = (cpu_us() - cpu_began, began.elapsed());
    let bytes = recorder.ring().expect("one was given").bytes();
    let recent = recorder.handle().recent().len();
    let slots = recorder.sampler().shape().slots();
    let kib = memory_kib("RssAnon:") - before_kib;
    // What a simpler code would take: a bit for each number that changed, and its difference by sevens of bits.
    let mut plain = 0_u64;
    let mut last: Vec<u64> = Vec::new();
    for part in throng_recorder::ring::parts(&folder).expect("a folder") {
        for item in throng_recorder::read::items(&std::fs::read(part.path).expect("a file")) {
            let throng_recorder::read::Item::Sample(sample) = item else { continue };
            last.resize(sample.values.len(), 0);
            plain += 7 + sample.values.len().div_ceil(8) as u64;
            for (last, value) in last.iter_mut().zip(&sample.values) {
                let difference = value.wrapping_sub(*last) as i64;
                let zigzag = (difference << 1 ^ difference >> 63) as u64;
                plain += u64::from((u64::BITS - zigzag.leading_zeros()).div_ceil(7));
                *last = *value;
            }
        }
    }
    // Decoding, as a reader does.
    let began = cpu_us();
    let mut read = 0_u64;
    for part in throng_recorder::ring::parts(&folder).expect("a folder") {
        let bytes = std::fs::read(part.path).expect("a file");
        read += throng_recorder::read::items(&bytes).len() as u64;
    }
    let decoded = cpu_us() - began;
    std::fs::remove_dir_all(&folder).expect("it is there");
    let a_sample = bytes as f64 / samples as f64;
    let round = |number: f64| (number * 10.0).round() / 10.0;
    let figures = serde_json::json!({
        "numbers": slots,
        "cpu_us_a_sample": round(cpu / samples as f64),
        "percent_of_a_core": (cpu / samples as f64 / 1e4 * 1000.0).round() / 1000.0,
        "wall_us_a_sample": round(wall.as_micros() as f64 / samples as f64),
        "source_us_a_sample": by_source,
        "bytes_a_sample": round(a_sample),
        "bytes_a_sample_by_bitmap_and_varint": round(plain as f64 / samples as f64),
        "mib_a_day": round(a_sample * 86_400.0 / f64::from(1 << 20)),
        "hours_in_64_mib": round(f64::from(64 << 20) / a_sample / 3600.0),
        "memory_kib": kib,
        "window_kib": recent >> 10,
        "items_read": read,
        "read_us_an_item": round(decoded / read as f64),
    });
    tell(&recorder, (samples, shards, &load), figures);
}
