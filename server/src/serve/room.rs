//! Capacity for connections: its limiting factor, and how an operator can raise it.

use super::settings::{self, LIMIT_REMEDY};
use crate::admin::NotAccepting;
use crate::config::Config;
use crate::driver::{self, Kind};
use crate::thread::PAUSED_SLOTS;

/// The limiting factor of a shard's connections, and the capacity without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    /// `shard_connections_max`, or its default.
    Slots,
    /// The process's limit on descriptors, which has this value.
    Descriptors(u64),
}

fn bound(config: &Config, kind: Kind, shards: u16, descriptors: u64) -> Bound {
    let (asked, given) = (config.shard_connections_max, settings::driver_settings(config, shards, descriptors));
    let wanted = asked.unwrap_or_else(|| driver::Settings::default().slots.into());
    let has = match kind {
        // Each table is bounded by the limit, and a shard with a higher capacity has several.
        Kind::Uring => given.slots,
        Kind::Epoll => given.slots.min(given.descriptors),
    };
    if u64::from(has) < wanted { Bound::Descriptors(descriptors) } else { Bound::Slots }
}

/// What to do for a higher capacity.
pub(super) fn remedy(config: &Config, kind: Kind, shards: u16, descriptors: u64) -> String {
    match bound(config, kind, shards, descriptors) {
        Bound::Slots => "raise shard_connections_max, and restart the server".to_owned(),
        Bound::Descriptors(limit) => format!("raise the limit on descriptors, which is {limit} ({LIMIT_REMEDY})"),
    }
}

/// A warning that the limit on descriptors permits only few connections, if so; `room` is the
/// capacity of all shards together.
pub(super) fn few(config: &Config, kind: Kind, shards: u16, descriptors: u64, room: u64) -> Option<String> {
    match bound(config, kind, shards, descriptors) {
        Bound::Slots => None,
        Bound::Descriptors(limit) => Some(format!(
            "the limit on descriptors, {limit}, leaves room for {room} connections only: raise it ({LIMIT_REMEDY})"
        )),
    }
}

/// Shards that accept no connections, according to counters, and the remedy.
pub(super) fn not_accepting(paused: impl Iterator<Item = u64>, remedy: &str) -> Option<NotAccepting> {
    let (mut shards, mut slots) = (0, false);
    for cause in paused.filter(|cause| *cause > 0) {
        shards += 1;
        slots |= cause == PAUSED_SLOTS;
    }
    let why = match slots {
        true => "there is no room for more",
        false => "no descriptors or no memory is left",
    };
    (shards > 0).then(|| NotAccepting { shards, why: why.to_owned(), remedy: remedy.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Flags, load};

    #[test]
    fn what_bounds_connections_is_what_an_operator_is_to_raise() {
        let of = |asked: &str, kind: Kind, descriptors: u64| {
            let flags = Flags::from([("shard_connections_max", vec![asked.to_owned()])]);
            let config = load(&flags, &Environment::new(), None).expect("good").config;
            (bound(&config, kind, 2, descriptors), few(&config, kind, 2, descriptors, 1).is_some())
        };
        let few = |limit| (Bound::Descriptors(limit), true);
        assert_eq!(of("auto", Kind::Uring, 4_096), few(4_096));
        assert_eq!(of("auto", Kind::Epoll, 4_096), few(4_096));
        assert_eq!(of("auto", Kind::Epoll, 30_000), few(30_000));
        assert_eq!(of("auto", Kind::Uring, 30_000), (Bound::Slots, false));
        assert_eq!(of("auto", Kind::Epoll, 1_000_000), (Bound::Slots, false));
        // Several io_uring tables.
        assert_eq!(of("100000", Kind::Uring, 4_096), (Bound::Slots, false));
        assert_eq!(of("100000", Kind::Epoll, 65_536), few(65_536));
        assert_eq!(of("16", Kind::Epoll, 4_096), (Bound::Slots, false));
    }
}
