//! The crates zookeeper, zookeeper-async and tokio-zookeeper, whose recipes make their znodes by a create with the flags of a
//! container: prints `ok NAME` for each check that holds, `failed NAME: why` for one that does not. Argument: HOST:PORT of a
//! server.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::time::timeout;

const SESSION: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_secs(30);

type Checked = Result<(), String>;

/// The value, or the check has failed.
macro_rules! ok {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(format!("line {}: {error:?}", line!())),
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

/// Waits until it is so.
fn until(is_so: impl Fn() -> bool) -> Checked {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > DEADLINE {
            return Err(format!("not within {DEADLINE:?}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

mod blocking {
    use super::*;
    use zookeeper::recipes::leader::LeaderLatch;
    use zookeeper::recipes::queue::ZkQueue;
    use zookeeper::{Acl, CreateMode, ZkError, ZooKeeper, ZooKeeperExt as _};

    fn open(server: &str) -> Result<Arc<ZooKeeper>, String> {
        Ok(Arc::new(ok!(ZooKeeper::connect(server, SESSION, |_| ()))))
    }

    pub(super) fn containers(server: &str) -> Checked {
        let client = ok!(open(server));
        let open_to_all = || Acl::open_unsafe().clone();
        let create =
            |path: &str| client.create(path, vec![1], open_to_all(), CreateMode::Container);
        equal!(create("/blocking"), Ok("/blocking".to_owned()));
        equal!(create("/blocking"), Err(ZkError::NodeExists));
        equal!(create("/blocking/child"), Ok("/blocking/child".to_owned()));
        let stat = ok!(client.exists("/blocking", false)).ok_or("it is gone")?;
        equal!((stat.ephemeral_owner, stat.num_children, stat.data_length), (0, 1, 1));
        ok!(client.ensure_path("/blocking/a/b"));
        ok!(client.close());
        Ok(())
    }

    pub(super) fn queue(server: &str) -> Checked {
        let (here, there) = (ok!(open(server)), ok!(open(server)));
        let ours = ok!(ZkQueue::new(Arc::clone(&here), "/queue".into()));
        let theirs = ok!(ZkQueue::new(Arc::clone(&there), "/queue".into()));
        equal!(ok!(theirs.poll()), None);
        for item in 0..20 {
            ok!(ours.offer(vec![item]));
        }
        equal!(ok!(theirs.peek()), Some(vec![0]));
        for item in 0..20 {
            equal!(ok!(theirs.take()), vec![item]);
        }
        // One that waits for what is still to come.
        let waiting = thread::spawn(move || theirs.take());
        ok!(ours.offer(vec![99]));
        equal!(waiting.join().expect("no panic"), Ok(vec![99]));
        Ok(())
    }

    pub(super) fn latch(server: &str) -> Checked {
        let (here, there) = (ok!(open(server)), ok!(open(server)));
        let first = LeaderLatch::new(Arc::clone(&here), "first".into(), "/latch".into());
        let second = LeaderLatch::new(Arc::clone(&there), "second".into(), "/latch".into());
        ok!(first.start());
        ok!(until(|| first.has_leadership()));
        ok!(second.start());
        equal!(second.has_leadership(), false);
        ok!(first.stop());
        ok!(until(|| second.has_leadership()));
        equal!(first.has_leadership(), false);
        ok!(second.stop());
        Ok(())
    }
}

mod with_async {
    use super::*;
    use zookeeper_async::ZooKeeper;
    use zookeeper_async::recipes::leader_latch::LeaderLatch;
    use zookeeper_async::recipes::shared_lock;

    async fn open(server: &str) -> Result<Arc<ZooKeeper>, String> {
        Ok(Arc::new(ok!(ZooKeeper::connect(server, SESSION, |_| ()).await)))
    }

    pub(super) async fn lock(server: &str) -> Checked {
        let (here, there) = (ok!(open(server).await), ok!(open(server).await));
        let path = || "/locks/one".to_owned();
        let held = ok!(shared_lock::lock(here, path()).await);
        let waiting = tokio::spawn(shared_lock::lock(there, path()));
        // Only who holds it lets the other one in.
        tokio::time::sleep(Duration::from_millis(200)).await;
        equal!(waiting.is_finished(), false);
        drop(held);
        ok!(ok!(ok!(timeout(DEADLINE, waiting).await)));
        Ok(())
    }

    pub(super) async fn latch(server: &str) -> Checked {
        let (here, there) = (ok!(open(server).await), ok!(open(server).await));
        let first = LeaderLatch::new(here, "first".into(), "/async/latch".into());
        let second = LeaderLatch::new(there, "second".into(), "/async/latch".into());
        ok!(first.start().await);
        ok!(leads(&first).await);
        ok!(second.start().await);
        equal!(second.has_leadership(), false);
        ok!(first.stop().await);
        ok!(leads(&second).await);
        ok!(second.stop().await);
        Ok(())
    }

    async fn leads(latch: &LeaderLatch) -> Checked {
        let began = Instant::now();
        while !latch.has_leadership() {
            if began.elapsed() > DEADLINE {
                return Err(format!("does not lead within {DEADLINE:?}"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

mod with_tokio {
    use super::*;
    use tokio_zookeeper::{Acl, CreateMode, ZooKeeper};

    pub(super) async fn containers(server: &str) -> Checked {
        let address = ok!(server.replace("localhost", "127.0.0.1").parse());
        let (client, _events) = ok!(ZooKeeper::connect(&address).await);
        for path in ["/tokio", "/tokio/child"] {
            let made = client.create(path, &b"x"[..], Acl::open_unsafe(), CreateMode::Container);
            let made = ok!(made.await);
            equal!(made.map_err(|error| format!("{error:?}")), Ok(path.to_owned()));
        }
        let stat = ok!(client.exists("/tokio").await).ok_or("it is gone")?;
        equal!((stat.ephemeral_owner, stat.num_children, stat.data_length), (0, 1, 1));
        // In a multi it cannot read the answer to one of them.
        let parts = client
            .multi()
            .create("/tokio/multi", &b""[..], Acl::open_unsafe(), CreateMode::Persistent)
            .delete("/tokio/child", None);
        equal!(ok!(parts.run().await).iter().all(Result::is_ok), true);
        equal!(ok!(client.get_children("/tokio").await), Some(vec!["multi".to_owned()]));
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let server = std::env::args().nth(1).expect("HOST:PORT");
    // These two have threads of their own and block.
    let blocking = [
        ("zookeeper: containers", blocking::containers as fn(&str) -> Checked),
        ("zookeeper: ZkQueue", blocking::queue),
        ("zookeeper: LeaderLatch", blocking::latch),
    ];
    for (name, check) in blocking {
        let server = server.clone();
        let done = tokio::task::spawn_blocking(move || check(&server)).await;
        say(name, done.unwrap_or_else(|error| Err(error.to_string())));
    }
    say("zookeeper-async: shared_lock", with_async::lock(&server).await);
    say("zookeeper-async: LeaderLatch", with_async::latch(&server).await);
    say("tokio-zookeeper: containers", with_tokio::containers(&server).await);
}

fn say(name: &str, checked: Checked) {
    match checked {
        Ok(()) => println!("ok {name}"),
        Err(why) => println!("failed {name}: {why}"),
    }
}
