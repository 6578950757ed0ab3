package clash.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, checksum files included, which sets permissions in this process. Hadoop starts a process, {@code chmod},
 * for every file and folder that it creates; Spark creates a dozen of them per micro-batch.
 */
public class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new WithoutChecksums());
  }

  /** The files themselves. */
  private static final class WithoutChecksums extends RawLocalFileSystem {
    private static final PosixFilePermission[] BY_BIT = { // from the lowest bit of a mode upwards
      PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
      PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
      PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ,
    };

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int mode = permission.toShort();
      if (mode >= 1 << BY_BIT.length) { // a sticky bit, which Java cannot set
        super.setPermission(path, permission);
        return;
      }
      Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
      for (int bit = 0; bit < BY_BIT.length; bit++) {
        if ((mode & (1 << bit)) != 0) {
          permissions.add(BY_BIT[bit]);
        }
      }
      try {
        Files.setPosixFilePermissions(pathToFile(path).toPath(), permissions);
      } catch (UnsupportedOperationException notPosix) {
        super.setPermission(path, permission);
      }
    }
  }
}
