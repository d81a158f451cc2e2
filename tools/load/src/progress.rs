//! Collects samples into seconds and totals, and reports the progress, one line per second.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::figures::{Counters, Gauges, Sample};
use crate::histogram::Times;
use crate::phases::Phase;
use crate::proc::Usage;

/// One second of a run. Rates are of that second; times are of what came in it.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub(crate) struct Second {
    /// End of it, since the run's start.
    pub(crate) at_s: f64,
    /// The phase at its end.
    pub(crate) phase: &'static str,
    /// Established sessions.
    pub(crate) up: u64,
    /// Connections that are not closed.
    pub(crate) open: u64,
    /// Logins a second.
    pub(crate) logins_per_s: f64,
    /// Messages sent a second.
    pub(crate) sent_per_s: f64,
    /// Messages received a second.
    pub(crate) received_per_s: f64,
    /// Messages that have not come yet.
    pub(crate) outstanding: u64,
    /// Things that went wrong.
    pub(crate) errors: u64,
    /// Median of the latency.
    pub(crate) p50_ms: Option<f64>,
    /// Its 99th percentile.
    pub(crate) p99_ms: Option<f64>,
    /// Its 99.9th percentile.
    pub(crate) p999_ms: Option<f64>,
    /// Cores that the server used, if it is measured.
    pub(crate) server_cores: Option<f64>,
    /// Its resident memory.
    pub(crate) server_resident_bytes: Option<u64>,
    /// Cores that the generator's workers used.
    pub(crate) generator_cores: f64,
    /// The 99th percentile of how long after their time messages of the open loop were sent.
    pub(crate) late_p99_ms: Option<f64>,
}

/// Everything that was measured.
pub(crate) struct Whole {
    /// All that was counted.
    pub(crate) counters: Counters,
    /// What was counted in the hold.
    pub(crate) hold: Counters,
    /// How long the hold was.
    pub(crate) hold_s: f64,
    /// Latency of all messages.
    pub(crate) latency: Times,
    /// Of those, what came after a storm to pairs that it has spared.
    pub(crate) stayed: Times,
    /// Times to log in.
    pub(crate) logins: Times,
    /// Times until publications were answered.
    pub(crate) answers: Times,
    /// The last gauges, but for memory: the most.
    pub(crate) gauges: Gauges,
    /// Most sessions that stood at once.
    pub(crate) up_max: u64,
    /// Sessions that stood when the hold began.
    pub(crate) up_at_hold: u64,
    /// How long the ramp was.
    pub(crate) ramp_s: f64,
    /// CPU time of all workers.
    pub(crate) cpu_us: u64,
    /// Of those, in the hold.
    pub(crate) hold_cpu_us: u64,
    /// How long after their time messages of the open loop were sent.
    pub(crate) sent_late: Times,
    /// Logins of the ramp.
    pub(crate) ramp_logins: u64,
    /// CPU time of the server in the ramp.
    pub(crate) server_ramp_cpu_us: Option<u64>,
    /// CPU time of the server in the hold.
    pub(crate) server_hold_cpu_us: Option<u64>,
    /// Its most resident memory.
    pub(crate) server_resident_bytes_max: Option<u64>,
    /// Second by second.
    pub(crate) seconds: Vec<Second>,
}

/// The word of a phase.
pub(crate) fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Ramp => "ramp",
        Phase::Hold => "hold",
        Phase::Drain => "drain",
        Phase::Close => "close",
        Phase::Over => "over",
    }
}

/// See the module.
pub(crate) struct Gatherer {
    /// All so far.
    pub(crate) whole: Whole,
    phase: Phase,
    phase_at: Duration,
    second: Counters,
    latency: Times,
    cpu_us: u64,
    sent_late: Times,
    second_at: Duration,
    server: Option<Usage>,
    /// CPU time of the server when the phase began.
    server_at_phase: Option<u64>,
}

impl Gatherer {
    /// Nothing yet, of a server that has used so much before.
    pub(crate) fn new(server: Option<Usage>) -> Gatherer {
        Gatherer {
            whole: Whole {
                counters: Counters::default(),
                hold: Counters::default(),
                hold_s: 0.0,
                latency: Times::new(),
                stayed: Times::new(),
                logins: Times::new(),
                answers: Times::new(),
                gauges: Gauges::default(),
                up_max: 0,
                up_at_hold: 0,
                ramp_s: 0.0,
                cpu_us: 0,
                hold_cpu_us: 0,
                sent_late: Times::new(),
                ramp_logins: 0,
                server_ramp_cpu_us: None,
                server_hold_cpu_us: None,
                server_resident_bytes_max: None,
                seconds: Vec::new(),
            },
            phase: Phase::Ramp,
            phase_at: Duration::ZERO,
            second: Counters::default(),
            latency: Times::new(),
            cpu_us: 0,
            sent_late: Times::new(),
            second_at: Duration::ZERO,
            server,
            server_at_phase: server.map(|server| server.cpu_us),
        }
    }

    /// Adds a worker's sample.
    pub(crate) fn sample(&mut self, sample: &Sample) {
        self.second.add(&sample.counters);
        self.whole.counters.add(&sample.counters);
        if self.phase == Phase::Hold {
            self.whole.hold.add(&sample.counters);
            self.whole.hold_cpu_us += sample.cpu_us;
        }
        self.latency.add(&sample.latency);
        self.whole.latency.add(&sample.latency);
        self.whole.stayed.add(&sample.stayed);
        self.whole.logins.add(&sample.logins);
        self.whole.answers.add(&sample.answers);
        self.cpu_us += sample.cpu_us;
        self.whole.cpu_us += sample.cpu_us;
        self.sent_late.add(&sample.sent_late);
        self.whole.sent_late.add(&sample.sent_late);
    }

    /// Whether a second is full or the phase is another: then [`Gatherer::moment`] wants to know
    /// the server's usage.
    pub(crate) fn is_due(&self, at: Duration, phase: Phase) -> bool {
        phase != self.phase || at >= self.second_at + Duration::from_secs(1)
    }

    /// Time has gone on. Returns the second that has become full.
    pub(crate) fn moment(
        &mut self,
        at: Duration,
        phase: Phase,
        gauges: &Gauges,
        server: Option<Usage>,
    ) -> Option<&Second> {
        let whole = &mut self.whole;
        whole.up_max = whole.up_max.max(gauges.up);
        whole.gauges = Gauges { grown_bytes: whole.gauges.grown_bytes.max(gauges.grown_bytes), ..*gauges };
        if phase != self.phase {
            let lasted = (at - self.phase_at).as_secs_f64();
            let used = server.zip(self.server_at_phase).map(|(now, then)| now.cpu_us.saturating_sub(then));
            match self.phase {
                Phase::Ramp => {
                    (whole.ramp_s, whole.ramp_logins) = (lasted, whole.counters.logins);
                    whole.server_ramp_cpu_us = used;
                }
                Phase::Hold => (whole.hold_s, whole.server_hold_cpu_us) = (lasted, used),
                _ => {}
            }
            if phase == Phase::Hold {
                whole.up_at_hold = gauges.up;
            }
            self.server_at_phase = server.map(|server| server.cpu_us);
            (self.phase, self.phase_at) = (phase, at);
        }
        if at < self.second_at + Duration::from_secs(1) {
            return None;
        }
        let passed_s = (at - self.second_at).as_secs_f64();
        let per_s = |count: u64| (count as f64 / passed_s * 10.0).round() / 10.0;
        let cores = |us: u64| (us as f64 / 1e6 / passed_s * 1000.0).round() / 1000.0;
        let used = server.zip(self.server).map(|(now, then)| now.cpu_us.saturating_sub(then.cpu_us));
        let resident = server.map(|server| server.resident_bytes);
        whole.server_resident_bytes_max = whole.server_resident_bytes_max.max(resident);
        let counted = std::mem::take(&mut self.second);
        let latency = std::mem::replace(&mut self.latency, Times::new());
        let late = std::mem::replace(&mut self.sent_late, Times::new());
        whole.seconds.push(Second {
            at_s: (at.as_secs_f64() * 1000.0).round() / 1000.0,
            phase: word(phase),
            up: gauges.up,
            open: gauges.open,
            logins_per_s: per_s(counted.logins),
            sent_per_s: per_s(counted.sent),
            received_per_s: per_s(counted.received),
            outstanding: gauges.outstanding,
            errors: counted.errors.values().sum(),
            p50_ms: latency.quantile_ms(0.5),
            p99_ms: latency.quantile_ms(0.99),
            p999_ms: latency.quantile_ms(0.999),
            server_cores: used.map(cores),
            server_resident_bytes: resident,
            generator_cores: cores(std::mem::take(&mut self.cpu_us)),
            late_p99_ms: late.quantile_ms(0.99),
        });
        self.second_at = at;
        self.server = server;
        whole.seconds.last()
    }
}

/// A second as a line for people, with what has gone wrong so far.
pub(crate) fn line(second: &Second, errors: &BTreeMap<String, u64>) -> String {
    let mut line = format!(
        "{:7.1} s {:5}  {} up  {:.0} logins/s  {:.0} out/s  {:.0} in/s",
        second.at_s, second.phase, second.up, second.logins_per_s, second.sent_per_s, second.received_per_s
    );
    if let (Some(p50), Some(p99), Some(p999)) = (second.p50_ms, second.p99_ms, second.p999_ms) {
        line += &format!("  p50 {p50:.2} p99 {p99:.2} p99.9 {p999:.2} ms");
    }
    if let Some(cores) = second.server_cores {
        line += &format!("  server {:.0} %", cores * 100.0);
    }
    for (kind, count) in errors {
        line += &format!("  [{kind}: {count}]");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sent: u64, latency: &[(u64, u64)], cpu_us: u64) -> Sample {
        let counters = Counters { sent, received: sent, ..Counters::default() };
        Sample { counters, latency: latency.to_vec(), cpu_us, ..Sample::default() }
    }

    #[test]
    fn seconds_have_their_own_figures_and_the_whole_has_all() {
        let usage = |cpu_us| Some(Usage { cpu_us, resident_bytes: 7 });
        let mut gatherer = Gatherer::new(usage(40));
        let gauges = Gauges { up: 5, ..Gauges::default() };
        gatherer.sample(&Sample { counters: Counters { logins: 5, ..Counters::default() }, ..Sample::default() });
        assert_eq!(gatherer.moment(Duration::from_millis(500), Phase::Hold, &gauges, usage(100)), None);
        gatherer.sample(&sample(10, &[(1000, 9), (9000, 1)], 250_000));
        let second =
            gatherer.moment(Duration::from_millis(1000), Phase::Hold, &gauges, usage(100)).expect("it is full");
        assert_eq!((second.sent_per_s, second.p50_ms, second.generator_cores), (10.0, Some(1.0), 0.25));
        gatherer.sample(&sample(20, &[(5000, 20)], 0));
        let second = gatherer.moment(Duration::from_secs(3), Phase::Hold, &gauges, usage(1_000_100)).expect("full");
        assert_eq!((second.sent_per_s, second.server_cores), (10.0, Some(0.5)));
        assert!(second.p50_ms.is_some_and(|ms| (5.0..5.01).contains(&ms)));
        gatherer.moment(Duration::from_millis(3500), Phase::Drain, &gauges, usage(2_000_100));
        let whole = &gatherer.whole;
        assert_eq!((whole.hold.sent, whole.hold_s, whole.ramp_s), (30, 3.0, 0.5));
        assert_eq!((whole.server_hold_cpu_us, whole.latency.count()), (Some(2_000_000), 30));
        assert_eq!((whole.server_ramp_cpu_us, whole.ramp_logins), (Some(60), 5));
    }
}
