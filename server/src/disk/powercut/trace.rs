//! The changes that a process made to a folder, system call by system call, as recorded by
//! `strace`, including those of libraries.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The calls that change files, and those needed to interpret them.
pub(super) const CALLS: &str = "openat,open,creat,write,pwrite64,writev,pwritev,fsync,fdatasync,rename,renameat,\
                                renameat2,unlink,unlinkat,mkdir,mkdirat,ftruncate,close,lseek,fallocate,\
                                copy_file_range,sendfile,link,linkat";

/// A file, independent of its names.
pub(super) type Inode = usize;

/// One change. Paths are relative to the folder.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// A name for a new file, or an additional one.
    Create {
        path: PathBuf,
        inode: Inode,
    },
    MakeDir {
        path: PathBuf,
    },
    Write {
        inode: Inode,
        at: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        inode: Inode,
        length: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    /// All changes of the file before operation number `since` are durable.
    Sync {
        inode: Inode,
        since: usize,
    },
    /// The same for the names in a folder.
    SyncDir {
        path: PathBuf,
        since: usize,
    },
    /// A line printed by the process.
    Said(String),
}

#[derive(Clone)]
enum Open {
    File { inode: Inode, offset: u64 },
    Dir(PathBuf),
    Output,
}

/// Parses a trace of changes below `root`.
#[derive(Default)]
pub(super) struct Reader {
    root: PathBuf,
    pub(super) ops: Vec<Op>,
    names: HashMap<PathBuf, Option<Inode>>,
    lengths: Vec<u64>,
    open: HashMap<i64, Open>,
    /// Calls in progress, by thread: their text, and the number of operations at that time.
    begun: HashMap<String, (String, usize)>,
}

impl Reader {
    pub(super) fn read(root: &Path, trace: &str) -> Vec<Op> {
        let mut reader = Reader { root: root.to_owned(), ..Reader::default() };
        reader.names.insert(PathBuf::new(), None);
        reader.open.insert(1, Open::Output);
        for line in trace.lines() {
            let Some((thread, call)) = line.split_once(char::is_whitespace) else { continue };
            reader.line(thread, call.trim_start());
        }
        reader.ops
    }

    fn line(&mut self, thread: &str, call: &str) {
        let since = self.ops.len();
        if let Some(begun) = call.strip_suffix(" <unfinished ...>") {
            // Its descriptor may be reused before the closing thread appears again in the trace.
            if begun.starts_with("close(") {
                self.call(&format!("{begun}) = 0"), since);
            } else {
                self.begun.insert(thread.to_owned(), (begun.to_owned(), since));
            }
        } else if let Some(rest) = call.strip_prefix("<... ") {
            let Some((begun, since)) = self.begun.remove(thread) else { return };
            let end = rest.split_once("resumed>").map_or("", |(_, end)| end);
            self.call(&(begun + end), since);
        } else {
            self.call(call, since);
        }
    }

    fn call(&mut self, call: &str, since: usize) {
        let Some((head, result)) = call.rsplit_once(" = ") else { return };
        let Some(result) = result.split_whitespace().next().and_then(|word| word.parse::<i64>().ok()) else { return };
        let Some((name, arguments)) = head.trim_end().split_once('(') else { return };
        let arguments: Vec<&str> = arguments.trim_end_matches(')').split(", ").collect();
        if result < 0 {
            return;
        }
        self.done(name, &arguments, result, since);
    }

    fn done(&mut self, name: &str, arguments: &[&str], result: i64, since: usize) {
        let fd = || arguments[0].parse::<i64>().unwrap_or(-1);
        match name {
            "openat" => self.opened(arguments[1], arguments[2], result),
            "close" => _ = self.open.remove(&fd()),
            "lseek" => {
                if let Some(Open::File { offset, .. }) = self.open.get_mut(&fd()) {
                    *offset = result as u64;
                }
            }
            // Writes to the output are the test harness's.
            "write" => {
                if let Some(Open::File { inode, offset }) = self.open.get_mut(&fd()) {
                    let (inode, at) = (*inode, *offset);
                    *offset += result as u64;
                    self.write(inode, at, unhex(arguments[1]), result);
                }
            }
            "writev" if matches!(self.open.get(&fd()), Some(Open::Output)) => {
                self.ops.push(Op::Said(String::from_utf8_lossy(&unhex(arguments[1])).into_owned()));
            }
            "pwrite64" => {
                if let Some(&Open::File { inode, .. }) = self.open.get(&fd()) {
                    self.write(inode, arguments[3].parse().expect("an offset"), unhex(arguments[1]), result);
                }
            }
            "ftruncate" => {
                if let Some(&Open::File { inode, .. }) = self.open.get(&fd()) {
                    self.truncate(inode, arguments[1].parse().expect("a length"));
                }
            }
            "fsync" | "fdatasync" => match self.open.get(&fd()) {
                Some(Open::File { inode, .. }) => self.ops.push(Op::Sync { inode: *inode, since }),
                Some(Open::Dir(path)) => self.ops.push(Op::SyncDir { path: path.clone(), since }),
                _ => {}
            },
            "mkdir" => self.make_dir(arguments[0]),
            "mkdirat" => self.make_dir(arguments[1]),
            "rename" => self.rename(arguments[0], arguments[1]),
            "renameat" | "renameat2" => self.rename(arguments[1], arguments[3]),
            "link" => self.link(arguments[0], arguments[1]),
            "linkat" => self.link(arguments[1], arguments[3]),
            "unlink" => self.remove(arguments[0]),
            "unlinkat" => self.remove(arguments[1]),
            // If code begins to use one of these, this parser must learn it.
            _ => assert!(!arguments.iter().any(|word| self.is_ours(word)), "{name} is not understood: {arguments:?}"),
        }
    }

    fn is_ours(&self, argument: &str) -> bool {
        let file = argument.parse::<i64>().ok().and_then(|fd| self.open.get(&fd));
        matches!(file, Some(Open::File { .. })) || self.path(argument).is_some()
    }

    fn opened(&mut self, path: &str, flags: &str, fd: i64) {
        let Some(path) = self.path(path) else {
            self.open.remove(&fd);
            return;
        };
        let opened = match self.names.get(&path) {
            Some(None) => Open::Dir(path),
            Some(Some(inode)) => {
                let inode = *inode;
                if flags.contains("O_TRUNC") {
                    self.truncate(inode, 0);
                }
                Open::File { inode, offset: 0 }
            }
            None => {
                let inode = self.lengths.len();
                self.lengths.push(0);
                self.names.insert(path.clone(), Some(inode));
                self.ops.push(Op::Create { path, inode });
                Open::File { inode, offset: 0 }
            }
        };
        self.open.insert(fd, opened);
    }

    fn write(&mut self, inode: Inode, at: u64, mut bytes: Vec<u8>, written: i64) {
        bytes.truncate(written as usize);
        self.lengths[inode] = self.lengths[inode].max(at + bytes.len() as u64);
        self.ops.push(Op::Write { inode, at, bytes });
    }

    fn truncate(&mut self, inode: Inode, length: u64) {
        if self.lengths[inode] != length {
            self.lengths[inode] = length;
            self.ops.push(Op::Truncate { inode, length });
        }
    }

    fn make_dir(&mut self, path: &str) {
        if let Some(path) = self.path(path) {
            self.names.insert(path.clone(), None);
            self.ops.push(Op::MakeDir { path });
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        if let (Some(from), Some(to)) = (self.path(from), self.path(to)) {
            let moved = self.names.remove(&from).expect("what is renamed is there");
            assert!(moved.is_some(), "no folder is renamed");
            self.names.insert(to.clone(), moved);
            self.ops.push(Op::Rename { from, to });
        }
    }

    fn link(&mut self, from: &str, to: &str) {
        if let (Some(from), Some(path)) = (self.path(from), self.path(to)) {
            let inode = self.names[&from].expect("no folder has two names");
            self.names.insert(path.clone(), Some(inode));
            self.ops.push(Op::Create { path, inode });
        }
    }

    fn remove(&mut self, path: &str) {
        if let Some(path) = self.path(path) {
            self.names.remove(&path);
            self.ops.push(Op::Remove { path });
        }
    }

    /// The path in an argument, if it is below the root.
    fn path(&self, argument: &str) -> Option<PathBuf> {
        let path = PathBuf::from(String::from_utf8(unhex(argument)).ok()?);
        path.strip_prefix(&self.root).ok().map(Path::to_owned)
    }
}

/// Number of times each call was made: the maximum over threads.
pub(super) fn most_calls(trace: &str) -> BTreeMap<String, usize> {
    let mut counts = HashMap::<(&str, &str), usize>::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(char::is_whitespace) else { continue };
        if let Some((name, _)) = call.trim_start().split_once('(').filter(|(name, _)| !name.contains(' ')) {
            *counts.entry((thread, name)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((_, name), count) in counts {
        let most: &mut usize = most.entry(name.to_owned()).or_default();
        *most = count.max(*most);
    }
    most
}

/// The bytes of a string argument, which `strace -xx` writes as `"\x2f\x74"`.
fn unhex(argument: &str) -> Vec<u8> {
    let text = argument.trim_matches('"');
    text.split("\\x").skip(1).filter_map(|byte| u8::from_str_radix(byte.get(..2)?, 16).ok()).collect()
}
