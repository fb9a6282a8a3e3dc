import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/** The distribution's WriteLock, five clients. Argument: HOST:PORT. */
final class WriteLocks {
    private static final int CLIENTS = 5;
    private static final int ROUNDS = 10;

    private WriteLocks() {}

    public static void main(String[] arguments) throws Exception {
        Checks checks = new Checks(3);
        Handles.add(checks, "write-lock", arguments[0], WriteLocks::undisturbed);
        Handles.add(checks, "write-lock-with-cut-connections", arguments[0], WriteLocks::cut);
        Handles.add(checks, "write-lock-with-killed-sessions", arguments[0], WriteLocks::killed);
        checks.finish();
    }

    /** A counter that only the lock protects: written without its version. */
    private static final class Counter {
        private final String path;
        private final AtomicInteger inside = new AtomicInteger();

        Counter(ZooKeeper handle, String path) throws Exception {
            this.path = path;
            handle.create(path, Handles.bytes(0), ZooDefs.Ids.OPEN_ACL_UNSAFE,
                    CreateMode.PERSISTENT);
        }

        int value(ZooKeeper handle) throws Exception {
            byte[] data = Handles.again(() -> handle.getData(path, false, null));
            return Integer.parseInt(Handles.text(data));
        }

        void increment(ZooKeeper handle) throws Exception {
            Claim.equal(inside.incrementAndGet(), 1, "holders of the lock");
            int next = value(handle) + 1;
            Handles.again(() -> handle.setData(path, Handles.bytes(next), -1));
            inside.decrementAndGet();
        }
    }

    /** The lock of one session. */
    private static final class Lock {
        private final ZooKeeper handle;
        private final String directory;
        private final WriteLock lock;
        private final Semaphore acquired = new Semaphore(0);

        Lock(ZooKeeper handle, String path) {
            this.handle = handle;
            directory = path;
            lock = new WriteLock(handle, path, ZooDefs.Ids.OPEN_ACL_UNSAFE, new LockListener() {
                @Override
                public void lockAcquired() {
                    acquired.release();
                }

                @Override
                public void lockReleased() {}
            });
            lock.setRetryDelay(100);
        }

        /**
         * Waits for the recipe to say that the lock is had. It misses a predecessor that goes
         * while it is looked at, so it is asked again after a while.
         */
        void acquire() throws Exception {
            acquired.drainPermits();
            while (!lock.lock()) {
                if (!letGoOfLost()) {
                    acquired.tryAcquire(3, TimeUnit.SECONDS);
                }
            }
        }

        /**
         * After a lost connection the recipe takes up a znode that its session already has, but by
         * its bare name, or one that is being deleted. It never finds itself first in the queue
         * with either, and the first keeps all others out.
         */
        private boolean letGoOfLost() throws Exception {
            String id = lock.getId();
            if (id == null) {
                return false;
            }
            boolean whole = id.startsWith(directory + "/");
            if (whole && Handles.again(() -> handle.exists(id, false)) != null) {
                return false;
            }
            delete(whole ? id : directory + "/" + id);
            try {
                lock.unlock();
            } catch (IllegalArgumentException bareName) {
                // It has forgotten the name first.
            }
            return true;
        }

        void release() throws Exception {
            String id = lock.getId();
            try {
                lock.unlock();
            } catch (RuntimeException failed) {
                Claim.holds(failed.getCause() instanceof KeeperException.ConnectionLossException,
                        "unlock: " + failed);
                delete(id);
            }
        }

        private void delete(String id) throws Exception {
            try {
                Handles.again(() -> {
                    handle.delete(id, -1);
                    return null;
                });
            } catch (KeeperException.NoNodeException done) {
                // The lost answer said so.
            }
        }
    }

    private static void undisturbed(Handles handles) throws Exception {
        disturbed(handles, "/plain", (five, me) -> {});
    }

    /** The holder's own connection and a waiter's. */
    private static void cut(Handles handles) throws Exception {
        disturbed(handles, "/cut", (five, me) -> {
            handles.cutConnection(five.get(me));
            handles.cutConnection(five.get((me + 1) % CLIENTS));
        });
    }

    interface Disturbance {
        void strike(List<ZooKeeper> five, int me) throws Exception;
    }

    private static void disturbed(Handles handles, String path, Disturbance disturbance)
            throws Exception {
        List<ZooKeeper> five = handles.next(CLIENTS);
        Counter counter = new Counter(five.get(0), path + "-counter");
        try (Crowd crowd = new Crowd()) {
            for (int number = 0; number < CLIENTS; number++) {
                int me = number;
                ZooKeeper handle = five.get(me);
                crowd.start(() -> {
                    Lock lock = new Lock(handle, path);
                    for (int round = 0; round < ROUNDS; round++) {
                        lock.acquire();
                        if (round == 3 + me) {
                            disturbance.strike(five, me);
                        }
                        counter.increment(handle);
                        lock.release();
                    }
                    Claim.equal(handle.getState().isAlive(), true, "the session lives");
                    // A cut may have made the recipe queue once more.
                    handle.close();
                });
            }
            crowd.join();
        }
        ZooKeeper witness = handles.next();
        Claim.equal(counter.value(witness), CLIENTS * ROUNDS, "the counter");
        Claim.equal(witness.getChildren(path, false), List.of(), "znodes left");
    }

    /** A holder whose session ends has nothing left to unlock; the next one comes in. */
    private static void killed(Handles handles) throws Exception {
        ZooKeeper witness = handles.next();
        Counter counter = new Counter(witness, "/killed-counter");
        AtomicInteger kills = new AtomicInteger();
        try (Crowd crowd = new Crowd()) {
            for (int number = 0; number < CLIENTS; number++) {
                int me = number;
                crowd.start(() -> {
                    ZooKeeper handle = handles.next();
                    Lock lock = new Lock(handle, "/killed");
                    for (int round = 0; round < ROUNDS; round++) {
                        lock.acquire();
                        counter.increment(handle);
                        if (round % 4 != me % 4) {
                            lock.release();
                            continue;
                        }
                        kills.incrementAndGet();
                        handles.killSession(handle);
                        ZooKeeper dead = handle;
                        Claim.soon("the client is told", () -> !dead.getState().isAlive());
                        handle = handles.next();
                        lock = new Lock(handle, "/killed");
                    }
                    handle.close();
                });
            }
            crowd.join();
        }
        Claim.holds(kills.get() >= 2 * CLIENTS, "kills: " + kills.get());
        Claim.equal(counter.value(witness), CLIENTS * ROUNDS, "the counter");
        Claim.equal(witness.getChildren("/killed", false), List.of(), "znodes left");
    }
}
