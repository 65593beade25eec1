//! Action files: no text panics, and what parses has programs that are plain absolute paths and
//! takes no value that is an option.

#![no_main]

use std::collections::BTreeMap;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use weir_act::{OrderMode, parse_action};

fuzz_target!(|text: &str| {
    let path = Path::new("/etc/weir/actions.d/a.toml");
    let Ok(action) = parse_action(path, text) else { return };
    assert_eq!(action.id, "a");
    for step in &action.steps {
        assert!(step.program.is_absolute());
    }
    for value in ["-x", "", "a\n", "../a", "a\0"] {
        let params: BTreeMap<String, String> =
            action.params.keys().map(|name| (name.clone(), value.to_owned())).collect();
        let is_allowed = action.argv(OrderMode::Run, &params).is_ok();
        assert!(!is_allowed || action.params.is_empty(), "{value:?}");
    }
});
