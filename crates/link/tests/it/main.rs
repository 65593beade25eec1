//! Agents and hubs in one process over real TLS on loopback: joining, delivering, losing each other, finding each other.

#![expect(clippy::print_stdout, reason = "seeds belong into the test's output")]

mod kit;

use std::time::Duration;

use expect_test::{Expect, expect};
use kit::{Agent, Fake, NOW, Site, wait_for};
use weir_link::{Authority, Invitation, JoinToken, Kind, LinkError, Registry};
use weir_tables::Micros;

const HOUR: Duration = Duration::from_secs(3600);

fn said(error: &LinkError, replace: &[(&str, &str)], expected: &Expect) {
    let text = replace.iter().fold(error.to_string(), |text, (from, to)| text.replace(from, to));
    expected.assert_eq(&text);
}

#[tokio::test]
async fn an_agent_joins_and_delivers_each_parcel_once() {
    let site = Site::start().await;
    let agent = Agent::join(&site, "web1").await.expect("a good token");
    let runs = agent.run(vec![]);
    let store = site.store();
    runs.write(1, 0..500);
    wait_for("all numbers", || store.numbers(1).len() == 500).await;
    assert_eq!(store.numbers(1), (0..500).collect::<Vec<_>>());
    let names: Vec<String> = site.hub().connected().into_iter().map(|agent| agent.name).collect();
    assert_eq!(names, ["web1"]);
    runs.end().await;
    wait_for("it is gone", || site.hub().connected().is_empty()).await;
}

#[tokio::test]
async fn tokens_that_are_no_good_say_why() {
    let site = Site::start().await;
    let token = site.token("web1", HOUR);
    let clock = &site.clock;
    let join = async |token: JoinToken| kit::join(&token, "web1", clock).await.map(drop);
    let address = site.address.to_string();
    let replace = [(address.as_str(), "HUB")];

    join(token.clone()).await.expect("the first");
    said(
        &join(token.clone()).await.expect_err("used"),
        &replace,
        &expect![[r#"
        the hub at `HUB` says: cannot join: the token was used by `web1`
        hint: a token lets one agent join; ask for another: `weir hub invite` on the hub"#]],
    );
    let expired = site.token("web2", Duration::from_secs(60));
    site.clock.add(HOUR);
    said(
        &join(expired).await.expect_err("expired"),
        &replace,
        &expect![[r#"
        the hub at `HUB` says: cannot join: the token expired at 2026-11-18T11:07:40.000000Z
        hint: ask for a new one: `weir hub invite` on the hub; it says for how long with --for"#]],
    );
    let other = Site::start().await;
    let mut wrong = other.token("web3", HOUR);
    wrong.addresses = vec![address.clone()];
    said(
        &join(wrong).await.expect_err("another hub's"),
        &replace,
        &expect![[r#"
        cannot trust the hub at `HUB`: it belongs to another fleet than the token or the certificate: its CA is another one
        hint: `weir hub invite` on that hub prints a token of its fleet; `weir agent join TOKEN` here joins it"#]],
    );
    let mut nowhere = site.token("web4", HOUR);
    nowhere.addresses = vec![kit::free_address().to_string()];
    let error = join(nowhere).await.expect_err("nobody listens");
    assert_eq!(error.kind, Kind::Unreachable);
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

#[tokio::test]
async fn a_clock_that_is_off_is_named() {
    let site = Site::start().await;
    let token = site.token("web1", HOUR);
    let early = Fake::new(NOW - Duration::from_secs(400 * 86_400));
    let error = kit::join(&token, "web1", &early).await.map(drop).expect_err("too early");
    said(
        &error,
        &[(site.address.to_string().as_str(), "HUB")],
        &expect![[r#"
        cannot trust the hub at `HUB`: here it is 2025-10-14T11:06:40.000000Z, and its certificate begins at 2026-11-17T11:06:40.000000Z
        hint: set this host's clock, or the hub's: `timedatectl`; then it goes on by itself"#]],
    );
    // 90 s are no reason to stay away.
    let near = Fake::new(NOW - Duration::from_secs(90));
    kit::join(&token, "web1", &near).await.map(drop).expect("near enough");
}

#[tokio::test]
async fn a_revoked_agent_is_cut_off_and_stays_out() {
    let site = Site::start().await;
    let agent = Agent::join(&site, "web1").await.expect("a good token");
    let runs = agent.run(vec![]);
    runs.write(1, 0..10);
    wait_for("it delivers", || site.store().numbers(1).len() == 10).await;
    Registry::new(site.link_dir()).revoke("web1", site.clock.now()).expect("it exists");
    wait_for("it is cut off", || site.hub().connected().is_empty()).await;
    runs.write(1, 10..20);
    wait_for("it knows why", || runs.trouble().contains("revoked the agent `web1`")).await;
    assert_eq!(site.store().numbers(1).len(), 10);
    runs.end().await;
}

#[tokio::test]
async fn certificates_are_renewed_before_they_end() {
    let site = Site::start().await;
    let agent = Agent::join(&site, "web1").await.expect("a good token");
    let before = agent.identity().not_after;
    let runs = agent.run(vec![]);
    runs.write(1, 0..1);
    wait_for("it delivers", || site.store().numbers(1).len() == 1).await;
    site.clock.add(Duration::from_secs(70 * 86_400));
    wait_for("a new certificate", || runs.identity().not_after > before).await;
    runs.end().await;
}

#[tokio::test]
async fn an_agent_whose_certificate_is_over_is_told_to_join_again() {
    let site = Site::start().await;
    let agent = Agent::join(&site, "web1").await.expect("a good token");
    site.clock.add(Duration::from_secs(100 * 86_400));
    let runs = agent.run(vec![]);
    wait_for("it is told", || runs.trouble().contains("certificate is over")).await;
    runs.end().await;
}

#[tokio::test]
async fn an_agent_moves_on_when_a_hub_dies_and_asks_where_streams_stand() {
    let first = Site::start().await;
    let second = Site::start().await;
    let agent = Agent::join(&first, "web1").await.expect("a good token");
    let agent = agent.join_too(&second).await;
    let hubs = vec![first.address.to_string(), second.address.to_string()];
    let runs = agent.run(hubs);
    runs.write(1, 0..100);
    wait_for("the first has them", || first.store().numbers(1).len() == 100).await;
    first.stop().await;
    runs.write(1, 100..200);
    // The second knows nothing of the stream: it gets what the agent has read since its start.
    wait_for("the second has all", || second.store().numbers(1).len() == 200).await;
    second.stop().await;
    first.start_again().await;
    runs.write(1, 200..250);
    // The first goes on where it stood.
    wait_for("the first has all", || first.store().numbers(1).len() == 250).await;
    assert_eq!(first.store().numbers(1), (0..250).collect::<Vec<_>>());
    assert_eq!(second.store().numbers(1), (0..200).collect::<Vec<_>>());
    runs.end().await;
}

#[tokio::test]
async fn a_full_hub_pauses_its_agents_and_nothing_is_lost() {
    let site = Site::start().await;
    let runs = Agent::join(&site, "web1").await.expect("a good token").run(vec![]);
    runs.write(1, 0..50);
    wait_for("it delivers", || site.store().numbers(1).len() == 50).await;
    site.store().set_full(true);
    runs.write(1, 50..500);
    runs.sample(7);
    wait_for("it is told", || runs.trouble().contains("the disk is full")).await;
    assert_eq!(site.store().numbers(1).len(), 50);
    site.store().set_full(false);
    wait_for("it goes on", || site.store().numbers(1).len() == 500).await;
    assert_eq!(site.store().numbers(1), (0..500).collect::<Vec<_>>());
    wait_for("the sample came", || site.store().samples() == [7]).await;
    runs.end().await;
}

#[tokio::test]
async fn samples_that_are_refused_together_all_come() {
    let site = Site::start().await;
    let runs = Agent::join(&site, "web1").await.expect("a good token").run(vec![]);
    let store = site.store();
    let is_refused = || runs.trouble().contains("the disk is full");
    // Of a stream that the hub does not know yet, then of one that it knows.
    for numbers in [0..20, 20..40] {
        store.set_full(true);
        numbers.clone().for_each(|n| runs.sample(n));
        wait_for("they are refused", is_refused).await;
        store.set_full(false);
        wait_for("they came", || store.samples().len() as u64 >= numbers.end).await;
        assert_eq!(store.samples(), (0..numbers.end).collect::<Vec<_>>());
        assert!(!is_refused());
    }
    assert_eq!(runs.status().dropped, 0);
    runs.end().await;
}

#[tokio::test]
async fn samples_survive_the_agent_and_a_hub_that_is_away() {
    let site = Site::start().await;
    let agent = Agent::join(&site, "web1").await.expect("a good token");
    site.stop().await;
    let runs = agent.run(vec![]);
    (0..20).for_each(|n| runs.sample(n));
    let agent = runs.kill().await; // its memory is gone
    site.start_again().await;
    let runs = agent.run(vec![]);
    (20..30).for_each(|n| runs.sample(n));
    let store = site.store();
    wait_for("all samples", || store.samples().len() == 30).await;
    assert_eq!(store.samples(), (0..30).collect::<Vec<_>>());
    assert!(runs.status().spool_bytes > 0, "the hub has them in its log only");
    store.commit();
    wait_for("the spool is free", || runs.status().spool_bytes == 0).await;
    runs.end().await;
}

#[tokio::test]
async fn a_hub_that_lost_its_log_gets_again_what_was_not_in_tables() {
    let site = Site::start().await;
    let runs = Agent::join(&site, "web1").await.expect("a good token").run(vec![]);
    (0..10).for_each(|n| runs.sample(n));
    wait_for("ten", || site.store().samples().len() == 10).await;
    site.store().commit();
    (10..15).for_each(|n| runs.sample(n));
    wait_for("fifteen", || site.store().samples().len() == 15).await;
    site.stop().await;
    site.store().lose_log();
    assert_eq!(site.store().samples().len(), 10);
    site.start_again().await;
    wait_for("fifteen again", || site.store().samples().len() == 15).await;
    assert_eq!(site.store().samples(), (0..15).collect::<Vec<_>>());
    runs.end().await;
}

#[tokio::test]
async fn noise_keeps_nobody_from_being_served() {
    let site = Site::start().await;
    // Not TLS at all, and TLS that ends at once: neither may keep a place for long, nor end the hub.
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], &[]] {
        kit::noise(site.address, noise).await;
    }
    let runs = Agent::join(&site, "web1").await.expect("a good token").run(vec![]);
    runs.write(1, 0..1);
    wait_for("it still serves", || site.store().numbers(1).len() == 1).await;
    runs.end().await;
}

#[tokio::test]
async fn connections_that_are_cut_and_stalled_lose_and_double_nothing() {
    let rounds: u64 = std::env::var("WEIR_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let mut choose = kit::Seeded::new();
    let site = Site::start().await;
    let agent = Agent::join(&site, "web1").await.expect("a good token");
    let proxy = kit::Proxy::start(site.address).await;
    let runs = agent.run(vec![proxy.address.to_string()]);
    let mut written = [0_u64; 3];
    let mut sampled = 0;
    for _ in 0..rounds {
        for (stream, written) in written.iter_mut().enumerate() {
            let more = choose.below(200);
            runs.write(stream as u128, *written..*written + more);
            *written += more;
        }
        (0..choose.below(5)).for_each(|_| {
            runs.sample(sampled);
            sampled += 1;
        });
        match choose.below(5) {
            0 => proxy.cut(),
            1 => proxy.cut_after(choose.below(20_000)),
            2 => site.store().commit(),
            3 => site.store().set_full(true),
            _ => {}
        }
        kit::pause(Duration::from_millis(choose.below(120))).await;
        site.store().set_full(false);
    }
    let store = site.store();
    for (stream, written) in written.iter().enumerate() {
        let stream = stream as u128;
        wait_for("every number", || store.numbers(stream).len() as u64 >= *written).await;
        assert_eq!(store.numbers(stream), (0..*written).collect::<Vec<_>>(), "stream {stream}");
    }
    wait_for("every sample", || store.samples().len() as u64 >= sampled).await;
    assert_eq!(store.samples(), (0..sampled).collect::<Vec<_>>());
    println!("{written:?} rows, {sampled} samples, {} cuts", proxy.cuts());
    runs.end().await;
}

#[test]
fn two_processes_that_make_an_authority_make_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || Authority::open(dir.path(), Micros(NOW.0)).expect("an authority").fingerprint();
    let all: Vec<[u8; 32]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(all.iter().all(|fingerprint| *fingerprint == all[0]));
    let registry = Registry::new(dir.path());
    let invitation = Invitation { expires: NOW + HOUR, name: None };
    registry.invite(&invitation, NOW).expect("an invitation");
    for file in walk(dir.path()) {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).expect("it can be read").flatten();
    entries
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() { walk(&path) } else { vec![path] }
        })
        .collect()
}
