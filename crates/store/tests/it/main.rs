//! The store from outside: appends, queries, restarts, crashes, full disks.
#![expect(clippy::unwrap_used, reason = "tests")]

mod backup;
mod bucket;
mod bucket_backup;
mod cluster;
mod cluster_backup;
mod cluster_bucket;
mod cluster_repair;
mod columns;
mod copy;
mod crash;
mod disk;
mod forecast;
mod full;
mod functions;
mod guard;
mod hostile_manifest;
mod iceberg;
mod inspect;
mod joins;
mod memory;
mod model;
mod planning;
mod postgres;
mod recent;
mod refusal;
mod repair;
mod retention;
mod rot;
mod rot_places;
mod s3;
mod slow;
mod spread;
mod stream;
mod text_index;
mod tool;
