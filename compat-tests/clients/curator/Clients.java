import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;

/** The clients of one check, all on the same server; closed at its end. */
final class Clients implements AutoCloseable {
    static final int SESSION_MS = 15_000;

    final String server;
    private final List<CuratorFramework> started = new ArrayList<>();
    private final Set<Long> killed = ConcurrentHashMap.newKeySet();

    Clients(String server) {
        this.server = server;
    }

    /** One more client, connected. */
    CuratorFramework next() throws Exception {
        RetryNTimes retries = new RetryNTimes(200, 50);
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(server, SESSION_MS, SESSION_MS, retries);
        started.add(client);
        client.start();
        Claim.holds(client.blockUntilConnected(20, TimeUnit.SECONDS), "connected");
        return client;
    }

    List<CuratorFramework> next(int number) throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        for (int count = 0; count < number; count++) {
            clients.add(next());
        }
        return clients;
    }

    void cutConnection(CuratorFramework client) throws Exception {
        Sabotage.cutConnection(server, handle(client));
    }

    /** Returns the id of the session that is no more. */
    long killSession(CuratorFramework client) throws Exception {
        ZooKeeper handle = handle(client);
        killed.add(handle.getSessionId());
        Sabotage.killSession(server, handle);
        return handle.getSessionId();
    }

    long session(CuratorFramework client) throws Exception {
        return handle(client).getSessionId();
    }

    /** A connected handle, not one of a killed session that does not know it yet. */
    private ZooKeeper handle(CuratorFramework client) throws Exception {
        ZooKeeper[] handle = new ZooKeeper[1];
        Claim.soon("a connection with a session", () -> {
            handle[0] = client.getZookeeperClient().getZooKeeper();
            return handle[0].getState().isConnected()
                    && !killed.contains(handle[0].getSessionId());
        });
        return handle[0];
    }

    /** The children's names; none of a container that has been reaped. */
    static List<String> children(CuratorFramework client, String path) throws Exception {
        try {
            return client.getChildren().forPath(path);
        } catch (KeeperException.NoNodeException reaped) {
            return List.of();
        }
    }

    static byte[] bytes(Object text) {
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }

    static int number(byte[] bytes) {
        return Integer.parseInt(text(bytes));
    }

    @Override
    public void close() {
        started.forEach(CuratorFramework::close);
    }
}
