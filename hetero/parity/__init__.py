"""Where two devices part: one recipe trained on each from one state, every op's result compared.

:func:`record` trains some steps and keeps a :class:`Trace`, a small summary of each result of the forward and backward
pass, of each gradient and of each updated weight. :func:`compare` lays two traces beside each other and finds the
first op or module where they are further apart than rounding explains. Traces can be saved, so that the two devices
need not be in one machine. ``hetero parity`` does it all.
"""

from hetero.parity.compare import Comparison, Difference, compare
from hetero.parity.events import Event
from hetero.parity.trace import Trace, record

__all__ = ["Comparison", "Difference", "Event", "Trace", "compare", "record"]
