//! weir from the outside: the program as users run it, against real servers, real files and real kills.

#![expect(clippy::print_stdout, reason = "seeds, skips and times belong into the test's output")]

mod audit;
mod bad_input;
mod beneath;
mod databases;
mod deleted;
mod doctor;
mod drill;
mod edge;
mod edge_beacons;
mod edge_live;
mod faults;
mod fleet;
mod fleet_torture;
mod haproxy_tcp;
mod harness;
mod intake;
mod journal;
mod limits;
mod link;
mod live;
mod live_faults;
mod logs;
mod netns;
mod output_targets;
mod outputs;
mod parse;
mod pg;
mod plain_host;
mod query;
mod query_limits;
mod rotating;
mod scrape;
mod store;
mod thresholds;
mod torture;
mod trial;
mod tune;
mod up;
mod wire;
mod wire_compat;
mod wire_databases;
mod wire_hostile;
mod wire_peers;
mod wire_truth;
