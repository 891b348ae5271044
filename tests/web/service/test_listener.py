"""Clients that are slow, or speak no HTTP, against a real server process; each leaves it free for others."""

import itertools
import socket
import time

import pytest

from tests.web.service.running import PATIENCE, drained, until

GOOD = b"GET /v1/accounts HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
HEADERS = itertools.repeat(b"X: a\r\n")


def serves(server):
    return server.raw(GOOD).startswith(b"HTTP/1.1 401 ")


@pytest.fixture
def connect(server):
    opened = []

    def one():
        opened.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


def trickled(connection, pieces):
    """Send pieces slowly until the other side closes: what it says."""
    connection.settimeout(0.1)
    end, found = time.monotonic() + PATIENCE, b""
    for piece in pieces:
        try:
            connection.sendall(piece)
            if not (more := connection.recv(1000)):
                return found
            found += more
        except TimeoutError:
            assert time.monotonic() < end
        except OSError:
            return found


def test_headers_that_never_end_are_given_up(server, connect):
    many = [connect() for _ in range(20)]  # idle ones beside it, which are closed too
    first = connect()
    first.sendall(b"GET /v1/accounts HTTP/1.1\r\n")
    assert trickled(first, HEADERS) == b""
    for each in many:
        assert drained(each) == b""
    assert serves(server)


def held(connection):
    """Whether the other side holds a connection open: it says nothing, and has not closed it."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("stranger", ["127.0.0.1", "127.0.0.2"], ids=["our address", "another"])
def test_one_stranger_does_not_hold_all_connections(server, stranger):
    """More connections than there may be, each with a request that goes on; whoever sends a whole one is answered."""
    opened = []
    try:
        for at in range(280):
            opened.append(
                socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE, source_address=(stranger, 0))
            )
            opened[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-a: ")
            if at % 40 == 39:
                assert serves(server)
        until(lambda: sum(map(held, opened)) <= 64)
        assert serves(server)
    finally:
        for each in opened:
            each.close()


def test_a_request_that_is_being_answered_keeps_its_connection(server, connect):
    token = server.token()
    head = f"POST /v1/accounts/people/dry-runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    first = connect()
    head += "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    first.sendall(head.encode())
    assert first.recv(1000).startswith(b"HTTP/1.1 100 ")  # it has been read
    idle = [connect() for _ in range(70)]  # more than one address may have
    first.sendall(b"{}")
    assert first.recv(1000).startswith(b"HTTP/1.1 400 ")
    until(lambda: sum(map(held, idle)) <= 64)


def test_a_second_request_on_a_connection_has_no_more_time(server, connect):
    connection = connect()
    connection.sendall(GOOD.replace(b"Connection: close\r\n", b""))
    assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")
    connection.sendall(b"GET / HTTP/1.1\r\n")
    assert b"HTTP" not in trickled(connection, HEADERS)


def test_a_body_that_never_ends_is_given_up(server, connect):
    token = server.token()
    head = f"POST /v1/accounts/people/releases HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    connection = connect()
    connection.sendall((head + "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n").encode())
    assert trickled(connection, itertools.repeat(b" ")).startswith(b"HTTP/1.1 408 ")
    assert serves(server)


def test_control_a_slow_client_that_ends_in_time_is_served(connect):
    connection = connect()
    for at in range(0, len(GOOD), 20):
        connection.sendall(GOOD[at : at + 20])
        time.sleep(0.02)
    assert drained(connection).startswith(b"HTTP/1.1 401 ")


ODD = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "a negative length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "a huge length": b"POST /v1/accounts HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "a header with a line break": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\n b\x00\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "headers too large": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
    "too many headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
    "a chunk that is none": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "a web socket": GOOD.replace(b"Connection: close", UPGRADE),
    "an unknown coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.few(4)
@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_bytes_that_are_no_request_are_refused_or_dropped(server, data):
    found = server.raw(data)
    assert found == b"" or found.startswith(tuple(b"HTTP/1.1 %d" % status for status in (400, 401, 405, 431, 501)))
    assert serves(server)


def test_a_length_and_chunks_are_one_request_and_no_second_is_smuggled(server):
    inner = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /v1/accounts HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    found = server.raw(head % (5 + len(inner)) + inner)
    assert b'"openapi"' not in found
    assert found.startswith(b"HTTP/1.1 400")
