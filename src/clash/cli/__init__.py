"""The command `clash`: one file per command, each importing what it needs only when it runs."""
