//! From registers and a copy of the stack to addresses, by the unwind tables that every code file
//! has for panics.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::io::Read;

use framehop::{CacheNative, ExplicitModuleSectionInfo, Module, UnwindRegsNative, Unwinder, UnwinderNative};
use object::{Object, ObjectSection, ObjectSegment, ReadCache, ReadRef};

use throng_sys::{Registers, Sample};

/// Most frames of a stack.
const FRAMES_MAX: usize = 192;

/// A code file in the process's memory.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Code {
    /// The path of the file; `[vdso]` is the kernel's own.
    pub path: String,
    /// Whether it is the program itself.
    pub program: bool,
}

/// The number of the module, and the address relative to its file.
pub type Frame = (u32, u64);

/// Number of the module that marks frames that could not be found.
pub const LOST: u32 = u32::MAX;

/// Start, end, offset in the file, and whether it is executable.
type Range = (u64, u64, u64, bool);

struct Place {
    start: u64,
    end: u64,
    base: u64,
}

/// All code of the process at the time of creation.
pub(super) struct Stacks {
    unwinder: UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
    places: Vec<Place>,
    pub(super) code: Vec<Code>,
}

impl Stacks {
    /// Reads the process's memory map and the unwind tables of its files.
    ///
    /// # Errors
    /// The map or the program cannot be read.
    pub(super) fn of_this_process() -> io::Result<Stacks> {
        let program = std::fs::read_link("/proc/self/exe")?.to_string_lossy().into_owned();
        let mut ranges: HashMap<String, Vec<Range>> = HashMap::new();
        for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
            if let Some((path, range)) = mapping(line) {
                ranges.entry(path.to_owned()).or_default().push(range);
            }
        }
        let mut stacks =
            Stacks { unwinder: UnwinderNative::new(), cache: CacheNative::new(), places: Vec::new(), code: Vec::new() };
        for (path, ranges) in ranges {
            // This name refers to the program even if its file was replaced by an update.
            let is_program = path == program;
            let file = if is_program { "/proc/self/exe" } else { &path };
            // Unreadable files are left out: their frames are found by frame pointers, or lost.
            if ranges.iter().any(|range| range.3) && stacks.add(&path, file, &ranges).is_some() {
                stacks.code.push(Code { path, program: is_program });
            }
        }
        if !stacks.code.iter().any(|code| code.program) {
            return Err(io::Error::other("the program's own file cannot be read"));
        }
        Ok(stacks)
    }

    fn add(&mut self, path: &str, file: &str, ranges: &[Range]) -> Option<()> {
        let start = ranges.iter().map(|range| range.0).min()?;
        let end = ranges.iter().map(|range| range.1).max()?;
        let offset = ranges.iter().find(|range| range.0 == start)?.2;
        if path == "[vdso]" {
            let mut image = vec![0; usize::try_from(end - start).ok()?];
            let mut memory = File::open("/proc/self/mem").ok()?;
            io::Seek::seek(&mut memory, io::SeekFrom::Start(start)).ok()?;
            memory.read_exact(&mut image).ok()?;
            return self.add_file(path, &*image, (start, end), offset);
        }
        let cache = ReadCache::new(File::open(file).ok()?);
        self.add_file(path, &cache, (start, end), offset)
    }

    fn add_file<'d, R: ReadRef<'d>>(&mut self, path: &str, data: R, range: (u64, u64), offset: u64) -> Option<()> {
        let file = object::File::parse(data).ok()?;
        let segment = file.segments().find(|segment| {
            let (at, len) = segment.file_range();
            (at & !0xfff..at + len.max(1)).contains(&offset)
        })?;
        let base = range.0.wrapping_sub(segment.address().wrapping_add(offset).wrapping_sub(segment.file_range().0));
        let section = |name: &str| file.section_by_name(name);
        let range_of = |name: &str| section(name).map(|s| s.address()..s.address() + s.size());
        let bytes_of = |name: &str| section(name).and_then(|s| s.data().ok()).map(<[u8]>::to_vec);
        let info = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: range_of(".text"),
            text: bytes_of(".text"),
            got_svma: range_of(".got"),
            eh_frame_svma: range_of(".eh_frame"),
            eh_frame: bytes_of(".eh_frame"),
            eh_frame_hdr_svma: range_of(".eh_frame_hdr"),
            eh_frame_hdr: bytes_of(".eh_frame_hdr"),
            ..ExplicitModuleSectionInfo::default()
        };
        self.unwinder.add_module(Module::new(path.to_owned(), range.0..range.1, base, info));
        self.places.push(Place { start: range.0, end: range.1, base });
        Some(())
    }

    /// The frames of a sample, outermost first.
    pub(super) fn frames(&mut self, sample: Sample<'_>) -> Vec<Frame> {
        let (registers, stack) = (sample.registers, sample.stack);
        let mut read = |address: u64| {
            let at = usize::try_from(address.checked_sub(registers.sp).ok_or(())?).map_err(drop)?;
            let bytes = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
        };
        let mut frames = Vec::new();
        let mut walk = self.unwinder.iter_frames(registers.ip, native(registers), &mut self.cache, &mut read);
        loop {
            match walk.next() {
                Ok(Some(frame)) if frames.len() < FRAMES_MAX => {
                    let address = frame.address_for_lookup();
                    let at = self.places.iter().position(|place| (place.start..place.end).contains(&address));
                    match at {
                        Some(at) => frames.push((at as u32, address.wrapping_sub(self.places[at].base))),
                        None => frames.push((LOST, 0)),
                    }
                }
                Ok(None) => break,
                Ok(Some(_)) | Err(_) => {
                    frames.push((LOST, 0));
                    break;
                }
            }
        }
        frames.dedup_by(|a, b| a.0 == LOST && b.0 == LOST);
        frames.reverse();
        frames
    }
}

#[cfg(target_arch = "x86_64")]
fn native(r: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(r.ip, r.sp, r.fp)
}

#[cfg(target_arch = "aarch64")]
fn native(r: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(r.lr, r.sp, r.fp)
}

/// Path and range in a line of proc_pid_maps(5) that names a code file.
fn mapping(line: &str) -> Option<(&str, Range)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (rights, offset) = (words.next()?, words.next()?);
    let path = words.nth(2)?.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let is_code = path.starts_with('/') || path == "[vdso]";
    is_code.then_some((path, (number(start)?, number(end)?, number(offset)?, rights.contains('x'))))
}
