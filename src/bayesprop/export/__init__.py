"""Models as graphs of ONNX: columns of a table, the shell around a method."""
