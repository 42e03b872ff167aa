//! Names that match a pattern: `*` is any number of bytes, `?` one, everything else itself. Pure.

/// Whether all of a name matches.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut here) = (0, 0);
    // After the last star: where the pattern continues, and the first position in the name not tried yet.
    let mut star: Option<(usize, usize)> = None;
    while here < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, here));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[here] => (at, here) = (at + 1, here + 1),
            _ => {
                let Some((after, tried)) = star else { return false };
                star = Some((after, tried + 1));
                (at, here) = (after, tried + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_others() {
        let cases: [(&str, &str, bool); 12] = [
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("user.*", "user.", true),
            ("user.*", "users.a", false),
            ("*.a*c", "x.abc.abc", true),
            ("*.a*c", "x.abc.abd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("**a**", "bab", true),
            ("a*", "ba", false),
            ("user.a", "user.ab", false),
        ];
        for (pattern, name, is_match) in cases {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is_match, "{pattern} {name}");
        }
    }
}
