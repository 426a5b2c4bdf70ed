"""The rules: each looks at one kind of syntax node, and says what to write instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import asdict, dataclass
from typing import Any

from hetero.lint import replacements

#: Rule id -> what it finds.
RULES = {
    "device-module": "a vendor's torch module (torch.cuda, torch.npu, torch.supa)",
    "device-method": "a tensor or module moved by a vendor's method (.cuda())",
    "device-string": "a vendor's device string (device='cuda', .to('cuda'), torch.device('cuda'))",
    "device-type": "a device type fixed to a vendor's (device_type='cuda', autocast('cuda'))",
    "device-compare": "a decision by device type (x.device.type == 'cuda', x.is_cuda): vendors share types",
    "group-backend": "a vendor's collective library as process-group backend ('nccl')",
    "peak-constant": "a peak FLOP/s figure written into code",
    "vendor-import": "a vendor's package imported (torch_npu, torch_supa, torch_br)",
}
ALLOW = "hetero: allow"

_MODULES = ("cuda", "npu", "supa")
_PACKAGES = {"torch_npu": "ascend", "torch_supa": "biren", "torch_br": "biren"}
_GROUPS = re.compile(r"(?:\w+:\w+,)*(?:\w+:)?(?:nccl|hccl|mccl|bccl|sccl)(?:,\w+:\w+)*")
_DEVICE = re.compile(r"(?:cuda|npu|supa)(?::\d+)?")
_PREFIX = re.compile(r"(?:cuda|npu|supa):")
_DEVICE_NAME = re.compile(r"(?:.*_)?device|map_location")
_PEAK_NAME = re.compile(r".*(?:peak|flops).*", re.IGNORECASE)
#: Calls whose first argument is a device type.
_TYPE_CALLS = ("autocast", "GradScaler", "custom_fwd", "custom_bwd", "init_device_mesh")
_TERA = 1e12


@dataclass(frozen=True, order=True)
class Finding:
    """One leak: where (from 1), which rule, what it is, and what to write instead."""

    file: str
    line: int
    column: int
    rule: str
    message: str
    replacement: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}:{self.column}: {self.rule}: {self.message}\n    use {self.replacement}"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_source(source: str, file: str = "<string>") -> list[Finding]:
    """Every leak in ``source``, in order; lines with the comment ``# hetero: allow`` are let through.

    Raises:
        SyntaxError: ``source`` is not valid Python.
    """
    tree = ast.parse(source, file)
    visitor = _Visitor(file, _allowed_lines(source))
    visitor.visit(tree)
    return sorted(set(visitor.findings))


def _allowed_lines(source: str) -> set[int]:
    if ALLOW not in source:  # tokenizing costs more than everything else here
        return set()
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0] for t in tokens if t.type == tokenize.COMMENT and ALLOW in t.string}


class _Visitor(ast.NodeVisitor):
    def __init__(self, file: str, allowed: set[int]) -> None:
        self.file = file
        self.allowed = allowed
        self.findings: list[Finding] = []
        #: Local name -> dotted path it was imported as.
        self.names: dict[str, str] = {}

    # -- imports
    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            self.names[alias.asname or root] = alias.name if alias.asname else root
            self._imported(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            return
        for alias in node.names:
            path = f"{node.module}.{alias.name}"
            self.names[alias.asname or alias.name] = path
            self._imported(node, path)

    def _imported(self, node: ast.stmt, path: str) -> None:
        root = path.partition(".")[0]
        member = _vendor_member(path)
        if root in _PACKAGES:
            use = replacements.IMPORT.format(vendor=_PACKAGES[root])
            self._add(node, "vendor-import", f"imports {root}", use)
        elif member is not None:
            self._add(node, "device-module", f"imports {path}", replacements.module_member(member))

    # -- expressions
    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        member = None if path is None else _vendor_member(path)
        if member is not None and not self._was_imported(node):
            self._add(node, "device-module", str(path), replacements.module_member(member))
            return  # one finding for the whole chain
        if node.attr in {f"is_{m}" for m in _MODULES} and isinstance(node.ctx, ast.Load):
            self._add(node, "device-compare", f".{node.attr}", replacements.COMPARE)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        path = self._path(function) or ""
        if isinstance(function, ast.Attribute) and called in _MODULES and not path.startswith("torch."):
            self._add(node, "device-method", f".{called}()", replacements.METHOD)
        for argument in node.args:
            if called == "to" and isinstance(function, ast.Attribute):
                self._device_string(argument, ".to")
        if node.args:
            self._first_argument(node.args[0], called, path)
        for keyword in node.keywords:
            if keyword.arg:
                self._named_value(keyword.arg, keyword.value)
        self.generic_visit(node)

    def _first_argument(self, value: ast.expr, called: str, path: str) -> None:
        if path == "torch.device":
            self._device_string(value, "torch.device")
        elif called in _TYPE_CALLS:
            self._device_type(value, called)
        elif called == "init_process_group":
            self._group(value, called)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for side in sides:
            text = _constant(side)
            if text is None:
                continue
            if _DEVICE.fullmatch(text) and any(_is_device_like(s) for s in sides):
                self._add(
                    node, "device-compare", f"compares a device type with {text!r}", replacements.COMPARE
                )
            elif _GROUPS.fullmatch(text):
                self._group(side, "compared")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        text = _constant(node.values[0]) if node.values else None
        if text is not None and _PREFIX.fullmatch(text):
            self._add(node, "device-string", f"builds a device string from {text!r}", replacements.STRING)
        self.generic_visit(node)

    # -- values with a name: assignments, defaults, keywords
    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._named_value(_target_name(target), node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._named_value(_target_name(node.target), node.value)
        self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> None:
        positional = [*node.posonlyargs, *node.args]
        pairs = list(zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True))
        pairs += [(a, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d is not None]
        for argument, default in pairs:
            self._named_value(argument.arg, default)
        self.generic_visit(node)

    def _named_value(self, name: str, value: ast.expr) -> None:
        if name.lower().endswith("device_type"):
            self._device_type(value, name)
        elif _DEVICE_NAME.fullmatch(name.lower()):
            self._device_string(value, name)
        elif "backend" in name.lower():
            self._group(value, name)
        elif _PEAK_NAME.fullmatch(name) and any(_number(v) >= _TERA for v in _values(value)):
            self._add(value, "peak-constant", f"{name} is a fixed rate", replacements.PEAK)

    # -- findings
    def _device_string(self, value: ast.expr, where: str) -> None:
        text = _constant(value)
        if text is not None and _DEVICE.fullmatch(text):
            self._add(value, "device-string", f"{text!r} in {where}", replacements.STRING)

    def _device_type(self, value: ast.expr, where: str) -> None:
        text = _constant(value)
        if text is not None and _DEVICE.fullmatch(text):
            self._add(value, "device-type", f"{text!r} in {where}", replacements.TYPE)

    def _group(self, value: ast.expr, where: str) -> None:
        text = _constant(value)
        if text is not None and _GROUPS.fullmatch(text):
            self._add(value, "group-backend", f"{text!r} in {where}", replacements.GROUP)

    def _add(self, node: ast.stmt | ast.expr, rule: str, message: str, replacement: str) -> None:
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if self.allowed.isdisjoint(lines):
            where = (node.lineno, node.col_offset + 1)
            self.findings.append(Finding(self.file, *where, rule, message, replacement))

    def _path(self, node: ast.expr) -> str | None:
        """Dotted path of a name or attribute chain, through the imports; None for anything else."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._path(node.value)
            return None if base is None else f"{base}.{node.attr}"
        return None

    def _was_imported(self, node: ast.Attribute) -> bool:
        """Whether the chain starts at a name already reported where it was imported from a vendor module."""
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            base = base.value
        return isinstance(base, ast.Name) and _vendor_member(self.names.get(base.id, "")) not in (None, "")


def _vendor_member(path: str) -> str | None:
    """What follows ``torch.<vendor module>.`` in ``path``; "" for the module itself; None for other paths."""
    root, _, rest = path.partition(".")
    module, _, member = rest.partition(".")
    return member if root == "torch" and module in _MODULES else None


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_device_like(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "type" or "device" in name.lower()


def _target_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _values(node: ast.expr) -> list[ast.expr]:
    """The value itself, or the values of a dict literal."""
    return list(node.values) if isinstance(node, ast.Dict) else [node]


def _number(node: ast.expr) -> float:
    """Value of a number, or of a product or power of numbers; 0 for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Pow)):
        left, right = _number(node.left), _number(node.right)
        if isinstance(node.op, ast.Mult):
            return left * right
        return left**right if 0 < left <= 10 and 0 <= right <= 30 else 0.0
    return 0.0
