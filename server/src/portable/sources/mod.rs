//! What other servers leave behind, as they leave it: each file reads one format and yields parts.

mod forms;
mod lua;
mod prosody;
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
}

impl Format {
    /// All formats by name.
    pub const ALL: [(&'static str, Format); 2] = [("xep0227", Format::Portable), ("prosody", Format::Prosody)];
}

/// Recognises a format by the first bytes of a file, or by the files of a folder.
///
/// # Errors
/// It is none that is known.
pub fn recognise(from: &Path) -> Result<Format, Wrong> {
    let wrong = |what: String| Wrong::File(format!("{}: {what}", from.display()));
    if from.is_dir() {
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
        _ => Ok(Format::Portable),
    }
}

/// Opens a source.
pub(super) type Open = Box<dyn FnOnce() -> Result<Box<dyn Source>, Wrong>>;

/// The sources of an import: one, or one for each main file of XEP-0227.
pub(super) fn sources(from: &Path, format: Format) -> Result<Vec<Open>, Wrong> {
    let from = from.to_owned();
    let open: Open = match format {
        Format::Portable => {
            let later = |path: PathBuf| -> Open { Box::new(move || Ok(Box::new(Reader::open(&path)?))) };
            return Ok(super::read::files(&from)?.into_iter().map(later).collect());
        }
        Format::Prosody if !from.is_dir() => {
            return Err(Wrong::File(format!("{} is no folder: name the data folder of Prosody", from.display())));
        }
        Format::Prosody => Box::new(move || Ok(Box::new(prosody::Folder::open(&from)?))),
    };
    Ok(vec![open])
}
