//! `agent_link`: agents that are connected to this hub, and how far their clocks are from its own.

table! {
    /// Agents that are connected to a hub, and how far their clocks are from the hub's.
    AgentLink, AgentLinkRows = "agent_link";
    grain: "one row per connected agent a minute, and at once when its clock moved by more than 0.1 s";
    source: "the hub, which asks each agent for its time every 10 s";
    sort: [host, ts];
    1 ts: Time = "When the agent was asked, by the hub's clock.";
    2 host: Text = "The agent's name, as it joined: that of its host unless it was given another one.";
    3 address: Text = "Where it connects from.";
    4 program: Text = "Its program and version.";
    5 connected_ts: Time = "Since when it is connected, by the hub's clock.";
    6 clock_offset_seconds: Float = "Its clock minus the hub's: above 0 it is ahead.";
    7 round_trip_seconds: Float = "From question to answer; the offset may be wrong by half of it.";
}
