//! Clients that are shells: zkCli and the C client's cli_mt, fed line by line.
//!
//! A script's lines are the client's own commands, except
//! - `== N name` begins a step,
//! - `@skip why`: the client cannot do this step,
//! - `@big COMMAND N`: the command with N bytes of data after it,
//! - `@event TEXT`: waits for the next watch event that contains TEXT,
//! - `@close`, `@drop`: ends the client by its own command, or by kill -9,
//! - `@open`: starts the next client,
//! - `@say COMMAND`: without waiting for what it prints,
//! - `@connect`: the client's own `connect`, to the same server,
//! - `@there PATH`, `@gone PATH`, `@restart PATH`, `@kill`, `@words`: see the stage.

use std::fs;
use std::thread;

use compat_tests::{Program, Signal, classpath, ferrokeeper, repository};

use crate::stage::{SESSION, Stage};

pub(crate) struct Shell {
    script: &'static str,
    /// The command line for a server.
    command: fn(&str) -> Vec<String>,
    /// A command that changes nothing, and the line that shows that all before it is done.
    fence: (&'static str, &'static str),
    connected: &'static str,
    event: &'static str,
    /// Lines that say nothing about the server.
    noise: fn(&str) -> bool,
    /// The longest session that the server is to grant.
    pub(crate) session: i32,
}

pub(crate) const ZKCLI_OF_DEBIAN: Shell = Shell {
    script: "zkcli.steps",
    command: |server| words(&["/usr/share/zookeeper/bin/zkCli.sh", "-server", &twice(server)]),
    fence: ("printwatches", "printwatches is on"),
    connected: "state:SyncConnected type:None",
    event: "WatchedEvent ",
    noise: zkcli_noise,
    session: SESSION,
};

pub(crate) const ZKCLI_OF_THE_REFERENCE: Shell = Shell {
    command: |server| {
        let script = repository().join("scripts/reference");
        let run = format!(
            "exec java -XX:TieredStopAtLevel=1 -Dlog4j2.level=OFF -cp \"$('{}' --classpath)\" \
             org.apache.zookeeper.ZooKeeperMain -server {}",
            script.display(),
            twice(server)
        );
        words(&["bash", "-c", &run])
    },
    ..ZKCLI_OF_DEBIAN
};

pub(crate) const ZKCLI_COMMANDS: Shell =
    Shell { script: "zkcli_commands.steps", ..ZKCLI_OF_THE_REFERENCE };

pub(crate) const ZKCLI_COMMANDS_OF_DEBIAN: Shell =
    Shell { script: "zkcli_commands.steps", ..ZKCLI_OF_DEBIAN };

/// Runs of zkCli with one command each.
pub(crate) const ZKCLI_ONE_SHOT: Shell = Shell {
    script: "zkcli_one_shot.steps",
    command: |server| {
        let program = repository().join("compat-tests/clients/ZkCliOneShot.java");
        let run = ["java", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-cp", &classpath()]
            .map(String::from);
        [&run[..], &[program.display().to_string(), server.into()]].concat()
    },
    fence: ("fence", "fence"),
    connected: "ready",
    event: "ready",
    noise: |line| zkcli_noise(line) || line.starts_with("WatchedEvent "),
    session: SESSION,
};

/// This repository's own shell, fed as zkCli is.
pub(crate) const FERROKEEPER_CLI: Shell = Shell {
    command: |server| words(&[&ferrokeeper().display().to_string(), "cli", "-server", server]),
    ..ZKCLI_OF_DEBIAN
};

pub(crate) const FERROKEEPER_CLI_COMMANDS: Shell =
    Shell { script: "zkcli_commands.steps", ..FERROKEEPER_CLI };

pub(crate) const FERROKEEPER_CLI_ONE_SHOT: Shell = Shell {
    command: |server| {
        let program = repository().join("compat-tests/clients/cli_one_shot.sh");
        let (program, binary) =
            (program.display().to_string(), ferrokeeper().display().to_string());
        words(&["bash", &program, &binary, server])
    },
    // zkCli's sessions live as long as the JVM, with their ephemerals; these, each of a process,
    // until they expire.
    session: 600_000,
    ..ZKCLI_ONE_SHOT
};

/// Java's client gives an attempt to connect the session's whole timeout for one address: one that
/// hangs while the server is killed would cost the session.
fn twice(server: &str) -> String {
    format!("{server},{server}")
}

/// What differs between zkCli and this repository's shell: the build in its version, and commands
/// of its own.
pub(crate) fn without_known_differences(lines: &[String]) -> Vec<String> {
    let own = ["help ", "tree ", "watch "];
    let is_own = |line: &str| {
        let usage = line.strip_prefix("stderr: ").unwrap_or(line).strip_prefix('\t');
        usage.is_some_and(|usage| own.iter().any(|own| usage.starts_with(own)))
    };
    let version = "ZooKeeper CLI version: 3.9.5-";
    lines
        .iter()
        .filter(|line| !is_own(line) && *line != "Command not found: Command not found help")
        .map(|line| if line.starts_with(version) { version.to_owned() } else { line.clone() })
        .collect()
}

pub(crate) const CLI_MT: Shell = Shell {
    script: "cli_mt.steps",
    command: |server| words(&["/usr/lib/zookeeper/bin/cli_mt", server]),
    fence: ("sync /fence", "\tname = /fence"),
    connected: "SESSION_EVENT state = CONNECTED_STATE",
    event: "Watcher ",
    noise: |line| {
        line.is_empty()
            || line.contains(":ZOO_")
            || line.starts_with("Got a new session id")
            || line.starts_with("time = ")
            || line.starts_with("[/fence]")
    },
    session: SESSION,
};

fn zkcli_noise(line: &str) -> bool {
    line.is_empty()
        || line == "WATCHER::"
        || line == "Welcome to ZooKeeper!"
        || line == "JLine support is disabled"
        || line.starts_with("Connecting to ")
        || line.starts_with("SLF4J: ")
        // At its own end; sometimes it is gone before it has printed that.
        || line.contains("state:Closed type:None")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Runs the shell's script; returns what it printed, a step's events after its answers: clients
/// print them from another thread.
pub(crate) fn run(shell: &Shell, stage: &mut Stage) -> Vec<String> {
    let path = repository().join("compat-tests/clients").join(shell.script);
    let script = fs::read_to_string(&path).expect("the script is in clients/");
    let mut talk = Talk { shell, client: None, lines: Vec::new(), events: Vec::new(), awaited: 0 };
    for line in script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        talk.perform(line, stage);
    }
    talk.end_of_step();
    std::mem::take(&mut talk.lines)
}

struct Talk<'a> {
    shell: &'a Shell,
    client: Option<Program>,
    lines: Vec<String>,
    /// Events of this step.
    events: Vec<String>,
    /// How many of them the script has waited for.
    awaited: usize,
}

impl Talk<'_> {
    fn perform(&mut self, line: &str, stage: &mut Stage) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "==" => {
                self.end_of_step();
                self.lines.push(line.into());
            }
            "@skip" => self.lines.push(format!("skip: {rest}")),
            "@big" => {
                let (command, size) = rest.rsplit_once(' ').expect("@big COMMAND N");
                let data = "x".repeat(size.parse().expect("@big COMMAND N"));
                self.command(&format!("{command} {data}"));
            }
            "@event" => self.await_event(rest),
            "@close" => {
                let mut client = self.client.take().expect("a client runs");
                client.say("quit");
                let (_, rest) = client.finish();
                rest.into_iter().for_each(|line| self.sort(line));
            }
            "@drop" => {
                let client = self.client.take().expect("a client runs");
                client.signal(Signal::KILL);
                client.finish();
            }
            "@open" => {
                let command = (self.shell.command)(&stage.server.host_port());
                self.client = Some(Program::start(&command, &[]));
                self.await_event(self.shell.connected);
            }
            "@say" => self.client.as_mut().expect("a client runs").say(rest),
            "@connect" => {
                let line = format!("connect {}", stage.server.host_port());
                self.client.as_mut().expect("a client runs").say(&line);
                self.await_event(self.shell.connected);
            }
            "@there" => self.lines.push(stage.there(rest)),
            "@gone" => self.lines.push(stage.gone(rest)),
            "@restart" => {
                stage.restart(self.client.as_ref().expect("a client runs"), rest);
                self.await_event(self.shell.connected);
            }
            "@kill" => {
                stage.kill();
                self.await_event(self.shell.connected);
            }
            "@words" => self.lines.extend(stage.words()),
            _ => self.command(line),
        }
    }

    /// One command and all that it prints.
    fn command(&mut self, line: &str) {
        let (fence, done) = self.shell.fence;
        let client = self.client.as_mut().expect("a client runs");
        client.say(line);
        client.say(fence);
        loop {
            let client = self.client.as_mut().expect("a client runs");
            let Some(text) = client.next_line() else {
                panic!("the client ended at: {line}\n{}", self.lines.join("\n"));
            };
            match text.strip_suffix(done) {
                // Some errors end without a line's end.
                Some(before) => return self.sort(before.into()),
                None => self.sort(text),
            }
        }
    }

    fn await_event(&mut self, text: &str) {
        loop {
            let fresh = self.events.iter().skip(self.awaited);
            if let Some(found) = fresh.clone().position(|event| event.contains(text)) {
                self.awaited += found + 1;
                return;
            }
            let client = self.client.as_mut().expect("a client runs");
            match client.next_line() {
                Some(line) => self.sort(line),
                None => panic!("the client ended, no event {text}\n{}", self.lines.join("\n")),
            }
        }
    }

    fn sort(&mut self, line: String) {
        if (self.shell.noise)(&line) {
            return;
        }
        let to =
            if line.starts_with(self.shell.event) { &mut self.events } else { &mut self.lines };
        to.push(line);
    }

    fn end_of_step(&mut self) {
        sort_names(&mut self.lines);
        self.lines.append(&mut self.events);
        self.awaited = 0;
    }
}

impl Drop for Talk<'_> {
    #[expect(clippy::print_stderr, reason = "a failed test shows how far the script came")]
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(step) = self.lines.iter().rfind(|line| line.starts_with("== "))
        {
            eprintln!("--- the script stopped in step {}", step.trim_start_matches("== "));
        }
    }
}

/// Lists in the server's order, which means nothing: cli_mt's names, each after a TAB, and the
/// identities of zkCli's whoami.
fn sort_names(lines: &mut [String]) {
    for names in lines.chunk_by_mut(|a, b| is_name(a) && is_name(b)) {
        names.sort();
    }
}

fn is_name(line: &str) -> bool {
    (line.starts_with('\t') && !line.contains('='))
        || ["digest: ", "ip: ", "super: "].iter().any(|scheme| line.starts_with(scheme))
}
