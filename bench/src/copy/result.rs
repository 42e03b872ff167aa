//! From the outcomes of one contest to its table, and to the goals that it decides.

use super::case::{ONE_THREAD, TWO_THREADS, VERIFIED, Which};
use super::field::{ATTA, LIMIT, NO_DIGEST, READ_PLAINLY};
use super::place::Place;
use super::set::Name;
use crate::contest::Outcome;
use crate::report::{changes, fastest_limit, peak_mib, wall};
use crate::sheet::{Goal, Sheet, number, quantile};
use crate::statistics::median;

/// A contest that was held.
pub(crate) struct Held<'run> {
    /// What was compared.
    pub(crate) case: Which,
    /// Over which data set.
    pub(crate) set: Name,
    /// Where.
    pub(crate) place: &'run Place,
    /// How it ended.
    pub(crate) outcomes: &'run [Outcome],
}

/// How far a ratio by round may go.
#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// Where a goal holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Memory,
    Disk,
    Ext4,
}

/// A goal of the project: `who` by `base`, in one case over one data set.
struct Rule {
    case: Which,
    set: Name,
    place: Where,
    who: fn(&str) -> bool,
    base: &'static str,
    bound: Bound,
}

const fn rule(
    case: Which,
    set: Name,
    place: Where,
    who: fn(&str) -> bool,
    base: &'static str,
    bound: Bound,
) -> Rule {
    Rule { case, set, place, who, base, bound }
}

const RULES: [Rule; 12] = [
    rule(Which::Peers, Name::Small, Where::Memory, |who| who == NO_DIGEST, LIMIT, Bound::AtMost(1.15)),
    rule(Which::Peers, Name::Large, Where::Memory, |who| who == NO_DIGEST, LIMIT, Bound::AtMost(1.10)),
    rule(Which::Peers, Name::Small, Where::Ext4, |who| who == NO_DIGEST, LIMIT, Bound::AtMost(1.10)),
    rule(
        Which::OneLarge,
        Name::OneLarge,
        Where::Memory,
        |who| who == "atta copy, no digest, 1 thread",
        "atta copy, no digest, 2 threads",
        Bound::AtLeast(1.3),
    ),
    rule(
        Which::OneLarge,
        Name::OneLarge,
        Where::Memory,
        |who| who == "atta copy, 1 thread",
        "atta copy, 2 threads",
        Bound::AtLeast(1.6),
    ),
    rule(Which::Digest, Name::Small, Where::Disk, |who| who == ATTA, NO_DIGEST, Bound::AtMost(1.08)),
    rule(Which::Digest, Name::Large, Where::Disk, |who| who == ATTA, NO_DIGEST, Bound::AtMost(1.08)),
    rule(Which::Verify, Name::Small, Where::Memory, |who| who == VERIFIED, READ_PLAINLY, Bound::AtMost(1.0)),
    rule(Which::Verify, Name::Large, Where::Memory, |who| who == VERIFIED, READ_PLAINLY, Bound::AtMost(1.0)),
    rule(Which::Verify, Name::Small, Where::Disk, |who| who == VERIFIED, READ_PLAINLY, Bound::AtMost(1.0)),
    rule(Which::Verify, Name::Large, Where::Disk, |who| who == VERIFIED, READ_PLAINLY, Bound::AtMost(1.0)),
    rule(
        Which::Ranks,
        Name::Small,
        Where::Memory,
        |who| who.ends_with(", 2 ranks"),
        TWO_THREADS,
        Bound::AtMost(1.2),
    ),
];

impl Held<'_> {
    /// Its table: seconds and ratios by round with quartiles, processor time and memory.
    pub(crate) fn sheet(&self, note: &str) -> Sheet {
        let heads = [
            "who", "note", "median s", "lower q.", "upper q.", "ratio", "lower q.", "upper q.", "CPU s",
            "peak MiB",
        ];
        let title = format!("{}: {} in {}", self.case.word(), self.set.word(), self.place.name);
        let mut sheet = Sheet::new(title, note, 2, &heads);
        let base = fastest_limit(self.outcomes);
        if let Some((name, _)) = &base {
            sheet.remark(&format!("Ratio: by round, to {name}."));
        }
        let base = base.map(|(_, seconds)| seconds);
        self.speedups().iter().for_each(|speedup| sheet.remark(speedup));
        changes(self.outcomes).iter().for_each(|change| sheet.remark(change));
        for outcome in self.outcomes {
            let name = &outcome.contender.name;
            let runs = match &outcome.runs {
                Ok(runs) => runs,
                Err(reason) => {
                    sheet.leave_out(name, reason);
                    continue;
                }
            };
            let seconds = wall(runs);
            let ratios = base.as_ref().map(|base| by_round(&seconds, base));
            if let Some(ratios) = ratios.as_ref().filter(|ratios| ratios.len() < ROUNDS_TO_SUMMARISE) {
                sheet.remark(&in_each_round(name, ratios));
            }
            let mut row = vec![name.clone(), outcome.contender.note.to_owned()];
            row.extend(quartiles(Some(&seconds)));
            row.extend(quartiles(ratios.as_deref()));
            row.push(format!("{:.3}", median(runs.iter().map(|run| run.cpu_seconds))));
            row.push(number(median(runs.iter().map(peak_mib))));
            sheet.push(row);
            sheet.keep("seconds", name, seconds);
            sheet.keep("processor seconds", name, runs.iter().map(|run| run.cpu_seconds).collect());
            sheet.keep("peak MiB", name, runs.iter().map(peak_mib).collect());
        }
        sheet
    }

    /// Speedups with two threads of programs that ran with one and with two, including the raw limit.
    fn speedups(&self) -> Vec<String> {
        let seconds = |outcome: &Outcome| outcome.runs.as_ref().ok().map(|runs| wall(runs));
        let speedup = |one: &Outcome| {
            let name = one.contender.name.strip_suffix(ONE_THREAD)?;
            let is_two = |outcome: &&Outcome| outcome.contender.name.strip_suffix(TWO_THREADS) == Some(name);
            let two = self.outcomes.iter().find(is_two)?;
            let [middle, low, high] = quartiles(Some(&by_round(&seconds(one)?, &seconds(two)?)));
            Some(format!("{name}two threads are {middle} times as fast as one ({low} to {high})."))
        };
        self.outcomes.iter().filter_map(speedup).collect()
    }

    /// The goals that it decides.
    pub(crate) fn goals(&self) -> Vec<Goal> {
        let rules = RULES
            .iter()
            .filter(|rule| rule.case == self.case && rule.set == self.set && rule.place.takes(self.place));
        rules.flat_map(|rule| self.goals_by(rule)).collect()
    }

    /// One for each contender that the rule speaks of; a goal is missed where nothing could be measured.
    fn goals_by(&self, rule: &Rule) -> Vec<Goal> {
        let seconds = |outcome: &Outcome| outcome.runs.as_ref().ok().map(|runs| wall(runs));
        let base = self.outcomes.iter().find(|outcome| outcome.contender.name == rule.base).and_then(seconds);
        let named = self.outcomes.iter().filter(|outcome| (rule.who)(&outcome.contender.name));
        let goal = |outcome: &Outcome| {
            let (word, bound) = rule.bound.words();
            let Self { set, place, .. } = self;
            let who = &outcome.contender.name;
            let goal =
                format!("{} in {}: {who} {word} {bound:.2} times {}", set.word(), place.name, rule.base);
            let ratios = seconds(outcome).zip(base.as_ref()).map(|(seconds, base)| by_round(&seconds, base));
            let is_met = ratios.as_ref().is_some_and(|ratios| rule.bound.holds(quantile(ratios, 0.5)));
            let measured = ratios.map_or("not measured".to_owned(), |ratios| {
                let [middle, low, high] = [0.5, 0.25, 0.75].map(|part| quantile(&ratios, part));
                format!("{middle:.3} ({low:.3} to {high:.3})")
            });
            Goal { goal, measured, is_met }
        };
        named.map(goal).collect()
    }
}

impl Bound {
    fn words(self) -> (&'static str, f64) {
        match self {
            Self::AtMost(bound) => ("at most", bound),
            Self::AtLeast(bound) => ("at least", bound),
        }
    }

    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(bound) => ratio <= bound,
            Self::AtLeast(bound) => ratio >= bound,
        }
    }
}

impl Where {
    fn takes(self, place: &Place) -> bool {
        match self {
            Self::Memory => place.is_memory(),
            Self::Disk => place.is_disk,
            Self::Ext4 => place.name.ends_with("ext4"),
        }
    }
}

/// With fewer rounds quartiles hide how far apart the rounds were: all of them are shown.
const ROUNDS_TO_SUMMARISE: usize = 7;

fn in_each_round(name: &str, ratios: &[f64]) -> String {
    let ratios: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.3}")).collect();
    format!("{name}, ratio in each round: {}.", ratios.join(", "))
}

/// What happened in the same round is compared: a slow minute hits both sides.
fn by_round(seconds: &[f64], base: &[f64]) -> Vec<f64> {
    seconds.iter().zip(base).map(|(seconds, base)| seconds / base).collect()
}

/// Median and both quartiles.
fn quartiles(values: Option<&[f64]>) -> [String; 3] {
    let text = |part| values.map_or("-".to_owned(), |values| format!("{:.3}", quantile(values, part)));
    [text(0.5), text(0.25), text(0.75)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Contender;
    use crate::measure::Run;

    fn outcome(name: &str, is_limit: bool, runs: Result<&[f64], &str>) -> Outcome {
        let run = |&seconds: &f64| Run { seconds, cpu_seconds: 1.0, peak_rss_kib: 2048 };
        let contender = Contender { name: name.into(), command: vec![], note: "", is_limit, product: None };
        Outcome { contender, runs: runs.map(|runs| runs.iter().map(run).collect()).map_err(str::to_owned) }
    }

    #[test]
    fn ratios_are_by_round_and_goals_are_met_or_not() {
        let place = Place::named("tmpfs", false);
        let limit = outcome(LIMIT, true, Ok(&[1.0, 10.0, 1.0]));
        let mut outcomes = vec![limit, outcome(NO_DIGEST, false, Ok(&[1.1, 11.0, 1.5]))];
        outcomes.push(outcome("cp", false, Err("made nothing")));
        let held = Held { case: Which::Peers, set: Name::Small, place: &place, outcomes: &outcomes };
        let goals = held.goals();
        assert_eq!(goals.len(), 1);
        assert_eq!((goals[0].measured.as_str(), goals[0].is_met), ("1.100 (1.100 to 1.300)", true));
        let text = held.sheet("").render();
        for expected in [
            "1.300 |    6.250 | 1.100 |    1.100 |    1.300 |",
            "atta copy, no digest, ratio in each round: 1.100, 1.100, 1.500.",
            "cp: made nothing",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        let held = Held { set: Name::Large, ..held };
        assert!(held.goals()[0].is_met, "exactly the bound");
        outcomes[1] = outcome(NO_DIGEST, false, Err("no"));
        let held = Held { case: Which::Peers, set: Name::Large, place: &place, outcomes: &outcomes };
        let goal = &held.goals()[0];
        assert_eq!((goal.measured.as_str(), goal.is_met), ("not measured", false));
        let disk = Place::named("fresh xfs", true);
        assert!(Held { place: &disk, ..held }.goals().is_empty(), "no goal there");
    }

    #[test]
    fn older_program_is_compared_by_round() {
        let place = Place::named("tmpfs", false);
        let limit = outcome(LIMIT, true, Ok(&[1.0; 7]));
        let now = outcome(ATTA, false, Ok(&[1.1, 1.1, 1.1, 1.2, 1.3, 1.4, 1.5]));
        let before = outcome("atta copy, before", false, Ok(&[1.0; 7]));
        let outcomes = [limit, now, before];
        let held = Held { case: Which::Peers, set: Name::Small, place: &place, outcomes: &outcomes };
        let text = held.sheet("").render();
        assert!(
            text.contains("- atta copy: 1.200 (1.100 to 1.350) times the older program, by round"),
            "{text}"
        );
        assert!(!text.contains("in each round"), "{text}");
    }

    #[test]
    fn two_threads_speed_up_one_large_file() {
        let place = Place::named("tmpfs", false);
        let one = outcome("atta copy, no digest, 1 thread", false, Ok(&[1.4, 1.4, 1.4]));
        let outcomes = [one, outcome("atta copy, no digest, 2 threads", false, Ok(&[1.0, 1.0, 1.0]))];
        let held = Held { case: Which::OneLarge, set: Name::OneLarge, place: &place, outcomes: &outcomes };
        assert_eq!(held.goals().iter().map(|goal| goal.is_met).collect::<Vec<_>>(), [true]);
        let expected = "atta copy, no digest, two threads are 1.400 times as fast as one (1.400 to 1.400).";
        assert!(held.sheet("").render().contains(expected), "{}", held.sheet("").render());
    }
}
