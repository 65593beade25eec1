//! Recipes of simulated traffic: one per story, with its expected verdict.

/// A scenario of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// Even arrivals, fast responses, some tail loss probes.
    Smooth,
    /// The network in front delays packets for 1.2 s every 2 s.
    NetworkHold,
    /// Senders pause for 1 s every 2 s, then catch up.
    SenderBursts,
    /// One URL takes 900 ms.
    SlowApp,
    /// A full accept queue; SYNs are repeated after 1, 3, 7 s.
    AcceptQueue,
    /// A full accept queue; SYNs are repeated after 1, 2, 3, 4, 5, 7 s (Linux 6.5 and later).
    AcceptQueueLinear,
    /// 1 % of segments are lost after the tap, at an RTT of 2 ms.
    LossAfter,
    /// 1 % of segments are lost after the tap, at an RTT of 40 ms.
    LossAfterFar,
    /// 2 % of requests are lost before the tap, at an RTT of 2 ms.
    LossBefore,
    /// 2 % of requests are lost before the tap, at an RTT of 40 ms.
    LossBeforeFar,
    /// The upstream closes idle connections while a request is in flight.
    UpstreamRace,
    /// The edge closes idle connections while a request is in flight.
    ClientRace,
    /// Clients read large responses in portions.
    SlowReader,
    /// Pipelined requests, `100 Continue`, requests in pieces.
    Framing,
    /// A connection per request.
    Churn,
    /// Closed-loop load with 1 to 64 clients; λ = 100/s, σ = 0.1, κ = 0.001.
    UslSteps,
    /// Even arrivals at a high rate without upstream, for captures of many gigabytes.
    Bulk,
}

impl Story {
    /// All stories.
    pub const ALL: [Story; 17] = [
        Story::Smooth,
        Story::NetworkHold,
        Story::SenderBursts,
        Story::SlowApp,
        Story::AcceptQueue,
        Story::AcceptQueueLinear,
        Story::LossAfter,
        Story::LossAfterFar,
        Story::LossBefore,
        Story::LossBeforeFar,
        Story::UpstreamRace,
        Story::ClientRace,
        Story::SlowReader,
        Story::Framing,
        Story::Churn,
        Story::UslSteps,
        Story::Bulk,
    ];

    /// Name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Story::Smooth => "smooth",
            Story::NetworkHold => "network-hold",
            Story::SenderBursts => "sender-bursts",
            Story::SlowApp => "slow-app",
            Story::AcceptQueue => "accept-queue",
            Story::AcceptQueueLinear => "accept-queue-linear",
            Story::LossAfter => "loss-after",
            Story::LossAfterFar => "loss-after-far",
            Story::LossBefore => "loss-before",
            Story::LossBeforeFar => "loss-before-far",
            Story::UpstreamRace => "upstream-race",
            Story::ClientRace => "client-race",
            Story::SlowReader => "slow-reader",
            Story::Framing => "framing",
            Story::Churn => "churn",
            Story::UslSteps => "usl-steps",
            Story::Bulk => "bulk",
        }
    }

    /// Expected verdict of `weir wire`; `None` if there is no single one.
    pub fn verdict(self) -> Option<&'static str> {
        Some(match self {
            Story::Smooth | Story::Churn | Story::Bulk => "smooth",
            Story::NetworkHold => "upstream_network_jitter",
            Story::SenderBursts => "sender_bursts",
            Story::SlowApp => "slow_app",
            Story::AcceptQueue | Story::AcceptQueueLinear => "accept_queue",
            Story::LossAfter | Story::LossAfterFar | Story::LossBefore | Story::LossBeforeFar => {
                "path_loss"
            }
            Story::UpstreamRace | Story::ClientRace => "keepalive_race",
            Story::SlowReader => "client_reader",
            Story::Framing | Story::UslSteps => return None,
        })
    }
}

/// A story and its size.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Scenario to simulate.
    pub story: Story,
    /// Duration in seconds.
    pub seconds: u32,
    /// Requests per second.
    pub rate: u32,
    /// Seed; it determines every byte.
    pub seed: u64,
}

impl Recipe {
    /// A story at its default size, enough for its verdict.
    pub fn of(story: Story) -> Self {
        let (seconds, rate) = match story {
            Story::Bulk => (60, 20_000),
            Story::UslSteps => (21, 0),
            Story::SlowReader => (20, 10),
            Story::Churn => (10, 300),
            Story::ClientRace | Story::UpstreamRace | Story::Framing => (12, 60),
            _ => (12, 200),
        };
        Self { story, seconds, rate, seed: 42 }
    }
}
