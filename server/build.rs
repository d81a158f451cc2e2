//! Gives the code what `throng version --verbose` prints about the build: compiler, target, profile,
//! and the versions of the TLS libraries.
//!
//! It runs no program but the compiler and looks for no repository, so that a build from an archive
//! of the source prints the same.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The lock file of the workspace; absent where only this package was copied.
const LOCK: &str = "../Cargo.lock";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if Path::new(LOCK).exists() {
        println!("cargo:rerun-if-changed={LOCK}");
    }
    let lock = fs::read_to_string(LOCK).unwrap_or_default();
    for (name, value) in [
        ("RUSTC", compiler().unwrap_or_else(|| "an unknown compiler".into())),
        ("TARGET", variable("TARGET")),
        ("PROFILE", profile()),
        ("RUSTLS", locked(&lock, "rustls")),
        ("RING", locked(&lock, "ring")),
    ] {
        println!("cargo:rustc-env=BUILD_{name}={value}");
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| "unknown".into())
}

/// `rustc 1.90.0 (1159e78c4 2025-09-14)`.
fn compiler() -> Option<String> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The profile by its folder, because `PROFILE` is `release` for all that inherit from it.
fn profile() -> String {
    let out = variable("OUT_DIR");
    let parts: Vec<&str> = out.split('/').collect();
    let folder = parts.iter().rposition(|part| *part == "build").and_then(|at| parts.get(at.checked_sub(1)?).copied());
    match folder {
        Some("debug") => "dev".into(),
        Some(folder) => folder.into(),
        None => variable("PROFILE"),
    }
}

/// `rustls 0.23.46`, by the lock file; the name alone if that does not have it.
fn locked(lock: &str, package: &str) -> String {
    let after = lock.split_once(&format!("name = \"{package}\"\nversion = \"")).map(|(_, rest)| rest);
    let version = after.and_then(|rest| rest.split('"').next());
    version.map_or_else(|| package.to_owned(), |version| format!("{package} {version}"))
}
