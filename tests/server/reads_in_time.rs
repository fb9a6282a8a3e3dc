//! Reads that wait in the socket of a server that is stopped (SIGSTOP) while others overwrite what
//! they ask for: when it goes on, nothing is told that is older than `syncLimit`.

use std::fs::{self, DirEntry};
use std::io::{self, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use jute::CreateMode;
use jute::protocol::{ConnectResponse, Request};

use crate::client::{
    Client, Reply, connect_frame, create, data_of, ends, exists, frame, get, open, set, until,
};
use crate::ensemble::{Patient, mode};
use crate::process::{Server, free_port};

const TIMEOUT_MS: i32 = 4000;
/// Five ticks of 200 ms.
const SYNC_LIMIT: Duration = Duration::from_millis(1000);
/// That, and some more.
const LONGER: Duration = Duration::from_millis(1300);
const CLIENTS: usize = 5;

/// Three voters and an observer.
fn start() -> Vec<Server> {
    let lines: Vec<String> = (1..=4)
        .map(|id| {
            let role = if id == 4 { "observer" } else { "participant" };
            format!("server.{id}=127.0.0.1:{}:{}:{role}", free_port(), free_port())
        })
        .collect();
    let config = format!("initLimit=10\nsyncLimit=5\n{}", lines.join("\n"));
    let mut servers: Vec<Server> = (1..=4)
        .map(|id| {
            let server = Server::prepare(&config);
            fs::write(server.data().join("myid"), id.to_string()).expect("myid");
            server
        })
        .collect();
    servers.iter_mut().for_each(Server::run);
    until("each has its role", || {
        let mut modes: Vec<String> = servers.iter().map(mode).collect();
        modes.sort();
        modes == ["follower", "follower", "leader", "observer"]
    });
    servers
}

/// What a client is told until its connection ends, or it has everything.
fn told(client: &mut Client, count: usize) -> Vec<Reply> {
    let mut replies = Vec::new();
    while replies.len() < count {
        match client.try_receive() {
            // That it exists is an event, too.
            Ok(reply) if reply.header.xid >= 0 => replies.push(reply),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    replies
}

/// Stops a server: one thread hears the signal, and the others after it.
fn stop(server: &Server) {
    server.signal("STOP");
    let tasks = format!("/proc/{}/task", server.pid());
    let is_stopped = |task: io::Result<DirEntry>| {
        let status = fs::read_to_string(task.expect("a thread").path().join("status"));
        // One may have ended.
        status.is_ok_and(|status| status.lines().any(|line| line.starts_with("State:\tT")))
    };
    until("it is stopped", || fs::read_dir(&tasks).expect("threads").all(is_stopped));
}

/// A client that has seen /x there: on a busy machine an election can be at any time.
fn reader(server: &Server) -> Client {
    let mut reader = None;
    until("a client reads there", || {
        let mut stream = open(server.address());
        let sent = stream.write_all(&connect_frame(TIMEOUT_MS, 0, &[0; 16]));
        let Some(answer) = sent.ok().and_then(|()| frame(&mut stream)) else { return false };
        let (session, _) = jute::decode::<ConnectResponse>(&answer).expect("a connect response");
        let mut client = Client::over(stream, session, 0);
        client.send(&[exists("/x", false)]);
        let is_there = client.try_receive().is_ok_and(|reply| reply.header.err == 0);
        reader = is_there.then_some(client);
        is_there
    });
    reader.expect("a client")
}

/// How often a server began to follow.
fn follows(server: &Server) -> usize {
    server.log().matches("now follows a leader").count()
}

/// Stops the server with this role. Whether reads were answered, unless it has another leader
/// since.
fn stopped(role: &str) -> bool {
    let servers = start();
    let of_role = |servers: &[Server]| servers.iter().position(|server| mode(server) == role);
    until("one has the role", || of_role(&servers).is_some());
    let stopped = of_role(&servers).expect("it has the role");
    let other = servers.iter().enumerate().position(|(at, its)| at != stopped && mode(its) != role);
    let other = &servers[other.expect("another")];
    let mut writer = Patient::connect(other, TIMEOUT_MS);
    writer.ok(&create("/x", b"old".to_vec(), CreateMode::Persistent));
    let before = follows(&servers[stopped]);
    let mut readers: Vec<Client> = (0..CLIENTS).map(|_| reader(&servers[stopped])).collect();

    stop(&servers[stopped]);
    let requests: Vec<Request<'_>> =
        (0..10).flat_map(|_| [get("/x"), Request::Ping, exists("/y", true)]).collect();
    for reader in &mut readers {
        reader.send(&requests);
    }
    writer.ok(&set("/x", b"new".to_vec()));
    writer.ok(&create("/y", Vec::new(), CreateMode::Persistent));
    thread::sleep(LONGER);
    servers[stopped].signal("CONT");

    let mut answered = 0;
    for reader in &mut readers {
        for (number, reply) in told(reader, 20).into_iter().enumerate() {
            assert_eq!(reply.header.err, 0, "read {number}, of /y, shows what was");
            if number % 2 == 0 {
                assert_eq!(data_of(&reply), b"new", "read {number}");
            }
            answered += 1;
        }
    }
    until("it takes part again", || mode(&servers[stopped]) != "none");
    answered > 0 || follows(&servers[stopped]) > before
}

/// Most elections are over sooner than in `syncLimit`, and who reads nothing has no reason to
/// leave.
#[test]
fn idle_connections_outlast_the_leader_for_a_sync_limit() {
    let mut servers = start();
    // Nobody is elected.
    let followers: Vec<usize> = (0..4).filter(|at| mode(&servers[*at]) == "follower").collect();
    let leader = servers.iter().position(|server| mode(server) == "leader").expect("it leads");
    let mut idle = servers[followers[0]].connect(TIMEOUT_MS);
    let mut kill = |at: usize| {
        servers[at].signal("KILL");
        servers[at].wait();
    };
    // The leader last: before, there is a majority.
    kill(followers[1]);
    let before = Instant::now();
    kill(leader);
    ends(&mut idle.stream);
    assert!(before.elapsed() >= SYNC_LIMIT, "after {:?}", before.elapsed());
}

#[test]
fn a_leader_that_was_stopped_tells_nobody_what_was() {
    stopped("leader");
}

#[test]
fn a_follower_that_was_stopped_tells_what_is() {
    assert!(stopped("follower"));
}

#[test]
fn an_observer_that_was_stopped_tells_what_is() {
    assert!(stopped("observer"));
}
