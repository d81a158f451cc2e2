//! Requests for channels (`/n/`, also by the protocols of Mercure, Nchan and Centrifugo) that wait
//! on connections of this shard, and the watchers of channels whose home is this shard. The module
//! knows connections and other shards, but no users. Items are stored at the home of the channel,
//! where they are read and published as requests at nodes ([`requests`](crate::shard::requests)).
//! Questions to a home, and its answers, are letters.
//!
//! - [`listening`]: from a request to letters, and from answers to output; [`telling`] delivers new
//!   items; [`asking`] sends questions to homes, [`publishing`] publications; [`subscriber`] reads
//!   what WebSocket clients send meanwhile
//! - [`listeners`]: the waiting requests as data, each a [`listener`] at [`places`] in channels
//!   that are [`watched`]; limits per client in [`addresses`], subscribed [`prefixes`]
//! - [`listener_words`]: output to clients, with [`binary`] items; [`tallies`] for operators
//! - [`access`]: authorization of requests
//! - [`following`]: which connections move to the home of their channel
//! - [`home`]: the watchers of this home's channels, and its feeds
//! - [`occupancy`]: the subscribers of a channel
//! - [`web_push`]: push messages to pages that are closed
//! - [`nchan`] and [`talk`] (Centrifugo): protocols with output and data of their own

mod access;
mod addresses;
mod asking;
mod following;
pub(crate) mod home;
mod info;
mod listener;
mod listener_words;
mod listeners;
mod listening;
pub(crate) mod occupancy;
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

/// The channel state of a shard: of its connections, and of the channels whose home it is.
#[derive(Debug)]
pub(crate) struct Channels {
    listeners: Listeners,
    /// Verified tokens.
    grants: Known,
    /// Decisions of the authorization service.
    decisions: Decisions,
    /// Channels whose subscribers do not move to the home.
    stays: Stays,
    /// Watchers of this home's channels.
    pub(crate) watchers: Watchers,
    /// Recent items below watched prefixes.
    pub(crate) feeds: Feeds,
    /// Subscribers of this home's channels.
    occupancy: Occupancy,
    /// Push messages for items of this home's channels.
    pub(crate) web_pushes: WebPushes,
}

impl Channels {
    /// Creates empty state.
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

    /// Whether the response on a connection has begun and continues with new items.
    pub(crate) fn has_begun_answer(&self, id: ConnId) -> bool {
        self.listeners.get(id).is_some_and(|listener| listener.has_begun())
    }

    /// Memory used, in bytes.
    pub(crate) fn channels_bytes(&self) -> usize {
        let known = self.grants.memory_bytes() + self.decisions.memory_bytes();
        let listeners = self.listeners.memory_bytes() + known;
        let listeners = listeners + self.listeners.occupants.memory_bytes() + self.occupancy.memory_bytes();
        let listeners = listeners + self.web_pushes.memory_bytes() + self.listeners.awake.memory_bytes();
        listeners + self.feeds.memory_bytes() + self.stays.memory_bytes()
    }
}
