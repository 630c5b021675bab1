"""What to do next with a model: which rows to measure. Any method, never a particular one."""
