import contextlib
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nousweb.lib.errors import Invalid
from nousweb.lib.keyset_page import cursor_decode, cursor_encode


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1)), st.uuids() | st.integers(0, 2**63))  # noqa: DTZ001
def test_cursor_round_trip(naive, row_id):
    moment = naive.replace(tzinfo=UTC)
    assert cursor_decode(cursor_encode(moment, row_id)) == (moment, str(row_id))


def test_cursor_time_is_in_utc():
    moment = datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    decoded, _ = cursor_decode(cursor_encode(moment, UUID(int=0)))
    assert decoded.tzinfo == UTC
    assert decoded == moment


@given(st.text(max_size=300))
def test_cursor_malformed_is_refused(text):
    with contextlib.suppress(Invalid):
        cursor_decode(text)


def test_cursor_too_long_is_not_parsed():
    with pytest.raises(Invalid):
        cursor_decode(cursor_encode(datetime.now(UTC), uuid4()) + "=" * 500)
