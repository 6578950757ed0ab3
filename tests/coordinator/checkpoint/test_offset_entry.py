"""An entry of Spark's offset log means the same, whether streams have a source each or share one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clash.coordinator.checkpoint.offset_entry import OffsetEntry

APART = b'v1\n{"batchWatermarkMs":0}\n{"logOffset":7}\n-\n{"logOffset":0}\n-'
SHARED = b'v1\n{"batchWatermarkMs":0}\n{"clash.files":["{\\"logOffset\\":7}","-","{\\"logOffset\\":0}","-"]}'


def test_two_forms_of_one_entry() -> None:
    apart, shared = OffsetEntry.parse(APART + b"\n"), OffsetEntry.parse(SHARED)
    assert apart.lines == shared.lines == ('{"logOffset":7}', "-", '{"logOffset":0}', "-")
    assert (apart.is_shared, shared.is_shared) == (False, True)
    assert (apart.content(), shared.content()) == (APART, SHARED)
    assert replace(apart, is_shared=True).content() == SHARED
    assert apart.without_new_sources() == shared.without_new_sources()
    assert apart.without_new_sources().content() == APART.removesuffix(b"\n-")


@pytest.mark.parametrize(
    "content",
    [b"", b"v1", b"v1\n{}", b'v1\n{}\n{"clash.files":', b'v1\n{}\n{"clash.files":7}', b"\xff\xfe\n\x00", b'v2\n{}\norders:{"logOffset":0}'],
)
def test_any_content_can_be_compared(content: bytes) -> None:
    entry = OffsetEntry.parse(content)
    assert not entry.is_shared
    assert OffsetEntry.parse(entry.content()) == entry
