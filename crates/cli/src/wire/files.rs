//! Rows of a capture as Parquet files, one a table: `request.parquet`, `tcp_conn.parquet` and so on
//! in a directory.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use weir_process::failure::Failure;
use weir_store::ParquetFile;
use weir_tables::Batch;

/// Files that are being written.
pub(super) struct Files {
    dir: PathBuf,
    open: Vec<(&'static str, ParquetFile<BufWriter<File>>)>,
}

impl Files {
    /// Files in `dir`, which is made when it is not there.
    pub(super) fn new(dir: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(dir).map_err(|error| {
            Failure::new(format!("cannot make the directory `{}`: {error}", dir.display()))
                .hint("name one with `--out` where you may write")
        })?;
        Ok(Self { dir: dir.to_owned(), open: Vec::new() })
    }

    /// Adds rows to their table's file.
    pub(super) fn write(&mut self, batches: &[Batch]) -> Result<(), Failure> {
        for batch in batches {
            let name = batch.table.name;
            let at = match self.open.iter().position(|(open, _)| *open == name) {
                Some(at) => at,
                None => {
                    let path = self.path(name);
                    let file = File::create(&path).map_err(|error| {
                        Failure::new(format!("cannot write `{}`: {error}", path.display()))
                            .hint("check its free space and permissions")
                    })?;
                    let file = ParquetFile::new(BufWriter::new(file), batch.table);
                    self.open.push((name, file.map_err(|error| failed(&path, &error))?));
                    self.open.len() - 1
                }
            };
            let path = self.path(name);
            self.open[at].1.write(&batch.rows).map_err(|error| failed(&path, &error))?;
        }
        Ok(())
    }

    /// Ends all files; what was written, and how many rows.
    pub(super) fn close(self) -> Result<(), Failure> {
        let dir = self.dir;
        for (name, file) in self.open {
            let path = dir.join(format!("{name}.parquet"));
            let out = file.finish().map_err(|error| failed(&path, &error))?;
            out.into_inner().map_err(|error| {
                Failure::new(format!("cannot write `{}`: {}", path.display(), error.error()))
            })?;
        }
        Ok(())
    }

    fn path(&self, table: &str) -> PathBuf {
        self.dir.join(format!("{table}.parquet"))
    }
}

fn failed(path: &Path, error: &weir_store::StoreError) -> Failure {
    Failure::new(format!("cannot write `{}`: {error}", path.display()))
        .hint("check the free space of the disk")
}
