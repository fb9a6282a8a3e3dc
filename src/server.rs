//! The server: sockets, threads, clocks and randomness around the engine.
//!
//! [`run`] opens the ports, recovers the data directory, and ends on a signal or when the log
//! fails.

mod bind;
mod client;
mod clock;
mod data;
mod descriptors;
mod environment;
mod error;
mod figures;
#[cfg(test)]
mod fixture;
mod intake;
pub mod list_files;
mod memory;
mod operator;
mod orderer;
mod peers;
mod role;
mod shared;
mod signals;
mod timed_disk;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::client::audit::Audit;
use self::client::connections::Connections;
use self::client::ended::Ended;
use self::client::password::Passwords;
use self::client::unread::Unread;
use self::clock::{Clock, millis};
use self::data::Data;
use self::figures::series::Measure;
use self::figures::stats::Stats;
use self::intake::Intake;
use self::operator::inventory::Inventories;
use self::orderer::disk::Disk;
use self::peers::{Peers, Security};
use self::role::{CurrentRole, Others, Role};
use self::shared::Server;
use self::timed_disk::UnfinishedWrites;
use crate::config::{self, AuditTo, Config, ListenAddress, SessionsLive};
use crate::engine::database::Database;
use crate::engine::decide::local::LocalSessions;
use crate::engine::decide::sequencer::Sequencer;
use crate::engine::decide::tracker::first_session_id;
use crate::engine::time::Monotonic;
use crate::ensemble::{Before, Ensemble, Member, Queue, Replica, Snapshots, Standalone, of_line};
use crate::logging;
use crate::message::MessageId;
use crate::storage::{DataDirectory, RaftStateFile, SnapshotOrigin, Whose, whose};

pub use self::error::ServerError;
pub use self::peers::SecurityError;
pub use self::signals::Signals;
use crate::planted;

/// The server's number in session ids, as a standalone ZooKeeper has it.
const STANDALONE_ID: u8 = 1;

/// What the first id of sessions of one server only has above the first that the same server gives
/// as a leader, which may be of the same millisecond: half of what a millisecond has.
const LOCAL_IDS: i64 = 1 << 15;

/// How long whoever connects waits for the data directory to be read. Most are read by then. Later,
/// words are answered as by a server that does not serve, and connect requests by the end of the
/// connection, as ZooKeeper does at once.
const READING_PATIENCE: Duration = Duration::from_secs(1);

/// Runs a server until a signal ends it.
///
/// # Errors
/// Why it did not start or had to end.
pub fn run(config: Config, signals: &Signals) -> Result<(), ServerError> {
    if let Some(name) = planted::name() {
        // No line of the log: tests look there for errors, and would fail whatever the fault is.
        logging::print(&format!(
            "ferrokeeper: a fault is planted: {name}; this server is for tests only\n"
        ));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| ServerError::System("a runtime", error))?;
    let ended = runtime.block_on(serve(config, signals));
    runtime.shutdown_background();
    ended
}

async fn serve(config: Config, signals: &Signals) -> Result<(), ServerError> {
    descriptors::raise_limit();
    let ending = CancellationToken::new();
    let admin = operator::admin::start(&config, &ending);
    match config.ensemble.clone() {
        Some(ensemble) => serve_as_member(config, &ensemble, ending, &admin, signals).await,
        None => serve_alone(config, ending, &admin, signals).await,
    }
}

/// What stands before anybody orders.
struct Ground {
    clock: Clock,
    stats: Arc<Stats>,
    queue: Arc<Queue>,
    passwords: Arc<Passwords>,
    audit: Option<Arc<Audit>>,
    connections: Arc<Connections>,
    directory: Arc<DataDirectory>,
    unfinished: Arc<UnfinishedWrites>,
    ending: CancellationToken,
}

impl Ground {
    fn new(
        config: &Config,
        server_id: u8,
        directory: Arc<DataDirectory>,
        unfinished: Arc<UnfinishedWrites>,
        ending: CancellationToken,
    ) -> Result<Self, ServerError> {
        let clock = Clock::start();
        let stats = Arc::new(Stats::default());
        let audit = config.logs.audit.as_ref().filter(|_| !planted::is("audit-off"));
        let audit = audit.map(|to| {
            let (most, fails_closed) =
                (memory::audit_limit(config), config.logs.audit_fails_closed);
            Audit::open(to, most, fails_closed, Arc::clone(&stats)).map_err(|source| {
                let (place, key) = match to {
                    AuditTo::File(path) => {
                        (path.display().to_string(), "audit.log, or auditlog.dir and auditlog.file")
                    }
                    AuditTo::Syslog => ("/dev/log".to_owned(), "audit.log=syslog"),
                    AuditTo::Stdout => ("standard output".to_owned(), "audit.log"),
                };
                ServerError::Audit { place, key, source }
            })
        });
        let audit = audit.transpose()?;
        let queue = Arc::new(Queue::default());
        // What they are made of is in the directory.
        let passwords = Arc::new(Passwords::default());
        let connections = Connections::new(
            server_id,
            Arc::clone(&queue),
            clock,
            Arc::clone(&stats),
            Arc::clone(&passwords),
            audit.clone(),
            Arc::new(Unread::new(memory::unread_limit(config), config.jute_max_buffer as usize)),
        );
        let connections = Arc::new(connections);
        Ok(Self {
            clock,
            stats,
            queue,
            passwords,
            audit,
            connections,
            directory,
            unfinished,
            ending,
        })
    }

    fn server(self, config: Config, replica: Arc<Replica>, role: Role) -> Arc<Server> {
        let Self {
            clock,
            stats,
            queue,
            passwords,
            audit,
            connections,
            directory,
            unfinished,
            ending,
        } = self;
        Arc::new(Server {
            clock,
            replica,
            intake: Intake::new(queue, &config, clock),
            inventories: Inventories::new(),
            connections,
            ended: Ended::default(),
            passwords,
            audit,
            stats,
            group_began: AtomicU64::new(0),
            unfinished,
            directory,
            role: CurrentRole::new(role),
            others: Others::default(),
            ending,
            short_disk: parking_lot::Mutex::default(),
            trace_mask: AtomicI64::new(operator::four_letter::TRACE_MASK),
            config,
        })
    }
}

async fn serve_alone(
    config: Config,
    ending: CancellationToken,
    admin: &operator::admin::Subject,
    signals: &Signals,
) -> Result<(), ServerError> {
    let (directory, unfinished) = data::open_alone(&config)?;
    let ground = Ground::new(&config, 0, Arc::clone(&directory), unfinished, ending)?;
    let replica = Arc::new(Replica::new(data::empty(&config)?));
    let server = ground.server(config, Arc::clone(&replica), Role::Reading);
    let (client_port, port) = open_ports(&server, admin)?;
    let (tell, is_read) = oneshot::channel();
    tokio::spawn(take_connections(client_port, Arc::clone(&server), is_read));
    let config = &server.config;
    let Data { database, recovered, secret, times } = Data::read(config, &directory)?;
    for (measure, value) in [
        (Measure::DatabaseLoad, times.all),
        (Measure::SnapshotLoad, times.snapshot),
        (Measure::TxnsLoad, times.txns),
        (Measure::TxnsLoaded, recovered.txns),
    ] {
        server.stats.series.record(measure, value);
    }
    if let Some(secret) = secret {
        server.passwords.set(secret);
    }
    let now = server.clock.monotonic();
    let sequencer = sequencer_of(&database, config, now);
    let before = replica.exclusive().install(database);
    drop(before);
    let mut snapshots = Snapshots::new(
        directory,
        data::compression(config),
        u64::from(config.snap_count),
        config.snap_size_limit_bytes.map(NonZeroU64::get),
        recovered.txns,
    );
    let mut log = recovered.log;
    if !recovered.fresh && !matches!(recovered.snapshot.origin, SnapshotOrigin::Exact { .. }) {
        // From here on everything is exact: a snapshot of ours stands after whatever is logged.
        snapshots.begin(&replica, &mut log, now);
    }
    orderer::upkeep::fill_spares(log.spare_filler());
    let clients = Arc::clone(&server.connections) as _;
    let mut standalone = Standalone::new(replica, sequencer, log, clients);
    let ended = standalone.end_orphans(server.clock.now())?;
    snapshots.count(ended.txns, ended.bytes);
    // From here on a signal is an end in good order.
    signals.are_for(&server);
    let orderer = start_orderer(&server, move |server| {
        orderer::lone::run(server, standalone, snapshots).map_err(ServerError::from)
    })?;
    prepare_to_serve(&server)?;
    server.role.set(Role::Standalone);
    announce(&server, port);
    // Where that took its time, they are taken already.
    let _ = tell.send(());
    until_the_end(&server, orderer).await
}

/// The sequencer of a server that is alone.
fn sequencer_of(database: &Database, config: &Config, now: Monotonic) -> Sequencer {
    let first_session = first_session_id(STANDALONE_ID, Clock::wall().0);
    Sequencer::new(database, u64::from(config.tick_time_ms), first_session, now)
}

/// Takes connections once the data directory is read, or has been read for a while.
async fn take_connections(
    client_port: TcpListener,
    server: Arc<Server>,
    is_read: oneshot::Receiver<()>,
) {
    let _ = tokio::time::timeout(READING_PATIENCE, is_read).await;
    intake::listener::accept(client_port, server).await;
}

/// Tells the peers which member the directory is of, if it is one's.
fn tell_what_it_is(
    peers: &Peers,
    directory: &Arc<DataDirectory>,
    ensemble: &Ensemble,
) -> Result<(), ServerError> {
    match RaftStateFile::look(directory)? {
        None => peers.is_no_member(Before::read(Arc::clone(directory), ensemble)?),
        Some(state) => match whose(directory, &state)? {
            Whose { last, went_on: None } => {
                peers.is_member(ensemble.promises(directory)?.get(), last);
            }
            Whose { last, went_on: Some(file) } => {
                let left = of_line(&state, last);
                tracing::warn!(
                    id = %MessageId::ZOOKEEPER_WENT_ON,
                    file = %file.display(),
                    ensemble = format_args!("{:016x}", left.ensemble),
                    "ZooKeeper has written to this member's directory: this server no longer \
                     belongs to its ensemble"
                );
                let directory = Arc::clone(directory);
                peers.is_no_member(Before::of_member(directory, ensemble, left)?);
            }
        },
    }
    Ok(())
}

async fn serve_as_member(
    config: Config,
    members: &config::Ensemble,
    ending: CancellationToken,
    admin: &operator::admin::Subject,
    signals: &Signals,
) -> Result<(), ServerError> {
    let security = Security::load(&members.security)?;
    security.announce();
    let (ensemble, directory, unfinished) = data::open_member(&config, members)?;
    let ground = Ground::new(&config, members.my_id, Arc::clone(&directory), unfinished, ending)?;
    let peers = Peers::new(
        (members, config.reconfig_enabled),
        security,
        Arc::clone(&ground.queue),
        Arc::clone(&directory),
        ensemble.clone(),
        ground.clock,
        // They are needed to the end: a leader hands over when its clients are gone.
        CancellationToken::new(),
    );
    let listen = orderer::member::listen_address(members);
    let peer_port = bind::bind(&listen, None).map_err(|source| ServerError::Bind {
        address: listen.to_string(),
        purpose: "the ensemble",
        source,
    })?;
    peers.listen(peer_port);
    let replica = Arc::new(Replica::of_member(data::empty(&config)?, millis(members.sync_limit)));
    let server = ground.server(config, replica, Role::None);
    let (client_port, port) = open_ports(&server, admin)?;
    tracing::info!(
        myid = members.my_id,
        servers = members.list.servers.iter().len(),
        address = %listen,
        "starting as a server of an ensemble"
    );
    let (members, runtime, signals) = (members.clone(), Handle::current(), signals.clone());
    let orderer = start_orderer(&server, move |server| {
        tell_what_it_is(&peers, &directory, &ensemble)?;
        signals.are_for(server);
        let come = peers.come_to_ensemble(&members, server);
        if !runtime.block_on(come)? || !signals.are_for_a_start() {
            return Ok(());
        }
        data::use_up_marker(&server.config);
        tracing::info!(
            directory = %directory.snapshots().display(),
            "reading the data directory; clients will be served when this is done"
        );
        let began = server.clock.monotonic();
        let started = ensemble.start(directory)?;
        // From here on a signal is an end in good order.
        signals.are_for(server);
        let took = server.clock.monotonic().since(began);
        server.stats.series.record(Measure::DatabaseLoad, took);
        let (id, number) = (started.id(), started.ensemble());
        let (promised, founding) = (started.promised(), started.founding());
        data::tell_if_differs(
            server.config.session_passwords,
            started.secret.as_ref(),
            &started.database,
        );
        peers.start(id, number, promised, started.secret.as_ref(), founding);
        peers.tell_without_majority(&members, server);
        if let Some(secret) = started.secret.clone() {
            server.passwords.set(secret);
        }
        let clients = Arc::clone(&server.connections) as _;
        let tick_ms = u64::from(server.config.tick_time_ms);
        let replica = Arc::clone(&server.replica);
        let (mut member, writer) =
            Member::new(ensemble, started, replica, clients, peers, tick_ms)?;
        if let SessionsLive::Here { upgrades } = members.sessions {
            let first = first_session_id(members.my_id, Clock::wall().0) + LOCAL_IDS;
            member.requests_mut().keep_sessions_local(LocalSessions::new(tick_ms, first, upgrades));
        }
        announce(server, port);
        orderer::upkeep::fill_spares(writer.spare_filler());
        let disk = Disk::start(writer, Arc::clone(&server.intake.queue))
            .map_err(|error| ServerError::System("a thread", error))?;
        orderer::member::run(server, member, &disk, &members).map_err(ServerError::from)
    })?;
    prepare_to_serve(&server)?;
    tokio::spawn(intake::listener::accept(client_port, Arc::clone(&server)));
    until_the_end(&server, orderer).await
}

/// The port for clients, bound, with its number, and what goes on beside them.
fn open_ports(
    server: &Arc<Server>,
    admin: &operator::admin::Subject,
) -> Result<(TcpListener, u16), ServerError> {
    let client_port = bind(&server.config.client_listen, "clients", server)?;
    if let Some(listen) = &server.config.metrics_listen {
        let metrics_port = bind(listen, "metrics", server)?;
        tokio::spawn(operator::metrics_http::serve(metrics_port, Arc::clone(server)));
    }
    let with_connections = Arc::clone(server);
    start_thread("ends", move || with_connections.ended.take_out_for_ever(&with_connections))?;
    // There is one server a process.
    let _ = admin.set(Arc::clone(server));
    tokio::spawn(orderer::upkeep::watch_for_hanging(Arc::clone(server)));
    tokio::spawn(memory::watch(Arc::clone(server)));
    if let Some(audit) = &server.audit {
        tokio::spawn(client::audit::watch(Arc::clone(audit), Arc::clone(server)));
    }
    let configured = server.config.client_listen.port;
    let port = client_port.local_addr().map_or(configured, |address| address.port());
    Ok((client_port, port))
}

/// What has to be there before clients have sessions.
fn prepare_to_serve(server: &Server) -> Result<(), ServerError> {
    let unsent = server.connections.unsent();
    start_thread("sender", move || unsent.send_for_ever())?;
    if let Some(audit) = &server.audit {
        audit.started();
    }
    Ok(())
}

fn bind(
    listen: &ListenAddress,
    purpose: &'static str,
    server: &Server,
) -> Result<TcpListener, ServerError> {
    bind::bind(listen, server.config.client_listen_backlog).map_err(|source| ServerError::Bind {
        address: listen.to_string(),
        purpose,
        source,
    })
}

/// Starts the orderer's thread. What it ends with comes through the channel; nothing comes if it
/// panics.
fn start_orderer(
    server: &Arc<Server>,
    run: impl FnOnce(&Arc<Server>) -> Result<(), ServerError> + Send + 'static,
) -> Result<oneshot::Receiver<Result<(), ServerError>>, ServerError> {
    let (report, ended) = oneshot::channel();
    let server = Arc::clone(server);
    start_thread("orderer", move || {
        // Whoever would hear of it may have stopped waiting.
        let _ = report.send(run(&server));
    })?;
    Ok(ended)
}

fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), ServerError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| ServerError::System("a thread", error))?;
    Ok(())
}

/// Who may connect, and what to type next on a server to try, which has no zoo.cfg.
fn announce(server: &Server, port: u16) {
    let config = &server.config;
    let who = match config.client_listen.address {
        Some(address) if address.is_loopback() => "only programs on this machine can connect",
        _ => "anyone who can reach this address can connect, and znodes are open by default",
    };
    tracing::info!(
        address = %config.client_listen,
        data_dir = %config.data_dir.display(),
        "serving ZooKeeper clients; {who}"
    );
    if config.file.is_some() {
        return;
    }
    let host = match config.client_listen.address {
        Some(address) if !address.is_unspecified() => address.to_string(),
        _ => "127.0.0.1".to_owned(),
    };
    tracing::info!("try: ferrokeeper cli -server {host}:{port} create /hello world");
}

/// Waits for the orderer's end, then ends what there is.
async fn until_the_end(
    server: &Arc<Server>,
    orderer: oneshot::Receiver<Result<(), ServerError>>,
) -> Result<(), ServerError> {
    let ended = orderer.await;
    server.ending.cancel();
    if let Some(audit) = &server.audit {
        audit.end();
    }
    ended.map_err(|_| ServerError::OrdererLost)??;
    tracing::info!("ended");
    Ok(())
}

/// A server that is alone and has a state, but nobody who orders: what it is asked for stays in its
/// queue.
#[cfg(test)]
fn without_orderer(settings: &str) -> (tempfile::TempDir, Arc<Server>) {
    showing(settings, Replica::new)
}

/// The same with a state of its own.
#[cfg(test)]
fn showing(
    settings: &str,
    replica: impl FnOnce(Database) -> Replica,
) -> (tempfile::TempDir, Arc<Server>) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("zoo.cfg");
    let text = format!("dataDir={}\nclientPort=2181\n{settings}", dir.path().display());
    std::fs::write(&file, text).expect("it is written");
    let config = config::load(Some(&file), &[]).expect("it is right").config;
    let (directory, unfinished) = data::open_alone(&config).expect("it is new");
    let ground = Ground::new(&config, 0, directory, unfinished, CancellationToken::new());
    let ground = ground.expect("it stands");
    let replica = Arc::new(replica(data::empty(&config).expect("a seed")));
    (dir, ground.server(config, replica, Role::Standalone))
}
