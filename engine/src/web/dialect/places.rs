//! The position of a waiting request in each of its channels, and the items gathered for it
//! meanwhile.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::follow::Follower;
use crate::web::feed_names::{channel_of, is_feed, is_same_prefix};

/// A request's position in a channel.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node of the channel, or the name of a feed.
    pub node: Arc<str>,
    /// The position.
    pub follower: Follower,
}

impl Place {
    /// A position after an item, if it is `known`. The home is yet to be asked for the next items.
    pub fn at(node: Arc<str>, at: u64, known: bool) -> Place {
        Place { node, follower: Follower { known, ..Follower::behind(at) } }
    }
}

const _: () =
    assert!(size_of::<Place>() <= 32 && size_of::<Places>() <= 32, "each channel of a request costs this much");

/// The positions of a request. Most requests have one, which is stored inline.
#[derive(Debug)]
pub enum Places {
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
pub fn prefixes(places: &[Place]) -> impl Iterator<Item = &str> {
    let is_first = move |at: &usize| *at == 0 || !is_same_prefix(&places[*at - 1].node, &places[*at].node);
    (0..places.len())
        .filter(move |at| is_feed(&places[*at].node))
        .filter(is_first)
        .map(move |at| channel_of(&places[at].node))
}

/// Whether the answer of a home is outstanding.
pub fn is_asking(places: &[Place]) -> bool {
    places.iter().any(|place| place.follower.is_asking())
}

/// Whether the position is known in every channel.
pub fn are_known(places: &[Place]) -> bool {
    places.iter().all(|place| place.follower.known)
}

/// The positions of a request, with that in one channel replaced.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    /// The positions.
    pub places: &'a [Place],
    /// The index of the replaced one.
    pub index: usize,
    /// Its number.
    pub number: u64,
}

impl<'a> Position<'a> {
    /// The positions as they are.
    pub fn of(places: &'a [Place]) -> Position<'a> {
        Position { places, index: usize::MAX, number: 0 }
    }

    /// The replaced position, before that.
    pub fn place(&self) -> &'a Place {
        &self.places[self.index]
    }

    /// All positions with their numbers.
    pub fn numbers(self) -> impl ExactSizeIterator<Item = (&'a Place, u64)> {
        let number = move |(at, place): (usize, &'a Place)| {
            (place, if at == self.index { self.number } else { place.follower.at })
        };
        self.places.iter().enumerate().map(number)
    }
}

/// The items gathered for a request that still waits for other channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Items, separated by commas.
    pub items: Vec<u8>,
    /// Their number.
    pub count: u64,
    /// The positions whose channels have missing items.
    pub gaps: Vec<usize>,
}

impl Gathered {
    /// Appends an item.
    pub fn push(&mut self, item: &[u8]) {
        if !self.items.is_empty() {
            self.items.push(b',');
        }
        self.items.extend_from_slice(item);
        self.count += 1;
    }

    /// The distinct channels with missing items, in quotes.
    pub fn gaps_of(&self, places: &[Place]) -> Vec<String> {
        let names: BTreeSet<&str> = self.gaps.iter().map(|index| channel_of(&places[*index].node)).collect();
        names.into_iter().map(|name| format!("\"{name}\"")).collect()
    }
}
