"""What is drawn and published: allocation, publishers, the exponential mechanism, partition selection."""
