//! Who writes to a place: one server at a time.
//!
//! The record names the store, the data folder and the process, and has a number that its process
//! raises every few seconds. A server that finds another store's record writes nothing. If the
//! store is its own but the folder is another one, it waits until the number has stopped rising.
//! No clock is compared. Each process reads the record before it raises the number, so a process
//! that was replaced stops by itself.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bucket::Bucket;
use super::pieces::OWNER;
use super::random;

/// How often the number is raised.
pub(super) const BEAT: Duration = Duration::from_secs(5);

/// Time without a raise after which another folder of the same store may write.
const SILENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    store: String,
    /// The data folder.
    place: String,
    /// The process.
    run: String,
    host: String,
    beat: u64,
    /// Whether the process has stopped and said so.
    stopped: bool,
}

/// The claim of this process.
#[derive(Debug)]
pub(super) struct Owner {
    own: Record,
    /// Another folder's record, and since when it has not changed.
    seen: Option<(Record, Instant)>,
    /// [`SILENCE`], except in tests.
    silence: Duration,
}

/// Why nothing may be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Another server does, in words.
    Other(String),
    /// The place does not answer.
    Trouble(String),
}

impl Owner {
    /// The claim of a process on a locked data folder.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(store: &str, folder: &Path) -> Result<Owner, String> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let about = folder.metadata().map_err(|error| format!("{}: {error}", folder.display()))?;
        let place = format!("{host}:{:x}:{:x}", about.dev(), about.ino());
        let own = Record { store: store.to_owned(), place, run: random()?, host, beat: 0, stopped: false };
        Ok(Owner { own, seen: None, silence: SILENCE })
    }

    /// Claims the place. To be repeated while another folder of the store may still write.
    ///
    /// # Errors
    /// Why not, now.
    pub(super) async fn claim(&mut self, bucket: &Bucket) -> Result<(), Refused> {
        if let Some(found) = read(bucket).await? {
            if found.store != self.own.store {
                return Err(Refused::Other(format!(
                    "{} has the backup of another store, written by a server on {}: give this server a place of its \
                     own, or restore that backup to continue it",
                    bucket.url(),
                    found.host
                )));
            }
            let free = found.stopped || found.place == self.own.place;
            if !free {
                match &self.seen {
                    Some((seen, since)) if *seen == found && since.elapsed() >= self.silence => {}
                    Some((seen, _)) if *seen == found => return Err(Refused::Other(other(bucket, &found))),
                    _ => {
                        let text = other(bucket, &found);
                        self.seen = Some((found, Instant::now()));
                        return Err(Refused::Other(text));
                    }
                }
            }
        }
        self.write(bucket).await.map_err(Refused::Trouble)
    }

    /// Raises the number.
    ///
    /// # Errors
    /// Another process has claimed the place.
    pub(super) async fn beat(&mut self, bucket: &Bucket) -> Result<(), Refused> {
        match read(bucket).await? {
            Some(found) if found.run != self.own.run => Err(Refused::Other(other(bucket, &found))),
            _ => {
                self.own.beat += 1;
                self.write(bucket).await.map_err(Refused::Trouble)
            }
        }
    }

    /// Says that this process writes nothing any more.
    pub(super) async fn leave(&mut self, bucket: &Bucket) {
        self.own.stopped = true;
        // If it fails, another folder of the store waits.
        let _ = self.beat(bucket).await;
    }

    async fn write(&self, bucket: &Bucket) -> Result<(), String> {
        let record = serde_json::to_vec(&self.own).map_err(|error| error.to_string())?;
        bucket.put(OWNER, record).await.map(drop)
    }
}

fn other(bucket: &Bucket, found: &Record) -> String {
    format!(
        "another server on {} writes the backup of the same store to {}: stop one of them, or give each a place of \
         its own",
        found.host,
        bucket.url()
    )
}

async fn read(bucket: &Bucket) -> Result<Option<Record>, Refused> {
    let Some(record) = bucket.get(OWNER).await.map_err(Refused::Trouble)? else { return Ok(None) };
    let record = serde_json::from_slice(&record);
    record.map(Some).map_err(|error| Refused::Trouble(format!("{}/{OWNER} cannot be read: {error}", bucket.url())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::S3Options;
    use crate::backup::seal::Seal;

    #[test]
    fn one_server_at_a_time_writes_to_a_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
        let url = format!("file://{}", folders[0].path().display());
        let bucket = Bucket::open(&url, &S3Options::default(), Seal::default(), true).expect("opened");
        let of = |store: &str, folder: usize| Owner::new(store, folders[folder].path()).expect("a claim");
        let text = |refused: Result<(), Refused>| match refused {
            Err(Refused::Other(text)) => text,
            other => panic!("{other:?}"),
        };
        runtime.block_on(async {
            let mut first = of("a", 1);
            first.claim(&bucket).await.expect("the place is free");
            assert!(text(of("b", 2).claim(&bucket).await).contains("the backup of another store"));
            // The folder is locked: the process before has ended.
            let mut again = of("a", 1);
            again.claim(&bucket).await.expect("its own folder");
            assert!(text(first.beat(&bucket).await).contains("stop one of them"));
            let mut elsewhere = of("a", 2);
            elsewhere.silence = Duration::ZERO;
            assert!(text(elsewhere.claim(&bucket).await).contains("another server on"));
            again.beat(&bucket).await.expect("its own");
            assert!(text(elsewhere.claim(&bucket).await).contains("another server on"), "it is alive");
            elsewhere.claim(&bucket).await.expect("the other one has fallen silent");
            assert!(text(again.beat(&bucket).await).contains("stop one of them"));
            elsewhere.leave(&bucket).await;
            of("a", 1).claim(&bucket).await.expect("the other one has left");
        });
    }
}
