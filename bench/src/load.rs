//! The load: connections that keep a window of requests in flight, or that send at a fixed rate
//! whatever the answers do.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{Timespec, epoll};

use crate::connection::Connection;
use crate::request::{Requests, Workload};

/// Threads of the load: connections are dealt out to them.
const THREADS: u32 = 2;
/// Answers still out when the time is over are waited for no longer than this.
const DRAIN: Duration = Duration::from_secs(30);

/// How requests follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// Closed: this many in flight on each connection.
    Window(u32),
    /// Open: this many a second over all connections; a latency counts from the instant at which
    /// the request was due.
    Rate(f64),
}

/// A load of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) workload: Workload,
    pub(crate) connections: u32,
    pub(crate) pace: Pace,
    pub(crate) value_len: usize,
    pub(crate) keys: NonZeroU32,
    /// Before measuring.
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    /// Where the course of the latencies is wanted too: one histogram for each such piece of the
    /// time.
    pub(crate) slice: Option<Duration>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) operations: u64,
    /// In nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// Those of the requests that change something, where a load asks both.
    pub(crate) writes: Histogram<u64>,
    /// The latencies of the answers that came in each slice of the time, in microseconds.
    pub(crate) slices: Vec<Histogram<u32>>,
}

impl Measured {
    fn none() -> Self {
        let latency = Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("valid bounds");
        Self { operations: 0, writes: latency.clone(), latency, slices: Vec::new() }
    }

    fn record(
        &mut self,
        latency: Duration,
        is_write: bool,
        since_start: Duration,
        slice: Option<Duration>,
    ) {
        self.operations += 1;
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency.saturating_record(nanos);
        if is_write {
            self.writes.saturating_record(nanos);
        }
        if let Some(slice) = slice {
            let number = (since_start.as_nanos() / slice.as_nanos().max(1)) as usize;
            while self.slices.len() <= number {
                self.slices.push(slice_histogram());
            }
            self.slices[number].saturating_record(nanos / 1_000);
        }
    }

    fn add(&mut self, part: &Self) {
        self.operations += part.operations;
        self.latency.add(&part.latency).expect("equal bounds");
        self.writes.add(&part.writes).expect("equal bounds");
        while self.slices.len() < part.slices.len() {
            self.slices.push(slice_histogram());
        }
        for (sum, slice) in self.slices.iter_mut().zip(&part.slices) {
            sum.add(slice).expect("equal bounds");
        }
    }
}

/// Of one slice: up to a minute, two digits, and small, because there are many.
pub(crate) fn slice_histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, 60_000_000, 2).expect("valid bounds")
}

/// A connection, what it asks and since when the answers are due.
struct Client {
    connection: Connection,
    requests: Requests,
    /// When each request in flight began, the oldest first.
    since: VecDeque<Instant>,
    answered: u32,
    /// Whether the socket took less than all.
    stuck: bool,
}

/// Runs the load, its connections dealt out to the servers; `at_start` and `at_end` are called when
/// measuring begins and ends.
pub(crate) fn run(
    servers: &[SocketAddr],
    load: &Load,
    at_start: impl FnOnce(),
    at_end: impl FnOnce(),
) -> io::Result<Measured> {
    let threads = THREADS.min(load.connections);
    let mut shares: Vec<Vec<Client>> = (0..threads).map(|_| Vec::new()).collect();
    let value = vec![b'v'; load.value_len];
    for (number, server) in (0..load.connections).zip(servers.iter().cycle()) {
        let mut connection = Connection::open(*server, number)?;
        connection.unblock()?;
        let requests = Requests::new(load.workload, number, load.keys.get(), &value);
        let since = VecDeque::new();
        let client = Client { connection, requests, since, answered: 0, stuck: false };
        shares[(number % threads) as usize].push(client);
    }
    let start = Instant::now() + load.warm_up;
    let end = start + load.measured;
    thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|clients| scope.spawn(move || drive(clients, load, threads, start, end)))
            .collect();
        thread::sleep(start.saturating_duration_since(Instant::now()));
        at_start();
        thread::sleep(end.saturating_duration_since(Instant::now()));
        at_end();
        let mut sum = Measured::none();
        for thread in threads {
            sum.add(&thread.join().expect("a load thread does not panic")?);
        }
        Ok(sum)
    })
}

/// One thread's share of the clients, from now until `end`.
fn drive(
    mut clients: Vec<Client>,
    load: &Load,
    threads: u32,
    start: Instant,
    end: Instant,
) -> io::Result<Measured> {
    // Otherwise the kernel wakes a sleeper up to 50 us late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, client) in (0..).zip(&clients) {
        let flags = epoll::EventFlags::IN;
        epoll::add(&ready, &client.connection, epoll::EventData::new_u64(number), flags)?;
    }
    let mut measured = Measured::none();
    let mut schedule = match load.pace {
        Pace::Window(window) => {
            let now = Instant::now();
            for client in &mut clients {
                client.top_up(window, now)?;
            }
            None
        }
        Pace::Rate(rate) => {
            let gap = Duration::from_secs_f64(f64::from(threads) / rate);
            Some(Schedule { due: Instant::now(), gap, next: 0 })
        }
    };
    let mut events = Vec::with_capacity(1024);
    loop {
        let now = Instant::now();
        if now >= end {
            break;
        }
        let mut timeout = end - now;
        if let Some(schedule) = &mut schedule {
            schedule.send(&mut clients, now)?;
            timeout = timeout.min(schedule.due.saturating_duration_since(Instant::now()));
        }
        wait(&ready, &mut events, timeout)?;
        for event in events.drain(..) {
            let event: epoll::Event = event;
            let client = &mut clients[event.data.u64() as usize];
            client.receive(start, load.slice, &mut measured)?;
            if let Pace::Window(window) = load.pace {
                client.top_up(window, Instant::now())?;
            }
        }
    }
    drain(&mut clients, &ready)?;
    Ok(measured)
}

/// Waits until all is answered, so that the next load finds a server at rest.
fn drain(clients: &mut [Client], ready: &impl std::os::fd::AsFd) -> io::Result<()> {
    let deadline = Instant::now() + DRAIN;
    let mut events = Vec::with_capacity(1024);
    let mut ignored = Measured::none();
    while clients.iter().any(|client| !client.since.is_empty()) {
        if Instant::now() > deadline {
            return Err(io::Error::other("answers are missing 30 s after the end"));
        }
        for client in clients.iter_mut().filter(|client| client.stuck) {
            client.stuck = !client.connection.flush()?;
        }
        wait(ready, &mut events, Duration::from_millis(10))?;
        for event in events.drain(..) {
            let event: epoll::Event = event;
            clients[event.data.u64() as usize].receive(deadline, None, &mut ignored)?;
        }
    }
    Ok(())
}

fn wait(
    ready: &impl std::os::fd::AsFd,
    events: &mut Vec<epoll::Event>,
    timeout: Duration,
) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: timeout.as_secs().cast_signed(),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    match epoll::wait(ready, rustix::buffer::spare_capacity(events), Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Client {
    /// Fills the window.
    fn top_up(&mut self, window: u32, now: Instant) -> io::Result<()> {
        if !self.stuck && self.since.len() < window as usize {
            while self.since.len() < window as usize {
                self.requests.put_next(self.connection.out());
                self.since.push_back(now);
            }
        }
        self.stuck = !self.connection.flush()?;
        Ok(())
    }

    /// Takes the answers that are there; what came from `start` on is measured.
    fn receive(
        &mut self,
        start: Instant,
        slice: Option<Duration>,
        measured: &mut Measured,
    ) -> io::Result<()> {
        let Self { connection, requests, since, answered, .. } = self;
        let mut wrong = None;
        let mut now = None;
        connection.receive(|head| {
            let now = *now.get_or_insert_with(Instant::now);
            let (Some(began), xid) = (since.pop_front(), requests.xid_of(*answered)) else {
                wrong = Some(format!("an answer to no request: {head:?}"));
                return;
            };
            let is_write = requests.is_set_among_gets(*answered);
            *answered = answered.wrapping_add(1);
            if head.xid != xid || head.error != 0 {
                wrong = Some(format!("{head:?} where the answer to {xid} is due"));
            }
            if now >= start {
                measured.record(now - began, is_write, now - start, slice);
            }
        })?;
        wrong.map_or(Ok(()), |wrong| Err(io::Error::other(wrong)))
    }
}

/// When requests of an open loop are due, and on which connection.
struct Schedule {
    due: Instant,
    gap: Duration,
    next: usize,
}

impl Schedule {
    /// Sends what is due: at once what one connection has to send, so that a generator that got its
    /// core late does not need more of it than one that is on time.
    fn send(&mut self, clients: &mut [Client], now: Instant) -> io::Result<()> {
        let first = self.next;
        while self.due <= now {
            let client = &mut clients[self.next % clients.len()];
            client.requests.put_next(client.connection.out());
            client.since.push_back(self.due);
            self.next += 1;
            self.due += self.gap;
        }
        for number in first..self.next.min(first + clients.len()) {
            let client = &mut clients[number % clients.len()];
            client.stuck = !client.connection.flush()?;
        }
        Ok(())
    }
}
