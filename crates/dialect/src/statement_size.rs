//! Bounds a statement before it is parsed: its bytes, the stack that parsing, planning and running
//! it would take, and the steps of the parser.
//!
//! `a or b or c` is a tree that is as deep as the chain is long, and the parser and the planner
//! descend it by recursion: a generated condition with 850 terms overflowed a stack of 2 MiB, which
//! ends the process. The estimate reads tokens from left to right and does not recurse.
//!
//! The parser reads `cast(…)` in one way, and if that fails in another: each such level doubles its
//! work, and `select position(position(…` with 20 levels would keep a thread busy for years
//! ([`ParserWork`]).

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::postgres_syntax::PostgresSyntax;
use crate::refusal::{Result, refuse};

/// Stack of the threads that plan and run queries.
pub const STACK_BYTES: usize = 16 << 20;

/// Limit of the text of one statement.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Limit of the estimate for queries, in KiB: half of their stack.
const QUERY_KIB_MAX: usize = STACK_BYTES >> 11;

/// Limit of the estimate for conditions, which threads with stacks of 2 MiB compile and evaluate.
const CONDITION_KIB_MAX: usize = 1024;

/// Limit of the parser's steps; two seconds or less.
const PARSER_STEPS_MAX: u64 = 1_000_000;

/// Checks a query.
///
/// # Errors
/// The query is too long or too deep.
pub fn check_query(sql: &str) -> Result<()> {
    check(sql, QUERY_KIB_MAX)
}

/// Checks a condition on single rows.
///
/// # Errors
/// The condition is too long or too deep.
pub fn check_condition(sql: &str) -> Result<()> {
    check(sql, CONDITION_KIB_MAX)
}

fn check(sql: &str, kib_max: usize) -> Result<()> {
    if sql.len() > TEXT_BYTES_MAX {
        return refuse!(
            "the statement has {} bytes, the limit is {TEXT_BYTES_MAX}: split it",
            sql.len()
        );
    }
    // The parser reports what cannot be read.
    let Ok(tokens) = Tokenizer::new(&PostgresSyntax, sql).tokenize() else { return Ok(()) };
    let mut depth = StackEstimate::default();
    let mut work = ParserWork::new();
    for token in &tokens {
        depth.add(token);
        work.add(token);
        if work.steps > PARSER_STEPS_MAX {
            return refuse!(
                "the statement nests too many functions, `case`s or arrays in each other for the \
                 parser: name the inner values in a subquery"
            );
        }
        if depth.kib() > kib_max {
            return refuse!(
                "the statement is nested too deeply, or chains too many operators, selects or \
                 joins: use `in (…)` for long lists of values, or split it"
            );
        }
    }
    Ok(())
}

/// Stack in KiB of one level of each kind of nesting. Stacks of 2 MiB overflowed at 260 casts, 500
/// `union all`, 850 `or` and 1,000 `+`.
mod kib {
    pub(super) const CAST: usize = 10;
    pub(super) const OPERATOR: usize = 4;
    pub(super) const SELECT: usize = 4;
    pub(super) const SET_OPERATION: usize = 5;
    pub(super) const JOIN: usize = 8;
    pub(super) const BRACKET: usize = 12;
}

/// Estimate of the stack of a statement's prefix.
#[derive(Default)]
struct StackEstimate {
    /// Selects, set operations and joins, in any place: subqueries and names of `with` are nested
    /// by their use.
    plan_kib: usize,
    /// Sum of `levels`.
    levels_kib: usize,
    /// Operators of the current expression in each open bracket; a comma begins the next one.
    levels: Vec<Level>,
    top: Level,
}

#[derive(Clone, Copy, Default)]
struct Level {
    kib: usize,
    /// Whether a comma separates tables.
    is_from: bool,
}

impl StackEstimate {
    fn kib(&self) -> usize {
        self.plan_kib + self.levels_kib + self.top.kib
    }

    fn open(&mut self) {
        self.top.kib += kib::BRACKET;
        self.levels_kib += self.top.kib;
        self.levels.push(self.top);
        self.top = Level::default();
    }

    /// Ends a bracket. Those of `a[1][1]` are nested after their end too, those of `(a) or (b)` not.
    fn close(&mut self, token: &Token) {
        let Some(outer) = self.levels.pop() else { return };
        self.levels_kib -= outer.kib;
        self.top = outer;
        if *token != Token::RBracket {
            self.top.kib -= kib::BRACKET;
        }
    }

    fn add(&mut self, token: &Token) {
        match token {
            Token::Word(word) if word.quote_style.is_none() => {
                self.add_keyword(word.keyword, token)
            }
            Token::LParen | Token::LBracket | Token::LBrace => self.open(),
            Token::RParen | Token::RBracket | Token::RBrace => self.close(token),
            Token::Comma if self.top.is_from => self.plan_kib += kib::JOIN,
            Token::Comma | Token::SemiColon => self.top.kib = 0,
            Token::DoubleColon => self.top.kib += kib::CAST,
            Token::EOF
            | Token::Whitespace(_)
            | Token::Word(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::Period => {}
            _ => self.top.kib += kib::OPERATOR,
        }
    }

    fn add_keyword(&mut self, keyword: Keyword, token: &Token) {
        match keyword {
            Keyword::SELECT | Keyword::VALUES => {
                self.plan_kib += kib::SELECT;
                self.top.is_from = false;
            }
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => {
                self.plan_kib += kib::SET_OPERATION;
                self.top = Level::default();
            }
            Keyword::JOIN => self.plan_kib += kib::JOIN,
            Keyword::FROM => self.top.is_from = true,
            Keyword::WHERE | Keyword::GROUP | Keyword::HAVING | Keyword::ORDER => {
                self.top = Level::default();
            }
            Keyword::CASE => self.open(),
            Keyword::END => self.close(token),
            Keyword::OR
            | Keyword::AND
            | Keyword::XOR
            | Keyword::NOT
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::IS
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::DIV => self.top.kib += kib::OPERATOR,
            _ => {}
        }
    }
}

/// Upper bound of the parser's steps: how often it reads each token.
///
/// Measured with sqlparser 0.62: levels of `f(…)` double the work in PostgreSQL's dialect, those of
/// functions with special syntax triple it, and those of `position(…)` multiply it by five.
struct ParserWork {
    steps: u64,
    /// What is around each open bracket or `case`.
    open: Vec<OuterLevel>,
    /// How often the first token of an expression is read.
    times: u64,
    /// How often the next token is read.
    times_here: u64,
    last: LastToken,
}

struct OuterLevel {
    times: u64,
    times_here: u64,
    is_case: bool,
}

/// What the token before an opening bracket makes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastToken {
    /// Name of a function, or of a column before `[`.
    Name,
    /// Function with special syntax, or `case`, `not`, `array`.
    Syntax,
    Position,
    In,
    /// `in (`, which may precede a subquery.
    InBracket,
    Bracket,
    /// `((`, as in `from ((select …`.
    TwoBrackets,
    /// `interval`, which may precede any expression.
    Interval,
    As,
    Cast,
    Other,
}

impl ParserWork {
    fn new() -> Self {
        Self { steps: 0, open: Vec::new(), times: 1, times_here: 1, last: LastToken::Other }
    }

    fn add(&mut self, token: &Token) {
        if matches!(token, Token::Whitespace(_)) {
            return;
        }
        if self.last == LastToken::Interval && !matches!(token, Token::SingleQuotedString(_)) {
            self.times_here = self.times_here.saturating_mul(2);
        }
        let factor = match (token, self.last) {
            (Token::LParen, LastToken::Position) => 5,
            (Token::LParen, LastToken::Syntax | LastToken::Interval) => 3,
            (Token::LParen, LastToken::Name) | (Token::LBracket, LastToken::Syntax) => 2,
            _ => 1,
        };
        let is_subquery = matches!(token, Token::Word(word)
            if matches!(word.keyword, Keyword::SELECT | Keyword::VALUES | Keyword::WITH));
        // The parser tries a subquery first, then a list, or a join in brackets.
        let is_tried_twice = match self.last {
            LastToken::InBracket => is_subquery || *token == Token::LParen,
            LastToken::TwoBrackets => is_subquery,
            _ => false,
        };
        if is_tried_twice {
            self.times = self.times.saturating_mul(2);
            self.times_here = self.times;
        }
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => self.open(factor, false),
            Token::RParen | Token::RBracket | Token::RBrace => self.close(),
            Token::Word(word) if word.keyword == Keyword::CASE => self.open(2, true),
            // Elsewhere it is a name.
            Token::Word(word)
                if word.keyword == Keyword::END
                    && self.open.last().is_some_and(|outer| outer.is_case) =>
            {
                self.leave();
            }
            Token::Comma | Token::SemiColon => self.times_here = self.times,
            _ => {}
        }
        self.steps = self.steps.saturating_add(self.times_here);
        self.last = LastToken::of(token, self.last);
    }

    fn open(&mut self, factor: u64, is_case: bool) {
        let (times, times_here) = (self.times, self.times_here);
        self.open.push(OuterLevel { times, times_here, is_case });
        self.times_here = times_here.saturating_mul(factor);
        self.times = self.times_here;
    }

    /// Ends a bracket, and what is open within.
    fn close(&mut self) {
        while self.leave() {}
    }

    /// Whether it was a `case`.
    fn leave(&mut self) -> bool {
        let Some(outer) = self.open.pop() else { return false };
        (self.times, self.times_here) = (outer.times, outer.times_here);
        outer.is_case
    }
}

impl LastToken {
    fn of(token: &Token, last: Self) -> Self {
        let Token::Word(word) = token else {
            return match (token, last) {
                (Token::DoubleColon, _) => Self::Cast,
                (Token::LParen, Self::In) => Self::InBracket,
                (Token::LParen, Self::Bracket | Self::TwoBrackets) => Self::TwoBrackets,
                (Token::LParen, _) => Self::Bracket,
                _ => Self::Other,
            };
        };
        match word.keyword {
            // `x::interval`, `cast(x as interval)`
            Keyword::INTERVAL if matches!(last, Self::Cast | Self::As) => Self::Other,
            Keyword::AS => Self::As,
            Keyword::POSITION => Self::Position,
            Keyword::IN => Self::In,
            Keyword::INTERVAL => Self::Interval,
            Keyword::ARRAY
            | Keyword::CASE
            | Keyword::CAST
            | Keyword::CEIL
            | Keyword::CONVERT
            | Keyword::CURRENT_DATE
            | Keyword::CURRENT_TIME
            | Keyword::CURRENT_TIMESTAMP
            | Keyword::FLOOR
            | Keyword::LOCALTIME
            | Keyword::LOCALTIMESTAMP
            | Keyword::NOT
            | Keyword::OVERLAY
            | Keyword::SAFE_CAST
            | Keyword::SUBSTR
            | Keyword::SUBSTRING
            | Keyword::TRY_CAST
            | Keyword::TRY_CONVERT => Self::Syntax,
            // These precede a bracket without being a function.
            Keyword::FROM
            | Keyword::JOIN
            | Keyword::ON
            | Keyword::AND
            | Keyword::OR
            | Keyword::WHERE
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
            | Keyword::SELECT
            | Keyword::EXISTS
            | Keyword::ALL
            | Keyword::UNION
            | Keyword::OVER
            | Keyword::FILTER
            | Keyword::BY
            | Keyword::HAVING
            | Keyword::LATERAL => Self::Other,
            _ => Self::Name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(first: &str, each: &str, count: usize) -> String {
        format!("select {first}{}", each.repeat(count))
    }

    #[test]
    fn usual_statements_pass() {
        let list = format!("select 1 where 1 in (1{})", ", 2".repeat(100_000));
        let columns = format!("select 1{}", ", a + b * c - d::int".repeat(2_000));
        let terms = chain("true", " or host = 'a'", 400);
        let brackets = chain("true", " and (host = 'a' or lower(site) = 'b')", 900);
        let unions = chain("1", " union all select 1", 300);
        let odd = ["select 'unfinished", ")))) end end"];
        for sql in [list.as_str(), &columns, &terms, &brackets, &unions, odd[0], odd[1]] {
            check_query(sql).unwrap();
        }
        check_condition("severity = 'error' and (body like '%a%' or body like '%b%')").unwrap();
    }

    #[test]
    fn statements_that_the_parser_would_read_forever_are_refused() {
        // 60 levels, each with an error in its middle or without. Public reports of the kind:
        // apache/datafusion-sqlparser-rs issue 216, PRs 2349, 2372 and 2378, ClickHouse/ClickHouse
        // issue 121231, JSQLParser issues 766 and 858.
        for each in [
            "position(",
            "cast(",
            "substring(",
            "floor(",
            "case(",
            "case when 1 then ",
            "not (",
            "array[",
            "case[",
            "interval ",
            "interval -",
            "1 in (select ",
            "1 in ((select ",
            "(a in (",
            "1 in (values (",
            "* from ((select ",
            "ceil(f(",
            "f(x -> ",
            "row(",
            "abs(",
            "concat(1, ",
            "struct(",
            "extract(",
            "\"abs\"(",
        ] {
            for end in ["1", "1 1"] {
                let sql = format!("select {}{end}", each.repeat(60));
                let error = check_query(&sql).unwrap_err().to_string();
                assert!(error.contains("for the parser"), "{each}: {error}");
            }
        }
        // What people write is far from the limit.
        let call =
            "coalesce(round(avg(cast(nullif(trim(lower(replace(x, 'a', 'b'))), '') as int))), 0)";
        let cases = "case when a then case when b then case when c then 1 end end end";
        let times =
            "now() - interval '1 hour' + interval '2 hours' * abs(3) and a::interval > b::interval"
                .to_owned()
                + &" and t > now() - interval '5 minutes'".repeat(30);
        let ctes =
            ", b as (select * from (select * from log where host in (select host from log)))";
        let sql = format!(
            "with a as (select 1){} select {}{cases}, {times}",
            ctes.repeat(40),
            format!("{call}, ").repeat(60),
        );
        check_query(&sql).unwrap();
        check_query(&format!("select f(g(x in (1{})))", ", 2".repeat(100_000))).unwrap();
    }

    #[test]
    fn deep_statements_are_refused() {
        for sql in [
            chain("1", "::int", 100_000),
            chain("true", " or true", 100_000),
            chain("true", " and a = 1", 100_000),
            chain("1", " union all select 1", 100_000),
            chain("1", " + 1", 100_000),
            chain("''", " || ''", 100_000),
            chain("a", " -> 'b'", 100_000),
            chain("a", " is null", 100_000),
            chain("", "(", 100_000),
            chain("", "abs(", 100_000),
            chain("", "not ", 100_000),
            chain("", "- ", 100_000),
            chain("", "case when true then ", 100_000),
            chain("", "(select ", 100_000),
            chain("", "[", 100_000),
            chain("1 from t", " join t on true", 100_000),
            chain("1 from t", ", t", 100_000),
        ] {
            let error = check_query(&sql).unwrap_err().to_string();
            assert!(error.contains("nest"), "{error}");
        }
        let names = (1..20_000).map(|at| format!(", c{at} as (select * from c{})", at - 1));
        let names: String = names.collect();
        let sql = format!("with c0 as (select 1){names} select 1");
        assert!(check_query(&sql).is_err());
        let condition = format!("true{}", " or true".repeat(400));
        assert!(check_condition(&condition).is_err());
        assert!(check_query(&" ".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }
}
