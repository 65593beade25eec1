// The scenarios with pgJDBC: simple protocol, and prepared statements with results in text and in
// binary.

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.*;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.*;

public class Pgjdbc {
    private static final DateTimeFormatter INSTANT = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'");
    private static final Map<String, String> MODES = Map.of(
        "simple", "preferQueryMode=simple",
        "text", "binaryTransfer=false",
        "binary", "binaryTransfer=true&prepareThreshold=-1");
    private static String url, login, plainPort, certificate;

    private interface Work { Object run() throws Exception; }

    public static void main(String[] args) throws Exception {
        plainPort = args[1];
        certificate = args[3];
        login = "&user=carl&password=" + args[2];
        url = "jdbc:postgresql://localhost:" + args[0] + "/weir?";
        // One line each: name, kind, SQL and parameters (`type=value`, or `type` for null), divided by
        // tabs.
        for (String line : Files.readAllLines(Path.of(args[4]))) {
            List<String> fields = List.of(line.split("\t", -1));
            String name = fields.get(0), does = fields.get(1), sql = fields.get(2);
            List<String> parameters = fields.subList(3, fields.size());
            if (does.equals("rows") || does.equals("sum")) {
                for (Map.Entry<String, String> mode : new TreeMap<>(MODES).entrySet()) {
                    report(name, mode.getKey(), () -> rows(mode.getValue(), sql, parameters, does.equals("sum")));
                }
                continue;
            }
            Work work = once(does, sql);
            if (work != null) {
                report(name, "once", work);
            }
        }
    }

    private static Work once(String does, String sql) {
        return switch (does) {
            case "connect" -> () -> encryption(url + "sslmode=disable" + login);
            case "connect_tls" -> () -> encryption(url + "sslmode=verify-full&sslrootcert=" + certificate + login);
            case "tls_refused" -> Pgjdbc::refused;
            case "wrong_password" -> () -> stateOf(() -> encryption(url + "sslmode=disable&user=carl&password=sesam"));
            case "empty" -> Pgjdbc::empty;
            case "statements" -> () -> statements(sql);
            case "suspend" -> () -> suspended(sql);
            case "cancel" -> () -> cancelled(sql);
            case "recover" -> () -> recovered(sql);
            case "transaction" -> () -> transaction(sql);
            default -> null;
        };
    }

    private static Connection connected(String more) throws SQLException {
        return DriverManager.getConnection(url + "sslmode=disable&" + more + login);
    }

    private static Object encryption(String place) throws SQLException {
        try (Connection connection = DriverManager.getConnection(place)) {
            one(connection);
            return place.contains("verify-full") ? "encrypted" : "plain";
        }
    }

    private static Object refused() {
        String place = "jdbc:postgresql://localhost:" + plainPort + "/weir?sslmode=require" + login;
        try {
            return encryption(place);
        } catch (SQLException error) {
            return error.getMessage().contains("does not support SSL") ? "refused" : error.getMessage();
        }
    }

    private static Object stateOf(Work work) throws Exception {
        try {
            return work.run();
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    private static Object one(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("select 1")) {
            rows.next();
            return rows.getLong(1);
        }
    }

    private static Object rows(String mode, String sql, List<String> parameters, boolean isSum) throws Exception {
        try (Connection connection = connected(mode);
             PreparedStatement statement = connection.prepareStatement(sql.replaceAll("\\$\\d", "?"))) {
            for (int at = 0; at < parameters.size(); at++) {
                bind(statement, at + 1, parameters.get(at));
            }
            List<Object> found = new ArrayList<>();
            long count = 0, sum = 0;
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    count += 1;
                    if (isSum) {
                        sum += rows.getLong(1);
                    } else {
                        found.add(row(rows));
                    }
                }
            }
            return isSum ? List.of(count, sum) : found;
        }
    }

    private static void bind(PreparedStatement statement, int at, String parameter) throws SQLException {
        String type = parameter.split("=")[0];
        String value = parameter.equals(type) ? null : parameter.substring(type.length() + 1);
        int code = Map.of("int8", Types.BIGINT, "text", Types.VARCHAR, "bool", Types.BOOLEAN, "float8", Types.DOUBLE,
            "timestamptz", Types.TIMESTAMP_WITH_TIMEZONE).get(type);
        if (value == null) {
            statement.setNull(at, code);
            return;
        }
        switch (type) {
            case "int8" -> statement.setLong(at, Long.parseLong(value));
            case "bool" -> statement.setBoolean(at, Boolean.parseBoolean(value));
            case "float8" -> statement.setDouble(at, Double.parseDouble(value));
            case "timestamptz" -> statement.setObject(at, Instant.parse(value).atOffset(ZoneOffset.UTC));
            default -> statement.setString(at, value);
        }
    }

    private static List<Object> row(ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        List<Object> values = new ArrayList<>();
        for (int at = 1; at <= columns.getColumnCount(); at++) {
            String type = columns.getColumnTypeName(at);
            Object value = switch (type) {
                case "timestamptz" -> rows.getObject(at, OffsetDateTime.class);
                case "_text", "_int8" -> array(rows.getArray(at));
                default -> rows.getObject(at);
            };
            values.add(rows.wasNull() ? null : value);
        }
        return values;
    }

    private static Object array(Array array) throws SQLException {
        return array == null ? null : Arrays.asList((Object[]) array.getArray());
    }

    private static Object empty() throws SQLException {
        try (Connection connection = connected(""); Statement statement = connection.createStatement()) {
            for (String sql : List.of("", ";", " -- nothing")) {
                statement.execute(sql);
            }
            return one(connection).equals(1L) ? "usable" : "broken";
        }
    }

    private static Object statements(String sql) throws SQLException {
        List<Object> found = new ArrayList<>();
        try (Connection connection = connected(""); Statement statement = connection.createStatement()) {
            for (boolean is = statement.execute(sql); is; is = statement.getMoreResults()) {
                ResultSet rows = statement.getResultSet();
                rows.next();
                found.add(rows.getObject(1));
            }
        }
        return found;
    }

    // Reads to the end in parts of 1,000 rows, and leaves a second portal after its first part.
    private static Object suspended(String sql) throws SQLException {
        try (Connection connection = connected("")) {
            connection.setAutoCommit(false);
            long count = 0, sum = 0;
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(1000);
                ResultSet rows = statement.executeQuery(sql);
                while (rows.next()) {
                    count += 1;
                    sum += rows.getLong(1);
                }
            }
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(10);
                statement.executeQuery(sql).next();
            }
            connection.commit();
            return List.of(count, sum, one(connection));
        }
    }

    private static Object cancelled(String sql) throws Exception {
        try (Connection connection = connected(""); Statement statement = connection.createStatement()) {
            Timer timer = new Timer(true);
            timer.schedule(new TimerTask() {
                @Override public void run() {
                    try {
                        statement.cancel();
                    } catch (SQLException error) {
                        throw new IllegalStateException(error);
                    }
                }
            }, 300);
            return List.of(stateOf(() -> statement.execute(sql)), one(connection));
        }
    }

    private static Object recovered(String sql) throws Exception {
        List<Object> found = new ArrayList<>();
        for (String mode : List.of("preferQueryMode=simple", "prepareThreshold=1")) {
            try (Connection connection = connected(mode); Statement statement = connection.createStatement()) {
                found.add(stateOf(() -> statement.execute(sql)));
                found.add(one(connection));
            }
        }
        return found;
    }

    private static Object transaction(String sql) throws Exception {
        try (Connection connection = connected("")) {
            connection.setAutoCommit(false);
            List<Object> found = new ArrayList<>(List.of(one(connection)));
            for (String each : List.of(sql, "select 1")) {
                try (Statement statement = connection.createStatement()) {
                    found.add(stateOf(() -> statement.execute(each)));
                }
            }
            connection.rollback();
            found.add(one(connection));
            connection.commit();
            return found;
        }
    }

    private static void report(String name, String mode, Work work) {
        String result;
        try {
            result = "\"result\": " + json(work.run());
        } catch (Exception error) {
            result = "\"error\": " + json(error.toString());
        }
        System.out.println("{\"scenario\": " + json(name) + ", \"mode\": " + json(mode) + ", " + result + "}");
    }

    private static String json(Object value) {
        if (value instanceof List<?> list) {
            return "[" + String.join(", ", list.stream().map(Pgjdbc::json).toList()) + "]";
        }
        if (value instanceof OffsetDateTime instant) {
            return json(instant.withOffsetSameInstant(ZoneOffset.UTC).format(INSTANT));
        }
        if (value instanceof byte[] bytes) {
            return json(HexFormat.of().formatHex(bytes));
        }
        if (value instanceof String || value instanceof java.math.BigDecimal || value instanceof java.sql.Date) {
            StringBuilder text = new StringBuilder("\"");
            for (char letter : value.toString().toCharArray()) {
                text.append(letter == '"' || letter == '\\' || letter < ' ' || letter > '~'
                    ? String.format("\\u%04x", (int) letter) : letter);
            }
            return text.append('"').toString();
        }
        return String.valueOf(value);
    }
}
