//! Encodes a subplan for the hub that runs it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::{Result, exec_datafusion_err, exec_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::bytes::Serializeable;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::{Deserialize, Serialize};
use weir_datafile::{CutoffSide, DataFile, FileSeal, Tier, VisibilityCutoff, file_number};
use weir_tables::TableSpec;

use super::{DistributedScan, ScanSpec, WorkerFiles, grammar};

/// Codec of [`DistributedScan`].
pub(super) struct ScanCodec(Arc<WorkerFiles>);

impl ScanCodec {
    pub(super) fn new(files: &Arc<WorkerFiles>) -> Self {
        Self(Arc::clone(files))
    }
}

impl fmt::Debug for ScanCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScanCodec")
    }
}

/// Wire format of a [`DistributedScan`].
#[derive(Deserialize, Serialize)]
struct SentScan {
    table: String,
    horizon: i64,
    is_future: bool,
    projection: Option<Vec<usize>>,
    filters: Vec<Vec<u8>>,
    limit: Option<usize>,
    parts: Vec<Vec<SentFile>>,
}

#[derive(Deserialize, Serialize)]
struct SentFile {
    id: i64,
    path: String,
    is_slow: bool,
    day: i64,
    row_count: u64,
    byte_count: u64,
    min_ts: i64,
    max_ts: i64,
    arrival_ts: i64,
    seal: Option<u32>,
}

impl SentFile {
    fn new(file: &DataFile) -> Self {
        Self {
            id: file.id,
            path: file.path.clone(),
            is_slow: file.tier == Tier::Slow,
            day: file.day,
            row_count: file.row_count,
            byte_count: file.byte_count,
            min_ts: file.min_ts,
            max_ts: file.max_ts,
            arrival_ts: file.arrival_ts,
            seal: file.seal.map(|seal| seal.0),
        }
    }

    /// Whether the path is the one that the store gives to this file of `table`.
    fn is_of(&self, table: &TableSpec) -> bool {
        let rest = self.path.strip_prefix("data/").and_then(|rest| rest.strip_prefix(table.name));
        file_number(&self.path) == Some(self.id) && rest.is_some_and(|rest| rest.starts_with('/'))
    }

    fn file(self, table: &'static TableSpec) -> Arc<DataFile> {
        Arc::new(DataFile {
            id: self.id,
            table,
            path: self.path,
            tier: if self.is_slow { Tier::Slow } else { Tier::Local },
            day: self.day,
            row_count: self.row_count,
            byte_count: self.byte_count,
            min_ts: self.min_ts,
            max_ts: self.max_ts,
            arrival_ts: self.arrival_ts,
            seal: self.seal.map(FileSeal),
            index: OnceLock::new(),
            dictionaries: OnceLock::new(),
        })
    }
}

impl SentScan {
    fn new(scan: &DistributedScan) -> Result<Self> {
        let ScanSpec { table, horizon, projection, filters, limit } = &scan.what;
        let filters = filters.iter().map(|filter| Ok(filter.to_bytes()?.to_vec()));
        Ok(Self {
            table: table.name.to_owned(),
            horizon: horizon.ts,
            is_future: horizon.side == CutoffSide::Future,
            projection: projection.clone(),
            filters: filters.collect::<Result<_>>()?,
            limit: *limit,
            parts: scan
                .parts
                .iter()
                .map(|files| files.iter().map(|file| SentFile::new(file)).collect::<Vec<_>>())
                .collect(),
        })
    }

    /// What is scanned, and the files by partition.
    fn read(bytes: &[u8], context: &TaskContext) -> Result<(ScanSpec, Vec<Vec<Arc<DataFile>>>)> {
        let sent: Self = serde_json::from_slice(bytes)
            .map_err(|error| exec_datafusion_err!("cannot read a piece of a query: {error}"))?;
        let what = sent.what(context)?;
        if let Some(odd) = sent.parts.iter().flatten().find(|file| !file.is_of(what.table)) {
            return exec_err!("`{}` is not a file of table `{}`", odd.path, what.table.name);
        }
        let files = |part: Vec<SentFile>| part.into_iter().map(|file| file.file(what.table));
        let parts = sent.parts.into_iter().map(|part| files(part).collect()).collect();
        Ok((what, parts))
    }

    fn what(&self, context: &TaskContext) -> Result<ScanSpec> {
        let table = weir_tables::table(&self.table).ok_or_else(|| {
            exec_datafusion_err!("there is no table `{}` in this version of weir", self.table)
        })?;
        let side = if self.is_future { CutoffSide::Future } else { CutoffSide::Past };
        Ok(ScanSpec {
            table,
            horizon: VisibilityCutoff { ts: self.horizon, side },
            projection: self.projection.clone(),
            filters: self
                .filters
                .iter()
                .map(|bytes| grammar::decode(bytes, context))
                .collect::<Result<_>>()?,
            limit: self.limit,
        })
    }
}

impl PhysicalExtensionCodec for ScanCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (what, parts) = SentScan::read(bytes, context)?;
        Ok(Arc::new(DistributedScan::new(what, parts, Arc::clone(&self.0))?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(scan) = node.downcast_ref::<DistributedScan>() else {
            return internal_err!("`{}` is not sent to other hubs", node.name());
        };
        serde_json::to_writer(bytes, &SentScan::new(scan)?)
            .map_err(|error| exec_datafusion_err!("cannot write a piece of a query: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;
    use datafusion::functions::string::expr_fn::{lower, repeat};
    use datafusion::logical_expr::{
        Expr, LogicalPlanBuilder, cast, col, lit, scalar_subquery, when,
    };
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn pieces_name_files_of_their_table_only() {
        let table = weir_tables::table("log").unwrap();
        let is_of =
            |path: &str| SentFile::new(&DataFile::new(7, table, path.to_owned())).is_of(table);
        assert!(is_of("data/log/1970-01-01/000000000007.parquet"));
        for other in [
            "",
            "data/request/1970-01-01/000000000007.parquet",
            "data/log/1970-01-01/000000000008.parquet",
            "data/log/../../../etc/000000000007.parquet",
            "data/login/1970-01-01/000000000007.parquet",
        ] {
            assert!(!is_of(other), "{other}");
        }
    }

    fn filters() -> Vec<Vec<u8>> {
        let list = ScalarValue::new_list(
            &[ScalarValue::from(1_i64)],
            &arrow_schema::DataType::Int64,
            true,
        );
        let inner = LogicalPlanBuilder::empty(true).project(vec![lit(1_i64)]);
        let inner = scalar_subquery(Arc::new(inner.unwrap().build().unwrap()));
        let filters = [
            col("body").like(lit("%a%")).and(col("source_offset").gt(lit(1_i64))),
            col("host").in_list(vec![lit("web1"), lit("web2")], true),
            when(col("body").is_null(), lit(1_i64)).otherwise(lit(2_i64)).unwrap().eq(lit(1_i64)),
            cast(lower(col("body")), arrow_schema::DataType::Binary).eq(lit(vec![0_u8, 255])),
            col("attrs").eq(Expr::Literal(ScalarValue::List(list), None)),
            repeat(col("body"), lit(1_000_000_000_i64)).eq(lit("x")),
            inner.eq(lit(1_i64)),
        ];
        let encoded = filters.iter().filter_map(|filter| filter.to_bytes().ok());
        encoded.map(|bytes| bytes.to_vec()).collect()
    }

    fn piece(filters: Vec<Vec<u8>>) -> Vec<u8> {
        let path = "data/log/1970-01-01/000000000007.parquet".to_owned();
        let file = DataFile::new(7, weir_tables::table("log").unwrap(), path);
        let file = || SentFile::new(&file);
        let sent = SentScan {
            table: "log".to_owned(),
            horizon: 5,
            is_future: false,
            projection: Some(vec![0, 3]),
            filters,
            limit: Some(7),
            parts: vec![vec![file()], vec![], vec![file(), file()]],
        };
        serde_json::to_vec(&sent).unwrap()
    }

    /// Changes, cuts out, repeats and inserts bytes, also of another input.
    fn mutate(bytes: &mut Vec<u8>, other: &[u8], chance: &mut fastrand::Rng) {
        for _ in 0..chance.usize(1..4) {
            let at = chance.usize(..=bytes.len());
            let end = at + chance.usize(..=(bytes.len() - at).min(12));
            let piece = match chance.u8(..6) {
                0 => Vec::new(),
                1 => bytes[at..end].repeat(chance.usize(..4)),
                2 => other[chance.usize(..other.len())..].to_vec(),
                3 => vec![chance.u8(..); chance.usize(..5)],
                _ => bytes[at..end].iter().map(|byte| byte ^ (1 << chance.u8(..8))).collect(),
            };
            drop(bytes.splice(at..end, piece));
        }
    }

    /// A piece is refused, or names files of its table and filters of the grammar. `WEIR_SEED` reproduces
    /// a run, `WEIR_ROUNDS` makes it longer.
    #[test]
    fn pieces_of_hostile_hubs_are_refused_or_within_the_grammar() {
        let set = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = set("WEIR_SEED").unwrap_or_else(|| u64::from(std::process::id()));
        println!("WEIR_SEED={seed}");
        let mut chance = fastrand::Rng::with_seed(seed);
        let (context, filters) = (SessionContext::new().task_ctx(), filters());
        let (mut accepted, mut read) = (0, 0);
        for _ in 0..set("WEIR_ROUNDS").unwrap_or(1) * 4000 {
            let mut filter = filters[chance.usize(..filters.len())].clone();
            mutate(&mut filter, &filters[chance.usize(..filters.len())], &mut chance);
            if let Ok(found) = grammar::decode(&filter, &context) {
                assert!(grammar::is_accepted(&found), "{found}");
                accepted += 1;
            }
            let mut piece = piece(vec![filter; chance.usize(..2)]);
            if chance.bool() {
                mutate(
                    &mut piece,
                    b"../../../etc/\"parts\":[[]],\"table\":\"request\"",
                    &mut chance,
                );
            }
            let Ok((what, parts)) = SentScan::read(&piece, &context) else { continue };
            read += 1;
            assert!(what.filters.iter().all(grammar::is_accepted));
            for file in parts.iter().flatten() {
                let rest = file.path.strip_prefix("data/").unwrap().strip_prefix(what.table.name);
                assert!(
                    rest.unwrap().starts_with('/') && !file.path.contains(".."),
                    "{}",
                    file.path
                );
            }
        }
        assert!(accepted > 100 && read > 100, "{accepted} filters, {read} pieces");
    }
}
