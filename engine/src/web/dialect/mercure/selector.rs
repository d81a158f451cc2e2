//! Topic selectors (draft 07, 4.1): `*` and URI templates. A subscriber by a selector reads the
//! feed of a prefix of channels, and receives the updates whose topics match.
//!
//! The prefix of one selector in a request may include that of another. Both then use the feed of
//! the shorter prefix, so that each update is delivered once.

use crate::web::access::template::{self, Template};
use crate::web::access::topic;
use crate::web::prefix;

/// A selector of several topics.
#[derive(Debug, PartialEq, Eq)]
pub enum Selector {
    /// `*`, which matches all topics.
    All,
    /// A URI template, which matches its expansions.
    Template(Template),
}

impl Selector {
    /// Parses a selector; `None` if it is a single topic.
    ///
    /// # Errors
    /// Why the template is not supported, as a sentence without a full stop.
    pub fn read(text: &str) -> Result<Option<Selector>, &'static str> {
        match text {
            topic::ALL => Ok(Some(Selector::All)),
            text if template::is_one(text) => Template::read(text).map(Selector::Template).map(Some),
            _ => Ok(None),
        }
    }

    /// The common beginning of the names of all channels that it may match.
    pub fn begins(&self) -> &str {
        match self {
            Selector::All => "",
            Selector::Template(template) => template.begins(),
        }
    }

    fn covers(&self, channel: &str) -> bool {
        match self {
            Selector::All => true,
            Selector::Template(template) => template.covers(channel),
        }
    }
}

/// The selectors of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Selectors(Vec<Selector>);

impl Selectors {
    /// The number of selectors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no selectors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a selector, unless it is present.
    pub fn add(&mut self, selector: Selector) {
        if !self.0.contains(&selector) {
            self.0.push(selector);
        }
    }

    /// Whether any selector matches a channel.
    pub fn cover(&self, channel: &str) -> bool {
        self.0.iter().any(|selector| selector.covers(channel))
    }

    /// The beginnings of the channels' names, one per feed. The feeds do not overlap.
    pub fn begins(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for selector in &self.0 {
            let mut own = selector.begins();
            while let Some(at) = all.iter().position(|other| is_same_feed(own, other)) {
                own = common(own, all.swap_remove(at));
            }
            all.push(own);
        }
        all
    }

    /// Memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |selector: &Selector| match selector {
            Selector::All => 0,
            Selector::Template(template) => template.memory_bytes(),
        };
        self.0.capacity() * size_of::<Selector>() + self.0.iter().map(bytes).sum::<usize>()
    }
}

/// Whether one of the two feeds includes the other.
fn is_same_feed(one: &str, other: &str) -> bool {
    let (one, other) = (prefix::within(one), prefix::within(other));
    one.starts_with(other) || other.starts_with(one)
}

/// The common beginning of both. Names are ASCII.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    &one[..same]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::access::topic::channel;

    fn selectors(texts: &[&str]) -> Selectors {
        let mut all = Selectors::default();
        texts.iter().for_each(|text| all.add(Selector::read(text).unwrap().unwrap()));
        all
    }

    #[test]
    fn one_topic_is_no_selector() {
        for text in ["a", "https://example.com/", "a*", "**", "%7Bid%7D"] {
            assert_eq!(Selector::read(text), Ok(None), "{text}");
        }
        assert_eq!(Selector::read("*"), Ok(Some(Selector::All)));
        assert!(Selector::read("{id").is_err() && Selector::read("{id*}").is_err());
    }

    #[test]
    fn selectors_share_a_feed_if_one_has_what_the_other_has() {
        let begins = |texts: &[&str]| {
            let all = selectors(texts);
            let mut begins: Vec<_> = all.begins().into_iter().map(str::to_owned).collect();
            begins.sort();
            begins
        };
        assert_eq!(begins(&["/a/{x}", "/b/{x}"]), ["~2Fa~2F", "~2Fb~2F"]);
        assert_eq!(begins(&["/a/{x}", "/a/{x}/c", "/a/{x}"]), ["~2Fa~2F"]);
        // Both use the feed of `~2Fa~`: no longer beginning is a prefix of channels.
        assert_eq!(begins(&["/a/b{x}", "/a/c{x}"]), ["~2Fa~2F"]);
        assert_eq!(begins(&["/a/{x}", "/b/{x}", "/{x}"]), ["~2F"]);
        assert_eq!(begins(&["/a/{x}", "*", "news.{x}"]), [""]);
        assert_eq!(begins(&["a{x}", "b.{x}"]), [""]);
        for all in [["/a/b{x}", "/a/c{x}", "/b/{x}"], ["/{x}", "/a/b/c/{x}", "x:{y}"]] {
            let all = selectors(&all);
            let feeds: Vec<_> = all.begins().into_iter().map(prefix::within).collect();
            for (at, feed) in feeds.iter().enumerate() {
                assert!(feeds.iter().skip(at + 1).all(|other| !feed.starts_with(other) && !other.starts_with(feed)));
            }
            assert!(all.0.iter().all(|own| feeds.iter().any(|feed| own.begins().starts_with(feed))));
        }
    }

    #[test]
    fn a_channel_is_covered_by_any_of_them() {
        let all = selectors(&["/a/{x}", "news.{x}"]);
        let covers = |topic: &str| all.cover(&channel(topic).unwrap());
        assert!(covers("/a/1") && covers("news.today") && covers("/a/{x}"));
        assert!(!covers("/a/1/2") && !covers("/b/1") && !covers("news"));
        assert!(selectors(&["*"]).cover("anything") && !Selectors::default().cover("anything"));
    }
}
