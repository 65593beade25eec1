//! A running model: slices are evicted while packets come.

use super::*;
use crate::judge::{CompletedSlice, SliceReport};

/// Slices of a tap that polls every 100 ms and evicts slices that are a second old.
fn taken(mut script: TrafficScript, until: i64) -> Vec<CompletedSlice> {
    script.packets.sort_by_key(|packet| packet.ts);
    let run = |threads| {
        let mut packets = script.packets.iter().peekable();
        let mut model = Model::new(ModelOptions { threads, ..ModelOptions::default() }, None);
        let mut found = Vec::new();
        for at in (0..=until).step_by(100) {
            let now = BEGIN + at * MS;
            while let Some(packet) = packets.next_if(|packet| packet.ts <= now) {
                model.packet(&view(packet));
            }
            found.extend(model.take_slices(now - 1000 * MS));
            assert!(model.admission.slice <= 1, "nothing grows");
        }
        found
    };
    let (alone, together) = (run(1), run(3));
    assert_eq!(format!("{alone:?}"), format!("{together:?}"));
    alone
}

#[test]
fn slices_taken_while_packets_come_are_those_of_the_whole() {
    let mut script = TrafficScript::default();
    let line = &mut script.open(80, 0, 1);
    script.exchange(line, 500, "/long", 2000);
    script.exchange(line, 4000, "/short", 200);
    let found = taken(script, 7000);
    let get = |measure: fn(&SliceReport) -> u64| {
        found.iter().map(|ripe| measure(&ripe.slice)).collect::<Vec<_>>()
    };
    assert_eq!(get(|slice| slice.arrivals), [1, 0, 0, 0, 1, 0]);
    assert_eq!(get(|slice| slice.completions), [0, 0, 1, 0, 1, 0]);
    // Requests in flight count before their end is known.
    assert_eq!(get(|slice| slice.weighted_us), [500_000, 1_000_000, 500_000, 0, 200_000, 0]);
    assert_eq!(get(|slice| slice.busy_us), [500_000, 1_000_000, 500_000, 0, 200_000, 0]);
    // The long request ended after its own slice was evicted: its duration is in the oldest one
    // left.
    assert_eq!(get(|slice| slice.sum_us), [0, 2_000_000, 0, 0, 200_000, 0]);
    let little: Vec<bool> = found.iter().map(|ripe| ripe.slice.little_error.is_some()).collect();
    assert_eq!(little, [false, false, true, false, true, false], "no law for halves");
    let starts: Vec<i64> = found.iter().map(|ripe| (ripe.slice.start_ns - BEGIN) / MS).collect();
    assert_eq!(starts, [0, 1000, 2000, 3000, 4000, 5000]);
}

#[test]
fn a_tap_that_runs_for_hours_stays_small_and_goes_on_to_count() {
    let mut script = TrafficScript::default();
    for minute in 0..180 {
        let at = minute * 60_000;
        let mut line = script.open(80, at, 1);
        script.exchange(&mut line, at + 10, &format!("/page-{minute}"), 20);
        script.send(&mut line, CLIENT, at + 50, Flags::FIN | Flags::ACK, b"");
        script.send(&mut line, SERVER, at + 51, Flags::FIN | Flags::ACK, b"");
    }
    let found = taken(script, 180 * 60_000);
    assert_eq!(found.iter().map(|ripe| ripe.slice.arrivals).sum::<u64>(), 180);
    assert_eq!(found.iter().map(|ripe| ripe.slice.new_connections).sum::<u32>(), 180);
    assert!(found.len() >= 180 * 60 - 2, "a slice a second, also without packets: {}", found.len());
}

#[test]
fn a_connection_is_over_although_no_packet_says_that_time_goes_on() {
    let mut script = TrafficScript::default();
    let mut line = script.open(80, 0, 1);
    script.exchange(&mut line, 10, "/", 20);
    script.send(&mut line, CLIENT, 50, Flags::FIN | Flags::ACK, b"");
    script.send(&mut line, SERVER, 51, Flags::FIN | Flags::ACK, b"");
    let rows = Arc::new(Mutex::new(ObservedRows::default()));
    let mut model =
        Model::new(ModelOptions::default(), Some(Box::new(CollectingSink(Arc::clone(&rows)))));
    script.packets.iter().for_each(|packet| model.packet(&view(packet)));
    assert_eq!(rows.lock().expect("nobody panicked").connections.len(), 0);
    model.take_slices(BEGIN + 3000 * MS);
    assert_eq!(rows.lock().expect("nobody panicked").connections.len(), 1);
}

#[test]
fn slices_of_many_connections_are_those_of_a_report() {
    let script = || {
        let mut script = TrafficScript::default();
        for client in 0..60 {
            let line = &mut script.open(if client % 3 == 0 { 80 } else { 8080 }, client * 90, 1);
            for n in 0..10 {
                script.exchange(
                    line,
                    client * 90 + 10 + 130 * n,
                    &format!("/item/{n}"),
                    7 + client,
                );
                line.held_ms = n % 2;
            }
        }
        script
    };
    let sum = |slices: &mut dyn Iterator<Item = &SliceReport>| {
        slices.fold([0; 7], |sum, slice| {
            let new = u64::from(slice.new_connections);
            let SliceReport { arrivals, completions, packets, bytes, weighted_us, sum_us, .. } =
                *slice;
            let more = [arrivals, completions, packets, bytes, weighted_us, sum_us, new];
            std::array::from_fn(|at| sum[at] + more[at])
        })
    };
    let report = view_with(&script(), ModelOptions::default());
    let found = taken(script(), 12_000);
    for tier in &report.tiers {
        let of_tier = found.iter().filter(|ripe| ripe.port == tier.port);
        let taken = sum(&mut of_tier.map(|ripe| &ripe.slice));
        assert_eq!(taken, sum(&mut tier.slices.iter()), "port {}", tier.port);
        assert!(taken[0] >= 200);
    }
}

#[test]
fn a_connection_whose_server_shows_late_counts_at_one_port() {
    // It seems to belong to port 80 until the other end answers a request.
    let mut script = TrafficScript::default();
    let mut line = script.line(80);
    line.ends = [end(2, 80), end(1, 40_000)];
    script.ack(&mut line, CLIENT, 0);
    script.data(&mut line, CLIENT, 3000, get("/"));
    script.data(&mut line, SERVER, 3010, ok(20));
    let found = taken(script, 6000);
    let ports: Vec<(u16, u64)> =
        found.iter().map(|ripe| (ripe.port, ripe.slice.arrivals)).filter(|(_, n)| *n > 0).collect();
    assert_eq!(ports, [(40_000, 1)]);
    let mut late = found.iter().filter(|ripe| ripe.slice.start_ns >= BEGIN + 3000 * MS);
    assert!(late.all(|ripe| ripe.port == 40_000), "port 80 has no connection left");
}
