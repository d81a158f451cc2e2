//! The bytes of a file, one after another, with the current line and an allowance.

use std::io::Read;

const CHUNK_BYTES: usize = 64 << 10;

/// A file being read.
pub(crate) struct Input<R> {
    from: R,
    chunk: Vec<u8>,
    at: usize,
    line: u64,
    bytes: u64,
    /// What is read at a time, for errors.
    unit: &'static str,
    /// Bytes that the current unit may still take.
    left: usize,
    failed: bool,
}

impl<R: Read> Input<R> {
    /// Begins a file of units with this name, such as `a table`. They are unbounded until
    /// [`Input::allow`] is called.
    pub(crate) fn new(from: R, unit: &'static str) -> Input<R> {
        Input { from, chunk: Vec::new(), at: 0, line: 1, bytes: 0, unit, left: usize::MAX, failed: false }
    }

    /// The current line, counted from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Bytes read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the system could not read it.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// A unit begins, of at most this many bytes.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.left = bytes;
    }

    /// The next byte, which stays; `None` at the end.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn peek(&mut self) -> Result<Option<u8>, String> {
        if self.at == self.chunk.len() {
            self.chunk.resize(CHUNK_BYTES, 0);
            let read = loop {
                match self.from.read(&mut self.chunk) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.failed = true;
                        return Err(error.to_string());
                    }
                    Ok(read) => break read,
                }
            };
            self.chunk.truncate(read);
            self.at = 0;
        }
        Ok(self.chunk.get(self.at).copied())
    }

    /// Takes the next byte.
    ///
    /// # Errors
    /// The file has ended, the unit is too large, or the system's.
    pub(crate) fn take(&mut self) -> Result<u8, String> {
        let byte = self.peek()?.ok_or_else(|| self.ends_within())?;
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("{} is too large", self.unit))?;
        (self.at, self.bytes) = (self.at + 1, self.bytes + 1);
        self.line += u64::from(byte == b'\n');
        Ok(byte)
    }

    /// Takes the next byte, which has to be this one.
    ///
    /// # Errors
    /// It is another one, or as [`Input::take`].
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<(), String> {
        match self.take()? {
            byte if byte == wanted => Ok(()),
            other => Err(format!("`{}` is expected, not `{}`", char::from(wanted), other.escape_ascii())),
        }
    }

    /// The error for a file that ends too early.
    pub(crate) fn ends_within(&self) -> String {
        format!("the file ends within {}", self.unit)
    }
}
