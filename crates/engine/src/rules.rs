//! Protocol rules that can be switched off one at a time, to test that the checkers notice. For tests only: a broken rule
//! loses or repeats work.

/// A rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The token waits on a rank until all parcels that it gave have been accepted.
    AwaitAcceptance,
    /// A parcel that was accepted before is not taken in again.
    AcceptOnce,
    /// Termination needs a second wave with the same result.
    SecondWave,
    /// Termination needs as many parcels accepted as sent.
    SumsAgree,
    /// A rank that gives work to a lower rank turns black.
    Blacken,
    /// A rank leaves only when its own request has been answered.
    AwaitAnswer,
    /// A rank's last totals wait for those of its children.
    AwaitChildren,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 7] = [
        Self::AwaitAcceptance,
        Self::AcceptOnce,
        Self::SecondWave,
        Self::SumsAgree,
        Self::Blacken,
        Self::AwaitAnswer,
        Self::AwaitChildren,
    ];
}

/// The rules in force: all, or all but one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    broken: Option<Rule>,
}

impl Rules {
    /// All rules but this one.
    #[must_use]
    pub fn without(rule: Rule) -> Self {
        Self { broken: Some(rule) }
    }

    /// Whether this rule is switched off.
    #[must_use]
    pub fn is_broken(self, rule: Rule) -> bool {
        self.broken == Some(rule)
    }
}
