import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * A client that accepts a read-only server (canBeReadOnly). Prints what it sees. Lines that begin
 * with @ ask the test to do something and wait for a line on stdin: @lose, after which one server of
 * three is left, and @return.
 */
public final class ReadOnly {
    private static final int TIMEOUT_MS = 10_000;

    private static final BlockingQueue<WatchedEvent> states = new LinkedBlockingQueue<>();
    private static final BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();

    interface Call {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        String hosts = args[0];
        try (ZooKeeper writer = connected(hosts)) {
            writer.create("/data", bytes("1"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            // Whichever server is left has it.
            writer.sync("/");
        }
        ask("@lose");
        ZooKeeper reader = new ZooKeeper(hosts, TIMEOUT_MS, ReadOnly::seen, true);
        state(KeeperState.ConnectedReadOnly);
        System.out.println("state " + reader.getState());
        System.out.println("data " + new String(reader.getData("/data", true, null)));
        System.out.println("new " + reader.exists("/new", true));
        System.out.println("children " + new TreeSet<>(reader.getChildren("/", false)));
        refused("create", () ->
                reader.create("/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        refused("ephemeral", () ->
                reader.create("/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL));
        refused("set", () -> reader.setData("/data", bytes("x"), -1));
        refused("delete", () -> reader.delete("/data", -1));
        refused("setACL", () -> reader.setACL("/data", Ids.OPEN_ACL_UNSAFE, -1));
        refused("multi", () -> reader.multi(List.of(Op.check("/data", -1))));
        refused("sync", () -> reader.sync("/"));
        System.out.println("still " + new String(reader.getData("/data", true, null)));
        try (ZooKeeper other = new ZooKeeper(hosts, TIMEOUT_MS, event -> {})) {
            // Its tries come at most a second or so apart.
            Thread.sleep(4_000);
            System.out.println("who wants to write: " + other.getState());
        }

        ask("@return");
        state(KeeperState.SyncConnected);
        System.out.println("state " + reader.getState());
        reader.setData("/data", bytes("2"), -1);
        reader.create("/new", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        event(EventType.NodeDataChanged, "/data");
        event(EventType.NodeCreated, "/new");
        System.out.println("more events " + events.size());
        reader.close();
        System.out.println("end");
    }

    private static byte[] bytes(String text) {
        return text.getBytes();
    }

    private static void ask(String what) throws Exception {
        System.out.println(what);
        int read;
        do {
            read = System.in.read();
        } while (read != '\n' && read != -1);
    }

    private static ZooKeeper connected(String hosts) throws Exception {
        CompletableFuture<Void> connected = new CompletableFuture<>();
        ZooKeeper client = new ZooKeeper(hosts, TIMEOUT_MS, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.complete(null);
            }
        });
        connected.get(Claim.DEADLINE_MS, TimeUnit.MILLISECONDS);
        return client;
    }

    private static void seen(WatchedEvent event) {
        (event.getType() == EventType.None ? states : events).add(event);
    }

    /** Waits for a state, whatever comes before it. */
    private static void state(KeeperState expected) throws Exception {
        WatchedEvent event;
        do {
            event = states.poll(Claim.DEADLINE_MS, TimeUnit.MILLISECONDS);
            Claim.holds(event != null, "in time: " + expected);
            Claim.holds(event.getState() != KeeperState.Expired, "the session lives");
        } while (event.getState() != expected);
    }

    private static void event(EventType type, String path) throws Exception {
        WatchedEvent event = events.poll(Claim.DEADLINE_MS, TimeUnit.MILLISECONDS);
        Claim.holds(event != null, "in time: " + type + " of " + path);
        System.out.println("event " + event.getType() + " " + event.getPath());
    }

    private static void refused(String what, Call call) throws Exception {
        try {
            call.run();
            System.out.println(what + " done");
        } catch (KeeperException error) {
            System.out.println(what + " " + error.code());
        }
    }
}
