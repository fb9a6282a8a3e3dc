import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** Elections. */
final class Leaders {
    private Leaders() {}

    private static LeaderLatch latch(CuratorFramework client, String path, int id)
            throws Exception {
        LeaderLatch latch = new LeaderLatch(client, path, "candidate-" + id);
        latch.start();
        return latch;
    }

    private static LeaderLatch leader(List<LeaderLatch> latches) throws Exception {
        Claim.soon("a leader", () -> latches.stream().anyMatch(LeaderLatch::hasLeadership));
        return latches.stream().filter(LeaderLatch::hasLeadership).findAny().get();
    }

    /** Leaders that resign: never two at a time, and all candidates see the same one. */
    static void latch(Clients clients) throws Exception {
        List<CuratorFramework> five = clients.next(5);
        List<LeaderLatch> latches = new ArrayList<>();
        for (CuratorFramework client : five) {
            latches.add(latch(client, "/latch", latches.size()));
        }
        for (int handOver = 0; handOver < 10; handOver++) {
            LeaderLatch leader = leader(latches);
            int place = latches.indexOf(leader);
            Claim.soon("all are known",
                    () -> five.get(0).getChildren().forPath("/latch").size() == five.size());
            for (LeaderLatch latch : latches) {
                Claim.equal(latch.hasLeadership(), latch == leader, "leadership");
                Claim.equal(latch.getLeader().getId(), "candidate-" + place, "the leader");
                Claim.equal(latch.getParticipants().size(), five.size(), "participants");
            }
            leader.close();
            latches.set(place, latch(five.get(place), "/latch", place));
            Claim.soon("another one leads", () -> leader(latches) != latches.get(place));
        }
        for (LeaderLatch latch : latches) {
            latch.close();
        }
    }

    /** Leaders whose sessions end: told so, followed by another, and candidates again. */
    static void latchWithKilledSessions(Clients clients) throws Exception {
        List<CuratorFramework> five = clients.next(5);
        List<LeaderLatch> latches = new ArrayList<>();
        List<List<String>> told = new ArrayList<>();
        for (CuratorFramework client : five) {
            List<String> mine = Collections.synchronizedList(new ArrayList<>());
            LeaderLatch latch = new LeaderLatch(client, "/latch-killed", "c" + latches.size());
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    mine.add("leader");
                }

                @Override
                public void notLeader() {
                    mine.add("not leader");
                }
            });
            latch.start();
            told.add(mine);
            latches.add(latch);
        }
        for (int kill = 0; kill < 5; kill++) {
            LeaderLatch leader = leader(latches);
            int place = latches.indexOf(leader);
            String node = leader.getOurPath();
            clients.killSession(five.get(place));
            Claim.soon("the leader is told",
                    () -> told.get(place).get(told.get(place).size() - 1).equals("not leader"));
            Claim.soon("another leader", () -> leader(latches) != leader);
            Claim.soon("all are candidates", () -> five.get(0).getChildren()
                    .forPath("/latch-killed").size() == five.size());
            Claim.holds(five.get(0).checkExists().forPath(node) == null, "the old znode is gone");
            Claim.soon("one leader", () ->
                    latches.stream().filter(LeaderLatch::hasLeadership).count() == 1);
        }
        for (List<String> mine : told) {
            for (int place = 0; place < mine.size(); place++) {
                String expected = place % 2 == 0 ? "leader" : "not leader";
                Claim.equal(mine.get(place), expected, "what a candidate is told, in turns");
            }
        }
        for (LeaderLatch latch : latches) {
            latch.close();
        }
    }

    /** Five that lead in turns and queue again; some lose their session while they lead. */
    static void selector(Clients clients) throws Exception {
        List<CuratorFramework> five = clients.next(5);
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger turns = new AtomicInteger();
        AtomicInteger kills = new AtomicInteger();
        AtomicInteger interrupts = new AtomicInteger();
        Set<String> leaders = Collections.synchronizedSet(new HashSet<>());
        List<String> wrong = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch enough = new CountDownLatch(25);
        List<LeaderSelector> selectors = new ArrayList<>();
        for (CuratorFramework client : five) {
            String id = "candidate-" + selectors.size();
            LeaderSelector selector = new LeaderSelector(client, "/selector",
                    new LeaderSelectorListenerAdapter() {
                        @Override
                        public void takeLeadership(CuratorFramework mine) throws Exception {
                            if (inside.incrementAndGet() != 1) {
                                wrong.add("two leaders");
                            }
                            leaders.add(id);
                            try {
                                Thread.sleep(2);
                            } finally {
                                // Whoever is interrupted, as by its own end, leads no more either.
                                inside.decrementAndGet();
                            }
                            enough.countDown();
                            if (turns.incrementAndGet() % 5 == 3) {
                                kills.incrementAndGet();
                                clients.killSession(mine);
                                try {
                                    Thread.sleep(Claim.DEADLINE_MS);
                                    wrong.add("a leader without a session is not interrupted");
                                } catch (InterruptedException told) {
                                    interrupts.incrementAndGet();
                                    throw told;
                                }
                            }
                        }
                    });
            selector.setId(id);
            selector.autoRequeue();
            selector.start();
            selectors.add(selector);
        }
        Claim.holds(enough.await(Claim.DEADLINE_MS, TimeUnit.MILLISECONDS), "25 turns");
        Set<String> participants = new HashSet<>();
        for (Participant participant : selectors.get(0).getParticipants()) {
            participants.add(participant.getId());
        }
        participants.removeAll(leaders);
        Claim.equal(participants, Set.of(), "participants that never led");
        Claim.equal(leaders.size(), five.size(), "leaders");
        Claim.soon("the killed ones are interrupted", () -> interrupts.get() >= 5);
        Claim.holds(kills.get() >= 5, "leaders killed");
        selectors.forEach(LeaderSelector::close);
        Claim.equal(wrong, List.of(), "wrong");
    }
}
