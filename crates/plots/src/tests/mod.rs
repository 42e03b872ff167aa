//! Tests of whole pictures: their contents, and that no input makes them wrong.

mod pictures;
mod properties;
mod xml;
