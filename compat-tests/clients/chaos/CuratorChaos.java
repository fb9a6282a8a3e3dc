import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Curator clients that read, write, lock, elect and hold ephemerals, and write down what they were told.
 * Arguments: HOSTS SEED FILE. Words on stdout and stdin and lines of FILE as of kazoo_chaos.py; a reply's own zxid is
 * not shown by this client, only those of its stat.
 */
final class CuratorChaos {
    private static final int CLIENTS = 3;
    private static final int LOCKERS = 2;
    private static final int KEYS = 8;
    private static final int SESSION_MS = 6_000;
    private static final long PAUSE_MS = 10;
    /** The client shows it to whoever debugs, and in no other way. */
    private static final Pattern CONNECTION =
            Pattern.compile("local:(\\S+) remoteserver:\\S*?/?([0-9.]+):\\d+ ");

    private static volatile boolean stopped;
    private static volatile boolean closing;
    private static PrintWriter out;

    private final String name;
    private final Random random;
    private final CuratorFramework client;
    private final AtomicLong count = new AtomicLong();
    private volatile long session;

    interface Request {
        /** Returns more fields of the entry. */
        String run() throws KeeperException, InterruptedException;
    }

    private CuratorChaos(String hosts, String seed, String name) throws Exception {
        this.name = name;
        random = new Random((seed + name).hashCode());
        client = CuratorFrameworkFactory.newClient(
                hosts, SESSION_MS, SESSION_MS, new RetryNTimes(1_000_000, 100));
        // Curator also says so by itself, of a session without a connection for as long as its timeout.
        client.getCuratorListenable().addListener((ignored, event) -> {
            if (event.getWatchedEvent() != null
                    && event.getWatchedEvent().getState() == KeeperState.Expired && !closing) {
                long now = System.nanoTime();
                write(String.format("\"op\":\"given-up\",\"s\":\"%#x\",\"t0\":%d,\"t1\":%d",
                        session, now, now));
            }
        });
        client.start();
        Claim.holds(client.blockUntilConnected(60, TimeUnit.SECONDS), "connected");
        met();
    }

    private void write(String fields) {
        synchronized (CuratorChaos.class) {
            out.printf("{\"c\":\"%s\",%s}%n", name, fields);
            out.flush();
        }
    }

    private ZooKeeper handle() throws Exception {
        return client.getZookeeperClient().getZooKeeper();
    }

    /** The handle, if it is connected; a session that is new gets its ephemeral. */
    private ZooKeeper met() {
        try {
            ZooKeeper handle = handle();
            if (!handle.getState().isConnected()) {
                return null;
            }
            long id = handle.getSessionId();
            if (id != 0 && id != session) {
                session = id;
                long now = System.nanoTime();
                write(String.format("\"op\":\"session\",\"s\":\"%#x\",\"timeout\":%d,\"t0\":%d,\"t1\":%d",
                        id, handle.getSessionTimeout(), now, now));
                String path = String.format("/chaos/e/%#x", id);
                call(handle, "create", path, ",\"ephemeral\":true", () -> {
                    Stat stat = new Stat();
                    String made = handle.create(path, name.getBytes(), ZooDefs.Ids.OPEN_ACL_UNSAFE,
                            CreateMode.EPHEMERAL, stat);
                    return String.format(",\"made\":\"%s\",\"zxid\":%d", made, stat.getCzxid());
                });
            }
            return handle;
        } catch (Exception lost) {
            return null;
        }
    }

    /** Its own address with the port, and its server's without; null without a connection. */
    private static String connection(ZooKeeper handle) {
        Matcher found = CONNECTION.matcher(handle.toString());
        return found.find() ? found.group(1) + " " + found.group(2) : null;
    }

    private void call(ZooKeeper handle, String op, String path, String fields, Request request)
            throws InterruptedException {
        long began = System.nanoTime();
        String before = connection(handle);
        String end = "unknown";
        String more = "";
        try {
            more = request.run();
            end = "ok";
        } catch (KeeperException.ConnectionLossException | KeeperException.SessionExpiredException
                | KeeperException.OperationTimeoutException | KeeperException.RequestTimeoutException
                | KeeperException.SessionMovedException error) {
            end = "unknown";
        } catch (KeeperException error) {
            end = error.code().name();
        }
        long ended = System.nanoTime();
        // One that was there before and is there after it has answered it: no connection comes back.
        String at = before != null && before.equals(connection(handle))
                ? ",\"at\":\"" + before.substring(before.lastIndexOf(' ') + 1) + "\"" : "";
        write(String.format(
                "\"op\":\"%s\",\"path\":\"%s\",\"t0\":%d,\"t1\":%d,\"end\":\"%s\",\"s\":\"%#x\"%s%s%s",
                op, path, began, ended, end, handle.getSessionId(), at, fields, more));
    }

    private String fresh() {
        return name + "-" + count.incrementAndGet();
    }

    private int get(ZooKeeper handle, String path, String fields) throws InterruptedException {
        int[] version = {-1};
        call(handle, "get", path, fields, () -> {
            Stat stat = new Stat();
            String value = new String(handle.getData(path, false, stat));
            version[0] = stat.getVersion();
            return String.format(",\"value\":\"%s\",\"version\":%d,\"zxid\":%d",
                    value, stat.getVersion(), stat.getMzxid());
        });
        return version[0];
    }

    private void set(ZooKeeper handle, String path, int want, String fields)
            throws InterruptedException {
        String value = fresh();
        set(handle, path, value, want, fields, () -> handle.setData(path, value.getBytes(), want));
    }

    private void set(ZooKeeper handle, String path, String value, int want, String fields, Setter setter)
            throws InterruptedException {
        String all = String.format(",\"value\":\"%s\",\"want\":%d%s", value, want, fields);
        call(handle, "set", path, all, () -> {
            Stat stat = setter.set();
            return String.format(",\"version\":%d,\"zxid\":%d", stat.getVersion(), stat.getMzxid());
        });
    }

    interface Setter {
        Stat set() throws KeeperException, InterruptedException;
    }

    private void step(ZooKeeper handle) throws InterruptedException {
        double choice = random.nextDouble();
        String path = "/chaos/r/" + random.nextInt(KEYS);
        if (choice < 0.4) {
            get(handle, path, "");
        } else if (choice < 0.65) {
            set(handle, path, -1, "");
        } else if (choice < 0.85) {
            int version = get(handle, path, "");
            if (version >= 0) {
                set(handle, path, version, "");
            }
        } else if (choice < 0.95) {
            String value = fresh();
            call(handle, "create", "/chaos/q/n-", ",\"value\":\"" + value + "\"", () -> {
                Stat stat = new Stat();
                String made = handle.create("/chaos/q/n-", value.getBytes(),
                        ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL, stat);
                return String.format(",\"made\":\"%s\",\"zxid\":%d", made, stat.getCzxid());
            });
        } else {
            String own = String.format("/chaos/e/%#x", handle.getSessionId());
            call(handle, "exists", own, "", () -> {
                Stat stat = handle.exists(own, false);
                return stat == null ? ",\"owner\":null"
                        : String.format(",\"owner\":\"%#x\"", stat.getEphemeralOwner());
            });
        }
    }

    private void readAndWrite() throws InterruptedException {
        while (!stopped) {
            ZooKeeper handle = met();
            if (handle != null) {
                step(handle);
            }
            Thread.sleep(PAUSE_MS);
        }
    }

    /**
     * Writes while something is held: those of the session that owns it prove that it was. What its client may give up by
     * itself meanwhile has a znode, without which nothing is written.
     */
    private void hold(ZooKeeper handle, String lock, String znode, int times) throws InterruptedException {
        String fields = String.format(",\"lock\":\"%s\",\"hold\":\"%s\",\"owner\":\"%#x\"",
                lock, fresh(), handle.getSessionId());
        String path = "/chaos/held/" + name;
        for (int time = 0; time < times && !stopped; time++) {
            if (znode == null) {
                set(handle, path, -1, fields);
            } else {
                String value = fresh();
                List<Op> both = List.of(Op.check(znode, -1), Op.setData(path, value.getBytes(), -1));
                set(handle, path, value, -1, fields,
                        () -> ((OpResult.SetDataResult) handle.multi(both).get(1)).getStat());
            }
            Thread.sleep(20);
        }
    }

    private void lock() throws InterruptedException {
        InterProcessMutex mutex = new InterProcessMutex(client, "/chaos/lock-curator");
        while (!stopped) {
            ZooKeeper before = met();
            if (before == null) {
                Thread.sleep(PAUSE_MS);
                continue;
            }
            try {
                if (!mutex.acquire(5, TimeUnit.SECONDS)) {
                    continue;
                }
                // Otherwise nobody knows which session has it.
                if (handle() == before) {
                    hold(before, "curator", null, 1 + random.nextInt(7));
                }
            } catch (InterruptedException stop) {
                throw stop;
            } catch (Exception lost) {
                Thread.sleep(PAUSE_MS);
            } finally {
                try {
                    mutex.release();
                } catch (Exception gone) {
                    Thread.sleep(PAUSE_MS);
                }
            }
        }
    }

    private void elect() throws InterruptedException {
        while (!stopped) {
            if (met() == null) {
                Thread.sleep(PAUSE_MS);
                continue;
            }
            try (LeaderLatch latch = new LeaderLatch(client, "/chaos/latch", name)) {
                latch.start();
                if (latch.await(5, TimeUnit.SECONDS)) {
                    ZooKeeper handle = handle();
                    // A latch deletes its znode and makes another one whenever it is connected again.
                    String znode = latch.getOurPath();
                    Stat stat = handle.exists(znode, false);
                    if (stat != null && stat.getEphemeralOwner() == handle.getSessionId()) {
                        for (int time = 0; time < 5 && latch.hasLeadership() && !stopped; time++) {
                            hold(handle, "latch", znode, 5);
                        }
                    }
                }
            } catch (InterruptedException stop) {
                throw stop;
            } catch (Exception lost) {
                Thread.sleep(PAUSE_MS);
            }
        }
    }

    interface Work {
        void run() throws InterruptedException;
    }

    private static Thread start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        });
        thread.start();
        return thread;
    }

    public static void main(String[] arguments) throws Exception {
        out = new PrintWriter(Files.newBufferedWriter(Path.of(arguments[2])));
        List<CuratorChaos> all = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (String kind : new String[] {"c", "cl", "ce"}) {
            for (int number = 0; number < (kind.equals("c") ? CLIENTS : LOCKERS); number++) {
                CuratorChaos one = new CuratorChaos(arguments[0], arguments[1], kind + number);
                all.add(one);
                if (!kind.equals("c")) {
                    one.client.create().orSetData().creatingParentsIfNeeded()
                            .forPath("/chaos/held/" + one.name, new byte[0]);
                }
            }
        }
        for (CuratorChaos one : all) {
            Work work = one.name.startsWith("cl") ? one::lock
                    : one.name.startsWith("ce") ? one::elect : one::readAndWrite;
            threads.add(start(work));
        }
        System.out.println("ready");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        orders.readLine();
        stopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("stopped");
        while (orders.readLine() != null) {
            continue;
        }
        closing = true;
        for (CuratorChaos one : all) {
            long began = System.nanoTime();
            one.client.close();
            one.write(String.format("\"op\":\"closed\",\"s\":\"%#x\",\"t0\":%d,\"t1\":%d",
                    one.session, began, System.nanoTime()));
        }
        System.exit(0);
    }
}
