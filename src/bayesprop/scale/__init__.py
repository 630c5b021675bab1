"""Past one machine: tables larger than memory, and posteriors that multiply."""
