//! What an audit found: text for a person, JSON for a program.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Audit;

/// Gaps, doubled lines and strangers that are named one by one.
const NAMED: usize = 20;

/// A paragraph for each file, then one line that says whether all is well.
pub(super) fn text(audits: &[Audit]) -> String {
    let mut out = String::new();
    for audit in audits {
        let _ = write!(out, "{}\n{}\n", audit.path.display(), paragraph(audit));
    }
    out + &verdict(audits)
}

fn paragraph(audit: &Audit) -> String {
    if let Some(why) = &audit.unknown {
        return format!("  not compared: {why}");
    }
    let mut out = format!(
        "  at the hub   {} of {} bytes{}\n  {:<12} {} on disk, {} rows",
        audit.position.min(audit.size),
        audit.size,
        behind(audit),
        if audit.is_multiline { "events" } else { "lines" },
        audit.lines,
        audit.rows,
    );
    if let Some(delay) = &audit.delay {
        let _ = write!(
            out,
            "\n  delay        p50 {:.3} s, p99 {:.3} s, longest {:.3} s (from the line's own time to its reading)",
            delay.p50_seconds, delay.p99_seconds, delay.max_seconds
        );
    }
    for gap in audit.gaps.iter().take(NAMED) {
        let _ =
            write!(out, "\n  gap          {} lines, bytes {} to {}", gap.lines, gap.from, gap.to);
    }
    for (offset, rows) in audit.doubled.iter().take(NAMED) {
        let _ = write!(out, "\n  duplicate    the line at byte {offset} has {rows} rows");
    }
    for offset in audit.strangers.iter().take(NAMED) {
        let _ = write!(out, "\n  no line      a row is from byte {offset}, where no line begins");
    }
    let unnamed = [audit.gaps.len(), audit.doubled.len(), audit.strangers.len()];
    let unnamed: usize = unnamed.iter().map(|count| count.saturating_sub(NAMED)).sum();
    if unnamed > 0 {
        let _ = write!(out, "\n  and {unnamed} more");
    }
    if audit.unseen_stretches > 0 {
        let _ =
            write!(out, "\n  and {} more stretches of 256 KiB that differ", audit.unseen_stretches);
    }
    out
}

fn behind(audit: &Audit) -> String {
    match audit.size.saturating_sub(audit.position) {
        0 => String::new(),
        bytes => format!(" ({bytes} are not there yet and not compared)"),
    }
}

fn verdict(audits: &[Audit]) -> String {
    let sum = |of: fn(&Audit) -> u64| audits.iter().map(of).sum::<u64>();
    let (lines, gaps) = (sum(|audit| audit.lines), sum(Audit::missing_lines));
    let doubled = sum(|audit| audit.doubled.len() as u64);
    let unknown = audits.iter().filter(|audit| audit.unknown.is_some()).count();
    let is_well = unknown == 0 && !audits.iter().any(Audit::is_broken);
    let files = match audits.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    let what = match audits.iter().filter(|audit| audit.is_multiline).count() {
        0 => "lines",
        count if count == audits.len() => "events",
        _ => "lines and events",
    };
    let mut out = format!(
        "{}: {files}, {lines} {what}, {gaps} in a gap, {doubled} doubled",
        if is_well { "all is well" } else { "not all is well" }
    );
    if unknown > 0 {
        let _ = write!(out, ", {unknown} not compared");
    }
    out
}

/// One object.
pub(super) fn json(audits: &[Audit]) -> String {
    let files: Vec<Value> = audits.iter().map(object).collect();
    let is_well =
        audits.iter().all(|audit| audit.unknown.is_none()) && !audits.iter().any(Audit::is_broken);
    let answer = json!({"is_well": is_well, "files": files});
    serde_json::to_string_pretty(&answer).expect("text and arrays become JSON")
}

fn object(audit: &Audit) -> Value {
    json!({
        "path": audit.path,
        "not_compared": audit.unknown,
        "stream": audit.stream,
        "size_bytes": audit.size,
        "position_bytes": audit.position,
        "lag_bytes": audit.size.saturating_sub(audit.position),
        "is_multiline": audit.is_multiline,
        "lines": audit.lines,
        "rows": audit.rows,
        "missing_lines": audit.missing_lines(),
        "gaps": audit.gaps.iter().map(|gap| json!({
            "from": gap.from, "to": gap.to, "lines": gap.lines,
        })).collect::<Vec<_>>(),
        "doubled": audit.doubled.iter().map(|(offset, rows)| json!({
            "offset": offset, "rows": rows,
        })).collect::<Vec<_>>(),
        "rows_without_line": audit.strangers,
        "stretches_not_looked_into": audit.unseen_stretches,
        "delay_seconds": audit.delay.map(|delay| json!({
            "p50": delay.p50_seconds, "p99": delay.p99_seconds, "max": delay.max_seconds,
        })),
    })
}
