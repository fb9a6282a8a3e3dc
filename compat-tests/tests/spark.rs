//! Spark's masters elect the active one and keep workers and applications in ZooKeeper, through
//! Curator.

use std::process::Command;
use std::time::Duration;

use compat_tests::compatibility::{Client, on_both};
use compat_tests::{Program, Server, installed, repository};

/// Longer than the program itself waits for anything.
const DEADLINE: Duration = Duration::from_secs(400);

const CHECKS: [&str; 8] = [
    "one-active",
    "application-runs",
    "standby-takes-over",
    "worker-comes-back",
    "application-is-kept",
    "killed-one-stands-by",
    "second-failover",
    "new-application",
];

/// What Spark's own launcher opens, as far as a driver without Kerberos needs it.
const OPENED: [&str; 13] = [
    "java.io",
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
];

fn home() -> String {
    let output = Command::new(repository().join("scripts/spark")).output();
    let output = output.expect("scripts/spark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a path").trim_end().into()
}

fn start(server: &Server) -> Program {
    let home = home();
    let program = repository().join("compat-tests/clients/spark/Masters.java");
    let options = ["-XX:TieredStopAtLevel=1", "-Xmx512m", "-Dlog4j2.level=OFF"];
    let mut words = vec!["java".to_string()];
    words.extend(options.map(String::from));
    let open = |package| format!("--add-opens=java.base/{package}=ALL-UNNAMED");
    words.extend(OPENED.map(open));
    words.extend(["-cp".into(), format!("{home}/jars/*"), program.display().to_string()]);
    words.extend([server.host_port(), home]);
    Program::start(&words, &[("SPARK_LOCAL_IP", "127.0.0.1")]).with_deadline(DEADLINE)
}

#[test]
#[ignore = "scripts/test --all"]
fn masters() {
    let what = "two masters, a worker, an application; the active master killed, twice";
    let version = installed::jar(&format!("{}/jars/*", home()), "spark-core_2.13");
    let spark = Client { name: "Spark", version: &version, what };
    // A master asks for a minute, which a test need not wait for; one that loses its connection for
    // longer than this ends.
    on_both(spark, &CHECKS, &["maxSessionTimeout=8000"], start);
}
