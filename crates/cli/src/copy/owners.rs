//! Parses rules of `--chown`. Names are those of this machine.
//!
//! ```text
//! MAP    one of   USER:GROUP  USER  :GROUP      everybody, as chown has it
//!                 RULE,RULE...                  the first that matches decides
//!                 @FILE                         one rule a line; # begins a comment
//! RULE   uid:OLD=NEW or gid:OLD=NEW
//! OLD    a name, a number, FIRST-LAST in numbers, or *
//! NEW    a name, a number, or, for a range, another one of the same length
//! ```

use std::ops::RangeInclusive;
use std::process::Command;

use atta_ops::copy::{OwnerRule, Owners};

/// Whether a number is a user's or a group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    User,
    Group,
}

/// Adds the rules of a map.
pub(crate) fn add(map: &str, owners: &mut Owners) -> Result<(), String> {
    add_with(map, owners, &number)
}

fn add_with(
    map: &str,
    owners: &mut Owners,
    find: &impl Fn(Of, &str) -> Result<u32, String>,
) -> Result<(), String> {
    if let Some(file) = map.strip_prefix('@') {
        let text = std::fs::read_to_string(file).map_err(|error| crate::run::file::describe(&error))?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        return lines.filter(|line| !line.is_empty()).try_for_each(|line| add_rule(line, owners, find));
    }
    if map.contains('=') {
        return map.split(',').try_for_each(|rule| add_rule(rule, owners, find));
    }
    let (user, group) = map.split_once(':').unwrap_or((map, ""));
    if user.is_empty() && group.is_empty() || user.len() + 1 == map.len() {
        return Err("it names neither USER:GROUP nor USER nor :GROUP".to_owned());
    }
    if !user.is_empty() {
        owners.users.push(OwnerRule::all(find(Of::User, user)?));
    }
    if !group.is_empty() {
        owners.groups.push(OwnerRule::all(find(Of::Group, group)?));
    }
    Ok(())
}

fn add_rule(
    rule: &str,
    owners: &mut Owners,
    find: &impl Fn(Of, &str) -> Result<u32, String>,
) -> Result<(), String> {
    let (of, rest) = match rule.trim().split_once(':') {
        Some(("uid", rest)) => (Of::User, rest),
        Some(("gid", rest)) => (Of::Group, rest),
        _ => return Err(format!("'{rule}' begins with neither uid: nor gid:")),
    };
    let (old, new) = rest.split_once('=').ok_or_else(|| format!("'{rule}' has no ="))?;
    let (old, new) = (old.trim(), new.trim());
    let (from, to) = (range(old)?, range(new)?);
    let rule = match (from, to) {
        (_, Some(_)) if old == "*" => return Err(format!("'{rule}' maps everybody to a range")),
        (None, Some(_)) => return Err(format!("'{rule}' maps one to a range")),
        (Some(from), Some(to)) if from.end() - from.start() != to.end() - to.start() => {
            return Err(format!("'{rule}' maps a range to one of another length"));
        }
        (Some(from), Some(to)) => OwnerRule { from, to: *to.start(), shifts: true },
        (None, None) if old == "*" => OwnerRule::all(find(of, new)?),
        (Some(from), None) => OwnerRule { from, to: find(of, new)?, shifts: false },
        (None, None) => {
            let old = find(of, old)?;
            OwnerRule { from: old..=old, to: find(of, new)?, shifts: false }
        }
    };
    match of {
        Of::User => owners.users.push(rule),
        Of::Group => owners.groups.push(rule),
    }
    Ok(())
}

/// Parses `FIRST-LAST`; `None` for anything else. A name may contain a `-`, but not be two numbers.
fn range(text: &str) -> Result<Option<RangeInclusive<u32>>, String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((first, last)) =
        text.split_once('-').filter(|(first, last)| is_number(first) && is_number(last))
    else {
        return Ok(None);
    };
    let (first, last) = (valid(first)?, valid(last)?);
    if first > last { Err(format!("'{text}' ends before it begins")) } else { Ok(Some(first..=last)) }
}

/// A number that the kernel accepts: the largest one means "no change" to it.
fn valid(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number != u32::MAX);
    number.ok_or_else(|| format!("'{text}' is too large"))
}

/// The number of a user or group, given by name or by number.
fn number(of: Of, name: &str) -> Result<u32, String> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return valid(name);
    }
    let (file, database, what) = match of {
        Of::User => ("/etc/passwd", "passwd", "user"),
        Of::Group => ("/etc/group", "group", "group"),
    };
    let unknown = || format!("there is no {what} '{name}'");
    if name.is_empty() || name.starts_with('-') || name.contains([':', '\n', '\0']) {
        return Err(unknown());
    }
    let local = std::fs::read_to_string(file).unwrap_or_default();
    if let Some(number) = local.lines().find_map(|line| listed(line, name)) {
        return Ok(number);
    }
    // A program queries directory services: the library for them must not be linked statically.
    let asked = Command::new("getent").args([database, name]).output();
    let found = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    found.lines().find_map(|line| listed(line, name)).ok_or_else(unknown)
}

/// The number of a name in a line such as `NAME:PASSWORD:NUMBER...`.
fn listed(line: &str, name: &str) -> Option<u32> {
    let mut fields = line.split(':');
    (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
}

/// First, last, the new number of the first, and whether the others shift: a rule for another rank, which may know other names.
pub(super) type Row = (u32, u32, u32, bool);

/// Rules of users and of groups.
pub(super) type Rows = (Vec<Row>, Vec<Row>);

/// Encodes rules for other ranks.
pub(super) fn to_rows(owners: &Owners) -> Rows {
    let row = |rule: &OwnerRule| (*rule.from.start(), *rule.from.end(), rule.to, rule.shifts);
    let rows = |rules: &[OwnerRule]| rules.iter().map(row).collect();
    (rows(&owners.users), rows(&owners.groups))
}

/// Decodes rules from another rank.
pub(super) fn from_rows((users, groups): Rows) -> Owners {
    let rule = |(first, last, to, shifts): Row| OwnerRule { from: first..=last, to, shifts };
    let rules = |rows: Vec<Row>| rows.into_iter().map(rule).collect();
    Owners { users: rules(users), groups: rules(groups) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(map: &str) -> Result<Owners, String> {
        let mut owners = Owners::default();
        let find = |of, name: &str| match (of, name) {
            (Of::User, "alice") => Ok(1000),
            (Of::User, "www-data") => Ok(33),
            (Of::Group, "users") => Ok(100),
            (_, number) => number.parse().map_err(|_| format!("there is no {number}")),
        };
        add_with(map, &mut owners, &find).map(|()| owners)
    }

    fn one(from: u32, to: u32) -> OwnerRule {
        OwnerRule { from: from..=from, to, shifts: false }
    }

    #[test]
    fn everybody_as_chown_has_it() {
        let both = parsed("alice:users").unwrap();
        assert_eq!((both.users, both.groups), (vec![OwnerRule::all(1000)], vec![OwnerRule::all(100)]));
        assert_eq!(parsed("alice").unwrap().users, [OwnerRule::all(1000)]);
        let group = parsed(":7").unwrap();
        assert_eq!((group.users, group.groups), (vec![], vec![OwnerRule::all(7)]));
    }

    #[test]
    fn rules_map_names_numbers_and_ranges() {
        let owners = parsed("uid:alice=5,gid:users=6,uid:www-data=7,uid:10-19=110-119,uid:20-29=3,gid:*=9");
        let Owners { users, groups } = owners.unwrap();
        let shifted = OwnerRule { from: 10..=19, to: 110, shifts: true };
        let gathered = OwnerRule { from: 20..=29, to: 3, shifts: false };
        assert_eq!(users, [one(1000, 5), one(33, 7), shifted, gathered]);
        assert_eq!(groups, [one(100, 6), OwnerRule::all(9)]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let wrong = [
            "",
            ":",
            "alice:",
            "nobody:users",
            "uid:alice",
            "alice=5",
            "uid:*=1-2",
            "uid:1=1-2",
            "uid:1-2=1-3",
            "uid:2-1=1-2",
            "uid:1-4294967295=3",
            "@/no/such/file",
            "uid:a=b=c",
            "uid:1=2,",
        ];
        for map in wrong {
            assert!(parsed(map).is_err(), "{map}");
        }
    }

    #[test]
    fn names_are_those_of_this_machine() {
        assert_eq!(number(Of::User, "root"), Ok(0));
        assert_eq!(number(Of::Group, "4294967294"), Ok(4_294_967_294));
        assert!(number(Of::Group, "4294967295").is_err());
        assert!(number(Of::User, "no such user").is_err() && number(Of::User, "-x").is_err());
    }
}
