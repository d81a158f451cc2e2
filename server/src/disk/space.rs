//! Space on the device: how much is free, and the reserve that lets commits in flight succeed when
//! none is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::DiskError;

/// Bytes that this process may still write on the device that holds `path`.
///
/// # Errors
/// The system's, if the path does not exist.
pub fn free_bytes(path: &Path) -> Result<u64, DiskError> {
    let found = statvfs(path).map_err(|e| DiskError::from_io(path.display().to_string(), e.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns the free space of the device that holds a path, as [`free_bytes`]; tests simulate
/// devices.
pub type FreeBytes = fn(&Path) -> Result<u64, DiskError>;

/// Free space from which on messages are accepted again, if they are refused below `least` bytes: a
/// quarter more, to avoid flapping.
pub fn accepting_bytes(least: u64) -> u64 {
    least + least / 4
}

/// Makes the names in a folder durable.
///
/// # Errors
/// The file system's.
pub fn sync_dir(dir: &Path) -> Result<(), DiskError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(DiskError::at(dir))
}

/// Makes the name of a folder itself durable, if this user may open its parent folder.
///
/// # Errors
/// The file system's.
pub fn sync_name(folder: &Path) -> Result<(), DiskError> {
    let folder = fs::canonicalize(folder).map_err(DiskError::at(folder))?;
    match folder.parent().map(sync_dir) {
        Some(Err(DiskError::Io { source, .. })) if source.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Some(synced) => synced,
        None => Ok(()),
    }
}

/// A file of fixed size that only occupies space; removed when commits need it.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    bytes: u64,
    held: bool,
}

impl Reserve {
    /// Takes over the reserve of `folder`, or creates it if there is space for it. Zero bytes
    /// disable it.
    ///
    /// # Errors
    /// The file system's, except a lack of space: then the reserve is not held.
    pub fn open(folder: &Path, bytes: u64) -> Result<Reserve, DiskError> {
        let mut reserve = Reserve { path: folder.join("reserve"), bytes, held: false };
        match reserve.make() {
            Err(error) if !error.is_out_of_space() => Err(error),
            _ => Ok(reserve),
        }
    }

    /// Whether the file occupies its space.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Size of the reserve, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the space to the device.
    ///
    /// # Errors
    /// The file system's.
    pub fn release(&mut self) -> Result<(), DiskError> {
        self.held = false;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(DiskError::at(&self.path)(error)),
            _ => Ok(()),
        }
    }

    /// Creates the reserve; no effect if it is held.
    ///
    /// # Errors
    /// [`DiskError::OutOfSpace`] if there is no space for it (nothing of it remains); otherwise the
    /// file system's.
    pub fn make(&mut self) -> Result<(), DiskError> {
        if self.held || self.bytes == 0 {
            return Ok(());
        }
        let made = self.allocate();
        match made {
            Ok(()) => self.held = true,
            Err(_) => self.release()?,
        }
        made
    }

    fn allocate(&self) -> Result<(), DiskError> {
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&self.path);
        let file = open.map_err(DiskError::at(&self.path))?;
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => self.fill(&file)?,
            Err(error) => return Err(DiskError::at(&self.path)(error.into())),
        }
        file.sync_all().map_err(DiskError::at(&self.path))
    }

    /// For file systems without `fallocate`: writes it in full. Not zeros, which some file systems
    /// do not store.
    fn fill(&self, mut file: &File) -> Result<(), DiskError> {
        let block = [0x5a_u8; 65_536];
        let mut left = self.bytes;
        while left > 0 {
            let part = usize::try_from(left.min(block.len() as u64)).expect("at most a block");
            file.write_all(&block[..part]).map_err(DiskError::at(&self.path))?;
            left -= part as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_takes_space_and_gives_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::open(dir.path(), 1 << 20).unwrap();
        assert!(reserve.is_held());
        use std::os::unix::fs::MetadataExt;
        assert!(fs::metadata(dir.path().join("reserve")).unwrap().blocks() * 512 >= 1 << 20);
        reserve.release().unwrap();
        assert!(!reserve.is_held() && !dir.path().join("reserve").exists());
        reserve.make().unwrap();
        assert!(reserve.is_held());
    }
}
