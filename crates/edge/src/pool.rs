//! The backends together: which one gets a request, which are believed to be ill, what may be tried again.
//!
//! Two choices at random spread as well as looking at all and need no agreement between threads (Mitzenmacher, *The Power
//! of Two Choices*). Ties go to whose turn it is, so equal backends get equal shares; latency counts only when it differs
//! much, so noise moves no traffic. When more look ill than `panic_percent`, the fault is more likely here: all are used.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use tokio::sync::Notify;

use crate::backend::{Backend, State};
use crate::backend_tls::BackendTls;
use crate::settings::{Balance, Settings, UpstreamSettings};
use crate::time::now_ns;

/// Retries that are allowed at once before the share of `retry_percent` counts, in hundredths.
const RETRIES_SAVED: i64 = 100 * 100;

/// All backends of one configuration. A new configuration makes a new pool that shares the backends that stay.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) backends: Vec<Arc<Backend>>,
    pub(crate) settings: UpstreamSettings,
    /// For backends with TLS.
    pub(crate) tls: Option<Arc<BackendTls>>,
    balance: Balance,
    /// The zone whose backends are preferred.
    zone: Option<String>,
    /// Whether enough of them are up.
    is_zone_whole: AtomicBool,
    /// The furthest that any backend's turns have come.
    front: AtomicU64,
    is_panicking: AtomicBool,
    /// Whether one of them waits for a request that tries it.
    has_trial: AtomicBool,
    /// Retries that are left, in hundredths.
    budget: AtomicI64,
    queued: AtomicU32,
    room: Notify,
    answers: AtomicU64,
}

/// Why no backend was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBackend {
    /// None that may be asked is left.
    None,
    /// All have as many requests as they may.
    Full,
}

impl Pool {
    /// The pool called `name`; backends of `before` that stay go on with all that is known of them.
    pub(crate) fn new(
        name: &str,
        settings: &Settings,
        tls: Option<Arc<BackendTls>>,
        before: Option<&[Arc<Self>]>,
    ) -> Self {
        let now = now_ns();
        let known = || before.unwrap_or_default().iter().flat_map(|pool| &pool.backends);
        let fronts = before.unwrap_or_default().iter().map(|pool| pool.front.load(Relaxed));
        let front = fronts.max().unwrap_or(0);
        let own = settings.backends.iter().filter(|one| one.pool == name);
        let backends = own.map(|one| {
            if let Some(old) = known().find(|old| old.is(one)).cloned() {
                old.weight.store(one.weight, Relaxed);
                if settings.check.is_none() {
                    old.forget_checks();
                }
                return old;
            }
            let new = Backend::new(one);
            if before.is_some() {
                new.recover(now);
                new.catch_up(front);
            }
            Arc::new(new)
        });
        let mut upstream = settings.upstream.clone();
        if let Some((_, idle)) = settings.pool_idle.iter().find(|(pool, _)| pool == name) {
            upstream.idle = *idle;
        }
        Self {
            name: name.to_owned(),
            backends: backends.collect(),
            settings: upstream,
            tls,
            balance: settings.balance,
            zone: settings.zone.clone(),
            is_zone_whole: AtomicBool::new(true),
            front: AtomicU64::new(front),
            is_panicking: AtomicBool::new(false),
            has_trial: AtomicBool::new(false),
            budget: AtomicI64::new(RETRIES_SAVED),
            queued: AtomicU32::new(0),
            room: Notify::new(),
            answers: AtomicU64::new(0),
        }
    }

    /// Chooses a backend and takes a place there; `random` decides between equals. `tried` are not chosen again unless nothing else is left.
    pub(crate) fn choose(
        self: &Arc<Self>,
        now: u64,
        random: u64,
        client: std::net::IpAddr,
        tried: &[Arc<Backend>],
    ) -> Result<Place, NoBackend> {
        if let Some(on_trial) = self.trial(now, client, tried) {
            return Ok(self.place(now, on_trial));
        }
        let fits = |backend: &Backend| {
            let is_tried = tried.iter().any(|other| std::ptr::eq(other.as_ref(), backend));
            if is_tried {
                return Err(NoBackend::None);
            }
            let state = backend.state(now, &self.settings);
            let is_usable = state.is_up() || state != State::Draining && self.is_panicking();
            if !is_usable {
                return Err(NoBackend::None);
            }
            let limit = self.settings.in_flight;
            if limit > 0 && backend.in_flight() as usize >= limit {
                return Err(NoBackend::Full);
            }
            Ok(())
        };
        let near = self.zone.as_deref().filter(|_| self.is_zone_whole.load(Relaxed));
        let chosen = match near {
            None => self.choose_among(now, random, client, &fits),
            Some(zone) => {
                let fits_near = |backend: &Backend| {
                    if backend.zone == zone { fits(backend) } else { Err(NoBackend::None) }
                };
                let near = self.choose_among(now, random, client, &fits_near);
                // Full, ill or tried: another zone is better than no answer.
                near.or_else(|_| self.choose_among(now, random, client, &fits))
            }
        }?;
        Ok(self.place(now, chosen))
    }

    fn place(self: &Arc<Self>, now: u64, chosen: &Arc<Backend>) -> Place {
        chosen.take(chosen.effective_weight(now, &self.settings), &self.front);
        self.earn();
        Place { backend: Arc::clone(chosen), pool: Arc::clone(self) }
    }

    /// A backend whose time out is over, for one request that tries it. With `hash` only a client who belongs there goes.
    fn trial(
        &self,
        now: u64,
        client: std::net::IpAddr,
        tried: &[Arc<Backend>],
    ) -> Option<&Arc<Backend>> {
        if !self.has_trial.load(Relaxed) || !tried.is_empty() {
            return None;
        }
        let is_own = |one: &Backend| {
            let better = |other: &&Arc<Backend>| draw(other, client) < draw(one, client);
            self.balance != Balance::Hash
                || !self
                    .backends
                    .iter()
                    .filter(better)
                    .any(|other| other.state(now, &self.settings).is_up())
        };
        let mut due = self.backends.iter().filter(|one| one.is_trial_due(now, &self.settings));
        due.find(|one| is_own(one) && one.begin_trial(now))
    }

    fn choose_among<F>(
        &self,
        now: u64,
        random: u64,
        client: std::net::IpAddr,
        fits: &F,
    ) -> Result<&Arc<Backend>, NoBackend>
    where
        F: Fn(&Backend) -> Result<(), NoBackend>,
    {
        match self.balance {
            Balance::TwoChoices => self.choose_of_two(now, random, fits),
            Balance::LeastConnections => self.least(fits, |one| self.rank(one, now)),
            Balance::RoundRobin => self.least(fits, |one| (0, one.turn())),
            Balance::Hash => self.least(fits, |one| (draw(one, client), 0)),
        }
    }

    fn rank(&self, backend: &Backend, now: u64) -> (u64, u64) {
        (backend.load(backend.effective_weight(now, &self.settings)), backend.turn())
    }

    fn choose_of_two<F>(&self, now: u64, random: u64, fits: &F) -> Result<&Arc<Backend>, NoBackend>
    where
        F: Fn(&Backend) -> Result<(), NoBackend>,
    {
        let count = self.backends.len();
        if count > 2 {
            let (high, low) = ((random >> 32) as usize, (random & 0xffff_ffff) as usize);
            let first = high % count;
            let second = (first + 1 + low % (count - 1)) % count;
            let (first, second) = (&self.backends[first], &self.backends[second]);
            if fits(first).is_ok() && fits(second).is_ok() {
                let is_second = self.rank(second, now) < self.rank(first, now);
                return Ok(if is_second { second } else { first });
            }
        }
        self.least(fits, |one| self.rank(one, now))
    }

    fn least<F, K: Ord>(
        &self,
        fits: &F,
        key: impl Fn(&Backend) -> K,
    ) -> Result<&Arc<Backend>, NoBackend>
    where
        F: Fn(&Backend) -> Result<(), NoBackend>,
    {
        let mut why = NoBackend::None;
        let mut best: Option<(K, &Arc<Backend>)> = None;
        for backend in &self.backends {
            match fits(backend) {
                Ok(()) => {
                    let key = key(backend);
                    if best.as_ref().is_none_or(|(least, _)| key < *least) {
                        best = Some((key, backend));
                    }
                }
                Err(NoBackend::Full) => why = NoBackend::Full,
                Err(NoBackend::None) => {}
            }
        }
        best.map(|(_, backend)| backend).ok_or(why)
    }

    /// A request adds its share to the retries that are allowed.
    fn earn(&self) {
        let share = i64::from(self.settings.retry_percent);
        if self.budget.load(Relaxed) < RETRIES_SAVED {
            self.budget.fetch_add(share, Relaxed);
        }
    }

    /// Whether one more retry is allowed; takes it.
    pub(crate) fn may_retry(&self) -> bool {
        if self.settings.retry_percent == 0 {
            return false;
        }
        let is_left = self.budget.fetch_sub(100, Relaxed) >= 100;
        if !is_left {
            self.budget.fetch_add(100, Relaxed);
        }
        is_left
    }

    /// Waits until a request ended somewhere; an error when too many wait already.
    pub(crate) fn join_queue(self: &Arc<Self>) -> Result<Queued, NoBackend> {
        if self.queued.fetch_add(1, Relaxed) as usize >= self.settings.queue {
            self.queued.fetch_sub(1, Relaxed);
            return Err(NoBackend::Full);
        }
        Ok(Queued(Arc::clone(self)))
    }

    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Relaxed)
    }

    /// Whether so many look ill that none is believed to be.
    pub(crate) fn is_panicking(&self) -> bool {
        self.is_panicking.load(Relaxed)
    }

    /// An answer came from any backend.
    pub(crate) fn answered(&self) {
        self.answers.fetch_add(1, Relaxed);
    }

    /// Looks at all backends: usual latency, stalls, panic. Called by one thread, about every 50 ms.
    pub(crate) fn look(&self, now: u64, looked: &mut Looked) {
        self.backends.iter().for_each(|one| one.forget_latency(now));
        let mut latencies: Vec<u64> = self.backends.iter().map(|one| one.latency_ns()).collect();
        latencies.retain(|latency| *latency > 0);
        latencies.sort_unstable();
        let usual = latencies.get(latencies.len().saturating_sub(1) / 2).copied().unwrap_or(0);
        let answers = self.answers.load(Relaxed);
        let is_other_answering = answers.saturating_sub(looked.answers_before(now)) >= 8;
        for backend in &self.backends {
            backend.set_factor(usual);
            if backend.is_slow() || backend.state(now, &self.settings) != State::Up {
                backend.catch_up(self.front.load(Relaxed));
            }
            // Only beside others that answer is silence the backend's own.
            if is_other_answering && self.backends.len() > 1 {
                backend.look_for_stall(now, &self.settings);
            }
        }
        let has_trial = self.backends.iter().any(|one| one.is_trial_due(now, &self.settings));
        self.has_trial.store(has_trial, Relaxed);
        looked.note(now, answers);
        let used = self.backends.iter().filter(|one| one.weight.load(Relaxed) > 0);
        let (all, ill) = used.fold((0, 0), |(all, ill), one| {
            (all + 1, ill + u32::from(!one.state(now, &self.settings).is_up()))
        });
        let is_panic = ill * 100 > all * self.settings.panic_percent;
        if self.is_panicking.swap(is_panic, Relaxed) != is_panic {
            tell_of_panic(is_panic, ill, all);
        }
        self.look_at_zone(now);
    }

    /// While half of the zone's backends are up, or more, they can carry its requests; with fewer, all zones share them.
    fn look_at_zone(&self, now: u64) {
        let Some(zone) = &self.zone else { return };
        let near = self.backends.iter().filter(|one| one.zone == *zone);
        let near = near.filter(|one| one.weight.load(Relaxed) > 0);
        let (all, up) = near.fold((0, 0), |(all, up), one| {
            (all + 1, up + u32::from(one.state(now, &self.settings).is_up()))
        });
        let is_whole = all > 0 && up * 2 >= all;
        if self.is_zone_whole.swap(is_whole, Relaxed) == is_whole {
            return;
        }
        if is_whole {
            tracing::info!("the backends of zone `{zone}` get its requests again");
        } else {
            tracing::warn!(
                "{up} of {all} backends of zone `{zone}` are up: all zones get requests"
            );
        }
    }
}

fn tell_of_panic(is_panic: bool, ill: u32, all: u32) {
    if is_panic {
        tracing::warn!(
            "{ill} of {all} backends look ill: none is believed to be, all get requests"
        );
    } else {
        tracing::info!("{ill} of {all} backends look ill, and get no requests");
    }
}

/// Rendezvous hashing: each backend draws a number for the client, the least wins; without it, the next one does.
fn draw(backend: &Backend, client: std::net::IpAddr) -> u64 {
    // Mixed once more: the order of such hashes follows their last bytes otherwise (splitmix64).
    let mut mixed = rustc_hash::FxBuildHasher.hash_one((backend.address, client));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // Of exponential draws the least is a backend's with the chance of its weight; bits of positive floats are ordered.
    #[expect(clippy::cast_precision_loss, reason = "a draw needs 53 bits")]
    let even = ((mixed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    (-even.ln() / f64::from(backend.weight.load(Relaxed).max(1))).to_bits()
}

/// A request under way at a backend; dropping it ends that.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) backend: Arc<Backend>,
    pool: Arc<Pool>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.backend.give_back();
        if self.pool.queued() > 0 {
            self.pool.room.notify_one();
        }
    }
}

/// A request in the queue; dropping it leaves.
pub(crate) struct Queued(Arc<Pool>);

impl Queued {
    /// Until a place became free somewhere; it may be gone by the time it is asked for.
    pub(crate) async fn room(&self) {
        self.0.room.notified().await;
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Relaxed);
    }
}

/// How many answers there were half a second ago.
#[derive(Debug, Default)]
pub(crate) struct Looked(std::collections::VecDeque<(u64, u64)>);

impl Looked {
    fn answers_before(&mut self, now: u64) -> u64 {
        while self.0.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) > 500_000_000) {
            self.0.pop_front();
        }
        self.0.front().map_or(0, |(_, answers)| *answers)
    }

    fn note(&mut self, now: u64, answers: u64) {
        self.0.push_back((now, answers));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::BackendSettings;
    use std::net::IpAddr;
    use std::time::Duration;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const SECOND: u64 = 1_000_000_000;

    fn pool(balance: Balance, backends: &[&str]) -> Arc<Pool> {
        let backends = backends.iter().map(|text| BackendSettings::parse(text).unwrap());
        let settings = Settings { backends: backends.collect(), balance, ..Settings::default() };
        Arc::new(Pool::new("", &settings, None, None))
    }

    /// Many requests; `steps` is how many of them are under way at a time.
    fn shares(pool: &Arc<Pool>, now: u64, count: usize, under_way: usize) -> Vec<u64> {
        let mut seed = 7_u64;
        let before: Vec<u64> = totals(pool);
        let mut places = std::collections::VecDeque::new();
        for _ in 0..count {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if places.len() >= under_way {
                let at = (seed >> 33) as usize % places.len();
                places.remove(at);
            }
            places.push_back(pool.choose(now, seed.rotate_left(17) ^ seed, CLIENT, &[]).unwrap());
        }
        totals(pool).iter().zip(before).map(|(after, before)| after - before).collect()
    }

    fn totals(pool: &Pool) -> Vec<u64> {
        pool.backends.iter().map(|one| one.totals.requests.load(Relaxed)).collect()
    }

    const FOUR: [&str; 4] = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"];

    #[test]
    fn equal_backends_get_equal_shares_whatever_the_algorithm() {
        for balance in [Balance::TwoChoices, Balance::LeastConnections, Balance::RoundRobin] {
            for under_way in [1, 8, 64] {
                let shares = shares(&pool(balance, &FOUR), SECOND, 40_000, under_way);
                for share in &shares {
                    let is_even = (9_800..=10_200).contains(share);
                    assert!(is_even, "{balance:?} {under_way}: {shares:?}");
                }
            }
        }
    }

    #[test]
    fn weights_are_shares() {
        let pool = pool(Balance::RoundRobin, &["127.0.0.1:1*3", "127.0.0.1:2", "127.0.0.1:3*0"]);
        assert_eq!(shares(&pool, SECOND, 4_000, 1), [3_000, 1_000, 0]);
    }

    #[test]
    fn hash_moves_only_the_clients_of_a_backend_that_is_gone() {
        let (all, fewer) = (pool(Balance::Hash, &FOUR), pool(Balance::Hash, &FOUR[..3]));
        let mut counts = [0; 4];
        for client in 0..4_000_u32 {
            let client = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + client));
            let of =
                |pool: &Arc<Pool>| pool.choose(1, 0, client, &[]).unwrap().backend.address.port();
            let (port, port_of_fewer) = (of(&all), of(&fewer));
            counts[usize::from(port) - 1] += 1;
            assert!(port == port_of_fewer || port == 4);
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn noise_of_latency_moves_no_traffic_and_a_slow_backend_gets_less() {
        let pool = pool(Balance::TwoChoices, &FOUR);
        let mut looked = Looked::default();
        for (at, backend) in pool.backends.iter().enumerate() {
            backend.answered(SECOND, 10_000_000 + 1_000_000 * at as u64);
        }
        pool.look(SECOND, &mut looked);
        let even = shares(&pool, SECOND, 20_000, 8);
        assert!(even.iter().all(|share| (4_900..=5_100).contains(share)), "{even:?}");
        for _ in 0..50 {
            pool.backends[0].answered(SECOND, 100_000_000);
        }
        pool.look(SECOND, &mut looked);
        let uneven = shares(&pool, SECOND, 20_000, 8);
        assert!(uneven[0] < 1_500, "{uneven:?}");
    }

    #[test]
    fn who_was_slow_once_is_tried_again_by_requests_that_come_one_at_a_time() {
        let pool = pool(Balance::TwoChoices, &FOUR);
        let mut looked = Looked::default();
        for backend in &pool.backends {
            backend.answered(SECOND, 1_000_000);
        }
        (0..100).for_each(|_| pool.backends[0].answered(SECOND, 100_000_000));
        pool.look(SECOND, &mut looked);
        assert_eq!(shares(&pool, SECOND, 1_000, 1)[0], 0);
        pool.look(7 * SECOND, &mut looked);
        assert!(shares(&pool, 7 * SECOND, 1_000, 1)[0] > 100);
        // Slow still: not again for a while.
        for (at, backend) in pool.backends.iter().enumerate() {
            backend.answered(7 * SECOND, if at == 0 { 100_000_000 } else { 1_000_000 });
        }
        pool.look(7 * SECOND, &mut looked);
        assert_eq!(shares(&pool, 7 * SECOND, 1_000, 1)[0], 0);
    }

    #[test]
    fn who_comes_back_is_not_given_the_turns_that_it_missed() {
        let pool = pool(Balance::TwoChoices, &FOUR);
        let mut looked = Looked::default();
        let back = &pool.backends[0];
        (0..3).for_each(|_| _ = back.failed(SECOND, &pool.settings));
        assert_eq!(shares(&pool, 2 * SECOND, 1_000, 1)[0], 0);
        // Out, in its slow start, and back.
        pool.look(2 * SECOND, &mut looked);
        back.answered(8 * SECOND, 1_000);
        pool.look(8 * SECOND, &mut looked);
        assert_eq!(shares(&pool, 8 * SECOND, 1_000, 1)[0], 0);
        pool.look(9 * SECOND, &mut looked);
        let shares = shares(&pool, 60 * SECOND, 1_000, 1);
        assert!((200..300).contains(&shares[0]), "{shares:?}");
    }

    #[test]
    fn a_backend_that_fails_is_out_longer_each_time_and_comes_back_slowly() {
        let pool = pool(Balance::TwoChoices, &FOUR);
        let (bad, settings) = (Arc::clone(&pool.backends[0]), &pool.settings);
        let mut looked = Looked::default();
        for _ in 0..2 {
            assert!(!bad.failed(SECOND, settings));
        }
        assert!(bad.failed(SECOND, settings));
        assert_eq!(bad.state(SECOND, settings), State::Ejected);
        assert_eq!(shares(&pool, SECOND, 3_000, 8)[0], 0);
        // Its time is over: one request tries it, and fails, and so does one much later.
        for at in [7 * SECOND, 90 * SECOND] {
            pool.look(at, &mut looked);
            assert_eq!(shares(&pool, at, 3_000, 8)[0], 1);
            assert_eq!(bad.state(at, settings), State::Ejected);
            assert!(bad.failed(at, settings));
        }
        // Now it is out four times as long.
        pool.look(109 * SECOND, &mut looked);
        assert_eq!(shares(&pool, 109 * SECOND, 3_000, 8)[0], 0);
        let back = 111 * SECOND;
        pool.look(back, &mut looked);
        assert_eq!(shares(&pool, back, 3_000, 8)[0], 1);
        bad.answered(back, 1_000);
        assert_eq!(bad.state(back, settings), State::SlowStart);
        let slow = shares(&pool, back + SECOND, 10_000, 16)[0];
        assert!((200..1_500).contains(&slow), "{slow}");
        assert_eq!(bad.state(125 * SECOND, settings), State::Up);
        // Who was well for long begins anew.
        (0..3).for_each(|_| _ = bad.failed(180 * SECOND, settings));
        pool.look(186 * SECOND, &mut looked);
        assert_eq!(shares(&pool, 186 * SECOND, 3_000, 8)[0], 1);
    }

    #[test]
    fn with_hash_only_its_own_clients_try_a_backend() {
        let pool = pool(Balance::Hash, &FOUR);
        let mut looked = Looked::default();
        let bad = &pool.backends[0];
        (0..3).for_each(|_| _ = bad.failed(SECOND, &pool.settings));
        pool.look(8 * SECOND, &mut looked);
        let others = (0..250).map(|last| IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, last)));
        let (own, foreign): (Vec<_>, Vec<_>) = others.partition(|client| {
            let least = pool.backends.iter().min_by_key(|one| draw(one, *client));
            least.is_some_and(|one| Arc::ptr_eq(one, bad))
        });
        let chosen = |client| pool.choose(8 * SECOND, 1, client, &[]).unwrap().backend.address;
        assert!(foreign.iter().all(|client| chosen(*client) != bad.address));
        assert_eq!(chosen(own[0]), bad.address);
        assert_ne!(chosen(own[0]), bad.address);
    }

    #[test]
    fn a_stalled_backend_is_tried_by_one_request_and_not_judged_by_older_ones() {
        let pool = pool(Balance::TwoChoices, &FOUR);
        let (hung, settings) = (Arc::clone(&pool.backends[2]), &pool.settings);
        let mut looked = Looked::default();
        let mut look = |at: u64| {
            pool.look(at, &mut looked);
            (0..20).for_each(|_| pool.answered());
            pool.look(at + 1, &mut looked);
            hung.state(at + 1, settings)
        };
        (0..2).for_each(|_| hung.begin_waiting(SECOND));
        assert_eq!(look(3 * SECOND), State::Stalled);
        assert!(hung.is_silent(3 * SECOND + 1));
        // Its time is over; the two still wait, and nothing was sent to see.
        assert_eq!(look(9 * SECOND), State::Stalled);
        assert!(hung.is_trial_due(9 * SECOND, settings));
        assert!(hung.begin_trial(9 * SECOND) && !hung.begin_trial(9 * SECOND));
        hung.begin_waiting(9 * SECOND);
        assert_eq!(look(9 * SECOND + 1_000), State::Stalled);
        assert!(!hung.is_silent(9 * SECOND + 1_000), "what is there to see waits on");
        assert_eq!(look(11 * SECOND), State::Stalled);
        assert!(hung.is_silent(11 * SECOND + 1), "it is out once more");
        assert!(!hung.is_trial_due(19 * SECOND, settings));
        hung.answered(20 * SECOND, 1_000);
        assert_eq!(hung.state(20 * SECOND, settings), State::SlowStart);
    }

    #[test]
    fn silence_is_a_stall_only_beside_others_that_answer() {
        let pool = pool(Balance::TwoChoices, &FOUR);
        let (hung, settings) = (Arc::clone(&pool.backends[2]), &pool.settings);
        hung.begin_waiting(SECOND);
        hung.begin_waiting(SECOND);
        let mut looked = Looked::default();
        pool.look(SECOND, &mut looked);
        pool.look(2 * SECOND, &mut looked);
        assert_eq!(hung.state(2 * SECOND, settings), State::Up);
        for _ in 0..20 {
            pool.answered();
        }
        pool.look(2 * SECOND + 1, &mut looked);
        assert_eq!(hung.state(2 * SECOND + 2, settings), State::Stalled);
        hung.answered(3 * SECOND, 5);
        assert!(hung.state(3 * SECOND + 1, settings).is_up());
    }

    #[test]
    fn when_most_look_ill_none_is_believed_to_be() {
        let pool = pool(Balance::TwoChoices, &FOUR);
        let mut looked = Looked::default();
        for backend in &pool.backends[..2] {
            (0..3).for_each(|_| _ = backend.failed(SECOND, &pool.settings));
        }
        pool.look(SECOND + 1, &mut looked);
        assert_eq!(shares(&pool, SECOND + 1, 1_000, 4)[..2], [0, 0]);
        (0..3).for_each(|_| _ = pool.backends[2].failed(SECOND, &pool.settings));
        pool.look(SECOND + 1, &mut looked);
        assert!(pool.is_panicking());
        assert!(shares(&pool, SECOND + 1, 1_000, 4).iter().all(|share| *share > 200));
    }

    #[test]
    fn a_zone_keeps_its_requests_until_most_of_it_is_lost() {
        let texts =
            ["127.0.0.1:1@a", "127.0.0.1:2@a", "127.0.0.1:3@a", "127.0.0.1:4@b", "127.0.0.1:5@b"];
        for balance in [Balance::TwoChoices, Balance::LeastConnections, Balance::RoundRobin] {
            let backends = texts.iter().map(|text| BackendSettings::parse(text).unwrap());
            let settings = Settings {
                backends: backends.collect(),
                zone: Some("a".into()),
                balance,
                ..Settings::default()
            };
            let pool = Arc::new(Pool::new("", &settings, None, None));
            let mut looked = Looked::default();
            pool.look(SECOND, &mut looked);
            let near = shares(&pool, SECOND, 3_000, 8);
            assert_eq!(near[3..], [0, 0], "{balance:?}");
            assert!(near[..3].iter().all(|share| (950..1050).contains(share)), "{near:?}");
            (0..3).for_each(|_| _ = pool.backends[0].failed(SECOND, &pool.settings));
            pool.look(SECOND + 1, &mut looked);
            let near = shares(&pool, SECOND + 1, 3_000, 8);
            assert_eq!([near[0], near[3], near[4]], [0, 0, 0], "{balance:?}");
            (0..3).for_each(|_| _ = pool.backends[1].failed(SECOND + 1, &pool.settings));
            pool.look(SECOND + 2, &mut looked);
            let all = shares(&pool, SECOND + 2, 3_000, 8);
            assert_eq!(all[..2], [0, 0], "{balance:?}");
            assert!(all[3..].iter().all(|share| *share > 900), "{all:?}");
        }
    }

    #[test]
    fn retries_have_a_budget() {
        let pool = pool(Balance::RoundRobin, &FOUR);
        let saved = (0..1_000).filter(|_| pool.may_retry()).count();
        assert_eq!(saved, 100);
        drop(shares(&pool, SECOND, 200, 1));
        assert_eq!((0..1_000).filter(|_| pool.may_retry()).count(), 20);
    }

    #[test]
    fn a_full_backend_is_left_out_and_all_full_says_so() {
        let mut settings = Settings {
            backends: FOUR.iter().map(|text| BackendSettings::parse(text).unwrap()).collect(),
            ..Settings::default()
        };
        settings.upstream.in_flight = 1;
        settings.upstream.queue = 1;
        let pool = Arc::new(Pool::new("", &settings, None, None));
        let places: Vec<_> =
            (0..4).map(|at| pool.choose(1, at << 32 | at, CLIENT, &[]).unwrap()).collect();
        assert_eq!(pool.choose(1, 9, CLIENT, &[]).err(), Some(NoBackend::Full));
        let _queued = pool.join_queue().unwrap();
        assert!(pool.join_queue().is_err());
        drop(places);
        assert!(pool.choose(1, 9, CLIENT, &[]).is_ok());
    }

    #[test]
    fn idle_connections_go_before_the_backend_closes_them() {
        let backend = Backend::new(&BackendSettings::parse(FOUR[0]).unwrap());
        let settings =
            UpstreamSettings { idle: Duration::from_secs(60), ..UpstreamSettings::default() };
        assert_eq!(backend.idle_ns(&settings), 60 * SECOND);
        backend.learn_idle(5 * SECOND);
        assert_eq!(backend.idle_ns(&settings), 4 * SECOND);
        backend.learn_idle(SECOND);
        assert_eq!(backend.idle_ns(&settings), 800_000_000);
    }
}
