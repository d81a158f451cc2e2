//! URI templates (RFC 6570) as selectors: which topics could be made of one.
//!
//! All operators are there, with any number of variables (levels 1 to 3). The modifiers of level 4 (`{id:3}`, `{list*}`) are refused.
//! A variable may be missing, a text, or a list, which is told apart by commas.
//!
//! A template is a row of pieces. A match goes through them once, with the set of all places of the topic up to which the pieces so far may
//! reach: so there is no way back, and the work is bounded by the lengths of both, whatever is in them.

use super::topic;
use crate::limits::{MERCURE_TEMPLATE_BYTES_MAX, MERCURE_TEMPLATE_VARIABLES_MAX, NOTIFY_NAME_BYTES_MAX};

/// What is told apart by its first character (RFC 6570, appendix A).
#[derive(Debug, PartialEq, Eq)]
struct Operator {
    /// By which an expression has it.
    sign: &'static str,
    /// What begins the value of an expression of which some variable is there.
    first: &'static str,
    /// What is between variables.
    separator: &'static str,
    /// Names are part of the value.
    named: bool,
    /// What is behind the name of one that is empty.
    empty: &'static str,
    /// Values have reserved characters as they are.
    reserved: bool,
}

const fn plain(sign: &'static str, first: &'static str, separator: &'static str, reserved: bool) -> Operator {
    Operator { sign, first, separator, named: false, empty: "", reserved }
}

const fn named(sign: &'static str, separator: &'static str, empty: &'static str) -> Operator {
    Operator { sign, first: sign, separator, named: true, empty, reserved: false }
}

/// The last one has no sign.
static OPERATORS: [Operator; 8] = [
    plain("+", "", ",", true),
    plain("#", "#", ",", true),
    plain(".", ".", ".", false),
    plain("/", "/", "/", false),
    named(";", ";", ""),
    named("?", "&", "="),
    named("&", "&", "="),
    plain("", "", ",", false),
];

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// It stands in topics as it is.
    Text(Box<str>),
    /// `{x,y}`: its variables by their names, which are left out where they do not count.
    Expression(&'static Operator, Names),
}

/// A template.
#[derive(Debug, PartialEq, Eq)]
pub struct Template {
    text: Box<str>,
    begins: Box<str>,
    pieces: Box<[Piece]>,
}

/// Longest topic that there is.
const TOPIC_BYTES_MAX: usize = NOTIFY_NAME_BYTES_MAX;

/// Up to which places of a topic something may reach; the last one is its end.
type Places = [bool; TOPIC_BYTES_MAX + 1];

const NONE: Places = [false; TOPIC_BYTES_MAX + 1];

/// A match under way.
struct Match<'a> {
    topic: &'a [u8],
    /// Places that were looked at, and bytes that were compared.
    steps: usize,
}

impl Match<'_> {
    /// Behind a text.
    fn behind(&mut self, text: &str, from: &Places) -> Places {
        if text.is_empty() {
            return *from;
        }
        let mut to = NONE;
        self.steps += self.topic.len() + 1;
        for at in (0..=self.topic.len()).filter(|at| from[*at]) {
            let same = self.topic[at..].iter().zip(text.as_bytes()).take_while(|(one, other)| one == other).count();
            self.steps += same;
            if same == text.len() {
                to[at + same] = true;
            }
        }
        to
    }

    /// How long the character of a value is that begins here; 0 if there is none.
    fn character(&self, at: usize, reserved: bool) -> usize {
        let rest = &self.topic[at..];
        match rest.first() {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~,".contains(byte) => 1,
            Some(b'%') if rest.len() > 2 && rest[1..3].iter().all(u8::is_ascii_hexdigit) => 3,
            Some(byte) if reserved && b":/?#[]@!$&'()*+;=".contains(byte) => 1,
            _ => 0,
        }
    }

    /// Behind a value, which has a character at least unless it `may_be_empty`.
    fn value(&mut self, from: &Places, reserved: bool, may_be_empty: bool) -> Places {
        let mut to = if may_be_empty { *from } else { NONE };
        self.steps += self.topic.len();
        for at in 0..self.topic.len() {
            if from[at] || to[at] {
                let length = self.character(at, reserved);
                if length > 0 {
                    to[at + length] = true;
                }
            }
        }
        to
    }

    /// Behind an expression (RFC 6570 3.2.1). Each variable may be there or not.
    fn expression(&mut self, operator: &Operator, names: &[Box<str>], none: &Places) -> Places {
        let mut some = NONE;
        for name in names {
            let (first, next) = (self.behind(operator.first, none), self.behind(operator.separator, &some));
            let begun = self.either(&first, &next);
            let told = if operator.named {
                let name = self.behind(name, &begun);
                let (empty, full) = (self.behind(operator.empty, &name), self.behind("=", &name));
                let full = self.value(&full, operator.reserved, false);
                self.either(&empty, &full)
            } else {
                self.value(&begun, operator.reserved, true)
            };
            some = self.either(&some, &told);
        }
        self.either(none, &some)
    }

    fn either(&mut self, one: &Places, other: &Places) -> Places {
        self.steps += self.topic.len();
        std::array::from_fn(|at| one[at] || other[at])
    }
}

/// Whether a selector is meant as a template, and not as one topic.
pub fn is_one(selector: &str) -> bool {
    selector.contains(['{', '}'])
}

/// Whether a text may stand in a template outside of expressions (RFC 6570 2.1, with erratum 6937).
fn is_literal(text: &str) -> bool {
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let fits = match byte {
            b'%' => rest.by_ref().take(2).filter(u8::is_ascii_hexdigit).count() == 2,
            _ => !b" \"<>\\^`|{}".contains(&byte),
        };
        if !fits {
            return false;
        }
    }
    !text.chars().any(char::is_control)
}

/// Whether this is the name of a variable (RFC 6570 2.3).
fn is_variable(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && is_literal(part)
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_%".contains(&byte))
    };
    name.split('.').all(is_part)
}

impl Template {
    /// Reads one.
    ///
    /// # Errors
    /// Why it is none, or not matched here, as a sentence without a full stop.
    pub fn read(text: &str) -> Result<Template, &'static str> {
        if text.len() > MERCURE_TEMPLATE_BYTES_MAX {
            return Err("a URI template is too long; the limit is 128 bytes");
        }
        let (mut pieces, mut rest, mut variables) = (Vec::new(), text, 0);
        while !rest.is_empty() {
            let literal = &rest[..rest.find('{').unwrap_or(rest.len())];
            if !is_literal(literal) {
                return Err("a URI template has a character that must be escaped, or a } without its {");
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(literal.into()));
            }
            let Some(expression) = rest[literal.len()..].strip_prefix('{') else { break };
            let Some((expression, behind)) = expression.split_once('}') else {
                return Err("a URI template has a { without its }");
            };
            let (operator, names) = read_expression(expression)?;
            variables += names.len();
            if variables > MERCURE_TEMPLATE_VARIABLES_MAX {
                return Err("a URI template has too many variables; the limit is 8");
            }
            pieces.push(Piece::Expression(operator, names));
            rest = behind;
        }
        let begins = begin_of(text.split('{').next().unwrap_or_default());
        match begins.len() {
            0..=NOTIFY_NAME_BYTES_MAX => Ok(Template { text: text.into(), begins, pieces: pieces.into() }),
            _ => {
                Err("a URI template is too long; every topic that it matches exceeds the 128 bytes of a channel's name")
            }
        }
    }

    /// How the names of all channels begin whose topics match.
    pub fn begins(&self) -> &str {
        &self.begins
    }

    /// Whether a channel is one whose topic matches.
    pub fn covers(&self, channel: &str) -> bool {
        channel.starts_with(&*self.begins) && self.matches(&topic::of(channel))
    }

    /// Whether a topic could be made of it, or is its own text (draft 07 of Mercure, 4.1).
    pub fn matches(&self, topic: &str) -> bool {
        self.steps(topic).0
    }

    /// The same, and how much work that was.
    fn steps(&self, topic: &str) -> (bool, usize) {
        if *self.text == *topic {
            return (true, 0);
        }
        if topic.len() > TOPIC_BYTES_MAX {
            return (false, 0);
        }
        let (mut at, mut own) = (NONE, Match { topic: topic.as_bytes(), steps: 0 });
        at[0] = true;
        for piece in &self.pieces {
            at = match piece {
                Piece::Text(text) => own.behind(text, &at),
                Piece::Expression(operator, names) => own.expression(operator, names, &at),
            };
            if at == NONE {
                return (false, own.steps);
            }
        }
        (at[topic.len()], own.steps)
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> usize {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Expression(_, names) => names.iter().map(|name| name.len() + size_of::<Box<str>>()).sum(),
        };
        let pieces = self.pieces.iter().map(|own| size_of::<Piece>() + piece(own)).sum::<usize>();
        size_of::<Template>() + self.text.len() + self.begins.len() + pieces
    }
}

/// Names of the variables of an expression.
type Names = Box<[Box<str>]>;

/// What is between braces.
fn read_expression(text: &str) -> Result<(&'static Operator, Names), &'static str> {
    let has = |operator: &&Operator| text.starts_with(operator.sign);
    // The last one has no sign, so there is always one.
    let operator = OPERATORS.iter().find(has).unwrap_or(&OPERATORS[OPERATORS.len() - 1]);
    if text.starts_with(['=', ',', '!', '@', '|']) {
        return Err("a URI template has a reserved operator (=,!@|)");
    }
    let names = text[operator.sign.len()..].split(',').map(|name| match name {
        name if is_variable(name) => Ok(if operator.named { name.into() } else { Box::default() }),
        name if name.ends_with('*') || name.contains(':') => {
            Err("a URI template has a modifier of level 4 ({id:3}, {list*}), which is not supported")
        }
        _ => Err("a URI template has an expression without a variable"),
    });
    Ok((operator, names.collect::<Result<_, _>>()?))
}

/// How the names of channels begin whose topics begin so.
fn begin_of(literal: &str) -> Box<str> {
    // What comes behind it decides whether the topic is escaped, and with it each `~`.
    if literal.bytes().all(topic::is_of_name) {
        return literal.split('~').next().unwrap_or_default().into();
    }
    topic::escaped(literal).into()
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
