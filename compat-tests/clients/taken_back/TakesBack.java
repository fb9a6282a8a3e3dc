import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Starts Apache ZooKeeper's state, without its sockets, on each directory that is named on a line of its input. Says of
 * each what its znodes are, a line each, then "taken"; or "refused" and why.
 */
final class TakesBack {
    private TakesBack() {}

    public static void main(String[] arguments) throws Exception {
        System.setProperty("zookeeper.extendedTypesEnabled", "true");
        System.setProperty("zookeeper.forceSync", "no");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String folder = lines.readLine(); folder != null; folder = lines.readLine()) {
            StringBuilder said = new StringBuilder();
            try {
                start(new File(folder), said);
                said.append("taken");
            } catch (Throwable thrown) {
                StackTraceElement[] at = thrown.getStackTrace();
                said.append("refused ").append(String.valueOf(thrown).replace('\n', ' '));
                for (int frame = 0; frame < Math.min(3, at.length); frame++) {
                    said.append(" at ").append(at[frame]);
                }
            }
            System.out.println(said);
            System.out.flush();
        }
        System.exit(0);
    }

    private static void start(File folder, StringBuilder said) throws Exception {
        FileTxnSnapLog files = new FileTxnSnapLog(folder, folder);
        try {
            ZKDatabase database = new ZKDatabase(files);
            DataTree tree = database.getDataTree();
            tree.addDigestWatcher(zxid -> said.append("digest 0x").append(Long.toHexString(zxid)).append('\n'));
            // What a start does: reads, ends sessions that are gone, and takes a snapshot.
            new ZooKeeperServer(files, 2000, 4000, 40000, -1, database, "").loadData();
            show(database.getDataTree(), said);
        } finally {
            files.close();
        }
    }

    private static void show(DataTree tree, StringBuilder said) throws Exception {
        Deque<String> ahead = new ArrayDeque<>(Collections.singleton("/"));
        while (!ahead.isEmpty()) {
            String path = ahead.pop();
            Stat stat = new Stat();
            byte[] data = tree.getData(path, stat, null);
            said.append("znode ").append(hex(path.getBytes(StandardCharsets.UTF_8)));
            // What limits of a snapshot are about is counted anew, and some of them are passed over.
            boolean counted = path.startsWith("/zookeeper/quota") && path.endsWith("/zookeeper_stats");
            said.append(' ').append(counted ? "counted" : data == null ? "null" : "=" + hex(data));
            long[] numbers = {
                stat.getCzxid(), stat.getMzxid(), stat.getCtime(), stat.getMtime(), stat.getVersion(), stat.getCversion(),
                stat.getAversion(), stat.getEphemeralOwner(), counted ? 0 : stat.getDataLength(), stat.getNumChildren(), stat.getPzxid()
            };
            for (long number : numbers) {
                said.append(' ').append(number);
            }
            List<ACL> list = tree.getACL(path, new Stat());
            for (ACL acl : list) {
                String id = acl.getId().getScheme() + ":" + acl.getId().getId() + ":" + acl.getPerms();
                said.append(' ').append(hex(id.getBytes(StandardCharsets.UTF_8)));
            }
            said.append('\n');
            for (String name : tree.getChildren(path, new Stat(), null)) {
                ahead.push(path.equals("/") ? "/" + name : path + "/" + name);
            }
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte value : bytes) {
            text.append(String.format("%02x", value));
        }
        return text.toString();
    }
}
