"""What a local session listens on: this machine only."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
    import ipaddress, os, sys
    from pathlib import Path
    from pyspark.sql import SparkSession
    import clash

    def listening(processes):
        inodes = set()
        for process in processes:
            for descriptor in Path(f"/proc/{process}/fd").iterdir():
                try:
                    target = os.readlink(descriptor)
                except OSError:
                    continue
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    raw, port = fields[1].split(":")
                    words = [bytes.fromhex(raw[at : at + 8])[::-1] for at in range(0, len(raw), 8)]
                    yield str(ipaddress.ip_address(b"".join(words))), int(port, 16)

    def children(process):
        found = [process]
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == process:
                found += children(int(stat.parent.name))
        return found

    builder = SparkSession.builder.master("local[1]").config("spark.ui.port", "0").config("spark.log.level", "OFF")
    spark = clash.configure(builder).getOrCreate()
    spark.sparkContext.parallelize([1]).map(lambda x: x).count()  # a Python worker
    for address, port in sorted(set(listening(children(os.getpid())))):
        print("@", address, port)
    print("@ui", spark.sparkContext.uiWebUrl)
    spark.stop()
"""


def test_a_local_session_listens_on_loopback_only(java: None, tmp_path: Path) -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("only Linux shows who listens")
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_LOCAL_IP", "PYSPARK_SUBMIT_ARGS")}
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    lines = [line.split() for line in found.stdout.splitlines() if line.startswith("@")]
    assert len(lines) > 2, found.stdout
    for mark, address, *_ in lines:
        if mark == "@ui":
            assert address.startswith("http://127.0.0.1:")
            continue
        known = ipaddress.ip_address(address)
        assert (getattr(known, "ipv4_mapped", None) or known).is_loopback, found.stdout
