//! An order: which action of a host's list runs, with which parameters, until when. Pure.
//!
//! The encoding is deterministic: one order has one encoding, and bytes that differ from it in
//! anything, such as keys out of order or bytes after the end, do not decode.
//!
//! ```text
//!   "WORD" · version 1 · mode · id (16) · not after (8) · action · agent · finding · approved by
//!   · number of parameters (2), each: name, value            texts: length (2), UTF-8
//! ```

use std::collections::BTreeMap;
use std::fmt;

use ring::rand::SecureRandom;
use serde::{Deserialize, Serialize};

use crate::error::ActError;

/// Longest time between now and an order's end, in microseconds.
pub const ORDER_SPAN_MICROS: i64 = 60_000_000;
/// Limit of an order's parameters.
pub const PARAMS_MAX: usize = 16;
/// Size limit of a parameter's value in bytes.
pub const VALUE_BYTES_MAX: usize = 1024;
/// Size limit of names in bytes: actions, parameters, agents, findings, people.
pub const NAME_BYTES_MAX: usize = 255;

const MAGIC: &[u8; 4] = b"WORD";
const VERSION: u8 = 1;

/// What a host does with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderMode {
    /// Reports what would run.
    DryRun,
    /// Runs the steps.
    Run,
    /// Runs the steps that take the last run back.
    Undo,
}

const MODES: [(OrderMode, &str); 3] =
    [(OrderMode::DryRun, "dry_run"), (OrderMode::Run, "run"), (OrderMode::Undo, "undo")];

impl OrderMode {
    /// The name in tables and replies.
    pub fn as_str(self) -> &'static str {
        MODES.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }
}

/// One action on one host, at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The order's identity; see [`random_order_id`].
    pub id: [u8; 16],
    /// Id of an action in the host's list.
    pub action: String,
    /// A value for each parameter of the action.
    pub params: BTreeMap<String, String>,
    /// Name of the agent whose host it is for.
    pub agent: String,
    /// The finding that it answers.
    pub finding_id: String,
    /// End of its validity, in microseconds since 1970; at most a minute ahead.
    pub not_after_micros: i64,
    /// Whether it runs, undoes, or only reports.
    pub mode: OrderMode,
    /// The person that approved it; `None` if the hub ordered it by itself.
    pub approved_by: Option<String>,
}

/// A new order's identity.
pub fn random_order_id() -> [u8; 16] {
    let mut id = [0; 16];
    ring::rand::SystemRandom::new()
        .fill(&mut id)
        .expect("the kernel's random numbers do not fail once they are seeded");
    id
}

/// An order's identity as hexadecimal digits.
pub fn order_id_text(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Order {
    /// The order's only encoding.
    ///
    /// # Errors
    /// A text or the number of parameters is over its limit.
    pub fn encode(&self) -> Result<Vec<u8>, ActError> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        let mode = MODES.iter().position(|(mode, _)| *mode == self.mode).unwrap_or_default();
        out.push(u8::try_from(mode).expect("there are three modes"));
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.not_after_micros.to_le_bytes());
        let approved_by = self.approved_by.as_deref().unwrap_or_default();
        for text in [&self.action, &self.agent, &self.finding_id, approved_by] {
            put_text(&mut out, text, NAME_BYTES_MAX)?;
        }
        if self.params.len() > PARAMS_MAX {
            return Err(ActError::new(format!(
                "cannot order `{}`: {} parameters, over {PARAMS_MAX}",
                self.action,
                self.params.len()
            )));
        }
        let count = u16::try_from(self.params.len()).expect("it is below the limit");
        out.extend_from_slice(&count.to_le_bytes());
        for (name, value) in &self.params {
            put_text(&mut out, name, NAME_BYTES_MAX)?;
            put_text(&mut out, value, VALUE_BYTES_MAX)?;
        }
        Ok(out)
    }

    /// Decodes [`Order::encode`].
    ///
    /// # Errors
    /// Anything that differs from an encoded order.
    pub fn decode(bytes: &[u8]) -> Result<Self, ActError> {
        OrderReader { rest: bytes }.order().map_err(|why| {
            ActError::new(format!("cannot read the order: {why}"))
                .hint("update the hub and the agent to one version")
        })
    }
}

fn put_text(out: &mut Vec<u8>, text: &str, limit: usize) -> Result<(), ActError> {
    if text.len() > limit {
        let length = text.len();
        return Err(ActError::new(format!(
            "cannot order it: a text of {length} bytes is over {limit}"
        )));
    }
    let length = u16::try_from(text.len()).expect("it is below the limit");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

struct OrderReader<'a> {
    rest: &'a [u8],
}

impl<'a> OrderReader<'a> {
    fn order(mut self) -> Result<Order, &'static str> {
        if self.take(4)? != MAGIC {
            return Err("it is no order");
        }
        if self.array::<1>()? != [VERSION] {
            return Err("its version is not 1");
        }
        let [mode] = self.array()?;
        let (mode, _) = MODES.get(usize::from(mode)).ok_or("its mode is unknown")?;
        let id = self.array()?;
        let not_after_micros = i64::from_le_bytes(self.array()?);
        let action = self.text(NAME_BYTES_MAX)?;
        let agent = self.text(NAME_BYTES_MAX)?;
        let finding_id = self.text(NAME_BYTES_MAX)?;
        let approved_by = Some(self.text(NAME_BYTES_MAX)?).filter(|name| !name.is_empty());
        let params = self.params()?;
        if !self.rest.is_empty() {
            return Err("bytes follow its end");
        }
        let mode = *mode;
        Ok(Order { id, action, params, agent, finding_id, not_after_micros, mode, approved_by })
    }

    fn params(&mut self) -> Result<BTreeMap<String, String>, &'static str> {
        let count = usize::from(u16::from_le_bytes(self.array()?));
        if count > PARAMS_MAX {
            return Err("it has too many parameters");
        }
        let mut params = BTreeMap::new();
        for _ in 0..count {
            let name = self.text(NAME_BYTES_MAX)?;
            let value = self.text(VALUE_BYTES_MAX)?;
            if params.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err("its parameters are doubled or out of order");
            }
            params.insert(name, value);
        }
        Ok(params)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let (head, tail) = self.rest.split_at_checked(length).ok_or("it is truncated")?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        self.take(N)?.try_into().map_err(|_| "it is truncated")
    }

    fn text(&mut self, limit: usize) -> Result<String, &'static str> {
        let length = usize::from(u16::from_le_bytes(self.array()?));
        if length > limit {
            return Err("one of its texts is too long");
        }
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| "one of its texts is not UTF-8")
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mode.as_str(), self.action)?;
        self.params.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            id: [7; 16],
            action: "restart-unit".into(),
            params: [("unit".into(), "shop.service".into()), ("why".into(), "é".into())].into(),
            agent: "web1".into(),
            finding_id: "f1".into(),
            not_after_micros: -5,
            mode: OrderMode::Undo,
            approved_by: Some("ada".into()),
        }
    }

    #[test]
    fn an_order_decodes_to_itself_and_to_nothing_else() {
        let bytes = order().encode().expect("it is small");
        assert_eq!(Order::decode(&bytes), Ok(order()));
        for length in 0..bytes.len() {
            assert!(Order::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(Order::decode(&longer).is_err());
    }

    #[test]
    fn decoding_never_panics_and_what_decodes_has_one_encoding() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let whole = order().encode().expect("it is small");
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            if let Ok(order) = Order::decode(&bytes) {
                assert_eq!(order.encode().expect("it was in limits"), bytes);
            }
        }
    }

    #[test]
    fn texts_over_their_limit_are_not_encoded() {
        let long = Order { action: "a".repeat(NAME_BYTES_MAX + 1), ..order() };
        assert!(long.encode().is_err());
        let many = (0..=PARAMS_MAX).map(|at| (format!("p{at}"), String::new())).collect();
        assert!(Order { params: many, ..order() }.encode().is_err());
    }
}
