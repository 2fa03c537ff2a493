"""What everything else builds on: limits, files, the machine, progress, figures."""
