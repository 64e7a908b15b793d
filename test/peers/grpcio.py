# What Python's gRPC client makes of a server: python3 grpcio.py host:port, against the methods of pipeline/grpc/peers.test.ts.
# Prints a line for each scenario; exit code 1 when one fails.
import sys
import threading
import time

import grpc

ADDRESS = sys.argv[1]
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.keepalive_time_ms", 10_000)]


def channel(**kwargs):
    return grpc.insecure_channel(ADDRESS, options=OPTIONS, **kwargs)


def call(on, message, timeout=20, path="/test.Echo/Call", **kwargs):
    return on.unary_unary(path)(message, timeout=timeout, **kwargs)


def code_of(work):
    try:
        work()
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.code()


def sizes():
    with channel() as on:
        for size in [0, 1, 65_535, 1_000_000, 5_000_000]:
            message = b"leyden" * (size // 6 + 1)
            assert call(on, message) == message


def gzip():
    with channel(compression=grpc.Compression.Gzip) as on:
        for size in [1, 100_000, 2_000_000]:
            message = b"leyden" * (size // 6 + 1)
            assert call(on, message) == message


def many_at_once():
    with channel() as on:
        messages = [bytes([i % 256]) * (1 + i * 211 % 30_000) for i in range(500)]
        running = [on.unary_unary("/test.Echo/Call").future(message, timeout=20) for message in messages]
        assert [answer.result() for answer in running] == messages


def metadata():
    with channel() as on:
        assert call(on, b"", path="/test.Echo/Metadata", metadata=[("x-name", "value"), ("authorization", "Bearer " + "a" * 3_000)]) == b"value"


def failure():
    with channel() as on:
        try:
            call(on, b"", path="/test.Echo/Fail")
            raise AssertionError("no error")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            assert error.details() == "busy: 100%", error.details()
            assert dict(error.trailing_metadata())["grpc-status-details-bin"] == b"details"


def unknown_method():
    with channel() as on:
        assert code_of(lambda: call(on, b"", path="/test.Echo/None")) == grpc.StatusCode.UNIMPLEMENTED


def too_large():
    with channel() as on:
        assert code_of(lambda: call(on, bytes(9_000_000))) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert call(on, b"after") == b"after"


def deadline():
    with channel() as on:
        assert code_of(lambda: call(on, b"", timeout=0.2, path="/test.Echo/Sleep")) == grpc.StatusCode.DEADLINE_EXCEEDED
        assert call(on, b"after") == b"after"


def cancel():
    with channel() as on:
        running = on.unary_unary("/test.Echo/Sleep").future(b"", timeout=20)
        threading.Timer(0.1, running.cancel).start()
        try:
            running.result()
            raise AssertionError("not cancelled")
        except grpc.FutureCancelledError:
            pass
        assert call(on, b"after") == b"after"


def disconnect():
    on = channel()
    on.unary_unary("/test.Echo/Sleep").future(b"", timeout=20)
    time.sleep(0.1)
    on.close()
    with channel() as again:
        assert call(again, b"after") == b"after"


failed = 0
for scenario in [sizes, gzip, many_at_once, metadata, failure, unknown_method, too_large, deadline, cancel, disconnect]:
    try:
        scenario()
        print(f"ok {scenario.__name__}")
    except Exception as error:
        failed += 1
        print(f"failed {scenario.__name__}: {error!r}")
sys.exit(1 if failed else 0)
