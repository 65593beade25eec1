//! Keeps rows, answers SQL: write-ahead log, hot rows, Parquet, manifest.
