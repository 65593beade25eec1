//! Limits the cost of a tap by sampling: halves the connections at once when it costs too much, and
//! raises them slowly.

/// Cost of the tap since the last check.
#[derive(Debug, Clone, Copy)]
pub struct TapLoad {
    /// CPU time per elapsed time.
    pub cpu_ratio: f64,
    /// Rows per allowed rows.
    pub rows_ratio: f64,
    /// Whether packets were lost.
    pub is_losing: bool,
}

/// Decides which share of connections is followed, and which share of those has rows.
#[derive(Debug)]
pub struct TapThrottle {
    cpu_ratio_max: f64,
    connections: u32,
    rows: u32,
    quiet_connections: u32,
    quiet_rows: u32,
}

/// At least one connection of 1,024.
const HALVINGS_MAX: u32 = 10;
/// Quiet checks in a row before the share is doubled. Doubling doubles the cost, so there must be
/// headroom.
const QUIET_CHECKS: u32 = 30;
/// Quiet: twice the connections would still be below the limit.
const QUIET_RATIO: f64 = 0.4;

impl TapThrottle {
    /// Follows everything until it costs more than `cpu_ratio_max` of one CPU.
    pub fn new(cpu_ratio_max: f64) -> Self {
        let cpu_ratio_max = cpu_ratio_max.max(0.001);
        Self { cpu_ratio_max, connections: 0, rows: 0, quiet_connections: 0, quiet_rows: 0 }
    }

    /// Evaluates one second; true when a share changed.
    pub fn update(&mut self, load: &TapLoad) -> bool {
        let before = (self.connections, self.rows);
        let cpu = load.cpu_ratio / self.cpu_ratio_max;
        let cpu = if load.is_losing { cpu.max(1.1) } else { cpu };
        step(&mut self.connections, &mut self.quiet_connections, cpu);
        // Fewer connections already reduce the rows.
        if self.connections == before.0 {
            step(&mut self.rows, &mut self.quiet_rows, load.rows_ratio);
        }
        (self.connections, self.rows) != before
    }

    /// Connections followed, of 65,536.
    pub fn connections(&self) -> u32 {
        super::ALL_CONNECTIONS >> self.connections
    }

    /// Followed connections with rows, of 65,536.
    pub fn rows(&self) -> u32 {
        super::ALL_CONNECTIONS >> self.rows
    }
}

fn step(halvings: &mut u32, quiet: &mut u32, ratio: f64) {
    if ratio > 1.0 {
        // One halving may not be enough for a burst.
        *halvings = (*halvings + if ratio > 3.0 { 2 } else { 1 }).min(HALVINGS_MAX);
        *quiet = 0;
    } else if ratio < QUIET_RATIO && *halvings > 0 {
        *quiet += 1;
        if *quiet >= QUIET_CHECKS {
            *halvings -= 1;
            *quiet = 0;
        }
    } else {
        *quiet = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_falls_at_once_and_rises_slowly() {
        let mut throttle = TapThrottle::new(0.25);
        let busy = TapLoad { cpu_ratio: 0.3, rows_ratio: 0.0, is_losing: false };
        let quiet = TapLoad { cpu_ratio: 0.05, ..busy };
        assert!(throttle.update(&busy));
        assert_eq!(throttle.connections(), 32_768);
        assert!(throttle.update(&TapLoad { is_losing: true, ..quiet }), "losses count as too much");
        assert_eq!(throttle.connections(), 16_384);
        assert!(!(1..QUIET_CHECKS).any(|_| throttle.update(&quiet)));
        assert!(throttle.update(&quiet));
        assert_eq!(throttle.connections(), 32_768);
        assert!(
            !throttle.update(&TapLoad { cpu_ratio: 0.2, ..busy }),
            "neither too much nor quiet"
        );
        for _ in 0..99 {
            throttle.update(&busy);
        }
        assert_eq!(throttle.connections(), 64, "never nothing");
    }

    #[test]
    fn rows_are_thinned_apart_from_connections() {
        let mut throttle = TapThrottle::new(0.25);
        let load = TapLoad { cpu_ratio: 0.1, rows_ratio: 5.0, is_losing: false };
        assert!(throttle.update(&load));
        assert_eq!((throttle.connections(), throttle.rows()), (65_536, 16_384));
    }
}
