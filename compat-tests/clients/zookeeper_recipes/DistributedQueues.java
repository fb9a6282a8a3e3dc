import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.queue.DistributedQueue;

/** The distribution's DistributedQueue. Argument: HOST:PORT. */
final class DistributedQueues {
    private static final int ITEMS = 100;

    private DistributedQueues() {}

    public static void main(String[] arguments) throws Exception {
        Checks checks = new Checks(3);
        Handles.add(checks, "queue-order", arguments[0], DistributedQueues::order);
        Handles.add(checks, "queue-in-competition", arguments[0], DistributedQueues::competition);
        Handles.add(checks, "queue-with-kills", arguments[0], DistributedQueues::kills);
        checks.finish();
    }

    /** Two first offers at a time fail: the recipe makes its znode without looking for a rival. */
    private static ZooKeeper ready(Handles handles, String path) throws Exception {
        ZooKeeper handle = handles.next();
        handle.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        return handle;
    }

    private static DistributedQueue queue(ZooKeeper handle, String path) {
        return new DistributedQueue(handle, path, ZooDefs.Ids.OPEN_ACL_UNSAFE);
    }

    /** What is offered first is taken first; peeking takes nothing. */
    private static void order(Handles handles) throws Exception {
        DistributedQueue in = queue(handles.next(), "/order");
        DistributedQueue out = queue(handles.next(), "/order");
        Claim.holds(out.poll() == null, "nothing to poll");
        Claim.holds(out.peek() == null, "nothing to peek at");
        try {
            out.remove();
            throw new AssertionError("nothing to remove");
        } catch (NoSuchElementException expected) {
            for (int item = 0; item < ITEMS; item++) {
                Claim.holds(in.offer(Handles.bytes(item)), "taken in");
            }
        }
        for (int item = 0; item < ITEMS; item++) {
            String due = Integer.toString(item);
            Claim.equal(Handles.text(out.element()), due, "the head");
            byte[] head = item % 3 == 0 ? out.take() : item % 3 == 1 ? out.poll() : out.remove();
            Claim.equal(Handles.text(head), due, "the item");
        }
        Claim.holds(out.poll() == null, "nothing is left");
    }

    /** Two that offer, three that take: each item once. */
    private static void competition(Handles handles) throws Exception {
        ZooKeeper first = ready(handles, "/competition");
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        List<String> expected = new ArrayList<>();
        for (int item = 0; item < ITEMS; item++) {
            expected.add("0-" + item);
            expected.add("1-" + item);
        }
        Collections.sort(expected);
        String end = "end";
        try (Crowd producers = new Crowd(); Crowd crowd = new Crowd()) {
            for (int number = 0; number < 2; number++) {
                int me = number;
                DistributedQueue queue = queue(handles.next(), "/competition");
                producers.start(() -> {
                    for (int item = 0; item < ITEMS; item++) {
                        queue.offer(Handles.bytes(me + "-" + item));
                    }
                });
            }
            for (int number = 0; number < 3; number++) {
                DistributedQueue queue = queue(handles.next(), "/competition");
                crowd.start(() -> {
                    String item = Handles.text(queue.take());
                    while (!item.equals(end)) {
                        taken.add(item);
                        item = Handles.text(queue.take());
                    }
                });
            }
            producers.join();
            DistributedQueue last = queue(first, "/competition");
            for (int number = 0; number < 3; number++) {
                last.offer(Handles.bytes(end));
            }
            crowd.join();
            Claim.holds(last.poll() == null, "nothing is left");
        }
        List<String> sorted = new ArrayList<>(taken);
        Collections.sort(sorted);
        Claim.equal(sorted, expected, "each item once");
    }

    /** Those who wait at an empty queue lose connections and sessions; no item is lost. */
    private static void kills(Handles handles) throws Exception {
        int waiters = 3;
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        DistributedQueue in = queue(ready(handles, "/kills"), "/kills");
        List<ZooKeeper> current = Collections.synchronizedList(new ArrayList<>());
        List<String> expired = Collections.synchronizedList(new ArrayList<>());
        try (Crowd crowd = new Crowd()) {
            for (int number = 0; number < waiters; number++) {
                int me = number;
                current.add(handles.next());
                crowd.start(() -> {
                    while (true) {
                        ZooKeeper handle = current.get(me);
                        DistributedQueue queue = queue(handle, "/kills");
                        try {
                            String item = Handles.text(Handles.again(queue::take));
                            if (item.equals("end")) {
                                return;
                            }
                            taken.add(item);
                        } catch (KeeperException.SessionExpiredException killed) {
                            expired.add("waiter " + me);
                            current.set(me, handles.next());
                        }
                    }
                });
            }
            for (int round = 0; round < waiters; round++) {
                handles.killSession(current.get(round));
                int due = round + 1;
                Claim.soon("the waiter is told", () -> expired.size() == due);
                handles.cutConnection(current.get((round + 1) % waiters));
                List<String> items = new ArrayList<>();
                for (int item = 0; item < 5; item++) {
                    items.add(round + "-" + item);
                    in.offer(Handles.bytes(round + "-" + item));
                }
                List<String> got = new ArrayList<>();
                for (int item = 0; item < 5; item++) {
                    got.add(String.valueOf(taken.poll(20, TimeUnit.SECONDS)));
                }
                Collections.sort(got);
                Claim.equal(got, items, "the items of a round");
            }
            for (int number = 0; number < waiters; number++) {
                in.offer(Handles.bytes("end"));
            }
            crowd.join();
        }
        Claim.equal(expired, List.of("waiter 0", "waiter 1", "waiter 2"), "who was killed");
        Claim.holds(taken.isEmpty(), "each item once");
    }
}
