"""Running programs that nobody has read, in pooled processes that the kernel keeps apart from everything else."""

from hetero.train.sandbox.pool import Job, Limits, Outcome, Pool, available

__all__ = ["Job", "Limits", "Outcome", "Pool", "available"]
