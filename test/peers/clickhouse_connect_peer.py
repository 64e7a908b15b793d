"""What clickhouse-connect makes of the embedded server: clickhouse_connect_peer.py PORT PASSWORD. Prints a line for each scenario."""

import sys
import threading
from datetime import datetime, timezone

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError

PORT, PASSWORD = int(sys.argv[1]), sys.argv[2]
COLUMNS = ["id", "word", "at", "tags", "list", "kind", "maybe"]


def connect(**options):
    return clickhouse_connect.get_client(host="127.0.0.1", port=PORT, **{"password": PASSWORD, **options})


def expect(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def row(i):
    at = datetime.fromtimestamp(1_700_000_000 + i, timezone.utc)
    return [i, f"Zürich 'word' {i}\n", at, {"k": str(i)}, [i, i + 1], "low", None if i % 2 else i / 2]


def ping():
    expect(connect().ping(), True)


def database_of_its_own():
    connect().command("CREATE DATABASE python")
    connect(database="python").command(
        "CREATE TABLE words (id UInt64, word String, at DateTime64(3), tags Map(String, String), list Array(UInt32), "
        "kind LowCardinality(String), maybe Nullable(Float64)) ENGINE = MergeTree ORDER BY id"
    )


def insert(compress, first):
    client = connect(database="python", compress=compress)
    client.insert("words", [row(i) for i in range(first, first + 5000)], column_names=COLUMNS)


def inserts():
    insert(True, 0)  # as an LZ4 frame
    insert("gzip", 5000)
    insert(False, 10000)
    insert("br", 15000) if "br" in clickhouse_connect.driver.compression.available_compression else insert("lz4", 15000)


def select():
    rows = connect(database="python").query("SELECT * FROM words ORDER BY id").result_rows
    expect(len(rows), 20000)
    for i, (id, word, at, tags, numbers, kind, maybe) in enumerate(rows):
        expect([id, word, at.replace(tzinfo=timezone.utc), tags, numbers, kind, maybe], row(i))


def parameters():
    text = "a\ttab, a\nline, a \\ and a ' quote"
    expect(connect().query("SELECT {text:String}", parameters={"text": text}).result_rows, [(text,)])


def raw():
    client = connect(database="python")
    client.raw_insert("words", ["id", "word"], '{"id": 20000, "word": "raw"}\n{"id": 20001}\n', fmt="JSONEachRow")
    expect(client.raw_query("SELECT count() FROM words", fmt="CSV"), b"20002\n")


def several_at_once():
    failed = []

    def work(n):
        try:
            client = connect(database="python")
            for _ in range(5):
                expect(client.command("SELECT sum(number) FROM numbers(%s)", parameters=[n]), n * (n - 1) // 2)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(failed, [])


def mistakes():
    try:
        connect().query("SELECT * FROM nowhere")
    except DatabaseError as error:
        expect("UNKNOWN_TABLE" in str(error), True)
    else:
        raise AssertionError("a mistake is no error")


def password():
    try:
        connect(password="guess")
    except DatabaseError as error:
        expect("AUTHENTICATION_FAILED" in str(error), True)
    else:
        raise AssertionError("a wrong password is taken")


for scenario in [ping, database_of_its_own, inserts, select, parameters, raw, several_at_once, mistakes, password]:
    try:
        scenario()
        print("ok", scenario.__name__)
    except Exception as error:
        print("failed", scenario.__name__, type(error).__name__, error)
