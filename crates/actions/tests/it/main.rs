//! The incident desk as its callers see it: findings and times in, notices and documents out.

mod acts;
mod bench_desk;
mod escalation;
mod incidents;
mod limits;
mod messages;
mod policy_check;
mod rotas;
mod silences;
mod simulation;
