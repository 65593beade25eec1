//! Memory of one query: its own limit within the limit of its class.
//!
//! Half of a query's memory is first come, first served; the other half is split evenly among the
//! operators that can spill, so that none of them can starve the others. An operator whose request
//! is refused spills.
//!
//! Many concurrent sorts, as in spilling joins, need a stricter split: a sort that merges its files
//! takes all it gets, and one that starts later fails. In that mode, operators that can spill have
//! equal shares of a quarter, and merge buffers, which DataFusion registers separately, have equal
//! shares of one half.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

use super::{LimitKind, QueryUsage};

/// Byte budget shared by several consumers.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    /// Reserves `bytes`; false if they do not fit.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    fn force(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory pool of one query.
#[derive(Debug)]
pub(super) struct QueryPool {
    limit: usize,
    all: Arc<MemoryBudget>,
    usage: Arc<QueryUsage>,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    used: usize,
    spillers: usize,
    merges: usize,
}

/// Whether a consumer is a sort's merge buffer, which cannot spill but works with less.
fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("ExternalSorterMerge")
}

impl QueryPool {
    pub(super) fn new(limit: usize, all: &Arc<MemoryBudget>, usage: &Arc<QueryUsage>) -> Self {
        let (all, usage) = (Arc::clone(all), Arc::clone(usage));
        Self { limit, all, usage, state: Mutex::default() }
    }

    /// Most that `consumer` may hold while all consumers hold `sum` together.
    fn most(&self, state: &PoolState, sum: usize, consumer: &MemoryConsumer) -> usize {
        let half = self.limit / 2;
        let is_even = self.usage.shares_evenly.load(Ordering::Relaxed);
        match (consumer.can_spill(), is_even) {
            (true, true) => half / 2 / state.spillers.max(1),
            (true, false) if sum > half => half / state.spillers.max(1),
            (false, true) if is_merge(consumer) => half / state.merges.max(1),
            _ => self.limit,
        }
    }

    fn refuse(
        &self,
        limit: LimitKind,
        reservation: &MemoryReservation,
        bytes: usize,
    ) -> Result<()> {
        self.usage.meet(limit);
        let name = reservation.consumer().name();
        Err(DataFusionError::ResourcesExhausted(format!("no memory for {bytes} bytes of {name}")))
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.limit)
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        let mut state = self.state.lock();
        state.spillers += usize::from(consumer.can_spill());
        state.merges += usize::from(is_merge(consumer));
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut state = self.state.lock();
        state.spillers -= usize::from(consumer.can_spill());
        state.merges -= usize::from(is_merge(consumer));
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.state.lock().used += additional;
        self.all.force(additional);
        self.usage.grow(additional);
    }

    fn shrink(&self, _: &MemoryReservation, bytes: usize) {
        self.state.lock().used -= bytes;
        self.all.give_back(bytes);
        self.usage.shrink(bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if additional == 0 {
            return Ok(());
        }
        let mut state = self.state.lock();
        let sum = state.used.saturating_add(additional);
        let most = self.most(&state, sum, reservation.consumer());
        let has_room = reservation.size().saturating_add(additional) <= most;
        if sum > self.limit || !has_room {
            return self.refuse(LimitKind::Memory, reservation, additional);
        }
        if !self.all.take(additional) {
            return self.refuse(LimitKind::SharedMemory, reservation, additional);
        }
        state.used = sum;
        self.usage.grow(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.state.lock().used
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::QueryLimits;

    #[test]
    fn one_spiller_leaves_others_their_share_and_all_stay_below_the_limits() {
        let usage = QueryUsage::new(QueryLimits::default());
        let all = MemoryBudget::new(900);
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryPool::new(800, &all, &usage));
        let spiller = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (one, two) = (spiller("one"), spiller("two"));
        one.try_grow(400).unwrap();
        assert!(one.try_grow(1).is_err(), "its half is used up");
        two.try_grow(200).unwrap();
        assert!(two.try_grow(1).is_err());
        assert_eq!(usage.met(), Some(LimitKind::Memory));
        let table = MemoryConsumer::new("table").register(&pool);
        table.try_grow(200).unwrap();
        assert!(table.try_grow(1).is_err());
        drop(one);
        let other = QueryUsage::new(QueryLimits::default());
        let beside: Arc<dyn MemoryPool> = Arc::new(QueryPool::new(800, &all, &other));
        let beside = MemoryConsumer::new("beside").register(&beside);
        beside.try_grow(500).unwrap();
        assert!(beside.try_grow(1).is_err());
        assert_eq!(other.met(), Some(LimitKind::SharedMemory));
        drop((two, table, beside));
        assert_eq!((pool.reserved(), all.used.load(Ordering::Relaxed)), (0, 0));
        assert_eq!(usage.memory_peak(), 800);
    }

    #[test]
    fn sorts_leave_room_to_others_where_there_are_many() {
        let usage = QueryUsage::new(QueryLimits::default());
        let all = MemoryBudget::new(900);
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryPool::new(800, &all, &usage));
        usage.share_evenly();
        let sorts = [0, 1].map(|at| {
            let sort = MemoryConsumer::new(format!("ExternalSorter[{at}]")).with_can_spill(true);
            let merge = MemoryConsumer::new(format!("ExternalSorterMerge[{at}]"));
            (sort.register(&pool), merge.register(&pool))
        });
        for (sort, merge) in &sorts {
            sort.try_grow(100).unwrap();
            merge.try_grow(200).unwrap();
            assert!(sort.try_grow(1).is_err() && merge.try_grow(1).is_err());
        }
        let other = MemoryConsumer::new("other").register(&pool);
        other.try_grow(200).unwrap();
        assert!(other.try_grow(1).is_err());
        other.try_grow(0).unwrap();
    }
}
