//! `throng version`: the version, and with `--verbose` the formats that this build reads and writes,
//! how it was built, and what it can use on this host.

use serde_json::json;
use throng_engine::codec;

use super::Io;
use crate::disk::format::{FORMAT_OLDEST, FORMAT_VERSION};
use crate::driver::Kind;

/// TLS versions that the server speaks, the oldest first.
const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// Prints the version. Never fails: what this host does not show is left out.
pub fn run(verbose: bool, io: &mut Io) {
    let version = env!("CARGO_PKG_VERSION");
    if !verbose {
        match io.json {
            true => io.say_json(&json!({ "version": version })),
            false => io.say(format!("throng {version}")),
        }
        return;
    }
    let host = throng_doctor::Host::this();
    let uring = host.uring();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()).ok();
    let (profile, rustc, target) = (env!("BUILD_PROFILE"), env!("BUILD_RUSTC"), env!("BUILD_TARGET"));
    let (rustls, ring) = (env!("BUILD_RUSTLS"), env!("BUILD_RING"));
    if io.json {
        let drivers = json!({
            (Kind::Uring.to_string()): { "available": uring.is_ok(), "reason": uring.err() },
            (Kind::Epoll.to_string()): { "available": true, "reason": null },
        });
        io.say_json(&json!({
            "version": version,
            "store_format": FORMAT_VERSION, "store_format_oldest": FORMAT_OLDEST,
            "codec_format": codec::FORMAT, "codec_format_oldest": codec::FORMAT_FIRST,
            "build_profile": profile, "compiler": rustc, "target": target,
            "tls_library": rustls, "tls_cryptography": ring, "tls_versions": TLS_VERSIONS,
            "kernel": kernel, "drivers": drivers,
        }));
        return;
    }
    let read = |oldest: u32, newest: u32| match oldest == newest {
        true => format!("{newest}"),
        false => format!("{newest}; reads {oldest} to {newest}"),
    };
    let available =
        |result: Result<(), &str>| result.map_or_else(|why| format!("not available: {why}"), |()| "available".into());
    let rows = [
        ("store format", read(FORMAT_OLDEST, FORMAT_VERSION)),
        ("codec format", read(codec::FORMAT_FIRST.into(), codec::FORMAT.into())),
        ("build profile", profile.into()),
        ("compiler", rustc.into()),
        ("target", target.into()),
        ("TLS", format!("{rustls} with {ring}; versions {}", TLS_VERSIONS.join(" and "))),
        ("kernel", kernel.map_or_else(|| "unknown".into(), |kernel| format!("Linux {kernel}"))),
    ];
    io.say(format!("throng {version}"));
    for (name, value) in rows {
        io.say(format!("{name:<16}{value}"));
    }
    for (kind, result) in [(Kind::Uring, uring), (Kind::Epoll, Ok(()))] {
        io.say(format!("{:<16}{}", kind.to_string(), available(result)));
    }
}
