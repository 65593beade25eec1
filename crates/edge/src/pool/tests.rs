//! Tests of load balancing: shares, health, trials, zones, retries.

use super::*;
use crate::settings::destination::BackendSettings;
use crate::settings::{CheckKind, CheckSettings};
use std::net::IpAddr;
use std::time::Duration;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn at(seconds: u64) -> MonoTime {
    at_millis(seconds * 1000)
}

fn at_millis(milliseconds: u64) -> MonoTime {
    MonoTime::NEVER + Nanos::from_millis(milliseconds)
}

fn millis(milliseconds: u64) -> Nanos {
    Nanos::from_millis(milliseconds)
}

/// Traffic of a test: how many requests, and how many of them at a time.
struct TestLoad {
    requests: usize,
    in_flight: usize,
}

fn load(requests: usize) -> TestLoad {
    TestLoad { requests, in_flight: 1 }
}

impl TestLoad {
    fn in_flight(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }
}

fn pool(balance: Balance, backends: &[&str]) -> Arc<Pool> {
    let backends = backends.iter().map(|text| BackendSettings::parse(text).unwrap());
    let settings = Settings { backends: backends.collect(), balance, ..Settings::default() };
    Arc::new(Pool::new("", &settings, None, None))
}

/// Sends requests through the pool; returns how many each backend got.
fn shares(pool: &Arc<Pool>, now: MonoTime, load: TestLoad) -> Vec<u64> {
    let mut seed = 7_u64;
    let before: Vec<u64> = totals(pool);
    let mut slots = VecDeque::new();
    for _ in 0..load.requests {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if slots.len() >= load.in_flight {
            let at = (seed >> 33) as usize % slots.len();
            slots.remove(at);
        }
        let random = RandomBits(seed.rotate_left(17) ^ seed);
        slots.push_back(pool.choose(now, random, CLIENT, &[]).unwrap());
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
            let shares = shares(&pool(balance, &FOUR), at(1), load(40_000).in_flight(under_way));
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
    assert_eq!(shares(&pool, at(1), load(4_000)), [3_000, 1_000, 0]);
}

/// The port of the backend that a client is sent to.
fn port_for(pool: &Arc<Pool>, client: IpAddr) -> u16 {
    pool.choose(at(8), RandomBits(1), client, &[]).unwrap().backend.address.port()
}

#[test]
fn hash_moves_only_the_clients_of_a_backend_that_is_gone() {
    let (all, fewer) = (pool(Balance::Hash, &FOUR), pool(Balance::Hash, &FOUR[..3]));
    let mut counts = [0; 4];
    for client in 0..4_000_u32 {
        let client = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + client));
        let (port, port_of_fewer) = (port_for(&all, client), port_for(&fewer, client));
        counts[usize::from(port) - 1] += 1;
        assert!(port == port_of_fewer || port == 4);
    }
    assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}

#[test]
fn latency_noise_moves_no_traffic_and_a_slow_backend_gets_less() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let mut history = ResponseHistory::default();
    for (number, backend) in (0..).zip(&pool.backends) {
        backend.record_response(at(1), millis(10 + number));
    }
    pool.update_health(at(1), &mut history);
    let even = shares(&pool, at(1), load(20_000).in_flight(8));
    assert!(even.iter().all(|share| (4_900..=5_100).contains(share)), "{even:?}");
    for _ in 0..50 {
        pool.backends[0].record_response(at(1), millis(100));
    }
    pool.update_health(at(1), &mut history);
    let uneven = shares(&pool, at(1), load(20_000).in_flight(8));
    assert!(uneven[0] < 1_500, "{uneven:?}");
}

#[test]
fn a_slow_backend_is_tried_again_after_its_latency_expires() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let mut history = ResponseHistory::default();
    for backend in &pool.backends {
        backend.record_response(at(1), millis(1));
    }
    (0..100).for_each(|_| pool.backends[0].record_response(at(1), millis(100)));
    pool.update_health(at(1), &mut history);
    assert_eq!(shares(&pool, at(1), load(1_000))[0], 0);
    pool.update_health(at(7), &mut history);
    assert!(shares(&pool, at(7), load(1_000))[0] > 100);
    // It is still slow, so it gets no requests for a while.
    for (number, backend) in pool.backends.iter().enumerate() {
        backend.record_response(at(7), millis(if number == 0 { 100 } else { 1 }));
    }
    pool.update_health(at(7), &mut history);
    assert_eq!(shares(&pool, at(7), load(1_000))[0], 0);
}

#[test]
fn a_recovered_backend_does_not_receive_the_requests_that_it_missed() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let mut history = ResponseHistory::default();
    let back = &pool.backends[0];
    (0..3).for_each(|_| _ = back.record_failure(at(1), &pool.settings));
    assert_eq!(shares(&pool, at(2), load(1_000))[0], 0);
    // Ejected, in slow start, and up.
    pool.update_health(at(2), &mut history);
    back.record_response(at(8), Nanos(1_000));
    pool.update_health(at(8), &mut history);
    assert_eq!(shares(&pool, at(8), load(1_000))[0], 0);
    pool.update_health(at(9), &mut history);
    let shares = shares(&pool, at(60), load(1_000));
    assert!((200..300).contains(&shares[0]), "{shares:?}");
}

#[test]
fn a_failing_backend_is_ejected_for_longer_each_time_and_recovers_slowly() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let (bad, settings) = (Arc::clone(&pool.backends[0]), &pool.settings);
    let mut history = ResponseHistory::default();
    for _ in 0..2 {
        assert!(!bad.record_failure(at(1), settings));
    }
    assert!(bad.record_failure(at(1), settings));
    assert_eq!(bad.state(at(1), settings), HealthState::Ejected);
    assert_eq!(shares(&pool, at(1), load(3_000).in_flight(8))[0], 0);
    // The ejection is over: one trial request fails, and another one much later.
    for later in [at(7), at(90)] {
        pool.update_health(later, &mut history);
        assert_eq!(shares(&pool, later, load(3_000).in_flight(8))[0], 1);
        assert_eq!(bad.state(later, settings), HealthState::Ejected);
        assert!(bad.record_failure(later, settings));
    }
    // The third ejection is four times as long.
    pool.update_health(at(109), &mut history);
    assert_eq!(shares(&pool, at(109), load(3_000).in_flight(8))[0], 0);
    let back = at(111);
    pool.update_health(back, &mut history);
    assert_eq!(shares(&pool, back, load(3_000).in_flight(8))[0], 1);
    bad.record_response(back, Nanos(1_000));
    assert_eq!(bad.state(back, settings), HealthState::SlowStart);
    let slow = shares(&pool, back + Nanos::from_secs(1), load(10_000).in_flight(16))[0];
    assert!((200..1_500).contains(&slow), "{slow}");
    assert_eq!(bad.state(at(125), settings), HealthState::Up);
    // After a long time up, the ejection time is reset.
    (0..3).for_each(|_| _ = bad.record_failure(at(180), settings));
    pool.update_health(at(186), &mut history);
    assert_eq!(shares(&pool, at(186), load(3_000).in_flight(8))[0], 1);
}

#[test]
fn with_hash_only_its_own_clients_try_an_ejected_backend() {
    let pool = pool(Balance::Hash, &FOUR);
    let mut history = ResponseHistory::default();
    let bad = &pool.backends[0];
    (0..3).for_each(|_| _ = bad.record_failure(at(1), &pool.settings));
    pool.update_health(at(8), &mut history);
    let others = (0..250).map(|last| IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, last)));
    let (own, foreign): (Vec<_>, Vec<_>) = others.partition(|client| {
        let least = pool.backends.iter().min_by_key(|one| rendezvous_score(one, *client));
        least.is_some_and(|one| Arc::ptr_eq(one, bad))
    });
    let port = bad.address.port();
    assert!(foreign.iter().all(|client| port_for(&pool, *client) != port));
    assert_eq!(port_for(&pool, own[0]), port);
    assert_ne!(port_for(&pool, own[0]), port);
}

/// The state of backend 2 after the others have sent responses.
/// Another backend sends responses.
fn answer_elsewhere(pool: &Pool, now: MonoTime) {
    let route = RouteKey::of(&http::Method::GET, "/");
    (0..20).for_each(|_| pool.record_response(&pool.backends[0], route, now, Nanos(1)));
}

/// A response that was due does not come.
fn wait_in_vain(backend: &Backend, now: MonoTime) {
    backend.begin_waiting(now);
    backend.begin_overdue();
}

fn state_beside_others(pool: &Pool, now: MonoTime, history: &mut ResponseHistory) -> HealthState {
    pool.update_health(now, history);
    answer_elsewhere(pool, now);
    pool.update_health(now + Nanos(1), history);
    pool.backends[2].state(now + Nanos(1), &pool.settings)
}

#[test]
fn a_stalled_backend_is_tried_by_one_request_and_older_ones_do_not_count() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let (hung, settings) = (Arc::clone(&pool.backends[2]), &pool.settings);
    let mut history = ResponseHistory::default();
    (0..2).for_each(|_| wait_in_vain(&hung, at(1)));
    assert_eq!(state_beside_others(&pool, at(3), &mut history), HealthState::Stalled);
    assert!(hung.is_silent(at(3) + Nanos(1)));
    // The ejection is over, but no trial request was sent; only the two old ones wait.
    assert_eq!(state_beside_others(&pool, at(9), &mut history), HealthState::Stalled);
    assert!(hung.is_trial_due(at(9), settings));
    assert!(hung.begin_trial(at(9)) && !hung.begin_trial(at(9)));
    wait_in_vain(&hung, at(9));
    assert_eq!(
        state_beside_others(&pool, at(9) + Nanos(1_000), &mut history),
        HealthState::Stalled
    );
    assert!(!hung.is_silent(at(9) + Nanos(1_000)), "the trial request keeps waiting");
    assert_eq!(state_beside_others(&pool, at(11), &mut history), HealthState::Stalled);
    assert!(hung.is_silent(at(11) + Nanos(1)), "it is ejected again");
    assert!(!hung.is_trial_due(at(19), settings));
    hung.record_response(at(20), Nanos(1_000));
    assert_eq!(hung.state(at(20), settings), HealthState::SlowStart);
}

#[test]
fn silence_is_a_stall_only_if_other_backends_respond() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let (hung, settings) = (Arc::clone(&pool.backends[2]), &pool.settings);
    (0..2).for_each(|_| wait_in_vain(&hung, at(1)));
    let mut history = ResponseHistory::default();
    pool.update_health(at(1), &mut history);
    pool.update_health(at(2), &mut history);
    assert_eq!(hung.state(at(2), settings), HealthState::Up);
    answer_elsewhere(&pool, at(2));
    pool.update_health(at(2) + Nanos(1), &mut history);
    assert_eq!(hung.state(at(2) + Nanos(2), settings), HealthState::Stalled);
    hung.record_response(at(3), Nanos(5));
    assert!(hung.state(at(3) + Nanos(1), settings).is_up());
}

#[test]
fn when_most_look_unhealthy_health_is_ignored() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let mut history = ResponseHistory::default();
    for backend in &pool.backends[..2] {
        (0..3).for_each(|_| _ = backend.record_failure(at(1), &pool.settings));
    }
    pool.update_health(at(1) + Nanos(1), &mut history);
    assert_eq!(shares(&pool, at(1) + Nanos(1), load(1_000).in_flight(4))[..2], [0, 0]);
    (0..3).for_each(|_| _ = pool.backends[2].record_failure(at(1), &pool.settings));
    pool.update_health(at(1) + Nanos(1), &mut history);
    assert!(pool.is_panicking());
    assert!(
        shares(&pool, at(1) + Nanos(1), load(1_000).in_flight(4)).iter().all(|share| *share > 200)
    );
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
        let mut history = ResponseHistory::default();
        pool.update_health(at(1), &mut history);
        let near = shares(&pool, at(1), load(3_000).in_flight(8));
        assert_eq!(near[3..], [0, 0], "{balance:?}");
        assert!(near[..3].iter().all(|share| (950..1050).contains(share)), "{near:?}");
        (0..3).for_each(|_| _ = pool.backends[0].record_failure(at(1), &pool.settings));
        pool.update_health(at(1) + Nanos(1), &mut history);
        let near = shares(&pool, at(1) + Nanos(1), load(3_000).in_flight(8));
        assert_eq!([near[0], near[3], near[4]], [0, 0, 0], "{balance:?}");
        (0..3).for_each(|_| _ = pool.backends[1].record_failure(at(1) + Nanos(1), &pool.settings));
        pool.update_health(at(1) + Nanos(2), &mut history);
        let all = shares(&pool, at(1) + Nanos(2), load(3_000).in_flight(8));
        assert_eq!(all[..2], [0, 0], "{balance:?}");
        assert!(all[3..].iter().all(|share| *share > 900), "{all:?}");
    }
}

#[test]
fn retries_have_a_budget() {
    let pool = pool(Balance::RoundRobin, &FOUR);
    let saved = (0..1_000).filter(|_| pool.take_retry()).count();
    assert_eq!(saved, 100);
    drop(shares(&pool, at(1), load(200)));
    assert_eq!((0..1_000).filter(|_| pool.take_retry()).count(), 20);
}

#[test]
fn a_full_backend_is_skipped_and_all_full_is_an_error() {
    let mut settings = Settings {
        backends: FOUR.iter().map(|text| BackendSettings::parse(text).unwrap()).collect(),
        ..Settings::default()
    };
    settings.upstream.in_flight = 1;
    settings.upstream.queue = 1;
    let pool = Arc::new(Pool::new("", &settings, None, None));
    let places: Vec<_> =
        (0..4).map(|n| pool.choose(at(1), RandomBits(n << 32 | n), CLIENT, &[]).unwrap()).collect();
    assert_eq!(pool.choose(at(1), RandomBits(9), CLIENT, &[]).err(), Some(NoBackend::Full));
    let _queued = pool.join_queue().unwrap();
    assert!(pool.join_queue().is_err());
    drop(places);
    assert!(pool.choose(at(1), RandomBits(9), CLIENT, &[]).is_ok());
}

#[test]
fn idle_connections_close_before_the_backend_closes_them() {
    let backend = Backend::new(&BackendSettings::parse(FOUR[0]).unwrap());
    let settings =
        UpstreamSettings { idle: Duration::from_secs(60), ..UpstreamSettings::default() };
    assert_eq!(backend.idle_timeout(&settings), millis(60_000));
    backend.learn_idle_timeout(millis(5000));
    assert_eq!(backend.idle_timeout(&settings), millis(4000));
    backend.learn_idle_timeout(millis(1000));
    assert_eq!(backend.idle_timeout(&settings), millis(800));
}

#[test]
fn idle_closes_at_the_same_age_reveal_a_timeout_and_a_restart_does_not() {
    let backend = Backend::new(&BackendSettings::parse(FOUR[0]).unwrap());
    // All connections of one burst, and again an hour later.
    for restart in [at(1), at(3600)] {
        for step in 0..8 {
            backend.record_idle_close(restart + millis(100 * step), millis(2000));
        }
    }
    assert_eq!((backend.learnt_idle(), backend.totals.idle_closed.load(Relaxed)), (None, 16));
    // Two crashes close connections of the same age, but checks have noticed the first.
    let second = Duration::from_secs(1);
    let kind = CheckKind::Connect;
    let check = CheckSettings { kind, every: second, within: second, rise: 1, fall: 1 };
    for crash in [7200, 7203] {
        backend.record_idle_close(at(crash), millis(2000));
        backend.record_check(at(crash) + Nanos(1), crash != 7200, &check);
    }
    assert_eq!(backend.learnt_idle(), None);
    // A different age.
    backend.record_idle_close(at(10_800), millis(3000));
    assert_eq!(backend.learnt_idle(), None);
    // Several within a second and a half, each three seconds old.
    for step in 1..4 {
        backend.record_idle_close(at(10_800) + millis(500 * step), millis(3000));
    }
    assert_eq!(backend.learnt_idle(), Some(millis(3000)));
    assert_eq!(backend.totals.idle_repeated.load(Relaxed), 1);
}

#[test]
fn a_second_backend_is_ejected_for_silence_only_if_many_requests_wait_there() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let (first, second) = (Arc::clone(&pool.backends[2]), Arc::clone(&pool.backends[3]));
    for backend in [&first, &second] {
        (0..3).for_each(|_| wait_in_vain(backend, at(1)));
    }
    let mut history = ResponseHistory::default();
    assert_eq!(state_beside_others(&pool, at(3), &mut history), HealthState::Stalled);
    assert!(second.state(at(3) + Nanos(1), &pool.settings).is_up(), "three are few");
    (0..5).for_each(|_| wait_in_vain(&second, at(3)));
    state_beside_others(&pool, at(4), &mut history);
    assert_eq!(second.state(at(4) + Nanos(1), &pool.settings), HealthState::Stalled);
}

#[test]
fn a_new_route_may_be_late_and_a_known_one_twice_as_late_as_lately() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let (backend, get) = (&pool.backends[0], http::Method::GET);
    let [quick, report, poll] = ["/", "/report", "/poll"].map(|path| RouteKey::of(&get, path));
    assert_eq!(pool.allowance(backend, quick, at(1)), Nanos::from_secs(60));
    for (route, took) in [(quick, 2), (report, 3_000), (poll, 50_000)] {
        pool.record_response(backend, route, at(1), millis(took));
    }
    let allowances = [quick, report, poll].map(|route| pool.allowance(backend, route, at(2)));
    assert_eq!(allowances, [millis(750), millis(6_002), Nanos::from_secs(60)]);
    // What a hung backend sends at last says nothing about the route.
    (0..2).for_each(|_| wait_in_vain(backend, at(2)));
    pool.record_response(backend, quick, at(20), millis(18_000));
    assert_eq!(pool.allowance(&pool.backends[1], quick, at(20)), millis(750));
}
