//! The terminal: takes it over, shows frames, takes keys, and gives it back, however it ends.

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

/// How long a key is waited for.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// A frame is drawn so often at least: ages are shown.
const DRAW_EVERY: Duration = Duration::from_secs(1);
/// What a process ends with that panicked, as the main thread's panic does.
const PANICKED: i32 = 101;
/// Longest wait for all that a single screen shows.
const WHOLE_WAIT: Duration = Duration::from_secs(20);
/// Longest wait for the rest of the last minutes.
const REST_WAIT: Duration = Duration::from_millis(800);

/// Waits until there is something to show, or a reason why not.
///
/// # Errors
/// The reason.
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
    // The last minutes come one behind the other: the screen is that of the last second, not of the first one that has come.
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
pub fn run(source: &Source, view: &mut View, theme: Theme, stop: &AtomicBool) -> io::Result<()> {
    match Taken::with(|taken| show(taken, source, view, theme, stop)) {
        // Nobody sees any more what is shown: the terminal has gone.
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
        // Paused, news wait; the source waits when there are too many.
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
                        // As the terminal would: to all of the job, of which this is one.
                        Next::Suspend => kill_current_process_group(Signal::TSTP)?,
                        Next::Show => drawn = None,
                    }
                }
            }
        }
        // A terminal of another size is drawn anew.
        let now = taken.size()?;
        if std::mem::replace(&mut size, now) != now {
            drawn = None;
        }
    }
    Ok(())
}

/// What a shell's job control has asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// SIGTSTP: stop.
    Stop = 1,
    /// SIGCONT: it goes on.
    Continue = 2,
}

/// The last signal of job control: one that continues undoes one that stops before that was seen.
struct Jobs(Arc<AtomicUsize>);

impl Jobs {
    fn listen() -> io::Result<Jobs> {
        let last = Arc::default();
        register_usize(SIGTSTP, Arc::clone(&last), Job::Stop as usize)?;
        register_usize(SIGCONT, Arc::clone(&last), Job::Continue as usize)?;
        Ok(Jobs(last))
    }

    /// The last since this was asked.
    fn last(&self) -> Option<Job> {
        let last = self.0.swap(0, Ordering::Relaxed);
        [Job::Stop, Job::Continue].into_iter().find(|job| *job as usize == last)
    }

    /// Was seen already.
    fn forget(&self, job: Job) {
        let _ = self.0.compare_exchange(job as usize, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Whether the terminal is taken over now.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Held while something is written to it, so that a panic of another thread waits for the end of a frame.
static WRITES: Mutex<()> = Mutex::new(());

fn writes() -> MutexGuard<'static, ()> {
    WRITES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Raw and on its other screen, which is empty.
fn take() -> io::Result<()> {
    TAKEN.store(true, Ordering::Relaxed);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All))
}

/// As it was, if it is taken.
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
    /// Takes the terminal over for this work, and gives it back however that ends: a panic of any thread is told afterwards, and is
    /// the end.
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

    /// Stops if that is asked for, with the terminal given back. Takes it anew then, whatever others have made of it meanwhile, and
    /// draws all of the next frame. False if the end was wished meanwhile; then it stays given back.
    fn renew(&mut self, job: Job, stop: &AtomicBool) -> io::Result<bool> {
        give_back()?;
        if job == Job::Stop {
            // SIGTSTP is caught here. This one stops as well, and, like it, nobody whom no shell could continue (an orphaned
            // process group, POSIX 2.4.3), which SIGSTOP would.
            raise(SIGTTOU)?;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let _writes = writes();
        // In the background this stops, too, until the job is in the foreground.
        take()?;
        // Nothing is known to stand there: all of a frame is written.
        self.0 = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(true)
    }
}

/// Has the terminal given back before a panic is told. One of another thread than this ends the process: who draws is not to go on.
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
