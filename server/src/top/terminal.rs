//! The terminal: takes it over, shows frames, takes keys, and gives it back, however it ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use ratatui::backend::TestBackend;
use ratatui::{DefaultTerminal, Terminal};
use throng_recorder::clock::wall_ms;

use super::input::{Input, Keyboard};
use super::keys::Chosen;
use super::screen::{self, Theme};
use super::source::Source;
use super::view::{News, View};

/// How long a key is waited for.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// A frame is drawn so often at least: ages are shown.
const DRAW_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for all that a single screen shows.
const WHOLE_WAIT: Duration = Duration::from_secs(20);

/// Waits until there is something to show, or a reason why not.
///
/// # Errors
/// The reason.
pub fn first(source: &Source, view: &mut View) -> Result<(), String> {
    match source.news().recv_timeout(WHOLE_WAIT) {
        Ok(News::Lost(why)) => Err(why),
        Ok(news) => {
            view.take(news);
            Ok(())
        }
        Err(_) => Err("nothing comes from the server".into()),
    }
}

/// Waits until everything is there that a screen shows, as far as that comes: a server that has just begun has recorded nothing
/// yet.
///
/// # Errors
/// It does not come, and why.
pub fn whole(source: &Source, view: &mut View, stop: &AtomicBool) -> Result<(), String> {
    let end = Instant::now() + WHOLE_WAIT;
    while !view.is_whole() && Instant::now() < end && !stop.load(Ordering::Relaxed) {
        match source.news().recv_timeout(KEY_WAIT) {
            Ok(news) => view.take(news),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // What is there already belongs to it.
    for news in source.news().try_iter() {
        view.take(news);
    }
    match &view.lost {
        Some(why) if !view.is_whole() => Err(why.clone()),
        _ => Ok(()),
    }
}

/// One frame as text, without what is empty at its end.
pub fn text(view: &View, chosen: &Chosen, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let theme = Theme { colours: false };
    let Ok(frame) = terminal.draw(|frame| screen::draw(frame, view, chosen, theme, wall_ms()));
    let cells = frame.buffer.content().chunks(usize::from(width.max(1)));
    let lines = cells.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Shows frames until a key or a signal ends it, or the terminal has gone.
///
/// # Errors
/// The terminal's.
pub fn run(source: &Source, view: &mut View, theme: Theme, stop: &Arc<AtomicBool>) -> io::Result<()> {
    // Also gives the terminal back before a panic is told.
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, source, view, theme, stop);
    let restored = ratatui::try_restore();
    match shown.and(restored) {
        // Nobody sees any more what is shown: the terminal has gone.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(()),
        ended => ended,
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    source: &Source,
    view: &mut View,
    theme: Theme,
    stop: &AtomicBool,
) -> io::Result<()> {
    let (keyboard, mut chosen) = (Keyboard::open()?, Chosen::default());
    let (mut drawn, mut size): (Option<Instant>, _) = (None, terminal.size()?);
    while !stop.load(Ordering::Relaxed) {
        let mut changed = drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_EVERY);
        // Paused, news wait; the source waits when there are too many.
        let come = source.news().try_iter().take(if chosen.paused { 0 } else { usize::MAX });
        for news in come {
            view.take(news);
            changed = true;
        }
        if changed {
            terminal.draw(|frame| screen::draw(frame, view, &chosen, theme, wall_ms()))?;
            drawn = Some(Instant::now());
        }
        match keyboard.wait(KEY_WAIT) {
            Input::Gone => return Ok(()),
            Input::Keys(keys) => {
                for key in keys {
                    if !chosen.key(key) {
                        return Ok(());
                    }
                    drawn = None;
                }
            }
        }
        // A terminal of another size is drawn anew.
        let now = terminal.size()?;
        if std::mem::replace(&mut size, now) != now {
            drawn = None;
        }
    }
    Ok(())
}
