//! Subscribers whose connections are reset at random, and who return to where they were, while the server is killed again and again:
//! each sees every item of its durable channels once and in order.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Channels, Judged, figure, flags};
use crate::report::{Random, spread};

/// What to try.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Seconds in which items are published and subscribers drop and return.
    #[arg(long, default_value_t = 3_600.0)]
    returns_seconds: f64,
    /// How often the server is killed meanwhile, at random times of equal parts.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// Subscribers, who take turns in the ways of `--by`.
    #[arg(long, default_value_t = 300)]
    returning: u32,
    /// Seconds that a connection lasts on average until it is reset.
    #[arg(long, default_value_t = 30.0)]
    lasts_seconds: f64,
    /// Channels over which they are spread.
    #[arg(long, default_value_t = 30)]
    returned_channels: u32,
    /// Items per second of all channels.
    #[arg(long, default_value_t = 30.0)]
    returned_items: f64,
}

pub(super) fn run(throng: &Path, options: &super::Options) -> io::Result<Judged> {
    let own = &options.returns;
    let channels = Channels::new(throng, options)?;
    let mut server = channels.plan.start()?;
    let ramp = Duration::from_secs(3);
    let began = Instant::now() + ramp;
    let load = channels.load(
        throng,
        "returns.json",
        &flags(&[
            ("subscribers", own.returning.to_string()),
            ("publishers", own.returned_channels.to_string()),
            ("channels", own.returned_channels.to_string()),
            ("by", options.by.join(",")),
            ("rate", own.returned_items.to_string()),
            ("flap-per-s", (f64::from(own.returning) / own.lasts_seconds).to_string()),
            ("wait-s", "20".into()),
            ("hold-s", (own.returns_seconds + ramp.as_secs_f64()).to_string()),
            ("drain-s", "60".into()),
            ("total-s-max", (own.returns_seconds + 600.0).to_string()),
        ]),
    )?;
    let mut random = Random::new(1);
    let each = own.returns_seconds / f64::from(own.kills.max(1));
    let (mut back_s, mut panics) = (Vec::new(), Vec::new());
    for n in 0..own.kills {
        // In the middle half of its part, so that no two come at once.
        let part = f64::from(n) + 0.25 + random.between(0, 500) as f64 / 1_000.0;
        let due = began + Duration::from_secs_f64(part * each);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        panics.extend(server.panics());
        server.kill()?;
        server = channels.plan.start()?;
        back_s.push(server.accepting.as_secs_f64());
        eprintln!(
            "killed {} of {} times; accepts again after {:.2} s",
            n + 1,
            own.kills,
            server.accepting.as_secs_f64()
        );
    }
    let result = load.result()?;
    panics.extend(server.panics());
    let gaps = figure(&result, "/deliveries/gaps")?;
    // The load itself fails by an item that is lost, doubled or out of order; a gap that was told is a fault here as well.
    let met = gaps == 0.0 && panics.is_empty();
    let sentence = format!(
        "{} items came to {} subscribers {} times, each once and in order, over {} connections and {} kills; {gaps} gaps, {} panics",
        result["publications"]["confirmed"],
        own.returning,
        result["deliveries"]["received"],
        result["connections"]["connects"],
        own.kills,
        panics.len(),
    );
    let value = json!({
        "what": "subscribers of durable channels whose connections are reset at random, by a server that is killed: each sees each item once",
        "seconds": own.returns_seconds, "kills": own.kills, "subscribers": own.returning, "by": options.by,
        "channels": own.returned_channels, "items_per_s": own.returned_items, "accepts_again_s": spread(back_s.into_iter()),
        "publications": result["publications"], "deliveries": result["deliveries"], "connections": result["connections"],
        "errors": result["errors"], "panics": panics, "met": met,
    });
    Ok(Judged { met, sentence, value })
}
