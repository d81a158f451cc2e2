//! A connection of Centrifugo's protocol, as data: to what it has subscribed, and which of its commands wait for the home of a channel.

use std::sync::Arc;

use crate::limits::CENTRIFUGO_QUESTIONS_MAX;
use crate::web::access::Grant;

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its first command has to come.
    ExpectConnect,
    /// That has come, and is answered when all homes have: what has been gathered of the answer, and how many are left.
    Connecting {
        /// The number of the command.
        id: u32,
        /// Channels as the client calls them, and what is said of each.
        subs: Vec<(Box<str>, Vec<u8>)>,
        /// Homes that have not answered.
        left: usize,
    },
    /// Anything may come.
    Connected,
}

/// How far a subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The home of its channel is asked where it stands.
    Asked {
        /// The number of the command; 0 if the server subscribes.
        id: u32,
        /// It is to go on where it was.
        recovers: bool,
    },
    /// That is known, and will be said with the answer to the first command.
    Gathered,
    /// The client knows.
    Begun,
}

/// A subscription, beside its place in the channel.
#[derive(Debug)]
pub(crate) struct Sub {
    /// How the client calls the channel, if not by its name.
    pub(crate) name: Option<Box<str>>,
    /// By which token of its own it is there.
    pub(crate) grant: Option<Arc<Grant>>,
    /// How far it is.
    pub(super) step: Step,
    /// The client is told who joins and leaves.
    pub(crate) hears: bool,
    /// Second (monotonic) when the home was asked last.
    pub(crate) since_s: u32,
}

const _: () = assert!(size_of::<Sub>() <= 48, "each subscription costs this much, and its place");

/// What a command wants of the home of a channel that is no subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// That something is published.
    Publish {
        /// When it came, microseconds of the wall's clock.
        since_us: u64,
    },
    /// Who subscribes.
    Presence,
    /// How many.
    PresenceStats,
    /// What was published.
    History {
        /// The node's actor.
        node: Arc<str>,
        /// Behind this number, of which nothing may be missing.
        after: Option<u64>,
    },
}

/// A command that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// By which number the home was asked.
    pub(crate) number: u32,
    /// The number of the command.
    pub(crate) id: u32,
    /// What it wants.
    pub(crate) what: What,
    /// Second (monotonic) since when.
    pub(crate) since_s: u32,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Talker {
    /// How clients know it.
    pub(crate) name: Box<str>,
    /// How far it is.
    pub(super) stage: Stage,
    /// One for each place of the listener, in the same order.
    pub(crate) subs: Vec<Sub>,
    /// Commands that wait, those for subscriptions not among them.
    pub(crate) waiting: Vec<Waiting>,
    /// Questions that homes have not answered yet, also of those who do not wait any more.
    pub(super) questions: u16,
    /// It was pinged, and has said nothing since.
    pub(super) pinged: bool,
}

impl Talker {
    /// One that has just come.
    pub(crate) fn new(name: String) -> Talker {
        Talker {
            name: name.into(),
            stage: Stage::ExpectConnect,
            subs: Vec::new(),
            waiting: Vec::new(),
            questions: 0,
            pinged: false,
        }
    }

    /// Whether another question may be asked.
    pub(crate) fn may_ask(&self) -> bool {
        self.questions < CENTRIFUGO_QUESTIONS_MAX
    }

    /// How many commands want what was published.
    pub(super) fn histories(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting.what, What::History { .. })).count()
    }

    /// The command that has asked by this number waits no more.
    pub(super) fn take_waiting(&mut self, number: u32) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.number == number)?;
        Some(self.waiting.swap_remove(at))
    }
}
