import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/**
 * Curator clients that each hold an ephemeral, the first one a lock too, whatever becomes of the
 * server. Prints "ready", then for each line "report" a line a client and "reported".
 */
final class CuratorSessions {
    private final String path;
    private final CuratorFramework client;
    private final AtomicInteger lost = new AtomicInteger();
    private final AtomicInteger suspended = new AtomicInteger();
    private InterProcessMutex lock;

    private CuratorSessions(String server, int number, int sessionMs) throws Exception {
        path = "/held/curator-" + number;
        client = CuratorFrameworkFactory.newClient(
                server, sessionMs, sessionMs, new RetryNTimes(400, 50));
        client.getConnectionStateListenable().addListener((ignored, state) -> {
            if (state == ConnectionState.LOST) {
                lost.incrementAndGet();
            } else if (state == ConnectionState.SUSPENDED) {
                suspended.incrementAndGet();
            }
        });
        client.start();
        Claim.holds(client.blockUntilConnected(30, TimeUnit.SECONDS), "connected");
        client.create().creatingParentsIfNeeded().withMode(CreateMode.EPHEMERAL)
                .forPath(path, path.getBytes());
        if (number == 0) {
            lock = new InterProcessMutex(client, "/locks/curator");
            lock.acquire();
        }
    }

    private String report() throws Exception {
        Stat stat = client.checkExists().forPath(path);
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        boolean locked = lock == null || lock.isAcquiredInThisProcess();
        return String.format("%s lost=%d suspended=%d session=%#x owner=%#x locked=%b",
                path, lost.get(), suspended.get(), session,
                stat == null ? 0 : stat.getEphemeralOwner(), locked);
    }

    public static void main(String[] arguments) throws Exception {
        int clients = Integer.parseInt(arguments[1]);
        int sessionMs = Integer.parseInt(arguments[2]);
        List<CuratorSessions> sessions = new ArrayList<>();
        for (int number = 0; number < clients; number++) {
            sessions.add(new CuratorSessions(arguments[0], number, sessionMs));
        }
        System.out.println("ready");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        while (orders.readLine() != null) {
            for (CuratorSessions session : sessions) {
                System.out.println(session.report());
            }
            System.out.println("reported");
        }
        for (CuratorSessions session : sessions) {
            session.client.close();
        }
        System.exit(0);
    }
}
