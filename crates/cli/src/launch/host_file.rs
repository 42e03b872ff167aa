//! A host file of a launcher, of Open MPI (`a slots=2`) or MPICH (`a:2`): one host a line, comments after `#`. Lines are bytes and keep their
//! form. Files that need the launcher to be understood are none.

use super::host_list::{is_plain, number};

/// A file that names each host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostFile<'a>(Vec<Line<'a>>);

#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    /// With its end.
    bytes: &'a [u8],
    /// None: a comment, or an empty line.
    host: Option<(&'a [u8], Option<u64>)>,
}

impl<'a> HostFile<'a> {
    pub(crate) fn from_text(text: &'a [u8]) -> Option<Self> {
        let lines = text.split_inclusive(|byte| *byte == b'\n').map(Line::from_text);
        lines.collect::<Option<_>>().map(Self)
    }

    /// The names and slots, in order; a host may come more than once. None: the file does not say.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (&'a [u8], Option<u64>)> {
        self.0.iter().filter_map(|line| line.host)
    }

    /// The file with the hosts that are kept.
    pub(crate) fn keeping(&self, mut keeps: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
        let kept = self.0.iter().filter(|line| line.host.is_none_or(|(name, _)| keeps(name)));
        kept.flat_map(|line| line.bytes).copied().collect()
    }
}

impl<'a> Line<'a> {
    fn from_text(bytes: &'a [u8]) -> Option<Self> {
        let text = bytes.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if text.is_empty() {
            return Some(Self { bytes, host: None });
        }
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let mut parts = word.split(|byte| *byte == b':');
        let name = parts.next().filter(|name| is_plain(name))?;
        let slots = parts.next().map_or_else(|| slots_in(rest), number);
        Some(Self { bytes, host: Some((name, slots)) })
    }
}

/// The value of `slots=N`; there may be blanks beside the sign.
fn slots_in(text: &[u8]) -> Option<u64> {
    let begins = |at: usize| at == 0 || text[at - 1].is_ascii_whitespace();
    let at = (0..text.len()).find(|at| begins(*at) && text[*at..].starts_with(b"slots"))?;
    let value = text[at + b"slots".len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    number(&value[..end]).filter(|_| end > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(text: &[u8]) -> Option<Vec<(&[u8], Option<u64>)>> {
        HostFile::from_text(text).map(|file| file.slots().collect())
    }

    #[test]
    fn names_and_slots_are_found() {
        let text = b"# hosts\n\na slots=2 max_slots=9\n  b:3  # slots=7\nc\xff\nd max_slots=4\r\ne max_slots=1 slots = 5";
        let expected: Vec<(&[u8], _)> =
            vec![(b"a", Some(2)), (b"b", Some(3)), (b"c\xff", None), (b"d", None), (b"e", Some(5))];
        assert_eq!(slots(text), Some(expected));
        for odd in ["a slots=", "a slots", "a slots=x", "a myslots=3", "a:", "a:x"] {
            assert_eq!(slots(odd.as_bytes()), Some(vec![(&b"a"[..], None)]), "{odd}");
        }
    }

    #[test]
    fn files_for_the_launcher_alone_are_none() {
        for text in ["node[1-4]\n", "^a\n", "a\n+n1\n", ":2\n"] {
            assert_eq!(slots(text.as_bytes()), None, "{text}");
        }
        assert_eq!(slots(b""), Some(vec![]));
    }

    #[test]
    fn lines_that_are_kept_keep_their_form() {
        let text = b"# first\na slots=2\r\n\nb\n a # again\nc:1";
        let file = HostFile::from_text(text).unwrap();
        assert_eq!(file.keeping(|_| true), text);
        assert_eq!(file.keeping(|name| name != b"a"), b"# first\n\nb\nc:1");
        assert_eq!(file.keeping(|_| false), b"# first\n\n");
    }
}
