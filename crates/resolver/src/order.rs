//! Which family of addresses a host prefers: gai.conf(5).

use std::path::Path;

use crate::hosts::read;

/// The range of IPv4 addresses among those of IPv6.
const MAPPED: &str = "::ffff:0:0/96";
const ALL: &str = "::/0";
/// Precedence of IPv6, if the file does not say otherwise.
const ALL_DEFAULT: u32 = 40;

/// Whether `/etc/gai.conf` below `root` puts IPv4 first, as administrators do where IPv6 is broken.
pub fn prefers_ipv4(root: &Path) -> bool {
    let Some(text) = read(&root.join("etc/gai.conf")) else { return false };
    let all = precedence(&text, ALL).unwrap_or(ALL_DEFAULT);
    precedence(&text, MAPPED).is_some_and(|mapped| mapped > all)
}

/// The precedence that a file gives to a range.
fn precedence(file: &str, range: &str) -> Option<u32> {
    file.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let is_own = words.next() == Some("precedence") && words.next() == Some(range);
        words.next().filter(|_| is_own)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_administrators_uncomment_is_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        assert!(!prefers_ipv4(root.path()));
        for (text, expected) in [
            ("#precedence ::ffff:0:0/96  100\n", false),
            ("precedence ::ffff:0:0/96  100\n", true),
            ("precedence ::/0 40\nprecedence  ::ffff:0:0/96 10 # usual\n", false),
            ("precedence ::/0 200\nprecedence  ::ffff:0:0/96 100\n", false),
        ] {
            std::fs::write(root.path().join("etc/gai.conf"), text).unwrap();
            assert_eq!(prefers_ipv4(root.path()), expected, "{text}");
        }
    }
}
