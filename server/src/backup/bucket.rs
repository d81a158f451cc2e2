//! Where a backup is: a folder, or a bucket of an S3 service, as named objects with content.
//!
//! Every request has a deadline, by its size. This module knows nothing of what the objects hold.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::PART_BYTES;
use super::seal::Seal;

/// Longest time of a request without content.
const PATIENCE: Duration = Duration::from_secs(30);

/// The slowest link on which an object is not given up, bytes per second.
const SLOWEST_BYTES_S: u64 = 32 << 10;

/// Listed names that one request returns at most. A listing that needs more is continued.
const DELETED_AT_ONCE: usize = 1000;

/// A place for backups.
#[derive(Clone, Debug)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    seal: Seal,
    url: String,
}

impl Bucket {
    /// The place that a URL names: `file:///absolute/folder`. With `make`, a missing folder is
    /// created.
    ///
    /// # Errors
    /// Why it cannot be used, with what to do.
    pub fn open(url: &str, seal: Seal, make: bool) -> Result<Bucket, String> {
        let wrong = |what: String| format!("{url}: {what}");
        let Some(folder) = url.strip_prefix("file://").filter(|folder| folder.starts_with('/')) else {
            return Err(wrong("a backup's URL is file:///ABSOLUTE/FOLDER".into()));
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
                Ok(found) => found.bytes().await.map(Some),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        // Its size is not known before, and at most this but for one large row or group.
        let Some(object) = within(PART_BYTES as u64, name, read).await? else { return Ok(None) };
        self.seal.open(name, object.into()).map(Some)
    }

    /// Names and sizes of the objects in a folder and below it, after the name `after`, in order.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub(super) async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<(String, u64)>, String> {
        let path = self.path(folder);
        let listed = match after {
            Some(after) => self.store.list_with_offset(Some(&path), &self.path(after)),
            None => self.store.list(Some(&path)),
        };
        let listed = listed.map_ok(|object| (self.name(&object.location), object.size)).try_collect::<Vec<_>>();
        let mut listed = within(PART_BYTES as u64, folder, listed).await?;
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
            let all = async {
                use futures_util::StreamExt;
                deleted.map(gone).try_collect::<()>().await
            };
            within(PART_BYTES as u64, "old objects", all).await?;
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

/// An error with its causes, which the library does not repeat.
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
    text
}
