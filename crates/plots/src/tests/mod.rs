//! Tests that look at whole pictures: what is in them, and that nothing makes them wrong.

mod pictures;
mod properties;
mod xml;
