"""The program for spark-submit: `spark-submit "$(clash script)" job.yaml` is `clash run job.yaml` in the session that was submitted."""

from __future__ import annotations

import sys

from clash.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["run"]
    main()
