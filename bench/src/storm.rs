//! What others can do to a client that asks little: its latencies alone, and while connections come
//! and go, while somebody never reads his answers, and while many list a znode of a million
//! children. Beside ferrokeeper, also each shape of request that costs the most for its bytes.
//!
//! Each of these weathers has figures of its own: one that fails takes no other's away.

mod clients;
mod shapes;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::process::{Resource, getrlimit};

use crate::case::Spans;
use crate::load::{self, Load, Pace};
use crate::measure::{Failed, Figures, Found, NO_ANSWERS};
use crate::population;
use crate::request::Workload;
use crate::storm::clients::Storm;
use crate::storm::shapes::{SHAPES, Shape};
use crate::subject::{self, Launch, Subject};

/// Of the victim: requests a second, nine gets and one set, over so many connections.
const RATE: f64 = 1000.0;
const CONNECTIONS: u32 = 10;
/// What a stock client with a session of ten seconds waits for an answer.
const TIMEOUT: Duration = Duration::from_millis(6667);
/// The most connections that are open at once, and descriptors that stay free beside them: at the
/// server, which may have no more, also for connections that it has not seen end. Otherwise it
/// turns the victim away, rightly.
const OPEN_MAX: u32 = 20_000;
const OTHER_DESCRIPTORS: u32 = 4096;
const LISTERS: u32 = 50;
/// For the shapes that are after quotas.
const QUOTAS: &str = "enforceQuota=true\n";
/// For the shape that is after figures.
const METRICS: &str = "metricsProvider.className=\
    org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
    metricsProvider.httpHost=127.0.0.1\n";
/// So many sessions of before may be left, and they may take so long.
const CALM: u32 = 100;
const CALM_DEADLINE: Duration = Duration::from_secs(180);
const BETWEEN_WORDS: Duration = Duration::from_millis(500);

/// What the figures of the victim in one weather are called.
#[derive(Clone, Copy)]
struct Names {
    weather: &'static str,
    p99: &'static str,
    /// Of the sets among them.
    writes: &'static str,
    /// On the same server just before, when nobody else asked anything.
    usual: &'static str,
    usual_writes: &'static str,
    /// The first, divided by the usual one.
    times: &'static str,
    /// The same where another server on this machine is asked all that: what the machine is short
    /// of, and no server can help.
    elsewhere: &'static str,
    /// Answers that came later than a client waits.
    timeouts: &'static str,
}

macro_rules! names {
    ($name:expr) => {
        $crate::storm::Names {
            weather: $name,
            p99: concat!("p99 us, ", $name),
            writes: concat!("p99 us of sets, ", $name),
            usual: concat!("p99 us alone, before ", $name),
            usual_writes: concat!("p99 us of sets alone, before ", $name),
            times: concat!("times its usual p99, ", $name),
            elsewhere: concat!("times its usual p99, at another server, ", $name),
            timeouts: concat!("timeouts, ", $name),
        }
    };
}
use names;

#[derive(Clone, Copy)]
enum Kind {
    /// So many are open, and others take their places.
    Connections {
        most: u32,
    },
    Unread,
    Listings {
        listers: u32,
    },
    Shape(&'static Shape),
}

impl Kind {
    const fn names(self) -> Names {
        match self {
            Self::Connections { .. } => names!("connections come and go"),
            Self::Unread => names!("a client never reads"),
            Self::Listings { .. } => names!("50 list a million children"),
            Self::Shape(shape) => shape.names,
        }
    }

    /// How many spans it takes until it has happened, at least once, while it is measured.
    const fn spans(self) -> u32 {
        match self {
            Self::Connections { .. } | Self::Unread | Self::Listings { .. } => 1,
            Self::Shape(shape) => shape.spans,
        }
    }

    /// So many a second, where that is of interest.
    const fn what_it_does(self) -> Option<&'static str> {
        match self {
            Self::Unread | Self::Shape(_) => None,
            Self::Connections { .. } => Some("connections that come more"),
            Self::Listings { .. } => Some("listings more"),
        }
    }
}

/// Which server a storm meets.
#[derive(Clone, Copy)]
struct Target {
    server: SocketAddr,
    /// Where it tells its figures, beside the shapes.
    metrics: SocketAddr,
}

/// Where the storm is while the victim is measured.
#[derive(Clone, Copy)]
enum Place {
    /// At the victim's server.
    Here,
    /// At another server on this machine.
    Elsewhere,
}

/// Why a weather has no figures.
enum Fallen {
    /// No server to measure.
    Server(io::Error),
    /// Of the victim, nobody else being there.
    Usual(io::Error),
    /// Of the victim, beside the storm.
    Victim(Place, io::Error),
    /// Of the storm: there was none.
    Storm(Place, io::Error),
}

impl From<io::Error> for Fallen {
    fn from(error: io::Error) -> Self {
        Self::Server(error)
    }
}

impl Fallen {
    /// Whose error it is, and where the storm was.
    fn told(self, names: Names) -> Failed {
        let (whose, why) = match self {
            Self::Server(why) => ("", why),
            Self::Usual(why) => (", before the storm, the measured client", why),
            Self::Victim(Place::Here, why) => (", storm here, the measured client", why),
            Self::Victim(Place::Elsewhere, why) => (", storm elsewhere, the measured client", why),
            Self::Storm(Place::Here, why) => (", storm here, a client of the storm", why),
            Self::Storm(Place::Elsewhere, why) => (", storm elsewhere, a client of the storm", why),
        };
        Failed { part: format!("{}{whose}", names.weather), why: why.to_string() }
    }
}

/// The latencies of the victim in one weather.
struct Weather {
    latency: Histogram<u64>,
    /// Those of its sets.
    writes: Histogram<u64>,
    /// Of the storm.
    done_a_second: f64,
}

fn p99_us(latency: &Histogram<u64>) -> f64 {
    latency.value_at_quantile(0.99) as f64 / 1e3
}

impl Weather {
    fn timeouts(&self) -> f64 {
        let from = u64::try_from(TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
        self.latency.count_between(from, self.latency.high()) as f64
    }
}

/// The figures of one weather, and whether the server and the victim's connections outlived it.
struct Beside {
    figures: Figures,
    is_survived: bool,
}

/// What the weathers gave.
#[derive(Default)]
struct Tally {
    found: Found,
    measured: u32,
    ended: u32,
}

impl Tally {
    /// Takes all of one weather, or why there is nothing of it; whether its server is as before.
    fn take(&mut self, names: Names, weather: Result<Beside, Fallen>) -> bool {
        match weather {
            Ok(Beside { figures, is_survived }) => {
                self.found.figures.extend(figures);
                self.measured += 1;
                self.ended += u32::from(!is_survived);
                is_survived
            }
            Err(fallen) => {
                self.found.failed.push(fallen.told(names));
                false
            }
        }
    }

    fn found(mut self) -> Found {
        if self.measured > 0 {
            let ended = f64::from(self.ended);
            let name = "storms that ended it, or the victim's connections";
            self.found.figures.insert(name, ended);
        }
        self.found
    }
}

/// A tree of `launch.znodes` children of one parent, and the latencies
/// beside what has `part` in its name, or beside everything.
pub(crate) fn figures(
    launch: &Launch<'_>,
    value_len: usize,
    spans: &Spans,
    part: Option<&str>,
) -> Found {
    let is_wanted = |names: Names| part.is_none_or(|part| names.p99.contains(part));
    let load = Load {
        workload: Workload::Mixed,
        connections: CONNECTIONS,
        pace: Pace::Rate(RATE),
        value_len,
        keys: NonZeroU32::new(launch.znodes).unwrap_or(NonZeroU32::MIN),
        warm_up: spans.warm_up,
        measured: spans.measured,
        slice: None,
    };
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let descriptors = u32::try_from(descriptors).unwrap_or(u32::MAX);
    let most = descriptors.saturating_sub(OTHER_DESCRIPTORS).min(spans.scaled(OPEN_MAX));
    let listers = spans.scaled(LISTERS);
    let mut tally = Tally::default();
    let mut running = None;
    let weathers = [Kind::Unread, Kind::Connections { most }, Kind::Listings { listers }];
    for kind in weathers.into_iter().filter(|kind| is_wanted(kind.names())) {
        let weather = beside_others(launch, &load, kind, spans, &mut running);
        if !tally.take(kind.names(), weather) {
            // What one has hit is not what the next one is measured on.
            running = None;
        }
    }
    drop(running);
    if launch.kind == subject::Kind::Ferrokeeper {
        for shape in SHAPES.iter().filter(|shape| is_wanted(shape.names)) {
            tally.take(shape.names, beside_shape(launch, &load, shape));
        }
    }
    tally.found()
}

/// On the server of the weather before, if there is one.
fn beside_others(
    launch: &Launch<'_>,
    load: &Load,
    kind: Kind,
    spans: &Spans,
    running: &mut Option<Subject>,
) -> Result<Beside, Fallen> {
    let server = || {
        let subject = launch.fresh()?;
        population::create(subject.address(), launch.znodes, load.value_len)?;
        io::Result::Ok(subject)
    };
    let target =
        |subject: &Subject| Target { server: subject.address(), metrics: subject.address() };
    let subject: &Subject = match running {
        Some(subject) => subject,
        none => {
            let subject = server()?;
            spans.steady.reach_under(launch.kind, &[subject.address()], load)?;
            none.insert(subject)
        }
    };
    wait_for_calm(subject);
    let other = server()?;
    beside(subject, target(subject), (target(&other), other), load, kind)
}

/// Each shape on a server of its own: what one leaves is not the next one's. Apache ZooKeeper is
/// spared them.
fn beside_shape(launch: &Launch<'_>, load: &Load, shape: &'static Shape) -> Result<Beside, Fallen> {
    let server = || {
        let [port] = subject::free_ports()?;
        let metrics = (Ipv4Addr::LOCALHOST, port).into();
        let settings = format!("{QUOTAS}{METRICS}metricsProvider.httpPort={port}\n");
        let launch = Launch { settings, ..launch.clone() };
        let subject = launch.fresh()?;
        population::create(subject.address(), launch.znodes, load.value_len)?;
        shapes::prepare(subject.address())?;
        let target = Target { server: subject.address(), metrics };
        io::Result::Ok((target, subject))
    };
    let ((storm, subject), elsewhere) = (server()?, server()?);
    let mut beside = beside(&subject, storm, elsewhere, load, Kind::Shape(shape))?;
    if let (Some(name), Ok(peak)) = (shape.peak, subject.peak_rss()) {
        beside.figures.insert(name, peak as f64 / 1e6);
    }
    Ok(beside)
}

/// Waits until the sessions of thousands of connections are over: they expire half a minute after
/// them.
fn wait_for_calm(subject: &Subject) {
    let deadline = Instant::now() + CALM_DEADLINE;
    let sessions = || {
        let text = subject.word("mntr").ok()?;
        let its = text.lines().find_map(|line| line.strip_prefix("zk_global_sessions\t"))?;
        its.parse::<u32>().ok()
    };
    while Instant::now() < deadline && sessions().is_none_or(|sessions| sessions > CALM) {
        thread::sleep(BETWEEN_WORDS);
    }
}

/// Measures the victim alone, then beside a storm, first at another server and then at its own:
/// what a server has just done for others, its snapshots and the disk's own pace are in all of
/// them.
fn beside(
    subject: &Subject,
    storm: Target,
    (elsewhere, other): (Target, Subject),
    load: &Load,
    kind: Kind,
) -> Result<Beside, Fallen> {
    subject.rest()?;
    let victim = subject.address();
    let usual = load::run(&[victim], load, || {}, || {}).map_err(Fallen::Usual)?;
    let usual = Weather { latency: usual.latency, writes: usual.writes, done_a_second: 0.0 };
    let machine = under(victim, (Place::Elsewhere, elsewhere), load, kind)?;
    // What it has left to do is nothing that the victim's server meets.
    drop(other);
    subject.forget_peak()?;
    let here = match under(victim, (Place::Here, storm), load, kind) {
        Ok(here) => Some(here),
        // A finding.
        Err(Fallen::Victim(_, error)) => {
            crate::tell(&format!("{}: the victim fell: {error}", kind.names().weather));
            None
        }
        Err(fallen) => return Err(fallen),
    };
    let figures = compared(kind, &usual, &machine, here.as_ref());
    Ok(Beside { figures, is_survived: here.is_some() })
}

/// The figures of a weather; `here` is None where the storm ended the server or the victim's
/// connections: whoever gets no answer waits for ever.
fn compared(kind: Kind, usual: &Weather, machine: &Weather, here: Option<&Weather>) -> Figures {
    let names = kind.names();
    let times = |weather: &Weather| p99_us(&weather.latency) / p99_us(&usual.latency);
    let mut figures = Figures::from([
        (names.usual, p99_us(&usual.latency)),
        (names.usual_writes, p99_us(&usual.writes)),
        (names.elsewhere, times(machine)),
        (names.p99, here.map_or(NO_ANSWERS, |here| p99_us(&here.latency))),
        (names.times, here.map_or(NO_ANSWERS, times)),
    ]);
    if let Some(here) = here {
        figures.insert(names.writes, p99_us(&here.writes));
        figures.insert(names.timeouts, here.timeouts());
        if let Some(done) = kind.what_it_does() {
            figures.insert(done, here.done_a_second);
        }
    }
    figures
}

/// Measures the victim while a storm goes on, from when it is there.
fn under(
    victim: SocketAddr,
    (place, target): (Place, Target),
    load: &Load,
    kind: Kind,
) -> Result<Weather, Fallen> {
    let load = &Load { measured: load.measured * kind.spans(), ..load.clone() };
    let storm = Storm::new(target);
    let (measured, done) = thread::scope(|scope| {
        storm.begin(scope, kind);
        let (mut before, mut after) = (0, 0);
        let measured =
            load::run(&[victim], load, || before = storm.done(), || after = storm.done());
        storm.end();
        (measured, after - before)
    });
    // Where the server is gone, the storm has nobody to speak to either.
    let measured = measured.map_err(|error| Fallen::Victim(place, error))?;
    let done = storm.outcome(done).map_err(|error| Fallen::Storm(place, error))?;
    let done_a_second = done as f64 / load.measured.as_secs_f64();
    let load::Measured { latency, writes, .. } = measured;
    Ok(Weather { latency, writes, done_a_second })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNREAD: Names = Kind::Unread.names();

    /// A hundred answers that came after so many milliseconds.
    fn weather(ms: u64) -> Weather {
        let mut latency = Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("bounds");
        latency.record_n(ms * 1_000_000, 100).expect("within the bounds");
        Weather { writes: latency.clone(), latency, done_a_second: 7.0 }
    }

    fn is_near(value: Option<&f64>, due: f64) -> bool {
        value.is_some_and(|value| (value / due - 1.0).abs() < 0.01)
    }

    #[test]
    fn a_weather_that_fails_has_a_line_of_its_own_and_the_others_keep_their_figures() {
        let listings = Kind::Listings { listers: 1 };
        let mut tally = Tally::default();
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        let why = reset.to_string();
        assert!(!tally.take(UNREAD, Err(Fallen::Storm(Place::Here, reset))));
        let figures = compared(listings, &weather(1), &weather(2), Some(&weather(3)));
        assert!(tally.take(listings.names(), Ok(Beside { figures, is_survived: true })));
        let Found { figures, failed } = tally.found();
        let part = "a client never reads, storm here, a client of the storm".to_owned();
        assert_eq!(failed, [Failed { part, why }]);
        assert!(is_near(figures.get("times its usual p99, 50 list a million children"), 3.0));
        assert!(figures.keys().all(|figure| !figure.contains("never reads")), "{figures:?}");
        assert_eq!(figures["storms that ended it, or the victim's connections"], 0.0);
    }

    #[test]
    fn where_all_weathers_failed_there_are_no_figures() {
        let mut tally = Tally::default();
        tally.take(UNREAD, Err(io::Error::other("no server").into()));
        let Found { figures, failed } = tally.found();
        assert!(figures.is_empty(), "{figures:?}");
        let part = "a client never reads".to_owned();
        assert_eq!(failed, [Failed { part, why: "no server".to_owned() }]);
    }

    #[test]
    fn an_error_says_whose_it_is_and_where_the_storm_was() {
        let error = || io::Error::other("it ended");
        let parts = [
            (Fallen::Usual(error()), "before the storm, the measured client"),
            (Fallen::Victim(Place::Here, error()), "storm here, the measured client"),
            (Fallen::Victim(Place::Elsewhere, error()), "storm elsewhere, the measured client"),
            (Fallen::Storm(Place::Here, error()), "storm here, a client of the storm"),
            (Fallen::Storm(Place::Elsewhere, error()), "storm elsewhere, a client of the storm"),
        ];
        for (fallen, whose) in parts {
            let part = format!("a client never reads, {whose}");
            assert_eq!(fallen.told(UNREAD), Failed { part, why: "it ended".to_owned() });
        }
    }

    #[test]
    fn a_storm_that_ends_the_server_is_a_finding_without_timeouts() {
        let figures = compared(Kind::Unread, &weather(10), &weather(20), None);
        assert_eq!(figures[UNREAD.times], NO_ANSWERS);
        assert!(is_near(figures.get(UNREAD.elsewhere), 2.0), "{figures:?}");
        assert!(is_near(figures.get(UNREAD.usual), 10_000.0), "{figures:?}");
        assert!(!figures.contains_key(UNREAD.timeouts), "{figures:?}");
        let survived = compared(Kind::Unread, &weather(10), &weather(20), Some(&weather(7_000)));
        assert_eq!(survived[UNREAD.timeouts], 100.0);
        let survived = compared(Kind::Unread, &weather(10), &weather(20), Some(&weather(6_000)));
        assert_eq!(survived[UNREAD.timeouts], 0.0);
    }
}
