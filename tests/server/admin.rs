//! The AdminServer: when it is there, for whom, and what slow clients cost.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::client::{DEADLINE, until};
use crate::process::{Server, free_port};

/// What ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines for an AdminServer, and where it will be.
fn admin(more: &str) -> (String, SocketAddr) {
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let lines = format!(
        "admin.enableServer=true\nadmin.serverAddress={}\nadmin.serverPort={}\n{more}",
        address.ip(),
        address.port()
    );
    (lines, address)
}

/// The answer with its head.
fn get(address: SocketAddr, path: &str, headers: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn it_answers_while_the_data_directory_is_read() {
    let (lines, address) = admin("");
    let server = Server::prepare(&lines);
    let folder = server.data().join("version-2");
    fs::create_dir(&folder).expect("a folder");
    // Whoever opens it waits until somebody writes.
    let pipe = folder.join("snapshot.5");
    assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo runs").success());
    let _running = Running(server.command().spawn().expect("it starts"));
    let began = Instant::now();
    let live = loop {
        match get(address, "/health/live", "") {
            Ok(answer) => break answer,
            Err(error) => assert!(began.elapsed() < DEADLINE, "{error}: {}", server.log()),
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status(&live), "200", "{live}");
    let ready = get(address, "/health/ready", "").expect("an answer");
    assert_eq!(status(&ready), "503", "{ready}");
    assert!(
        ready.contains("\"reason\" : \"this server is reading its data directory, "),
        "{ready}"
    );
    let ruok = get(address, "/commands/ruok", "").expect("an answer");
    assert!(ruok.contains("not currently serving requests"), "{ruok}");
    // The AdminServer listens before the client port does.
    until("the client port listens", || TcpStream::connect(server.address()).is_ok());
    let srvr = server.word("srvr");
    assert!(srvr.contains("not currently serving requests"), "clients are not served yet: {srvr}");
}

#[test]
fn a_port_in_use_is_no_reason_not_to_start() {
    let (lines, address) = admin("");
    let _other = TcpListener::bind(address).expect("a port");
    let server = Server::start(&lines);
    assert!(server.log().contains("there is no AdminServer"), "{}", server.log());
    assert_eq!(server.word("ruok"), "imok");
}

const RESETS: [&str; 6] =
    ["stat_reset", "srst", "crst", "orst", "stmk?traceMask=1", "log_level?level=warn"];
/// As a proxy on this machine passes it on.
const ELSEWHERE: &str = "X-Forwarded-For: 127.0.0.1\r\n";

/// The status where `shown` is shown from elsewhere.
fn status_for(address: SocketAddr, command: &str, shown: &str) -> String {
    let headers = format!("{ELSEWHERE}Authorization: {shown}\r\n");
    let answer = get(address, &format!("/commands/{command}"), &headers).expect("an answer");
    status(&answer).to_owned()
}

#[test]
fn others_need_authorization_for_what_changes_the_server() {
    // The hash of u:p.
    let (lines, address) =
        admin("DigestAuthenticationProvider.superDigest=u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=");
    let _server = Server::start(&lines);
    for command in RESETS {
        let path = format!("/commands/{command}");
        let refused = get(address, &path, ELSEWHERE).expect("an answer");
        assert_eq!(status(&refused), "401", "{refused}");
        assert!(refused.contains("Auth info is missing for the command"), "{refused}");
        let mask = get(address, "/commands/gtmk", ELSEWHERE).expect("an answer");
        assert!(mask.contains("\"tracemask\" : 306"), "{mask}");
    }
    for command in RESETS {
        assert_eq!(status_for(address, command, "x y"), "401", "{command}");
        // The ACL of / lets the world do everything, and names nobody.
        assert_eq!(status_for(address, command, "digest any:thing"), "403", "{command}");
        assert_eq!(status_for(address, command, "digest u:p"), "200", "{command}");
        let path = format!("/commands/{command}");
        assert_eq!(status(&get(address, &path, "").expect("an answer")), "200", "{command}");
    }
}

#[test]
fn the_world_counts_elsewhere_where_it_is_let_in() {
    let (lines, address) = admin("admin.remote.allowWorld=true");
    let _server = Server::start(&lines);
    for command in RESETS {
        assert_eq!(status_for(address, command, "x y"), "401", "{command}");
        assert_eq!(status_for(address, command, "digest any:thing"), "200", "{command}");
    }
}

#[test]
fn the_level_of_the_log_changes_at_run_time() {
    let (lines, address) = admin("");
    let server = Server::start(&lines);
    let level =
        |query: &str| get(address, &format!("/commands/log_level{query}"), "").expect("an answer");
    assert!(level("").contains("\"level\" : \"info\""), "{}", level(""));
    let reset = || {
        let client = server.connect(10_000);
        SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).expect("set");
    };
    reset();
    let refused = level("?level=loud");
    assert!(refused.contains("\"error\" : \"loud is not a level"), "{refused}");
    let set = level("?level=info,ferrokeeper::server=debug");
    assert!(set.contains("ferrokeeper::server=debug"), "{set}");
    until("that is told", || server.log().contains("FK0609"));
    assert!(!server.log().contains("connection lost"), "{}", server.log());
    until("a reset is told", || {
        reset();
        server.log().contains("DEBUG server::intake::drive: connection lost")
    });
}

#[test]
fn passwords_of_zoo_cfg_are_not_shown() {
    let (lines, address) = admin("ssl.quorum.keyStore.password=no-one-may-see");
    let _server = Server::start(&lines);
    let shown = get(address, "/commands/icfg", "").expect("an answer");
    assert!(shown.contains("ssl.quorum.keyStore.password=***"), "{shown}");
    for command in ["icfg", "sysp", "conf", "envi"] {
        let answer = get(address, &format!("/commands/{command}"), "").expect("an answer");
        assert!(!answer.contains("no-one-may-see"), "{answer}");
    }
}

/// Reads until the other side ends the connection, and writes a byte of a request now and then if
/// that is wanted.
fn until_closed(mut stream: TcpStream, trickles: bool) {
    let began = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    loop {
        match stream.read(&mut [0; 512]) {
            Ok(0) => return,
            Ok(_) => panic!("an answer to no request"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        assert!(began.elapsed() < DEADLINE, "the connection is kept");
        if trickles && stream.write_all(b"x").is_err() {
            return;
        }
    }
}

#[test]
fn who_never_finishes_a_request_loses_the_place() {
    let (lines, address) = admin("admin.idleTimeout=300");
    let server = Server::start(&lines);
    let connect = |_| TcpStream::connect(address).expect("a connection");
    let mut silent: Vec<TcpStream> = (0..40).map(connect).collect();
    for stream in &mut silent {
        stream.write_all(b"GET /commands/").expect("half a request");
    }
    let trickling = silent.split_off(20);
    thread::scope(|scope| {
        for stream in trickling {
            scope.spawn(move || until_closed(stream, true));
        }
        for stream in silent {
            scope.spawn(move || until_closed(stream, false));
        }
        // It waits for its turn after them.
        let answer = get(address, "/commands/ruok", "").expect("an answer");
        assert_eq!(status(&answer), "200", "{answer}");
    });
    assert_eq!(server.word("ruok"), "imok");
}

/// Each that waits holds a connection, and each that is done takes the orderer's or the disk's
/// time.
#[test]
fn a_command_that_finds_too_many_waiting_is_turned_away() {
    const ASKED: usize = 16;
    let (lines, address) = admin("");
    let _server = Server::start(&lines);
    for (command, places) in [("monitor", 8), ("connections", 4)] {
        let head =
            format!("GET /commands/{command} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        // How many find others there is the machine's choice.
        until("some are turned away", || {
            let connect = |_| TcpStream::connect(address).expect("a connection");
            let mut streams: Vec<TcpStream> = (0..ASKED).map(connect).collect();
            for stream in &mut streams {
                stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
                stream.write_all(head.as_bytes()).expect("a request");
            }
            let answer = |mut stream: TcpStream| {
                let mut text = String::new();
                // Who has not asked yet may lose its place to one that comes later.
                let _ = stream.read_to_string(&mut text);
                text
            };
            let answers: Vec<String> = streams.into_iter().map(answer).collect();
            let count = |code| answers.iter().filter(|answer| status(answer) == code).count();
            let (done, away) = (count("200"), count("503"));
            let others = answers.iter().filter(|answer| !answer.is_empty()).count();
            assert_eq!(done + away, others, "{answers:?}");
            assert!(away == 0 || done >= places, "{done} were done when {away} were turned away");
            away > 0
        });
        let answer = get(address, &format!("/commands/{command}"), "").expect("an answer");
        assert_eq!(status(&answer), "200", "{answer}");
    }
}
