//! The system's source of randomness. This is the only module of the server that reads it.

use std::fs::File;
use std::io::{self, BufReader, Read};

/// The path of the source.
const SOURCE: &str = "/dev/urandom";

/// An open source of random bytes.
#[derive(Debug)]
pub struct Entropy(BufReader<File>);

impl Entropy {
    /// Opens the source.
    ///
    /// # Errors
    /// The system's, with the name of the source.
    pub fn open() -> io::Result<Entropy> {
        let file = File::open(SOURCE).map_err(named)?;
        Ok(Entropy(BufReader::with_capacity(4_096, file)))
    }

    /// Fresh bytes.
    ///
    /// # Errors
    /// The system's, with the name of the source.
    pub fn fresh<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map_err(named)?;
        Ok(bytes)
    }
}

fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{SOURCE}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::Entropy;

    #[test]
    fn bytes_do_not_repeat() {
        let mut entropy = Entropy::open().expect("this system has it");
        let seen: std::collections::BTreeSet<[u8; 16]> = (0..1_000).map(|_| entropy.fresh().expect("bytes")).collect();
        assert_eq!(seen.len(), 1_000);
        let other: [u8; 32] = Entropy::open().and_then(|mut other| other.fresh()).expect("bytes");
        assert_ne!(other, entropy.fresh().expect("bytes"));
    }
}
