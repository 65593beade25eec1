//! Tests of the choice of backends: shares, health, trials, zones, retries.

use super::*;
use crate::settings::destination::BackendSettings;
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
        let of = |pool: &Arc<Pool>| pool.choose(1, 0, client, &[]).unwrap().backend.address.port();
        let (port, port_of_fewer) = (of(&all), of(&fewer));
        counts[usize::from(port) - 1] += 1;
        assert!(port == port_of_fewer || port == 4);
    }
    assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}

#[test]
fn noise_of_latency_moves_no_traffic_and_a_slow_backend_gets_less() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let mut looked = AnswerHistory::default();
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
    let mut looked = AnswerHistory::default();
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
    let mut looked = AnswerHistory::default();
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
    let mut looked = AnswerHistory::default();
    for _ in 0..2 {
        assert!(!bad.failed(SECOND, settings));
    }
    assert!(bad.failed(SECOND, settings));
    assert_eq!(bad.state(SECOND, settings), HealthState::Ejected);
    assert_eq!(shares(&pool, SECOND, 3_000, 8)[0], 0);
    // Its time is over: one request tries it, and fails, and so does one much later.
    for at in [7 * SECOND, 90 * SECOND] {
        pool.look(at, &mut looked);
        assert_eq!(shares(&pool, at, 3_000, 8)[0], 1);
        assert_eq!(bad.state(at, settings), HealthState::Ejected);
        assert!(bad.failed(at, settings));
    }
    // Now it is out four times as long.
    pool.look(109 * SECOND, &mut looked);
    assert_eq!(shares(&pool, 109 * SECOND, 3_000, 8)[0], 0);
    let back = 111 * SECOND;
    pool.look(back, &mut looked);
    assert_eq!(shares(&pool, back, 3_000, 8)[0], 1);
    bad.answered(back, 1_000);
    assert_eq!(bad.state(back, settings), HealthState::SlowStart);
    let slow = shares(&pool, back + SECOND, 10_000, 16)[0];
    assert!((200..1_500).contains(&slow), "{slow}");
    assert_eq!(bad.state(125 * SECOND, settings), HealthState::Up);
    // Who was well for long begins anew.
    (0..3).for_each(|_| _ = bad.failed(180 * SECOND, settings));
    pool.look(186 * SECOND, &mut looked);
    assert_eq!(shares(&pool, 186 * SECOND, 3_000, 8)[0], 1);
}

#[test]
fn with_hash_only_its_own_clients_try_a_backend() {
    let pool = pool(Balance::Hash, &FOUR);
    let mut looked = AnswerHistory::default();
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
    let mut looked = AnswerHistory::default();
    let mut look = |at: u64| {
        pool.look(at, &mut looked);
        (0..20).for_each(|_| pool.answered());
        pool.look(at + 1, &mut looked);
        hung.state(at + 1, settings)
    };
    (0..2).for_each(|_| hung.begin_waiting(SECOND));
    assert_eq!(look(3 * SECOND), HealthState::Stalled);
    assert!(hung.is_silent(3 * SECOND + 1));
    // Its time is over; the two still wait, and nothing was sent to see.
    assert_eq!(look(9 * SECOND), HealthState::Stalled);
    assert!(hung.is_trial_due(9 * SECOND, settings));
    assert!(hung.begin_trial(9 * SECOND) && !hung.begin_trial(9 * SECOND));
    hung.begin_waiting(9 * SECOND);
    assert_eq!(look(9 * SECOND + 1_000), HealthState::Stalled);
    assert!(!hung.is_silent(9 * SECOND + 1_000), "what is there to see waits on");
    assert_eq!(look(11 * SECOND), HealthState::Stalled);
    assert!(hung.is_silent(11 * SECOND + 1), "it is out once more");
    assert!(!hung.is_trial_due(19 * SECOND, settings));
    hung.answered(20 * SECOND, 1_000);
    assert_eq!(hung.state(20 * SECOND, settings), HealthState::SlowStart);
}

#[test]
fn silence_is_a_stall_only_beside_others_that_answer() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let (hung, settings) = (Arc::clone(&pool.backends[2]), &pool.settings);
    hung.begin_waiting(SECOND);
    hung.begin_waiting(SECOND);
    let mut looked = AnswerHistory::default();
    pool.look(SECOND, &mut looked);
    pool.look(2 * SECOND, &mut looked);
    assert_eq!(hung.state(2 * SECOND, settings), HealthState::Up);
    for _ in 0..20 {
        pool.answered();
    }
    pool.look(2 * SECOND + 1, &mut looked);
    assert_eq!(hung.state(2 * SECOND + 2, settings), HealthState::Stalled);
    hung.answered(3 * SECOND, 5);
    assert!(hung.state(3 * SECOND + 1, settings).is_up());
}

#[test]
fn when_most_look_ill_none_is_believed_to_be() {
    let pool = pool(Balance::TwoChoices, &FOUR);
    let mut looked = AnswerHistory::default();
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
        let mut looked = AnswerHistory::default();
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

#[test]
fn a_restart_teaches_no_time_out_and_closings_at_the_same_age_do() {
    let backend = Backend::new(&BackendSettings::parse(FOUR[0]).unwrap());
    // All that rest since one burst, and again an hour later.
    for restart in [SECOND, 3600 * SECOND] {
        (0..8).for_each(|at| backend.closed_idle(restart + at * SECOND / 10, 2 * SECOND));
    }
    assert_eq!((backend.learnt_idle_ns(), backend.totals.idle_closed.load(Relaxed)), (None, 16));
    // It crashes, comes back and crashes again, with connections of one age, and its checks see that.
    for crash in [7200, 7203] {
        backend.closed_idle(crash * SECOND, 2 * SECOND);
        backend.checked(crash * SECOND + 1, crash != 7200, 1, 1);
    }
    assert_eq!(backend.learnt_idle_ns(), None);
    // Another age.
    backend.closed_idle(10_800 * SECOND, 3 * SECOND);
    assert_eq!(backend.learnt_idle_ns(), None);
    // Again and again within a second, each three seconds old.
    for at in 1..4 {
        backend.closed_idle(10_800 * SECOND + at * SECOND / 2, 3 * SECOND);
    }
    assert_eq!(backend.learnt_idle_ns(), Some(3 * SECOND));
    assert_eq!(backend.totals.idle_repeated.load(Relaxed), 1);
}
