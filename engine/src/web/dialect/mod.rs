//! Dialects: the protocols in which clients ask for channels, as data. A dialect is a folder here
//! and a row in `dialects!`; what shards do with a request is the same for all of them.
//!
//! - Its `ROWS` in the table of paths parse requests to what is [`asked`] of channels.
//! - Its `Subscriber` is what waits for items. By the interface [`Dialect`] it begins the response,
//!   writes items, gaps and heartbeats, and ends the response.
//! - A [`Publisher`] answers publications and questions about a channel.
//!
//! [`places`] are the positions of a request in its channels. [`plain`] is the protocol of `/n/`,
//! which also defines the JSON objects in which homes write items; `binary` is another form of
//! them. Of [`centrifugo`], only what needs no connection is here: its clients send commands, which
//! `channels::talk` carries out.

pub mod asked;
pub(crate) mod binary;
pub mod centrifugo;
pub mod mercure;
pub mod nchan;
pub mod places;
pub mod plain;

use std::borrow::Cow;

use crate::web::dialect::nchan::info::{Format, Info};
use crate::web::dialect::places::{Gathered, Place, Position};
use crate::web::frame::FrameFault;
use crate::web::handshake::Accept;
use crate::web::response::Response;
use crate::web::row::Row;
use crate::web::status::Status;

/// How items are delivered to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// One response, when there is something to deliver.
    Poll,
    /// Server-sent events.
    Events,
    /// WebSocket.
    Socket,
}

/// The head of a response that continues with items.
#[derive(Debug)]
pub enum Head {
    /// An event stream (HTML 9.2.5).
    Events {
        /// Its media type.
        content_type: &'static str,
        /// Header fields besides those of every response.
        fields: Vec<(&'static str, Cow<'static, str>)>,
        /// The first events.
        first: Vec<u8>,
    },
    /// A WebSocket: the answer to its opening handshake, and the subprotocol.
    Socket(Box<Accept>, Option<&'static str>),
}

/// The end of a response that has begun.
#[derive(Debug)]
pub enum End {
    /// The last events.
    Events(Vec<u8>),
    /// The last frame of a WebSocket.
    Socket(FrameFault),
}

/// Output that is being written for a streaming request.
#[derive(Debug, Default)]
pub struct Telling {
    /// The output.
    pub out: Vec<u8>,
    /// The content of the next message, in dialects whose messages have several items.
    pub gathered: Gathered,
    /// Items are missing, and no event has given the position after the gap yet.
    pub placeless: bool,
}

/// What a home reports of a publication.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// The channel.
    pub channel: &'a str,
    /// The number of the item.
    pub number: u64,
    /// The numbers of all items, of a batch.
    pub batch: Option<Vec<u64>>,
    /// It had been published before, by its idempotency key.
    pub repeated: bool,
    /// The publisher may know how many subscribe.
    pub tells: bool,
    /// The channel.
    pub info: Info,
}

/// The form of the responses to a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// The number of the item.
    Plain,
    /// The identifier of the update.
    Mercure,
    /// The channel's information.
    Nchan(Format),
}

impl Publisher {
    /// The response to a publication.
    pub fn published(self, outcome: &Outcome<'_>) -> Response {
        match self {
            Publisher::Plain => plain::published(outcome),
            Publisher::Mercure => mercure::published(outcome),
            Publisher::Nchan(format) => outcome.info.published(format),
        }
    }

    /// The response to a question about a channel, which only some dialects have.
    pub fn informed(self, info: &Info) -> Response {
        match self {
            Publisher::Nchan(format) => info.asked(format),
            Publisher::Plain | Publisher::Mercure => Response::empty(Status::NotFound),
        }
    }
}

/// Calls a method of the subscriber, whichever dialect it is of.
macro_rules! forward {
    ([$($name:ident($module:ident))*], $own:ident, $method:ident, $args:tt) => {
        match $own {
            $(Subscriber::$name(own) => own.$method $args,)*
        }
    };
}

/// Declares a subscriber of any dialect, and the rows of their paths.
macro_rules! subscribers {
    ([$($name:ident($module:ident))*]) => {
        /// A subscriber, by its dialect.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is described by its module")]
        pub enum Subscriber {
            $($name($module::Subscriber),)*
        }

        $(impl From<$module::Subscriber> for Subscriber {
            fn from(own: $module::Subscriber) -> Subscriber {
                Subscriber::$name(own)
            }
        })*

        /// The paths of all dialects.
        pub const ROWS: &[&[Row]] = &[$($module::ROWS),*];
    };
}

/// Declares the dialects, and the interface that each implements and that [`Subscriber`] forwards.
macro_rules! dialects {
    (
        $rows:tt
        must { $($(#[$d1:meta])* fn $m1:ident(&$s1:ident $(, $a1:ident: $t1:ty)*) $(-> $r1:ty)?;)* }
        may { $($(#[$d2:meta])* fn $m2:ident(&$s2:ident $(, $a2:ident: $t2:ty)*) $(-> $r2:ty)? $b2:block)* }
        change { $($(#[$d3:meta])* fn $m3:ident(&mut $s3:ident $(, $a3:ident: $t3:ty)*) $(-> $r3:ty)? $b3:block)* }
    ) => {
        subscribers!($rows);

        /// The interface of a dialect's subscriber. What a method does by default suits a dialect
        /// that has no such thing.
        #[expect(unused_variables, reason = "defaults")]
        pub trait Dialect {
            $($(#[$d1])* fn $m1(&$s1 $(, $a1: $t1)*) $(-> $r1)?;)*
            $($(#[$d2])* fn $m2(&$s2 $(, $a2: $t2)*) $(-> $r2)? $b2)*
            $($(#[$d3])* fn $m3(&mut $s3 $(, $a3: $t3)*) $(-> $r3)? $b3)*
        }

        impl Dialect for Subscriber {
            $(fn $m1(&$s1 $(, $a1: $t1)*) $(-> $r1)? { forward!($rows, $s1, $m1, ($($a1),*)) })*
            $(fn $m2(&$s2 $(, $a2: $t2)*) $(-> $r2)? { forward!($rows, $s2, $m2, ($($a2),*)) })*
            $(fn $m3(&mut $s3 $(, $a3: $t3)*) $(-> $r3)? { forward!($rows, $s3, $m3, ($($a3),*)) })*
        }
    };
}

dialects! {
    [Plain(plain) Mercure(mercure) Nchan(nchan) Centrifugo(centrifugo)]

    must {
        /// How items are delivered.
        fn way(&self) -> Way;
        /// Whether the response has begun and continues with items.
        fn has_begun(&self) -> bool;
        /// Appends an item. The position is that after it.
        fn item(&self, telling: &mut Telling, position: Position<'_>, item: &[u8]);
    }

    may {
        /// The client sends commands, which name its channels: its positions come and go,
        /// independently of each other.
        fn has_commands(&self) -> bool { false }
        /// It counts as a subscriber in channels that report theirs.
        fn occupies(&self) -> bool { true }
        /// Items are delivered in the format of `binary`.
        fn is_binary(&self) -> bool { false }
        /// Below prefixes, it receives only items of channels that it [covers](Dialect::covers).
        fn selects(&self) -> bool { false }
        /// Whether a selecting subscriber wants the items of a channel.
        fn covers(&self, channel: &str) -> bool { true }
        /// Another subscriber with the same key and position receives identical bytes.
        fn alike(&self) -> Option<(Way, bool)> { None }
        /// A poll that is answered with a single item.
        fn takes_one(&self) -> bool { false }
        /// That is so, and whichever item is next is the one.
        fn takes_any(&self) -> bool { false }
        /// Of a channel that was deleted and made again, the client expects all items.
        fn begins_anew(&self) -> bool { false }
        /// Items are gathered until all homes have answered, because the head of the response
        /// reports gaps.
        fn is_gathering(&self) -> bool { false }
        /// The gathered items have reached the size limit of a poll.
        fn is_full(&self) -> bool { false }
        /// A poll has something to answer with.
        fn has_answer(&self) -> bool { false }
        /// Reports that items are missing. The position is that after the gap.
        fn gap(&self, telling: &mut Telling, position: Position<'_>) {}
        /// Completes the output.
        fn finish(&self, telling: &mut Telling, position: Position<'_>) {}
        /// Appends the position from which a client continues that loses its connection before the
        /// first item, as soon as it is known.
        fn place(&self, out: &mut Vec<u8>, places: &[Place]) {}
        /// Appends a heartbeat.
        fn beat(&self, out: &mut Vec<u8>, places: &[Place]) { out.extend_from_slice(b":\n\n"); }
        /// Appends the subscribers of a channel.
        fn occupancy(&self, out: &mut Vec<u8>, places: &[Place], index: usize, occupancy: &[u8]) {}
        /// What a client is sent when its credentials have expired, before the end.
        fn expired(&self) -> &'static [u8] { b"" }
        /// The end of a response that has begun; `None` if it has not.
        fn end(&self, status: Status) -> Option<End> { None }
        /// The response when a channel was deleted, in dialects that report it.
        fn gone(&self) -> Option<Response> { None }
        /// The last frame of a WebSocket when the server shuts down, if it is one of its own.
        fn shutdown(&self) -> Option<FrameFault> { None }
        /// Heap memory used before it waits, in bytes.
        fn memory_bytes(&self) -> usize { 0 }
    }

    change {
        /// Begins the response of a streaming subscriber, unless it has begun or more has to be
        /// known first.
        fn begin(&mut self, places: &[Place]) -> Option<Head> { None }
        /// Appends to the gathered items.
        fn gather(&mut self, told: &[u8], gap: bool) {}
        /// A home has answered, and items are missing or not. Returns the end of a WebSocket that
        /// cannot report a gap.
        fn answered(&mut self, index: usize, gap: bool) -> Option<FrameFault> { None }
        /// Considers an item for the answer to a poll. Returns whether it takes no more of this
        /// channel.
        fn take(&mut self, index: usize, number: u64, item: &[u8]) -> bool { true }
        /// Answers a poll with what there is, or with nothing. Returns the number of items, too.
        fn answer(&mut self, places: &[Place]) -> (Response, u64) { (Response::empty(Status::NoContent), 0) }
    }
}
