//! Reads rows of dumps in SQL: `INSERT` of `mysqldump`, `pg_dump --inserts`, `sqlite3 .dump` and
//! ejabberd, and `COPY` of `pg_dump`.
//!
//! One row at a time is in memory, however long a statement is. Nothing else of SQL is understood but
//! the columns of `CREATE TABLE`, and the functions by which SQLite writes line breaks; other
//! statements are passed over.

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::rc::Rc;

use crate::input::Input;

/// Most bytes of a row; a larger one has no values.
pub const ROW_BYTES_MAX: usize = 16 << 20;

/// Most columns of a table.
pub const COLUMNS_MAX: usize = 256;

/// Most tables.
const TABLES_MAX: usize = 1_024;

/// Most bytes of a name.
const NAME_BYTES_MAX: usize = 256;

/// Most functions within each other; SQLite writes two.
const CALLS_MAX: usize = 4;

/// A table: its name without that of the schema, and its columns.
#[derive(PartialEq, Eq, Debug)]
pub struct Table {
    /// In lower case.
    pub name: String,
    /// Their names in lower case, in order.
    pub columns: Vec<String>,
}

/// A row.
#[derive(Debug)]
pub struct Row {
    /// Its table.
    pub table: Rc<Table>,
    /// In the order of the columns; empty for `NULL`. `None` if the row is too large.
    pub values: Option<Vec<Vec<u8>>>,
}

impl Row {
    /// The value of a column; `None` if there is no such column.
    pub fn get(&self, column: &str) -> Option<&[u8]> {
        let at = self.table.columns.iter().position(|name| name == column)?;
        Some(self.values.as_ref()?.get(at)?)
    }
}

/// What is being read.
enum Within {
    Statement,
    /// The rows of an `INSERT`.
    Values(Rc<Table>),
    /// The lines of a `COPY`.
    Lines(Rc<Table>),
    /// An `INSERT` that was passed over.
    Passed(Rc<Table>),
}

/// A dump being read.
pub struct Dump<R> {
    input: Input<R>,
    /// Whether a backslash begins an escape in every text, as MySQL has it.
    backslashes: bool,
    within: Within,
    tables: HashMap<String, Rc<Table>>,
    /// Whether the rows of a table with this name are needed.
    needed: fn(&str) -> bool,
}

/// A row that grows within its limit.
struct Growing {
    values: Vec<Vec<u8>>,
    left: usize,
    fits: bool,
}

impl Growing {
    fn new() -> Growing {
        Growing { values: Vec::new(), left: ROW_BYTES_MAX, fits: true }
    }

    fn begin(&mut self) {
        self.fits &= self.values.len() < COLUMNS_MAX;
        if self.fits {
            self.values.push(Vec::new());
        }
    }

    fn push(&mut self, byte: u8) {
        self.fits &= self.left > 0;
        if self.fits
            && let Some(value) = self.values.last_mut()
        {
            value.push(byte);
            self.left -= 1;
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.push(*byte));
    }

    fn row(self, table: &Rc<Table>) -> Row {
        Row { table: Rc::clone(table), values: self.fits.then_some(self.values) }
    }
}

impl<R: Read> Dump<R> {
    /// Begins a dump. A statement that inserts into a table whose columns are unknown is an error if
    /// the table is `needed`. Otherwise it is one row without columns: SQLite does not create its own
    /// table `sqlite_sequence` in a dump.
    pub fn new(from: R, needed: fn(&str) -> bool) -> Dump<R> {
        Dump {
            input: Input::new(from, "a statement"),
            backslashes: false,
            within: Within::Statement,
            tables: HashMap::new(),
            needed,
        }
    }

    /// The current line, counted from 1.
    pub fn line(&self) -> u64 {
        self.input.line()
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.input.bytes()
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// A statement that inserts is not as these programs write it. The rest cannot be read.
    pub fn read_row(&mut self) -> Result<Option<Row>, String> {
        loop {
            match &self.within {
                Within::Values(table) => {
                    let table = Rc::clone(table);
                    return self.tuple(&table).map(Some);
                }
                Within::Lines(table) => {
                    let table = Rc::clone(table);
                    if let Some(row) = self.copied(&table)? {
                        return Ok(Some(row));
                    }
                }
                Within::Passed(table) => {
                    let row = Row { table: Rc::clone(table), values: Some(Vec::new()) };
                    self.within = Within::Statement;
                    return Ok(Some(row));
                }
                Within::Statement => {
                    if !self.statement()? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Skips white space and comments; the byte behind them.
    fn space(&mut self) -> Result<Option<u8>, String> {
        loop {
            match self.input.peek()? {
                Some(b' ' | b'\t' | b'\r' | b'\n') => drop(self.input.take()?),
                Some(b'#') => drop(self.rest_of_line()?),
                // No number begins here: values are read without this function's help.
                Some(b'-') => {
                    self.input.take()?;
                    if self.input.peek()? != Some(b'-') {
                        return Err("`-` is expected nowhere but in values and comments".into());
                    }
                    let comment = self.rest_of_line()?;
                    let says = |word: &str| comment.windows(word.len()).any(|part| part == word.as_bytes());
                    self.backslashes |= says("MySQL dump") || says("MariaDB dump") || says("Mnesia table");
                }
                Some(b'/') => {
                    self.input.take()?;
                    if self.input.take()? != b'*' {
                        return Err("`/` begins no statement".into());
                    }
                    // What MySQL runs in comments only prepares: SET and ALTER TABLE.
                    self.comment()?;
                }
                other => return Ok(other),
            }
        }
    }

    /// The rest of the line, as far as it is short.
    fn rest_of_line(&mut self) -> Result<Vec<u8>, String> {
        let mut line = Vec::new();
        while let Some(byte) = self.input.peek()? {
            self.input.take()?;
            if byte == b'\n' {
                break;
            }
            if line.len() < NAME_BYTES_MAX {
                line.push(byte);
            }
        }
        Ok(line)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        self.space()?;
        self.input.expect(wanted)
    }

    /// A bare word, in upper case; empty if there is none.
    fn word(&mut self) -> Result<String, String> {
        self.space()?;
        let mut word = String::new();
        while let Some(byte @ (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$')) = self.input.peek()? {
            if word.len() == NAME_BYTES_MAX {
                return Err("a name is too long".into());
            }
            word.push(char::from(byte.to_ascii_uppercase()));
            self.input.take()?;
        }
        Ok(word)
    }

    /// A name, quoted or not, in lower case.
    fn name(&mut self) -> Result<String, String> {
        let quote = match self.space()? {
            Some(quote @ (b'"' | b'`')) => quote,
            _ => {
                let word = self.word()?;
                return if word.is_empty() { Err("a name is expected".into()) } else { Ok(word.to_ascii_lowercase()) };
            }
        };
        self.backslashes |= quote == b'`';
        self.input.take()?;
        let mut name = Vec::new();
        loop {
            match self.input.take()? {
                byte if byte == quote => break,
                _ if name.len() == NAME_BYTES_MAX => return Err("a name is too long".into()),
                byte => name.push(byte.to_ascii_lowercase()),
            }
        }
        String::from_utf8(name).map_err(|_| "a name is not UTF-8".into())
    }

    /// The name of a table, without that of its schema.
    fn table_name(&mut self) -> Result<String, String> {
        let mut name = self.name()?;
        while self.space()? == Some(b'.') {
            self.input.take()?;
            name = self.name()?;
        }
        Ok(name)
    }

    /// Reads a statement up to its rows, or passes over it; false at the end.
    fn statement(&mut self) -> Result<bool, String> {
        match self.space()? {
            None => return Ok(false),
            // Commands of `psql`.
            Some(b'\\') => {
                self.rest_of_line()?;
                return Ok(true);
            }
            Some(_) => {}
        }
        match &*self.word()? {
            "INSERT" | "REPLACE" => self.insert()?,
            "COPY" => self.copy()?,
            "CREATE" => self.create()?,
            _ => self.pass()?,
        }
        Ok(true)
    }

    /// Takes a quoted text, a comment or a byte of a statement that is passed over; its first byte,
    /// or a space for a comment. `None` at the end.
    fn token(&mut self) -> Result<Option<u8>, String> {
        let Some(first) = self.input.peek()? else { return Ok(None) };
        match first {
            b'$' => {
                self.function_body()?;
                return Ok(Some(b' '));
            }
            _ => drop(self.input.take()?),
        }
        match (first, self.input.peek()?) {
            (b'\'' | b'"' | b'`', _) => {
                self.text(first, self.backslashes && first == b'\'', &mut Growing::new())?;
            }
            (b'-', Some(b'-')) => {
                self.rest_of_line()?;
                return Ok(Some(b' '));
            }
            (b'/', Some(b'*')) => {
                self.comment()?;
                return Ok(Some(b' '));
            }
            _ => {}
        }
        Ok(Some(first))
    }

    /// Takes the body of a function: `$$ ... $$` or `$tag$ ... $tag$`.
    fn function_body(&mut self) -> Result<(), String> {
        let mut tag = VecDeque::from([self.input.take()?]);
        while let Some(byte @ (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_')) = self.input.peek()? {
            if tag.len() == NAME_BYTES_MAX {
                return Err("a name is too long".into());
            }
            self.input.take()?;
            tag.push_back(byte);
        }
        if self.input.peek()? != Some(b'$') {
            // A parameter.
            return Ok(());
        }
        tag.push_back(self.input.take()?);
        let mut last = VecDeque::new();
        while last != tag {
            if last.len() == tag.len() {
                last.pop_front();
            }
            last.push_back(self.input.take()?);
        }
        Ok(())
    }

    /// Takes the rest of a comment, whose first byte was taken.
    fn comment(&mut self) -> Result<(), String> {
        let mut last = 0;
        loop {
            let byte = self.input.take()?;
            if (last, byte) == (b'*', b'/') {
                return Ok(());
            }
            last = byte;
        }
    }

    /// Passes over the rest of a statement.
    fn pass(&mut self) -> Result<(), String> {
        while !matches!(self.token()?, None | Some(b';')) {}
        Ok(())
    }

    /// Columns in parentheses, if there are any; else those of the table's `CREATE TABLE`. `None` if
    /// they are unknown and not needed.
    fn columns(&mut self, name: &str) -> Result<Option<Rc<Table>>, String> {
        if self.space()? != Some(b'(') {
            return match self.tables.get(name) {
                None if (self.needed)(name) => {
                    Err(format!("the columns of {name} are unknown: dump the schema, too, or `--complete-insert`"))
                }
                known => Ok(known.cloned()),
            };
        }
        self.input.take()?;
        let mut columns = Vec::new();
        loop {
            columns.push(self.name()?);
            self.space()?;
            match self.input.take()? {
                b',' if columns.len() < COLUMNS_MAX => {}
                b')' => return Ok(Some(Rc::new(Table { name: name.to_owned(), columns }))),
                _ => return Err(format!("the columns of {name} are not a list of at most {COLUMNS_MAX} names")),
            }
        }
    }

    fn insert(&mut self) -> Result<(), String> {
        while self.word()? != "INTO" {
            if self.space()?.is_none_or(|byte| !byte.is_ascii_alphabetic()) {
                return Err("INSERT without INTO".into());
            }
        }
        let name = self.table_name()?;
        let Some(table) = self.columns(&name)? else {
            self.pass()?;
            self.within = Within::Passed(Rc::new(Table { name, columns: Vec::new() }));
            return Ok(());
        };
        match &*self.word()? {
            "VALUES" => self.within = Within::Values(table),
            // `INSERT INTO x SELECT ...` holds no data.
            _ => self.pass()?,
        }
        Ok(())
    }

    fn copy(&mut self) -> Result<(), String> {
        let name = self.table_name()?;
        let unknown = || format!("the columns of {name} are unknown: dump the schema, too");
        let table = self.columns(&name)?.ok_or_else(unknown)?;
        if (&*self.word()?, &*self.word()?) != ("FROM", "STDIN") {
            return self.pass();
        }
        self.pass()?;
        self.rest_of_line()?;
        self.within = Within::Lines(table);
        Ok(())
    }

    /// Keeps the columns of a new table.
    fn create(&mut self) -> Result<(), String> {
        let mut word = self.word()?;
        while matches!(&*word, "TEMPORARY" | "TEMP" | "UNLOGGED") {
            word = self.word()?;
        }
        if word != "TABLE" {
            return self.pass();
        }
        let mut name = self.table_name()?;
        if name == "if" {
            // NOT EXISTS
            self.word()?;
            self.word()?;
            name = self.table_name()?;
        }
        if self.space()? != Some(b'(') {
            return self.pass();
        }
        self.input.take()?;
        let mut columns = Vec::new();
        loop {
            let is_quoted = matches!(self.space()?, Some(b'"' | b'`'));
            let column = self.name()?;
            const OTHERS: [&str; 10] = [
                "primary",
                "key",
                "unique",
                "constraint",
                "index",
                "foreign",
                "check",
                "fulltext",
                "spatial",
                "exclude",
            ];
            if is_quoted || !OTHERS.contains(&&*column) {
                if columns.len() == COLUMNS_MAX {
                    return Err(format!("{name} has more than {COLUMNS_MAX} columns"));
                }
                columns.push(column);
            }
            // The rest of the column.
            let mut depth = 0_usize;
            let ends = loop {
                match self.token()?.ok_or_else(|| self.input.ends_within())? {
                    b'(' => depth += 1,
                    b')' if depth == 0 => break true,
                    b')' => depth -= 1,
                    b',' if depth == 0 => break false,
                    _ => {}
                }
            };
            if ends {
                break;
            }
        }
        if self.tables.len() == TABLES_MAX {
            return Err(format!("the dump has more than {TABLES_MAX} tables"));
        }
        self.tables.insert(name.clone(), Rc::new(Table { name, columns }));
        self.pass()
    }

    /// Reads a row in parentheses, and what follows it.
    fn tuple(&mut self, table: &Rc<Table>) -> Result<Row, String> {
        self.expect(b'(')?;
        let mut row = Growing::new();
        loop {
            row.begin();
            self.value(&mut row, 0)?;
            self.space()?;
            match self.input.take()? {
                b',' => {}
                b')' => break,
                other => return Err(format!("`,` or `)` is expected behind a value, not `{}`", other.escape_ascii())),
            }
        }
        match self.space()? {
            Some(b',') => drop(self.input.take()?),
            // `ON CONFLICT` or the end.
            _ => {
                self.pass()?;
                self.within = Within::Statement;
            }
        }
        if row.fits && row.values.len() != table.columns.len() {
            let (has, wanted) = (row.values.len(), table.columns.len());
            return Err(format!("a row of {} has {has} values for {wanted} columns", table.name));
        }
        Ok(row.row(table))
    }

    /// Appends a value within so many functions.
    fn value(&mut self, row: &mut Growing, calls: usize) -> Result<(), String> {
        loop {
            match self.input.peek()?.ok_or_else(|| self.input.ends_within())? {
                b' ' | b'\t' | b'\r' | b'\n' => drop(self.input.take()?),
                b'\'' => {
                    self.input.take()?;
                    return self.text(b'\'', self.backslashes, row);
                }
                b'0'..=b'9' | b'-' | b'+' | b'.' => return self.number(row),
                _ => break,
            }
        }
        let word = self.word()?;
        let quoted = self.input.peek()? == Some(b'\'');
        match (&*word, quoted) {
            ("E", true) => {
                self.input.take()?;
                self.text(b'\'', true, row)
            }
            ("X", true) => {
                self.input.take()?;
                self.hex(row)?;
                if self.input.take()? == b'\'' { Ok(()) } else { Err(NOT_HEX.into()) }
            }
            ("N" | "B", true) => {
                self.input.take()?;
                self.text(b'\'', self.backslashes, row)
            }
            // `_binary '...'`.
            (introducer, _) if introducer.starts_with('_') => {
                self.expect(b'\'')?;
                self.text(b'\'', self.backslashes, row)
            }
            ("NULL" | "DEFAULT", false) => Ok(()),
            ("TRUE" | "FALSE", false) => {
                word.bytes().for_each(|byte| row.push(byte.to_ascii_lowercase()));
                Ok(())
            }
            ("REPLACE" | "CHAR" | "UNISTR", false) if calls < CALLS_MAX => {
                self.expect(b'(')?;
                match &*word {
                    "REPLACE" => self.replaced(row, calls + 1)?,
                    "CHAR" => self.character(row, calls + 1)?,
                    _ => self.unescaped(row, calls + 1)?,
                }
                self.expect(b')')
            }
            _ => Err(format!("`{word}` is no value: only data is read")),
        }
    }

    /// A value of a function.
    fn argument(&mut self, row: &mut Growing, calls: usize) -> Result<Vec<u8>, String> {
        let mut argument = Growing::new();
        argument.begin();
        self.value(&mut argument, calls)?;
        row.fits &= argument.fits;
        Ok(argument.values.pop().unwrap_or_default())
    }

    /// `replace(text, from, to)`, by which SQLite writes line breaks.
    fn replaced(&mut self, row: &mut Growing, calls: usize) -> Result<(), String> {
        let text = self.argument(row, calls)?;
        self.expect(b',')?;
        let from = self.argument(row, calls)?;
        self.expect(b',')?;
        let to = self.argument(row, calls)?;
        let mut rest = &text[..];
        while let Some((byte, behind)) = rest.split_first().filter(|_| row.fits) {
            match rest.strip_prefix(&from[..]) {
                Some(behind) if !from.is_empty() => {
                    rest = behind;
                    row.extend(&to);
                }
                _ => {
                    rest = behind;
                    row.push(*byte);
                }
            }
        }
        Ok(())
    }

    /// `char(code)`.
    fn character(&mut self, row: &mut Growing, calls: usize) -> Result<(), String> {
        let code = self.argument(row, calls)?;
        let code = std::str::from_utf8(&code).ok().and_then(|code| code.parse().ok()).and_then(char::from_u32);
        let code = code.ok_or("char() is given no character")?;
        row.extend(code.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// `unistr(text)`, with escapes `\XXXX`, `\uXXXX`, `\+XXXXXX`, `\UXXXXXXXX` and `\\`.
    fn unescaped(&mut self, row: &mut Growing, calls: usize) -> Result<(), String> {
        let text = self.argument(row, calls)?;
        let mut rest = &text[..];
        while let Some((byte, behind)) = rest.split_first() {
            rest = behind;
            if *byte != b'\\' {
                row.push(*byte);
                continue;
            }
            let (skipped, digits) = match rest.first() {
                Some(b'\\') => {
                    rest = &rest[1..];
                    row.push(b'\\');
                    continue;
                }
                Some(b'u') => (1, 4),
                Some(b'+') => (1, 6),
                Some(b'U') => (1, 8),
                _ => (0, 4),
            };
            let code = rest.get(skipped..skipped + digits).and_then(|digits| std::str::from_utf8(digits).ok());
            let code = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
            let code = code.ok_or("unistr() is given no character")?;
            row.extend(code.encode_utf8(&mut [0; 4]).as_bytes());
            rest = &rest[skipped + digits..];
        }
        Ok(())
    }

    fn number(&mut self, row: &mut Growing) -> Result<(), String> {
        let mut is_first = true;
        while let Some(byte @ (b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'+' | b'.')) = self.input.peek()? {
            self.input.take()?;
            if std::mem::take(&mut is_first) && byte == b'0' && self.input.peek()? == Some(b'x') {
                self.input.take()?;
                return self.hex(row);
            }
            row.push(byte);
        }
        Ok(())
    }

    /// Reads bytes in hexadecimal up to another character.
    fn hex(&mut self, row: &mut Growing) -> Result<(), String> {
        let mut high = None;
        while let Some(digit) = self.input.peek()?.and_then(|byte| char::from(byte).to_digit(16)) {
            self.input.take()?;
            match high.take() {
                None => high = Some(digit as u8),
                Some(high) => row.push(high << 4 | digit as u8),
            }
        }
        if high.is_none() { Ok(()) } else { Err(NOT_HEX.into()) }
    }

    /// Reads a text, whose quote was read.
    fn text(&mut self, quote: u8, backslashes: bool, row: &mut Growing) -> Result<(), String> {
        loop {
            match self.input.take()? {
                byte if byte == quote => match self.input.peek()? {
                    Some(again) if again == quote => {
                        self.input.take()?;
                        row.push(quote);
                    }
                    _ => return Ok(()),
                },
                b'\\' if backslashes => match self.input.take()? {
                    b'0' => row.push(0),
                    b'b' => row.push(8),
                    b'n' => row.push(b'\n'),
                    b'r' => row.push(b'\r'),
                    b't' => row.push(b'\t'),
                    b'Z' => row.push(26),
                    byte @ (b'%' | b'_') => {
                        row.push(b'\\');
                        row.push(byte);
                    }
                    byte => row.push(byte),
                },
                byte => row.push(byte),
            }
        }
    }

    /// Reads a line of a `COPY`; `None` at its end.
    fn copied(&mut self, table: &Rc<Table>) -> Result<Option<Row>, String> {
        let mut row = Growing::new();
        row.begin();
        // `\.` and `\N` are whole values.
        let mut is_empty = true;
        loop {
            self.input.peek()?.ok_or("the file ends within a COPY: it is truncated")?;
            match self.input.take()? {
                b'\n' => break,
                b'\t' => {
                    row.begin();
                    is_empty = true;
                    continue;
                }
                b'\\' => match self.input.take()? {
                    b'.' if is_empty && row.values.len() == 1 => {
                        self.rest_of_line()?;
                        self.within = Within::Statement;
                        return Ok(None);
                    }
                    b'N' if is_empty => {}
                    b'b' => row.push(8),
                    b'f' => row.push(12),
                    b'n' => row.push(b'\n'),
                    b'r' => row.push(b'\r'),
                    b't' => row.push(b'\t'),
                    b'v' => row.push(11),
                    byte => row.push(byte),
                },
                byte => row.push(byte),
            }
            is_empty = false;
        }
        if row.fits && row.values.len() != table.columns.len() {
            let (has, wanted) = (row.values.len(), table.columns.len());
            return Err(format!("a line of {} has {has} values for {wanted} columns", table.name));
        }
        Ok(Some(row.row(table)))
    }
}

const NOT_HEX: &str = "a byte is not hexadecimal";

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<(String, String)>, String> {
        let (mut dump, mut all) = (Dump::new(text.as_bytes(), |name| name != "sqlite_sequence"), Vec::new());
        while let Some(row) = dump.read_row()? {
            let values = row.values.iter().flatten().map(|value| String::from_utf8_lossy(value).into_owned());
            all.push((row.table.name.clone(), values.collect::<Vec<_>>().join("|")));
        }
        assert_eq!(dump.bytes(), text.len() as u64);
        Ok(all)
    }

    #[test]
    fn rows_of_all_programs_are_read() {
        for (text, wanted) in [
            ("INSERT INTO a(b, c) VALUES ('x''y\\', -1.5);", vec!["a x'y\\|-1.5"]),
            (
                "-- MySQL dump 10.19\n/*!40101 SET x='y' */;\nCREATE TABLE `a` (\n `b` varchar(250) DEFAULT ')',\n \
                 `key` text,\n PRIMARY KEY (`b`),\n KEY `i` (`b`(75))\n) ENGINE=InnoDB COMMENT='it''s; \\';';\nINSERT INTO `a` \
                 VALUES ('x\\'\\n\\\\\\%',_binary 'y'),('é;--',NULL),(0x6162,X'63');\n",
                vec!["a x'\n\\\\%|y", "a é;--|", "a ab|c"],
            ),
            (
                "\\restrict abc\nSET x = 'a;b';\nCREATE FUNCTION f() AS $$ it's; $$;\nCOPY public.a (b, \"c\") FROM stdin;\n\
                 x\\ty\\\\\t\\N\n\\N\tz\\n\n\\.\n\nCOPY b (c) FROM stdin;\n\\.\n",
                vec!["a x\ty\\|", "a |z\n"],
            ),
            (
                "REPLACE INTO a (b) VALUES (E'\\n'), (true) ON CONFLICT DO NOTHING; delete from a where b='x;';",
                vec!["a \n", "a true"],
            ),
            (
                "PRAGMA x;CREATE TABLE IF NOT EXISTS \"s\".\"a\" (\"unique\" int DEFAULT -1, -- x)\n c int CHECK (c IN (1,2)), UNIQUE(c));\
                 INSERT INTO a VALUES(1,2)",
                vec!["a 1|2"],
            ),
            // What sqlite3 writes of its own tables and of line breaks: up to 3.49, and later.
            (
                "DELETE FROM sqlite_sequence;\nINSERT INTO sqlite_sequence VALUES('spool','x;');\nCREATE TABLE a(b);\n\
                 INSERT INTO a VALUES(replace(replace('x\\r\\ny','\\r',char(13)),'\\n',char(10)));\n\
                 INSERT INTO a VALUES(unistr('x\\u000ay\\\\\\000a\\U0001f600\\+00e9ff'));INSERT INTO a VALUES(replace('','',''));",
                vec!["sqlite_sequence ", "a x\r\ny", "a x\ny\\\n\u{1f600}\u{e9ff}", "a "],
            ),
            (
                "CREATE FUNCTION f() AS $$return \"don't\"$$; CREATE FUNCTION g() AS $b$it's $$ $$ $B$;$b$; \
                 PREPARE x AS SELECT $1; INSERT INTO a(b) VALUES (1);",
                vec!["a 1"],
            ),
        ] {
            let found = rows(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
            let found: Vec<_> = found.iter().map(|(table, values)| format!("{table} {values}")).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }

    /// A device that fails is no truncated file.
    #[test]
    fn an_error_of_the_system_is_reported_as_it_is() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("the disk fails"))
            }
        }
        let from = "COPY a (b) FROM stdin;\nx".as_bytes().chain(Failing);
        let wrong = Dump::new(from, |_| true).read_row().map(drop).expect_err("it fails");
        assert_eq!(wrong, "the disk fails");
    }

    #[test]
    fn hostile_dumps_end_in_words_and_large_rows_are_left_out() {
        for (text, why) in [
            ("INSERT INTO a VALUES (1);", "columns of a are unknown"),
            ("INSERT INTO a(b) VALUES (1, 2);", "2 values for 1 columns"),
            ("INSERT INTO a(b) VALUES (load_file('x'));", "no value"),
            ("INSERT INTO a(b) VALUES ('x", "ends within"),
            ("INSERT INTO a(b) VALUES (0x1);", "hexadecimal"),
            ("INSERT INTO a(b) VALUES (1 + 1);", "`,` or `)`"),
            ("COPY a (b) FROM stdin;\nx\n", "truncated"),
            ("COPY a (b) FROM stdin;\nx\ty\n\\.\n", "2 values for 1"),
            ("INSERT INTO a(b,) VALUES (1);", "a name is expected"),
            ("INSERT INTO a(b) VALUES (X'0g');", "hexadecimal"),
            ("INSERT INTO a(b) VALUES (char(55296));", "no character"),
            ("INSERT INTO a(b) VALUES (unistr('\\u00'));", "no character"),
            (
                "INSERT INTO a(b) VALUES (replace(replace(replace(replace(replace('','',''),'',''),'',''),'',''),'',''));",
                "`REPLACE` is no value",
            ),
            ("/* x", "ends within"),
            ("CREATE TABLE a (b int", "ends within"),
        ] {
            let wrong = rows(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
        let large = format!("INSERT INTO a(b) VALUES ('{}'), ('y');", "x".repeat(ROW_BYTES_MAX + 1));
        let mut dump = Dump::new(large.as_bytes(), |_| true);
        assert!(dump.read_row().expect("read").expect("a row").values.is_none());
        assert_eq!(dump.read_row().expect("read").expect("a row").get("b"), Some(&b"y"[..]));
        // Hexadecimal digits count as the bytes that they are, and none is cut off silently.
        let (count, digits) = (ROW_BYTES_MAX / 2 + 1, "61".repeat(ROW_BYTES_MAX / 2 + 1));
        for value in [format!("X'{digits}'"), format!("0x{digits}")] {
            let text = format!("INSERT INTO a(b) VALUES ({value});");
            let row = Dump::new(text.as_bytes(), |_| true).read_row().expect("read").expect("a row");
            assert_eq!(row.get("b").map(<[u8]>::len), Some(count));
        }
        // A replacement that would grow without bound.
        let grows = format!("INSERT INTO a(b) VALUES (replace('{0}','x','{0}'));", "x".repeat(1 << 20));
        assert!(Dump::new(grows.as_bytes(), |_| true).read_row().expect("read").expect("a row").values.is_none());
        let wide = format!("INSERT INTO a({}) VALUES (1);", vec!["b"; COLUMNS_MAX + 1].join(","));
        assert!(rows(&wide).expect_err("too wide").contains("at most 256"));
    }
}
