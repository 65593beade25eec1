//! Connections by slot and by their two endpoints; they never move.
//!
//! Growing copies only the small index. The hash is seeded, since attackers can choose addresses
//! and ports.

use hashbrown::HashTable;

use super::Connection;
use weir_capture::packet::Endpoint;

pub(crate) struct ConnectionArena {
    chunks: Vec<Vec<Connection>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    secrets: HashSecrets,
    /// Where the search for an idle connection resumes (clock hand).
    hand: u32,
    limit: usize,
}

/// Connections per allocation: as many as fit an allocator's size class, since rounding up wastes
/// memory.
const CHUNK: usize = (256 << 10) / size_of::<Connection>();

#[derive(Clone, Copy)]
struct HashSecrets([u64; 2]);

impl HashSecrets {
    fn new(seed: u64) -> Self {
        // A factor of 0 would make all hashes equal.
        Self([seed, fold(u128::from(seed) * u128::from(ODD)) | 1])
    }

    /// Hash of both endpoints, equal in both directions. The address is mixed with a secret before
    /// the port, so that chosen ports cannot cancel it.
    #[inline]
    fn hash(self, a: Endpoint, b: Endpoint) -> u64 {
        self.of(a).wrapping_add(self.of(b))
    }

    #[expect(clippy::cast_possible_truncation, reason = "halves of a number are taken on purpose")]
    #[inline]
    fn of(self, end: Endpoint) -> u64 {
        let Self([low, high]) = self;
        let address = fold(
            u128::from(end.address as u64 ^ low) * u128::from((end.address >> 64) as u64 ^ high),
        );
        fold(u128::from(address ^ u64::from(end.port)) * u128::from(ODD))
    }
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Folds a product to its two halves, combined.
#[expect(clippy::cast_possible_truncation, reason = "halves of a number are taken on purpose")]
#[inline]
fn fold(product: u128) -> u64 {
    product as u64 ^ (product >> 64) as u64
}

impl ConnectionArena {
    /// Creates an arena for at most `limit` connections.
    pub(crate) fn new(limit: usize, seed: u64) -> Self {
        let limit = limit.clamp(1, 1 << 30);
        let (chunks, free) = (Vec::new(), Vec::new());
        Self {
            chunks,
            free,
            index: HashTable::new(),
            secrets: HashSecrets::new(seed),
            hand: 0,
            limit,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    #[inline]
    pub(crate) fn get(&mut self, slot: u32) -> &mut Connection {
        let slot = slot as usize;
        &mut self.chunks[slot / CHUNK][slot % CHUNK]
    }

    /// Slot of the connection between two endpoints.
    #[inline]
    pub(crate) fn find(&self, a: Endpoint, b: Endpoint) -> Option<u32> {
        let hash = self.secrets.hash(a, b);
        let found = self.index.find(hash, |slot| {
            let slot = *slot as usize;
            self.chunks[slot / CHUNK][slot % CHUNK].is_between(a, b)
        });
        found.copied()
    }

    /// Inserts a connection; there must be none between its endpoints.
    pub(crate) fn insert(&mut self, connection: Connection) -> u32 {
        let hash = self.secrets.hash(connection.client(), connection.server());
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.get(slot) = connection;
                slot
            }
            None => {
                if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
                    self.chunks.push(Vec::with_capacity(CHUNK));
                }
                let before = (self.chunks.len() - 1) * CHUNK;
                let chunk = self.chunks.last_mut().expect("one was pushed if there was none");
                chunk.push(connection);
                u32::try_from(before + chunk.len() - 1).expect("the limit is below 2^30")
            }
        };
        let Self { index, chunks, secrets, .. } = self;
        index.insert_unique(hash, slot, |slot| {
            let slot = *slot as usize;
            let other = &chunks[slot / CHUNK][slot % CHUNK];
            secrets.hash(other.client(), other.server())
        });
        slot
    }

    /// Removes a connection; its slot is reused.
    pub(crate) fn remove(&mut self, slot: u32) {
        let secrets = self.secrets;
        let connection = self.get(slot);
        let hash = secrets.hash(connection.client(), connection.server());
        connection.forget();
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == slot) {
            entry.remove();
            self.free.push(slot);
        }
    }

    /// Connection to evict: the longest idle of a few candidates.
    pub(crate) fn idle(&mut self) -> Option<u32> {
        const CANDIDATES: usize = 8;
        let total = self.chunks.iter().map(Vec::len).sum::<usize>();
        let mut best: Option<(i64, u32)> = None;
        for _ in 0..CANDIDATES.min(total) {
            let slot = self.hand;
            self.hand = if slot as usize + 1 >= total { 0 } else { slot + 1 };
            let connection = self.get(slot);
            if connection.is_live() && best.is_none_or(|(ts, _)| connection.last_ts < ts) {
                best = Some((connection.last_ts, slot));
            }
        }
        best.map(|(_, slot)| slot)
    }

    /// Slots of all live connections, ascending.
    pub(crate) fn slots(&self) -> Vec<u32> {
        let mut slots: Vec<u32> = self.index.iter().copied().collect();
        slots.sort_unstable();
        slots
    }
}
