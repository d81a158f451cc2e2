//! The user's choices, made by keys while the screen is shown.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The content of the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tab {
    /// An overview.
    #[default]
    All,
    /// Shards.
    Shards,
    /// Queues.
    Queues,
    /// Sessions.
    Sessions,
    /// Channels, and clients that use HTTP.
    Web,
}

/// All of them, in their order.
pub const TABS: [(Tab, &str); 5] = [
    (Tab::All, "All"),
    (Tab::Shards, "Shards"),
    (Tab::Queues, "Queues"),
    (Tab::Sessions, "Sessions"),
    (Tab::Web, "Web"),
];

/// The sort order of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// By stanzas, in and out.
    #[default]
    Stanzas,
    /// By bytes, in and out.
    Bytes,
    /// By queued output.
    Outbound,
}

impl Order {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Order::Stanzas => "stanzas",
            Order::Bytes => "bytes",
            Order::Outbound => "outbound",
        }
    }

    fn next(self) -> Order {
        match self {
            Order::Stanzas => Order::Bytes,
            Order::Bytes => Order::Outbound,
            Order::Outbound => Order::Stanzas,
        }
    }
}

/// The effect of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Redraw.
    Show,
    /// Suspend the job, as by a signal: a terminal in raw mode does not do that.
    Suspend,
    /// Quit.
    Quit,
}

/// The choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chosen {
    /// The content of the screen.
    pub tab: Tab,
    /// The sort order of sessions.
    pub order: Order,
    /// Whether the display is paused.
    pub paused: bool,
    /// Whether the help is shown.
    pub help: bool,
    /// Number of rows scrolled.
    pub skipped: usize,
}

/// Rows of a page, for scrolling.
const PAGE: usize = 10;
/// Most rows scrolled.
const SKIPPED_MAX: usize = 10_000;

impl Chosen {
    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Show;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let place = TABS.iter().position(|(tab, _)| *tab == self.tab).unwrap_or(0);
        match key.code {
            KeyCode::Char('c' | 'd') if control => return Next::Quit,
            KeyCode::Char('z') if control => return Next::Suspend,
            KeyCode::Char('q') => return Next::Quit,
            // Escape leaves the help first, and only then the program.
            KeyCode::Esc if !self.help => return Next::Quit,
            KeyCode::Esc => self.help = false,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = !self.help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char(digit @ '1'..='5') => self.show(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => self.show((place + 1) % TABS.len()),
            KeyCode::BackTab | KeyCode::Left => self.show((place + TABS.len() - 1) % TABS.len()),
            KeyCode::Down | KeyCode::Char('j') => self.skip(1),
            KeyCode::PageDown => self.skip(PAGE),
            KeyCode::Up | KeyCode::Char('k') => self.skipped = self.skipped.saturating_sub(1),
            KeyCode::PageUp => self.skipped = self.skipped.saturating_sub(PAGE),
            KeyCode::Home => self.skipped = 0,
            _ => {}
        }
        Next::Show
    }

    fn show(&mut self, tab: usize) {
        (self.tab, self.skipped, self.help) = (TABS[tab].0, 0, false);
    }

    fn skip(&mut self, rows: usize) {
        self.skipped = (self.skipped + rows).min(SKIPPED_MAX);
    }
}
