//! The inputs and outputs of a turn: time, settings, letters, reads, writes and counters. The
//! module knows nothing about connections.

pub(crate) mod attempts;
pub(crate) mod homes;
pub(crate) mod pending;
pub(crate) mod refusals;

use std::sync::Arc;

use hashbrown::HashMap;
use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

use crate::counters::Counters;
use crate::extension::ServerFacts;
use crate::id::{Now, ShardId};
use crate::io::{Effect, Output, StorageState};
use crate::kernel::pending::Pending;
use crate::kernel::refusals::Refusals;
use crate::letters::Letters;
use crate::settings::Settings;
use crate::store::hash::SecretKey;
use crate::store::{Batch, Query, Table};
use crate::wire::limit::Refusal;

/// Hash state without entropy: keys are tokens that the shard itself assigns.
pub(crate) type Fixed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// One turn of one shard, and the state that lasts from turn to turn without belonging to any
/// session.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) id: ShardId,
    pub(crate) settings: Arc<Settings>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) now: Now,
    pub(crate) entropy: ChaCha12Rng,
    /// The server's features, as they report them.
    pub(crate) facts: ServerFacts,
    /// Letters of this turn, by destination; the shard's own entry holds those to itself.
    pub(crate) letters: Vec<Letters>,
    /// Reusable memory for letters to itself.
    own_letters_spare: Letters,
    pub(crate) writes: Batch,
    pub(crate) effects: Vec<Effect>,
    /// Reusable memory for one stanza at a time.
    pub(crate) scratch: Vec<u8>,
    /// Outstanding store reads and jobs.
    pub(crate) pending: HashMap<u64, Pending, Fixed>,
    next_token: u64,
    pub(crate) storage: StorageState,
    pub(crate) shutting_down: bool,
    /// Drawn at the start. Sessions of other lives have ended.
    pub(crate) life: u64,
    /// Whether all resumable sessions of earlier processes have been restored.
    pub(crate) restored: bool,
    /// Numbers of entries are assigned above this.
    pub(crate) last_number: u64,
    /// Numbers up to this one are reserved in the store, so that none is assigned twice after a
    /// restart.
    numbers_reserved: u64,
    /// Recent refusals by limits.
    pub(crate) refusals: Refusals,
}

/// Maximum memory that a shard keeps for stamping stanzas, bytes.
const SCRATCH_BYTES_MAX: usize = 16 << 10;

impl Kernel {
    /// The state before the first turn of a shard. `seed` feeds everything that must be
    /// unpredictable.
    pub(crate) fn new(id: ShardId, settings: Arc<Settings>, counters: Arc<Counters>, seed: [u8; 32]) -> Kernel {
        Kernel {
            id,
            counters,
            now: Now::default(),
            entropy: ChaCha12Rng::from_seed(seed),
            facts: ServerFacts { archive: settings.archive, ..settings.facts.clone() },
            letters: (0..settings.shards())
                .map(|shard| if shard == id.0 { Letters::roomy(id) } else { Letters::new(id) })
                .collect(),
            own_letters_spare: Letters::roomy(id),
            writes: Batch::new(),
            effects: Vec::new(),
            scratch: Vec::new(),
            pending: HashMap::default(),
            next_token: 1,
            storage: StorageState::Ok,
            shutting_down: false,
            life: u64::from_le_bytes(
                *SecretKey::new(&seed).tag(&[b"life"]).as_bytes().first_chunk().expect("32 bytes"),
            ),
            restored: false,
            last_number: settings.number_floor,
            numbers_reserved: 0,
            refusals: Refusals::default(),
            settings,
        }
    }

    /// Number of entry numbers that are reserved at once, with one row.
    const NUMBERS_RESERVED: u64 = 1 << 16;

    /// Letters to the shard itself from this turn, if any.
    pub(crate) fn take_own_letters(&mut self) -> Option<Letters> {
        let own = &mut self.letters[self.id.index()];
        if own.is_empty() {
            return None;
        }
        let batch = own.take();
        // Two buffers alternate: one is read while the other is written.
        own.take_memory(std::mem::take(&mut self.own_letters_spare));
        self.counters.letters_own.add(batch.len() as u64);
        Some(batch)
    }

    /// Returns the memory of own letters that have been read.
    pub(crate) fn keep_own_letters(&mut self, batch: Letters) {
        self.own_letters_spare = batch.recycle();
    }

    /// Whether there are letters to the shard itself.
    pub(crate) fn own_letters_wait(&self) -> bool {
        !self.letters[self.id.index()].is_empty()
    }

    /// Moves the results of the turn to the output: letters, other effects, and writes.
    pub(crate) fn leave(&mut self, out: &mut Output) {
        for (index, batch) in self.letters.iter_mut().enumerate() {
            if index != self.id.index() && !batch.is_empty() {
                self.counters.letters_out.add(batch.len() as u64);
                self.counters.letter_text_bytes_out.add(batch.text_bytes() as u64);
                let batch = batch.take();
                self.effects.push(Effect::Letters { to: ShardId(index as u16), batch });
            }
        }
        self.counters.writes.add(self.writes.len() as u64);
        // The host has taken the last turn's batch and left an empty one, whose memory is reused.
        debug_assert!(out.writes.is_empty(), "writes of a turn were left behind");
        std::mem::swap(&mut out.writes, &mut self.writes);
        out.effects.append(&mut self.effects);
    }

    /// The home shard of an actor.
    pub(crate) fn home(&self, bare: &str) -> ShardId {
        self.settings.home(bare)
    }

    /// The batch of letters to a shard that is sent with this turn.
    pub(crate) fn letters_to(&mut self, shard: ShardId) -> &mut Letters {
        &mut self.letters[shard.index()]
    }

    /// Reads from the store; the answer returns to the dispatch.
    pub(crate) fn read(&mut self, pending: Pending, queries: Vec<Query>) {
        let token = self.token(pending);
        self.counters.reads.one();
        self.effects.push(Effect::Read { token, queries });
    }

    pub(crate) fn token(&mut self, pending: Pending) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.pending.insert(token, pending);
        token
    }

    /// The next number of an entry. Numbers of a shard strictly increase, even across restarts.
    /// They carry no time.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        if self.last_number >= self.numbers_reserved {
            self.numbers_reserved = self.last_number + Self::NUMBERS_RESERVED;
            let (sort, value) = (number_floor_sort_key(self.id), self.numbers_reserved.to_be_bytes());
            self.writes.put(Table::Meta, b"", &sort, &[&value]);
        }
        self.last_number
    }

    /// Makes the following numbers greater than this one: a recipient's entry has a higher number
    /// than the sender's.
    #[inline]
    pub(crate) fn number_after(&mut self, number: u64) {
        self.last_number = self.last_number.max(number);
    }

    /// 20 unpredictable digits.
    pub(crate) fn random_name(&mut self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [0u8; 10];
        self.entropy.fill_bytes(&mut bytes);
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
    }

    /// Keeps the memory of a stanza for reuse, unless it is too large.
    pub(crate) fn keep_scratch(&mut self, mut stanza: Vec<u8>) {
        if stanza.capacity() <= SCRATCH_BYTES_MAX {
            stanza.clear();
            self.scratch = stanza;
        }
    }

    /// Records a refused user, if the limit keeps no record itself.
    pub(crate) fn limited(&mut self, refusal: Refusal, who: impl FnOnce() -> String) {
        if let Some(held) = refusal.held
            && held.left_ms.is_none()
        {
            self.refusals.note(self.now.mono_ms, held.limit, who());
        }
    }
}

/// Sort key of the [`Table::Meta`] row that records up to which number a shard may have assigned
/// entry numbers.
pub fn number_floor_sort_key(shard: ShardId) -> Vec<u8> {
    format!("{NUMBER_FLOOR_PREFIX}{shard}").into_bytes()
}

pub use crate::store::kind::NUMBER_FLOOR_PREFIX;
