//! Latency against rate, open loop: where a server stops keeping up.

use std::error::Error;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;

use plotters::prelude::*;

use crate::case::Spans;
use crate::load::{self, Load, Pace};
use crate::population;
use crate::request::Workload;
use crate::subject::{Heap, Kind, Launch, Programs};

/// Sets a second.
const RATES: [f64; 10] = [1e3, 2e3, 5e3, 1e4, 2e4, 4e4, 8e4, 1.6e5, 2.4e5, 3.2e5];
/// A server that answers less than this part of what was asked does not keep up.
const KEEPS_UP: f64 = 0.98;

/// The rate and the p50, p99 and p99.9 in milliseconds.
type Point = (f64, [f64; 3]);

/// Sets of 100 bytes over 16 connections at rising rates, on each server until it falls behind.
pub(crate) fn sweep(
    programs: &Programs,
    spans: &Spans,
    mut tell: impl FnMut(&str),
) -> io::Result<Vec<(Kind, Vec<Point>)>> {
    let mut curves = Vec::new();
    for kind in [Kind::Apache, Kind::Ferrokeeper] {
        let launch =
            Launch { kind, programs, settings: String::new(), znodes: 1_000, heap: Heap::Ample };
        let subject = launch.fresh()?;
        population::create(subject.address(), 1_000, 100)?;
        let mut points = Vec::new();
        for rate in RATES {
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
            if points.is_empty() {
                spans.steady.reach_under(kind, &[subject.address()], &load)?;
            }
            let Ok(measured) = load::run(&[subject.address()], &load, || {}, || {}) else { break };
            let reached = measured.operations as f64 / spans.measured.as_secs_f64();
            let latency = [0.5, 0.99, 0.999]
                .map(|quantile| measured.latency.value_at_quantile(quantile) as f64 / 1e6);
            tell(&format!("{}, {rate} sets/s: {reached:.0}/s, {latency:.3?} ms", kind.name()));
            if reached < KEEPS_UP * rate {
                break;
            }
            points.push((rate, latency));
        }
        curves.push((kind, points));
    }
    Ok(curves)
}

/// Draws it, both axes logarithmic.
pub(crate) fn draw(path: &Path, curves: &[(Kind, Vec<Point>)]) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, (900, 560)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Synced sets of 100 bytes, open loop, 16 connections", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((800.0..400e3).log_scale(), (0.05..1e3).log_scale())?;
    chart.configure_mesh().x_desc("sets a second").y_desc("latency, ms").draw()?;
    for (kind, points) in curves {
        let color = if *kind == Kind::Apache { RED } else { BLUE };
        for (at, name) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            let style = color.mix([1.0, 0.65, 0.35][at]).stroke_width(2);
            let line = points.iter().map(|(rate, latency)| (*rate, latency[at]));
            chart
                .draw_series(LineSeries::new(line, style).point_size(3))?
                .label(format!("{}, {name}", kind.name()))
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
