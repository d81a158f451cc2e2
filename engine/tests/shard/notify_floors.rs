//! Numbers of a channel are never reused for other items: after the channel was deleted and created
//! anew, and after its store was restored from a backup. Readers with an old position learn that
//! items are missing, in the terms of their protocol.

use throng_engine::id::partition;
use throng_engine::store::floors::{Floor, Scope};
use throng_engine::store::{Batch, Table};
use throng_engine::web::policy::Channels;
use throng_sim::disk::Disk;

use crate::notify_places::{ALL, By, Client, all, deletes, deletes_node};
use crate::notify_world::{Desk, TOKEN, settings};

/// Channels with items on disk, and in memory.
fn both() -> [Channels; 2] {
    [all(), Channels { in_memory: ["".into()].into(), ..all() }]
}

/// The number of the published item.
fn publishes(desk: &mut Desk, channel: &str, body: &str) -> u64 {
    let heard = desk.publish(channel, body);
    let id = heard.body().split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next());
    id.and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{}", heard.text))
}

fn publish_all(desk: &mut Desk, word: &str, count: u64) {
    for number in 1..=count {
        publishes(desk, "a", &format!("{word}{number}"));
    }
}

/// The client returns and receives the gap, then all of these items. A client of Centrifugo's
/// protocol receives none of the earlier ones.
fn catches_up(desk: &mut Desk, client: &mut Client, by: By, items: &[String]) {
    client.comes(desk);
    assert!(client.knows_of_a_gap(), "{by:?}: {}", client.heard);
    if by == By::Centrifugo {
        return;
    }
    if by == By::NchanPoll {
        // One message per answer, including those before the gap.
        (0..9).for_each(|_| client.comes(desk));
    }
    for item in items {
        assert!(client.heard.contains(item), "{by:?}, {item}: {}", client.heard);
    }
}

/// A client that has caught up receives the next items, and no gap.
fn goes_on(desk: &mut Desk, client: &mut Client, by: By) {
    client.goes(desk);
    publishes(desk, "a", "later");
    client.comes(desk);
    assert!(client.heard.contains("later"), "{by:?}: {}", client.heard);
    let words = ["\"gaps\":[\"a\"]", "event: gap", "earliest", "\"recovered\":false", "are missing here"];
    assert!(words.iter().all(|word| !client.heard.contains(word)), "{by:?}: {}", client.heard);
}

fn floors(disk: &Disk) -> Vec<(Vec<u8>, Floor)> {
    let rows = disk.rows_of(Table::Meta, "").filter(|(sort, _)| sort.starts_with(b"node-floor/"));
    rows.map(|(sort, row)| (sort.to_vec(), Floor::decode(row).expect("a floor"))).collect()
}

/// Restores a backup of a desk's store: the floor of all nodes depends on the time, as for `throng
/// store restore`.
fn restored(mut backup: Disk, channels: Channels) -> Desk {
    let mut batch = Batch::new();
    Floor::default().raised(1_800_000_000).put(&mut batch, Scope::Store);
    backup.apply(&batch);
    let mut desk = Desk::of(settings(1, channels));
    desk.host.disk = backup;
    desk
}

/// The new channel has more items than the old one, so that all old positions are below its last
/// number.
#[test]
fn a_reader_with_a_place_of_a_deleted_channel_hears_of_a_gap_and_then_of_all_new_items() {
    for channels in both() {
        for by in ALL {
            for place in [3, 5] {
                let mut desk = Desk::of(settings(1, channels.clone()));
                publish_all(&mut desk, "old", 5);
                let mut client = Client::at(&mut desk, by, place);
                deletes(&mut desk);
                publish_all(&mut desk, "new", 7);
                let new: Vec<_> = (1..=7).map(|number| format!("new{number}")).collect();
                catches_up(&mut desk, &mut client, by, &new);
                assert!(!client.heard.contains("old"), "{by:?}: {}", client.heard);
                goes_on(&mut desk, &mut client, by);
            }
        }
    }
}

/// While the channel does not exist, readers receive the gap, once.
#[test]
fn a_reader_that_comes_before_a_deleted_channel_is_made_anew_misses_nothing_of_it() {
    for by in ALL {
        let mut desk = Desk::of(settings(1, all()));
        publish_all(&mut desk, "old", 5);
        let mut client = Client::at(&mut desk, by, 5);
        deletes(&mut desk);
        client.comes(&mut desk);
        assert!(client.knows_of_a_gap(), "{by:?}: {}", client.heard);
        client.goes(&mut desk);
        publish_all(&mut desk, "new", 7);
        client.comes(&mut desk);
        if by == By::NchanPoll {
            (0..6).for_each(|_| client.comes(&mut desk));
        }
        (1..=7).for_each(|number| {
            assert!(client.heard.contains(&format!("new{number}")), "{by:?}, {number}: {}", client.heard);
        });
        // A WebSocket of Nchan's protocol has no position before the first message.
        assert!(by == By::NchanSocket || !client.knows_of_a_gap() || by == By::NchanPoll, "{by:?}: {}", client.heard);
    }
}

/// A client that waits all the time receives items of the newly created channel.
#[test]
fn a_reader_that_waits_hears_of_the_channel_that_is_made_anew() {
    for channels in both() {
        let mut desk = Desk::of(settings(1, channels));
        let stream = desk.connect();
        desk.stream(stream, "a", "");
        publish_all(&mut desk, "old", 5);
        deletes(&mut desk);
        let heard = desk.told(stream, "a", "Content-Type: text/plain\r\n", "new");
        assert!(heard.text.contains("event: gap") && heard.data() == ["new"], "{}", heard.text);
        let heard = desk.told(stream, "a", "Content-Type: text/plain\r\n", "newer");
        assert!(!heard.text.contains("event: gap") && heard.data() == ["newer"], "{}", heard.text);
    }
}

/// However a channel is created anew, and whether the process has ended meanwhile: its first number
/// is after all earlier ones.
#[test]
fn numbers_of_a_channel_that_is_made_anew_go_on_behind_the_old_ones() {
    for channels in both() {
        let mut desk = Desk::of(settings(1, channels.clone()));
        publish_all(&mut desk, "old", 5);
        let mut last = publishes(&mut desk, "a", "last");
        for round in 0..8 {
            deletes(&mut desk);
            if round % 2 == 1 {
                desk = desk.restarts(channels.clone());
            }
            if round % 4 > 1 {
                let user = desk.user(&format!("user{round}"));
                desk.makes(user, "a", &[("pubsub#publish_model", "open")]);
            }
            let first = publishes(&mut desk, "a", "first");
            assert!(first > last, "{round}: {first} {last}");
            let conn = desk.connect();
            let heard = desk.get(conn, &format!("a?after={last}&wait=0"));
            assert!(heard.text.contains("\"gaps\":[\"a\"]") && heard.data() == ["first"], "{round}: {}", heard.text);
            last = first;
        }
        assert_eq!(floors(&desk.host.disk).len(), 1, "there is one row for all deletions");
    }
}

/// A deletion raises the floor of its partition. Existing channels continue with their own numbers.
#[test]
fn one_floor_is_kept_for_all_channels_of_a_partition() {
    let mut desk = Desk::new(all());
    let of = |name: &str| partition(format!("pubsub.localhost/{name}"));
    let names: Vec<String> = (0..).map(|number| format!("b{number}")).filter(|b| of(b) == of("a")).take(3).collect();
    publish_all(&mut desk, "old", 50);
    for name in &names {
        (1..=4).for_each(|number| assert_eq!(publishes(&mut desk, name, "own"), number));
    }
    deletes(&mut desk);
    assert_eq!(floors(&desk.host.disk)[0].1, Floor { made: 51, all: 0 });
    assert_eq!(publishes(&mut desk, &names[0], "next"), 5, "it goes on, without a gap");
    // One with few items does not lower it.
    deletes_node(&mut desk, &names[1]);
    assert_eq!(floors(&desk.host.disk).iter().map(|(_, floor)| floor.made).collect::<Vec<_>>(), [51]);
    assert_eq!(publishes(&mut desk, &names[1], "anew"), 52);
    assert_eq!(publishes(&mut desk, "elsewhere", "first"), 1, "another partition has no floor");
    // A channel without publications leaves no trace.
    let user = desk.user("juliet");
    desk.makes(user, &format!("{}x", names[0]), &[]);
    deletes_node(&mut desk, &format!("{}x", names[0]));
    assert_eq!(floors(&desk.host.disk).len(), 1);
}

/// A backup is restored: readers have positions and items that the store does not know.
#[test]
fn readers_of_a_store_that_was_restored_hear_of_a_gap_and_then_of_all_new_items() {
    for channels in both() {
        for by in ALL {
            for place in [3, 5, 8] {
                let mut desk = Desk::of(settings(1, channels.clone()));
                publish_all(&mut desk, "old", 5);
                let backup = desk.host.disk.clone();
                publish_all(&mut desk, "lost", 3);
                let mut client = Client::at(&mut desk, by, place);
                let mut desk = restored(backup, channels.clone());
                publish_all(&mut desk, "new", 7);
                let new: Vec<_> = (1..=7).map(|number| format!("new{number}")).collect();
                catches_up(&mut desk, &mut client, by, &new);
                goes_on(&mut desk, &mut client, by);
            }
        }
    }
}

/// A channel created after the backup is created anew after the restore.
#[test]
fn a_channel_of_after_the_backup_begins_behind_its_numbers() {
    for channels in both() {
        let mut desk = Desk::of(settings(1, channels.clone()));
        let backup = desk.host.disk.clone();
        publish_all(&mut desk, "lost", 5);
        let mut desk = restored(backup.clone(), channels.clone());
        let conn = desk.connect();
        let heard = desk.get(conn, "a?after=5&wait=0");
        assert!(heard.text.contains("\"gaps\":[\"a\"]"), "{}", heard.text);
        let first = publishes(&mut desk, "a", "new");
        assert!(first > 1 << 40 && first < 1 << 53, "{first}");
        assert_eq!(publishes(&mut desk, "a", "new"), first + 1);
        // The next process also knows that the store was restored, which changes nothing more.
        let mut desk = desk.restarts(channels);
        assert!(publishes(&mut desk, "a", "new") > first + 1);
    }
}

/// A reader of items with keys learns which are missing, not which were replaced: a restored
/// channel has certainly lost some.
#[test]
fn readers_of_a_restored_channel_with_keys_hear_of_a_gap() {
    let mut desk = Desk::of(settings(1, all()));
    let keyed = |desk: &mut Desk, key: &str, body: &str| {
        let heard = desk.publish_with("a", &format!("Content-Type: text/plain\r\nItem-Key: {key}\r\n"), body);
        assert_eq!(heard.status().as_bytes()[0], b'2', "{}", heard.text);
    };
    ["x", "y", "x"].into_iter().for_each(|key| keyed(&mut desk, key, "old"));
    let mut desk = restored(desk.host.disk.clone(), all());
    keyed(&mut desk, "x", "new");
    for (place, wanted) in [(1, &["old", "new"][..]), (3, &["new"]), (9, &["new"])] {
        let conn = desk.connect();
        let heard = desk.get(conn, &format!("a?after={place}&wait=0"));
        assert!(heard.text.contains("\"gaps\":[\"a\"]"), "{place}: {}", heard.text);
        assert_eq!(heard.data(), wanted, "{place}");
    }
}

/// XMPP subscribers identify items by ids; these continue as usual, and a purge is not a deletion.
#[test]
fn a_channel_that_is_emptied_goes_on_at_its_numbers() {
    let mut desk = Desk::new(all());
    publish_all(&mut desk, "old", 5);
    let conn = desk.connect();
    let bytes = format!("DELETE /pub/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    desk.says(conn, &bytes);
    assert_eq!((publishes(&mut desk, "a", "new"), floors(&desk.host.disk).len()), (6, 0));
}

/// An unreadable floor does not count as none: nothing is published until it is readable.
#[test]
fn nothing_is_published_while_a_floor_cannot_be_read() {
    let mut desk = Desk::new(all());
    publish_all(&mut desk, "old", 5);
    deletes(&mut desk);
    let mut desk = desk.restarts(all());
    desk.host.disk.damage(Table::Meta, "", true);
    assert_eq!(desk.publish("a", "new").status(), "503");
    desk.host.disk.damage(Table::Meta, "", false);
    assert!(publishes(&mut desk, "a", "new") > 5);
}
