//! Accounts in great number: all have one password, one salt and so the same keys, which are derived once on both sides.
//!
//! This module knows the import's form, and nothing of connections.

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::Path;

/// The password of every account.
pub(crate) const PASSWORD: &str = "correct horse battery staple";
const SALT: &[u8; 16] = b"acceptance-salt!";
const ITERATIONS: u32 = 4_096;

/// Writes an import file.
pub(crate) fn write_csv(path: &Path, names: impl Iterator<Item = String>) -> io::Result<()> {
    let iterations = NonZeroU32::new(ITERATIONS).expect("not zero");
    let keys = throng_load::keys(PASSWORD, SALT, iterations);
    let mut out = io::BufWriter::new(std::fs::File::create(path)?);
    for name in names {
        writeln!(out, "{name},{keys}")?;
    }
    out.flush()
}
