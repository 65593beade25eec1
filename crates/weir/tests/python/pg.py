"""psycopg against weir: types in both formats, prepared statements, a pipeline, errors that leave the connection usable."""

import datetime
import decimal
import sys

import psycopg

port, password = sys.argv[1:]
place = f"host=127.0.0.1 port={port} dbname=weir user=carl password={password}"
utc = datetime.timezone.utc
noon = datetime.datetime(2026, 11, 21, 12, 0, 0, 250000, tzinfo=utc)

SELECT = """select 7::bigint, 7::int, 7::smallint, 2.5::double precision, 2.5::real, true, 'caf\u00e9', null::text,
    date '2026-11-21', timestamp '2026-11-21T12:00:00.25', timestamptz '2026-11-21T12:00:00.25Z',
    make_array('a', 'b "c"', null), make_array(1, 2), 12345.678::decimal(20, 3), arrow_cast(18446744073709551615, 'UInt64'),
    interval '1 day 2 seconds'"""
EXPECTED = (
    7, 7, 7, 2.5, 2.5, True, "caf\u00e9", None,
    datetime.date(2026, 11, 21), noon.replace(tzinfo=None), noon,
    ["a", 'b "c"', None], [1, 2], decimal.Decimal("12345.678"), decimal.Decimal(18446744073709551615),
    datetime.timedelta(days=1, seconds=2),
)

with psycopg.connect(place, autocommit=True) as connection:
    for is_binary in (False, True):
        row = connection.execute(SELECT, binary=is_binary).fetchone()
        assert row == EXPECTED, (is_binary, row)
        sent = (41, 2.5, "text", True, noon, noon.date(), None)
        cursor = connection.cursor(binary=is_binary)
        shape = "%b" if is_binary else "%s"
        sql = "select {0}::bigint + 1, {0}::float8, {0}::text, {0}::boolean, {0}::timestamptz, {0}::date, {0}::text"
        row = cursor.execute(sql.format(shape), sent, prepare=True).fetchone()
        assert row == (42, 2.5, "text", True, noon, noon.date(), None), row
    for _ in range(10):  # the driver prepares by itself from the fifth on
        row = connection.execute("select count(*) from log where body like %s and ts > %s", ("the %", noon.replace(year=2020))).fetchone()
        assert row == (2,), row
    rows = connection.execute("select body from log where host = %s order by body limit %s", ("testhost", 1)).fetchall()
    assert len(rows) == 1, rows
    try:
        connection.execute("select %s::bigint", ("no number",))
        raise AssertionError("it was taken")
    except psycopg.errors.InvalidTextRepresentation as error:
        assert "parameter" in str(error), error
    except psycopg.Error as error:
        assert "no number" in str(error) or "cast" in str(error).lower(), error
    try:
        connection.execute("select * from nowhere")
        raise AssertionError("there is no such table")
    except psycopg.errors.UndefinedTable:
        pass
    with connection.pipeline():
        cursors = [connection.execute("select %s::bigint * 2", (number,)) for number in range(20)]
    assert [cursor.fetchone()[0] for cursor in cursors] == [2 * number for number in range(20)]
    assert sum(1 for _ in connection.cursor().stream("select value from generate_series(1, 30000) t(value)")) == 30000
    attrs = connection.execute("select attrs from log limit 1").fetchone()[0]
    assert attrs is None or isinstance(attrs, dict), attrs

with psycopg.connect(place) as connection:  # in a transaction
    try:
        connection.execute("select nothing from log")
    except psycopg.errors.UndefinedColumn:
        pass
    try:
        connection.execute("select 1")
        raise AssertionError("the transaction had failed")
    except psycopg.errors.InFailedSqlTransaction:
        connection.rollback()
    assert connection.execute("select 1").fetchone() == (1,)
