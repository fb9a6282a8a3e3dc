import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.strategies.RoundRobinStrategy;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's service discovery: services that come, change, lose their sessions and go, and those
 * who look for them. Argument: HOST:PORT.
 */
final class Discovery {
    private static final int INSTANCES = 5;

    private Discovery() {}

    public static void main(String[] arguments) throws Exception {
        Checks checks = new Checks(4);
        add(checks, "discovery-queries", arguments[0], Discovery::queries);
        add(checks, "discovery-provider", arguments[0], Discovery::provider);
        add(checks, "discovery-cache", arguments[0], Discovery::cache);
        add(checks, "discovery-with-killed-sessions", arguments[0], Discovery::killedSessions);
        checks.finish();
    }

    private static void add(Checks checks, String name, String server, Service service) {
        checks.add(name, () -> {
            try (Clients clients = new Clients(server)) {
                service.run(clients, "/" + name);
            }
        });
    }

    interface Service {
        void run(Clients clients, String path) throws Exception;
    }

    private static ServiceDiscovery<String> discovery(CuratorFramework client, String path)
            throws Exception {
        ServiceDiscovery<String> discovery = ServiceDiscoveryBuilder.builder(String.class)
                .client(client).basePath(path).watchInstances(true).build();
        discovery.start();
        return discovery;
    }

    private static ServiceInstance<String> instance(int number, String payload) throws Exception {
        return ServiceInstance.<String>builder().name("search").id("search-" + number)
                .address("10.0.0." + number).port(8_000 + number).payload(payload).build();
    }

    /** Five services on a client each. */
    private static List<ServiceDiscovery<String>> services(
            List<CuratorFramework> clients, String path) throws Exception {
        List<ServiceDiscovery<String>> services = new ArrayList<>();
        for (CuratorFramework client : clients) {
            ServiceDiscovery<String> service = discovery(client, path);
            service.registerService(instance(services.size(), "first"));
            services.add(service);
        }
        return services;
    }

    private static Map<String, String> described(Collection<ServiceInstance<String>> instances) {
        Map<String, String> described = new TreeMap<>();
        for (ServiceInstance<String> instance : instances) {
            described.put(instance.getId(), instance.getAddress() + ":" + instance.getPort() + " "
                    + instance.getPayload());
        }
        return described;
    }

    private static Map<String, String> expected(int instances) {
        Map<String, String> expected = new TreeMap<>();
        for (int number = 0; number < instances; number++) {
            expected.put("search-" + number,
                    "10.0.0." + number + ":" + (8_000 + number) + " first");
        }
        return expected;
    }

    private static void queries(Clients clients, String path) throws Exception {
        List<ServiceDiscovery<String>> services = services(clients.next(INSTANCES), path);
        ServiceDiscovery<String> seeker = discovery(clients.next(), path);
        Map<String, String> expected = expected(INSTANCES);
        Claim.equal(described(seeker.queryForInstances("search")), expected, "the instances");
        Claim.equal(List.copyOf(seeker.queryForNames()), List.of("search"), "the names");
        Claim.equal(seeker.queryForInstance("search", "search-3").getAddress(), "10.0.0.3", "one");
        Claim.holds(seeker.queryForInstance("search", "search-9") == null, "there is none");
        Claim.equal(described(seeker.queryForInstances("nothing")), Map.of(), "no instances");

        services.get(1).updateService(instance(1, "second"));
        expected.put("search-1", "10.0.0.1:8001 second");
        Claim.equal(described(seeker.queryForInstances("search")), expected, "one updated");
        services.get(2).unregisterService(instance(2, "first"));
        expected.remove("search-2");
        Claim.equal(described(seeker.queryForInstances("search")), expected, "one gone");
        for (ServiceDiscovery<String> service : services) {
            service.close();
        }
        Claim.equal(described(seeker.queryForInstances("search")), Map.of(), "all gone");
        seeker.close();
    }

    private static void provider(Clients clients, String path) throws Exception {
        List<ServiceDiscovery<String>> services = services(clients.next(INSTANCES), path);
        ServiceDiscovery<String> seeker = discovery(clients.next(), path);
        try (ServiceProvider<String> provider = seeker.serviceProviderBuilder()
                .serviceName("search").providerStrategy(new RoundRobinStrategy<>()).build()) {
            provider.start();
            Claim.equal(described(provider.getAllInstances()), expected(INSTANCES), "all");
            Set<String> chosen = new TreeSet<>();
            for (int turn = 0; turn < INSTANCES; turn++) {
                chosen.add(provider.getInstance().getId());
            }
            Claim.equal(chosen, expected(INSTANCES).keySet(), "each in its turn");
            services.remove(INSTANCES - 1).close();
            Claim.soon("one is gone", () ->
                    described(provider.getAllInstances()).equals(expected(INSTANCES - 1)));
            for (ServiceDiscovery<String> service : services) {
                service.close();
            }
            Claim.soon("none is left", () -> provider.getInstance() == null);
        }
        seeker.close();
    }

    private static void sees(ServiceCache<String> cache, Map<String, String> expected)
            throws Exception {
        Claim.soon("the cache has " + expected,
                () -> described(cache.getInstances()).equals(expected));
    }

    private static void cache(Clients clients, String path) throws Exception {
        List<ServiceDiscovery<String>> services = services(clients.next(INSTANCES), path);
        CuratorFramework client = clients.next();
        ServiceDiscovery<String> seeker = discovery(client, path);
        Map<String, String> expected = expected(INSTANCES);
        try (ServiceCache<String> cache = seeker.serviceCacheBuilder().name("search").build()) {
            cache.start();
            Claim.equal(described(cache.getInstances()), expected, "the first cache");
            services.get(0).updateService(instance(0, "second"));
            expected.put("search-0", "10.0.0.0:8000 second");
            sees(cache, expected);
            clients.cutConnection(client);
            services.get(1).unregisterService(instance(1, "first"));
            expected.remove("search-1");
            sees(cache, expected);
            clients.killSession(client);
            services.get(1).registerService(instance(1, "third"));
            expected.put("search-1", "10.0.0.1:8001 third");
            services.remove(2).close();
            expected.remove("search-2");
            sees(cache, expected);
        }
        for (ServiceDiscovery<String> service : services) {
            service.close();
        }
        seeker.close();
    }

    /** A service whose session ends registers again, with what it had last said of itself. */
    private static void killedSessions(Clients clients, String path) throws Exception {
        List<CuratorFramework> owners = clients.next(INSTANCES);
        List<ServiceDiscovery<String>> services = services(owners, path);
        CuratorFramework witness = clients.next();
        ServiceDiscovery<String> seeker = discovery(witness, path);
        services.get(3).updateService(instance(3, "second"));
        Map<String, String> expected = expected(INSTANCES);
        expected.put("search-3", "10.0.0.3:8003 second");
        for (int number = 0; number < INSTANCES; number++) {
            String znode = path + "/search/search-" + number;
            long session = clients.killSession(owners.get(number));
            Claim.soon("it registers again", () -> {
                Stat stat = witness.checkExists().forPath(znode);
                return stat != null && stat.getEphemeralOwner() != session;
            });
        }
        Claim.equal(described(seeker.queryForInstances("search")), expected, "the instances");
        for (ServiceDiscovery<String> service : services) {
            service.close();
        }
        seeker.close();
    }
}
