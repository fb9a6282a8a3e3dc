//! Crowds of connections that want nothing, on every port: whoever wants something is heard, and
//! the log has its files.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, Ensemble, Kind, RawClient, Server, http, metrics_page};

const ON: &str = "admin.enableServer=true";
const TIMEOUT: i32 = 30_000;

fn crowd(address: SocketAddr, size: usize) -> Vec<TcpStream> {
    (0..size).map(|_| TcpStream::connect(address).expect("a connection")).collect()
}

/// Sessions until one is refused.
fn clients(address: SocketAddr, most: usize) -> Vec<RawClient> {
    let open = |_| RawClient::open(address, &ConnectRequest::new(TIMEOUT)).ok();
    (0..most).map_while(open).map(|(client, _)| client).collect()
}

/// The newest file of its log: a member keeps no more of them than it needs.
fn segment(server: &Server) -> Option<u64> {
    let files = fs::read_dir(server.data_dir().join("version-2")).expect("it is there");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    names.filter_map(|name| u64::from_str_radix(name.strip_prefix("log.")?, 16).ok()).max()
}

/// Writes until each has begun three new files.
fn write(client: &mut RawClient, servers: &[&Server]) -> usize {
    let mut count = 0;
    for _ in 0..3 {
        let before: Vec<Option<u64>> = servers.iter().map(|server| segment(server)).collect();
        while servers.iter().zip(&before).any(|(server, before)| segment(server) == *before) {
            create(client, count, 50);
            count += 50;
            assert!(count < 10_000, "a log stays as it is: {before:?}");
        }
    }
    count
}

fn create(client: &mut RawClient, from: usize, count: usize) {
    for number in from..from + count {
        let path = format!("/n{number}");
        let reply = client.call(op::CREATE, &request::create(&path, None, mode::PERSISTENT));
        assert_eq!(reply.expect("a reply").err, 0, "{path}");
    }
}

fn children(client: &mut RawClient) -> usize {
    let reply = client.call(op::GET_CHILDREN, &request::path_watch("/", false)).expect("a reply");
    reply.children().iter().filter(|name| name.starts_with('n')).count()
}

#[test]
fn idle_connections_keep_no_probe_out() {
    let server = Server::start(Kind::Ferrokeeper, &[ON, metrics_page::PROVIDER]);
    let config = fs::read_to_string(server.config_file()).expect("it is there");
    let port = config.lines().find_map(|line| line.strip_prefix("metricsProvider.httpPort="));
    let metrics =
        SocketAddr::new([127, 0, 0, 1].into(), port.expect("it is told").parse().expect("a port"));
    let _idle = [crowd(server.admin(), 64), crowd(metrics, 64)];
    for _ in 0..20 {
        let live = http::get(server.admin(), "/health/live", &[]).expect("an answer");
        assert_eq!(live.status, 200);
        let page = http::get(metrics, "/metrics", &[]).expect("an answer");
        assert!(page.text().contains("znode_count"), "{}", page.status);
    }
}

/// Files and sockets of a process.
fn open_files(process: u32) -> BTreeSet<u32> {
    let all = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    let number = |name: std::ffi::OsString| name.to_string_lossy().parse().ok();
    all.filter_map(|one| number(one.ok()?.file_name())).collect()
}

#[test]
fn the_log_has_a_new_file_where_the_process_can_open_none() {
    let mut server = Server::start(Kind::Ferrokeeper, &["snapCount=100", "preAllocSize=64"]);
    let mut client = server.connect(TIMEOUT);
    let mut others = Vec::new();
    // Until there is no gap in their numbers.
    let most = loop {
        others.push(server.connect(TIMEOUT));
        let open = open_files(server.process());
        let most = open.len() as u32;
        if open.last() == Some(&(most - 1)) {
            break most;
        }
    };
    let process = server.process().to_string();
    let limited = Command::new("prlimit")
        .args(["--pid", &process, &format!("--nofile={most}:{most}")])
        .status();
    assert!(limited.expect("it runs").success());
    let count = write(&mut client, &[&server]);
    server.kill();
    server.restart();
    assert_eq!(children(&mut server.connect(TIMEOUT)), count);
}

#[test]
fn crowds_on_all_ports_leave_the_log_its_files() {
    let lines = [ON, metrics_page::PROVIDER, "#open.files=256", "snapCount=100", "preAllocSize=64"];
    let mut ensemble = Ensemble::start(Kind::Ferrokeeper, &lines);
    let mut client = ensemble.server(0).connect(TIMEOUT);
    let config = fs::read_to_string(ensemble.server(0).config_file()).expect("it is there");
    let (mut idle, mut sessions) = (Vec::new(), Vec::new());
    for line in config.lines().filter(|line| line.starts_with("server.")) {
        let port = line.rsplit(':').nth(1).expect("a port").parse().expect("a number");
        idle.push(crowd(SocketAddr::new([127, 0, 0, 1].into(), port), 200));
    }
    for server in ensemble.servers() {
        idle.push(crowd(server.admin(), 40));
        sessions.push(clients(server.address(), 256));
    }
    assert!(sessions.iter().all(|some| (60..256).contains(&some.len())));
    let count = write(&mut client, &ensemble.servers().iter().collect::<Vec<_>>());
    for server in ensemble.servers() {
        let log = server.log();
        assert!(!log.contains("Too many open files"), "{log}");
        let live = http::get(server.admin(), "/health/live", &[]).expect("an answer");
        assert_eq!(live.status, 200);
    }
    drop((idle, sessions, client));
    ensemble.kill();
    ensemble.start_again();
    for server in ensemble.servers() {
        assert_eq!(children(&mut server.connect(TIMEOUT)), count);
    }
}
