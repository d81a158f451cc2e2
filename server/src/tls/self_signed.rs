//! A certificate for the first start, if the operator has none yet.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::civil::Date;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use super::certificate::CertificateSource;
use super::pem::CertificateError;

/// Validity of a self-signed certificate, in years.
const YEARS: i32 = 10;

/// Creates `cert.pem` and `key.pem` in `dir` if there is no `cert.pem`, and returns their paths.
///
/// The certificate is self-signed, for `localhost` and `domain` (an A-label or an address, not a
/// U-label), ECDSA P-256, `CA:FALSE`, valid from the day before `now` for ten years. An existing
/// `key.pem` is kept and used. Each file is created atomically and with mode 0600, the key first,
/// so that a crash in between leaves a state that the next start completes; `dir` is created with
/// mode 0700.
///
/// # Errors
/// The folder or a file cannot be written, an existing key cannot be used, or `domain` is not
/// ASCII.
pub fn ensure_self_signed(dir: &Path, domain: &str, now: SystemTime) -> Result<CertificateSource, CertificateError> {
    let source = self_signed_in(dir);
    if source.chain.exists() {
        return Ok(source);
    }
    private_folder(dir)?;
    let key = if source.key.exists() {
        let pem = fs::read_to_string(&source.key).map_err(|error| CertificateError::Read(source.key.clone(), error))?;
        rcgen::KeyPair::from_pem(&pem)
            .map_err(|error| CertificateError::Unusable(source.key.clone(), error.to_string()))?
    } else {
        let key = rcgen::KeyPair::generate().map_err(cannot_make)?;
        write_whole(&source.key, key.serialize_pem().as_bytes())?;
        key
    };
    let certificate = parameters(domain, now)?.self_signed(&key).map_err(cannot_make)?;
    write_whole(&source.chain, certificate.pem().as_bytes())?;
    Ok(source)
}

/// The paths of [`ensure_self_signed`], whether or not the files exist.
pub fn self_signed_in(dir: &Path) -> CertificateSource {
    let (chain, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    CertificateSource { names: Vec::new(), chain, key, made_here: true }
}

fn parameters(domain: &str, now: SystemTime) -> Result<rcgen::CertificateParams, CertificateError> {
    let mut names = vec!["localhost".to_owned()];
    // An IPv6 address is written in brackets in a JID (RFC 7622 3.2) and without in a certificate.
    let domain = domain.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    if domain != "localhost" {
        names.push(domain.clone());
    }
    let mut parameters = rcgen::CertificateParams::new(names).map_err(cannot_make)?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, domain);
    parameters.is_ca = rcgen::IsCa::ExplicitNoCa;
    parameters.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let today = Offset::UTC.to_datetime(Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH)).date();
    // Valid from yesterday: a client's clock may be behind.
    let begin = today.saturating_sub(1.day());
    let midnight =
        |day: Date| rcgen::date_time_ymd(day.year().into(), day.month().unsigned_abs(), day.day().unsigned_abs());
    parameters.not_before = midnight(begin);
    parameters.not_after = midnight(begin.saturating_add(YEARS.years()));
    Ok(parameters)
}

fn cannot_make(error: rcgen::Error) -> CertificateError {
    CertificateError::Make(error.to_string())
}

/// Creates a folder, and those above it, that only this user can enter.
///
/// # Errors
/// The system's.
pub fn private_folder(dir: &Path) -> Result<(), CertificateError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| CertificateError::Write(dir.into(), error))
}

/// Writes a file with mode 0600 atomically: complete or not at all.
///
/// # Errors
/// The system's.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CertificateError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let write = || {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        let dir = path.parent().unwrap_or(Path::new("."));
        fs::File::open(dir)?.sync_all()
    };
    write().map_err(|error| {
        // A partial file is useless.
        let _ = fs::remove_file(&temporary);
        CertificateError::Write(path.into(), error)
    })
}
