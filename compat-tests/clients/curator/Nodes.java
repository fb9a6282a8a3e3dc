import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Znodes that somebody keeps there, watches that stay, groups and namespaces. */
final class Nodes {
    private Nodes() {}

    static void persistentNode(Clients clients) throws Exception {
        CuratorFramework a = clients.next();
        CuratorFramework b = clients.next();
        String path = "/persistent";
        try (PersistentNode node =
                new PersistentNode(a, CreateMode.EPHEMERAL, false, path, Clients.bytes("x"))) {
            node.start();
            Claim.holds(node.waitForInitialCreate(20, TimeUnit.SECONDS), "created");
            Stat first = b.checkExists().forPath(path);
            Claim.equal(first.getEphemeralOwner(), clients.session(a), "its owner");
            long session = clients.killSession(a);
            Claim.soon("it comes back with another owner", () -> {
                Stat stat = b.checkExists().forPath(path);
                return stat != null && stat.getEphemeralOwner() != session;
            });
            b.delete().forPath(path);
            Claim.soon("it comes back when deleted", () -> b.checkExists().forPath(path) != null);
            node.setData(Clients.bytes("y"));
            Claim.soon("its new data",
                    () -> Clients.text(b.getData().forPath(path)).equals("y"));
        }
        Claim.soon("it goes with its owner", () -> b.checkExists().forPath(path) == null);
    }

    static void persistentTtlNode(Clients clients) throws Exception {
        CuratorFramework a = clients.next();
        CuratorFramework b = clients.next();
        long ttl = 1_500;
        PersistentTtlNode node = new PersistentTtlNode(a, "/ttl", ttl, Clients.bytes("x"));
        node.start();
        Claim.holds(node.waitForInitialCreate(20, TimeUnit.SECONDS), "created");
        Claim.soon("touched", () -> b.checkExists().forPath("/ttl/touch") != null);
        Stat first = b.checkExists().forPath("/ttl/touch");
        Claim.equal(first.getEphemeralOwner(), 0L, "the shown owner of a TTL znode");
        // Longer than its life without the touches.
        Claim.soon("touched again", () -> {
            Stat stat = b.checkExists().forPath("/ttl/touch");
            Claim.holds(stat != null, "a touched znode stays");
            return stat.getMtime() - first.getMtime() > 2 * ttl;
        });
        node.close();
        Claim.soon("gone with its touches", () -> b.checkExists().forPath("/ttl") == null);
    }

    static void persistentWatcher(Clients clients) throws Exception {
        CuratorFramework a = clients.next();
        CuratorFramework b = clients.next();
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
            Claim.holds(set.poll(20, TimeUnit.SECONDS) != null, "the watch is set");
            a.create().forPath("/watched", Clients.bytes("x"));
            a.create().forPath("/watched/a", Clients.bytes("x"));
            a.create().forPath("/watched/a/b", Clients.bytes("x"));
            a.setData().forPath("/watched/a/b", Clients.bytes("y"));
            a.setData().forPath("/watched/a/b", Clients.bytes("z"));
            a.delete().forPath("/watched/a/b");
            a.create().forPath("/watched/a/b", Clients.bytes("x"));
            List<String> expected = Arrays.asList(
                    "NodeCreated /watched", "NodeCreated /watched/a", "NodeCreated /watched/a/b",
                    "NodeDataChanged /watched/a/b", "NodeDataChanged /watched/a/b",
                    "NodeDeleted /watched/a/b", "NodeCreated /watched/a/b");
            Claim.soon("all events", () -> events.size() >= expected.size());
            Claim.equal(new ArrayList<>(events), expected, "the events");

            List<String> disturbances = List.of("a cut connection", "a killed session");
            for (String disturbance : disturbances) {
                events.clear();
                set.clear();
                if (disturbance.equals("a cut connection")) {
                    clients.cutConnection(b);
                } else {
                    clients.killSession(b);
                }
                Claim.holds(set.poll(20, TimeUnit.SECONDS) != null, "set behind " + disturbance);
                a.setData().forPath("/watched", Clients.bytes("again"));
                Claim.soon("an event behind " + disturbance, () -> !events.isEmpty());
                Claim.equal(new ArrayList<>(events), List.of("NodeDataChanged /watched"),
                        "the events behind " + disturbance);
            }
        }
    }

    private static Map<String, String> members(GroupMember member) {
        Map<String, String> members = new TreeMap<>();
        member.getCurrentMembers().forEach((id, data) -> members.put(id, Clients.text(data)));
        return members;
    }

    private static void seen(List<GroupMember> group, Map<String, String> expected)
            throws Exception {
        for (GroupMember member : group) {
            Claim.soon("the members are " + expected, () -> members(member).equals(expected));
        }
    }

    static void groupMember(Clients clients) throws Exception {
        List<CuratorFramework> five = clients.next(5);
        List<GroupMember> group = new ArrayList<>();
        Map<String, String> expected = new TreeMap<>();
        for (CuratorFramework client : five) {
            String id = "member-" + group.size();
            GroupMember member =
                    new GroupMember(client, "/group", id, Clients.bytes("payload of " + id));
            member.start();
            group.add(member);
            expected.put(id, "payload of " + id);
        }
        seen(group, expected);
        CuratorFramework witness = five.get(0);
        Claim.equal(Set.copyOf(witness.getChildren().forPath("/group")), expected.keySet(),
                "the znodes");

        long session = clients.killSession(five.get(2));
        Claim.soon("a killed member joins again", () -> {
            Stat stat = witness.checkExists().forPath("/group/member-2");
            return stat != null && stat.getEphemeralOwner() != session;
        });
        seen(group, expected);

        group.get(1).setThisData(Clients.bytes("new"));
        expected.put("member-1", "new");
        seen(group, expected);

        group.remove(4).close();
        expected.remove("member-4");
        seen(group, expected);
        group.forEach(GroupMember::close);
    }

    static void namespaces(Clients clients) throws Exception {
        CuratorFramework plain = clients.next();
        CuratorFramework red = clients.next().usingNamespace("red");
        CuratorFramework blue = clients.next().usingNamespace("blue/deep");
        red.create().forPath("/same", Clients.bytes("red"));
        blue.create().forPath("/same", Clients.bytes("blue"));
        Claim.equal(Clients.text(plain.getData().forPath("/red/same")), "red", "red's data");
        Claim.equal(Clients.text(plain.getData().forPath("/blue/deep/same")), "blue", "blue's");
        Claim.equal(red.getChildren().forPath("/"), List.of("same"), "red's root");

        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        red.getData().usingWatcher((org.apache.curator.framework.api.CuratorWatcher) event ->
                events.add(event.getType() + " " + event.getPath())).forPath("/same");
        blue.setData().forPath("/same", Clients.bytes("not red's"));
        plain.setData().forPath("/red/same", Clients.bytes("red's"));
        Claim.equal(events.poll(20, TimeUnit.SECONDS), "NodeDataChanged /same", "the event");
        Claim.holds(events.isEmpty(), "one event");

        String made = red.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/s-");
        Claim.equal(made, "/s-0000000001", "the path, without the namespace");
        Claim.equal(red.transaction().forOperations(
                red.transactionOp().create().forPath("/same/child"),
                red.transactionOp().delete().forPath(made)).get(0).getResultPath(),
                "/same/child", "the path of a transaction");
        Claim.holds(plain.checkExists().forPath("/red/same/child") != null, "it is below");
        Claim.holds(plain.checkExists().forPath("/red" + made) == null, "it is gone");
        Claim.equal(blue.getChildren().forPath("/same"), List.of(), "blue's children");
        blue.delete().deletingChildrenIfNeeded().forPath("/same");
        Claim.holds(red.checkExists().forPath("/same") != null, "red's own is there");
    }
}
