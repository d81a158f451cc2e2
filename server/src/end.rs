//! Ends the process when it cannot continue: with a final message, at once, and with an exit code
//! on which a supervisor restarts it.
//!
//! If a thread of the server panics, others wait for it forever: the process looks alive and serves
//! no client. So any panic ends the process, unless the work was started by [`survive`]. Such work
//! affects one requester (an operator's request, a backup, a profile), or only observes and is not
//! missed by clients (the recorder, the backlog watch).
//!
//! Nothing runs on the way out that could acknowledge anything: the store is left as by `kill -9`,
//! which loses nothing that was acknowledged.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::log;

/// Exit code of a server that was cut off during shutdown: not all streams, letters and writes
/// completed in time.
pub const CUT: u8 = 7;
/// Exit code after a panic, or after a failure of a shard's driver (`EX_SOFTWARE`).
pub const PANICKED: u8 = 70;
/// Exit code if the store cannot continue (`EX_IOERR`).
pub const STORE: u8 = 74;

/// Maximum time for the final message. A log that is not read delays the end no longer.
const LAST_WORD: Duration = Duration::from_secs(2);

thread_local! {
    /// Number of nested calls of [`survive`] in this thread.
    static SURVIVES: Cell<u32> = const { Cell::new(0) };
    /// Message of a panic that is unwinding to [`survive`].
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Whether a thread is already ending the process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// From now on a panic in any thread ends the process, except inside [`survive`].
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
        "{said}. The process exits with code {PANICKED}, because it cannot serve without this \
         thread; nothing acknowledged is lost. Restart it, and report this line"
    );
    at_once(PANICKED, &text);
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Runs work whose panic ends only itself.
///
/// # Errors
/// The work panicked: the thread, the place and the message.
pub fn survive<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    SURVIVES.set(SURVIVES.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    SURVIVES.set(SURVIVES.get() - 1);
    result.map_err(|payload| {
        let said = SAID.take();
        if said.is_empty() { format!("a panic: {}", message(&*payload)) } else { said }
    })
}

/// The same for a future, which must not be polled again after it has panicked.
pub struct Survive<F>(Pin<Box<F>>);

impl<F: Future> Survive<F> {
    /// Wraps a future.
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

/// Ends the process with this code, after a final message in the log and on standard error,
/// whatever other threads do. The first caller's message wins.
pub fn at_once(code: u8, text: &str) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        loop {
            std::thread::park();
        }
    }
    // In case the log blocks even this thread.
    let _ = std::thread::Builder::new().name("end".into()).spawn(move || exit_later(code));
    log::last_word(text, LAST_WORD);
    exit(code)
}

fn exit_later(code: u8) {
    std::thread::sleep(2 * LAST_WORD);
    exit(code);
}

/// Exits without running exit handlers.
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
