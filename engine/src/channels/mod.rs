//! Requests for channels (`/n/`, also by the protocols of Mercure, Nchan and Centrifugo) that wait on connections of this shard,
//! and the watchers of channels whose home is this shard. The module knows connections and other shards, and no users. Items are
//! at the home of the channel, where they are read and published as requests at nodes ([`requests`](crate::shard::requests)).
//! Questions to a home, and its answers, are letters.
//!
//! - [`listening`]: from a request to letters, and from answers to what is said; [`telling`] of news; [`asking`] homes,
//!   [`publishing`] there, and what a [`subscriber`] sends meanwhile
//! - [`listeners`], each a [`listener`] at [`places`] in what is [`watched`], of [`addresses`], some for [`prefixes`]: who waits, as data
//! - [`listener_words`] to them, [`binary`] ones too, and [`tallies`] for operators
//! - [`access`]: whether they may
//! - [`following`]: who of them goes to the channel's home
//! - [`home`]: who watches the channels of this home, and its feeds
//! - [`occupancy`]: who subscribes to a channel
//! - [`web_push`]: pages that are told while they are closed
//! - [`nchan`] and [`talk`] (Centrifugo): protocols with words and data of their own

mod access;
mod addresses;
mod asking;
mod binary;
mod following;
pub(crate) mod home;
mod listener;
mod listener_words;
mod listeners;
mod listening;
mod nchan;
pub(crate) mod occupancy;
mod places;
mod prefixes;
mod publishing;
mod subscriber;
mod talk;
mod tallies;
mod telling;
mod watched;
pub(crate) mod web_push;

use crate::channels::access::Known;
use crate::channels::access::decisions::Decisions;
use crate::channels::following::Stays;
use crate::channels::home::feeds::Feeds;
use crate::channels::home::watchers::Watchers;
use crate::channels::listeners::Listeners;
use crate::channels::occupancy::Occupancy;
use crate::channels::web_push::WebPushes;
use crate::id::ConnId;

/// Who waits for channels at a shard, and for channels of which it is the home.
#[derive(Debug)]
pub(crate) struct Channels {
    /// Requests that wait for channels.
    listeners: Listeners,
    /// Tokens that were verified.
    grants: Known,
    /// What others have said of requests for channels.
    decisions: Decisions,
    /// Which channels their subscribers do not go to.
    stays: Stays,
    /// Who watches channels of this home.
    pub(crate) watchers: Watchers,
    /// What was published lately below prefixes that are watched.
    pub(crate) feeds: Feeds,
    /// Who subscribes to channels of this home.
    occupancy: Occupancy,
    /// Pages that are told of items of channels of this home while they are closed.
    pub(crate) web_pushes: WebPushes,
}

impl Channels {
    /// Nobody waits.
    pub(crate) fn new() -> Channels {
        Channels {
            listeners: Listeners::default(),
            grants: Known::default(),
            decisions: Decisions::default(),
            stays: Stays::default(),
            watchers: Watchers::default(),
            feeds: Feeds::default(),
            occupancy: Occupancy::default(),
            web_pushes: WebPushes::default(),
        }
    }

    /// Whether any connection of this shard waits for a channel.
    #[inline]
    pub(crate) fn has_listeners(&self) -> bool {
        self.listeners.any()
    }

    /// Whether a connection waits for channels.
    pub(crate) fn is_listener(&self, id: ConnId) -> bool {
        self.listeners.get(id).is_some()
    }

    /// Whether the answer to a connection's request has begun, and goes on with what comes.
    pub(crate) fn has_begun_answer(&self, id: ConnId) -> bool {
        self.listeners.get(id).is_some_and(|listener| listener.kind.has_begun())
    }

    /// What all of it takes, bytes.
    pub(crate) fn channels_bytes(&self) -> usize {
        let known = self.grants.memory_bytes() + self.decisions.memory_bytes();
        let listeners = self.listeners.memory_bytes() + known;
        let listeners = listeners + self.listeners.occupants.memory_bytes() + self.occupancy.memory_bytes();
        let listeners = listeners + self.web_pushes.memory_bytes() + self.listeners.awake.memory_bytes();
        listeners + self.feeds.memory_bytes() + self.stays.memory_bytes()
    }
}
