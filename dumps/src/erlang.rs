//! Reads terms of Erlang as text, each with a period behind it: what `ejabberdctl dump` writes, and
//! what ejabberd keeps in columns of its database.
//!
//! Nothing is evaluated. Depth, bytes and values of a term are bounded.

use std::io::Read;

use crate::input::Input;

/// Most open lists, tuples and maps. An element of XML takes three.
pub const DEPTH_MAX: usize = 256;

/// Most bytes of a term.
pub const TERM_BYTES_MAX: usize = 32 << 20;

/// Most values of a term with all its terms.
pub const VALUES_MAX: usize = 500_000;

/// A term.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// An atom.
    Atom(String),
    /// An integer of 128 bits or less, or a float, as text.
    Number(String),
    /// A binary, or a string.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Term>),
    /// A tuple.
    Tuple(Vec<Term>),
    /// A map.
    Map(Vec<(Term, Term)>),
    /// A process, a function or a reference: nothing that can be moved.
    Other,
}

impl Term {
    /// The elements of a tuple; none of anything else.
    pub fn tuple(&self) -> &[Term] {
        match self {
            Term::Tuple(all) => all,
            _ => &[],
        }
    }

    /// The elements of a list; none of anything else.
    pub fn list(&self) -> &[Term] {
        match self {
            Term::List(all) => all,
            _ => &[],
        }
    }

    /// The name of an atom; empty for anything else.
    pub fn atom(&self) -> &str {
        match self {
            Term::Atom(name) => name,
            _ => "",
        }
    }

    /// The bytes of a binary, a string, or a list of bytes; of an atom or a number its text.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Term::Bytes(bytes) => Some(bytes.clone()),
            Term::Atom(text) | Term::Number(text) => Some(text.clone().into_bytes()),
            Term::List(all) => all
                .iter()
                .map(|byte| match byte {
                    Term::Number(number) => number.parse().ok(),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }

    /// The same as text; `None` if it is not UTF-8.
    pub fn text(&self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }
}

/// Reads one file.
pub struct Reader<R> {
    input: Input<R>,
    values_left: usize,
    /// Whether the period behind the term was taken with a number.
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Begins a file.
    pub fn new(from: R) -> Reader<R> {
        Reader { input: Input::new(from, "a term"), values_left: 0, ended: false }
    }

    /// The current line, counted from 1.
    pub fn line(&self) -> u64 {
        self.input.line()
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.input.bytes()
    }

    /// The next term with its period; `None` at the end. The last one may lack the period.
    ///
    /// # Errors
    /// It is anything else, or exceeds a limit. The rest of the file is lost.
    pub fn read_term(&mut self) -> Result<Option<Term>, String> {
        self.input.allow(TERM_BYTES_MAX);
        self.values_left = VALUES_MAX;
        if self.space()?.is_none() {
            return Ok(None);
        }
        let term = self.term(0)?;
        if std::mem::take(&mut self.ended) {
            return Ok(Some(term));
        }
        match self.space()? {
            None => {}
            Some(b'.') => drop(self.input.take()?),
            Some(other) => return Err(format!("a period is expected behind a term, not `{}`", other.escape_ascii())),
        }
        Ok(Some(term))
    }

    /// Skips white space and comments; the byte behind them.
    fn space(&mut self) -> Result<Option<u8>, String> {
        loop {
            match self.input.peek()? {
                Some(b' ' | b'\t' | b'\r' | b'\n') => drop(self.input.take()?),
                Some(b'%') => {
                    while !matches!(self.input.peek()?, None | Some(b'\n')) {
                        self.input.take()?;
                    }
                }
                other => return Ok(other),
            }
        }
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        self.space()?;
        for byte in wanted.bytes() {
            let found = self.input.take()?;
            if found != byte {
                return Err(format!("`{wanted}` is expected, not `{}`", found.escape_ascii()));
            }
        }
        Ok(())
    }

    fn term(&mut self, depth: usize) -> Result<Term, String> {
        if depth > DEPTH_MAX {
            return Err(format!("terms are nested more than {DEPTH_MAX} deep"));
        }
        self.values_left = self.values_left.checked_sub(1).ok_or("a term has too many values")?;
        Ok(match self.space()?.ok_or_else(|| self.input.ends_within())? {
            b'{' => {
                self.input.take()?;
                Term::Tuple(self.terms(b'}', depth)?)
            }
            b'[' => {
                self.input.take()?;
                Term::List(self.terms(b']', depth)?)
            }
            b'"' => Term::Bytes(self.string()?),
            b'\'' => Term::Atom(String::from_utf8(self.quoted(b'\'')?).map_err(|_| "an atom is not UTF-8")?),
            b'<' => {
                self.input.take()?;
                match self.input.peek()? {
                    Some(b'<') => {
                        self.input.take()?;
                        Term::Bytes(self.binary()?)
                    }
                    // `<0.1.0>`, a process.
                    _ => self.other()?,
                }
            }
            b'#' => {
                self.input.take()?;
                match self.input.peek()? {
                    Some(b'{') => {
                        self.input.take()?;
                        Term::Map(self.map(depth)?)
                    }
                    // `#Fun<...>`, `#Ref<...>`, `#Port<...>`.
                    _ => {
                        self.word()?;
                        self.expect("<")?;
                        self.other()?
                    }
                }
            }
            b'-' | b'0'..=b'9' => Term::Number(self.number()?),
            b'a'..=b'z' => Term::Atom(self.word()?),
            other => return Err(format!("`{}` begins no term: only data is read", other.escape_ascii())),
        })
    }

    /// Terms up to a closing bracket, which is taken.
    fn terms(&mut self, end: u8, depth: usize) -> Result<Vec<Term>, String> {
        let mut all = Vec::new();
        if self.space()? == Some(end) {
            self.input.take()?;
            return Ok(all);
        }
        loop {
            all.push(self.term(depth + 1)?);
            self.space()?;
            match self.input.take()? {
                _ if self.ended => return Err("a period is within a term".into()),
                b',' => {}
                byte if byte == end => return Ok(all),
                other => return Err(format!("`,` is expected behind a term, not `{}`", other.escape_ascii())),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Term, Term)>, String> {
        let mut all = Vec::new();
        if self.space()? == Some(b'}') {
            self.input.take()?;
            return Ok(all);
        }
        loop {
            let key = self.term(depth + 1)?;
            self.expect("=>")?;
            all.push((key, self.term(depth + 1)?));
            self.space()?;
            match self.input.take()? {
                _ if self.ended => return Err("a period is within a term".into()),
                b',' => {}
                b'}' => return Ok(all),
                other => return Err(format!("`,` is expected behind a value, not `{}`", other.escape_ascii())),
            }
        }
    }

    /// The rest of something between angles.
    fn other(&mut self) -> Result<Term, String> {
        while self.input.take()? != b'>' {}
        Ok(Term::Other)
    }

    fn word(&mut self) -> Result<String, String> {
        let mut word = String::new();
        while let Some(byte @ (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'@')) = self.input.peek()? {
            word.push(char::from(byte));
            self.input.take()?;
        }
        Ok(word)
    }

    fn number(&mut self) -> Result<String, String> {
        let mut text = String::new();
        loop {
            let after_e = matches!(text.as_bytes().last(), Some(b'e' | b'E'));
            let after_digit = text.as_bytes().last().is_some_and(u8::is_ascii_digit);
            match self.input.peek()? {
                Some(b'0'..=b'9') => {}
                Some(b'-') if text.is_empty() || after_e => {}
                Some(b'+') if after_e => {}
                Some(b'e' | b'E') if text.contains('.') && after_digit => {}
                // A period ends the term, unless a digit follows it.
                Some(b'.') if after_digit && !text.contains('.') => {
                    self.input.take()?;
                    if !matches!(self.input.peek()?, Some(b'0'..=b'9')) {
                        self.ended = true;
                        break;
                    }
                    text.push('.');
                    continue;
                }
                _ => break,
            }
            if text.len() == 64 {
                return Err("a number is too long".into());
            }
            text.push(char::from(self.input.take()?));
        }
        if text.parse::<f64>().is_ok() { Ok(text) } else { Err(format!("`{text}` is no number")) }
    }

    /// A string; several in sequence are one.
    fn string(&mut self) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        while self.space()? == Some(b'"') {
            text.extend(self.quoted(b'"')?);
        }
        Ok(text)
    }

    fn quoted(&mut self, quote: u8) -> Result<Vec<u8>, String> {
        self.input.take()?;
        let mut text = Vec::new();
        loop {
            match self.input.take()? {
                byte if byte == quote => return Ok(text),
                b'\\' => self.escape(&mut text)?,
                byte => text.push(byte),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        text.push(match self.input.take()? {
            b'b' => 8,
            b'd' => 127,
            b'e' => 27,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b's' => b' ',
            b't' => b'\t',
            b'v' => 11,
            b'x' => {
                self.expect("{")?;
                let digits = self.word()?;
                self.expect("}")?;
                let code = u32::from_str_radix(&digits, 16).map_err(|_| "`\\x` needs digits")?;
                let Ok(byte) = u8::try_from(code) else {
                    let char = char::from_u32(code).ok_or("`\\x` names no character")?;
                    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                    return Ok(());
                };
                byte
            }
            first @ b'0'..=b'7' => {
                let mut code = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.input.peek()? else { break };
                    self.input.take()?;
                    code = code * 8 + u32::from(digit - b'0');
                }
                u8::try_from(code).map_err(|_| "an octal escape is no byte")?
            }
            byte => byte,
        });
        Ok(())
    }

    /// The rest of a binary: strings and bytes.
    fn binary(&mut self) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        if self.space()? == Some(b'>') {
            self.expect(">>")?;
            return Ok(bytes);
        }
        loop {
            match self.space()? {
                Some(b'"') => {
                    let text = self.string()?;
                    let is_utf8 = self.input.peek()? == Some(b'/');
                    if is_utf8 {
                        self.expect("/utf8")?;
                    }
                    match is_utf8 && std::str::from_utf8(&text).is_err() {
                        // Characters of a file in Latin-1.
                        true => bytes.extend(text.iter().map(|byte| char::from(*byte)).collect::<String>().bytes()),
                        false => bytes.extend(text),
                    }
                }
                _ => {
                    let number = self.number()?;
                    if self.ended {
                        return Err("a period is within a term".into());
                    }
                    bytes.push(number.parse().map_err(|_| format!("{number} is no byte"))?);
                }
            }
            self.space()?;
            match self.input.take()? {
                b',' => {}
                b'>' => {
                    self.expect(">")?;
                    return Ok(bytes);
                }
                other => return Err(format!("`,` is expected in a binary, not `{}`", other.escape_ascii())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Term, String> {
        Reader::new(text.as_bytes()).read_term().map(|term| term.expect("a term"))
    }

    fn atom(name: &str) -> Term {
        Term::Atom(name.into())
    }

    #[test]
    fn what_ejabberd_writes_is_read() {
        let number = |text: &str| Term::Number(text.into());
        for (text, wanted) in [
            ("{a, 'B c', []}.", Term::Tuple(vec![atom("a"), atom("B c"), Term::List(vec![])])),
            ("<<\"R\u{f3}meo\\n\\x{41}\\101\">>.", Term::Bytes("R\u{f3}meo\nAA".into())),
            ("<<82,195,\n  179>>.", Term::Bytes("R\u{f3}".into())),
            ("<<\"\u{f3}\"/utf8,\"x\" \"y\">>.", Term::Bytes("\u{f3}xy".into())),
            ("<<>>.", Term::Bytes(vec![])),
            ("[-1,1.5e-3,7].", Term::List(vec![number("-1"), number("1.5e-3"), number("7")])),
            ("12.\n", number("12")),
            ("12", number("12")),
            (
                "#{a => <0.1.0>, b => #Ref<0.1>}. % x",
                Term::Map(vec![(atom("a"), Term::Other), (atom("b"), Term::Other)]),
            ),
        ] {
            assert_eq!(one(text), Ok(wanted), "{text}");
        }
        let mut two = Reader::new(&b"% first\na.\nb.\n"[..]);
        assert_eq!(
            [two.read_term(), two.read_term(), two.read_term()],
            [Ok(Some(atom("a"))), Ok(Some(atom("b"))), Ok(None)]
        );
        assert_eq!((two.line(), two.bytes()), (4, 14));
        assert_eq!(one("[82,195,179].").expect("a list").text().as_deref(), Some("R\u{f3}"));
    }

    #[test]
    fn nothing_is_evaluated_and_everything_is_bounded() {
        for (text, why) in [
            ("os:cmd(\"x\").", "a period"),
            ("Variable.", "begins no term"),
            ("{a", "ends within"),
            ("{a b}.", "`,` is expected"),
            ("<<256>>.", "no byte"),
            ("<<1:4>>.", "`,` is expected in a binary"),
            ("\"x", "ends within"),
            ("--1.", "no number"),
            ("{1.}.", "a period is within"),
            ("#x{}.", "`<` is expected"),
        ] {
            let wrong = one(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
        let deep = |levels: usize| format!("{}{}.", "[".repeat(levels), "]".repeat(levels));
        assert!(one(&deep(DEPTH_MAX + 1)).is_ok());
        assert!(one(&deep(DEPTH_MAX + 2)).expect_err("too deep").contains("nested"));
        assert!(one(&format!("[{}1].", "1,".repeat(VALUES_MAX))).expect_err("too many").contains("too many"));
        let large = [&b"\""[..], &vec![b'x'; TERM_BYTES_MAX]].concat();
        assert!(Reader::new(&large[..]).read_term().expect_err("too large").contains("too large"));
    }
}
