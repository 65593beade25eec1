//! Targets of routes: `rota:web`, `rota:web+1`, `everyone`, a person or a receiver.

/// A target as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// All people, or all receivers without people.
    Everyone,
    /// The person on call, or one whose turn follows.
    Rota {
        /// The rota's name.
        name: &'a str,
        /// Turns after the person on call.
        ahead: usize,
    },
    /// A person's or a receiver's name.
    Named(&'a str),
}

impl<'a> Target<'a> {
    /// Reads a target; an empty one is everyone.
    pub(crate) fn parse(text: &'a str) -> Self {
        let text = text.trim();
        if text.is_empty() || text == "everyone" {
            return Self::Everyone;
        }
        let Some(rota) = text.strip_prefix("rota:") else { return Self::Named(text) };
        let ahead =
            rota.rsplit_once('+').and_then(|(name, ahead)| Some((name, ahead.parse().ok()?)));
        let (name, ahead) = ahead.unwrap_or((rota, 0));
        Self::Rota { name, ahead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        assert_eq!(Target::parse("rota:web+1"), Target::Rota { name: "web", ahead: 1 });
        assert_eq!(Target::parse("rota:c++"), Target::Rota { name: "c++", ahead: 0 });
        assert_eq!(Target::parse(""), Target::Everyone);
        assert_eq!(Target::parse("team-web"), Target::Named("team-web"));
    }
}
