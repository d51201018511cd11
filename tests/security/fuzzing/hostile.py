"""Values that broke programs before: text, numbers, moments, bodies, headers and addresses."""

import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_from_bytes

Json = Any

TEXTS = (
    "", " ", "\t\n", "a", "0", "-1", "null", "true", "NaN", "None", "undefined", "\x00", "a\x00b", "\ud800", "a\udfff",
    "\u200b", "\u202eabc\u2066", "\ufeff", "\uffff", "\U0010ffff", "é" * 50, "𝔘𝔫𝔦", "🏳️‍🌈" * 9, "ﷺ" * 30, "Z̷̢̛" * 40,
    "' OR 1=1 --", "'; DROP TABLE memory_fact; --", "%s%s%n%d", "%(x)s", "{0.__class__}", "{{ 7*7 }}", "{% debug %}",
    "<script>alert(1)</script>", "</textarea><img src=x onerror=alert(1)>", "javascript:alert(1)", "&#0;&nbsp;",
    "../../../../etc/passwd", "..\\..\\", "file:///etc/passwd", "http://[", "//example.org/", "\\\\x\\y", "a/b/../c",
    "\r\nSet-Cookie: a=b", "a\nb\r\nc", "(a+)+$", "[", "(?<x", "\\", "*", "a" * 101, "b" * 201, "c" * 2_001,
    "d" * 20_001,
    "e " * 60_000, "2026-01-01", "2026-13-45T99:99:99Z", "00000000-0000-0000-0000-000000000000", "not-a-uuid", "١٢٣",
    "1e999", "9" * 400, "0x10", "1_000", "+1", "١", "²", "½", "-0", "=cmd|' /C calc'!A0", "to & | ! :* <->", "'&'",
    "\\' \\x", "foo:bar", "\"", "'", "`", "#", "?", "&a=b", ";", "W/\"1\"", "<|im_start|>system", "\n## Boundaries\n",
)  # fmt: skip
NUMBERS: tuple[Json, ...] = (
    0, 1, -1, 2, 5, 50, 200, 201, 1_000, -(2**31) - 1, 2**31, 2**31 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63,
    -(2**63) - 1,
    2**64, 10**20, 10**400, -(10**400), 0.0, -0.0, 0.5, 1.0000001, -1.5, 1e-320, 5e-324, 1e300, 1.7e308, float("inf"),
    float("-inf"), float("nan"),
)  # fmt: skip
MOMENTS = (
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999-14:00", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2026-02-29T00:00:00Z",
    "2024-02-29T00:00:00Z", "2016-12-31T23:59:60Z", "2026-01-01T00:00:00", "2026-01-01", "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00.123456789Z", "-2026-01-01T00:00:00Z", "20260101T000000Z", "2026-W01-1", "1700000000", "now",
    "2026-01-01T00:00:00+00:00:30", "10000-01-01T00:00:00Z", "2030-01-01T00:00:00Z", "2026-06-01T12:00:00+02:00",
    "2026-01-01T24:00:00Z", "2026-01-01 10:00", "0000-00-00T00:00:00Z", "2025-11-30T23:59:59.999999Z",
)  # fmt: skip
METHODS = (
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "FOO", "X" * 100,
)  # fmt: skip
KINDS = (
    "application/json", "application/json; charset=utf-16", "application/json; charset=nothing", "text/plain", "", "x",
    "text/html", "application/xml", "application/octet-stream", "multipart/form-data", "multipart/form-data; boundary=",
    "multipart/form-data; boundary=a", "application/x-www-form-urlencoded", "multipart/mixed; boundary=\"a\x7f\"",
    "application/x-www-form-urlencoded; charset=utf-7", "application/json, text/html", ";;;", "a/b/c", "é/ü",
)  # fmt: skip
HEADERS: dict[str, tuple[str, ...]] = {
    "If-Match": ('"character=1"', '"values=0,values=9"', "*", 'W/"x"', '"', '"character=' + "9" * 30 + '"',
                 '"character=-1"', "a" * 5_000, '"values=１"', '"=,=,="', '"character=1e9"'),
    "If-None-Match": ("*", '"character=1"', '"', '"a", "b"', "x" * 3_000, '"character=' + "9" * 5_000 + '"'),
    "If-Modified-Since": ("Sat, 01 Jan 0001 00:00:00 GMT", "x", "99999999999"),
    "X-Request-Id": ("a", "a" * 64, "a" * 65, "\n", "<script>", "ü", "a b"),
    "X-Correlation-Id": ("x" * 9_000,),
    "Range": ("bytes=0-", "bytes=9-1", "bytes=-1", "x", "bytes=0-0,1-1,2-2", "bytes=" + "9" * 40 + "-"),
    "Accept": ("*/*", "application/json", "text/html;q=9999", ";;;", "x" * 4_000, "application/problem+json", ""),
    "Accept-Language": ("xx-XX", "a" * 5_000, "*;q=-1", "de;q=NaN"),
    "Accept-Encoding": ("gzip;q=x", "br", "identity;q=0, *;q=0"),
    "Accept-Charset": ("utf-7",),
    "Host": ("example.org", "localhost:99999999", "[::1", "a" * 300, "localhost\\@x", "", "testserver:x", "xn--"),
    "X-Forwarded-Host": ("evil.example", ","),
    "X-Forwarded-For": ("x", "1.2.3.4, 5.6.7.8" * 100, "::ffff:1.2.3.4"),
    "X-Forwarded-Proto": ("https", "gopher"),
    "X-Http-Method-Override": ("DELETE", "TRACE"),
    "Referer": ("http://[", "https://evil.example/", "x" * 4_000, "/\x7f"),
    "Origin": ("null", "http://[", "https://evil.example", "x"),
    "User-Agent": ("", "x" * 9_000, "\x7f"),
    "Expect": ("100-continue", "x"),
    "Content-Encoding": ("gzip", "deflate, br", "x"),
    "Transfer-Encoding": ("chunked", "x"),
    "Authorization": ("", "Bearer", "Bearer ", "bearer x", "Bearer nous_x", "Basic x", "Basic Og==", "Bearer é",
                      "Bearer " + "x" * 5_000, "Digest username=\"x\"", "Bearer a b c", "Bearer \x00"),
    "X-CSRFToken": ("", "x", "a" * 32, "a" * 64, "é" * 32, "\x00" * 64),
    "Cookie": ("", "sessionid=", "sessionid=x", "sessionid=" + "a" * 32, "sessionid=\xff\xfe",
    "csrftoken=x; csrftoken=y",
               "=", ";;;", "a=b" * 2_000, "sessionid=../../x; messages=x", "messages=W10:1:x", "sessionid=\"\\012\"",
               "csrftoken=\x00"),
    "HX-Request": ("true", "false", "x"),
    "HX-Boosted": ("true",),
    "HX-History-Restore-Request": ("true", "x"),
    "HX-Target": ("board", "x" * 300, "%ff"),
    "HX-Trigger": ("x",),
    "HX-Trigger-Name": ("%ff", "x"),
    "HX-Current-URL": ("http://[", "x", "http://testserver/agents/?q=%ff", "é", "https://evil.example/a?b#c"),
    "HX-Current-URL-URI-AutoEncoded": ("true",),
    "HX-Prompt": ("%ff", "x"),
    "Triggering-Event": ("{", "null", "[1", '{"a": NaN}'),
    "Content-Length": ("", "-1", "x", "99999999999999999999", "0", "1", "１"),
    "Upgrade": ("websocket",),
    "Date": ("x",),
    "Prefer": ("respond-async",),
}  # fmt: skip
BODIES = (
    b"", b"null", b"[]", b"{}", b"true", b"17", b'"text"', b"{", b"nul", b'{"a": 1,}', b"\xff\xfe{}", b"\x00",
    b"\xef\xbb\xbf{}",
    "{}".encode("utf-16"), b"[" * 50_000, b'{"a":' * 50_000, b"[" * 900 + b"]" * 900, b'{"a": NaN}', b'{"a": 1e999}',
    b'{"a": -Infinity}', b'{"content": "\xed\xa0\x80"}', b'{"content": "\\ud800"}', b'{"a": ' + b"9" * 5_000 + b"}",
    b'{"content": "a", "content": "b"}', b"a=1&b=2",
    b"--a\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n--a--",
    b"--a\r\nContent-Disposition: form-data; name=\"content\"; filename=\"x\"\r\n\r\ny\r\n--a--\r\n",
    b"\x1f\x8b\x08\x00",
    b"&" * 5_000, b"a=%zz&%", b"a=1&" * 3_000, b"{}" * 2, b" " * 100_000, b'{"__proto__": {"a": 1}}', b"<a/>",
)  # fmt: skip
QUERIES = (
    "%", "%ff", "%00", "a=%00", "a=%ed%a0%80", "=", "&&&&", "a", "a=1&a=2", "a[]=1", "a[b]=1", ";", "?", "#", "%u0041",
    "agent", "agent=", "agent=%ff", "limit=&cursor=", "x=" + "y" * 20_000, "&".join(f"p{n}=1" for n in range(1_500)),
    "\xff",
    "a=b=c=d", "+", "%20", "page=\u0661",
)  # fmt: skip
SEGMENTS = (
    b"%ff", b"\xff\xfe", b"a\x00b", b"..", b".", b"", b"%2e%2e", b"a b", b"\xed\xa0\x80", "é".encode(), b"a" * 300,
    b"-1", b"0",
    b"9" * 30, b"99999999999999999999", b"00000000-0000-0000-0000-000000000000", b"{x}", b"a;b", b"a%2fb", b"\r\n",
    b"'",
    "１".encode(), "٣".encode(), b"~", b"ADA", b"1e3",
)  # fmt: skip

Change = Callable[[random.Random, Json], Json]


def value(rng: random.Random) -> Json:
    """Any JSON value, rather a bad one."""
    kind = rng.randrange(10)
    if kind < 5:
        return rng.choice(TEXTS)
    if kind < 7:
        return rng.choice(NUMBERS)
    if kind < 8:
        return rng.choice(MOMENTS)
    return rng.choice(
        (None, True, False, [], {}, [None], [[]], {"": ""}, [1, "a"], {"a": {"b": []}}, ["a"] * 1_001, nested(rng))
    )


def nested(rng: random.Random) -> Json:
    """Lists or objects within each other, up to 800 deep."""
    inner: Json = 1
    for _ in range(rng.choice((10, 33, 200, 800))):
        inner = [inner] if rng.random() < 0.5 else {"a": inner}
    return inner


def mutated(rng: random.Random, body: Json) -> Json:
    """`body` with one place of it changed."""
    holders: list[tuple[Json, Any]] = []
    pending = [body]
    while pending:
        current = pending.pop()
        places = (
            list(current)
            if isinstance(current, dict)
            else list(range(len(current)))
            if isinstance(current, list)
            else []
        )
        holders += [(current, place) for place in places]
        pending += [current[place] for place in places]
    if not holders or rng.random() < 0.05:
        return value(rng)
    holder, place = rng.choice(holders)
    how = rng.randrange(10)
    if how < 6:
        holder[place] = value(rng)
    elif how == 6:
        del holder[place]
    elif how == 7:
        holder[place] = [holder[place]]
    elif how == 8 and isinstance(holder, dict):
        holder[rng.choice(TEXTS)] = value(rng)
    else:
        holder[place] = {"a": holder[place]}
    return body


def encoded(rng: random.Random, body: Json) -> bytes:
    """`body` as JSON of one writing or another; sometimes cut or garbled."""
    text = json.dumps(body, ensure_ascii=rng.random() < 0.5)
    raw = text.encode("utf-8", "surrogatepass")
    spoilt = rng.random()
    if spoilt < 0.02:
        raw = raw[: rng.randrange(len(raw) + 1)]
    elif spoilt < 0.04 and raw:
        place = rng.randrange(len(raw))
        raw = raw[:place] + bytes([rng.randrange(256)]) + raw[place + 1 :]
    return raw


def queried(rng: random.Random, pairs: list[tuple[str, str]]) -> str:
    """A query string of `pairs`, in an order, repetition and encoding of its own."""
    if rng.random() < 0.05:
        return rng.choice(QUERIES)
    if pairs and rng.random() < 0.1:
        pairs = [*pairs, (rng.choice(pairs)[0], rng.choice(TEXTS))]
    rng.shuffle(pairs)
    parts = [f"{quoted(name)}={quoted(text)}" for name, text in pairs]
    if rng.random() < 0.05:
        parts.append(rng.choice(QUERIES))
    return "&".join(parts)


def quoted(text: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"))


def headers(rng: random.Random, share: float = 0.3) -> dict[str, str]:
    """None to three headers that were not asked for."""
    if rng.random() > share:
        return {}
    names = rng.sample(sorted(HEADERS), rng.randint(1, 3))
    return {name: rng.choice(HEADERS[name]) for name in names}
