"""Tables larger than memory: read some rows at a time, and learnt by methods that stream."""
