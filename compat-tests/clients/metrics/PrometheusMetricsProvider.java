package org.apache.zookeeper.metrics.prometheus;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiConsumer;
import org.apache.zookeeper.metrics.Counter;
import org.apache.zookeeper.metrics.CounterSet;
import org.apache.zookeeper.metrics.Gauge;
import org.apache.zookeeper.metrics.GaugeSet;
import org.apache.zookeeper.metrics.MetricsContext;
import org.apache.zookeeper.metrics.MetricsProvider;
import org.apache.zookeeper.metrics.MetricsProviderLifeCycleException;
import org.apache.zookeeper.metrics.Summary;
import org.apache.zookeeper.metrics.SummarySet;
import org.apache.zookeeper.metrics.impl.DefaultMetricsProvider;

/**
 * In the place of the provider of that name, whose library is not among the jars that can be had: shows what ZooKeeper
 * registers by the same names, types and labels. Quantiles have no value here. Four-letter words have what the default
 * provider keeps.
 */
public final class PrometheusMetricsProvider implements MetricsProvider, MetricsContext {
    private static final String NO_KEY = "";

    private final DefaultMetricsProvider words = new DefaultMetricsProvider();
    private final Map<String, Gauge> gauges = new ConcurrentHashMap<>();
    private final Map<String, GaugeSet> gaugeSets = new ConcurrentHashMap<>();
    private final Map<String, Keyed> counters = new ConcurrentHashMap<>();
    private final Map<String, Keyed> summaries = new ConcurrentHashMap<>();
    private HttpServer server;
    private InetSocketAddress address;

    /** What a name has, by key. */
    private static final class Keyed {
        final DetailLevel level;
        final boolean isSet;
        final Map<String, LongAdder> count = new ConcurrentHashMap<>();
        final Map<String, LongAdder> sum = new ConcurrentHashMap<>();

        Keyed(DetailLevel level, boolean isSet) {
            this.level = level;
            this.isSet = isSet;
            if (!isSet) {
                add(NO_KEY, 0, 0);
            }
        }

        void add(String key, long times, long value) {
            count.computeIfAbsent(key, k -> new LongAdder()).add(times);
            sum.computeIfAbsent(key, k -> new LongAdder()).add(value);
        }
    }

    @Override
    public void configure(Properties properties) {
        int port = Integer.parseInt(properties.getProperty("httpPort", "7000"));
        address = new InetSocketAddress(properties.getProperty("httpHost", "0.0.0.0"), port);
    }

    @Override
    public void start() throws MetricsProviderLifeCycleException {
        try {
            server = HttpServer.create(address, 0);
        } catch (IOException e) {
            throw new MetricsProviderLifeCycleException(e);
        }
        server.createContext("/metrics", exchange -> {
            byte[] page = page().getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }

    private String page() {
        StringBuilder page = new StringBuilder();
        new TreeMap<>(gauges).forEach((name, gauge) -> {
            Number value = gauge.get();
            if (value != null) {
                type(page, name, "gauge");
                sample(page, name, "", value.doubleValue());
            }
        });
        new TreeMap<>(gaugeSets).forEach((name, set) -> {
            type(page, name, "gauge");
            set.values().forEach((key, value) -> sample(page, name, label(key), value.doubleValue()));
        });
        new TreeMap<>(counters).forEach((name, its) -> {
            type(page, name, "counter");
            its.sum.forEach((key, sum) -> sample(page, name, its.isSet ? label(key) : "", sum.sum()));
        });
        new TreeMap<>(summaries).forEach((name, its) -> {
            type(page, name, "summary");
            its.sum.forEach((key, sum) -> {
                String label = its.isSet ? label(key) : "";
                String[] quantiles = its.level == DetailLevel.ADVANCED
                    ? new String[] {"0.5", "0.9", "0.99"} : new String[] {"0.5"};
                for (String quantile : quantiles) {
                    sample(page, name, label + "quantile=\"" + quantile + "\",", Double.NaN);
                }
                sample(page, name + "_count", label, its.count.get(key).sum());
                sample(page, name + "_sum", label, sum.sum());
            });
        });
        return page.toString();
    }

    private static void type(StringBuilder page, String name, String type) {
        page.append("# HELP ").append(name).append(' ').append(name).append('\n');
        page.append("# TYPE ").append(name).append(' ').append(type).append('\n');
    }

    private static String label(String key) {
        return "key=\"" + key + "\",";
    }

    private static void sample(StringBuilder page, String name, String labels, double value) {
        page.append(name);
        if (!labels.isEmpty()) {
            page.append('{').append(labels).append('}');
        }
        page.append(' ').append(value).append('\n');
    }

    @Override
    public MetricsContext getRootContext() {
        return this;
    }

    @Override
    public MetricsContext getContext(String name) {
        return this;
    }

    @Override
    public Counter getCounter(String name) {
        Counter word = words.getRootContext().getCounter(name);
        Keyed its = counters.computeIfAbsent(name, n -> new Keyed(null, false));
        return new Counter() {
            @Override
            public void add(long delta) {
                its.add(NO_KEY, 1, delta);
                word.add(delta);
            }

            @Override
            public long get() {
                return its.sum.get(NO_KEY).sum();
            }
        };
    }

    @Override
    public CounterSet getCounterSet(String name) {
        CounterSet word = words.getRootContext().getCounterSet(name);
        Keyed its = counters.computeIfAbsent(name, n -> new Keyed(null, true));
        return (key, delta) -> {
            its.add(key, 1, delta);
            word.add(key, delta);
        };
    }

    @Override
    public void registerGauge(String name, Gauge gauge) {
        words.getRootContext().registerGauge(name, gauge);
        gauges.put(name, gauge);
    }

    @Override
    public void unregisterGauge(String name) {
        words.getRootContext().unregisterGauge(name);
        gauges.remove(name);
    }

    @Override
    public void registerGaugeSet(String name, GaugeSet set) {
        words.getRootContext().registerGaugeSet(name, set);
        gaugeSets.put(name, set);
    }

    @Override
    public void unregisterGaugeSet(String name) {
        words.getRootContext().unregisterGaugeSet(name);
        gaugeSets.remove(name);
    }

    @Override
    public Summary getSummary(String name, DetailLevel level) {
        Summary word = words.getRootContext().getSummary(name, level);
        Keyed its = summaries.computeIfAbsent(name, n -> new Keyed(level, false));
        return value -> {
            its.add(NO_KEY, 1, value);
            word.add(value);
        };
    }

    @Override
    public SummarySet getSummarySet(String name, DetailLevel level) {
        SummarySet word = words.getRootContext().getSummarySet(name, level);
        Keyed its = summaries.computeIfAbsent(name, n -> new Keyed(level, true));
        return (key, value) -> {
            its.add(key, 1, value);
            word.add(key, value);
        };
    }

    @Override
    public void stop() {
        if (server != null) {
            server.stop(0);
        }
    }

    @Override
    public void dump(BiConsumer<String, Object> sink) {
        words.dump(sink);
    }

    @Override
    public void resetAllValues() {
        words.resetAllValues();
    }
}
