//! Reads every data file of the data directory once in a while, slowly, so that damage is found
//! while a backup still has the file; and looks each minute whether the files are there at all.
//!
//! Which file is next follows from the clock alone, so a restarted weir continues where it was.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use weir_datafile::{DataFile, StoreError, Tier};
use weir_tables::Micros;
use weir_tier::FileLocations;

use crate::write_path::shared::StoreState;

/// Interval between looks at the files.
const EVERY: Duration = Duration::from_secs(60);
const PIECE_BYTES: usize = 1 << 20;
/// Pause after each piece: at most 8 MiB/s.
const PAUSE: Duration = Duration::from_millis(125);

/// The thread; it ends when this is dropped.
pub(crate) struct FileScrub {
    _stop: Sender<()>,
}

struct ScrubWork {
    shared: Arc<StoreState>,
    places: FileLocations,
    /// Time for all files.
    period: Duration,
    stop: Receiver<()>,
    /// What was due at the last look.
    done: Option<DuePart>,
}

impl FileScrub {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Io`: the system has no thread left.
    pub(crate) fn start(
        shared: &Arc<StoreState>,
        places: &FileLocations,
        period: Duration,
    ) -> Result<Self, StoreError> {
        let (sender, stop) = channel();
        let (shared, places) = (Arc::clone(shared), places.clone());
        let mut work = ScrubWork { shared, places, period, stop, done: None };
        let thread = std::thread::Builder::new().name("weir-scrub".into());
        thread.spawn(move || work.run()).map_err(|error| {
            StoreError::new(weir_datafile::ErrorKind::Io, format!("cannot start a thread: {error}"))
        })?;
        Ok(Self { _stop: sender })
    }
}

impl ScrubWork {
    fn run(&mut self) {
        let _ = rustix::process::nice(10);
        loop {
            self.look_for_missing();
            if !self.period.is_zero() && self.read_due().is_none() {
                return;
            }
            if self.stop.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn local_files(&self) -> Vec<Arc<DataFile>> {
        let view = self.shared.view();
        let files = view.tables.iter().flat_map(|table| table.files.iter());
        let mut files: Vec<_> = files.filter(|file| file.tier == Tier::Local).cloned().collect();
        files.sort_by_key(|file| file.id);
        files
    }

    fn look_for_missing(&self) {
        let is_gone = |file: &DataFile| {
            let length =
                std::fs::metadata(self.places.root.join(&file.path)).map(|meta| meta.len());
            !length.is_ok_and(|length| length == file.byte_count)
        };
        let mut missing: Vec<_> =
            self.local_files().into_iter().filter(|file| is_gone(file)).collect();
        if !missing.is_empty() {
            // A file may have been merged away in the meantime.
            let live = self.local_files();
            missing.retain(|file| live.iter().any(|other| other.id == file.id));
        }
        self.shared.set_missing_files(missing.iter().map(|file| file.path.clone()).collect());
    }

    /// Reads the files that are due; `None` when the store was closed.
    fn read_due(&mut self) -> Option<()> {
        let files = self.local_files();
        let now = DuePart::at(self.shared.now(), self.period, files.len());
        let last = self.done.replace(now).unwrap_or(now);
        let parts = if last.period == now.period {
            [last.files..now.files, 0..0]
        } else {
            [last.files..files.len(), 0..now.files]
        };
        let due = parts.into_iter().filter_map(|part| files.get(part)).flatten();
        // Not the files themselves: one that is merged away meanwhile must not stay for its reader.
        let due: Vec<String> = due.map(|file| file.path.clone()).collect();
        drop(files);
        for path in due {
            match self.read(&path) {
                Ok(is_open) => is_open.then_some(())?,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    self.shared.add_damaged_file(path, format!("cannot be read: {error}"));
                }
            }
        }
        Some(())
    }

    /// Reads a file; `false` when the store was closed.
    fn read(&self, path: &str) -> std::io::Result<bool> {
        let file = self.places.unchecked().open(path, Tier::Local)?;
        let mut reader = file.reader_of(PIECE_BYTES);
        let mut piece = vec![0; PIECE_BYTES];
        while reader.read(&mut piece)? > 0 {
            if self.stop.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// How many files, by their numbers, are due in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DuePart {
    period: i64,
    files: usize,
}

impl DuePart {
    /// What is due of `count` files at a moment.
    fn at(now: Micros, period: Duration, count: usize) -> Self {
        let micros = i64::try_from(period.as_micros()).unwrap_or(i64::MAX).max(1);
        let passed = u128::from(now.0.rem_euclid(micros).cast_unsigned());
        let due = passed * (count as u128 + 1) / u128::from(micros.cast_unsigned());
        let files = usize::try_from(due).map_or(count, |due| due.min(count));
        Self { period: now.0.div_euclid(micros), files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_due_once_in_a_period() {
        let period = Duration::from_secs(1000);
        let at =
            |seconds: u64| DuePart::at(Micros(0) + Duration::from_secs(seconds), period, 9).files;
        let steps: Vec<usize> = (0..2000).map(at).collect();
        assert_eq!((steps[0], steps[99], steps[100], steps[999], steps[1000]), (0, 0, 1, 9, 0));
        let rises = steps[..1000].windows(2).map(|pair| pair[1] - pair[0]).sum::<usize>();
        assert_eq!(rises, 9);
        assert_eq!(DuePart::at(Micros(5), period, 0).files, 0);
        assert_eq!(DuePart::at(Micros(1_000_000_005), period, 9).period, 1);
    }
}
