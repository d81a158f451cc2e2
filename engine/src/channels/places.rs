//! Where one who waits for channels stands in each, and what has come for it meanwhile.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::channels::home::feed_names::{is_feed, is_same_prefix};
use crate::channels::occupancy::crowd::channel_of;

/// How far the next items of a channel are for one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The home was asked, by this number.
    Asked(Number),
    /// It is told of the next one.
    Live,
    /// It does not take more for now; its place says what it has.
    Behind,
}

/// The number of a question, which needs no place of its own in memory's order: so a place is no larger than what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number([u8; 4]);

impl Standing {
    /// The home was asked, by this number.
    pub(super) fn asked(number: u32) -> Standing {
        Standing::Asked(Number(number.to_ne_bytes()))
    }
}

/// A channel for which a request waits.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The node's actor.
    pub(super) node: Arc<str>,
    /// The number of the last item that it has, or does not want; once `known`.
    pub(super) at: u64,
    /// Otherwise items are wanted from where the channel stands.
    pub(super) known: bool,
    /// How far the next ones are.
    pub(super) standing: Standing,
    /// Of a prefix: items behind where it stood are missing, and it has not been told.
    pub(super) missed: bool,
}

impl Place {
    /// A place behind an item, if it is `known`. The next ones are to be asked for.
    pub(super) fn at(node: Arc<str>, at: u64, known: bool) -> Place {
        Place { node, at, known, standing: Standing::Behind, missed: false }
    }
}

const _: () =
    assert!(size_of::<Place>() <= 32 && size_of::<Places>() <= 32, "each channel of a request costs this much");

/// Where a request stands in its channels. Most wait for one, which has no block of its own.
#[derive(Debug)]
pub(super) enum Places {
    /// In one.
    One(Place),
    /// In several, or none.
    Many(Box<[Place]>),
}

impl Default for Places {
    fn default() -> Places {
        Places::Many(Box::default())
    }
}

impl From<Vec<Place>> for Places {
    fn from(mut all: Vec<Place>) -> Places {
        match all.pop() {
            Some(one) if all.is_empty() => Places::One(one),
            last => {
                all.extend(last);
                Places::Many(all.into())
            }
        }
    }
}

impl From<Places> for Vec<Place> {
    fn from(places: Places) -> Vec<Place> {
        match places {
            Places::One(one) => vec![one],
            Places::Many(all) => all.into_vec(),
        }
    }
}

impl Deref for Places {
    type Target = [Place];

    fn deref(&self) -> &[Place] {
        match self {
            Places::One(one) => std::slice::from_ref(one),
            Places::Many(all) => all,
        }
    }
}

impl DerefMut for Places {
    fn deref_mut(&mut self) -> &mut [Place] {
        match self {
            Places::One(one) => std::slice::from_mut(one),
            Places::Many(all) => all,
        }
    }
}

/// The prefixes of some places, with their `*`; each once.
pub(super) fn prefixes(places: &[Place]) -> impl Iterator<Item = &str> {
    let is_first = move |at: &usize| *at == 0 || !is_same_prefix(&places[*at - 1].node, &places[*at].node);
    (0..places.len())
        .filter(move |at| is_feed(&places[*at].node))
        .filter(is_first)
        .map(move |at| channel_of(&places[at].node))
}

/// What has come for a request that still waits for other channels.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Items with commas between them.
    pub(super) items: Vec<u8>,
    /// The places of channels of which items are missing.
    pub(super) gaps: Vec<usize>,
}

impl Gathered {
    /// One more item.
    pub(super) fn push(&mut self, item: &[u8]) {
        if !self.items.is_empty() {
            self.items.push(b',');
        }
        self.items.extend_from_slice(item);
    }

    /// The channels of which items are missing, in quotes; each once.
    pub(super) fn gaps_of(&self, places: &[Place]) -> Vec<String> {
        let names: BTreeSet<&str> = self.gaps.iter().map(|index| channel_of(&places[*index].node)).collect();
        names.into_iter().map(|name| format!("\"{name}\"")).collect()
    }
}
