//! What a turn reads, and what it leaves: time, settings, letters, reads, writes and counters. The module knows no connections.

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

/// Hash state without entropy: keys are tokens that the shard itself gives out.
pub(crate) type Fixed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// One turn of one shard, and what lasts from turn to turn without belonging to anybody.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) id: ShardId,
    pub(crate) settings: Arc<Settings>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) now: Now,
    pub(crate) entropy: ChaCha12Rng,
    /// What the features tell about the server.
    pub(crate) facts: ServerFacts,
    /// Letters of this turn, by destination; the own entry has those to itself.
    pub(crate) letters: Vec<Letters>,
    /// Memory for letters to itself.
    own_letters_spare: Letters,
    pub(crate) writes: Batch,
    pub(crate) effects: Vec<Effect>,
    /// Memory for one stanza at a time.
    pub(crate) scratch: Vec<u8>,
    /// What is asked of the store, or handed out as work.
    pub(crate) pending: HashMap<u64, Pending, Fixed>,
    next_token: u64,
    pub(crate) storage: StorageState,
    pub(crate) shutting_down: bool,
    /// Drawn at the start: sessions of other lives have gone.
    pub(crate) life: u64,
    /// All sessions of earlier processes are there that may be resumed.
    pub(crate) restored: bool,
    /// Numbers of entries are given out above this.
    pub(crate) last_number: u64,
    /// Up to here they are reserved in the store, so that none is given twice after a restart.
    numbers_reserved: u64,
    /// Who ran into limits lately.
    pub(crate) refusals: Refusals,
}

/// Memory for stamping that a shard keeps, bytes.
const SCRATCH_BYTES_MAX: usize = 16 << 10;

impl Kernel {
    /// The first turn of a shard. `seed` feeds all that must not be guessed.
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

    /// How many numbers are reserved at once: a row for so many entries.
    const NUMBERS_RESERVED: u64 = 1 << 16;

    /// What has come for the shard itself in this turn, if anything.
    pub(crate) fn take_own_letters(&mut self) -> Option<Letters> {
        let own = &mut self.letters[self.id.index()];
        if own.is_empty() {
            return None;
        }
        let batch = own.take();
        // Two take turns: one is read while the other is written.
        own.take_memory(std::mem::take(&mut self.own_letters_spare));
        self.counters.letters_own.add(batch.len() as u64);
        Some(batch)
    }

    /// Own letters have been read.
    pub(crate) fn keep_own_letters(&mut self, batch: Letters) {
        self.own_letters_spare = batch.recycle();
    }

    /// Whether there are letters to itself.
    pub(crate) fn own_letters_wait(&self) -> bool {
        !self.letters[self.id.index()].is_empty()
    }

    /// Hands over what the turn leaves: letters, other effects, and writes.
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
        // The host has taken the last turn's and left an empty batch, whose memory is used again.
        debug_assert!(out.writes.is_empty(), "writes of a turn were left behind");
        std::mem::swap(&mut out.writes, &mut self.writes);
        out.effects.append(&mut self.effects);
    }

    /// The shard that is home to an actor.
    pub(crate) fn home(&self, bare: &str) -> ShardId {
        self.settings.home(bare)
    }

    /// The batch that goes to a shard with this turn.
    pub(crate) fn letters_to(&mut self, shard: ShardId) -> &mut Letters {
        &mut self.letters[shard.index()]
    }

    /// Asks the store; the answer comes back to the dispatch.
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

    /// The next number of an entry. Numbers of a shard strictly increase, also across restarts; they say nothing of time.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        if self.last_number >= self.numbers_reserved {
            self.numbers_reserved = self.last_number + Self::NUMBERS_RESERVED;
            let (sort, value) = (number_floor_sort_key(self.id), self.numbers_reserved.to_be_bytes());
            self.writes.put(Table::Meta, b"", &sort, &[&value]);
        }
        self.last_number
    }

    /// Numbers from here on are above this one: an entry of a receiver has a higher one than the sender's.
    #[inline]
    pub(crate) fn number_after(&mut self, number: u64) {
        self.last_number = self.last_number.max(number);
    }

    /// 20 digits that cannot be guessed.
    pub(crate) fn random_name(&mut self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [0u8; 10];
        self.entropy.fill_bytes(&mut bytes);
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
    }

    /// Memory for one stanza is used again, if it is not too much to keep.
    pub(crate) fn keep_scratch(&mut self, mut stanza: Vec<u8>) {
        if stanza.capacity() <= SCRATCH_BYTES_MAX {
            stanza.clear();
            self.scratch = stanza;
        }
    }

    /// Notes who was refused, if it was by a limit that remembers nothing itself.
    pub(crate) fn limited(&mut self, refusal: Refusal, who: impl FnOnce() -> String) {
        if let Some(held) = refusal.held
            && held.left_ms.is_none()
        {
            self.refusals.note(self.now.mono_ms, held.limit, who());
        }
    }
}

/// Sort key of the [`Table::Meta`] row that says up to where a shard may have given out numbers of entries.
pub fn number_floor_sort_key(shard: ShardId) -> Vec<u8> {
    format!("{NUMBER_FLOOR_PREFIX}{shard}").into_bytes()
}

pub use crate::store::kind::NUMBER_FLOOR_PREFIX;
