//! A receiver that never reads while a great deal is sent to it: nothing that was acknowledged and not refused is lost.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Login, Said};
use crate::server::Server;
use crate::swarm::{News, Swarm};

/// Bytes of a message's body.
const BODY: usize = 100_000;
/// Messages unacknowledged.
const WINDOW: u32 = 20;

/// What came of it.
pub(super) struct Verdict {
    pub(super) good: bool,
    /// Most anonymous memory of the server meanwhile, bytes.
    pub(super) highest: u64,
    pub(super) value: Value,
}

/// Sends `bytes` to the one who does not read, then lets it log in again and read.
pub(super) fn run(server: &Server, bytes: u64) -> io::Result<Verdict> {
    let mut swarm = Swarm::new()?;
    let login = |name: &str, resource: &str, available| Login {
        name: name.into(),
        resource: resource.into(),
        managed: true,
        available,
    };
    let indices = swarm.log_in(server.plain, vec![login("loud", "l", false), login("deaf", "before", true)], 1)?;
    let (loud, deaf) = (indices[0], indices[1]);
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        swarm.turn(Duration::from_millis(50), &mut |_, _| {})?;
    }
    swarm.set_deaf(deaf, true);
    let count = (bytes / BODY as u64) as u32;
    let (text, started) = ("d".repeat(BODY), Instant::now());
    let (mut sent, mut acked, mut refused, mut ended) = (0u32, 0u32, BTreeSet::new(), None);
    let mut others = BTreeSet::new();
    let mut highest = server.memory()?.anonymous;
    let mut looked = Instant::now();
    while acked < count && ended.is_none() && started.elapsed() < Duration::from_secs(240) {
        if sent < count && sent - acked < WINDOW && swarm.waiting(loud) == 0 {
            let message =
                format!("<message to='deaf@localhost' type='chat' id='{sent}'><body>{sent}.{text}</body></message>");
            swarm.say(loud, &(message + "<r xmlns='urn:xmpp:sm:3'/>"));
            sent += 1;
        }
        let wait = if sent - acked < WINDOW && sent < count { Duration::ZERO } else { Duration::from_millis(20) };
        swarm.turn(wait, &mut |index, news| match news {
            News::Said(Said::Handled(h)) if index == loud => acked = h,
            News::Said(Said::Message { error: Some(why), id, .. }) if index == loud => {
                refused.extend(id.parse::<u32>());
                others.insert(why);
            }
            News::Said(Said::StreamError(why)) if index == loud => ended = Some(why),
            News::Closed if index == loud => ended = Some("closed".into()),
            _ => {}
        })?;
        if looked.elapsed() > Duration::from_millis(200) {
            highest = highest.max(server.memory()?.anonymous);
            looked = Instant::now();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let accepted: BTreeSet<u32> = (0..acked).filter(|number| !refused.contains(number)).collect();
    // It goes as it came: without a word. What its first session never acknowledged waits for the next one.
    swarm.forget(deaf);
    let came = collect(server, login("deaf", "later", true), &accepted)?;
    let missing = accepted.difference(&came).count();
    let good =
        acked == count && missing == 0 && ended.is_none() && others.iter().all(|why| why == "service-unavailable");
    let value = json!({
        "bytes_sent": u64::from(sent) * BODY as u64, "messages": sent, "acknowledged": acked, "refused": refused.len(),
        "refused_with": others, "accepted": accepted.len(), "accepted_and_missing": missing, "seconds": seconds,
        "sender_ended": ended, "highest_anonymous_bytes": highest,
    });
    Ok(Verdict { good, highest, value })
}

/// A new session of the receiver reads all that waits.
fn collect(server: &Server, login: Login, wanted: &BTreeSet<u32>) -> io::Result<BTreeSet<u32>> {
    let mut swarm = Swarm::new()?;
    swarm.add(server.plain, login)?;
    let (mut came, mut last) = (BTreeSet::new(), Instant::now());
    while !wanted.is_subset(&came) && last.elapsed() < Duration::from_secs(15) {
        let count = swarm.turn(Duration::from_millis(100), &mut |_, news| {
            if let News::Said(Said::Message { body, error: None, .. }) = news {
                came.extend(body.split('.').next().and_then(|number| number.parse::<u32>().ok()));
            }
        })?;
        if count > 0 {
            last = Instant::now();
        }
    }
    Ok(came)
}
