//! The position of a waiting request in each of its channels, and the items gathered for it
//! meanwhile.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::channels::home::feed_names::{is_feed, is_same_prefix};
use crate::channels::occupancy::crowd::channel_of;

/// How a request gets the next items of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The home was asked, with this number.
    Asked(Number),
    /// The next item is delivered when it is published.
    Live,
    /// The connection cannot take more at present; the position records what it has received.
    Behind,
}

/// The number of a question. It has no alignment, which keeps [`Place`] small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number([u8; 4]);

impl Standing {
    pub(super) fn asked(number: u32) -> Standing {
        Standing::Asked(Number(number.to_ne_bytes()))
    }
}

/// A request's position in a channel.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) node: Arc<str>,
    /// The number of the last item that was received, or is not wanted; valid once `known`.
    pub(super) at: u64,
    /// The position is known. Otherwise items are wanted from the end of the channel on.
    pub(super) known: bool,
    /// How the next items are obtained.
    pub(super) standing: Standing,
    /// Of a prefix: items after the position are missing, and the client has not been notified.
    pub(super) missed: bool,
}

impl Place {
    /// A position after an item, if it is `known`. The home is yet to be asked for the next items.
    pub(super) fn at(node: Arc<str>, at: u64, known: bool) -> Place {
        Place { node, at, known, standing: Standing::Behind, missed: false }
    }
}

const _: () =
    assert!(size_of::<Place>() <= 32 && size_of::<Places>() <= 32, "each channel of a request costs this much");

/// The positions of a request. Most requests have one, which is stored inline.
#[derive(Debug)]
pub(super) enum Places {
    /// A single position.
    One(Place),
    /// Several positions, or none.
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

/// The distinct prefixes of some positions, with their `*`.
pub(super) fn prefixes(places: &[Place]) -> impl Iterator<Item = &str> {
    let is_first = move |at: &usize| *at == 0 || !is_same_prefix(&places[*at - 1].node, &places[*at].node);
    (0..places.len())
        .filter(move |at| is_feed(&places[*at].node))
        .filter(is_first)
        .map(move |at| channel_of(&places[at].node))
}

/// The items gathered for a request that still waits for other channels.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Items, separated by commas.
    pub(super) items: Vec<u8>,
    /// The positions whose channels have missing items.
    pub(super) gaps: Vec<usize>,
}

impl Gathered {
    /// Appends an item.
    pub(super) fn push(&mut self, item: &[u8]) {
        if !self.items.is_empty() {
            self.items.push(b',');
        }
        self.items.extend_from_slice(item);
    }

    /// The distinct channels with missing items, in quotes.
    pub(super) fn gaps_of(&self, places: &[Place]) -> Vec<String> {
        let names: BTreeSet<&str> = self.gaps.iter().map(|index| channel_of(&places[*index].node)).collect();
        names.into_iter().map(|name| format!("\"{name}\"")).collect()
    }
}
