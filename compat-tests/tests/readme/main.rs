//! What README.md and the pages of docs/operations tell their reader to type works as it stands
//! there, with the output that they show.

mod page;
mod terminal;

use std::fs;
use std::path::Path;

use compat_tests::repository;

use page::{Block, blocks, is_as_shown};
use terminal::{Terminals, in_a_world_of_its_own};

/// What a block needs beside its language.
enum Wish {
    /// It is not run, for this reason.
    NotRun(&'static str),
    /// A server, which goes on until Ctrl-C.
    Serves,
    /// Another program that goes on, and is ready when it has printed this.
    Stays(&'static str),
    /// Lines to type into what runs on; the last one after it has printed this.
    Typed(&'static str),
    /// Something that is there before it.
    Given(fn(&mut Terminals)),
}

/// By their first lines. Any other block runs to its end.
const README: [(&str, Wish); 6] = [
    (
        "cargo run --release -- server",
        Wish::NotRun("builds; the binary that is there serves further below"),
    ),
    (
        "cargo build --release",
        Wish::NotRun("takes minutes; the binary that is there is on the PATH"),
    ),
    (
        "ferrokeeper server                         # serves 127.0.0.1:2181, keeps its data in \
         ./ferrokeeper-data",
        Wish::Serves,
    ),
    (
        "ferrokeeper cli watch -r /                 # prints each change until Ctrl-C",
        Wish::Stays("press Ctrl-C to stop"),
    ),
    ("/usr/share/zookeeper/bin/zkCli.sh -server 127.0.0.1:2181", Wish::Stays("JLine support is")),
    ("create /hello world", Wish::Typed("NodeChildrenChanged")),
];

/// The folder of the pages.
const PAGES: &str = "docs/operations";

/// Each page, with its wishes. It runs on its own: its reader may have read no other.
const OPERATIONS: [(&str, &[(&str, Wish)]); 16] = [
    (
        "start-and-stop.md",
        &[
            ("cargo build --release", Wish::NotRun("takes minutes, and writes into /usr/local")),
            ("[Unit]", Wish::NotRun("a unit for systemd")),
            (
                "useradd --system --home-dir /var/lib/ferrokeeper --shell /usr/sbin/nologin \
                 ferrokeeper",
                Wish::NotRun("adds a user, and starts a service"),
            ),
            (
                "ferrokeeper server                          # 127.0.0.1:2181, data in \
                 ./ferrokeeper-data",
                Wish::NotRun("three ways to start one server"),
            ),
            (
                "2026-11-22 04:05:09,238Z INFO audit.Slf4jAuditLogger: \
                 session=0x10004414ae70000\tuser=127.0.0.1,bob\tip=127.0.0.1\toperation=create\t\
                 znode=/a\tznode_type=persistent\tresult=success",
                Wish::NotRun("a line of a log"),
            ),
        ],
    ),
    (
        "configuration.md",
        &[("$ ferrokeeper config check zoo.cfg", Wish::Given(a_refused_configuration))],
    ),
    ("keys.md", &[]),
    ("limits.md", &[]),
    (
        "tools.md",
        &[("$ ferrokeeper log show zoo.cfg --path /eph", Wish::Given(zookeepers_configuration))],
    ),
    (
        "damage.md",
        &[
            ("$ ferrokeeper data check zoo.cfg", Wish::Given(a_damaged_log)),
            (
                "$ curl -s -o /dev/null -w '%{http_code}\\n' one.example:8080/health/ready",
                Wish::NotRun("asks other machines"),
            ),
            (
                "useradd --system --home-dir /var/lib/ferrokeeper --shell /usr/sbin/nologin \
                 ferrokeeper",
                Wish::NotRun("adds a user, and copies from another machine"),
            ),
            ("$ systemctl enable --now ferrokeeper", Wish::NotRun("starts a service")),
            (
                "$ curl -s one.example:8080/commands/monitor | grep -E \
                 'quorum_size|synced_followers|peer_present'",
                Wish::NotRun("asks another machine"),
            ),
        ],
    ),
    (
        "backup.md",
        &[
            (
                "$ ferrokeeper backup zoo.cfg /var/backups/monday",
                Wish::Given(zookeepers_configuration),
            ),
            (
                "sudo install -d -o ferrokeeper -g ferrokeeper -m 700 /var/backups/ferrokeeper",
                Wish::NotRun("stops and starts a service"),
            ),
            (
                "$ curl -s -D headers -H 'Authorization: digest super:secret' \
                 localhost:8080/commands/snapshot -o snapshot",
                Wish::Given(a_server),
            ),
            ("$ curl -s localhost:8080/commands/leader", Wish::Given(an_ensemble)),
            (
                "mv /var/lib/ferrokeeper/version-2 /var/lib/ferrokeeper/version-2.before",
                Wish::Given(a_stopped_ensemble),
            ),
            (
                "$ until curl -sf localhost:8080/health/ready; do sleep 1; done",
                Wish::Given(a_started_ensemble),
            ),
            (
                "$ ferrokeeper backup /var/lib/zookeeper /var/backups/deleted",
                Wish::Given(a_deletion),
            ),
            (
                "ferrokeeper server -DdataDir=/var/lib/aside -DclientPort=2182 \
                 -Dadmin.enableServer=false",
                Wish::Serves,
            ),
        ],
    ),
    (
        "migration.md",
        &[("$ ferrokeeper migrate check zoo.cfg", Wish::Given(zookeepers_configuration))],
    ),
    (
        "monitoring.md",
        &[
            (
                "$ exec 3<>/dev/tcp/127.0.0.1/2181; printf srvr >&3; cat <&3       # bash; or: \
                 echo srvr | nc 127.0.0.1 2181",
                Wish::Given(a_server),
            ),
            ("scrape_configs:", Wish::NotRun("lines for Prometheus")),
        ],
    ),
    (
        "admin-server.md",
        &[("$ curl -s localhost:8080/commands              # links to all", Wish::Given(a_server))],
    ),
    ("errors.md", &[]),
    ("ensemble.md", &[]),
    ("founding.md", &[]),
    ("change-servers.md", &[]),
    (
        "upgrade.md",
        &[
            (
                "sudo install -d -o ferrokeeper -g ferrokeeper -m 700 /var/backups/ferrokeeper",
                Wish::NotRun("needs the binary of another release"),
            ),
            (
                "sudo -u ferrokeeper ferrokeeper restore /var/backups/ferrokeeper/before-upgrade \
                 /etc/ferrokeeper/zoo.cfg --replace",
                Wish::NotRun("needs the binary of another release"),
            ),
            (
                "install -m 755 -s target/release/ferrokeeper /usr/local/bin/",
                Wish::NotRun("writes into /usr/local, and restarts a service"),
            ),
        ],
    ),
    (
        "peers.md",
        &[(
            "(umask 077; openssl rand -base64 48 >/etc/ferrokeeper/secret)",
            Wish::NotRun("writes into /etc"),
        )],
    ),
];

fn a_refused_configuration(terminals: &mut Terminals) {
    let text = "clientPort=2181\ndataDir=/var/lib/zookeeper\ntickTime=2000\n\
                oraclePath=/oracle\ntiktime=1\n";
    fs::write(terminals.folder().join("zoo.cfg"), text).expect("zoo.cfg written");
}

/// What Apache ZooKeeper 3.9.5 wrote: zxids 1 to 7, a restart, 8 to 12.
fn zookeepers_directory(_: &mut Terminals) {
    let to = Path::new("/var/lib/zookeeper/version-2");
    // An earlier page may have gone on with it.
    if to.exists() {
        fs::remove_dir_all(to).expect("removed");
    }
    fs::create_dir_all(to).expect("a folder");
    let from = repository().join("src/storage/testdata/zookeeper-3.9.5");
    for entry in fs::read_dir(from).expect("the recorded directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

fn a_damaged_log(terminals: &mut Terminals) {
    zookeepers_configuration(terminals);
    let log = "/var/lib/zookeeper/version-2/log.8";
    let mut bytes = fs::read(log).expect("the log");
    // In its second record.
    bytes[120] ^= 0xff;
    fs::write(log, bytes).expect("the log written");
}

fn zookeepers_configuration(terminals: &mut Terminals) {
    zookeepers_directory(terminals);
    let text = "clientPort=2181\ndataDir=/var/lib/zookeeper\n\
                quorumListenOnAllIPs=true\npreAllocSize=1024\n";
    fs::write(terminals.folder().join("zoo.cfg"), text).expect("zoo.cfg written");
}

fn a_server(terminals: &mut Terminals) {
    terminals.serve("ferrokeeper server");
}

/// Where the data of a server of an ensemble is; pages tell of the first.
fn data_of(server: u8) -> String {
    match server {
        1 => "/var/lib/ferrokeeper".to_owned(),
        _ => format!("/var/lib/ferrokeeper-{server}"),
    }
}

/// Three servers, with a znode.
fn an_ensemble(terminals: &mut Terminals) {
    terminals.interrupt_all();
    let list: String =
        [1, 2, 3].map(|id| format!("server.{id}=127.0.0.1:288{id}:388{id}\n")).concat();
    for server in 1..=3 {
        let data = data_of(server);
        fs::create_dir_all(&data).expect("a folder");
        fs::write(format!("{data}/myid"), server.to_string()).expect("myid written");
        let text = format!(
            "dataDir={data}\nclientPort=218{server}\ninitLimit=10\nsyncLimit=5\n\
             admin.enableServer={}\n{list}",
            server == 1
        );
        fs::write(terminals.folder().join(format!("{server}.cfg")), text).expect("zoo.cfg written");
    }
    a_started_ensemble(terminals);
    let ready = "until curl -sf localhost:8080/health/ready; do sleep 0.1; done";
    for command in [ready, "ferrokeeper cli create /config host=10.0.0.9"] {
        let (worked, printed) = terminals.run(command);
        assert!(worked, "{command}: {}", printed.join("\n"));
    }
}

fn a_started_ensemble(terminals: &mut Terminals) {
    for server in 1..=3 {
        terminals.stay(&format!("ferrokeeper server {server}.cfg"), "ferrokeeper ");
    }
}

/// Its other servers are as the page says.
fn a_stopped_ensemble(terminals: &mut Terminals) {
    terminals.interrupt_all();
    for server in 2..=3 {
        let data = data_of(server);
        fs::rename(format!("{data}/version-2"), format!("{data}/version-2.before")).expect("moved");
    }
}

/// A server goes on with what ZooKeeper wrote, and a subtree is deleted.
fn a_deletion(terminals: &mut Terminals) {
    terminals.interrupt_all();
    zookeepers_directory(terminals);
    terminals.serve("ferrokeeper server -DdataDir=/var/lib/zookeeper");
    for command in [
        "create /config",
        "create /config/db host=10.0.0.9",
        "create /config/web",
        "deleteall /config",
    ] {
        let (worked, printed) = terminals.run(&format!("ferrokeeper cli {command}"));
        assert!(worked, "{command}: {}", printed.join("\n"));
    }
}

/// Runs a block of a page; panics with the reason where it does not work.
#[expect(clippy::print_stderr, reason = "what was not run is said")]
fn run(page: &str, block: &Block, wish: Option<&Wish>, terminals: &mut Terminals) {
    let at = format!("{page}, line {}", block.line);
    if let Some(Wish::Given(prepare)) = wish {
        prepare(terminals);
    }
    match (wish, block.language.as_str()) {
        (Some(Wish::NotRun(reason)), _) => eprintln!("{at} is not run: {reason}"),
        (Some(Wish::Serves), "sh") => terminals.serve(&block.text()),
        (Some(Wish::Stays(words)), "sh") => terminals.stay(&block.text(), words),
        (Some(Wish::Typed(words)), "text") => terminals.type_lines(&block.lines, words),
        // Lines for a zoo.cfg.
        (None, "properties") => {}
        (None | Some(Wish::Given(_)), "sh") => {
            let (worked, printed) = terminals.run(&block.text());
            assert!(worked, "{at}: {}", printed.join("\n"));
        }
        (None, "python") => {
            let (worked, printed) = terminals.run_python(&block.text());
            assert!(worked, "{at}: {}", printed.join("\n"));
        }
        (None | Some(Wish::Given(_)), "console") => {
            for (command, shown) in block.commands() {
                let (worked, printed) = terminals.run(command);
                let (shown_text, text) = (shown.join("\n"), printed.join("\n"));
                assert!(worked || !shown.is_empty(), "{at}: {command}: {text}");
                let same = shown.is_empty() || is_as_shown(&printed, &shown);
                assert!(same, "{at}: {command} prints\n{text}\nand not\n{shown_text}");
            }
        }
        (_, language) => panic!("{at}: nothing says how to run {language:?}"),
    }
}

/// Runs all blocks of a page. Each wish must be that of a block.
fn run_page(path: &str, wishes: &[(&str, Wish)], terminals: &mut Terminals) {
    let page = fs::read_to_string(repository().join(path)).expect("the page");
    let blocks = blocks(&page);
    for (first_line, _) in wishes {
        let there = blocks.iter().any(|block| block.first_line() == *first_line);
        assert!(there, "{path} has no block that begins with {first_line:?}");
    }
    for block in &blocks {
        let wish = wishes.iter().find(|(first_line, _)| block.first_line() == *first_line);
        run(path, block, wish.map(|(_, wish)| wish), terminals);
    }
}

#[test]
fn the_readme_works_as_it_stands() {
    in_a_world_of_its_own("the_readme_works_as_it_stands", |terminals| {
        run_page("README.md", &README, terminals);
        // What is said below the blocks.
        terminals.wait_for("/app/job-0000000000");
        terminals.wait_for("NodeDeleted");
        terminals.interrupt();
        assert!(terminals.interrupt(), "Ctrl-C stops the server");
    });
}

#[test]
fn the_procedures_of_operations_work_as_they_stand() {
    in_a_world_of_its_own("the_procedures_of_operations_work_as_they_stand", |terminals| {
        for (page, wishes) in OPERATIONS {
            run_page(&format!("{PAGES}/{page}"), wishes, terminals);
            terminals.begin_anew();
        }
    });
}

#[test]
fn every_page_of_operations_is_run() {
    let entries = fs::read_dir(repository().join(PAGES)).expect("the folder of the pages");
    let mut there: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    there.sort();
    let mut run = OPERATIONS.map(|(page, _)| page);
    run.sort_unstable();
    assert_eq!(run[..], there[..], "OPERATIONS lacks a page, or has one too many");

    let index = fs::read_to_string(repository().join("docs/operations.md")).expect("the index");
    assert!(blocks(&index).is_empty(), "a block in docs/operations.md would not be run");
}
