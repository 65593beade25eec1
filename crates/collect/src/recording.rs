//! A recorded host: rows of every second and raw files, in a directory that replays exactly.
//!
//! Format: `docs/formats/recording.md`. Rows are stored as encoded parcels, so a replay gives the
//! same batches however the collectors change; the raw files are for people, and for trying a new
//! collector on an old host. Secrets are removed before anything is written.

mod raw;
mod redact;

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_tables::{Batch, Clock, Micros, Parcel};

use crate::{CollectError, HostOptions, HostSampler};

/// Version of the layout; a reader refuses a higher one. Version 1 has no checksums of times and of
/// the description.
const VERSION: u32 = 2;
const META: &str = "meta.toml";
const SAMPLES: &str = "samples.weir";
const MAGIC: &[u8; 4] = b"WREC";
/// Length in the head of the last frame, whose time is the number of samples.
const END: u32 = u32::MAX;
/// Maximum length of a sample; a larger length means damage.
const SAMPLE_LIMIT_BYTES: u32 = 64 << 20;

/// Description of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingMeta {
    /// Value of the column `host` in its rows.
    pub host: String,
    /// Version of weir that recorded it.
    pub agent_version: String,
    /// Start of the recording.
    pub started: Micros,
}

/// Size of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingSummary {
    /// Number of rounds.
    pub samples: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of raw files.
    pub files: u64,
}

/// Writes a recording sample by sample.
pub struct Recorder {
    samples: BufWriter<File>,
    path: PathBuf,
    recorded: RecordingSummary,
}

impl Recorder {
    /// Starts a recording in `dir`, which is created if missing.
    ///
    /// # Errors
    /// When `dir` is not empty, or cannot be written.
    pub fn create(dir: &Path, meta: &RecordingMeta) -> Result<Self, CollectError> {
        fs::create_dir_all(dir).map_err(|error| writing(dir, &error))?;
        let is_taken = fs::read_dir(dir).map_err(|error| writing(dir, &error))?.next().is_some();
        if is_taken {
            let what = format_args!("record into `{}`", dir.display());
            return Err(
                CollectError::new(what, "it is not empty").with_hint("name a new directory")
            );
        }
        let meta_path = dir.join(META);
        fs::write(&meta_path, meta.to_toml()).map_err(|error| writing(&meta_path, &error))?;
        let path = dir.join(SAMPLES);
        let file = File::create_new(&path).map_err(|error| writing(&path, &error))?;
        let mut samples = BufWriter::new(file);
        samples.write_all(&[&MAGIC[..], &[2]].concat()).map_err(|error| writing(&path, &error))?;
        Ok(Self { samples, path, recorded: RecordingSummary::default() })
    }

    /// Appends the rows of one moment, without secrets. Rows of any table can be recorded.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&mut self, now: Micros, batches: Vec<Batch>) -> Result<(), CollectError> {
        let batches = batches.into_iter().map(redact::redact).collect();
        let parcel = Parcel { range: None, batches };
        let bytes = parcel.encode(true);
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= SAMPLE_LIMIT_BYTES);
        let length = length
            .ok_or_else(|| CollectError::new("record a sample", "it is longer than 64 MiB"))?;
        let frame = [&frame_head(now.0, length)[..], &bytes].concat();
        self.samples.write_all(&frame).map_err(|error| writing(&self.path, &error))?;
        self.recorded.samples += 1;
        self.recorded.rows += parcel.row_count() as u64;
        Ok(())
    }

    /// Finishes the recording.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn finish(mut self) -> Result<RecordingSummary, CollectError> {
        let end = frame_head(self.recorded.samples.cast_signed(), END);
        self.samples.write_all(&end).map_err(|error| writing(&self.path, &error))?;
        self.samples.flush().map_err(|error| writing(&self.path, &error))?;
        Ok(self.recorded)
    }
}

/// Records a host for `seconds` rounds, one a second, into the new or empty directory `dir`.
///
/// # Errors
/// When `dir` is not empty or cannot be written. What cannot be read of the host becomes a row of
/// `collector_run`.
pub fn record(
    dir: &Path,
    options: &HostOptions,
    seconds: u64,
    clock: &dyn Clock,
) -> Result<RecordingSummary, CollectError> {
    let meta = RecordingMeta {
        host: options.host.clone(),
        agent_version: options.agent_version.clone(),
        started: clock.now(),
    };
    let mut recorder = Recorder::create(dir, &meta)?;
    recorder.recorded.files = raw::copy(&options.root, &dir.join("raw"))?;
    let mut sampler = HostSampler::new(options.clone());
    for second in 0..seconds.max(1) {
        if second > 0 {
            pause_until(meta.started + Duration::from_secs(second), clock);
        }
        let now = clock.now();
        recorder.write(now, sampler.sample(now))?;
    }
    recorder.finish()
}

#[expect(
    clippy::disallowed_methods,
    reason = "recording is a blocking call that samples once a second; nothing is waited for but time"
)]
fn pause_until(then: Micros, clock: &dyn Clock) {
    let micros = then.0.saturating_sub(clock.now().0);
    // The clock may stop or step: never wait longer than a round.
    let micros = u64::try_from(micros).unwrap_or(0).min(1_000_000);
    std::thread::sleep(Duration::from_micros(micros));
}

/// A recording that is being replayed. It ends after a damaged sample, see [`Replay::error`].
#[derive(Debug)]
pub struct Replay {
    meta: RecordingMeta,
    samples: BufReader<File>,
    /// Version of the format.
    version: u8,
    /// Samples so far.
    count: i64,
    path: PathBuf,
    error: Option<CollectError>,
}

impl Replay {
    /// Description of the recording.
    pub fn meta(&self) -> &RecordingMeta {
        &self.meta
    }

    /// Why the replay ended early; `None` when everything was read.
    pub fn error(&self) -> Option<&CollectError> {
        self.error.as_ref()
    }

    fn read_next(&mut self) -> Result<Option<(Micros, Vec<Batch>)>, CollectError> {
        let mut head = [0; 16];
        let head = &mut head[..if self.version == 1 { 12 } else { 16 }];
        match self.samples.read(&mut head[..1]) {
            Ok(0) if self.version == 1 => return Ok(None),
            Ok(0) => return Err(self.damaged("it has no end: it was interrupted, or cut")),
            Ok(_) => {}
            Err(error) => return Err(CollectError::reading(&self.path, &error)),
        }
        self.fill(&mut head[1..])?;
        let (known, sum) = head.split_at(12);
        if self.version > 1 && *sum != checksum(known).to_le_bytes() {
            return Err(self.damaged("the time of a sample changed: the checksum differs"));
        }
        let (now, length) = known.split_at(8);
        let now = Micros(i64::from_le_bytes(now.try_into().expect("eight bytes")));
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        if self.version > 1 && (now.0, length) == (self.count, END) {
            return Ok(None);
        }
        if length > SAMPLE_LIMIT_BYTES {
            return Err(self.damaged("a sample claims to be longer than 64 MiB"));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        let parcel = Parcel::decode(&bytes).map_err(|error| self.damaged(&error.to_string()))?;
        self.count += 1;
        Ok(Some((now, parcel.batches)))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), CollectError> {
        self.samples.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it ends within a sample"),
            _ => CollectError::reading(&self.path, &error),
        })
    }

    fn damaged(&self, why: &str) -> CollectError {
        CollectError::new(format_args!("replay `{}`", self.path.display()), why)
            .with_hint("record the host again; what came before was replayed")
    }
}

/// Iterates over time and rows of each recorded round, oldest first.
impl Iterator for Replay {
    type Item = (Micros, Vec<Batch>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.error.is_some() {
            return None;
        }
        self.read_next().unwrap_or_else(|error| {
            self.error = Some(error);
            None
        })
    }
}

/// Opens a recording.
///
/// # Errors
/// When `dir` is not a recording, is of a newer version, or cannot be read.
pub fn replay(dir: &Path) -> Result<Replay, CollectError> {
    let meta_path = dir.join(META);
    let text = fs::read_to_string(&meta_path).map_err(|error| {
        let failure = CollectError::reading(&meta_path, &error);
        failure
            .with_hint(format!("`{}` is not a recording of `weir doctor --record`", dir.display()))
    })?;
    let meta = RecordingMeta::from_toml(&text, &meta_path)?;
    let path = dir.join(SAMPLES);
    let file = File::open(&path).map_err(|error| CollectError::reading(&path, &error))?;
    let mut samples = BufReader::new(file);
    let mut magic = [0; MAGIC.len() + 1];
    let version = match (samples.read_exact(&mut magic), magic.split_last()) {
        (Ok(()), Some((version @ 1..=2, magic))) if magic == MAGIC => *version,
        _ => {
            let what = format_args!("replay `{}`", path.display());
            return Err(CollectError::new(
                what,
                "it does not begin with `WREC` and version 1 or 2",
            ));
        }
    };
    Ok(Replay { meta, samples, version, count: 0, path, error: None })
}

/// Time, length, and their checksum.
fn frame_head(time: i64, length: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&time.to_le_bytes());
    head[8..12].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&head[..12]);
    head[12..].copy_from_slice(&sum.to_le_bytes());
    head
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

impl RecordingMeta {
    fn to_toml(&self) -> String {
        let mut table = toml::Table::new();
        table.insert("version".into(), VERSION.into());
        table.insert("host".into(), self.host.clone().into());
        table.insert("agent_version".into(), self.agent_version.clone().into());
        table.insert("started".into(), self.started.to_string().into());
        table.insert("started_micros".into(), self.started.0.into());
        table.insert("checksum".into(), i64::from(self.checksum()).into());
        format!("# A host recorded by weir; see docs/formats/recording.md.\n{table}")
    }

    fn from_toml(text: &str, path: &Path) -> Result<Self, CollectError> {
        let broken = |why: &str| CollectError::new(format_args!("read `{}`", path.display()), why);
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| broken(error.message()))?;
        let started = table.get("started_micros").and_then(toml::Value::as_integer);
        let [host, agent_version] =
            ["host", "agent_version"].map(|key| table.get(key).and_then(toml::Value::as_str));
        match table.get("version").and_then(toml::Value::as_integer) {
            Some(version) if (1..=i64::from(VERSION)).contains(&version) => {}
            Some(version) if version > i64::from(VERSION) => {
                let why = format!("its version {version} is newer than this weir");
                return Err(broken(&why).with_hint("use the weir that recorded it, or a newer one"));
            }
            _ => return Err(broken("it has no `version = 1` or `version = 2`")),
        }
        let meta = Self {
            host: host.ok_or_else(|| broken("it has no `host`"))?.to_owned(),
            agent_version: agent_version.unwrap_or_default().to_owned(),
            started: Micros(started.ok_or_else(|| broken("it has no `started_micros`"))?),
        };
        let sum = table.get("checksum").and_then(toml::Value::as_integer);
        if sum.is_some_and(|sum| sum != i64::from(meta.checksum())) {
            let why = "it changed after it was recorded: the checksum differs";
            return Err(broken(why).with_hint("if you changed it, delete the line `checksum`"));
        }
        Ok(meta)
    }

    /// Checksum of all values.
    fn checksum(&self) -> u32 {
        let Self { host, agent_version, started } = self;
        checksum(format!("{host:?} {agent_version:?} {}", started.0).as_bytes())
    }
}

fn writing(path: &Path, error: &io::Error) -> CollectError {
    CollectError::new(format_args!("write `{}`", path.display()), error)
}

#[cfg(test)]
mod tests;
