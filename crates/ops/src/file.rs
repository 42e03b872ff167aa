//! One file at a time: open it, read it with its holes, copy or compare its bytes, cut it into chunks. It knows neither trees nor
//! operations; `copy`, `sum` and `verify` stand on it. A module here imports only those before it in this list.

pub(crate) mod chunks;
pub(crate) mod clone;
pub(crate) mod compare;
pub(crate) mod direct;
pub(crate) mod error;
pub(crate) mod holes;
pub(crate) mod kernel_copy;
pub(crate) mod mover;
pub(crate) mod retries;
pub(crate) mod sizes;
pub(crate) mod source;
pub(crate) mod version;
