//! Lines of a log, through every rule that joins them: ends of events are ascending ends of lines,
//! and the same when a reader starts again at an event. The first byte selects the rule.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_multiline::{Multiline, PRESETS};

fuzz_target!(|bytes: &[u8]| {
    let [rule, lines @ ..] = bytes else { return };
    // Readers pass whole lines.
    let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') else { return };
    let lines = &lines[..=end];
    let multiline = Multiline::preset(PRESETS[usize::from(*rule) % PRESETS.len()]);
    let multiline = multiline.expect("it is one of the presets");
    let ends = multiline.ends(lines);
    assert!(ends.is_sorted_by(|one, next| one < next), "{ends:?}");
    assert!(ends.iter().all(|end| *end > 0 && lines[end - 1] == b'\n'), "{ends:?}");
    if let Some(first) = ends.first().filter(|first| **first < lines.len()) {
        let again: Vec<usize> =
            multiline.ends(&lines[*first..]).into_iter().map(|end| end + first).collect();
        assert_eq!(again, ends[1..], "from the second event on");
    }
    let _ = Multiline::of_head(lines);
});
