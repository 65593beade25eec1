//! weir: wires the rooms together.

fn main() {}
