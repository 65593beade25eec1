//! Rows from other people's shippers: their protocols, read and answered in their own way.
