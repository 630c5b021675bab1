"""Speed and memory, measured: `python -m benchmarks`. Never part of the tests."""
