import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;

/** Program of the conformance test: `Conform DIRECTORY`; files in the directory are its faults. */
public class Conform {
    private static Path faults;

    static String fault(String name) {
        try {
            return Files.readString(faults.resolve(name));
        } catch (IOException error) {
            return null;
        }
    }

    static Callable<Object> thrower(String name) {
        return () -> {
            String text = fault(name);
            if (text != null) throw new IllegalStateException(text);
            return null;
        };
    }

    static Callable<Object> counter() {
        int[] runs = {0};
        return () -> Map.of("observedValue", ++runs[0], "observedUnit", "runs", "threshold", 1);
    }

    static Object hang() throws InterruptedException {
        while (fault("hang") != null) Thread.sleep(20);
        return null;
    }

    static Object odd() {
        String kind = fault("odd");
        return switch (kind == null ? "" : kind) {
            case "false" -> false;
            case "warn" -> Map.of("status", "warn", "output", "slow");
            case "status" -> Map.of("status", "fine");
            case "nan" -> Map.of("observedValue", Double.NaN, "threshold", Double.POSITIVE_INFINITY, "output", "no rate");
            case "text" -> throw new IllegalStateException("cannot read \"a\\b\"\n\t\ud800\0" + "x".repeat(9000));
            case "exit" -> throw new StackOverflowError("gone");
            default -> null;
        };
    }

    static void refuse(WeirHealth health, String name, double every, String scope) {
        try {
            health.register(name, Conform::hang, every, scope);
        } catch (IllegalArgumentException error) {
            return;
        }
        throw new IllegalStateException(name + " was accepted");
    }

    public static void main(String[] args) throws Exception {
        faults = Path.of(args[0]);
        WeirHealth health = new WeirHealth("shop", "1.4.2");
        health.clock = () -> System.nanoTime() / 1e9 + (fault("later") == null ? 0 : 1000);
        health.register("self", thrower("self"), 0.2, "self");
        health.register("dependency", thrower("dependency"), 0.2, "dependency");
        health.register("hang", Conform::hang, 0.2, "dependency");
        health.register("odd", Conform::odd, 0.2, "dependency");
        health.register("count", counter(), 30, "self");
        health.register("tick", counter(), 0.2, "self");
        refuse(health, "count", 1, "self");
        refuse(health, "a", 0, "self");
        refuse(health, "a", 1, "own");
        HttpServer mounted = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        mounted.setExecutor(Executors.newFixedThreadPool(2));
        mounted.createContext("/weir/health", health);
        mounted.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 11);
            exchange.getResponseBody().write("application".getBytes());
            exchange.close();
        });
        mounted.start();
        System.out.println(health.serve(0) + " " + mounted.getAddress().getPort());
        System.in.readAllBytes();
        System.exit(0);
    }
}
