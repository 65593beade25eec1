//! `judgement`: verdicts of people on findings.

table! {
    /// Verdicts of people on findings: real, not actionable, or wrong. The newest row of a finding
    /// is current.
    Judgement, JudgementRows = "judgement";
    grain: "one row per judgement of a person";
    source: "weir";
    sort: [rule, ts];
    ids: [finding_id];
    1 ts: Time = "When it was judged.";
    2 host: Text = "The host that the finding is about; empty when it is about more than one.";
    3 finding_id: Text = "The finding.";
    4 rule: Text = "Its rule.";
    5 class: Text = "The class from its own evidence: page, mail or note.";
    6 verdict: Text = "`real`, `not_actionable` (true, but nothing to do about it) or `wrong`.";
    7 user_name: Text = "Who judged: the user of the login, else the address.";
    8 action: OptText = "What was done about it; NULL when not stated.";
}
