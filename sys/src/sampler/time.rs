//! Samples each thread after an amount of its CPU time.
//!
//! Each thread gets a timer on its own CPU time, whose signal (SIGPROF) is delivered to that
//! thread; the handler takes the sample. A sleeping thread gets no signal, because its CPU time
//! does not advance. Interrupted system calls are restarted (`SA_RESTART`). Those that the kernel
//! never restarts (`epoll_wait`, `io_uring_enter`: signal(7)) are waits, which both drivers treat
//! as a timeout.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr;

use super::{Kept, Sample, Samples, note};

/// Samples all threads of the process until dropped. At most one of this and [`super::HeapSampler`]
/// exists.
pub struct TimeSampler {
    timers: HashMap<i32, libc::timer_t>,
    hz: u32,
    own: i32,
    samples: Samples,
}

impl TimeSampler {
    /// Prepares sampling; [`TimeSampler::follow`] starts it. `hz` is the number of samples per
    /// second of each thread's CPU time (at least 1); the calling thread is excluded.
    ///
    /// # Errors
    /// `ResourceBusy` if there is another sampler; the system's if it permits no handler.
    pub fn start(hz: u32) -> io::Result<TimeSampler> {
        let samples = Samples::start()?;
        // SAFETY: all fields of the structure are set or may be zero; the handler is
        // async-signal-safe. It stays installed for good: a late signal must not meet the default,
        // which ends the process.
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
        // SAFETY: takes no arguments.
        let own = unsafe { libc::gettid() };
        Ok(TimeSampler { timers: HashMap::new(), hz: hz.max(1), own, samples })
    }

    /// Creates timers for new threads, and deletes those of threads that have ended. Must be called
    /// now and then.
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
                    // It has ended in the meantime.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ESRCH)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Takes out the available samples.
    pub fn drain(&mut self, each: impl FnMut(Sample<'_>)) {
        self.samples.drain(each);
    }

    /// Number of samples lost for lack of room since the start.
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
    // The clock of a thread's CPU time, in the kernel's encoding (CPUCLOCK_PERTHREAD_MASK |
    // CPUCLOCK_SCHED in its include/linux/posix-timers_types.h). pthread_getcpuclockid(3) returns
    // the same, but requires a handle of the thread.
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
    // SAFETY: the kernel gives a handler with SA_SIGINFO a context; the place of errno is this
    // thread's.
    unsafe {
        let errno = *libc::__errno_location();
        note(&*context.cast(), 1, Kept::default());
        *libc::__errno_location() = errno;
    }
}
