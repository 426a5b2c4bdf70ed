"""What to write instead of each leak: data for :mod:`hetero.lint.rules`."""

from __future__ import annotations

#: ``torch.<vendor module>.<this>`` -> replacement. The longest prefix wins; "" is the fallback.
MODULE = {
    "": "hetero.device() and its methods, or torch.get_device_module(hetero.device().type)",
    "synchronize": "hetero.device().synchronize()",
    "is_available": "torch.accelerator.is_available()",
    "device_count": "torch.accelerator.device_count()",
    "current_device": "hetero.device().index",
    "set_device": "torch.accelerator.set_device_index(i)",
    "device": "hetero.device().module.device(i)",
    "Stream": "hetero.device().stream()",
    "stream": "hetero.device().module.stream(s)",
    "current_stream": "hetero.device().module.current_stream()",
    "Event": "hetero.device().event()",
    "memory_allocated": "hetero.device().memory().allocated",
    "max_memory_allocated": "hetero.device().memory().peak",
    "memory_reserved": "hetero.device().memory().reserved",
    "mem_get_info": "hetero.device().memory().free and .total",
    "empty_cache": "hetero.device().module.empty_cache()",
    "reset_peak_memory_stats": "hetero.device().module.reset_peak_memory_stats()",
    "get_rng_state": "hetero.device().rng_state()",
    "set_rng_state": "hetero.device().set_rng_state(state)",
    "manual_seed": "torch.manual_seed(seed), which seeds every device",
    "manual_seed_all": "torch.manual_seed(seed), which seeds every device",
    "get_device_name": "hetero.device().name",
    "get_device_capability": "hetero.device().arch, or the capability you need: hetero.device().caps",
    "get_device_properties": "hetero.device().name, .arch, .caps and .memory().total",
    "is_bf16_supported": "hetero.device().caps.bf16",
    "CUDAGraph": "hetero.device().graph(fn, *args)",
    "graph": "hetero.device().graph(fn, *args)",
    "make_graphed_callables": "hetero.device().graph(fn, *args)",
    "nvtx": "with hetero.device().trace(name)",
    "nccl": "hetero.comm",
    "amp.autocast": "torch.autocast(device_type=x.device.type, dtype=...)",
    "amp.GradScaler": "torch.amp.GradScaler(hetero.device().type)",
    "amp.custom_fwd": "torch.amp.custom_fwd(device_type=...) with the device type of the tensors",
    "amp.custom_bwd": "torch.amp.custom_bwd(device_type=...) with the device type of the tensors",
    "FloatTensor": "torch.tensor(..., dtype=torch.float32, device=hetero.device().torch)",
    "HalfTensor": "torch.tensor(..., dtype=torch.float16, device=hetero.device().torch)",
    "LongTensor": "torch.tensor(..., dtype=torch.int64, device=hetero.device().torch)",
}

METHOD = ".to(hetero.device().torch)"
STRING = "hetero.device().torch"
TYPE = "hetero.device().type, or the type of a tensor at hand: x.device.type"
GROUP = "hetero.comm.init(), or hetero.device().backend.comm().backend"
COMPARE = "the capability you need: hetero.device_of(x).caps, or hetero.device_of(x).vendor"
PEAK = "hetero.device().caps.peak('bf16'), which is unknown rather than wrong on another chip"
IMPORT = "hetero.device('{vendor}'), which imports it when it is there"


def module_member(path: str) -> str:
    """Replacement for member ``path`` (``"amp.autocast"``) of a vendor's torch module."""
    parts = path.split(".") if path else []
    for end in range(len(parts), 0, -1):
        if ".".join(parts[:end]) in MODULE:
            return MODULE[".".join(parts[:end])]
    return MODULE[""]
