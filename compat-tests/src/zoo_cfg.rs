//! Files zoo.cfg as they are found in production, put on free ports and directories.
//!
//! Each file of `compat-tests/zoo.cfg.d` begins with what is expected of it: `# serves`, `#
//! refused: KEY`, or `# refused here: KEY` where Apache ZooKeeper serves. After `#---
//! zoo.cfg.dynamic` stands that file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::repository;
use crate::server::{Kind, Port, Server};

/// What is expected of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Both serve.
    Serves,
    /// Both refuse the start, because of this key.
    Refused(String),
    /// Apache ZooKeeper serves; here the start is refused because of this key.
    RefusedHere(String),
}

/// One file.
#[derive(Debug)]
pub struct ZooCfg {
    /// Its name, for a message.
    pub name: String,
    /// What is expected of it.
    pub expected: Expected,
    text: String,
}

/// Servers that began on one file; they never outlive the value.
#[derive(Debug)]
pub struct Begun {
    servers: Vec<Server>,
    /// Where they talk to one another, and to whoever watches.
    _ports: Vec<Port>,
}

impl Begun {
    /// All of the file's list.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Waits until all serve.
    ///
    /// # Errors
    /// What one said that ended.
    pub fn wait(&mut self) -> Result<(), String> {
        self.servers.iter_mut().try_for_each(Server::wait_until_serving)
    }
}

/// All files.
///
/// # Panics
/// If one does not say what is expected of it.
pub fn all() -> Vec<ZooCfg> {
    let folder = repository().join("compat-tests/zoo.cfg.d");
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| ZooCfg::read(path)).collect()
}

impl ZooCfg {
    fn read(path: &Path) -> Self {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("the file can be read");
        let first = text.lines().next().unwrap_or_default();
        let expected = match first.split_once(": ") {
            None if first == "# serves" => Expected::Serves,
            Some(("# refused", key)) => Expected::Refused(key.to_owned()),
            Some(("# refused here", key)) => Expected::RefusedHere(key.to_owned()),
            _ => panic!("{name} begins with {first:?}"),
        };
        Self { name, expected, text }
    }

    /// What stands in the static file, and in the dynamic one if there is one.
    fn parts(&self) -> (&str, Option<&str>) {
        match self.text.split_once("#--- zoo.cfg.dynamic\n") {
            Some((file, dynamic)) => (file, Some(dynamic)),
            None => (&self.text, None),
        }
    }

    /// Starts the servers of its list, or the only one.
    ///
    /// # Panics
    /// If a process cannot be started.
    pub fn begin(&self, kind: Kind) -> Begun {
        let (file, dynamic) = self.parts();
        let lines = file.lines().chain(dynamic.unwrap_or_default().lines());
        let ids: Vec<&str> =
            lines.filter_map(|line| line.strip_prefix("server.")?.split('=').next()).collect();
        let clients: Vec<Port> = (0..ids.len().max(1)).map(|_| Port::free()).collect();
        let peers: Vec<Port> = (0..2 * ids.len()).map(|_| Port::free()).collect();
        let numbers = |ports: &[Port]| ports.iter().map(|port| port.number).collect();
        let places = Places { ids: &ids, clients: numbers(&clients), peers: numbers(&peers) };
        let mut ports = peers;
        let mut servers = Vec::new();
        for (number, port) in clients.into_iter().enumerate() {
            let others: Vec<Port> = (0..3).map(|_| Port::free()).collect();
            let spare: Vec<u16> = others.iter().map(|port| port.number).collect();
            ports.extend(others);
            let mut server = Server::on_text(kind, port, |dir| {
                if let Some(dynamic) = dynamic {
                    let text = places.put(dynamic, number, dir, &spare);
                    fs::write(dir.join("zoo.cfg.dynamic"), text).expect("written");
                }
                let mut text = places.put(file, number, dir, &spare);
                // By default it is the same for all: other tests have servers, too.
                if !text.contains("admin.serverPort") && !text.contains("admin.enableServer") {
                    text.push_str(&format!("admin.serverPort={}\n", spare[0]));
                }
                text
            });
            if let Some(id) = ids.get(number) {
                fs::write(server.data_dir().join("myid"), format!("{id}\n")).expect("written");
            }
            server.begin();
            servers.push(server);
        }
        Begun { servers, _ports: ports }
    }
}

/// Ports for the servers of a list.
struct Places<'a> {
    ids: &'a [&'a str],
    clients: Vec<u16>,
    peers: Vec<u16>,
}

impl Places<'_> {
    /// The text with ports and directories of ours; everything else stays as it is, separators and
    /// ends of lines too.
    fn put(&self, text: &str, number: usize, dir: &Path, spare: &[u16]) -> String {
        let mut put = String::new();
        for line in text.split_inclusive('\n') {
            let bare = line.trim_end_matches(['\r', '\n']);
            let key = bare.split(['=', ':', ' ']).next().unwrap_or_default();
            let start = bare.get(key.len()..).unwrap_or_default();
            let value = start.trim_start_matches(['=', ':', ' ']);
            let ours = match key {
                "dataDir" => Some(dir.join("data").display().to_string()),
                // Some name the same folder twice.
                "dataLogDir" if text.contains(&format!("dataDir={value}\n")) => {
                    Some(dir.join("data").display().to_string())
                }
                "dataLogDir" => Some(dir.join("data-log").display().to_string()),
                "dynamicConfigFile" => Some(dir.join("zoo.cfg.dynamic").display().to_string()),
                "clientPort" => Some(self.clients[number].to_string()),
                "admin.serverPort" => Some(spare[0].to_string()),
                "secureClientPort" => Some(spare[1].to_string()),
                "metricsProvider.httpPort" => Some(spare[2].to_string()),
                _ => key.strip_prefix("server.").map(|id| self.server(id, value)),
            };
            match ours {
                Some(ours) => {
                    let ahead = &bare[..bare.len() - value.len()];
                    put.push_str(&format!("{ahead}{ours}{}", &line[bare.len()..]));
                }
                None => put.push_str(line),
            }
        }
        put
    }

    /// `host:port:port[:role][;[host:]port]` on this machine.
    fn server(&self, id: &str, value: &str) -> String {
        let number = self.ids.iter().position(|other| *other == id).expect("it is in the list");
        let (quorum, election) = (self.peers[2 * number], self.peers[2 * number + 1]);
        let (servers, client) = match value.split_once(';') {
            Some((servers, client)) => (servers, Some(client)),
            None => (value, None),
        };
        let role = servers.split(':').nth(3).map(|role| format!(":{role}")).unwrap_or_default();
        let client = client.map(|client| {
            let host = client.rsplit_once(':').map(|(host, _)| format!("{host}:"));
            format!(";{}{}", host.unwrap_or_default(), self.clients[number])
        });
        format!("127.0.0.1:{quorum}:{election}{role}{}", client.unwrap_or_default())
    }
}
