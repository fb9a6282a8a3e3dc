import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.api.transaction.OperationType;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's recipes with two competing clients each. Prints "ok NAME" for each that holds, or
 * "failed NAME" and why. Argument: HOST:PORT of a server with the extended types, whose reaper
 * looks at its containers every second.
 */
public class Recipes {
    interface Recipe {
        void run(CuratorFramework a, CuratorFramework b) throws Exception;
    }

    static final int SESSION_MS = 6_000;
    static final long DEADLINE_MS = 30_000;

    static String server;

    public static void main(String[] arguments) throws Exception {
        server = arguments[0];
        run("mutex", (a, b) -> mutex(a, b, false));
        run("mutex-with-cut-connections", (a, b) -> mutex(a, b, true));
        run("latch", Recipes::latch);
        run("cache", Recipes::cache);
        run("persistent-node", Recipes::persistentNode);
        run("persistent-watcher", Recipes::persistentWatcher);
        run("persistent-ttl-node", Recipes::persistentTtlNode);
        run("transactions", Recipes::transactions);
        run("waiters", Recipes::waiters);
        // Curator's and ZooKeeper's threads do not all end with their clients.
        System.exit(0);
    }

    static void run(String name, Recipe recipe) {
        try (CuratorFramework a = client(); CuratorFramework b = client()) {
            recipe.run(a, b);
            System.out.println("ok " + name);
        } catch (Throwable error) {
            System.out.println("failed " + name + ": " + error);
            error.printStackTrace(System.out);
        }
        System.out.flush();
    }

    static CuratorFramework client() throws Exception {
        RetryNTimes retries = new RetryNTimes(100, 100);
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(server, SESSION_MS, SESSION_MS, retries);
        client.start();
        check(client.blockUntilConnected(10, TimeUnit.SECONDS), "connected");
        return client;
    }

    static void check(boolean holds, String claim) {
        if (!holds) {
            throw new AssertionError(claim);
        }
    }

    static void equal(Object found, Object expected, String what) {
        check(expected.equals(found), what + ": expected " + expected + ", found " + found);
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void await(String claim, Condition condition) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (!condition.holds()) {
            check(System.currentTimeMillis() < deadline, "in time: " + claim);
            Thread.sleep(20);
        }
    }

    /** Closes the client's connection from the server's side: another one takes its session. */
    static void cutConnection(CuratorFramework client) throws Exception {
        ZooKeeper zookeeper = client.getZookeeperClient().getZooKeeper();
        try (Socket socket = new Socket(host(), port())) {
            socket.setSoTimeout(10_000);
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            byte[] password = zookeeper.getSessionPasswd();
            out.writeInt(4 + 8 + 4 + 8 + 4 + password.length + 1);
            out.writeInt(0);
            out.writeLong(0);
            out.writeInt(SESSION_MS);
            out.writeLong(zookeeper.getSessionId());
            out.writeInt(password.length);
            out.write(password);
            out.writeByte(0);
            out.flush();
            new DataInputStream(socket.getInputStream()).readInt();
        }
    }

    /** Ends the client's session behind its back. */
    static void killSession(CuratorFramework client) throws Exception {
        ZooKeeper zookeeper = client.getZookeeperClient().getZooKeeper();
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        ZooKeeper twin = new ZooKeeper(server, SESSION_MS, events::add,
                zookeeper.getSessionId(), zookeeper.getSessionPasswd());
        check(events.poll(10, TimeUnit.SECONDS) != null, "the session's twin is connected");
        twin.close();
    }

    static String host() {
        return server.substring(0, server.lastIndexOf(':'));
    }

    static int port() {
        return Integer.parseInt(server.substring(server.lastIndexOf(':') + 1));
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }

    /** A counter that only the lock protects. */
    static void mutex(CuratorFramework a, CuratorFramework b, boolean cut) throws Exception {
        int rounds = 100;
        String root = cut ? "/mutex-cut" : "/mutex";
        a.create().forPath(root);
        a.create().forPath(root + "/counter", bytes("0"));
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger done = new AtomicInteger();
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> running = new ArrayList<>();
        for (CuratorFramework client : List.of(a, b, a, b)) {
            running.add(threads.submit(() -> {
                InterProcessMutex mutex = new InterProcessMutex(client, root + "/lock");
                for (int round = 0; round < rounds; round++) {
                    mutex.acquire();
                    try {
                        equal(inside.incrementAndGet(), 1, "holders of the lock");
                        String text = text(client.getData().forPath(root + "/counter"));
                        byte[] next = bytes(Integer.toString(Integer.parseInt(text) + 1));
                        client.setData().forPath(root + "/counter", next);
                        done.incrementAndGet();
                        inside.decrementAndGet();
                    } finally {
                        mutex.release();
                    }
                }
                return null;
            }));
        }
        if (cut) {
            AtomicInteger reconnections = new AtomicInteger();
            a.getConnectionStateListenable().addListener((client, state) -> {
                check(state != ConnectionState.LOST, "the session survives");
                if (state == ConnectionState.RECONNECTED) {
                    reconnections.incrementAndGet();
                }
            });
            for (int cuts = 1; cuts <= 3; cuts++) {
                int expected = cuts;
                int progress = done.get() + 20;
                await("increments", () -> done.get() >= Math.min(progress, 4 * rounds));
                cutConnection(a);
                await("reconnected", () -> reconnections.get() >= expected);
            }
        }
        for (Future<?> thread : running) {
            thread.get(2 * DEADLINE_MS, TimeUnit.MILLISECONDS);
        }
        threads.shutdown();
        equal(text(b.getData().forPath(root + "/counter")), "" + 4 * rounds, "the counter");
        equal(b.getChildren().forPath(root + "/lock").size(), 0, "znodes left in the lock");
    }

    static void latch(CuratorFramework a, CuratorFramework b) throws Exception {
        List<LeaderLatch> latches = new ArrayList<>();
        for (CuratorFramework client : List.of(a, b)) {
            LeaderLatch latch = new LeaderLatch(client, "/latch");
            latch.start();
            latches.add(latch);
        }
        for (int handOver = 0; handOver < 10; handOver++) {
            await("a leader", () -> latches.stream().anyMatch(LeaderLatch::hasLeadership));
            await("all are known", () -> b.getChildren().forPath("/latch").size() == 2);
            for (int look = 0; look < 10; look++) {
                equal(latches.stream().filter(LeaderLatch::hasLeadership).count(), 1L, "leaders");
                Thread.sleep(2);
            }
            LeaderLatch leader = latches.stream().filter(LeaderLatch::hasLeadership).findAny().get();
            CuratorFramework owner = latches.indexOf(leader) == 0 ? a : b;
            LeaderLatch other = latches.get(1 - latches.indexOf(leader));
            leader.close();
            check(other.await(10, TimeUnit.SECONDS), "the other one leads");
            LeaderLatch again = new LeaderLatch(owner, "/latch");
            again.start();
            latches.set(latches.indexOf(leader), again);
        }
        for (LeaderLatch latch : latches) {
            latch.close();
        }
    }

    static void walk(CuratorFramework client, String path, Map<String, String> tree)
            throws Exception {
        tree.put(path, text(client.getData().forPath(path)));
        for (String child : client.getChildren().forPath(path)) {
            walk(client, path + "/" + child, tree);
        }
    }

    static void cache(CuratorFramework a, CuratorFramework b) throws Exception {
        Random random = new Random(42);
        a.create().forPath("/cache", bytes("root"));
        try (CuratorCache cache = CuratorCache.build(b, "/cache")) {
            cache.start();
            List<String> paths = new ArrayList<>(List.of("/cache"));
            for (int op = 0; op < 1_000; op++) {
                if (op % 400 == 399) {
                    cutConnection(b);
                }
                String path = paths.get(random.nextInt(paths.size()));
                switch (random.nextInt(4)) {
                    case 0:
                    case 1:
                        String child = path + "/n" + op;
                        a.create().forPath(child, bytes("created " + op));
                        paths.add(child);
                        break;
                    case 2:
                        a.setData().forPath(path, bytes("set " + op));
                        break;
                    default:
                        if (path.equals("/cache")) {
                            break;
                        }
                        a.delete().deletingChildrenIfNeeded().forPath(path);
                        paths.removeIf(known -> known.equals(path) || known.startsWith(path + "/"));
                }
            }
            Map<String, String> tree = new TreeMap<>();
            walk(a, "/cache", tree);
            equal(tree.size(), paths.size(), "znodes");
            Map<String, String> cached = new TreeMap<>();
            await("the cache equals the tree", () -> {
                cached.clear();
                cache.stream().forEach(data -> cached.put(data.getPath(), text(data.getData())));
                return cached.equals(tree);
            });
        }
    }

    static void persistentNode(CuratorFramework a, CuratorFramework b) throws Exception {
        try (PersistentNode node =
                new PersistentNode(a, CreateMode.EPHEMERAL, false, "/persistent", bytes("x"))) {
            node.start();
            check(node.waitForInitialCreate(10, TimeUnit.SECONDS), "created");
            Stat first = b.checkExists().forPath("/persistent");
            long session = a.getZookeeperClient().getZooKeeper().getSessionId();
            equal(first.getEphemeralOwner(), session, "its owner");
            killSession(a);
            await("it comes back with another owner", () -> {
                Stat stat = b.checkExists().forPath("/persistent");
                return stat != null && stat.getEphemeralOwner() != session;
            });
            b.delete().forPath("/persistent");
            await("it comes back when deleted", () -> b.checkExists().forPath("/persistent") != null);
        }
        await("it goes with its owner", () -> b.checkExists().forPath("/persistent") == null);
    }

    static void persistentWatcher(CuratorFramework a, CuratorFramework b) throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        try (PersistentWatcher watcher = new PersistentWatcher(b, "/watched", true)) {
            watcher.getListenable().addListener(event -> {
                if (event.getPath() != null) {
                    events.add(event.getType() + " " + event.getPath());
                }
            });
            BlockingQueue<String> set = new LinkedBlockingQueue<>();
            watcher.getResetListenable().addListener(() -> set.add("set"));
            watcher.start();
            check(set.poll(10, TimeUnit.SECONDS) != null, "the watch is set");
            a.create().forPath("/watched", bytes("x"));
            a.create().forPath("/watched/a", bytes("x"));
            a.create().forPath("/watched/a/b", bytes("x"));
            a.setData().forPath("/watched/a/b", bytes("y"));
            a.setData().forPath("/watched/a/b", bytes("z"));
            a.delete().forPath("/watched/a/b");
            a.create().forPath("/watched/a/b", bytes("x"));
            List<String> expected = Arrays.asList(
                    "NodeCreated /watched", "NodeCreated /watched/a", "NodeCreated /watched/a/b",
                    "NodeDataChanged /watched/a/b", "NodeDataChanged /watched/a/b",
                    "NodeDeleted /watched/a/b", "NodeCreated /watched/a/b");
            await("all events", () -> events.size() >= expected.size());
            equal(new ArrayList<>(events), expected, "the events");

            events.clear();
            set.clear();
            cutConnection(b);
            check(set.poll(20, TimeUnit.SECONDS) != null, "the watch is set again");
            a.setData().forPath("/watched", bytes("again"));
            await("an event behind the reconnection", () -> !events.isEmpty());
            equal(new ArrayList<>(events), List.of("NodeDataChanged /watched"), "the events");
        }
    }

    static void persistentTtlNode(CuratorFramework a, CuratorFramework b) throws Exception {
        long ttl = 2_000;
        PersistentTtlNode node = new PersistentTtlNode(a, "/ttl", ttl, bytes("x"));
        node.start();
        check(node.waitForInitialCreate(10, TimeUnit.SECONDS), "created");
        await("touched", () -> b.checkExists().forPath("/ttl/touch") != null);
        Stat first = b.checkExists().forPath("/ttl/touch");
        equal(first.getEphemeralOwner(), 0L, "the shown owner of a TTL znode");
        // Longer than its life without the touches.
        await("touched again", () -> {
            Stat stat = b.checkExists().forPath("/ttl/touch");
            check(stat != null, "a touched znode stays");
            return stat.getMtime() - first.getMtime() > 2 * ttl;
        });
        node.close();
        await("gone with its touches", () -> b.checkExists().forPath("/ttl") == null);
    }

    static void transactions(CuratorFramework a, CuratorFramework b) throws Exception {
        a.create().forPath("/tx", bytes("0"));
        a.create().forPath("/tx/old", bytes("x"));
        List<CuratorTransactionResult> results = a.transaction().forOperations(
                a.transactionOp().check().withVersion(0).forPath("/tx"),
                a.transactionOp().create().forPath("/tx/new", bytes("n")),
                a.transactionOp().setData().withVersion(0).forPath("/tx", bytes("1")),
                a.transactionOp().delete().forPath("/tx/old"));
        List<OperationType> types = new ArrayList<>();
        for (CuratorTransactionResult result : results) {
            equal(result.getError(), 0, "the result of " + result.getType());
            types.add(result.getType());
        }
        equal(types, List.of(OperationType.CHECK, OperationType.CREATE, OperationType.SET_DATA,
                OperationType.DELETE), "the results");
        equal(results.get(1).getResultPath(), "/tx/new", "the path");
        equal(results.get(2).getResultStat().getVersion(), 1, "the version");
        equal(b.getChildren().forPath("/tx"), List.of("new"), "the children");

        try {
            b.transaction().forOperations(
                    b.transactionOp().create().forPath("/tx/never"),
                    b.transactionOp().setData().forPath("/tx", bytes("2")),
                    b.transactionOp().delete().forPath("/tx/new"),
                    b.transactionOp().check().withVersion(0).forPath("/tx"));
            throw new AssertionError("a transaction with a failing check is refused");
        } catch (KeeperException.BadVersionException expected) {
            List<Integer> errors = new ArrayList<>();
            expected.getResults().forEach(result ->
                    errors.add(((org.apache.zookeeper.OpResult.ErrorResult) result).getErr()));
            equal(errors, List.of(0, 0, 0, -103), "the errors");
        }
        equal(a.getChildren().forPath("/tx"), List.of("new"), "the children");
        equal(text(a.getData().forPath("/tx")), "1", "the data");
    }

    /** Twenty waiters of ten clients: a release wakes one, and in the order of their coming. */
    static void waiters(CuratorFramework a, CuratorFramework b) throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            clients.add(client());
        }
        InterProcessMutex first = new InterProcessMutex(a, "/waiters");
        first.acquire();
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> running = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            int me = number;
            running.add(threads.submit(() -> {
                InterProcessMutex mutex = new InterProcessMutex(clients.get(me % 10), "/waiters");
                mutex.acquire();
                order.add(me);
                mutex.release();
                return null;
            }));
            await("in the queue", () -> b.getChildren().forPath("/waiters").size() == me + 2);
        }
        equal(order.size(), 0, "waiters through before the release");
        first.release();
        for (Future<?> thread : running) {
            thread.get(DEADLINE_MS, TimeUnit.MILLISECONDS);
        }
        threads.shutdown();
        List<Integer> sorted = new ArrayList<>(order);
        Collections.sort(sorted);
        equal(order, sorted, "the order");
        equal(order.size(), 20, "waiters through");
        clients.forEach(CuratorFramework::close);
    }
}
