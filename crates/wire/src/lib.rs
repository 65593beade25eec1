//! Packets to connections, requests and time slices; pure, plus capture.

pub mod packet;
