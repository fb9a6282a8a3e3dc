import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;

/** Caches that follow a tree, through cut connections and ended sessions. */
@SuppressWarnings("deprecation")
final class Caches {
    private Caches() {}

    /** A tree that one client changes at random; what it has to be is known here. */
    private static final class Tree {
        private final CuratorFramework client;
        private final String root;
        private final boolean deep;
        private final Random random = new Random(42);
        private final Map<String, String> znodes = new TreeMap<>();
        private int operations;

        Tree(CuratorFramework client, String root, boolean deep) throws Exception {
            this.client = client;
            this.root = root;
            this.deep = deep;
            client.create().forPath(root, Clients.bytes("root"));
            znodes.put(root, "root");
        }

        void change(int times) throws Exception {
            for (int change = 0; change < times; change++) {
                operations++;
                List<String> paths = new ArrayList<>(znodes.keySet());
                String path = paths.get(random.nextInt(paths.size()));
                String data = "data " + operations;
                switch (random.nextInt(4)) {
                    case 0:
                    case 1:
                        String child = (deep ? path : root) + "/n" + operations;
                        client.create().forPath(child, Clients.bytes(data));
                        znodes.put(child, data);
                        break;
                    case 2:
                        client.setData().forPath(path, Clients.bytes(data));
                        znodes.put(path, data);
                        break;
                    default:
                        if (!path.equals(root)) {
                            client.delete().deletingChildrenIfNeeded().forPath(path);
                            znodes.keySet().removeIf(
                                    known -> known.equals(path) || known.startsWith(path + "/"));
                        }
                }
            }
        }

        Map<String, String> below() {
            Map<String, String> below = new TreeMap<>(znodes);
            below.remove(root);
            return below;
        }
    }

    interface Look {
        void at(Map<String, String> cached);
    }

    private static void follows(Map<String, String> tree, Look look) throws Exception {
        Map<String, String> cached = new TreeMap<>();
        try {
            Claim.soon("the cache equals the tree", () -> {
                cached.clear();
                look.at(cached);
                return cached.equals(tree);
            });
        } catch (AssertionError late) {
            Claim.equal(cached, tree, "the cache");
            throw late;
        }
    }

    private static void put(Map<String, String> cached, ChildData data) {
        cached.put(data.getPath(), Clients.text(data.getData()));
    }

    static void curatorCache(Clients clients) throws Exception {
        CuratorFramework reader = clients.next();
        Tree tree = new Tree(clients.next(), "/cache", true);
        tree.change(100);
        try (CuratorCache cache = CuratorCache.build(reader, "/cache")) {
            cache.start();
            Look look = cached -> cache.stream().forEach(data -> put(cached, data));
            tree.change(300);
            follows(tree.znodes, look);
            clients.cutConnection(reader);
            tree.change(300);
            follows(tree.znodes, look);
            clients.killSession(reader);
            tree.change(300);
            follows(tree.znodes, look);
        }
    }

    static void pathChildrenCache(Clients clients) throws Exception {
        CuratorFramework reader = clients.next();
        CuratorFramework writer = clients.next();
        Tree tree = new Tree(writer, "/children", false);
        tree.change(50);
        try (PathChildrenCache cache = new PathChildrenCache(reader, "/children", true)) {
            List<String> events = Collections.synchronizedList(new ArrayList<>());
            cache.getListenable().addListener((client, event) -> {
                if (event.getData() != null && event.getData().getPath().endsWith("/seen")) {
                    events.add(event.getType() + " " + Clients.text(event.getData().getData()));
                }
            });
            cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
            Look look = cached -> cache.getCurrentData().forEach(data -> put(cached, data));
            Map<String, String> first = new TreeMap<>();
            look.at(first);
            Claim.equal(first, tree.below(), "the first cache");

            // One change at a time: the cache reads anew behind each event.
            List<String> expected = Arrays.asList(
                    "CHILD_ADDED 1", "CHILD_UPDATED 2", "CHILD_UPDATED 3", "CHILD_REMOVED 3");
            writer.create().forPath("/children/seen", Clients.bytes(1));
            Claim.soon("added", () -> events.size() == 1);
            writer.setData().forPath("/children/seen", Clients.bytes(2));
            Claim.soon("updated", () -> events.size() == 2);
            writer.setData().forPath("/children/seen", Clients.bytes(3));
            Claim.soon("updated again", () -> events.size() == 3);
            writer.delete().forPath("/children/seen");
            Claim.soon("removed", () -> events.size() == 4);
            Claim.equal(events, expected, "the events");

            tree.change(150);
            follows(tree.below(), look);
            clients.cutConnection(reader);
            tree.change(150);
            follows(tree.below(), look);
            clients.killSession(reader);
            tree.change(150);
            follows(tree.below(), look);
            Claim.equal(events, expected, "the events of a znode that is gone");
        }
    }

    private static void walk(TreeCache cache, String path, Map<String, String> cached) {
        ChildData data = cache.getCurrentData(path);
        Map<String, ChildData> children = cache.getCurrentChildren(path);
        if (data != null && children != null) {
            put(cached, data);
            children.keySet().forEach(name -> walk(cache, path + "/" + name, cached));
        }
    }

    static void treeCache(Clients clients) throws Exception {
        CuratorFramework reader = clients.next();
        Tree tree = new Tree(clients.next(), "/tree", true);
        tree.change(100);
        CountDownLatch initialized = new CountDownLatch(1);
        try (TreeCache cache = TreeCache.newBuilder(reader, "/tree").build()) {
            cache.getListenable().addListener((client, event) -> {
                if (event.getType() == TreeCacheEvent.Type.INITIALIZED) {
                    initialized.countDown();
                }
            });
            cache.start();
            Claim.holds(initialized.await(20, TimeUnit.SECONDS), "initialized");
            Map<String, String> first = new TreeMap<>();
            walk(cache, "/tree", first);
            Claim.equal(first, tree.znodes, "the first cache");
            Look look = cached -> walk(cache, "/tree", cached);
            tree.change(200);
            follows(tree.znodes, look);
            clients.cutConnection(reader);
            tree.change(200);
            follows(tree.znodes, look);
            clients.killSession(reader);
            tree.change(200);
            follows(tree.znodes, look);
        }
    }

    static void nodeCache(Clients clients) throws Exception {
        CuratorFramework reader = clients.next();
        CuratorFramework writer = clients.next();
        try (NodeCache cache = new NodeCache(reader, "/node")) {
            List<String> seen = Collections.synchronizedList(new ArrayList<>());
            cache.getListenable().addListener(() -> seen.add(current(cache)));
            cache.start(true);
            Claim.equal(current(cache), "nothing", "before the znode is there");
            writer.create().forPath("/node", Clients.bytes("a"));
            Claim.soon("created", () -> seen.equals(List.of("a")));
            writer.setData().forPath("/node", Clients.bytes("b"));
            Claim.soon("changed", () -> seen.equals(List.of("a", "b")));
            writer.delete().forPath("/node");
            Claim.soon("deleted", () -> seen.equals(List.of("a", "b", "nothing")));
            clients.cutConnection(reader);
            writer.create().forPath("/node", Clients.bytes("c"));
            Claim.soon("created behind a cut", () -> current(cache).equals("c"));
            clients.killSession(reader);
            writer.setData().forPath("/node", Clients.bytes("d"));
            Claim.soon("changed behind a killed session", () -> current(cache).equals("d"));
            Claim.equal(seen, List.of("a", "b", "nothing", "c", "d"), "what was seen");
        }
    }

    private static String current(NodeCache cache) {
        ChildData data = cache.getCurrentData();
        return data == null ? "nothing" : Clients.text(data.getData());
    }
}
