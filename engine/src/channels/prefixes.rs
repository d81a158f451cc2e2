//! Prefixes that requests of this shard subscribe to: the feed positions of each request, and the
//! number of prefixes per address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::channels::Channels;
use crate::channels::access::Admission;
use crate::id::ShardId;
use crate::limits::{NOTIFY_FEEDS_PER_REQUEST_MAX, NOTIFY_PREFIXES_MAX, NOTIFY_PREFIXES_PER_ADDRESS_MAX};
use crate::streams::Streams;
use crate::web::access::Act;
use crate::web::dialect::asked::{After, Place as Asked};
use crate::web::dialect::places::{Place, Places, prefixes};
use crate::web::feed_names::FeedName;
use crate::web::prefix;
use crate::web::response::Response;
use crate::web::status::Status;

/// The subscribed prefixes.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// The number of requests per address and prefix.
    by: BTreeMap<(IpAddr, Box<str>), u32>,
    /// The number of addresses per prefix.
    all: BTreeMap<Box<str>, u32>,
}

impl Prefixes {
    /// Memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.by.len() + self.all.len()) * (size_of::<(IpAddr, Box<str>)>() + 64)
    }

    /// Whether an address may subscribe to these prefixes in addition to those that it has.
    fn has_room<'a>(&self, network: IpAddr, prefixes: impl Iterator<Item = &'a str>) -> Result<(), Response> {
        let own = self.by.range((network, Box::<str>::default())..).take_while(|((of, _), _)| *of == network);
        let (mut own, mut all) = (own.take(NOTIFY_PREFIXES_PER_ADDRESS_MAX).count(), self.all.len());
        for prefix in prefixes {
            own += usize::from(!self.by.contains_key(&(network, Box::<str>::from(prefix))));
            all += usize::from(!self.all.contains_key(prefix));
        }
        let (status, text) = if own > NOTIFY_PREFIXES_PER_ADDRESS_MAX {
            (Status::TooManyRequests, "this address subscribes to too many prefixes; end some subscriptions")
        } else if all > NOTIFY_PREFIXES_MAX {
            (Status::ServiceUnavailable, "the server has too many subscriptions to prefixes; try again later")
        } else {
            return Ok(());
        };
        Err(Response::text(status, text).with("Retry-After", "10"))
    }

    /// Counts the prefixes of a request.
    pub(super) fn begin(&mut self, network: IpAddr, places: &[Place]) {
        for prefix in prefixes(places) {
            let count = self.by.entry((network, prefix.into())).or_default();
            *count += 1;
            if *count == 1 {
                *self.all.entry(prefix.into()).or_default() += 1;
            }
        }
    }

    /// Removes the prefixes of a request.
    pub(super) fn end(&mut self, network: IpAddr, places: &[Place]) {
        for prefix in prefixes(places) {
            let key = (network, Box::<str>::from(prefix));
            let Some(count) = self.by.get_mut(&key) else { continue };
            *count -= 1;
            if *count > 0 {
                continue;
            }
            self.by.remove(&key);
            if let Some(count) = self.all.get_mut(prefix) {
                *count -= 1;
                if *count == 0 {
                    self.all.remove(prefix);
                }
            }
        }
    }
}

impl Channels {
    /// Checks whether an address may subscribe to the requested prefixes.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn may_follow(&self, cx: &Streams, network: IpAddr, channels: &[Asked]) -> Result<(), Response> {
        let feed = |asked: &Asked| prefix::of(&asked.channel).map(|begins| format!("{}*", prefix::within(begins)));
        let feeds: Vec<_> = channels.iter().filter_map(feed).collect();
        let asked = || feeds.iter().map(String::as_str);
        let (count, shards) = (asked().count(), usize::from(cx.kernel.settings.shards()));
        if count > 1 && count * shards > NOTIFY_FEEDS_PER_REQUEST_MAX {
            let text = "the request has too many prefixes for a server with this many threads; use several requests";
            return Err(Response::text(Status::BadRequest, text));
        }
        self.listeners.prefixes.has_room(network, asked())
    }

    /// Returns the initial positions of a request: one for a channel, and one per shard for a
    /// prefix. For a request that `selects`, each item's channel is later checked against the
    /// token.
    pub(super) fn places_of(
        &self,
        cx: &Streams,
        service: &str,
        channels: &[Asked],
        admission: &Admission,
        selects: bool,
    ) -> Places {
        let mut places = Vec::with_capacity(channels.len());
        for asked in channels {
            let Some(begins) = prefix::of(&asked.channel) else {
                let number = if let After::Number(number) = asked.after { Some(number) } else { None };
                let node = self.listeners.name(&format!("{service}/{}", asked.channel));
                places.push(Place::at(node, number.unwrap_or_default(), number.is_some()));
                continue;
            };
            let policy = &cx.kernel.settings.web.channels;
            let granted = admission.grant.as_ref().is_some_and(|grant| grant.covers(Act::Subscribe, &asked.channel));
            // The authorization service was asked about the whole prefix.
            let permitted = admission.permit.is_some() && policy.asks(&asked.channel);
            let in_part = selects && admission.grant.is_some();
            let all = (granted || permitted || in_part) && policy.has_private(begins);
            let (shards, prefix) = (cx.kernel.settings.shards(), prefix::within(begins));
            // A position with another number of homes is not usable.
            let number = |shard: u16| match &asked.after {
                After::Now => u64::MAX,
                After::Numbers(numbers) if numbers.len() == usize::from(shards) => numbers[usize::from(shard)],
                After::Among(of_all, numbers) if *of_all == all && numbers.len() == usize::from(shards) => {
                    numbers[usize::from(shard)]
                }
                // No feed has such a number, so the result is a gap, and nothing is delivered
                // twice.
                After::Among(..) => u64::MAX - 1,
                After::Number(_) | After::Numbers(_) => 0,
            };
            places.extend((0..shards).map(|shard| {
                let name = FeedName { home: ShardId(shard), all, prefix }.write();
                // The home first reports whether it knows the position.
                Place::at(self.listeners.name(&name), number(shard), false)
            }));
        }
        places.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(prefixes: &[&str]) -> Vec<Place> {
        let name = |home, prefix| FeedName { home: ShardId(home), all: false, prefix }.write();
        let of_all = prefixes.iter().flat_map(|prefix| [name(0, prefix), name(1, prefix)]);
        of_all.chain(["pubsub.x/a.*".into()]).map(|node| Place::at(node.into(), 0, false)).collect()
    }

    #[test]
    fn an_address_waits_for_so_many_prefixes_however_often() {
        let (mut all, one, other) = (Prefixes::default(), [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let names: Vec<String> = (0..NOTIFY_PREFIXES_PER_ADDRESS_MAX).map(|number| format!("{number}.")).collect();
        let may = |all: &Prefixes, network: IpAddr, name: &str| all.has_room(network, [name].into_iter()).is_ok();
        for name in &names {
            let asked = format!("{name}*");
            for _ in 0..3 {
                assert!(may(&all, one, &asked));
                all.begin(one, &places(&[name]));
            }
        }
        assert!(!may(&all, one, "x.*") && may(&all, one, "0.*") && may(&all, other, "x.*"));
        assert!(all.has_room(other, ["x.*"; NOTIFY_PREFIXES_PER_ADDRESS_MAX + 1].into_iter()).is_err());
        assert_eq!(all.all.len(), NOTIFY_PREFIXES_PER_ADDRESS_MAX);
        for name in &names {
            all.begin(other, &places(&[name]));
            (0..3).for_each(|_| all.end(one, &places(&[name])));
        }
        assert!(may(&all, one, "x.*") && all.all.len() == names.len());
        names.iter().for_each(|name| all.end(other, &places(&[name])));
        assert!(all.by.is_empty() && all.all.is_empty());
    }

    #[test]
    fn a_shard_has_so_many_prefixes() {
        let mut all = Prefixes::default();
        for number in 0..NOTIFY_PREFIXES_MAX {
            let network = IpAddr::from([10, 0, (number / 256) as u8, (number % 256) as u8]);
            all.begin(network, &places(&[&format!("{number}.")]));
        }
        let refused = |name: &str| all.has_room([192, 0, 2, 1].into(), [name].into_iter()).err().map(|no| no.status);
        assert_eq!((refused("x.*"), refused("7.*")), (Some(Status::ServiceUnavailable), None));
    }
}
