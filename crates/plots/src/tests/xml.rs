//! Reads the elements of an SVG file, and refuses a file that is not well-formed. It supports only the XML in such files: elements,
//! attributes, text and the five entities.

use crate::text::Font;

/// One element with its own text.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) text: String,
}

impl Element {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.get(name).unwrap_or_else(|| panic!("{name} of {self:?}")).parse().unwrap()
    }

    /// Left, top, right and bottom of a rectangle.
    pub(super) fn area(&self) -> [f64; 4] {
        let [x, y, width, height] = ["x", "y", "width", "height"].map(|name| self.number(name));
        [x, y, x + width, y + height]
    }

    /// Left, top, right and bottom of a text, with its estimated width.
    pub(super) fn text_box(&self) -> [f64; 4] {
        assert_eq!(self.get("dy"), Some("0.5ex"));
        let (x, y, size) = (self.number("x"), self.number("y"), self.number("font-size"));
        let font = Font { size_px: size.round() as i32, bold: self.get("font-weight").is_some() };
        let width = f64::from(font.width_px(&self.text));
        let before = match self.get("text-anchor").unwrap() {
            "start" => 0.0,
            "middle" => width / 2.0,
            _ => width,
        };
        match self.get("transform") {
            None => [x - before, y - size / 2.0, x - before + width, y + size / 2.0],
            Some(_) => [x - size / 2.0, y + before - width, x + size / 2.0, y + before],
        }
    }
}

/// The elements of a well-formed file, in order, root first. Panics on any other file.
pub(super) fn elements(svg: &str) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = svg.trim_end();
    while !rest.is_empty() {
        let (text, tag) = rest.split_once('<').expect("text after the root");
        match open.last() {
            Some(index) => elements[*index].text.push_str(unescaped(text).trim_matches('\n')),
            None => assert!(text.is_empty() && elements.is_empty(), "text or an element outside of the root"),
        }
        let (tag, after) = tag.split_once('>').expect("a tag without an end");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let index = open.pop().expect("an end tag too many");
            assert_eq!(elements[index].name, name);
            continue;
        }
        if !tag.ends_with('/') {
            open.push(elements.len());
        }
        elements.push(element(tag.trim_end_matches('/')));
    }
    assert!(open.is_empty() && !elements.is_empty(), "no end of {open:?}");
    elements
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{name:?}");
    let mut element = Element { name: name.to_owned(), attributes: Vec::new(), text: String::new() };
    while !rest.is_empty() {
        let (key, after) = rest.split_once("=\"").expect("an attribute without a value");
        let (value, after) = after.split_once('"').expect("a value without an end");
        assert!(
            element.get(key).is_none() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "{key:?}"
        );
        element.attributes.push((key.to_owned(), unescaped(value)));
        rest = after.trim_start();
    }
    element
}

fn unescaped(text: &str) -> String {
    let legal = |c: char| !c.is_control() || c == '\n';
    assert!(text.chars().all(|c| legal(c) && !"<>\"\u{fffe}\u{ffff}".contains(c)), "{text:?}");
    let mut parts = text.split('&');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, after) = part.split_once(';').expect("a bare ampersand");
        whole.push(match entity {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            _ => panic!("no such entity: {entity}"),
        });
        whole.push_str(after);
    }
    whole
}

/// Checks that a file is well-formed, that everything is inside the picture, and that no texts overlap.
pub(super) fn checked(svg: &str) -> Vec<Element> {
    let elements = elements(svg);
    let (width, height) = (elements[0].number("width"), elements[0].number("height"));
    let inside = |[left, top, right, bottom]: [f64; 4]| {
        0.0 <= left && left <= right && right <= width && 0.0 <= top && top <= bottom && bottom <= height
    };
    for element in elements.iter().filter(|element| element.name == "rect") {
        assert!(inside(element.area()), "{element:?} in {width} x {height}");
    }
    let texts: Vec<_> = elements.iter().filter(|element| element.name == "text").collect();
    let boxes: Vec<_> = texts.iter().map(|text| text.text_box()).collect();
    for (i, a) in boxes.iter().enumerate() {
        assert!(inside(*a), "{:?} in {width} x {height}", texts[i]);
        for (j, b) in boxes[..i].iter().enumerate() {
            let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
            assert!(apart, "{:?} meets {:?}", texts[i], texts[j]);
        }
    }
    elements
}

#[test]
fn refuses_what_is_not_well_formed() {
    assert_eq!(elements("<svg a=\"1\"><text>a &lt; b</text><rect x=\"2\"/></svg>")[1].text, "a < b");
    let wrong = [
        "",
        "<svg>",
        "<svg></text></svg>",
        "<svg>&</svg>",
        "<svg a=\"1\" a=\"1\"/>",
        "<svg/><svg/>",
        "<svg>\0</svg>",
    ];
    for svg in wrong {
        assert!(std::panic::catch_unwind(|| elements(svg)).is_err(), "{svg:?}");
    }
}
