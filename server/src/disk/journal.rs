//! What a power cut may leave of the journals, told from damage, before the engine reads them.
//!
//! Each group is synced before the next one begins, so at most the last group of the newest journal can be torn; it was
//! never acknowledged and is cut off. fjall cuts a journal at the first entry that it cannot read, whatever follows: a
//! flipped bit would silently take acknowledged groups with it. So here every journal is read first: if a whole group
//! stands behind a broken one, acknowledged data is damaged, nothing is cut, and the store is not opened.
//!
//! Journal format of fjall 3: start (1, count u32, sequence u64), items (2, type u8, compression u8, keyspace u64, key
//! length u16, value length u32, stored length u32, key, value), clears (4, keyspace u64), end (3, XXH3 of all items
//! u64, "FJL\x03"); little endian. Files are preallocated, so zeros may follow the last group.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use super::DiskError;

const TRAILER: &[u8] = b"FJL\x03";

/// Reads the journals in `dir`, cuts the newest one behind its last whole group, and returns the number of bytes cut.
/// No journals, nothing to do.
///
/// # Errors
/// [`DiskError::Corrupt`] if whole groups follow a broken one; otherwise the file system's.
pub fn prepare(dir: &Path) -> Result<u64, DiskError> {
    let journals = journals(dir)?;
    let mut cut = 0;
    for (at, path) in journals.iter().enumerate() {
        let bytes = fs::read(path).map_err(DiskError::at(path))?;
        let mut whole = 0;
        while let Some(length) = group_length(&bytes[whole..]) {
            whole += length;
        }
        let rest = &bytes[whole..];
        if rest.iter().all(|byte| *byte == 0) {
            continue;
        }
        let newest = at + 1 == journals.len();
        if !newest || (1..rest.len()).any(|at| rest[at] == 1 && group_length(&rest[at..]).is_some()) {
            return Err(DiskError::Corrupt(format!(
                "the journal {} is broken at byte {whole}, and acknowledged data follows",
                path.display()
            )));
        }
        let file = OpenOptions::new().write(true).open(path).map_err(DiskError::at(path))?;
        file.set_len(whole as u64).map_err(DiskError::at(path))?;
        file.sync_all().map_err(DiskError::at(path))?;
        cut = rest.len() as u64;
    }
    Ok(cut)
}

/// The journals in the order of their numbers.
fn journals(dir: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(DiskError::at(dir))?,
    };
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in entries {
        let path = entry.map_err(DiskError::at(dir))?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        found.extend(number.map(|number| (number, path)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Length of the group that `bytes` begins with; `None` if that is not a whole and valid one.
fn group_length(bytes: &[u8]) -> Option<usize> {
    let mut rest = Rest(bytes);
    if rest.u8()? != 1 {
        return None;
    }
    let count = rest.u32()?;
    rest.take(8)?;
    let items = rest.0;
    for _ in 0..count {
        match rest.u8()? {
            2 => {
                rest.take(10)?;
                let key = usize::from(rest.u16()?);
                rest.take(4)?;
                let value = rest.u32()? as usize;
                rest.take(key)?;
                rest.take(value)?;
            }
            4 => {
                rest.take(8)?;
            }
            _ => return None,
        }
    }
    let items = &items[..items.len() - rest.0.len()];
    if rest.u8()? != 3 {
        return None;
    }
    let checksum = u64::from_le_bytes(rest.take(8)?.try_into().ok()?);
    let whole = rest.take(4)? == TRAILER && checksum == xxhash_rust::xxh3::xxh3_64(items);
    whole.then(|| bytes.len() - rest.0.len())
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}
