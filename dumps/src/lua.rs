//! Reads the data files of Prosody: one table constructor of Lua, `return { ... };`, or a list of
//! them, `item({ ... });`.
//!
//! Nothing is evaluated: of Lua there are tables, strings, numbers, `true`, `false` and `nil`. Depth,
//! bytes and values are bounded, so a hostile file costs a bounded amount of memory.

use std::io::Read;

use crate::input::Input;

/// Most open tables. Prosody writes at most 127.
pub const DEPTH_MAX: usize = 136;

/// Most bytes of a file with one table.
pub const WHOLE_BYTES_MAX: usize = 16 << 20;

/// Most bytes of an item of a list.
pub const ITEM_BYTES_MAX: usize = 4 << 20;

/// Most values and keys of a table with all its tables.
pub const VALUES_MAX: usize = 400_000;

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `nil`.
    Nil,
    /// `true` or `false`.
    Bool(bool),
    /// A number; also infinities and NaN.
    Number(f64),
    /// A string of bytes.
    Text(Vec<u8>),
    /// A table.
    Table(Table),
}

/// The key of a named value.
#[derive(Clone, PartialEq, Debug)]
pub enum Key {
    /// A string.
    Text(Vec<u8>),
    /// A number that does not continue the list.
    Number(f64),
    /// `true` or `false`.
    Bool(bool),
}

/// A table: the values at 1, 2, 3 and so on, and the others in the order of the file.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Table {
    /// The values at 1, 2, 3 ...
    pub list: Vec<Value>,
    /// The others.
    pub named: Vec<(Key, Value)>,
}

impl Table {
    /// The value with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let is = |key: &Key| matches!(key, Key::Text(text) if text == name.as_bytes());
        self.named.iter().find(|(key, _)| is(key)).map(|(_, value)| value)
    }

    /// The text with this name, if it is UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_text()
    }

    /// The table with this name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.get(name)?.as_table()
    }

    /// The number with this name.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether the value with this name is `true`; `None` if there is none.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The named values whose names are texts in UTF-8.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.named.iter().filter_map(|(key, value)| match key {
            Key::Text(text) => Some((std::str::from_utf8(text).ok()?, value)),
            _ => None,
        })
    }
}

impl Value {
    /// The text, if it is one in UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The table, if it is one.
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
}

/// Reads one file.
pub struct Reader<R> {
    input: Input<R>,
    /// What the current table may still take.
    values_left: usize,
}

impl<R: Read> Reader<R> {
    /// Begins a file.
    pub fn new(from: R) -> Reader<R> {
        Reader { input: Input::new(from, "a table"), values_left: 0 }
    }

    /// The current line, counted from 1.
    pub fn line(&self) -> u64 {
        self.input.line()
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.input.bytes()
    }

    /// Whether an error was the system's, not one of the file.
    pub fn has_failed(&self) -> bool {
        self.input.has_failed()
    }

    /// Reads a file with one table: `return { ... };`.
    ///
    /// # Errors
    /// It is anything else, or exceeds a limit.
    pub fn whole(&mut self) -> Result<Table, String> {
        self.begin(WHOLE_BYTES_MAX);
        if self.word()? != b"return" {
            return Err("it does not begin with `return`".into());
        }
        let table = self.table()?;
        if self.space()? == Some(b';') {
            self.input.take()?;
        }
        match self.space()? {
            None => Ok(table),
            Some(_) => Err("something follows the table".into()),
        }
    }

    /// Reads the next table of a list: `item({ ... });`; `None` at the end.
    ///
    /// # Errors
    /// It is anything else, or exceeds a limit. The rest of the file is lost.
    pub fn item(&mut self) -> Result<Option<Table>, String> {
        self.begin(ITEM_BYTES_MAX);
        if self.space()?.is_none() {
            return Ok(None);
        }
        if self.word()? != b"item" {
            return Err("an entry does not begin with `item`".into());
        }
        self.expect(b'(')?;
        let table = self.table()?;
        self.expect(b')')?;
        if self.space()? == Some(b';') {
            self.input.take()?;
        }
        Ok(Some(table))
    }

    fn begin(&mut self, bytes: usize) {
        self.input.allow(bytes);
        self.values_left = VALUES_MAX;
    }

    /// Skips white space; the byte behind it.
    fn space(&mut self) -> Result<Option<u8>, String> {
        loop {
            match self.input.peek()? {
                Some(b' ' | b'\t' | b'\r' | b'\n') => drop(self.input.take()?),
                other => return Ok(other),
            }
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        self.space()?;
        self.input.expect(wanted)
    }

    fn word(&mut self) -> Result<Vec<u8>, String> {
        self.space()?;
        let mut word = Vec::new();
        while let Some(byte @ (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_')) = self.input.peek()? {
            word.push(byte);
            self.input.take()?;
        }
        Ok(word)
    }

    fn table(&mut self) -> Result<Table, String> {
        self.expect(b'{')?;
        self.inside(1)
    }

    /// The rest of a table, whose brace was read.
    fn inside(&mut self, depth: usize) -> Result<Table, String> {
        if depth > DEPTH_MAX {
            return Err(format!("tables are nested more than {DEPTH_MAX} deep"));
        }
        let mut table = Table::default();
        loop {
            let next = self.space()?.ok_or_else(|| self.input.ends_within())?;
            match next {
                b'}' => {
                    self.input.take()?;
                    return Ok(in_order(table));
                }
                b'[' => {
                    self.input.take()?;
                    let key = match self.value(depth)? {
                        Value::Text(text) => Key::Text(text),
                        Value::Number(number) if !number.is_nan() => Key::Number(number),
                        Value::Bool(flag) => Key::Bool(flag),
                        _ => return Err("a key is no text and no number".into()),
                    };
                    self.expect(b']')?;
                    self.expect(b'=')?;
                    let value = self.value(depth)?;
                    table.named.push((key, value));
                }
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                    let word = self.word()?;
                    match self.space()? {
                        Some(b'=') => {
                            self.input.take()?;
                            let value = self.value(depth)?;
                            table.named.push((Key::Text(word), value));
                        }
                        _ => table.list.push(named(&word)?),
                    }
                    self.count()?;
                }
                _ => {
                    let value = self.value(depth)?;
                    table.list.push(value);
                }
            }
            match self.space()? {
                Some(b';' | b',') => drop(self.input.take()?),
                Some(b'}') => {}
                _ => return Err("`;` or `}` is expected behind a value".into()),
            }
        }
    }

    fn count(&mut self) -> Result<(), String> {
        self.values_left = self.values_left.checked_sub(1).ok_or("a table has too many values")?;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        self.count()?;
        match self.space()?.ok_or_else(|| self.input.ends_within())? {
            b'{' => {
                self.input.take()?;
                Ok(Value::Table(self.inside(depth + 1)?))
            }
            quote @ (b'"' | b'\'') => {
                self.input.take()?;
                Ok(Value::Text(self.string(quote)?))
            }
            b'0'..=b'9' | b'-' | b'.' => self.number(),
            // How Prosody writes infinities and NaN.
            b'(' => {
                let mut inside = Vec::new();
                loop {
                    inside.push(self.input.take()?);
                    match &inside[..] {
                        b"(1/0)" => return Ok(Value::Number(f64::INFINITY)),
                        b"(-1/0)" => return Ok(Value::Number(f64::NEG_INFINITY)),
                        b"(0/0)" => return Ok(Value::Number(f64::NAN)),
                        all if all.len() > 5 => return Err("an expression is no value".into()),
                        _ => {}
                    }
                }
            }
            _ => {
                let word = self.word()?;
                named(&word)
            }
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let mut text = String::new();
        while let Some(byte) = self.input.peek()? {
            let after_e = matches!(text.as_bytes().last(), Some(b'e' | b'E'));
            match byte {
                b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' => {}
                b'-' if text.is_empty() || after_e => {}
                b'+' if after_e => {}
                _ => break,
            }
            if text.len() == 64 {
                return Err("a number is too long".into());
            }
            text.push(char::from(self.input.take()?));
        }
        let digits = text.bytes().all(|byte| !byte.is_ascii_alphabetic() || matches!(byte, b'e' | b'E'));
        let number = text.parse().ok().filter(|_| digits);
        number.map(Value::Number).ok_or_else(|| format!("`{text}` is no number"))
    }

    fn string(&mut self, quote: u8) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        loop {
            match self.input.take()? {
                byte if byte == quote => return Ok(text),
                b'\n' => return Err("a string has no end on its line".into()),
                b'\\' => self.escape(&mut text)?,
                byte => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        text.push(match self.input.take()? {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' | b'\n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            byte @ (b'\\' | b'"' | b'\'') => byte,
            b'x' => {
                let digits = [self.input.take()?, self.input.take()?];
                let digits = std::str::from_utf8(&digits).ok();
                digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or("`\\x` needs two digits")?
            }
            first @ b'0'..=b'9' => {
                let mut code = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'9') = self.input.peek()? else { break };
                    self.input.take()?;
                    code = code * 10 + u32::from(digit - b'0');
                }
                u8::try_from(code).map_err(|_| format!("`\\{code}` is no byte"))?
            }
            other => return Err(format!("`\\{}` is no escape that Prosody writes", other.escape_ascii())),
        });
        Ok(())
    }
}

fn named(word: &[u8]) -> Result<Value, String> {
    match word {
        b"true" => Ok(Value::Bool(true)),
        b"false" => Ok(Value::Bool(false)),
        b"nil" => Ok(Value::Nil),
        _ => Err(format!("`{}` is no value: only data is read, nothing is evaluated", word.escape_ascii())),
    }
}

/// Moves values with numbers for keys to the list, as far as they continue it.
fn in_order(mut table: Table) -> Table {
    let is_next = |key: &Key| matches!(key, Key::Number(number) if *number >= 1.0);
    if !table.named.iter().any(|(key, _)| is_next(key)) {
        return table;
    }
    let (mut numbered, named): (Vec<_>, Vec<_>) = table.named.into_iter().partition(|(key, _)| is_next(key));
    table.named = named;
    let order = |key: &Key| if let Key::Number(number) = key { *number } else { 0.0 };
    numbered.sort_by(|(one, _), (other, _)| order(one).total_cmp(&order(other)));
    for (key, value) in numbered {
        match order(&key) == (table.list.len() + 1) as f64 {
            true => table.list.push(value),
            false => table.named.push((key, value)),
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<Table, String> {
        Reader::new(text.as_bytes()).whole()
    }

    #[test]
    fn what_prosody_writes_is_read() {
        let table = whole(
            "return {\n\t[false] = {\n\t\t[\"version\"] = 6;\n\t};\n\t[\"a\\\"b\"] = \"R\\195\\179meo\\n\";\n\t\"one\";\n\
             \t[3] = true; [2] = (-1/0);\n\tplain = -1.5e+3, [9] = nil;\n};\n",
        )
        .expect("a table");
        assert_eq!(table.list, [Value::Text(b"one".into()), Value::Number(f64::NEG_INFINITY), Value::Bool(true)]);
        assert_eq!(table.text("a\"b"), Some("R\u{f3}meo\n"));
        assert_eq!(table.number("plain"), Some(-1500.0));
        assert_eq!((&table.named[0].0, &table.named[3]), (&Key::Bool(false), &(Key::Number(9.0), Value::Nil)));
        let mut list = Reader::new(&b"item({ \"x\"; [\"when\"] = 5; });\nitem({});\n"[..]);
        assert_eq!(list.item().expect("read").and_then(|item| item.number("when")), Some(5.0));
        assert_eq!((list.item(), list.item(), list.line()), (Ok(Some(Table::default())), Ok(None), 3));
    }

    #[test]
    fn nothing_is_evaluated_and_everything_is_bounded() {
        for (text, why) in [
            ("return os.execute('rm')", "`{` is expected"),
            ("return { x = os.exit }", "is no value"),
            ("return { [\"x\"] = function() end }", "is no value"),
            ("return { \"x\" .. \"y\" }", "`;` or `}`"),
            ("return { (1/1/1) }", "no value"),
            ("return { 0x10 }", "no number"),
            ("return { \"\\400\" }", "no byte"),
            ("return { \"a\nb\" }", "no end on its line"),
            ("return { [{}] = 1 }", "a key"),
            ("return { 1", "`;` or `}`"),
            ("return {", "ends within"),
            ("return {} {}", "something follows"),
            ("item({})", "`return`"),
        ] {
            let wrong = whole(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
        let deep = format!("return {}{}", "{".repeat(DEPTH_MAX + 1), "}".repeat(DEPTH_MAX + 1));
        assert!(whole(&deep).expect_err("too deep").contains("nested"));
        assert!(whole(&format!("return {}{}", "{".repeat(DEPTH_MAX), "}".repeat(DEPTH_MAX))).is_ok());
        let many = format!("return {{{}}}", "1;".repeat(VALUES_MAX + 1));
        assert!(whole(&many).expect_err("too many").contains("too many values"));
        let endless = [&b"item({\""[..], &vec![b'x'; ITEM_BYTES_MAX]].concat();
        assert!(Reader::new(&endless[..]).item().expect_err("too large").contains("too large"));
    }
}
