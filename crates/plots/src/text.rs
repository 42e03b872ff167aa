//! Maximum width of a text, and fitting it. It draws nothing and has no font: the viewer's is unknown.

/// A size and weight of text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Font {
    pub(crate) size_px: i32,
    pub(crate) bold: bool,
}

pub(crate) const TITLE: Font = Font { size_px: 17, bold: true };
pub(crate) const HEADING: Font = Font { size_px: 12, bold: true };
pub(crate) const TEXT: Font = Font { size_px: 12, bold: false };

/// Most characters of a label that are examined: no line holds more.
const CHARS_MAX: usize = 2000;

impl Font {
    /// Distance from one line of text to the next.
    pub(crate) const fn line_px(self) -> i32 {
        self.size_px * 7 / 5
    }

    /// Maximum width of a text, in a wide sans-serif font (DejaVu Sans, Verdana).
    pub(crate) fn width_px(self, text: &str) -> i32 {
        let ems: f64 = text.chars().take(CHARS_MAX).map(ems).sum();
        let weight = if self.bold { 1.12 } else { 1.0 };
        (ems * weight * f64::from(self.size_px)).ceil() as i32
    }

    /// The text, or as much of its start and end as fits around an ellipsis: names often differ in their ends.
    pub(crate) fn shortened(self, text: &str, width_px: i32) -> String {
        let text = clean(text);
        if self.width_px(&text) <= width_px {
            return text;
        }
        let chars: Vec<char> = text.chars().collect();
        let around = |kept: usize| -> String {
            let (head, tail) = (&chars[..kept.div_ceil(2)], &chars[chars.len() - kept / 2..]);
            head.iter().chain(['…'].iter()).chain(tail).collect()
        };
        let too_wide = (1..chars.len()).find(|kept| self.width_px(&around(*kept)) > width_px);
        around(too_wide.unwrap_or(chars.len()).saturating_sub(1))
    }

    /// The text in lines, broken at spaces where possible. Text that does not fit is cut with an ellipsis.
    pub(crate) fn wrapped(self, text: &str, width_px: i32, lines_max: usize) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in clean(text).split_whitespace() {
            let line = lines.last().map_or("", String::as_str);
            let joined = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
            if self.width_px(&joined) <= width_px {
                lines.pop();
                lines.push(joined);
            } else {
                self.push_word(&mut lines, word, width_px);
            }
        }
        if lines.len() > lines_max {
            let rest = lines.split_off(lines_max.saturating_sub(1)).join(" ");
            lines.push(self.cut(&rest, width_px));
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    /// Starts new lines for a word, more than one if it is longer than a line.
    fn push_word(self, lines: &mut Vec<String>, word: &str, width_px: i32) {
        let mut line = String::new();
        for c in word.chars() {
            line.push(c);
            if self.width_px(&line) > width_px && line.chars().nth(1).is_some() {
                line.pop();
                lines.push(std::mem::replace(&mut line, c.to_string()));
            }
        }
        lines.push(line);
    }

    fn cut(self, text: &str, width_px: i32) -> String {
        let room_px = width_px - self.width_px("…");
        let mut kept = String::new();
        for c in text.chars() {
            kept.push(c);
            if self.width_px(&kept) > room_px {
                kept.pop();
                break;
            }
        }
        format!("{}…", kept.trim_end())
    }
}

/// The text without characters that XML cannot hold or that would draw outside the text's place: control characters, and those that change
/// the direction of the following text.
fn clean(text: &str) -> String {
    text.chars()
        .take(CHARS_MAX)
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Width of a character in units of the font's size, rounded up.
fn ems(c: char) -> f64 {
    match c {
        ' ' | 'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '-' | '(' | ')' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.02,
        'a'..='z' | '0'..='9' | '_' | '/' => 0.64,
        'A'..='Z' => 0.79,
        '\0'..='\u{7f}' => 0.84,
        '\u{80}'..='\u{10ff}' => 0.84,
        _ => 1.05,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_spaces_and_breaks_long_words() {
        assert_eq!(TEXT.wrapped("one two", 1000, 3), ["one two"]);
        assert_eq!(TEXT.wrapped("one two", TEXT.width_px("one t"), 3), ["one", "two"]);
        assert_eq!(TEXT.wrapped("aaaa", TEXT.width_px("aa"), 3), ["aa", "aa"]);
        assert_eq!(TEXT.wrapped("  ", 1000, 3), Vec::<String>::new());
        let cut = TEXT.wrapped(&"word ".repeat(100), 200, 2);
        assert_eq!(cut.len(), 2);
        assert!(cut[1].ends_with('…') && cut.iter().all(|line| TEXT.width_px(line) <= 200), "{cut:?}");
    }

    #[test]
    fn shortens_only_what_is_too_wide() {
        assert_eq!(TEXT.shortened("ring", 100), "ring");
        let short = TEXT.shortened(&format!("first {} last", "ring".repeat(50)), 100);
        assert_eq!(short, "first …g last");
        assert!((80..=100).contains(&TEXT.width_px(&short)));
        assert_eq!(TEXT.shortened("ring", 0), "…");
        assert_eq!(TEXT.shortened("", -1), "…");
    }

    #[test]
    fn shows_what_xml_cannot_hold() {
        assert_eq!(
            TEXT.shortened("a\0b\u{1b}c\nd\u{202e}e\u{ffff}", 1000),
            "a\u{fffd}b\u{fffd}c d\u{fffd}e\u{fffd}"
        );
    }
}
