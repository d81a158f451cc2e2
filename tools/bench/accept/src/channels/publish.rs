//! Durable publications a second, one by one and in batches: as many as publishers get answered that wait for each answer.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::{Channels, Judged, figure, flags};
use crate::report::{median, spread};

/// What to publish.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Connections that publish.
    #[arg(long, default_value_t = 200)]
    publishers: u32,
    /// Channels at which they do.
    #[arg(long, default_value_t = 1_000)]
    published_channels: u32,
    /// Items of a batch.
    #[arg(long, default_value_t = 64)]
    batch: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 10.0)]
    publish_seconds: f64,
    /// Runs of each.
    #[arg(long, default_value_t = 3)]
    publish_runs: usize,
}

pub(super) fn run(throng: &Path, options: &super::Options) -> io::Result<Judged> {
    let own = &options.publish;
    let (mut rows, mut words, mut met) = (Vec::new(), Vec::new(), true);
    for (batch, least) in [(1, 20_000.0), (own.batch, 100_000.0)] {
        let (mut rates, mut cost, mut answer) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..own.publish_runs.max(1) {
            let server = Channels::new(throng, options)?;
            let _runs = server.plan.start()?;
            let flags = flags(&[
                ("subscribers", "0".into()),
                ("publishers", own.publishers.to_string()),
                ("channels", own.published_channels.to_string()),
                ("rate", "0".into()),
                ("batch", batch.to_string()),
                ("hold-s", own.publish_seconds.to_string()),
            ]);
            let result = server.load(throng, "published.json", &flags)?.result()?;
            rates.push(figure(&result, "/publications/confirmed_per_s")?);
            cost.push(figure(&result, "/server/cpu_us_per_publication")?);
            answer.push(figure(&result, "/publications/answer_ms/p99")?);
        }
        let rate = median(rates.clone());
        met &= rate >= least;
        eprintln!("{rate:.0} items/s in batches of {batch}");
        words.push(format!("{rate:.0} in batches of {batch} (at least {least:.0})"));
        rows.push(json!({
            "batch": batch, "target_items_per_s": least, "items_per_s": spread(rates.into_iter()),
            "cpu_us_an_item": spread(cost.into_iter()), "answer_ms_p99": spread(answer.into_iter()), "met": rate >= least,
        }));
    }
    let value = json!({
        "what": "durable items per second of publishers that wait for each answer, on the same cores as the server",
        "publishers": own.publishers, "channels": own.published_channels, "rows": Value::Array(rows), "met": met,
    });
    Ok(Judged { met, sentence: format!("durable items per second: {}", words.join(", ")), value })
}
