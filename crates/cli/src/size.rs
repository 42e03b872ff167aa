//! placeholder
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (n, m) = match text.chars().last() {
        Some('K') => (&text[..text.len() - 1], 1 << 10),
        Some('M') => (&text[..text.len() - 1], 1 << 20),
        Some('G') => (&text[..text.len() - 1], 1u64 << 30),
        _ => (text, 1),
    };
    n.parse::<u64>().map(|v| v * m).map_err(|e| e.to_string())
}
