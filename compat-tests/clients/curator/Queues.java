import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/** Queues: by order of coming, by priority, by time. */
final class Queues {
    private static final QueueSerializer<String> TEXT = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return Clients.bytes(item);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return Clients.text(bytes);
        }
    };

    private Queues() {}

    interface Taker {
        void take(String item) throws Exception;
    }

    private static QueueBuilder<String> queue(CuratorFramework client, String path, Taker taker) {
        QueueConsumer<String> consumer = taker == null ? null : new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) throws Exception {
                taker.take(item);
            }

            @Override
            public void stateChanged(CuratorFramework whose, ConnectionState state) {}
        };
        return QueueBuilder.builder(client, consumer, TEXT, path);
    }

    private static List<String> items(String name, int number) {
        List<String> items = new ArrayList<>();
        for (int item = 0; item < number; item++) {
            items.add(name + "-" + item);
        }
        return items;
    }

    /** One consumer, in the order of the puts. */
    static void queue(Clients clients) throws Exception {
        List<String> taken = Collections.synchronizedList(new ArrayList<>());
        List<String> items = items("item", 60);
        try (DistributedQueue<String> in = queue(clients.next(), "/queue", null).buildQueue();
                DistributedQueue<String> out =
                        queue(clients.next(), "/queue", taken::add).buildQueue()) {
            in.start();
            out.start();
            for (String item : items) {
                in.put(item);
            }
            Claim.soon("all are taken", () -> taken.size() >= items.size());
        }
        Claim.equal(taken, items, "the items");
    }

    /** Three consumers, two producers: each item once. */
    static void queueInCompetition(Clients clients) throws Exception {
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        List<DistributedQueue<String>> queues = new ArrayList<>();
        for (CuratorFramework client : clients.next(3)) {
            queues.add(queue(client, "/queue-many", taken::add).lockPath("/queue-many-locks")
                    .buildQueue());
        }
        List<String> expected = new ArrayList<>();
        List<DistributedQueue<String>> producers = new ArrayList<>();
        for (CuratorFramework client : clients.next(2)) {
            producers.add(queue(client, "/queue-many", null).buildQueue());
        }
        queues.addAll(producers);
        for (DistributedQueue<String> queue : queues) {
            queue.start();
        }
        try (Crowd crowd = new Crowd()) {
            for (DistributedQueue<String> producer : producers) {
                List<String> items = items("from-" + producers.indexOf(producer), 40);
                expected.addAll(items);
                crowd.start(() -> {
                    for (String item : items) {
                        producer.put(item);
                    }
                });
            }
            crowd.join();
        }
        CuratorFramework witness = clients.next();
        Claim.soon("all are taken", () -> taken.size() >= expected.size()
                && Clients.children(witness, "/queue-many").isEmpty());
        for (DistributedQueue<String> queue : queues) {
            queue.close();
        }
        List<String> sorted = new ArrayList<>(taken);
        Collections.sort(sorted);
        Collections.sort(expected);
        Claim.equal(sorted, expected, "each item once");
    }

    /** What a consumer had in hand when its session ended goes to another one. */
    static void queueWithKilledSession(Clients clients) throws Exception {
        CuratorFramework doomed = clients.next();
        CuratorFramework other = clients.next();
        CountDownLatch inHand = new CountDownLatch(1);
        CountDownLatch killed = new CountDownLatch(1);
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        try (DistributedQueue<String> in =
                        queue(clients.next(), "/queue-killed", null).buildQueue();
                DistributedQueue<String> first = queue(doomed, "/queue-killed", item -> {
                    inHand.countDown();
                    killed.await();
                    throw new IllegalStateException("killed with " + item);
                }).lockPath("/queue-killed-locks").buildQueue();
                DistributedQueue<String> second =
                        queue(other, "/queue-killed", taken::add)
                                .lockPath("/queue-killed-locks").buildQueue()) {
            in.start();
            first.start();
            in.put("precious");
            Claim.holds(inHand.await(20, TimeUnit.SECONDS), "the first one has it");
            second.start();
            Claim.holds(taken.poll(300, TimeUnit.MILLISECONDS) == null, "it is locked");
            clients.killSession(doomed);
            // The second one looks again when something comes.
            in.put("next");
            Set<String> got = new TreeSet<>();
            for (int item = 0; item < 2; item++) {
                got.add(String.valueOf(taken.poll(20, TimeUnit.SECONDS)));
            }
            killed.countDown();
            Claim.equal(got, Set.of("next", "precious"), "what the second one takes");
        }
    }

    static void priorityQueue(Clients clients) throws Exception {
        List<String> taken = Collections.synchronizedList(new ArrayList<>());
        List<Integer> priorities = List.of(5, -3, 0, 5, 2_000_000_000, -2_000_000_000, 1, -3, 0);
        try (DistributedPriorityQueue<String> in =
                        queue(clients.next(), "/priority", null).buildPriorityQueue(0);
                DistributedPriorityQueue<String> out =
                        queue(clients.next(), "/priority", taken::add).buildPriorityQueue(0)) {
            in.start();
            for (int number = 0; number < priorities.size(); number++) {
                in.put(priorities.get(number) + " " + number, priorities.get(number));
            }
            // They are put in the background.
            Claim.holds(in.flushPuts(20, TimeUnit.SECONDS), "all are put");
            out.start();
            Claim.soon("all are taken", () -> taken.size() >= priorities.size());
        }
        Claim.equal(taken, List.of("-2000000000 5", "-3 1", "-3 7", "0 2", "0 8", "1 6", "5 0",
                "5 3", "2000000000 4"), "by priority, then in the order of the puts");
    }

    static void delayQueue(Clients clients) throws Exception {
        List<String> taken = Collections.synchronizedList(new ArrayList<>());
        List<String> early = Collections.synchronizedList(new ArrayList<>());
        try (DistributedDelayQueue<String> in =
                        queue(clients.next(), "/delay", null).buildDelayQueue();
                DistributedDelayQueue<String> out = queue(clients.next(), "/delay", item -> {
                    String[] parts = item.split(" ");
                    if (System.currentTimeMillis() < Long.parseLong(parts[1])) {
                        early.add(item);
                    }
                    taken.add(parts[0]);
                }).buildDelayQueue()) {
            in.start();
            out.start();
            long now = System.currentTimeMillis();
            // Put in another order than they are due.
            for (int number : List.of(3, 0, 4, 1, 2)) {
                long due = now + 500 + 250L * number;
                in.put(number + " " + due, due);
            }
            Claim.soon("all are taken", () -> taken.size() >= 5);
        }
        Claim.equal(taken, List.of("0", "1", "2", "3", "4"), "by time");
        Claim.equal(early, List.of(), "taken too early");
    }

    static void simpleQueue(Clients clients) throws Exception {
        int items = 50;
        CuratorFramework witness = clients.next();
        SimpleDistributedQueue empty = new SimpleDistributedQueue(witness, "/simple");
        Claim.holds(empty.poll() == null, "nothing to poll");
        Claim.holds(empty.poll(50, TimeUnit.MILLISECONDS) == null, "nothing comes");
        try {
            empty.remove();
            throw new AssertionError("nothing to remove");
        } catch (NoSuchElementException expected) {
            Claim.holds(empty.peek() == null, "nothing to peek at");
        }

        // One takes what one offers, in order, also when its session ends while it waits.
        CuratorFramework waiter = clients.next();
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        try (Crowd crowd = new Crowd()) {
            crowd.start(() -> {
                SimpleDistributedQueue queue = new SimpleDistributedQueue(waiter, "/simple");
                for (int item = 0; item < 3; item++) {
                    got.add(Clients.text(queue.take()));
                }
            });
            empty.offer(Clients.bytes("1"));
            Claim.equal(got.poll(20, TimeUnit.SECONDS), "1", "the first item");
            clients.cutConnection(waiter);
            empty.offer(Clients.bytes("2"));
            Claim.equal(got.poll(20, TimeUnit.SECONDS), "2", "behind a cut connection");
            clients.killSession(waiter);
            empty.offer(Clients.bytes("3"));
            Claim.equal(got.poll(20, TimeUnit.SECONDS), "3", "behind a killed session");
            crowd.join();
        }

        List<String> expected = new ArrayList<>();
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : clients.next(2)) {
                List<String> mine = items("from-" + clients.session(client), items);
                expected.addAll(mine);
                crowd.start(() -> {
                    SimpleDistributedQueue queue = new SimpleDistributedQueue(client, "/simple");
                    for (String item : mine) {
                        Claim.holds(queue.offer(Clients.bytes(item)), "taken in");
                    }
                });
            }
            for (CuratorFramework client : clients.next(3)) {
                crowd.start(() -> {
                    SimpleDistributedQueue queue = new SimpleDistributedQueue(client, "/simple");
                    while (taken.size() < expected.size()) {
                        byte[] item = queue.poll(100, TimeUnit.MILLISECONDS);
                        if (item != null) {
                            taken.add(Clients.text(item));
                        }
                    }
                });
            }
            crowd.join();
        }
        List<String> sorted = new ArrayList<>(taken);
        Collections.sort(sorted);
        Collections.sort(expected);
        Claim.equal(sorted, expected, "each item once");
        Claim.equal(Clients.children(witness, "/simple"), List.of(), "items left");
    }
}
