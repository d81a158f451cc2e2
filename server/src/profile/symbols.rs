//! What addresses are called: by the line tables of the server's own program, in the process of the command.

use std::collections::HashMap;
use std::path::Path;

use addr2line::Loader;

use super::unwind::{Code, Frame, LOST};

/// Names of the frames of one server.
pub struct Symbols {
    code: Vec<(Code, Option<Loader>)>,
    known: HashMap<Frame, Vec<String>>,
}

impl Symbols {
    /// Of the files that the process with this id runs. The program is opened by way of the process, so that it is the one
    /// that runs, not one that has been installed since.
    pub fn new(process: u32, code: Vec<Code>) -> Symbols {
        let open = |code: Code| {
            let running = format!("/proc/{process}/exe");
            let path = if code.program { Path::new(&running) } else { Path::new(&code.path) };
            let loader = Loader::new(path).ok();
            (code, loader)
        };
        Symbols { code: code.into_iter().map(open).collect(), known: HashMap::new() }
    }

    /// Whether the program's own names could be read.
    pub fn knows_program(&self) -> bool {
        self.code.iter().any(|(code, loader)| code.program && loader.is_some())
    }

    /// The functions of a frame, outermost first: more than one where some are inlined.
    pub fn names(&mut self, frame: Frame) -> &[String] {
        let Symbols { code, known } = self;
        known.entry(frame).or_insert_with(|| {
            if frame.0 == LOST {
                return vec!["[lost]".into()];
            }
            match code.get(frame.0 as usize) {
                Some((code, Some(loader))) => find(loader, frame.1).unwrap_or_else(|| vec![bare(code, frame.1)]),
                Some((code, None)) => vec![bare(code, frame.1)],
                None => vec![format!("{:#x}", frame.1)],
            }
        })
    }
}

fn bare(code: &Code, address: u64) -> String {
    let file = code.path.rsplit('/').next().unwrap_or_default();
    format!("{file}+{address:#x}")
}

/// Line tables have an inlined function's own name only, so its file stands with it; the function that it stands in has its whole
/// path in the table of symbols.
fn find(loader: &Loader, address: u64) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut frames = loader.find_frames(address).ok()?;
    while let Ok(Some(frame)) = frames.next() {
        let Some(name) = frame.function.as_ref().and_then(|function| function.demangle().ok()) else { continue };
        let file = frame.location.and_then(|location| location.file);
        names.push(match file {
            Some(file) if !name.contains("::") => format!("{name} ({})", short(file)),
            _ => tidy(&name),
        });
    }
    if let Some(symbol) = loader.find_symbol(address) {
        names.pop();
        names.push(tidy(&addr2line::demangle_auto(symbol.into(), None)));
    }
    names.reverse();
    (!names.is_empty()).then_some(names)
}

/// The last two parts of a path.
fn short(file: &str) -> &str {
    file.rmatch_indices('/').nth(1).map_or(file, |(at, _)| &file[at + 1..])
}

/// Without the number by which the compiler tells equal names apart.
fn tidy(name: &str) -> String {
    match name.rsplit_once("::h") {
        Some((name, number)) if number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()) => name.to_owned(),
        _ => name.to_owned(),
    }
}
