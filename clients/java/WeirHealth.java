import com.sun.net.httpserver.*;
import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.DoubleSupplier;

/**
 * Health digest of an application: GET /weir/health and /weir/health/live.
 *
 * <pre>
 * import java.util.Map;
 *
 * public class Shop {
 *     public static void main(String[] args) throws Exception {
 *         WeirHealth health = new WeirHealth("shop", "1.4.2");
 *         health.register("workers", () -> Thread.activeCount() > 0, 5, "self");
 *         health.register("feed:rate", () -> Map.of("observedValue", 62, "observedUnit", "/s", "threshold", 50),
 *             10, "dependency");
 *         health.serve(9201); // or: server.createContext("/weir/health", health)
 *         Thread.currentThread().join(); // the application
 *     }
 * }
 * </pre>
 *
 * A check passes when it returns anything but false, or members of its result; it fails when it
 * throws or returns false. Each check runs on a thread of its own; requests never run one. For
 * servlets, <code>answer(method, path)</code> is the response. Java 17.
 */
public final class WeirHealth implements HttpHandler {
    /** A response; <code>null</code> stands for other paths. */
    public record Answer(int status, Map<String, String> headers, String body) {}

    private record Check(double every, String scope, Map<String, Object> result, double started, double ended) {}

    private static final List<String> MEMBERS = List.of("status", "observedValue", "observedUnit", "threshold", "output");
    private final Map<String, Check> checks = new ConcurrentSkipListMap<>();
    private final String service, release;
    public DoubleSupplier clock = () -> System.nanoTime() / 1e9;

    public WeirHealth(String service, String release) {
        this.service = service;
        this.release = release;
    }

    public void register(String name, Callable<?> fn, double every, String scope) {
        Check check = new Check(every, scope, Map.of("status", "warn", "output", "no result yet"), Double.NaN, clock.getAsDouble());
        if (!(scope.equals("self") || scope.equals("dependency")) || !(every > 0) || checks.putIfAbsent(name, check) != null) {
            throw new IllegalArgumentException("cannot register check `" + name + "`: the scope is self or dependency, every > 0, the name new");
        }
        daemon(() -> {
            for (Check last = check; ; ) {
                checks.put(name, new Check(every, scope, last.result, clock.getAsDouble(), last.ended));
                last = new Check(every, scope, run(fn), Double.NaN, clock.getAsDouble());
                checks.put(name, last);
                TimeUnit.NANOSECONDS.sleep((long) (every * 1e9));
            }
        });
    }

    private static void daemon(Callable<?> work) {
        Thread thread = new Thread(new FutureTask<>(work), "weir-health");
        thread.setDaemon(true);
        thread.start();
    }

    private static Map<String, Object> run(Callable<?> fn) {
        Map<String, Object> result = new HashMap<>(Map.of("status", "pass", "time", Instant.now().toString()));
        try {
            Object value = fn.call();
            if (Boolean.FALSE.equals(value)) throw new IllegalStateException("the check returned false");
            if (value instanceof Map<?, ?> map) MEMBERS.stream().filter(map::containsKey).forEach(name -> result.put(name, map.get(name)));
            if (!List.of("pass", "warn", "fail").contains("" + result.get("status"))) throw new IllegalStateException("unknown status " + result.get("status"));
        } catch (Throwable error) { // an Error must not end the loop
            result.putAll(Map.of("status", "fail", "output", error.toString()));
        }
        return result;
    }

    /** The response to a request. */
    public Answer answer(String method, String path) {
        if (!path.endsWith("/weir/health") && !path.endsWith("/weir/health/live")) return null;
        if (!method.equals("GET") && !method.equals("HEAD")) return new Answer(405, Map.of("Allow", "GET, HEAD"), "");
        boolean hasFailed = false, isWarned = false;
        Map<String, Object> texts = new TreeMap<>();
        double now = clock.getAsDouble();
        for (Map.Entry<String, Check> entry : path.endsWith("/live") ? Map.<String, Check>of().entrySet() : checks.entrySet()) {
            Check check = entry.getValue();
            Map<String, Object> result = new TreeMap<>(check.result);
            boolean isFailed = result.get("status").equals("fail"), isHung = now - check.started > check.every;
            double age = now - check.ended;
            if (isHung) {
                result = new TreeMap<>(Map.of("status", "fail", "output", "no result within " + check.every + " s"));
            } else if (age > 3 * check.every) {
                Object output = result.getOrDefault("output", "nothing");
                String text = "stale: did not run for " + Math.round(age) + " s, every " + check.every + " s; last: " + output;
                result.putAll(Map.of("status", "fail", "output", text));
            }
            result.put("scope", check.scope);
            hasFailed |= (isFailed || isHung) && check.scope.equals("self");
            isWarned |= !result.get("status").equals("pass");
            texts.put(entry.getKey(), List.of(result));
        }
        Map<String, Object> digest = new LinkedHashMap<>(Map.of("status", hasFailed ? "fail" : isWarned ? "warn" : "pass"));
        if (!path.endsWith("/live")) digest.putAll(Map.of("serviceId", service, "releaseId", release, "checks", texts));
        Map<String, String> headers = Map.of("Content-Type", "application/health+json", "Cache-Control", "no-store");
        return new Answer(hasFailed ? 503 : 200, headers, json(digest));
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            StringJoiner members = new StringJoiner(",", "{", "}");
            map.forEach((name, member) -> members.add(json(name.toString()) + ":" + json(member)));
            return members.toString();
        }
        if (value instanceof List<?> list) return "[" + json(list.get(0)) + "]";
        if (value instanceof Number number) return Double.isFinite(number.doubleValue()) ? number.toString() : "null";
        if (value == null) return "null";
        StringBuilder text = new StringBuilder("\"");
        value.toString().codePoints().limit(500).forEach(c -> {
            boolean isPlain = c >= 32 && c != '"' && c != '\\' && (c < 0xd800 || c > 0xdfff); // no half of a pair
            text.append(isPlain ? Character.toString(c) : c >= 0xd800 ? "?" : String.format("\\u%04x", c));
        });
        return text.append('"').toString();
    }

    @Override public void handle(HttpExchange exchange) throws IOException {
        Answer found = answer(exchange.getRequestMethod(), exchange.getRequestURI().getPath());
        Answer answer = found == null ? new Answer(404, Map.of(), "") : found;
        answer.headers.forEach(exchange.getResponseHeaders()::set);
        byte[] body = answer.body.getBytes(StandardCharsets.UTF_8);
        boolean hasBody = body.length > 0 && !exchange.getRequestMethod().equals("HEAD");
        exchange.sendResponseHeaders(answer.status, hasBody ? body.length : -1);
        try (OutputStream out = exchange.getResponseBody()) {
            if (hasBody) out.write(body);
        }
    }

    /** Answers on a port of the loopback; returns the port, which is another one for 0. */
    public int serve(int port) throws IOException {
        System.setProperty("sun.net.httpserver.nodelay", System.getProperty("sun.net.httpserver.nodelay", "true"));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.createContext("/", this);
        daemon(() -> { server.start(); return null; }); // its thread is a daemon as well
        return server.getAddress().getPort();
    }
}
