//! Planted faults: a test names one, to see that the test of a feature notices it.
//!
//! Each stands in one place, as a condition. `compat-tests/features.toml` has the name of a
//! feature's fault, and the program `planted` of `compat-tests` runs the feature's test with it.
//! The name is read once. A release build has none of it: no variable is read, and each condition
//! is the constant `false`. Imports nothing.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// Names the planted fault.
#[cfg(debug_assertions)]
const VARIABLE: &str = "FERROKEEPER_PLANTED";

/// The planted fault, if there is one.
#[cfg(debug_assertions)]
pub(crate) fn name() -> Option<&'static str> {
    static PLANTED: OnceLock<Option<String>> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref()
}

/// The planted fault: there is none.
#[cfg(not(debug_assertions))]
pub(crate) const fn name() -> Option<&'static str> {
    None
}

/// Whether the fault of this name is planted.
#[cfg(debug_assertions)]
pub(crate) fn is(one: &str) -> bool {
    name() == Some(one)
}

/// Whether the fault of this name is planted: none is.
#[cfg(not(debug_assertions))]
pub(crate) const fn is(_name: &str) -> bool {
    false
}
