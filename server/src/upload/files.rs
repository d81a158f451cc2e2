//! The folder of uploaded files.
//!
//! ```text
//! DATA/upload/incoming/ID    one that comes; what a crash leaves is removed at the next start
//! DATA/upload/ID[..2]/ID     one that is whole: linked there when its bytes are on the disk, and never written again
//! ```
//!
//! Identifiers are hexadecimal digits that the server has made itself: nothing that a client says becomes part of a path.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use throng_engine::extension::upload::slot::{Slot, is_id};

use super::{About, Owners};
use crate::disk::space::{FreeBytes, sync_dir};
use crate::waits::{Mutex, Place};

/// Name of the folder in the data folder.
const FOLDER: &str = "upload";
/// Where files are until they are whole.
const INCOMING: &str = "incoming";
/// What a file takes on the disk is counted in whole blocks of this, bytes; so is its name.
const BLOCK: u64 = 4 << 10;

/// Bounds of all files together.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes on the disk.
    pub bytes_max: u64,
    /// Bytes that stay free on the device, for messages.
    pub free_bytes_min: u64,
}

/// The files.
pub struct Files {
    folder: PathBuf,
    bounds: Bounds,
    free: FreeBytes,
    owners: Arc<dyn Owners>,
    /// Bytes of whole files, once they have been counted.
    stored: AtomicU64,
    /// Bytes of files that became whole since the count began.
    added: AtomicU64,
    counted: AtomicBool,
    /// Files that are being uploaded, by their identifiers, as many as there are connections at most, and their bytes.
    coming: Mutex<(BTreeSet<Box<str>>, u64)>,
}

/// Why a file is not taken.
#[derive(Debug)]
pub enum NoFile {
    /// It is there, or comes by another connection.
    Twice,
    /// Its owner's account is not there any more.
    NoOwner,
    /// There is no room for it.
    Full,
    /// Files have not been counted yet, or the account cannot be looked up now.
    NotNow,
    /// The system's.
    Io(io::Error),
}

impl From<io::Error> for NoFile {
    fn from(error: io::Error) -> NoFile {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => NoFile::Full,
            io::ErrorKind::AlreadyExists => NoFile::Twice,
            _ => NoFile::Io(error),
        }
    }
}

/// A file that comes. Dropped before it is whole, nothing is left of it.
pub struct Coming {
    files: Arc<Files>,
    id: Box<str>,
    bytes: u64,
    file: Option<File>,
}

/// A file of the folder, for who lists them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its identifier.
    pub id: String,
    /// What is known of it; `None` if it is damaged.
    pub about: Option<About>,
    /// Its bytes on the disk.
    pub bytes: u64,
}

impl Files {
    /// Opens the folder in the data folder, makes it if it is not there, and removes what never became whole.
    ///
    /// # Errors
    /// The system's.
    pub fn open(data: &Path, bounds: Bounds, free: FreeBytes, owners: Arc<dyn Owners>) -> io::Result<Arc<Files>> {
        let folder = data.join(FOLDER);
        let incoming = folder.join(INCOMING);
        fs::create_dir_all(&incoming)?;
        for left in fs::read_dir(&incoming)? {
            fs::remove_file(left?.path())?;
        }
        for byte in 0..=u8::MAX {
            fs::create_dir_all(folder.join(format!("{byte:02x}")))?;
        }
        sync_dir(&folder).map_err(io::Error::other)?;
        sync_dir(data).map_err(io::Error::other)?;
        Ok(Arc::new(Files {
            folder,
            bounds,
            free,
            owners,
            stored: AtomicU64::new(0),
            added: AtomicU64::new(0),
            counted: AtomicBool::new(false),
            coming: Mutex::new(Place::LockUploads, (BTreeSet::new(), 0)),
        }))
    }

    fn path(&self, id: &str) -> PathBuf {
        path(&self.folder, id)
    }

    fn incoming(&self, id: &str) -> PathBuf {
        self.folder.join(INCOMING).join(id)
    }

    /// Begins to take the file of a slot, of this content type.
    ///
    /// # Errors
    /// See [`NoFile`]; nothing has changed.
    pub fn take(self: &Arc<Files>, slot: &Slot, content_type: &str, now_s: u64) -> Result<Coming, NoFile> {
        if !self.counted.load(Ordering::Acquire) {
            return Err(NoFile::NotNow);
        }
        let bytes = blocks(slot.size);
        let mut coming = self.reserve(&slot.id, bytes)?;
        match self.owners.is_there(&slot.owner, slot.incarnation) {
            Some(true) => {}
            Some(false) => return Err(NoFile::NoOwner),
            None => return Err(NoFile::NotNow),
        }
        if self.path(&slot.id).try_exists()? {
            return Err(NoFile::Twice);
        }
        let about = About {
            owner: slot.owner.to_string(),
            account: About::account_of(slot.incarnation),
            name: slot.name.to_string(),
            content_type: content_type.to_owned(),
            size: slot.size,
            came_s: now_s,
            expires_s: slot.expires_s,
        };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.incoming(&slot.id))?;
        let written = file.write_all(&about.head()?);
        coming.file = Some(file);
        written?;
        Ok(coming)
    }

    /// Keeps room for a file, if there is some.
    fn reserve(self: &Arc<Files>, id: &str, bytes: u64) -> Result<Coming, NoFile> {
        let free = (self.free)(&self.folder).map_err(|error| NoFile::Io(io::Error::other(error)))?;
        let mut coming = self.coming.lock();
        let (ids, under_way) = &mut *coming;
        let (stored, wanted) = (self.stored.load(Ordering::Acquire), *under_way + bytes);
        if stored + wanted > self.bounds.bytes_max || free < self.bounds.free_bytes_min.saturating_add(wanted) {
            return Err(NoFile::Full);
        }
        if !ids.insert(id.into()) {
            return Err(NoFile::Twice);
        }
        *under_way = wanted;
        Ok(Coming { files: self.clone(), id: id.into(), bytes, file: None })
    }

    /// A whole file that is served at this time, by its identifier and name: its beginning is read, and told where its bytes begin.
    ///
    /// # Errors
    /// `NotFound`, also where its time is over, its name is another, or its owner's account is not there any more; `WouldBlock` where the
    /// account cannot be looked up now; the system's.
    pub fn find(&self, id: &str, name: &str, now_s: u64) -> io::Result<(File, About, u64)> {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        if !is_id(id) {
            return Err(not_found());
        }
        let file = File::open(self.path(id))?;
        let (about, begins) = About::read(&file)?;
        let account = about.incarnation().ok_or_else(not_found)?;
        if about.name != name || about.expires_s <= now_s {
            return Err(not_found());
        }
        match self.owners.is_there(&about.owner, account) {
            Some(true) => Ok((file, about, begins)),
            Some(false) => Err(not_found()),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Whether a file is to be removed: its time is over, it is damaged, or its owner's account is not there any more.
    pub(super) fn is_over(&self, listed: &Listed, now_s: u64) -> bool {
        let Some(about) = &listed.about else { return true };
        let gone = about.incarnation().is_none_or(|account| self.owners.is_there(&about.owner, account) == Some(false));
        about.expires_s <= now_s || gone
    }

    /// A count of all files begins.
    pub(super) fn count_begins(&self) {
        self.added.store(0, Ordering::Release);
    }

    /// It has ended with so many bytes.
    pub(super) fn count_ended(&self, bytes: u64) {
        self.stored.store(bytes + self.added.load(Ordering::Acquire), Ordering::Release);
        self.counted.store(true, Ordering::Release);
    }

    /// Bytes of whole files on the disk.
    pub fn stored_bytes(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Files in this part of the 256 of a data folder's files.
    ///
    /// # Errors
    /// The system's. A folder that is not there has none.
    pub fn list(data: &Path, part: u8) -> io::Result<Vec<Listed>> {
        list(&data.join(FOLDER), part)
    }

    /// Removes a file of a data folder.
    ///
    /// # Errors
    /// The system's. One that is gone is no error.
    pub fn remove(data: &Path, id: &str) -> io::Result<()> {
        remove(&data.join(FOLDER), id)
    }
}

/// See [`Files::list`].
pub(super) fn list(folder: &Path, part: u8) -> io::Result<Vec<Listed>> {
    let begins = format!("{part:02x}");
    let entries = match fs::read_dir(folder.join(&begins)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        // What is not named as files are is not of ours.
        let name = entry.file_name();
        let Some(id) = name.to_str().filter(|name| is_id(name) && name.starts_with(&begins)) else { continue };
        let id = id.to_owned();
        let file = match File::open(entry.path()) {
            // It has gone meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        // Only what was read and is none is damaged; what cannot be read now is nobody's reason to remove it.
        let about = match About::read(&file) {
            Ok((about, _)) => Some(about),
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => None,
            Err(error) => return Err(error),
        };
        let bytes = blocks(file.metadata()?.len());
        found.push(Listed { id, about, bytes });
    }
    Ok(found)
}

/// See [`Files::remove`].
pub(super) fn remove(folder: &Path, id: &str) -> io::Result<()> {
    match fs::remove_file(path(folder, id)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn path(folder: &Path, id: &str) -> PathBuf {
    folder.join(&id[..2]).join(id)
}

/// What so many bytes take on the disk, with what is known of them.
fn blocks(bytes: u64) -> u64 {
    (bytes.div_ceil(BLOCK) + 1) * BLOCK
}

impl Coming {
    /// Appends bytes.
    ///
    /// # Errors
    /// See [`NoFile`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), NoFile> {
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotConnected).map_err(io::Error::from)?;
        Ok(file.write_all(bytes)?)
    }

    /// All bytes are there: the file is whole, on the disk, and served from now on.
    ///
    /// # Errors
    /// See [`NoFile`].
    pub fn publish(mut self) -> Result<(), NoFile> {
        let file = self.file.take().ok_or(io::ErrorKind::NotConnected).map_err(io::Error::from)?;
        let (from, to) = (self.files.incoming(&self.id), self.files.path(&self.id));
        let published = file.sync_all().and_then(|()| {
            // A link, not a new name: one that is there is never replaced.
            fs::hard_link(&from, &to)?;
            sync_dir(to.parent().unwrap_or(&to)).map_err(io::Error::other)
        });
        let removed = fs::remove_file(&from);
        published?;
        removed?;
        self.files.added.fetch_add(self.bytes, Ordering::AcqRel);
        self.files.stored.fetch_add(self.bytes, Ordering::AcqRel);
        Ok(())
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // What cannot be removed now is removed at the next start.
            let _ = fs::remove_file(self.files.incoming(&self.id));
        }
        let mut coming = self.files.coming.lock();
        coming.0.remove(&self.id);
        coming.1 -= self.bytes;
    }
}
