//! Java programs on somebody's jars: several sources each, compiled for the test. Debian's headless
//! JRE has the compiler, only not the command `javac`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::program::{Program, repository};
use crate::server::Server;

/// Compiled classes and the jars that they run on.
#[derive(Debug)]
pub struct Java {
    classes: TempDir,
    jars: String,
}

impl Java {
    /// Compiles the sources in `folders` of compat-tests/clients, and what all programs share.
    ///
    /// # Panics
    /// If one of them is not Java; the message has what the compiler says.
    pub fn compile(folders: &[&str], jars: String) -> Self {
        let classes = tempfile::Builder::new()
            .prefix("compat-classes.")
            .tempdir()
            .expect("a temporary directory for the classes");
        let output = Command::new("java")
            // The compiler takes the class path of its own JVM, wildcards and all.
            .args(["-XX:TieredStopAtLevel=1", "-cp", &jars])
            .args(["-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-d"])
            .arg(classes.path())
            .args(["java"].iter().chain(folders).flat_map(|folder| sources(folder)))
            .output()
            .expect("java runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { classes, jars }
    }

    /// Where the classes are.
    pub fn classes(&self) -> &Path {
        self.classes.path()
    }

    /// Runs a class with the server's address.
    pub fn start(&self, class: &str, server: &Server) -> Program {
        self.run(class, &[server.host_port()])
    }

    /// Runs a class with arguments.
    pub fn run(&self, class: &str, arguments: &[String]) -> Program {
        Program::start(&self.words(class, arguments), &[])
    }

    /// The command that does.
    pub fn words(&self, class: &str, arguments: &[String]) -> Vec<String> {
        let classpath = format!("{}:{}", self.classes.path().display(), self.jars);
        let words = [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Dlog4j2.level=OFF",
            "-cp",
            &classpath,
            class,
        ];
        words.iter().map(ToString::to_string).chain(arguments.iter().cloned()).collect()
    }
}

/// The class path of jars of Debian's packages, without the version in their names.
///
/// # Panics
/// If one is not installed.
pub fn debian_jars(names: &[&str]) -> String {
    let jars = names.iter().map(|name| {
        let jar = format!("/usr/share/java/{name}.jar");
        assert!(Path::new(&jar).exists(), "{jar} is missing: scripts/test installs its package");
        jar
    });
    jars.collect::<Vec<_>>().join(":")
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let folder = repository().join("compat-tests/clients").join(folder);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry of a folder of the repository").path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "java")).collect()
}
