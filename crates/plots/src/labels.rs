//! What is written on a picture and how its values are spread. It measures no text and draws none.

/// How an axis or a colour scale spreads its values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scale {
    /// From zero, in equal steps.
    Linear,
    /// By powers of ten. Zero has no place on it and is left out.
    Logarithmic,
}

/// The texts of a picture. An empty one is left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Labels {
    /// What the picture shows, above it. Cut after three lines.
    pub title: String,
    /// A smaller text below the title: which tree, which machine. Cut after three lines.
    pub subtitle: String,
    /// What the horizontal axis counts, with its unit.
    pub x: String,
    /// What the vertical axis counts, with its unit.
    pub y: String,
    /// What the colours of a heat map count, with its unit. Nothing else shows it.
    pub value: String,
}

impl Labels {
    /// Labels with nothing but a title.
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
