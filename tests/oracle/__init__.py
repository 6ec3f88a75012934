"""docs/order.md in plain loops, written from that page alone: nothing here imports the package."""
