//! The terminal: takes it over, shows frames, reads keys, and restores it, however the program
//! ends.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ratatui::backend::{CrosstermBackend, TestBackend};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Size;
use ratatui::{Frame, Terminal};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGTSTP, SIGTTOU};
use signal_hook::flag::register_usize;
use signal_hook::low_level::raise;
use throng_recorder::clock::wall_ms;

use super::input::{Input, Keyboard};
use super::keys::{Chosen, Next};
use super::screen::{self, Theme};
use super::source::Source;
use super::view::{News, View};

/// Longest wait for a key.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// Longest time between frames: ages are displayed.
const DRAW_EVERY: Duration = Duration::from_secs(1);
/// Exit code of a process that panicked, the same as for the main thread.
const PANICKED: i32 = 101;
/// Longest wait for the content of a single screen.
const WHOLE_WAIT: Duration = Duration::from_secs(20);
/// Longest wait for the rest of the last minutes.
const REST_WAIT: Duration = Duration::from_millis(800);

/// Waits until there is something to show, or a failure.
///
/// # Errors
/// The failure.
pub fn first(source: &Source, view: &mut View) -> Result<(), String> {
    match source.news().recv_timeout(WHOLE_WAIT) {
        Ok(News::Lost(why) | News::Uncounted(why)) => Err(why),
        Ok(news) => {
            view.take(news);
            Ok(())
        }
        Err(_) => Err("nothing comes from the server".into()),
    }
}

/// Waits for the whole content of a screen, as far as it is available: a server that has just
/// started has recorded nothing yet.
///
/// # Errors
/// Why it is not available.
pub fn whole(source: &Source, view: &mut View, stop: &AtomicBool) -> Result<(), String> {
    let end = Instant::now() + WHOLE_WAIT;
    while !view.is_whole() && Instant::now() < end && !stop.load(Ordering::Relaxed) {
        match source.news().recv_timeout(KEY_WAIT) {
            Ok(news) => view.take(news),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The last minutes arrive one after another: show the last second, not the first one received.
    let end = Instant::now() + REST_WAIT;
    while Instant::now() < end
        && let Ok(news) = source.news().recv_timeout(KEY_WAIT)
    {
        view.take(news);
    }
    match view.lost.as_ref().or(view.uncounted.as_ref()) {
        Some(why) if !view.is_whole() => Err(why.clone()),
        _ => Ok(()),
    }
}

/// One frame as text, without trailing blanks.
pub fn text(view: &View, chosen: &Chosen, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let theme = Theme { colours: false };
    let Ok(frame) = terminal.draw(|frame| screen::draw(frame, view, chosen, theme, wall_ms()));
    let cells = frame.buffer.content().chunks(usize::from(width.max(1)));
    let lines = cells.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Shows frames until a key or a signal ends it, or the terminal is closed.
///
/// # Errors
/// The terminal's.
pub fn run(source: &Source, view: &mut View, theme: Theme, stop: &AtomicBool) -> io::Result<()> {
    match Taken::with(|taken| show(taken, source, view, theme, stop)) {
        // The terminal was closed.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(()),
        ended => ended,
    }
}

fn show(taken: &mut Taken, source: &Source, view: &mut View, theme: Theme, stop: &AtomicBool) -> io::Result<()> {
    let (keyboard, jobs, mut chosen) = (Keyboard::open()?, Jobs::listen()?, Chosen::default());
    let (mut drawn, mut size): (Option<Instant>, _) = (None, taken.size()?);
    while !stop.load(Ordering::Relaxed) {
        if let Some(job) = jobs.last() {
            if !taken.renew(job, stop)? {
                break;
            }
            jobs.forget(Job::Continue);
            drawn = None;
        }
        let mut changed = drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_EVERY);
        // While paused, news accumulate; the source waits when there are too many.
        let come = source.news().try_iter().take(if chosen.paused { 0 } else { usize::MAX });
        for news in come {
            view.take(news);
            changed = true;
        }
        if changed {
            taken.draw(|frame| screen::draw(frame, view, &chosen, theme, wall_ms()))?;
            drawn = Some(Instant::now());
        }
        match keyboard.wait(KEY_WAIT) {
            Input::Gone => return Ok(()),
            Input::Keys(keys) => {
                for key in keys {
                    match chosen.key(key) {
                        Next::Quit => return Ok(()),
                        // Like the terminal itself: to the whole job, of which this process is a
                        // part.
                        Next::Suspend => kill_current_process_group(Signal::TSTP)?,
                        Next::Show => drawn = None,
                    }
                }
            }
        }
        // Redraw completely after a resize.
        let now = taken.size()?;
        if std::mem::replace(&mut size, now) != now {
            drawn = None;
        }
    }
    Ok(())
}

/// A request of a shell's job control.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// SIGTSTP: stop.
    Stop = 1,
    /// SIGCONT: continue.
    Continue = 2,
}

/// The last signal of job control: one that continues cancels an unseen one that stops.
struct Jobs(Arc<AtomicUsize>);

impl Jobs {
    fn listen() -> io::Result<Jobs> {
        let last = Arc::default();
        register_usize(SIGTSTP, Arc::clone(&last), Job::Stop as usize)?;
        register_usize(SIGCONT, Arc::clone(&last), Job::Continue as usize)?;
        Ok(Jobs(last))
    }

    /// The last signal since this was called.
    fn last(&self) -> Option<Job> {
        let last = self.0.swap(0, Ordering::Relaxed);
        [Job::Stop, Job::Continue].into_iter().find(|job| *job as usize == last)
    }

    /// Ignores a signal that has been handled.
    fn forget(&self, job: Job) {
        let _ = self.0.compare_exchange(job as usize, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Whether the terminal is currently taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Held while writing to the terminal, so that a panic of another thread waits for the end of a
/// frame.
static WRITES: Mutex<()> = Mutex::new(());

fn writes() -> MutexGuard<'static, ()> {
    WRITES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters raw mode and the alternate screen, cleared.
fn take() -> io::Result<()> {
    TAKEN.store(true, Ordering::Relaxed);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All))
}

/// Restores the terminal, if it is taken over.
fn give_back() -> io::Result<()> {
    if !TAKEN.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    let modes = disable_raw_mode();
    execute!(io::stdout(), LeaveAlternateScreen, Show).and(modes)
}

/// The terminal while it is taken over.
pub struct Taken(Terminal<CrosstermBackend<io::Stdout>>);

impl Taken {
    /// Takes the terminal over for this work, and restores it however that ends: a panic of any
    /// thread is reported afterwards, and ends the process.
    ///
    /// # Errors
    /// The terminal's, or those of the work.
    pub fn with<T>(work: impl FnOnce(&mut Taken) -> io::Result<T>) -> io::Result<T> {
        tell_panics_afterwards();
        let done = take().and_then(|()| work(&mut Taken(Terminal::new(CrosstermBackend::new(io::stdout()))?)));
        let given_back = give_back();
        done.and_then(|done| given_back.map(|()| done))
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// The terminal's.
    pub fn draw(&mut self, frame: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let _writes = writes();
        self.0.draw(frame).map(drop)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size()
    }

    /// Stops if requested, with the terminal restored. Then takes it over again, whatever others
    /// have done to it, and redraws the next frame completely. Returns false if the end was
    /// requested meanwhile; then it stays restored.
    fn renew(&mut self, job: Job, stop: &AtomicBool) -> io::Result<bool> {
        give_back()?;
        if job == Job::Stop {
            // SIGTTOU stops the process as SIGTSTP would, which is caught here. Unlike SIGSTOP, it
            // does not stop a process that no shell could continue (an orphaned process group,
            // POSIX 2.4.3).
            raise(SIGTTOU)?;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let _writes = writes();
        // In the background this stops as well, until the job is in the foreground.
        take()?;
        // The content of the terminal is unknown: write a whole frame.
        self.0 = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(true)
    }
}

/// Restores the terminal before a panic is reported. A panic of another thread ends the process, so
/// that drawing does not continue.
fn tell_panics_afterwards() {
    let (draws, tell) = (std::thread::current().id(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let elsewhere = std::thread::current().id() != draws;
        let _no_more = elsewhere.then(writes);
        let ends = elsewhere && TAKEN.load(Ordering::Relaxed);
        let _ = give_back();
        tell(panic);
        if ends {
            std::process::exit(PANICKED);
        }
    }));
}
