//! Tests that not every user can run.

/// Says that a test is skipped, and why. In continuous integration, which can run all, that is a
/// failure.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn skipped(why: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "nothing is skipped in continuous integration: {why}"
    );
    eprintln!("SKIPPED: {why}");
}
