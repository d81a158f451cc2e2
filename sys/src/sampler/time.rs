//! Looks at each thread after so much of its CPU time.
//!
//! Each thread gets a timer on its own CPU time, whose signal (SIGPROF) the thread itself takes; the handler is the look. A thread
//! that sleeps gets no signal, because its time stands still; system calls that a signal meets are begun again (`SA_RESTART`), and
//! those that the kernel never begins again (`epoll_wait`, `io_uring_enter`: signal(7)) are waits, which both drivers take as a
//! time-out.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr;

use super::{Kept, Sample, Samples, note};

/// Samples all threads of the process until it is dropped. Of this and [`super::HeapSampler`] there is at most one.
pub struct TimeSampler {
    timers: HashMap<i32, libc::timer_t>,
    hz: u32,
    own: i32,
    samples: Samples,
}

impl TimeSampler {
    /// Prepares; [`TimeSampler::follow`] begins. `hz` samples a second of CPU time of each thread (at least 1); the calling thread
    /// is left out.
    ///
    /// # Errors
    /// `ResourceBusy` when there is another; the system's when it allows no handler.
    pub fn start(hz: u32) -> io::Result<TimeSampler> {
        let samples = Samples::start()?;
        // SAFETY: all fields of the structure are set or may be zero; the handler keeps to what a handler may do. It stays for
        // good: a signal that comes late must not meet the default, which ends the process.
        let set = unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGPROF, &action, ptr::null_mut())
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() };
        Ok(TimeSampler { timers: HashMap::new(), hz: hz.max(1), own, samples })
    }

    /// Gives timers to threads that have none, and takes back those of threads that have ended. Call it now and then.
    ///
    /// # Errors
    /// The system's: no list of threads, no more timers.
    pub fn follow(&mut self) -> io::Result<()> {
        let mut alive = Vec::new();
        for entry in std::fs::read_dir("/proc/self/task")? {
            let name = entry?.file_name();
            alive.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
        }
        self.timers.retain(|thread, timer| {
            let lives = alive.contains(thread);
            if !lives {
                // SAFETY: a timer of ours that is deleted once.
                unsafe { libc::timer_delete(*timer) };
            }
            lives
        });
        for thread in alive {
            if thread != self.own && !self.timers.contains_key(&thread) {
                match timer(thread, self.hz) {
                    Ok(timer) => drop(self.timers.insert(thread, timer)),
                    // It has ended since.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ESRCH)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Takes out what there is.
    pub fn drain(&mut self, each: impl FnMut(Sample<'_>)) {
        self.samples.drain(each);
    }

    /// Samples that found no room since the start.
    pub fn dropped(&self) -> u64 {
        self.samples.dropped()
    }
}

impl Drop for TimeSampler {
    fn drop(&mut self) {
        for timer in self.timers.values() {
            // SAFETY: a timer of ours that is deleted once.
            unsafe { libc::timer_delete(*timer) };
        }
    }
}

/// A timer on a thread's CPU time, which sends the signal to that thread.
fn timer(thread: i32, hz: u32) -> io::Result<libc::timer_t> {
    // The clock of a thread's CPU time, as the kernel counts it (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED in its
    // include/linux/posix-timers_types.h; what pthread_getcpuclockid(3) makes, which wants a handle of the thread).
    let clock = (!thread << 3) | 6;
    let nanoseconds = 1_000_000_000 / i64::from(hz.max(1));
    let step = libc::timespec { tv_sec: nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000 };
    let often = libc::itimerspec { it_interval: step, it_value: step };
    // SAFETY: structures whose fields are set or may be zero, and a place for the timer.
    unsafe {
        let mut event: libc::sigevent = zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = thread;
        let mut timer = MaybeUninit::uninit();
        if libc::timer_create(clock, &mut event, timer.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let timer = timer.assume_init();
        if libc::timer_settime(timer, 0, &often, ptr::null_mut()) != 0 {
            let error = io::Error::last_os_error();
            libc::timer_delete(timer);
            return Err(error);
        }
        Ok(timer)
    }
}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a context; the place of errno is this thread's.
    unsafe {
        let errno = *libc::__errno_location();
        note(&*context.cast(), 1, Kept::default());
        *libc::__errno_location() = errno;
    }
}
