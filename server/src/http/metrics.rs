//! Numbers in the OpenMetrics text format, which Prometheus reads.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::{Number, Watched};
use crate::admin::Status;

/// Of the answer.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text. Names are stable: `throng_shard_` and the name of `throng ctl status`, one series a shard.
///
/// # Errors
/// Never; the text is written to memory.
pub(super) fn text(watched: &dyn Watched) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("throng");
    let status = watched.status();
    let labels =
        vec![("version", status.version.clone()), ("driver", status.driver.clone()), ("domain", status.domain.clone())];
    registry.register("build", "What runs", Info::new(labels));
    registry.register_collector(Box::new(Numbers { status, shards: watched.shards() }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Numbers {
    status: Status,
    shards: Vec<Vec<Number>>,
}

impl Collector for Numbers {
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
        ] {
            let gauge = ConstGauge::new(signed(value));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let Some(first) = self.shards.first() else { return Ok(()) };
        for (at, number) in first.iter().enumerate() {
            // The format puts the full stop behind a help itself.
            let help = number.help.trim_end_matches('.');
            let name = format!("shard_{}", number.name);
            let series =
                self.shards.iter().enumerate().filter_map(|(shard, numbers)| Some((shard, numbers.get(at)?.value)));
            if number.counts {
                let kind = ConstCounter::new(0u64).metric_type();
                let mut metric = encoder.encode_descriptor(&name, help, None, kind)?;
                for (shard, value) in series {
                    ConstCounter::new(value).encode(metric.encode_family(&[("shard", shard)])?)?;
                }
            } else {
                let kind = ConstGauge::new(0i64).metric_type();
                let mut metric = encoder.encode_descriptor(&name, help, None, kind)?;
                for (shard, value) in series {
                    ConstGauge::new(signed(value)).encode(metric.encode_family(&[("shard", shard)])?)?;
                }
            }
        }
        Ok(())
    }
}

/// A level as the library takes it.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
