//! Whatever clients ask of this server, Apache ZooKeeper starts on the directory that it leaves,
//! and finds the tree that clients were shown last.
//!
//! `TAKEN_BACK_SCRIPTS` is how many scripts there are, `TAKEN_BACK_SEED` where they begin: a
//! failing one is named by its seed, and with it and one script it is repeated.

mod script;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use compat_tests::random::Random;
use compat_tests::request::{self, op};
use compat_tests::{ConnectRequest, Java, Kind, Program, RawClient, Server, classpath, count};

use script::Turn;

/// Outlives a script.
const TIMEOUT: i32 = 40_000;
const SESSIONS: usize = 3;
/// Servers at a time.
const LANES: usize = 2;
const SUPER: (&str, &str) = ("super:secret", "super:lK75jTNcA+U9vtVEw5vB51mj/w4=");
/// More are likely the same ones again.
const MOST_FAILURES: usize = 8;

#[test]
fn every_directory_is_taken_back() {
    let scripts = count("TAKEN_BACK_SCRIPTS", 60);
    let first = count("TAKEN_BACK_SEED", 1);
    let java = Java::compile(&["taken_back"], classpath());
    let zookeeper = Mutex::new(java.run("TakesBack", &[]));
    let next = AtomicUsize::new(first);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let failed = failures.lock().expect("no lane panicked").len();
                    if seed >= first + scripts || failed >= MOST_FAILURES {
                        return;
                    }
                    if let Err(why) = one(seed, &zookeeper) {
                        failures.lock().expect("no lane panicked").push(format!("{seed}: {why}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no lane panicked");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// One script on a directory of its own; the error is what ZooKeeper has against it.
fn one(seed: usize, zookeeper: &Mutex<Program>) -> Result<(), String> {
    let mut random = Random::new(u64::try_from(seed).expect("a usize fits"));
    let script = script::script(&mut random, SESSIONS);
    let super_digest = format!("DigestAuthenticationProvider.superDigest={}", SUPER.1);
    // A snapshot now and then, at the end only, or none.
    let snapshots = *random.pick(&["snapCount=4", "snapCount=15", "snapCount=100000"]);
    let config = [
        snapshots,
        &super_digest,
        "extendedTypesEnabled=true",
        "forceSync=no",
        "preAllocSize=0",
        "maxSessionTimeout=40000",
        if random.chance(30) { "enforceQuota=true" } else { "enforceQuota=false" },
        "znode.container.checkIntervalMs=1000",
    ];
    let mut server = Server::start(Kind::Ferrokeeper, &config);
    let restarts = random.chance(25).then(|| random.below(script.len()));
    let mut clients: Vec<Option<RawClient>> = (0..SESSIONS).map(|_| None).collect();
    for (number, turn) in script.into_iter().enumerate() {
        if restarts == Some(number) {
            clients.iter_mut().for_each(|client| *client = None);
            if random.chance(50) {
                server.kill();
            } else {
                server.stop();
            }
            server.try_restart().map_err(|said| format!("this server itself: {said}"))?;
        }
        run(&server, &mut clients, turn).map_err(|error| format!("{error}\n{}", server.log()))?;
    }
    // What goes by itself is gone or not: nothing changes between the look and the end.
    let shown = settled(&server).map_err(|error| error.to_string())?;
    if random.chance(50) {
        server.kill();
    } else {
        server.stop();
    }
    let taken = take_back(&server.data_dir(), zookeeper)?;
    let differing: Vec<&String> = shown.symmetric_difference(&taken).collect();
    if differing.is_empty() {
        return Ok(());
    }
    let mut text = String::from("ZooKeeper finds another tree:");
    for line in differing {
        let whose = if shown.contains(line) { "shown" } else { "taken" };
        let _ = write!(text, "\n  {whose} {}", readable(line));
    }
    Err(text)
}

/// Sends the requests of a turn; an error reply is one of the answers that are expected.
fn run(server: &Server, clients: &mut [Option<RawClient>], turn: Turn) -> io::Result<()> {
    let slot = clients.get_mut(turn.session).expect("a session of the script");
    let mut client = match slot.take() {
        Some(client) => client,
        None => super_client(server)?,
    };
    client.call_all(&turn.requests)?;
    if turn.closes {
        return client.close();
    }
    *slot = Some(client);
    Ok(())
}

fn super_client(server: &Server) -> io::Result<RawClient> {
    let (mut client, _) = RawClient::open(server.address(), &ConnectRequest::new(TIMEOUT))?;
    let xid = -4;
    let mut frame = Vec::new();
    frame.extend(i32::to_be_bytes(xid));
    frame.extend(i32::to_be_bytes(op::AUTH));
    frame.extend(request::auth("digest", SUPER.0.as_bytes()));
    client.send_frame(&frame)?;
    let reply = client.read_reply()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    assert_eq!((reply.xid, reply.err), (xid, 0), "the super user is let in");
    Ok(client)
}

/// The tree, once two looks show the same.
fn settled(server: &Server) -> io::Result<BTreeSet<String>> {
    let mut client = super_client(server)?;
    let mut before = look(&mut client)?;
    loop {
        let now = look(&mut client)?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}

/// A line for each znode, in the words of `TakesBack`.
fn look(client: &mut RawClient) -> io::Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    let mut ahead = vec!["/".to_owned()];
    while let Some(path) = ahead.pop() {
        let body = request::path_watch(&path, false);
        let requests = [
            (op::GET_DATA, body.clone()),
            (op::GET_CHILDREN2, body),
            (op::GET_ACL, request::path(&path)),
        ];
        let replies = client.call_all(&requests)?;
        let [data, children, acl] = replies.as_slice() else { unreachable!("three were asked") };
        if [data, children, acl].iter().any(|reply| reply.err != 0) {
            // It went meanwhile.
            continue;
        }
        // ZooKeeper counts anew what limits of a snapshot are about, and passes over some of them.
        let is_counted = path.starts_with("/zookeeper/quota") && path.ends_with("/zookeeper_stats");
        let is_null = data.body.starts_with(&(-1_i32).to_be_bytes());
        let data = if is_counted {
            "counted".to_owned()
        } else if is_null {
            "null".to_owned()
        } else {
            format!("={}", hex(&data.data()))
        };
        let stat = children.stat();
        let mut line = format!("znode {} {data}", hex(path.as_bytes()));
        let numbers = [
            stat.czxid,
            stat.mzxid,
            stat.ctime,
            stat.mtime,
            stat.version.into(),
            stat.cversion.into(),
            stat.aversion.into(),
            stat.ephemeral_owner,
            if is_counted { 0 } else { stat.data_length.into() },
            stat.num_children.into(),
            stat.pzxid,
        ];
        for number in numbers {
            let _ = write!(line, " {number}");
        }
        for entry in acl.acl() {
            let _ = write!(line, " {}", hex(entry.as_bytes()));
        }
        lines.insert(line);
        let above = path.trim_end_matches('/');
        ahead.extend(children.children().iter().map(|name| format!("{above}/{name}")));
    }
    Ok(lines)
}

/// What ZooKeeper makes of a directory.
fn take_back(folder: &Path, zookeeper: &Mutex<Program>) -> Result<BTreeSet<String>, String> {
    let mut zookeeper = zookeeper.lock().expect("no lane panicked");
    zookeeper.say(&folder.display().to_string());
    let mut lines = BTreeSet::new();
    loop {
        let line = zookeeper.next_line().expect("TakesBack says how each one ends");
        if line == "taken" {
            return Ok(lines);
        }
        if line.starts_with("refused ") {
            return Err(line);
        }
        if line.starts_with("znode ") || line.starts_with("digest ") {
            lines.insert(line);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Path and data as text.
fn readable(line: &str) -> String {
    let word = |word: &str| {
        let digits = word.strip_prefix('=').unwrap_or(word);
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        match bytes {
            Some(bytes) if word.len() > 2 || word == "2f" || word == "=" => {
                format!("{:?}", String::from_utf8_lossy(&bytes))
            }
            _ => word.to_owned(),
        }
    };
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for place in words.iter_mut().skip(1).take(2) {
        *place = word(place);
    }
    words.join(" ")
}
