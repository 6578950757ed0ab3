"""What runs in tasks: plain functions over Arrow blocks, whatever moves the messages between them."""
