//! Copies of a member's directory that are started beside it, or in its place.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jute::CreateMode;

use crate::client::{Client, DEADLINE, create, set, until};
use crate::ensemble::{Patient, leader, mode};
use crate::process::{Server, free_port};

const TIMEOUT_MS: i32 = 10_000;
/// The place of the server whose directory is copied; it follows.
const AT: usize = 2;

/// What stands for an address of which the servers agree and which moves: where it leads is
/// changed, and what goes through it stays as it is.
struct Address {
    port: u16,
    leads_to: Arc<AtomicU16>,
}

impl Address {
    fn new(leads_to: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let leads_to = Arc::new(AtomicU16::new(leads_to));
        let to = Arc::clone(&leads_to);
        thread::spawn(move || {
            for caller in listener.incoming() {
                let called = TcpStream::connect((Ipv4Addr::LOCALHOST, to.load(Ordering::Relaxed)));
                // Nobody there is what the caller sees, too.
                if let (Ok(caller), Ok(called)) = (caller, called) {
                    let clone = |stream: &TcpStream| stream.try_clone().expect("a stream");
                    pass(clone(&caller), clone(&called));
                    pass(called, caller);
                }
            }
        });
        Self { port, leads_to }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        // However it ends, it ends there, too.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// Three servers, of which the third follows.
struct Trio {
    servers: Vec<Server>,
    lines: [String; 3],
    /// Where the others find the third.
    address: Address,
}

fn prepare(lines: &[String], id: usize) -> Server {
    let server = Server::prepare(&format!("initLimit=10\nsyncLimit=5\n{}", lines.join("\n")));
    fs::write(server.data().join("myid"), id.to_string()).expect("myid");
    server
}

/// A server that runs may meanwhile take away what it wrote beside a file, to put it in its place.
fn copy_data(from: &Server, to: &Server) {
    let (from, to) = (from.data().join("version-2"), to.data().join("version-2"));
    fs::create_dir_all(&to).expect("a folder");
    for entry in fs::read_dir(from).expect("lists") {
        let entry = entry.expect("an entry");
        match fs::copy(entry.path(), to.join(entry.file_name())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => drop(copied.expect("copies")),
        }
    }
}

impl Trio {
    fn start() -> Self {
        let ports = [free_port(), free_port(), free_port()];
        let address = Address::new(ports[AT]);
        let mut id = 0;
        let lines = ports.map(|port| {
            id += 1;
            format!("server.{id}=127.0.0.1:{port}:{}", free_port())
        });
        let seen = [
            lines[0].clone(),
            lines[1].clone(),
            format!("server.3=127.0.0.1:{}:{}", address.port, free_port()),
        ];
        let mut servers = vec![prepare(&seen, 1), prepare(&seen, 2), prepare(&lines, 3)];
        servers.iter_mut().for_each(Server::run);
        let trio = Self { servers, lines, address };
        trio.settle();
        trio
    }

    /// Until one of the first two leads and all serve.
    fn settle(&self) {
        until("one of the first two leads", || {
            let modes: Vec<String> = self.servers.iter().map(mode).collect();
            if modes[AT] == "leader" {
                self.servers[AT].signal("USR1");
            }
            modes[AT] == "follower" && !modes.contains(&"none".to_owned())
        });
    }

    /// A copy of the third's directory as it is now, for a server with ports of its own.
    fn copy(&self) -> (Server, u16) {
        let port = free_port();
        let mut lines = self.lines.clone();
        lines[AT] = format!("server.3=127.0.0.1:{port}:{}", free_port());
        let copy = prepare(&lines, 3);
        copy_data(&self.servers[AT], &copy);
        (copy, port)
    }

    /// How often the first two have lost the third, and it them.
    fn breaks(&self) -> [usize; 3] {
        let count = |server: &Server, word: &str| server.log().matches(word).count();
        let lost = |server| {
            count(server, "lost the connection to a server of the ensemble peer=3")
                + count(server, "it has connected again")
        };
        let others = count(&self.servers[AT], "lost the connection to a server of the ensemble");
        [lost(&self.servers[0]), lost(&self.servers[1]), others]
    }

    fn kill_third(&mut self) {
        self.servers[AT].signal("KILL");
        self.servers[AT].wait();
    }
}

fn says(server: &Server, what: &str) {
    let began = Instant::now();
    while !server.log().contains(what) {
        assert!(began.elapsed() < DEADLINE, "it does not say {what:?}: {}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a copy that is refused for good. Gives what it said.
fn ends(copy: &mut Server, id: &str) -> String {
    let status = copy.run_to_its_end();
    let log = copy.log();
    assert!(!status.success(), "{status:?}: {log}");
    assert!(log.contains(id), "{log}");
    log
}

#[test]
fn a_copy_beside_its_running_original_is_refused_and_nobody_notices() {
    let trio = Trio::start();
    let mut client = Client::connect(trio.servers[AT].address(), TIMEOUT_MS);
    client.ok(&create("/a", vec![], CreateMode::Persistent));
    let (mut copy, _) = trio.copy();
    let before = trio.breaks();
    copy.run();
    says(&copy, "[FK0436]");
    says(&copy, "myid 3 is in use: another process runs as server 3 from 127.0.0.1:");
    says(&trio.servers[AT], "[FK0437]");
    // Long enough for many attempts. No client of it has to connect again.
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(50));
        client.exists("/a");
    }
    assert_eq!(mode(&copy), "none");
    let refusals = copy.log().matches("[FK0436]").count();
    assert!((1..=2).contains(&refusals), "one of each of the others: {}", copy.log());
    let told = trio.servers[AT].log().matches("[FK0437]").count();
    assert!((1..=2).contains(&told), "by each of the others: {}", trio.servers[AT].log());
    assert_eq!(trio.breaks(), before, "{}", trio.servers[AT].log());
    // What is written now the copy does not have: it ends, and never comes back.
    (0..20).for_each(|number| drop(client.ok(&set("/a", vec![number]))));
    let status = copy.wait();
    assert!(!status.success(), "{status}");
    assert!(copy.log().contains("[FK0410]"), "{}", copy.log());
    client.ok(&set("/a", vec![99]));
    assert_eq!(trio.breaks(), before);
}

#[test]
fn who_takes_the_place_of_a_dead_process_need_not_wait() {
    let mut trio = Trio::start();
    let mut client = Patient::connect(&trio.servers[0], TIMEOUT_MS);
    client.ok(&create("/a", vec![1], CreateMode::Persistent));
    trio.kill_third();
    let (mut copy, port) = trio.copy();
    trio.address.leads_to.store(port, Ordering::Relaxed);
    copy.run();
    until("it follows", || mode(&copy) == "follower");
    assert_eq!(Patient::connect(&copy, TIMEOUT_MS).value("/a"), [1]);
    for server in &trio.servers[..AT] {
        assert!(!server.log().contains("does not answer"), "{}", server.log());
    }
}

#[test]
fn a_frozen_process_is_replaced_and_ends_when_it_wakes() {
    let mut trio = Trio::start();
    let mut client = Patient::connect(&trio.servers[0], TIMEOUT_MS);
    client.ok(&create("/a", vec![1], CreateMode::Persistent));
    trio.servers[AT].signal("STOP");
    let (mut copy, port) = trio.copy();
    trio.address.leads_to.store(port, Ordering::Relaxed);
    let began = Instant::now();
    copy.run();
    until("it follows", || mode(&copy) == "follower");
    // A start, the time in which a leader is missed, and a busy machine.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    client.ok(&set("/a", vec![2]));
    assert_eq!(Patient::connect(&copy, TIMEOUT_MS).value("/a"), [2]);
    trio.servers[AT].signal("CONT");
    let status = trio.servers[AT].wait();
    let log = trio.servers[AT].log();
    assert!(!status.success() && log.contains("[FK0419]"), "{status}: {log}");
    assert!(log.contains("another process has taken the place of this one as server 3"), "{log}");
    client.ok(&set("/a", vec![3]));
    assert_eq!(mode(&copy), "follower");
    assert_eq!(Patient::connect(&copy, TIMEOUT_MS).value("/a"), [3]);
}

#[test]
fn a_copy_of_before_acknowledged_writes_is_refused_by_name() {
    for is_of_an_earlier_term in [false, true] {
        let mut trio = Trio::start();
        let mut client = Patient::connect(&trio.servers[AT], TIMEOUT_MS);
        client.ok(&create("/a", vec![], CreateMode::Persistent));
        let (mut copy, port) = trio.copy();
        if is_of_an_earlier_term {
            let first = leader(&trio.servers);
            trio.servers[first].signal("USR1");
            until("another leads", || {
                let modes: Vec<String> = trio.servers.iter().map(mode).collect();
                modes[first] == "follower" && modes.contains(&"leader".to_owned())
            });
            trio.settle();
        }
        (0..20).for_each(|number| drop(client.ok(&set("/a", vec![number]))));
        trio.kill_third();
        trio.address.leads_to.store(port, Ordering::Relaxed);
        let log = ends(&mut copy, "[FK0410]");
        assert!(log.contains("server 3 has an older copy of the data directory"), "{log}");
        let leads = leader(&trio.servers[..AT]);
        says(&trio.servers[leads], "refused: server 3 has an older copy of the data directory");
        // It knows it by itself from then on.
        trio.address.leads_to.store(free_port(), Ordering::Relaxed);
        let before = log.len();
        let log = ends(&mut copy, "[FK0410]");
        assert!(!log[before..].contains("connected to a server"), "{}", &log[before..]);
        // As it says, it comes back with what the others have.
        trio.address.leads_to.store(port, Ordering::Relaxed);
        let (_, command) = log[before..].split_once("run `").expect("a command");
        let (command, _) = command.split_once('`').expect("its end");
        assert!(Command::new("sh").args(["-c", command]).status().expect("it runs").success());
        assert!(copy.data().join("given-up-1/raft.state").exists(), "{command}");
        copy.run();
        until("it follows", || mode(&copy) == "follower");
        assert_eq!(Patient::connect(&copy, TIMEOUT_MS).value("/a"), [19]);
    }
}

/// It needs nobody's vote, and hears from who follows it that another one leads.
#[test]
fn a_copy_of_the_only_voter_does_not_lead_beside_it() {
    let line = |id, more| format!("server.{id}=127.0.0.1:{}:{}{more}", free_port(), free_port());
    let (own, observer) = (line(1, ""), line(2, ":observer"));
    let lines = [own, observer.clone()];
    let mut servers = [prepare(&lines, 1), prepare(&lines, 2)];
    servers.iter_mut().for_each(Server::run);
    until("both serve", || mode(&servers[0]) == "leader" && mode(&servers[1]) == "observer");
    let mut copy = prepare(&[line(1, ""), observer], 1);
    copy_data(&servers[0], &copy);
    copy.run();
    says(&copy, "[FK0436]");
    // An election is over in a second.
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(100));
        assert_eq!(mode(&copy), "none");
    }
    assert_eq!(
        (mode(&servers[0]), mode(&servers[1])),
        ("leader".to_owned(), "observer".to_owned())
    );
}
