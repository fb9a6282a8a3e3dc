import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.api.transaction.OperationType;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.data.Stat;

/** All or nothing. */
final class Transactions {
    private Transactions() {}

    static void transactions(Clients clients) throws Exception {
        CuratorFramework a = clients.next();
        CuratorFramework b = clients.next();
        a.create().forPath("/tx", Clients.bytes("0"));
        a.create().forPath("/tx/old", Clients.bytes("x"));
        List<CuratorTransactionResult> results = a.transaction().forOperations(
                a.transactionOp().check().withVersion(0).forPath("/tx"),
                a.transactionOp().create().forPath("/tx/new", Clients.bytes("n")),
                a.transactionOp().setData().withVersion(0).forPath("/tx", Clients.bytes("1")),
                a.transactionOp().delete().forPath("/tx/old"));
        List<OperationType> types = new ArrayList<>();
        for (CuratorTransactionResult result : results) {
            Claim.equal(result.getError(), 0, "the result of " + result.getType());
            types.add(result.getType());
        }
        Claim.equal(types, List.of(OperationType.CHECK, OperationType.CREATE,
                OperationType.SET_DATA, OperationType.DELETE), "the results");
        Claim.equal(results.get(1).getResultPath(), "/tx/new", "the path");
        Claim.equal(results.get(2).getResultStat().getVersion(), 1, "the version");
        Claim.equal(b.getChildren().forPath("/tx"), List.of("new"), "the children");

        try {
            b.transaction().forOperations(
                    b.transactionOp().create().forPath("/tx/never"),
                    b.transactionOp().setData().forPath("/tx", Clients.bytes("2")),
                    b.transactionOp().delete().forPath("/tx/new"),
                    b.transactionOp().check().withVersion(0).forPath("/tx"));
            throw new AssertionError("a transaction with a failing check is refused");
        } catch (KeeperException.BadVersionException expected) {
            List<Integer> errors = new ArrayList<>();
            expected.getResults().forEach(
                    result -> errors.add(((OpResult.ErrorResult) result).getErr()));
            Claim.equal(errors, List.of(0, 0, 0, -103), "the errors");
        }
        Claim.equal(a.getChildren().forPath("/tx"), List.of("new"), "the children");
        Claim.equal(Clients.text(a.getData().forPath("/tx")), "1", "the data");
    }

    /** Money moves between accounts; whoever was too late tries again. None is lost. */
    static void inCompetition(Clients clients) throws Exception {
        int accounts = 3;
        int transfers = 15;
        List<CuratorFramework> four = clients.next(4);
        CuratorFramework first = four.get(0);
        for (int account = 0; account < accounts; account++) {
            first.create().creatingParentsIfNeeded()
                    .forPath("/accounts/" + account, Clients.bytes(100));
        }
        AtomicInteger refused = new AtomicInteger();
        try (Crowd crowd = new Crowd()) {
            for (CuratorFramework client : four) {
                int who = four.indexOf(client);
                Random random = new Random(who);
                crowd.start(() -> {
                    for (int done = 0; done < transfers;) {
                        int from = random.nextInt(accounts);
                        int to = (from + 1 + random.nextInt(accounts - 1)) % accounts;
                        if (transfer(client, "/accounts/" + from, "/accounts/" + to,
                                "/accounts/" + who + "-" + done)) {
                            done++;
                        } else {
                            refused.incrementAndGet();
                        }
                    }
                });
            }
            crowd.join();
        }
        int sum = 0;
        int versions = 0;
        for (int account = 0; account < accounts; account++) {
            Stat stat = new Stat();
            byte[] data = first.getData().storingStatIn(stat).forPath("/accounts/" + account);
            sum += Clients.number(data);
            versions += stat.getVersion();
        }
        Claim.equal(sum, 100 * accounts, "the money");
        Claim.equal(versions, 2 * four.size() * transfers, "writes");
        int records = first.getChildren().forPath("/accounts").size() - accounts;
        Claim.equal(records, four.size() * transfers, "records, one of each transfer");
        Claim.holds(refused.get() > 0, "some come too late");
    }

    private static boolean transfer(
            CuratorFramework client, String from, String to, String record)
            throws Exception {
        Stat fromStat = new Stat();
        Stat toStat = new Stat();
        int have = Clients.number(client.getData().storingStatIn(fromStat).forPath(from));
        int has = Clients.number(client.getData().storingStatIn(toStat).forPath(to));
        try {
            client.transaction().forOperations(
                    client.transactionOp().create().forPath(record),
                    client.transactionOp().setData().withVersion(fromStat.getVersion())
                            .forPath(from, Clients.bytes(have - 7)),
                    client.transactionOp().setData().withVersion(toStat.getVersion())
                            .forPath(to, Clients.bytes(has + 7)));
            return true;
        } catch (KeeperException.BadVersionException late) {
            return false;
        }
    }
}
