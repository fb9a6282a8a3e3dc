/** What a check claims; throws if it does not hold. */
final class Claim {
    interface Condition {
        boolean holds() throws Exception;
    }

    static final long DEADLINE_MS = 30_000;

    private Claim() {}

    static void holds(boolean condition, String claim) {
        if (!condition) {
            throw new AssertionError(claim);
        }
    }

    static void equal(Object found, Object expected, String what) {
        holds(expected.equals(found), what + ": expected " + expected + ", found " + found);
    }

    /** The condition comes to hold before the deadline. */
    static void soon(String claim, Condition condition) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (!condition.holds()) {
            holds(System.currentTimeMillis() < deadline, "in time: " + claim);
            Thread.sleep(10);
        }
    }
}
