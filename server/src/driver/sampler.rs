//! Samples of what the process's threads run. It is not the network's; it stands here because unsafe code stands in this room only.
//!
//! Each thread gets a timer on its own CPU time, whose signal (SIGPROF) the thread itself takes. The handler copies the registers
//! and the top of the stack into a slot of a ring and returns; it allocates nothing, takes no lock and calls nothing but system
//! calls (signal-safety(7)). What the copies mean is found out later, on another thread. A thread that sleeps gets no signal,
//! because its time stands still; system calls that a signal meets are begun again (`SA_RESTART`), and those that the kernel
//! never begins again (`epoll_wait`, `io_uring_enter`: signal(7)) are waits, which both drivers take as a time-out.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes of a stack that a sample has at the most; frames further out are not seen.
const STACK_BYTES: usize = 32 << 10;

/// Samples that may wait to be taken out: 8 MiB, held while a profile runs.
const SLOTS: usize = 256;

const PAGE: usize = 4096;

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const FULL: u8 = 2;

/// The ring that handlers write to; null while nobody samples.
static RING: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());

/// Handlers that may hold the ring.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// There is a [`Sampler`].
static HELD: AtomicBool = AtomicBool::new(false);

/// Registers by which a stack is unwound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// Address of the instruction.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register; 0 where there is none.
    pub lr: u64,
}

/// One look at a thread.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The thread's id in the kernel.
    pub thread: i32,
    /// Its registers.
    pub registers: Registers,
    /// Its stack from the stack pointer on.
    pub stack: &'a [u8],
}

struct Slot {
    /// Says who may touch the rest: `FREE` nobody, `TAKEN` the handler that took it, `FULL` the sampler's owner.
    state: AtomicU8,
    thread: UnsafeCell<i32>,
    registers: UnsafeCell<Registers>,
    bytes: UnsafeCell<usize>,
    stack: UnsafeCell<Box<[u8]>>,
}

struct Ring {
    slots: Box<[Slot]>,
    next: AtomicUsize,
    dropped: AtomicU64,
}

/// Samples all threads of the process until it is dropped. There is at most one.
pub struct Sampler {
    ring: *mut Ring,
    timers: HashMap<i32, libc::timer_t>,
    hz: u32,
    own: i32,
}

impl Sampler {
    /// Prepares; [`Sampler::follow`] begins. `hz` samples a second of CPU time of each thread (at least 1); the calling thread
    /// is left out.
    ///
    /// # Errors
    /// `ResourceBusy` when there is another; the system's when it allows no handler.
    pub fn start(hz: u32) -> io::Result<Sampler> {
        if HELD.swap(true, Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the threads are sampled already"));
        }
        let slot = |_| Slot {
            state: AtomicU8::new(FREE),
            thread: UnsafeCell::new(0),
            registers: UnsafeCell::default(),
            bytes: UnsafeCell::new(0),
            stack: UnsafeCell::new(vec![0; STACK_BYTES].into_boxed_slice()),
        };
        let ring =
            Ring { slots: (0..SLOTS).map(slot).collect(), next: AtomicUsize::new(0), dropped: AtomicU64::new(0) };
        let ring = Box::into_raw(Box::new(ring));
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() };
        let sampler = Sampler { ring, timers: HashMap::new(), hz: hz.max(1), own };
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
        RING.store(ring, Ordering::SeqCst);
        Ok(sampler)
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
    pub fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) {
        for slot in &self.ring().slots {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            // SAFETY: a full slot is touched by nobody but the sampler's owner, who is here by `&mut self`.
            let (thread, registers, bytes, stack) =
                unsafe { (*slot.thread.get(), *slot.registers.get(), *slot.bytes.get(), &*slot.stack.get()) };
            each(Sample { thread, registers, stack: &stack[..bytes] });
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// Samples that found no room since the start.
    pub fn dropped(&self) -> u64 {
        self.ring().dropped.load(Ordering::Relaxed)
    }

    fn ring(&self) -> &Ring {
        // SAFETY: made by `start` and freed by `drop` only.
        unsafe { &*self.ring }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        for timer in self.timers.values() {
            // SAFETY: a timer of ours that is deleted once.
            unsafe { libc::timer_delete(*timer) };
        }
        RING.store(ptr::null_mut(), Ordering::SeqCst);
        // A handler counts itself in before it looks for the ring: whoever comes from here on finds none.
        while INSIDE.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        // SAFETY: no handler holds it, and none finds it any more.
        drop(unsafe { Box::from_raw(self.ring) });
        HELD.store(false, Ordering::SeqCst);
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
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let ring = RING.load(Ordering::SeqCst);
    if !ring.is_null() {
        // SAFETY: the ring is there for as long as a handler counts as inside; the kernel gives a handler with SA_SIGINFO a
        // context; the place of errno is this thread's.
        unsafe {
            let errno = *libc::__errno_location();
            note(&*ring, &*context.cast());
            *libc::__errno_location() = errno;
        }
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// Copies into a free slot.
fn note(ring: &Ring, context: &libc::ucontext_t) {
    let slot = &ring.slots[ring.next.fetch_add(1, Ordering::Relaxed) % SLOTS];
    if slot.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
        ring.dropped.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let registers = registers(context);
    // SAFETY: whoever has taken a slot is the only one to touch it until it is full.
    unsafe {
        *slot.thread.get() = libc::gettid();
        *slot.registers.get() = registers;
        *slot.bytes.get() = copy(registers.sp as usize, &mut *slot.stack.get());
    }
    slot.state.store(FULL, Ordering::Release);
}

/// Copies memory from an address on, as far as there is some; how many bytes. By the kernel, which says where a stack ends
/// instead of breaking the process.
fn copy(from: usize, into: &mut [u8]) -> usize {
    const PIECES: usize = STACK_BYTES / PAGE + 1;
    let nothing = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
    let (mut pieces, mut count, mut at) = ([nothing; PIECES], 0, 0);
    // A page each: a piece is copied whole or not at all (process_vm_readv(2)).
    while at < into.len() && count < PIECES {
        let len = (PAGE - (from + at) % PAGE).min(into.len() - at);
        pieces[count] = libc::iovec { iov_base: (from + at) as *mut c_void, iov_len: len };
        (count, at) = (count + 1, at + len);
    }
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the kernel writes to `into` only, and reads what it can of the process's own memory.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, pieces.as_ptr(), count as libc::c_ulong, 0) };
    usize::try_from(copied).unwrap_or(0)
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let at = |register: c_int| context.uc_mcontext.gregs[register as usize] as u64;
    Registers { ip: at(libc::REG_RIP), sp: at(libc::REG_RSP), fp: at(libc::REG_RBP), lr: 0 }
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers { ip: machine.pc, sp: machine.sp, fp: machine.regs[29], lr: machine.regs[30] }
}
