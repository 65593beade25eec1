//! The program of the benchmarks; everything is in the library, since tests use a part of it.

fn main() -> anyhow::Result<()> {
    weir_bench::main()
}
