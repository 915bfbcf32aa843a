"""What an experiment raises."""

from shoal.errors import ProcessFailedError


class ExperimentError(ProcessFailedError):
    """An experiment came to no valid result: messages were lost, wrong or late, or a process failed."""
