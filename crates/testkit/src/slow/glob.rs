//! Patterns of names as a shell has them: `*` for any number of characters, `?` for one. Knows no classes, and nothing of
//! directories: a slash is a character as any other.

/// Whether all of the name matches. Goes back to the last `*` on a mismatch; that one is enough, because a later `*` can do all
/// that an earlier can.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match star {
                Some((star_at, star_seen)) => {
                    star = Some((star_at, star_seen + 1));
                    at = star_at + 1;
                    seen = star_seen + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Whether a path below a root matches: all of it if the pattern has a slash, else its last name.
pub(crate) fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    let name = match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) if !pattern.contains(&b'/') => &path[slash + 1..],
        _ => path,
    };
    matches(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("f0000001", "f0000001", true),
            ("f0000001", "f0000010", false),
            ("*", "", true),
            ("d*", "d0003", true),
            ("*3", "d0303", true),
            ("*03*3", "d0303", true),
            ("d??0?", "d0003", true),
            ("d??0?", "d000", false),
            ("*x", "d0003", false),
            ("", "d", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_with_a_slash_is_of_the_whole_path() {
        for (pattern, path, expected) in [
            ("file", "a/b/file", true),
            ("b", "a/b/file", false),
            ("a/*", "a/b/file", true),
            ("b/file", "a/b/file", false),
            ("*/file", "a/b/file", true),
            (".", ".", true),
        ] {
            assert_eq!(matches_path(pattern.as_bytes(), path.as_bytes()), expected, "{pattern} {path}");
        }
    }
}
