//! Frames of a simulated server on terminals of many sizes, and the effects of keys.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::keys::{Chosen, Next, Order, TABS, Tab};
use super::screen::{HELP, Theme, bytes, draw, short};
use super::view::{HISTORY_MAX, News, PICK, Queue, Rooms, Second, Shard, View, Web, Wrong};
use crate::admin::{BusySession, Status};

const NOW_MS: u64 = 1_763_790_000_000;

fn second(at: usize, shards: usize) -> Second {
    let shard = |n: usize| Shard {
        shard: n.to_string(),
        cpu: Some(10.0 * n as f64 + 3.0),
        wait: Some(0.4),
        turns: 1_000.0,
        connections: 12_345.0,
        sessions: 12_000.0,
        messages: 500.0 + at as f64,
        stanzas_in: 700.0,
        stanzas_out: 1_234_567.0,
        kib_in: 80.0,
        kib_out: 2_048.0,
        outbound_kib: if n == 1 { 5_120.0 } else { 0.0 },
        waiting: 7.0,
        ..Shard::default()
    };
    let queue = |queue: &str, length, rate_in, rate_out| Queue {
        queue: queue.into(),
        length,
        rate_in: Some(rate_in),
        rate_out: Some(rate_out),
        delay_ms: Some(2_500.0),
    };
    Second {
        wall_ms: NOW_MS - 1_000 * (HISTORY_MAX - at) as u64 + 60_000,
        shards: (0..shards).map(shard).collect(),
        queues: vec![
            queue("gate", 0.0, 5.0, 5.0),
            queue("reads", 18_000.0, 1_000.0, 100.0),
            queue("outbound", 1_048_576.0, 0.0, 65_536.0),
        ],
        rss_mib: Some(1_536.0),
    }
}

fn view(shards: usize) -> View {
    let mut view = View::new("http://127.0.0.1:5290".into());
    let status = Status {
        version: "1.2.3".into(),
        domain: "example.org".into(),
        driver: "uring".into(),
        shards: shards as u32,
        uptime_s: 90_000,
        connections: 24_690,
        connections_max: 39_800,
        sessions: 24_000,
        resumable: 12,
        ..Status::default()
    };
    let wrong = |weight: &str, what: &str| Wrong {
        weight: weight.into(),
        what: what.into(),
        text: "has 18000 reads of the store".into(),
    };
    view.take(News::State(Box::new(status), vec![wrong("bad", "shard 1"), wrong("warn", "disk")]));
    (0..HISTORY_MAX - 59).for_each(|at| view.take(News::Second(Box::new(second(at, shards)))));
    let session = |n: usize| BusySession {
        jid: format!("user{n}@example.org/phone"),
        shard: (n % shards) as u32,
        stanzas_in: 100.0 - n as f64,
        stanzas_out: 0.5,
        bytes_in: 10.0 * n as f64,
        bytes_out: 100.0,
        outbound_bytes: if n == 2 { 70_000 } else { 0 },
    };
    let mut sessions: Vec<BusySession> = (0..60).map(session).collect();
    sessions[1].jid = "a\u{1b}[2J\u{202e}b@example.org/\u{4e16}\u{754c}".into();
    view.take(News::Busiest(Some(sessions)));
    view
}

fn frame(view: &View, chosen: &Chosen, width: u16, height: u16, colours: bool) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, view, chosen, Theme { colours }, NOW_MS)).expect("drawn");
    terminal.backend().clone()
}

fn lines(backend: &TestBackend) -> Vec<String> {
    let buffer = backend.buffer();
    let cells = buffer.content().chunks(usize::from(buffer.area.width));
    cells.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()).collect()
}

fn shown(view: &View, chosen: &Chosen, width: u16, height: u16) -> String {
    lines(&frame(view, chosen, width, height, true)).join("\n")
}

#[test]
fn a_terminal_of_80_by_24_has_all_of_it() {
    let text = shown(&view(2), &Chosen::default(), 80, 24);
    for part in [
        "throng 1.2.3  example.org  up 25 h  uring, 2 shards  1.5G of memory",
        "conns 25k of 40k  sessions 24k, 12 resumable  msg/s 2080  in/s 1400  out/s 2.5M",
        "! shard 1 has 18000 reads of the store",
        "! disk has",
        "msg/s 2080 <2080",
        "busy shard 13 %",
        "SHARD  CPU% WAIT% TURN/s  CONNS   SESS   IN/s  OUT/s B-IN/s BOUT/s UNSENT QUEUED",
        "1        13     0   1000    12k    12k    700   1.2M    80K   2.0M   5.0M      7",
        "QUEUE          LENGTH       IN/s      OUT/s      DELAY   DRAINED IN",
        "reads             18k       1000        100        2 s        never",
        "outbound         1.0M          0        66k        2 s         16 s",
        "SESSION",
        "user0@example.org/phone",
        "1 All 2 Shards 3 Queues 4 Sessions 5 Web",
        "q quit",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert_eq!(text.lines().count(), 24);
    assert!(text.lines().any(|line| line.contains('█')), "curves\n{text}");
    assert!(!text.contains("gate"), "nothing waits there\n{text}");
    let help = shown(&view(2), &Chosen { help: true, ..Chosen::default() }, 80, 24);
    assert!(help.contains(HELP), "all of it\n{help}");
}

/// A server with channels shows their sums at once, and each shard's on a screen of its own; one
/// without them does not show this.
#[test]
fn channels_have_a_line_and_a_screen() {
    let web = Web {
        channels: 1_234.0,
        polls: 50.0,
        events: 100_000.0,
        sockets: 7.0,
        waiting: 100_059.0,
        published: 3.0,
        told: 300_000.0,
        gaps: 0.5,
        behind: 2.0,
        publish_refused: 4.0,
        subscribe_refused: 5.0,
        websockets: 12.0,
        bosh: 6.0,
        bosh_waiting: 5.0,
    };
    let mut view = view(2);
    assert!(!shown(&view, &Chosen::default(), 80, 24).contains("channels"));
    let mut busy = second(HISTORY_MAX - 1, 2);
    busy.shards[0].web = web;
    busy.shards[1].web = Web { polls: 1.0, waiting: 1.0, ..Web::default() };
    view.take(News::Second(Box::new(busy)));
    let text = shown(&view, &Chosen::default(), 80, 24);
    let sums = "channels 1234  polls 51  events 100k  sockets 7  pub/s 3  sent/s 300k  gaps/s 0.5";
    assert!(text.contains(&sums[..80]), "{text}");
    assert!(text.contains("reads             18k") && text.contains("user0@"), "and the rest is there\n{text}");
    let text = shown(&view, &Chosen { tab: Tab::Web, ..Chosen::default() }, 80, 24);
    for row in [
        "SHARD CHANS POLLS EVENTS SOCKS  WAIT PUB/s TOLD/s GAPS/s SLOW/s REF/s   WS BOSH",
        "0      1234    50   100k     7  100k     3   300k    0.5      2     9   12    6",
        "1         0     1      0     0     1     0      0      0      0     0    0    0",
    ] {
        assert!(text.contains(row), "{row:?} is not in:\n{text}");
    }
    // The line stays for a while when all clients are idle.
    view.take(News::Second(Box::new(second(HISTORY_MAX, 2))));
    assert!(shown(&view, &Chosen::default(), 80, 24).contains("channels 0  polls 0"));
}

/// The same for rooms; the longest queue is that of one room.
#[test]
fn rooms_have_a_line() {
    let mut view = view(2);
    assert!(!shown(&view, &Chosen::default(), 80, 24).contains("rooms"));
    let mut busy = second(HISTORY_MAX - 1, 2);
    let rooms = Rooms { rooms: 3.0, occupants: 1_000.0, messages: 5.0, casts: 7.0, copies: 300_000.0, waiting: 40.0 };
    busy.shards[0].rooms = rooms;
    busy.shards[1].rooms = Rooms { waiting: 12.0, rooms: 1.0, ..Rooms::default() };
    view.take(News::Second(Box::new(busy)));
    let text = shown(&view, &Chosen::default(), 80, 24);
    let sums = "rooms 4  in them 1000  msg/s 5  casts/s 7  copies/s 300k  longest queue 40";
    assert!(text.contains(sums), "{text}");
    assert!(text.contains("user0@"), "and the rest is there\n{text}");
}

/// The pick has the names and the order of the shards' counters: a moment of the recording becomes
/// these figures.
#[test]
fn figures_of_the_recording_are_taken_by_their_names() {
    use throng_engine::counters::{Counted as _, Counters};
    let fields = PICK[0].strip_prefix("shard.").expect("the shards first").split(',');
    let names: Vec<&str> = Counters::default().list().into_iter().map(|(name, ..)| name).collect();
    let fields: Vec<&str> = fields.collect();
    assert_eq!(fields.iter().find(|field| !names.contains(*field)), None, "each is a counter of the engine");
    let row = (0..fields.len()).map(|at| Some(at as f64)).collect();
    let moment = throng_recorder::sar::Moment { wall_ms: 1, seconds: 1.0, rows: vec![vec![("0".into(), row)]] };
    let second = Second::of(&moment);
    let web = second.shards[0].web;
    let at = |name: &str| fields.iter().position(|field| *field == name).expect("it is picked") as f64;
    let taken = [
        (web.channels, "notify_channels"),
        (web.polls, "notify_polls"),
        (web.events, "notify_events"),
        (web.sockets, "notify_sockets"),
        (web.waiting, "notify_waiting"),
        (web.published, "notify_published"),
        (web.told, "notify_told"),
        (web.gaps, "notify_gaps"),
        (web.behind, "notify_behind"),
        (web.publish_refused, "notify_publish_refused"),
        (web.subscribe_refused, "notify_subscribe_refused"),
        (web.websockets + web.sockets, "websockets"),
        (web.bosh, "bosh_sessions"),
        (web.bosh_waiting, "bosh_waiting"),
    ];
    taken.into_iter().for_each(|(figure, name)| assert_eq!(figure, at(name), "{name}"));
    assert_eq!(
        second.shards[0].waiting,
        ["gate_waiting", "letters_kept", "reads_pending", "jobs_pending", "parked"].map(at).iter().sum::<f64>()
    );
}

#[test]
fn what_others_chose_cannot_disturb_the_screen() {
    let text = shown(&view(2), &Chosen { tab: Tab::Sessions, ..Chosen::default() }, 80, 24);
    assert!(text.contains("a\u{fffd}[2J\u{fffd}b@example.org/\u{4e16}"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn large_and_small_terminals_show_what_there_is_room_for() {
    let large = shown(&view(16), &Chosen::default(), 200, 60);
    assert!(large.contains("user11@example.org/phone") && large.contains("\n15 "), "{large}");
    let small = shown(&view(16), &Chosen::default(), 20, 5);
    assert!(small.starts_with("throng 1.2.3") && small.contains("1 All"), "{small}");
    // Nothing panics, whatever the size and the available data.
    for width in [0, 1, 2, 7, 20, 39, 80, 81, 132, 400] {
        for height in [0, 1, 2, 3, 4, 5, 9, 16, 20, 24, 60, 200] {
            for tab in TABS.map(|(tab, _)| tab) {
                for (help, skipped) in [(false, 0), (true, 0), (false, 50)] {
                    let chosen = Chosen { tab, help, skipped, ..Chosen::default() };
                    for view in [&view(64), &view(1), &View::new("http://x".into())] {
                        if width > 0 && height > 0 {
                            shown(view, &chosen, width, height);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn without_colours_there_are_none_and_what_is_bad_stands_out() {
    let plain = frame(&view(2), &Chosen::default(), 80, 24, false);
    assert!(plain.buffer().content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    let bad = |cell: &&ratatui::buffer::Cell| cell.modifier.contains(Modifier::REVERSED | Modifier::BOLD);
    assert!(plain.buffer().content().iter().filter(bad).count() >= "! shard 1".len());
    let colours = frame(&view(2), &Chosen::default(), 80, 24, true);
    assert!(colours.buffer().content().iter().any(|cell| cell.fg == Color::Red));
}

#[test]
fn a_server_that_is_lost_or_says_nothing_is_told() {
    let mut view = view(2);
    view.take(News::Lost("http://127.0.0.1:5290: connection refused".into()));
    assert!(shown(&view, &Chosen::default(), 80, 24).contains("connection refused (what is shown is "));
    let names = |view: &View, text: &str| shown(view, &Chosen::default(), 80, 24).contains(text);
    view.take(News::Uncounted("the shards could not be asked".into()));
    assert!(names(&view, "the shards could not be asked") && !names(&view, "user0@"));
    view.take(News::Busiest(None));
    assert!(names(&view, "user0@"), "what was known, until there is more");
    view.take(News::Second(Box::new(Second { wall_ms: NOW_MS + 1_000, ..second(0, 2) })));
    view.wrong.clear();
    assert!(shown(&view, &Chosen::default(), 80, 24).contains("nothing is wrong"));
    assert_eq!(view.seconds.len(), HISTORY_MAX - 58);
    // A restarted server sends its last minutes again.
    view.take(News::Second(Box::new(second(0, 2))));
    assert_eq!(view.last().map(|second| second.wall_ms), Some(NOW_MS + 1_000));
    // A server whose clock was 31 days ahead is shown from then on.
    let right_ms = NOW_MS - 31 * 86_400_000;
    view.take(News::Second(Box::new(Second { wall_ms: right_ms, ..second(0, 2) })));
    view.take(News::Second(Box::new(Second { wall_ms: right_ms + 1_000, ..second(0, 2) })));
    assert_eq!(view.seconds.iter().map(|second| second.wall_ms).collect::<Vec<_>>(), [right_ms, right_ms + 1_000]);
}

#[test]
fn a_shard_that_does_not_turn_stands_out_with_how_long_it_has_not() {
    let mut view = view(64);
    for at in HISTORY_MAX - 59..HISTORY_MAX - 56 {
        let mut next = second(at, 64);
        next.shards[33].turns = 0.0;
        view.take(News::Second(Box::new(next)));
    }
    let still = |view: &View| view.last().expect("a second").shards.iter().map(|shard| shard.still_s).sum::<f64>();
    assert_eq!(still(&view), 3.0);
    let plain = frame(&view, &Chosen::default(), 80, 24, false);
    let lines = lines(&plain);
    let at = lines.iter().position(|line| line.starts_with("33 ")).unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(lines[at - 1].starts_with("SHARD") && lines[at].contains(" STILL "), "{lines:#?}");
    assert!(lines[at + 1].starts_with("63 "), "then those that do most: {lines:#?}");
    let cell = &plain.buffer()[(0, at as u16)];
    assert!(cell.modifier.contains(Modifier::REVERSED | Modifier::BOLD), "without colours as well");
    view.take(News::Second(Box::new(second(HISTORY_MAX - 56, 64))));
    assert_eq!(still(&view), 0.0, "it turns again");
}

#[test]
fn keys_choose_and_quit() {
    let mut chosen = Chosen::default();
    let mut press = |code| (chosen.key(KeyEvent::new(code, KeyModifiers::NONE)) == Next::Show).then_some(chosen);
    assert_eq!(press(KeyCode::Tab).expect("on").tab, Tab::Shards);
    assert_eq!(press(KeyCode::BackTab).expect("on").tab, Tab::All);
    assert_eq!(press(KeyCode::Char('4')).expect("on").tab, Tab::Sessions);
    assert_eq!(press(KeyCode::Char('s')).expect("on").order, Order::Bytes);
    assert!(press(KeyCode::Char('p')).expect("on").paused);
    assert!(press(KeyCode::Char('?')).expect("on").help);
    assert!(!press(KeyCode::Esc).expect("on").help);
    assert_eq!(press(KeyCode::PageDown).expect("on").skipped, 10);
    assert_eq!(press(KeyCode::Up).expect("on").skipped, 9);
    assert_eq!(press(KeyCode::Char('x')).expect("on").skipped, 9, "it means nothing");
    assert_eq!(press(KeyCode::Char('q')), None);
    assert_eq!(press(KeyCode::Esc), None);
    let control = |letter| Chosen::default().key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL));
    assert_eq!(['c', 'd', 'z', 'x'].map(control), [Next::Quit, Next::Quit, Next::Suspend, Next::Show]);
}

#[test]
fn sessions_are_ordered_as_chosen_and_scrolled() {
    let first = |chosen: &Chosen| {
        let text = shown(&view(2), chosen, 80, 24);
        let at = text.lines().position(|line| line.starts_with("SESSION")).expect("a head");
        text.lines().nth(at + 1).expect("a row").split_whitespace().next().expect("a JID").to_owned()
    };
    let by = |order| first(&Chosen { order, tab: Tab::Sessions, ..Chosen::default() });
    assert!(by(Order::Stanzas).starts_with("user0@"));
    assert!(by(Order::Bytes).starts_with("user59@"));
    assert!(by(Order::Outbound).starts_with("user2@"));
    assert!(first(&Chosen { tab: Tab::Sessions, skipped: 5, ..Chosen::default() }).starts_with("user5@"));
}

#[test]
fn numbers_have_six_places_at_most() {
    for (number, text) in [
        (0.0, "0"),
        (0.04, "0.0"),
        (9.94, "9.9"),
        (9.96, "10"),
        (9_999.0, "9999"),
        (9_999.6, "10k"),
        (999_499.0, "999k"),
        (1_234_567.0, "1.2M"),
        (98_765_432.0, "99M"),
        (5e9, "5.0G"),
        (f64::NAN, "-"),
    ] {
        assert_eq!(short(number), text);
    }
    for (number, text) in
        [(0.0, "0B"), (999.0, "999B"), (1_000.0, "1.0K"), (65_536.0, "64K"), (1_048_576.0, "1.0M"), (5e12, "4.5T")]
    {
        assert_eq!(bytes(number), text);
    }
}
