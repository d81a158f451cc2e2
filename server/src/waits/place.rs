//! The places where threads of the server wait: one table that gives the profile, the dashboard and
//! the log their names.

/// The kind of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// For exclusive access.
    Lock,
    /// For work: harmless idling.
    Rest,
    /// For room in a queue, or an answer from one.
    Channel,
    /// For a time to pass.
    Sleep,
    /// For a device to persist what was written.
    Sync,
    /// For a write to a file.
    Write,
    /// For a read from a file.
    Read,
}

impl Sort {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Lock => "lock",
            Sort::Rest => "rest",
            Sort::Channel => "channel",
            Sort::Sleep => "sleep",
            Sort::Sync => "sync",
            Sort::Write => "write",
            Sort::Read => "read",
        }
    }
}

/// An idle thread may wait forever.
const EVER: u64 = u64::MAX;

/// Declares [`Place`] and its properties: name, kind, milliseconds after which a thread at the
/// place is reported, and a sentence that continues "it waits".
macro_rules! places {
    ($($place:ident, $name:literal, $sort:ident, $patience_ms:expr, $help:literal;)*) => {
        /// Where a thread waits.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Place {
            $(#[doc = concat!("It waits ", $help, ".")] $place,)*
        }

        impl Place {
            /// All places, locks first.
            pub const ALL: &[Place] = &[$(Place::$place,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Place::$place => $name,)* }
            }

            /// Its kind.
            pub fn sort(self) -> Sort {
                match self { $(Place::$place => Sort::$sort,)* }
            }

            /// Milliseconds after which a thread at this place is reported.
            pub(super) fn patience_ms(self) -> u64 {
                match self { $(Place::$place => $patience_ms,)* }
            }

            /// Its description, which continues "it waits".
            pub fn help(self) -> &'static str {
                match self { $(Place::$place => $help,)* }
            }
        }
    };
}

places! {
    // Locks: held briefly, so a second is long.
    LockKnobs, "lock knobs", Lock, 1_000, "to read or set the knobs";
    LockTurning, "lock turning", Lock, 1_000, "until an earlier change of knobs has reached all shards";
    LockBackup, "lock backup", Lock, 1_000, "to read the progress of a backup";
    LockProfile, "lock profile", Lock, 1_000, "to read the progress of a profile";
    LockTraces, "lock traces", Lock, 1_000, "to read which users' stanzas are traced";
    LockEvents, "lock events", Lock, 1_000, "to record or list operators' actions";
    LockClock, "lock clock", Lock, 1_000, "to check whether the wall clock is trusted";
    LockTurns, "lock turns", Lock, 1_000, "to check which shards make progress";
    LockLsm, "lock lsm", Lock, 1_000, "to write to the store while another thread does";
    LockRows, "lock rows", Lock, 1_000, "for the rows in memory, which are being copied or extended";
    LockSpare, "lock spare", Lock, 1_000, "for the memory of the next memory table";
    LockFilters, "lock filters", Lock, 1_000, "for the filters of tables";
    LockTables, "lock tables", Lock, 1_000, "for the list of tables";
    LockWorker, "lock worker", Lock, 1_000, "to pass work to a thread of the store, or to take it";
    LockArrivals, "lock arrivals", Lock, 1_000, "to pass a socket to another shard, or to take it";
    LockUploads, "lock uploads", Lock, 1_000, "to count a file or a connection of an upload";
    LockBytestreams, "lock bytestreams", Lock, 1_000, "to count a connection of a bytestream";

    // Shards.
    Network, "network", Rest, 1_000, "for its clients, letters, or the next sweep";
    Congested, "congested", Sleep, 1_000, "until another shard, the committer or the disk has room for its output";
    CommitRoom, "commit queue", Channel, 1_000, "for room in its queue to the committer";

    // The store.
    Batches, "batches", Rest, EVER, "for writes to commit";
    Gathering, "gathering", Sleep, 1_000, "for more writes that can share the next sync";
    JournalWrite, "journal write", Write, 1_000, "until a group of writes is in the journal's file";
    JournalSync, "journal sync", Sync, 1_000, "until the device has a group of writes; their turns are answered only then";
    SegmentSync, "segment sync", Sync, 1_000, "until a segment of the journal has begun or ended";
    DiskSpace, "disk space", Sleep, 10_000, "for space on the device";
    MergePace, "merge pace", Sleep, 1_000, "because rows arrive faster than tables are merged";
    TableRoom, "table room", Sleep, 1_000, "for a memory table to be written";
    TableWrite, "table write", Write, 60_000, "until a table has been written";
    TableMerge, "table merge", Write, 600_000, "until tables have been merged";
    Requests, "read requests", Rest, EVER, "for reads of the store requested by shards";
    TableRead, "table read", Read, 1_000, "for rows of the store";
    TableWork, "table work", Rest, EVER, "for tables to write, to merge or to release";
    Freeing, "freeing", Sleep, 1_000, "before it releases the next part of a merged table";

    // Around them.
    Jobs, "jobs", Rest, EVER, "for passwords to check";
    Pushes, "pushes", Rest, EVER, "for pushes to send, and for answers of push services";
    Authority, "certificate authority", Rest, EVER, "for the next renewal of a certificate, and for answers of the authority";
    BackEnds, "back ends", Rest, EVER, "for requests about external users and channels, and for their answers";
    Orders, "orders", Rest, EVER, "for administrators' commands";
    Clients, "control clients", Rest, EVER, "for clients of the control socket";
    ShardAnswer, "shard answer", Channel, 1_000, "for a shard's answer to an operator's request";
    Wishes, "wishes", Rest, EVER, "for a signal, a command, or a knob to reset";
    Interval, "interval", Rest, EVER, "for its next check";
    LogLines, "log lines", Rest, EVER, "for lines of the log";
    LogWrite, "log write", Write, 1_000, "until the reader of the log has taken a line";
}

impl Place {
    /// The place with this number.
    pub(super) fn from_number(number: u8) -> Option<Place> {
        Place::ALL.get(usize::from(number)).copied()
    }
}

/// Number of places that are locks, which come first.
pub(super) const LOCKS: usize = Place::LockBytestreams as usize + 1;

/// Number of places.
pub(super) const PLACES: usize = Place::ALL.len();

/// Places that are always counted: a sync takes some thousand times as long as counting it, and the
/// dashboard uses the figures.
pub(super) const ALWAYS: u64 = {
    let mut mask = 0;
    let mut at = 0;
    while at < PLACES {
        if matches!(Place::ALL[at], Place::JournalSync) {
            mask |= 1 << at;
        }
        at += 1;
    }
    mask
};

// A mask of places has 64 bits.
const _: () = assert!(PLACES <= 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_name_of_its_own_and_locks_come_first() {
        let names: std::collections::BTreeSet<_> = Place::ALL.iter().map(|place| place.name()).collect();
        assert_eq!(names.len(), PLACES);
        for (number, place) in Place::ALL.iter().enumerate() {
            assert_eq!(Place::from_number(number as u8), Some(*place));
            assert_eq!(place.sort() == Sort::Lock, number < LOCKS, "{place:?}");
            assert_eq!(place.name().starts_with("lock "), number < LOCKS, "{place:?}");
        }
        assert_eq!(Place::from_number(u8::MAX), None);
    }
}
