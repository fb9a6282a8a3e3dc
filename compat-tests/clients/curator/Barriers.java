import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Barriers. */
final class Barriers {
    private Barriers() {}

    /** Nobody passes before it is removed, not even one whose session ends. */
    static void barrier(Clients clients) throws Exception {
        List<CuratorFramework> four = clients.next(4);
        DistributedBarrier barrier = new DistributedBarrier(clients.next(), "/barrier");
        barrier.setBarrier();
        AtomicInteger waiting = new AtomicInteger();
        AtomicInteger through = new AtomicInteger();
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : four) {
                crowd.start(() -> {
                    DistributedBarrier mine = new DistributedBarrier(client, "/barrier");
                    Claim.holds(!mine.waitOnBarrier(50, TimeUnit.MILLISECONDS), "it is closed");
                    waiting.incrementAndGet();
                    mine.waitOnBarrier();
                    through.incrementAndGet();
                });
            }
            Claim.soon("all wait", () -> waiting.get() == four.size());
            clients.killSession(four.get(0));
            clients.session(four.get(0));
            clients.cutConnection(four.get(1));
            Claim.soon("it is back", () -> four.get(1).checkExists().forPath("/barrier") != null);
            Claim.equal(through.get(), 0, "through a closed barrier");
            barrier.removeBarrier();
            crowd.join();
        }
        Claim.equal(through.get(), four.size(), "through the open barrier");
        DistributedBarrier open = new DistributedBarrier(four.get(0), "/barrier");
        Claim.holds(open.waitOnBarrier(20, TimeUnit.SECONDS), "it stays open");
    }

    /** All come before one begins, and all are done before one goes. */
    static void doubleBarrier(Clients clients) throws Exception {
        List<CuratorFramework> four = clients.next(4);
        for (int round = 0; round < 4; round++) {
            String path = "/double-barrier/" + round;
            AtomicInteger come = new AtomicInteger();
            AtomicInteger done = new AtomicInteger();
            try (Crowd crowd = new Crowd()) {
                for (CuratorFramework client : four) {
                    crowd.start(() -> {
                        DistributedDoubleBarrier barrier =
                                new DistributedDoubleBarrier(client, path, four.size());
                        come.incrementAndGet();
                        Claim.holds(barrier.enter(20, TimeUnit.SECONDS), "in time");
                        Claim.equal(come.get(), four.size(), "who has come when one begins");
                        done.incrementAndGet();
                        Claim.holds(barrier.leave(20, TimeUnit.SECONDS), "in time");
                        Claim.equal(done.get(), four.size(), "who is done when one goes");
                    });
                }
                crowd.join();
            }
            Claim.equal(Clients.children(four.get(0), path), List.of(), "znodes left");
        }
        DistributedDoubleBarrier alone =
                new DistributedDoubleBarrier(four.get(0), "/double-barrier/alone", 2);
        Claim.holds(!alone.enter(50, TimeUnit.MILLISECONDS), "one of two does not begin");
    }
}
