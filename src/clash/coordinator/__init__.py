"""What the driver decides, records and commits, once per micro-batch."""
