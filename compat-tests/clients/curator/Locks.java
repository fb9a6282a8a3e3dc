import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;

/** Mutexes, semaphores and what is made of them. */
final class Locks {
    private static final int ALONE = 1;

    private Locks() {}

    /** A counter that only a lock protects: written without its version. */
    private static final class Counter {
        private final String path;
        private final AtomicInteger inside = new AtomicInteger();
        private final AtomicInteger increments = new AtomicInteger();

        Counter(CuratorFramework client, String path) throws Exception {
            this.path = path;
            client.create().creatingParentsIfNeeded().forPath(path, Clients.bytes(0));
        }

        void increment(CuratorFramework client) throws Exception {
            Claim.equal(inside.incrementAndGet(), ALONE, "holders of the lock");
            int value = Clients.number(client.getData().forPath(path));
            client.setData().forPath(path, Clients.bytes(value + 1));
            increments.incrementAndGet();
            inside.decrementAndGet();
        }

        int increments() {
            return increments.get();
        }

        void isExactly(int expected, CuratorFramework client) throws Exception {
            Claim.equal(Clients.number(client.getData().forPath(path)), expected, "the counter");
        }
    }

    private static void isEmpty(CuratorFramework client, String path) throws Exception {
        Claim.equal(Clients.children(client, path), List.of(), "znodes left in " + path);
    }

    static void mutex(Clients clients) throws Exception {
        int rounds = 25;
        CuratorFramework a = clients.next();
        CuratorFramework b = clients.next();
        Counter counter = new Counter(a, "/mutex/counter");
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : List.of(a, b, a, b)) {
                InterProcessMutex mutex = new InterProcessMutex(client, "/mutex/lock");
                crowd.start(() -> take(mutex, rounds, () -> counter.increment(client)));
            }
            crowd.join();
        }
        counter.isExactly(4 * rounds, a);
        isEmpty(a, "/mutex/lock");
    }

    private static void take(InterProcessLock lock, int rounds, Crowd.Work work) throws Exception {
        for (int round = 0; round < rounds; round++) {
            lock.acquire();
            try {
                work.run();
            } finally {
                lock.release();
            }
        }
    }

    /** The connection goes, the session and with it the lock stays. */
    static void mutexWithCutConnections(Clients clients) throws Exception {
        int rounds = 25;
        CuratorFramework a = clients.next();
        CuratorFramework b = clients.next();
        Counter counter = new Counter(a, "/mutex-cut/counter");
        AtomicInteger reconnections = new AtomicInteger();
        AtomicInteger losses = new AtomicInteger();
        a.getConnectionStateListenable().addListener((client, state) -> {
            if (state == ConnectionState.LOST) {
                losses.incrementAndGet();
            } else if (state == ConnectionState.RECONNECTED) {
                reconnections.incrementAndGet();
            }
        });
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : List.of(a, b, a, b)) {
                InterProcessMutex mutex = new InterProcessMutex(client, "/mutex-cut/lock");
                crowd.start(() -> take(mutex, rounds, () -> counter.increment(client)));
            }
            for (int cuts = 1; cuts <= 3; cuts++) {
                int expected = cuts;
                int progress = counter.increments() + 10;
                Claim.soon("increments", () -> counter.increments() >= progress);
                clients.cutConnection(a);
                Claim.soon("reconnected", () -> reconnections.get() >= expected);
            }
            crowd.join();
        }
        Claim.equal(losses.get(), 0, "lost sessions");
        counter.isExactly(4 * rounds, b);
        isEmpty(b, "/mutex-cut/lock");
    }

    /** Holders and waiters lose their sessions; the lock goes on, and nobody holds it twice. */
    static void mutexWithKilledSessions(Clients clients) throws Exception {
        int rounds = 6;
        List<CuratorFramework> five = clients.next(5);
        CuratorFramework outside = clients.next();
        Counter counter = new Counter(outside, "/mutex-killed/counter");
        AtomicInteger kills = new AtomicInteger();
        // Who was killed is not killed again before it was inside: Curator's acquire fails with a NullPointerException where it
        // loses its connection again while it looks for what it has made (its retry loop is over by then).
        AtomicIntegerArray wasInside = new AtomicIntegerArray(five.size());
        try (Crowd crowd = new Crowd()) {
            for (int number = 0; number < five.size(); number++) {
                int me = number;
                Random random = new Random(number);
                CuratorFramework client = five.get(me);
                InterProcessMutex mutex = new InterProcessMutex(client, "/mutex-killed/lock");
                crowd.start(() -> take(mutex, rounds, () -> {
                    counter.increment(client);
                    wasInside.set(me, 1);
                    // Who is killed is no longer inside: nobody but the holder comes here.
                    int other = (me + random.nextInt(3)) % five.size();
                    if (kills.get() < 8 && random.nextInt(3) == 0
                            && wasInside.compareAndSet(other, 1, 0)) {
                        kills.incrementAndGet();
                        clients.killSession(five.get(other));
                    }
                }));
            }
            crowd.join();
        }
        Claim.holds(kills.get() >= 4, "sessions are killed: " + kills.get());
        counter.isExactly(five.size() * rounds, outside);
        isEmpty(outside, "/mutex-killed/lock");
    }

    static void revocableMutex(Clients clients) throws Exception {
        CuratorFramework a = clients.next();
        CuratorFramework b = clients.next();
        for (int handOver = 0; handOver < 6; handOver++) {
            CuratorFramework owner = handOver % 2 == 0 ? a : b;
            CuratorFramework rival = handOver % 2 == 0 ? b : a;
            InterProcessMutex held = new InterProcessMutex(owner, "/revocable");
            AtomicInteger revocations = new AtomicInteger();
            CountDownLatch revoked = new CountDownLatch(1);
            held.makeRevocable(mutex -> {
                revocations.incrementAndGet();
                revoked.countDown();
            });
            held.acquire();
            InterProcessMutex wanted = new InterProcessMutex(rival, "/revocable");
            Claim.holds(!wanted.acquire(50, TimeUnit.MILLISECONDS), "a held lock is not had");
            Claim.equal(revocations.get(), 0, "revocations before one is asked for");
            String holder = held.getParticipantNodes().iterator().next();
            Revoker.attemptRevoke(rival, holder);
            Claim.holds(revoked.await(20, TimeUnit.SECONDS), "the holder is told");
            Claim.holds(!wanted.acquire(50, TimeUnit.MILLISECONDS), "the holder decides");
            held.release();
            Claim.holds(wanted.acquire(20, TimeUnit.SECONDS), "the lock is free");
            wanted.release();
            Claim.equal(revocations.get(), 1, "revocations");
        }
        isEmpty(a, "/revocable");
    }

    /** Twenty waiters of ten clients: a release wakes one, and in the order of their coming. */
    static void waiters(Clients clients) throws Exception {
        CuratorFramework holder = clients.next();
        List<CuratorFramework> ten = clients.next(10);
        InterProcessMutex first = new InterProcessMutex(holder, "/waiters");
        first.acquire();
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        try (Crowd crowd = new Crowd()) {
            for (int number = 0; number < 20; number++) {
                int me = number;
                crowd.start(() -> {
                    InterProcessMutex mutex = new InterProcessMutex(ten.get(me % 10), "/waiters");
                    mutex.acquire();
                    order.add(me);
                    mutex.release();
                });
                Claim.soon("in the queue",
                        () -> holder.getChildren().forPath("/waiters").size() == me + 2);
            }
            Claim.equal(order.size(), 0, "waiters through before the release");
            first.release();
            crowd.join();
        }
        List<Integer> sorted = new ArrayList<>(order);
        Collections.sort(sorted);
        Claim.equal(order, sorted, "the order");
        Claim.equal(order.size(), 20, "waiters through");
    }

    static void semaphoreMutex(Clients clients) throws Exception {
        int rounds = 8;
        String path = "/semaphore-mutex/lock";
        List<CuratorFramework> five = clients.next(5);
        CuratorFramework first = five.get(0);
        Counter counter = new Counter(first, "/semaphore-mutex/counter");
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : five) {
                InterProcessSemaphoreMutex mutex = new InterProcessSemaphoreMutex(client, path);
                crowd.start(() -> take(mutex, rounds, () -> counter.increment(client)));
            }
            crowd.join();
        }
        counter.isExactly(five.size() * rounds, first);

        InterProcessSemaphoreMutex held = new InterProcessSemaphoreMutex(first, path);
        held.acquire();
        InterProcessSemaphoreMutex again = new InterProcessSemaphoreMutex(first, path);
        Claim.holds(!again.acquire(50, TimeUnit.MILLISECONDS), "it is not reentrant");
        try (Crowd crowd = new Crowd()) {
            crowd.start(held::release);
            crowd.join();
        }
        Claim.holds(again.acquire(20, TimeUnit.SECONDS), "another thread may release it");
        clients.killSession(first);
        InterProcessSemaphoreMutex other = new InterProcessSemaphoreMutex(five.get(1), path);
        Claim.holds(other.acquire(20, TimeUnit.SECONDS), "it ends with its session");
        other.release();
    }

    static void readWriteLock(Clients clients) throws Exception {
        String path = "/read-write";
        List<CuratorFramework> three = clients.next(3);
        // Readers at the same time: each waits inside for the others.
        CyclicBarrier together = new CyclicBarrier(three.size());
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : three) {
                crowd.start(() -> take(new InterProcessReadWriteLock(client, path).readLock(), 3,
                        () -> together.await(20, TimeUnit.SECONDS)));
            }
            crowd.join();
        }
        // Writers alone.
        AtomicInteger readers = new AtomicInteger();
        AtomicInteger writers = new AtomicInteger();
        int[] written = {0};
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : three) {
                InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
                crowd.start(() -> take(lock.readLock(), 10, () -> {
                    readers.incrementAndGet();
                    Claim.equal(writers.get(), 0, "writers beside a reader");
                    Thread.sleep(1);
                    Claim.equal(writers.get(), 0, "writers beside a reader");
                    readers.decrementAndGet();
                }));
                crowd.start(() -> take(lock.writeLock(), 10, () -> {
                    Claim.equal(writers.incrementAndGet(), ALONE, "writers");
                    Claim.equal(readers.get(), 0, "readers beside a writer");
                    written[0]++;
                    Thread.sleep(1);
                    Claim.equal(readers.get(), 0, "readers beside a writer");
                    writers.decrementAndGet();
                }));
            }
            crowd.join();
        }
        Claim.equal(written[0], 30, "writes");
        isEmpty(three.get(0), path);

        // A writer may read, a reader may not write, and a killed writer lets the readers in.
        InterProcessReadWriteLock mine = new InterProcessReadWriteLock(three.get(0), path);
        InterProcessReadWriteLock theirs = new InterProcessReadWriteLock(three.get(1), path);
        mine.writeLock().acquire();
        Claim.holds(mine.readLock().acquire(20, TimeUnit.SECONDS), "a writer reads");
        mine.writeLock().release();
        Claim.holds(theirs.readLock().acquire(20, TimeUnit.SECONDS), "two readers");
        Claim.holds(!theirs.writeLock().acquire(50, TimeUnit.MILLISECONDS), "no reader writes");
        theirs.readLock().release();
        mine.readLock().release();
        mine.writeLock().acquire();
        Claim.holds(!theirs.readLock().acquire(50, TimeUnit.MILLISECONDS), "the writer is alone");
        clients.killSession(three.get(0));
        Claim.holds(theirs.readLock().acquire(20, TimeUnit.SECONDS), "the writer is gone");
    }

    static void semaphore(Clients clients) throws Exception {
        int leases = 3;
        List<CuratorFramework> six = clients.next(6);
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger entered = new AtomicInteger();
        CountDownLatch full = new CountDownLatch(leases);
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : six) {
                InterProcessSemaphoreV2 semaphore =
                        new InterProcessSemaphoreV2(client, "/semaphore", leases);
                crowd.start(() -> {
                    for (int round = 0; round < 5; round++) {
                        Lease lease = semaphore.acquire();
                        int now = inside.incrementAndGet();
                        Claim.holds(now <= leases, now + " hold one of " + leases + " leases");
                        entered.incrementAndGet();
                        // The first ones wait for each other: all leases are given.
                        full.countDown();
                        Claim.holds(full.await(20, TimeUnit.SECONDS), "all leases are had");
                        inside.decrementAndGet();
                        semaphore.returnLease(lease);
                    }
                });
            }
            crowd.join();
        }
        Claim.equal(entered.get(), 30, "leases had");
        isEmpty(six.get(0), "/semaphore/leases");

        // A lease ends with its session.
        InterProcessSemaphoreV2 first = new InterProcessSemaphoreV2(six.get(0), "/semaphore", 3);
        InterProcessSemaphoreV2 other = new InterProcessSemaphoreV2(six.get(1), "/semaphore", 3);
        Claim.equal(first.acquire(3).size(), 3, "leases of one client");
        Claim.holds(other.acquire(50, TimeUnit.MILLISECONDS) == null, "none is left");
        clients.killSession(six.get(0));
        Claim.holds(other.acquire(3, 20, TimeUnit.SECONDS) != null, "all are free");
    }

    /** The number of leases stands in a SharedCount and grows. */
    static void semaphoreOfSharedCount(Clients clients) throws Exception {
        CuratorFramework a = clients.next();
        CuratorFramework b = clients.next();
        try (SharedCount here = new SharedCount(a, "/semaphore-count", 1);
                SharedCount there = new SharedCount(b, "/semaphore-count", 1)) {
            here.start();
            there.start();
            InterProcessSemaphoreV2 first = new InterProcessSemaphoreV2(a, "/semaphore-of", here);
            InterProcessSemaphoreV2 second = new InterProcessSemaphoreV2(b, "/semaphore-of", there);
            Lease held = first.acquire(20, TimeUnit.SECONDS);
            Claim.holds(held != null, "the one lease");
            Claim.holds(second.acquire(50, TimeUnit.MILLISECONDS) == null, "there is one only");
            here.setCount(2);
            Claim.soon("the count is known", () -> there.getCount() == 2);
            Lease more = second.acquire(20, TimeUnit.SECONDS);
            Claim.holds(more != null, "a second lease");
            Claim.holds(second.acquire(50, TimeUnit.MILLISECONDS) == null, "there are two only");
            second.returnLease(more);
            first.returnLease(held);
        }
    }

    static void multiLock(Clients clients) throws Exception {
        int rounds = 5;
        List<String> all = List.of("/multi-lock/x", "/multi-lock/y", "/multi-lock/z");
        List<CuratorFramework> three = clients.next(3);
        Map<String, Counter> counters = new TreeMap<>();
        for (String path : all) {
            counters.put(path, new Counter(three.get(0), path + "-counter"));
        }
        // Each client leaves another one out: two share one lock, never both.
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : three) {
                List<String> paths = new ArrayList<>(all);
                paths.remove(three.indexOf(client));
                InterProcessMultiLock lock = new InterProcessMultiLock(client, paths);
                crowd.start(() -> take(lock, rounds, () -> {
                    for (String path : paths) {
                        counters.get(path).increment(client);
                    }
                }));
            }
            crowd.join();
        }
        for (Counter counter : counters.values()) {
            counter.isExactly(2 * rounds, three.get(0));
        }
        // All or nothing: with one of them held, the others are given back.
        InterProcessMutex last = new InterProcessMutex(three.get(0), all.get(2));
        last.acquire();
        InterProcessMultiLock lock = new InterProcessMultiLock(three.get(1), all);
        Claim.holds(!lock.acquire(100, TimeUnit.MILLISECONDS), "one of three is held");
        isEmpty(three.get(2), all.get(0));
        isEmpty(three.get(2), all.get(1));
        clients.killSession(three.get(0));
        Claim.holds(lock.acquire(20, TimeUnit.SECONDS), "the three are free");
        lock.release();
    }
}
