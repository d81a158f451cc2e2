//! What other servers leave behind, as they leave it: each file reads one format and yields parts.

mod ejabberd;
mod forms;
mod prosody;
mod sorted;
mod xml;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Wrong;
use super::parts::Source;
use super::read::Reader;

/// The format of what is imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Files of XEP-0227.
    Portable,
    /// The data folder of Prosody.
    Prosody,
    /// A dump of ejabberd's database in SQL.
    EjabberdSql,
    /// `ejabberdctl dump`: Mnesia as terms of Erlang.
    EjabberdMnesia,
}

impl Format {
    /// All formats by name.
    pub const ALL: [(&'static str, Format); 4] = [
        ("xep0227", Format::Portable),
        ("prosody", Format::Prosody),
        ("ejabberd-sql", Format::EjabberdSql),
        ("ejabberd-mnesia", Format::EjabberdMnesia),
    ];
}

/// Recognises a format by the first bytes of a file, or by the files of a folder.
///
/// # Errors
/// It is none that is known.
pub fn recognise(from: &Path) -> Result<Format, Wrong> {
    let wrong = |what: String| Wrong::File(format!("{}: {what}", from.display()));
    if is_folder(from)? {
        return match prosody::is_folder(from) {
            true => Ok(Format::Prosody),
            false => Ok(Format::Portable),
        };
    }
    let mut head = Vec::new();
    let file = File::open(from).map_err(|error| wrong(error.to_string()))?;
    file.take(4_096).read_to_end(&mut head).map_err(|error| wrong(error.to_string()))?;
    match &head[..] {
        [0x1f, 0x8b, ..] => Err(wrong("it is compressed: unpack it with `gunzip` first".into())),
        [b'P', b'G', b'D', b'M', b'P', ..] => {
            Err(wrong("it is in the custom format of pg_dump: make it with `pg_dump --format=plain`".into()))
        }
        [b'S', b'Q', b'L', b'i', b't', b'e', b' ', ..] => {
            Err(wrong("it is a database of SQLite: write it as text with `sqlite3 FILE .dump`".into()))
        }
        head if head.contains(&0) => {
            Err(wrong("it is binary: of Mnesia, `ejabberdctl dump FILE` writes text, `backup` does not".into()))
        }
        head => Ok(match head.trim_ascii_start() {
            [b'{', ..] => Format::EjabberdMnesia,
            [b'<', ..] | [0xef, 0xbb, 0xbf, ..] => Format::Portable,
            rest if is_sql(rest) => Format::EjabberdSql,
            _ => Format::Portable,
        }),
    }
}

/// Whether it is a folder. Otherwise it is a regular file, which can be read more than once: the
/// beginning of a pipe would be lost.
fn is_folder(from: &Path) -> Result<bool, Wrong> {
    let wrong = |what: &dyn std::fmt::Display| Wrong::File(format!("{}: {what}", from.display()));
    let found = std::fs::metadata(from).map_err(|error| wrong(&error))?;
    match found.is_dir() || found.is_file() {
        true => Ok(found.is_dir()),
        false => {
            Err(wrong(&"it is no file and no folder: write the dump to a file first, unpacked if it is compressed"))
        }
    }
}

/// Whether a file begins like a dump in SQL.
fn is_sql(head: &[u8]) -> bool {
    let words: [&[u8]; 10] =
        [b"--", b"/*", b"SET ", b"INSERT ", b"CREATE ", b"COPY ", b"PRAGMA ", b"BEGIN", b"\\restrict", b"DELETE "];
    words.iter().any(|word| head.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word)))
}

/// Opens a source.
pub(super) type Open = Box<dyn FnOnce() -> Result<Box<dyn Source>, Wrong>>;

/// The sources of an import: one, or one for each main file of XEP-0227.
pub(super) fn sources(from: &Path, format: Format, host: &str) -> Result<Vec<Open>, Wrong> {
    let (is_folder, from, host) = (is_folder(from)?, from.to_owned(), host.to_owned());
    let open: Open = match format {
        Format::Portable => {
            let later = |path: PathBuf| -> Open { Box::new(move || Ok(Box::new(Reader::open(&path)?))) };
            return Ok(super::read::files(&from)?.into_iter().map(later).collect());
        }
        Format::Prosody if !is_folder => {
            return Err(Wrong::File(format!("{} is no folder: name the data folder of Prosody", from.display())));
        }
        Format::Prosody => Box::new(move || Ok(Box::new(prosody::Folder::open(&from)?))),
        Format::EjabberdSql | Format::EjabberdMnesia => {
            let is_sql = format == Format::EjabberdSql;
            Box::new(move || Ok(Box::new(ejabberd::Tables::open(&from, is_sql, &host)?)))
        }
    };
    Ok(vec![open])
}
