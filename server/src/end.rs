//! How the process ends when it cannot go on: with a last word, at once, and with an exit code that a supervisor restarts it by.
//!
//! A thread of the server that panics leaves others who wait for it for ever: a process that looks alive and serves nobody. So any
//! panic ends the process, unless the work was begun by [`survive`]: what fails there fails for one asker (a request of the
//! operator's, a backup, a profile), or only observes and is missed by no client (the recorder, the backlog watch).
//!
//! Nothing is run on the way out that could acknowledge anything: the store is left as by `kill -9`, which loses nothing that was
//! acknowledged.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::log;

/// Exit code of a server that was cut off at its stop: not all streams, letters and writes came to their end in time.
pub const CUT: u8 = 7;
/// Exit code after a panic, or after a shard's network has failed (`EX_SOFTWARE`).
pub const PANICKED: u8 = 70;
/// Exit code when the store cannot go on (`EX_IOERR`).
pub const STORE: u8 = 74;

/// Longest time for the last word. A log that nobody reads holds the end up no longer.
const LAST_WORD: Duration = Duration::from_secs(2);

thread_local! {
    /// How many calls of [`survive`] this thread is in.
    static SURVIVES: Cell<u32> = const { Cell::new(0) };
    /// What the panic said that is on its way to [`survive`].
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Somebody ends the process already.
static ENDING: AtomicBool = AtomicBool::new(false);

/// From now on a panic in any thread ends the process, but for those in [`survive`].
pub fn with_any_panic() {
    std::panic::set_hook(Box::new(panicked));
}

fn panicked(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let said = format!("the thread {name} panicked at {place}: {}", message(info.payload()));
    if SURVIVES.get() > 0 {
        SAID.set(said);
        return;
    }
    let text = format!(
        "{said}. The process ends with code {PANICKED}, because nobody would be served by what is left of it; nothing acknowledged is \
         lost. Start it again, and report this line"
    );
    at_once(PANICKED, &text);
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Does work whose panic ends only itself.
///
/// # Errors
/// It panicked: which thread, where, and what it said.
pub fn survive<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    SURVIVES.set(SURVIVES.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    SURVIVES.set(SURVIVES.get() - 1);
    result.map_err(|payload| {
        let said = SAID.take();
        if said.is_empty() { format!("a panic: {}", message(&*payload)) } else { said }
    })
}

/// The same for a future, which must not be polled again once it has panicked.
pub struct Survive<F>(Pin<Box<F>>);

impl<F: Future> Survive<F> {
    /// Wraps it.
    pub fn new(work: F) -> Survive<F> {
        Survive(Box::pin(work))
    }
}

impl<F: Future> Future for Survive<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match survive(|| self.0.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(said) => Poll::Ready(Err(said)),
        }
    }
}

/// Ends the process with this code, after a last word in the log and on standard error, whatever other threads do. The first caller's
/// word is the last one.
pub fn at_once(code: u8, text: &str) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        loop {
            std::thread::park();
        }
    }
    // Should the log hold even this thread.
    let _ = std::thread::Builder::new().name("end".into()).spawn(move || exit_later(code));
    log::last_word(text, LAST_WORD);
    exit(code)
}

fn exit_later(code: u8) {
    std::thread::sleep(2 * LAST_WORD);
    exit(code);
}

/// Without anything that is registered for the end of a process.
fn exit(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_survived_says_what_it_panicked_with() {
        assert_eq!(survive(|| 7), Ok(7));
        let said = survive(|| panic!("of {}", "text")).expect_err("a panic");
        assert!(said.ends_with("of text"), "{said}");
        assert_eq!(SURVIVES.get(), 0);
    }
}
