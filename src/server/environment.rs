//! What `envi` shows: ZooKeeper's keys, as far as they mean something without a JVM.

use std::env;
use std::fmt::Write as _;
use std::fs;

use super::operator::four_letter::VERSION;

/// What stands where only a JVM has a value.
const NOT_HERE: &str = "<NA>";

/// The answer to `envi`.
pub(super) fn text() -> String {
    let mut text = "Environment:\n".to_owned();
    for (key, value) in entries() {
        let _ = writeln!(text, "{key}={value}");
    }
    text
}

/// What it shows, in its order.
pub(super) fn entries() -> [(&'static str, String); 18] {
    let variable = |name| env::var(name).unwrap_or_else(|_| NOT_HERE.to_owned());
    let kernel = |name| read(&format!("/proc/sys/kernel/{name}"));
    let memory = memory_mb();
    let account = Account::own();
    let user_name = name_of(account.as_ref());
    [
        ("zookeeper.version", VERSION.to_owned()),
        ("host.name", kernel("hostname")),
        ("java.version", NOT_HERE.to_owned()),
        ("java.vendor", NOT_HERE.to_owned()),
        ("java.home", NOT_HERE.to_owned()),
        ("java.class.path", NOT_HERE.to_owned()),
        ("java.library.path", NOT_HERE.to_owned()),
        ("java.io.tmpdir", env::temp_dir().display().to_string()),
        ("java.compiler", NOT_HERE.to_owned()),
        ("os.name", kernel("ostype")),
        ("os.arch", arch().to_owned()),
        ("os.version", kernel("osrelease")),
        ("user.name", user_name),
        ("user.home", account.as_ref().map_or_else(|| variable("HOME"), |it| it.home.clone())),
        (
            "user.dir",
            env::current_dir()
                .map_or_else(|_| NOT_HERE.to_owned(), |folder| folder.display().to_string()),
        ),
        ("os.memory.free", memory("MemAvailable:")),
        ("os.memory.max", memory("MemTotal:")),
        ("os.memory.total", memory("MemTotal:")),
    ]
}

/// Whose process this is.
pub(super) fn user_name() -> String {
    name_of(Account::own().as_ref())
}

fn name_of(account: Option<&Account>) -> String {
    let variable = || env::var("USER").unwrap_or_else(|_| NOT_HERE.to_owned());
    account.map_or_else(variable, |account| account.name.clone())
}

/// The machine by Java's name.
fn arch() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        other => other,
    }
}

/// A line of /etc/passwd.
struct Account {
    name: String,
    home: String,
}

impl Account {
    /// Whose process this is: services often run without the variables of a login.
    fn own() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let mut ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace();
        let effective = ids.nth(1)?;
        let accounts = fs::read_to_string("/etc/passwd").ok()?;
        accounts.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, id, home) = (fields.next()?, fields.nth(1)?, fields.nth(2)?);
            (id == effective).then(|| Self { name: name.to_owned(), home: home.to_owned() })
        })
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| NOT_HERE.to_owned(), |text| text.trim_end().to_owned())
}

/// Looks up a figure of the machine's memory, in megabytes.
fn memory_mb() -> impl Fn(&str) -> String {
    let figures = read("/proc/meminfo");
    move |name| {
        figures
            .lines()
            .find_map(|line| {
                line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok()
            })
            .map_or_else(|| NOT_HERE.to_owned(), |kilobytes| format!("{}MB", kilobytes / 1024))
    }
}
