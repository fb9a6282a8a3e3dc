//! What a snapshot does to those who write meanwhile.
//!
//! An open loop of sets at half of what the same server manages, for so long that some snapshots
//! become due. The span from the beginning of each is compared with the one before it, which has
//! none.
//!
//! What a server manages is the most at which an open loop's latencies do not grow: less than a
//! closed loop's rate, whose requests share their system calls.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::case::Spans;
use crate::comparison::median;
use crate::load::{self, Load, Measured, Pace, slice_histogram};
use crate::measure::Figures;
use crate::population;
use crate::request::Workload;
use crate::subject::{Kind, Launch, Subject};

/// Pairs of a span with a snapshot and one without.
const PAIRS: u32 = 5;
/// Slices of a span.
const SLICES: u32 = 30;
/// The shortest span that has something in each slice.
const SPAN_MIN: Duration = Duration::from_millis(500);
/// A rate is managed if the p99 stays below this.
const MANAGED: Duration = Duration::from_millis(50);
/// From a rate that is not managed to the next one tried.
const LESS: f64 = 0.85;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// A snapshot that was not written to for so long has ended.
const REST: Duration = Duration::from_secs(2);
const NEVER: &str = "snapCount=2000000000\nsnapSizeLimitInKb=-1\nautopurge.purgeInterval=0\n";

/// A snapshot as its file shows it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    began: Instant,
    /// When it last grew.
    grew: Instant,
    len: u64,
    /// The most that was resident before it, and at its end.
    peaks: [u64; 2],
}

/// A tree of `launch.znodes`, loaded, and what its snapshots cost.
pub(crate) fn figures(launch: &Launch<'_>, value_len: usize, spans: &Spans) -> io::Result<Figures> {
    let span = (spans.open_loop / 2).max(SPAN_MIN);
    let subject = Launch { settings: NEVER.into(), ..launch.clone() }.fresh()?;
    population::create(subject.address(), launch.znodes, value_len)?;
    let most = Load {
        workload: Workload::Set,
        connections: 16,
        pace: Pace::Window(32),
        value_len,
        keys: NonZeroU32::new(launch.znodes).unwrap_or(NonZeroU32::MIN),
        warm_up: spans.warm_up,
        measured: spans.measured,
        slice: None,
    };
    spans.steady.reach_under(launch.kind, &[subject.address()], &most)?;
    let measured = load::run(&[subject.address()], &most, || {}, || {})?;
    let closed = measured.operations as f64 / spans.measured.as_secs_f64();
    let rate = managed(&subject, &most, closed)? / 2.0;
    // ferrokeeper takes one as soon as it is due; Apache ZooKeeper at a random one of the
    // transactions from half as many.
    let spans_between = if launch.kind == Kind::Apache { 8.0 / 3.0 } else { 2.0 };
    let count = (rate * span.as_secs_f64() * spans_between) as u64;
    let settings = format!("snapCount={}\nautopurge.purgeInterval=0\n", count.max(2));
    // A peak of its own, and the first snapshot, due at the start, out of the way.
    let subject = Launch { settings, ..launch.clone() }.on(subject.kill()?)?;
    spans.steady.reach_under(launch.kind, &[subject.address()], &most)?;
    rest(&subject)?;
    let load = Load {
        pace: Pace::Rate(rate),
        warm_up: Duration::ZERO,
        measured: span * (2 * PAIRS + 2),
        slice: Some(span / SLICES),
        ..most
    };
    let mut start = Instant::now();
    let ended = AtomicBool::new(false);
    let (measured, seen) = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&subject, &ended));
        let measured = load::run(&[subject.address()], &load, || start = Instant::now(), || {});
        ended.store(true, Ordering::Relaxed);
        let seen = watching.join().expect("watching files does not panic");
        measured.and_then(|measured| Ok((measured, seen?)))
    })?;
    Ok(compare(&measured, &seen, start, span, rate))
}

/// The greatest rate, from `closed` down, that an open loop holds.
fn managed(subject: &Subject, load: &Load, closed: f64) -> io::Result<f64> {
    let mut rate = closed;
    loop {
        let open = Load { pace: Pace::Rate(rate), ..load.clone() };
        let measured = load::run(&[subject.address()], &open, || {}, || {})?;
        let p99 = Duration::from_nanos(measured.latency.value_at_quantile(0.99));
        if p99 < MANAGED {
            return Ok(rate);
        }
        rate *= LESS;
    }
}

/// Waits until no snapshot is on its way.
fn rest(subject: &Subject) -> io::Result<()> {
    let mut last = (Instant::now(), lengths(&subject.files())?);
    while last.0.elapsed() < REST {
        thread::sleep(BETWEEN_LOOKS);
        let lengths = lengths(&subject.files())?;
        if lengths != last.1 {
            last = (Instant::now(), lengths);
        }
    }
    Ok(())
}

/// Snapshots by the hexadecimal zxid of their names, finished or not, and their lengths.
fn lengths(files: &Path) -> io::Result<BTreeMap<OsString, u64>> {
    let mut lengths = BTreeMap::new();
    for entry in fs::read_dir(files)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(zxid) = name.to_str().and_then(|name| name.split_once("snapshot.")) else {
            continue;
        };
        // One that got its name a moment ago is not there any more.
        if let Ok(metadata) = entry.metadata() {
            let len = lengths.entry(zxid.1.into()).or_insert(0);
            *len = metadata.len().max(*len);
        }
    }
    Ok(lengths)
}

/// The snapshots that begin until `ended`.
fn watch(subject: &Subject, ended: &AtomicBool) -> io::Result<Vec<Seen>> {
    let before = lengths(&subject.files())?;
    let mut seen: BTreeMap<OsString, Seen> = BTreeMap::new();
    while !ended.load(Ordering::Relaxed) {
        let peak = subject.peak_rss()?;
        for (zxid, len) in lengths(&subject.files())? {
            if before.contains_key(&zxid) {
                continue;
            }
            let now = Instant::now();
            let snapshot =
                seen.entry(zxid).or_insert(Seen { began: now, grew: now, len, peaks: [peak; 2] });
            if len > snapshot.len {
                *snapshot = Seen { grew: now, len, peaks: [snapshot.peaks[0], peak], ..*snapshot };
            }
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    Ok(seen.into_values().collect())
}

fn compare(
    measured: &Measured,
    seen: &[Seen],
    start: Instant,
    span: Duration,
    rate: f64,
) -> Figures {
    let slice = (span / SLICES).as_secs_f64();
    let mut columns: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for snapshot in seen {
        let began =
            (snapshot.began.saturating_duration_since(start).as_secs_f64() / slice) as usize;
        let of = |from: Option<usize>| {
            let from = from?;
            let slices = measured.slices.get(from..from + SLICES as usize)?;
            let mut sum: Histogram<u32> = slice_histogram();
            slices.iter().for_each(|slice| sum.add(slice).expect("equal bounds"));
            Some([0.999, 1.0].map(|quantile| sum.value_at_quantile(quantile) as f64 / 1e3))
        };
        let Some((without, with)) = of(began.checked_sub(SLICES as usize)).zip(of(Some(began)))
        else {
            continue;
        };
        let took = snapshot.grew.saturating_duration_since(snapshot.began);
        let growth = snapshot.peaks[1] as f64 / snapshot.peaks[0] as f64 - 1.0;
        for (figure, value) in [
            ("p99.9 ms without", without[0]),
            ("p99.9 ms with", with[0]),
            ("p99.9 ms more", with[0] - without[0]),
            ("maximum ms without", without[1]),
            ("maximum ms with", with[1]),
            ("maximum ms more", with[1] - without[1]),
            ("s a snapshot takes", took.as_secs_f64()),
            ("VmHWM % more", growth * 100.0),
        ] {
            columns.entry(figure).or_default().push(value);
        }
    }
    let pairs = columns.values().next().map_or(0, Vec::len);
    let mut figures: Figures =
        columns.iter().map(|(figure, values)| (*figure, median(values))).collect();
    let most =
        |figure| columns.get(figure).and_then(|values| values.iter().copied().reduce(f64::max));
    for (figure, of) in [
        ("p99.9 ms more, worst pair", "p99.9 ms more"),
        ("maximum ms more, worst pair", "maximum ms more"),
        ("VmHWM % more, worst pair", "VmHWM % more"),
    ] {
        figures.extend(most(of).map(|value| (figure, value)));
    }
    // None at all: it was too slow for a snapshot to become due, or the run too short.
    figures.extend([("pairs", pairs as f64), ("sets/s", rate)]);
    figures
}
