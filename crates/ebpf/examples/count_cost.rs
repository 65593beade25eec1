//! Measures the CPU cost of counting sockets, per connection and per system call.
//!
//! ```text
//! cargo run -p weir-ebpf --features kernel --example count_cost -- [connections, default 20000] [rounds, default 9]
//! ```
//! One process connects over loopback, sends a byte, receives one and closes. Rounds of the three
//! modes (off, counting, counting with waits) alternate; the minimum of each mode is printed.

#![expect(clippy::print_stdout, reason = "this example prints its results")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_ebpf::{CounterOptions, SocketCounter};
use weir_tables::Micros;

type BoxError = Box<dyn std::error::Error>;

const MODES: [(&str, Option<bool>); 3] =
    [("off", None), ("counting", Some(false)), ("with waits", Some(true))];
const SYSTEM_CALLS: u32 = 2_000_000;

/// Minimum over all rounds of one mode.
#[derive(Clone, Copy)]
struct MinimumCost {
    connection_cpu_us: f64,
    connection_us: f64,
    system_call_ns: f64,
    /// Time to read the maps of one round.
    reading_us: f64,
}

fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let connections: u32 = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(9), |text| text.parse())?;
    let most = f64::INFINITY;
    let none = MinimumCost {
        connection_cpu_us: most,
        connection_us: most,
        system_call_ns: most,
        reading_us: most,
    };
    let mut least = [none; MODES.len()];
    let server = serve()?;
    for _ in 0..rounds {
        for (least, (_, mode)) in least.iter_mut().zip(MODES) {
            round(server, connections, mode, least)?;
        }
    }
    println!("{connections} connections per round, minimum of {rounds} rounds");
    println!(
        "{:12} {:>14} {:>14} {:>15} {:>12}",
        "", "CPU/connection", "connections/s", "system call", "reading"
    );
    for ((name, _), least) in MODES.iter().zip(least) {
        println!(
            "{name:12} {:11.2} µs {:14.0} {:12.1} ns {:9.0} µs",
            least.connection_cpu_us,
            1e6 / least.connection_us,
            least.system_call_ns,
            if least.reading_us.is_finite() { least.reading_us } else { 0.0 },
        );
    }
    Ok(())
}

fn round(
    server: SocketAddr,
    connections: u32,
    mode: Option<bool>,
    least: &mut MinimumCost,
) -> Result<(), BoxError> {
    let mut sockets = match mode {
        Some(times_accepts) => {
            let options =
                CounterOptions { peers: 8192, peer_rows: 100, queued: 65_536, times_accepts };
            Some(SocketCounter::open(options, Micros(0))?)
        }
        None => None,
    };
    let (cpu, started) = (process_cpu(), Instant::now());
    for _ in 0..connections {
        let mut stream = TcpStream::connect(server)?;
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0])?;
    }
    let (cpu, wall) = (process_cpu().saturating_sub(cpu), started.elapsed());
    least.connection_cpu_us = least.connection_cpu_us.min(micros_each(cpu, connections));
    least.connection_us = least.connection_us.min(micros_each(wall, connections));
    let started = Instant::now();
    for _ in 0..SYSTEM_CALLS {
        std::hint::black_box(rustix::process::getppid());
    }
    let call_ns = micros_each(started.elapsed(), SYSTEM_CALLS) * 1e3;
    least.system_call_ns = least.system_call_ns.min(call_ns);
    if let Some(sockets) = &mut sockets {
        sockets.sample(Micros(1), "here", &mut |_| "host".into())?;
        let started = Instant::now();
        sockets.sample(Micros(2), "here", &mut |_| "host".into())?;
        least.reading_us = least.reading_us.min(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(())
}

fn micros_each(span: Duration, count: u32) -> f64 {
    span.as_secs_f64() * 1e6 / f64::from(count)
}

fn serve() -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut byte = [0];
            // The client disconnected: end the thread.
            if stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte)).is_err() {
                return;
            }
        }
    });
    Ok(address)
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
