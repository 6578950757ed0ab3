package clash.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSourceLog;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSourceOffset;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * One streaming source for all plain file streams of a query, in place of one for each of them, which Spark resolves, plans and records one
 * by one in every micro-batch.
 *
 * <p>Every stream is still read by Spark's own file source, with its options and its log of files, in the folder that it has when it is a
 * source of its own. An offset of this source is the list of theirs. It delivers no rows, only names of files: {@link #files}.
 */
public final class FileStreams implements TableProvider {
  static final String NONE = "-"; // a stream without an offset, as Spark writes it in its offset log
  private static final String KEY = "streams";
  private static final String OFFSETS = "clash.files"; // of all streams, in the JSON form of an offset
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Declared> DECLARED = new ConcurrentHashMap<>();
  private static final Map<String, Stream> RUNNING = new ConcurrentHashMap<>();
  private static final StructType SCHEMA = new StructType().add("stream", DataTypes.IntegerType);

  /** Whether this version of Spark has what is used here; throws an error if it does not. */
  public static boolean isSupported() throws ReflectiveOperationException {
    return FileStreamSource.class.getDeclaredField("metadataLog") != null
        && FileStreamSource.class.getDeclaredField("unreadFiles") != null
        && StreamingDataSourceV2ScanRelation.class.getMethod("endOffset") != null
        && LogicalRelation.class.getMethod("relation") != null
        && StreamingQueryWrapper.class.getMethod("streamingQuery") != null;
  }

  /** The sources in the order of their folders, and for each stream the number of its source: several streams may be of one. */
  private record Declared(List<DataSource> sources, List<Integer> streams) {}

  /** Declares the streams of a query, in order; returns the value of the option {@code streams} that stands for them. */
  public static String declare(List<DataSource> sources, List<Integer> streams) {
    String key = UUID.randomUUID().toString();
    DECLARED.put(key, new Declared(List.copyOf(sources), List.copyOf(streams)));
    return key;
  }

  /** The query has ended: forgets its streams. */
  public static void forget(String key) {
    DECLARED.remove(key);
    RUNNING.remove(key);
  }

  /** The files of the batch that a query is working on, one per line: number of the stream, a blank, and the file's URI. */
  public static String files(SparkSession session, String query, String key) {
    StreamingDataSourceV2ScanRelation batch = batch(session, query);
    Stream stream = running(key);
    StringBuilder lines = new StringBuilder();
    for (int number = 0; number < stream.streams.size(); number++) {
      for (String file : stream.files(number, start(batch), end(batch))) {
        lines.append(number).append(' ').append(file).append('\n');
      }
    }
    return lines.toString();
  }

  /** Spark's relation over the files of one stream in the batch that a query is working on. */
  public static BaseRelation relation(SparkSession session, String query, String key, int number) {
    StreamingDataSourceV2ScanRelation batch = batch(session, query);
    FileStreamSourceOffset start = start(batch).streams.get(number);
    FileStreamSourceOffset end = end(batch).streams.get(number);
    LogicalPlan plan = running(key).source(number).getBatch(Option.apply(start), end).queryExecution().logical();
    return ((LogicalRelation) plan).relation();
  }

  /** Per stream, the files that Spark has listed and not yet assigned to a batch, separated by blanks. */
  public static String backlog(String key) throws ReflectiveOperationException {
    Field field = FileStreamSource.class.getDeclaredField("unreadFiles");
    field.setAccessible(true);
    StringBuilder counts = new StringBuilder();
    Stream stream = running(key);
    for (int number = 0; number < stream.streams.size(); number++) {
      Seq<?> unread = (Seq<?>) field.get(stream.source(number));
      counts.append(unread == null ? 0 : unread.size()).append(' ');
    }
    return counts.toString().strip();
  }

  private static StreamingDataSourceV2ScanRelation batch(SparkSession session, String query) {
    LogicalPlan plan = ((StreamingQueryWrapper) session.streams().get(query)).streamingQuery().lastExecution().logical();
    return (StreamingDataSourceV2ScanRelation) plan.collectLeaves().head();
  }

  private static Offsets start(StreamingDataSourceV2ScanRelation batch) {
    return (Offsets) batch.startOffset().get();
  }

  private static Offsets end(StreamingDataSourceV2ScanRelation batch) {
    return (Offsets) batch.endOffset().get();
  }

  private static Stream running(String key) {
    Stream stream = RUNNING.get(key);
    if (stream == null) {
      throw new IllegalStateException("no query reads these streams");
    }
    return stream;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new FilesTable(properties.get(KEY));
  }

  private record FilesTable(String key) implements Table, SupportsRead, ScanBuilder, Scan {
    @Override
    public String name() {
      return "clash files";
    }

    @Override
    public StructType schema() {
      return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return this;
    }

    @Override
    public Scan build() {
      return this;
    }

    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String folder) {
      Stream stream = new Stream(DECLARED.get(key), folder.substring(0, folder.lastIndexOf('/')));
      RUNNING.put(key, stream);
      return stream;
    }
  }

  /** The offsets of all streams: null where a stream has none. */
  private static final class Offsets extends Offset {
    final List<FileStreamSourceOffset> streams;

    Offsets(List<FileStreamSourceOffset> streams) {
      this.streams = streams;
    }

    /** {@code sources}: for each stream the number of its source. Streams of one source have the same offset, also one that was added. */
    static Offsets parse(String text, List<Integer> sources) {
      List<FileStreamSourceOffset> streams = new ArrayList<>();
      try {
        for (JsonNode offset : JSON.readTree(text).get(OFFSETS)) {
          String json = offset.asText();
          streams.add(json.equals(NONE) ? null : new FileStreamSourceOffset(JSON.readTree(json).get("logOffset").asLong()));
        }
      } catch (JsonProcessingException error) {
        throw new IllegalStateException("not an offset of file streams: " + text, error);
      }
      Map<Integer, FileStreamSourceOffset> latest = new HashMap<>();
      for (int stream = 0; stream < streams.size(); stream++) {
        if (streams.get(stream) != null) {
          latest.put(sources.get(stream), streams.get(stream));
        }
      }
      return new Offsets(sources.stream().map(latest::get).toList());
    }

    long log(int stream) {
      FileStreamSourceOffset offset = streams.get(stream);
      return offset == null ? -1 : offset.logOffset();
    }

    @Override
    public String json() {
      ObjectNode node = JSON.createObjectNode();
      ArrayNode offsets = node.putArray(OFFSETS);
      for (FileStreamSourceOffset offset : streams) {
        offsets.add(offset == null ? NONE : offset.json());
      }
      return node.toString();
    }
  }

  private static final class Stream implements MicroBatchStream, SupportsTriggerAvailableNow {
    final List<Integer> streams;
    private final List<FileStreamSource> sources = new ArrayList<>();
    private final List<FileStreamSourceLog> logs = new ArrayList<>();

    Stream(Declared declared, String folder) {
      streams = declared.streams();
      try {
        Field log = FileStreamSource.class.getDeclaredField("metadataLog");
        log.setAccessible(true);
        for (int number = 0; number < declared.sources().size(); number++) {
          FileStreamSource source = (FileStreamSource) declared.sources().get(number).createSource(folder + "/" + number);
          sources.add(source);
          logs.add((FileStreamSourceLog) log.get(source));
        }
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
    }

    FileStreamSource source(int stream) {
      return sources.get(streams.get(stream));
    }

    List<String> files(int number, Offsets start, Offsets end) {
      List<String> found = new ArrayList<>();
      if (end.log(number) > start.log(number)) {
        for (var entry : logs.get(streams.get(number)).get(Option.apply(start.log(number) + 1), Option.apply(end.log(number)))) {
          for (FileStreamSource.FileEntry file : entry._2()) {
            found.add(file.path());
          }
        }
      }
      return found;
    }

    @Override
    public Offset initialOffset() {
      return new Offsets(Collections.nCopies(streams.size(), null));
    }

    @Override
    public void prepareForTriggerAvailableNow() {
      sources.forEach(FileStreamSource::prepareForTriggerAvailableNow);
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
      return ReadLimit.allAvailable(); // each stream has one of its own
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
      Offsets before = (Offsets) start;
      List<FileStreamSourceOffset> found = new ArrayList<>();
      for (FileStreamSource source : sources) {
        found.add((FileStreamSourceOffset) source.latestOffset(null, source.getDefaultReadLimit()));
      }
      List<FileStreamSourceOffset> latest = new ArrayList<>();
      for (int stream = 0; stream < streams.size(); stream++) {
        FileStreamSourceOffset offset = found.get(streams.get(stream));
        latest.add(offset == null && before != null ? before.streams.get(stream) : offset);
      }
      return latest.stream().allMatch(Objects::isNull) ? null : new Offsets(latest); // without a file there is no batch
    }

    @Override
    public Offset latestOffset() {
      throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called instead");
    }

    @Override
    public Offset deserializeOffset(String json) {
      return Offsets.parse(json, streams);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return new InputPartition[0];
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new NoRows();
    }

    @Override
    public void commit(Offset end) {
      for (int source = 0; source < sources.size(); source++) {
        FileStreamSourceOffset offset = ((Offsets) end).streams.get(streams.indexOf(source));
        if (offset != null) {
          sources.get(source).commit((org.apache.spark.sql.execution.streaming.Offset) offset);
        }
      }
    }

    @Override
    public void stop() {
      sources.forEach(FileStreamSource::stop);
    }
  }

  /** There are no partitions to read. */
  private static final class NoRows implements PartitionReaderFactory {
    private static final long serialVersionUID = 1;

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      throw new UnsupportedOperationException("this source delivers no rows");
    }
  }
}
