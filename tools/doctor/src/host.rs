//! The host, as described by its files.

use std::io;
use std::path::{Path, PathBuf};

/// Files below a root: `/`, or a folder that represents a host in tests.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
    /// Why io_uring does not work here, if it does not.
    uring: Result<(), String>,
}

impl Host {
    /// This machine.
    pub fn this() -> Host {
        let made = throng_sys::uring::Ring::new(16, 16, throng_sys::uring::Use::Accepting);
        Host { root: "/".into(), uring: made.map(drop).map_err(|error| error.to_string()) }
    }

    /// A folder with the files of a host, for tests.
    pub fn below(root: impl Into<PathBuf>, uring: Result<(), String>) -> Host {
        Host { root: root.into(), uring }
    }

    /// Whether the server's rings can be created on this host, or why not.
    pub fn uring(&self) -> Result<(), &str> {
        self.uring.as_ref().copied().map_err(String::as_str)
    }

    /// The actual file for a path of the host.
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file without its last line end; `None` if it does not exist or cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok().map(|text| text.trim_end().to_owned())
    }

    /// The numbers in a file of numbers.
    pub fn numbers(&self, path: &str) -> Option<Vec<u64>> {
        let text = self.text(path)?;
        // `fs.file-max` may exceed 63 bits.
        Some(text.split_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// The first number in a file.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.numbers(path)?.first().copied()
    }

    /// A line `Name: number kB` of a file, in bytes.
    pub fn kib(&self, path: &str, name: &str) -> Option<u64> {
        let text = self.text(path)?;
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    }

    /// Names in a folder, sorted.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.at(path)) else { return Vec::new() };
        let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether there is a file or folder.
    pub fn has(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    /// Writes a file of the kernel.
    ///
    /// # Errors
    /// The kernel's: not root, not in this namespace, invalid value.
    pub(crate) fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        std::fs::write(self.at(&path.to_string_lossy()), value)
    }
}
