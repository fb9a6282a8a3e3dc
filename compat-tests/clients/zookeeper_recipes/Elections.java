import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.leader.LeaderElectionSupport;
import org.apache.zookeeper.recipes.leader.LeaderElectionSupport.EventType;

/** The distribution's LeaderElectionSupport, five candidates. Argument: HOST:PORT. */
final class Elections {
    private static final int CANDIDATES = 5;

    private Elections() {}

    public static void main(String[] arguments) throws Exception {
        Checks checks = new Checks(5);
        Handles.add(checks, "election-resigned", arguments[0], Elections::resigned);
        Handles.add(checks, "election-killed", arguments[0], Elections::killed);
        Handles.add(checks, "election-with-cut-connections", arguments[0], Elections::cut);
        Handles.add(checks, "election-killed-while-away", arguments[0], Elections::away);
        Handles.add(checks, "election-without-the-middle", arguments[0], Elections::middle);
        checks.finish();
    }

    /** One of five, and what the recipe told it. */
    private static final class Candidate {
        final ZooKeeper handle;
        final LeaderElectionSupport election = new LeaderElectionSupport();
        private final List<EventType> events = Collections.synchronizedList(new ArrayList<>());

        Candidate(ZooKeeper handle, String root, String name) {
            this.handle = handle;
            election.setZooKeeper(handle);
            election.setRootNodeName(root);
            election.setHostName(name);
            election.addListener(events::add);
            election.start();
        }

        boolean leads() {
            return events.contains(EventType.ELECTED_COMPLETE);
        }

        void ready() throws Exception {
            Claim.soon("an offer is made",
                    () -> leads() || events.contains(EventType.READY_COMPLETE));
        }

        void sound() {
            Claim.holds(!events.contains(EventType.FAILED), "failed: " + events);
            long elected = events.stream().filter(EventType.ELECTED_COMPLETE::equals).count();
            Claim.holds(elected <= 1, "elected more than once: " + events);
        }
    }

    private static List<Candidate> candidates(Handles handles, String root) throws Exception {
        handles.next().create(root, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE,
                CreateMode.PERSISTENT);
        List<Candidate> candidates = new ArrayList<>();
        for (int number = 0; number < CANDIDATES; number++) {
            Candidate candidate =
                    new Candidate(handles.next(), root, "candidate-" + candidates.size());
            candidate.ready();
            candidates.add(candidate);
        }
        return candidates;
    }

    /** The first of those that are left leads, nobody else, and all know it. */
    private static void firstLeads(List<Candidate> left) throws Exception {
        Candidate first = left.get(0);
        Claim.soon("the next one leads", first::leads);
        for (Candidate candidate : left) {
            Claim.equal(candidate.leads(), candidate == first, "leadership");
            Claim.equal(Handles.again(candidate.election::getLeaderHostName),
                    first.election.getHostName(), "the leader");
            candidate.sound();
        }
    }

    private static void resigned(Handles handles) throws Exception {
        List<Candidate> left = candidates(handles, "/resigned");
        while (left.size() > 1) {
            firstLeads(left);
            left.remove(0).election.stop();
        }
        firstLeads(left);
    }

    private static void killed(Handles handles) throws Exception {
        List<Candidate> left = candidates(handles, "/killed");
        while (left.size() > 1) {
            firstLeads(left);
            handles.killSession(left.remove(0).handle);
        }
        firstLeads(left);
    }

    /** A cut costs nobody the place, neither the leader nor who waits. */
    private static void cut(Handles handles) throws Exception {
        List<Candidate> left = candidates(handles, "/cut");
        while (left.size() > 1) {
            // The recipe gives up if it is cut while it looks around.
            firstLeads(left);
            for (Candidate candidate : left) {
                handles.cutConnection(candidate.handle);
            }
            firstLeads(left);
            handles.killSession(left.remove(0).handle);
        }
        firstLeads(left);
    }

    /** The leader goes while the next one is disconnected, who hears of it when it is back. */
    private static void away(Handles handles) throws Exception {
        List<Candidate> left = candidates(handles, "/away");
        while (left.size() > 1) {
            firstLeads(left);
            handles.cutConnection(left.get(1).handle);
            handles.killSession(left.remove(0).handle);
        }
        firstLeads(left);
    }

    /** Who waits behind one that goes waits behind the next: nobody leads too early. */
    private static void middle(Handles handles) throws Exception {
        List<Candidate> left = candidates(handles, "/middle");
        firstLeads(left);
        handles.killSession(left.remove(2).handle);
        firstLeads(left);
        left.remove(1).election.stop();
        firstLeads(left);
        handles.killSession(left.remove(0).handle);
        firstLeads(left);
    }
}
