//! `action_run`: repairs of hosts; one row at each change of state.

table! {
    /// Repairs that were proposed, ordered and run on hosts, and what came of them; the newest row
    /// of a `run_id` is current.
    ActionRun, ActionRunRows = "action_run";
    grain: "one row per run and change of state";
    source: "weir: the hub's decisions, and weir-act's reports by way of the agent";
    sort: [host, ts];
    ids: [run_id, order_id, finding_id];
    1 ts: Time = "When the state changed.";
    2 host: Text = "The host that is repaired.";
    3 run_id: Text = "Constant over all states of a run; an agent writes the order's id.";
    4 order_id: OptText = "The signed order, 32 hexadecimal digits; NULL before one was signed.";
    5 action: Text = "Id of the action in the host's list.";
    6 params: Text = "Parameters of the action as a JSON object of texts.";
    7 mode: Text = "dry_run, run or undo.";
    8 rule_id: OptText = "The rule whose finding is answered; NULL in rows of an agent.";
    9 finding_id: Text = "The finding that is answered; empty for none.";
    10 state: Text = "proposed, refused, asked, approved, dry_run, ordered, started, ended, verified, failed, undone or unknown.";
    11 approved_by: OptText = "The person that approved it; NULL while nobody did.";
    12 reason: OptText = "Why it is in this state; NULL when there is nothing to say.";
    13 argv: OptText = "Arguments of each step as JSON arrays; NULL before they are known.";
    14 exit_status: OptInt = "Exit status of the last step that ran, 128 and more for a signal; NULL before the end, and of dry runs.";
    15 output_tail: OptText = "End of the steps' output; NULL before the end.";
    16 duration_seconds: OptFloat = "From the start of the first step to the end of the last; NULL before the end.";
    17 before_value: OptFloat = "The finding's figure before the run; NULL in rows of an agent.";
    18 after_value: OptFloat = "The finding's figure at verification; NULL before it.";
    19 dry_run: OptText = "What the dry run before the order showed; NULL without one, and in rows of an agent.";
}
