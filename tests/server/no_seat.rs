//! A server that gets no seat asks again and again, and that costs the ensemble nothing.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use jute::CreateMode;

use crate::client::{create, until};
use crate::ensemble::{Patient, prepare, stop, wipe};
use crate::ensemble_sessions::{all_serve, file, secret};
use crate::process::Server;

const TIMEOUT_MS: i32 = 4000;
/// What a member answers to who may not be given the key.
const REFUSED: &[u8] = b"gives it only to servers that authenticate";
/// Each ten in a second at most.
const REFUSALS: usize = 40;

/// Passes connections on to a port, and counts how often `REFUSED` comes back.
struct Between {
    port: u16,
    refusals: Arc<AtomicUsize>,
}

impl Between {
    fn to(port: u16, refusals: &Arc<AtomicUsize>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let between = listener.local_addr().expect("an address").port();
        let counted = Arc::clone(refusals);
        // It ends with the process of the tests.
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let Ok(called) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                let back =
                    (called.try_clone().expect("a socket"), caller.try_clone().expect("one"));
                thread::spawn(move || pass(caller, called, |_| ()));
                let counted = Arc::clone(&counted);
                thread::spawn(move || {
                    let mut said = Vec::new();
                    pass(back.0, back.1, |some| {
                        said.extend_from_slice(some);
                        // It may come in pieces.
                        if let Some(at) = said.windows(REFUSED.len()).position(|its| its == REFUSED)
                        {
                            said.drain(..at + REFUSED.len());
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                });
            }
        });
        Self { port: between, refusals: Arc::clone(refusals) }
    }

    fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut sees: impl FnMut(&[u8])) {
    let mut some = [0; 4096];
    while let Ok(len) = from.read(&mut some)
        && len > 0
    {
        sees(&some[..len]);
        if to.write_all(&some[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// How often the members were to change, by the logs of all.
fn changes(servers: &[Server]) -> usize {
    let of = |server: &Server| server.log().matches("changing the members of the ensemble").count();
    servers.iter().map(of).sum()
}

/// The port where others reach a server, by its line in zoo.cfg.
fn port_of(config: &str, id: u8) -> u16 {
    let begins = format!("server.{id}=127.0.0.1:");
    let line = config.lines().find_map(|line| line.strip_prefix(&begins)).expect("a line");
    line.split(':').next().expect("a port").parse().expect("a number")
}

/// A seat is a change of the members: one that cannot be given must not be prepared, or each
/// question would be two entries of everybody's log.
#[test]
fn who_may_not_be_given_the_key_changes_no_members_however_often_it_asks() {
    let (_secret, line) = secret();
    let mut servers = prepare(3, &line);
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    Patient::connect(&servers[0], TIMEOUT_MS).ok(&create("/kept", vec![], CreateMode::Persistent));
    servers.iter_mut().for_each(stop);
    wipe(&servers[2]);
    for server in &servers[..2] {
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        fs::write(server.config(), format!("{config}\nportUnification=true\n")).expect("zoo.cfg");
    }
    // It proves nothing, and what it is answered passes by here.
    let refusals = Arc::default();
    let config = fs::read_to_string(servers[2].config()).expect("zoo.cfg").replace(&line, "");
    let between = [1, 2].map(|id| Between::to(port_of(&config, id), &refusals));
    let config = [1, 2].into_iter().zip(&between).fold(config, |config, (id, between)| {
        let port = port_of(&config, id);
        config.replace(
            &format!("server.{id}=127.0.0.1:{port}:"),
            &format!("server.{id}=127.0.0.1:{}:", between.port),
        )
    });
    fs::write(servers[2].config(), config).expect("zoo.cfg");
    let before = changes(&servers);
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers[..2]);
    until("it was refused often", || between[0].refusals() >= REFUSALS);
    assert_eq!(changes(&servers), before, "{}", servers[0].log());
    assert!(!file(&servers[2], "raft.state").exists());
    for (server, path) in servers[..2].iter().zip(["/a", "/b"]) {
        let mut client = Patient::connect(server, TIMEOUT_MS);
        client.ok(&create(path, vec![], CreateMode::Persistent));
        assert!(client.exists("/kept"));
    }
    assert_eq!(servers[0].figure("quorum_size"), 3);
}
