//! How long a JVM works before it is measured: it compiles what it runs while it runs it.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::load::{self, Load, Pace};
use crate::request::Workload;
use crate::subject::Kind;

/// A server is warm when it has not done so much more than in its best step, for so many steps.
const RISE: f64 = 0.03;
const STEADY_STEPS: u32 = 2;
/// In flight on each connection, and connections, where the load itself is an open loop.
const WINDOW: u32 = 32;
const CONNECTIONS: u32 = 16;

/// Until when a server is warmed up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    /// What is compared with what came before it.
    pub(crate) step: Duration,
    pub(crate) at_most: Duration,
}

impl Steady {
    /// Works until `rate`, which works for as long as it is told and returns operations a second,
    /// rises no more; returns how long that took.
    pub(crate) fn reach(
        self,
        mut rate: impl FnMut(Duration) -> io::Result<f64>,
    ) -> io::Result<Duration> {
        let began = Instant::now();
        let mut best = rate(self.step)?;
        let mut steady = 0;
        while steady < STEADY_STEPS && began.elapsed() + self.step <= self.at_most {
            let now = rate(self.step)?;
            let rises = now >= best * (1.0 + RISE);
            steady = if rises { 0 } else { steady + 1 };
            best = best.max(now);
        }
        Ok(began.elapsed())
    }

    /// The same with a load, in a closed loop. Only Apache ZooKeeper is warmed up: the others are
    /// compiled.
    pub(crate) fn reach_under(
        self,
        kind: Kind,
        servers: &[SocketAddr],
        load: &Load,
    ) -> io::Result<Duration> {
        if kind != Kind::Apache {
            return Ok(Duration::ZERO);
        }
        let (connections, pace) = match load.pace {
            Pace::Window(_) => (load.connections, load.pace),
            Pace::Rate(_) => (load.connections.min(CONNECTIONS), Pace::Window(WINDOW)),
        };
        // What it creates would be there when it is measured.
        let workload = match load.workload {
            Workload::Create => Workload::Ephemeral,
            workload => workload,
        };
        let load = Load {
            workload,
            connections,
            pace,
            warm_up: Duration::ZERO,
            slice: None,
            ..load.clone()
        };
        self.reach(|step| {
            let load = Load { measured: step, ..load.clone() };
            let measured = load::run(servers, &load, || {}, || {})?;
            Ok(measured.operations as f64 / step.as_secs_f64())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(rates: &[f64]) -> usize {
        let steady = Steady { step: Duration::ZERO, at_most: Duration::from_secs(600) };
        let mut asked = 0;
        let took = steady.reach(|_| {
            asked += 1;
            rates.get(asked - 1).copied().ok_or_else(|| io::Error::other("asked too often"))
        });
        took.expect("it becomes steady");
        asked
    }

    #[test]
    fn it_goes_on_while_the_rate_rises_by_three_percent() {
        assert_eq!(reached(&[100.0, 102.9, 103.1]), 3);
        assert_eq!(reached(&[100.0, 103.0, 200.0, 205.0, 201.0]), 5);
        // A slow step is no rise, and neither is the return from it.
        assert_eq!(reached(&[100.0, 90.0, 100.0]), 3);
        assert_eq!(reached(&[100.0, 90.0, 110.0, 100.0, 100.0]), 5);
    }

    #[test]
    fn it_ends_when_the_time_is_over() {
        let steady = Steady { step: Duration::from_secs(1), at_most: Duration::ZERO };
        let mut asked = 0;
        let took = steady.reach(|_| {
            asked += 1;
            Ok(f64::from(asked))
        });
        assert!(took.is_ok());
        assert_eq!(asked, 1);
    }
}
