//! Three servers of one kind that form an ensemble on 127.0.0.1.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::four_letter_words;
use crate::server::{Kind, Port, Server};

const DEADLINE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
const SERVERS: usize = 3;

/// Running or stopped servers of one list.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
    /// Where they talk to one another.
    _ports: Vec<Port>,
}

impl Ensemble {
    /// Starts three servers on fresh directories, with lines of zoo.cfg as of [`Server::start`];
    /// returns once one leads and the others follow.
    ///
    /// # Panics
    /// If they do not within a minute.
    pub fn start(kind: Kind, config: &[&str]) -> Self {
        let ports: Vec<Port> = (0..2 * SERVERS).map(|_| Port::free()).collect();
        let mut lines: Vec<String> = vec!["initLimit=10".into(), "syncLimit=5".into()];
        lines.extend(config.iter().map(ToString::to_string));
        lines.extend((1..).zip(ports.chunks(2)).map(|(id, pair)| {
            format!("server.{id}=127.0.0.1:{}:{}", pair[0].number, pair[1].number)
        }));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut servers: Vec<Server> =
            (0..SERVERS).map(|_| Server::stopped(kind, &lines)).collect();
        for (id, server) in (1..).zip(&mut servers) {
            fs::write(server.data_dir().join("myid"), format!("{id}\n")).expect("myid is written");
            server.begin();
        }
        let mut ensemble = Self { servers, _ports: ports };
        ensemble.settle();
        ensemble
    }

    /// The client addresses as stock clients want them.
    pub fn hosts(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(Server::host_port).collect();
        hosts.join(",")
    }

    /// Ends the one that leads by SIGKILL; returns its number.
    ///
    /// # Panics
    /// If none leads for a minute.
    pub fn kill_leader(&mut self) -> usize {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(leader) = self.modes().iter().position(|mode| mode == "leader") {
                self.servers[leader].kill();
                return leader;
            }
            assert!(Instant::now() < deadline, "nobody leads: {:?}", self.modes());
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// One of them, by its number from 0 on.
    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    /// All of them.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Ends all by SIGKILL.
    pub fn kill(&mut self) {
        self.servers.iter_mut().for_each(Server::kill);
    }

    /// Ends these by SIGKILL.
    pub fn kill_some(&mut self, numbers: &[usize]) {
        numbers.iter().for_each(|number| self.servers[*number].kill());
    }

    /// From now on `kind` runs on these directories (takes effect at the next start).
    pub fn hand_over_to(&mut self, kind: Kind) {
        self.servers.iter_mut().for_each(|server| server.hand_over_to(kind));
    }

    /// From now on `kind` runs on these.
    pub fn hand_over_some_to(&mut self, numbers: &[usize], kind: Kind) {
        numbers.iter().for_each(|number| self.servers[*number].hand_over_to(kind));
    }

    /// Starts all that were killed; returns once one leads and the others follow.
    ///
    /// # Panics
    /// If they do not within a minute.
    pub fn start_again(&mut self) {
        self.servers.iter_mut().for_each(Server::begin);
        self.settle();
    }

    /// Starts these that were killed; returns once one of them leads and the others follow.
    ///
    /// # Panics
    /// If they do not within a minute.
    pub fn start_some(&mut self, numbers: &[usize]) {
        numbers.iter().for_each(|number| self.servers[*number].begin());
        self.settle_some(numbers);
    }

    /// Starts one that was killed, and does not wait for it.
    pub fn begin(&mut self, number: usize) {
        self.servers[number].begin();
    }

    /// Waits until one that was started serves, whatever it is.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn wait_until_serving(&mut self, number: usize) {
        self.servers[number].wait_until_serving().unwrap_or_else(|why| panic!("{why}"));
    }

    /// Waits for the end of one that was started and may not go on; what it said.
    ///
    /// # Panics
    /// If it serves.
    pub fn expect_end(&mut self, number: usize) -> String {
        self.servers[number].wait_until_serving().expect_err("it must not serve")
    }

    /// Starts one that was killed, for a directory that may be refused.
    ///
    /// # Errors
    /// What the server said in its end.
    pub fn try_restart(&mut self, number: usize) -> Result<(), String> {
        self.servers[number].try_restart()
    }

    /// Starts one that was killed, and waits until it serves.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn restart(&mut self, number: usize) {
        self.servers[number].restart();
    }

    /// Waits until one leads and the others follow.
    ///
    /// # Panics
    /// If they do not within a minute.
    fn settle(&mut self) {
        let all: Vec<usize> = (0..self.servers.len()).collect();
        self.settle_some(&all);
    }

    /// The same of these.
    ///
    /// # Panics
    /// If they do not within a minute.
    pub fn settle_some(&mut self, numbers: &[usize]) {
        for number in numbers {
            self.servers[*number].wait_until_serving().unwrap_or_else(|why| panic!("{why}"));
        }
        let deadline = Instant::now() + DEADLINE;
        let expected: Vec<&str> =
            (1..numbers.len()).map(|_| "follower").chain(["leader"]).collect();
        loop {
            let modes = self.modes();
            let mut modes: Vec<&String> = numbers.iter().map(|number| &modes[*number]).collect();
            modes.sort();
            if modes == expected {
                return;
            }
            assert!(Instant::now() < deadline, "no leader with all others behind it: {modes:?}");
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// What each says of itself; nothing if it does not serve.
    fn modes(&self) -> Vec<String> {
        let mode = |server: &Server| {
            let patience = Duration::from_millis(500);
            let text = four_letter_words::ask_within(server.address(), "srvr", patience);
            let text = text.unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("Mode: "));
            line.unwrap_or_default().to_owned()
        };
        self.servers.iter().map(mode).collect()
    }
}
