"""Real servers on loopback for tests: an object store, HDFS, Kafka, and PostgreSQL. `scripts/test_servers.py` gets them."""

from .hdfs import HdfsServer
from .kafka import KafkaCluster, KafkaServer
from .postgres import PostgresServer
from .programs import find, free_port, get
from .s3 import S3Server
from .schema_registry import SchemaRegistry

__all__ = ["HdfsServer", "KafkaCluster", "KafkaServer", "PostgresServer", "S3Server", "SchemaRegistry", "find", "free_port", "get"]
