"""The scenarios with psycopg2, which has the simple protocol only and writes parameters into SQL."""

import psycopg2

from common import PLAIN, SCENARIOS, TLS, TLS_REFUSED, WRONG_PASSWORD
from common import canceled, parameters, placeholders, rendered, report


def connected(place=PLAIN, autocommit=True):
    connection = psycopg2.connect(place)
    connection.autocommit = autocommit
    return connection


def fetched(connection, sql, values=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def rows(connection, scenario):
    sql, values = scenario["sql"], parameters(scenario)
    found = fetched(connection, placeholders(sql) if values else sql, values or None)
    return [[rendered(value) for value in row] for row in found]


def total(connection, scenario):
    found = fetched(connection, scenario["sql"])
    return [len(found), sum(row[0] for row in found)]


def one(connection):
    return fetched(connection, "select 1")[0][0]


def state(connection, sql):
    try:
        fetched(connection, sql)
    except psycopg2.Error as error:
        return error.pgcode
    return None


def encryption(place):
    connection = connected(place)
    is_encrypted = connection.info.ssl_in_use
    connection.close()
    return "encrypted" if is_encrypted else "plain"


def connect(scenario):
    return encryption(PLAIN)


def connect_tls(scenario):
    return encryption(TLS)


def tls_refused(scenario):
    try:
        return encryption(TLS_REFUSED)
    except psycopg2.OperationalError as error:
        return "refused" if "does not support SSL" in str(error) else str(error)


def wrong_password(scenario):
    try:
        return encryption(WRONG_PASSWORD)
    except psycopg2.OperationalError as error:
        return "28P01" if "wrong password" in str(error) else str(error)


def empty(scenario):
    connection = connected()
    for sql in ("", ";", " -- nothing"):
        try:
            connection.cursor().execute(sql)
        except psycopg2.ProgrammingError as error:  # the driver's own, for an empty query
            assert "empty query" in str(error), error
    return "usable" if one(connection) == 1 else "broken"


def cancel(scenario):
    connection = connected()
    found = canceled(connection.cancel, lambda: state(connection, scenario["sql"]))
    return [found, one(connection)]


def recover(scenario):
    connection, sql = connected(), scenario["sql"]
    return [state(connection, sql), one(connection), state(connection, sql), one(connection)]


def transaction(scenario):
    connection = connected(autocommit=False)
    found = [one(connection), state(connection, scenario["sql"]), state(connection, "select 1")]
    connection.rollback()
    found.append(one(connection))
    connection.commit()
    return found


shared = connected()
for each in SCENARIOS:
    does = each.get("does", "rows")
    if does in ("rows", "sum"):
        read = rows if does == "rows" else total
        report(each, "simple", lambda: read(shared, each))
    elif does in globals():
        report(each, "once", lambda: globals()[does](each))
