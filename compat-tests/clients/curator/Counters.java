import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Numbers that many change. */
final class Counters {
    private Counters() {}

    static void atomicLong(Clients clients) throws Exception {
        int rounds = 25;
        List<CuratorFramework> four = clients.next(4);
        Set<Long> values = Collections.synchronizedSet(new HashSet<>());
        PromotedToLock promoted = PromotedToLock.builder().lockPath("/atomic-lock")
                .retryPolicy(new RetryNTimes(100, 10)).timeout(20, TimeUnit.SECONDS).build();
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : four) {
                DistributedAtomicLong number = new DistributedAtomicLong(
                        client, "/atomic", new RetryNTimes(3, 1), promoted);
                crowd.start(() -> {
                    for (int round = 0; round < rounds; round++) {
                        AtomicValue<Long> value = number.increment();
                        Claim.holds(value.succeeded(), "an increment succeeds");
                        Claim.equal(value.postValue(), value.preValue() + 1, "its value");
                        Claim.holds(values.add(value.postValue()), "each value comes once");
                    }
                });
            }
            crowd.join();
        }
        long sum = rounds * four.size();
        DistributedAtomicLong number =
                new DistributedAtomicLong(four.get(0), "/atomic", new RetryNTimes(3, 1));
        Claim.equal(number.get().postValue(), sum, "the sum");
        Claim.equal(Collections.max(values), sum, "the greatest value");
        Claim.holds(!number.compareAndSet(sum + 1, 0L).succeeded(), "another value is refused");
        Claim.holds(number.compareAndSet(sum, -5L).succeeded(), "the right one is not");
        Claim.equal(number.subtract(5L).postValue(), -10L, "below zero");
        Claim.holds(!number.initialize(1L), "it is initialized");
    }

    static void sharedCount(Clients clients) throws Exception {
        int rounds = 10;
        List<CuratorFramework> four = clients.next(4);
        CuratorFramework reader = clients.next();
        try (SharedCount read = new SharedCount(reader, "/shared", 0)) {
            AtomicInteger seen = new AtomicInteger();
            AtomicInteger backward = new AtomicInteger();
            read.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader count, int value) {
                    if (value < seen.getAndSet(value)) {
                        backward.incrementAndGet();
                    }
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {}
            });
            read.start();
            try (Crowd crowd = new Crowd()) {
                for (CuratorFramework client : four) {
                    crowd.start(() -> {
                        try (SharedCount mine = new SharedCount(client, "/shared", 0)) {
                            mine.start();
                            for (int done = 0; done < rounds;) {
                                if (mine.trySetCount(
                                        mine.getVersionedValue(), mine.getCount() + 1)) {
                                    done++;
                                }
                            }
                        }
                    });
                }
                crowd.join();
            }
            int sum = rounds * four.size();
            Claim.soon("the listener sees the sum", () -> seen.get() == sum);
            Claim.equal(read.getCount(), sum, "the count");
            Claim.equal(backward.get(), 0, "counts that went back");

            clients.killSession(reader);
            try (SharedCount mine = new SharedCount(four.get(0), "/shared", 0)) {
                mine.start();
                mine.setCount(1_000);
            }
            Claim.soon("seen behind a killed session", () -> seen.get() == 1_000);
        }
    }
}
