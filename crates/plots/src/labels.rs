//! The texts of a picture, and the scale of its values. It measures no text and draws none.

/// Distribution of values on an axis or a colour scale.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scale {
    /// From zero, in equal steps.
    Linear,
    /// By powers of ten. Zero has no position on it and is left out.
    Logarithmic,
}

/// The texts of a picture. Empty ones are left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Labels {
    /// Contents of the picture, above it. Cut after three lines.
    pub title: String,
    /// A smaller text below the title: which tree, which machine. Cut after three lines.
    pub subtitle: String,
    /// Quantity of the horizontal axis, with its unit.
    pub x: String,
    /// Quantity of the vertical axis, with its unit.
    pub y: String,
    /// Quantity of the colours of a heat map, with its unit. Other pictures ignore it.
    pub value: String,
}

impl Labels {
    /// Labels with only a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Sets [`subtitle`](Self::subtitle).
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// Sets [`x`](Self::x).
    #[must_use]
    pub fn x(mut self, text: impl Into<String>) -> Self {
        self.x = text.into();
        self
    }

    /// Sets [`y`](Self::y).
    #[must_use]
    pub fn y(mut self, text: impl Into<String>) -> Self {
        self.y = text.into();
        self
    }

    /// Sets [`value`](Self::value).
    #[must_use]
    pub fn value(mut self, text: impl Into<String>) -> Self {
        self.value = text.into();
        self
    }
}
