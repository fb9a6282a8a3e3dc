//! Black-box tests: stock clients and raw sockets against ferrokeeper, with Apache ZooKeeper as the
//! oracle.
//!
//! - [`Server`] runs ferrokeeper or Apache ZooKeeper on a free port with its own directory.
//! - [`Ensemble`] runs three of one kind.
//! - [`zoo_cfg`] starts servers on zoo.cfg files as they are found in production.
//! - [`RawClient`] speaks frames over one socket; [`request`] writes the bodies.
//! - [`Proxy`] cuts the connections of a client that converses through it.
//! - [`Program`] converses with a stock client, line by line and with deadlines.
//! - [`Java`] compiles and runs what is written on a Java client.
//! - [`held_sessions`] are stock clients whose sessions must outlive a change of servers.
//! - [`installed`] says which versions of clients run.
//! - [`load`] writes without pause, and remembers what was acknowledged.
//! - [`tree`] reads all znodes that a client sees.
//! - [`four_letter_words`] asks a server one of them, [`http`] an AdminServer.
//! - [`MetricsPage`] takes `/metrics` apart; [`queries`] reads what Prometheus is asked.
//! - [`syncs`] shows what a server syncs.
//! - [`Transcript`] is what a client printed, with times, zxids and session ids made comparable.
//! - [`compatibility`] keeps what a client's checks say, for `docs/compatibility.md`.
//! - [`named_test`] finds the tests that documents name, [`features`] reads those of
//!   `features.toml`.
//! - [`random`] is chance from a seed.
//!
//! `SUBJECT=reference` puts Apache ZooKeeper itself in the place of the server under test: what
//! fails then is wrong in the test. `FERROKEEPER_BIN` names another binary than the workspace's
//! `target/debug/ferrokeeper` (or `target/release/ferrokeeper`, see [`run_the_release`]). Nothing
//! here uses the server's own codec.

pub mod compatibility;
mod ensemble;
pub mod features;
pub mod four_letter_words;
pub mod held_sessions;
pub mod http;
pub mod installed;
mod java;
pub mod load;
pub mod metrics_page;
pub mod named_test;
mod program;
mod proxy;
pub mod queries;
pub mod random;
mod raw_client;
pub mod request;
mod server;
pub mod syncs;
mod transcript;
pub mod tree;
pub mod zoo_cfg;

pub use ensemble::Ensemble;
pub use java::{Java, debian_jars};
pub use metrics_page::MetricsPage;
pub use program::{Program, cache, classpath, python, repository, signal_group};
pub use proxy::Proxy;
pub use raw_client::{ConnectRequest, Event, RawClient, Reply, Session, Stat};
pub use rustix::process::Signal;
pub use server::{Kind, Port, Server, ferrokeeper, run_the_release, signal};
pub use transcript::Transcript;

/// A TCP port for a server that a test starts by other means.
pub fn free_port() -> Port {
    Port::free()
}

/// Says that a test does less than it should, why, and how to run it. Where `CI` is set, as in
/// `scripts/test`, that is a failure.
///
/// # Panics
/// Where `CI` is set.
#[expect(clippy::print_stderr, reason = "what was not done is said, also when a test passes")]
pub fn skipped(why: &str, remedy: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "{why}. {remedy}. Where CI is set, as in scripts/test, nothing is skipped."
    );
    eprintln!("SKIPPED: {why}. {remedy}.");
}

/// How often a test repeats something: `default`, or what the environment variable says.
pub fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number"))
    })
}
