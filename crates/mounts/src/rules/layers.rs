//! The layers of an overlay, as its options name them.

use crate::mount::Mount;

/// The most layers that count; the kernel takes 500.
const LAYERS_MAX: usize = 500;

/// Lower layers, the topmost first: `lowerdir=A:B`, with a backslash before a colon of a name, and since Linux 6.7 one `lowerdir+=A` for
/// each. Layers of data alone (`::C`, `datadir+=`) count as well.
pub(crate) fn lower_layers(mount: &Mount) -> Vec<Vec<u8>> {
    let mut layers: Vec<Vec<u8>> = mount.values_of("lowerdir").flat_map(|list| split(&list)).collect();
    layers.extend(mount.values_of("lowerdir+").map(std::borrow::Cow::into_owned));
    layers.extend(mount.values_of("datadir+").map(std::borrow::Cow::into_owned));
    layers.truncate(LAYERS_MAX);
    layers
}

/// Splits at colons without a backslash.
fn split(list: &[u8]) -> Vec<Vec<u8>> {
    let mut layers = vec![Vec::new()];
    let mut bytes = list.iter();
    while let Some(byte) = bytes.next() {
        match (byte, layers.last_mut()) {
            (b'\\', Some(layer)) => layer.extend(bytes.next()),
            (b':', _) => layers.push(Vec::new()),
            (byte, Some(layer)) => layer.push(*byte),
            (_, None) => {}
        }
    }
    layers.retain(|layer| !layer.is_empty());
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_separate_layers_unless_escaped() {
        assert_eq!(split(br"/a:/b\:c:/d\\e::/f"), [&b"/a"[..], b"/b:c", br"/d\e", b"/f"]);
        assert!(split(b"").is_empty());
        assert_eq!(split(b"/a\\"), [b"/a"]);
    }
}
