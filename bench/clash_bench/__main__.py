"""`python -m clash_bench`, with the folder `bench` on the path: the same as `clash bench`."""

from clash.cli.report import replace_unprintable_characters
from clash_bench.cli import app

replace_unprintable_characters()
app(prog_name="python -m clash_bench")
