//! Draws a frame in the available space. From 80x24 on everything is shown; below that, the most
//! important parts.

use std::cmp::Ordering;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Clear, Paragraph, Row, Sparkline, Table};

use super::keys::{Chosen, Order, TABS, Tab};
use super::view::{Queue, Rooms, Second, Shard, View, Web};
use crate::admin::BusySession;

/// Whether to use colours. Without them, problems are bold.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Whether to use colours.
    pub colours: bool,
}

impl Theme {
    fn of(self, colour: Color, plain: Modifier) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new().add_modifier(plain) }
    }

    fn bad(self) -> Style {
        self.of(Color::Red, Modifier::BOLD | Modifier::REVERSED)
    }

    fn warn(self) -> Style {
        self.of(Color::Yellow, Modifier::BOLD)
    }

    fn good(self) -> Style {
        self.of(Color::Green, Modifier::empty())
    }

    fn bars(self) -> Style {
        self.of(Color::Cyan, Modifier::empty())
    }

    fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}

/// A number in at most six characters.
pub fn short(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if !number.is_finite() => "-".into(),
        0.0..9.95 if number.fract() == 0.0 => format!("{number:.0}"),
        0.0..9.95 => format!("{number:.1}"),
        9.95..9_999.5 => format!("{number:.0}"),
        9_999.5..999_500.0 => format!("{:.0}k", number / 1e3),
        999_500.0..9_950_000.0 => format!("{:.1}M", number / 1e6),
        9_950_000.0..999_500_000.0 => format!("{:.0}M", number / 1e6),
        _ => format!("{:.1}G", number / 1e9),
    }
}

/// Bytes in at most six characters.
pub fn bytes(number: f64) -> String {
    let units = ["B", "K", "M", "G", "T"];
    let (mut number, mut unit) = (number.max(0.0), 0);
    while number >= 999.5 && unit + 1 < units.len() {
        (number, unit) = (number / 1_024.0, unit + 1);
    }
    if unit > 0 && number < 9.95 {
        format!("{number:.1}{}", units[unit])
    } else {
        format!("{number:.0}{}", units[unit])
    }
}

fn maybe(number: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    number.map_or_else(|| "-".into(), shown)
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 5_970.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// Foreign text without characters that would break the layout.
fn printable(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// Draws a frame; `now_ms` is the time, in milliseconds since 1970 (UTC).
pub fn draw(frame: &mut Frame<'_>, view: &View, chosen: &Chosen, theme: Theme, now_ms: u64) {
    let area = frame.area();
    let wrong = wrong_lines(view, theme, now_ms);
    let sentences = match area.height {
        0..4 => 0,
        4..16 => 1,
        16..40 => wrong.len().min(2),
        _ => wrong.len().min(6),
    };
    let plots = chosen.tab == Tab::All && area.height >= 20;
    let heights = [
        Constraint::Length(match area.height {
            0..6 => 1,
            6..20 => 2,
            _ => 2 + u16::from(is_web(view)) + u16::from(has_rooms(view)),
        }),
        Constraint::Length(sentences as u16),
        Constraint::Length(if plots { 4 } else { 0 }),
        Constraint::Fill(1),
        Constraint::Length(u16::from(area.height >= 5)),
    ];
    let [head, told, curves, body, foot] = Layout::vertical(heights).areas(area);
    frame.render_widget(Paragraph::new(header(view, chosen, theme)), head);
    frame.render_widget(Paragraph::new(wrong), told);
    if plots {
        draw_curves(frame, curves, view, theme);
    }
    match chosen.tab {
        Tab::All => draw_all(frame, body, view, chosen, theme),
        Tab::Shards => draw_shards(frame, body, view, chosen.skipped, theme),
        Tab::Queues => draw_queues(frame, body, view, true, chosen.skipped, theme),
        Tab::Sessions => draw_sessions(frame, body, view, chosen, theme),
        Tab::Web => draw_web(frame, body, view, chosen.skipped, theme),
    }
    frame.render_widget(Paragraph::new(footer(chosen, theme)), foot);
    if chosen.help {
        let [_, over, _] = Layout::vertical([
            Constraint::Length(head.height.min(2)),
            Constraint::Fill(1),
            Constraint::Length(foot.height),
        ])
        .areas(area);
        frame.render_widget(Clear, over);
        frame.render_widget(Paragraph::new(HELP), over);
    }
}

/// The same for rooms.
fn has_rooms(view: &View) -> bool {
    view.seconds.iter().any(|second| second.shards.iter().any(|shard| shard.rooms.any()))
}

/// Whether HTTP clients are active, or were in the last minutes: this keeps the layout stable while
/// they are idle.
fn is_web(view: &View) -> bool {
    view.seconds.iter().any(|second| second.shards.iter().any(|shard| shard.web.any()))
}

fn header(view: &View, chosen: &Chosen, theme: Theme) -> Text<'static> {
    let Some(status) = &view.status else {
        return Text::raw(format!("throng top  {}  nothing is known yet", view.from));
    };
    let mut first = vec![
        Span::styled(format!("throng {}", status.version), theme.head()),
        Span::raw(format!(
            "  {}  up {}  {}, {} shards",
            printable(&status.domain),
            seconds(status.uptime_s as f64),
            status.driver,
            status.shards
        )),
    ];
    if let Some(rss) = view.last().and_then(|second| second.rss_mib) {
        first.push(Span::raw(format!("  {} of memory", bytes(rss * 1024.0 * 1024.0))));
    }
    if status.stopping {
        first.push(Span::styled("  stopping", theme.bad()));
    }
    if chosen.paused {
        first.push(Span::styled("  PAUSED", theme.warn()));
    }
    let rate = |of: fn(&Second) -> f64| view.last().map_or_else(|| "-".into(), |second| short(of(second)));
    let second = format!(
        "conns {} of {}  sessions {}, {} resumable  msg/s {}  in/s {}  out/s {}",
        short(status.connections as f64),
        short(status.connections_max as f64),
        short(status.sessions as f64),
        short(status.resumable as f64),
        rate(|s| s.sum(|shard| shard.messages)),
        rate(|s| s.sum(|shard| shard.stanzas_in)),
        rate(|s| s.sum(|shard| shard.stanzas_out)),
    );
    let sum = |of: fn(&Web) -> f64| view.last().map_or_else(|| "-".into(), |s| short(s.sum(|shard| of(&shard.web))));
    let third = format!(
        "channels {}  polls {}  events {}  sockets {}  pub/s {}  sent/s {}  gaps/s {}",
        sum(|web| web.channels),
        sum(|web| web.polls),
        sum(|web| web.events),
        sum(|web| web.sockets),
        sum(|web| web.published),
        sum(|web| web.told),
        sum(|web| web.gaps),
    );
    let sum =
        |of: fn(&Rooms) -> f64| view.last().map_or_else(|| "-".into(), |s| short(s.sum(|shard| of(&shard.rooms))));
    let longest = view.last().and_then(|s| s.shards.iter().map(|shard| shard.rooms.waiting).max_by(f64::total_cmp));
    let fourth = format!(
        "rooms {}  in them {}  msg/s {}  casts/s {}  copies/s {}  longest queue {}",
        sum(|rooms| rooms.rooms),
        sum(|rooms| rooms.occupants),
        sum(|rooms| rooms.messages),
        sum(|rooms| rooms.casts),
        sum(|rooms| rooms.copies),
        maybe(longest, short),
    );
    let mut lines = vec![Line::from(first), Line::raw(second)];
    lines.extend(is_web(view).then(|| Line::raw(third)));
    lines.extend(has_rooms(view).then(|| Line::raw(fourth)));
    Text::from(lines)
}

/// Age after which the display is marked as old, milliseconds.
const OLD_MS: u64 = 5_000;

fn wrong_lines(view: &View, theme: Theme, now_ms: u64) -> Vec<Line<'static>> {
    let age_s = view.last().map(|second| now_ms.saturating_sub(second.wall_ms) / 1_000);
    if let Some(why) = &view.lost {
        let age = age_s.map_or(String::new(), |age| format!(" (what is shown is {age} s old)"));
        return vec![Line::styled(format!("{}{age}", printable(why)), theme.bad())];
    }
    if let Some(age) = age_s.filter(|age| age * 1_000 >= OLD_MS) {
        return vec![Line::styled(format!("no data for {age} s, or the clocks of the two hosts differ"), theme.warn())];
    }
    if view.wrong.is_empty() && view.status.is_some() {
        return vec![Line::styled("nothing is wrong", theme.good())];
    }
    let line = |wrong: &super::view::Wrong| {
        let style = if wrong.weight == "bad" { theme.bad() } else { theme.warn() };
        Line::from(vec![
            Span::styled(format!("! {}", wrong.what), style),
            Span::raw(format!(" {}", printable(&wrong.text))),
        ])
    };
    view.wrong.iter().map(line).collect()
}

/// A curve: its title, its value for a second, and the format of values.
type Curve = (&'static str, fn(&Second) -> f64, fn(f64) -> String);

const CURVES: [Curve; 4] = [
    ("msg/s", |s| s.sum(|shard| shard.messages), short),
    ("stanzas/s", |s| s.sum(|shard| shard.stanzas_in + shard.stanzas_out), short),
    ("busy shard", |s| s.cpu_max().unwrap_or(0.0), |cpu| format!("{cpu:.0} %")),
    ("unsent", |s| s.sum(|shard| shard.outbound_kib) * 1_024.0, bytes),
];

/// The last minutes, one column per second.
fn draw_curves(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let places = Layout::horizontal([Constraint::Fill(1); CURVES.len()]).spacing(1).split(area);
    for ((title, of, said), place) in CURVES.into_iter().zip(places.iter()) {
        let shown = view.seconds.len().min(usize::from(place.width));
        let numbers: Vec<f64> = view.seconds.iter().skip(view.seconds.len() - shown).map(of).collect();
        let (now, most) = (numbers.last().copied().unwrap_or(0.0), numbers.iter().copied().fold(0.0, f64::max));
        let [head, bars] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(*place);
        frame.render_widget(Paragraph::new(format!("{title} {} <{}", said(now), said(most))), head);
        // Only integers can be drawn: scale to hundredths of the maximum.
        let scaled = numbers.iter().map(|number| (number * 100.0 / most.max(f64::MIN_POSITIVE)).round() as u64);
        frame.render_widget(Sparkline::default().max(100).style(theme.bars()).data(scaled.collect::<Vec<u64>>()), bars);
    }
}

fn draw_all(frame: &mut Frame<'_>, area: Rect, view: &View, chosen: &Chosen, theme: Theme) {
    let shards = view.last().map_or(0, |second| second.shards.len());
    let queues = backlogs(view).len();
    // One row each for headings; half of the rest is for sessions.
    let rows = usize::from(area.height.saturating_sub(3));
    let shard_rows = shards.min((rows / 3).max(1));
    let queue_rows = queues.clamp(1, (rows / 6).max(1));
    let heights =
        [Constraint::Length(shard_rows as u16 + 1), Constraint::Length(queue_rows as u16 + 1), Constraint::Fill(1)];
    let [first, second, third] = Layout::vertical(heights).areas(area);
    draw_shards(frame, first, view, 0, theme);
    draw_queues(frame, second, view, false, 0, theme);
    draw_sessions(frame, third, view, chosen, theme);
}

/// A table with a heading; all columns but the first are right-aligned.
fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    head: &[&'static str],
    widths: &[Constraint],
    rows: Vec<(Style, Vec<String>)>,
    theme: Theme,
) {
    let cell = |(at, text): (usize, String)| {
        Text::from(text).alignment(if at == 0 { Alignment::Left } else { Alignment::Right })
    };
    let row = |(style, cells): (Style, Vec<String>)| Row::new(cells.into_iter().enumerate().map(cell)).style(style);
    let head = row((theme.head(), head.iter().map(|word| (*word).to_owned()).collect()));
    frame.render_widget(
        Table::new(rows.into_iter().map(row), widths.iter().copied()).header(head).column_spacing(1),
        area,
    );
}

fn draw_shards(frame: &mut Frame<'_>, area: Rect, view: &View, skipped: usize, theme: Theme) {
    let head =
        ["SHARD", "CPU%", "WAIT%", "TURN/s", "CONNS", "SESS", "IN/s", "OUT/s", "B-IN/s", "BOUT/s", "UNSENT", "QUEUED"];
    let mut widths = [Constraint::Length(6); 12];
    widths[..3].fill(Constraint::Length(5));
    let mut shards = view.last().map_or(Vec::new(), |second| second.shards.clone());
    // If there is no room for all, stalled shards come first, then the busiest.
    if shards.len() >= usize::from(area.height) && skipped == 0 {
        let first = |shard: &Shard| (shard.still_s > 0.0, shard.cpu.unwrap_or(0.0));
        shards.sort_by(|a, b| first(b).partial_cmp(&first(a)).unwrap_or(Ordering::Equal));
    }
    let row = |s: Shard| {
        let stands = s.still_s > 0.0;
        let cells = vec![
            s.shard,
            maybe(s.cpu, |cpu| format!("{cpu:.0}")),
            maybe(s.wait, |wait| format!("{wait:.0}")),
            if stands { "STILL".into() } else { short(s.turns) },
            short(s.connections),
            short(s.sessions),
            short(s.stanzas_in),
            short(s.stanzas_out),
            bytes(s.kib_in * 1_024.0),
            bytes(s.kib_out * 1_024.0),
            bytes(s.outbound_kib * 1_024.0),
            short(s.waiting),
        ];
        (if stands { theme.bad() } else { Style::new() }, cells)
    };
    table(frame, area, &head, &widths, shards.into_iter().skip(skipped).map(row).collect(), theme);
}

/// Channels, and clients that use HTTP; if there is no room for all, the shards with most of them.
fn draw_web(frame: &mut Frame<'_>, area: Rect, view: &View, skipped: usize, theme: Theme) {
    let head = [
        "SHARD", "CHANS", "POLLS", "EVENTS", "SOCKS", "WAIT", "PUB/s", "TOLD/s", "GAPS/s", "SLOW/s", "REF/s", "WS",
        "BOSH",
    ];
    let widths = [5, 5, 5, 6, 5, 5, 5, 6, 6, 6, 5, 4, 4].map(Constraint::Length);
    let mut shards = view.last().map_or(Vec::new(), |second| second.shards.clone());
    if shards.len() >= usize::from(area.height) && skipped == 0 {
        let most = |shard: &Shard| shard.web.waiting + shard.web.told + shard.web.bosh + shard.web.websockets;
        shards.sort_by(|a, b| most(b).total_cmp(&most(a)));
    }
    let row = |s: Shard| {
        let web = s.web;
        let (subscribers, rates) = (
            [web.channels, web.polls, web.events, web.sockets, web.waiting],
            [web.published, web.told, web.gaps, web.behind, web.publish_refused + web.subscribe_refused],
        );
        let figures = subscribers.into_iter().chain(rates).chain([web.websockets, web.bosh]).map(short);
        (Style::new(), std::iter::once(s.shard).chain(figures).collect())
    };
    table(frame, area, &head, &widths, shards.into_iter().skip(skipped).map(row).collect(), theme);
}

/// Queues that are not empty, the longest to drain first.
fn backlogs(view: &View) -> Vec<&Queue> {
    let queues = view.last().map_or(&[][..], |second| &second.queues[..]);
    let mut busy: Vec<&Queue> = queues.iter().filter(|queue| queue.length > 0.0).collect();
    let lasts = |queue: &Queue| queue.drains_in_s().unwrap_or(f64::INFINITY);
    busy.sort_by(|a, b| lasts(b).total_cmp(&lasts(a)).then(b.length.total_cmp(&a.length)));
    busy
}

/// A queue grows if its arrivals exceed its departures by this factor.
const GROWS: f64 = 1.01;

fn draw_queues(frame: &mut Frame<'_>, area: Rect, view: &View, all: bool, skipped: usize, theme: Theme) {
    let shown = match (all, view.last()) {
        (true, Some(second)) => second.queues.iter().collect(),
        _ => backlogs(view),
    };
    if shown.is_empty() {
        let text = if view.last().is_some() { "no queue has a backlog" } else { "" };
        return frame.render_widget(Paragraph::new(vec![Line::styled("QUEUES", theme.head()), Line::raw(text)]), area);
    }
    let head = ["QUEUE", "LENGTH", "IN/s", "OUT/s", "DELAY", "DRAINED IN"];
    let widths = [10, 10, 10, 10, 10, 12].map(Constraint::Length);
    let row = |queue: &Queue| {
        let length = if queue.queue == "outbound" { bytes(queue.length) } else { short(queue.length) };
        let drained = match queue.drains_in_s() {
            _ if queue.length == 0.0 => "-".into(),
            Some(s) => seconds(s),
            None if queue.rate_in > queue.rate_out.map(|rate| rate * GROWS) => "never".to_owned(),
            None => "steady".to_owned(),
        };
        let delay =
            maybe(queue.delay_ms, |ms| if ms < 1_000.0 { format!("{ms:.0} ms") } else { seconds(ms / 1_000.0) });
        let rates = [queue.rate_in, queue.rate_out].map(|rate| maybe(rate, short));
        (Style::new(), [vec![queue.queue.clone(), length], rates.to_vec(), vec![delay, drained]].concat())
    };
    table(frame, area, &head, &widths, shown.into_iter().skip(skipped).map(row).collect(), theme);
}

fn draw_sessions(frame: &mut Frame<'_>, area: Rect, view: &View, chosen: &Chosen, theme: Theme) {
    let (Some(busiest), None) = (&view.busiest, &view.uncounted) else {
        let text = view.uncounted.as_deref().map_or("the busiest sessions are being counted".into(), printable);
        return frame.render_widget(Paragraph::new(vec![Line::styled("SESSION", theme.head()), Line::raw(text)]), area);
    };
    let mut sessions: Vec<&BusySession> = busiest.iter().collect();
    match chosen.order {
        Order::Stanzas => {
            sessions.sort_by(|a, b| (b.stanzas_in + b.stanzas_out).total_cmp(&(a.stanzas_in + a.stanzas_out)))
        }
        Order::Bytes => sessions.sort_by(|a, b| (b.bytes_in + b.bytes_out).total_cmp(&(a.bytes_in + a.bytes_out))),
        Order::Outbound => sessions.sort_by_key(|session| std::cmp::Reverse(session.outbound_bytes)),
    }
    let head = ["SESSION", "SHARD", "IN/s", "OUT/s", "B-IN/s", "BOUT/s", "UNSENT"];
    let mut widths = [Constraint::Length(6); 7];
    widths[0] = Constraint::Fill(1);
    let row = |s: &BusySession| {
        let jid = printable(&s.jid);
        let waits = bytes(s.outbound_bytes as f64);
        let rates = [short(s.stanzas_in), short(s.stanzas_out), bytes(s.bytes_in), bytes(s.bytes_out)];
        (Style::new(), [vec![jid, s.shard.to_string()], rates.to_vec(), vec![waits]].concat())
    };
    table(frame, area, &head, &widths, sessions.into_iter().skip(chosen.skipped).map(row).collect(), theme);
}

fn footer(chosen: &Chosen, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, (tab, name)) in TABS.into_iter().enumerate() {
        let style = if tab == chosen.tab { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.push(Span::styled(format!("{} {name} ", at + 1), style));
    }
    spans.push(Span::styled(format!(" s by {}  p pause  ? help  q quit", chosen.order.name()), theme.head()));
    Line::from(spans)
}

pub(super) const HELP: &str = "\
KEYS
  1 to 5, Tab    all, shards, queues, sessions, web   ?    this help
  s              sessions by stanzas, bytes, unsent   p    pause, and go on
  j k, arrows, PgUp PgDn   scroll                     q, Esc, Ctrl-C   quit
  Ctrl-Z         to the shell; its `fg` comes back

SHARDS   CPU%: of one core, running; WAIT%: ready to run, without a core; turns
         of the loop (`STILL`: none for a second); connections, sessions;
         stanzas and bytes in and out; UNSENT: bytes that clients do not read;
         QUEUED: effects and reads that wait for the disk, other shards,
         passwords or the state of users
QUEUES   all shards, by kind; rates over ten seconds; how long a new entry
         waits; time until empty at these rates (`never`: it grows)
SESSIONS the busiest of the last two seconds; figures may be too small for
         sessions that are not always among the busiest, but never too large.
ROOMS    at the top; casts: stanzas to occupants, and their copies to sessions
WEB      channels with waiting subscribers; long polls, event streams and
         WebSockets; WAIT: all waiting requests; items published and delivered;
         gaps and slow subscribers; REFused; XMPP by WebSocket (WS) and BOSH
CURVES   one column per second: now, and <the maximum shown; msg/s: messages
         delivered to sessions; in/s, out/s: stanzas from and to clients";
