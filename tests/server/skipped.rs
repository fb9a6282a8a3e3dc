//! Tests that not every user can run.

/// Says that a test is skipped, and why. Where `CI` is set, as in `scripts/test`, that is a
/// failure.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn skipped(why: &str) {
    let remedy = "Run the test as root, or as a user for whom `unshare -rmpf true` works.";
    assert!(
        std::env::var_os("CI").is_none(),
        "{why}. {remedy} Where CI is set, as in scripts/test, nothing is skipped."
    );
    eprintln!("SKIPPED: {why}. {remedy}");
}
