//! Reads files of XEP-0227 element by element, however large they are.
//!
//! One element at a time is in memory: a contact, a message, an item. `rxml` rejects document
//! types, entities, processing instructions and encodings other than UTF-8, so a file can neither
//! refer to others nor expand while it is read. That leaves depth, the size of an element, and
//! inclusions (XEP-0227 5) to bound: inclusions may only refer to files below the folder of the
//! first one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use minidom::Element;
use rxml::{AttrMap, Event, GenericReader, Options, Parser};
use throng_engine::portable::{self, Container};
use throng_engine::rooms::exchange;

use super::parts::{At, DEPTH_MAX, ELEMENT_BYTES_MAX, Part, Source as Parts, TOKEN_BYTES_MAX};
use super::summary::shown;
use super::{Wrong, percent_decoded};

const NS_INCLUDE: &str = "http://www.w3.org/2001/XInclude";

/// Most open files: main file, host, user, and one for a part of a user.
const FILES_MAX: usize = 4;

/// An open ancestor of the current element.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Level {
    Data,
    Host,
    User,
    Container(Container),
    Items(String),
    Room,
    /// `<include/>`, whose file is read after its end tag.
    Include(PathBuf),
    /// An element that is skipped.
    Unknown,
}

/// A file being read.
struct Source {
    path: PathBuf,
    reader: GenericReader<Lines, Parser>,
}

/// Bytes of a file, with a count of the lines consumed.
struct Lines {
    reader: BufReader<Box<dyn Read>>,
    line: u64,
    bytes: u64,
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Lines {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        let taken = &self.reader.buffer()[..amount];
        self.line += taken.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.bytes += amount as u64;
        self.reader.consume(amount);
    }
}

/// Reads a file and its inclusions.
pub(super) struct Reader {
    /// The folder of included files.
    folder: PathBuf,
    sources: Vec<Source>,
    levels: Vec<Level>,
    /// Files that were included: device and inode.
    included: HashSet<(u64, u64)>,
    /// Bytes of the files that were read completely.
    bytes: u64,
}

/// An element being collected.
struct Collected {
    open: Vec<Element>,
    bytes: usize,
}

impl Reader {
    /// Opens the main file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open(path: &Path) -> Result<Reader, Wrong> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().map_err(|error| Wrong::File(format!("{}: {error}", path.display())))?;
        let mut reader = Reader { folder, sources: Vec::new(), levels: Vec::new(), included: HashSet::new(), bytes: 0 };
        let file = File::open(path).map_err(|error| Wrong::File(format!("{}: {error}", path.display())))?;
        reader.push(path.to_owned(), Box::new(file));
        Ok(reader)
    }

    fn push(&mut self, path: PathBuf, bytes: Box<dyn Read>) {
        let options = Options {
            max_token_length: TOKEN_BYTES_MAX,
            comments: rxml::parser::CommentMode::Discard,
            ..Options::default()
        };
        let lines = Lines { reader: BufReader::with_capacity(64 << 10, bytes), line: 1, bytes: 0 };
        let reader = GenericReader::with_options(lines, options);
        self.sources.push(Source { path, reader });
    }

    /// Whether a file begins like a main file. An unreadable one counts as a main file: reading it
    /// reports the reason.
    pub(super) fn is_main(path: &Path) -> Result<bool, Wrong> {
        let mut reader = Reader::open(path)?;
        loop {
            match reader.event() {
                Ok(Some(Event::StartElement(_, (namespace, name), _))) => {
                    return Ok(namespace != portable::NS || !matches!(name.as_str(), "host" | "user"));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Ok(true),
            }
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Wrong {
        Wrong::File(shown(&format!("{}: {what}", self.at())))
    }

    /// The next event of the current file; `None` at its end.
    fn event(&mut self) -> Result<Option<Event>, Wrong> {
        let Some(source) = self.sources.last_mut() else { return Ok(None) };
        match source.reader.read() {
            Ok(Some(Event::XmlDeclaration(..))) => self.event(),
            Ok(event) => Ok(event),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(self.wrong(format_args!(
                "{error}: it has to be well-formed XML 1.0 in UTF-8 without a document type, entities of its own and processing \
                 instructions (`xmllint --noent --dropdtd` writes a file without them)"
            ))),
            Err(error) => Err(self.wrong(error)),
        }
    }

    fn start(&mut self, bytes: usize, namespace: &str, name: &str, attributes: AttrMap) -> Result<Option<Part>, Wrong> {
        let attribute = |key: &str| attributes.get("", key).cloned();
        let depth = self.levels.len();
        let in_format = namespace == portable::NS;
        if namespace == NS_INCLUDE
            && name == "include"
            && matches!(self.levels.last(), Some(Level::Data | Level::Host | Level::User))
        {
            let path = self.included(&attributes)?;
            self.levels.push(Level::Include(path));
            return Ok(None);
        }
        match self.levels.last() {
            None if in_format && name == "server-data" => self.levels.push(Level::Data),
            None => {
                return Err(self.wrong(format_args!(
                    "it begins with <{name} xmlns='{namespace}'/>, and a file of XEP-0227 with <server-data xmlns='{}'/>: name the \
                     main file of the export",
                    portable::NS
                )));
            }
            Some(Level::Data) if in_format && name == "host" => {
                let jid = attribute("jid").ok_or_else(|| self.wrong("<host/> has no `jid`"))?;
                self.levels.push(Level::Host);
                return Ok(Some(Part::Host(jid)));
            }
            Some(Level::Host) if in_format && name == "user" => {
                let user = attribute("name").ok_or_else(|| self.wrong("<user/> has no `name`"))?;
                self.levels.push(Level::User);
                return Ok(Some(Part::User { name: user, password: attribute("password") }));
            }
            Some(Level::Host) if namespace == exchange::NS && name == "room" => {
                let room = attribute("name").ok_or_else(|| self.wrong("<room/> has no `name`"))?;
                self.levels.push(Level::Room);
                return Ok(Some(Part::Room { name: room, created: attribute("created") }));
            }
            Some(Level::User) => match portable::container(namespace, name) {
                Some(container) => self.levels.push(Level::Container(container)),
                None => return self.collect(bytes, namespace, name, attributes).map(Some),
            },
            Some(Level::Container(Container::Nodes)) if name == "items" => {
                self.levels.push(Level::Items(attribute("node").unwrap_or_default()));
            }
            Some(Level::Container(_) | Level::Items(_) | Level::Room) => {
                return self.collect(bytes, namespace, name, attributes).map(Some);
            }
            Some(Level::Data | Level::Host) => {
                self.levels.push(Level::Unknown);
                return Ok(Some(Part::Skipped(
                    "element",
                    format!("<{name} xmlns='{namespace}'/> is nothing that is known"),
                )));
            }
            // The content of an inclusion (`<fallback/>`), or of a skipped element.
            Some(Level::Include(_) | Level::Unknown) if depth < DEPTH_MAX => self.levels.push(Level::Unknown),
            Some(Level::Include(_) | Level::Unknown) => return Err(self.too_deep()),
        }
        Ok(None)
    }

    fn too_deep(&self) -> Wrong {
        self.wrong(format_args!("elements are nested more than {DEPTH_MAX} deep"))
    }

    fn end(&mut self) -> Result<Option<Part>, Wrong> {
        match self.levels.pop() {
            Some(Level::User) => return Ok(Some(Part::UserEnd)),
            Some(Level::Room) => return Ok(Some(Part::RoomEnd)),
            Some(Level::Include(path)) => self.include(path)?,
            _ => {}
        }
        Ok(None)
    }

    /// The file of an `<include/>` (XEP-0227 5).
    fn included(&self, attributes: &AttrMap) -> Result<PathBuf, Wrong> {
        let href = attributes.get("", "href").filter(|href| !href.is_empty());
        let href = href.ok_or_else(|| self.wrong("<include/> has no `href`"))?;
        for other in ["parse", "xpointer"] {
            if attributes.get("", other).is_some() {
                return Err(self
                    .wrong(format_args!("<include/> with `{other}` is not taken: include whole XML files by `href`")));
            }
        }
        let outside = || {
            self.wrong(format_args!(
                "<include href='{href}'/> leads out of {}: included files have to be below the folder of the main file, and named \
                 relative to the file that includes them",
                self.folder.display()
            ))
        };
        let name = path_of(href).ok_or_else(outside)?;
        let relative = Path::new(&name);
        if name.contains('\0')
            || !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Err(outside());
        }
        let own = self.sources.last().and_then(|source| source.path.parent()).unwrap_or(Path::new(""));
        let path = own.join(relative);
        // A link in the folder may lead anywhere.
        let found =
            path.canonicalize().map_err(|error| self.wrong(format_args!("<include href='{href}'/>: {error}")))?;
        if found.starts_with(&self.folder) { Ok(path) } else { Err(outside()) }
    }

    fn include(&mut self, path: PathBuf) -> Result<(), Wrong> {
        if self.sources.len() == FILES_MAX {
            return Err(self.wrong(format_args!(
                "files include each other more than {FILES_MAX} deep: an export has a main file, hosts, users and parts of users"
            )));
        }
        // Checked first: opening a pipe would block until it has a writer.
        let found = path.metadata().map_err(|error| self.wrong(format_args!("{}: {error}", path.display())))?;
        if !found.is_file() {
            return Err(self.wrong(format_args!("{} is no file", path.display())));
        }
        // A repeated inclusion would repeat the data, and three such levels would make a small
        // export endless.
        if !self.included.insert((found.dev(), found.ino())) {
            return Err(self.wrong(format_args!("{} is included twice", path.display())));
        }
        let file = File::open(&path).map_err(|error| self.wrong(format_args!("{}: {error}", path.display())))?;
        self.push(path, Box::new(file));
        Ok(())
    }

    /// Reads the rest of an element that has begun.
    fn collect(&mut self, bytes: usize, namespace: &str, name: &str, attributes: AttrMap) -> Result<Part, Wrong> {
        let (container, node) = match self.levels.last() {
            Some(Level::Container(container)) => (Some(*container), None),
            Some(Level::Items(node)) => (Some(Container::Nodes), Some(node.clone())),
            _ => (None, None),
        };
        let shown = format!("<{name} xmlns='{namespace}'/>");
        let mut collected = Collected { open: vec![element(namespace, name, attributes)], bytes };
        let mut depth = 1;
        loop {
            let Some(event) = self.event()? else {
                return Err(self.wrong(format_args!("it ends within {shown}: the file is truncated")));
            };
            collected.bytes += event.metrics().len();
            let kept = collected.bytes <= ELEMENT_BYTES_MAX;
            if !kept {
                collected.open.clear();
            }
            match event {
                Event::StartElement(_, (namespace, name), attributes) => {
                    if depth == DEPTH_MAX {
                        return Err(self.too_deep());
                    }
                    depth += 1;
                    if kept {
                        collected.open.push(element(&namespace, &name, attributes));
                    }
                }
                Event::EndElement(_) => {
                    depth -= 1;
                    let ended = collected.open.pop();
                    match (collected.open.last_mut(), ended) {
                        (Some(parent), Some(ended)) => drop(parent.append_child(ended)),
                        (None, Some(element)) if depth == 0 => {
                            return Ok(Part::Element { container, node, element });
                        }
                        _ if depth == 0 => {
                            return Ok(Part::Skipped("element", format!("{shown} is larger than 4 MiB")));
                        }
                        _ => {}
                    }
                }
                Event::Text(_, text) => {
                    if let Some(open) = collected.open.last_mut() {
                        open.append_text(text);
                    }
                }
                Event::XmlDeclaration(..) => {}
            }
        }
    }
}

impl Parts for Reader {
    fn next(&mut self) -> Result<Option<Part>, Wrong> {
        loop {
            let Some(event) = self.event()? else {
                match self.sources.pop() {
                    Some(ended) => self.bytes += ended.reader.inner().bytes,
                    None => return Ok(None),
                }
                continue;
            };
            let part = match event {
                Event::StartElement(metrics, (namespace, name), attributes) => {
                    self.start(metrics.len(), &namespace, &name, attributes)?
                }
                Event::EndElement(_) => self.end()?,
                Event::Text(..) | Event::XmlDeclaration(..) => None,
            };
            if part.is_some() {
                return Ok(part);
            }
        }
    }

    fn at(&self) -> At {
        match self.sources.last() {
            Some(source) => At { file: source.path.clone(), line: source.reader.inner().line },
            None => At { file: self.folder.clone(), line: 0 },
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes + self.sources.iter().map(|source| source.reader.inner().bytes).sum::<u64>()
    }
}

/// The files to read: one, or the main files of a folder.
pub(super) fn files(from: &Path) -> Result<Vec<PathBuf>, Wrong> {
    let wrong = |what: String| Wrong::File(format!("{}: {what}", from.display()));
    if !from.is_dir() {
        return Ok(vec![from.to_owned()]);
    }
    let entries = std::fs::read_dir(from).map_err(|error| wrong(error.to_string()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| wrong(error.to_string()))?.path();
        let named = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml"));
        // Files of hosts and users are included by another one.
        if named && path.is_file() && Reader::is_main(&path)? {
            found.push(path);
        }
    }
    found.sort_unstable();
    if found.is_empty() {
        return Err(wrong("it contains no file *.xml that begins with <server-data/>: name the export".into()));
    }
    Ok(found)
}

/// An element with these attributes.
pub(super) fn element(namespace: &str, name: &str, attributes: AttrMap) -> Element {
    let mut element = Element::bare(name, namespace);
    *element.attrs_mut() = attributes;
    element
}

/// The path of a URI as text; `None` if it has a scheme or is not UTF-8.
fn path_of(href: &str) -> Option<String> {
    if href.contains(':') && href.split('/').next().is_some_and(|first| first.contains(':')) {
        return None;
    }
    percent_decoded(href)
}
