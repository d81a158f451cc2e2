//! External objects that a configuration names (files, programs, folders): the checks that `throng
//! serve` makes before it starts, and `throng config check` without starting. An option that names
//! a file must be added here; a test of this module fails until then.
//!
//! Conditions beyond the configuration are not checked: addresses in use, and the store.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{access, acme, certificate, outside, push, settings, telemetry};
use crate::cli::{Checked, Exit, Failure};
use crate::config::Config;

/// Mode bits with which every user of the host may read or change a file.
const EVERYBODY: u32 = 0o006;

/// All faults. Creates and changes nothing.
pub(super) fn all(config: &Config) -> Checked {
    let mut checked = Checked { refused: refused(config), wrong: exposed(config), ..Checked::default() };
    // A certificate that cannot be read is among the refusals already.
    if let Ok(standing) = certificate::look(config) {
        checked.warnings = standing.warnings().collect();
        checked.wrong.extend(standing.faults);
    }
    checked
}

/// Why a server does not start with this configuration.
pub(super) fn refused(config: &Config) -> Vec<Failure> {
    let components = config.components.iter().map(|one| settings::shared_secret("components", &one.secret).map(drop));
    let checks = [
        certificate::check(config),
        acme::check(config),
        outside::users(config).map(drop),
        outside::channels(config).map(drop),
        settings::services(config).map(drop),
        settings::publishers_token(config).map(drop),
        access::read(config).map(drop),
        push::check(config),
        telemetry::check(config),
        folder_of_socket(config),
    ];
    checks.into_iter().chain(components).filter_map(Result::err).collect()
}

/// Secret files that every user of the host may read or change, one sentence each. A server starts
/// with them.
pub(super) fn exposed(config: &Config) -> Vec<String> {
    let mut secrets = secrets(config);
    secrets.sort();
    secrets.dedup();
    secrets.iter().filter_map(|(key, file)| exposed_file(key, file)).collect()
}

fn exposed_file(key: &str, file: &Path) -> Option<String> {
    let mode = file.metadata().ok()?.permissions().mode() & 0o7777;
    let (may, right) = match mode & EVERYBODY {
        0 => return None,
        0o002 => ("changed", "w"),
        0o004 => ("read", "r"),
        _ => ("read and changed", "rw"),
    };
    let shown = file.display();
    Some(format!("{key}: {shown} can be {may} by every user of this host (mode {mode:04o}): chmod o-{right} {shown}"))
}

/// All secret files, each with the option that names it. Files created by the server are in its own
/// folder, which only its user can enter.
fn secrets(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let files = [
        ("tls_key", &config.tls_key),
        ("notify_token", &config.notify_token),
        ("notify_ask_token", &config.notify_ask_token),
        ("external_auth_token", &config.external_auth_token),
        ("external_services_secret", &config.external_services_secret),
        ("admin_http_token", &config.admin_http_token),
        ("backup_key", &config.backup_key),
        ("backup_credentials", &config.backup_credentials),
    ];
    let named = files.into_iter().filter_map(|(key, file)| Some((key, file.clone()?)));
    let components = config.components.iter().map(|one| ("components", one.secret.clone()));
    // Public keys are not secret.
    let signs = access::read(config).is_ok_and(|access| access.is_some_and(|access| access.keys.has_secrets()));
    let keys = config.notify_jwt_keys.iter().filter(|_| signs).map(|file| ("notify_jwt_keys", file.clone()));
    let folder = certificate::keys_in_folder(config).into_iter().map(|key| ("tls_folder", key));
    named.chain(components).chain(keys).chain(folder).collect()
}

fn folder_of_socket(config: &Config) -> Result<(), Failure> {
    // A missing data folder is created.
    let Some(socket) = &config.admin_socket else { return Ok(()) };
    let folder = match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let wrong =
        |what: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("admin_socket: {}: {what}", folder.display()));
    match folder.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(wrong(&"it is no folder")),
        Err(_) if *folder == *config.data => Ok(()),
        Err(error) => Err(wrong(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Flags, Kind, TABLE, load};

    /// Options whose files contain no secret.
    const PUBLIC: [&str; 10] = [
        "data",
        "tls_certificate",
        "acme_root",
        "tls_client_authorities",
        "tls_client_revoked",
        "notify_jwt_revoked",
        "notify_push_authorities",
        "notify_ask_authorities",
        "external_auth_authorities",
        "admin_socket",
    ];

    #[test]
    fn the_file_of_each_option_is_looked_at_or_holds_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut config = load(&Flags::new(), &Environment::new(), None).expect("no options").config;
        let jwk = r#"{"kty":"oct","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}"#;
        std::fs::write(at("notify_jwt_keys"), jwk).unwrap();
        std::fs::create_dir_all(at("tls_folder").join("localhost")).unwrap();
        for name in ["fullchain.pem", "privkey.pem"] {
            std::fs::write(at("tls_folder").join("localhost").join(name), "").unwrap();
        }
        let given = |name: &str| Some(at(name));
        config.tls_key = given("tls_key");
        config.tls_folder = given("tls_folder");
        config.notify_token = given("notify_token");
        config.notify_jwt_keys = given("notify_jwt_keys");
        config.notify_ask_token = given("notify_ask_token");
        config.external_auth_token = given("external_auth_token");
        config.external_services_secret = given("external_services_secret");
        config.admin_http_token = given("admin_http_token");
        config.backup_key = given("backup_key");
        config.backup_credentials = given("backup_credentials");
        let looked_at: Vec<&str> = secrets(&config).into_iter().map(|(key, _)| key).collect();
        for row in TABLE.iter().filter(|row| matches!(row.kind, Kind::Path | Kind::PathOrNone)) {
            let (secret, public) = (looked_at.contains(&row.key), PUBLIC.contains(&row.key));
            assert!(secret != public, "{}: looked at {secret}, no secret {public}", row.key);
        }
    }

    #[test]
    fn what_every_user_may_read_or_change_is_named_with_its_mode_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "").unwrap();
        for (mode, may) in
            [(0o600, None), (0o640, None), (0o660, None), (0o644, Some("read")), (0o602, Some("changed"))]
        {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let said = exposed_file("notify_token", &file);
            assert_eq!(said.is_some(), may.is_some(), "{mode:o}");
            let Some((said, may)) = said.zip(may) else { continue };
            let start = format!("notify_token: {} can be {may} by every user of this host (mode 0", file.display());
            assert!(said.starts_with(&start) && said.contains(": chmod o-"), "{said}");
        }
    }
}
