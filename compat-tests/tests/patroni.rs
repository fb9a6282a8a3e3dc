//! Patroni keeps one PostgreSQL of two the leader, by a lock in ZooKeeper: kills, a failover, a
//! switchover.

use std::process::Command;
use std::time::Duration;

use compat_tests::compatibility::{Client, LeaderKill, on_both, through_a_leader_kill};
use compat_tests::{Program, repository};

/// Longer than the program itself waits for anything.
const DEADLINE: Duration = Duration::from_secs(200);

const CHECKS: [&str; 6] = [
    "leader-elected",
    "row-replicated",
    "replica-promoted",
    "row-kept",
    "old-leader-follows",
    "switchover",
];

/// Debian's Patroni lives in the system's Python.
fn start(hosts: &str) -> Program {
    let program = repository().join("compat-tests/clients/patroni/failover.py");
    let words = ["/usr/bin/python3", &program.display().to_string(), hosts];
    Program::start(&words.map(String::from), &[]).with_deadline(DEADLINE)
}

/// The number in what a program says of its version.
fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; scripts/test --all"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let number =
        said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    number.unwrap_or_else(|| panic!("{program} --version: {said}")).into()
}

#[test]
#[ignore = "scripts/test --all"]
fn failover() {
    let version = format!("{}, PostgreSQL {}", version("patroni"), version("psql"));
    let what = "two members; the leader killed, the other promoted, no row lost; a switchover";
    let patroni = Client { name: "Patroni", version: &version, what };
    on_both(patroni, &CHECKS, &[], |server| start(&server.host_port()));
}

/// The leader of the ensemble is gone from before the leader among the members is killed until the
/// other one has led.
#[test]
#[ignore = "scripts/test --all"]
fn failover_through_the_end_of_a_leader() {
    let version = format!("{}, PostgreSQL {}", version("patroni"), version("psql"));
    let what = "two members on three servers, whose leader is killed during the failover";
    let patroni = Client { name: "Patroni", version: &version, what };
    let kill = LeaderKill { killed: 2, back: 4 };
    through_a_leader_kill(patroni, &CHECKS, &[], kill, start);
}
