//! How long writes stand still when the leader of an ensemble is killed, ended or frozen.
//!
//! A writer through each of the servers that stay has one write in flight, always. What counts is
//! the longest time around the event in which neither was answered: it lasts to the first
//! acknowledged write.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use jute::protocol::{Request, SyncRequest};
use rustix::process::Signal;

use crate::case::Outage;
use crate::comparison::median;
use crate::connection::Connection;
use crate::ensemble::Ensemble;
use crate::measure::Figures;
use crate::request::{self, ROOT};
use crate::steady_writer::{SteadyWriter, wait_for_one_sent_after};

/// Writers at work before something happens, and after it.
const BESIDE: Duration = Duration::from_millis(500);
/// A signal has reached all threads by then.
const IN_EFFECT: Duration = Duration::from_millis(20);
/// No leader by then: it does not come back by itself.
const PATIENCE: Duration = Duration::from_secs(60);
/// Clients that only listen, on each server that stays.
const LISTENERS: u32 = 10;

/// What one event cost.
#[derive(Debug, Default)]
struct Cost {
    /// From the event to the end of the gap.
    first: Duration,
    /// The longest between two acknowledgements.
    gap: Duration,
    /// Connections of clients of the other servers that ended.
    cut: u32,
    /// Writes that were acknowledged and are not there.
    lost: u64,
}

/// The same event again and again.
pub(crate) fn figures(
    ensemble: &mut Ensemble<'_>,
    outage: Outage,
    times: u32,
) -> io::Result<Figures> {
    let mut costs = Vec::new();
    for number in 0..times {
        costs.push(once(ensemble, outage, number)?);
    }
    let ms = |of: fn(&Cost) -> Duration| -> Vec<f64> {
        costs.iter().map(|cost| of(cost).as_secs_f64() * 1e3).collect()
    };
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let (first, gap) = (ms(|cost| cost.first), ms(|cost| cost.gap));
    let mut figures = Figures::from([
        ("connections cut elsewhere", costs.iter().map(|cost| f64::from(cost.cut)).sum()),
        ("acknowledged writes lost", costs.iter().map(|cost| cost.lost as f64).sum()),
    ]);
    if outage == Outage::Ended {
        figures.insert("ms between acknowledged writes, p50", median(&gap));
        figures.insert("ms between acknowledged writes, maximum", most(&gap));
    } else {
        figures.insert("ms to the first acknowledged write, p50", median(&first));
        figures.insert("ms to the first acknowledged write, maximum", most(&first));
    }
    Ok(figures)
}

fn once(ensemble: &mut Ensemble<'_>, outage: Outage, number: u32) -> io::Result<Cost> {
    let leader = ensemble.leader()?;
    let addresses = ensemble.addresses()?;
    let (of_leader, others) = addresses.split_last().ok_or_else(|| io::Error::other("nobody"))?;
    let mut writers = Vec::new();
    for (at, address) in others.iter().enumerate() {
        writers.push(SteadyWriter::start(*address, &format!("{ROOT}/steady-{number}-{at}"))?);
    }
    // What the leader acknowledges before it ends, or in its sleep, must stay, too.
    let there = SteadyWriter::start(*of_leader, &format!("{ROOT}/steady-{number}-leader"))?;
    let listeners = listeners(others)?;
    thread::sleep(BESIDE);
    let cuts_before: u32 = writers.iter().map(SteadyWriter::cuts).sum();

    let began = Instant::now();
    match outage {
        Outage::Killed => ensemble.end(leader, Signal::KILL)?,
        Outage::Ended => ensemble.end(leader, Signal::TERM)?,
        Outage::Frozen => ensemble.signal(leader, Signal::STOP)?,
    }
    wait_for_one_sent_after(&writers, Instant::now() + IN_EFFECT, PATIENCE)?;
    thread::sleep(BESIDE);
    let mut at: Vec<Instant> =
        writers.iter().flat_map(SteadyWriter::acknowledged).map(|done| done.at).collect();
    at.retain(|at| *at + BESIDE / 2 >= began);
    at.sort_unstable();
    let gaps = at.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
    let (gap, first) = gaps.max().ok_or_else(|| io::Error::other("nothing is acknowledged"))?;
    let mut cut = writers.iter().map(SteadyWriter::cuts).sum::<u32>() - cuts_before;
    for listener in &listeners {
        cut += u32::from(listener.is_cut()?);
    }

    match outage {
        Outage::Killed | Outage::Ended => ensemble.start(leader)?,
        Outage::Frozen => ensemble.signal(leader, Signal::CONT)?,
    }
    ensemble.settle()?;
    let mut lost = 0;
    for writer in writers.into_iter().chain([there]) {
        let (path, acknowledged) = writer.stop();
        lost += (acknowledged as u64).saturating_sub(value(*of_leader, &path)?);
    }
    Ok(Cost { first: first.saturating_duration_since(began), gap, cut, lost })
}

fn listeners(servers: &[SocketAddr]) -> io::Result<Vec<Connection>> {
    let all = servers.iter().flat_map(|server| (0..LISTENERS).map(|number| (*server, number)));
    all.map(|(server, number)| Connection::open(server, number)).collect()
}

/// The number in a znode, as the server that was away shows it after a sync.
fn value(server: SocketAddr, path: &str) -> io::Result<u64> {
    let mut connection = Connection::open(server, 0)?;
    connection.call(&Request::Sync(SyncRequest { path: Some(path.into()) }))?;
    let (head, body) = connection.ask(&request::get(path, false))?;
    if head.error != 0 {
        return Err(io::Error::other(format!("{path} is answered {}", head.error)));
    }
    // After the head of 16 bytes: a length, the value, the stat.
    let length = body
        .get(16..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |length| u32::from_be_bytes(*length));
    let digits = body.get(20..20 + length as usize).unwrap_or_default();
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("no number in {path}")))
}
