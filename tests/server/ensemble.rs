//! Three servers as processes: who leads, what clients of each see, and what happens when one is
//! gone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use jute::CreateMode;
use jute::protocol::{ChildrenResponse, ConnectResponse, Request, SyncRequest, WatchRequest};

use crate::client::{
    Client, Reply, connect_frame, create, data_of, ends, exists, frame, get, open, set, until,
};
use crate::process::{Server, free_port};

pub(crate) const TIMEOUT_MS: i32 = 4000;

/// Servers of one list, which have not been started.
pub(crate) fn prepare(count: usize, more: &str) -> Vec<Server> {
    let lines: Vec<String> = (1..=count)
        .map(|id| format!("server.{id}=127.0.0.1:{}:{}", free_port(), free_port()))
        .collect();
    let config = format!("initLimit=10\nsyncLimit=5\n{more}\n{}", lines.join("\n"));
    let prepare = |id: usize| {
        let server = Server::prepare(&config);
        fs::write(server.data().join("myid"), id.to_string()).expect("myid");
        server
    };
    (1..=count).map(prepare).collect()
}

pub(crate) fn start(count: usize) -> Vec<Server> {
    start_with(count, "")
}

pub(crate) fn start_with(count: usize, more: &str) -> Vec<Server> {
    let mut servers = prepare(count, more);
    servers.iter_mut().for_each(Server::run);
    until("one leads and the others follow", || {
        let modes: Vec<String> = servers.iter().map(mode).collect();
        modes.iter().filter(|mode| *mode == "leader").count() == 1
            && modes.iter().filter(|mode| *mode == "follower").count() == count - 1
    });
    servers
}

pub(crate) fn mode(server: &Server) -> String {
    let text = server.word("srvr");
    let line = text.lines().find_map(|line| line.strip_prefix("Mode: "));
    line.unwrap_or("none").to_owned()
}

/// Who leads, as soon as one does: on a busy machine an election can be at any time.
pub(crate) fn leader(servers: &[Server]) -> usize {
    let mut found = None;
    until("one leads", || {
        found = servers.iter().position(|server| mode(server) == "leader");
        found.is_some()
    });
    found.expect("a leader")
}

/// A client that comes back when its connection ends: on a busy machine an election can be at any
/// time.
pub(crate) struct Patient {
    address: SocketAddr,
    client: Client,
}

impl Patient {
    pub(crate) fn connect(server: &Server, timeout_ms: i32) -> Self {
        Self::attach(server.address(), timeout_ms, 0, &[0; 16])
    }

    /// The session goes on at this server.
    pub(crate) fn go_to(&self, server: &Server) -> Self {
        let session = &self.client.session;
        Self::attach(server.address(), session.timeout_ms, session.session_id, &session.password)
    }

    fn attach(address: SocketAddr, timeout_ms: i32, id: i64, password: &[u8]) -> Self {
        let mut connected = None;
        until("a connection", || {
            let mut stream = open(address);
            let sent = stream.write_all(&connect_frame(timeout_ms, id, password));
            let answer = sent.ok().and_then(|()| frame(&mut stream));
            connected = answer.map(|answer| (stream, answer));
            connected.is_some()
        });
        let (stream, answer) = connected.expect("a connection");
        let (session, _) = jute::decode::<ConnectResponse>(&answer).expect("a connect response");
        assert!(session.timeout_ms > 0, "the session is not there");
        Self { address, client: Client::over(stream, session, 0) }
    }

    pub(crate) const fn session(&self) -> &ConnectResponse {
        &self.client.session
    }

    pub(crate) const fn stream(&mut self) -> &mut TcpStream {
        &mut self.client.stream
    }

    fn come_back(&mut self) {
        let session = &self.client.session;
        *self =
            Self::attach(self.address, session.timeout_ms, session.session_id, &session.password);
    }

    /// The answers to requests that are sent at once; all of them again if the connection ends.
    pub(crate) fn all(&mut self, requests: &[Request<'_>]) -> Vec<Reply> {
        loop {
            self.client.send(requests);
            let replies: Result<Vec<Reply>, _> =
                requests.iter().map(|_| self.client.try_receive()).collect();
            match replies {
                Ok(replies) => return replies,
                Err(_) => self.come_back(),
            }
        }
    }

    pub(crate) fn ok(&mut self, request: &Request<'_>) -> Reply {
        let reply = self.all(std::slice::from_ref(request)).pop().expect("a reply");
        // A create whose connection ended may have been done.
        let is_done = matches!(request, Request::Create(_)) && reply.header.err == -110;
        assert!(reply.header.err == 0 || is_done, "{request:?}: {:?}", reply.header);
        reply
    }

    /// The error code of the answer.
    pub(crate) fn try_it(&mut self, request: &Request<'_>) -> i32 {
        self.all(std::slice::from_ref(request)).pop().expect("a reply").header.err
    }

    fn sync(&mut self) {
        self.ok(&Request::Sync(SyncRequest { path: Some("/".into()) }));
    }

    /// What it reads after a sync.
    pub(crate) fn value(&mut self, path: &str) -> Vec<u8> {
        self.sync();
        data_of(&self.ok(&get(path)))
    }

    pub(crate) fn exists(&mut self, path: &str) -> bool {
        self.sync();
        self.all(&[exists(path, false)])[0].header.err == 0
    }
}

#[test]
fn what_is_written_through_any_server_is_read_through_every_other() {
    let servers = start(3);
    let mut clients: Vec<Patient> =
        servers.iter().map(|server| Patient::connect(server, TIMEOUT_MS)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.ok(&create(&format!("/of{number}"), b"0".to_vec(), CreateMode::Persistent));
    }
    for round in 1..=20_u8 {
        for writer in 0..3 {
            let path = format!("/of{writer}");
            // Pipelined: what a client reads after its write shows it.
            let replies = clients[writer].all(&[set(&path, vec![round]), get(&path)]);
            assert!(replies.iter().all(|reply| reply.header.err == 0), "{replies:?}");
            assert_eq!(data_of(&replies[1]), [round]);
            for client in &mut clients {
                assert_eq!(client.value(&path), [round]);
            }
        }
    }
}

#[test]
fn with_linearizable_reads_nobody_reads_what_was() {
    let servers = start_with(3, "linearizableReads=true\n");
    let mut clients: Vec<Patient> =
        servers.iter().map(|server| Patient::connect(server, TIMEOUT_MS)).collect();
    clients[0].ok(&create("/x", b"0".to_vec(), CreateMode::Persistent));
    let list = || Request::GetChildren(WatchRequest { path: "/x".into(), watch: false });
    for round in 1..=200_u8 {
        let writer = usize::from(round) % 3;
        clients[writer].ok(&set("/x", vec![round]));
        for reader in &mut clients {
            assert_eq!(data_of(&reader.ok(&get("/x"))), [round]);
        }
        clients[writer].ok(&create(&format!("/x/{round}"), Vec::new(), CreateMode::Persistent));
        for reader in &mut clients {
            // The first of them waits for all.
            let replies = reader.all(&[list(), exists("/x", false), Request::Ping, list()]);
            for reply in [&replies[0], &replies[3]] {
                let (listed, _) = jute::decode::<ChildrenResponse<'_>>(&reply.body).expect("names");
                assert_eq!(listed.children.len(), usize::from(round));
            }
        }
    }
}

#[test]
fn monitoring_shows_who_is_what() {
    let servers = start(3);
    let first = leader(&servers);
    until("both followers have answered", || {
        servers[first].figure("synced_followers") == 2 && servers[first].figure("learners") == 2
    });
    assert_eq!(servers[first].figure("synced_observers"), 0);
    for (at, server) in servers.iter().enumerate() {
        assert_eq!(server.figure("quorum_size"), 3);
        let (state, peer) = match at == first {
            true => ("leader", "leading - broadcast"),
            false => ("follower", "following - broadcast"),
        };
        let text = server.word("mntr");
        assert!(text.contains(&format!("zk_server_state\t{state}\nzk_peer_state\t{peer}\n")));
    }
}

/// The names and their states are what three servers of Apache ZooKeeper 3.9.5 showed.
#[test]
fn monitoring_shows_how_long_transactions_and_elections_take() {
    let mut servers = start(3);
    let first = leader(&servers);
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    client.ok(&create("/x", vec![], CreateMode::Persistent));
    for _ in 0..50 {
        client.ok(&set("/x", vec![7; 1000]));
    }
    let basic = ["avg", "min", "max", "cnt", "sum"];
    let advanced = ["avg", "min", "max", "cnt", "sum", "p50", "p95", "p99", "p999"];
    let shown = |server: &Server, parts: &[&str], name: &str| {
        let text = server.word("mntr");
        parts.iter().all(|part| text.contains(&format!("\nzk_{part}_{name}\t")))
    };
    let follower = (first + 1) % 3;
    until("the follower has all of it", || {
        servers[follower].figure("learner_commit_received_count") >= 51
            && servers[follower].figure("cnt_propagation_latency") >= 51
    });
    for server in &servers {
        for name in [
            "election_time",
            "unavailable_time",
            "leader_unavailable_time",
            "follower_sync_time",
            "observer_sync_time",
        ] {
            assert!(shown(server, &basic, name), "{name}");
        }
        for name in [
            "proposal_latency",
            "proposal_ack_creation_latency",
            "quorum_ack_latency",
            "commit_propagation_latency",
            "propagation_latency",
        ] {
            assert!(shown(server, &advanced, name), "{name}");
        }
        assert!(server.figure("looking_count") >= 1 && server.figure("cnt_election_time") >= 1);
    }
    // What only one of the two does.
    let of = |at: usize, name: &str| servers[at].figure(name);
    assert!(of(first, "proposal_count") >= 51 && of(first, "commit_count") >= 51);
    assert!(
        of(first, "cnt_quorum_ack_latency") >= 51 && of(first, "cnt_propagation_latency") >= 51
    );
    assert_eq!(of(first, "cnt_leader_unavailable_time"), 1);
    assert!(of(follower, "cnt_proposal_latency") >= 51);
    assert!(of(follower, "cnt_commit_propagation_latency") >= 51);
    assert_eq!(of(follower, "cnt_quorum_ack_latency"), 0);
    assert!(of(first, "last_proposal_size") >= 1000);
    assert!(of(first, "min_proposal_size") < of(first, "max_proposal_size"));
    let acks: i64 = (1..=3)
        .filter(|id| shown(&servers[first], &advanced, &format!("{id}_ack_latency")))
        .map(|id| of(first, &format!("cnt_{id}_ack_latency")))
        .sum();
    // A quorum for each; a word on what is final does not count.
    assert!(acks >= 2 * 51, "{acks}");
    let text = servers[follower].word("mntr");
    for gauge in ["learners", "pending_syncs", "last_proposal_size", "peer_lag", "ack_latency"] {
        let is_it = |line: &str| line.split('\t').next().is_some_and(|name| name.contains(gauge));
        let shown = text.lines().filter(|line| is_it(line) && !line.contains("quorum"));
        assert_eq!(shown.collect::<Vec<_>>(), [""; 0], "a follower has no {gauge}");
    }

    let gone = follower + 1;
    let lag =
        |servers: &[Server], what: &str| servers[first].figure(&format!("{gone}_peer_lag_{what}"));
    kill(&mut servers[follower]);
    for _ in 0..20 {
        client.ok(&set("/x", vec![7; 1000]));
    }
    until("the leader shows what it lacks", || {
        lag(&servers, "entries") >= 20 && lag(&servers, "bytes") >= 20_000
    });
    let before = servers[first].figure("diff_count");
    assert!((2..4).contains(&before), "{before}");
    servers[follower].run();
    until("it has that, by the log", || {
        lag(&servers, "entries") == 0 && servers[first].figure("diff_count") > before
    });
}

#[test]
fn when_the_leader_is_killed_the_others_go_on_and_it_comes_back() {
    [3, 5].into_iter().for_each(loses_its_leader);
}

/// An ensemble of so many servers.
fn loses_its_leader(count: usize) {
    let mut servers = start(count);
    let first = leader(&servers);
    let followers: Vec<usize> = (0..count).filter(|at| *at != first).collect();
    let mut there = Patient::connect(&servers[followers[0]], TIMEOUT_MS);
    let mut lost = Patient::connect(&servers[first], TIMEOUT_MS);
    there.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    lost.ok(&create("/mine", vec![], CreateMode::Ephemeral));
    // With the leader, as many as a majority can do without: two of five.
    let gone = [&[first][..], &followers[2..=count / 2]].concat();
    gone.iter().for_each(|at| kill(&mut servers[*at]));
    // Answered once there is a leader.
    there.ok(&set("/kept", b"2".to_vec()));
    let mut again = lost.go_to(&servers[followers[1]]);
    assert_eq!(again.client.session.session_id, lost.client.session.session_id);
    assert_eq!(again.value("/kept"), b"2");
    assert!(again.exists("/mine"));
    gone.iter().for_each(|at| servers[*at].run());
    until("they follow", || gone.iter().all(|at| mode(&servers[*at]) == "follower"));
    let mut back = Patient::connect(&servers[first], TIMEOUT_MS);
    assert_eq!(back.value("/kept"), b"2");
    again.client.send(&[Request::CloseSession]);
    until("the session is closed, and its znode gone", || !back.exists("/mine"));
}

#[test]
fn a_leader_that_is_told_to_end_hands_over_first() {
    let mut servers = start(3);
    let first = leader(&servers);
    let mut there = Patient::connect(&servers[(first + 1) % 3], TIMEOUT_MS);
    there.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    servers[first].signal("TERM");
    assert!(servers[first].wait().success());
    let log = servers[first].log();
    assert!(log.contains("handed over leadership") && log.contains("done=true"), "{log}");
    there.ok(&set("/kept", b"2".to_vec()));
    assert_eq!(there.value("/kept"), b"2");
}

#[test]
fn a_leader_that_is_asked_to_hands_over_and_follows() {
    let servers = start(3);
    let first = leader(&servers);
    let mut clients: Vec<Client> = servers.iter().map(|its| its.connect(TIMEOUT_MS)).collect();
    clients[0].ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    // Whoever does not lead stays what it is.
    let follower = (first + 1) % 3;
    servers[follower].signal("USR1");
    until("it says so", || servers[follower].log().contains("this server is not the leader"));
    assert_eq!(leader(&servers), first);
    servers[first].signal("USR1");
    until("another one leads and it follows", || {
        let modes: Vec<String> = servers.iter().map(mode).collect();
        modes[first] == "follower" && modes.iter().filter(|mode| *mode == "leader").count() == 1
    });
    let log = servers[first].log();
    assert!(log.contains("handing over leadership as requested"), "{log}");
    // No client was disconnected, its own neither.
    for (round, client) in (1_u8..).zip(&mut clients) {
        client.ok(&set("/kept", vec![round]));
        assert_eq!(data_of(&client.ok(&get("/kept"))), [round]);
    }
}

#[test]
fn without_a_majority_nobody_is_served_and_nothing_is_lost() {
    let mut servers = start(3);
    let first = leader(&servers);
    let followers: Vec<usize> = (0..3).filter(|at| *at != first).collect();
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    client.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    for follower in &followers {
        kill(&mut servers[*follower]);
    }
    // syncLimit is a second here.
    ends(&mut client.client.stream);
    let answer = servers[first].word("srvr");
    assert_eq!(answer, "This ZooKeeper instance is not currently serving requests\n");
    servers[followers[0]].run();
    until("two of three are enough", || mode(&servers[first]) != "none");
    assert_eq!(Patient::connect(&servers[first], TIMEOUT_MS).value("/kept"), b"1");
}

/// The index that a server knows to be committed, in the slot of `raft.state` that has the greater
/// one.
fn known_as_committed(server: &Server) -> u64 {
    let state = fs::read(server.data().join("version-2/raft.state")).expect("its state");
    let of = |slot: usize| state[slot + 40..slot + 48].try_into().map(u64::from_be_bytes);
    u64::max(of(0).expect("8 bytes"), of(4096).expect("8 bytes"))
}

/// A start after the end of all applies what it knows to be committed before it hears of the
/// others.
#[test]
fn servers_write_down_what_is_committed_while_clients_write() {
    const WRITES: usize = 2500;
    let mut servers = start(3);
    let mut client = Patient::connect(&servers[leader(&servers)], TIMEOUT_MS);
    client.ok(&create("/x", Vec::new(), CreateMode::Persistent));
    let writes: Vec<_> = (0..100).map(|_| set("/x", b"1".to_vec())).collect();
    for _ in 0..WRITES / writes.len() {
        client.all(&writes);
    }
    until("it is written down", || {
        servers.iter().all(|server| known_as_committed(server) + 1000 > WRITES as u64)
    });
    servers.iter().for_each(|server| server.signal("KILL"));
    for server in &mut servers {
        server.wait();
    }
    servers.iter_mut().for_each(Server::run);
    leader(&servers);
    let mut client = Patient::connect(&servers[0], TIMEOUT_MS);
    assert_eq!(client.value("/x"), b"1");
}

#[test]
fn who_was_away_for_longer_than_the_log_goes_back_gets_a_snapshot() {
    one_is_away_for_long(start_with(3, SNAPSHOTS_SOON));
}

/// With this in zoo.cfg a log does not go back far.
pub(crate) const SNAPSHOTS_SOON: &str = "snapCount=20\nautopurge.purgeInterval=1";

pub(crate) fn one_is_away_for_long(mut servers: Vec<Server>) {
    let first = leader(&servers);
    let away = (first + 1) % 3;
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    client.ok(&create("/kept", vec![], CreateMode::Persistent));
    kill(&mut servers[away]);
    let logs = |server: &Server| {
        let names = fs::read_dir(server.data().join("version-2")).expect("a folder");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| name.starts_with("log."));
        names.sort();
        names
    };
    let before = logs(&servers[first]);
    let mut last = 0_u32;
    until("the log does not go back that far any more", || {
        for _ in 0..50 {
            last += 1;
            client.ok(&set("/kept", last.to_be_bytes().to_vec()));
        }
        logs(&servers[first]).iter().all(|name| !before.contains(name))
    });
    servers[away].run();
    until("it follows", || mode(&servers[away]) == "follower");
    let mut there = Patient::connect(&servers[away], TIMEOUT_MS);
    assert_eq!(there.value("/kept"), last.to_be_bytes());
    until("it says so", || servers[away].log().contains("installed a snapshot from the leader"));
    // And it is one of those whom a write needs.
    let other = (first + 2) % 3;
    kill(&mut servers[other]);
    client.ok(&set("/kept", b"all".to_vec()));
    assert_eq!(there.value("/kept"), b"all");
}

#[test]
fn a_session_that_nobody_hears_of_expires_on_every_server_and_others_do_not() {
    let servers = start(3);
    let follower = (leader(&servers) + 1) % 3;
    let mut idle = Patient::connect(&servers[follower], 400);
    idle.ok(&create("/idle", vec![], CreateMode::Ephemeral));
    let mut busy = Patient::connect(&servers[follower], 1000);
    busy.ok(&create("/busy", vec![], CreateMode::Ephemeral));
    let mut other = Patient::connect(&servers[(follower + 1) % 3], TIMEOUT_MS);
    // Pings are answered by the follower; the leader hears of them all the same.
    until("the idle one has expired", || {
        busy.ok(&Request::Ping);
        !other.exists("/idle")
    });
    ends(&mut idle.client.stream);
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        busy.ok(&Request::Ping);
    }
    assert!(other.exists("/busy"), "it was heard of for three of its timeouts");
}

#[test]
fn who_does_not_belong_to_the_ensemble_is_told_why() {
    let mut servers = prepare(3, "");
    servers.iter_mut().take(1).for_each(Server::run);
    let config = fs::read_to_string(servers[0].config()).expect("zoo.cfg");
    let line = config.lines().find_map(|line| line.strip_prefix("server.1=127.0.0.1:"));
    let port = line.and_then(|line| line.split(':').next()).expect("a port");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().expect("a port")));
    let hello = |versions: (u32, u32)| {
        let mut rest = versions.0.to_be_bytes().to_vec();
        rest.extend(versions.1.to_be_bytes());
        rest.extend([0; 21 + 33]);
        [b"ferrokpr", &u32::to_be_bytes(62)[..], &rest].concat()
    };
    let of_version_5 = [
        &b"ferrokpr\0\0\0\x3e\0\0\0\x05\0\0\0\x05"[..],
        &[0; 21],
        &[0],
        b"\x8a\x4d\x91\x04\xc3\x5e\x77\x20\xf1\x66\x0b\xd9\x38\xa2\x5c\xee",
        b"\x13\x90\x42\xbf\x6d\x08\xe5\x74\xaa\x31\xc6\x5f\x02\x99\xd8\x47",
    ]
    .concat();
    let introduction = |purpose: u32, from: u64, to: u8| {
        let mut rest = purpose.to_be_bytes().to_vec();
        rest.push(to);
        rest.extend([7; 8]);
        rest.extend(from.to_be_bytes());
        rest.extend([0; 24]);
        [&u32::to_be_bytes(45)[..], &rest].concat()
    };
    let told = |stream: &mut TcpStream| {
        let mut len = [0; 4];
        stream.read_exact(&mut len).expect("an answer");
        let mut reason = vec![0; u32::from_be_bytes(len) as usize];
        stream.read_exact(&mut reason).expect("a reason");
        String::from_utf8_lossy(&reason).into_owned()
    };
    for (hello, expected) in [
        (hello((8, 8)), "the caller speaks version 8, and the called server versions 6 to 7"),
        (of_version_5, "the caller speaks version 5, and the called server versions 6 to 7"),
        (hello((4, 4)), "the caller speaks version 4, and the called server versions 6 to 7"),
        (
            vec![0xff; 32],
            "this is the ensemble port of ferrokeeper; Java servers cannot join the ensemble",
        ),
        ([b"ferrokpr", &[0xff; 4][..]].concat(), "a hello cannot have 4294967295 bytes"),
    ] {
        let mut stream = open(address);
        stream.write_all(&hello).expect("sent");
        assert_eq!(told(&mut stream), expected);
    }
    for (versions, introduction, expected) in [
        ((6, 6), introduction(3, 0x002, 1), ""),
        ((5, 6), introduction(3, 0x002, 1), ""),
        ((6, 6), introduction(1, 0x102, 1), "one of the two belongs to no ensemble yet"),
        ((6, 6), introduction(1, 0x102, 3), "the caller looks for server 3, but this is server 1"),
        ((6, 6), introduction(1, 0x101, 1), "myid 1 is in use twice"),
        ((6, 6), introduction(1, 0x109, 1), "server 9 is not in the list of server 1"),
    ] {
        let mut stream = open(address);
        stream.write_all(&hello(versions)).expect("sent");
        assert_eq!(told(&mut stream), "");
        let mut answer = [0; 4 + 33];
        stream.read_exact(&mut answer).expect("a version, and no more");
        assert_eq!(answer[..4], 6_u32.to_be_bytes());
        stream.write_all(&introduction).expect("sent");
        let mut is_refused = [0];
        stream.read_exact(&mut is_refused).expect("an answer");
        assert_eq!(is_refused, [u8::from(!expected.is_empty())]);
        if !expected.is_empty() {
            assert_eq!(told(&mut stream), expected);
        }
    }
    until("the reasons are in the log, too", || {
        servers[0].log().contains("myid 1 is in use twice")
    });
}

pub(crate) fn wipe(server: &Server) {
    fs::remove_dir_all(server.data().join("version-2")).expect("removed");
}

/// What an operator leaves for an ensemble that is to begin without all.
pub(crate) fn mark(server: &Server) {
    fs::write(server.data().join("initialize"), "").expect("a marker");
}

pub(crate) fn stop(server: &mut Server) {
    server.signal("TERM");
    server.wait();
}

pub(crate) fn kill(server: &mut Server) {
    server.signal("KILL");
    server.wait();
}

/// As which member a server has joined last.
pub(crate) fn seat(server: &Server) -> u64 {
    let log = server.log();
    let (_, id) = log.rsplit_once("member=0x").expect("it has joined");
    let id = id.split(|end: char| !end.is_ascii_hexdigit()).next().expect("a number");
    u64::from_str_radix(id, 16).expect("hex")
}

#[test]
fn a_server_whose_disk_was_emptied_comes_back_and_votes() {
    let mut servers = start(3);
    let first = leader(&servers);
    let (wiped, other) = ((first + 1) % 3, (first + 2) % 3);
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    client.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    let mut lives = vec![1 << 8 | (wiped as u64 + 1)];
    for _ in 0..2 {
        kill(&mut servers[wiped]);
        wipe(&servers[wiped]);
        servers[wiped].run();
        until("it follows", || mode(&servers[wiped]) == "follower");
        // It has become a voter: with it, two of three go on.
        let seat = seat(&servers[wiped]);
        until("it votes, and what it was before does not", || {
            let change = format!("Vote({seat})");
            servers.iter().any(|server| server.log().contains(&change))
                && servers[wiped].figure("quorum_size") == 3
        });
        assert!(lives.iter().all(|life| *life < seat), "{seat:#x} after {lives:x?}");
        lives.push(seat);
    }
    kill(&mut servers[other]);
    client.ok(&set("/kept", b"2".to_vec()));
    assert_eq!(Patient::connect(&servers[wiped], TIMEOUT_MS).value("/kept"), b"2");
}

/// What `work` does while the server runs alone.
pub(crate) fn alone<T>(server: &mut Server, work: impl FnOnce(&Server) -> T) -> T {
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    let lines: Vec<&str> = config.lines().filter(|line| !line.starts_with("server.")).collect();
    fs::write(server.config(), lines.join("\n")).expect("zoo.cfg");
    server.run();
    let done = work(server);
    stop(server);
    fs::write(server.config(), &config).expect("zoo.cfg");
    done
}

#[test]
fn a_standalone_server_becomes_the_first_of_an_ensemble() {
    let mut servers = prepare(3, "");
    let stat = alone(&mut servers[1], |server| {
        let mut client = server.connect(TIMEOUT_MS);
        client.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
        client.ok(&create("/more", b"1".to_vec(), CreateMode::Persistent));
        client.ok(&exists("/kept", false)).body
    });
    // This one has less, and what it has goes aside.
    alone(&mut servers[2], |server| {
        server.connect(TIMEOUT_MS).ok(&create("/less", vec![], CreateMode::Persistent));
        let spare = server.data().join("version-2/spare.1");
        until("there is a spare, as in every directory", || spare.exists());
    });
    servers.iter_mut().for_each(Server::run);
    until("one leads and the others follow", || {
        servers.iter().filter(|server| mode(server) != "none").count() == 3
    });
    for server in &servers {
        let mut client = Patient::connect(server, TIMEOUT_MS);
        assert_eq!(client.value("/kept"), b"1");
        assert_eq!(client.ok(&exists("/kept", false)).body, stat);
        assert!(!client.exists("/less"));
    }
    let names = fs::read_dir(servers[2].data()).expect("a folder");
    let mut names = names.map(|entry| entry.expect("an entry").file_name());
    let aside = names.find(|name| name.to_string_lossy().starts_with("before-"));
    let aside = servers[2].data().join(aside.expect("its data is kept"));
    assert!(fs::read_dir(aside).expect("a folder").count() >= 2, "a snapshot and a log");
}

#[test]
fn data_of_before_beside_an_ensemble_is_refused_and_kept() {
    let mut servers = prepare(3, "initLimit=1\n");
    alone(&mut servers[2], |server| {
        server.connect(TIMEOUT_MS).ok(&create("/mine", vec![], CreateMode::Persistent));
    });
    // An operator who does not want that data.
    for server in &mut servers[..2] {
        mark(server);
        server.run();
    }
    until("two of three are an ensemble", || mode(&servers[0]) != "none");
    assert_eq!(servers[2].run_to_its_end().code(), Some(3));
    let log = servers[2].log();
    assert!(log.contains("belongs to no ensemble, but the other servers belong to one"), "{log}");
    alone(&mut servers[2], |server| {
        server.connect(TIMEOUT_MS).ok(&exists("/mine", false));
    });
}

#[test]
fn members_of_two_ensembles_do_not_listen_to_each_other() {
    let mut servers = start(3);
    let strange = (leader(&servers) + 1) % 3;
    stop(&mut servers[strange]);
    // It comes back with the directory of the same server of another ensemble.
    let mut others = start(3);
    stop(&mut others[strange]);
    let (from, to) = (others[strange].data(), servers[strange].data());
    wipe(&servers[strange]);
    fs::rename(from.join("version-2"), to.join("version-2")).expect("moved");
    servers[strange].run();
    let says = |server: &Server| server.log().contains("their data has nothing in common");
    until("both sides say why", || {
        says(&servers[strange]) && (0..3).any(|at| at != strange && says(&servers[at]))
    });
    assert_eq!(mode(&servers[strange]), "none");
}

#[test]
fn who_came_back_empty_is_not_who_it_was_before() {
    let mut servers = start(3);
    let gone = (leader(&servers) + 1) % 3;
    stop(&mut servers[gone]);
    let (data, before) = (servers[gone].data().join("version-2"), servers[gone].data().join("old"));
    fs::rename(&data, &before).expect("moved");
    servers[gone].run();
    until("it follows", || mode(&servers[gone]) == "follower");
    let voter = format!("Vote({})", seat(&servers[gone]));
    until("it votes", || servers.iter().any(|server| server.log().contains(&voter)));
    stop(&mut servers[gone]);
    wipe(&servers[gone]);
    fs::rename(&before, &data).expect("moved back");
    servers[gone].run();
    until("it is told", || {
        servers[gone].log().contains("has rejoined it with another data directory")
    });
}

/// A start with an empty directory by mistake: the one of before is back at once, and is needed.
#[test]
fn an_empty_start_that_came_to_nothing_locks_nobody_out() {
    let mut servers = start(3);
    let first = leader(&servers);
    let (mistaken, gone) = ((first + 1) % 3, (first + 2) % 3);
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    client.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    stop(&mut servers[mistaken]);
    let data = servers[mistaken].data();
    let (data, before) = (data.join("version-2"), data.join("old"));
    fs::rename(&data, &before).expect("moved");
    // It gets a seat, and nobody reaches it: so it never has what the leader has.
    let config = fs::read_to_string(servers[mistaken].config()).expect("zoo.cfg");
    let line = format!("server.{}=", mistaken + 1);
    let elsewhere = format!("{line}127.0.0.1:{}:{}", free_port(), free_port());
    let lines = config.lines().map(|its| if its.starts_with(&line) { &elsewhere } else { its });
    let other_config = lines.collect::<Vec<_>>().join("\n");
    fs::write(servers[mistaken].config(), other_config).expect("zoo.cfg");
    servers[mistaken].run();
    until("it has joined", || servers[mistaken].log().contains("member=0x"));
    let unused = seat(&servers[mistaken]);
    stop(&mut servers[mistaken]);
    fs::write(servers[mistaken].config(), config).expect("zoo.cfg");
    wipe(&servers[mistaken]);
    fs::rename(&before, &data).expect("moved back");
    kill(&mut servers[gone]);
    servers[mistaken].run();
    until("two of three serve", || {
        mode(&servers[mistaken]) != "none" && mode(&servers[first]) != "none"
    });
    client.ok(&set("/kept", b"2".to_vec()));
    // The seat that nobody has goes.
    let removed = format!("Remove({unused})");
    until("it is taken out", || servers.iter().any(|server| server.log().contains(&removed)));
}
