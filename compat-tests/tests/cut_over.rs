//! The change from Apache ZooKeeper to the server under test on a large tree: how long clients are
//! without a server, and that none of them loses its session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use compat_tests::held_sessions::HeldSessions;
use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, Kind, RawClient, Server, Session, count, run_the_release};

const PARENTS: usize = 1_000;
const CHILDREN: usize = 1_000;
/// Fewer than ZooKeeper takes a snapshot after: a start replays all of them.
const SETS: usize = 45_000;
const CLIENTS: usize = 200;
const SESSION_MS: u32 = 6_000;

/// A million znodes of 100 bytes in a snapshot of ZooKeeper, and transactions after it.
fn populate(server: &mut Server) {
    let mut client = server.connect(20_000);
    let create =
        |path: &str| (op::CREATE, request::create(path, Some(&[b'x'; 100]), mode::PERSISTENT));
    let body = request::create("/tree", None, mode::PERSISTENT);
    assert_eq!(client.call(op::CREATE, &body).expect("a reply").err, 0);
    for parent in 0..PARENTS {
        let parent = format!("/tree/{parent}");
        let mut parts = vec![create(&parent)];
        parts.extend((0..CHILDREN).map(|child| create(&format!("{parent}/child-{child}"))));
        let reply = client.call(op::MULTI, &request::multi(&parts)).expect("a reply");
        assert_eq!(reply.err, 0);
    }
    client.close().expect("the session closes");
    server.stop();
    // Which takes a snapshot.
    server.restart();
    let mut client = server.connect(20_000);
    for first in (0..SETS).step_by(100) {
        let set = |n: usize| {
            let path = format!("/tree/{}/child-{}", n % PARENTS, n % CHILDREN);
            (op::SET_DATA, request::set_data(&path, &[b'y'; 100], -1))
        };
        let requests: Vec<(i32, Vec<u8>)> = (first..first + 100).map(set).collect();
        let replies = client.call_all(&requests).expect("replies");
        assert!(replies.iter().all(|reply| reply.err == 0));
    }
    client.close().expect("the session closes");
}

/// A client that asks all the time, and attaches again as soon as somebody listens.
struct Observer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Instant>>,
}

impl Observer {
    fn start(server: &Server) -> Self {
        let mut client = server.connect(20_000);
        let session = client.session.clone().expect("a session");
        let address = server.address();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut replies = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                match client.call(op::EXISTS, &request::path_watch("/tree", false)) {
                    Ok(reply) => {
                        assert_eq!(reply.err, 0);
                        replies.push(Instant::now());
                        thread::sleep(Duration::from_millis(1));
                    }
                    Err(_) => client = attach(address, &session),
                }
            }
            client.close().expect("the session closes");
            replies
        });
        Self { stop, thread }
    }

    /// The last reply before the longest silence, and the first one after it.
    fn finish(self) -> (Instant, Instant) {
        self.stop.store(true, Ordering::Relaxed);
        let replies = self.thread.join().expect("the observer runs through");
        let pairs = replies.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.max_by_key(|(last, first)| *first - *last).expect("replies")
    }
}

fn attach(address: std::net::SocketAddr, session: &Session) -> RawClient {
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        match RawClient::open(address, &ConnectRequest::again(session)) {
            Ok((client, again)) => {
                assert_eq!(again.id, session.id, "the session is kept");
                return client;
            }
            Err(error) => assert!(Instant::now() < deadline, "nobody serves: {error}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "scripts/test --all"]
fn nobody_loses_a_session_over_a_million_znodes() {
    run_the_release();
    let mut server = Server::start(Kind::Reference, &[]);
    populate(&mut server);
    for round in 1..=count("CUT_OVER_ROUNDS", 1) {
        let mut clients = HeldSessions::of_curator(server.address(), CLIENTS, SESSION_MS);
        let observer = Observer::start(&server);
        // All have sent some pings.
        thread::sleep(Duration::from_secs(5));
        server.stop();
        let ended = Instant::now();
        server.hand_over_to(Kind::subject());
        server.restart();
        let report = clients.report();
        assert_eq!(report.len(), CLIENTS);
        for (path, held) in &report {
            assert!(held.suspended > 0, "{path} was there at the change");
            assert_eq!((held.lost, held.owner, held.locked), (0, held.session, true), "{path}");
        }
        let (last, first) = observer.finish();
        show(&format!(
            "change {round}: {} ms from ZooKeeper's last reply to the first one behind it, {} ms \
             of them until its process had ended",
            (first - last).as_millis(),
            ended.saturating_duration_since(last).as_millis()
        ));
        clients.finish();
        server.stop();
        server.hand_over_to(Kind::Reference);
        server.restart();
    }
}

/// For whoever runs it: how long it took depends on the machine.
#[expect(clippy::print_stdout, reason = "the figure")]
fn show(line: &str) {
    println!("{line}");
}
