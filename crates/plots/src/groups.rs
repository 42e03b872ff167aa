//! The groups of a bar chart as a table of groups and series. It draws nothing.

use std::collections::BTreeMap;

use crate::PlotError;
use crate::number::checked;

/// A group of bars: its label, and the name and value of each series in it. A series may be missing from a group.
pub type Group = (String, Vec<(String, f64)>);

/// Most series in one picture: more colours cannot be distinguished.
pub const SERIES_MAX: usize = 16;

/// Most bars side by side in one picture, including missing ones: more do not fit.
pub const GROUPED_BARS_MAX: usize = 1200;

/// Groups with the same series in the same order.
pub(crate) struct Table<'a> {
    /// Names of the series, in order of first occurrence.
    pub(crate) series: Vec<&'a str>,
    /// For each group its label and a value for each series, if it has one.
    pub(crate) groups: Vec<(&'a str, Vec<Option<f64>>)>,
}

impl<'a> Table<'a> {
    /// Checks groups and aligns their series.
    pub(crate) fn new(groups: &'a [Group]) -> Result<Self, PlotError> {
        let series = series_of(groups)?;
        let index: BTreeMap<&str, usize> = series.iter().enumerate().map(|(i, name)| (*name, i)).collect();
        let groups = groups.iter().map(|group| Ok((group.0.as_str(), row(group, &index)?)));
        Ok(Self { groups: groups.collect::<Result<_, PlotError>>()?, series })
    }

    /// All values.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        self.groups.iter().flat_map(|(_, values)| values.iter().flatten().copied())
    }

    /// An error if this many bars do not fit side by side.
    pub(crate) fn fits(&self, bars_per_group: usize) -> Result<(), PlotError> {
        let count = self.groups.len().saturating_mul(bars_per_group);
        if count > GROUPED_BARS_MAX {
            return Err(PlotError::TooMany { what: "bars", count, count_max: GROUPED_BARS_MAX });
        }
        Ok(())
    }
}

fn series_of(groups: &[Group]) -> Result<Vec<&str>, PlotError> {
    let mut series: Vec<&str> = Vec::new();
    for (name, _) in groups.iter().flat_map(|(_, values)| values) {
        if !series.contains(&name.as_str()) {
            series.push(name);
        }
        many_series(series.len())?;
    }
    if groups.is_empty() {
        return Err(PlotError::Empty { what: "groups".to_owned() });
    }
    if series.is_empty() {
        return Err(PlotError::Empty { what: "values in any group".to_owned() });
    }
    Ok(series)
}

/// An error if there are more series than colours.
pub(crate) fn many_series(count: usize) -> Result<(), PlotError> {
    if count > SERIES_MAX {
        return Err(PlotError::TooMany { what: "series", count, count_max: SERIES_MAX });
    }
    Ok(())
}

fn row((group, values): &Group, index: &BTreeMap<&str, usize>) -> Result<Vec<Option<f64>>, PlotError> {
    let mut row = vec![None; index.len()];
    for (name, value) in values {
        let value = checked(*value, || format!("{group}, {name}"))?;
        // Every name is in the index: it was made from the same groups.
        let Some(cell) = index.get(name.as_str()).and_then(|i| row.get_mut(*i)) else { continue };
        if cell.replace(value).is_some() {
            return Err(PlotError::Twice { series: name.clone(), group: group.clone() });
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(label: &str, values: &[(&str, f64)]) -> Group {
        (label.to_owned(), values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[test]
    fn lines_up_the_series_of_all_groups() {
        let groups = [group("1", &[("b", 1.0)]), group("2", &[("a", 2.0), ("b", 3.0)])];
        let table = Table::new(&groups).unwrap();
        assert_eq!(table.series, ["b", "a"]);
        assert_eq!(table.groups, [("1", vec![Some(1.0), None]), ("2", vec![Some(3.0), Some(2.0)])]);
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |groups: &[Group]| Table::new(groups).err().unwrap().to_string();
        assert_eq!(error(&[]), "cannot draw: no groups");
        assert_eq!(error(&[group("1", &[])]), "cannot draw: no values in any group");
        let twice = group("1", &[("a", 1.0), ("a", 1.0)]);
        assert_eq!(error(&[twice]), "cannot draw: 1: it has two values for a");
        let nan = group("8", &[("a", f64::NAN)]);
        assert_eq!(error(&[nan]), "cannot draw: 8, a: the value is no finite number");
        assert_eq!(error(&[group("8", &[("a", -1.0)])]), "cannot draw: 8, a: -1 is less than zero");
    }
}
