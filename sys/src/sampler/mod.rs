//! Samples of what the process's threads do.
//!
//! A sampled thread copies its registers and the top of its stack into a slot of a ring, and
//! continues. It allocates nothing, takes no lock and calls nothing but system calls
//! (signal-safety(7)). The copies are interpreted later, on another thread. Samples are triggered
//! by [`time`] (after an amount of CPU time) or by [`heap`] (after an amount of allocated bytes).

mod heap;
mod time;

pub use heap::{HeapSampler, Kept};
pub(super) use heap::{allocated, freed, is_sampled};
pub use time::TimeSampler;

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Maximum bytes of stack in a sample; frames further out are not seen.
const STACK_BYTES: usize = 32 << 10;

/// Samples that may wait to be taken out: 8 MiB, held while a profile runs.
const SLOTS: usize = 256;

const PAGE: usize = 4096;

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const FULL: u8 = 2;

/// The ring that threads write to; null while sampling is off.
static RING: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());

/// Number of threads that may be using the ring.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// Whether a [`Samples`] exists.
static HELD: AtomicBool = AtomicBool::new(false);

/// The registers needed to unwind a stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// Address of the instruction.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register; 0 on architectures without one.
    pub lr: u64,
}

/// One sample of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The thread's id in the kernel.
    pub thread: i32,
    /// What it represents: 1, or a number of bytes.
    pub weight: u64,
    /// The allocated block; only for samples by bytes.
    pub kept: Kept,
    /// Its registers.
    pub registers: Registers,
    /// Its stack, from the stack pointer on.
    pub stack: &'a [u8],
}

struct Slot {
    /// Determines who may access the rest: `FREE` no thread, `TAKEN` the thread that took it,
    /// `FULL` the owner of the samples.
    state: AtomicU8,
    look: UnsafeCell<Look>,
}

/// The content of a slot.
struct Look {
    thread: i32,
    weight: u64,
    kept: Kept,
    registers: Registers,
    /// Bytes of the stack, from its beginning.
    bytes: usize,
    stack: Box<[u8]>,
}

struct Ring {
    slots: Box<[Slot]>,
    next: AtomicUsize,
    dropped: AtomicU64,
}

/// The samples of the process, until dropped. At most one exists.
struct Samples(*mut Ring);

impl Samples {
    /// From here on sampled threads find a ring.
    ///
    /// # Errors
    /// `ResourceBusy` if there is another.
    fn start() -> io::Result<Samples> {
        if HELD.swap(true, Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the threads are sampled already"));
        }
        let look = || Look {
            thread: 0,
            weight: 0,
            kept: Kept::default(),
            registers: Registers::default(),
            bytes: 0,
            stack: vec![0; STACK_BYTES].into_boxed_slice(),
        };
        let slot = |_| Slot { state: AtomicU8::new(FREE), look: UnsafeCell::new(look()) };
        let ring =
            Ring { slots: (0..SLOTS).map(slot).collect(), next: AtomicUsize::new(0), dropped: AtomicU64::new(0) };
        let ring = Box::into_raw(Box::new(ring));
        RING.store(ring, Ordering::SeqCst);
        Ok(Samples(ring))
    }

    /// Takes out the available samples.
    fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) {
        for slot in &self.ring().slots {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            // SAFETY: a full slot is accessed only by the owner of the samples, which is this one
            // by `&mut self`.
            let look = unsafe { &*slot.look.get() };
            let Look { thread, weight, kept, registers, bytes, ref stack } = *look;
            each(Sample { thread, weight, kept, registers, stack: &stack[..bytes] });
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// Number of samples lost for lack of room since the start.
    fn dropped(&self) -> u64 {
        self.ring().dropped.load(Ordering::Relaxed)
    }

    fn ring(&self) -> &Ring {
        // SAFETY: made by `start` and freed by `drop` only.
        unsafe { &*self.0 }
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        RING.store(ptr::null_mut(), Ordering::SeqCst);
        // A thread counts itself in before it loads the ring: threads that come from here on find
        // none.
        while INSIDE.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        // SAFETY: no thread holds it, and none can find it any more.
        drop(unsafe { Box::from_raw(self.0) });
        HELD.store(false, Ordering::SeqCst);
    }
}

/// Records the calling thread's position by its context, if sampling is on. In a signal handler the
/// context is that of the interrupted code, and the caller must preserve errno.
fn note(context: &libc::ucontext_t, weight: u64, kept: Kept) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let ring = RING.load(Ordering::SeqCst);
    if !ring.is_null() {
        // SAFETY: the ring exists for as long as a thread counts as inside.
        unsafe { &*ring }.note(context, weight, kept);
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

impl Ring {
    /// Copies into a free slot.
    fn note(&self, context: &libc::ucontext_t, weight: u64, kept: Kept) {
        let slot = &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % SLOTS];
        if slot.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let registers = registers(context);
        // SAFETY: the thread that has taken a slot is the only one to access it until it is full.
        let look = unsafe { &mut *slot.look.get() };
        // SAFETY: takes no arguments.
        look.thread = unsafe { libc::gettid() };
        (look.weight, look.kept, look.registers) = (weight, kept, registers);
        look.bytes = copy(registers.sp as usize, &mut look.stack);
        slot.state.store(FULL, Ordering::Release);
    }
}

/// Copies memory from an address on, as far as it is mapped; returns the number of bytes. The
/// kernel copies, as it reports the end of a stack where a direct access would crash the process.
fn copy(from: usize, into: &mut [u8]) -> usize {
    const PIECES: usize = STACK_BYTES / PAGE + 1;
    let nothing = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
    let (mut pieces, mut count, mut at) = ([nothing; PIECES], 0, 0);
    // One page each: a piece is copied entirely or not at all (process_vm_readv(2)).
    while at < into.len() && count < PIECES {
        let len = (PAGE - (from + at) % PAGE).min(into.len() - at);
        pieces[count] = libc::iovec { iov_base: (from + at) as *mut c_void, iov_len: len };
        (count, at) = (count + 1, at + len);
    }
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the kernel writes only to `into`, and reads what it can of the process's own memory.
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
