"""What every sub-command does; imported inside the sub-command, so that help stays instant."""
