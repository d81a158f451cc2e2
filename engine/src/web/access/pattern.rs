//! Which channels a token names: `news.today` is one, `news.*` is all that begin so, and `*` is all there are.
//!
//! That is what the options of the server have, beginnings of names. A name has no parts, so there is nothing for which a `*` in the
//! middle could stand; and a list of both forms is held against a name in one pass, with no memory and no way back. For Mercure a token may
//! have URI templates as well, of which each is held against the name's topic.

use super::template::Template;
use super::topic::is_of_name;
use crate::limits::{NOTIFY_JWT_PATTERNS_MAX, NOTIFY_NAME_BYTES_MAX};

/// Some channels.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Patterns(Vec<Pattern>);

#[derive(Debug, PartialEq, Eq)]
enum Pattern {
    /// One channel.
    One(Box<str>),
    /// All channels whose names begin so.
    Begins(Box<str>),
    /// All channels whose topics match.
    Template(Box<Template>),
}

fn pattern(text: &str, begins: bool) -> Pattern {
    if begins { Pattern::Begins(text.into()) } else { Pattern::One(text.into()) }
}

impl Patterns {
    /// Reads a list of them; `None`: one cannot be a channel, or there are more than [`NOTIFY_JWT_PATTERNS_MAX`].
    pub(super) fn read<'a>(texts: impl ExactSizeIterator<Item = Option<&'a str>>) -> Option<Patterns> {
        if texts.len() > NOTIFY_JWT_PATTERNS_MAX {
            return None;
        }
        let read = |text: &str| {
            let (text, begins) = text.strip_suffix('*').map_or((text, false), |text| (text, true));
            let fits =
                text.len() <= NOTIFY_NAME_BYTES_MAX && text.bytes().all(is_of_name) && (begins || !text.is_empty());
            fits.then(|| pattern(text, begins))
        };
        texts.map(|text| text.and_then(read)).collect::<Option<_>>().map(Patterns)
    }

    /// One more: a channel, or all that begin so; `None`: there are [`NOTIFY_JWT_PATTERNS_MAX`].
    pub(super) fn add(&mut self, text: &str, begins: bool) -> Option<()> {
        (self.0.len() < NOTIFY_JWT_PATTERNS_MAX).then(|| self.0.push(pattern(text, begins)))
    }

    /// The same of a template.
    pub(super) fn add_template(&mut self, template: Template) -> Option<()> {
        (self.0.len() < NOTIFY_JWT_PATTERNS_MAX).then(|| self.0.push(Pattern::Template(Box::new(template))))
    }

    /// Whether a channel is one of them.
    pub fn cover(&self, channel: &str) -> bool {
        let covers = |pattern: &Pattern| match pattern {
            Pattern::One(text) => channel == &**text,
            Pattern::Begins(text) => channel.starts_with(&**text),
            Pattern::Template(template) => template.covers(channel),
        };
        self.0.iter().any(covers)
    }

    /// Whether a channel whose name begins so may be one of them.
    pub fn meet(&self, prefix: &str) -> bool {
        let meets = |pattern: &Pattern| match pattern {
            Pattern::One(text) => text.starts_with(prefix),
            Pattern::Begins(text) => text.starts_with(prefix) || prefix.starts_with(&**text),
            Pattern::Template(own) => own.begins().starts_with(prefix) || prefix.starts_with(own.begins()),
        };
        self.0.iter().any(meets)
    }

    /// Bytes that they take.
    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = |pattern: &Pattern| match pattern {
            Pattern::One(text) | Pattern::Begins(text) => text.len(),
            Pattern::Template(template) => template.memory_bytes(),
        };
        self.0.capacity() * size_of::<Pattern>() + self.0.iter().map(bytes).sum::<usize>()
    }
}
