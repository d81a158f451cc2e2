//! Stalls, in sentences: shards, threads and locks by the places of their threads, syncs by their
//! duration, and clients that do not read by their JIDs. These rules need no recording.

use std::time::Duration;

use crate::admin::wrong::{Weight, Wrong, wrong};
use crate::record::owners::Owed;
use crate::waits::{self, Look, Sort};

/// Most clients that are named.
const CLIENTS_MAX: usize = 10;

/// Everything that stalls. `stuck` are shards that do not turn.
pub(super) fn judge(stuck: &[(usize, Duration)], look: &Look, owed: &[Owed]) -> Vec<Wrong> {
    let mut found: Vec<Wrong> = stuck.iter().map(|(shard, idle)| self::shard(*shard, *idle, look)).collect();
    for lock in waits::locks(look) {
        let weight = if lock.waiters > 0 { Weight::Bad } else { Weight::Warn };
        found.push(wrong(weight, lock.what, lock.text));
    }
    // A shard has its own sentence, and a thread waiting for a lock is part of the lock's sentence.
    let waits_for_lock = |place: waits::Place| place.sort() == Sort::Lock;
    for standing in look.threads.iter().filter(|standing| standing.is_stuck() && !standing.turns) {
        if !standing.place.is_some_and(waits_for_lock) {
            found.push(wrong(Weight::Bad, &*standing.thread, waits::standing(look, standing)));
        }
    }
    found.extend(syncs(look));
    found.extend(clients(owed));
    found.extend(accounts(owed));
    found.extend(rooms(owed));
    found
}

fn shard(shard: usize, idle: Duration, look: &Look) -> Wrong {
    let thread = format!("shard-{shard}");
    let stands = look.thread(&thread).filter(|standing| standing.is_stuck());
    let stands = match stands {
        Some(standing) => format!("{thread} {}", waits::standing(look, standing)),
        None => "`throng ctl profile wait` shows where it is".to_owned(),
    };
    let text = format!("has made no progress for {} s, and all of its users wait: {stands}", idle.as_secs());
    wrong(Weight::Bad, format!("shard {shard}"), text)
}

fn syncs(look: &Look) -> Option<Wrong> {
    let (mean_ms, count) = (look.slow_sync()?.as_millis(), look.syncs.count);
    let text = format!(
        "takes {mean_ms} ms per journal sync, mean of the last {count}: every archived message \
         waits for one"
    );
    Some(wrong(Weight::Bad, "disk", text))
}

/// Clients that do not read, those with the longest backlog first.
fn clients(owed: &[Owed]) -> Vec<Wrong> {
    let bytes = |owed: &&Owed| if let Owed::Connection { bytes, .. } = owed { *bytes } else { 0 };
    let mut longest: Vec<&Owed> = owed.iter().collect();
    longest.sort_by_key(|owed| std::cmp::Reverse(bytes(owed)));
    let sentence = |owed: &Owed| {
        let helps = "`throng ctl queue flush` cuts it, and its messages wait in the log";
        Some(wrong(Weight::Warn, owed.jid(), format!("{}. {helps}", owed.unread()?)))
    };
    longest.into_iter().filter_map(sentence).take(CLIENTS_MAX).collect()
}

/// Accounts that exceed their send rate, the most often paused first.
fn accounts(owed: &[Owed]) -> Vec<Wrong> {
    let times = |owed: &&Owed| if let Owed::Account { times, .. } = owed { *times } else { 0 };
    let mut busiest: Vec<&Owed> = owed.iter().collect();
    busiest.sort_by_key(|owed| std::cmp::Reverse(times(owed)));
    let sentence = |owed: &Owed| {
        let helps = "`throng user show` says more, and `throng user suspend` ends it";
        Some(wrong(Weight::Warn, owed.jid(), format!("{}; {helps}", owed.busy()?)))
    };
    busiest.into_iter().filter_map(sentence).take(CLIENTS_MAX).collect()
}

/// Rooms with long queues.
fn rooms(owed: &[Owed]) -> Vec<Wrong> {
    let sentence = |owed: &Owed| {
        let helps = "the store answers slowly, or the room is flooded: `throng room show` says more, and `throng room close` \
                     keeps strangers out";
        Some(wrong(Weight::Warn, owed.jid(), format!("{}; {helps}", owed.crowded()?)))
    };
    owed.iter().filter_map(sentence).take(CLIENTS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::{Place, Standing};

    fn thread(name: &str, place: Option<Place>, seconds: u64) -> Standing {
        let turns = name.starts_with("shard");
        Standing {
            thread: name.into(),
            tid: i32::MAX,
            place,
            since: Duration::from_secs(seconds),
            turns,
            holds: Vec::new(),
        }
    }

    fn told(stuck: &[(usize, Duration)], look: &Look, owed: &[Owed]) -> Vec<String> {
        judge(stuck, look, owed).into_iter().map(|wrong| format!("{} {}", wrong.what, wrong.text)).collect()
    }

    #[test]
    fn each_stall_is_named_once_with_where_it_stands() {
        let mut holder = thread("plant", None, 9);
        holder.holds.push((Place::LockKnobs, Duration::from_secs(9)));
        let threads = vec![
            thread("shard-1", None, 8),
            holder,
            thread("admin", Some(Place::LockKnobs), 7),
            thread("http", None, 60),
        ];
        let mut look = Look { threads, ..Look::default() };
        (look.syncs.count, look.syncs.total) = (4, Duration::from_millis(812));
        let told = told(&[(1, Duration::from_secs(9))], &look, &[]);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0].starts_with(
                "shard 1 has made no progress for 9 s, and all of its users wait: shard-1 has been \
                 at no"
            ),
            "{told:?}"
        );
        assert!(told[1].starts_with("lock knobs has been held by `plant` for 9 s"), "{told:?}");
        assert!(told[1].ends_with("; waiting for up to 7 s: `admin`"), "{told:?}");
        assert!(told[2].starts_with("disk takes 203 ms per journal sync, mean of the last 4"), "{told:?}");
    }

    #[test]
    fn accounts_that_send_too_fast_are_named_the_busiest_first() {
        let busy = |jid: &str, times| Owed::Account { jid: jid.into(), times, since_s: 34 };
        let told = told(&[], &Look::default(), &[busy("a@x", 3), busy("b@x", 120)]);
        assert_eq!(told.len(), 2, "{told:?}");
        let sentence = "b@x exceeds the rate of an account (account_stanzas_per_second) and is \
                        throttled: 120 times in 34 s; `throng user show`";
        assert!(told[0].starts_with(sentence) && told[1].starts_with("a@x exceeds"), "{told:?}");
    }

    #[test]
    fn a_room_whose_stanzas_wait_is_named() {
        let crowded = |jid: &str, stanzas| Owed::Room { jid: jid.into(), stanzas };
        let told = told(&[], &Look::default(), &[crowded("cave@x", 10_000), crowded("hall@x", 1_200)]);
        assert!(told[0].starts_with("cave@x refuses stanzas: 10000 wait for the store, which is as many"), "{told:?}");
        assert!(told[1].starts_with("hall@x is behind: 1200 stanzas wait for the store; "), "{told:?}");
    }

    #[test]
    fn a_client_that_does_not_read_is_named_and_waiting_messages_are_not() {
        let deaf = |jid: &str, bytes, stalled_s| Owed::Connection {
            shard: 1,
            jid: jid.into(),
            peer: Some("192.0.2.1:5".into()),
            bytes,
            sent_bytes: 0,
            stalled_s,
        };
        let owed =
            [deaf("a@x/1", 40 << 10, 0), deaf("b@x/1", 70 << 10, 12), Owed::Waiting { jid: "c@x".into(), messages: 9 }];
        let told = told(&[], &Look::default(), &owed);
        assert_eq!(told.len(), 2, "{told:?}");
        let deaf = "b@x/1 does not read: 70 KiB wait for it in shard 1, and it (192.0.2.1:5) has \
                    read nothing for 12 s";
        assert!(told[0].starts_with(deaf), "{told:?}");
        assert!(told[1].starts_with("a@x/1 reads slowly: 40 KiB wait for it (192.0.2.1:5) in shard 1"), "{told:?}");
    }
}
