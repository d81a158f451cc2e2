//! Where a backup is: a folder, or a bucket of an S3 service, as named objects with content.
//!
//! Every request has a deadline, by its size. This module knows nothing of what the objects hold.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use hyper::body::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::s3::{self, S3Options};
use super::seal::Seal;
use super::{OBJECT_BYTES_MAX, PART_BYTES};

/// Longest time of a request without content.
const PATIENCE: Duration = Duration::from_secs(30);

/// The slowest link on which an object is not given up, bytes per second.
const SLOWEST_BYTES_S: u64 = 32 << 10;

/// Names that one request removes at most.
const DELETED_AT_ONCE: usize = 1000;

/// Names that a listing holds at most: two objects per second for eleven days.
const LISTED_MAX: usize = 2_000_000;

/// Longest description of an error, characters: some repeat what a service has answered.
const WORDS_MAX: usize = 600;

/// A place for backups.
#[derive(Clone, Debug)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    seal: Seal,
    url: String,
}

impl Bucket {
    /// The place that a URL names: `file:///absolute/folder`, or `s3://bucket/prefix`. With `make`,
    /// a missing folder is created.
    ///
    /// # Errors
    /// Why it cannot be used, with what to do.
    pub fn open(url: &str, options: &S3Options, seal: Seal, make: bool) -> Result<Bucket, String> {
        let wrong = |what: String| format!("{url}: {what}");
        if let Some(place) = url.strip_prefix("s3://") {
            let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
            if name.is_empty() {
                return Err(wrong("it names no bucket: s3://BUCKET/PREFIX".into()));
            }
            let store = s3::open(name, options, seal.encrypts()).map_err(wrong)?;
            return Ok(Bucket { store, prefix: Path::from(prefix), seal, url: url.to_owned() });
        }
        let Some(folder) = url.strip_prefix("file://").filter(|folder| folder.starts_with('/')) else {
            return Err(wrong("a backup's URL is file:///ABSOLUTE/FOLDER or s3://BUCKET/PREFIX".into()));
        };
        if make {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| wrong(error.to_string()))?;
        }
        let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| wrong(error.to_string()))?;
        Ok(Bucket { store: Arc::new(store.with_fsync(true)), prefix: Path::default(), seal, url: url.to_owned() })
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether its objects are encrypted.
    pub fn encrypts(&self) -> bool {
        self.seal.encrypts()
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// The name of a path below the prefix.
    fn name(&self, path: &Path) -> String {
        let parts = path.prefix_match(&self.prefix).into_iter().flatten();
        parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/")
    }

    /// Writes an object; durable on return.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn put(&self, name: &str, content: Vec<u8>) -> Result<u64, String> {
        let (seal, own) = (self.seal.clone(), name.to_owned());
        let object = tokio::task::spawn_blocking(move || seal.close(&own, &content));
        let object = object.await.map_err(|error| error.to_string())??;
        let bytes = object.len() as u64;
        within(bytes, name, self.store.put(&self.path(name), object.into())).await?;
        Ok(bytes)
    }

    /// The content of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.path(name);
        let read = async {
            match self.store.get(&path).await {
                Ok(found) if found.meta.size > OBJECT_BYTES_MAX as u64 => Ok(Some(Bytes::new())),
                Ok(found) => found.bytes().await.map(Some),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        // Its size is not known before, and at most this but for one large row or group.
        let Some(object) = within(PART_BYTES as u64, name, read).await? else { return Ok(None) };
        self.seal.open(name, object.into()).map(Some)
    }

    /// Names of the objects in a folder and below it, after the name `after`, in order.
    ///
    /// # Errors
    /// Why they cannot be listed; there are more than [`LISTED_MAX`].
    pub(super) async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>, String> {
        let listed = self.list_some(folder, after, |_| true).await?;
        match listed.len() < LISTED_MAX {
            true => Ok(listed),
            false => Err(format!("{}/{folder} has more than {LISTED_MAX} objects", self.url)),
        }
    }

    /// As [`Bucket::list`], those that are wanted only; if there are very many, not all of them.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub(super) async fn list_some(
        &self,
        folder: &str,
        after: Option<&str>,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, String> {
        let path = self.path(folder);
        let mut listing = match after {
            Some(after) => self.store.list_with_offset(Some(&path), &self.path(after)),
            None => self.store.list(Some(&path)),
        };
        let mut listed = Vec::new();
        // The time is that of a page, however many there are.
        while let Some(object) = within(0, folder, listing.try_next()).await? {
            let name = self.name(&object.location);
            if wanted(&name) {
                listed.push(name);
            }
            if listed.len() == LISTED_MAX {
                break;
            }
        }
        listed.sort_unstable();
        Ok(listed)
    }

    /// Names of the folders in a folder, in order; `""` is the root.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub(super) async fn folders(&self, folder: &str) -> Result<Vec<String>, String> {
        let path = if folder.is_empty() { self.prefix.clone() } else { self.path(folder) };
        let listed = within(0, folder, self.store.list_with_delimiter(Some(&path))).await?;
        let mut names: Vec<String> = listed.common_prefixes.iter().map(|path| self.name(path)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Removes objects; those that do not exist are skipped.
    ///
    /// # Errors
    /// Why not all of them were removed.
    pub(super) async fn delete(&self, names: &[String]) -> Result<(), String> {
        for names in names.chunks(DELETED_AT_ONCE) {
            let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
            let deleted = self.store.delete_stream(Box::pin(futures_util::stream::iter(paths)));
            let gone = |result: Result<Path, object_store::Error>| match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            };
            within(PART_BYTES as u64, "old objects", deleted.map(gone).try_collect::<()>()).await?;
        }
        Ok(())
    }
}

/// A request for so many bytes, within its time.
async fn within<T>(
    bytes: u64,
    name: &str,
    request: impl Future<Output = Result<T, object_store::Error>>,
) -> Result<T, String> {
    let patience = PATIENCE + Duration::from_secs(bytes / SLOWEST_BYTES_S);
    match tokio::time::timeout(patience, request).await {
        Ok(result) => result.map_err(|error| in_words(&error)),
        Err(_) => Err(format!("{name}: no answer within {} s", patience.as_secs())),
    }
}

/// An error with its causes, which the library does not repeat, on one line.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text += &format!(": {cause_text}");
        }
        next = cause.source();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect()
}
