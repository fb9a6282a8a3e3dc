//! What others can do to a client that asks little: its latencies alone, and while connections come
//! and go, while somebody never reads his answers, and while many list a znode of a million
//! children. Beside ferrokeeper, also each shape of request that costs the most for its bytes.

mod shapes;

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use jute::protocol::{Request, WatchRequest};
use rustix::process::{Resource, getrlimit};

use crate::case::Spans;
use crate::connection::Connection;
use crate::load::{self, Load, Pace};
use crate::measure::{Figures, NO_ANSWERS};
use crate::population;
use crate::request::{self, ROOT, Workload};
use crate::storm::shapes::{SHAPES, Shape};
use crate::subject::{self, Launch, Subject};

/// Of the victim: requests a second, nine gets and one set, over so many connections.
const RATE: f64 = 1000.0;
const CONNECTIONS: u32 = 10;
/// What a stock client with a session of ten seconds waits for an answer.
const TIMEOUT: Duration = Duration::from_millis(6667);
/// Who opens connections.
const OPENERS: u32 = 16;
/// The most connections that are open at once, and descriptors that stay free beside them: at the
/// server, which may have no more, also for connections that it has not seen end. Otherwise it
/// turns the victim away, rightly.
const OPEN_MAX: u32 = 20_000;
const OTHER_DESCRIPTORS: u32 = 4096;
/// How long the first of them may take.
const FILL_DEADLINE: Duration = Duration::from_secs(60);
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
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// What the figures of the victim in one weather are called.
#[derive(Clone, Copy)]
struct Names {
    p99: &'static str,
    /// Of the sets among them.
    writes: &'static str,
    /// The first, divided by that of the same server just before, when nobody else asked anything.
    times: &'static str,
    /// The same where another server on this machine is asked all that: what the machine is short
    /// of, and no server can help.
    elsewhere: &'static str,
}

macro_rules! names {
    ($name:expr) => {
        $crate::storm::Names {
            p99: concat!("p99 us, ", $name),
            writes: concat!("p99 us of sets, ", $name),
            times: concat!("times its usual p99, ", $name),
            elsewhere: concat!("times its usual p99, at another server, ", $name),
        }
    };
}
use names;

const ALONE: Names = names!("alone");

#[derive(Clone, Copy)]
enum Kind {
    None,
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
            Self::None => ALONE,
            Self::Connections { .. } => names!("connections come and go"),
            Self::Unread => names!("a client never reads"),
            Self::Listings { .. } => names!("50 list a million children"),
            Self::Shape(shape) => shape.names,
        }
    }

    /// How many spans it takes until it has happened, at least once, while it is measured.
    const fn spans(self) -> u32 {
        match self {
            Self::None | Self::Connections { .. } | Self::Unread | Self::Listings { .. } => 1,
            Self::Shape(shape) => shape.spans,
        }
    }

    /// So many a second, where that is of interest.
    const fn what_it_does(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Unread | Self::Shape(_) => None,
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

/// A storm that goes on until it is told to stop.
struct Storm<'a> {
    target: Target,
    over: &'a AtomicBool,
    /// What it has done: connections opened, listings read, shapes sent.
    done: &'a AtomicU64,
    /// Why one of its clients could not go on: then it is no storm that was measured.
    fallen: &'a Mutex<Option<io::Error>>,
}

impl Storm<'_> {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps `share` connections open: for each new one the oldest goes, without a closeSession.
    /// Whom the server turns away tries again.
    fn come_and_go(&self, share: u32, numbers: &AtomicU32, filled: &AtomicU32) {
        let mut open = VecDeque::new();
        let mut is_full = false;
        while self.goes_on() {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            let turned_away = match Connection::open(self.target.server, number) {
                Ok(connection) => {
                    open.push_back(connection);
                    self.count();
                    false
                }
                Err(_) => true,
            };
            if turned_away || open.len() > share as usize {
                open.pop_front();
                if !std::mem::replace(&mut is_full, true) {
                    filled.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Ends the storm if a client of it could not do what it is there for.
    fn must(&self, done: io::Result<()>) {
        if let Err(error) = done
            && self.goes_on()
        {
            self.over.store(true, Ordering::Relaxed);
            *self.fallen.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Asks without end, and reads nothing.
    fn never_read(&self) -> io::Result<()> {
        let mut connection = Connection::open(self.target.server, 0)?;
        connection.unblock()?;
        let frame = request::frame(1, &request::get(ROOT, false));
        while self.goes_on() {
            connection.out().extend_from_slice(&frame);
            while !connection.flush()? && self.goes_on() {
                thread::sleep(BETWEEN_LOOKS);
            }
            self.count();
        }
        Ok(())
    }

    /// Does it again where the server may end the connection, and has.
    fn again(&self, may_be_cut: bool, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
        while self.goes_on() {
            match act() {
                Err(error) if !(may_be_cut && is_cut(&error)) => return Err(error),
                Err(_) => thread::sleep(BETWEEN_LOOKS),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn list(&self, number: u32) -> io::Result<()> {
        let mut connection = Connection::open(self.target.server, number)?;
        let list = Request::GetChildren(WatchRequest { path: ROOT.into(), watch: false });
        while self.goes_on() {
            connection.pass_over(&list)?;
            self.count();
        }
        Ok(())
    }
}

/// Whether it says that the server has ended a connection, or itself.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionRefused | BrokenPipe)
}

/// The latencies of the victim in one weather.
struct Weather {
    latency: Histogram<u64>,
    /// Those of its sets.
    writes: Histogram<u64>,
    done_a_second: f64,
}

fn p99_us(latency: &Histogram<u64>) -> f64 {
    latency.value_at_quantile(0.99) as f64 / 1e3
}

impl Weather {
    fn put(&self, names: Names, figures: &mut Figures) {
        figures.insert(names.p99, p99_us(&self.latency));
        figures.insert(names.writes, p99_us(&self.writes));
    }

    fn timeouts(&self) -> f64 {
        let from = u64::try_from(TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
        self.latency.count_between(from, self.latency.high()) as f64
    }
}

/// A tree of `launch.znodes` children of one parent, and the latencies
/// beside what has `part` in its name, or beside everything.
pub(crate) fn figures(
    launch: &Launch<'_>,
    value_len: usize,
    spans: &Spans,
    part: Option<&str>,
) -> io::Result<Figures> {
    let is_wanted = |names: Names| part.is_none_or(|part| names.p99.contains(part));
    let server = || {
        let subject = launch.fresh()?;
        population::create(subject.address(), launch.znodes, value_len)?;
        io::Result::Ok(subject)
    };
    let subject = server()?;
    let target =
        |subject: &Subject| Target { server: subject.address(), metrics: subject.address() };
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
    spans.steady.reach_under(launch.kind, &[subject.address()], &load)?;
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let descriptors = u32::try_from(descriptors).unwrap_or(u32::MAX);
    let most = descriptors.saturating_sub(OTHER_DESCRIPTORS).min(spans.scaled(OPEN_MAX));
    let listers = spans.scaled(LISTERS);
    let mut figures = Figures::new();
    let mut timeouts = 0.0;
    let mut fallen = 0;
    let weathers = [Kind::Unread, Kind::Connections { most }, Kind::Listings { listers }];
    for kind in weathers.into_iter().filter(|kind| is_wanted(kind.names())) {
        wait_for_calm(&subject);
        let other = server()?;
        let elsewhere = (target(&other), other);
        match beside(&subject, target(&subject), elsewhere, &load, kind, &mut figures)? {
            Some(weather) => {
                timeouts += weather.timeouts();
                if let Some(done) = kind.what_it_does() {
                    figures.insert(done, weather.done_a_second);
                }
            }
            None => fallen += 1,
        }
    }
    if launch.kind == subject::Kind::Ferrokeeper {
        drop(subject);
        let shaped = beside_shapes(launch, &load, value_len, is_wanted)?;
        timeouts += shaped.timeouts;
        fallen += shaped.fallen;
        figures.extend(shaped.figures);
    }
    figures.insert("timeouts", timeouts);
    figures.insert("storms that ended it, or the victim's connections", f64::from(fallen));
    Ok(figures)
}

/// What the shapes did.
struct Shaped {
    figures: Figures,
    timeouts: f64,
    fallen: u32,
}

/// Each shape on a server of its own: what one leaves is not the next one's. Apache ZooKeeper is
/// spared them.
fn beside_shapes(
    launch: &Launch<'_>,
    load: &Load,
    value_len: usize,
    is_wanted: impl Fn(Names) -> bool,
) -> io::Result<Shaped> {
    let mut shaped = Shaped { figures: Figures::new(), timeouts: 0.0, fallen: 0 };
    for shape in SHAPES.iter().filter(|shape| is_wanted(shape.names)) {
        let server = || {
            let [port] = subject::free_ports()?;
            let metrics = (Ipv4Addr::LOCALHOST, port).into();
            let settings = format!("{QUOTAS}{METRICS}metricsProvider.httpPort={port}\n");
            let launch = Launch { settings, ..launch.clone() };
            let subject = launch.fresh()?;
            population::create(subject.address(), launch.znodes, value_len)?;
            shapes::prepare(subject.address())?;
            let target = Target { server: subject.address(), metrics };
            io::Result::Ok((target, subject))
        };
        let ((storm, subject), elsewhere) = (server()?, server()?);
        let kind = Kind::Shape(shape);
        match beside(&subject, storm, elsewhere, load, kind, &mut shaped.figures)? {
            Some(weather) => shaped.timeouts += weather.timeouts(),
            None => shaped.fallen += 1,
        }
        if let (Some(name), Ok(peak)) = (shape.peak, subject.peak_rss()) {
            shaped.figures.insert(name, peak as f64 / 1e6);
        }
    }
    Ok(shaped)
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
/// them. None where the storm ended the server or the victim's connections: a finding.
fn beside(
    subject: &Subject,
    storm: Target,
    (elsewhere, other): (Target, Subject),
    load: &Load,
    kind: Kind,
    figures: &mut Figures,
) -> io::Result<Option<Weather>> {
    subject.rest()?;
    let alone = under(subject, storm, load, Kind::None)?;
    alone.put(ALONE, figures);
    let usual = p99_us(&alone.latency);
    let names = kind.names();
    let machine = under(subject, elsewhere, load, kind)?;
    figures.insert(names.elsewhere, p99_us(&machine.latency) / usual);
    // What it has left to do is nothing that the victim's server meets.
    drop(other);
    subject.forget_peak()?;
    let weather = match under(subject, storm, load, kind) {
        Ok(weather) => weather,
        Err(Fallen::Storm(error)) => return Err(error),
        Err(Fallen::Victim(error)) => {
            // Whoever gets no answer waits for ever.
            crate::tell(&format!("the victim fell: {error}"));
            figures.insert(names.p99, NO_ANSWERS);
            figures.insert(names.times, NO_ANSWERS);
            return Ok(None);
        }
    };
    weather.put(names, figures);
    figures.insert(names.times, p99_us(&weather.latency) / usual);
    Ok(Some(weather))
}

/// Who could not go on.
enum Fallen {
    /// The victim: a finding.
    Victim(io::Error),
    /// The storm: there was none.
    Storm(io::Error),
}

impl From<Fallen> for io::Error {
    fn from(fallen: Fallen) -> Self {
        match fallen {
            Fallen::Victim(error) | Fallen::Storm(error) => error,
        }
    }
}

/// Measures the victim while a storm goes on, from when it is there.
fn under(subject: &Subject, target: Target, load: &Load, kind: Kind) -> Result<Weather, Fallen> {
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (numbers, filled) = (AtomicU32::new(CONNECTIONS), AtomicU32::new(0));
    let fallen = Mutex::new(None);
    let storm = Storm { target, over: &over, done: &done, fallen: &fallen };
    let named = |error| io::Error::other(format!("{}: {error}", kind.names().p99));
    let load = &Load { measured: load.measured * kind.spans(), ..load.clone() };
    thread::scope(|scope| {
        let storm = &storm;
        match kind {
            Kind::None => {}
            Kind::Connections { most } => {
                let (numbers, filled) = (&numbers, &filled);
                for _ in 0..OPENERS {
                    scope.spawn(move || storm.come_and_go(most / OPENERS, numbers, filled));
                }
                let deadline = Instant::now() + FILL_DEADLINE;
                while filled.load(Ordering::Relaxed) < OPENERS && Instant::now() < deadline {
                    thread::sleep(BETWEEN_LOOKS);
                }
            }
            Kind::Unread => {
                scope.spawn(|| storm.must(storm.again(true, || storm.never_read())));
            }
            Kind::Shape(shape) => {
                for client in 0..shape.clients {
                    let act = move || (shape.act)(storm, client);
                    scope.spawn(move || storm.must(storm.again(shape.may_be_cut, act)));
                }
            }
            Kind::Listings { listers } => {
                for number in 0..listers {
                    scope.spawn(move || storm.must(storm.again(true, || storm.list(number))));
                }
            }
        }
        let (mut before, mut after) = (0, 0);
        let count = || done.load(Ordering::Relaxed);
        // Some need a million watches, or thousands of connections, before they do anything.
        let deadline = Instant::now() + FILL_DEADLINE;
        let begins = !matches!(kind, Kind::None);
        while begins && count() == 0 && storm.goes_on() && Instant::now() < deadline {
            thread::sleep(BETWEEN_LOOKS);
        }
        let measured =
            load::run(&[subject.address()], load, || before = count(), || after = count());
        over.store(true, Ordering::Relaxed);
        // Where the server is gone, the storm has nobody to speak to either.
        let measured = measured.map_err(|error| Fallen::Victim(named(error)))?;
        if let Some(error) = fallen.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Fallen::Storm(named(error)));
        }
        if begins && after == before {
            let error = io::Error::other("the storm did nothing while it was measured");
            return Err(Fallen::Storm(named(error)));
        }
        let done_a_second = (after - before) as f64 / load.measured.as_secs_f64();
        let load::Measured { latency, writes, .. } = measured;
        Ok(Weather { latency, writes, done_a_second })
    })
}
