"""The scenarios with psycopg 3: simple protocol, and parameters and results in text and in binary."""

import psycopg

from common import PLAIN, SCENARIOS, TLS, TLS_REFUSED, WRONG_PASSWORD
from common import canceled, parameters, placeholders, rendered, report


def execute(connection, mode, scenario):
    sql, values = scenario["sql"], parameters(scenario)
    if mode == "simple":
        return psycopg.ClientCursor(connection).execute(placeholders(sql) if values else sql, values or None)
    cursor = connection.cursor(binary=mode == "binary")
    mark = "%b" if mode == "binary" else "%s"
    return cursor.execute(placeholders(sql, mark), values, prepare=True)


def rows(connection, mode, scenario):
    return [[rendered(value) for value in row] for row in execute(connection, mode, scenario)]


def total(connection, mode, scenario):
    found = execute(connection, mode, scenario).fetchall()
    return [len(found), sum(row[0] for row in found)]


def one(connection):
    return connection.execute("select 1").fetchone()[0]


def state(connection, sql):
    try:
        connection.execute(sql)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def connect(scenario):
    with psycopg.connect(PLAIN) as connection:
        return "encrypted" if connection.pgconn.ssl_in_use else "plain"


def connect_tls(scenario):
    with psycopg.connect(TLS) as connection:
        return "encrypted" if connection.pgconn.ssl_in_use else "plain"


def tls_refused(scenario):
    try:
        psycopg.connect(TLS_REFUSED).close()
    except psycopg.OperationalError as error:
        return "refused" if "does not support SSL" in str(error) else str(error)
    return "accepted"


def wrong_password(scenario):
    try:
        psycopg.connect(WRONG_PASSWORD).close()
    except psycopg.OperationalError as error:
        return "28P01" if "wrong password" in str(error) else str(error)
    return "accepted"


def empty(scenario):
    with psycopg.connect(PLAIN, autocommit=True) as connection:
        for sql in ("", ";", " -- nothing"):
            connection.execute(sql)
            connection.execute(sql, prepare=True)
        return "usable" if one(connection) == 1 else "broken"


def statements(scenario):
    with psycopg.connect(PLAIN, autocommit=True) as connection:
        cursor = connection.execute(scenario["sql"])
        found = [cursor.fetchone()[0]]
        while cursor.nextset():
            found.append(cursor.fetchone()[0])
        return found


def cancel(scenario):
    with psycopg.connect(PLAIN, autocommit=True) as connection:
        found = canceled(lambda: connection.cancel_safe(timeout=30), lambda: state(connection, scenario["sql"]))
        return [found, one(connection)]


def recover(scenario):
    with psycopg.connect(PLAIN, autocommit=True) as connection:
        found = [state(connection, scenario["sql"]), one(connection)]
        try:
            connection.execute(scenario["sql"], prepare=True)
        except psycopg.Error as error:
            found.append(error.sqlstate)
        return [*found, connection.execute("select %s::int", (1,)).fetchone()[0]]


def transaction(scenario):
    with psycopg.connect(PLAIN) as connection:
        found = [one(connection), state(connection, scenario["sql"]), state(connection, "select 1")]
        connection.rollback()
        found.append(one(connection))
        connection.commit()
        return found


def pipeline(scenario):
    sql = placeholders(scenario["sql"])
    with psycopg.connect(PLAIN, autocommit=True) as connection, connection.pipeline():
        cursors = [connection.execute(sql, (number,)) for number in range(10)]
        return [cursor.fetchone()[0] for cursor in cursors]


with psycopg.connect(PLAIN, autocommit=True) as shared:
    for each in SCENARIOS:
        does = each.get("does", "rows")
        if does in ("rows", "sum"):
            read = rows if does == "rows" else total
            for mode in ("simple", "text", "binary"):
                report(each, mode, lambda: read(shared, mode, each))
        elif does in globals():
            report(each, "once", lambda: globals()[does](each))
