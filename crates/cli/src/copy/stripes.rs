//! Parses `--stripe`. No I/O.

use atta_ops::copy::{StripeRule, Stripes};

use crate::size::parse_size;

/// Lustre requires a stripe size that is a multiple of this.
const UNIT: u64 = 64 << 10;
/// Most targets that a file can be on.
const COUNT_MOST: u16 = 2000;

/// Striping of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Striping {
    /// The striping of the directories.
    Default,
    Asked(Stripes),
}

/// `keep`, `default`, or rules: `[BELOW=]COUNT[:SIZE]`, separated by commas, in the order of their limits.
pub(crate) fn parse_stripes(text: &str) -> Result<Striping, String> {
    match text {
        "default" => return Ok(Striping::Default),
        "keep" => return Ok(Striping::Asked(Stripes::Keep)),
        _ => {}
    }
    let rules: Vec<_> = text.split(',').map(rule).collect::<Result<_, _>>()?;
    let is_above = |pair: &[StripeRule]| match (pair[0].below, pair[1].below) {
        (Some(one), Some(other)) => one < other,
        (one, _) => one.is_some(),
    };
    if rules.windows(2).all(is_above) {
        Ok(Striping::Asked(Stripes::BySize(rules)))
    } else {
        Err("limits must grow, and only the last rule may have none".to_owned())
    }
}

fn rule(text: &str) -> Result<StripeRule, String> {
    let (below, rest) = match text.split_once('=') {
        Some((below, rest)) => (Some(parse_size(below)?), rest),
        None => (None, text),
    };
    let (count, size) = match rest.split_once(':') {
        Some((count, size)) => (count, Some(stripe_size(size)?)),
        None => (rest, None),
    };
    let count = match count {
        "all" => None,
        count => {
            Some(count.parse().ok().filter(|count| (1..=COUNT_MOST).contains(count)).ok_or_else(|| {
                format!("'{count}' is neither keep, default, all nor a number of targets up to {COUNT_MOST}")
            })?)
        }
    };
    Ok(StripeRule { below, count, size })
}

fn stripe_size(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    let fits = bytes > 0 && bytes.is_multiple_of(UNIT);
    let size = u32::try_from(bytes).ok().filter(|_| fits);
    size.ok_or_else(|| format!("'{text}' is no size of a stripe: a multiple of 64K below 4G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_in_the_order_of_their_limits() {
        assert_eq!(parse_stripes("default"), Ok(Striping::Default));
        assert_eq!(parse_stripes("keep"), Ok(Striping::Asked(Stripes::Keep)));
        let rule = |below, count, size| StripeRule { below, count, size };
        let cases = [
            ("4", vec![rule(None, Some(4), None)]),
            ("all:1M", vec![rule(None, None, Some(1 << 20))]),
            (
                "1M=1,1G=4:4M,all",
                vec![
                    rule(Some(1 << 20), Some(1), None),
                    rule(Some(1 << 30), Some(4), Some(4 << 20)),
                    rule(None, None, None),
                ],
            ),
        ];
        for (text, rules) in cases {
            assert_eq!(parse_stripes(text), Ok(Striping::Asked(Stripes::BySize(rules))), "{text}");
        }
        for wrong in
            ["", "0", "2001", "4:", "4:1K", "4:4G", "1M=", "1M=1,1M=2", "4,1M=1", "1,2", "keep,4", "x=1"]
        {
            assert!(parse_stripes(wrong).is_err(), "{wrong}");
        }
    }
}
