//! Matches one compiled expression against one line with bounded cost: linear, or a step limit.
//!
//! If each byte determines the next state (`regex_automata::dfa::onepass`), an automaton scans the
//! line once. All other expressions run on a backtracker over the same NFA that never takes a
//! branch twice at the same position and counts its steps. A line that needs more steps is reported
//! as too costly. So neither an expression nor a line can delay the lines after it.
//!
//! ```text
//!  (a|ab)c on "abc":  branch 0 at 0 ─► a ─► c? no, "b"     furthest = 1
//!                     branch 1 at 0 ─► a b ─► c ─► match   a second visit of (branch, position) is dead
//! ```

use regex_automata::dfa::onepass;
use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::{NonMaxUsize, StateID};
use regex_automata::{Anchored, Input};

/// Longest line that is matched.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 10;
/// Step limit of all expressions together on one line; 100,000 steps take well below a millisecond.
pub(crate) const MAX_STEPS: usize = 100_000;
/// Bits for visited branches, 1 MiB: clearing them costs time too.
const MAX_VISITED_BITS: usize = 8 << 20;
/// Largest one-pass automaton.
const ONE_PASS_BYTES: usize = 2 << 20;

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchOutcome {
    /// A match up to this byte.
    Match(usize),
    /// No match; no branch got past this byte.
    NoMatch(usize),
    /// The step limit of the line was reached.
    TooCostly,
}

/// A compiled expression, anchored at the line's start.
#[derive(Debug)]
pub(crate) struct Engine {
    nfa: NFA,
    one_pass: Option<onepass::DFA>,
    /// Number of each branching state; `u32::MAX` for the others.
    branches: Box<[u32]>,
    branch_count: usize,
}

/// Memory of searches; one per stream.
#[derive(Debug, Default)]
pub(crate) struct SearchScratch {
    /// Start and end of each group; the first two are the whole match.
    pub(crate) slots: Vec<Option<NonMaxUsize>>,
    cache: Option<onepass::Cache>,
    visited: Vec<u64>,
    stack: Vec<StackFrame>,
}

#[derive(Clone, Copy, Debug)]
enum StackFrame {
    Go { state: StateID, at: usize },
    Restore { slot: usize, old: Option<NonMaxUsize> },
}

impl Engine {
    /// Compiles an expression.
    pub(crate) fn new(nfa: NFA) -> Self {
        let config = onepass::Config::new().size_limit(Some(ONE_PASS_BYTES));
        let one_pass = onepass::Builder::new().configure(config).build_from_nfa(nfa.clone()).ok();
        let mut branch_count = 0;
        let branches = nfa
            .states()
            .iter()
            .map(|state| match state {
                State::Union { .. } | State::BinaryUnion { .. } => {
                    branch_count += 1;
                    branch_count - 1
                }
                _ => u32::MAX,
            })
            .collect();
        Self { nfa, one_pass, branches, branch_count: branch_count as usize }
    }

    /// Whether each byte is read once.
    pub(crate) fn is_one_pass(&self) -> bool {
        self.one_pass.is_some()
    }

    /// Memory for this expression.
    pub(crate) fn scratch(&self) -> SearchScratch {
        SearchScratch {
            slots: vec![None; self.nfa.group_info().slot_len()],
            cache: self.one_pass.as_ref().map(onepass::DFA::create_cache),
            ..SearchScratch::default()
        }
    }

    /// Matches the start of `line`; subtracts its cost from `steps_left`.
    pub(crate) fn search(
        &self,
        line: &str,
        scratch: &mut SearchScratch,
        steps_left: &mut usize,
    ) -> SearchOutcome {
        if let (Some(automaton), Some(cache)) = (&self.one_pass, &mut scratch.cache) {
            let input = Input::new(line).anchored(Anchored::Yes);
            let found = automaton.try_search_slots(cache, &input, &mut scratch.slots);
            if matches!(found, Ok(Some(_))) {
                let end = scratch.slots[1].map_or(0, NonMaxUsize::get);
                return SearchOutcome::Match(end);
            }
        }
        // Without a match, search again to report how far the line matches.
        Backtracker { engine: self, line: line.as_bytes(), furthest: 0 }.run(scratch, steps_left)
    }
}

/// One search by the backtracker.
struct Backtracker<'s> {
    engine: &'s Engine,
    line: &'s [u8],
    furthest: usize,
}

/// Result of one branch.
enum BranchOutcome {
    Dead,
    Matched(usize),
    TooCostly,
}

impl Backtracker<'_> {
    fn run(&mut self, scratch: &mut SearchScratch, steps_left: &mut usize) -> SearchOutcome {
        let bits = self.engine.branch_count * (self.line.len() + 1);
        if bits > MAX_VISITED_BITS {
            return SearchOutcome::TooCostly;
        }
        scratch.slots.fill(None);
        scratch.visited.clear();
        scratch.visited.resize(bits.div_ceil(64), 0);
        scratch.stack.clear();
        scratch.stack.push(StackFrame::Go { state: self.engine.nfa.start_anchored(), at: 0 });
        while let Some(frame) = scratch.stack.pop() {
            match frame {
                StackFrame::Restore { slot, old } => scratch.slots[slot] = old,
                StackFrame::Go { state, at } => match self.go(state, at, scratch, steps_left) {
                    BranchOutcome::Dead => {}
                    BranchOutcome::Matched(end) => return SearchOutcome::Match(end),
                    BranchOutcome::TooCostly => return SearchOutcome::TooCostly,
                },
            }
        }
        SearchOutcome::NoMatch(self.furthest)
    }

    /// Follows the preferred branch from a state; the others are pushed on the stack.
    fn go(
        &mut self,
        state: StateID,
        at: usize,
        scratch: &mut SearchScratch,
        steps_left: &mut usize,
    ) -> BranchOutcome {
        let (mut state, mut at) = (state, at);
        loop {
            if *steps_left == 0 {
                return BranchOutcome::TooCostly;
            }
            *steps_left -= 1;
            let branch = self.engine.branches[state.as_usize()];
            if branch != u32::MAX && !self.is_first_visit(branch, at, &mut scratch.visited) {
                return BranchOutcome::Dead;
            }
            let next = match self.engine.nfa.state(state) {
                State::ByteRange { trans } => {
                    self.byte(at, |byte| trans.matches_byte(byte).then_some(trans.next))
                }
                State::Sparse(sparse) => self.byte(at, |byte| sparse.matches_byte(byte)),
                State::Dense(dense) => self.byte(at, |byte| dense.matches_byte(byte)),
                State::Look { look, next } => {
                    let holds = self.engine.nfa.look_matcher().matches(*look, self.line, at);
                    holds.then_some((*next, 0))
                }
                State::Union { alternates } => {
                    let others = alternates.iter().skip(1).rev();
                    scratch.stack.extend(others.map(|state| StackFrame::Go { state: *state, at }));
                    alternates.first().map(|first| (*first, 0))
                }
                State::BinaryUnion { alt1, alt2 } => {
                    scratch.stack.push(StackFrame::Go { state: *alt2, at });
                    Some((*alt1, 0))
                }
                State::Capture { next, slot, .. } => {
                    let slot = slot.as_usize();
                    scratch.stack.push(StackFrame::Restore { slot, old: scratch.slots[slot] });
                    scratch.slots[slot] = NonMaxUsize::new(at);
                    Some((*next, 0))
                }
                State::Fail => None,
                State::Match { .. } => return BranchOutcome::Matched(at),
            };
            let Some((then, length)) = next else {
                self.furthest = self.furthest.max(at);
                return BranchOutcome::Dead;
            };
            (state, at) = (then, at + length);
        }
    }

    #[inline]
    fn byte(&self, at: usize, next: impl Fn(u8) -> Option<StateID>) -> Option<(StateID, usize)> {
        self.line.get(at).and_then(|byte| next(*byte)).map(|state| (state, 1))
    }

    #[inline]
    fn is_first_visit(&self, branch: u32, at: usize, visited: &mut [u64]) -> bool {
        let bit = branch as usize * (self.line.len() + 1) + at;
        let (word, mask) = (&mut visited[bit / 64], 1 << (bit % 64));
        let is_first = *word & mask == 0;
        *word |= mask;
        is_first
    }
}
