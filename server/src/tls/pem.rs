//! Reads certificate and key files, and reports why they cannot be used.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// The largest PEM file read, in bytes.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// A file, up to [`PEM_BYTES_MAX`].
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = || {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path)?;
        io::Read::read_to_end(&mut io::Read::take(file, PEM_BYTES_MAX), &mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| CertificateError::Read(path.into(), error))
}

/// Why certificates cannot be used; for the operator to fix.
#[derive(Debug)]
pub enum CertificateError {
    /// There is no certificate source at all.
    None,
    /// A file cannot be read.
    Read(PathBuf, io::Error),
    /// A file or folder cannot be written.
    Write(PathBuf, io::Error),
    /// A file does not contain what it should.
    Unusable(PathBuf, String),
    /// A self-signed certificate cannot be created.
    Make(String),
    /// The TLS library refuses the configuration.
    Library(String),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no certificate is configured"),
            Self::Read(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Write(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Self::Unusable(path, why) => write!(f, "cannot use {}: {why}", path.display()),
            Self::Make(why) => write!(f, "cannot create a self-signed certificate: {why}"),
            Self::Library(why) => write!(f, "cannot set up TLS: {why}"),
        }
    }
}

impl std::error::Error for CertificateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(_, error) | Self::Write(_, error) => Some(error),
            _ => None,
        }
    }
}
