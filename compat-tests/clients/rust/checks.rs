//! The crate zookeeper-client: prints `ok NAME` for each check that holds, `failed NAME: why` for
//! one that does not. Arguments: HOST:PORT of a server that looks at its containers often and
//! grants no session more than `SESSION`, HOST:PORT of a proxy before it, PORT of the proxy's
//! control.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client::{
    Acl, Acls, AddWatchMode, AuthId, Client, CreateMode, CreateOptions, Error, EventType,
    LockPrefix, MultiReadResult, MultiWriteError, MultiWriteResult, Permission, PersistentWatcher,
    SessionState, StateWatcher, WatchedEvent,
};

const SESSION: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_secs(30);
const BURST: i32 = 1_000;
const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

type Checked = Result<(), String>;

/// What a check needs to know.
struct World {
    server: String,
    proxy: String,
    control: String,
    client: Client,
}

macro_rules! want {
    ($condition:expr) => {
        if !$condition {
            return Err(format!("line {}: {}", line!(), stringify!($condition)));
        }
    };
}

macro_rules! equal {
    ($left:expr, $right:expr) => {{
        let (left, right) = (&$left, &$right);
        if left != right {
            return Err(format!("line {}: {left:?} instead of {right:?}", line!()));
        }
    }};
}

/// The value, or the check has failed.
macro_rules! ok {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(format!("line {}: {error}", line!())),
        }
    };
}

/// The wanted error, or the check has failed.
macro_rules! gives {
    ($error:pat, $result:expr) => {
        match $result {
            Err($error) => {}
            other => return Err(format!("line {}: {other:?}", line!())),
        }
    };
}

impl World {
    async fn open(&self, address: &str) -> Result<Client, String> {
        let connector = Client::connector().with_session_timeout(SESSION);
        connector.connect(address).await.map_err(|error| format!("{address}: {error}"))
    }

    async fn order(&self, word: &str) -> Checked {
        let mut control = ok!(TcpStream::connect(format!("127.0.0.1:{}", self.control)).await);
        ok!(control.write_all(format!("{word}\n").as_bytes()).await);
        let mut answer = String::new();
        ok!(control.read_to_string(&mut answer).await);
        equal!(answer, "done\n");
        Ok(())
    }

    async fn there(&self, path: &str) -> Result<bool, String> {
        Ok(ok!(self.client.check_stat(path).await).is_some())
    }

    async fn gone(&self, path: &str) -> Checked {
        let late = Instant::now() + DEADLINE;
        while self.there(path).await? {
            want!(Instant::now() < late);
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn holds(&self, path: &str, data: &str) -> Checked {
        let (seen, _) = ok!(self.client.get_data(path).await);
        equal!(String::from_utf8_lossy(&seen), data);
        Ok(())
    }
}

async fn comes_to(states: &mut StateWatcher, state: SessionState) -> Checked {
    let until = async { while states.changed().await != state {} };
    timeout(DEADLINE, until).await.map_err(|_| format!("no state {state:?}"))
}

#[track_caller]
fn next<T>(event: impl Future<Output = T>) -> impl Future<Output = Result<T, String>> {
    let line = std::panic::Location::caller().line();
    async move { timeout(DEADLINE, event).await.map_err(|_| format!("line {line}: in vain")) }
}

fn is(event: &WatchedEvent, kind: EventType, path: &str) -> Checked {
    equal!((event.event_type, event.path.as_str()), (kind, path));
    Ok(())
}

async fn session(world: &World) -> Checked {
    let client = &world.client;
    want!(client.session_id().to_string() != "0");
    equal!(client.session_timeout(), SESSION);
    equal!(client.state(), SessionState::SyncConnected);
    let other = world.open(&world.server).await?;
    want!(other.session_id() != client.session_id());
    let mut states = other.state_watcher();
    drop(other);
    equal!(next(states.changed()).await?, SessionState::Closed);
    Ok(())
}

async fn stats(world: &World) -> Checked {
    let client = &world.client;
    let (made, _) = ok!(client.create("/stat", b"abc", &PERSISTENT).await);
    want!(made.czxid > 0 && made.czxid == made.mzxid && made.czxid == made.pzxid);
    want!(made.ctime == made.mtime && made.ctime > 1_600_000_000_000);
    equal!((made.version, made.cversion, made.aversion), (0, 0, 0));
    equal!((made.ephemeral_owner, made.data_length, made.num_children), (0, 3, 0));
    let changed = ok!(client.set_data("/stat", b"fours", Some(0)).await);
    equal!((changed.version, changed.data_length, changed.czxid), (1, 5, made.czxid));
    want!(changed.mzxid > made.mzxid && changed.pzxid == made.pzxid);
    ok!(client.create("/stat/a", b"", &PERSISTENT).await);
    ok!(client.create("/stat/b", b"", &PERSISTENT).await);
    ok!(client.delete("/stat/a", None).await);
    let seen = ok!(client.check_stat("/stat").await).ok_or("no stat")?;
    equal!((seen.cversion, seen.num_children, seen.version), (3, 1, 1));
    want!(seen.pzxid > changed.mzxid && seen.mzxid == changed.mzxid);
    let (data, again) = ok!(client.get_data("/stat").await);
    equal!((data.as_slice(), again), (b"fours".as_slice(), seen));
    Ok(())
}

async fn versions(world: &World) -> Checked {
    let client = &world.client;
    ok!(client.create("/version", b"0", &PERSISTENT).await);
    ok!(client.set_data("/version", b"1", Some(0)).await);
    gives!(Error::BadVersion, client.set_data("/version", b"2", Some(0)).await);
    gives!(Error::BadVersion, client.delete("/version", Some(0)).await);
    world.holds("/version", "1").await?;
    ok!(client.delete("/version", Some(1)).await);
    want!(!world.there("/version").await?);
    Ok(())
}

async fn ephemerals(world: &World) -> Checked {
    let other = world.open(&world.server).await?;
    let (stat, _) = ok!(other.create("/mine", b"", &EPHEMERAL).await);
    want!(stat.ephemeral_owner != 0);
    let child = world.client.create("/mine/child", b"", &PERSISTENT).await;
    gives!(Error::NoChildrenForEphemerals, child);
    equal!(ok!(other.list_ephemerals("/").await), ["/mine"]);
    want!(ok!(world.client.list_ephemerals("/").await).is_empty());
    drop(other);
    world.gone("/mine").await
}

async fn sequence(world: &World) -> Checked {
    let client = &world.client;
    ok!(client.create("/queue", b"", &PERSISTENT).await);
    let modes = [CreateMode::PersistentSequential, CreateMode::EphemeralSequential];
    for (expected, mode) in (0..).zip(modes) {
        let options = mode.with_acls(Acls::anyone_all());
        let (_, sequence) = ok!(client.create("/queue/n-", b"", &options).await);
        equal!(sequence.into_i64(), expected);
    }
    want!(world.there("/queue/n-0000000001").await?);
    Ok(())
}

async fn errors(world: &World) -> Checked {
    let client = &world.client;
    ok!(client.mkdir("/error/child", &PERSISTENT).await);
    gives!(Error::NodeExists, client.create("/error", b"", &PERSISTENT).await);
    gives!(Error::NoNode, client.create("/nothing/child", b"", &PERSISTENT).await);
    gives!(Error::NotEmpty, client.delete("/error", None).await);
    gives!(Error::NoNode, client.delete("/nothing", None).await);
    gives!(Error::NoNode, client.get_data("/nothing").await);
    gives!(Error::NoNode, client.set_data("/nothing", b"", None).await);
    gives!(Error::NoNode, client.list_children("/nothing").await);
    gives!(Error::NoNode, client.get_acl("/nothing").await);
    gives!(Error::NoNode, client.count_descendants_number("/nothing").await);
    Ok(())
}

async fn children(world: &World) -> Checked {
    let client = &world.client;
    for path in ["/list/a/deep", "/list/b", "/list/c"] {
        ok!(client.mkdir(path, &PERSISTENT).await);
    }
    let (mut names, stat) = ok!(client.get_children("/list").await);
    names.sort();
    equal!(names, ["a", "b", "c"]);
    equal!((stat.num_children, stat.cversion), (3, 3));
    equal!(ok!(client.list_children("/list").await).len(), 3);
    equal!(ok!(client.count_descendants_number("/list").await), 4);
    Ok(())
}

async fn containers(world: &World) -> Checked {
    let client = &world.client;
    let options = CreateMode::Container.with_acls(Acls::anyone_all());
    ok!(client.create("/container", b"", &options).await);
    ok!(client.create("/container/child", b"", &PERSISTENT).await);
    ok!(client.delete("/container/child", None).await);
    world.gone("/container").await
}

async fn times_to_live(world: &World) -> Checked {
    let short = PERSISTENT.with_ttl(Duration::from_millis(300));
    let long = PERSISTENT.with_ttl(Duration::from_secs(60));
    ok!(world.client.create("/ttl-long", b"", &long).await);
    ok!(world.client.create("/ttl", b"", &short).await);
    world.gone("/ttl").await?;
    want!(world.there("/ttl-long").await?);
    Ok(())
}

async fn acls(world: &World) -> Checked {
    let client = &world.client;
    let reader = [Acl::new(Permission::READ | Permission::ADMIN, AuthId::anyone())];
    let nobody = [Acl::new(Permission::ALL, AuthId::new("nonsense", "x"))];
    let far = [Acl::new(Permission::ALL, AuthId::new("ip", "10.1.2.3"))];
    ok!(client.create("/acl", b"x", &PERSISTENT).await);
    gives!(Error::BadVersion, client.set_acl("/acl", &reader, Some(7)).await);
    gives!(Error::InvalidAcl, client.set_acl("/acl", &nobody, None).await);
    equal!(ok!(client.set_acl("/acl", &reader, Some(0)).await).aversion, 1);
    equal!(ok!(client.get_acl("/acl").await).0, reader);
    world.holds("/acl", "x").await?;
    gives!(Error::NoAuth, client.set_data("/acl", b"y", None).await);
    gives!(Error::NoAuth, client.create("/acl/child", b"", &PERSISTENT).await);
    ok!(client.set_acl("/acl", &far, Some(1)).await);
    gives!(Error::NoAuth, client.get_data("/acl").await);
    Ok(())
}

async fn auth(world: &World) -> Checked {
    let other = world.open(&world.proxy).await?;
    let own = CreateMode::Persistent.with_acls(Acls::creator_all());
    gives!(Error::InvalidAcl, other.create("/auth", b"", &own).await);
    ok!(other.auth("digest", b"user:user").await);
    ok!(other.create("/auth", b"x", &own).await);
    let (seen, _) = ok!(other.get_acl("/auth").await);
    equal!(seen.len(), 1);
    equal!((seen[0].scheme(), seen[0].id()), ("digest", "user:F46PeTVYeItL6aAyygIVQ9OaaeY="));
    gives!(Error::NoAuth, world.client.get_data("/auth").await);
    let users = ok!(other.list_auth_users().await);
    let mut users: Vec<_> = users.iter().map(|user| (user.scheme(), user.user())).collect();
    users.sort_unstable();
    equal!(users, [("digest", "user"), ("ip", "127.0.0.1")]);
    // The client says who it is on every new connection.
    let mut states = other.state_watcher();
    world.order("hold").await?;
    comes_to(&mut states, SessionState::Disconnected).await?;
    world.order("release").await?;
    comes_to(&mut states, SessionState::SyncConnected).await?;
    equal!(ok!(other.get_data("/auth").await).0, b"x");
    let stranger = world.open(&world.server).await?;
    gives!(Error::AuthFailed, stranger.auth("nonsense", b"x").await);
    Ok(())
}

async fn multi(world: &World) -> Checked {
    let client = &world.client;
    let sequential = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let mut writer = client.new_multi_writer();
    ok!(writer.add_create("/multi", b"x", &PERSISTENT));
    ok!(writer.add_create("/multi/a-", b"", &sequential));
    ok!(writer.add_set_data("/multi", b"yy", Some(0)));
    ok!(writer.add_check_version("/multi", 1));
    let results = ok!(writer.commit().await);
    let paths: Vec<_> = results
        .iter()
        .filter_map(|result| match result {
            MultiWriteResult::Create { path, .. } => Some(path.as_str()),
            _ => None,
        })
        .collect();
    equal!(paths, ["/multi", "/multi/a-0000000000"]);
    want!(matches!(&results[2], MultiWriteResult::SetData { stat }
        if stat.version == 1 && stat.data_length == 2));
    equal!(results[3], MultiWriteResult::Check);
    let mut writer = client.new_multi_writer();
    ok!(writer.add_delete("/multi/a-0000000000", None));
    ok!(writer.add_check_version("/multi", 9));
    ok!(writer.add_set_data("/multi", b"z", None));
    gives!(
        MultiWriteError::OperationFailed { index: 1, source: Error::BadVersion },
        writer.commit().await
    );
    want!(world.there("/multi/a-0000000000").await?);
    world.holds("/multi", "yy").await?;
    // And the reading one, whose parts fail each for itself.
    let mut reader = client.new_multi_reader();
    ok!(reader.add_get_data("/multi"));
    ok!(reader.add_get_data("/nothing"));
    ok!(reader.add_get_children("/multi"));
    let results = ok!(reader.commit().await);
    equal!(results.len(), 3);
    want!(matches!(&results[0], MultiReadResult::Data { data, stat }
        if data == b"yy" && stat.version == 1));
    want!(matches!(&results[1], MultiReadResult::Error { err: Error::NoNode }));
    want!(matches!(&results[2], MultiReadResult::Children { children }
        if *children == ["a-0000000000"]));
    Ok(())
}

async fn watches(world: &World) -> Checked {
    let client = &world.client;
    let (stat, watcher) = ok!(client.check_and_watch_stat("/watch").await);
    want!(stat.is_none());
    let (made, _) = ok!(client.create("/watch", b"", &PERSISTENT).await);
    let event = next(watcher.changed()).await?;
    is(&event, EventType::NodeCreated, "/watch")?;
    equal!(event.zxid, made.czxid);
    let (_, _, data) = ok!(client.get_and_watch_data("/watch").await);
    let (_, list) = ok!(client.list_and_watch_children("/watch").await);
    ok!(client.create("/watch/child", b"", &PERSISTENT).await);
    is(&next(list.changed()).await?, EventType::NodeChildrenChanged, "/watch")?;
    let set = ok!(client.set_data("/watch", b"1", None).await);
    let event = next(data.changed()).await?;
    is(&event, EventType::NodeDataChanged, "/watch")?;
    equal!(event.zxid, set.mzxid);
    let (_, _, list) = ok!(client.get_and_watch_children("/watch").await);
    let (_, child) = ok!(client.check_and_watch_stat("/watch/child").await);
    ok!(client.delete("/watch/child", None).await);
    is(&next(child.changed()).await?, EventType::NodeDeleted, "/watch/child")?;
    is(&next(list.changed()).await?, EventType::NodeChildrenChanged, "/watch")?;
    Ok(())
}

#[expect(deprecated, reason = "dropping a watcher does not tell what the server said")]
async fn persistent_watches(world: &World) -> Checked {
    let client = &world.client;
    ok!(client.create("/still", b"", &PERSISTENT).await);
    let mut node = ok!(client.watch("/still", AddWatchMode::Persistent).await);
    let mut tree = ok!(client.watch("/still", AddWatchMode::PersistentRecursive).await);
    ok!(client.set_data("/still", b"1", None).await);
    ok!(client.create("/still/a", b"", &PERSISTENT).await);
    ok!(client.set_data("/still/a", b"1", None).await);
    ok!(client.delete("/still/a", None).await);
    ok!(client.set_data("/still", b"2", None).await);
    let expect = async |watcher: &mut PersistentWatcher, events: &[(EventType, &str)]| {
        for (kind, path) in events {
            is(&next(watcher.changed()).await?, *kind, path)?;
        }
        Ok::<(), String>(())
    };
    use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
    let of_node = [
        (NodeDataChanged, "/still"),
        (NodeChildrenChanged, "/still"),
        (NodeChildrenChanged, "/still"),
        (NodeDataChanged, "/still"),
    ];
    let of_tree = [
        (NodeDataChanged, "/still"),
        (NodeCreated, "/still/a"),
        (NodeDataChanged, "/still/a"),
        (NodeDeleted, "/still/a"),
        (NodeDataChanged, "/still"),
    ];
    expect(&mut node, &of_node).await?;
    expect(&mut tree, &of_tree).await?;
    ok!(node.remove().await);
    ok!(client.delete("/still", None).await);
    expect(&mut tree, &[(NodeDeleted, "/still")]).await?;
    ok!(tree.remove().await);
    let (_, once) = ok!(client.check_and_watch_stat("/still").await);
    ok!(once.remove().await);
    Ok(())
}

/// Not persistent watches: this client's do not come back, on either server.
async fn cut_connection(world: &World) -> Checked {
    let through = world.open(&world.proxy).await?;
    let id = through.session_id();
    for path in ["/cut", "/cut-list"] {
        ok!(through.create(path, b"", &PERSISTENT).await);
    }
    ok!(through.create("/cut/mine", b"", &EPHEMERAL).await);
    let (_, _, data) = ok!(through.get_and_watch_data("/cut").await);
    let (_, later) = ok!(through.check_and_watch_stat("/cut-later").await);
    let (_, list) = ok!(through.list_and_watch_children("/cut-list").await);
    let mut states = through.state_watcher();
    world.order("hold").await?;
    comes_to(&mut states, SessionState::Disconnected).await?;
    ok!(world.client.set_data("/cut", b"missed", None).await);
    world.order("release").await?;
    comes_to(&mut states, SessionState::SyncConnected).await?;
    is(&next(data.changed()).await?, EventType::NodeDataChanged, "/cut")?;
    equal!(through.session_id(), id);
    want!(ok!(through.check_stat("/cut/mine").await).is_some());
    ok!(world.client.create("/cut-later", b"", &PERSISTENT).await);
    is(&next(later.changed()).await?, EventType::NodeCreated, "/cut-later")?;
    ok!(world.client.create("/cut-list/child", b"", &PERSISTENT).await);
    is(&next(list.changed()).await?, EventType::NodeChildrenChanged, "/cut-list")?;
    drop(through);
    world.gone("/cut/mine").await
}

async fn expiry(world: &World) -> Checked {
    let through = world.open(&world.proxy).await?;
    ok!(through.create("/expiring", b"", &EPHEMERAL).await);
    let mut states = through.state_watcher();
    world.order("hold").await?;
    want!(world.there("/expiring").await?);
    world.gone("/expiring").await?;
    world.order("release").await?;
    comes_to(&mut states, SessionState::Expired).await?;
    gives!(Error::SessionExpired, through.check_stat("/expiring").await);
    Ok(())
}

async fn attach(world: &World) -> Checked {
    let first = ok!(Client::connector()
        .with_session_timeout(SESSION)
        .with_detached()
        .connect(&world.server)
        .await);
    ok!(first.create("/attached", b"", &EPHEMERAL).await);
    let session = first.into_session();
    let id = session.id();
    let connector = Client::connector().with_session_timeout(SESSION).with_session(session);
    let second = ok!(connector.connect(&world.server).await);
    equal!(second.session_id(), id);
    equal!(ok!(second.list_ephemerals("/").await), ["/attached"]);
    drop(second);
    world.gone("/attached").await
}

async fn locks(world: &World) -> Checked {
    let (mut holders, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        holders.push(world.open(&world.server).await?);
    }
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicI32::new(0));
    for holder in holders {
        let inside = std::sync::Arc::clone(&inside);
        tasks.push(tokio::spawn(async move {
            let options = zookeeper_client::LockOptions::new(Acls::anyone_all());
            let options = options.with_ancestor_options(PERSISTENT.clone())?;
            let lock =
                holder.lock(LockPrefix::new_curator("/lock/of/rust", "x-")?, b"", options).await?;
            let alone = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            sleep(Duration::from_millis(5)).await;
            inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            drop(lock);
            Ok::<bool, Error>(alone)
        }));
    }
    for task in tasks {
        want!(ok!(ok!(next(task).await?)));
    }
    Ok(())
}

async fn unicode(world: &World) -> Checked {
    ok!(world.client.create("/größe", b"", &PERSISTENT).await);
    ok!(world.client.create("/größe/雪-値", "naïve 値 😀".as_bytes(), &PERSISTENT).await);
    world.holds("/größe/雪-値", "naïve 値 😀").await?;
    equal!(ok!(world.client.list_children("/größe").await), ["雪-値"]);
    Ok(())
}

async fn big_values(world: &World) -> Checked {
    let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i * 31 % 251) as u8).collect();
    let (stat, _) = ok!(world.client.create("/big", &data, &PERSISTENT).await);
    equal!(stat.data_length, 1_000_000);
    want!(ok!(world.client.get_data("/big").await).0 == data);
    let other = world.open(&world.server).await?;
    gives!(Error::ConnectionLoss, other.set_data("/big", &vec![0; 1_100_000], None).await);
    let stat = ok!(world.client.check_stat("/big").await).ok_or("no stat")?;
    equal!(stat.version, 0);
    ok!(world.client.delete("/big", Some(0)).await);
    Ok(())
}

/// All requests are on their way before the first reply is looked at.
async fn burst(world: &World) -> Checked {
    let client = &world.client;
    ok!(client.create("/burst", b"", &PERSISTENT).await);
    let texts: Vec<String> = (0..BURST).map(|i| i.to_string()).collect();
    let pairs: Vec<_> = (0..)
        .zip(&texts)
        .map(|(i, text)| {
            (client.set_data("/burst", text.as_bytes(), Some(i)), client.get_data("/burst"))
        })
        .collect();
    for (i, (set, get)) in (0..).zip(pairs) {
        equal!(ok!(set.await).version, i + 1);
        let (data, stat) = ok!(get.await);
        equal!((data, stat.version), (i.to_string().into_bytes(), i + 1));
    }
    Ok(())
}

async fn sync_and_config(world: &World) -> Checked {
    ok!(world.client.sync("/").await);
    ok!(world.client.sync("/nothing").await);
    let (config, _) = ok!(world.client.get_config().await);
    equal!(config, b"");
    Ok(())
}

async fn chroots(world: &World) -> Checked {
    ok!(world.client.mkdir("/root/of/it", &PERSISTENT).await);
    let inside = world.open(&format!("{}/root/of", world.server)).await?;
    equal!(ok!(inside.list_children("/").await), ["it"]);
    let (_, watcher) = ok!(inside.check_and_watch_stat("/new").await);
    ok!(world.client.create("/root/of/new", b"", &PERSISTENT).await);
    is(&next(watcher.changed()).await?, EventType::NodeCreated, "/new")
}

fn tell(name: &str, checked: Checked) -> bool {
    match &checked {
        Ok(()) => println!("ok {name}"),
        Err(why) => println!("failed {name}: {why}"),
    }
    checked.is_ok()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Checked {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().ok_or("SERVER PROXY CONTROL");
    let (server, proxy, control) = (argument()?, argument()?, argument()?);
    let connector = Client::connector().with_session_timeout(SESSION);
    let client = ok!(connector.connect(&server).await);
    let world = World { server, proxy, control, client };
    macro_rules! check {
        ($($name:literal $run:ident),+ $(,)?) => {
            $(if !tell($name, $run(&world).await) {
                world.order("release").await?;
            })+
        };
    }
    check! {
        "session" session,
        "stats" stats,
        "versions" versions,
        "ephemerals" ephemerals,
        "sequence" sequence,
        "errors" errors,
        "children" children,
        "containers" containers,
        "times to live" times_to_live,
        "acls" acls,
        "auth" auth,
        "multi" multi,
        "watches" watches,
        "persistent watches" persistent_watches,
        "cut connection" cut_connection,
        "expiry" expiry,
        "attach" attach,
        "locks" locks,
        "unicode" unicode,
        "big values" big_values,
        "burst" burst,
        "sync and config" sync_and_config,
        "chroots" chroots,
    }
    Ok(())
}
