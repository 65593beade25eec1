//! Objects in a bucket: one per batch, JSON lines or Parquet.
//!
//! The object's name is made of the position of its first row, and a batch that was started before
//! a restart is built again with the same rows. A repeat overwrites the same object, so every row
//! is in the bucket exactly once.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::batch::{Batch, BatchForm};
use crate::error::Error;
use crate::settings::{
    BucketAddress, ObjectSink, SettingError, SettingSource, TargetAccess, TargetKind, TargetPlan,
    UrlSetting, required_url, wrong,
};
use crate::target::{OutputTarget, PendingRows, SendFuture, Target};

pub(crate) const KIND: TargetKind = TargetKind {
    name: "s3",
    keys: &["format", "endpoint", "region"],
    is_bulk: true,
    read: |source, table| Ok(Arc::new(ObjectPlan::read(source, table.name)?)),
};

/// Format of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectFormat {
    /// One JSON object per line.
    JsonLines,
    /// Parquet with zstd.
    Parquet,
}

#[derive(Clone, Debug)]
struct ObjectPlan {
    address: BucketAddress,
    /// Before the names; empty or ending in `/`.
    prefix: String,
    table: &'static str,
    format: ObjectFormat,
}

impl ObjectPlan {
    fn read(source: &dyn SettingSource, table: &'static str) -> Result<Self, SettingError> {
        let url = required_url(source, "s3://bucket/weir")?;
        let (bucket, prefix) = url
            .strip_prefix("s3://")
            .map(|rest| rest.split_once('/').unwrap_or((rest, "")))
            .filter(|(bucket, _)| !bucket.is_empty())
            .ok_or_else(|| {
                UrlSetting(url).wrong("s3://BUCKET/PREFIX; the service is `endpoint`")
            })?;
        let prefix = prefix.trim_matches('/');
        let format = match source.text("format").unwrap_or("jsonl") {
            "jsonl" => ObjectFormat::JsonLines,
            "parquet" => ObjectFormat::Parquet,
            other => {
                let message = format!("objects cannot be `{other}`");
                return Err(wrong("format", message, "known are jsonl, parquet"));
            }
        };
        if source.text("user").is_some() != source.text("password_file").is_some() {
            let message = "`user` and `password_file` must be set together".to_owned();
            return Err(wrong("user", message, "the access key and a file with the secret key"));
        }
        Ok(Self {
            address: BucketAddress {
                bucket: bucket.to_owned(),
                endpoint: source.text("endpoint").map(str::to_owned),
                region: source.text("region").map(str::to_owned),
            },
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            table,
            format,
        })
    }
}

impl TargetPlan for ObjectPlan {
    fn open(&self, access: TargetAccess) -> Result<OutputTarget, Error> {
        let sink = (access.open_bucket)(&self.address, &access)?;
        let columns = access.columns;
        Ok(OutputTarget(Box::new(ObjectTarget { sink, plan: self.clone(), columns })))
    }
}

struct ObjectTarget {
    sink: Box<dyn ObjectSink>,
    plan: ObjectPlan,
    /// Numbers of the columns in a Parquet file.
    columns: Vec<usize>,
}

impl fmt::Debug for ObjectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectTarget").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Target for ObjectTarget {
    fn form(&self) -> BatchForm {
        match self.plan.format {
            ObjectFormat::JsonLines => BatchForm::Json { has_timestamp: false },
            ObjectFormat::Parquet => BatchForm::Columns,
        }
    }

    fn send<'a>(&'a mut self, batch: &'a Batch, pending: &'a mut PendingRows) -> SendFuture<'a> {
        Box::pin(self.put(batch, pending))
    }
}

impl ObjectTarget {
    async fn put(&self, batch: &Batch, pending: &mut PendingRows) -> Result<(), Error> {
        let bytes = match self.plan.format {
            ObjectFormat::JsonLines => batch.lines().to_vec(),
            ObjectFormat::Parquet => self.sink.parquet(&self.projected(batch)?)?,
        };
        self.sink.put(self.name(batch), bytes).await?;
        pending.copied += pending.rows.len() as u64;
        pending.rows.clear();
        Ok(())
    }

    fn projected(&self, batch: &Batch) -> Result<Vec<RecordBatch>, Error> {
        let rows = batch.columns.iter().map(|rows| rows.project(&self.columns));
        rows.collect::<Result<_, _>>()
            .map_err(|error| Error::caused_by("cannot select the columns", error))
    }

    /// `PREFIX TABLE/date=DAY/NAME`: partitioned by the day of the first row.
    fn name(&self, batch: &Batch) -> String {
        let first = &batch.rows[0];
        let date: String = first.ts.to_string().chars().take(10).collect();
        let end = match self.plan.format {
            ObjectFormat::JsonLines => "jsonl",
            ObjectFormat::Parquet => "parquet",
        };
        let (sequence, row) = (first.position.sequence, first.position.row);
        let (prefix, table, epoch) = (&self.plan.prefix, self.plan.table, batch.epoch);
        format!("{prefix}{table}/date={date}/{epoch:016x}-{sequence:012}-{row:07}.{end}")
    }
}
