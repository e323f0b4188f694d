"""Read records are never dropped; the cache of contents stays within its budget."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clew.agent.tools.read_files import Content, ContentCache, ReadLedger, ReadRecord, merge_ranges
from tests.requirements import requirement


def record(
    path: str, sha: bytes | None = b"1", size: int = 1, *ranges: tuple[int, int]
) -> ReadRecord:
    return ReadRecord(path=path, size=size, mtime_ns=1, sha256=sha, ranges=ranges, message_uuid="m")


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6)).map(lambda r: (r[0], r[0] + r[1])))
)
def test_joined_ranges_hold_the_same_lines_and_are_apart(ranges: list[tuple[int, int]]) -> None:
    def lines(some: tuple[tuple[int, int], ...]) -> set[int]:
        return {n for first, last in some for n in range(first, last + 1)}

    result = merge_ranges(tuple(ranges))
    assert lines(result) == lines(tuple(ranges))
    assert all(a[1] + 1 < b[0] for a, b in pairwise(result))


@requirement("W1")
def test_ranges_of_an_older_content_do_not_count() -> None:
    ledger = ReadLedger()
    ledger.note(record("/a", b"1", 1, (1, 5)))
    ledger.note(record("/a", b"1", 1, (6, 7)))
    assert ledger.records()[0].ranges == ((1, 7),)
    ledger.note(record("/a", b"2", 1, (9, 9)))
    assert ledger.records()[0].ranges == ((9, 9),)
    ledger.note(record("/a", None, 2, (1, 1)))
    assert ledger.records()[0].ranges == ((1, 1),)
    assert ReadLedger(ledger.records()).get("/a") == ledger.get("/a")


@requirement("R230", "W1")
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 60)), max_size=60))
def test_the_cache_stays_within_its_budget_and_keeps_what_was_used_last(
    puts: list[tuple[str, int]],
) -> None:
    cache = ContentCache(100)
    for path, size in puts:
        cache.put(path, Content(data=b"x" * size, mtime_ns=size, sha256=b""))
        assert cache.held_bytes <= 100
        kept = cache.get(path)
        assert kept is not None
        assert len(kept.data) == size
    sizes = [len(c.data) for p in "abcdef" if (c := cache.get(p)) is not None]
    assert sum(sizes) == cache.held_bytes


def test_what_exceeds_the_budget_alone_is_not_kept_and_old_goes_first() -> None:
    cache = ContentCache(10)
    for path in ("a", "b"):
        cache.put(path, Content(data=b"x" * 5, mtime_ns=0, sha256=b""))
    assert cache.get("a") is not None
    cache.put("c", Content(data=b"x" * 5, mtime_ns=0, sha256=b""))
    assert cache.get("b") is None
    assert cache.get("a") is not None
    cache.put("a", Content(data=b"x" * 11, mtime_ns=0, sha256=b""))
    assert cache.get("a") is None
    assert cache.held_bytes == 5
