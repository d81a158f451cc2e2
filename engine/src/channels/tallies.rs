//! Counters of channels (`/n/`, Mercure) for operators: waiting requests by kind of delivery,
//! deliveries, and refusals.

use crate::channels::Channels;
use crate::channels::listener::{Kind, Listener};
use crate::counters::Counter;
use crate::follow::Page;
use crate::streams::Streams;
use crate::web::access::Act;
use crate::web::dialect::Way;
use crate::web::head::{Head, Method};
use crate::web::status::Status;
use crate::web::table;

impl Channels {
    /// Updates the number of waiting requests.
    pub(crate) fn tally_listeners(&self, cx: &Streams) {
        let counters = &cx.kernel.counters;
        counters.notify_waiting.set(self.listeners.len() as u64);
        counters.notify_held_bytes.set(self.listeners.held_bytes() as u64);
        for (way, gauge) in [
            (Way::Poll, &counters.notify_polls),
            (Way::Events, &counters.notify_events),
            (Way::Socket, &counters.notify_sockets),
        ] {
            gauge.set(self.listeners.by_way(way) as u64);
        }
    }

    /// Counts the delivery of a home's answer.
    pub(super) fn tally_page(&self, cx: &Streams, page: &Page<'_>) {
        cx.kernel.counters.notify_told.add(page.items.len() as u64);
        cx.kernel.counters.notify_gaps.add(u64::from(page.gap));
    }

    /// Counts the response to a waiting request, or the end of a stream.
    pub(super) fn tally_answer(&self, cx: &Streams, listener: &Listener, status: Status) {
        let counters = &cx.kernel.counters;
        if !status.is_refusal() {
            return;
        }
        match &listener.kind {
            Kind::Publish(..) => counters.notify_publish_refused.one(),
            Kind::Held(held) if held.asked.wish.act() == Act::Publish => counters.notify_publish_refused.one(),
            _ if listener.has_begun() => counters.notify_ended.one(),
            _ => counters.notify_subscribe_refused.one(),
        }
    }

    /// Counts a request that was refused without waiting.
    pub(crate) fn tally_refused(&self, cx: &Streams, head: &Head<'_>) {
        let policy = &cx.kernel.settings.web.channels;
        if policy.any() && table::is_of_channels(head.path) {
            self.refused_of(cx, head.method).into_iter().for_each(Counter::one);
        }
    }

    fn refused_of<'a>(&self, cx: &'a Streams, method: Method) -> Option<&'a Counter> {
        match method {
            Method::Post | Method::Put | Method::Delete => Some(&cx.kernel.counters.notify_publish_refused),
            Method::Get | Method::Head => Some(&cx.kernel.counters.notify_subscribe_refused),
            _ => None,
        }
    }
}
