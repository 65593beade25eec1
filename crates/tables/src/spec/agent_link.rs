//! `agent_link`: agents connected to this hub, and their clock offsets.

table! {
    /// Agents connected to a hub, and how far their clocks are from the hub's.
    AgentLink, AgentLinkRows = "agent_link";
    grain: "one row per connected agent a minute, and at once when its clock moved by more than 0.1 s";
    source: "the hub, which requests each agent's time every 10 s";
    sort: [host, ts];
    1 ts: Time = "When the time was requested, by the hub's clock.";
    2 host: Text = "The agent's name, as it joined: its host's name unless another was given.";
    3 address: Text = "Address that it connects from.";
    4 program: Text = "Its program and version.";
    5 connected_ts: Time = "When it connected, by the hub's clock.";
    6 clock_offset_seconds: Float = "The agent's clock minus the hub's; above 0 the agent is ahead.";
    7 round_trip_seconds: Float = "From request to response; the offset may be off by half of it.";
}
