//! How copies and parity lie on the members of an md array, and what a further failure costs.
//!
//! RAID 10 keeps `near * far` copies of each chunk (md(4)). Near copies fill the slots in order and
//! wrap around; a far copy lies `near` slots further, within its set of devices if there are sets:
//!
//! ```text
//! 4 devices, 2 near copies: A A B B     3 devices, 2 near copies: A A B     4 devices, 2 far: A B C D
//!                                                                 B C C                       D A B C
//! ```

/// Slots beyond this are not looked at; no array has as many.
const SLOT_LIMIT: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RaidLayout {
    near: Option<usize>,
    far: Option<usize>,
    far_set: Option<usize>,
}

impl RaidLayout {
    /// Notes two words that follow each other, such as `2 near-copies` or `2 devices`.
    pub(super) fn note(&mut self, number: &str, unit: &str) {
        let count = || number.parse().ok().filter(|count| (1..=SLOT_LIMIT).contains(count));
        match unit {
            "near-copies" => self.near = count(),
            "far-copies" | "offset-copies" => self.far = count(),
            "devices" => self.far_set = count(),
            _ => {}
        }
    }

    /// Failures that are certainly survived, given the slots as in `U_UU`; `None` for levels
    /// without rules of redundancy (multipath).
    pub(super) fn failures_left(&self, level: &str, slots: &str) -> Option<i64> {
        let in_use: Vec<bool> = slots.bytes().take(SLOT_LIMIT).map(|slot| slot == b'U').collect();
        let missing = count(in_use.iter().filter(|in_use| !**in_use));
        match level {
            "raid1" => Some(count(in_use.iter().filter(|in_use| **in_use)) - 1),
            "raid4" | "raid5" => Some(1 - missing),
            "raid6" => Some(2 - missing),
            "raid10" => (0..in_use.len())
                .map(|chunk| {
                    let mut slots = self.copies(chunk, in_use.len());
                    slots.sort_unstable();
                    slots.dedup();
                    count(slots.iter().filter(|slot| in_use[**slot])) - 1
                })
                .min(),
            _ => None,
        }
    }

    /// The set of slots with the same data that `slot` belongs to, where slots form such sets.
    pub(super) fn mirror_set(&self, level: &str, slots: i64, slot: i64) -> Option<i64> {
        let (near, far) = (self.near.unwrap_or(1), self.far.unwrap_or(1));
        let width = match (level, near, far) {
            ("raid1", ..) => return Some(0),
            ("raid10", near, 1) => near,
            ("raid10", 1, far) if self.far_set == Some(far) => far,
            _ => return None,
        };
        let width = i64::try_from(width).ok()?;
        (slots.checked_rem(width)? == 0).then(|| slot / width)
    }

    /// Slots that hold the copies of a chunk.
    fn copies(&self, chunk: usize, slots: usize) -> Vec<usize> {
        let (near, far) = (self.near.unwrap_or(1), self.far.unwrap_or(1));
        let set = self.far_set.filter(|set| slots.is_multiple_of(*set)).unwrap_or(slots);
        let first = (0..near).map(|copy| (chunk * near + copy) % slots);
        let places = first.flat_map(|slot| {
            let start = slot / set * set;
            (0..far).map(move |copy| start + (slot - start + copy * near) % set)
        });
        places.take(SLOT_LIMIT).collect()
    }
}

fn count(found: impl Iterator) -> i64 {
    i64::try_from(found.count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(words: &str) -> RaidLayout {
        let mut layout = RaidLayout::default();
        let words: Vec<&str> = words.split(' ').collect();
        for pair in words.windows(2) {
            layout.note(pair[0], pair[1]);
        }
        layout
    }

    #[test]
    fn failures_left_depend_on_level_layout_and_slot() {
        let near = layout("64K chunks 2 near-copies");
        let plain = RaidLayout::default();
        for (layout, level, slots, expected) in [
            (plain, "raid1", "UUUU____________________", Some(3)),
            (plain, "raid1", "U_", Some(0)),
            (plain, "raid5", "UU_U", Some(0)),
            (plain, "raid5", "UUUUUUU___", Some(-2)),
            (plain, "raid6", "UUUU_U", Some(1)),
            (plain, "raid0", "UU", None),
            (near, "raid10", "UUUU", Some(1)),
            (near, "raid10", "U_UU", Some(0)),
            (near, "raid10", "__UU", Some(-1)),
            (near, "raid10", "UUU", Some(1)),
            (layout("3 near-copies"), "raid10", "U_UUUU", Some(1)),
            // Far copies of a slot lie on its right neighbour.
            (layout("2 far-copies"), "raid10", "U__U", Some(-1)),
            (layout("2 far-copies 2 devices per set"), "raid10", "U__U", Some(0)),
            (layout("2 offset-copies"), "raid10", "UUUU", Some(1)),
        ] {
            assert_eq!(layout.failures_left(level, slots), expected, "{level} {slots}");
        }
    }

    #[test]
    fn mirror_sets_are_named_only_where_slots_form_sets() {
        let near = layout("2 near-copies");
        assert_eq!(
            [0, 1, 2, 3].map(|slot| near.mirror_set("raid10", 4, slot)),
            [0, 0, 1, 1].map(Some)
        );
        assert_eq!(near.mirror_set("raid10", 3, 0), None);
        assert_eq!(RaidLayout::default().mirror_set("raid1", 24, 3), Some(0));
        assert_eq!(RaidLayout::default().mirror_set("raid6", 4, 0), None);
        assert_eq!(layout("2 far-copies").mirror_set("raid10", 4, 0), None);
    }
}
