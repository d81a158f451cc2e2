//! Selects which waits are counted, by the names of threads and places.

use std::sync::LazyLock;

use arc_swap::ArcSwapOption;

use super::place::{ALWAYS, Place};

/// Which threads and places are counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(String);

impl Pattern {
    /// Selects names that contain `text`, or match it if it has `*` or `?`. An empty text selects
    /// all.
    pub fn new(text: &str) -> Pattern {
        Pattern(text.to_owned())
    }

    /// Whether a name matches.
    pub fn fits(&self, name: &str) -> bool {
        match self.0.contains(['*', '?']) {
            true => is_of_form(self.0.as_bytes(), name.as_bytes()),
            false => name.contains(&self.0),
        }
    }

    /// The places to count for a thread: all if its own name matches, otherwise those whose names
    /// do.
    fn mask(&self, thread: &str) -> u64 {
        if self.fits(thread) {
            return u64::MAX;
        }
        Place::ALL.iter().filter(|place| self.fits(place.name())).fold(ALWAYS, |mask, place| mask | 1 << *place as u8)
    }
}

/// `*` matches any text, `?` any character.
fn is_of_form(form: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to continue with one more byte for the last star.
    let mut star = None;
    while from < name.len() {
        match form.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((starred, taken)) = star else { return false };
                star = Some((starred, taken + 1));
                (at, from) = (starred + 1, taken + 1);
            }
        }
    }
    form[at..].iter().all(|byte| *byte == b'*')
}

/// The present selection.
pub(super) static COUNTED: LazyLock<ArcSwapOption<Pattern>> = LazyLock::new(ArcSwapOption::default);

/// The places to count for a thread with this name.
pub(super) fn mask(thread: &str) -> u64 {
    COUNTED.load().as_ref().map_or(ALWAYS, |pattern| pattern.mask(thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_part_of_a_name_or_its_form() {
        let fits = |pattern: &str, name: &str| Pattern::new(pattern).fits(name);
        assert!(fits("", "shard-1") && fits("hard", "shard-1") && !fits("shard-10", "shard-1"));
        assert!(fits("shard-*", "shard-1") && fits("*lock*knobs", "lock knobs") && fits("shard-?", "shard-1"));
        assert!(!fits("shard-?", "shard-10") && !fits("*x", "shard-1") && !fits("shard-1?", "shard-1"));
        assert!(fits("a*b*c", "aXbbYc") && !fits("a*b*c", "aXbbY"));
    }
}
