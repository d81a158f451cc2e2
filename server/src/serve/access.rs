//! The data for checking channel tokens (RFC 7519): issuers' keys and revoked tokens, from files.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use throng_engine::limits::{NOTIFY_JWT_JTI_BYTES_MAX, NOTIFY_JWT_KEYS_BYTES_MAX, NOTIFY_JWT_REVOKED_BYTES_MAX};
use throng_engine::web::access::Access;
use throng_engine::web::access::key::Keys;

use crate::cli::{Exit, Failure};
use crate::config::Config;

fn wrong(key: &str, file: &Path, what: &dyn Display) -> Failure {
    Failure::new(Exit::Usage, format!("{key}: {}: {what}", file.display()))
}

/// The content of a file of at most this many bytes.
fn contents(key: &str, file: &Path, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let most = bytes_max as u64 + 1;
    let read = File::open(file).and_then(|open| open.take(most).read_to_end(&mut bytes));
    read.map_err(|error| wrong(key, file, &error))?;
    match bytes.len() > bytes_max {
        true => Err(wrong(key, file, &format_args!("it is longer than {bytes_max} bytes"))),
        false => Ok(bytes),
    }
}

/// The names of revoked tokens, one per line; empty lines and lines that begin with `#` are
/// ignored.
fn revoked(file: &Path) -> Result<BTreeSet<Box<str>>, Failure> {
    let key = "notify_jwt_revoked";
    let bytes = contents(key, file, NOTIFY_JWT_REVOKED_BYTES_MAX)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| wrong(key, file, &error))?;
    let mut all = BTreeSet::new();
    for (at, line) in text.lines().enumerate() {
        let name = line.trim();
        if name.len() > NOTIFY_JWT_JTI_BYTES_MAX {
            let what = format!("line {} is longer than the {NOTIFY_JWT_JTI_BYTES_MAX} bytes of a jti", at + 1);
            return Err(wrong(key, file, &what));
        }
        if !name.is_empty() && !name.starts_with('#') {
            all.insert(name.into());
        }
    }
    Ok(all)
}

/// Reads the files that the options name; `None` without keys.
pub(super) fn read(config: &Config) -> Result<Option<Arc<Access>>, Failure> {
    let Some(file) = &config.notify_jwt_keys else { return Ok(None) };
    let key = "notify_jwt_keys";
    let keys = contents(key, file, NOTIFY_JWT_KEYS_BYTES_MAX)?;
    let keys = Keys::read(&keys).map_err(|why| wrong(key, file, &why))?;
    let given = |text: &str| (!text.is_empty()).then(|| text.into());
    Ok(Some(Arc::new(Access {
        keys,
        issuer: given(&config.notify_jwt_issuer),
        audience: given(&config.notify_jwt_audience),
        mercure: config.mercure,
        centrifugo: config.centrifugo,
        ahead_s_max: config.notify_jwt_seconds.as_secs(),
        revoked: config.notify_jwt_revoked.as_deref().map(revoked).transpose()?.unwrap_or_default(),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Flags, load};

    const SECRET: &str = r#"{"keys":[{"kty":"oct","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#;

    #[test]
    fn files_are_read_or_refused_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let (keys, names) = (folder.path().join("keys"), folder.path().join("names"));
        let mut none = load(&Flags::new(), &Environment::new(), None).expect("no options").config;
        none.notify_jwt_keys = None;
        let config = |revoked: bool| Config {
            notify_jwt_keys: Some(keys.clone()),
            notify_jwt_revoked: revoked.then(|| names.clone()),
            ..none.clone()
        };
        assert_eq!(read(&none).unwrap(), None);
        let refused = |config: &Config| read(config).unwrap_err().text;
        assert!(refused(&config(false)).starts_with("notify_jwt_keys: "), "there is no file yet");
        std::fs::write(&keys, SECRET).unwrap();
        assert_eq!(read(&config(false)).unwrap().unwrap().keys.len(), 1);
        std::fs::write(&names, "one\n\n# two\n three \r\n").unwrap();
        let access = read(&config(true)).unwrap().unwrap();
        assert_eq!(access.revoked.iter().map(|name| &**name).collect::<Vec<_>>(), ["one", "three"]);
        for (text, words) in [
            ("x".repeat(NOTIFY_JWT_JTI_BYTES_MAX + 1), "line 1 is longer"),
            ("x\n".repeat(NOTIFY_JWT_REVOKED_BYTES_MAX / 2 + 1), "longer than 4194304 bytes"),
        ] {
            std::fs::write(&names, text).unwrap();
            assert!(refused(&config(true)).contains(words), "{}", refused(&config(true)));
        }
        for (text, words) in [
            ("x".into(), "JWK Set"),
            ("{\"keys\":[]}".into(), "no key for"),
            (" ".repeat(NOTIFY_JWT_KEYS_BYTES_MAX) + SECRET, "longer than 65536 bytes"),
        ] {
            std::fs::write(&keys, text).unwrap();
            assert!(refused(&config(false)).contains(words), "{}", refused(&config(false)));
        }
    }
}
