//! One compiled expression over one line, with a cost that is known before: linear in the line, or so many steps.
//!
//! Where each byte of a line allows one way only (`regex_automata::dfa::onepass`), an automaton goes through it once.
//! All other expressions are run by a backtracker over the same NFA that never takes one branch twice at the same place
//! and counts its steps: a line that would take more is not matched, and the answer says so. So neither an expression
//! nor a line can hold up the lines behind it.

use regex_automata::dfa::onepass;
use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::{NonMaxUsize, StateID};
use regex_automata::{Anchored, Input};

/// Longer lines are not given to expressions.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 10;
/// Steps that all expressions together may take on one line; 100,000 take well below a millisecond.
pub(crate) const MAX_STEPS: usize = 100_000;
/// Bits that remember which branch was taken where; 1 MiB. Clearing them costs time too.
const MAX_VISITED_BITS: usize = 8 << 20;
/// The automaton of an expression that is larger than this is not built.
const ONE_PASS_BYTES: usize = 2 << 20;

/// What came of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It matched, up to this byte.
    Match(usize),
    /// It did not match; no way went on past this byte.
    NoMatch(usize),
    /// It took more steps than are left for this line.
    TooCostly,
}

/// A compiled expression, anchored at the line's start.
#[derive(Debug)]
pub(crate) struct Engine {
    nfa: NFA,
    one_pass: Option<onepass::DFA>,
    /// The number of each state among those that branch; `u32::MAX` for the others.
    branches: Box<[u32]>,
    branch_count: usize,
}

/// Memory that a search needs; one per thread of lines.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Where each group begins and ends, two of the implicit whole match first.
    pub(crate) slots: Vec<Option<NonMaxUsize>>,
    cache: Option<onepass::Cache>,
    visited: Vec<u64>,
    stack: Vec<Frame>,
}

#[derive(Clone, Copy, Debug)]
enum Frame {
    Go { state: StateID, at: usize },
    Restore { slot: usize, old: Option<NonMaxUsize> },
}

impl Engine {
    /// Prepares an expression.
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

    /// Whether each byte is looked at once.
    pub(crate) fn is_one_pass(&self) -> bool {
        self.one_pass.is_some()
    }

    /// Memory for this expression.
    pub(crate) fn scratch(&self) -> Scratch {
        Scratch {
            slots: vec![None; self.nfa.group_info().slot_len()],
            cache: self.one_pass.as_ref().map(onepass::DFA::create_cache),
            ..Scratch::default()
        }
    }

    /// Matches the front of `line`; takes what it costs off `steps_left`.
    pub(crate) fn search(
        &self,
        line: &str,
        scratch: &mut Scratch,
        steps_left: &mut usize,
    ) -> Outcome {
        if let (Some(automaton), Some(cache)) = (&self.one_pass, &mut scratch.cache) {
            let input = Input::new(line).anchored(Anchored::Yes);
            let found = automaton.try_search_slots(cache, &input, &mut scratch.slots);
            if matches!(found, Ok(Some(_))) {
                let end = scratch.slots[1].map_or(0, NonMaxUsize::get);
                return Outcome::Match(end);
            }
        }
        // A line that the automaton refused is gone through once more, to say how far it fits.
        Search { engine: self, line: line.as_bytes(), furthest: 0 }.run(scratch, steps_left)
    }
}

/// One search by the backtracker.
struct Search<'s> {
    engine: &'s Engine,
    line: &'s [u8],
    furthest: usize,
}

/// What became of one way through the expression.
enum Way {
    Dead,
    Matched(usize),
    TooCostly,
}

impl Search<'_> {
    fn run(&mut self, scratch: &mut Scratch, steps_left: &mut usize) -> Outcome {
        let bits = self.engine.branch_count * (self.line.len() + 1);
        if bits > MAX_VISITED_BITS {
            return Outcome::TooCostly;
        }
        scratch.slots.fill(None);
        scratch.visited.clear();
        scratch.visited.resize(bits.div_ceil(64), 0);
        scratch.stack.clear();
        scratch.stack.push(Frame::Go { state: self.engine.nfa.start_anchored(), at: 0 });
        while let Some(frame) = scratch.stack.pop() {
            match frame {
                Frame::Restore { slot, old } => scratch.slots[slot] = old,
                Frame::Go { state, at } => match self.go(state, at, scratch, steps_left) {
                    Way::Dead => {}
                    Way::Matched(end) => return Outcome::Match(end),
                    Way::TooCostly => return Outcome::TooCostly,
                },
            }
        }
        Outcome::NoMatch(self.furthest)
    }

    /// Follows the preferred way from a state; the others wait on the stack.
    fn go(
        &mut self,
        state: StateID,
        at: usize,
        scratch: &mut Scratch,
        steps_left: &mut usize,
    ) -> Way {
        let (mut state, mut at) = (state, at);
        loop {
            if *steps_left == 0 {
                return Way::TooCostly;
            }
            *steps_left -= 1;
            let branch = self.engine.branches[state.as_usize()];
            if branch != u32::MAX && !self.is_first_visit(branch, at, &mut scratch.visited) {
                return Way::Dead;
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
                    scratch.stack.extend(others.map(|state| Frame::Go { state: *state, at }));
                    alternates.first().map(|first| (*first, 0))
                }
                State::BinaryUnion { alt1, alt2 } => {
                    scratch.stack.push(Frame::Go { state: *alt2, at });
                    Some((*alt1, 0))
                }
                State::Capture { next, slot, .. } => {
                    let slot = slot.as_usize();
                    scratch.stack.push(Frame::Restore { slot, old: scratch.slots[slot] });
                    scratch.slots[slot] = NonMaxUsize::new(at);
                    Some((*next, 0))
                }
                State::Fail => None,
                State::Match { .. } => return Way::Matched(at),
            };
            let Some((then, length)) = next else {
                self.furthest = self.furthest.max(at);
                return Way::Dead;
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
