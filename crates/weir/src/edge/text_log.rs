//! A line of JSON for each request, for tools that read text: the columns of its row that are not NULL.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use arrow_json::LineDelimitedWriter;
use weir_tables::{Batch, RequestRows, Rows};

/// See the module.
pub(super) struct TextLog {
    path: PathBuf,
    /// Whether it was told that it cannot be written.
    is_told: bool,
}

impl TextLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, is_told: false }
    }

    /// Appends the requests among the rows. What cannot be written is told once; the rows go on to their destination.
    pub(super) fn write(&mut self, batches: &[Batch]) {
        let written = self.try_write(batches);
        if let (Err(error), false) = (&written, self.is_told) {
            let path = self.path.display();
            tracing::error!(
                "cannot write `{path}` (`edge.log_file`): {error}; its lines are missing until it can be\n\
                 hint: does its directory exist, may this user write there, and is there room?"
            );
        }
        self.is_told = written.is_err();
    }

    fn try_write(&self, batches: &[Batch]) -> std::io::Result<()> {
        let mut lines = Vec::new();
        let mut writer = LineDelimitedWriter::new(&mut lines);
        for batch in batches.iter().filter(|batch| batch.table.name == RequestRows::SPEC.name) {
            writer.write(&batch.rows).map_err(std::io::Error::other)?;
        }
        writer.finish().map_err(std::io::Error::other)?;
        if lines.is_empty() {
            return Ok(());
        }
        // Opened each time: whoever rotates it may rename it whenever he likes.
        File::options().create(true).append(true).open(&self.path)?.write_all(&lines)
    }
}
