"""Errors that hetero raises on purpose.

Each message names the thing, the place and the fix, so the command line can print it without a
traceback. A bug in hetero itself is never wrapped in one of these.
"""


class HeteroError(Exception):
    """Base of every error that hetero raises on purpose."""


class BackendError(HeteroError, RuntimeError):
    """A vendor plugin is absent, broken, ambiguous or written for another API version."""


class DeviceError(HeteroError, RuntimeError):
    """A device was asked for that does not exist or cannot do what was asked of it."""


class EmulatorError(HeteroError, RuntimeError):
    """An emulator cannot be built or run here, or was asked for something that it does not have."""


class OpError(HeteroError, RuntimeError):
    """An op was called, pinned or declared in a way that cannot be honoured."""


class CommError(HeteroError, RuntimeError):
    """A collective or its set-up failed. Subclasses in :mod:`hetero.comm.errors` say how."""


class RecipeError(HeteroError, ValueError):
    """A recipe or a command-line override is wrong. Raised before anything is loaded."""


class DataError(HeteroError, ValueError):
    """A dataset is missing, malformed, empty or does not fit the recipe."""


class ModelError(HeteroError, ValueError):
    """A model cannot be loaded, patched or adapted as asked."""


class CheckpointError(HeteroError, RuntimeError):
    """A checkpoint cannot be written, is damaged, or does not belong to this run."""


class ParityError(HeteroError, RuntimeError):
    """Traces of two devices cannot be compared."""


class RolloutError(HeteroError, RuntimeError):
    """Completions could not be sampled as asked."""
