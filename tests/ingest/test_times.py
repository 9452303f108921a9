"""Times are exact integer nanoseconds, however the file writes its microseconds."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.event_description import MAX_DUR_US, MAX_TIME_US, MIN_TIME_US

EPOCH_US = 1_694_128_201_545_123


def trace(*times):
    events = ",".join(
        f'{{"ph":"X","cat":"kernel","name":"k{at}","pid":0,"tid":7,"ts":{ts},"dur":{dur}}}'
        for at, (ts, dur) in enumerate(times)
    )
    return f'{{"traceEvents":[{events}]}}'


def times(loaded):
    return loaded.sql("SELECT ts_ns, dur_ns FROM event ORDER BY event_id")


def exact_ns(text):
    return int((Decimal(text) * 1000).to_integral_value())


def test_epoch_microseconds_with_decimals_lose_nothing(load):
    written = [f"{EPOCH_US + at}.{at:03}" for at in range(0, 1000, 7)]
    # Doubles do not hold these times, not even rounded to nanoseconds.
    through_double = [round(float(text) * 1000) for text in written]
    right = [exact_ns(text) for text in written]
    assert sum(a != b for a, b in zip(through_double, right, strict=True)) > 100
    loaded = load(trace(*((text, "0.001") for text in written)))
    assert times(loaded) == [(ns, 1) for ns in right]
    assert loaded.sql("SELECT first_ts_ns, last_end_ns FROM trace") == [(right[0], right[-1] + 1)]


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("5", 5000),
        ("0.001", 1),
        ("-0.001", -1),
        ("-12.345", -12345),
        ("1e3", 1_000_000),
        ("1E+3", 1_000_000),
        ("15e-1", 1500),
        ("1.5E-3", 2),
        ("5.0", 5000),
        ("5.1", 5100),
        ("0.0004999", 0),
        ("0.0005", 0),
        ("0.00050001", 1),
        ("1.9996", 2000),
        ("4369769330415.215", 4369769330415215),
        (str(EPOCH_US), EPOCH_US * 1000),
        (f"{EPOCH_US}.0", EPOCH_US * 1000),
        (f"{EPOCH_US}.5", EPOCH_US * 1000 + 500),
        (f"{EPOCH_US}.25", EPOCH_US * 1000 + 250),
        (f"{EPOCH_US}.1234567", EPOCH_US * 1000 + 123),
        ("-169412820154512.999", -169_412_820_154_512_999),
        ("1.694128201545123e15", EPOCH_US * 1000),
        ("1.694128201545123456e15", EPOCH_US * 1000 + 456),
        ("1694128201545123456e-3", EPOCH_US * 1000 + 456),
        ("17e14", 1_700_000_000_000_000_000),
        ("8699999999999.999", 8_699_999_999_999_999),
        ("8700000000000.001", 8_700_000_000_000_001),
        ("-8700000000000.001", -8_700_000_000_000_001),
        ("8796093022207.999", 8_796_093_022_207_999),
        ("8796093022208.001", 8_796_093_022_208_001),
        (str(MAX_TIME_US), MAX_TIME_US * 1000),
        (str(MIN_TIME_US), MIN_TIME_US * 1000),
        # Some writers quote their numbers.
        ('"5"', 5000),
        ('" 5.001 "', 5001),
        ('"+5"', 5000),
        (f'"{EPOCH_US}"', EPOCH_US * 1000),
        (f'"{EPOCH_US}.123"', EPOCH_US * 1000 + 123),
        (f'" {EPOCH_US}.123 "', EPOCH_US * 1000 + 123),
    ],
)
def test_every_way_to_write_a_number(load, written, ns):
    loaded = load(trace(("7", "1"), (written, "1")))
    assert times(loaded) == [(7000, 1000), (ns, 1000)]
    assert loaded.rejected == []


@pytest.mark.parametrize("text", ["1.5", "999999999999.999", '"12"', "0", "3e2", str(MAX_DUR_US)])
def test_durations_are_read_like_starts(load, text):
    assert times(load(trace(("1", text)))) == [(1000, exact_ns(text.strip('"')))]


NO_NUMBERS = ('"abc"', '""', '"5us"', '"1,5"', '"0x10"', '"1_000"', '"9_000_000_000_000_000"')
NO_NUMBERS += ('"nan"', '"inf"', "true", "[1]", "{}", "1e400", "1e9999999", "9" * 400, "null")


@pytest.mark.parametrize(
    ("ts", "dur", "member"),
    [
        *((text, "1", "ts") for text in NO_NUMBERS),
        *((text, "1", "ts") for text in ("4000000000000001", str(MIN_TIME_US - 1))),
        *((text, "1", "ts") for text in ("9223372036854775808", "1e30")),
        *(("1", text, "dur") for text in ('"abc"', '"1_0"', "false", "null", "-0.001")),
        *(("1", text, "dur") for text in (f"-{EPOCH_US}.5", "1e30", str(MAX_DUR_US + 1))),
        ('"x"', '"y"', "ts"),
    ],
)
def test_invalid_times_are_rejected(load, ts, dur, member):
    for other in ("7.5", f"{EPOCH_US}.123"):
        text = trace((other, "1"), (ts, dur), (other, "2"))
        loaded = load(text)
        assert times(loaded) == [(exact_ns(other), 1000), (exact_ns(other), 2000)]
        ((at, event_id, reason),) = loaded.rejected
        assert (at, event_id) == (text.index('{"ph":"X","cat":"kernel","name":"k1"'), 1)
        assert member in reason.split()


def test_random_times(load):
    decimals = st.builds(
        lambda whole, thousandth: f"{whole}.{thousandth:03}",
        st.one_of(st.integers(0, 10**7), st.integers(0, MAX_TIME_US - 1)),
        st.integers(0, 999),
    )
    written = st.one_of(
        decimals,
        decimals.filter(lambda t: float(t) < -MIN_TIME_US).map(lambda t: "-" + t),
        st.integers(0, MAX_TIME_US).map(str),
    )

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(st.lists(written, min_size=1, max_size=200))
    def check(starts):
        durations = [str(Decimal(text.lstrip("-")) % MAX_DUR_US) for text in starts]
        loaded = load(trace(*zip(starts, durations, strict=True)))
        right = zip(map(exact_ns, starts), map(exact_ns, durations), strict=True)
        assert times(loaded) == list(right)

    check()


@pytest.mark.parametrize(
    ("pid", "number", "text"),
    [
        ("7", 7, "7"), ('"7"', 7, "7"), ("-1", -1, "-1"),
        ("9223372036854775807", 2**63 - 1, "9223372036854775807"),
        ("18446744073709551615", None, "18446744073709551615"), ('"Spans"', None, "Spans"),
        ('""', None, ""), ("[1]", None, "[1]"),
    ],
)  # fmt: skip
def test_process_ids(load, pid, number, text):
    loaded = load(f'[{{"ph":"X","name":"k","pid":{pid},"tid":3,"ts":1,"dur":1}}]')
    ((found,),) = loaded.sql("SELECT pid FROM event")
    if number is None:
        assert found < 0
        assert loaded.sql("SELECT extra ->> '$.pid' FROM event") == [(text,)]
    else:
        assert found == number
    assert loaded.sql("SELECT pid, pid_text, tid FROM thread") == [(found, text, 3)]


def test_no_process_is_no_process(load):
    loaded = load('[{"ph":"X","name":"k","ts":1,"dur":1},{"ph":"X","name":"l","ts":2,"dur":1}]')
    assert loaded.sql("SELECT pid, tid FROM event") == [(None, None), (None, None)]
    assert loaded.sql("SELECT count(*) FROM thread") == [(0,)]
