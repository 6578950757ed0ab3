package clash.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.util.CallSite;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** Runs jobs through Spark's scheduler. */
public final class Jobs {
  private Jobs() {}

  /**
   * What {@code rdd.collect()} returns, without Spark's closure cleaner: it reads the classes RDD and SparkContext from their jars for
   * every job, to find out whether a function of ours, which has no closure, can be serialised.
   */
  public static List<byte[]> collect(SparkContext context, RDD<byte[]> rdd, String name) {
    int count = rdd.getNumPartitions();
    byte[][][] results = new byte[count][][];
    List<Object> partitions = new ArrayList<>();
    for (int partition = 0; partition < count; partition++) {
      partitions.add(partition);
    }
    context.dagScheduler().runJob(
        rdd, new ToArray(), CollectionConverters.asScala(partitions).toSeq(), new CallSite(name, name), new Store(results),
        context.getLocalProperties());
    List<byte[]> all = new ArrayList<>();
    for (byte[][] result : results) {
      all.addAll(Arrays.asList(result));
    }
    return all;
  }

  /** Runs in the executor: the elements of a partition. */
  private static final class ToArray extends AbstractFunction2<TaskContext, Iterator<byte[]>, byte[][]> implements Serializable {
    private static final long serialVersionUID = 1;

    @Override
    public byte[][] apply(TaskContext task, Iterator<byte[]> elements) {
      List<byte[]> found = new ArrayList<>();
      while (elements.hasNext()) {
        found.add(elements.next());
      }
      return found.toArray(new byte[0][]);
    }
  }

  /** Runs in the driver: keeps what a partition has given. */
  private static final class Store extends AbstractFunction2<Object, byte[][], BoxedUnit> {
    private final byte[][][] results;

    Store(byte[][][] results) {
      this.results = results;
    }

    @Override
    public BoxedUnit apply(Object partition, byte[][] result) {
      results[(Integer) partition] = result;
      return BoxedUnit.UNIT;
    }
  }
}
