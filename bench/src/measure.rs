//! A case on a server: its figures.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::case::{Case, Population, Spans, TRICKLE_RATE, What};
use crate::connection::Connection;
use crate::load::{self, Load, Measured, Pace};
use crate::request::{self, Workload};
use crate::subject::{Kind, Subject};
use crate::{fan_out, sessions, watches};

/// Figures by their name and unit.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// What a case gave.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) figures: Figures,
    pub(crate) failed: Vec<Failed>,
}

/// Why there are no figures of a part of a case.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Empty: of all of it.
    pub(crate) part: String,
    pub(crate) why: String,
}

impl From<Figures> for Found {
    fn from(figures: Figures) -> Self {
        Self { figures, failed: Vec::new() }
    }
}

/// Where nothing is answered any more: a latency beyond all others, which JSON can carry.
pub(crate) const NO_ANSWERS: f64 = f64::MAX;

pub(crate) const PER_SECOND: &str = "operations/s";
const CPU: &str = "CPU us/operation";
/// How long it was loaded before it was measured.
pub(crate) const WARMED: &str = "s warmed up";
const FAN_OUT_ROUNDS: u32 = 20;

/// Whether a quotient of two servers' figures says something: not of differences and counts.
pub(crate) fn compares(figure: &str) -> bool {
    !figure.contains(" more")
        && !figure.contains(" lost")
        && !figure.contains(" cut")
        && !figure.starts_with("times ")
        && figure != WARMED
        && figure != "pairs"
        && !figure.starts_with("timeouts")
        && !figure.starts_with("storms that ended it")
}

/// Whether more is better.
pub(crate) fn rises(figure: &str) -> bool {
    figure == PER_SECOND || figure == "sets/s"
}

/// Runs `case`; `apache_sets` is what Apache ZooKeeper managed in this run, sets a second.
pub(crate) fn measure(
    subject: &Subject,
    case: &Case,
    spans: &Spans,
    apache_sets: f64,
) -> io::Result<Figures> {
    let Population { keys, value_len } = case.population;
    let load = |workload, connections, pace| Load {
        workload,
        connections,
        pace,
        value_len,
        keys: NonZeroU32::new(spans.scaled(keys)).unwrap_or(NonZeroU32::MIN),
        warm_up: spans.warm_up,
        measured: spans.measured,
        slice: None,
    };
    match case.what {
        What::Closed { workload, connections, window } => {
            under_load(subject, &load(workload, connections, Pace::Window(window)), spans)
        }
        What::HalfOfApache => {
            let pace = Pace::Rate(apache_sets / 2.0);
            let load = load(Workload::Set, 16, pace);
            under_load(subject, &Load { measured: spans.open_loop, ..load }, spans)
        }
        What::Trickle { connections } => {
            let connections = spans.scaled(connections);
            let pace = Pace::Rate(f64::from(connections) * TRICKLE_RATE);
            under_load(subject, &load(Workload::Get, connections, pace), spans)
        }
        What::Sessions { connections } => {
            let sessions =
                |warm_up, span| sessions::per_second(subject.address(), connections, warm_up, span);
            if subject.kind() == Kind::Apache {
                spans.steady.reach(|step| sessions(Duration::ZERO, step))?;
            }
            Ok(Figures::from([(PER_SECOND, sessions(spans.warm_up, spans.measured)?)]))
        }
        What::FanOut { watchers } => {
            let watchers = spans.scaled(watchers);
            let times = fan_out::times(subject.address(), watchers, 2 * FAN_OUT_ROUNDS)?;
            // The first half warms up.
            let mut times = times[FAN_OUT_ROUNDS as usize..].to_vec();
            times.sort_unstable();
            let ms = |time: &Duration| time.as_secs_f64() * 1e3;
            let median = times.get(times.len() / 2).map_or(0.0, ms);
            let most = times.last().map_or(0.0, ms);
            Ok(Figures::from([("median ms", median), ("maximum ms", most)]))
        }
        What::Memory { sessions } => memory(subject, spans.scaled(keys), spans.scaled(sessions)),
        What::Watched { watches, workload } => {
            let _watching = watches::on_absent(subject.address(), spans.scaled(watches))?;
            under_load(subject, &load(workload, 16, Pace::Window(32)), spans)
        }
        What::Start { .. } | What::Snapshot | What::Storm | What::Ensemble(_) => {
            Err(io::Error::other("has servers of its own"))
        }
    }
}

fn under_load(subject: &Subject, load: &Load, spans: &Spans) -> io::Result<Figures> {
    loaded(subject.kind(), &[subject.address()], load, spans, || subject.cpu())
}

/// What a load on warm `servers` gives, `cpu` being the time that they have used so far.
pub(crate) fn loaded(
    kind: Kind,
    servers: &[SocketAddr],
    load: &Load,
    spans: &Spans,
    cpu: impl Fn() -> io::Result<Duration>,
) -> io::Result<Figures> {
    let warmed = spans.steady.reach_under(kind, servers, load)?;
    let (mut before, mut after) = (Ok(Duration::ZERO), Ok(Duration::ZERO));
    let measured = load::run(servers, load, || before = cpu(), || after = cpu())?;
    let Measured { operations, latency, .. } = measured;
    let micros = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    let cpu = after?.saturating_sub(before?);
    Ok(Figures::from([
        (PER_SECOND, operations as f64 / load.measured.as_secs_f64()),
        (CPU, cpu.as_secs_f64() * 1e6 / operations.max(1) as f64),
        ("p50 us", micros(0.5)),
        ("p99 us", micros(0.99)),
        ("p99.9 us", micros(0.999)),
        (WARMED, warmed.as_secs_f64()),
    ]))
}

fn memory(subject: &Subject, keys: u32, sessions: u32) -> io::Result<Figures> {
    let with_znodes = subject.rss()?;
    let mut idle = Vec::new();
    for number in 0..sessions {
        idle.push(Connection::open(subject.address(), number)?);
    }
    let with_sessions = subject.rss()?;
    let _watching = watches::on_keys(subject.address(), keys)?;
    let with_watches = subject.rss()?;
    let path_len = request::key_path(0).len() as f64;
    Ok(Figures::from([
        ("RSS MB", with_znodes as f64 / 1e6),
        ("bytes/idle session", growth(with_sessions, with_znodes, sessions)),
        ("bytes/watch beyond its path", growth(with_watches, with_sessions, keys) - path_len),
    ]))
}

/// What each of so many took of the resident memory. Below zero where it shrank meanwhile: then it
/// was not to be measured, and a zero would say that they take nothing.
fn growth(after: u64, before: u64, count: u32) -> f64 {
    (after as f64 - before as f64) / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_shrinks_is_not_memory_that_stays() {
        assert_eq!(growth(1_500, 500, 10), 100.0);
        assert_eq!(growth(500, 1_500, 10), -100.0);
    }
}
