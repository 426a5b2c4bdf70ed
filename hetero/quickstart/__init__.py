"""``hetero quickstart``: a real model learns a real task on the machine at hand, in minutes.

:mod:`~hetero.quickstart.run` tells the story, :mod:`~hetero.quickstart.task` has the problems,
:mod:`~hetero.quickstart.model` fetches the model, :mod:`~hetero.quickstart.evaluate` asks it.
"""
