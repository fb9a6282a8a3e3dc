//! Latency against rate, open loop: where a server stops keeping up.

use std::error::Error;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;

use plotters::prelude::*;

use crate::case::Spans;
use crate::load::{self, Load, Measured, Pace};
use crate::measure::Failed;
use crate::population;
use crate::report::{Row, one_line, why};
use crate::request::Workload;
use crate::subject::{Heap, Kind, Launch, Programs, Subject};

/// What the rows of its failures are called.
pub(crate) const PLOT: &str = "latency against rate";

/// Sets a second.
const RATES: [f64; 10] = [1e3, 2e3, 5e3, 1e4, 2e4, 4e4, 8e4, 1.6e5, 2.4e5, 3.2e5];
/// A server that answers less than this part of what was asked does not keep up.
const KEEPS_UP: f64 = 0.98;

/// The rate and the p50, p99 and p99.9 in milliseconds.
type Point = (f64, [f64; 3]);

/// What a server gave up to the rate that it does not hold, or at which its load failed.
pub(crate) struct Curve {
    kind: Kind,
    points: Vec<Point>,
    failed: Option<Failed>,
}

/// The rows of those whose load failed.
pub(crate) fn failures(curves: &[Curve]) -> Vec<Row> {
    let row = |curve: &Curve| Some(Row::failed(PLOT, curve.kind, curve.failed.as_ref()?));
    curves.iter().filter_map(row).collect()
}

/// Sets of 100 bytes over 16 connections at rising rates, on each server until it falls behind.
pub(crate) fn sweep(programs: &Programs, spans: &Spans, mut tell: impl FnMut(&str)) -> Vec<Curve> {
    let mut curves = Vec::new();
    for kind in [Kind::Apache, Kind::Ferrokeeper] {
        let mut points = Vec::new();
        let failed = rise(kind, programs, spans, &mut points, &mut tell).err();
        if let Some(failed) = &failed {
            tell(&format!("{PLOT}: {}", why(kind, failed)));
        }
        curves.push(Curve { kind, points, failed });
    }
    curves
}

/// One server, from the lowest rate on.
fn rise(
    kind: Kind,
    programs: &Programs,
    spans: &Spans,
    points: &mut Vec<Point>,
    tell: &mut impl FnMut(&str),
) -> Result<(), Failed> {
    let failed = |part, error: io::Error| Failed { part, why: one_line(&error.to_string()) };
    let subject = server(kind, programs).map_err(|error| failed(String::new(), error))?;
    for rate in RATES {
        let measured = loaded(&subject, rate, points.is_empty(), spans)
            .map_err(|error| failed(format!("at {rate} sets/s"), error))?;
        let reached = measured.operations as f64 / spans.measured.as_secs_f64();
        let latency = [0.5, 0.99, 0.999]
            .map(|quantile| measured.latency.value_at_quantile(quantile) as f64 / 1e6);
        tell(&format!("{}, {rate} sets/s: {reached:.0}/s, {latency:.3?} ms", kind.name()));
        if reached < KEEPS_UP * rate {
            break;
        }
        points.push((rate, latency));
    }
    Ok(())
}

fn server(kind: Kind, programs: &Programs) -> io::Result<Subject> {
    let launch =
        Launch { kind, programs, settings: String::new(), znodes: 1_000, heap: Heap::Ample };
    let subject = launch.fresh()?;
    population::create(subject.address(), 1_000, 100)?;
    Ok(subject)
}

fn loaded(subject: &Subject, rate: f64, is_first: bool, spans: &Spans) -> io::Result<Measured> {
    let load = Load {
        workload: Workload::Set,
        connections: 16,
        pace: Pace::Rate(rate),
        value_len: 100,
        keys: NonZeroU32::new(1_000).unwrap_or(NonZeroU32::MIN),
        warm_up: spans.warm_up,
        measured: spans.measured,
        slice: None,
    };
    if is_first {
        spans.steady.reach_under(subject.kind(), &[subject.address()], &load)?;
    }
    load::run(&[subject.address()], &load, || {}, || {})
}

/// Draws it, both axes logarithmic.
pub(crate) fn draw(path: &Path, curves: &[Curve]) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, (900, 560)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Synced sets of 100 bytes, open loop, 16 connections", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((800.0..400e3).log_scale(), (0.05..1e3).log_scale())?;
    chart.configure_mesh().x_desc("sets a second").y_desc("latency, ms").draw()?;
    for Curve { kind, points, failed } in curves {
        let then = if failed.is_some() { ", then it failed" } else { "" };
        let color = if *kind == Kind::Apache { RED } else { BLUE };
        for (at, name) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            let style = color.mix([1.0, 0.65, 0.35][at]).stroke_width(2);
            let line = points.iter().map(|(rate, latency)| (*rate, latency[at]));
            chart
                .draw_series(LineSeries::new(line, style).point_size(3))?
                .label(format!("{}, {name}{then}", kind.name()))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::warmth::Steady;

    #[test]
    fn a_load_that_fails_is_a_failure_of_the_plot() {
        let folder = tempfile::tempdir().expect("a folder");
        let none = PathBuf::from("/nonexistent");
        let data = folder.path().to_owned();
        let programs = Programs { ferrokeeper: none.clone(), reference: none, data };
        let spans = Spans {
            warm_up: Duration::ZERO,
            steady: Steady { step: Duration::ZERO, at_most: Duration::ZERO },
            measured: Duration::ZERO,
            open_loop: Duration::ZERO,
            outages: 1,
            scale: NonZeroU32::MIN,
        };
        let mut told = 0;
        let curves = sweep(&programs, &spans, |_| told += 1);
        let failures = failures(&curves);
        assert_eq!((failures.len(), told), (2, 2));
        let [theirs, ours] = ["Apache ZooKeeper", "ferrokeeper"];
        for (row, name) in failures.iter().zip([theirs, ours]) {
            assert_eq!(row.case, PLOT);
            assert!(row.figure.starts_with(&format!("failed, {name}: cannot run")), "{row:?}");
        }
    }
}
