//! Encodes a subplan for the hub that runs it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::{Result, exec_datafusion_err, exec_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::bytes::Serializeable;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::{Deserialize, Serialize};
use weir_datafile::{CutoffSide, DataFile, FileSeal, Tier, VisibilityCutoff};
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
        let below = self.path.strip_prefix("data/").and_then(|rest| rest.strip_prefix(table.name));
        let date = below
            .and_then(|rest| rest.strip_prefix('/'))
            .and_then(|rest| rest.strip_suffix(&format!("/{:012}.parquet", self.id)));
        date.is_some_and(|date| date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
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

    fn scan(self, context: &TaskContext, files: Arc<WorkerFiles>) -> Result<DistributedScan> {
        let table = weir_tables::table(&self.table).ok_or_else(|| {
            exec_datafusion_err!("there is no table `{}` in this version of weir", self.table)
        })?;
        let side = if self.is_future { CutoffSide::Future } else { CutoffSide::Past };
        let what = ScanSpec {
            table,
            horizon: VisibilityCutoff { ts: self.horizon, side },
            projection: self.projection,
            filters: self
                .filters
                .iter()
                .map(|bytes| grammar::decode(bytes, context))
                .collect::<Result<_>>()?,
            limit: self.limit,
        };
        if let Some(odd) = self.parts.iter().flatten().find(|file| !file.is_of(table)) {
            return exec_err!("`{}` is not a file of table `{}`", odd.path, table.name);
        }
        DistributedScan::new(
            what,
            self.parts
                .into_iter()
                .map(|part| part.into_iter().map(|file| file.file(table)).collect())
                .collect(),
            files,
        )
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
        let sent: SentScan = serde_json::from_slice(bytes)
            .map_err(|error| exec_datafusion_err!("cannot read a piece of a query: {error}"))?;
        Ok(Arc::new(sent.scan(context, Arc::clone(&self.0))?))
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
            "data/log//etc/000000000007.parquet",
            "/data/log/1970-01-01/000000000007.parquet",
            "data/log/1970-01-01/000000000007.parquet/../../manifest",
            "data/login/1970-01-01/000000000007.parquet",
            "manifest.sqlite",
        ] {
            assert!(!is_of(other), "{other}");
        }
    }
}
