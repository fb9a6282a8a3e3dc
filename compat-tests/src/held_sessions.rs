//! Stock clients that hold ephemerals and locks while servers come and go, and say whether they
//! ever lost their session.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::Java;
use crate::program::{Program, classpath, python, repository};

/// A server may be down, a client in its pause before it tries again.
const DEADLINE: Duration = Duration::from_secs(60);

/// What a client says of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// How often it was told, or concluded, that the session is gone.
    pub lost: u64,
    /// How often its connection was.
    pub suspended: u64,
    /// Its session's id.
    pub session: i64,
    /// Who owns its ephemeral; 0 if it is gone.
    pub owner: i64,
    /// Whether it still takes itself for the holder of its lock.
    pub locked: bool,
}

/// A running program with its clients.
#[derive(Debug)]
pub struct HeldSessions {
    program: Program,
    /// The classes that it runs.
    _java: Option<Java>,
}

impl HeldSessions {
    /// Clients on Curator, all in one JVM.
    pub fn of_curator(server: SocketAddr, clients: usize, session_ms: u32) -> Self {
        let java = Java::compile(&["held_sessions"], classpath());
        let program = java.run("CuratorSessions", &words(server, clients, session_ms));
        Self::ready(program, Some(java))
    }

    /// Clients on kazoo.
    pub fn of_kazoo(server: SocketAddr, clients: usize, session_ms: u32) -> Self {
        let script = repository().join("compat-tests/clients/held_sessions/kazoo_sessions.py");
        let mut command = vec![python().display().to_string(), script.display().to_string()];
        command.extend(words(server, clients, session_ms));
        Self::ready(Program::start(&command, &[]), None)
    }

    fn ready(program: Program, java: Option<Java>) -> Self {
        let mut program = program.with_deadline(DEADLINE);
        assert_eq!(program.next_line().as_deref(), Some("ready"), "all clients hold something");
        Self { program, _java: java }
    }

    /// What each client says, by the path of its ephemeral; waits until it is connected.
    pub fn report(&mut self) -> BTreeMap<String, Held> {
        self.program.say("report");
        let mut report = BTreeMap::new();
        loop {
            let line = self.program.next_line().expect("the clients run");
            if line == "reported" {
                return report;
            }
            let (path, held) = parse(&line).unwrap_or_else(|| panic!("no report: {line}"));
            report.insert(path, held);
        }
    }

    /// Closes the sessions.
    pub fn finish(self) {
        let (ended, said) = self.program.finish();
        assert!(ended, "{}", said.join("\n"));
    }
}

fn words(server: SocketAddr, clients: usize, session_ms: u32) -> [String; 3] {
    [server.to_string(), clients.to_string(), session_ms.to_string()]
}

fn parse(line: &str) -> Option<(String, Held)> {
    let mut words = line.split(' ');
    let path = words.next()?.to_owned();
    let fields: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
    let number = |name| fields.get(name)?.parse().ok();
    let id = |name| i64::from_str_radix(fields.get(name)?.trim_start_matches("0x"), 16).ok();
    let held = Held {
        lost: number("lost")?,
        suspended: number("suspended")?,
        session: id("session")?,
        owner: id("owner")?,
        locked: fields.get("locked")?.parse().ok()?,
    };
    Some((path, held))
}
