//! Numbers in the OpenMetrics text format, which Prometheus reads.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::{Number, Numbers, Telemetry};
use crate::admin::Status;

/// Of the answer.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text. Names are stable: `throng_shard_` and the name of `throng ctl status`, one series a shard; `throng_store_`,
/// `throng_reads_` and what the store counts.
///
/// # Errors
/// Never; the text is written to memory.
pub(super) fn text(telemetry: &dyn Telemetry) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("throng");
    let status = telemetry.status();
    let labels =
        vec![("version", status.version.clone()), ("driver", status.driver.clone()), ("domain", status.domain.clone())];
    registry.register("build", "What runs", Info::new(labels));
    let shards = telemetry.shards().into_iter().enumerate().map(|(shard, numbers)| (shard.to_string(), numbers));
    let mut sets = vec![Numbers { of: "shard", by: Some("shard"), sets: shards.collect() }];
    sets.extend(telemetry.works());
    registry.register_collector(Box::new(All { status, sets }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct All {
    status: Status,
    sets: Vec<Numbers>,
}

impl Collector for All {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = &self.status;
        for (name, help, value) in [
            ("uptime_seconds", "Seconds since the start", status.uptime_s),
            ("shards", "Number of shards", status.shards.into()),
            ("connections", "Open connections, authenticated or not", status.connections),
            ("sessions", "Bound sessions with a connection", status.sessions),
            ("sessions_resumable", "Sessions that wait to be resumed (XEP-0198)", status.resumable),
            ("storage_full", "1 while new messages are refused because the disk is full", status.storage_full.into()),
            ("stopping", "1 while the server is on its way out", status.stopping.into()),
            (
                "recorder_failed",
                "1 once the activity recorder has failed: nothing is recorded until the server is started again",
                status.unrecorded.is_some().into(),
            ),
        ] {
            let gauge = ConstGauge::new(signed(value));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let help = "Lines of the log that were lost: they came faster than they were read, or could not be written";
        let lost = ConstCounter::new(status.log_lines_lost);
        lost.encode(encoder.encode_descriptor("log_lines_lost", help, None, lost.metric_type())?)?;
        if let Some(certificate) = &status.certificate {
            let help = "When the TLS certificate in use ends, in seconds since 1970; subtract time() for what is left";
            let gauge = ConstGauge::new(certificate.expires_s);
            let name = "tls_certificate_expires_seconds";
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        self.sets.iter().try_for_each(|numbers| numbers.encode(&mut encoder))?;
        let help = "Resident memory by what holds it: files are pages of files, rest what no part reports";
        let kind = ConstGauge::new(0i64).metric_type();
        let mut metric = encoder.encode_descriptor("memory_bytes", help, None, kind)?;
        for (part, bytes) in &status.memory {
            ConstGauge::new(signed(*bytes)).encode(metric.encode_family(&[("part", part.as_str())])?)?;
        }
        Ok(())
    }
}

impl Numbers {
    /// A family a number, with a series a set.
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some((_, first)) = self.sets.first() else { return Ok(()) };
        for (at, number) in first.iter().enumerate() {
            // The format puts the full stop behind a help itself.
            let help = number.help.trim_end_matches('.');
            let name = format!("{}_{}", self.of, number.name);
            let kind = match number.counts {
                true => ConstCounter::new(0u64).metric_type(),
                false => ConstGauge::new(0i64).metric_type(),
            };
            let mut metric = encoder.encode_descriptor(&name, help, None, kind)?;
            let Some(by) = self.by else {
                number.encode(metric)?;
                continue;
            };
            for (set, numbers) in &self.sets {
                if let Some(number) = numbers.get(at) {
                    number.encode(metric.encode_family(&[(by, set.as_str())])?)?;
                }
            }
        }
        Ok(())
    }
}

impl Number {
    fn encode(&self, series: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        match self.counts {
            true => ConstCounter::new(self.value).encode(series),
            false => ConstGauge::new(signed(self.value)).encode(series),
        }
    }
}

/// A level as the library takes it.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
