//! Bounds what rewrites copy in one statement.
//!
//! A name that is replaced at each of its uses, and a subquery that is read twice, multiply: ten
//! lines of `cross join lateral (select a.x || a.x as x) b …` are a text of gigabytes.

use std::cell::Cell;

use sqlparser::ast::Expr;

use crate::refusal::{Result, refuse};

/// Bytes of text that the copies of one statement may have.
const BYTES_MAX: usize = 1 << 20;

/// What a statement's rewrites may still copy.
pub(crate) struct CopyBudget {
    bytes: Cell<usize>,
}

impl Default for CopyBudget {
    fn default() -> Self {
        Self { bytes: Cell::new(BYTES_MAX) }
    }
}

impl CopyBudget {
    /// Pays for copies of an expression.
    ///
    /// # Errors
    /// The statement has too many copies.
    pub(crate) fn copy(&self, expr: &Expr, copies: usize) -> Result<()> {
        if copies == 0 {
            return Ok(());
        }
        self.copy_bytes(expr.to_string().len().saturating_mul(copies))
    }

    /// Pays for copies with this many bytes of text.
    ///
    /// # Errors
    /// The statement has too many copies.
    pub(crate) fn copy_bytes(&self, bytes: usize) -> Result<()> {
        match self.bytes.get().checked_sub(bytes) {
            Some(left) => {
                self.bytes.set(left);
                Ok(())
            }
            None => {
                self.bytes.set(0);
                refuse!(
                    "the statement repeats names, rows or subqueries so often that it has more \
                     than {} MiB when they are written out: use shorter ones, or fewer times",
                    BYTES_MAX >> 20
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::tests::rewritten;

    #[test]
    fn copies_that_multiply_are_refused() {
        let names = |each: &str, count: usize| {
            (0..count).map(|at| each.replace('#', &at.to_string())).collect::<String>()
        };
        let text = "a".repeat(100_000);
        let nest = |open: &str, close: &str| {
            let (open, close) = (open.repeat(5), close.repeat(5));
            format!("select * from {open}x where b = '{text}'{close} t")
        };
        let lateral = names(" cross join lateral (select y || y as y) l#", 30);
        let outer = names(" full join t as t# using (a, b, c, d, e, f, g, h)", 200);
        let key = format!("count(*) + {}", "a + ".repeat(500) + "a");
        let keys = "2, ".repeat(5_000);
        let wide = names("a + a as c#, ", 1_000);
        let window = format!("w as (partition by {}a)", "a, ".repeat(600));
        let value = format!("coalesce({}1)", "a, ".repeat(3_000));
        let statements = [
            format!("select y from t{lateral}"),
            format!("select a from t{outer}"),
            format!("select a, {key} from t group by a order by {keys}1"),
            format!("select {}1 from (select {wide}1 as z) t", "row_to_json(t), ".repeat(500)),
            format!(
                "select {}1 from t window {window}",
                "sum(a) over (w order by b), ".repeat(1_600)
            ),
            format!("select 1 where ({value}, 1) in ({}(1, 1))", "(1, 1), ".repeat(2_000)),
            nest("json_each((select value from ", "))"),
            nest("unnest(array(select a from ", ")) with ordinality"),
        ];
        for sql in statements {
            let refusal = rewritten(&sql);
            assert!(refusal.contains("when they are written out"), "{sql:.90}: {refusal:.200}");
        }
    }

    #[test]
    fn usual_copies_pass() {
        let rows = "(1, 'a'), ".repeat(5_000);
        let sql = format!("select 1 where (host, source) in ({rows}(2, 'b'))");
        assert!(rewritten(&sql).starts_with("SELECT 1 WHERE"));
        let columns: String = (0..300).map(|at| format!("a{at}, ")).collect();
        let sql = format!("select row_to_json(t), json_agg(t) from (select {columns}b from x) t");
        assert!(rewritten(&sql).contains("'a299', t.a299"));
    }

    #[test]
    fn long_rows_and_lists_of_rows_make_no_deep_tree() {
        let columns = "1, ".repeat(20_000) + "1";
        for sql in [
            format!("select ({columns}) = ({columns})"),
            format!("select ({columns}) is not distinct from ({columns})"),
            format!("select ({columns}) is null"),
            format!("select (1, 2) in ({}(1, 2))", "(1, 2), ".repeat(20_000)),
        ] {
            assert!(rewritten(&sql).starts_with("SELECT "), "{sql:.60}");
        }
        let refusal = rewritten(&format!("select {columns}"));
        assert!(refusal.contains("the limit is 1664"), "{refusal:.200}");
        let refusal = rewritten(&format!("select ({columns}) < ({columns})"));
        assert!(refusal.contains("the limit is 64"), "{refusal:.200}");
    }
}
