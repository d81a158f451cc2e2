//! Subscribers: their requests, the received items, and whether each item of their channels arrives
//! once and in order.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::place::{Arrival, Place};
use super::scenario::By;
use super::wire::{self, Fault, Frame, Gap, Item, Items, NONCE, PROOF};
use super::{ARRIVED, Fairness, STREAMS, State, World};
use crate::delivery::{Body, Stamp};

impl World {
    fn each(&self) -> usize {
        self.plan.scenario.channels_each as usize
    }

    /// A channel of a subscriber.
    fn channel_of(&self, client: u32, index: usize) -> u32 {
        let number = u64::from(self.plan.subscribers.0 + client - self.plan.publishers.1);
        let scenario = &self.plan.scenario;
        let at = number * u64::from(scenario.channels_each) + index as u64;
        (at % u64::from(scenario.channels)) as u32
    }

    /// Where the places of a subscriber are.
    fn places_of(&self, client: u32) -> std::ops::Range<usize> {
        let start = (client - self.plan.publishers.1) as usize * self.each();
        start..start + self.each()
    }

    /// Whether it is known from where on a client's items count.
    pub(super) fn may_begin(&self, client: u32) -> bool {
        let is_known = |index| {
            let channel = self.channel_of(client, index) as usize;
            self.plan.shared.channels[channel].base.load(Ordering::Acquire) > 0
        };
        self.is_publisher(client) || self.plan.scenario.publishers == 0 || (0..self.each()).all(is_known)
    }

    pub(super) fn subscriber_connected(&mut self, client: u32) {
        if !self.conn(client).has(ARRIVED) {
            let (range, shared) = (self.places_of(client), self.plan.shared.clone());
            for index in 0..self.each() {
                let base = shared.channels[self.channel_of(client, index) as usize].base.load(Ordering::Acquire);
                self.places[range.start + index] = Place::behind(base.saturating_sub(1));
            }
        }
        self.ask(client);
        // Nobody says that a poll waits.
        if self.conn(client).by == By::Poll {
            self.waits(client);
        }
    }

    fn waits(&mut self, client: u32) {
        self.stands(client);
        self.arrives(client);
        let due = self.tick_in(self.silence_s(client));
        self.set_timer(client, due);
    }

    /// How long it may hear nothing.
    fn silence_s(&self, client: u32) -> f64 {
        let scenario = &self.plan.scenario;
        let polls = self.conns[client as usize].by == By::Poll;
        scenario.silence_s + if polls { f64::from(scenario.wait_s) } else { 0.0 }
    }

    /// Whether a connection still says something.
    pub(super) fn watch(&mut self, client: u32) {
        let silence_s = self.silence_s(client);
        let silent_s = f64::from(self.now_ms().saturating_sub(self.conn(client).since_ms)) / 1000.0;
        if silent_s >= silence_s {
            return self.broke(client, "connection: no sign of life", None);
        }
        let due = self.tick_in(silence_s - silent_s);
        self.set_timer(client, due);
    }

    fn ask(&mut self, client: u32) {
        let scenario = self.plan.scenario.clone();
        let (mut names, mut after) = (String::new(), String::new());
        for (index, place) in self.places_of(client).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(names, "{comma}{}{}", scenario.prefix, self.channel_of(client, index));
            let _ = write!(after, "{comma}{}", self.places[place].after);
        }
        let (wait, fields) = match self.conn(client).by {
            By::Poll => (format!("&wait={}", scenario.wait_s), String::new()),
            By::Events => (String::new(), "Accept: text/event-stream\r\n".into()),
            By::WebSocket => {
                let fields = format!(
                    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {NONCE}\r\n"
                );
                (String::new(), fields)
            }
        };
        let request = format!("GET /n/{names}?after={after}{wait} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", scenario.to);
        self.output(client).extend_from_slice(request.as_bytes());
    }

    pub(super) fn subscriber_step(&mut self, client: u32, bytes: &[u8]) -> Result<usize, Fault> {
        let (by, streams) = (self.conn(client).by, self.conn(client).has(STREAMS));
        match by {
            By::Poll => self.poll_answered(client, bytes),
            By::Events if streams => self.event_came(client, bytes),
            By::WebSocket if streams => self.frame_came(client, bytes),
            By::Events | By::WebSocket => self.stream_begins(client, bytes),
        }
    }

    fn stream_begins(&mut self, client: u32, bytes: &[u8]) -> Result<usize, Fault> {
        let Some(head) = wire::head(bytes)? else { return Ok(0) };
        let wanted = match self.conn(client).by {
            By::WebSocket => 101,
            _ => 200,
        };
        if head.status != wanted {
            let Some(body) = World::refusal(bytes, &head) else { return Ok(0) };
            self.refused(client, "a subscription", &head, body);
            return Ok(bytes.len());
        }
        match self.conn(client).by {
            By::WebSocket if head.accept != Some(PROOF) => {
                return Err("websocket: a handshake without a valid Sec-WebSocket-Accept");
            }
            By::Events if !head.kind.is_some_and(|kind| kind.starts_with("text/event-stream")) => {
                return Err("events: an answer of another type");
            }
            _ => {}
        }
        self.conn(client).flags |= STREAMS;
        self.waits(client);
        Ok(head.bytes)
    }

    fn poll_answered(&mut self, client: u32, bytes: &[u8]) -> Result<usize, Fault> {
        let Some((head, body)) = wire::answer(bytes)? else { return Ok(0) };
        match head.status {
            200 => self.items_came(client, body)?,
            204 => self.stands_at(client, head.next_after.ok_or("poll: no place to continue from")?)?,
            _ => {
                self.refused(client, "a subscription", &head, body);
                return Ok(head.bytes + body.len());
            }
        }
        self.arrives(client);
        if head.closes {
            self.again(client)
        } else {
            self.ask(client)
        }
        Ok(head.bytes + body.len())
    }

    fn event_came(&mut self, client: u32, bytes: &[u8]) -> Result<usize, Fault> {
        let Some((event, used)) = wire::event(bytes)? else { return Ok(0) };
        match event.name {
            "" if event.data.is_empty() => {}
            "" => {
                let item: Item<'_> = wire::json(event.data.as_bytes()).ok_or("events: an item that cannot be read")?;
                self.item_came(client, &item);
            }
            "gap" => {
                let gap: Gap<'_> = wire::json(event.data.as_bytes()).ok_or("events: a gap that cannot be read")?;
                self.gap_came(client, &gap.channel);
            }
            "expired" => return Err("events: the token has expired"),
            _ => return Err("events: an event of unknown type"),
        }
        if let Some(id) = event.id {
            self.stands_at(client, id)?;
        }
        Ok(used)
    }

    fn frame_came(&mut self, client: u32, bytes: &[u8]) -> Result<usize, Fault> {
        let Some((frame, used)) = wire::frame(bytes)? else { return Ok(0) };
        match frame {
            Frame::Text(text) => self.items_came(client, text)?,
            Frame::Ping(content) => wire::write_control(self.output(client), 10, content),
            Frame::Pong => {}
            Frame::Close(code) => {
                let kind = format!("websocket: closed by the server with {}", code.unwrap_or(1005));
                self.broke(client, &kind, None);
            }
        }
        Ok(used)
    }

    fn items_came(&mut self, client: u32, json: &[u8]) -> Result<(), Fault> {
        let items: Items<'_> = wire::json(json).ok_or("items that cannot be read")?;
        items.gaps.iter().for_each(|channel| self.gap_came(client, channel));
        items.items.iter().for_each(|item| self.item_came(client, item));
        self.stands_at(client, &items.after)
    }

    /// The server says from where to continue.
    fn stands_at(&mut self, client: u32, position: &str) -> Result<(), Fault> {
        let range = self.places_of(client);
        let mut numbers = position.split(',').map(str::parse::<u64>);
        for place in &mut self.places[range] {
            match numbers.next() {
                Some(Ok(number)) => place.after = number,
                _ => return Err("a place to continue from that cannot be read"),
            }
        }
        if numbers.next().is_some() { Err("a place to continue from that cannot be read") } else { Ok(()) }
    }

    /// The number of a channel of this client, and its place, by the channel's name.
    fn find(&self, client: u32, name: &str) -> Option<(u32, usize)> {
        let channel = name.strip_prefix(&*self.plan.scenario.prefix)?.parse().ok()?;
        let index = (0..self.each()).find(|index| self.channel_of(client, *index) == channel)?;
        Some((channel, self.places_of(client).start + index))
    }

    fn gap_came(&mut self, client: u32, channel: &str) {
        match self.find(client, channel) {
            Some((_, place)) => {
                self.places[place].gap();
                self.tally.counters.gaps += 1;
            }
            None => self.tally.counters.unknown += 1,
        }
    }

    fn item_came(&mut self, client: u32, item: &Item<'_>) {
        let found = self.find(client, &item.channel);
        let counters = &mut self.tally.counters;
        let Some((channel, place)) = found else {
            counters.unknown += 1;
            return;
        };
        let stamp = match Stamp::read(wire::content(&item.data)) {
            Body::Whole(stamp) if stamp.run == self.plan.shared.run => stamp,
            Body::Whole(_) | Body::Foreign => {
                counters.foreign += 1;
                return;
            }
            Body::Corrupted => {
                counters.corrupted += 1;
                return;
            }
        };
        if stamp.pair != channel
            || stamp.number > self.plan.shared.channels[channel as usize].sent.load(Ordering::Acquire)
        {
            counters.unknown += 1;
            return;
        }
        let place = &mut self.places[place];
        // The one behind which the run begins was not asked for.
        let arrival = if stamp.number == 0 { Arrival::Duplicate } else { place.arrived(stamp.number) };
        match arrival {
            Arrival::Duplicate => {
                counters.duplicates += 1;
                return;
            }
            Arrival::Reordered => counters.reordered += 1,
            Arrival::Next { lost, gapped } => {
                counters.lost += u64::from(lost);
                counters.gapped += u64::from(gapped);
                // The server's numbers grow as well.
                match item.id.parse() {
                    Ok(number) if number > place.after => place.after = number,
                    _ => counters.corrupted += 1,
                }
            }
        }
        counters.received += 1;
        let took_ns = self.now_ns.saturating_sub(stamp.sent_ns);
        let late_ms = self.plan.scenario.late_ms;
        counters.late += u64::from(late_ms > 0.0 && took_ns as f64 > late_ms * 1e6);
        self.tally.latency.record(took_ns / 1000);
    }

    /// Resets the connections whose turn it is.
    pub(super) fn flap(&mut self) {
        let scenario = &self.plan.scenario;
        let share = f64::from(self.plan.subscribers.1) / f64::from(scenario.subscribers.max(1));
        let (per_s, away_s) = (scenario.flap_per_s * share, scenario.flap_s);
        while self.flaps.due(self.now_ns, per_s).is_some() && self.plan.subscribers.1 > 0 {
            let client = self.plan.publishers.1 + self.random.below(self.plan.subscribers.1);
            if self.conn(client).state == State::Up {
                let back = self.tick_in(away_s);
                self.close(client, back);
            }
        }
    }

    /// Items that were confirmed and have not come to those who subscribed.
    fn missing(&self, client: u32) -> (u64, u64) {
        let (mut missing, mut gapped) = (0, 0);
        for (index, place) in self.places_of(client).enumerate() {
            let channel = &self.plan.shared.channels[self.channel_of(client, index) as usize];
            let (some, of_these) = self.places[place].outstanding(channel.confirmed.load(Ordering::Acquire));
            missing += u64::from(some);
            gapped += u64::from(of_these);
        }
        (missing, gapped)
    }

    fn arrived_subscribers(&self) -> impl Iterator<Item = u32> + use<'_> {
        let all = self.plan.publishers.1..self.clients();
        all.filter(|client| self.conns[*client as usize].has(ARRIVED))
    }

    /// What may still come.
    pub(super) fn outstanding(&self) -> u64 {
        self.unanswered() + self.arrived_subscribers().map(|client| self.missing(client).0).sum::<u64>()
    }

    /// The end: missing items are final. Disconnected subscribers would receive theirs after
    /// returning, which is not observed.
    pub(super) fn settle(&mut self) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        let (mut lost, mut unsure, mut covered) = (0, 0, 0);
        for client in self.arrived_subscribers() {
            let (missing, gapped) = self.missing(client);
            covered += gapped;
            let is_up = self.conns[client as usize].state == State::Up;
            *(if is_up { &mut lost } else { &mut unsure }) += missing - gapped;
        }
        let counters = &mut self.tally.counters;
        (counters.lost, counters.unsure) = (counters.lost + lost, counters.unsure + unsure);
        counters.gapped += covered;
    }

    /// How evenly subscribers were served in the hold, once that is due.
    pub(super) fn judge_fairness(&mut self, now_ns: u64) {
        let Some((_, due)) = self.judges.take_if(|(at_ns, _)| *at_ns <= now_ns) else { return };
        let mut own = Fairness::default();
        for client in self.arrived_subscribers() {
            let (mut received, mut of) = (0, 0);
            for (index, place) in self.places_of(client).enumerate() {
                let (place, confirmed) = (&self.places[place], due[self.channel_of(client, index) as usize]);
                // What came later is no more than all.
                received += u64::from(place.seen().min(confirmed)).saturating_sub(u64::from(place.holes()));
                of += u64::from(confirmed);
            }
            if of > 0 {
                own.count(received, of);
            }
        }
        let mut all = self.plan.shared.fairness.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.add(&own);
    }
}

#[cfg(test)]
mod tests {
    use super::{NONCE, PROOF};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    /// RFC 6455 4.2.2, point 5.4.
    #[test]
    fn the_proof_of_a_handshake_is_that_of_the_nonce() {
        let text = format!("{NONCE}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        assert_eq!(STANDARD.encode(digest.as_ref()), PROOF);
    }
}
