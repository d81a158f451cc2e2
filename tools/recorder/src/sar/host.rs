//! The current host, as a feed.

use std::sync::Arc;
use std::time::Duration;

use super::Failure;
use super::feed::{Feed, Said};
use crate::clock::{self, Pace, Stop};
use crate::recorder::Sampler;
use crate::schema::Schema;
use crate::sources::{self, Roots};

/// Samples of this host, until the end is requested.
pub(super) struct Host {
    sampler: Sampler,
    pace: Pace,
    stop: Arc<Stop>,
    said: bool,
}

impl Host {
    pub(super) fn new(pid: u32, interval: Duration, stop: Arc<Stop>) -> Host {
        let roots = Roots::of(pid);
        let origin = sources::origin(&roots, interval.as_millis() as u64, "throng sar");
        let sampler = Sampler::new(origin, sources::all(&roots));
        Host { sampler, pace: Pace::at_once(interval), stop, said: true }
    }
}

impl Feed for Host {
    fn next(&mut self) -> Result<Option<Said>, Failure> {
        if !self.said {
            self.said = true;
            return Ok(Some(Said::Waiting));
        }
        if !self.pace.wait(&self.stop) {
            return Ok(None);
        }
        self.sampler.sample(clock::wall_ms(), clock::monotonic_us());
        self.said = false;
        Ok(Some(Said::Sample(self.sampler.last())))
    }

    fn schema(&mut self) -> Result<Arc<Schema>, Failure> {
        Ok(self.sampler.shape().schema().clone())
    }
}
