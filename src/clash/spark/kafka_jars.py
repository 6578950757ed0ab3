"""The four jars of Spark's Kafka connector: found in a folder, or fetched from a Maven repository into a cache.

Invariant: the jars that are returned are there and belong together: a connector of the minor version of the installed Spark, and what that
connector was built with. Spark itself would find out in its JVM, and end with JAVA_GATEWAY_EXITED.
"""

from __future__ import annotations

import hashlib
import os
import re
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from clash.errors import OptionError
from clash.hints import listed

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
CONNECTOR, TOKENS, CLIENTS, POOL = "spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2"
NAMES = (CONNECTOR, TOKENS, CLIENTS, POOL)
_GROUPS = {CONNECTOR: "org/apache/spark", TOKENS: "org/apache/spark", CLIENTS: "org/apache/kafka", POOL: "org/apache/commons"}
_SCALA = "_2.13"  # the only one of Spark 4
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_SAME_PARTS = {CONNECTOR: 2, TOKENS: 1, CLIENTS: 2, POOL: 1}  # how many parts of its version a jar shares with what it has to fit
_TIMEOUT = 60  # seconds per file
_BY_HAND = 'or put the four jars into a folder yourself, and write kafka="/path/to/jars"'

Jars = dict[str, Path]


class _Fit(NamedTuple):
    name: str
    version: str
    wanted: str

    @property
    def is_good(self) -> bool:
        parts = _SAME_PARTS[self.name]
        return self.version.split(".")[:parts] == self.wanted.split(".")[:parts]


def find_jars(folder: Path, spark_version: str) -> Jars:
    """The four in a folder, by name. OptionError if one is missing, if there are several of one name, or if they do not belong together."""
    if not folder.is_dir():
        raise OptionError("the folder of the Kafka connector does not exist", str(folder), 'write kafka=True, or kafka="/path/to/jars"')
    found = {name: sorted(folder.glob(f"{name}*.jar")) for name in NAMES}
    found = {name: [path for path in paths if _version(path, name) is not None] for name, paths in found.items()}
    missing = [name for name, paths in found.items() if not paths]
    if missing:
        hint = f"write kafka=True to fetch them, or add them to the folder: the connector needs {listed(NAMES)}"
        raise OptionError("jars of the Kafka connector are missing", f"{listed(missing)} in {folder}", hint)
    several = next((paths for paths in found.values() if len(paths) > 1), None)
    if several is not None:
        raise OptionError(
            "a jar of the Kafka connector is there in several versions",
            f"{listed(path.name for path in several)} in {folder}",
            f"keep the one that fits Spark {spark_version}",
        )
    jars = {name: paths[0] for name, paths in found.items()}
    _check(jars, spark_version)
    return jars


def fetch_jars(cache: Path, spark_version: str, repository: str = MAVEN_CENTRAL) -> Jars:
    """The four in the cache; where they are not there yet, fetched from a Maven repository."""
    minor = _minor(spark_version)
    folder = cache / f"kafka-connector-{minor}"
    if all(list(folder.glob(f"{name}*.jar")) for name in NAMES):
        return find_jars(folder, spark_version)
    folder.mkdir(parents=True, exist_ok=True)
    repository = repository.rstrip("/")
    versions = _released(repository, CONNECTOR)
    fitting = [version for version in versions if _minor(version) == minor]
    if not fitting:
        what = f"there is no Kafka connector for Spark {spark_version}"
        raise OptionError(what, f"{repository} has {listed(versions[-5:])}", f"install a Spark that has one, {_BY_HAND}")
    connector = max(fitting, key=_order)
    needed = _dependencies(repository, connector)
    tokens = _released(repository, TOKENS)
    # the newest that is not newer than the connector: registries do not have all of them, and its classes have not changed since
    older = [version for version in tokens if _order(version) <= _order(connector) and version.split(".")[0] == connector.split(".")[0]]
    chosen = {CONNECTOR: connector, TOKENS: max(older, key=_order) if older else connector, CLIENTS: needed[CLIENTS], POOL: needed[POOL]}
    for name, version in chosen.items():
        _download(f"{repository}/{_jar_path(name, version)}", folder)
    return find_jars(folder, spark_version)


def _check(jars: Mapping[str, Path], spark_version: str) -> None:
    """They fit the installed Spark, and what the connector says that it was built with."""
    versions = {name: str(_version(path, name)) for name, path in jars.items()}
    if _SCALA not in jars[CONNECTOR].name or _SCALA not in jars[TOKENS].name:
        other = next(jars[name].name for name in (CONNECTOR, TOKENS) if _SCALA not in jars[name].name)
        raise OptionError("a jar of the Kafka connector is for another Scala", other, f"Spark {spark_version} needs {_SCALA.strip('_')}")
    if not _Fit(CONNECTOR, versions[CONNECTOR], spark_version).is_good:
        raise OptionError(
            "the Kafka connector is for another Spark",
            f"{jars[CONNECTOR].name}, but Spark is {spark_version}",
            f"use a connector of version {_minor(spark_version)}, or write kafka=True to fetch one",
        )
    built_with = _built_with(jars[CONNECTOR])
    for name in (TOKENS, CLIENTS, POOL):
        fit = _Fit(name, versions[name], built_with.get(name, versions[name]))
        if not fit.is_good:
            raise OptionError(
                "the jars of the Kafka connector do not belong together",
                f"{jars[CONNECTOR].name} was built with {name} {fit.wanted}, but there is {jars[name].name}",
                f"replace it by {name} {fit.wanted}, or write kafka=True to fetch all four",
            )


def _built_with(connector: Path) -> dict[str, str]:
    """By name, the versions of the others that a connector was built with, as it says itself; empty if it does not."""
    try:
        with zipfile.ZipFile(connector) as jar:
            text = jar.read("META-INF/DEPENDENCIES").decode(errors="replace")
    except KeyError:
        return {}
    except (OSError, zipfile.BadZipFile) as error:
        hint = "delete the file; kafka=True fetches it again"
        raise OptionError("a jar of the Kafka connector cannot be read", f"{connector}: {error}", hint) from error
    found = re.findall(r":([a-z0-9-]+)(?:_2\.\d+)?:jar:(\d[\w.-]*)", text)
    return {name: version for name, version in found if name in NAMES}


# ---- versions ----------------------------------------------------------------------------------------------------


def _version(path: Path, name: str) -> str | None:
    match = re.fullmatch(rf"{re.escape(name)}(?:_2\.\d+)?-(\d[\w.]*)\.jar", path.name)
    return None if match is None else match[1]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


# ---- a Maven repository ------------------------------------------------------------------------------------------


def _artifact(name: str) -> str:
    return f"{name}{_SCALA}" if name in (CONNECTOR, TOKENS) else name


def _jar_path(name: str, version: str) -> str:
    return f"{_GROUPS[name]}/{_artifact(name)}/{version}/{_artifact(name)}-{version}.jar"


def _released(repository: str, name: str) -> list[str]:
    """All released versions in the repository, previews left out."""
    metadata = _xml(f"{repository}/{_GROUPS[name]}/{_artifact(name)}/maven-metadata.xml")
    versions = [str(element.text) for element in metadata.iter("version")]
    return sorted(filter(_RELEASE.fullmatch, versions), key=_order)


def _dependencies(repository: str, connector: str) -> dict[str, str]:
    """By name, the versions that the connector's description in the repository names."""
    path = _jar_path(CONNECTOR, connector).removesuffix(".jar") + ".pom"
    space = "{http://maven.apache.org/POM/4.0.0}"
    found = {}
    for dependency in _xml(f"{repository}/{path}").iter(f"{space}dependency"):
        name, version = (dependency.findtext(f"{space}{tag}") or "" for tag in ("artifactId", "version"))
        if name in (CLIENTS, POOL) and _RELEASE.match(version):
            found[name] = version
    missing = [name for name in (CLIENTS, POOL) if name not in found]
    if missing:
        raise OptionError("the Kafka connector cannot be fetched", f"{repository}/{path} names no version of {listed(missing)}", _BY_HAND)
    return found


def _xml(url: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(_get(url))
    except ElementTree.ParseError as error:
        raise OptionError(
            "the Kafka connector cannot be fetched", f"{url}: {error}", f"check spark.jars.repositories, {_BY_HAND}"
        ) from error


def _download(url: str, folder: Path) -> None:
    """Complete, or not at all: other processes may look for it meanwhile."""
    content = _get(url)
    expected = _get(f"{url}.sha1").decode().split()[0]
    if hashlib.sha1(content, usedforsecurity=False).hexdigest() != expected:
        raise OptionError("the Kafka connector cannot be fetched", f"{url} does not have its checksum {expected}", f"try again, {_BY_HAND}")
    part = folder / f".{url.rpartition('/')[2]}.{os.getpid()}"
    part.write_bytes(content)
    part.replace(folder / url.rpartition("/")[2])


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
            return bytes(response.read())
    except (OSError, ValueError) as error:
        hint = f"check the connection, or name your repository in spark.jars.repositories, {_BY_HAND}"
        raise OptionError("the Kafka connector cannot be fetched", f"{url}: {error}", hint) from error
