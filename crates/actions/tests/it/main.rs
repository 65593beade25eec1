//! The desks as their callers see them: findings and times in, notices, orders and documents out.

mod acts;
mod bench_desk;
mod duties;
mod escalation;
mod failing_receivers;
mod heal_acts;
mod heal_bench;
mod heal_dry_runs;
mod heal_ladder;
mod heal_limits;
mod heal_locks;
mod heal_runs;
mod heal_simulation;
mod incidents;
mod limits;
mod mailboxes;
mod messages;
mod policy_check;
mod reports;
mod rotas;
mod silences;
mod simulation;
