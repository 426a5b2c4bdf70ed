"""Loading models and tokenizers, the builtin tiny ones, and LoRA."""

from hetero.train.model.load import load, load_tokenizer, resolve_dtype
from hetero.train.model.lora import TrainableReport, add_lora, trainable_report

__all__ = ["TrainableReport", "add_lora", "load", "load_tokenizer", "resolve_dtype", "trainable_report"]
