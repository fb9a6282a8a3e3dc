//! `ferrokeeper top` on this server's AdminServer and on that of Apache ZooKeeper.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use compat_tests::request::{self, op};
use compat_tests::{Kind, Server, ferrokeeper};
use serde_json::Value;

fn top(server: &str, words: &[&str]) -> Output {
    let mut command = Command::new(ferrokeeper());
    command.args(["top", "--server", server]).args(words);
    command.output().expect("it runs")
}

#[test]
fn it_shows_who_asks_most() {
    for kind in [Kind::subject(), Kind::Reference] {
        let server = Server::start(kind, &["admin.enableServer=true"]);
        let (busy, idle) = (server.connect(10_000), server.connect(10_000));
        let session = |client: &compat_tests::RawClient| {
            format!("{:#x}", client.session.as_ref().expect("a session").id)
        };
        let sessions = [session(&busy), session(&idle)];
        let ended = AtomicBool::new(false);
        let output = thread::scope(|scope| {
            scope.spawn(|| {
                let mut busy = busy;
                let watch = request::path_watch("/none", true);
                let data = request::path_watch("/zookeeper/quota", false);
                while !ended.load(Ordering::Relaxed) {
                    busy.call(op::EXISTS, &watch).expect("a reply");
                    busy.call(op::EXISTS, &watch).expect("a reply");
                    busy.call(op::GET_DATA, &data).expect("a reply");
                    busy.call(op::DELETE, &request::path_version("/none", -1)).expect("a reply");
                }
                busy.close().expect("the session closes");
            });
            let output = top(&server.admin().to_string(), &["--once", "--json"]);
            ended.store(true, Ordering::Relaxed);
            output
        });
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        let turn: Value = serde_json::from_str(&said).expect("one object");
        assert_eq!(turn["role"], "standalone", "{said}");
        assert_eq!(turn["connections"], 2, "{said}");
        assert_eq!(turn["watches"], 1, "{said}");
        let shown = [0, 1].map(|at| turn["busiest"][at]["session"].as_str().unwrap_or_default());
        assert_eq!(shown, [&*sessions[0], &*sessions[1]], "{said}");
        let pace = |turn: &Value| turn["requests_per_second"].as_u64().expect("a number");
        assert!(pace(&turn) > 0 && pace(&turn["busiest"][0]) > 0, "{said}");
        assert_eq!(pace(&turn["busiest"][1]), 0, "{said}");
        let hot = ["path", "reads_per_second", "writes_per_second"];
        let hot = turn["hot_paths"].as_array().map(|all| {
            all.iter().map(|its| hot.map(|field| its[field].clone())).collect::<Vec<_>>()
        });
        match (kind, hot.as_deref()) {
            // ZooKeeper does not tell.
            (Kind::Reference, None) => {}
            (Kind::Ferrokeeper, Some([most, next])) => {
                assert_eq!([&most[0], &next[0]], ["/none", "/zookeeper/quota"], "{said}");
                let [reads, writes, others] =
                    [&most[1], &most[2], &next[1]].map(|pace| pace.as_u64().expect("a number"));
                // Two, one and one of each four, but for those on their way at the time.
                assert!(writes > 0 && (2 * writes).abs_diff(reads) <= 4, "{said}");
                assert!(writes.abs_diff(others) <= 2 && next[2] == 0, "{said}");
            }
            _ => panic!("{said}"),
        }

        let lines = top(&server.admin().to_string(), &["--once"]);
        let lines = String::from_utf8_lossy(&lines.stdout).into_owned();
        assert!(lines.starts_with(&format!("{}  standalone\n", server.admin())), "{lines}");
        assert!(lines.contains(&sessions[1]), "{lines}");
    }
}

/// Whoever watches a restart sees it.
#[test]
fn it_goes_on_after_a_second_without_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut command = Command::new(ferrokeeper());
    command.args(["top", "--json", "--server", &address]).stdout(std::process::Stdio::piped());
    let mut running = command.spawn().expect("it runs");
    let lines = BufReader::new(running.stdout.take().expect("it is piped")).lines();
    let ended = AtomicBool::new(false);
    let answer = |stream: &mut std::net::TcpStream, body: &str| {
        let mut request = [0; 1000];
        if stream.read(&mut request).is_ok_and(|read| read > 0) {
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes());
        }
    };
    let monitor = r#"{"packets_received":5,"server_state":"standalone","connections":[]}"#;
    let said: Vec<String> = thread::scope(|scope| {
        scope.spawn(|| {
            // A sample is three answers; the first one of the second sample fails.
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.expect("it asks");
                answer(&mut stream, if number == 3 { "" } else { monitor });
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let said = lines.take(2).map_while(Result::ok).collect();
        ended.store(true, Ordering::Relaxed);
        let _ = running.kill();
        running.wait().expect("it ends");
        let _ = std::net::TcpStream::connect(&address);
        said
    });
    let said: Vec<Value> =
        said.iter().map(|line| serde_json::from_str(line).expect("one object")).collect();
    let [failed, turn] = &said[..] else { panic!("{said:?}") };
    assert!(failed["error"].as_str().is_some_and(|error| error.contains(&address)), "{failed}");
    assert_eq!((&turn["role"], &turn["error"]), (&Value::from("standalone"), &Value::Null));
}

#[test]
fn what_is_no_adminserver_is_told_in_one_line() {
    for answer in [
        "",
        "SSH-2.0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n[]",
        "HTTP/1.1 200 OK\r\n\r\n{",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serves = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it asks");
            let mut request = [0; 1000];
            let read = stream.read(&mut request).expect("a request");
            assert!(request[..read].starts_with(b"GET /commands/monitor HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).expect("an answer");
        });
        let output = top(&address, &["--once"]);
        serves.join().expect("it was asked");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1), "{answer}: {said}");
        assert!(said.starts_with(&format!(
            "ferrokeeper: [FK0808] cannot query the AdminServer at {address}: "
        )));
    }
}
