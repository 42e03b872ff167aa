//! Rules that map users and groups by their numbers. Pure.

use std::ops::RangeInclusive;

/// Maps users and groups; the first rule that matches decides, and what none matches is not mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// Of users.
    pub users: Vec<OwnerRule>,
    /// Of groups.
    pub groups: Vec<OwnerRule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRule {
    /// The numbers that it maps.
    pub from: RangeInclusive<u32>,
    /// The number that the first of them becomes.
    pub to: u32,
    /// The others become the numbers that follow; otherwise all become the same.
    pub shifts: bool,
}

impl OwnerRule {
    /// Maps every number to this one.
    #[must_use]
    pub fn all(to: u32) -> Self {
        Self { from: 0..=u32::MAX, to, shifts: false }
    }

    fn map(&self, id: u32) -> Option<u32> {
        let offset = if self.shifts { id.wrapping_sub(*self.from.start()) } else { 0 };
        self.from.contains(&id).then(|| self.to.saturating_add(offset))
    }
}

impl Owners {
    pub(crate) fn user(&self, id: u32) -> Option<u32> {
        self.users.iter().find_map(|rule| rule.map(id))
    }

    pub(crate) fn group(&self, id: u32) -> Option<u32> {
        self.groups.iter().find_map(|rule| rule.map(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let users = vec![
            OwnerRule { from: 5..=5, to: 50, shifts: false },
            OwnerRule { from: 1000..=1999, to: 101_000, shifts: true },
            OwnerRule { from: 5..=9, to: 7, shifts: false },
        ];
        let owners = Owners { users, groups: vec![OwnerRule::all(3)] };
        let mapped = [5, 6, 1000, 1999, 2000].map(|id| owners.user(id));
        assert_eq!(mapped, [Some(50), Some(7), Some(101_000), Some(101_999), None]);
        assert_eq!([0, u32::MAX].map(|id| owners.group(id)), [Some(3); 2]);
    }
}
