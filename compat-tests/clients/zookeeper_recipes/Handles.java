import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;

/** The ZooKeeper handles of one check, all on the same server; closed at its end. */
final class Handles implements AutoCloseable {
    interface Check {
        void run(Handles handles) throws Exception;
    }

    interface Operation<T> {
        T run() throws KeeperException, InterruptedException;
    }

    private static final int SESSION_MS = 15_000;

    private final String server;
    private final List<ZooKeeper> open = new ArrayList<>();

    private Handles(String server) {
        this.server = server;
    }

    static void add(Checks checks, String name, String server, Check check) {
        checks.add(name, () -> {
            try (Handles handles = new Handles(server)) {
                check.run(handles);
            }
        });
    }

    /** One more handle, connected. */
    ZooKeeper next() throws Exception {
        ZooKeeper handle = new ZooKeeper(server, SESSION_MS, event -> {});
        synchronized (open) {
            open.add(handle);
        }
        Claim.soon("a connection", () -> handle.getState().isConnected());
        return handle;
    }

    List<ZooKeeper> next(int number) throws Exception {
        List<ZooKeeper> handles = new ArrayList<>();
        for (int count = 0; count < number; count++) {
            handles.add(next());
        }
        return handles;
    }

    void cutConnection(ZooKeeper handle) throws Exception {
        Claim.soon("a connection", () -> handle.getState().isConnected());
        Sabotage.cutConnection(server, handle);
    }

    void killSession(ZooKeeper handle) throws IOException {
        Sabotage.killSession(server, handle);
    }

    /** Tries again what a lost connection ended: the handle leaves that to its user. */
    static <T> T again(Operation<T> operation) throws Exception {
        long deadline = System.currentTimeMillis() + Claim.DEADLINE_MS;
        while (true) {
            try {
                return operation.run();
            } catch (KeeperException.ConnectionLossException lost) {
                Claim.holds(System.currentTimeMillis() < deadline, "in time: a connection");
                Thread.sleep(10);
            }
        }
    }

    static byte[] bytes(Object text) {
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @Override
    public void close() throws InterruptedException {
        for (ZooKeeper handle : open) {
            handle.close();
        }
    }
}
