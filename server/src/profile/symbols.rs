//! Symbol names of addresses, resolved in the process of the command: from the symbol table of the
//! server's program, and from its line tables, if it has them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, NativeEndian, SectionId};
use object::{Object, ObjectSection, ReadCache};

use super::unwind::{Code, Frame, LOST};

type Reader = EndianRcSlice<NativeEndian>;

/// The names in a code file.
struct Names {
    /// Inlined functions, and source files. Finds nothing without line tables.
    lines: Context<Reader>,
    /// The start of each function, in order.
    symbols: Vec<(u64, String)>,
}

impl Names {
    fn read(path: &Path) -> Option<Names> {
        let cache = ReadCache::new(fs::File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let section = |id: SectionId| {
            let data = file.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
            Ok::<_, gimli::Error>(Reader::new(Rc::from(data.unwrap_or_default()), NativeEndian))
        };
        let lines = Context::from_dwarf(Dwarf::load(section).ok()?).ok()?;
        let map = file.symbol_map();
        let symbols = map.symbols().iter().map(|symbol| (symbol.address(), symbol.name().to_owned()));
        Some(Names { lines, symbols: symbols.collect() })
    }

    fn symbol(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|(begin, _)| *begin <= address);
        after.checked_sub(1).map(|at| &*self.symbols[at].1)
    }

    /// The functions at an address, outermost first. Line tables have only the last part of an
    /// inlined function's name, so its source file is added; the enclosing function has its whole
    /// path in the symbol table.
    fn find(&self, address: u64) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut frames = self.lines.find_frames(address).skip_all_loads().ok()?;
        while let Ok(Some(frame)) = frames.next() {
            let Some(name) = frame.function.as_ref().and_then(|function| function.demangle().ok()) else { continue };
            let file = frame.location.and_then(|location| location.file);
            names.push(match file {
                Some(file) if !name.contains("::") => format!("{name} ({})", short(file)),
                _ => tidy(&name),
            });
        }
        if let Some(symbol) = self.symbol(address) {
            names.pop();
            names.push(tidy(&addr2line::demangle_auto(symbol.into(), None)));
        }
        names.reverse();
        (!names.is_empty()).then_some(names)
    }
}

/// Names of the frames of one server.
pub struct Symbols {
    code: Vec<(Code, Option<Names>)>,
    known: HashMap<Frame, Vec<String>>,
}

impl Symbols {
    /// For the code files of the process with this id. The program is opened through the process,
    /// so that it is the running one and not one installed since.
    pub fn new(process: u32, code: Vec<Code>) -> Symbols {
        let open = |code: Code| {
            let running = format!("/proc/{process}/exe");
            let path = if code.program { Path::new(&running) } else { Path::new(&code.path) };
            let names = Names::read(path);
            (code, names)
        };
        Symbols { code: code.into_iter().map(open).collect(), known: HashMap::new() }
    }

    /// Whether the program's own symbols could be read.
    pub fn knows_program(&self) -> bool {
        self.code.iter().any(|(code, names)| code.program && names.is_some())
    }

    /// The functions of a frame, outermost first: more than one if some are inlined.
    pub fn names(&mut self, frame: Frame) -> &[String] {
        let Symbols { code, known } = self;
        known.entry(frame).or_insert_with(|| {
            if frame.0 == LOST {
                return vec!["[lost]".into()];
            }
            match code.get(frame.0 as usize) {
                Some((code, Some(names))) => names.find(frame.1).unwrap_or_else(|| vec![bare(code, frame.1)]),
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

/// The last two parts of a path.
fn short(file: &str) -> &str {
    file.rmatch_indices('/').nth(1).map_or(file, |(at, _)| &file[at + 1..])
}

/// The name without the compiler's disambiguating hash.
fn tidy(name: &str) -> String {
    match name.rsplit_once("::h") {
        Some((name, number)) if number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()) => name.to_owned(),
        _ => name.to_owned(),
    }
}
