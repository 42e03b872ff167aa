//! A list of hosts in an option of a launcher: `a:2,b,c:4`. Items are bytes and keep their form. Lists that need the launcher to be understood
//! (patterns in brackets, relative names) are none.

/// A list that names each host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostList<'a>(Vec<&'a [u8]>);

impl<'a> HostList<'a> {
    pub(crate) fn from_text(text: &'a [u8]) -> Option<Self> {
        let items: Vec<_> = text.split(|byte| *byte == b',').collect();
        items.iter().all(|item| is_plain(name_of(item))).then_some(Self(items))
    }

    /// The names and slots, in order; a host may come more than once. None: the list does not say.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (&'a [u8], Option<u64>)> {
        self.0.iter().map(|item| {
            let slots = item.split(|byte| *byte == b':').nth(1);
            (name_of(item), slots.and_then(number))
        })
    }

    /// The list of the hosts that are kept.
    pub(crate) fn keeping(&self, mut keeps: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
        let kept: Vec<_> = self.0.iter().filter(|item| keeps(name_of(item))).copied().collect();
        kept.join(&b',')
    }
}

/// Decimal digits as a number.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Whether this is the name of one host, for every launcher.
pub(crate) fn is_plain(name: &[u8]) -> bool {
    let is_odd = |byte: &u8| b"[]{}*?^+".contains(byte) || byte.is_ascii_whitespace() || *byte == 0;
    !name.is_empty() && !name.starts_with(b"-") && !name.iter().any(is_odd)
}

fn name_of(item: &[u8]) -> &[u8] {
    item.split(|byte| *byte == b':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(text: &[u8]) -> Option<Vec<(&[u8], Option<u64>)>> {
        HostList::from_text(text).map(|list| list.slots().collect())
    }

    #[test]
    fn names_and_slots_are_found() {
        let expected: Vec<(&[u8], _)> =
            vec![(b"a", Some(2)), (b"b", None), (b"c\xff", Some(4)), (b"a", None)];
        assert_eq!(slots(b"a:2,b,c\xff:4:core,a:*"), Some(expected));
        let huge: Vec<(&[u8], _)> = vec![(b"a", None)];
        assert_eq!(slots(b"a:99999999999999999999999"), Some(huge.clone()));
        assert_eq!(slots(b"a:+1"), Some(huge));
    }

    #[test]
    fn lists_for_the_launcher_alone_are_none() {
        let others: [&[u8]; 9] =
            [b"", b"a,,b", b"node[1,3]", b"[::1]:2", b"+n1", b"^a", b"a b", b":2", b"-x"];
        for list in others {
            assert_eq!(HostList::from_text(list), None, "{}", list.escape_ascii());
        }
    }

    #[test]
    fn items_that_are_kept_keep_their_form() {
        let list = HostList::from_text(b"a:2,b:x:y,a,c").unwrap();
        assert_eq!(list.keeping(|name| name != b"b"), b"a:2,a,c");
        assert_eq!(list.keeping(|name| name == b"b"), b"b:x:y");
        assert_eq!(list.keeping(|_| false), b"");
    }
}
