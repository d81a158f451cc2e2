//! Bodies of BOSH: reading any never panics, what a reader takes holds whole elements only, and whatever requests a session gets, it keeps no
//! more than it may, carries each out once and in order, and answers each place at most once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::id::{ConnId, ShardId};
use throng_engine::session::bosh::{Bosh, Did, Item, Place};
use throng_engine::web::bosh::Sid;
use throng_engine::web::bosh::read::{Wrapper, read};
use throng_engine::web::bosh::wrapped::{Wrapped, wrapped};
use throng_engine::wire::{Expect, Progress, Scanner};

const SID: Sid = Sid { shard: ShardId(0), key: [7; 16] };

fn wrapper(rid: u64, attributes: &str, content: &str) -> Wrapper {
    let text = format!("<body xmlns='http://jabber.org/protocol/httpbind' rid='{rid}' {attributes}>{content}</body>");
    read(&mut Scanner::new(), text.as_bytes()).expect("it can be read")
}

/// What can be read is made of elements.
fn reads(bytes: &[u8]) {
    let Ok(wrapper) = read(&mut Scanner::new(), bytes) else { return };
    assert!(wrapper.content.len() <= bytes.len());
    let (mut scanner, mut rest) = (Scanner::new(), &wrapper.content[..]);
    while !rest.is_empty() {
        match scanner.scan(&wrapper.scope, Expect::Content, usize::MAX, rest) {
            Ok(Progress::Element { consumed } | Progress::Whitespace { consumed }) => rest = &rest[consumed..],
            other => panic!("{other:?}"),
        }
        scanner.reset();
    }
}

/// A client that sends what it likes.
fn session(steps: &[u8]) {
    let (attributes, steps) = match steps {
        [first, rest @ ..] => (["ver='1.6' wait='60' hold='1'", "wait='0' hold='0'", "ack='1'"][usize::from(*first) % 3], rest),
        [] => return,
    };
    let place = |number: u32| Place { shard: ShardId(0), conn: ConnId { slot: number, generation: 1 }, number };
    let first = wrapper(100, attributes, "");
    let mut bosh = Bosh::begin(SID, ConnId { slot: 1 << 31, generation: 1 }, false, &first, "a.example", place(0), 0);
    let (mut now_ms, mut answered, mut last) = (0, Vec::new(), 100);
    let tell = |answered: &mut Vec<u32>, place: Place| {
        assert!(!answered.contains(&place.number), "one answer for each");
        answered.push(place.number);
    };
    for (number, step) in (1u32..).zip(steps) {
        now_ms += u64::from(step >> 6) * 900;
        let rid = 98 + u64::from(step & 7) + u64::from(number) / 2;
        let attributes = ["", "pause='60'", "type='terminate'", "ack='101'"][usize::from(step >> 3) % 4];
        let content = format!("<a n='{rid}'/>");
        let asked = Box::new(wrapper(rid, attributes, if step & 32 == 0 { &content } else { "" }));
        let mut fails = false;
        for did in bosh.came(asked, place(number), false, now_ms) {
            match did {
                Did::Answer(place, _) | Did::Refuse(place, _) | Did::Cut(place) => tell(&mut answered, place),
                Did::Fail(_) => fails = true,
                Did::Arrived(messages) => assert!(messages > 0),
            }
        }
        while let Some(item) = bosh.items.pop_front() {
            if let Item::Content { bytes, .. } = item {
                let rid: u64 = String::from_utf8(bytes).unwrap()[6..].split('\'').next().unwrap().parse().unwrap();
                assert!(rid > last, "in order, each once");
                last = rid;
            }
        }
        let content = if step & 1 == 0 { wrapped(b"<message/>") } else { Wrapped::default() };
        while bosh.is_due(step & 1 == 0, step & 2 == 0) {
            let told = if bosh.takes_content() { content.clone() } else { Wrapped::default() };
            if let Some((place, _)) = bosh.answer(&told, usize::from(!told.bytes.is_empty()), now_ms) {
                tell(&mut answered, place);
            }
        }
        assert!(bosh.waiting() <= 6 && bosh.bytes() < 10_000);
        if fails {
            bosh.end(None, &Wrapped::default()).into_iter().for_each(|(place, _)| tell(&mut answered, place));
            assert_eq!(bosh.waiting(), 0);
            return;
        }
        if step & 0xf0 == 0xf0 {
            bosh.left(place(number), step & 1 == 0, now_ms);
        }
    }
}

fuzz_target!(|input: &[u8]| {
    reads(input);
    session(input);
    let out = wrapped(input);
    assert!(out.bytes.len() <= 32 * input.len() + 64);
});
