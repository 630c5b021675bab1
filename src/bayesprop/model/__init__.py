"""The contract of methods: tasks, states, progress, fit reports."""
