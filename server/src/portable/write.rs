//! Writes files: readable by their owner only, and renamed to their final names only once they are
//! complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Wrong;

/// A file being written.
pub(super) struct Out {
    name: PathBuf,
    unfinished: PathBuf,
    file: Option<BufWriter<File>>,
    pub(super) bytes: u64,
}

fn at(path: &Path) -> impl Fn(io::Error) -> Wrong {
    move |error| Wrong::File(format!("{}: {error}", path.display()))
}

impl Out {
    /// Begins a new file.
    pub(super) fn create(name: PathBuf) -> Result<Out, Wrong> {
        if name.symlink_metadata().is_ok() {
            return Err(Wrong::File(format!("{} already exists: move it away, or name another", name.display())));
        }
        let mut unfinished = name.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
        let file = BufWriter::with_capacity(256 << 10, file.map_err(at(&unfinished))?);
        Ok(Out { name, unfinished, file: Some(file), bytes: 0 })
    }

    /// Appends text.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<(), Wrong> {
        self.bytes += text.len() as u64;
        self.file.as_mut().expect("until it is finished").write_all(text).map_err(at(&self.unfinished))
    }

    /// Completes the file. With `durable`, it is durable once this returns.
    pub(super) fn finish(mut self, durable: bool) -> Result<u64, Wrong> {
        let file = self.file.take().expect("only here");
        let file = file.into_inner().map_err(|error| at(&self.unfinished)(error.into_error()))?;
        if durable {
            file.sync_all().map_err(at(&self.unfinished))?;
        }
        fs::rename(&self.unfinished, &self.name).map_err(at(&self.name))?;
        Ok(self.bytes)
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Creates a folder, or uses an empty one.
pub(super) fn folder(path: &Path) -> Result<(), Wrong> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut entries = fs::read_dir(path).map_err(at(path))?;
            match entries.next() {
                None => Ok(()),
                Some(_) => Err(Wrong::File(format!("{} is not empty: name another folder", path.display()))),
            }
        }
        made => made.map_err(at(path)),
    }
}

/// A localpart or domain as a file name; `None` if it cannot be one. It contains no slash (RFC 7622
/// 3.3.1), but may be too long.
pub(super) fn file_name(name: &str) -> Option<String> {
    let fits = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && name.len() <= 240;
    fits.then(|| format!("{name}.xml"))
}

/// A name as a part of a relative URI (RFC 3986 3.3).
pub(super) fn uri_part(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' | b'/' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
