"""``torch.supa``."""

from hetero.emulators.device.supa_module import *  # noqa: F403
from hetero.emulators.device.supa_module import __all__ as __all__
